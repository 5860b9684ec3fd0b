//! What goes wrong, and when: drawn from a seed, so that the same seed and the same length give the same plan.

use std::fmt;
use std::time::Duration;

/// Random numbers that a seed decides: splitmix64, which is enough to draw a plan and a load.
#[derive(Clone, Debug)]
pub(super) struct Draw(u64);

impl Draw {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// At least `low` and less than `high`, which has to be more.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % high.saturating_sub(low).max(1)
    }

    pub(super) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    pub(super) fn index(&mut self, of: usize) -> usize {
        let of = u64::try_from(of).unwrap_or(u64::MAX);
        usize::try_from(self.between(0, of)).unwrap_or_default()
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Every piece comes later, and not every piece by the same time.
    Delay { latency: Duration, jitter: Duration },
    /// What is under way is swallowed, then the connections are cut.
    Drop,
    /// The connections end with RST.
    Reset,
    /// They end with FIN.
    Finish,
    /// Neither direction passes while the sockets stay; then they end with RST.
    HalfOpen,
    /// Neither direction passes; then everything does that was held up.
    Stall,
    /// A reader as slow as that, in bytes a second, each way.
    Slow { bytes: u64 },
    /// Each PUBLISH at QoS 1 is sent again, before its acknowledgement and after it.
    Double,
    /// The broker ends and starts again on the same port with what it kept.
    Broker { killed: bool },
    /// A peer dies, its will is published, and it comes back as another incarnation.
    Crash { peer: usize },
    /// A second peer takes the name of one over.
    Usurp { peer: usize },
}

impl Fault {
    /// What it is counted as.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Delay { .. } => "delay",
            Self::Drop => "drop",
            Self::Reset => "cut (RST)",
            Self::Finish => "cut (FIN)",
            Self::HalfOpen => "half-open",
            Self::Stall => "stall",
            Self::Slow { .. } => "slow reader",
            Self::Double => "duplicate",
            Self::Broker { killed: false } => "broker restart",
            Self::Broker { killed: true } => "broker killed",
            Self::Crash { .. } => "peer crash",
            Self::Usurp { .. } => "name taken over",
        }
    }
}

/// Between whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The bridge, with its fakes, and the broker.
    Bridge,
    /// Some of the peers and the broker.
    Peers,
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// From the beginning of the load.
    pub(super) at: Duration,
    /// How long; [`FOR_GOOD`] is until the end.
    pub(super) lasts: Duration,
    pub(super) fault: Fault,
    pub(super) line: Line,
}

impl Step {
    /// Whether the line between the bridge and the broker is bad meanwhile, while there is a broker.
    pub(super) fn ails_the_bridge(&self) -> bool {
        match self.fault {
            Fault::Broker { .. } | Fault::Crash { .. } | Fault::Usurp { .. } => false,
            _ => self.line == Line::Bridge,
        }
    }
}

/// How long a peer stays away that does not come back.
pub(super) const FOR_GOOD: Duration = Duration::MAX;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) length: Duration,
    pub(super) steps: Vec<Step>,
    /// When faults begin and when they end; before and after it is quiet.
    pub(super) trouble: (Duration, Duration),
}

/// A run that is so long also has half-open lines that outlast the keep-alive of a link, a minute and a half of it.
const LONG: Duration = Duration::from_mins(20);
/// How many peers do not come back.
const ABSENT: usize = 3;

impl Plan {
    /// Draws one for so many peers.
    pub(super) fn draw(seed: u64, length: Duration, peers: usize) -> Self {
        let mut draw = Draw::new(seed);
        let begin = (length / 10).min(Duration::from_secs(30));
        let end = length.saturating_sub((length / 6).min(Duration::from_secs(40)));
        let mut steps = Vec::new();
        let mut deck: Vec<Fault> = Vec::new();
        let mut at = begin;
        loop {
            if deck.is_empty() {
                deck = shuffled(&mut draw, peers);
            }
            let Some(fault) = deck.pop() else { break };
            let lasts = lasts(&mut draw, fault, length);
            if at + lasts > end {
                break;
            }
            let line = if draw.between(0, 3) == 0 { Line::Peers } else { Line::Bridge };
            steps.push(Step { at, lasts, fault, line });
            at += lasts + draw.millis(500, 4_000);
        }
        for number in 0..ABSENT.min(peers) {
            // The last ones: nobody watches those, and a crash drawn before has been over for long or is longer now.
            let fault = Fault::Crash { peer: peers - 1 - number };
            steps.push(Step { at: end, lasts: FOR_GOOD, fault, line: Line::Peers });
        }
        Self { seed, length, steps, trouble: (begin, end) }
    }
}

/// One of each kind, in some order, so that no kind is left out of a short run for long.
fn shuffled(draw: &mut Draw, peers: usize) -> Vec<Fault> {
    let mut deck = vec![
        Fault::Delay { latency: draw.millis(20, 300), jitter: draw.millis(5, 200) },
        Fault::Drop,
        Fault::Reset,
        Fault::Finish,
        Fault::HalfOpen,
        Fault::Stall,
        Fault::Slow { bytes: draw.between(2_000, 8_000) },
        Fault::Double,
        Fault::Double,
        Fault::Broker { killed: draw.between(0, 2) == 0 },
        Fault::Usurp { peer: draw.index(peers) },
    ];
    // Two of them are watched, if as many emit.
    let emitting = super::peers::EMITTERS.min(peers);
    deck.extend([peers, peers, emitting, emitting].map(|of| Fault::Crash { peer: draw.index(of) }));
    for last in (1..deck.len()).rev() {
        deck.swap(last, draw.index(last + 1));
    }
    deck
}

fn lasts(draw: &mut Draw, fault: Fault, length: Duration) -> Duration {
    match fault {
        Fault::Delay { .. } | Fault::Slow { .. } | Fault::Double => draw.millis(3_000, 8_000),
        Fault::Drop => draw.millis(200, 1_500),
        Fault::Reset | Fault::Finish => Duration::ZERO,
        Fault::HalfOpen if length >= LONG && draw.between(0, 4) == 0 => Duration::from_secs(95),
        Fault::HalfOpen | Fault::Stall => draw.millis(1_000, 7_000),
        Fault::Broker { .. } => draw.millis(100, 3_000),
        Fault::Crash { .. } | Fault::Usurp { .. } => draw.millis(300, 5_000),
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:7.1} s  {}", self.at.as_secs_f64(), self.fault.kind())?;
        let line = match self.line {
            Line::Bridge => "on the bridge's line",
            Line::Peers => "on the peers' line",
        };
        match self.fault {
            Fault::Delay { latency, jitter } => {
                write!(out, " {} ms ± {} ms {line}", latency.as_millis(), jitter.as_millis())?;
            }
            Fault::Slow { bytes } => write!(out, " {bytes} bytes a second {line}")?,
            Fault::Crash { peer } | Fault::Usurp { peer } => write!(out, " {}", super::peers::name(peer))?,
            Fault::Broker { .. } => {}
            _ => write!(out, " {line}")?,
        }
        match self.lasts {
            FOR_GOOD => write!(out, ", for good"),
            Duration::ZERO => Ok(()),
            lasts => write!(out, ", {:.1} s", lasts.as_secs_f64()),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "the plan of seed {} for {} s:", self.seed, self.length.as_secs())?;
        self.steps.iter().try_for_each(|step| writeln!(out, "{step}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LENGTH: Duration = Duration::from_mins(5);

    #[test]
    fn a_seed_gives_one_plan_and_another_seed_another() {
        let plan = Plan::draw(7, LENGTH, 50);
        assert_eq!(plan, Plan::draw(7, LENGTH, 50));
        assert_ne!(plan.steps, Plan::draw(8, LENGTH, 50).steps);
    }

    #[test]
    fn a_plan_of_five_minutes_has_every_kind_and_stays_within_its_trouble() {
        for seed in 0..50 {
            let plan = Plan::draw(seed, LENGTH, 50);
            let kinds: BTreeSet<_> = plan.steps.iter().map(|step| step.fault.kind()).collect();
            assert!(kinds.len() >= 11, "seed {seed} has only {kinds:?}");
            let (begin, end) = plan.trouble;
            assert!(plan.steps.iter().all(|step| step.at >= begin && step.at <= end), "{plan}");
            assert!(plan.steps.iter().all(|step| step.lasts == FOR_GOOD || step.at + step.lasts <= end), "{plan}");
        }
    }

    #[test]
    fn no_two_steps_of_a_plan_overlap_but_those_that_stay() {
        let plan = Plan::draw(3, LENGTH, 50);
        let passing: Vec<_> = plan.steps.iter().filter(|step| step.lasts != FOR_GOOD).collect();
        assert!(passing.windows(2).all(|pair| pair[0].at + pair[0].lasts <= pair[1].at), "{plan}");
    }
}
