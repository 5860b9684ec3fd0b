//! The moment by the clock on the wall: the lowest place that reads it, and the only one besides tokio's.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch; a clock before that is as wrong as any, and counts as there.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
