//! One connection after another, with pauses between.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::pin::pin;

use tokio::select;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::backoff::Backoff;
use super::connection::{self, End, Seat};
use super::signing::Guard;
use super::trouble::down;
use super::{Config, Tls, TlsFiles};
use crate::link::{DownKind, DownReason, LinkEvent, Outbound, Rejection};

/// The task of a link.
pub(super) async fn run(config: Config, commands: mpsc::Receiver<Outbound>, events: mpsc::Sender<LinkEvent>) {
    let guard = Guard::new(config.signing.as_ref());
    let mut seat = Seat { config, commands, events, shape: None, guard };
    keep(&mut seat).await;
    seat.guard.sum_up();
}

/// Keeps the link up until it has left.
async fn keep(seat: &mut Seat) {
    let config = &seat.config;
    // Random, so that two processes of one configuration do not retry in step.
    let seed = RandomState::new().build_hasher().finish();
    let mut backoff = Backoff::new(config.backoff_min, config.backoff_max, seed);
    let mut tls = config.tls.clone().filter(|_| config.broker.is_tls());
    let mut told = None;
    loop {
        let mut gate = seat.config.gate.clone();
        if let Err(end) = wait(seat, opens(&mut gate)).await {
            return over(seat, &end).await;
        }
        let end = match certificates(&seat.config, &mut tls).await {
            Ok(()) => connection::serve(seat, tls.as_ref()).await,
            Err(reason) => End::Broken { reason, up_for: None },
        };
        let step = match end {
            End::Broken { reason, up_for } => {
                let (pause, reason) = backoff.after(up_for, reason);
                if up_for.is_some() {
                    told = None;
                }
                let displaced = seat.config.yields && reason.kind == DownKind::Displaced;
                match report(seat, reason, &mut told).await {
                    Ok(()) if displaced => Err(End::Left),
                    Ok(()) => wait(seat, sleep(pause)).await,
                    end => end,
                }
            }
            end => Err(end),
        };
        if let Err(end) = step {
            return over(seat, &end).await;
        }
    }
}

/// The end of the task; whoever asked for it is told.
async fn over(seat: &Seat, end: &End) {
    if matches!(end, End::Left) {
        seat.tell(LinkEvent::Closed).await.ok();
    }
}

/// Waits until a connection may be attempted.
async fn opens(gate: &mut Option<watch::Receiver<bool>>) {
    let Some(gate) = gate else { return };
    if gate.wait_for(|open| *open).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Reads the roots of the system where TLS is wanted and nothing was configured.
pub(super) async fn certificates(config: &Config, tls: &mut Option<Tls>) -> Result<(), DownReason> {
    if !config.broker.is_tls() || tls.is_some() {
        return Ok(());
    }
    match tokio::task::spawn_blocking(|| Tls::load(&TlsFiles::default())).await {
        Ok(Ok(loaded)) => {
            *tls = Some(loaded);
            Ok(())
        }
        Ok(Err(error)) => Err(down(DownKind::Tls, error.to_string())),
        Err(error) => Err(down(DownKind::Tls, error.to_string())),
    }
}

/// Says why the link is down, unless that was the last thing said.
async fn report(seat: &Seat, mut reason: DownReason, told: &mut Option<DownReason>) -> Result<(), End> {
    reason.detail = format!("{}: {}", seat.config.broker, reason.detail);
    if told.as_ref() == Some(&reason) {
        return Ok(());
    }
    *told = Some(reason.clone());
    seat.tell(LinkEvent::Down(reason)).await
}

/// Waits for the next attempt. What is to be sent meanwhile is rejected at once.
async fn wait(seat: &mut Seat, attempt: impl Future<Output = ()>) -> Result<(), End> {
    let events = seat.events.clone();
    let mut gone = pin!(events.closed());
    let mut attempt = pin!(attempt);
    loop {
        select! {
            biased; // what was asked before an attempt is heeded in it: a shape announced is the one it announces
            () = gone.as_mut() => return Err(End::Abandoned),
            command = seat.commands.recv() => match command {
                Some(Outbound::Frame { id, .. }) => {
                    seat.tell(LinkEvent::Rejected { id, why: Rejection::Down }).await?;
                }
                Some(Outbound::Announce { shape }) => seat.shape = shape,
                Some(Outbound::Leave | Outbound::Yield) | None => return Err(End::Left),
            },
            () = attempt.as_mut() => return Ok(()),
        }
    }
}
