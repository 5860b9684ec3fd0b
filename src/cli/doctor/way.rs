//! The way to a broker or a hub, as findings: the name, the socket, TLS.

use std::{net::IpAddr, time::Duration};

use super::finding::Finding;
use crate::{
    link::{
        reach::{Reach, Secured},
        trust::Trust,
    },
    mcp::text,
    wire::instant,
};

/// What is known of the way beforehand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    /// `broker` or `hub`.
    pub(super) to: &'a str,
    pub(super) host: &'a str,
    pub(super) port: u16,
    /// Whether it is to be TLS.
    pub(super) tls: bool,
    /// Which certificate is trusted.
    pub(super) trust: Trust,
    /// Whether something secret goes there.
    pub(super) tells: bool,
    /// Now, in milliseconds since the Unix epoch.
    pub(super) now_ms: i64,
    /// A certificate that ends within so many days is worth a word.
    pub(super) days: u16,
}

/// What is right and wrong on the way.
pub(super) fn findings(way: &Way<'_>, reach: &Reach) -> Vec<Finding> {
    let Way { to, host, port, .. } = *way;
    let check = |what: &str| format!("{to}.{what}");
    let mut out = Vec::new();
    match &reach.found {
        Ok((count, took)) => {
            let addresses = if *count == 1 { "one address".into() } else { format!("{count} addresses") };
            let said = format!("{} has {addresses}, learned in {}", shown(host), millis(*took));
            out.push(Finding::fine(&check("address"), said).figure("addresses", *count));
        }
        Err(why) => out.push(
            Finding::wrong(&check("address"), format!("{} cannot be looked up: {}", shown(host), shown(why)))
                .next("see how the name is spelt and that this machine's name service knows it, or give an address"),
        ),
    }
    match &reach.opened {
        None => out.push(Finding::unchecked(&check("socket"), "there is no address to connect to")),
        Some(Ok(took)) => {
            let said = format!("port {port} takes connections, in {}", millis(*took));
            out.push(Finding::fine(&check("socket"), said).figure("connect_ms", to_millis(*took)));
        }
        Some(Err(why)) => out.push(
            Finding::wrong(&check("socket"), format!("nobody answers at port {port}: {}", shown(why)))
                .next(format!("see that the {to} runs and listens there, and that no firewall is between")),
        ),
    }
    out.push(encryption(way, reach));
    out
}

fn encryption(way: &Way<'_>, reach: &Reach) -> Finding {
    let check = format!("{}.tls", way.to);
    if !way.tls {
        return plain(way, &check);
    }
    match &reach.secured {
        None => Finding::unchecked(&check, "there is no connection to agree on it"),
        Some(Err(why)) => Finding::wrong(&check, shown(why)).next(
            "trust what is shown, if it is the right one: --ca FILE names the authority that made it, --server-name NAME what it is for, --pin SHA256 this very certificate; --client-cert and --client-key if ours is wanted",
        ),
        Some(Ok(secured)) => certificate(way, &check, secured),
    }
}

fn plain(way: &Way<'_>, check: &str) -> Finding {
    let near = way.host == "localhost" || way.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let scheme = if way.to == "hub" { "https://" } else { "mqtts:// or wss://" };
    match (near, way.tells) {
        (true, _) => Finding::fine(check, "no TLS, on a way that does not leave this machine"),
        (false, false) => Finding::warning(check, "no TLS: whoever is between reads everything, and can change it")
            .next(format!("use {scheme}, if there is such a port")),
        (false, true) => Finding::wrong(check, "no TLS: what we present to be let in can be read on the way")
            .next(format!("use {scheme}, if there is such a port; then change what could be read")),
    }
}

fn certificate(way: &Way<'_>, check: &str, secured: &Secured) -> Finding {
    let held = match way.trust {
        Trust::Authorities => "of an authority that is trusted, for this name",
        Trust::Pinned(_) => "the pinned one",
        Trust::Anyone => "taken unseen",
    };
    let left = secured.ends_ms.map(|ends| (ends - way.now_ms).div_euclid(DAY_MS));
    let until = match (secured.ends_ms, left) {
        (Some(ends), Some(left)) => {
            let date = instant::format(ends);
            let date = date.get(..10).unwrap_or_default();
            if left < 0 { format!("; its time ended on {date}") } else { format!("; {left} days left, to {date}") }
        }
        _ => String::new(),
    };
    let said = format!("TLS {}, the certificate is {held}{until}", secured.version);
    let finding = match (way.trust, left) {
        (Trust::Anyone, _) => Finding::warning(check, said).next("leave --insecure-tls away, beside any plant"),
        (_, Some(left)) if left < i64::from(way.days) => {
            Finding::warning(check, said).next("have it renewed, and a new --pin ready if this one is pinned")
        }
        _ => Finding::fine(check, said),
    };
    let digest = secured.digest.map(|digest| digest.to_string());
    finding.figure("version", secured.version).figure("days_left", left).figure("sha256", digest)
}

/// A time in words.
pub(super) fn millis(took: Duration) -> String {
    format!("{:.2} ms", to_millis(took))
}

/// The same as a figure: milliseconds with two places.
pub(super) fn to_millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 100_000.0).round() / 100.0
}

/// Words of others: one line, and not too long.
pub(super) fn shown(words: &str) -> String {
    let (head, cut) = text::cut(words, LONGEST);
    if cut { format!("{head}{}", text::ELLIPSIS) } else { head.to_owned() }
}

/// Bytes of the words of others in a sentence.
const LONGEST: usize = 400;
const DAY_MS: i64 = 86_400_000;
