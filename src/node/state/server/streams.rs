//! Who listens to what we emit, and how it reaches them.

use std::collections::BTreeMap;

use super::{
    super::{Outputs, SNAPSHOT, projection::Projection},
    Server,
};
use crate::{
    link::LinkId,
    wire::{Frame, Message, PeerName, Stamp, Value},
};

/// How many subscriptions of others are held. A peer that asks for more is told that we are busy.
const MAX_SUBSCRIBERS: usize = 10_000;

/// Subscriptions of others, keyed by namespace, event and peer (S-062).
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: BTreeMap<(String, String), BTreeMap<PeerName, Subscriber>>,
    count: usize,
}

#[derive(Debug)]
struct Subscriber {
    link: LinkId,
    projection: Option<Projection>,
}

/// What became of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subscribed {
    New,
    AlreadyExists,
    Reprojected,
    Full,
}

impl Streams {
    pub(super) fn subscribe(
        &mut self,
        stream: (String, String),
        peer: &PeerName,
        link: LinkId,
        projection: Option<Projection>,
    ) -> Subscribed {
        if let Some(known) = self.streams.get_mut(&stream).and_then(|subscribers| subscribers.get_mut(peer)) {
            known.link = link;
            let same = known.projection == projection;
            known.projection = projection;
            return if same { Subscribed::AlreadyExists } else { Subscribed::Reprojected };
        }
        if self.count >= MAX_SUBSCRIBERS {
            return Subscribed::Full;
        }
        self.count += 1;
        self.streams.entry(stream).or_default().insert(peer.clone(), Subscriber { link, projection });
        Subscribed::New
    }

    /// True when there was one.
    pub(super) fn unsubscribe(&mut self, stream: &(String, String), peer: &PeerName) -> bool {
        let Some(subscribers) = self.streams.get_mut(stream) else { return false };
        let was = subscribers.remove(peer).is_some();
        if subscribers.is_empty() {
            self.streams.remove(stream);
        }
        self.count -= usize::from(was);
        was
    }

    pub(super) fn peer_gone(&mut self, peer: &PeerName) {
        let held: Vec<_> =
            self.streams.iter().filter(|(_, who)| who.contains_key(peer)).map(|(stream, _)| stream.clone()).collect();
        for stream in held {
            self.unsubscribe(&stream, peer);
        }
    }

    /// Ends those of one namespace whose event `ends`. Gives each subscription that was held.
    pub(super) fn withdraw(&mut self, namespace: &str, ends: impl Fn(&str) -> bool) -> Vec<(PeerName, LinkId)> {
        let ended = |(name, event): &&(String, String)| name == namespace && ends(event);
        let held: Vec<_> = self.streams.keys().filter(ended).cloned().collect();
        let mut ended = Vec::new();
        for stream in held {
            let subscribers = self.streams.remove(&stream).unwrap_or_default();
            self.count -= subscribers.len();
            ended.extend(subscribers.into_iter().map(|(peer, subscriber)| (peer, subscriber.link)));
        }
        ended
    }

    /// How many subscriptions are counted, and how many streams they are of; the count must be of what is there.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        assert_eq!(self.count, self.streams.values().map(BTreeMap::len).sum::<usize>());
        assert!(self.streams.values().all(|subscribers| !subscribers.is_empty()));
        (self.count, self.streams.len())
    }

    /// How many listen to this.
    pub(super) fn subscribers(&self, namespace: &str, event: &str) -> u64 {
        let count = self.streams.get(&(namespace.to_owned(), event.to_owned())).map_or(0, BTreeMap::len);
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// The events of a namespace somebody listens to.
    pub(super) fn events<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a str> {
        self.streams.keys().filter(move |(name, _)| name == namespace).map(|(_, event)| event.as_str())
    }

    fn listeners(&self, namespace: &str, event: &str) -> Vec<(PeerName, LinkId)> {
        let stream = self.streams.get(&(namespace.to_owned(), event.to_owned()));
        let all = stream.into_iter().flatten();
        all.map(|(peer, subscriber)| (peer.clone(), subscriber.link)).collect()
    }

    fn projection(&self, namespace: &str, event: &str, peer: &PeerName) -> Option<&Projection> {
        self.streams.get(&(namespace.to_owned(), event.to_owned()))?.get(peer)?.projection.as_ref()
    }
}

impl Server {
    /// Counts an emission and sends it to each subscriber.
    pub(in super::super) fn emit(&mut self, namespace: &str, event: &str, args: &[Value], out: &mut Outputs) {
        let stamp = self.counters.emitted(namespace, event);
        if self.is_muted(namespace) {
            return;
        }
        for (peer, link) in self.streams.listeners(namespace, event) {
            self.send_event(&peer, link, namespace, event, args.to_vec(), stamp.clone(), out);
        }
    }

    /// Tells observers of every component that changed in this turn, and of context.
    pub(in super::super) fn publish_commits(&mut self, out: &mut Outputs) {
        self.publish_context(out);
        let changed: Vec<String> = self
            .namespaces
            .iter_mut()
            .filter_map(|(name, served)| served.component.as_mut()?.take_dirty().then(|| name.clone()))
            .collect();
        for namespace in changed {
            for (peer, link) in self.streams.listeners(&namespace, SNAPSHOT) {
                self.send_snapshot(&namespace, &peer, link, out);
            }
        }
    }

    /// Sends the current snapshot to one observer, as it asked to see it.
    pub(super) fn send_snapshot(&mut self, namespace: &str, peer: &PeerName, link: LinkId, out: &mut Outputs) {
        if self.is_muted(namespace) {
            return;
        }
        let component = self.namespaces.get(namespace).and_then(|served| served.component.as_ref());
        let Some(component) = component else { return };
        let snapshot = component.snapshot(self.streams.projection(namespace, SNAPSHOT, peer));
        self.send_event(peer, link, namespace, SNAPSHOT, vec![snapshot], None, out);
    }

    #[expect(clippy::too_many_arguments, reason = "an event is these five things, to one peer over one link")]
    pub(super) fn send_event(
        &mut self,
        to: &PeerName,
        link: LinkId,
        namespace: &str,
        event: &str,
        args: Vec<Value>,
        stamp: Option<Stamp>,
        out: &mut Outputs,
    ) {
        let message = Message::Event { path: Some(namespace.into()), event: event.into(), args, stamp };
        let frame = Frame { source: self.me.clone(), target: to.clone(), message };
        let id = self.frame_id();
        out.frame(link, id, frame);
    }
}
