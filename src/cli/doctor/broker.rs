//! What was found at a broker, as findings.

use std::time::Duration;

use super::{
    finding::{Finding, Mark},
    way::{self, Way, millis, shown, to_millis},
};
use crate::link::{
    DownKind, DownReason,
    mqtt::inspect::{Found, Greeting, Inspection, Need, Right, Trips},
};

/// What is known of ourselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    /// Our name.
    pub(super) me: &'a str,
    /// Whether somebody chose it.
    pub(super) named: bool,
    /// Whether we present an account.
    pub(super) account: bool,
}

/// What is right and wrong with it.
pub(super) fn findings(way: &Way<'_>, about: &About<'_>, inspection: &Inspection) -> Vec<Finding> {
    let mut out = way::findings(way, &inspection.reach);
    let greeting = match &inspection.greeting {
        Ok(greeting) => greeting,
        Err(reason) => {
            out.extend(refused(about, reason, inspection.reach.is_open()));
            return out;
        }
    };
    out.push(Finding::fine("broker.protocol", "it speaks MQTT 5"));
    out.push(Finding::fine(
        "broker.credentials",
        if about.account { "our account is accepted" } else { "it lets us in without an account" },
    ));
    out.push(name(about, inspection));
    out.extend(bounds(greeting));
    if inspection.clash.is_some() {
        let why = "somebody else has our name, and nothing is tried on its topics";
        out.extend(["broker.access", "broker.retained", "broker.stall"].map(|check| Finding::unchecked(check, why)));
        return out;
    }
    out.extend(access(&inspection.rights, inspection.broken.as_ref()));
    out.push(retained(greeting, inspection.keeps));
    out.extend(stall(inspection.trips));
    out
}

/// Why it did not let us in.
fn refused(about: &About<'_>, reason: &DownReason, reached: bool) -> Vec<Finding> {
    let why = shown(&reason.detail);
    match reason.kind {
        DownKind::Unauthorized => vec![
            Finding::fine("broker.protocol", "it speaks MQTT 5"),
            Finding::wrong("broker.credentials", why).next(if about.account {
                "see PLANTBRIDGE_MQTT_USERNAME and PLANTBRIDGE_MQTT_PASSWORD, and what the broker allows that account"
            } else {
                "it wants an account: set PLANTBRIDGE_MQTT_USERNAME and PLANTBRIDGE_MQTT_PASSWORD"
            }),
        ],
        DownKind::Protocol => vec![
            Finding::wrong("broker.protocol", why).next(
                "use a broker that speaks MQTT 5, or turn it on there; see that the port and the path are its own",
            ),
            Finding::unchecked("broker.credentials", UNASKED),
        ],
        // TLS 1.3 refuses our certificate, or that there is none, only after its handshake.
        DownKind::Tls if reached => vec![
            Finding::wrong("broker.tls", why).next("show it a certificate it trusts: --client-cert and --client-key"),
            Finding::unchecked("broker.protocol", UNASKED),
            Finding::unchecked("broker.credentials", UNASKED),
        ],
        _ if reached => vec![
            Finding::wrong("broker.protocol", why)
                .next("see the broker's log, and that it has room for one more connection"),
            Finding::unchecked("broker.credentials", UNASKED),
        ],
        _ => vec![Finding::unchecked("broker.protocol", why), Finding::unchecked("broker.credentials", UNASKED)],
    }
}

fn name(about: &About<'_>, inspection: &Inspection) -> Finding {
    match (&inspection.clash, about.named) {
        (Some(why), _) => Finding::wrong("broker.name", shown(why))
            .next("choose another --name, or leave it away to have the rest looked at"),
        (None, true) => Finding::fine("broker.name", format!("nobody else goes by {}", about.me)),
        (None, false) => Finding::fine("broker.name", "our name was made up for this; nobody has it"),
    }
}

/// What it says of itself.
fn bounds(said: &Greeting) -> Vec<Finding> {
    let mut out = vec![packet(said.max_packet)];
    out.push(match said.receive_max {
        Some(most) if most < FEW => Finding::warning(
            "broker.receive_max",
            format!("it takes {most} unacknowledged messages; calls wait for each other"),
        )
        .next("raise it, on mosquitto with `max_inflight_messages`")
        .figure("receive_maximum", most),
        most => {
            let most = most.unwrap_or(u16::MAX);
            let said = format!("it takes {most} unacknowledged messages");
            Finding::fine("broker.receive_max", said).figure("receive_maximum", most)
        }
    });
    out.push(match said.max_qos {
        Some(0) => Finding::wrong("broker.qos", "it offers no QoS 1: nobody knows whether a command arrived")
            .next("allow QoS 1, on mosquitto with `max_qos 2`"),
        highest => {
            let highest = highest.unwrap_or(2);
            Finding::fine("broker.qos", format!("QoS up to {highest}")).figure("maximum_qos", highest)
        }
    });
    out.push(if said.wildcards {
        Finding::fine("broker.wildcards", "filters may hold wildcards")
    } else {
        Finding::wrong("broker.wildcards", "it allows no wildcards in filters: nobody learns who is there")
            .next("allow wildcard subscriptions")
    });
    out.push(Finding::fine(
        "broker.shared",
        if said.shares {
            "there are shared subscriptions"
        } else {
            "no shared subscriptions; only replicas of a peer need them"
        },
    ));
    out.push(match said.keep_alive {
        Some(seconds) if seconds < SOON => Finding::warning(
            "broker.keep_alive",
            format!("it wants to hear of us every {seconds} s; a short pause of the network ends the connection"),
        )
        .next("raise its keep alive"),
        Some(seconds) => Finding::fine("broker.keep_alive", format!("it wants to hear of us every {seconds} s")),
        None => Finding::fine("broker.keep_alive", "it goes by the 60 s we ask for"),
    });
    out.push(match said.session {
        None | Some(0) => Finding::fine("broker.session", "a session ends with its connection, as we ask"),
        Some(seconds) => Finding::warning(
            "broker.session",
            format!("it keeps sessions for {seconds} s although we ask for none: what was sent to a peer that left may run later"),
        )
        .next("have it go by what clients ask for"),
    });
    out
}

fn packet(most: Option<u32>) -> Finding {
    let Some(most) = most else { return Finding::fine("broker.packet", "it names no largest packet") };
    let said = format!("the largest packet it takes is {most} bytes");
    let finding = if most < SMALL {
        Finding::warning(
            "broker.packet",
            format!("{said}; descriptions, rows and values larger than that do not get through"),
        )
        .next("raise it, on mosquitto with `max_packet_size`")
    } else {
        Finding::fine("broker.packet", said)
    };
    finding.figure("maximum_packet_size", most)
}

/// What it lets us do: one line if all is well, else one for each topic.
fn access(rights: &[Right], broken: Option<&DownReason>) -> Vec<Finding> {
    let mut out: Vec<Finding> = rights.iter().filter(|right| right.found != Found::Allowed).map(right).collect();
    if out.is_empty() && broken.is_none() {
        let said = format!("{} subscriptions and publications of a peer are allowed, and arrive", rights.len());
        out.push(Finding::fine("broker.access", said).figure("tried", rights.len()));
    }
    if let Some(reason) = broken {
        out.push(
            Finding::wrong(
                "broker.access",
                format!("the connection ended while it was tried: {}", shown(&reason.detail)),
            )
            .next("see the broker's log"),
        );
    }
    out
}

fn right(right: &Right) -> Finding {
    let topic = shown(&right.topic);
    let what = match right.need {
        Need::Subscribe => format!("subscribing to {topic}"),
        Need::Publish | Need::Both => format!("publishing to {topic}"),
        Need::Others => format!("publishing to {topic}, a name that nobody has,"),
    };
    let rule = match right.need {
        Need::Subscribe => format!("allow it in the broker's access list: `topic read {topic}` on mosquitto"),
        Need::Publish => format!("allow it in the broker's access list: `topic write {topic}` on mosquitto"),
        Need::Both => format!("allow both in the broker's access list: `topic readwrite {topic}` on mosquitto"),
        Need::Others => "if requests to every peer are meant to be allowed, allow them to req/+; else this says nothing of those that are".into(),
    };
    let (mark, said) = match (&right.found, right.need) {
        (Found::Refused(why), Need::Others) => (Mark::Warning, format!("{what} is refused: {}", shown(why))),
        (Found::Refused(why), _) => (Mark::Wrong, format!("{what} is refused: {}", shown(why))),
        (Found::Lost, _) => (
            Mark::Wrong,
            format!("{what} is not refused, and nothing arrives: writing or reading is dropped in silence"),
        ),
        (Found::Unanswered, Need::Others) => (Mark::Warning, format!("{what} is not answered")),
        (Found::Unanswered, _) => (Mark::Wrong, format!("{what} is not answered")),
        (Found::Allowed, _) => (Mark::Fine, format!("{what} is allowed")),
    };
    Finding::new(mark, "broker.access", said).next(rule).figure("topic", right.topic.as_str())
}

fn retained(said: &Greeting, keeps: Option<bool>) -> Finding {
    let next = "turn retained messages on, on mosquitto with `retain_available true`: presence is made of them";
    match (said.retains, keeps) {
        (false, _) => {
            Finding::wrong("broker.retained", "it keeps no retained messages: nobody learns who is there").next(next)
        }
        (true, Some(false)) => {
            Finding::wrong("broker.retained", "what was to be kept for later was not: nobody learns who is there")
                .next(next)
        }
        (true, Some(true)) => {
            Finding::fine("broker.retained", "it keeps retained messages, and gives them to who comes later")
        }
        (true, None) => {
            Finding::unchecked("broker.retained", "it says that it keeps retained messages; that could not be tried")
        }
    }
}

fn stall(trips: Option<Trips>) -> Vec<Finding> {
    let Some(trips) = trips else {
        return vec![Finding::unchecked("broker.stall", "no message to ourselves arrives, so nothing can be measured")];
    };
    let way = Finding::fine(
        "broker.round_trip",
        format!("a message to ourselves takes {}, there and back (median of {})", millis(trips.hurried), trips.count),
    )
    .figure("hurried_ms", to_millis(trips.hurried));
    vec![way, nagle(trips)]
}

/// The stall is what an ordinary client waits beyond us.
fn nagle(trips: Trips) -> Finding {
    let Some(lazy) = trips.lazy else {
        return Finding::unchecked("broker.stall", "on this system it cannot be told from a slow network");
    };
    let figures = |finding: Finding| {
        finding
            .figure("hurried_ms", to_millis(trips.hurried))
            .figure("ordinary_ms", to_millis(lazy))
            .figure("count", trips.count)
    };
    let lost = lazy.saturating_sub(trips.hurried);
    figures(if lost >= STALL {
        let said = format!(
            "an ordinary client waits {} where we, who hurry, wait {}: the broker has Nagle on, and each of its clients loses {} a message",
            millis(lazy),
            millis(trips.hurried),
            millis(lost)
        );
        Finding::wrong("broker.stall", said)
            .next("`set_tcp_nodelay true` in mosquitto.conf; on another broker, TCP_NODELAY on its listener")
    } else {
        Finding::fine("broker.stall", format!("no stall: an ordinary client waits {}", millis(lazy)))
    })
}

const UNASKED: &str = "it was not asked that far";
/// Beyond this, what an ordinary client waits is no jitter.
const STALL: Duration = Duration::from_millis(20);
/// Fewer unacknowledged messages than a stock broker takes, by far.
const FEW: u16 = 8;
/// A keep alive that a short pause breaks, in seconds.
const SOON: u16 = 10;
/// A packet smaller than many a description, in bytes.
const SMALL: u32 = 256 * 1024;
