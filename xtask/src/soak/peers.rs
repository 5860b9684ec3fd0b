//! The peers of the plant on their connections: each joins again when it lost the broker, and can be made to die.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::device::Device;
use super::memory::Memory;
use super::record::Record;
use crate::bench::mqtt::{Closer, Connection, Publish};

/// How many there are.
pub(super) const PEERS: usize = 50;
/// Those that emit, which are the first.
pub(super) const EMITTERS: usize = 8;
/// The name of the bridge.
pub(super) const BRIDGE: &str = "soak-bridge";

/// How long a peer waits before it joins again.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a turn in which nothing comes lasts: a quiet peer looks seldom whether anything is due.
const TURN: Duration = Duration::from_millis(50);

pub(super) fn name(peer: usize) -> String {
    format!("p-{peer:02}")
}

/// All of them; they leave when dropped.
#[derive(Debug)]
pub(super) struct Peers {
    lives: Vec<Arc<Life>>,
    threads: Vec<JoinHandle<()>>,
    record: Arc<Record>,
}

/// What is known of one from outside its thread.
#[derive(Debug)]
struct Life {
    name: String,
    port: u16,
    every: Option<Duration>,
    memory: Memory,
    standing: Mutex<Standing>,
}

#[derive(Debug, Default)]
struct Standing {
    closer: Option<Closer>,
    place: Place,
    died: bool,
    hushed: bool,
    over: bool,
}

/// Whether it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Here,
    Away(Instant),
    Gone,
}

impl Peers {
    /// All join, every third through the other port.
    pub(super) fn join(direct: u16, through: u16, record: &Arc<Record>) -> Self {
        let life = |peer: usize| {
            let every = (peer < EMITTERS).then(|| Duration::from_millis(40 + 25 * peer as u64));
            let port = if peer.is_multiple_of(3) { through } else { direct };
            Arc::new(Life { name: name(peer), port, every, memory: Memory::default(), standing: Mutex::default() })
        };
        let lives: Vec<_> = (0..PEERS).map(life).collect();
        let threads = lives.iter().map(|life| {
            let (life, record) = (life.clone(), record.clone());
            std::thread::spawn(move || life.live(&record))
        });
        Self { threads: threads.collect(), lives, record: record.clone() }
    }

    /// One dies: its connection ends without a farewell. It comes back after a time, unless that is for good.
    pub(super) fn crash(&self, peer: usize, away: Duration) {
        let Some(life) = self.lives.get(peer) else { return };
        let mut standing = life.standing();
        standing.place = Instant::now().checked_add(away).map_or(Place::Gone, Place::Away);
        standing.died = true;
        standing.closer = None;
    }

    /// Another takes the name of one, until that one takes it back.
    pub(super) fn usurp(&self, peer: usize) {
        let Some(life) = self.lives.get(peer).cloned() else { return };
        let record = self.record.clone();
        // It ends with its connection, which the one it displaced ends.
        std::thread::spawn(move || {
            let mut device = Device::new(&life.name, None, life.memory.clone(), &record);
            if let Ok((mut connection, _closer)) = life.connect() {
                while !life.standing().over && life.turn(&mut connection, &mut device, &record).is_ok() {}
            }
            drop(device.reborn(&record));
        });
    }

    /// Nobody emits any more.
    pub(super) fn hush(&self) {
        for life in &self.lives {
            life.standing().hushed = true;
        }
    }

    /// Who is there, as far as the plan is concerned.
    pub(super) fn names(&self) -> Vec<String> {
        let there = self.lives.iter().filter(|life| life.standing().place == Place::Here);
        there.map(|life| life.name.clone()).collect()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        for life in &self.lives {
            let mut standing = life.standing();
            standing.over = true;
            standing.closer = None;
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Life {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self, record: &Record) {
        let mut device = Device::new(&self.name, self.every, self.memory.clone(), record);
        loop {
            {
                let mut standing = self.standing();
                if standing.over {
                    return;
                }
                if std::mem::take(&mut standing.died) {
                    device = device.reborn(record);
                }
                if matches!(standing.place, Place::Away(until) if until <= Instant::now()) {
                    standing.place = Place::Here;
                }
                if standing.place != Place::Here {
                    drop(standing);
                    std::thread::sleep(TURN);
                    continue;
                }
            }
            if let Ok((mut connection, closer)) = self.connect() {
                let mut standing = self.standing();
                // Whoever died meanwhile has not come back.
                standing.closer = (standing.place == Place::Here).then_some(closer);
                drop(standing);
                while !self.standing().over && self.turn(&mut connection, &mut device, record).is_ok() {}
                self.standing().closer = None;
            }
            device.tick(Instant::now(), None, record);
            std::thread::sleep(PAUSE);
        }
    }

    fn connect(&self) -> Result<(Connection, Closer), String> {
        let presence = format!("msgrpc/v2/presence/{}", self.name);
        let client = format!("msgrpc-{}", self.name);
        let mut connection = Connection::open_with(self.port, &client, Some((&presence, b"offline")))?;
        connection.subscribe(&format!("msgrpc/v2/req/{}", self.name))?;
        let online = Publish { topic: presence.as_bytes(), retain: true, payload: b"online", ..Publish::default() };
        connection.publish(&online)?;
        // Who listens here and has gone meanwhile is said by what is retained.
        connection.ask(&format!("msgrpc/v2/presence/{BRIDGE}"));
        connection.flush()?;
        let closer = connection.closer()?;
        connection.paced(TURN)?;
        Ok((connection, closer))
    }

    fn turn(&self, connection: &mut Connection, device: &mut Device, record: &Record) -> Result<(), String> {
        if self.standing().hushed {
            device.hush();
        }
        connection.turn(|message, out| device.hear(message, out, record))?;
        device.expire(record);
        device.tick(Instant::now(), Some(connection.out()), record);
        connection.flush()
    }
}
