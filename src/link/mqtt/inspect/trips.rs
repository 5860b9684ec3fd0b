//! How long a message to ourselves takes, and what an ordinary client is made to wait.
//!
//! A broker with Nagle on holds the second of two small packets back until the first is acknowledged. We acknowledge at once;
//! others leave that to their kernel, which takes 40 ms. The difference between the two is the broker's stall.

use std::time::Duration;

use tokio::time::Instant;

use super::Trips;
use super::probe::Probe;
use crate::link::DownReason;
use crate::link::socket::HURRIES;
use crate::wire::Topics;

/// Measures both, if messages to ourselves arrive.
pub(super) async fn measure(probe: &mut Probe, topics: &Topics) -> Result<Option<Trips>, DownReason> {
    let Some(hurried) = median(probe, topics.replies()).await? else { return Ok(None) };
    if !HURRIES {
        return Ok(Some(Trips { count: COUNT, hurried, lazy: None }));
    }
    probe.lazy.set(true);
    let lazy = median(probe, topics.replies()).await;
    probe.lazy.set(false);
    Ok(Some(Trips { count: COUNT, hurried, lazy: lazy? }))
}

/// The median of some; nothing if one is lost. The first is not counted.
async fn median(probe: &mut Probe, topic: &str) -> Result<Option<Duration>, DownReason> {
    let mut took = Vec::with_capacity(COUNT);
    for round in 0..=COUNT {
        let word = probe.word();
        let began = Instant::now();
        let sent = probe.send(topic, word, false, true).await?;
        if !sent.heard || sent.acknowledged.is_none() || sent.is_refused().is_some() {
            return Ok(None);
        }
        if round > 0 {
            took.push(began.elapsed());
        }
    }
    took.sort_unstable();
    Ok(took.get(COUNT / 2).copied())
}

/// How many are measured each way.
const COUNT: usize = 15;
