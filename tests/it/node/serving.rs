//! Serving over the handle: services that panic, commit, or answer what cannot be written.

use super::*;

/// A service that panics, in its future or before there is one, fails alone: the node lives.
#[tokio::test]
async fn a_service_that_panics_fails_alone() {
    let pair = joined().await;
    for method in ["panic at once", "panic later"] {
        let failed = soon(pair.hmi.call(call("tower", method, vec![]))).await.unwrap_err();
        assert!(matches!(&failed, CallError::Refused(error) if error.code == "Exception"), "{failed}");
    }
    assert!(soon(pair.hmi.call(call("tower", "echo", vec![]))).await.is_ok());
    assert!(pair.tower.network().is_up());
}

/// Semantics 7.1: what a method committed and emitted is told before its answer; commits of one turn once.
#[tokio::test]
async fn commits_are_told_before_the_answer() {
    let mut hands = up("tower", Some(Arc::new(Bell::default()))).await;
    for (at, event) in ["$snapshot", "ring"].into_iter().enumerate() {
        hands.happens(asks(&format!("on-{at}"), "on", vec![event.into()])).await;
    }
    for _ in 0..3 {
        hands.frame().await;
    }
    hands.happens(asks("c", "change", vec![])).await;
    let (mut snapshots, mut last, mut rang) = (0, Value::Null, false);
    loop {
        let (_, frame, _) = hands.frame().await;
        match frame.message {
            Message::Event { event, args, .. } if event == "$snapshot" => {
                snapshots += 1;
                last = args[0].get("state").unwrap().clone();
            }
            Message::Event { .. } => rang = true,
            Message::Reply(reply) => {
                assert_eq!(reply.answer, Answer::Value(Some("changed".into())));
                break;
            }
            Message::Request(request) => panic!("{request:?}"),
        }
    }
    assert_eq!(last, Value::Map(state(3)), "the last commit is told");
    assert!(rang && (1..=3).contains(&snapshots), "{snapshots} {rang}");
}

/// W-030: everything is exposed and announced before the link is up; a request that comes with it is served.
#[tokio::test]
async fn w030_exposed_before_the_link_is_up() {
    let mut hands = in_hand("tower", vec![link(0, 16)], Some(Arc::new(Bell::default())));
    let said = soon(hands.links[0].said.recv()).await.unwrap();
    assert!(matches!(said, Outbound::Announce { shape: Some(_) }), "{said:?}");
    hands.happens(LinkEvent::Up).await;
    hands.happens(asks("c", "echo", vec!["x".into()])).await;
    let (_, frame, _) = hands.frame().await;
    assert_eq!(*answer(&frame), Answer::Value(Some("x".into())));
}

/// An answer the link cannot write: the caller learns that the method ran.
#[tokio::test]
async fn an_answer_that_cannot_be_written_is_told() {
    let bell = Arc::new(Bell::default());
    let mut hands = up("tower", Some(bell.clone())).await;
    for repeat in 0..2 {
        hands.happens(asks("c", "echo", vec![i64::MAX.into()])).await;
        let (id, frame, _) = hands.frame().await;
        if repeat == 0 {
            assert!(matches!(answer(&frame), Answer::Value(_)));
            hands.happens(LinkEvent::Rejected { id, why: Rejection::Unsendable("an odd number".into()) }).await;
        }
        let frame = if repeat == 0 { hands.frame().await.1 } else { frame };
        let Answer::Error(error) = answer(&frame) else { panic!("{frame:?}") };
        assert_eq!(error.code, "Exception");
        assert!(error.message.contains("the method ran") && error.message.contains("an odd number"), "{error:?}");
    }
    assert_eq!(bell.runs.load(Ordering::Relaxed), 1);
}

/// A link with much to say keeps neither another link nor a caller waiting.
#[tokio::test]
async fn a_flood_on_one_link_starves_nobody() {
    const ROOM: usize = 10_000;
    let mut hands = in_hand("tower", vec![link(0, ROOM), link(1, 16)], Some(Arc::new(Bell::default())));
    for link in &hands.links {
        link.happens.send(LinkEvent::Up).await.unwrap();
    }
    hands.node.network_when(PATIENCE, |network| network.links.iter().all(|(_, link)| link.down.is_none())).await;
    for n in 0..ROOM - 1000 {
        let peer = name(&format!("p{}", n % 2000));
        hands.links[0].happens.try_send(LinkEvent::Online { peer, shape: None }).unwrap();
    }
    hands.links[1].happens.send(asks("c", "echo", vec!["x".into()])).await.unwrap();
    let node = hands.node.clone();
    let asked = tokio::spawn(async move { node.call(call("p1", "echo", vec![])).await.map(|_| ()) });
    let (_, frame, _) = soon(hands.links[1].frame()).await;
    assert_eq!(*answer(&frame), Answer::Value(Some("x".into())));
    let waiting = ROOM - hands.links[0].happens.capacity();
    assert!(waiting > ROOM / 2, "it was answered when only {waiting} were left");
    hands.frame().await;
    let waiting = ROOM - hands.links[0].happens.capacity();
    assert!(waiting > ROOM / 2, "it left when only {waiting} were left");
    asked.abort();
}

/// A command that runs while its caller goes, goes on: dropping the future stops the waiting and nothing else.
#[tokio::test]
async fn a_caller_that_goes_does_not_stop_the_command() {
    let pair = joined().await;
    let (runs, running) = oneshot::channel();
    let (release, released) = oneshot::channel();
    *pair.bell.gate.lock().unwrap() = Some((runs, released));
    let node = pair.hmi.clone();
    let asked = tokio::spawn(async move { node.call(call("tower", "wait", vec![])).await.map(|_| ()) });
    soon(running).await.unwrap();
    asked.abort();
    release.send(()).expect("it was stopped");
    assert!(soon(pair.hmi.call(call("tower", "echo", vec![]))).await.is_ok());
}
