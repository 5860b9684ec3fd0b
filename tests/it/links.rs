//! What a link says next, whichever it is.

use plantbridge::link::{DownKind, Link, LinkEvent, Rejection};
use plantbridge::wire::frame::Message;
use tokio::time::timeout;

use crate::scripted::PATIENCE;

/// The next event. What a hub is called comes with its list and is of no further interest.
pub(crate) async fn event(link: &mut Link) -> LinkEvent {
    loop {
        match any_event(link).await {
            LinkEvent::Hub(_) => {}
            event => return event,
        }
    }
}

pub(crate) async fn any_event(link: &mut Link) -> LinkEvent {
    timeout(PATIENCE, link.events.recv()).await.expect("the link says nothing").expect("the link ended")
}

/// The next event, and all must be over then.
pub(crate) async fn ended(link: &mut Link) {
    assert!(timeout(PATIENCE, link.events.recv()).await.expect("the link goes on").is_none());
}

pub(crate) async fn up(link: &mut Link) {
    let event = event(link).await;
    assert!(matches!(event, LinkEvent::Up), "{event:?}");
}

pub(crate) async fn settled(link: &mut Link) {
    let event = event(link).await;
    assert!(matches!(event, LinkEvent::Settled), "{event:?}");
}

pub(crate) async fn down(link: &mut Link, kind: DownKind) -> String {
    match event(link).await {
        LinkEvent::Down(reason) if reason.kind == kind => reason.detail,
        other => panic!("{other:?} instead of {kind:?}"),
    }
}

pub(crate) async fn rejected(link: &mut Link, expected: u64) -> Rejection {
    match event(link).await {
        LinkEvent::Rejected { id, why } if id == expected => why,
        other => panic!("{other:?} instead of a rejection of {expected}"),
    }
}

pub(crate) async fn arrives(link: &mut Link, method: &str) {
    match event(link).await {
        LinkEvent::Frame(frame) => match frame.message {
            Message::Request(request) => assert_eq!(request.method, method),
            other => panic!("{other:?} instead of {method}"),
        },
        other => panic!("{other:?} instead of {method}"),
    }
}
