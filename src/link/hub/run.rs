//! One connection after another, with pauses between.

use tokio::sync::mpsc;

use super::connection::{Connection, FAREWELL};
use super::{Config, joining, look};
use crate::link::backoff::{self, Backoff};
use crate::link::holder::Look;
use crate::link::seat::{End, Seat, opens};
use crate::link::tls::Tls;
use crate::link::{DownKind, LinkEvent, Outbound, socket};

/// The task of a link.
pub(super) async fn run(config: Config, commands: mpsc::Receiver<Outbound>, events: mpsc::Sender<LinkEvent>) {
    // Random, so that two processes of one configuration do not retry in step.
    let seed = backoff::seed();
    let mut backoff = Backoff::new(config.backoff_min, config.backoff_max, seed);
    let mut tls = config.tls.clone().filter(|_| config.hub.is_tls());
    let mut looks = Look::first(config.looks);
    let mut seat = Seat::new(config, Alarms::default(), commands, events);
    loop {
        let mut gate = seat.config.gate.clone();
        if let Err(end) = seat.meanwhile(opens(&mut gate)).await {
            return seat.over(&end).await;
        }
        let step = match serve(&mut seat, &mut tls, &mut looks).await {
            End::Broken { reason, up_for } => {
                let pause = backoff.pause(up_for);
                let displaced = reason.kind == DownKind::Displaced;
                looks = looks.after(seat.config.looks, displaced, up_for.is_some());
                let address = seat.config.hub.to_string();
                match seat.report(address, reason, up_for.is_some()).await {
                    Ok(()) if displaced && seat.config.yields => Err(End::Left),
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

/// Joins and serves until the end of the connection.
async fn serve(seat: &mut Seat<Config, Alarms>, tls: &mut Option<Tls>, looks: &mut Look) -> End {
    if *looks != Look::No {
        let (config, shape) = (seat.config.clone(), seat.shape.clone());
        match seat.meanwhile(look::is_free(&config, tls, *looks, shape.as_deref())).await {
            Ok(Ok(())) => seat.guard.looked(false),
            Ok(Err(reason)) => {
                if reason.kind == DownKind::NameTaken {
                    seat.guard.looked(true);
                }
                return End::Broken { reason, up_for: None };
            }
            Err(end) => return end,
        }
        *looks = Look::No;
    }
    let parted = socket::Parted::default();
    let config = seat.config.clone();
    let joined = seat.meanwhile(joining::join(&config, tls, parted.clone())).await;
    let (socket, opening) = match joined {
        Ok(Ok(joined)) => joined,
        Ok(Err(reason)) => return End::Broken { reason, up_for: None },
        Err(end) => return end,
    };
    let end = Connection::new(seat, socket, opening).run().await;
    if let (End::Left, Some(stream)) = (&end, parted.take()) {
        socket::part(stream, FAREWELL).await;
    }
    end
}

/// How often the hub said that we came, and nobody was there under our name. One that tells everybody of everything would
/// have us come and go for ever.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    raised: bool,
    false_ones: u8,
}

impl Alarms {
    /// The hub says that we came. True if that is to be believed.
    pub(super) const fn raise(&mut self) -> bool {
        self.raised = self.false_ones < BELIEVED;
        self.raised
    }

    /// A look found somebody, or nobody.
    const fn looked(&mut self, taken: bool) {
        if taken {
            self.false_ones = 0;
        } else if self.raised {
            self.false_ones = self.false_ones.saturating_add(1);
        }
        self.raised = false;
    }
}

/// How many false alarms in a row a hub is believed.
const BELIEVED: u8 = 2;
