//! What outlives a connection, and the pauses between one and the next.

use std::fmt::Display;
use std::pin::pin;
use std::time::Duration;

use tokio::select;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::{DownKind, DownReason, LinkEvent, Outbound, Rejection};

/// What outlives a connection of a transport with these settings.
#[derive(Debug)]
pub(super) struct Seat<C, G = ()> {
    pub(super) config: C,
    pub(super) commands: mpsc::Receiver<Outbound>,
    pub(super) events: mpsc::Sender<LinkEvent>,
    /// The shape last announced.
    pub(super) shape: Option<String>,
    /// What a transport keeps from one connection to the next.
    pub(super) guard: G,
    /// Why the link was last said to be down.
    told: Option<DownReason>,
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// As asked.
    Left,
    /// Nobody receives the events any more.
    Abandoned,
    /// By itself.
    Broken {
        /// Why.
        reason: DownReason,
        /// How long it had been up, if it was.
        up_for: Option<Duration>,
    },
}

impl<C, G> Seat<C, G> {
    pub(super) fn new(
        config: C,
        guard: G,
        commands: mpsc::Receiver<Outbound>,
        events: mpsc::Sender<LinkEvent>,
    ) -> Self {
        Self { config, commands, events, shape: None, guard, told: None }
    }

    /// Reports something, waiting for room.
    pub(super) async fn tell(&self, event: LinkEvent) -> Result<(), End> {
        match self.events.try_send(event) {
            Ok(()) => Ok(()),
            // Aside: waiting is rare, and every place that tells would hold all that it takes.
            Err(TrySendError::Full(event)) => Box::pin(self.events.send(event)).await.map_err(|_| End::Abandoned),
            Err(TrySendError::Closed(_)) => Err(End::Abandoned),
        }
    }

    /// Says why the link to `address` is down, unless that was the last thing said.
    pub(super) async fn report(
        &mut self,
        address: impl Display,
        mut reason: DownReason,
        was_up: bool,
    ) -> Result<(), End> {
        reason.detail = format!("{address}: {}", reason.detail);
        if !was_up && self.told.as_ref() == Some(&reason) {
            return Ok(());
        }
        self.told = Some(reason.clone());
        self.tell(LinkEvent::Down(reason)).await
    }

    /// Waits for the next attempt.
    pub(super) async fn wait(&mut self, pause: Duration) -> Result<(), End> {
        self.meanwhile(sleep(pause)).await
    }

    /// Waits for `work`. What is to be sent meanwhile is rejected at once; whoever leaves does not wait for it.
    pub(super) async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Result<T, End> {
        let events = self.events.clone();
        let mut gone = pin!(events.closed());
        let mut work = pin!(work);
        loop {
            select! {
                biased; // what was asked before an attempt is heeded in it: a shape announced is the one it announces
                () = gone.as_mut() => return Err(End::Abandoned),
                command = self.commands.recv() => match command {
                    Some(Outbound::Frame { id, .. }) => {
                        self.tell(LinkEvent::Rejected { id, why: Rejection::Down }).await?;
                    }
                    Some(Outbound::Announce { shape }) => self.shape = shape,
                    Some(Outbound::Leave | Outbound::Yield) | None => return Err(End::Left),
                },
                done = work.as_mut() => return Ok(done),
            }
        }
    }

    /// The end of the task; whoever asked for it is told.
    pub(super) async fn over(&self, end: &End) {
        if matches!(end, End::Left) {
            self.tell(LinkEvent::Closed).await.ok();
        }
    }
}

/// Waits until a connection may be attempted. A sender that is gone has forbidden it for good.
pub(super) async fn opens(gate: &mut Option<watch::Receiver<bool>>) {
    let Some(gate) = gate else { return };
    if gate.wait_for(|open| *open).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A reason from its parts.
pub(super) fn down(kind: DownKind, detail: impl Into<String>) -> DownReason {
    DownReason { kind, detail: detail.into() }
}
