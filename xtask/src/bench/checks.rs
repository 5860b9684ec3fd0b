//! How long `check_peer` takes for a contract the size of a plant, against a fake of the same bridge: one that serves it,
//! and one that serves something narrower, so that every method breaks.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Plan;
use super::bridge::Bridge;
use super::broker::{Broker, Kind};
use super::stats::percentile;

/// How long it may take, at the median.
const WANTED: Duration = Duration::from_millis(50);
const METHODS: usize = 300;
const TYPES: usize = 1_000;

/// What was measured.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    looks: Vec<Look>,
}

/// One kind of call.
#[derive(Clone, Debug)]
struct Look {
    what: &'static str,
    median: Duration,
    longest: Duration,
    /// What the bridge computed for each call, on all its threads.
    processor: Duration,
}

pub(super) fn measure(binary: &Path, plan: &Plan) -> Result<Measured, String> {
    let broker = Broker::start(Kind::Stock)?;
    let mut bridge = Bridge::start(binary, broker.port)?.0;
    bridge.tool("list_peers", "{}")?;
    let (same, narrower) = (contract(2_000), contract(10));
    for (name, contract) in [("as-agreed", &same), ("narrower", &narrower)] {
        bridge.tool("start_fake", &format!("{{\"name\":\"{name}\",\"schema\":{contract}}}"))?;
    }
    let check = |peer: &str| format!("{{\"peer\":\"{peer}\",\"schema\":{same}}}");
    let kinds = [
        ("`describe_peer`, for comparison", "describe_peer", "{\"peer\":\"as-agreed\"}".to_owned(), ""),
        ("`check_peer`, compatible", "check_peer", check("as-agreed"), "\"compatible\":true"),
        ("`check_peer`, every method breaks", "check_peer", check("narrower"), "\"compatible\":false"),
    ];
    let mut looks = Vec::new();
    for (what, tool, arguments, expected) in kinds {
        // The first fills what is remembered.
        let answer = bridge.tool(tool, &arguments)?;
        if !answer.contains(expected) {
            return Err(format!("{what}: {answer:.600}"));
        }
        let (mut samples, before) = (Vec::new(), bridge.processor());
        for _ in 0..plan.looks.min(MOST) {
            let begun = Instant::now();
            bridge.tool(tool, &arguments)?;
            samples.push(begun.elapsed());
        }
        let times = u32::try_from(samples.len()).unwrap_or(u32::MAX).max(1);
        let processor = bridge.processor().saturating_sub(before) / times;
        let (median, longest) = (percentile(&mut samples, 0.5), percentile(&mut samples, 1.0));
        looks.push(Look { what, median, longest, processor });
    }
    Ok(Measured { looks })
}

impl Measured {
    /// Whether it is as fast as wanted. A development build decides nothing.
    pub(super) fn judge(&self, release: bool) -> Result<(), String> {
        let slow = self.looks.iter().find(|look| release && look.median > WANTED);
        slow.map_or(Ok(()), |look| Err(format!("{} takes {:.1?}, and {WANTED:?} are wanted", look.what, look.median)))
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "| {METHODS} methods and {TYPES} types | median | longest | processor time |")?;
        writeln!(out, "| --- | --- | --- | --- |")?;
        for Look { what, median, longest, processor } in &self.looks {
            let ms = |time: &Duration| time.as_secs_f64() * 1_000.0;
            writeln!(out, "| {what} | {:.1} ms | {:.1} ms | {:.1} ms |", ms(median), ms(longest), ms(processor))?;
        }
        Ok(())
    }
}

/// A contract in which all types lead to each other, and one of them, which every method reaches, has a number up to `most`.
fn contract(most: u32) -> String {
    let named = |at: usize| format!("{{\"kind\":\"ref\",\"name\":\"T{}\"}}", at % TYPES);
    let types = (0..TYPES).map(|at| {
        let (part, next) = (named(at * 13 + 5), named(at + 1));
        let most = if at == TYPES - 1 { most } else { 2_000 };
        format!(
            r#""T{at}":{{"kind":"object","fields":{{"id":{{"type":{{"kind":"string","pattern":"^P-{}-\\d+$","maxLength":40}}}},"value":{{"type":{{"kind":"number","min":0,"max":{most}}}}},"mode":{{"type":{{"kind":"union","options":[{{"kind":"literal","value":"off"}},{{"kind":"literal","value":"on"}}]}}}},"next":{{"optional":true,"type":{next}}},"parts":{{"type":{{"kind":"array","items":{part}}}}}}}}}"#,
            at % 40
        )
    });
    let methods = (0..METHODS).map(|at| {
        let (what, returns) = (named(at * 3), named(at * 3 + 1));
        format!(
            r#""m{at}":{{"params":[{what},{{"kind":"number","min":0}}],"paramNames":["what","how"],"returns":{returns},"semantics":"idempotent-command","effect":"operate"}}"#
        )
    });
    let (types, methods) = (types.collect::<Vec<_>>().join(","), methods.collect::<Vec<_>>().join(","));
    format!(r#"{{"schema":1,"types":{{{types}}},"namespaces":{{"plant":{{"version":"1","methods":{{{methods}}}}}}}}}"#)
}

/// Of each kind, so many calls at most.
const MOST: usize = 50;
