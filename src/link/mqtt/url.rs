//! The address of a broker, as typed.

use std::fmt;

use super::ConfigError;
use crate::link::authority;

/// Where a broker listens, whether the way there is TLS, and whether it leads through a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerUrl {
    host: String,
    port: u16,
    tls: bool,
    /// The path of the WebSocket, if it is one.
    path: Option<String>,
}

impl BrokerUrl {
    /// Reads `mqtt://host[:1883]` or `tcp://…`, `mqtts://host[:8883]`, `tls://…` or `ssl://…`, and over WebSocket
    /// `ws://host[:80][/path]` or `wss://host[:443][/path]`. A path that is not given is `/mqtt`, where most brokers listen.
    ///
    /// # Errors
    /// Anything else: user info and a query above all, because a secret is never a flag value.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let (scheme, rest) = text.split_once("://").ok_or(ConfigError::Scheme)?;
        let (tls, web, port) = match scheme.to_ascii_lowercase().as_str() {
            "mqtt" | "tcp" => (false, false, PORT),
            "mqtts" | "tls" | "ssl" => (true, false, TLS_PORT),
            "ws" => (false, true, WEB_PORT),
            "wss" => (true, true, WEB_TLS_PORT),
            _ => return Err(ConfigError::Scheme),
        };
        let (rest, path) = if web { split_path(rest)? } else { (rest, None) };
        let (host, port) = authority::read(rest, port)?;
        Ok(Self { host: host.to_owned(), port, tls, path })
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

    /// The path of the WebSocket that MQTT goes through, if it does.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }
}

/// What stands before the path of a WebSocket, and the path. A query is where people put tokens, so there is none.
fn split_path(rest: &str) -> Result<(&str, Option<String>), ConfigError> {
    if rest.contains('@') {
        return Err(ConfigError::UserInfo);
    }
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, DEFAULT_PATH),
    };
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'"' | b'<' | b'>' | b'\\' | b'`');
    let usable = path.len() <= MAX_PATH && path.bytes().all(plain) && !authority.contains(['?', '#']);
    if usable { Ok((authority, Some(path.to_owned()))) } else { Err(ConfigError::WebPath) }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (&self.path, self.tls) {
            (None, false) => "mqtt",
            (None, true) => "mqtts",
            (Some(_), false) => "ws",
            (Some(_), true) => "wss",
        };
        let path = self.path.as_deref().unwrap_or_default();
        write!(out, "{scheme}://{}{path}", authority::write(&self.host, self.port))
    }
}

/// The registered port of MQTT.
const PORT: u16 = 1883;
/// The registered port of MQTT over TLS.
const TLS_PORT: u16 = 8883;
/// The port of a WebSocket.
const WEB_PORT: u16 = 80;
/// The port of a WebSocket over TLS.
const WEB_TLS_PORT: u16 = 443;
/// Where brokers take WebSockets, unless they say otherwise.
const DEFAULT_PATH: &str = "/mqtt";
/// How long a path may be.
const MAX_PATH: usize = 256;

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

    /// The path is that of the address, and where none is given the one most brokers listen at.
    #[test]
    fn a_websocket_has_a_path() {
        check("ws://plant", "ws://plant:80/mqtt");
        check("WSS://plant.example", "wss://plant.example:443/mqtt");
        check("ws://plant:9001/", "ws://plant:9001/");
        check("wss://[::1]:8084/plant/a%20b", "wss://[::1]:8084/plant/a%20b");
        let url = BrokerUrl::parse("wss://plant").unwrap();
        assert_eq!((url.is_tls(), url.path(), url.port()), (true, Some("/mqtt"), 443));
        assert_eq!(BrokerUrl::parse("mqtts://plant").unwrap().path(), None);
    }

    /// What is refused, and that no refused text is repeated: a password may stand in it.
    #[test]
    fn everything_else_is_refused_without_repeating_it() {
        for (text, expected) in [
            ("plant:1883", "begins with mqtt://"),
            ("http://plant", "begins with mqtt://"),
            ("ws://user:hunter2@plant", "no user and no password"),
            ("ws://plant/a@hunter2", "no user and no password"),
            ("ws://plant/mqtt?token=hunter2", "plain path"),
            ("ws://plant?token=hunter2", "plain path"),
            ("ws://plant/#hunter2", "plain path"),
            ("ws://plant/a hunter2", "plain path"),
            ("ws://plant/\u{e9}hunter2", "plain path"),
            ("ws:///mqtt", "no usable host"),
            ("ws://plant:0/mqtt", "1 to 65535"),
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
