//! What a service manager is told of a process that it started (`sd_notify(3)`): datagrams to the socket it named, each with lines
//! `NAME=value`. Programs that we start have none of its variables, because they get an environment of their own (F-25).

use std::{env, time::Duration};

use crate::mcp::text;

/// Bytes a status may have.
const MAX_STATUS: usize = 512;

/// The manager, if there is one.
#[derive(Debug, Default)]
pub(super) struct Manager {
    #[cfg(unix)]
    socket: Option<std::os::unix::net::UnixDatagram>,
    /// How long it waits for a sign of life before it takes us for hung.
    patience: Option<Duration>,
    /// What it was told last of how we are.
    status: String,
}

impl Manager {
    /// The one that the environment names.
    pub(super) fn of_environment() -> Self {
        let patience = patience(|name| env::var(name).ok());
        #[cfg(unix)]
        {
            let socket = env::var_os("NOTIFY_SOCKET").and_then(|name| match socket::to(&name) {
                Ok(socket) => Some(socket),
                Err(problem) => {
                    tracing::warn!("the service manager cannot be told anything: NOTIFY_SOCKET: {problem}");
                    None
                }
            });
            Self { socket, patience, status: String::new() }
        }
        #[cfg(not(unix))]
        Self { patience, status: String::new() }
    }

    /// How often it wants a sign of life; twice as often as it has to be.
    pub(super) fn pace(&self) -> Option<Duration> {
        self.patience.map(|patience| patience / 2)
    }

    /// We serve.
    pub(super) fn ready(&self) {
        self.tell("READY=1");
    }

    /// Settings are being read again; followed by `ready`, whatever came of it.
    pub(super) fn reloading(&self) {
        #[cfg(unix)]
        {
            // By this it tells the `ready` of this reload from an earlier one.
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1_000));
        }
    }

    /// We end.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// We are alive.
    pub(super) fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// How we are, in a line, if that is news.
    pub(super) fn status(&mut self, status: &str) {
        let status = text::printable(status, MAX_STATUS);
        if status != self.status {
            self.tell(&format!("STATUS={status}"));
            self.status = status;
        }
    }

    fn tell(&self, what: &str) {
        #[cfg(unix)]
        if let Some(Err(problem)) = self.socket.as_ref().map(|socket| socket.send(what.as_bytes())) {
            tracing::debug!(%problem, "the service manager was not told: {what}");
        }
        #[cfg(not(unix))]
        let _ = what;
    }
}

/// What the variables of a watchdog say, if they are meant for this process.
fn patience(get: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let ours = get("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(std::process::id()));
    let patience = get("WATCHDOG_USEC")?.parse().ok().filter(|micros| *micros > 1)?;
    ours.then(|| Duration::from_micros(patience))
}

#[cfg(unix)]
mod socket {
    //! The socket of the manager: a path, or after an `@` a name that is in no file system.

    use std::{
        ffi::OsStr,
        io,
        os::unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    };

    pub(super) fn to(name: &OsStr) -> io::Result<UnixDatagram> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => nameless(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::other("it is neither a path from the root on nor a name after an @")),
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read is not waited for.
        socket.set_nonblocking(true)?;
        socket.connect_addr(&address)?;
        Ok(socket)
    }

    #[cfg(target_os = "linux")]
    fn nameless(name: &[u8]) -> io::Result<SocketAddr> {
        <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)
    }

    #[cfg(not(target_os = "linux"))]
    fn nameless(_: &[u8]) -> io::Result<SocketAddr> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watchdog that was meant for another process is not fed by this one.
    #[test]
    fn only_our_own_watchdog_is_fed() {
        let of = |held: &[(&str, String)]| {
            patience(|name| held.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()))
        };
        let micros = ("WATCHDOG_USEC", "30000000".to_owned());
        let ours = ("WATCHDOG_PID", std::process::id().to_string());
        let whole = Some(Duration::from_secs(30));
        assert_eq!(of(&[]), None);
        assert_eq!((of(std::slice::from_ref(&micros)), of(&[micros.clone(), ours])), (whole, whole));
        assert_eq!(of(&[micros, ("WATCHDOG_PID", "1".into())]), None);
        for bad in ["", "0", "1", "-5", "x"] {
            assert_eq!(of(&[("WATCHDOG_USEC", bad.into())]), None, "{bad}");
        }
    }

    /// Both kinds of socket; and a status is one line, told when it is another.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_told_arrives_at_either_kind_of_socket() {
        use std::os::{
            linux::net::SocketAddrExt,
            unix::net::{SocketAddr, UnixDatagram},
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("plantbridge-{}", uuid::Uuid::new_v4());
        let nameless = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let heard = [(UnixDatagram::bind(&path).unwrap(), path.display().to_string()), (nameless, format!("@{name}"))];
        for (heard, name) in heard {
            let socket = socket::to(name.as_ref()).unwrap();
            let mut manager = Manager { socket: Some(socket), ..Manager::default() };
            let next = || {
                let mut bytes = [0; 1_024];
                let length = heard.recv(&mut bytes).unwrap();
                String::from_utf8(bytes[..length].to_vec()).unwrap()
            };
            manager.ready();
            assert_eq!(next(), "READY=1");
            manager.status("mqtt: down\nREADY=1");
            assert!(next().starts_with("STATUS=mqtt: down") && !next_is_there(&heard));
            manager.status("mqtt: down\nREADY=1");
            assert!(!next_is_there(&heard), "told once");
            manager.reloading();
            let told = next();
            let micros = told.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
            assert!(micros.parse::<u64>().unwrap() > 0);
            manager.alive();
            manager.stopping();
            assert_eq!((next(), next()), ("WATCHDOG=1".into(), "STOPPING=1".into()));
        }
        assert!(socket::to("vsock:2:1234".as_ref()).is_err() && socket::to("@".as_ref()).is_err());
    }

    #[cfg(target_os = "linux")]
    fn next_is_there(heard: &std::os::unix::net::UnixDatagram) -> bool {
        heard.set_nonblocking(true).unwrap();
        let there = heard.recv(&mut [0; 1_024]).is_ok();
        heard.set_nonblocking(false).unwrap();
        there
    }
}
