//! What the peer at the other end says to each request, as JSON, whichever network it stands on.

use crate::bench::looks::CONTEXT;

/// The peer that is asked.
pub(super) const PEER: &str = "echo";
/// More of its kind: so many that a bridge cannot remember the descriptions of all of them.
pub(super) const CROWD: usize = 300;

/// The name of one of them.
pub(super) fn of_crowd(number: usize) -> String {
    format!("peer-{:03}", number % CROWD)
}

/// All names.
pub(super) fn names() -> impl Iterator<Item = String> {
    std::iter::once(PEER.to_owned()).chain((0..CROWD).map(of_crowd))
}

/// An answer, and what follows it.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) kind: &'static str,
    /// Whether it is a receipt.
    pub(super) deferred: bool,
    pub(super) body: String,
    pub(super) then: Option<Then>,
}

/// What follows an answer.
#[derive(Debug)]
pub(super) enum Then {
    /// Something the peer emits.
    Event {
        event: &'static str,
        body: String,
        /// Its number, if it is counted.
        seq: Option<u64>,
    },
    /// The later answer.
    Ticket(&'static str),
}

/// The incarnation by which events are counted.
pub(super) const EPOCH: &str = "e1";

/// The answers of one peer. It counts what it emits.
#[derive(Debug, Default)]
pub(super) struct Answers {
    emitted: u64,
}

impl Answers {
    /// What `name` says to a request; `body` are its arguments in whatever form.
    pub(super) fn say(&mut self, name: &str, method: &str, body: &[u8]) -> Said {
        let holds = |word: &[u8]| body.windows(word.len()).any(|window| window == word);
        let result = |body: &str| Said { kind: "result", deferred: false, body: body.to_owned(), then: None };
        let snapshot = |revision: u64, level: u64| Then::Event {
            event: "$snapshot",
            body: format!(
                r#"[{{"epoch":"s1","revision":{revision},"props":{{"unit":"C"}},"state":{{"target":21,"level":{level}}}}}]"#
            ),
            seq: None,
        };
        match method {
            "describe" => result(&DESCRIPTION.replace("NAME", name)),
            "echo" => result("\"0123456789abcdef\""),
            "on" if holds(b"$snapshot") => Said { then: Some(snapshot(1, 1)), ..result("true") },
            "on" => {
                self.emitted += 1;
                let then = Then::Event { event: "tick", body: "[21]".to_owned(), seq: Some(self.emitted) };
                Said { then: Some(then), ..result("true") }
            }
            "off" | "setTarget" => result("true"),
            "setLevel" => Said { then: Some(snapshot(2, 30)), ..result("true") },
            "eventCursor" => result(&format!(r#"{{"epoch":"{EPOCH}","seq":{}}}"#, self.emitted)),
            "getOne" => result(r#"{"status":"ok","row":{"id":"1","what":"rye"},"stamp":"s1"}"#),
            "update" => result(r#"{"status":"ok","id":"1","stamp":"s1"}"#),
            "$data" => result(
                r#"{"ids":["1","2","3"],"data":[{"id":"1","what":"rye"},{"id":"2","what":"oat"},{"id":"3","what":"spelt"}],"total":3,"hasMore":false}"#,
            ),
            "read" => result(CONTEXT),
            "$acquire" => {
                result(&format!(r#"{{"holder":"{}","generation":1,"expiresAt":4102444800000}}"#, super::BRIDGE))
            }
            "$release" => result("\"ok\""),
            "later" => Said {
                deferred: true,
                then: Some(Then::Ticket("\"0123456789abcdef\"")),
                ..result(r#"{"id":"t1","expiresAt":4102444800000}"#)
            },
            _ => Said { kind: "error", ..result(r#"{"name":"RpcError","message":"there is no such method"}"#) },
        }
    }
}

const DESCRIPTION: &str = r#"{"name":"NAME","validating":true,"namespaces":[{"name":"bench","className":"Bench",
"created":false,"emitter":true,"methods":[
{"name":"echo","params":[{"kind":"string"}],"paramNames":["text"],"returns":{"kind":"string"},"semantics":"query","effect":"observe"},
{"name":"later","params":[],"returns":{"kind":"string"},"semantics":"query","effect":"observe"},
{"name":"setTarget","params":[{"kind":"number"}],"semantics":"idempotent-command","effect":"operate","sets":"target"},
{"name":"setLevel","params":[{"kind":"number"}],"semantics":"idempotent-command","effect":"operate","sets":"level"},
{"name":"getOne","semantics":"query","effect":"observe"},{"name":"writable","semantics":"query","effect":"observe"},
{"name":"update","semantics":"idempotent-command","effect":"operate"}],
"component":{"props":{"kind":"any"},"state":{"kind":"object","fields":{"target":{"type":{"kind":"number"}},"level":{"type":{"kind":"number"}}}}},
"events":[{"name":"tick","params":[{"kind":"number"}]}]}],"types":{}}"#;
