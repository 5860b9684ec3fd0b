//! How long `list_peers` takes where a broker and a hub show two thousand peers each.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Plan;
use super::bridge::Bridge;
use super::broker::{Broker, Kind};
use super::hub::Hub;
use super::peer::Peers;
use super::socketio::Connection;
use super::stats::percentile;

/// How long it may take, at the median.
const WANTED: Duration = Duration::from_millis(5);
/// How many peers one connection to a hub may carry.
const CARRIED: usize = 1_000;
/// What is asked for: a page as it comes, and the largest there is.
const PAGES: [(&str, &str); 2] = [("a page of 50", "{}"), ("a page of 500", "{\"limit\":500}")];

/// What was measured.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    crowd: usize,
    /// Median and longest, of each kind of page.
    pages: Vec<(Duration, Duration)>,
}

pub(super) fn measure(binary: &Path, plan: &Plan) -> Result<Measured, String> {
    let (broker, hub) = (Broker::start(Kind::Stock)?, Hub::start()?);
    let _peers = Peers::join(broker.port, plan.crowd)?;
    let mut carriers = Vec::new();
    let names: Vec<String> = (0..plan.crowd).map(|number| format!("hub-device-{number:05}")).collect();
    for (number, carried) in names.chunks(CARRIED).enumerate() {
        let name = format!("carrier-{number}");
        let mut carrier = Connection::open(hub.port, &name)?;
        carrier.carry(&name, carried)?;
        carriers.push(carrier);
    }
    let (broker, at) = (format!("mqtt://127.0.0.1:{}", broker.port), format!("http://127.0.0.1:{}", hub.port));
    let mut bridge = Bridge::start_at(binary, &["--broker", &broker, "--hub", &at])?;
    // Two of the broker's peers are not of the crowd; the hub is a peer itself.
    let total = format!("\"matched\":{},", 2 * plan.crowd + 2 + carriers.len() + 1);
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = bridge.tool("list_peers", "{}")?;
        if answer.contains(&total) {
            break;
        }
        if Instant::now() > until {
            let answer: String = answer.chars().rev().take(600).collect::<Vec<_>>().into_iter().rev().collect();
            return Err(format!("not all of {total} are listed: …{answer}"));
        }
    }
    let mut pages = Vec::new();
    for (_, arguments) in PAGES {
        let mut samples = Vec::new();
        bridge.repeated("list_peers", arguments, plan.looks, &mut samples)?;
        pages.push((percentile(&mut samples, 0.5), percentile(&mut samples, 1.0)));
    }
    Ok(Measured { crowd: plan.crowd, pages })
}

impl Measured {
    /// Whether it is as fast as wanted. A development build, and fewer peers, decide nothing.
    pub(super) fn judge(&self, release: bool) -> Result<(), String> {
        match self.pages.first() {
            Some((median, _)) if release && *median > WANTED => {
                Err(format!("list_peers takes {median:.1?} over two links, and {WANTED:?} are wanted"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "| `list_peers`, {} peers on each of two links | median | longest |", self.crowd)?;
        writeln!(out, "| --- | --- | --- |")?;
        for ((what, _), (median, longest)) in PAGES.iter().zip(&self.pages) {
            let ms = |time: &Duration| time.as_secs_f64() * 1_000.0;
            writeln!(out, "| {what} | {:.2} ms | {:.2} ms |", ms(median), ms(longest))?;
        }
        Ok(())
    }
}
