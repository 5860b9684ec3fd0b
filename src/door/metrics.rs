//! The counts of the process as text, in the exposition format 0.0.4 of Prometheus. Written by hand: it is a few lines a number,
//! and a registry of its own would count everything a second time. That others can read it is tested with their parser
//! (`tests/interop/metrics.rs`).
//!
//! No label is a word of a client or of the network: tools, codes, statuses, links and listeners are all known from the start, so
//! that the number of series is bounded whatever is sent to us.

use std::fmt::{Display, Write as _};

use super::http::Meters;
use crate::{
    mcp::{Counts, ToolEnd},
    node::{BOUNDS_US, CallEnd, Distribution, LinkState},
};

/// The type of the text.
pub(super) const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text.
pub(super) fn render(counts: &Counts, doors: &Meters) -> String {
    let mut page = Page(String::with_capacity(16 * 1024));
    process(&mut page, counts);
    links(&mut page, &counts.links);
    network(&mut page, counts);
    held(&mut page, counts);
    tools(&mut page, counts);
    listeners(&mut page, counts, doors);
    page.0
}

fn process(page: &mut Page, counts: &Counts) {
    page.family("plantbridge_build_info", GAUGE, "Always 1; the label says which version runs.");
    page.sample("plantbridge_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.family("process_start_time_seconds", GAUGE, "When the process started, in seconds since the Unix epoch.");
    page.sample("process_start_time_seconds", &[], seconds(counts.started_ms.unsigned_abs().saturating_mul(1_000)));
    if let Some(bytes) = counts.resident_bytes {
        page.one("process_resident_memory_bytes", GAUGE, "Memory that is resident.", bytes);
    }
    if let Some(open) = counts.open_files {
        page.one("process_open_fds", GAUGE, "Open files, sockets among them.", open);
    }
}

fn links(page: &mut Page, links: &[(String, LinkState)]) {
    let mut each = |name: &str, kind, help: &str, value: &dyn Fn(&LinkState) -> u64| {
        page.family(name, kind, help);
        for (number, (link, state)) in links.iter().enumerate() {
            page.sample(name, &[("link", &number.to_string()), ("kind", link)], value(state));
        }
    };
    each("plantbridge_link_up", GAUGE, "Whether the link to the network is up.", &|link| link.down.is_none().into());
    each("plantbridge_link_reconnects_total", COUNTER, "How often the link came back.", &LinkState::reconnects);
}

fn network(page: &mut Page, counts: &Counts) {
    let node = &counts.held.node;
    let name = "plantbridge_network_calls_total";
    page.family(name, COUNTER, "Calls on the network by how they ended, those the bridge makes for itself included.");
    for (end, count) in CallEnd::ALL.into_iter().zip(node.ended) {
        page.sample(name, &[("outcome", end.as_str())], count);
    }
    page.one("plantbridge_network_calls_open", GAUGE, "Calls on the network that have not ended.", node.open);
    let name = "plantbridge_network_call_duration_seconds";
    page.family(name, HISTOGRAM, "How long answers on the network took, refusals of peers among them.");
    page.histogram(name, &[], &node.latency);
    page.one(
        "plantbridge_command_queue",
        GAUGE,
        "Commands that wait for the task that drives the network.",
        node.queued,
    );
    page.one("plantbridge_command_queue_limit", GAUGE, "How many of them may.", node.queue);
    let help = "Events that fell off because whoever listened was too slow.";
    page.one("plantbridge_deliveries_dropped_total", COUNTER, help, node.fell_off);
}

fn held(page: &mut Page, counts: &Counts) {
    let held = &counts.held;
    page.one("plantbridge_peers", GAUGE, "Peers that a link leads to which is up.", held.peers);
    let help = "Peers that were forgotten because too many were there.";
    page.one("plantbridge_peers_forgotten_total", COUNTER, help, held.peers_forgotten);
    page.one("plantbridge_fakes", GAUGE, "Fakes of this bridge.", held.fakes);
    page.one("plantbridge_watches", GAUGE, "Standing watches.", held.watches);
    page.one("plantbridge_watch_records", GAUGE, "Records that standing watches hold.", held.watch_records);
    let help = "Events that clients were told they missed; what is told again counts again.";
    page.one("plantbridge_events_missed_total", COUNTER, help, held.events_missed);
    page.one("plantbridge_tickets_open", GAUGE, "Later answers that are awaited.", held.tickets_open);
    page.one("plantbridge_tickets", GAUGE, "Later answers that are kept, those among them.", held.tickets);
    page.one("plantbridge_scripts", GAUGE, "Scripts that run.", held.scripts);
}

fn tools(page: &mut Page, counts: &Counts) {
    // A tool that nobody has called yet has no series: thirty tools with twenty each are many to say nothing with.
    let called = || counts.tools.iter().filter(|tool| tool.took.count() > 0);
    let name = "plantbridge_tool_calls_total";
    page.family(name, COUNTER, "Tool calls by tool and by what may be concluded of them.");
    for tool in called() {
        for (end, count) in ToolEnd::ALL.into_iter().zip(tool.ended) {
            page.sample(name, &[("tool", tool.name), ("outcome", end.as_str())], count);
        }
    }
    let name = "plantbridge_tool_call_duration_seconds";
    page.family(name, HISTOGRAM, "How long tool calls took, the waiting for their turn included.");
    for tool in called() {
        page.histogram(name, &[("tool", tool.name)], &tool.took);
    }
    let name = "plantbridge_refusals_total";
    page.family(name, COUNTER, "Tool calls that were refused, by error code.");
    for (code, count) in &counts.refusals {
        page.sample(name, &[("code", code.as_str())], count);
    }
}

fn listeners(page: &mut Page, counts: &Counts, doors: &Meters) {
    page.family("plantbridge_clients", GAUGE, "Clients that are there, by the door they came through.");
    for (door, clients) in &counts.clients {
        page.sample("plantbridge_clients", &[("door", door)], clients);
    }
    let all: Vec<_> = doors.counts().filter(|listener| listener.connections + listener.turned_away > 0).collect();
    let mut each = |name: &str, kind, help: &str, value: &dyn Fn(usize) -> Option<u64>| {
        page.family(name, kind, help);
        for (at, listener) in all.iter().enumerate() {
            page.sample(name, &[("listener", listener.listener)], value(at).unwrap_or_default());
        }
    };
    let name = "plantbridge_http_connections_open";
    each(name, GAUGE, "Connections that are open.", &|at| all.get(at).map(|listener| listener.open));
    let name = "plantbridge_http_connections_total";
    each(name, COUNTER, "Connections that were given a place.", &|at| all.get(at).map(|listener| listener.connections));
    let name = "plantbridge_http_connections_refused_total";
    each(name, COUNTER, "Connections there was no room for.", &|at| all.get(at).map(|listener| listener.turned_away));
    let name = "plantbridge_http_requests_total";
    page.family(name, COUNTER, "Requests by the status they were answered with; what is no request is not among them.");
    for listener in &all {
        for (status, count) in &listener.answers {
            let status = status.map_or_else(|| "other".to_owned(), |status| status.to_string());
            page.sample(name, &[("listener", listener.listener), ("status", &status)], count);
        }
    }
}

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";
const HISTOGRAM: &str = "histogram";

/// Microseconds as seconds, exactly.
fn seconds(micros: u64) -> impl Display {
    struct Seconds(u64);
    impl Display for Seconds {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
            let part = format!("{part:06}");
            let part = part.trim_end_matches('0');
            if part.is_empty() { write!(f, "{whole}") } else { write!(f, "{whole}.{part}") }
        }
    }
    Seconds(micros)
}

/// The text as it grows.
struct Page(String);

impl Page {
    /// What the samples that follow are.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ =
            writeln!(self.0, "# HELP {name} {}\n# TYPE {name} {kind}", help.replace('\\', "\\\\").replace('\n', "\\n"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{}\"", escaped(text));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }

    /// A family of one.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], times: &Distribution) {
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        let bounds = BOUNDS_US.into_iter().map(|bound| seconds(bound).to_string()).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(times.buckets) {
            below += count;
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample(&bucket, &labels, below);
        }
        self.sample(&format!("{name}_sum"), labels, seconds(times.sum_us));
        self.sample(&format!("{name}_count"), labels, times.count());
    }
}

/// A label's text, of which nothing ends the label or the line.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        let shown = [0, 1, 250, 1_000, 2_500_000, 30_000_000, 1_234_567].map(|micros| seconds(micros).to_string());
        assert_eq!(shown, ["0", "0.000001", "0.00025", "0.001", "2.5", "30", "1.234567"]);
    }

    /// Whatever a label holds, it ends where it is closed and starts no line.
    #[test]
    fn a_label_is_escaped() {
        let mut page = Page(String::new());
        page.sample("x", &[("a", "b\\\"\nc"), ("d", "")], 1);
        assert_eq!(page.0, "x{a=\"b\\\\\\\"\\nc\",d=\"\"} 1\n");
    }

    #[test]
    fn a_histogram_ends_with_its_count() {
        let mut page = Page(String::new());
        let mut times = Distribution::default();
        (times.buckets[0], times.buckets[16], times.sum_us) = (2, 1, 40_000_100);
        page.histogram("t", &[("tool", "x")], &times);
        let lines: Vec<&str> = page.0.lines().collect();
        assert_eq!(lines.first(), Some(&"t_bucket{tool=\"x\",le=\"0.00025\"} 2"));
        let last = ["t_bucket{tool=\"x\",le=\"+Inf\"} 3", "t_sum{tool=\"x\"} 40.0001", "t_count{tool=\"x\"} 3"];
        assert_eq!(lines[lines.len() - 3..], last);
    }
}
