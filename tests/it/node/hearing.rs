//! Listening over the handle: what a listener is told, and what is left when it goes.

use super::*;

/// A call or a listener that is gone before the driver saw it leaves no trace: nothing is sent for it.
#[tokio::test]
async fn what_is_dropped_at_once_is_never_begun() {
    let mut hands = up("hmi", None).await;
    for _ in 0..20 {
        let mut asked = Box::pin(hands.node.call(call("tower", "echo", vec!["dropped".into()])));
        assert!(futures_poll(&mut asked).is_none());
        drop(asked);
        drop(hands.node.subscribe(stream("ring")).unwrap());
    }
    let node = hands.node.clone();
    let asked = tokio::spawn(async move { node.call(call("tower", "echo", vec![])).await.map(|_| ()) });
    let (_, frame, _) = hands.frame().await;
    assert_eq!((request(&frame).method.as_str(), request(&frame).args.len()), ("echo", 0));
    hands.happens(answers(&frame, "x")).await;
    assert_eq!(soon(asked).await.unwrap(), Ok(()));
}

/// Polls once, as a task that is dropped right after its first turn does.
fn futures_poll<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

/// S-060: dropping the last subscription tells the peer.
#[tokio::test]
async fn a_dropped_subscription_reaches_the_peer() {
    let mut hands = up("hmi", None).await;
    let mut first = hands.node.subscribe(stream("ring")).unwrap();
    let second = hands.node.subscribe(stream("ring")).unwrap();
    let (_, on, _) = hands.frame().await;
    assert_eq!(request(&on).method, "on");
    hands.happens(answers(&on, "ok")).await;
    assert_eq!(hears(&mut first).await, Heard::Attached);
    drop(second);
    hands.happens(rings(1)).await;
    assert_eq!(heard_ring(&hears(&mut first).await), 1);
    drop(first);
    let (_, off, _) = hands.frame().await;
    assert_eq!((request(&off).method.as_str(), &request(&off).args), ("off", &vec![Value::from("ring")]));
}

/// A listener that does not read keeps nobody waiting: what falls off is counted, and told where it is missing.
#[tokio::test]
async fn a_slow_listener_misses_and_is_told() {
    let mut hands = up("hmi", None).await;
    let mut slow = hands.node.subscribe(stream("ring")).unwrap();
    let mut quick = hands.node.subscribe(stream("ring")).unwrap();
    let (_, on, _) = hands.frame().await;
    hands.happens(answers(&on, "ok")).await;
    assert_eq!((hears(&mut slow).await, hears(&mut quick).await), (Heard::Attached, Heard::Attached));
    for at in 0..1030 {
        hands.happens(rings(at)).await;
        assert_eq!(heard_ring(&hears(&mut quick).await), at);
    }
    // Two places free: the gap is told in the first, in order, before what came after it.
    assert_eq!(heard_ring(&hears(&mut slow).await), 0);
    assert_eq!(heard_ring(&hears(&mut slow).await), 1);
    hands.happens(rings(1030)).await;
    assert_eq!(heard_ring(&hears(&mut quick).await), 1030);
    for at in 2..1024 {
        assert_eq!(heard_ring(&hears(&mut slow).await), at);
    }
    assert_eq!(hears(&mut slow).await, Heard::Missed(6));
    assert_eq!(heard_ring(&hears(&mut slow).await), 1030);
    // One that falls off last is told when everything before it is read.
    for at in 0..1025 {
        hands.happens(rings(at)).await;
        assert_eq!(heard_ring(&hears(&mut quick).await), at);
    }
    for at in 0..1024 {
        assert_eq!(heard_ring(&hears(&mut slow).await), at);
    }
    assert_eq!(hears(&mut slow).await, Heard::Missed(1));
}
