//! What a peer of the plant puts on the wire: answers, tickets and events (wire.md 1.1, 4.4), and its own description.

use serde_json::{Value, json};

use super::device::{EVENT, SPACE};
use crate::bench::mqtt::{Outbox, Publish};

/// What goes back to whoever asked.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    kind: &'static str,
    code: String,
    deferred: bool,
    outcome: &'static str,
    body: Value,
}

impl Reply {
    pub(super) const fn result(body: Value) -> Self {
        Self { kind: "result", code: String::new(), deferred: false, outcome: "", body }
    }

    pub(super) fn error(code: &str, message: &str) -> Self {
        let body = json!({"name": "RpcError", "message": message});
        Self { kind: "error", code: code.to_owned(), ..Self::result(body) }
    }

    /// The first answer of a method that answers later.
    pub(super) fn receipt(body: Value) -> Self {
        Self { deferred: true, ..Self::result(body) }
    }

    pub(super) fn ticket(outcome: &'static str, body: Value) -> Self {
        Self { kind: "ticket", outcome, ..Self::result(body) }
    }

    /// Whether it is given again to a request that comes again (wire.md 5.2).
    pub(super) fn is_remembered(&self) -> bool {
        self.kind != "ticket"
    }
}

pub(super) fn reply(topic: &[u8], correlation: &[u8], from: &str, reply: &Reply, out: &mut Outbox) {
    let optional = [
        (&b"mr-code"[..], reply.code.as_bytes()),
        (b"mr-deferred", if reply.deferred { b"1" } else { b"" }),
        (b"mr-outcome", reply.outcome.as_bytes()),
    ];
    let mut user: Vec<(&[u8], &[u8])> =
        vec![(b"mr-v", b"3"), (b"mr-src", from.as_bytes()), (b"mr-kind", reply.kind.as_bytes())];
    user.extend(optional.into_iter().filter(|(_, value)| !value.is_empty()));
    out.publish(&Publish {
        topic,
        correlation,
        content_type: b"application/json",
        user: &user,
        payload: reply.body.to_string().as_bytes(),
        ..Publish::default()
    });
}

/// `stamp` is the incarnation and the number of an event that is counted.
pub(super) fn event(to: &[u8], from: &str, name: &str, stamp: Option<(&str, u64)>, body: &Value, out: &mut Outbox) {
    let topic = [b"msgrpc/v2/evt/", to].concat();
    let number = stamp.map(|(_, number)| number.to_string()).unwrap_or_default();
    let mut user: Vec<(&[u8], &[u8])> = vec![
        (b"mr-v", b"3"),
        (b"mr-src", from.as_bytes()),
        (b"mr-kind", b"event"),
        (b"mr-path", SPACE.as_bytes()),
        (b"mr-event", name.as_bytes()),
    ];
    if let Some((epoch, _)) = stamp {
        user.extend([(&b"mr-seq"[..], number.as_bytes()), (b"mr-epoch", epoch.as_bytes())]);
    }
    out.publish(&Publish {
        topic: &topic,
        content_type: b"application/json",
        user: &user,
        payload: body.to_string().as_bytes(),
        ..Publish::default()
    });
}

/// What it says of itself.
pub(super) fn description(name: &str) -> Value {
    let number = json!({"kind": "number"});
    let text = json!({"kind": "string"});
    let method = |name: &str, params: &[&Value], semantics: &str| {
        json!({"name": name, "params": params, "returns": {"kind": "any"}, "semantics": semantics,
            "effect": if semantics == "query" { "observe" } else { "operate" }})
    };
    let command = "non-repeatable-command";
    let mut guarded = method("guarded", &[&number], command);
    let mut sets = method("setLevel", &[&number], "idempotent-command");
    if let (Some(guarded), Some(sets)) = (guarded.as_object_mut(), sets.as_object_mut()) {
        guarded.insert("requiresAuthority".to_owned(), json!(true));
        sets.insert("sets".to_owned(), json!("level"));
    }
    let methods = json!([
        guarded,
        method("later", &[&number, &number], command),
        method("read", &[], "query"),
        method("refuse", &[&number, &text], command),
        method("run", &[&number], command),
        sets,
        method("slow", &[&number, &number], command),
    ]);
    let state = json!({"kind": "object", "fields": {"level": {"type": number}}});
    let props = json!({"kind": "object", "fields": {}});
    json!({"name": name, "validating": false, "types": {}, "namespaces": [{
        "name": SPACE, "className": "Work", "created": false, "emitter": true, "methods": methods,
        "component": {"props": props, "state": state, "subscribers": 0},
        "events": [{"name": EVENT, "params": [text, number], "subscribers": 0}],
    }]})
}
