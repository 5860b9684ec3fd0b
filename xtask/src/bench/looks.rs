//! The looks that cost a round trip, and what the peer at the other end answers to them.

use super::mqtt::{Arrived, Outbox, Publish};
use super::peer::DESCRIBED;

/// A look at the described peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) tool: &'static str,
    /// Besides the peer.
    arguments: &'static str,
    /// The round trips it costs, one look after another.
    pub(super) trips: f64,
    /// Which those are.
    pub(super) of: &'static str,
}

/// `read_state` does not wait for the answer to `off`, but the next look stands behind it.
pub(super) const LOOKS: [Look; 3] = [
    Look {
        tool: "read_state",
        arguments: r#""namespace":"bench""#,
        trips: 2.0,
        of: "2: `on` with its snapshot, `off`",
    },
    Look {
        tool: "read_row",
        arguments: r#""namespace":"bench","resource":"orders","id":"1""#,
        trips: 1.0,
        of: "1: `getOne`",
    },
    Look {
        tool: "read_context",
        arguments: r#""node":"bench","token":"bench.place","axis":"physical""#,
        trips: 1.0,
        of: "1: `$context.read` of one hop",
    },
];

impl Look {
    pub(super) fn arguments(&self) -> String {
        format!("{{\"peer\":\"{DESCRIBED}\",{}}}", self.arguments)
    }
}

/// The answer to a method of a look, as JSON; nothing for another method.
pub(super) fn answer(method: &[u8]) -> Option<&'static [u8]> {
    match method {
        b"on" | b"off" => Some(b"true"),
        b"getOne" => Some(br#"{"status":"ok","row":{"id":"1","what":"rye"},"stamp":"s1"}"#),
        b"read" => Some(CONTEXT.as_bytes()),
        _ => None,
    }
}

/// What follows the answer to `on`.
pub(super) fn snapshot(to: &Arrived<'_>, from: &[u8], out: &mut Outbox) {
    let topic = [b"msgrpc/v2/evt/", to.property(b"mr-src")].concat();
    let user: [(&[u8], &[u8]); 5] = [
        (b"mr-v", b"3"),
        (b"mr-src", from),
        (b"mr-kind", b"event"),
        (b"mr-path", b"bench"),
        (b"mr-event", b"$snapshot"),
    ];
    out.publish(&Publish {
        topic: &topic,
        user: &user,
        content_type: b"application/json",
        payload: br#"[{"epoch":"e1","revision":1,"props":{"unit":"C"},"state":{"temperature":21}}]"#,
        ..Publish::default()
    });
}

/// What a context read of one hop is answered with.
pub(super) const CONTEXT: &str = r#"{"node":{"peer":"echo","instance":"bench"},
"walked":{"physical":[{"peer":"echo","instance":"bench"},{"peer":"echo","instance":"$host"}],
"logical":[{"peer":"echo","instance":"bench"}]},"continues":{},"trouble":[],
"chainKey":{"physical":"e1\u0000e2","logical":"o1"},
"tokens":[{"tokenId":"bench.place","entries":[{"node":{"peer":"echo","instance":"$host"},"axis":"physical",
"value":"hall","provider":{"epoch":"p1","revision":0}}]}],"seq":0}"#;
