//! Host and port of an address, as typed.

use std::net::Ipv6Addr;

/// What is wrong with it. Nothing of the text is repeated: a secret may stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Something before an `@`.
    UserInfo,
    /// No host, or one that cannot be a host.
    Host,
    /// A port that is none.
    Port,
    /// Something after the port.
    Path,
}

/// Reads what follows `scheme://`. The host of an IPv6 address comes without its brackets.
pub(super) fn read(rest: &str, default_port: u16) -> Result<(&str, u16), Fault> {
    if rest.contains('@') {
        return Err(Fault::UserInfo);
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#']) {
        return Err(Fault::Path);
    }
    let (host, port) = split(authority)?;
    let port = match port {
        None => default_port,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0).ok_or(Fault::Port)?
        }
        Some(_) => return Err(Fault::Port),
    };
    Ok((host, port))
}

/// Writes them back, an IPv6 address in its brackets.
pub(super) fn write(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn split(authority: &str) -> Result<(&str, Option<&str>), Fault> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or(Fault::Host)?;
        host.parse::<Ipv6Addr>().map_err(|_| Fault::Host)?;
        return match port.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if port.is_empty() => Ok((host, None)),
            None => Err(Fault::Host),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '[' | ']' | '%' | '\\');
    if host.is_empty() || host.contains(odd) || port.is_some_and(|port| port.contains(':')) {
        return Err(Fault::Host);
    }
    Ok((host, port))
}
