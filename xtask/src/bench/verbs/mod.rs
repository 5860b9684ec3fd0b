//! What each verb costs through the bridge, as a multiple of the same exchanges by a caller without one: over a broker and over
//! a hub, against the same peer, in turns.
//!
//! The floor sends what the bridge sends and waits for what it waits for, one exchange after another, and knows nothing: it
//! checks no argument, remembers nothing, reads no answer. What a verb does without the network has no floor.

mod broker;
mod hub;
mod peer;
mod readme;
mod verb;

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Plan;
use super::bridge::Bridge;
use super::broker::{Broker, Kind};
use super::hub::Hub;
use super::placement::{Side, on};
use super::stats::{median, micros, percentile};
use verb::{Exchange, FAKE, VERBS, Verb};

pub(super) use readme::write as write_readme;

/// The name of the bridge: it is told who is in control.
const BRIDGE: &str = "bench-bridge";

/// What was measured, a line a verb.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    what: &'static str,
    trips: usize,
    broker: Cost,
    hub: Cost,
}

/// Medians of the rounds, in microseconds; no floor where there is nothing to exchange.
#[derive(Clone, Copy, Debug)]
struct Cost {
    floor: Option<f64>,
    bridge: f64,
    over: Option<f64>,
}

/// A caller without a bridge.
trait Caller {
    /// Asks, and waits for all that comes of it.
    fn exchange(&mut self, peer: &str, exchange: &Exchange) -> Result<(), String>;
}

pub(super) fn measure(binary: &Path, plan: &Plan) -> Result<Measured, String> {
    let over_broker = {
        let plant = || {
            Broker::start(Kind::Tuned).and_then(|broker| broker::Peers::join(broker.port).map(|peers| (broker, peers)))
        };
        let (broker, _peers) = on(Side::Plant, plant)?;
        let at = format!("mqtt://127.0.0.1:{}", broker.port);
        on(Side::Callers, || costs(&mut broker::Floor::join(broker.port)?, bridge(binary, &["--broker", &at])?, plan))?
    };
    let over_hub = {
        let plant = || Hub::start().and_then(|hub| hub::Peers::join(hub.port).map(|peers| (hub, peers)));
        let (hub, _peers) = on(Side::Plant, plant)?;
        let at = format!("http://127.0.0.1:{}", hub.port);
        on(Side::Callers, || costs(&mut hub::Floor::join(hub.port)?, bridge(binary, &["--hub", &at])?, plan))?
    };
    let line =
        |(verb, (broker, hub)): (&Verb, (Cost, Cost))| Line { what: verb.what, trips: verb.trips(), broker, hub };
    Ok(Measured { lines: VERBS.iter().zip(over_broker.into_iter().zip(over_hub)).map(line).collect() })
}

/// A bridge that sees the peers, and has its fake.
fn bridge(binary: &Path, place: &[&str]) -> Result<Bridge, String> {
    let mut bridge = Bridge::start_at(binary, &[place, &["--name", BRIDGE]].concat())?;
    let until = Instant::now() + Duration::from_secs(20);
    let last = format!("{{\"peer\":\"{}\",\"wait_seconds\":5}}", peer::of_crowd(peer::CROWD - 1));
    while let Err(why) = bridge.tool("describe_peer", &last) {
        if Instant::now() > until {
            return Err(why);
        }
    }
    bridge.tool("start_fake", &format!("{{\"name\":\"{FAKE}\",\"schema\":{CONTRACT},\"script\":{SCRIPT}}}"))?;
    Ok(bridge)
}

fn costs(floor: &mut impl Caller, mut bridge: Bridge, plan: &Plan) -> Result<Vec<Cost>, String> {
    let mut rounds: Vec<Vec<(f64, f64)>> = vec![Vec::new(); VERBS.len()];
    // The first round fills what is remembered, and counts for nothing.
    for round in 0..=plan.rounds {
        for (verb, times) in VERBS.iter().zip(&mut rounds) {
            let calls = if round == 0 { plan.calls.min(20) } else { plan.calls };
            let took = one_round(verb, floor, &mut bridge, calls, if round == 0 { 1 } else { plan.blocks })?;
            if round > 0 {
                times.push(took);
            }
        }
    }
    let cost = |(verb, times): (&Verb, Vec<(f64, f64)>)| {
        let has_floor = !verb.exchanges.is_empty();
        let middle = |of: fn(&(f64, f64)) -> f64| median(&times.iter().map(of).collect::<Vec<_>>());
        Cost {
            floor: has_floor.then(|| middle(|(floor, _)| *floor)),
            bridge: middle(|(_, bridge)| *bridge),
            over: has_floor.then(|| middle(|(floor, bridge)| bridge / floor)),
        }
    };
    Ok(VERBS.iter().zip(rounds).map(cost).collect())
}

/// The medians of one round: the floor's and the bridge's, in turns.
fn one_round(
    verb: &Verb,
    floor: &mut impl Caller,
    bridge: &mut Bridge,
    calls: usize,
    blocks: usize,
) -> Result<(f64, f64), String> {
    let (mut bare, mut through) = (Vec::new(), Vec::new());
    // In a part of the turns that a single call is measured in: here are many verbs.
    for block in 0..blocks.div_ceil(5) {
        for turn in block * calls..(block + 1) * calls {
            let peer = verb.peer(turn);
            let begun = Instant::now();
            for exchange in verb.exchanges {
                floor.exchange(&peer, exchange)?;
            }
            bare.push(begun.elapsed());
        }
        for turn in block * calls..(block + 1) * calls {
            let arguments = verb.arguments(turn);
            let begun = Instant::now();
            bridge.tool(verb.tool, &arguments)?;
            through.push(begun.elapsed());
        }
    }
    Ok((micros(percentile(&mut bare, 0.5)), micros(percentile(&mut through, 0.5))))
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "| one at a time, p50 | round trips | broker: bare | bridge | over bare | hub: bare | bridge | over bare |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
        for Line { what, trips, broker, hub } in &self.lines {
            writeln!(out, "| {what} | {trips} | {broker} | {hub} |")?;
        }
        Ok(())
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { floor, bridge, over } = self;
        match floor.zip(*over) {
            Some((floor, over)) => write!(out, "{floor:.0} µs | {bridge:.0} µs | **{over:.2}**"),
            None => write!(out, "– | {bridge:.0} µs | –"),
        }
    }
}

/// In one line, as everything a client says.
const CONTRACT: &str = r#"{"schema":1,"namespaces":{"bench":{"methods":{"echo":{"params":[{"kind":"string"}],"paramNames":["text"],"returns":{"kind":"string"},"semantics":"query","effect":"observe"}}}}}"#;
const SCRIPT: &str = r#"{"returns":{"bench.echo":"0123456789abcdef"}}"#;

#[cfg(test)]
mod tests {
    use super::verb::Whom;
    use super::*;

    /// Whoever asks nobody has nothing to exchange, and every other exchange is one the peer answers.
    #[test]
    fn the_peer_answers_what_the_floor_asks() {
        let mut answers = peer::Answers::default();
        for verb in VERBS {
            assert!(!matches!(verb.whom, Whom::Nobody) || verb.exchanges.is_empty(), "{}", verb.what);
            for Exchange { method, args, arrive, .. } in verb.exchanges {
                let said = answers.say("echo", method, args.as_bytes());
                assert_eq!((said.kind, 1 + usize::from(said.then.is_some())), ("result", *arrive), "{method}");
                serde_json::from_str::<serde_json::Value>(&said.body).unwrap();
                serde_json::from_str::<serde_json::Value>(args).unwrap();
            }
            serde_json::from_str::<serde_json::Value>(&verb.arguments(7)).unwrap();
        }
    }

    #[test]
    fn a_verb_without_exchanges_has_no_floor() {
        let of = |floor, over| Cost { floor, bridge: 120.0, over }.to_string();
        assert_eq!(of(Some(60.0), Some(2.0)), "60 µs | 120 µs | **2.00**");
        assert_eq!(of(None, None), "– | 120 µs | –");
    }
}
