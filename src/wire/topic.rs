//! Topics: what we subscribe to, publish to and answer to (wire.md 4.2, 4.5), and which text may leave at all.

use super::error::clip;
use super::name::units;
use super::{DecodeError, NameError, PeerName, Prefix, ReplyRoute};

/// The topics of one peer under one prefix, built once.
#[derive(Clone, Debug)]
pub struct Topics {
    me: PeerName,
    /// The prefix and a slash.
    base: String,
    requests: String,
    replies: String,
    events: String,
    presence: String,
    presence_filter: String,
    everything: String,
}

impl Topics {
    /// Builds the topics of `me`.
    ///
    /// # Errors
    /// [`NameError::ReplyTopic`] if peers would refuse to answer to `<prefix>/rsp/<me>`: every call would time out.
    pub fn new(prefix: &Prefix, me: PeerName) -> Result<Self, NameError> {
        let base = format!("{prefix}/");
        let topic = |channel: &str| format!("{base}{channel}{me}");
        let topics = Self {
            requests: topic(REQUEST),
            replies: topic(REPLY),
            events: topic(EVENT),
            presence: topic(PRESENCE),
            presence_filter: format!("{base}{PRESENCE}+"),
            everything: format!("{base}#"),
            base,
            me,
        };
        if publishable(&topics.replies) { Ok(topics) } else { Err(NameError::ReplyTopic(topics.replies)) }
    }

    /// Whose topics these are.
    pub const fn me(&self) -> &PeerName {
        &self.me
    }

    /// Where requests to us arrive.
    pub fn requests(&self) -> &str {
        &self.requests
    }

    /// Where answers to us arrive; what our requests name as their response topic (W-053).
    pub fn replies(&self) -> &str {
        &self.replies
    }

    /// Where events for us arrive.
    pub fn events(&self) -> &str {
        &self.events
    }

    /// Where our own presence is retained.
    pub fn presence(&self) -> &str {
        &self.presence
    }

    /// The filter that matches everybody's presence.
    pub fn presence_filter(&self) -> &str {
        &self.presence_filter
    }

    /// The filter that matches everything under the prefix; for a tap alone.
    pub fn everything(&self) -> &str {
        &self.everything
    }

    /// Where a request to `peer` goes.
    pub fn request_topic(&self, peer: &PeerName) -> String {
        self.topic(REQUEST, peer)
    }

    /// Where an event for `peer` goes.
    pub fn event_topic(&self, peer: &PeerName) -> String {
        self.topic(EVENT, peer)
    }

    /// Where an answer to `requester` goes: the topic its request named, else the one derived from its name.
    pub fn reply_topic(&self, route: &ReplyRoute, requester: &PeerName) -> String {
        route.topic.clone().unwrap_or_else(|| self.topic(REPLY, requester))
    }

    /// Takes a topic apart: the channel, and the peer part as it stands there. `None` for a topic that is not ours.
    pub fn parse<'a>(&self, topic: &'a str) -> Option<(Channel, &'a str)> {
        let rest = topic.strip_prefix(&self.base)?;
        CHANNELS.iter().find_map(|(level, channel)| Some((*channel, rest.strip_prefix(level)?)))
    }

    /// Whether we answer to `topic`: one that can be published to and lies under `<prefix>/rsp/` (W-052).
    ///
    /// # Errors
    /// [`DecodeError::ResponseTopicUnusable`] and [`DecodeError::ResponseTopicOutside`].
    pub fn answerable(&self, topic: &str) -> Result<(), DecodeError> {
        if !publishable(topic) || !sendable(topic) {
            return Err(DecodeError::ResponseTopicUnusable(clip(topic)));
        }
        match self.parse(topic) {
            Some((Channel::Reply, rest)) if !rest.is_empty() => Ok(()),
            _ => Err(DecodeError::ResponseTopicOutside(clip(topic))),
        }
    }

    fn topic(&self, channel: &str, peer: &PeerName) -> String {
        [&self.base, channel, peer.as_str()].concat()
    }
}

/// What a topic carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Requests to a peer.
    Request,
    /// Answers to a peer.
    Reply,
    /// Events for a peer.
    Event,
    /// The presence of a peer.
    Presence,
}

/// Whether `text` may stand in a property or topic we publish: no control characters and no noncharacters (W-082).
pub fn sendable(text: &str) -> bool {
    let noncharacter = |c: char| u32::from(c) & 0xFFFE == 0xFFFE || matches!(c, '\u{FDD0}'..='\u{FDEF}');
    !text.chars().any(|c| c.is_control() || noncharacter(c))
}

/// Whether the network's rule for response topics lets `topic` be published to: 1–256 UTF-16 units, no control
/// characters, no `#`, `+`, no leading `$`.
pub fn publishable(topic: &str) -> bool {
    let bad = |c: char| c.is_ascii_control() || matches!(c, '#' | '+');
    !topic.is_empty() && units(topic) <= MAX_RESPONSE_TOPIC && !topic.starts_with('$') && !topic.contains(bad)
}

/// How many UTF-16 units a response topic may have.
const MAX_RESPONSE_TOPIC: usize = 256;

const REQUEST: &str = "req/";
const REPLY: &str = "rsp/";
const EVENT: &str = "evt/";
const PRESENCE: &str = "presence/";

const CHANNELS: [(&str, Channel); 4] =
    [(REQUEST, Channel::Request), (REPLY, Channel::Reply), (EVENT, Channel::Event), (PRESENCE, Channel::Presence)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::vectors;

    fn topics() -> Topics {
        Topics::new(&Prefix::default(), PeerName::configured("me").unwrap()).unwrap()
    }

    /// The four topics of a peer and the filter of presence (wire.md 4.2).
    #[test]
    fn our_topics_follow_the_layout() {
        let topics = topics();
        assert_eq!(topics.requests(), "msgrpc/v2/req/me");
        assert_eq!(topics.replies(), "msgrpc/v2/rsp/me");
        assert_eq!(topics.events(), "msgrpc/v2/evt/me");
        assert_eq!(topics.presence(), "msgrpc/v2/presence/me");
        assert_eq!(topics.presence_filter(), "msgrpc/v2/presence/+");
        assert_eq!(topics.everything(), "msgrpc/v2/#");
        let peer = PeerName::mqtt("$p q").unwrap();
        assert_eq!(topics.request_topic(&peer), "msgrpc/v2/req/$p q");
        assert_eq!(topics.event_topic(&peer), "msgrpc/v2/evt/$p q");
        assert_eq!(topics.reply_topic(&ReplyRoute::default(), &peer), "msgrpc/v2/rsp/$p q");
    }

    /// W-130: what is not under our prefix, or is no channel of it, is not ours.
    #[test]
    fn topics_are_taken_apart() {
        let topics = topics();
        assert_eq!(topics.parse("msgrpc/v2/req/a"), Some((Channel::Request, "a")));
        assert_eq!(topics.parse("msgrpc/v2/rsp/a/b"), Some((Channel::Reply, "a/b")));
        assert_eq!(topics.parse("msgrpc/v2/evt/"), Some((Channel::Event, "")));
        assert_eq!(topics.parse("msgrpc/v2/presence/a"), Some((Channel::Presence, "a")));
        for foreign in ["msgrpc/v1/rpc/a", "msgrpc/v2/rpc/a", "msgrpc/v2", "msgrpc/v22/req/a", "msgrpc/v2/req", ""] {
            assert_eq!(topics.parse(foreign), None, "{foreign:?}");
        }
    }

    /// Every recorded response topic.
    #[test]
    fn response_topics_are_publishable_as_recorded() {
        for vector in vectors::list("names.json", "responseTopics") {
            let topic = vector["topic"].as_str().unwrap();
            assert_eq!(publishable(topic), vector["publishable"].as_bool().unwrap(), "{topic:?}");
        }
    }

    /// W-052: answers go under `<prefix>/rsp/` and nowhere else, and only where they can be written (W-082).
    #[test]
    fn answers_go_to_reply_topics_only() {
        let topics = topics();
        for good in ["msgrpc/v2/rsp/hmi", "msgrpc/v2/rsp/inbox/7"] {
            assert_eq!(topics.answerable(good), Ok(()), "{good:?}");
        }
        for outside in ["msgrpc/v2/presence/a", "msgrpc/v2/req/a", "msgrpc/v2/rsp/", "msgrpc/v2/rsp", "msgrpc/v1/rsp/a"]
        {
            assert!(matches!(topics.answerable(outside), Err(DecodeError::ResponseTopicOutside(_))), "{outside:?}");
        }
        for unusable in ["msgrpc/v2/rsp/\u{85}", "msgrpc/v2/rsp/\u{fffe}", "msgrpc/v2/rsp/+", "$x", ""] {
            assert!(matches!(topics.answerable(unusable), Err(DecodeError::ResponseTopicUnusable(_))), "{unusable:?}");
        }
    }

    /// W-001: a prefix under which no peer would answer us is a fault of configuration, not a timeout on every call.
    #[test]
    fn a_prefix_that_nobody_answers_under_is_refused() {
        for prefix in ["$sys/x", "x".repeat(252).as_str()] {
            let made = Topics::new(&Prefix::new(prefix).unwrap(), PeerName::configured("me").unwrap());
            assert!(matches!(made, Err(NameError::ReplyTopic(_))), "{prefix}");
        }
    }

    /// W-082: exactly the controls U+0000–1F and U+007F–9F and the noncharacters are refused.
    #[test]
    fn only_controls_and_noncharacters_are_unsendable() {
        let refused = |c: char| {
            let n = u32::from(c);
            n <= 0x1F || (0x7F..=0x9F).contains(&n) || (0xFDD0..=0xFDEF).contains(&n) || n % 0x1_0000 >= 0xFFFE
        };
        for c in '\0'..=char::MAX {
            assert_eq!(sendable(c.encode_utf8(&mut [0; 4])), !refused(c), "{c:?}");
        }
    }
}
