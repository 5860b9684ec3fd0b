//! Calls over the handle: how they are answered, withdrawn, and ended.

use super::*;

#[tokio::test]
async fn a_call_and_its_answer() {
    let pair = joined().await;
    let answer = soon(pair.hmi.call(call("tower", "echo", vec!["x".into()]))).await.unwrap();
    assert_eq!((answer.value, answer.ticket.is_none()), (Some("x".into()), true));
    let refused = soon(pair.hmi.call(call("tower", "nope", vec![]))).await.unwrap_err();
    assert!(matches!(&refused, CallError::Refused(error) if error.code == "MethodNotFound"));
    let failed = soon(pair.hmi.call(call("tower", "fail", vec![]))).await.unwrap_err();
    assert_eq!(failed.certainty(), Certainty::Ran);
}

/// Many calls at once are all answered, each with its own answer.
#[tokio::test]
async fn calls_overlap() {
    let pair = joined().await;
    let calls = (0..500i64).map(|n| {
        let node = pair.hmi.clone();
        tokio::spawn(async move { (n, node.call(call("tower", "echo", vec![n.into()])).await) })
    });
    for asked in calls.collect::<Vec<_>>() {
        let (n, answer) = soon(asked).await.unwrap();
        assert_eq!(answer.unwrap().value, Some(n.into()));
    }
    assert_eq!(pair.bell.runs.load(Ordering::Relaxed), 500);
}

/// A caller that goes before the link took its request takes it back: the link finds the claim taken (W-081).
#[tokio::test]
async fn a_dropped_call_is_withdrawn() {
    let mut hands = up("hmi", None).await;
    let node = hands.node.clone();
    let asked = tokio::spawn(async move { node.call(call("tower", "echo", vec![])).await.map(|_| ()) });
    let (_, _, claim) = hands.frame().await;
    asked.abort();
    assert!(asked.await.unwrap_err().is_cancelled());
    // A call made after it is handed over after it was withdrawn.
    let node = hands.node.clone();
    let second = tokio::spawn(async move { node.call(call("tower", "echo", vec![])).await.map(|_| ()) });
    let (_, frame, second_claim) = hands.frame().await;
    assert!(!claim.unwrap().take(), "it would be written although nobody waits");
    assert!(second_claim.unwrap().take());
    hands.happens(answers(&frame, "x")).await;
    assert_eq!(soon(second).await.unwrap(), Ok(()));
}

/// Leaving resolves what waits, asks the link to leave, and ends when it has; what is asked afterwards was not sent.
#[tokio::test]
async fn leaving_resolves_what_waits() {
    let mut hands = up("hmi", None).await;
    let node = hands.node.clone();
    let asked = tokio::spawn(async move { node.call(call("tower", "echo", vec![])).await.map(|_| ()) });
    let (_, _, claim) = hands.frame().await;
    assert!(claim.unwrap().take());
    let mut listener = hands.node.subscribe(stream("ring")).unwrap();
    hands.node.leave();
    assert_eq!(soon(asked).await.unwrap().unwrap_err().certainty(), Certainty::MayHaveRun);
    loop {
        if let Outbound::Leave = soon(hands.links[0].said.recv()).await.unwrap() {
            break;
        }
    }
    let late = soon(hands.node.call(call("tower", "echo", vec![]))).await.unwrap_err();
    assert_eq!(late, CallError::NotSent(NotSent::Closing));
    hands.happens(LinkEvent::Closed).await;
    hands.links.clear();
    soon(hands.running.ended()).await;
    while let Some(heard) = soon(listener.next()).await {
        assert!(!matches!(heard, Heard::Attached | Heard::Event { .. }), "{heard:?}");
    }
    let late = soon(hands.node.call(call("tower", "echo", vec![]))).await.unwrap_err();
    assert_eq!(late, CallError::NotSent(NotSent::Closing));
}

/// Both ends of a real link leave, one after the other.
#[tokio::test]
async fn two_nodes_leave() {
    let pair = joined().await;
    let [first, second] = pair.running;
    pair.hmi.leave();
    soon(first.ended()).await;
    let network = pair.tower.network_when(PATIENCE, |network| network.roster.is_empty()).await;
    assert!(network.roster.is_empty());
    pair.tower.leave();
    soon(second.ended()).await;
}

/// A loss of the link while a call waits: in doubt at once, long before its time is up (W-072).
#[tokio::test(start_paused = true)]
async fn w072_a_lost_link_ends_the_wait() {
    let mut hands = up("hmi", None).await;
    let node = hands.node.clone();
    let asked = tokio::spawn(async move {
        let begun = tokio::time::Instant::now();
        (node.call(call("tower", "echo", vec![])).await.map(|_| ()), begun.elapsed())
    });
    let (_, _, claim) = hands.frame().await;
    assert!(claim.unwrap().take());
    hands.happens(LinkEvent::Down(DownReason { kind: DownKind::Lost, detail: "cut".into() })).await;
    let (outcome, waited) = asked.await.unwrap();
    assert_eq!(outcome.unwrap_err().certainty(), Certainty::MayHaveRun);
    assert!(waited < Duration::from_millis(100), "{waited:?}");
    assert!(!hands.node.network().is_up());
}

/// A call that is not answered ends at its time, on the paused clock exactly.
#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_time() {
    let mut hands = up("hmi", None).await;
    for _ in 0..3 {
        let node = hands.node.clone();
        let asked = tokio::spawn(async move {
            let begun = tokio::time::Instant::now();
            (node.call(call("tower", "echo", vec![])).await.map(|_| ()), begun.elapsed())
        });
        let (_, _, claim) = hands.frame().await;
        claim.unwrap().take();
        let (outcome, waited) = asked.await.unwrap();
        assert_eq!(
            outcome.unwrap_err().to_string(),
            "no response within 10000 ms, after the request was sent - it may or may not have run"
        );
        assert!((PATIENCE..PATIENCE + Duration::from_millis(5)).contains(&waited), "{waited:?}");
    }
}

/// A link whose queue is full refuses at once: the call was not sent.
#[tokio::test]
async fn a_full_link_is_a_refusal_and_not_a_wait() {
    let hands = up("hmi", None).await;
    let mut refused = 0;
    let mut asked = Vec::new();
    for _ in 0..1100 {
        let node = hands.node.clone();
        asked.push(tokio::spawn(async move { node.call(call("tower", "echo", vec![])).await.map(|_| ()) }));
        tokio::task::yield_now().await;
    }
    hands.node.leave();
    for asked in asked {
        match soon(asked).await.unwrap().unwrap_err() {
            CallError::NotSent(NotSent::Rejected(Rejection::Full)) => refused += 1,
            CallError::NotSent(_) => {}
            other => panic!("{other} although nothing left"),
        }
    }
    assert!(refused >= 70, "{refused}");
}
