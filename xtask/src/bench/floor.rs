//! The floor: a bare MQTT request and its response over the same broker and the same peer, without a bridge.
//!
//! One publish out, one in, each acknowledged as QoS 1 demands; a blocking client on one thread, which writes with one call
//! whatever one read brought about. No client library can do with less.

use std::time::{Duration, Instant};

use super::mqtt::{Connection, Publish};
use super::{PAYLOAD, peer};

const REPLIES: &str = "bench/replies";

/// A caller that is joined.
#[derive(Debug)]
pub(super) struct Floor {
    connection: Connection,
    next: u64,
}

impl Floor {
    /// Joins the broker.
    pub(super) fn join(port: u16) -> Result<Self, String> {
        let mut connection = Connection::open(port, "bench-floor")?;
        connection.subscribe(REPLIES)?;
        Ok(Self { connection, next: 1 })
    }

    /// Calls one after another; how long each took goes to `samples`.
    pub(super) fn sequential(&mut self, calls: usize, samples: &mut Vec<Duration>) -> Result<(), String> {
        for _ in 0..calls {
            let begun = Instant::now();
            let wanted = self.begin();
            self.connection.flush()?;
            let mut ended = None;
            while ended.is_none() {
                self.connection.turn(|reply, _| {
                    if reply.correlation == wanted.to_be_bytes() && reply.payload == PAYLOAD.as_bytes() {
                        ended = Some(begun.elapsed());
                    }
                })?;
            }
            samples.extend(ended);
        }
        Ok(())
    }

    /// Calls with so many in flight, and says how long all of them took.
    pub(super) fn flight(&mut self, calls: usize, in_flight: usize) -> Result<Duration, String> {
        let begun = Instant::now();
        let mut started = in_flight.min(calls);
        for _ in 0..started {
            self.begin();
        }
        self.connection.flush()?;
        let mut ended = 0;
        while ended < calls {
            let next = &mut self.next;
            self.connection.turn(|reply, out| {
                ended += usize::from(reply.payload == PAYLOAD.as_bytes());
                if started < calls {
                    started += 1;
                    out.publish(&request(&next.to_be_bytes()));
                    *next += 1;
                }
            })?;
        }
        Ok(begun.elapsed())
    }

    fn begin(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.connection.out().publish(&request(&number.to_be_bytes()));
        number
    }
}

fn request(correlation: &[u8]) -> Publish<'_> {
    Publish {
        topic: peer::BARE.as_bytes(),
        response_topic: REPLIES.as_bytes(),
        correlation,
        payload: PAYLOAD.as_bytes(),
        ..Publish::default()
    }
}
