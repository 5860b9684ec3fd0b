//! What bodies say, whichever link carried them (wire.md 1.2, 1.3). Read leniently (W-011).

use super::{Map, RemoteError, Value};

/// The label of a request; what is done with it, the method decides (W-010).
pub(super) fn kind_of(method: &str) -> &'static str {
    match method {
        "on" => "subscribe",
        "off" | "removeListener" => "unsubscribe",
        _ => "call",
    }
}

/// The arguments of a request.
pub(super) fn arguments(body: Option<Value>) -> Vec<Value> {
    match body {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(args)) => args,
        Some(single) => vec![single],
    }
}

/// What was emitted.
pub(super) fn emitted(body: Option<Value>) -> Vec<Value> {
    match body {
        None => vec![Value::Null],
        Some(Value::Array(args)) => args,
        Some(single) => vec![single],
    }
}

/// An error from its code and body. Only name and message are looked at; a stack is dropped here (W-062).
pub(super) fn failure(code: Option<String>, body: Option<Value>) -> RemoteError {
    let mut error = RemoteError {
        code: filled(code).unwrap_or_else(|| "Exception".to_owned()),
        name: "Error".to_owned(),
        message: String::new(),
    };
    match body {
        Some(Value::Text(message)) => error.message = message,
        Some(Value::Map(map)) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("name", Value::Text(name)) => error.name = name,
                    ("message", Value::Text(message)) => error.message = message,
                    _ => {}
                }
            }
        }
        _ => {}
    }
    error
}

/// Name and message as a body; a stack is nobody's business (W-062).
pub(super) fn failed(error: &RemoteError) -> Value {
    let mut map = Map::new();
    map.insert("name", error.name.as_str());
    map.insert("message", error.message.as_str());
    Value::Map(map)
}

/// A text that says something: an empty one is as good as none (W-003).
pub(super) fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
