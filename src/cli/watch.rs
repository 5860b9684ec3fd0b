//! `plantbridge watch`: one event, as it comes, one line of JSON each.
//!
//! Standard output is written aside, because whoever reads it may stop reading for as long as they like: meanwhile the
//! watch holds what comes, up to its bound, and says what fell off.

use std::{future::pending, time::Duration};

use clap::Args;
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    ending::Failure,
    errand::{Errand, ErrandArgs},
    member::Member,
    tidings::{Said, Tidings},
};
use crate::{
    node::Stream,
    plant::{Noted, Reached, ReadWatch, StartWatch, WatchLine, WatchTarget},
};

#[derive(Clone, Debug, Args)]
pub(super) struct WatchArgs {
    /// Whose.
    #[arg(value_name = "PEER", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    peer: String,
    /// Which event of which namespace, such as oven.doorOpened; the last dot divides.
    #[arg(value_name = "NAMESPACE.EVENT")]
    event: Member,
    /// Ends after so many seconds; without it, when it is interrupted.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=31_536_000))]
    seconds: Option<u32>,
    /// Ends once so many events were heard.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    max_events: Option<u32>,
    #[command(flatten)]
    pub(super) errand: ErrandArgs,
}

/// Why it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Interrupted,
    Time,
    Full,
}

impl End {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::Time => "time",
            Self::Full => "full",
        }
    }
}

/// Records of one round.
const MOST: usize = 500;
/// Bytes of them, about.
const MOST_BYTES: usize = 1 << 20;
/// A watch nobody reads ends after an hour, so it is read sooner than that.
const IDLE: Duration = Duration::from_mins(15);

/// What of a watch was told.
struct Following<'a> {
    errand: &'a Errand,
    id: String,
    after: Option<Reached>,
    index: u64,
    left: Option<u64>,
    tidings: Tidings,
}

/// Watches until told to end. However that comes, the subscription is given up before we leave.
pub(super) async fn run(errand: &Errand, args: WatchArgs) -> Result<(), Failure> {
    let deadline = args.seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let request = StartWatch {
        peer: args.peer,
        namespace: args.event.namespace,
        target: WatchTarget::Event(args.event.name),
        wait: errand.wait,
    };
    let principal = errand.principal();
    let line = errand.look(errand.plant.start_watch(&principal, request)).await?;
    let name = format!("{}.{}.{}", line.stream.peer, line.stream.namespace, line.stream.event);
    errand.out.note(&format!("watching {name}"));
    let undeclared = line.declared == Some(false);
    if undeclared {
        errand.out.note(&unknown(&line));
    }
    let mut following = Following {
        errand,
        id: line.id.clone(),
        after: None,
        index: 0,
        left: args.max_events.map(u64::from),
        tidings: Tidings::new(errand.out.json),
    };
    let ended = following.follow(deadline.map(|after| Instant::now() + after)).await;
    // Its registry may have ended it by itself: then there is nothing to end.
    let _ = errand.plant.end_watch(&line.id).await;
    ended?;
    // Silence under a name that nobody knows is more likely a slip than calm.
    if undeclared && following.tidings.heard() == 0 { Err(Failure::Finding) } else { Ok(()) }
}

/// That an event is not declared, and what there is that may have been meant.
fn unknown(line: &WatchLine) -> String {
    let Stream { peer, namespace, event } = &line.stream;
    let near = if line.nearest.is_empty() { String::new() } else { format!("; it has {}", line.nearest.join(", ")) };
    format!("{peer}.{namespace} declares no event {event}{near}. What is not declared is counted only from now on")
}

impl Following<'_> {
    async fn follow(&mut self, deadline: Option<Instant>) -> Result<(), Failure> {
        loop {
            let end = self.news(deadline).await?;
            let full = self.round(end.is_some()).await?;
            let end = if full { Some(End::Full) } else { end };
            if let Some(end) = end {
                let said = self.tidings.end(end.as_str());
                return self.write(said, true).await;
            }
        }
    }

    /// Waits for something to read, or for the end.
    async fn news(&self, deadline: Option<Instant>) -> Result<Option<End>, Failure> {
        let over = async {
            match deadline {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.errand.stop.cancelled() => Ok(Some(End::Interrupted)),
            () = over => Ok(Some(End::Time)),
            moved = timeout(IDLE, self.errand.plant.watch_moved(&self.id, self.index)) => match moved {
                Ok(Err(error)) => Err(error.into()),
                Ok(Ok(())) | Err(_) => Ok(None),
            },
        }
    }

    /// Reads and tells what there is; gives whether enough was heard.
    async fn round(&mut self, last: bool) -> Result<bool, Failure> {
        loop {
            let most = self.left.map_or(MOST, |left| usize::try_from(left).unwrap_or(MOST).min(MOST));
            let after = self.after.take();
            let request = ReadWatch { watch: self.id.clone(), after, most, most_bytes: MOST_BYTES };
            let read = self.errand.plant.read_watch(request).await?;
            self.index = read.records.last().map_or(self.index + read.fell_off, |record| record.index);
            let heard = read.records.iter().filter(|record| matches!(record.noted, Noted::Event { .. })).count();
            if let Some(left) = &mut self.left {
                *left = left.saturating_sub(u64::try_from(heard).unwrap_or(u64::MAX));
            }
            let said = self.tidings.of(read.records, &read.loss);
            self.after = Some(read.reached);
            self.write(said, last).await?;
            if self.left == Some(0) {
                return Ok(true);
            }
            if read.more == 0 || self.errand.stop.is_cancelled() && !last {
                return Ok(false);
            }
        }
    }

    async fn write(&self, said: Said, last: bool) -> Result<(), Failure> {
        for note in &said.notes {
            self.errand.out.note(note);
        }
        self.errand.write(&said.lines, last).await
    }
}
