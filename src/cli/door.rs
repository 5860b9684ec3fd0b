//! The HTTP door as it was asked for: where, for whom, under which names.

use std::{
    fs::File,
    io::Read,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;

use super::{StartError, plain};
use crate::door::{
    auth::{Keys, may_open},
    hosts::Hosts,
    http::{DoorTls, HttpConfig, HttpDoor, Meters, Rules},
};

/// The flags of the HTTP door.
#[derive(Clone, Debug, Args)]
pub(super) struct DoorArgs {
    /// Serves MCP over streamable HTTP at /mcp of this port as well; 0 takes a free one and says which.
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// The address of that port. Anything but this machine itself needs a token.
    #[arg(long, value_name = "ADDR", requires = "port", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = address)]
    host: IpAddr,
    /// The token of HTTP clients, or named clients as {"tokens": {"<token>": {"name": "<client>", "read_only": false}}}; else
    /// the token of PLANTBRIDGE_MCP_TOKEN.
    #[arg(long, value_name = "FILE", requires = "port")]
    mcp_auth: Option<PathBuf>,
    /// Does not open the door without a token, not even to this machine alone.
    #[arg(long, requires = "port")]
    require_token: bool,
    /// A web page that may speak to the door, as scheme://host[:port]; may be repeated.
    #[arg(long, value_name = "ORIGIN", requires = "port")]
    allow_origin: Vec<String>,
    /// A further name the door answers to, as host[:port]; may be repeated.
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// The certificate chain the door shows, as PEM. Needs --door-key.
    #[arg(long, value_name = "FILE", requires = "port", requires = "door_key")]
    door_cert: Option<PathBuf>,
    /// The key of --door-cert, as PEM.
    #[arg(long, value_name = "FILE", requires = "door_cert")]
    door_key: Option<PathBuf>,
    /// Answers /healthz, /readyz and /metrics of this port, and nothing else there; 0 takes a free one and says which. The door of
    /// --port answers them as well, /metrics to clients with a token, if there are any.
    #[arg(long, value_name = "N")]
    metrics_port: Option<u16>,
    /// The address of that port. Nothing there needs a token, and nothing names a peer.
    #[arg(long, value_name = "ADDR", requires = "metrics_port", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = address)]
    metrics_host: IpAddr,
    /// Leaves standard input and output alone: for a container.
    #[arg(long, requires = "port")]
    no_stdio: bool,
}

fn address(typed: &str) -> Result<IpAddr, String> {
    if typed == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let bare = typed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(typed);
    bare.parse().map_err(|_| "expected an address of this machine, such as 127.0.0.1, ::1 or 0.0.0.0".to_owned())
}

/// Which doors are opened.
#[derive(Debug)]
pub(super) struct Doors {
    /// Whether standard input and output are served.
    pub(super) stdio: bool,
    http: Option<(SocketAddr, Rules)>,
    metrics: Option<(SocketAddr, Rules)>,
}

impl DoorArgs {
    /// The same for a door that is open at this address: what it was asked to be since then is for its next start.
    pub(super) fn stay_at(&mut self, address: SocketAddr) {
        self.host = address.ip();
        self.port = Some(address.port());
    }
}

/// Those that were opened.
pub(super) struct Opened {
    /// The HTTP door, if it was asked for.
    pub(super) http: Option<HttpDoor>,
    /// What watches the process, likewise.
    pub(super) metrics: Option<HttpDoor>,
}

/// How long what watches the process may take to let go of whoever asks at the end.
const LET_GO: Duration = Duration::from_millis(100);

impl Doors {
    /// Checks everything that can be checked before anything is opened. A file that is named wins over the environment.
    pub(super) fn new(args: &DoorArgs, environment: Option<Keys>) -> Result<Self, StartError> {
        let metrics =
            args.metrics_port.map(|port| watching(SocketAddr::new(args.metrics_host, port), args)).transpose()?;
        if !args.allow_host.is_empty() && args.port.is_none() && metrics.is_none() {
            return Err(StartError("--allow-host needs --port or --metrics-port".into()));
        }
        let Some(port) = args.port else { return Ok(Self { stdio: true, http: None, metrics }) };
        let keys = match &args.mcp_auth {
            Some(file) => read(file).map_err(|why| StartError(format!("--mcp-auth {}: {why}", file.display())))?,
            None => environment.unwrap_or_default(),
        };
        may_open(args.host, &keys, args.require_token).map_err(StartError::new)?;
        let hosts = Hosts::new(args.host, &args.allow_host, &args.allow_origin).map_err(StartError)?;
        let tls = args.door_cert.as_ref().zip(args.door_key.as_ref());
        let tls = tls.map(|(certificate, key)| tls_of(certificate, key)).transpose().map_err(StartError)?;
        let rules = Rules { keys, hosts, tls };
        Ok(Self { stdio: !args.no_stdio, http: Some((SocketAddr::new(args.host, port), rules)), metrics })
    }

    /// Where the HTTP door is to be, if it was asked for.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|(address, _)| *address)
    }

    /// Its rules.
    pub(super) fn rules(self) -> Option<Rules> {
        self.http.map(|(_, rules)| rules)
    }

    /// Opens what was asked for, and says where it is.
    pub(super) async fn open(self) -> Result<Opened, StartError> {
        let meters = Meters::default();
        let counted = |door: HttpDoor| door.counted_in(meters.clone());
        let http = open_door(self.http).await?.map(counted);
        let metrics = open_watching(self.metrics).await?.map(counted);
        Ok(Opened { http, metrics })
    }
}

/// Where nothing but what watches the process is answered, and under which names.
fn watching(address: SocketAddr, args: &DoorArgs) -> Result<(SocketAddr, Rules), StartError> {
    let hosts = Hosts::new(address.ip(), &args.allow_host, &[]).map_err(StartError)?;
    Ok((address, Rules { keys: Keys::default(), hosts, tls: None }))
}

async fn open_watching(wanted: Option<(SocketAddr, Rules)>) -> Result<Option<HttpDoor>, StartError> {
    let Some((address, rules)) = wanted else { return Ok(None) };
    let config = HttpConfig { drain: LET_GO, ..HttpConfig::default() };
    let opened = HttpDoor::bind(address, rules, config).await;
    let door = opened.map_err(|problem| StartError(format!("--metrics-port: {address}: {problem}")))?;
    let bound = door.address().map_err(StartError::new)?;
    tracing::info!("health and metrics are at http://{bound}: /healthz, /readyz, /metrics");
    if !address.ip().to_canonical().is_loopback() {
        tracing::warn!("metrics are open to the network: whoever gets there reads how much is called and what is down");
    }
    Ok(Some(door))
}

async fn open_door(wanted: Option<(SocketAddr, Rules)>) -> Result<Option<HttpDoor>, StartError> {
    let Some((address, rules)) = wanted else { return Ok(None) };
    let plain = rules.tls.is_none();
    let (anybody, wide) = (rules.keys.is_open(), !address.ip().to_canonical().is_loopback());
    let scheme = if plain { "http" } else { "https" };
    let opened = HttpDoor::bind(address, rules, HttpConfig::default()).await;
    let door = opened.map_err(|problem| StartError(format!("--port: {address}: {problem}")))?;
    let bound = door.address().map_err(StartError::new)?;
    tracing::info!("MCP over HTTP is at {scheme}://{bound}/mcp");
    if anybody {
        tracing::warn!(
            "any process on this machine can drive the plant through {scheme}://{bound}/mcp: there is no token"
        );
    }
    if wide && plain {
        tracing::warn!(
            "the door is open to the network, without TLS: whoever listens in can read the tokens; --door-cert and --door-key give it one"
        );
    }
    Ok(Some(door))
}

/// Bytes a file of tokens may have.
const LARGEST: u64 = 1024 * 1024;

fn tls_of(certificate: &Path, key: &Path) -> Result<DoorTls, String> {
    kept(&plain::open(key).map_err(|problem| format!("--door-key {}: {problem}", key.display()))?)
        .map_err(|why| format!("--door-key {}: {why}", key.display()))?;
    DoorTls::load(certificate, key).map_err(|why| format!("--door-cert: {why}"))
}

/// Whether a file with a secret is one, and is kept from others.
fn kept(file: &File) -> Result<(), String> {
    let about = file.metadata().map_err(|problem| problem.to_string())?;
    if !about.is_file() {
        return Err("it is no file".into());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if about.permissions().mode() & 0o007 != 0 {
            return Err("others can read or change it; chmod o-rwx".into());
        }
    }
    Ok(())
}

/// The tokens of a file that only its owner, and perhaps a group, can read.
fn read(path: &Path) -> Result<Keys, String> {
    let file = plain::open(path).map_err(|problem| problem.to_string())?;
    kept(&file)?;
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(|problem| problem.to_string())?;
    if text.len() as u64 > LARGEST {
        return Err(format!("it is over {LARGEST} bytes"));
    }
    Keys::parse(&text).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, text).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        (folder, path)
    }

    fn asked(host: &str, mcp_auth: Option<PathBuf>) -> DoorArgs {
        let host = address(host).unwrap();
        let (allow_origin, allow_host) = (Vec::new(), Vec::new());
        DoorArgs {
            port: Some(0),
            host,
            mcp_auth,
            require_token: false,
            allow_origin,
            allow_host,
            door_cert: None,
            door_key: None,
            metrics_port: None,
            metrics_host: Ipv4Addr::LOCALHOST.into(),
            no_stdio: false,
        }
    }

    /// F-34: an explicit file wins, and one that is empty or readable by others is refused, never passed over.
    #[test]
    fn a_file_of_tokens_is_used_or_refused() {
        let environment = || Some(Keys::one("of-the-environment").unwrap());
        let (_kept, good) = file("token\n", 0o640);
        assert!(Doors::new(&asked("0.0.0.0", Some(good)), None).is_ok());
        let cases: &[(&str, u32)] = if cfg!(unix) {
            &[("", 0o600), (" \n", 0o600), ("token", 0o644), ("token", 0o602)]
        } else {
            &[("", 0), (" \n", 0)]
        };
        for (text, mode) in cases {
            let (_kept, bad) = file(text, *mode);
            let error = Doors::new(&asked("127.0.0.1", Some(bad)), environment()).unwrap_err();
            assert!(error.0.starts_with("--mcp-auth ") && !error.0.contains('\n'), "{error}");
        }
        assert!(Doors::new(&asked("127.0.0.1", Some("not-there".into())), environment()).is_err());
        let (_kept, folder) = (tempfile::tempdir().unwrap(), std::env::temp_dir());
        assert!(Doors::new(&asked("127.0.0.1", Some(folder)), None).is_err());
    }

    /// F-34: wider than this machine only with a token; `::1` is this machine.
    #[test]
    fn a_wide_door_without_a_token_does_not_open() {
        for host in ["0.0.0.0", "::", "10.1.2.3"] {
            assert!(Doors::new(&asked(host, None), None).unwrap_err().0.contains("PLANTBRIDGE_MCP_TOKEN"), "{host}");
            assert!(Doors::new(&asked(host, None), Some(Keys::one("t").unwrap())).is_ok(), "{host}");
        }
        for host in ["127.0.0.1", "::1", "[::1]", "localhost"] {
            assert!(Doors::new(&asked(host, None), None).is_ok(), "{host}");
            let strict = DoorArgs { require_token: true, ..asked(host, None) };
            assert!(Doors::new(&strict, None).unwrap_err().0.starts_with("--require-token"), "{host}");
        }
        assert!(address("plant.example").is_err());
    }
}
