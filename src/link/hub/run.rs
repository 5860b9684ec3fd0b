//! One connection after another, with pauses between.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use tokio::sync::mpsc;

use super::connection::{Connection, FAREWELL};
use super::{Config, joining};
use crate::link::backoff::Backoff;
use crate::link::seat::{End, Seat};
use crate::link::tls::Tls;
use crate::link::{LinkEvent, Outbound, socket};

/// The task of a link.
pub(super) async fn run(config: Config, commands: mpsc::Receiver<Outbound>, events: mpsc::Sender<LinkEvent>) {
    // Random, so that two processes of one configuration do not retry in step.
    let seed = RandomState::new().build_hasher().finish();
    let mut backoff = Backoff::new(config.backoff_min, config.backoff_max, seed);
    let mut tls = config.tls.clone().filter(|_| config.hub.is_tls());
    let mut seat = Seat::new(config, (), commands, events);
    loop {
        let step = match serve(&mut seat, &mut tls).await {
            End::Broken { reason, up_for } => {
                let pause = backoff.pause(up_for);
                let address = seat.config.hub.to_string();
                match seat.report(address, reason, up_for.is_some()).await {
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
async fn serve(seat: &mut Seat<Config>, tls: &mut Option<Tls>) -> End {
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
