//! What every subcommand for people does: it joins the network, does one thing, and leaves, however that ends.

use std::{pin::pin, time::Duration};

use clap::Args;
use serde_json::Value as Json;
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    StartError,
    ending::Failure,
    environment::Environment,
    fix, mcp,
    network::{Behaviour, Network, NetworkArgs},
    out::{Out, write_out},
    stop,
};
use crate::{
    link::{DownKind, DownReason, LinkId},
    node::{self, LinkState, Node},
    plant::{Plant, PlantError, Principal},
};

/// What every subcommand for people takes.
#[derive(Clone, Debug, Args)]
pub(super) struct ErrandArgs {
    #[command(flatten)]
    pub(super) network: NetworkArgs,
    /// How long the network, and a peer that is not there, are awaited, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5_000, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=600_000))]
    pub(super) wait: u32,
    /// Writes JSON, on standard output and, for a refusal, on standard error.
    #[arg(long)]
    pub(super) json: bool,
}

/// One thing to do on a network that has been joined.
#[derive(Debug)]
pub(super) struct Errand {
    /// The plant.
    pub(super) plant: Plant,
    /// Our peer, for leaving early.
    pub(super) node: Node,
    /// Whether somebody chose our name, so that it can be used again.
    pub(super) named: bool,
    /// What is written for whom.
    pub(super) out: Out,
    /// How long a peer is still awaited.
    pub(super) wait: Duration,
    /// Cancelled when the person, or the system, asks us to end.
    pub(super) stop: CancellationToken,
}

/// A broker is awaited so long at least: joining one takes a moment, however little a peer is waited for.
pub(super) const JOIN: Duration = Duration::from_secs(1);

pub(super) const NOWHERE: &str = "give it --broker <url> of a plant's MQTT 5 broker or --hub <url> of its hub, or set PLANTBRIDGE_BROKER or PLANTBRIDGE_HUB";

/// How long the last lines may take to be read by somebody.
const LAST: Duration = Duration::from_secs(1);

/// Joins, does `work`, leaves. Asked to end, it tells `work` and waits for it, so that it can say what is known.
pub(super) async fn run(
    mut args: ErrandArgs,
    read_only: bool,
    environment: Environment,
    work: impl AsyncFnOnce(&Errand) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !args.network.is_placed(&environment) {
        return Err(StartError(NOWHERE.into()).into());
    }
    let read_only = read_only || environment.read_only;
    let behaviour = Behaviour { role: "cli", read_only, secrets: environment.secrets, ..Behaviour::default() };
    let network = Network::new(args.network, behaviour)?;
    let (least, named) = (JOIN + network.patience(), network.is_named());
    network.tell().await;
    let (plant, node, running) = network.join();
    let (stop, out, known) = (CancellationToken::new(), Out::new(args.json), plant.clone());
    let mut done = pin!(async {
        let wait = joined(&plant, &node, Duration::from_millis(args.wait.into()), least, &stop).await?;
        let errand = Errand { plant, node: node.clone(), named, out, wait, stop: stop.clone() };
        work(&errand).await
    });
    let outcome = tokio::select! {
        biased; // asked to end just after it was done is done
        outcome = &mut done => outcome,
        () = stop::asked() => {
            stop.cancel();
            done.await
        }
    };
    mcp::leave(&node, running).await;
    outcome.map_err(|failure| match failure {
        Failure::Refused(error) => Failure::Refused(fix::settled(&known, error)),
        other => other,
    })
}

/// Waits for the link; gives what is left of the wait. What waiting does not help is told at once.
pub(super) async fn joined(
    plant: &Plant,
    node: &Node,
    wait: Duration,
    least: Duration,
    stop: &CancellationToken,
) -> Result<Duration, Failure> {
    let began = Instant::now();
    let decided = |network: &node::Network| network.is_up() || is_hopeless(network);
    let network = tokio::select! {
        network = node.network_when(wait.max(least), decided) => network,
        () = stop.cancelled() => return Err(Failure::interrupted()),
    };
    if network.is_up() {
        return Ok(wait.saturating_sub(began.elapsed()));
    }
    let links = outer(&network).map(|(id, link)| (plant.link_name(*id), link.clone())).collect();
    Err(PlantError::NetworkUnavailable { links }.into())
}

/// Whether everybody answered, and would not have us.
fn is_hopeless(network: &node::Network) -> bool {
    let refuses = |down: &DownReason| matches!(down.kind, DownKind::Unauthorized | DownKind::Tls | DownKind::NameTaken);
    outer(network).next().is_some() && outer(network).all(|(_, link)| link.down.as_ref().is_some_and(refuses))
}

/// The links that lead out of this process; the one to fakes refuses nobody.
fn outer(network: &node::Network) -> impl Iterator<Item = &(LinkId, LinkState)> {
    network.links.iter().filter(|(id, _)| !id.is_inside())
}

impl Errand {
    /// On whose behalf it acts. Whether it may only look is the process's own setting.
    #[expect(clippy::unused_self, reason = "who an errand is for is the errand's to say")]
    pub(super) fn principal(&self) -> Principal {
        Principal { client: "cli".into(), read_only: false, entry: None }
    }

    /// Writes lines of JSON aside: whoever reads standard output may take their time, until the person wants an end. The
    /// last lines are not waited for longer than that.
    pub(super) async fn write(&self, lines: &[Json], last: bool) -> Result<(), Failure> {
        if lines.is_empty() {
            return Ok(());
        }
        let lines = lines.iter().map(|line| self.out.line(line)).collect::<String>();
        let writing = spawn_blocking(move || write_out(&lines));
        let given_up = async {
            if !last {
                self.stop.cancelled().await;
            }
            sleep(LAST).await;
        };
        tokio::select! {
            biased;
            written = writing => written.unwrap_or_else(|error| Err(Failure::Broken(error.to_string()))),
            () = given_up => Err(Failure::Unread),
        }
    }

    /// Does a look until it is done or the person stops it; then what it opened is closed by dropping it.
    pub(super) async fn look<T>(&self, work: impl Future<Output = Result<T, PlantError>>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = work => Ok(done?),
            () = self.stop.cancelled() => Err(Failure::interrupted()),
        }
    }
}
