//! What happens to links and peers.

use super::{NodeEvent, NodeState, Note, Now, Send, SendWhat, roster};
use crate::{
    link::{DownKind, DownReason, LinkId},
    node::error::{Doubt, NotSent},
    wire::PeerName,
};

impl NodeState {
    /// The roster is rebuilt from this connection's presence (W-041). Whoever was there before the loss is only taken to
    /// be gone when the sweep is complete without him: his subscriptions and tickets outlive a blip of our link. Ours are
    /// attached again when their peer is seen, or when the sweep is complete without it (W-080).
    pub(super) fn link_up(&mut self, link: LinkId, now: Now) {
        self.links.up(link, now.unix_ms);
        for peer in self.roster.forget_link(link) {
            if self.awaited.len() < roster::CAPACITY {
                self.awaited.insert((link, peer));
            } else {
                self.peer_gone(&peer);
            }
        }
        if self.links.up_is_news(link) {
            self.out.note(Note::Up(link));
        }
        self.out.event(NodeEvent::NetworkChanged);
    }

    pub(super) fn settled(&mut self, link: LinkId, now: Now) {
        self.links.settled(link);
        let mut absent = Vec::new();
        self.awaited.retain(|(awaited_on, peer)| {
            let swept = *awaited_on == link;
            if swept && self.roster.get(peer).is_none() {
                absent.push(peer.clone());
            }
            !swept
        });
        for peer in absent {
            self.peer_gone(&peer);
        }
        self.out.event(NodeEvent::NetworkChanged);
        self.attach_missing(now);
    }

    pub(super) fn link_down(&mut self, link: LinkId, reason: DownReason, now: Now) {
        if self.links.down(link, reason.clone(), now.unix_ms) {
            for (id, pending) in self.calls.lost(link) {
                let error = pending.fail(NotSent::LinkDown, Doubt::LinkLost(reason.detail.clone()));
                self.resolve(id, &pending, Err(error), now);
            }
            self.interrupted(|_, over| over == Some(link));
            self.attach_missing(now);
        }
        if self.links.down_is_news(link, &reason) {
            self.out.note(Note::Down(link, reason));
        }
        self.out.event(NodeEvent::NetworkChanged);
    }

    /// The link is gone for good, because we left or because its task has ended.
    pub(super) fn link_closed(&mut self, link: LinkId, now: Now) {
        let reason = DownReason { kind: DownKind::Lost, detail: "the link was closed".into() };
        if self.links.is_up(link) && !self.closing {
            return self.link_down(link, reason, now);
        }
        // One that was down already ended for that reason.
        self.links.closed(link, reason);
        self.out.event(NodeEvent::NetworkChanged);
    }

    pub(super) fn peer_online(&mut self, link: LinkId, peer: &PeerName, shape: Option<String>, now: Now) {
        if *peer == self.me || self.hosted {
            return;
        }
        let (change, rerouted) = self.roster.online(peer.clone(), link, shape, now.unix_ms);
        if rerouted || change != roster::Change::Repeated {
            self.out.event(NodeEvent::NetworkChanged);
        }
        if change != roster::Change::Repeated {
            let keys = self.subscriptions.peer_back(peer, change == roster::Change::Reshaped);
            self.step_all(keys, now);
        }
    }

    /// A peer left a link. One that we had forgotten, or await, may still hold subscriptions here: it is gone as well.
    pub(super) fn peer_offline(&mut self, link: LinkId, peer: &PeerName, now: Now) {
        // Which links lead to it has changed, even if it can still be reached.
        let was_there = self.roster.get(peer).is_some_and(|seen| seen.links.contains(&link));
        self.roster.offline(peer, link);
        if was_there {
            self.out.event(NodeEvent::NetworkChanged);
        }
        self.awaited.remove(&(link, peer.clone()));
        if self.roster.get(peer).is_some() {
            // It can still be reached: what came to us over this link comes over another from now on.
            self.interrupted(|name, over| name == peer && over == Some(link));
            self.attach_missing(now);
        } else if !self.awaited.iter().any(|(_, awaited)| awaited == peer) {
            self.peer_gone(peer);
        }
    }

    /// A peer is gone from every link: what it held for us and we for it ends.
    pub(super) fn peer_gone(&mut self, peer: &PeerName) {
        for (call, update) in self.tickets.peer_gone(peer) {
            self.out.event(NodeEvent::Ticket(call, update));
        }
        self.interrupted(|name, _| name == peer);
        self.server.peer_gone(peer, &mut self.out);
    }

    fn interrupted(&mut self, lost: impl Fn(&PeerName, Option<LinkId>) -> bool) {
        for id in self.subscriptions.interrupted(lost) {
            self.out.event(NodeEvent::Delivery(id, super::Delivery::Interrupted));
        }
    }

    pub(super) fn announce(&mut self) {
        let shape = self.server.shape();
        // What was not said yet is out of date: a surface that stands up in parts is announced once, whole.
        self.out.sends.retain(|send| !matches!(send.what, SendWhat::Announce(_)));
        for (link, _) in self.links.iter() {
            self.out.sends.push_back(Send { link, what: SendWhat::Announce(Some(shape.clone())) });
        }
    }
}
