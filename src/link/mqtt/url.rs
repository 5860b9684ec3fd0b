//! The address of a broker, as typed.

use std::fmt;

use super::ConfigError;
use crate::link::authority;

/// Where a broker listens and whether the way there is TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerUrl {
    host: String,
    port: u16,
    tls: bool,
}

impl BrokerUrl {
    /// Reads `mqtt://host[:1883]` or `tcp://…`, `mqtts://host[:8883]`, `tls://…` or `ssl://…`.
    ///
    /// # Errors
    /// Anything else: user info above all, because a secret is never a flag value.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let (scheme, rest) = text.split_once("://").ok_or(ConfigError::Scheme)?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "mqtt" | "tcp" => false,
            "mqtts" | "tls" | "ssl" => true,
            "ws" | "wss" => return Err(ConfigError::WebSocket),
            _ => return Err(ConfigError::Scheme),
        };
        let (host, port) = authority::read(rest, if tls { TLS_PORT } else { PORT })?;
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
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "mqtts" } else { "mqtt" };
        write!(out, "{scheme}://{}", authority::write(&self.host, self.port))
    }
}

/// The registered port of MQTT.
const PORT: u16 = 1883;
/// The registered port of MQTT over TLS.
const TLS_PORT: u16 = 8883;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(BrokerUrl::parse(text).unwrap().to_string(), expected, "{text}");
    }

    #[test]
    fn schemes_hosts_and_ports_are_read() {
        check("mqtt://plant", "mqtt://plant:1883");
        check("TCP://plant:1884/", "mqtt://plant:1884");
        check("mqtts://plant.example", "mqtts://plant.example:8883");
        check("tls://10.0.0.1:1", "mqtts://10.0.0.1:1");
        check("ssl://[fe80::1]", "mqtts://[fe80::1]:8883");
        check("mqtt://[::1]:18830", "mqtt://[::1]:18830");
    }

    /// What is refused, and that no refused text is repeated: a password may stand in it.
    #[test]
    fn everything_else_is_refused_without_repeating_it() {
        for (text, expected) in [
            ("plant:1883", "begins with mqtt://"),
            ("http://plant", "begins with mqtt://"),
            ("ws://plant", "WebSocket"),
            ("wss://plant", "WebSocket"),
            ("mqtt://user:hunter2@plant", "no user and no password"),
            ("mqtt://user@plant:1883", "no user and no password"),
            ("mqtt://plant/hunter2", "ends after the port"),
            ("mqtt://plant?x", "ends after the port"),
            ("mqtt://", "no usable host"),
            ("mqtt://:1883", "no usable host"),
            ("mqtt://pl ant", "no usable host"),
            ("mqtt://::1", "no usable host"),
            ("mqtt://[::1", "no usable host"),
            ("mqtt://[plant]:1", "no usable host"),
            ("mqtt://[::1]1883", "no usable host"),
            ("mqtt://plant:0", "1 to 65535"),
            ("mqtt://plant:65536", "1 to 65535"),
            ("mqtt://plant:+1", "1 to 65535"),
            ("mqtt://plant:", "1 to 65535"),
        ] {
            let said = BrokerUrl::parse(text).unwrap_err().to_string();
            assert!(said.contains(expected), "{text}: {said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
