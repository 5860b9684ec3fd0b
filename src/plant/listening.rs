//! What every watch does: asks a peer how far it has counted, and tells apart and weighs what it delivers.

use std::{
    hash::{DefaultHasher, Hasher},
    time::Duration,
};

use super::{
    Plant,
    verdict::{Cursor, MAX_EPOCH},
};
use crate::{
    node::{Call, Stream},
    wire::Value,
};

/// How long a peer's cursor is awaited.
const CURSOR_PATIENCE: Duration = Duration::from_secs(2);

impl Plant {
    /// How far the peer has counted this event; `None` if it does not say.
    pub(super) async fn event_cursor(&self, stream: &Stream) -> Option<Cursor> {
        let call = Call {
            peer: stream.peer.clone(),
            namespace: "msgrpc".into(),
            method: "eventCursor".into(),
            args: vec![stream.namespace.as_str().into(), stream.event.as_str().into()],
            timeout: Some(CURSOR_PATIENCE.min(self.settings().call_timeout)),
            idempotency_key: None,
        };
        let answer = self.node().call(call).await.ok()?.value?;
        let answer = answer.as_map()?;
        let epoch = answer.get("epoch")?.as_str().filter(|epoch| epoch.len() <= MAX_EPOCH)?.to_owned();
        let seq = u64::try_from(answer.get("seq")?.as_i64()?).ok()?;
        Some(Cursor { epoch, seq, since: answer.get("since").and_then(Value::as_i64) })
    }
}

/// A number that differs, as good as always, when what was delivered differs.
pub(super) fn fingerprint(args: &[Value]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_usize(args.len());
    for arg in args {
        feed(arg, &mut hasher);
    }
    hasher.finish()
}

/// Values are bounded in depth where they are decoded.
fn feed(value: &Value, hasher: &mut DefaultHasher) {
    let mut bytes = |kind: u8, bytes: &[u8]| {
        hasher.write_u8(kind);
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
    };
    match value {
        Value::Null => bytes(0, &[]),
        Value::Bool(bit) => bytes(1, &[u8::from(*bit)]),
        Value::Int(number) => bytes(2, &number.to_be_bytes()),
        Value::Float(number) => bytes(3, &number.to_bits().to_be_bytes()),
        Value::Text(text) => bytes(4, text.as_bytes()),
        Value::Bytes(data) => bytes(5, data),
        Value::Date(ms) => bytes(6, &ms.to_be_bytes()),
        Value::Ext(kind, data) => {
            bytes(7, &kind.to_be_bytes());
            bytes(7, data);
        }
        Value::Array(items) => {
            bytes(8, &items.len().to_be_bytes());
            for item in items {
                feed(item, hasher);
            }
        }
        Value::Map(map) => {
            bytes(9, &map.iter().count().to_be_bytes());
            for (key, member) in map.iter() {
                feed(&Value::Text(key.into()), hasher);
                feed(member, hasher);
            }
        }
    }
}

/// About as many bytes as a value takes written as JSON.
pub(super) fn weigh(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Int(_) | Value::Float(_) => 20,
        Value::Date(_) => 40,
        Value::Text(text) => text.len() + 2,
        Value::Bytes(data) | Value::Ext(_, data) => data.len() * 4 / 3 + 16,
        Value::Array(items) => items.iter().map(|item| weigh(item) + 1).sum::<usize>() + 2,
        Value::Map(map) => map.iter().map(|(key, member)| key.len() + 4 + weigh(member)).sum::<usize>() + 2,
    }
}
