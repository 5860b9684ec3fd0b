//! `plantbridge health`: asks a bridge on this machine whether it is ready, for an image that has neither a shell nor a client of
//! HTTP. It joins nothing, starts no thread and no runtime, and is over within [`PATIENCE`].

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use clap::Args;
use serde_json::Value as Json;

use super::StartError;
use crate::mcp::text;

#[derive(Clone, Debug, Args)]
pub(super) struct HealthArgs {
    /// Where the bridge answers, as http://host:port: that of --metrics-port, or of a door without TLS. Else
    /// PLANTBRIDGE_HEALTH_URL.
    #[arg(long, value_name = "URL", conflicts_with = "port")]
    url: Option<String>,
    /// The same as --url http://127.0.0.1:N.
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Asks whether the process lives, and not whether its links are up.
    #[arg(long)]
    live: bool,
}

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an answer that are read.
const LONGEST: u64 = 16 * 1024;
/// Bytes of what is shown of it.
const SHOWN: usize = 200;

const NOWHERE: &str = "health: give it --port <n> of the bridge's --metrics-port, or --url http://host:port, or set PLANTBRIDGE_HEALTH_URL";

/// Asks; gives the one line that is to be printed, whether or not all is well.
pub(super) fn run(args: &HealthArgs, environment: Option<String>) -> Result<String, StartError> {
    let host = match (&args.url, args.port, environment) {
        (Some(url), ..) => host_of("--url", url)?,
        (None, Some(port), _) => format!("127.0.0.1:{port}"),
        (None, None, Some(url)) => host_of("PLANTBRIDGE_HEALTH_URL", &url)?,
        (None, None, None) => return Err(StartError(NOWHERE.into())),
    };
    let path = if args.live { "/healthz" } else { "/readyz" };
    let unwell = |why: String| StartError(format!("health: {host}{path}: {}", text::printable(&why, SHOWN)));
    let answer = ask(&host, path).map_err(|problem| unwell(problem.to_string()))?;
    let (well, said) = judged(&answer).ok_or_else(|| unwell("what answers there is no bridge".into()))?;
    if well { Ok(said) } else { Err(unwell(said)) }
}

/// The host and port of an address, without anything behind them.
fn host_of(what: &str, url: &str) -> Result<String, StartError> {
    let no = |why: &str| Err(StartError(format!("health: {what}: {why}")));
    if url.starts_with("https://") {
        return no("only http:// is asked, without TLS; have the bridge answer on --metrics-port and name that");
    }
    let Some(rest) = url.strip_prefix("http://") else { return no("expected http://host:port") };
    let host = rest.strip_suffix('/').unwrap_or(rest);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    if host.is_empty() || host.len() > 255 || !host.bytes().all(plain) {
        return no("expected http://host:port, without a path and without a password");
    }
    let bare = host.rsplit_once(']').map_or(host, |(_, port)| port);
    Ok(if bare.contains(':') { host.to_owned() } else { format!("{host}:80") })
}

fn ask(host: &str, path: &str) -> std::io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let left = || match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time")),
        left => Ok(left),
    };
    let mut stream = connect(host, left)?;
    stream.set_write_timeout(Some(left()?))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
    while (answer.len() as u64) < LONGEST {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(piece.get(..read).unwrap_or_default()),
            Err(problem) if problem.kind() == std::io::ErrorKind::WouldBlock => left().map(drop)?,
            Err(problem) => return Err(problem),
        }
    }
    Ok(answer)
}

/// The first of the addresses that takes us.
fn connect(host: &str, left: impl Fn() -> std::io::Result<Duration>) -> std::io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = host.to_socket_addrs()?.collect();
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no such host");
    for address in addresses {
        match TcpStream::connect_timeout(&address, left()?) {
            Ok(stream) => return Ok(stream),
            Err(problem) => last = problem,
        }
    }
    Err(last)
}

/// Whether all is well, and what was said; nothing of what is no answer of a bridge.
fn judged(answer: &[u8]) -> Option<(bool, String)> {
    let answer = std::str::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    let body: Json = serde_json::from_str(body).ok()?;
    let said = body.get("status")?.as_str()?;
    let mut told = text::printable(said, SHOWN);
    for why in body.get("why").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str) {
        told = format!("{told} {why}");
    }
    for link in body.get("links").and_then(Json::as_array).into_iter().flatten() {
        let word = |key: &str| link.get(key).and_then(Json::as_str).unwrap_or("?");
        let seconds = link.get("for_ms").and_then(Json::as_u64).unwrap_or_default() / 1_000;
        told = format!("{told}; {} is {} for {seconds} s", word("kind"), word("trouble"));
    }
    Some((status == "200", text::printable(&told, SHOWN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_all_that_an_address_may_name() {
        let host = |url: &str| host_of("--url", url).map_err(|error| error.0);
        assert_eq!(host("http://127.0.0.1:9464").unwrap(), "127.0.0.1:9464");
        assert_eq!(host("http://[::1]:9464/").unwrap(), "[::1]:9464");
        assert_eq!(host("http://bridge").unwrap(), "bridge:80");
        assert_eq!(host("http://[::1]").unwrap(), "[::1]:80");
        for url in ["", "127.0.0.1:1", "http://", "http://a/b", "http://a@b:1", "http://a:1\r\nX: y", "ftp://a"] {
            assert!(host(url).is_err(), "{url:?}");
        }
        assert!(host("https://127.0.0.1:1").unwrap_err().contains("--metrics-port"));
    }

    /// What is said is one line, and what is no answer of a bridge is not taken for good health.
    #[test]
    fn only_a_bridge_is_believed() {
        let answer = |status: &str, body: &str| judged(format!("HTTP/1.1 {status}\r\nx: y\r\n\r\n{body}").as_bytes());
        assert_eq!(answer("200 OK", r#"{"status":"ready"}"#), Some((true, "ready".into())));
        let body = r#"{"status":"not_ready","why":["link_down"],"links":[{"link":0,"kind":"mqtt","trouble":"lost","for_ms":2500}]}"#;
        let said = "not_ready link_down; mqtt is lost for 2 s".to_owned();
        assert_eq!(answer("503 Service Unavailable", body), Some((false, said)));
        for (status, body) in [("200 OK", "ok"), ("200 OK", "{}"), ("200 OK", r#"{"status":1}"#), ("", "")] {
            assert_eq!(answer(status, body), None, "{body}");
        }
        assert_eq!(judged(b"SSH-2.0-x\r\n\r\n{\"status\":\"ready\"}"), None);
        assert_eq!(judged(&[0xff, 0xfe]), None);
        let evil = answer("503 x", "{\"status\":\"a\\nb\\u001b[2J\"}").unwrap();
        assert!(!evil.1.contains(['\n', '\u{1b}']), "{evil:?}");
    }
}
