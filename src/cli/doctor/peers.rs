//! Who is there and who answers, as findings.

use std::{collections::BTreeSet, time::Duration};

use super::{
    ear::Ear,
    finding::Finding,
    way::{millis, shown, to_millis},
};
use crate::plant::{Census, CensusAnswer, Counted};

/// What the peers are held against.
#[derive(Debug, Default)]
pub(super) struct Against {
    /// Whether frames are signed.
    pub(super) signs: bool,
    /// Whose signatures are known; absent where all are taken.
    pub(super) believed: Option<BTreeSet<String>>,
    /// How long a message to ourselves takes.
    pub(super) hurried: Option<Duration>,
}

/// What is right and wrong with them.
pub(super) fn findings(census: &Census, ear: Option<&Ear>, against: &Against) -> Vec<Finding> {
    let mut out = Vec::new();
    for (link, why) in &census.down {
        out.push(
            Finding::wrong("network.link", format!("{link} is down: {}", shown(&why.detail))).next(
                "if somebody else joined under our name, choose another --name; else see the log at the other end",
            ),
        );
    }
    out.push(roster(census));
    out.extend(introspection(census));
    out.extend(silent(census, ear, against));
    out.extend(slow(census, against));
    out.extend(signatures(ear, against));
    out.push(clock(ear, against));
    out
}

fn roster(census: &Census) -> Finding {
    let there = census.peers.len() + census.unasked;
    let finding = match (there, census.unasked) {
        (0, _) => Finding::warning("peers.there", "nobody else is on the network")
            .next("if somebody should be: see that they use the same broker or hub and the same --prefix"),
        (1, 0) => Finding::fine("peers.there", "one peer is on the network"),
        (there, 0) => Finding::fine("peers.there", format!("{there} peers are on the network")),
        (there, left) => {
            Finding::warning("peers.there", format!("{there} peers are on the network, and {left} were not asked"))
                .next("plantbridge describe PEER asks one of them")
        }
    };
    finding.figure("peers", there).figure("unasked", census.unasked)
}

fn introspection(census: &Census) -> Vec<Finding> {
    let is = |peer: &&Counted| matches!(peer.answer, CensusAnswer::Undescribed(_));
    let described = census.peers.iter().filter(|peer| matches!(peer.answer, CensusAnswer::Described(_))).count();
    let mut out = Vec::new();
    let without: Vec<&Counted> = census.peers.iter().filter(is).collect();
    if !without.is_empty() {
        let said = format!("{} answer and do not describe themselves: {}", without.len(), names(&without));
        out.push(
            Finding::warning("peers.introspection", said)
                .next("calls to them go out unchecked, and are refused by --read-only; update them, if they can be")
                .figure("peers", listed(&without)),
        );
    } else if described > 0 {
        let said = format!("all that answer describe themselves: {described}");
        out.push(Finding::fine("peers.introspection", said).figure("described", described));
    }
    let unasked: Vec<&Counted> =
        census.peers.iter().filter(|peer| matches!(peer.answer, CensusAnswer::Unasked(_))).collect();
    if let Some(CensusAnswer::Unasked(why)) = unasked.first().map(|peer| &peer.answer) {
        let said = format!("{} could not be asked: {} ({})", unasked.len(), names(&unasked), shown(why));
        out.push(Finding::unchecked("peers.answers", said).figure("peers", listed(&unasked)));
    }
    out
}

/// Who does not answer, and what is known of why.
fn silent(census: &Census, ear: Option<&Ear>, against: &Against) -> Vec<Finding> {
    let silent: Vec<&Counted> = census.peers.iter().filter(|peer| peer.answer == CensusAnswer::Silent).collect();
    let (serving, quiet): (Vec<&Counted>, Vec<&Counted>) = silent.iter().copied().partition(|peer| peer.announces);
    let mut out = Vec::new();
    for peer in &serving {
        let name = peer.name.as_str();
        let voice = ear.and_then(|ear| ear.peers.get(name));
        let unlisted = against.believed.as_ref().is_some_and(|believed| !believed.contains(name));
        let (said, next) = if unlisted {
            (
                " and the key file lists no key of it, so that nothing it says is taken",
                "list its key in the file of --sign, and ours in its own",
            )
        } else if voice.is_some_and(|voice| voice.unsigned > 0 && voice.signed == 0) && against.believed.is_some() {
            (" that could be believed: what it sends is not signed", "have it sign with the key that is listed for it")
        } else if against.signs {
            (
                "; on a signed network, one that does not believe us is silent too",
                "see that its key file lists our key, and that the clocks agree",
            )
        } else {
            (
                ", though it announces that it serves something",
                "see whether it hangs, and what the broker's access list says of it; if it signs, give us --sign",
            )
        };
        out.push(
            Finding::wrong("peers.answers", format!("{} gives no answer{said}", shown(name)))
                .next(next)
                .figure("peer", name),
        );
    }
    if !quiet.is_empty() {
        let said = format!("{} give no answer and announce nothing: {}", quiet.len(), names(&quiet));
        out.push(
            Finding::warning("peers.answers", said)
                .next("nothing, if they only call others; else see whether they hang")
                .figure("peers", listed(&quiet)),
        );
    }
    let answered = census.peers.iter().filter(|peer| peer.took.is_some()).count();
    if out.is_empty() && answered > 0 {
        out.push(Finding::fine("peers.answers", format!("everybody who was asked answers: {answered}")));
    }
    out
}

/// Whose every answer takes as long as a delayed acknowledgement, on a network that is quick.
fn slow(census: &Census, against: &Against) -> Option<Finding> {
    let quick = against.hurried.is_some_and(|hurried| hurried < QUICK);
    let stalls = |peer: &&Counted| peer.took.is_some_and(|took| (SHORTEST..LONGEST).contains(&took));
    let slow: Vec<&Counted> = census.peers.iter().filter(|peer| quick && stalls(peer)).collect();
    let least = slow.iter().filter_map(|peer| peer.took).min();
    match least {
        Some(least) => Some(
            Finding::warning(
                "peers.stall",
                format!(
                    "{} never answer within {}, which is what a delayed acknowledgement takes, if they are not just slow: {}",
                    slow.len(),
                    millis(least),
                    names(&slow)
                ),
            )
            .next(
                "turn Nagle off at those peers: TCP_NODELAY on the socket of their client (`client.stream.setNoDelay(true)` in mqtt.js)",
            )
            .figure("quickest_ms", to_millis(least))
            .figure("peers", listed(&slow)),
        ),
        None if quick && census.peers.iter().any(|peer| peer.took.is_some()) => {
            Some(Finding::fine("peers.stall", "no peer's answers are held back"))
        }
        None if census.peers.is_empty() => None,
        None => Some(Finding::unchecked("peers.stall", "the way to the peers is too slow, or not measured, to tell a stall by")),
    }
}

/// Who does not sign where signatures are wanted.
fn signatures(ear: Option<&Ear>, against: &Against) -> Option<Finding> {
    if !against.signs {
        return None;
    }
    let Some(ear) = ear.filter(|ear| ear.opened) else {
        let why = ear.and_then(|ear| ear.shut.as_deref()).unwrap_or("the network's traffic cannot be overheard");
        return Some(Finding::unchecked("signing.peers", shown(why)));
    };
    let unsigned: Vec<&str> =
        ear.peers.iter().filter(|(_, voice)| voice.unsigned > 0).map(|(name, _)| name.as_str()).collect();
    Some(if unsigned.is_empty() {
        Finding::fine(
            "signing.peers",
            format!("all frames that were heard are signed; {} peers sent any", ear.peers.len()),
        )
    } else {
        let said = format!("{} send frames that are not signed: {}", unsigned.len(), joined(unsigned.iter().copied()));
        Finding::wrong("signing.peers", said)
            .next("give them keys: `plantbridge keygen`, and list each in the others' files")
    })
}

/// How far the clocks of peers are from ours.
fn clock(ear: Option<&Ear>, against: &Against) -> Finding {
    if !against.signs {
        return Finding::unchecked("signing.clock", "we do not sign, and nothing else tells the clocks of others");
    }
    let heard = ear.into_iter().flat_map(|ear| &ear.peers).filter_map(|(name, voice)| Some((name, voice.behind_ms?)));
    let Some((name, behind)) = heard.max_by_key(|(_, behind)| behind.unsigned_abs()) else {
        let why = "no signed frame of anybody was heard, and nothing else tells the clocks of others";
        return Finding::unchecked("signing.clock", why);
    };
    let direction = if behind >= 0 { "behind" } else { "ahead of" };
    let apart = Duration::from_millis(behind.unsigned_abs());
    let said = format!(
        "the clock that is furthest off is that of {}: {:.1} s {direction} ours, with the way here",
        shown(name),
        apart.as_secs_f64()
    );
    let finding = match apart {
        apart if apart > WINDOW => {
            Finding::wrong("signing.clock", format!("{said}; beyond 60 s nothing signed is taken"))
                .next("set both clocks by one server of time (NTP)")
        }
        apart if apart > WINDOW / 4 => {
            Finding::warning("signing.clock", said).next("set both clocks by one server of time (NTP)")
        }
        _ => Finding::fine("signing.clock", said),
    };
    finding.figure("peer", name.as_str()).figure("behind_ms", behind)
}

fn names(peers: &[&Counted]) -> String {
    joined(peers.iter().map(|peer| peer.name.as_str()))
}

/// Some of them, and how many more there are.
fn joined<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let some = names.take(SHOWN).map(shown).collect::<Vec<_>>().join(", ");
    if more == 0 { some } else { format!("{some} and {more} more") }
}

fn listed(peers: &[&Counted]) -> Vec<String> {
    peers.iter().map(|peer| peer.name.to_string()).collect()
}

/// How many names a line holds.
const SHOWN: usize = 8;
/// A way that is quick enough to see a stall by.
const QUICK: Duration = Duration::from_millis(15);
/// What a delayed acknowledgement takes at least, and with everything else at most.
const SHORTEST: Duration = Duration::from_millis(36);
const LONGEST: Duration = Duration::from_millis(110);
/// How far clocks may be apart (wire.md 8.4).
const WINDOW: Duration = Duration::from_mins(1);
