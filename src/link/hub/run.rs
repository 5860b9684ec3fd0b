//! One connection after another, with pauses between.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use tokio::sync::mpsc;

use super::connection::{Connection, FAREWELL};
use super::{Config, joining};
use crate::link::backoff::Backoff;
use crate::link::seat::{End, Seat, opens};
use crate::link::tls::Tls;
use crate::link::{DownKind, LinkEvent, Outbound, socket};

/// The task of a link.
pub(super) async fn run(config: Config, commands: mpsc::Receiver<Outbound>, events: mpsc::Sender<LinkEvent>) {
    // Random, so that two processes of one configuration do not retry in step.
    let seed = RandomState::new().build_hasher().finish();
    let mut backoff = Backoff::new(config.backoff_min, config.backoff_max, seed);
    let mut tls = config.tls.clone().filter(|_| config.hub.is_tls());
    let mut seat = Seat::new(config, (), commands, events);
    loop {
        let mut gate = seat.config.gate.clone();
        if let Err(end) = seat.meanwhile(opens(&mut gate)).await {
            return seat.over(&end).await;
        }
        let step = match serve(&mut seat, &mut tls).await {
            End::Broken { reason, up_for } => {
                let pause = backoff.pause(up_for);
                let displaced = seat.config.yields && reason.kind == DownKind::Displaced;
                let address = seat.config.hub.to_string();
                match seat.report(address, reason, up_for.is_some()).await {
                    Ok(()) if displaced => Err(End::Left),
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
    let (parted, mut back) = mpsc::channel(1);
    let config = seat.config.clone();
    let joined = seat.meanwhile(joining::join(&config, tls, parted)).await;
    let (socket, opening) = match joined {
        Ok(Ok(joined)) => joined,
        Ok(Err(reason)) => return End::Broken { reason, up_for: None },
        Err(end) => return end,
    };
    let end = Connection::new(seat, socket, opening).run().await;
    if let (End::Left, Ok(stream)) = (&end, back.try_recv()) {
        socket::part(stream, FAREWELL).await;
    }
    end
}
