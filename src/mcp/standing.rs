//! How the bridge stands: the one answer of `bridge_status` and of `plant://status`, and what the door makes its metrics of.
//! Nobody is asked; it is there whatever becomes of the network.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    ErrorCode, Source, meter::Meter, meter::ToolCounts, meter::ToolEnd, process, refusal::down_word, server::Server,
    text,
};
use crate::{
    node::{CallEnd, LinkState},
    plant::{Holdings, Plant},
    wire::instant,
};

/// How the bridge stands, as a client sees it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Standing {
    /// Its name on the network.
    name: String,
    version: &'static str,
    started_at: String,
    uptime_s: u64,
    /// Whether you may only look.
    read_only: bool,
    /// What the command line switched on: contracts, scripts, allow_exec, development.
    grants: Vec<&'static str>,
    /// Whether a link to a network is up.
    on_network: bool,
    links: Vec<Link>,
    /// Peers that a link leads to which is up.
    peers: usize,
    /// Peers that were forgotten because too many were there.
    peers_forgotten: u64,
    fakes: usize,
    watches: usize,
    /// Scripts of this bridge that run.
    scripts: usize,
    /// Later answers that are awaited.
    tickets_open: usize,
    /// Events that clients were told they missed.
    events_missed: u64,
    /// Tool calls since the start, by what may be concluded.
    tool_calls: ToolCalls,
    /// Refusals of tool calls since the start, by code.
    refusals: Vec<Refusals>,
    /// Calls on the network since the start, those the bridge makes for itself included.
    network_calls: NetworkCalls,
    queues: Queues,
    /// Doors that are open, and how many clients are there through each.
    doors: Vec<Clients>,
    process: Process,
    source: Source,
}

/// One link to a network.
#[derive(Debug, Serialize, JsonSchema)]
struct Link {
    name: String,
    /// up, or down.
    state: &'static str,
    /// Since when; without it, since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// How often it came back.
    reconnects: u64,
    /// Why it is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Why it was down last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct ToolCalls {
    ok: u64,
    not_run: u64,
    ran: u64,
    unknown: u64,
    failed: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Refusals {
    code: &'static str,
    times: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NetworkCalls {
    answered: u64,
    refused: u64,
    not_sent: u64,
    unknown: u64,
    abandoned: u64,
    open: u64,
    /// How long answers took, estimated from a histogram; without it nothing was answered yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<Latency>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Latency {
    p50: f64,
    p90: f64,
    p99: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Queues {
    /// Commands that wait for the task that drives the network.
    commands: usize,
    /// How many may.
    commands_limit: usize,
    /// Records that standing watches hold.
    watch_records: usize,
    /// Events that fell off because whoever listened was too slow.
    deliveries_fell_off: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Clients {
    door: &'static str,
    clients: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Process {
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_files: Option<u64>,
}

/// How it stands now, for a client that may only look or for any other.
pub(super) fn standing(plant: &Plant, meter: &Meter, looks: bool) -> Standing {
    let held = plant.holdings();
    let links = plant.link_states();
    Standing {
        name: plant.name().to_string(),
        version: env!("CARGO_PKG_VERSION"),
        started_at: instant::format(meter.started_ms()),
        uptime_s: meter.uptime().as_secs(),
        read_only: looks || meter.offer.read_only,
        grants: meter.grants(),
        on_network: links.iter().any(|(_, link)| link.down.is_none()),
        links: links.into_iter().map(|(name, link)| Link::new(name, &link)).collect(),
        peers: held.peers,
        peers_forgotten: held.peers_forgotten,
        fakes: held.fakes,
        watches: held.watches,
        scripts: held.scripts,
        tickets_open: held.tickets_open,
        events_missed: held.events_missed,
        tool_calls: ToolCalls::of(meter),
        refusals: meter.refusals().map(|(code, times)| Refusals { code: code.as_str(), times }).collect(),
        network_calls: NetworkCalls::of(&held),
        queues: Queues {
            commands: held.node.queued,
            commands_limit: held.node.queue,
            watch_records: held.watch_records,
            deliveries_fell_off: held.node.fell_off,
        },
        doors: meter.doors().map(|(door, clients)| Clients { door: door.as_str(), clients }).collect(),
        process: Process { resident_bytes: process::resident_bytes(), open_files: process::open_files() },
        source: Source::bridge(),
    }
}

/// Bytes of why a link is down.
const LONGEST_DETAIL: usize = 512;

fn detail(text: &str) -> String {
    text::printable(text, LONGEST_DETAIL)
}

impl Link {
    fn new(name: String, link: &LinkState) -> Self {
        let down = link.down.as_ref();
        Self {
            name,
            state: if down.is_none() { "up" } else { "down" },
            since: link.since_ms.map(instant::format),
            reconnects: link.reconnects(),
            kind: down.map(|down| down_word(down.kind)),
            detail: down.map(|down| detail(&down.detail)),
            last_error: link
                .last_down
                .as_ref()
                .map(|last| format!("{}: {}", down_word(last.kind), detail(&last.detail))),
        }
    }
}

impl ToolCalls {
    fn of(meter: &Meter) -> Self {
        let mut all = Self::default();
        for counts in meter.tools() {
            for (end, count) in ToolEnd::ALL.into_iter().zip(counts.ended) {
                *match end {
                    ToolEnd::Ok => &mut all.ok,
                    ToolEnd::NotRun => &mut all.not_run,
                    ToolEnd::Ran => &mut all.ran,
                    ToolEnd::Unknown => &mut all.unknown,
                    ToolEnd::Failed => &mut all.failed,
                } += count;
            }
        }
        all
    }
}

impl NetworkCalls {
    fn of(held: &Holdings) -> Self {
        let ended = |end: CallEnd| held.node.ended.get(end as usize).copied().unwrap_or_default();
        let times = held.node.latency;
        #[expect(clippy::cast_precision_loss, reason = "thirty seconds are fewer microseconds than a float counts")]
        let ms = |share: f64| times.quantile_us(share).map(|micros| micros as f64 / 1e3);
        let latency_ms = ms(0.5).zip(ms(0.9)).zip(ms(0.99)).map(|((p50, p90), p99)| Latency { p50, p90, p99 });
        Self {
            answered: ended(CallEnd::Answered),
            refused: ended(CallEnd::Refused),
            not_sent: ended(CallEnd::NotSent),
            unknown: ended(CallEnd::Unknown),
            abandoned: ended(CallEnd::Abandoned),
            open: held.node.open,
            latency_ms,
        }
    }
}

/// What a door makes metrics of: everything is copied, from counts that may be a moment apart.
#[derive(Debug)]
pub(crate) struct Counts {
    /// When the process started, in milliseconds since the Unix epoch.
    pub(crate) started_ms: i64,
    pub(crate) held: Holdings,
    pub(crate) links: Vec<(String, LinkState)>,
    pub(crate) tools: Vec<ToolCounts>,
    pub(crate) refusals: Vec<(ErrorCode, u64)>,
    /// Clients by door.
    pub(crate) clients: Vec<(&'static str, usize)>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) open_files: Option<u64>,
}

/// Whether the bridge can do what it is there for.
#[derive(Debug)]
pub(crate) struct Readiness {
    /// It was asked to end.
    pub(crate) leaving: bool,
    /// The task that drives the network lives.
    pub(crate) alive: bool,
    /// Links that are down.
    pub(crate) down: Vec<LinkDown>,
}

/// A link that is down.
#[derive(Debug)]
pub(crate) struct LinkDown {
    /// Its number.
    pub(crate) number: usize,
    /// What it leads to, in a word.
    pub(crate) name: String,
    /// What is wrong, in a word.
    pub(crate) trouble: &'static str,
    /// For how long.
    pub(crate) since: Duration,
}

impl Server {
    /// Everything that is counted.
    pub(crate) fn counts(&self) -> Counts {
        let meter = self.meter();
        Counts {
            started_ms: meter.started_ms(),
            held: self.plant().holdings(),
            links: self.plant().link_states(),
            tools: meter.tools().collect(),
            refusals: meter.refusals().collect(),
            clients: meter.doors().map(|(door, clients)| (door.as_str(), clients)).collect(),
            resident_bytes: process::resident_bytes(),
            open_files: process::open_files(),
        }
    }

    /// Whether it can do what it is there for.
    pub(crate) fn readiness(&self) -> Readiness {
        let meter = self.meter();
        let since = |link: &LinkState| {
            let ms = crate::link::now_ms().saturating_sub(link.since_ms.unwrap_or(meter.started_ms()));
            Duration::from_millis(u64::try_from(ms).unwrap_or_default())
        };
        let links = self.plant().link_states();
        let down = links.into_iter().enumerate().filter_map(|(number, (name, link))| {
            let (trouble, since) = (down_word(link.down.as_ref()?.kind), since(&link));
            Some(LinkDown { number, name, trouble, since })
        });
        Readiness { leaving: meter.is_leaving(), alive: self.plant().is_alive(), down: down.collect() }
    }
}
