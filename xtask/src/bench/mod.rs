//! `cargo xtask bench`: what a call through the bridge costs, as a multiple of what the same call costs without it.
//!
//! Both are measured in turns, block by block, over the same broker and against the same peer, so that whatever else the
//! machine does falls on both. The ratios of one run are the result; a time alone says more about the machine.

mod audited;
pub(crate) mod bridge;
pub(crate) mod broker;
mod checks;
mod crowds;
mod fakes;
mod floor;
mod http;
mod hub;
pub(crate) mod layout;
mod library;
mod looks;
pub(crate) mod mqtt;
mod pack;
mod peer;
mod placement;
mod report;
mod scripts;
mod signed;
mod socketio;
pub(crate) mod stats;
mod verbs;
mod watching;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bridge::Bridge;
use broker::{Broker, Kind};
use floor::Floor;
use library::Library;
use looks::LOOKS;
use peer::{DESCRIBED, Peers, UNDESCRIBED};
use placement::{Side, on};
use report::{Crowd, Memory, Report, Round, Spread};

use crate::command::run as run_command;
use crate::install::repository;

/// What is sent and comes back.
const PAYLOAD: &str = "0123456789abcdef";
/// How many calls are in flight at once where throughput is measured: as many as a client may have running.
const IN_FLIGHT: usize = 32;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: usize,
    /// Turns of the floor and the bridge in one round.
    blocks: usize,
    /// Calls one after another in one block.
    calls: usize,
    /// Calls in flight in one block.
    flight: usize,
    starts: usize,
    memory_calls: usize,
    crowd: usize,
    looks: usize,
    fakes: usize,
    /// Calls of others a second that are watched.
    pairs: u64,
    /// Events a second that are watched.
    events: u64,
    /// How long either goes on, in seconds; so long many clients call over HTTP as well.
    seconds: u64,
    scripts: scripts::Amount,
    /// Clients that vanish.
    vanished: usize,
}

const FULL: Plan = Plan {
    rounds: 5,
    blocks: 30,
    calls: 100,
    flight: 1_000,
    starts: 15,
    memory_calls: 10_000,
    crowd: 2_000,
    looks: 200,
    fakes: 500,
    pairs: 5_000,
    events: 10_000,
    seconds: 5,
    scripts: scripts::Amount { starts: 15, seconds: 5, cycles: 1_000 },
    vanished: 10_000,
};
const QUICK: Plan = Plan {
    rounds: 1,
    blocks: 1,
    calls: 50,
    flight: 200,
    starts: 1,
    memory_calls: 200,
    crowd: 200,
    looks: 5,
    fakes: 64,
    pairs: 500,
    events: 1_000,
    seconds: 1,
    scripts: scripts::Amount { starts: 2, seconds: 1, cycles: 5 },
    vanished: 500,
};

/// The parts that can be measured alone.
const SECTIONS: [&str; 9] =
    ["--watching", "--checks", "--fakes", "--hub", "--http", "--signing", "--audit", "--scripts", "--verbs"];

/// What is to be measured: how much, of which binary, and which part alone.
struct Asked {
    plan: Plan,
    binary: Option<PathBuf>,
    only: Option<&'static str>,
    /// Whether benches/README.md gets the table of the verbs.
    readme: bool,
}

/// Reads the words; nothing is to be measured if they ask for the peers alone.
fn asked(words: &[String]) -> Result<Option<Asked>, String> {
    let mut asked = Asked { plan: FULL, binary: None, only: None, readme: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => asked.plan = QUICK,
            "--peers" => return Ok(None),
            "--readme" => asked.readme = true,
            "--binary" => asked.binary = Some(words.next().map(PathBuf::from).ok_or("--binary needs a file")?),
            other => {
                let section = SECTIONS.into_iter().find(|section| *section == other);
                let known = SECTIONS.join(", ");
                asked.only = Some(section.ok_or_else(|| {
                    format!("bench knows --quick, {known}, --readme, --peers and --binary FILE, not {other}")
                })?);
            }
        }
    }
    if asked.readme && (asked.plan.rounds == 1 || asked.only.is_some_and(|only| only != "--verbs")) {
        return Err("--readme wants a whole measurement of the verbs: --verbs, and not --quick".to_owned());
    }
    Ok(Some(asked))
}

/// Measures and prints a table. Words: `--quick` measures a little of everything, of a development build, to see that
/// everything answers; `--watching` measures only how others are watched, `--checks` only how long a large contract takes,
/// `--fakes` only what many fakes cost, `--hub` only calls over a hub and how long a list of two crowds takes, `--http` only the
/// HTTP door, `--signing` only what signatures cost, `--audit` only what the audit trail does, `--scripts` only what scripts do,
/// `--verbs` only what each verb costs, and with `--readme` that table goes into benches/README.md; `--binary FILE` measures that file
/// instead of building one; `--peers` measures nothing and only runs a stock broker and the peers, for a profiler.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let Some(Asked { plan, binary, only, readme }) = asked(words)? else { return serve() };
    let release = plan.rounds > 1;
    let binary = binary.map_or_else(|| build(release), Ok)?;
    let wanted = |section: &str| only.is_none_or(|only| only == section);
    if only.is_none() {
        println!("{}", measure(&binary, &library(release)?, &plan)?);
    }
    let mut missed = Vec::new();
    if wanted("--watching") {
        let watching = watching::measure(&binary, &plan)?;
        println!("{watching}");
        missed.extend(watching.judge().err());
    }
    if wanted("--hub") {
        let hub = hub::measure(&binary, &plan)?;
        println!("{hub}");
        missed.extend(hub.judge().err());
        let crowds = crowds::measure(&binary, &plan)?;
        println!("{crowds}");
        missed.extend(crowds.judge(release).err());
    }
    if wanted("--http") {
        let http = http::measure(&binary, &plan)?;
        println!("{http}");
        missed.extend(http.judge().err());
    }
    if wanted("--signing") {
        let signed = signed::measure(&binary, &plan)?;
        println!("{signed}");
        missed.extend(signed.judge().err());
    }
    if wanted("--audit") {
        let audited = audited::measure(&binary, &plan)?;
        println!("{audited}");
        missed.extend(audited.judge().err());
    }
    if wanted("--checks") {
        let checks = checks::measure(&binary, &plan)?;
        println!("{checks}");
        missed.extend(checks.judge(release).err());
    }
    if wanted("--fakes") {
        let fakes = fakes::measure(&binary, plan.fakes)?;
        println!("{}", report::fakes(&fakes));
        // A development build is larger in everything, and a few fakes say little of what each of them holds.
        missed.extend(fakes.missed(release));
    }
    if wanted("--scripts") {
        let scripts = scripts::measure(&binary, plan.scripts)?;
        println!("{scripts}");
        missed.extend(scripts.missed(release));
    }
    if wanted("--verbs") {
        let verbs = verbs::measure(&binary, &plan)?;
        println!("{verbs}");
        if readme {
            verbs::write_readme(&verbs)?;
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(missed.join("; ")) }
}

/// Runs until standard input ends.
fn serve() -> Result<(), String> {
    let broker = Broker::start(Kind::Stock)?;
    let _peers = Peers::join(broker.port, 0)?;
    println!("mqtt://127.0.0.1:{}", broker.port);
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).map(drop).map_err(|error| error.to_string())
}

/// Builds the bridge.
pub(crate) fn build(release: bool) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repository()).args(["build", "--quiet", "--locked", "--bin", "plantbridge"]);
    // The development build is the one the tests have just used.
    cargo.args(if release {
        ["--release", "--package", "plantbridge"]
    } else {
        ["--workspace", "--features", "interop"]
    });
    run_command(&mut cargo)?;
    let me = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
    let target = me.ancestors().nth(2).ok_or("this program is in no target folder")?;
    Ok(target.join(if release { "release" } else { "debug" }).join("plantbridge"))
}

/// Builds the second floor, `benches/link.rs` and says where it is: its name holds a hash that only cargo knows.
fn library(release: bool) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repository()).args(["build", "--quiet", "--locked", "--package", "plantbridge"]);
    cargo.args(["--bench", "link", "--message-format", "json"]);
    if release {
        cargo.arg("--release");
    }
    let built = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&built.stdout);
    let path = said.lines().filter(|line| line.contains("\"link\"")).find_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        rest.split_once('"').map(|(path, _)| PathBuf::from(path))
    });
    path.ok_or_else(|| format!("benches/link.rs was not built: {}", String::from_utf8_lossy(&built.stderr)))
}

fn measure(binary: &Path, library: &Path, plan: &Plan) -> Result<Report, String> {
    let tuned = rounds(binary, library, plan, Kind::Tuned)?;
    let stock = rounds(binary, library, plan, Kind::Stock)?;
    let broker = Broker::start(Kind::Stock)?;
    let _peers = Peers::join(broker.port, 0)?;
    let mut starts = Vec::new();
    for _ in 0..plan.starts {
        starts.push(Bridge::start(binary, broker.port)?.1.first_answer);
    }
    let memory = memory(binary, plan, broker.port)?;
    let crowd = crowd(binary, plan)?;
    Ok(Report { tuned, stock, starts, memory, crowd })
}

fn rounds(binary: &Path, library: &Path, plan: &Plan, kind: Kind) -> Result<Vec<Round>, String> {
    let plant = || {
        let broker = Broker::start(kind)?;
        Peers::join(broker.port, 0).map(|peers| (broker, peers))
    };
    let (broker, _peers) = on(Side::Plant, plant)?;
    on(Side::Callers, || callers(binary, library, plan, broker.port))
}

fn callers(binary: &Path, library: &Path, plan: &Plan, port: u16) -> Result<Vec<Round>, String> {
    let mut callers = (Floor::join(port)?, Library::join(library, port)?, Bridge::start(binary, port)?.0);
    let (floor, library, bridge) = (&mut callers.0, &mut callers.1, &mut callers.2);
    // Caches fill, and the peers are described or found not to be.
    for peer in [DESCRIBED, UNDESCRIBED] {
        bridge.sequential(peer, plan.calls.min(100), &mut Vec::new())?;
    }
    floor.sequential(plan.calls.min(100), &mut Vec::new())?;
    library.sequential(DESCRIBED, plan.calls.min(100), &mut Vec::new())?;
    (0..plan.rounds).map(|_| round(plan, floor, library, bridge)).collect()
}

fn round(plan: &Plan, floor: &mut Floor, library: &mut Library, bridge: &mut Bridge) -> Result<Round, String> {
    let (mut bare, mut linked, mut described, mut undescribed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut looks: [Vec<Duration>; LOOKS.len()] = Default::default();
    let (mut bare_flight, mut link_flight, mut bridge_flight) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for _ in 0..plan.blocks {
        floor.sequential(plan.calls, &mut bare)?;
        library.sequential(DESCRIBED, plan.calls, &mut linked)?;
        bridge.sequential(DESCRIBED, plan.calls, &mut described)?;
        bridge.sequential(UNDESCRIBED, plan.calls, &mut undescribed)?;
        for (look, samples) in LOOKS.iter().zip(&mut looks) {
            bridge.repeated(look.tool, &look.arguments(), plan.calls, samples)?;
        }
    }
    for _ in 0..plan.blocks {
        bare_flight += floor.flight(plan.flight, IN_FLIGHT)?;
        link_flight += library.flight(DESCRIBED, plan.flight, IN_FLIGHT)?;
        bridge_flight += bridge.flight(DESCRIBED, plan.flight, IN_FLIGHT)?;
    }
    #[expect(clippy::cast_precision_loss, reason = "some ten thousand calls")]
    let rate = |took: Duration| (plan.flight * plan.blocks) as f64 / took.as_secs_f64();
    Ok(Round {
        floor: (&mut bare).into(),
        library: (&mut linked).into(),
        described: (&mut described).into(),
        undescribed: (&mut undescribed).into(),
        looks: looks.each_mut().map(Spread::from),
        floor_rate: rate(bare_flight),
        library_rate: rate(link_flight),
        bridge_rate: rate(bridge_flight),
    })
}

/// What a bridge holds after its start, after so many calls, and after as many again.
fn memory(binary: &Path, plan: &Plan, port: u16) -> Result<Memory, String> {
    let mut bridge = Bridge::start(binary, port)?.0;
    bridge.tool("list_peers", "{}")?;
    let idle = bridge.resident();
    let mut after = Vec::new();
    for _ in 0..3 {
        bridge.sequential(DESCRIBED, plan.memory_calls / 2, &mut Vec::new())?;
        bridge.flight(DESCRIBED, plan.memory_calls / 2, IN_FLIGHT)?;
        after.push(bridge.resident());
    }
    Ok(Memory { calls: plan.memory_calls, idle, after })
}

/// The looks at a network on which many peers are.
fn crowd(binary: &Path, plan: &Plan) -> Result<Crowd, String> {
    let broker = Broker::start(Kind::Stock)?;
    let _peers = Peers::join(broker.port, plan.crowd)?;
    let total = format!("\"matched\":{}", plan.crowd + 2);
    let describe = format!("{{\"peer\":\"{DESCRIBED}\"}}");
    let (mut listed, mut described) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let mut bridge = Bridge::start(binary, broker.port)?.0;
        let answer = bridge.tool("list_peers", "{}")?;
        listed.push(bridge.age());
        if !answer.contains(&total) {
            return Err(format!("the first answer of list_peers is not complete: {answer}"));
        }
        let mut bridge = Bridge::start(binary, broker.port)?.0;
        bridge.tool("describe_peer", &describe)?;
        described.push(bridge.age());
    }
    let mut bridge = Bridge::start(binary, broker.port)?.0;
    bridge.tool("list_peers", "{}")?;
    let mut resident = vec![bridge.resident()];
    for _ in 0..3 {
        for _ in 0..plan.looks {
            bridge.tool("list_peers", "{}")?;
            bridge.tool("describe_peer", &describe)?;
        }
        resident.push(bridge.resident());
    }
    Ok(Crowd { peers: plan.crowd, looks: plan.looks, listed, described, resident })
}
