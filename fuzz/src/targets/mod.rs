//! What is fuzzed: for each target what must hold of any input, and what a run begins from.
//!
//! A target is a plain function that panics where something does not hold. The fuzzer (`fuzz/src/main.rs`) runs them on what
//! it makes up, and the integration tests (`tests/it/fuzzed.rs`) on what was kept of that and on the seeds.

mod contract;
mod fake_script;
mod flat_frame;
mod guard;
mod http_head;
mod hub_packet;
mod mqtt_frame;
mod pattern;
mod pieces;
mod requests;
mod signing;
mod texts;
mod values;

use std::fmt::{Debug, Display};

use plantbridge::wire::EncodeError;
use serde_json::Value as Json;

/// One target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Its name, and that of its corpus.
    pub(crate) name: &'static str,
    /// Panics if something that must hold of this input does not.
    pub(crate) run: fn(&[u8]),
    /// Where a run begins.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them. Each takes half a minute of a run in CI: what is small goes in with its like.
pub(crate) const TARGETS: [Target; 12] = [
    Target { name: "contract", run: contract::run, seeds: contract::seeds },
    Target { name: "fake_script", run: fake_script::run, seeds: fake_script::seeds },
    Target { name: "flat_frame", run: flat_frame::run, seeds: flat_frame::seeds },
    Target { name: "guard", run: guard::run, seeds: guard::seeds },
    Target { name: "http_head", run: http_head::run, seeds: http_head::seeds },
    Target { name: "hub_packet", run: hub_packet::run, seeds: hub_packet::seeds },
    Target { name: "mqtt_frame", run: mqtt_frame::run, seeds: mqtt_frame::seeds },
    Target { name: "pattern", run: pattern::run, seeds: pattern::seeds },
    Target { name: "requests", run: requests::run, seeds: requests::seeds },
    Target { name: "signing", run: signing::run, seeds: signing::seeds },
    Target { name: "texts", run: texts::run, seeds: texts::seeds },
    Target { name: "values", run: values::run, seeds: values::seeds },
];

/// What is refused has a reason that fits into a line of a log.
fn reason(why: &impl Display) {
    let why = why.to_string();
    assert!(!why.trim().is_empty(), "a refusal without a reason");
    assert!(why.len() <= LONGEST_REASON, "a reason of {} bytes: {why:.200}", why.len());
}

/// What was written, read and written again is as it was. One thing is not: a double beyond ±(2^53−1) that JSON writes like an
/// integer is read as one, and such an integer is not written (W-020).
fn same_again<T: PartialEq + Debug>(written: &T, again: Result<T, EncodeError>) {
    match again {
        Ok(again) => assert_eq!(again, *written),
        Err(why) => assert!(matches!(why, EncodeError::Integer(_)), "not written again: {why:?}"),
    }
}

/// 80 characters of the input, each of them escaped, and a sentence around.
const LONGEST_REASON: usize = 2_048;

/// The vectors of one file.
fn vectors(text: &str) -> Json {
    serde_json::from_str(text).expect("vectors are JSON")
}

/// Every part of a document that `wanted` makes something of, at whatever depth.
fn each<T>(document: &Json, wanted: &impl Fn(&Json) -> Option<T>) -> Vec<T> {
    let mut found: Vec<T> = wanted(document).into_iter().collect();
    match document {
        Json::Array(items) => found.extend(items.iter().flat_map(|item| each(item, wanted))),
        Json::Object(members) => found.extend(members.values().flat_map(|member| each(member, wanted))),
        _ => {}
    }
    found
}

/// Every member of that name that is hexadecimal text, as its bytes.
fn hex_of(document: &Json, names: &[&str]) -> Vec<Vec<u8>> {
    each(document, &|part| {
        let found: Vec<Vec<u8>> = names.iter().filter_map(|name| hex(part.get(name)?.as_str()?)).collect();
        (!found.is_empty()).then_some(found)
    })
    .concat()
}

/// The bytes that hexadecimal text stands for.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    digits?.chunks(2).map(|pair| u8::try_from(pair.first()? << 4 | pair.get(1)?).ok()).collect()
}
