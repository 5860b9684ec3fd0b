//! One connection after another, with pauses between.

use tokio::sync::mpsc;

use super::connection;
use super::look;
use super::signing::Guard;
use super::{Config, Tls};
use crate::link::backoff::{self, Backoff};
use crate::link::holder::Look;
use crate::link::seat::{End, Seat, opens};
use crate::link::{DownKind, DownReason, LinkEvent, Outbound};

/// The task of a link.
pub(super) async fn run(mut seat: Box<Seat<Config, Guard>>) {
    keep(&mut seat).await;
    seat.guard.sum_up();
}

/// What it works with. Boxed: what a task is given it holds twice.
pub(super) fn seat(
    config: Config,
    commands: mpsc::Receiver<Outbound>,
    events: mpsc::Sender<LinkEvent>,
) -> Box<Seat<Config, Guard>> {
    let guard = Guard::new(config.signing.as_ref());
    Box::new(Seat::new(config, guard, commands, events))
}

/// Keeps the link up until it has left.
async fn keep(seat: &mut Seat<Config, Guard>) {
    let config = &seat.config;
    // Random, so that two processes of one configuration do not retry in step.
    let seed = backoff::seed();
    let mut backoff = Backoff::new(config.backoff_min, config.backoff_max, seed);
    let mut tls = config.tls.clone().filter(|_| config.broker.is_tls());
    let mut looks = Look::first(config.looks);
    loop {
        let mut gate = seat.config.gate.clone();
        if let Err(end) = seat.meanwhile(opens(&mut gate)).await {
            return seat.over(&end).await;
        }
        let ready = match certificates(&seat.config, &mut tls).await {
            Ok(()) => ours(seat, tls.as_ref(), &mut looks).await,
            Err(reason) => Err(End::Broken { reason, up_for: None }),
        };
        let end = match ready {
            Ok(()) => connection::serve(seat, tls.as_ref()).await,
            Err(end) => end,
        };
        let step = match end {
            End::Broken { reason, up_for } => {
                let (pause, reason) = backoff.after(up_for, reason);
                let displaced = reason.kind == DownKind::Displaced;
                looks = looks.after(seat.config.looks, displaced, up_for.is_some());
                let yields = seat.config.yields && displaced;
                let address = seat.config.broker.to_string();
                match seat.report(address, reason, up_for.is_some()).await {
                    Ok(()) if yields => Err(End::Left),
                    Ok(()) => seat.wait(pause).await,
                    end => end,
                }
            }
            end => Err(end),
        };
        if let Err(end) = step {
            return seat.over(&end).await;
        }
    }
}

/// Sees that nobody else goes by our name. From then on it is ours, and what is retained under it as well.
async fn ours(seat: &mut Seat<Config, Guard>, tls: Option<&Tls>, looks: &mut Look) -> Result<(), End> {
    if *looks == Look::No {
        return Ok(());
    }
    let (config, shape) = (seat.config.clone(), seat.shape.clone());
    // Aside: a look is as large as the connection itself, and most links never look.
    let free = seat.meanwhile(Box::pin(look::is_free(&config, tls, *looks, shape.as_deref()))).await?;
    free.map_err(|reason| End::Broken { reason, up_for: None })?;
    *looks = Look::No;
    Ok(())
}

/// Reads the roots of the system where TLS is wanted and nothing was configured.
pub(super) async fn certificates(config: &Config, tls: &mut Option<Tls>) -> Result<(), DownReason> {
    if config.broker.is_tls() && tls.is_none() {
        *tls = Some(Tls::of_the_system().await?);
    }
    Ok(())
}
