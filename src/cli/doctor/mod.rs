//! `plantbridge doctor`: what is right and what is wrong with a network, by trying it. Exit code 1 if something is wrong.
//!
//! First the ways in are tried, each by itself ([`mqtt::inspect`], [`hub::inspect`]); then the network is joined as by every other
//! subcommand, and everybody there is asked what it is. What was found becomes sentences in files that touch nothing.

mod broker;
mod ear;
mod finding;
mod hub;
mod peers;
#[cfg(test)]
mod tests;
mod way;

use std::{collections::BTreeSet, pin::pin, time::Duration};

use clap::Args;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use self::{ear::Ear, finding::Finding, peers::Against, way::Way};
use super::{
    StartError,
    ending::Failure,
    environment::Environment,
    errand::{self, ErrandArgs},
    mcp,
    network::{Behaviour, Network},
    out::Out,
    stop,
};
use crate::{
    link::{
        hub::inspect as at_hub,
        mqtt::{self, Tap, inspect as at_broker},
        now_ms,
        trust::Trust,
    },
    mcp::text,
    plant::Census,
};

#[derive(Clone, Debug, Args)]
pub(super) struct DoctorArgs {
    /// A certificate that ends within so many days is worth a warning.
    #[arg(long, value_name = "DAYS", default_value_t = 30, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(0..=3650))]
    days: u16,
    /// Joins a hub under --name although a hub takes a name from whoever has it. Without it a hub is joined under a made-up name
    /// only.
    #[arg(long)]
    take_name: bool,
    #[command(flatten)]
    pub(super) errand: ErrandArgs,
}

/// How long each step may take at least, however little is waited for.
const STEP: Duration = Duration::from_secs(1);
/// How long all of it may take beyond four times the wait.
const OVERALL: Duration = Duration::from_secs(30);
/// How long the tap may take to open before the peers are asked.
const EAR: Duration = Duration::from_secs(1);

/// Looks, tells, and ends with 1 if something is wrong.
pub(super) async fn run(mut args: DoctorArgs, environment: Environment) -> Result<(), Failure> {
    if !args.errand.network.is_placed(&environment) {
        return Err(StartError(errand::NOWHERE.into()).into());
    }
    let trust = args.errand.network.trust();
    let behaviour = Behaviour { role: "doctor", read_only: true, secrets: environment.secrets, ..Behaviour::default() };
    let network = Network::new(args.errand.network, behaviour)?;
    let patience = Duration::from_millis(args.errand.wait.into()).max(STEP);
    let doctor = Doctor { days: args.days, take_name: args.take_name, trust, patience };
    let (places, name) = (network.places().to_owned(), network.name().to_string());
    let stop = CancellationToken::new();
    let mut examined = pin!(doctor.examine(network, &stop));
    let findings = tokio::select! {
        biased; // asked to end just after it was done is done
        findings = &mut examined => findings,
        () = stop::asked() => {
            stop.cancel();
            // What is open is closed in order: a connection that is cut leaves its will behind.
            examined.await;
            return Err(Failure::interrupted());
        }
    };
    let out = Out::new(args.errand.json);
    if out.json {
        out.say(&text::pretty(&finding::document(&places, &name, &findings)))?;
    } else {
        out.say(&finding::written(&findings))?;
    }
    if finding::is_wrong(&findings) { Err(Failure::Finding) } else { Ok(()) }
}

/// How it looks.
struct Doctor {
    days: u16,
    take_name: bool,
    trust: Trust,
    patience: Duration,
}

impl Doctor {
    /// Everything, in order. Never longer than its bound; what was not reached by then is said.
    async fn examine(&self, network: Network, stop: &CancellationToken) -> Vec<Finding> {
        let until = Instant::now() + self.patience * 4 + OVERALL;
        let mut findings = Vec::new();
        let mut against = against(network.broker());
        let mut joinable = false;
        if let Some(config) = network.broker() {
            match within(until, stop, Box::pin(at_broker::inspect(config, self.patience, until))).await {
                Some(inspection) => {
                    joinable |= inspection.greeting.is_ok() && inspection.clash.is_none();
                    against.hurried = inspection.trips.map(|trips| trips.hurried);
                    findings.extend(self.at_broker(&network, config, &inspection));
                }
                None => findings.push(Finding::unchecked("broker", "it took longer than all of this may")),
            }
        }
        let mut keeps_hub = network.hub().is_some();
        if let Some(config) = network.hub() {
            match within(until, stop, at_hub::inspect(config, self.patience)).await {
                Some(inspection) => {
                    keeps_hub = inspection.greeting.is_ok() && (self.take_name || !network.is_named());
                    joinable |= keeps_hub;
                    findings.extend(self.at_hub(config, &inspection));
                    findings.extend(
                        (!keeps_hub && inspection.greeting.is_ok()).then(|| left_alone(network.name().as_str())),
                    );
                }
                None => findings.push(Finding::unchecked("hub", "it took longer than all of this may")),
            }
        }
        let joined = if keeps_hub { Some(network) } else { network.without_hub() };
        match joined.filter(|_| joinable && !stop.is_cancelled()) {
            Some(network) => self.ask(network, &against, until, stop, &mut findings).await,
            None => findings
                .push(Finding::unchecked("peers.there", "there is no way in under our name, so nobody can be asked")),
        }
        findings
    }

    fn at_broker(&self, network: &Network, config: &mqtt::Config, found: &at_broker::Inspection) -> Vec<Finding> {
        let way = Way {
            to: "broker",
            host: config.broker.host(),
            port: config.broker.port(),
            tls: config.broker.is_tls(),
            trust: self.trust,
            tells: config.credentials.is_some(),
            now_ms: now_ms(),
            days: self.days,
        };
        let (me, named) = (network.name().as_str(), network.is_named());
        broker::findings(&way, &broker::About { me, named, account: config.credentials.is_some() }, found)
    }

    fn at_hub(&self, config: &crate::link::hub::Config, found: &at_hub::Inspection) -> Vec<Finding> {
        let way = Way {
            to: "hub",
            host: config.hub.host(),
            port: config.hub.port(),
            tls: config.hub.is_tls(),
            trust: self.trust,
            tells: config.token.is_some(),
            now_ms: now_ms(),
            days: self.days,
        };
        hub::findings(&way, config.token.is_some(), found)
    }

    /// Joins, asks everybody what it is while listening, and leaves.
    async fn ask(
        &self,
        network: Network,
        against: &Against,
        until: Instant,
        stop: &CancellationToken,
        findings: &mut Vec<Finding>,
    ) {
        let tap = network.broker().filter(|_| against.signs).cloned().map(Tap::new);
        let (has_hub, least) = (network.hub().is_some(), errand::JOIN + network.patience());
        let (plant, node, running) = network.join();
        let mut ear = tap.as_ref().map(|_| Ear::default());
        let asked = async {
            let joined = errand::joined(&plant, &node, self.patience, least, stop).await;
            joined.map_err(|_| "the network was not joined in time".to_owned())?;
            let asking = plant.census(until);
            let census = match (&tap, &mut ear) {
                (Some(tap), Some(ear)) => listening(tap, ear, asking).await,
                _ => asking.await,
            };
            census.map_err(|error| error.to_string())
        };
        match within(until, stop, asked).await {
            Some(Ok(census)) => {
                findings.extend(has_hub.then(|| list(&plant, &node)));
                findings.extend(peers::findings(&census, ear.as_ref(), against));
            }
            Some(Err(why)) => findings.push(
                Finding::wrong("network.link", way::shown(&why))
                    .next("see what is wrong above, and the log at the other end"),
            ),
            None => findings.push(Finding::unchecked("peers.there", "it took longer than all of this may")),
        }
        mcp::leave(&node, running).await;
    }
}

/// Does `work` unless there is no time for it, or it is not wanted any more.
async fn within<T>(until: Instant, stop: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased; // what is done counts
        done = timeout_at(until, work) => done.ok(),
        () = stop.cancelled() => None,
    }
}

/// Listens to everything while `work` goes on.
async fn listening<E>(tap: &Tap, ear: &mut Ear, work: impl Future<Output = Result<Census, E>>) -> Result<Census, E> {
    let mut watcher = tap.watch();
    let opening = async {
        while !ear.opened && ear.shut.is_none() {
            ear.take(watcher.next().await);
        }
    };
    // A tap that does not open is said to be shut; the peers are asked either way.
    let _ = timeout(EAR, opening).await;
    let mut work = pin!(work);
    let census = loop {
        tokio::select! {
            census = &mut work => break census,
            tapped = watcher.next() => ear.take(tapped),
        }
    };
    while let Some(tapped) = watcher.try_next() {
        ear.take(tapped);
    }
    census
}

/// Whether the hub says who is there: it names itself first of all.
fn list(plant: &crate::plant::Plant, node: &crate::node::Node) -> Finding {
    let network = node.network();
    let on_hub = |link: &crate::link::LinkId| plant.link_name(*link) == "hub";
    let there = network.roster.iter().filter(|(_, seen)| seen.links.iter().any(on_hub)).count();
    if there > 0 {
        return Finding::fine("hub.presence", "it takes our announcement (v 2) and says who is there")
            .figure("peers", there);
    }
    Finding::wrong("hub.presence", "it took our announcement (v 2) without saying who is there")
        .next("a token belongs to one name: give the --name it is for, and --take-name")
}

fn left_alone(name: &str) -> Finding {
    let why = format!("a hub takes a name from whoever has it, so it was not joined as {name}");
    Finding::unchecked("hub.presence", why)
        .next("leave --name away; or --take-name, if nobody goes by it now or may lose it for a moment")
}

fn against(broker: Option<&mqtt::Config>) -> Against {
    let signing = broker.and_then(|config| config.signing.as_ref());
    let believed = signing.and_then(|signing| signing.peers.as_ref());
    let believed = believed.map(|peers| peers.iter().map(|(name, _)| name.to_string()).collect::<BTreeSet<_>>());
    Against { signs: signing.is_some(), believed, hurried: None }
}
