//! What was found at a hub, as findings.

use super::{
    finding::Finding,
    way::{self, Way, shown},
};
use crate::link::{DownKind, DownReason, hub::inspect::Inspection};

/// What is right and wrong with it. `token`: whether we present one.
pub(super) fn findings(way: &Way<'_>, token: bool, inspection: &Inspection) -> Vec<Finding> {
    let mut out = way::findings(way, &inspection.reach);
    let greeting = match &inspection.greeting {
        Ok(greeting) => greeting,
        Err(reason) => {
            out.extend(refused(token, reason, inspection.reach.is_open()));
            return out;
        }
    };
    out.push(Finding::fine("hub.protocol", "a Socket.IO hub opens, over Engine.IO 4"));
    out.push(Finding::fine(
        "hub.credentials",
        if token { "our token is accepted" } else { "it lets us in without a token" },
    ));
    let said = format!("the largest message it takes is {} bytes", greeting.max_payload);
    let packet = if greeting.max_payload < SMALL {
        Finding::warning("hub.packet", format!("{said}; what is larger does not get through"))
            .next("raise it: `maxHttpBufferSize` of socket.io")
    } else {
        Finding::fine("hub.packet", said)
    };
    out.push(packet.figure("max_payload", greeting.max_payload));
    let silence = greeting.silence.as_millis();
    out.push(
        Finding::fine("hub.silence", format!("it counts as gone when nothing is heard of it for {silence} ms"))
            .figure("silence_ms", u64::try_from(silence).unwrap_or(u64::MAX)),
    );
    out
}

/// Why it did not let us in.
fn refused(token: bool, reason: &DownReason, reached: bool) -> Vec<Finding> {
    let why = shown(&reason.detail);
    match reason.kind {
        DownKind::Unauthorized => vec![
            Finding::fine("hub.protocol", "a Socket.IO hub opens, over Engine.IO 4"),
            Finding::wrong("hub.credentials", why).next(if token {
                "see that the token of PLANTBRIDGE_TOKEN or --auth is one the hub lists, and not over"
            } else {
                "it wants a token: set PLANTBRIDGE_TOKEN, or name a file with --auth"
            }),
        ],
        DownKind::Protocol => vec![
            Finding::wrong("hub.protocol", why)
                .next("see that the port is the hub's, and that it speaks Engine.IO 4 (socket.io 3 or newer)"),
            Finding::unchecked("hub.credentials", UNASKED),
        ],
        _ if reached => vec![
            Finding::wrong("hub.protocol", why).next("see the hub's log, and that it has room for one more connection"),
            Finding::unchecked("hub.credentials", UNASKED),
        ],
        _ => vec![Finding::unchecked("hub.protocol", why), Finding::unchecked("hub.credentials", UNASKED)],
    }
}

const UNASKED: &str = "it was not asked that far";
/// A message smaller than many a description, in bytes.
const SMALL: usize = 100_000;
