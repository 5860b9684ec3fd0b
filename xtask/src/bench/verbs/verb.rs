//! The verbs that are compared: the tool a client calls, and the exchanges with the peer that it comes to.

use super::peer::of_crowd;

/// One verb.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verb {
    /// As the table names it.
    pub(super) what: &'static str,
    pub(super) tool: &'static str,
    /// The arguments besides the peer.
    arguments: &'static str,
    pub(super) whom: Whom,
    /// What a caller without a bridge does for the same.
    pub(super) exchanges: &'static [Exchange],
}

/// Who is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whom {
    /// Nobody.
    Nobody,
    /// The one peer.
    Peer,
    /// One of the crowd after the other, so that none is remembered when its turn comes again.
    NextOfCrowd,
    /// The fake of the bridge.
    Fake,
}

/// A request and what comes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) path: &'static str,
    pub(super) method: &'static str,
    /// As JSON.
    pub(super) args: &'static str,
    /// How many messages arrive for it, the answer among them.
    pub(super) arrive: usize,
}

impl Exchange {
    /// What kind of frame asks for it.
    pub(super) fn kind(&self) -> &'static str {
        match self.method {
            "on" => "subscribe",
            "off" => "unsubscribe",
            _ => "call",
        }
    }
}

/// The fake that the bridge starts.
pub(super) const FAKE: &str = "fake-1";

impl Verb {
    /// Who is asked the `turn`-th time.
    pub(super) fn peer(&self, turn: usize) -> String {
        match self.whom {
            Whom::Nobody => String::new(),
            Whom::Peer => super::peer::PEER.to_owned(),
            Whom::NextOfCrowd => of_crowd(turn),
            Whom::Fake => FAKE.to_owned(),
        }
    }

    /// The arguments of the tool.
    pub(super) fn arguments(&self, turn: usize) -> String {
        let comma = if self.arguments.is_empty() { "" } else { "," };
        match self.whom {
            Whom::Nobody => format!("{{{}}}", self.arguments),
            _ => format!("{{\"peer\":\"{}\"{comma}{}}}", self.peer(turn), self.arguments),
        }
    }

    /// How many round trips it costs: an event that is waited for comes with the answer before it.
    pub(super) const fn trips(&self) -> usize {
        self.exchanges.len()
    }
}

const fn ask(path: &'static str, method: &'static str, args: &'static str) -> Exchange {
    Exchange { path, method, args, arrive: 1 }
}

const fn ask_for_two(path: &'static str, method: &'static str, args: &'static str) -> Exchange {
    Exchange { path, method, args, arrive: 2 }
}

const OFF: Exchange = ask("bench", "off", r#"["$snapshot"]"#);
const LOOK: Exchange = ask_for_two("bench", "on", r#"["$snapshot"]"#);
const CURSOR: Exchange = ask("msgrpc", "eventCursor", r#"["bench","tick"]"#);
const ECHO: Exchange = ask("bench", "echo", r#"["0123456789abcdef"]"#);

/// All of them.
pub(super) const VERBS: [Verb; 16] = [
    Verb { what: "`list_peers`, 50 of 301", tool: "list_peers", arguments: "", whom: Whom::Nobody, exchanges: &[] },
    Verb {
        what: "`describe_peer`, remembered",
        tool: "describe_peer",
        arguments: "",
        whom: Whom::Peer,
        exchanges: &[],
    },
    Verb {
        what: "`describe_peer`, asked",
        tool: "describe_peer",
        arguments: "",
        whom: Whom::NextOfCrowd,
        exchanges: &[ask("msgrpc", "describe", "[]")],
    },
    Verb {
        what: "`call_method`",
        tool: "call_method",
        arguments: r#""namespace":"bench","method":"echo","args":["0123456789abcdef"]"#,
        whom: Whom::Peer,
        exchanges: &[ECHO],
    },
    Verb {
        what: "`call_method`, answered later",
        tool: "call_method",
        arguments: r#""namespace":"bench","method":"later","wait_seconds":5"#,
        whom: Whom::Peer,
        exchanges: &[ask_for_two("bench", "later", "[]")],
    },
    Verb {
        what: "`call_method` of a fake",
        tool: "call_method",
        arguments: r#""namespace":"bench","method":"echo","args":["0123456789abcdef"]"#,
        whom: Whom::Fake,
        exchanges: &[ECHO],
    },
    Verb {
        what: "`read_state`",
        tool: "read_state",
        arguments: r#""namespace":"bench""#,
        whom: Whom::Peer,
        exchanges: &[LOOK, OFF],
    },
    Verb {
        what: "`set_state`",
        tool: "set_state",
        arguments: r#""namespace":"bench","path":"target","value":30"#,
        whom: Whom::Peer,
        exchanges: &[ask("bench", "setTarget", "[30]")],
    },
    Verb {
        what: "`set_state`, verified",
        tool: "set_state",
        arguments: r#""namespace":"bench","path":"level","value":30,"verify_seconds":5"#,
        whom: Whom::Peer,
        exchanges: &[LOOK, ask_for_two("bench", "setLevel", "[30]"), OFF],
    },
    Verb {
        what: "`list_rows`",
        tool: "list_rows",
        arguments: r#""namespace":"bench","resource":"orders""#,
        whom: Whom::Peer,
        exchanges: &[ask("bench", "$data", r#"["getList",["orders"],{"pagination":{"page":0,"pageSize":50}}]"#)],
    },
    Verb {
        what: "`read_row`",
        tool: "read_row",
        arguments: r#""namespace":"bench","resource":"orders","id":"1""#,
        whom: Whom::Peer,
        exchanges: &[ask("bench", "getOne", r#"["orders","1"]"#)],
    },
    Verb {
        what: "`write_row`",
        tool: "write_row",
        arguments: r#""namespace":"bench","resource":"orders","verb":"update","id":"1","row":{"what":"oat"},"stamp":"s1""#,
        whom: Whom::Peer,
        exchanges: &[ask("bench", "update", r#"["orders","1",{"what":"oat"},"s1"]"#)],
    },
    Verb {
        what: "`read_context`, one hop",
        tool: "read_context",
        arguments: r#""node":"bench","token":"bench.place","axis":"physical""#,
        whom: Whom::Peer,
        exchanges: &[ask("$context", "read", r#"["bench",["bench.place"]]"#)],
    },
    Verb {
        what: "`watch_events`, until the first",
        tool: "watch_events",
        arguments: r#""namespace":"bench","event":"tick","max_events":1,"seconds":5"#,
        whom: Whom::Peer,
        exchanges: &[ask_for_two("bench", "on", r#"["tick"]"#), CURSOR, CURSOR, ask("bench", "off", r#"["tick"]"#)],
    },
    Verb {
        what: "`take_control`",
        tool: "take_control",
        arguments: r#""namespace":"bench","seconds":3600"#,
        whom: Whom::Peer,
        exchanges: &[ask("bench", "$acquire", "[3600000]")],
    },
    Verb {
        what: "`release_control`",
        tool: "release_control",
        arguments: r#""namespace":"bench""#,
        whom: Whom::Peer,
        exchanges: &[ask("bench", "$release", "[]")],
    },
];
