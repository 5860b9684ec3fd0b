//! The log as JSON, one object a line: when, how grave, where, what, and the fields of it. What stands in a value came from the
//! network often enough: each is cut, and JSON escapes what would end a line.

use std::{fmt, io::Write};

use serde_json::{Map, Value as Json, json};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use crate::{link::now_ms, mcp::text, wire::instant};

/// Bytes of a value, or of a message.
const LONGEST: usize = 4 * 1024;
/// Fields of a line.
const MOST_FIELDS: usize = 32;

/// Writes each event to what `out` opens.
pub(super) struct JsonLines<W>(pub(super) W);

impl<S: Subscriber, O: Write, W: Fn() -> O + 'static> Layer<S> for JsonLines<W> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        let about = event.metadata();
        let line = json!({
            "time": instant::format(now_ms()),
            "level": about.level().as_str(),
            "target": about.target(),
            "message": said.message,
            "fields": said.fields,
        });
        // In one piece, so that no other line comes between; with standard error closed there is nobody to tell.
        let _ = (self.0)().write_all(format!("{line}\n").as_bytes());
    }
}

/// What an event says.
#[derive(Default)]
struct Said {
    message: String,
    fields: Map<String, Json>,
}

impl Said {
    fn take(&mut self, field: &Field, value: Json) {
        match (field.name(), value) {
            ("message", Json::String(text)) => self.message = text,
            (name, value) if self.fields.len() < MOST_FIELDS => {
                self.fields.insert(name.to_owned(), value);
            }
            _ => {}
        }
    }
}

fn cut(value: &str) -> Json {
    match text::cut(value, LONGEST) {
        (whole, false) => whole.into(),
        (head, true) => format!("{head}{}", text::ELLIPSIS).into(),
    }
}

impl Visit for Said {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.take(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, cut(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, cut(&format!("{value:?}")));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::prelude::*;

    use super::*;

    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Whatever a peer says, it is a value of one line, and no longer than it may be.
    #[test]
    fn whatever_is_said_is_one_bounded_object_a_line() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let out = Arc::clone(&written);
        let log = tracing_subscriber::registry().with(JsonLines(move || Shared(Arc::clone(&out))));
        let evil = "a\"}\n{\"level\":\"ERROR\"\u{1b}[31m\u{0}";
        tracing::subscriber::with_default(log, || {
            tracing::warn!(peer = evil, count = 7_u64, at = -1_i64, sure = true, share = 0.5, kind = ?Some(1), "said: {evil}");
            tracing::info!(target: "plantbridge::links", nan = f64::NAN, long = "ö".repeat(LONGEST), "{}", "x".repeat(2 * LONGEST));
        });
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        let fields = json!({"peer": evil, "count": 7, "at": -1, "sure": true, "share": 0.5, "kind": "Some(1)"});
        let said = format!("said: {evil}");
        assert_eq!(
            (&lines[0]["fields"], &lines[0]["message"], &lines[0]["level"]),
            (&fields, &json!(said), &json!("WARN"))
        );
        assert!(lines[0]["time"].as_str().unwrap().ends_with('Z'), "{text}");
        assert_eq!((&lines[1]["target"], &lines[1]["fields"]["nan"]), (&json!("plantbridge::links"), &Json::Null));
        let most = LONGEST + text::ELLIPSIS.len();
        for value in [&lines[1]["message"], &lines[1]["fields"]["long"]] {
            assert!((LONGEST - 4..=most).contains(&value.as_str().unwrap().len()), "{value}");
        }
    }
}
