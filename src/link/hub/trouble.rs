//! Why a connection failed, in our words.

use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::link::seat::down;
use crate::link::tls::tls_cause;
use crate::link::{DownKind, DownReason};

/// How far a connection had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before we were let in.
    Joining,
    /// After it.
    Joined,
}

/// Names the cause of an ended connection.
pub(super) fn reason(error: &Error, stage: Stage) -> DownReason {
    match error {
        Error::Http(response) => http(response.status().as_u16()),
        Error::Io(error) => match (tls_cause(error), stage) {
            (Some(cause), _) => down(DownKind::Tls, cause),
            (None, Stage::Joining) => down(DownKind::Unreachable, error.to_string()),
            (None, Stage::Joined) => down(DownKind::Lost, error.to_string()),
        },
        Error::ConnectionClosed | Error::AlreadyClosed => closed(None, stage),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) if stage == Stage::Joined => closed(None, stage),
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
            let text = format!("the hub sent a message of {size} bytes, and {max_size} are taken");
            down(DownKind::Protocol, text)
        }
        other if stage == Stage::Joining => down(DownKind::Protocol, format!("{NO_HUB} ({other})")),
        other => down(DownKind::Protocol, other.to_string()),
    }
}

/// What an answer to the handshake other than the change of protocol says.
fn http(status: u16) -> DownReason {
    match status {
        401 | 403 => down(DownKind::Unauthorized, format!("what stands before the hub refused us: HTTP {status}")),
        500..=599 => down(DownKind::Unreachable, format!("what stands before the hub has trouble: HTTP {status}")),
        _ => down(DownKind::Protocol, format!("{NO_HUB} (HTTP {status})")),
    }
}

/// What the end of the WebSocket says.
pub(super) fn closed(close: Option<&CloseFrame>, stage: Stage) -> DownReason {
    let kind = if stage == Stage::Joined { DownKind::Lost } else { DownKind::Unreachable };
    let text = match close.map(|close| close.code) {
        Some(CloseCode::Size) => "the hub closed the connection: a message of ours was too large for it".to_owned(),
        // Its words are left out: nobody checked what is in them.
        Some(code) => format!("the hub closed the connection, code {}", u16::from(code)),
        None => "the hub closed the connection".to_owned(),
    };
    down(kind, text)
}

const NO_HUB: &str =
    "no Socket.IO hub answers there: another server, a TLS port, or an older hub (Engine.IO 4 is needed)";

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_tungstenite::tungstenite;

    #[test]
    fn the_cause_is_told_by_its_kind() {
        let status = |code: u16| {
            let response = tungstenite::http::Response::builder().status(code).body(None).unwrap();
            reason(&Error::Http(Box::new(response)), Stage::Joining).kind
        };
        assert_eq!(status(403), DownKind::Unauthorized);
        assert_eq!(status(503), DownKind::Unreachable);
        assert_eq!(status(404), DownKind::Protocol);
        assert_eq!(status(302), DownKind::Protocol);
        let reset = || Error::Protocol(ProtocolError::ResetWithoutClosingHandshake);
        assert_eq!(reason(&reset(), Stage::Joined).kind, DownKind::Lost);
        assert_eq!(reason(&reset(), Stage::Joining).kind, DownKind::Protocol);
        let large = Error::Capacity(CapacityError::MessageTooLong { size: 2, max_size: 1 });
        assert_eq!(reason(&large, Stage::Joined).kind, DownKind::Protocol);
        let close = CloseFrame { code: CloseCode::Size, reason: "secret".into() };
        let told = closed(Some(&close), Stage::Joined);
        assert!(told.detail.contains("too large") && !told.detail.contains("secret"));
    }
}
