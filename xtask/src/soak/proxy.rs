//! What stands between some clients and the broker and makes a bad line of a good one.
//!
//! Each connection has a thread for each direction, which reads, is told how the line is, and writes. TCP loses nothing in
//! the middle of a stream, so what is swallowed is always cut afterwards.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt;

use super::doubling::{Packets, Repeats};
use super::plan::Draw;

/// How the line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Everything passes.
    Clear,
    Delay {
        latency: Duration,
        jitter: Duration,
    },
    /// Nothing passes; it waits.
    Hold,
    /// Nothing passes; it is gone.
    Swallow,
    /// So many bytes a second, each way of each connection.
    Slow {
        bytes: u64,
    },
    /// What is to be acknowledged is sent again.
    Double,
}

/// How connections end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    Finish,
    Reset,
}

/// A listening proxy; with it go all its connections.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) port: u16,
    line: Arc<Line>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Line {
    broker: u16,
    mode: Mutex<Mode>,
    changed: Condvar,
    over: AtomicBool,
    pairs: Mutex<Vec<Arc<Pair>>>,
    /// What was swallowed, in bytes.
    swallowed: AtomicU64,
    /// Packets sent again.
    repeated: AtomicU64,
}

/// The two sockets of one connection.
#[derive(Debug)]
struct Pair {
    client: TcpStream,
    broker: TcpStream,
    cut: AtomicBool,
    /// What the client sent twice, and what the broker did.
    repeats: Mutex<(Repeats, Repeats)>,
}

impl Proxy {
    /// Listens on a port of its own in front of a broker.
    pub(super) fn start(broker: u16) -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("a proxy: {error}"))?;
        let port = listener.local_addr().map_err(|error| format!("a proxy: {error}"))?.port();
        let line = Arc::new(Line {
            broker,
            mode: Mutex::new(Mode::Clear),
            changed: Condvar::new(),
            over: AtomicBool::new(false),
            pairs: Mutex::default(),
            swallowed: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
        });
        let accepting = std::thread::spawn({
            let line = line.clone();
            move || line.accept(&listener)
        });
        Ok(Self { port, line, accepting: Some(accepting) })
    }

    /// Makes the line so from now on, for what is there and for what comes.
    pub(super) fn set(&self, mode: Mode) {
        *lock(&self.line.mode) = mode;
        self.line.changed.notify_all();
    }

    /// Ends every connection there is.
    pub(super) fn cut(&self, how: Cut) {
        for pair in lock(&self.line.pairs).drain(..) {
            pair.end(how);
        }
        self.line.changed.notify_all();
    }

    pub(super) fn swallowed(&self) -> u64 {
        self.line.swallowed.load(Ordering::Relaxed)
    }

    pub(super) fn repeated(&self) -> u64 {
        self.line.repeated.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.line.over.store(true, Ordering::SeqCst);
        self.cut(Cut::Finish);
        // Whoever waits for a client gets this one, and looks whether it is over.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        // A thread that panicked has said so itself.
        let _ = self.accepting.take().map(JoinHandle::join);
        self.cut(Cut::Finish);
    }
}

impl Line {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            // A broker that is not there is a client that is turned away.
            let Ok(client) = client else { continue };
            let Ok(broker) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.broker)) else { continue };
            let _ = client.set_nodelay(true).and_then(|()| broker.set_nodelay(true));
            let pair = Arc::new(Pair { client, broker, cut: AtomicBool::new(false), repeats: Mutex::default() });
            let mut pairs = lock(&self.pairs);
            pairs.retain(|pair| !pair.cut.load(Ordering::SeqCst));
            pairs.push(pair.clone());
            for from_client in [true, false] {
                let (line, pair) = (self.clone(), pair.clone());
                std::thread::spawn(move || line.pump(&pair, from_client));
            }
        }
    }

    /// Carries one direction until either side ends.
    fn pump(&self, pair: &Pair, from_client: bool) {
        let (mut from, to) = if from_client { (&pair.client, &pair.broker) } else { (&pair.broker, &pair.client) };
        let (mut packets, mut piece) = (Packets::default(), vec![0; 16 * 1024]);
        let mut draw = Draw::new(u64::from(from_client));
        while let Ok(count @ 1..) = from.read(&mut piece) {
            let doubling = *lock(&self.mode) == Mode::Double;
            let bytes = pair.pass(&mut packets, piece.get(..count).unwrap_or_default(), doubling, from_client, self);
            if !self.carry(pair, to, &bytes, &mut draw) {
                break;
            }
        }
        pair.end(Cut::Finish);
    }

    /// Writes as the line is; false when the connection is over.
    fn carry(&self, pair: &Pair, mut to: &TcpStream, bytes: &[u8], draw: &mut Draw) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (size, pause) = match self.mode(pair) {
                _ if pair.cut.load(Ordering::SeqCst) => return false,
                Mode::Swallow => {
                    self.swallowed.fetch_add(rest.len() as u64, Ordering::Relaxed);
                    return true;
                }
                Mode::Slow { bytes } => (usize::try_from(bytes / 10).unwrap_or(1).max(1), Duration::from_millis(100)),
                Mode::Delay { latency, jitter } => {
                    let more = u64::try_from(jitter.as_millis()).unwrap_or_default() + 1;
                    (rest.len(), latency + draw.millis(0, more))
                }
                Mode::Clear | Mode::Hold | Mode::Double => (rest.len(), Duration::ZERO),
            };
            std::thread::sleep(pause);
            let (now, later) = rest.split_at(size.min(rest.len()));
            if to.write_all(now).is_err() {
                return false;
            }
            rest = later;
        }
        true
    }

    /// How the line is, once something may be done.
    fn mode(&self, pair: &Pair) -> Mode {
        let mut mode = lock(&self.mode);
        while *mode == Mode::Hold && !pair.cut.load(Ordering::SeqCst) {
            // A cut that comes between the look and the wait is seen soon.
            let waited = self.changed.wait_timeout(mode, Duration::from_millis(50));
            mode = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *mode
    }
}

impl Pair {
    fn pass(&self, packets: &mut Packets, piece: &[u8], doubling: bool, from_client: bool, line: &Line) -> Vec<u8> {
        let mut repeats = lock(&self.repeats);
        let (client, broker) = &mut *repeats;
        let (mine, theirs) = if from_client { (client, broker) } else { (broker, client) };
        let before = mine.sent + theirs.sent;
        let bytes = packets.pass(piece, doubling, mine, theirs);
        line.repeated.fetch_add(mine.sent + theirs.sent - before, Ordering::Relaxed);
        bytes
    }

    /// Ends both sides, unless they have ended.
    fn end(&self, how: Cut) {
        if self.cut.swap(true, Ordering::SeqCst) {
            return;
        }
        for socket in [&self.client, &self.broker] {
            // Whoever has gone already needs no farewell.
            let _ = match how {
                Cut::Finish => socket.shutdown(Shutdown::Both),
                // No linger makes the last close an RST; ending only the reading wakes the thread that reads, and sends nothing.
                Cut::Reset => sockopt::set_socket_linger(socket, Some(Duration::ZERO))
                    .map_err(Into::into)
                    .and_then(|()| socket.shutdown(Shutdown::Read)),
            };
        }
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::time::Instant;

    use super::super::doubling::tests::{puback, publish};
    use super::*;

    /// Both ends of a connection through a proxy: the client's and the broker's.
    fn line() -> (Proxy, TcpStream, TcpStream) {
        let broker = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::start(broker.local_addr().unwrap().port()).unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port)).unwrap();
        let (behind, _) = broker.accept().unwrap();
        // What has passed once is known to the proxy.
        client.write_all(&[0xC0, 0]).unwrap();
        assert_eq!(read(&behind, 2), [0xC0, 0]);
        for socket in [&client, &behind] {
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        }
        (proxy, client, behind)
    }

    fn read(mut from: &TcpStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        from.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// How the reading ends: with nothing, or with an error.
    fn end(mut of: &TcpStream) -> Result<usize, ErrorKind> {
        of.read(&mut [0; 16]).map_err(|error| error.kind())
    }

    fn silent(of: &TcpStream, during: Duration) {
        of.set_read_timeout(Some(during)).unwrap();
        let found = end(of);
        assert!(matches!(found, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "not silent: {found:?}");
        of.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    }

    #[test]
    fn a_clear_line_passes_both_ways() {
        let (_proxy, mut client, mut broker) = line();
        client.write_all(&publish(1, b"there")).unwrap();
        assert_eq!(read(&broker, 13), publish(1, b"there"));
        broker.write_all(&puback(1)).unwrap();
        assert_eq!(read(&client, 4), puback(1));
    }

    #[test]
    fn a_delay_is_at_least_as_long_as_it_says() {
        let (proxy, mut client, broker) = line();
        let (latency, jitter) = (Duration::from_millis(120), Duration::from_millis(10));
        proxy.set(Mode::Delay { latency, jitter });
        let begun = Instant::now();
        client.write_all(&publish(1, b"x")).unwrap();
        read(&broker, 9);
        assert!(begun.elapsed() >= latency, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_finished_connection_ends_with_nothing_more_and_a_reset_one_with_an_error() {
        let (proxy, client, broker) = line();
        proxy.cut(Cut::Finish);
        assert_eq!((end(&client), end(&broker)), (Ok(0), Ok(0)));
        let (proxy, client, broker) = line();
        proxy.cut(Cut::Reset);
        assert_eq!((end(&client), end(&broker)), (Err(ErrorKind::ConnectionReset), Err(ErrorKind::ConnectionReset)));
    }

    #[test]
    fn what_is_swallowed_never_arrives_and_is_counted() {
        let (proxy, mut client, broker) = line();
        proxy.set(Mode::Swallow);
        client.write_all(&publish(1, b"gone")).unwrap();
        while proxy.swallowed() < 12 {
            std::thread::yield_now();
        }
        proxy.cut(Cut::Reset);
        assert_eq!(end(&broker), Err(ErrorKind::ConnectionReset));
    }

    #[test]
    fn a_line_that_holds_passes_nothing_keeps_its_sockets_and_passes_all_once_it_is_clear() {
        let (proxy, mut client, mut broker) = line();
        proxy.set(Mode::Hold);
        client.write_all(&publish(1, b"held")).unwrap();
        broker.write_all(&puback(7)).unwrap();
        silent(&broker, Duration::from_millis(50));
        silent(&client, Duration::from_millis(50));
        proxy.set(Mode::Clear);
        assert_eq!((read(&broker, 12), read(&client, 4)), (publish(1, b"held"), puback(7)));
    }

    #[test]
    fn a_line_that_holds_can_be_cut() {
        let (proxy, mut client, broker) = line();
        proxy.set(Mode::Hold);
        client.write_all(&publish(1, b"held")).unwrap();
        silent(&broker, Duration::from_millis(50));
        proxy.cut(Cut::Reset);
        assert_eq!(end(&broker), Err(ErrorKind::ConnectionReset));
    }

    #[test]
    fn a_slow_line_takes_its_time() {
        let (proxy, mut client, broker) = line();
        proxy.set(Mode::Slow { bytes: 400 });
        let begun = Instant::now();
        client.write_all(&publish(1, &[7; 112])).unwrap();
        assert_eq!(read(&broker, 120), publish(1, &[7; 112]));
        assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_doubled_publish_comes_again_and_its_sender_hears_of_one() {
        let (proxy, mut client, mut broker) = line();
        proxy.set(Mode::Double);
        client.write_all(&publish(5, b"x")).unwrap();
        let both = read(&broker, 18);
        assert_eq!((both.first(), both.get(9)), (Some(&0x32), Some(&0x3A)), "the second is marked as a repeat");
        broker.write_all(&[puback(5), puback(5)].concat()).unwrap();
        assert_eq!(read(&client, 4), puback(5));
        client.write_all(&[0xC0, 0]).unwrap();
        assert_eq!(read(&broker, 11).first(), Some(&0x3A), "and once more, acknowledged as it is");
        broker.write_all(&[puback(5), vec![0xD0, 0]].concat()).unwrap();
        assert_eq!(read(&client, 2), vec![0xD0, 0], "that acknowledgement is kept back");
        assert_eq!(proxy.repeated(), 2);
    }

    #[test]
    fn without_a_broker_a_client_is_turned_away() {
        let port = {
            let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            nobody.local_addr().unwrap().port()
        };
        let proxy = Proxy::start(port).unwrap();
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port)).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!(matches!(end(&client), Ok(0) | Err(ErrorKind::ConnectionReset)));
    }
}
