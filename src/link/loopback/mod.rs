//! Two peers of one process, joined in memory: the same [`Link`] without a network between.
//!
//! One task carries both directions, so that what either side sees has one order, and nothing follows a departure. A side
//! that leaves or is dropped goes offline at the other. [`board`] joins one peer with many in the same way.

mod board;

use tokio::select;
use tokio::sync::mpsc;

pub use self::board::{Board, board};
use super::{Link, LinkEvent, LinkId, Outbound, Rejection};
use crate::wire::frame::{Message, ReplyRoute};
use crate::wire::{Frame, PeerName};

/// Joins `a` and `b`. Both links are up and know of each other. Must be called inside a tokio runtime.
pub fn pair(a: PeerName, b: PeerName) -> (Link, Link) {
    let (side_a, link_a) = Side::new(a, LinkId(0));
    let (side_b, link_b) = Side::new(b, LinkId(1));
    tokio::spawn(run(side_a, side_b));
    (link_a, link_b)
}

/// One of two.
struct Side {
    name: PeerName,
    commands: mpsc::Receiver<Outbound>,
    /// Absent once this side has left.
    events: Option<mpsc::Sender<LinkEvent>>,
}

/// Carries frames until both have left.
async fn run(mut a: Side, mut b: Side) {
    a.greet(&b).await;
    b.greet(&a).await;
    while a.events.is_some() || b.events.is_some() {
        let (said_by_a, said) = select! {
            said = a.next() => (true, said),
            said = b.next() => (false, said),
        };
        if said_by_a {
            a.said(&b, said).await;
        } else {
            b.said(&a, said).await;
        }
    }
}

/// What a side did.
enum Said {
    /// Something was asked of it.
    Command(Outbound),
    /// Its sender is gone: it leaves.
    Left,
    /// Its receiver is gone: nobody is there any more.
    Gone,
}

impl Side {
    fn new(name: PeerName, id: LinkId) -> (Self, Link) {
        let (outbound, commands) = mpsc::channel(QUEUE);
        let (reports, events) = mpsc::channel(QUEUE);
        (Self { name, commands, events: Some(reports) }, Link { id, outbound, events })
    }

    async fn greet(&self, other: &Self) {
        self.tell(LinkEvent::Up).await;
        self.tell(LinkEvent::Online { peer: other.name.clone(), shape: None }).await;
        self.tell(LinkEvent::Settled).await;
    }

    /// The next thing this side does; never, once it has left. Cancel-safe, as its two parts are.
    async fn next(&mut self) -> Said {
        let Some(events) = &self.events else { return std::future::pending().await };
        select! {
            () = events.closed() => Said::Gone,
            command = self.commands.recv() => command.map_or(Said::Left, Said::Command),
        }
    }

    async fn said(&mut self, other: &Self, said: Said) {
        match said {
            Said::Command(Outbound::Frame { claim, .. }) if claim.as_ref().is_some_and(|claim| !claim.take()) => {}
            Said::Command(Outbound::Frame { id, frame, .. }) => {
                if let Err(why) = self.pass(other, frame).await {
                    self.tell(LinkEvent::Rejected { id, why }).await;
                }
            }
            Said::Command(Outbound::Announce { shape }) => {
                other.tell(LinkEvent::Online { peer: self.name.clone(), shape }).await;
            }
            Said::Command(Outbound::Leave | Outbound::Yield) | Said::Left | Said::Gone => {
                other.tell(LinkEvent::Offline(self.name.clone())).await;
                self.tell(LinkEvent::Closed).await;
                self.events = None;
            }
        }
    }

    /// Passes a frame on to whom it is addressed to, which may be its sender.
    async fn pass(&self, other: &Self, frame: Box<Frame>) -> Result<(), Rejection> {
        let to = [other, self].into_iter().find(|side| side.name == frame.target && side.events.is_some());
        let nobody = || Rejection::Unsendable(format!("there is no `{}` in this process", frame.target));
        let to = to.ok_or_else(nobody)?;
        to.tell(LinkEvent::Frame(as_received(frame))).await;
        Ok(())
    }

    /// Reports something, waiting for room. A receiver that is gone is noticed by [`Side::next`].
    async fn tell(&self, event: LinkEvent) {
        if let Some(events) = &self.events {
            events.send(event).await.ok();
        }
    }
}

/// A frame as its receiver would see it: without what only the sender's side of a frame holds.
fn as_received(mut frame: Box<Frame>) -> Box<Frame> {
    match &mut frame.message {
        Message::Request(request) => {
            request.reply.topic = None;
            request.expiry = None;
        }
        Message::Reply(reply) => reply.route = ReplyRoute::default(),
        Message::Event { .. } => {}
    }
    frame
}

/// How many commands and events may wait.
const QUEUE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Request;

    fn name(text: &str) -> PeerName {
        PeerName::mqtt(text).unwrap()
    }

    fn frame(from: &str, to: &str) -> Frame {
        Frame {
            source: name(from),
            target: name(to),
            message: Message::Request(Request {
                correlation: "c".into(),
                path: "p".into(),
                method: "m".into(),
                args: Vec::new(),
                version: None,
                ttl: None,
                expiry: Some(7),
                idempotency_key: None,
                fence: None,
                reply: ReplyRoute { topic: Some("elsewhere".into()), ..ReplyRoute::default() },
            }),
        }
    }

    async fn joined() -> (Link, Link) {
        let (mut a, mut b) = pair(name("a"), name("b"));
        for (link, other) in [(&mut a, "b"), (&mut b, "a")] {
            assert!(matches!(link.events.recv().await, Some(LinkEvent::Up)));
            let Some(LinkEvent::Online { peer, shape: None }) = link.events.recv().await else { panic!("no peer") };
            assert_eq!(peer.as_str(), other);
            assert!(matches!(link.events.recv().await, Some(LinkEvent::Settled)));
        }
        (a, b)
    }

    async fn send(link: &Link, frame: Frame) {
        link.outbound.send(Outbound::Frame { id: 1, frame: Box::new(frame), claim: None }).await.unwrap();
    }

    #[tokio::test]
    async fn frames_reach_whom_they_are_addressed_to_as_a_receiver_sees_them() {
        let (mut a, mut b) = joined().await;
        send(&a, frame("a", "b")).await;
        let Some(LinkEvent::Frame(got)) = b.events.recv().await else { panic!("no frame") };
        let Message::Request(request) = got.message else { panic!("no request") };
        assert_eq!((request.expiry, request.reply.topic), (None, None));
        send(&a, frame("a", "a")).await;
        assert!(matches!(a.events.recv().await, Some(LinkEvent::Frame(_))));
        send(&a, frame("a", "nobody")).await;
        let Some(LinkEvent::Rejected { id: 1, why: Rejection::Unsendable(_) }) = a.events.recv().await else {
            panic!("no rejection")
        };
    }

    #[tokio::test]
    async fn a_shape_is_announced_to_the_other() {
        let (a, mut b) = joined().await;
        a.outbound.send(Outbound::Announce { shape: Some("s".into()) }).await.unwrap();
        let Some(LinkEvent::Online { peer, shape }) = b.events.recv().await else { panic!("no presence") };
        assert_eq!((peer.as_str(), shape.as_deref()), ("a", Some("s")));
    }

    #[tokio::test]
    async fn leaving_ends_one_side_and_tells_the_other() {
        let (mut a, mut b) = joined().await;
        a.outbound.send(Outbound::Leave).await.unwrap();
        assert!(matches!(a.events.recv().await, Some(LinkEvent::Closed)));
        assert!(a.events.recv().await.is_none());
        assert!(matches!(b.events.recv().await, Some(LinkEvent::Offline(peer)) if peer.as_str() == "a"));
        send(&b, frame("b", "a")).await;
        assert!(matches!(b.events.recv().await, Some(LinkEvent::Rejected { .. })));
        drop(b.outbound);
        assert!(matches!(b.events.recv().await, Some(LinkEvent::Closed)));
        assert!(b.events.recv().await.is_none());
    }

    #[tokio::test]
    async fn dropping_a_side_takes_it_offline() {
        let (Link { outbound: _outbound, events, .. }, mut b) = joined().await;
        drop(events);
        assert!(matches!(b.events.recv().await, Some(LinkEvent::Offline(_))));
    }
}
