//! Standing a fake up: its links, its node, and the proof that the network sees it and nobody else under its name. What was
//! begun and not finished is taken down again, also when nobody waits for it any more.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

use super::{
    actor::Actor,
    code::{Exec, Hands},
    host::{Reservation, StartFault, Taken},
    live::Live,
    plan::Plan,
};
use crate::{
    link::{DownKind, LinkId, loopback::Board, mqtt, now_ms},
    node::{Identity, Network, Node, Running, Seen},
    wire::{PeerName, Prefix, Topics},
};

/// Where fakes stand.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Beside whom, inside this process.
    pub board: Board,
    /// Which network, and as whom in the eyes of its broker; the name in it is replaced.
    pub link: mqtt::Config,
    /// What its topics begin with.
    pub prefix: Prefix,
    /// The leave to run code that scripts bring along, if there is one.
    pub exec: Option<Exec>,
}

/// A fake between its start and its proof.
#[derive(Debug)]
pub(super) struct Standing {
    up: Option<Up>,
}

#[derive(Debug)]
struct Up {
    node: Node,
    running: Running,
    actor: Actor,
    shape: String,
    gate: watch::Sender<bool>,
    reserved: Reservation,
}

impl Standing {
    /// Starts it. Its link connects when [`Standing::joined`] lets it.
    pub(super) fn up(
        stage: &Stage,
        reserved: Reservation,
        name: &PeerName,
        plan: Plan,
        hands: Option<Hands>,
    ) -> Result<Self, StartFault> {
        let topics = Topics::new(&stage.prefix, name.clone()).map_err(|error| StartFault::Name(error.to_string()))?;
        let (gate, allowed) = watch::channel(false);
        let seat = stage.board.seat(name, QUEUE).ok_or(StartFault::NameTaken(Taken::Fake))?;
        let link = mqtt::start(config(&stage.link, topics, allowed), NETWORK);
        let (shape, serving) = (plan.shape(), plan.serving());
        let actor = Actor::new(name.clone(), plan, hands);
        let identity = Identity { name: name.clone(), serving, exposed: actor.exposed() };
        let (node, running) = Node::start_hosted(identity, vec![link, seat]);
        Ok(Self { up: Some(Up { node, running, actor, shape, gate, reserved }) })
    }

    /// Joins the network, beside `host`. Done when the host sees it there, and under its own name nobody else.
    pub(super) async fn joined(&self, host: &Node) -> Result<(), StartFault> {
        let Some(Up { node, shape, gate, .. }) = &self.up else { return Err(StartFault::Closing) };
        let name = node.name();
        let mine = |seen: &Seen| seen.shape.as_deref() == Some(shape);
        // Seen inside, its link knows what to announce: then it may.
        let inside = host.network_when(SEEN, |network| network.roster.get(name).is_some_and(mine)).await;
        if on_the_network(&inside, name) {
            return Err(StartFault::NameTaken(Taken::Peer));
        }
        if !inside.roster.get(name).is_some_and(mine) {
            return Err(StartFault::Failed("it did not come up".into()));
        }
        gate.send_replace(true);
        let joined = |network: &Network| network.is_up() || trouble(network).is_some();
        let own = node.network_when(JOIN, joined).await;
        if !own.is_up() {
            let (displaced, why) = trouble(&own).unwrap_or((false, "the broker did not take it in time".into()));
            return Err(if displaced { StartFault::NameTaken(Taken::Peer) } else { StartFault::Failed(why) });
        }
        let seen = host.network_when(SEEN, |network| on_the_network(network, name)).await;
        match seen.roster.get(name) {
            Some(seen) if !mine(seen) => Err(StartFault::NameTaken(Taken::Peer)),
            Some(_) if on_the_network(&seen, name) => Ok(()),
            _ => Err(StartFault::Failed("it joined, and the network does not show it".into())),
        }
    }

    /// What it is from now on, and what is awaited at its end.
    pub(super) fn stays(mut self) -> Option<(Live, Running, Reservation)> {
        let Up { node, running, actor, shape, gate, reserved } = self.up.take()?;
        Some((Live::new(node, actor, shape, gate, now_ms()), running, reserved))
    }

    /// Takes it down again. `name_is_theirs`: without touching what the network shows under its name.
    pub(super) async fn fall(mut self, name_is_theirs: bool) {
        if let Some(up) = self.up.take() {
            up.leaves(name_is_theirs).await;
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if let Some(up) = self.up.take() {
            tokio::spawn(up.leaves(false));
        }
    }
}

impl Up {
    /// The name is free again when this is done.
    async fn leaves(self, name_is_theirs: bool) {
        part(&self.node, self.running, name_is_theirs).await;
        self.actor.rest().await;
        drop(self.reserved);
    }
}

/// Takes a fake off the network, within a bound.
pub(super) async fn part(node: &Node, running: Running, name_is_theirs: bool) {
    if name_is_theirs {
        node.yield_name();
    } else {
        node.leave();
    }
    if timeout(LEAVE, running.ended()).await.is_err() {
        tracing::warn!(fake = %node.name(), "it did not leave in time; the broker will notice by itself");
    }
}

/// The link of a fake: cheap, because there may be many.
fn config(like: &mqtt::Config, topics: Topics, gate: watch::Receiver<bool>) -> mqtt::Config {
    mqtt::Config {
        topics,
        requests: true,
        announce: true,
        queue: QUEUE,
        window: WINDOW,
        hears: mqtt::Hears::Nothing,
        gate: Some(gate),
        looks: false,
        yields: true,
        ..like.clone()
    }
}

/// Whether somebody of this name is seen over a network.
pub(super) fn on_the_network(network: &Network, name: &PeerName) -> bool {
    network.roster.get(name).is_some_and(|seen| seen.links.iter().any(|link| !link.is_inside()))
}

/// What keeps it from the network, if something does: whether that is another peer of its name, and in words.
fn trouble(network: &Network) -> Option<(bool, String)> {
    let reasons = network.links.iter().filter_map(|(_, link)| link.down.as_ref());
    let mut told = reasons.filter(|down| down.kind != DownKind::Joining);
    told.next().map(|down| (down.kind == DownKind::Displaced, down.detail.clone()))
}

/// The number of its link to the network.
const NETWORK: LinkId = LinkId(0);
/// How long joining may take.
const JOIN: Duration = Duration::from_secs(10);
/// How long the host may take to see it.
const SEEN: Duration = Duration::from_secs(2);
/// How long leaving may take.
const LEAVE: Duration = Duration::from_secs(2);
/// Commands and events that wait in its links.
const QUEUE: usize = 64;
/// Messages of its that may be unacknowledged.
const WINDOW: u16 = 4;
