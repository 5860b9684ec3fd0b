//! One peer of this process joined with many others in memory: the one sees them all, each of them sees the one, and they
//! do not see each other. What reaches them works without any network.
//!
//! Everybody's words leave in the order they were said. Nobody waits for a seat that does not keep up: what it has no room
//! for is rejected to whoever sent it, as on any link.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{select, sync::mpsc};

use super::{QUEUE, as_received};
use crate::link::{Link, LinkEvent, LinkId, Outbound, Rejection};
use crate::wire::{Frame, PeerName};

/// Where others take a seat. Clones are the same board.
#[derive(Clone, Debug)]
pub struct Board {
    hub: PeerName,
    /// Gone once the one peer has left: its events end then.
    to_hub: mpsc::WeakSender<LinkEvent>,
    seats: Seats,
}

/// Who sits there. Nobody waits while holding it.
#[derive(Clone, Debug, Default)]
struct Seats(Arc<Mutex<HashMap<PeerName, mpsc::Sender<LinkEvent>>>>);

/// The link of the one peer, which is up at once, and the board. Must be called inside a tokio runtime.
pub fn board(hub: PeerName) -> (Link, Board) {
    let (outbound, commands) = mpsc::channel(QUEUE);
    let (to_hub, events) = mpsc::channel(QUEUE);
    let board = Board { hub, to_hub: to_hub.downgrade(), seats: Seats::default() };
    tokio::spawn(serve_hub(board.clone(), to_hub, commands));
    (Link { id: LinkId::INSIDE, outbound, events }, board)
}

impl Board {
    /// A seat for `name`: its link, which is up at once. `None` if somebody sits there, or the one peer has left. The seat is free again when its
    /// link has ended. At most `queue` commands and as many events wait.
    pub fn seat(&self, name: &PeerName, queue: usize) -> Option<Link> {
        // Room for the greeting is needed in any case.
        let queue = queue.max(4);
        let (outbound, commands) = mpsc::channel(queue);
        let (to_seat, events) = mpsc::channel(queue);
        let greeting = [LinkEvent::Up, LinkEvent::Online { peer: self.hub.clone(), shape: None }, LinkEvent::Settled];
        for event in greeting {
            // There is room: nobody else has the sender yet.
            to_seat.try_send(event).ok()?;
        }
        {
            let mut seats = self.seats.lock();
            if *name == self.hub || seats.contains_key(name) || self.to_hub.strong_count() == 0 {
                return None;
            }
            seats.insert(name.clone(), to_seat.clone());
        }
        tokio::spawn(serve_seat(self.clone(), name.clone(), commands, to_seat));
        Some(Link { id: LinkId::INSIDE, outbound, events })
    }
}

impl Board {
    /// Tells the one peer, waiting for room. False when it has left.
    async fn tell(&self, event: LinkEvent) -> bool {
        match self.to_hub.upgrade() {
            Some(hub) => hub.send(event).await.is_ok(),
            None => false,
        }
    }
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, HashMap<PeerName, mpsc::Sender<LinkEvent>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, frame: Box<Frame>) -> Result<(), Rejection> {
        let seat = self.lock().get(&frame.target).cloned();
        let nobody = || Rejection::Unsendable(format!("there is no `{}` in this process", frame.target));
        let seat = seat.ok_or_else(nobody)?;
        seat.try_send(LinkEvent::Frame(as_received(frame))).map_err(|_| Rejection::Full)
    }
}

/// Carries what the one peer says.
async fn serve_hub(board: Board, hub: mpsc::Sender<LinkEvent>, mut commands: mpsc::Receiver<Outbound>) {
    for event in [LinkEvent::Up, LinkEvent::Settled] {
        hub.send(event).await.ok();
    }
    loop {
        let command = select! {
            () = hub.closed() => break,
            command = commands.recv() => command,
        };
        match command {
            Some(Outbound::Frame { claim, .. }) if claim.as_ref().is_some_and(|claim| !claim.take()) => {}
            Some(Outbound::Frame { id, frame, .. }) => {
                if let Err(why) = board.seats.pass(frame) {
                    hub.send(LinkEvent::Rejected { id, why }).await.ok();
                }
            }
            // It is looked up by nobody: whoever sits there knows what it is.
            Some(Outbound::Announce { .. }) => {}
            Some(Outbound::Leave | Outbound::Yield) | None => break,
        }
    }
    let seats: Vec<_> = board.seats.lock().values().cloned().collect();
    for seat in seats {
        // One without room learns it when nobody answers.
        seat.try_send(LinkEvent::Offline(board.hub.clone())).ok();
    }
    hub.send(LinkEvent::Closed).await.ok();
}

/// Carries what one of the others says. It goes offline when it leaves or its link is dropped.
async fn serve_seat(
    board: Board,
    name: PeerName,
    mut commands: mpsc::Receiver<Outbound>,
    to_seat: mpsc::Sender<LinkEvent>,
) {
    loop {
        let command = select! {
            () = to_seat.closed() => break,
            command = commands.recv() => command,
        };
        match command {
            Some(Outbound::Frame { claim, .. }) if claim.as_ref().is_some_and(|claim| !claim.take()) => {}
            Some(Outbound::Frame { id, frame, .. }) => {
                let rejected = if frame.target == board.hub {
                    (!board.tell(LinkEvent::Frame(as_received(frame))).await).then_some(Rejection::Down)
                } else {
                    Some(Rejection::Unsendable(format!("`{}` cannot be reached from here", frame.target)))
                };
                if let Some(why) = rejected {
                    to_seat.send(LinkEvent::Rejected { id, why }).await.ok();
                }
            }
            Some(Outbound::Announce { shape }) => {
                board.tell(LinkEvent::Online { peer: name.clone(), shape }).await;
            }
            Some(Outbound::Leave | Outbound::Yield) | None => break,
        }
    }
    board.tell(LinkEvent::Offline(name.clone())).await;
    board.seats.lock().remove(&name);
    to_seat.send(LinkEvent::Closed).await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Message, ReplyRoute, Request};

    fn name(text: &str) -> PeerName {
        PeerName::mqtt(text).unwrap()
    }

    fn frame(from: &str, to: &str) -> Outbound {
        let request = Request {
            correlation: "c".into(),
            path: "p".into(),
            method: "m".into(),
            args: Vec::new(),
            version: None,
            ttl: None,
            expiry: None,
            idempotency_key: None,
            fence: None,
            reply: ReplyRoute::default(),
        };
        let frame = Frame { source: name(from), target: name(to), message: Message::Request(request) };
        Outbound::Frame { id: 7, frame: Box::new(frame), claim: None }
    }

    async fn next(link: &mut Link) -> LinkEvent {
        link.events.recv().await.expect("an event")
    }

    async fn seated(board: &Board, who: &str) -> Link {
        let mut link = board.seat(&name(who), 8).expect("a free seat");
        assert!(matches!(next(&mut link).await, LinkEvent::Up));
        assert!(matches!(next(&mut link).await, LinkEvent::Online { peer, .. } if peer == name("hub")));
        assert!(matches!(next(&mut link).await, LinkEvent::Settled));
        link
    }

    #[tokio::test]
    async fn the_hub_and_its_seats_reach_each_other_and_seats_do_not() {
        let (mut hub, board) = board(name("hub"));
        assert!(matches!(next(&mut hub).await, LinkEvent::Up));
        assert!(matches!(next(&mut hub).await, LinkEvent::Settled));
        let (mut a, b) = (seated(&board, "a").await, seated(&board, "b").await);
        b.outbound.send(Outbound::Announce { shape: Some("s".into()) }).await.unwrap();
        let LinkEvent::Online { peer, shape } = next(&mut hub).await else { panic!("no presence") };
        assert_eq!((peer, shape.as_deref()), (name("b"), Some("s")));
        hub.outbound.send(frame("hub", "a")).await.unwrap();
        assert!(matches!(next(&mut a).await, LinkEvent::Frame(_)));
        a.outbound.send(frame("a", "hub")).await.unwrap();
        assert!(matches!(next(&mut hub).await, LinkEvent::Frame(frame) if frame.source == name("a")));
        a.outbound.send(frame("a", "b")).await.unwrap();
        assert!(matches!(next(&mut a).await, LinkEvent::Rejected { id: 7, why: Rejection::Unsendable(_) }));
        hub.outbound.send(frame("hub", "nobody")).await.unwrap();
        assert!(matches!(next(&mut hub).await, LinkEvent::Rejected { id: 7, why: Rejection::Unsendable(_) }));
    }

    #[tokio::test]
    async fn a_seat_is_taken_once_and_free_again_after_its_end() {
        let (mut hub, board) = board(name("hub"));
        let mut a = seated(&board, "a").await;
        assert!(board.seat(&name("a"), 8).is_none() && board.seat(&name("hub"), 8).is_none());
        a.outbound.send(Outbound::Leave).await.unwrap();
        assert!(matches!(next(&mut a).await, LinkEvent::Closed));
        assert!(a.events.recv().await.is_none());
        while !matches!(next(&mut hub).await, LinkEvent::Offline(peer) if peer == name("a")) {}
        drop(seated(&board, "a").await);
        assert!(matches!(next(&mut hub).await, LinkEvent::Offline(peer) if peer == name("a")));
    }

    #[tokio::test]
    async fn a_seat_without_room_costs_only_whoever_calls_it() {
        let (mut hub, board) = board(name("hub"));
        assert!(matches!(next(&mut hub).await, LinkEvent::Up));
        assert!(matches!(next(&mut hub).await, LinkEvent::Settled));
        let _idle = seated(&board, "idle").await;
        let mut brisk = seated(&board, "brisk").await;
        for _ in 0..9 {
            hub.outbound.send(frame("hub", "idle")).await.unwrap();
        }
        assert!(matches!(next(&mut hub).await, LinkEvent::Rejected { why: Rejection::Full, .. }));
        hub.outbound.send(frame("hub", "brisk")).await.unwrap();
        assert!(matches!(next(&mut brisk).await, LinkEvent::Frame(_)));
    }

    #[tokio::test]
    async fn when_the_hub_leaves_every_seat_is_told() {
        let (mut hub, board) = board(name("hub"));
        let mut a = seated(&board, "a").await;
        hub.outbound.send(Outbound::Leave).await.unwrap();
        assert!(matches!(next(&mut a).await, LinkEvent::Offline(peer) if peer == name("hub")));
        while !matches!(next(&mut hub).await, LinkEvent::Closed) {}
        assert!(hub.events.recv().await.is_none(), "its events end, though the board and a seat are there");
        assert!(board.seat(&name("b"), 8).is_none(), "nobody takes a seat where nobody is");
    }
}
