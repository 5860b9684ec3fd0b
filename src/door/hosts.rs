//! Under which names the HTTP door answers, and to which web pages (F-11). Pure.
//!
//! A browser sends `Origin` when a page of another site speaks to us, and in `Host` the name that page knows us by. A page
//! that had its own name point at this machine is told by that name; one that did not by its origin.

use core::net::{IpAddr, Ipv6Addr};

/// The names and pages that are let in.
#[derive(Clone, Debug)]
pub struct Hosts {
    bound: IpAddr,
    names: Vec<(String, Option<u16>)>,
    origins: Vec<String>,
}

impl Hosts {
    /// A door bound to this address that also answers to `names` (`host` or `host:port`) and to pages of `origins`.
    ///
    /// # Errors
    ///
    /// The one that is no name, or no origin.
    pub fn new(bound: IpAddr, names: &[String], origins: &[String]) -> Result<Self, String> {
        let parsed = names
            .iter()
            .map(|name| authority(name).ok_or_else(|| format!("--allow-host {name:?}: expected a host or host:port")));
        let names = parsed.collect::<Result<_, _>>()?;
        let parsed = origins.iter().map(|text| {
            origin(text).ok_or_else(|| format!("--allow-origin {text:?}: expected scheme://host or scheme://host:port"))
        });
        Ok(Self { bound, names, origins: parsed.collect::<Result<_, _>>()? })
    }

    /// Whether we answer to this `Host`: the address we are bound to, a name of this machine for itself, or one that was
    /// given. A port that a container publishes differs from ours, so only a port that was given is compared.
    pub fn answers_to(&self, host: &str) -> bool {
        let Some((name, port)) = authority(host) else { return false };
        if self.names.iter().any(|(known, at)| *known == name && (at.is_none() || *at == port)) {
            return true;
        }
        match name.parse::<IpAddr>() {
            Ok(address) => {
                address.to_canonical().is_loopback()
                    || (!self.bound.is_unspecified() && address.to_canonical() == self.bound.to_canonical())
            }
            Err(_) => name == "localhost",
        }
    }

    /// Whether this `Host` is an address, whichever. A page of another site cannot be at an address of ours.
    pub fn is_address(host: &str) -> bool {
        authority(host).is_some_and(|(name, _)| name.parse::<IpAddr>().is_ok())
    }

    /// Whether a page of this origin may speak to us.
    pub fn lets_in(&self, from: &str) -> bool {
        origin(from).is_some_and(|from| self.origins.contains(&from))
    }

    /// Whether a page of this origin came from this very place. The port counts: another on the same machine is another.
    pub fn is_at(from: &str, scheme: &str, host: &str) -> bool {
        origin(from).is_some_and(|from| origin(&format!("{scheme}://{host}")) == Some(from))
    }
}

/// A host and perhaps a port, in lower case and without brackets.
fn authority(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        // An IPv6 address may be given bare; in a header it never is.
        None if text.parse::<Ipv6Addr>().is_ok() => (text, None),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    if host.is_empty() || host.len() > 255 || !host.bytes().all(plain) {
        return None;
    }
    let port = match port {
        None => None,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
        Some(_) => return None,
    };
    Some((host.to_ascii_lowercase(), port))
}

/// An origin as browsers write it: scheme, host, and the port unless it is the scheme's own.
fn origin(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    if scheme.is_empty()
        || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    {
        return None;
    }
    let (host, port) = authority(rest)?;
    let usual = match scheme.as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Some(match port.filter(|port| Some(*port) != usual) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(address: &str) -> Hosts {
        let names = ["plant.example".to_owned(), "gate.example:8443".into()];
        let origins = ["https://console.example".to_owned(), "http://[::1]:9000".into()];
        Hosts::new(address.parse().unwrap(), &names, &origins).unwrap()
    }

    /// F-11: the bound address, names of this machine for itself, and what was given; a rebound name is none of them.
    #[test]
    fn a_rebound_name_is_not_ours() {
        let hosts = bound("192.168.1.7");
        for host in [
            "127.0.0.1",
            "127.0.0.1:7",
            "localhost",
            "LOCALHOST:80",
            "[::1]:9",
            "192.168.1.7:1",
            "plant.example",
            "Plant.Example:99",
            "gate.example:8443",
        ] {
            assert!(hosts.answers_to(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.1.evil.example",
            "192.168.1.8",
            "gate.example",
            "gate.example:80",
            "a@localhost",
            "localhost:",
            "localhost:x",
            "localhost:99999",
            "[::1",
            "[::1]x",
            "local host",
            "0.0.0.0",
        ] {
            assert!(!hosts.answers_to(host), "{host}");
        }
        assert!(!bound("0.0.0.0").answers_to("0.0.0.0"), "an address nobody has");
        assert!(!bound("0.0.0.0").answers_to("192.168.1.7"));
    }

    /// F-11: an address is one however it is written, and nothing that a name server is asked for.
    #[test]
    fn an_address_is_no_name() {
        for host in ["10.1.2.3", "10.1.2.3:9464", "[fe80::1]", "[::1]:9464", "0.0.0.0"] {
            assert!(Hosts::is_address(host), "{host}");
        }
        for host in [
            "",
            "localhost",
            "10.1.2.3.evil.example",
            "10.1.2",
            "0x7f.1",
            "2130706433",
            "[::1",
            "a@10.1.2.3",
            "10.1.2.3:x",
        ] {
            assert!(!Hosts::is_address(host), "{host}");
        }
    }

    /// F-11: only pages that were named.
    #[test]
    fn only_pages_that_were_named_are_let_in() {
        let hosts = bound("127.0.0.1");
        for from in ["https://console.example", "HTTPS://Console.Example:443", "http://[::1]:9000"] {
            assert!(hosts.lets_in(from), "{from}");
        }
        for from in [
            "null",
            "",
            "http://console.example",
            "https://console.example:444",
            "https://console.example.evil",
            "https://console.example/",
            "http://localhost",
            "http://127.0.0.1",
        ] {
            assert!(!hosts.lets_in(from), "{from}");
        }
    }

    #[test]
    fn what_is_no_name_and_no_origin_is_refused() {
        let address = "127.0.0.1".parse().unwrap();
        for name in ["", "*", "http://x", "a b", "x:99999"] {
            assert!(Hosts::new(address, &[name.to_owned()], &[]).is_err(), "{name}");
        }
        for from in ["", "*", "null", "x.example", "https://", "https://x/y"] {
            assert!(Hosts::new(address, &[], &[from.to_owned()]).is_err(), "{from}");
        }
    }

    /// F-11: only what says scheme, host and port of the door itself is of the door itself.
    #[test]
    fn a_page_of_the_door_itself_is_known() {
        let at = |from: &str| Hosts::is_at(from, "http", "localhost:8080");
        assert!(at("http://localhost:8080") && at("HTTP://LocalHost:8080"));
        for from in
            ["http://localhost", "http://localhost:8081", "https://localhost:8080", "http://127.0.0.1:8080", "null"]
        {
            assert!(!at(from), "{from}");
        }
        assert!(Hosts::is_at("https://gate.example", "https", "gate.example:443"));
    }
}
