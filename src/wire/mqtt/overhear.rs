//! A publish as an onlooker reads it (wire.md 11.1): with the checks of [`decode`](super::decode()) but for what only
//! concerns whoever answers. Nothing is refused: what cannot be read is what was said, too.

use bytes::Bytes;

use super::{Publish, decode, names, packet_size};
use crate::wire::error::clip;
use crate::wire::topic::Channel;
use crate::wire::{DecodeError, Message, PeerName, Topics};

/// One message between others, or to or from us.
#[derive(Clone, Debug, PartialEq)]
pub struct Overheard {
    /// The topic after its channel: whom it is for. The whole topic where it has no channel of ours.
    pub to: String,
    /// How large the packet was, about.
    pub bytes: usize,
    /// What it says.
    pub said: Said,
}

/// What an onlooker makes of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A frame.
    Message {
        /// Who sent it.
        source: PeerName,
        /// What it says.
        message: Message,
        /// Of a request, where its answer goes; of an answer, where it went. Empty for an event.
        thread: String,
        /// Whether the body was read: a large one is not.
        read: bool,
    },
    /// A peer came, went, or cleared what is retained about it.
    Presence {
        /// `online`, `offline` or `cleared`.
        state: &'static str,
    },
    /// A topic under the prefix that is none of the network's (W-130).
    Foreign,
    /// What cannot be read.
    Unreadable {
        /// Who says to have sent it, if anybody does; cut.
        source: Option<String>,
        /// What is wrong with it.
        problem: DecodeError,
    },
}

/// Reads a publish as an onlooker does: no answer topic is refused, and a body of more than `largest` bytes is left alone
/// (W-120).
pub fn overhear(publish: Publish, topics: &Topics, largest: usize) -> Overheard {
    let bytes = packet_size(&publish);
    let Some((channel, to)) = topics.parse(&publish.topic).map(|(channel, to)| (channel, to.to_owned())) else {
        return Overheard { to: publish.topic, bytes, said: Said::Foreign };
    };
    let said = match channel {
        Channel::Presence => presence(&publish.payload),
        Channel::Request | Channel::Reply | Channel::Event => frame(publish, topics, largest),
    };
    Overheard { to, bytes, said }
}

fn presence(payload: &[u8]) -> Said {
    match payload {
        b"online" => Said::Presence { state: "online" },
        b"offline" => Said::Presence { state: "offline" },
        b"" => Said::Presence { state: "cleared" },
        other => {
            let problem = DecodeError::Kind(clip(&String::from_utf8_lossy(other.get(..80).unwrap_or(other))));
            Said::Unreadable { source: None, problem }
        }
    }
}

fn frame(mut publish: Publish, topics: &Topics, largest: usize) -> Said {
    let read = publish.payload.len() <= largest;
    if !read {
        publish.payload = Bytes::new();
    }
    let source = publish.user_properties.iter().find(|(name, _)| name == names::SOURCE).map(|(_, name)| clip(name));
    let topic = publish.topic.clone();
    let (source, message) = match decode::read(publish, |_, _| Ok(()), decode::anybody) {
        Ok(read) => read,
        Err(problem) => return Said::Unreadable { source, problem },
    };
    let thread = match &message {
        Message::Request(request) => topics.reply_topic(&request.reply, &source),
        Message::Reply(_) => topic,
        Message::Event { .. } => String::new(),
    };
    Said::Message { source, message, thread, read }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::Answer;
    use crate::wire::{Prefix, Value, msgpack, vectors};

    fn topics() -> Topics {
        Topics::new(&Prefix::default(), PeerName::configured("me").unwrap()).unwrap()
    }

    fn publish(topic: &str, properties: &[(&str, &str)], payload: &[u8]) -> Publish {
        Publish {
            topic: topic.into(),
            payload: Bytes::copy_from_slice(payload),
            correlation: Some(Bytes::from_static(b"c")),
            user_properties: properties.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            ..Publish::default()
        }
    }

    const CALL: [(&str, &str); 4] =
        [("mr-src", "hmi"), ("mr-kind", "call"), ("mr-path", "oven"), ("mr-method", "read")];

    fn said(publish: Publish) -> Said {
        overhear(publish, &topics(), 64).said
    }

    /// W-120, and steps 4, 5 and 7 of wire.md 4.5: a topic that nobody may answer to is no reason not to see a request.
    #[test]
    fn a_request_is_seen_wherever_it_wants_its_answer() {
        for (named, thread) in [
            (None, "msgrpc/v2/rsp/hmi"),
            (Some("msgrpc/v2/rsp/inbox/7"), "msgrpc/v2/rsp/inbox/7"),
            (Some("msgrpc/v2/presence/a"), "msgrpc/v2/presence/a"),
            (Some("$x/#"), "$x/#"),
        ] {
            let mut publish = publish("msgrpc/v2/req/oven-1", &CALL, b"\x90");
            publish.response_topic = named.map(Into::into);
            let overheard = overhear(publish, &topics(), 64);
            let Said::Message { source, message: Message::Request(_), thread: found, read: true } = overheard.said
            else {
                panic!("{overheard:?}")
            };
            assert_eq!((source.as_str(), found.as_str(), overheard.to.as_str()), ("hmi", thread, "oven-1"));
        }
    }

    /// Answers on topics with more levels are seen, which the recorded tap does not see.
    #[test]
    fn an_answer_is_seen_on_any_level() {
        let properties = [("mr-src", "oven-1"), ("mr-kind", "result")];
        let said = said(publish("msgrpc/v2/rsp/inbox/7", &properties, b"\x2a"));
        let Said::Message { message: Message::Reply(reply), thread, .. } = said else { panic!("{said:?}") };
        assert_eq!((reply.answer, thread.as_str()), (Answer::Value(Some(Value::Int(42))), "msgrpc/v2/rsp/inbox/7"));
    }

    #[test]
    fn a_large_body_is_left_alone() {
        let body = msgpack::encode(&Value::Array(vec!["x".repeat(100).into()])).unwrap();
        let said = said(publish("msgrpc/v2/req/oven-1", &CALL, &body));
        assert!(matches!(said, Said::Message { read: false, .. }), "{said:?}");
    }

    /// W-040, W-130: presence, and what is neither presence nor a frame.
    #[test]
    fn what_is_no_frame_is_said_too() {
        for (payload, state) in [(&b"online"[..], "online"), (b"offline", "offline"), (b"", "cleared")] {
            assert_eq!(said(publish("msgrpc/v2/presence/a", &[], payload)), Said::Presence { state });
        }
        for topic in ["msgrpc/v2", "msgrpc/v2/rpc/a", "x", ""] {
            assert_eq!(said(publish(topic, &CALL, b"")), Said::Foreign, "{topic:?}");
        }
        for odd in [
            publish("msgrpc/v2/req/oven-1", &CALL, b"\xc1"),
            publish("msgrpc/v2/req/oven-1", &CALL[..3], b"\x90"),
            publish("msgrpc/v2/req/oven-1", &[CALL[0], CALL[0]], b""),
            publish("msgrpc/v2/evt/oven-1", &[], b""),
            publish("msgrpc/v2/evt/oven-1", &[("mr-src", "a/b\u{1b}[2J")], b""),
            publish("msgrpc/v2/presence/a", &[], b"\xff\xfe"),
        ] {
            let said = said(odd);
            assert!(matches!(said, Said::Unreadable { .. }), "{said:?}");
        }
    }

    /// Every recorded publish, hostile ones included: an onlooker reads what the one it is for reads, and differs only where an
    /// answer topic is refused, which is not its business.
    #[test]
    fn recorded_publishes_are_read_as_by_the_one_they_are_for() {
        let recorded = vectors::list("mqtt-frames.json", "vectors");
        let recorded = recorded.iter().flat_map(|vector| vector["packets"].as_array().unwrap()).map(vectors::publish);
        let hostile = vectors::hostile().into_iter().map(|vector| vector.request);
        for publish in recorded.chain(hostile) {
            let overheard = overhear(publish.clone(), &topics(), usize::MAX);
            match (decode(publish.clone(), &topics()), overheard.said) {
                (Ok(frame), Said::Message { source, message, read: true, .. }) => {
                    assert_eq!((frame.source, frame.message), (source, message));
                    assert_eq!(frame.target.as_str(), overheard.to);
                }
                (Err(DecodeError::ResponseTopicOutside(_) | DecodeError::ResponseTopicUnusable(_)), said) => {
                    assert!(matches!(said, Said::Message { .. }), "{said:?}");
                }
                (Err(DecodeError::Topic(_)), Said::Presence { .. }) => {}
                (Err(error), Said::Unreadable { problem, .. }) => assert_eq!(error, problem),
                (decoded, said) => panic!("{publish:?}: {decoded:?}, but {said:?}"),
            }
        }
    }

    proptest::proptest! {
        /// Whatever is published is something, and nothing panics.
        #[test]
        fn anything_is_something(
            topic in "(msgrpc/v2/)?(req|rsp|evt|presence|x)?/?.{0,20}",
            kind in "call|result|error|ticket|event|batch|",
            payload in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..100),
        ) {
            let properties = [("mr-src", "a"), ("mr-kind", kind.as_str()), ("mr-path", "p"), ("mr-method", "m")];
            overhear(publish(&topic, &properties, &payload), &topics(), 64);
        }
    }
}
