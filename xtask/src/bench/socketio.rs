//! As much of a Socket.IO client as a bare frame and its answer need: blocking, one write for all that one turn brought about.
//!
//! The socket is set up as the bridge's. It is trusted: a hub of our own is at the other end.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use rustix::net::sockopt;

/// A connection to a hub.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    /// Where one read goes.
    piece: Vec<u8>,
    inbox: Vec<u8>,
    out: Vec<u8>,
}

impl Connection {
    /// Connects, is let in, and announces itself.
    pub(super) fn open(port: u16, name: &str) -> Result<Self, String> {
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|error| error.to_string())?;
        let prepared = socket.set_nodelay(true).and_then(|()| socket.set_read_timeout(Some(PATIENCE)));
        prepared.map_err(|error| error.to_string())?;
        let mut connection = Self { socket, piece: vec![0; 64 * 1024], inbox: Vec::new(), out: Vec::new() };
        connection.out.extend_from_slice(HANDSHAKE);
        connection.flush()?;
        let end = loop {
            if let Some(at) = connection.inbox.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            connection.read()?;
        };
        let head: Vec<u8> = connection.inbox.drain(..end).collect();
        if !head.starts_with(b"HTTP/1.1 101") {
            return Err(format!("no WebSocket: {}", String::from_utf8_lossy(&head)));
        }
        connection.expect(b"0{")?;
        connection.message(TEXT, b"40");
        connection.flush()?;
        connection.expect(b"40")?;
        connection.message(TEXT, format!("42[\"presence\",{{\"name\":\"{name}\",\"v\":2}}]").as_bytes());
        connection.flush()?;
        connection.expect(b"42[\"presence\"")?;
        Ok(connection)
    }

    /// Announces that it carries these peers too.
    pub(super) fn carry(&mut self, name: &str, carried: &[String]) -> Result<(), String> {
        let names = carried.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(",");
        let said = format!("42[\"presence\",{{\"name\":\"{name}\",\"v\":2,\"carrying\":[{names}]}}]");
        self.message(TEXT, said.as_bytes());
        self.flush()?;
        self.expect(b"42[\"presence\",{\"peers\"")
    }

    /// What ends the connection from another thread.
    pub(super) fn closer(&self) -> Result<TcpStream, String> {
        self.socket.try_clone().map_err(|error| error.to_string())
    }

    /// Puts out a frame: its announcement and its bytes.
    pub(super) fn put(&mut self, frame: &[u8]) {
        self.message(TEXT, FRAME);
        self.message(BINARY, frame);
    }

    /// Writes all that was put out, at once.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        self.socket.write_all(&self.out).map_err(|error| format!("write to the hub: {error}"))?;
        self.out.clear();
        Ok(())
    }

    /// The bytes of the next frame.
    pub(super) fn frame(&mut self) -> Result<Vec<u8>, String> {
        loop {
            match self.next()? {
                (BINARY, bytes) => return Ok(bytes),
                (TEXT, text) if text == b"2" => {
                    self.message(TEXT, b"3");
                    self.flush()?;
                }
                (TEXT, _) => {}
                (opcode, _) => return Err(format!("the hub sent a message of kind {opcode}")),
            }
        }
    }

    fn expect(&mut self, begins: &[u8]) -> Result<(), String> {
        let (_, text) = self.next()?;
        if text.starts_with(begins) {
            return Ok(());
        }
        Err(format!("{} instead of {}", String::from_utf8_lossy(&text), String::from_utf8_lossy(begins)))
    }

    /// A masked message whose mask is zero, so that nothing is spent on it.
    fn message(&mut self, opcode: u8, payload: &[u8]) {
        self.out.push(0x80 | opcode);
        match u16::try_from(payload.len()) {
            Ok(length @ 0..=125) => self.out.push(MASKED | length.to_be_bytes()[1]),
            Ok(length) => {
                self.out.push(MASKED | SIXTEEN);
                self.out.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                self.out.push(MASKED | SIXTY_FOUR);
                self.out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
            }
        }
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(payload);
    }

    fn next(&mut self) -> Result<(u8, Vec<u8>), String> {
        loop {
            if let Some((opcode, begin, end)) = self.complete() {
                let payload = self.inbox.get(begin..end).unwrap_or_default().to_vec();
                self.inbox.drain(..end);
                return Ok((opcode, payload));
            }
            self.read()?;
        }
    }

    /// What the next message is, and where it begins and ends, once all of it is there.
    fn complete(&self) -> Option<(u8, usize, usize)> {
        let (first, second) = (*self.inbox.first()?, *self.inbox.get(1)?);
        let (begin, length) = match second {
            SIXTEEN => (4, usize::from(u16::from_be_bytes(self.inbox.get(2..4)?.try_into().ok()?))),
            SIXTY_FOUR => (10, usize::try_from(u64::from_be_bytes(self.inbox.get(2..10)?.try_into().ok()?)).ok()?),
            short => (2, usize::from(short)),
        };
        (self.inbox.len() >= begin + length).then_some((first & 0x0f, begin, begin + length))
    }

    fn read(&mut self) -> Result<(), String> {
        let count = self.socket.read(&mut self.piece).map_err(|error| format!("read from the hub: {error}"))?;
        // What the kernel forgets after each read; it only makes things faster.
        sockopt::set_tcp_quickack(&self.socket, true).ok();
        if count == 0 {
            return Err("the hub closed the connection".to_owned());
        }
        self.inbox.extend_from_slice(self.piece.get(..count).unwrap_or_default());
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // It may be closed already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Says that a length of 16 bits follows.
const SIXTEEN: u8 = 0x7e;
/// Says that a length of 64 bits follows.
const SIXTY_FOUR: u8 = 0x7f;
/// Says that a mask follows the length.
const MASKED: u8 = 0x80;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const FRAME: &[u8] = b"451-[\"frame\",{\"_placeholder\":true,\"num\":0}]";
const HANDSHAKE: &[u8] =
    b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n";
/// How long a read may take. Nothing waits this long when all is well.
const PATIENCE: Duration = Duration::from_secs(30);
