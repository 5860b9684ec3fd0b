//! `cargo xtask soak`: a plant of fifty peers, a network that fails in every way a plan of a seed says, clients on both doors
//! that use the bridge all the while, and the rules that have to hold whatever happens.
//!
//! What the bridge says is held against what the peers themselves counted: they are of our own making, and so is the line
//! between them and the bridge.

mod bridge;
mod check;
mod device;
mod door;
mod doubling;
mod ledger;
mod leftovers;
mod load;
mod memory;
mod pack;
mod peers;
mod plan;
mod proxy;
mod record;
mod report;
mod say;
mod watching;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bridge::Bridge;
use door::{Client, Door};
use load::Load;
use peers::{PEERS, Peers};
use plan::{FOR_GOOD, Fault, Line, Plan, Step};
use proxy::{Cut, Mode, Proxy};
use record::{Left, Record};
use report::Report;

use crate::bench;
use crate::bench::broker::Broker;

/// How long a run is unless it is told.
const LENGTH: Duration = Duration::from_mins(5);
/// Less than this has no room for a plan.
const SHORTEST: Duration = Duration::from_secs(20);
/// How long the plant has to be complete before the load begins.
const READY: Duration = Duration::from_secs(30);
/// How long the bridge has to leave in order.
const FAREWELL: Duration = Duration::from_secs(10);

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    length: Duration,
    seed: Option<u64>,
    binary: Option<PathBuf>,
}

fn asked(words: &[String]) -> Result<Asked, String> {
    let mut asked = Asked { length: LENGTH, seed: None, binary: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--for" => asked.length = length(value)?,
            "--seed" => {
                asked.seed = Some(value.parse().map_err(|_| format!("--seed needs a whole number, not {value}"))?);
            }
            "--binary" => asked.binary = Some(value.into()),
            other => return Err(format!("soak knows --for TIME, --seed N and --binary FILE, not {other}")),
        }
    }
    Ok(asked)
}

/// A time such as `90s`, `5m` or `2h`.
fn length(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => 0,
    };
    let length = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds)).map(Duration::from_secs);
    let length = length.filter(|length| *length >= SHORTEST && *length <= Duration::from_hours(72));
    length.ok_or_else(|| format!("--for needs a time from 20s to 72h, such as 90s, 5m or 2h, not {text}"))
}

/// Runs it and prints what came of it; fails if a rule was broken.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let Asked { length, seed, binary } = asked(words)?;
    let binary = binary.map_or_else(|| bench::build(false), Ok)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let plan = Plan::draw(seed.unwrap_or(now.as_secs()), length, PEERS);
    println!("{plan}");
    let folder = Folder::create()?;
    let violations = soak(&plan, &binary, &folder.0)?;
    if violations == 0 {
        return Ok(());
    }
    // What happened there can be read once more.
    let kept = folder.keep();
    Err(format!("the soak of seed {} found {violations} violations; its logs are in {}", plan.seed, kept.display()))
}

/// One whole run. Gives how many rules were broken.
fn soak(plan: &Plan, binary: &Path, folder: &Path) -> Result<u64, String> {
    let record = Arc::new(Record::new());
    let mut broker = Broker::lasting(folder)?;
    let (ours, theirs) = (Proxy::start(broker.port)?, Proxy::start(broker.port)?);
    let peers = Peers::join(broker.port, theirs.port, &record);
    let mut bridge = Bridge::start(binary, ours.port, folder, &record)?;
    let mut client = Client { door: Door::Pipe(bridge.pipe.clone()), record: record.clone() };
    ready(&mut client, &peers)?;

    let before = bridge.sample().descriptors;
    let load = Load::start(plan.seed, &bridge, &record);
    let mut plant = Plant { broker: &mut broker, ours: &ours, theirs: &theirs, peers: &peers, record: &record };
    let roster = sampled(&bridge, &record, plan.trouble.0, || {
        let begun = Instant::now();
        plant.suffer(plan)?;
        let roster = leftovers::roster(&mut client, &peers);
        std::thread::sleep(plan.length.saturating_sub(begun.elapsed()));
        Ok::<_, String>(roster)
    });
    peers.hush();
    let mut left = Left { listed: load.stop(), ..Left::default() };
    let roster = roster?;
    left.descriptors = (before, leftovers::descriptors(&bridge, before));
    left.listed.extend(leftovers::listed(&mut client));
    left.held = leftovers::held(&record);
    let farewell = bridge.end(FAREWELL);
    (left.retained, left.connections) = leftovers::at_the_broker(broker.port, peers.names().len(), &record)?;

    let log = bridge.log();
    let said = [roster.as_ref().err(), farewell.as_ref().err()];
    let wrong: Vec<String> = said.into_iter().flatten().cloned().chain(check::of_log(&log)).collect();
    Ok(record.with(|state| {
        for wrong in wrong {
            state.violate(None, wrong);
        }
        check::judge(state, &left);
        let report = Report {
            plan,
            state,
            swallowed: ours.swallowed() + theirs.swallowed(),
            repeated: ours.repeated() + theirs.repeated(),
            roster: roster.ok(),
            farewell: farewell.ok(),
            log: &log,
        };
        println!("{report}");
        state.violations.len() as u64 + state.more_violations
    }))
}

/// Waits until the bridge sees everybody.
fn ready(client: &mut Client, peers: &Peers) -> Result<(), String> {
    let until = Instant::now() + READY;
    loop {
        match leftovers::roster(client, peers) {
            Ok(_) => return Ok(()),
            Err(why) if Instant::now() > until => return Err(format!("the plant was never complete: {why}")),
            Err(_) => {}
        }
    }
}

/// Does something, and meanwhile looks once a second what the bridge takes up, from the end of its warm-up on.
fn sampled<T>(bridge: &Bridge, record: &Record, warm: Duration, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(warm);
            while !over.load(Ordering::SeqCst) {
                let sample = bridge.sample();
                record.with(|state| state.sample(sample));
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        let done = work();
        over.store(true, Ordering::SeqCst);
        done
    })
}

/// Whatever a plan can do something to.
struct Plant<'a> {
    broker: &'a mut Broker,
    ours: &'a Proxy,
    theirs: &'a Proxy,
    peers: &'a Peers,
    record: &'a Record,
}

impl Plant<'_> {
    /// Does all that the plan says.
    fn suffer(&mut self, plan: &Plan) -> Result<(), String> {
        let begun = Instant::now();
        for step in &plan.steps {
            std::thread::sleep(step.at.saturating_sub(begun.elapsed()));
            let age = self.record.with(|state| {
                *state.faults.entry(step.fault.kind()).or_default() += 1;
                state.age()
            });
            println!("{:8.2} s: {step}", age.as_secs_f64());
            let broker = matches!(step.fault, Fault::Broker { .. });
            let ails = |bad| {
                if broker || step.ails_the_bridge() {
                    self.record.with(|state| state.ails(bad, broker));
                }
            };
            ails(true);
            let done = self.apply(step);
            ails(false);
            done?;
        }
        Ok(())
    }

    fn apply(&mut self, step: &Step) -> Result<(), String> {
        let Step { fault, lasts, line, .. } = *step;
        let line = match line {
            Line::Bridge => self.ours,
            Line::Peers => self.theirs,
        };
        let during = |mode| {
            line.set(mode);
            std::thread::sleep(lasts);
        };
        match fault {
            Fault::Delay { latency, jitter } => during(Mode::Delay { latency, jitter }),
            Fault::Slow { bytes } => during(Mode::Slow { bytes }),
            Fault::Double => during(Mode::Double),
            Fault::Stall => during(Mode::Hold),
            Fault::HalfOpen => {
                during(Mode::Hold);
                line.cut(Cut::Reset);
            }
            Fault::Drop => {
                during(Mode::Swallow);
                line.cut(Cut::Reset);
            }
            Fault::Reset => line.cut(Cut::Reset),
            Fault::Finish => line.cut(Cut::Finish),
            Fault::Broker { killed } => {
                self.broker.stop(killed)?;
                std::thread::sleep(lasts);
                self.broker.again()?;
            }
            Fault::Crash { peer } => {
                self.peers.crash(peer, lasts);
                std::thread::sleep(if lasts == FOR_GOOD { Duration::ZERO } else { lasts });
            }
            Fault::Usurp { peer } => {
                self.peers.usurp(peer);
                std::thread::sleep(lasts);
            }
        }
        line.set(Mode::Clear);
        Ok(())
    }
}

/// A folder for what is temporary; gone when dropped, unless it is kept.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("plantbridge-soak-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let words = |text: &str| asked(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let default = Asked { length: LENGTH, seed: None, binary: None };
        assert_eq!(words(""), Ok(default));
        let all = Asked { length: Duration::from_hours(2), seed: Some(7), binary: Some("x".into()) };
        assert_eq!(words("--for 2h --seed 7 --binary x"), Ok(all));
        for bad in [
            "--for",
            "--for 5",
            "--for 5d",
            "--for 1s",
            "--for é",
            "--seed x",
            "--fast 1",
            "--for 99999999999999999999h",
        ] {
            assert!(words(bad).is_err(), "{bad}");
        }
    }
}
