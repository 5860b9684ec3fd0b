//! The address of a hub, as typed.

use std::fmt;

use crate::link::authority::{self, Fault};

/// Where a hub listens and whether the way there is TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubUrl {
    host: String,
    port: u16,
    tls: bool,
}

/// What is wrong with it. No text of a refused address is in it: a token may stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HubUrlError {
    /// A scheme that is not spoken.
    #[error("a hub URL begins with http://, https://, ws:// or wss://")]
    Scheme,
    /// A user or password in the URL.
    #[error("a hub URL carries no user and no password: process listings are public; the token comes from elsewhere")]
    UserInfo,
    /// No host, or one that cannot be a host.
    #[error("the hub URL names no usable host; an IPv6 address goes in brackets")]
    Host,
    /// A port that is none.
    #[error("the port of the hub URL is not a number from 1 to 65535")]
    Port,
    /// Something after the port.
    #[error("a hub URL ends after the port: a path would be taken for a namespace, and hubs serve none but `/`")]
    Path,
}

impl HubUrl {
    /// Reads `http://host[:7843]` or `ws://…`, `https://host[:8843]` or `wss://…`.
    ///
    /// # Errors
    /// Anything else: user info above all, because a secret is never a flag value.
    pub fn parse(text: &str) -> Result<Self, HubUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(HubUrlError::Scheme)?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" | "ws" => false,
            "https" | "wss" => true,
            _ => return Err(HubUrlError::Scheme),
        };
        let (host, port) = authority::read(rest, if tls { TLS_PORT } else { PORT }).map_err(|fault| match fault {
            Fault::UserInfo => HubUrlError::UserInfo,
            Fault::Host => HubUrlError::Host,
            Fault::Port => HubUrlError::Port,
            Fault::Path => HubUrlError::Path,
        })?;
        Ok(Self { host: host.to_owned(), port, tls })
    }

    /// The host: a name or an address, an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Whether the way there is TLS.
    pub const fn is_tls(&self) -> bool {
        self.tls
    }

    /// What follows the scheme.
    pub(super) fn authority(&self) -> String {
        authority::write(&self.host, self.port)
    }
}

impl fmt::Display for HubUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

/// Where hubs listen.
const PORT: u16 = 7843;
/// Where hubs listen with TLS.
const TLS_PORT: u16 = 8843;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_hosts_and_ports_are_read() {
        for (text, expected) in [
            ("http://plant", "http://plant:7843"),
            ("WS://plant:80/", "http://plant:80"),
            ("https://plant", "https://plant:8843"),
            ("wss://[::1]", "https://[::1]:8843"),
        ] {
            assert_eq!(HubUrl::parse(text).unwrap().to_string(), expected, "{text}");
        }
    }

    /// What is refused, and that no refused text is repeated: a token may stand in it.
    #[test]
    fn everything_else_is_refused_without_repeating_it() {
        for (text, expected) in [
            ("plant:7843", HubUrlError::Scheme),
            ("mqtt://plant", HubUrlError::Scheme),
            ("http://tok:hunter2@plant", HubUrlError::UserInfo),
            ("http://plant/hunter2", HubUrlError::Path),
            ("http://plant?token=hunter2", HubUrlError::Path),
            ("http://plant#hunter2", HubUrlError::Path),
            ("http://", HubUrlError::Host),
            ("http://a b", HubUrlError::Host),
            ("http://plant:0", HubUrlError::Port),
            ("http://plant:hunter2", HubUrlError::Port),
        ] {
            let error = HubUrl::parse(text).unwrap_err();
            assert_eq!(error, expected, "{text}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}
