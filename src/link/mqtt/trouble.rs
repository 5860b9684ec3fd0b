//! Why a connection failed, in our words.

use std::error::Error;
use std::io;

use rumqttc::mqttbytes::Error as PacketError;
use rumqttc::{ConnectReturnCode, ConnectionError, DisconnectReasonCode, StateError};

use super::connect::Stopped;
use super::greeting::OlderBroker;
use crate::link::seat::down;
use crate::link::tls::tls_cause;
use crate::link::{DownKind, DownReason};

/// How far a connection had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before CONNACK.
    Connecting,
    /// After it.
    Connected,
}

/// Names the cause of an ended connection.
pub(super) fn reason(error: &ConnectionError, stage: Stage) -> DownReason {
    // The client library names the cause of a packet error only as a value, not as a source.
    let root: &(dyn Error + 'static) = match error {
        ConnectionError::MqttState(StateError::Deserialization(PacketError::Io(error)) | StateError::Io(error))
        | ConnectionError::Io(error) => {
            if let Some(Stopped(reason)) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
                return reason.clone();
            }
            error
        }
        other => other,
    };
    if let Some(tls) = tls_cause(root) {
        return down(DownKind::Tls, tls);
    }
    match error {
        ConnectionError::ConnectionRefused(code) => refused(*code),
        ConnectionError::MqttState(error) => state(error, stage),
        ConnectionError::Timeout(_) => down(DownKind::Unreachable, "no answer in time"),
        ConnectionError::Io(error) => io_trouble(error, stage),
        ConnectionError::NotConnAck(_) | ConnectionError::SessionStateMismatch { .. } => {
            down(DownKind::Protocol, error.to_string())
        }
        other => down(DownKind::Lost, other.to_string()),
    }
}

fn state(error: &StateError, stage: Stage) -> DownReason {
    match (error, stage) {
        (StateError::ServerDisconnect { reason_code, reason_string }, _) => {
            disconnected(*reason_code, reason_string.as_deref())
        }
        (StateError::Deserialization(PacketError::InvalidConnectReturnCode(4 | 5)), _) => {
            down(DownKind::Unauthorized, "the broker refused our account")
        }
        (StateError::Deserialization(PacketError::Io(error)) | StateError::Io(error), _) => io_trouble(error, stage),
        (StateError::ConnectionAborted | StateError::Deserialization(_), Stage::Connecting) => {
            down(DownKind::Protocol, NO_MQTT5)
        }
        (StateError::ConnectionAborted, Stage::Connected) => down(DownKind::Lost, "the broker closed the connection"),
        (StateError::AwaitPingResp, _) => down(DownKind::Lost, "the broker did not answer a ping"),
        (other, Stage::Connected) => down(DownKind::Lost, other.to_string()),
        (other, Stage::Connecting) => down(DownKind::Protocol, other.to_string()),
    }
}

fn io_trouble(error: &io::Error, stage: Stage) -> DownReason {
    match stage {
        _ if error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<OlderBroker>) => {
            down(DownKind::Protocol, OLDER)
        }
        Stage::Connecting if error.kind() == io::ErrorKind::Other => down(DownKind::Protocol, NO_MQTT5),
        Stage::Connecting => down(DownKind::Unreachable, error.to_string()),
        Stage::Connected => down(DownKind::Lost, error.to_string()),
    }
}

/// What a CONNACK with a failure says.
fn refused(code: ConnectReturnCode) -> DownReason {
    use ConnectReturnCode as Code;
    match code {
        Code::BadUserNamePassword => down(DownKind::Unauthorized, "the broker refused user name or password"),
        Code::NotAuthorized => {
            down(DownKind::Unauthorized, "the broker does not authorize us: user name, password or its access list")
        }
        Code::Banned | Code::BadAuthenticationMethod | Code::ClientIdentifierNotValid | Code::BadClientId => {
            down(DownKind::Unauthorized, format!("the broker refused us: {code:?}"))
        }
        Code::UnsupportedProtocolVersion | Code::RefusedProtocolVersion => down(DownKind::Protocol, OLDER),
        Code::ServiceUnavailable
        | Code::ServerUnavailable
        | Code::ServerBusy
        | Code::QuotaExceeded
        | Code::UseAnotherServer
        | Code::ServerMoved
        | Code::ConnectionRateExceeded => {
            down(DownKind::Unreachable, format!("the broker takes no connection: {code:?}"))
        }
        other => down(DownKind::Protocol, format!("the broker refused the connection: {other:?}")),
    }
}

/// What a DISCONNECT of the broker says.
fn disconnected(code: DisconnectReasonCode, text: Option<&str>) -> DownReason {
    use DisconnectReasonCode as Code;
    let text = text.map(|text| format!(": {:?}", text.chars().take(200).collect::<String>())).unwrap_or_default();
    match code {
        Code::SessionTakenOver => down(DownKind::Displaced, format!("another peer connected under our name{text}")),
        Code::NotAuthorized => down(DownKind::Unauthorized, format!("the broker does not authorize us{text}")),
        other => down(DownKind::Lost, format!("the broker ended the connection, {other:?}{text}")),
    }
}

/// What a broker says that understood the question: it is one, of an older protocol.
const OLDER: &str =
    "the broker does not speak MQTT 5: it answers as one of MQTT 3.1.1 or older, or MQTT 5 is turned off there";

const NO_MQTT5: &str =
    "no MQTT 5 broker answers there: an MQTT 3.1.1 broker, a TLS port, or no broker at all (MQTT 5 is needed)";
