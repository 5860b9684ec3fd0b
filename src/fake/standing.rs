//! Standing a fake up: its links, its node, and the proof that the network sees it and nobody else under its name. What was
//! begun and not finished is taken down again, also when nobody waits for it any more.

use std::time::Duration;

use tokio::time::timeout;

use super::{
    actor::Actor,
    code::Hands,
    host::{Reservation, StartFault, Taken},
    live::{Live, Terms},
    plan::Plan,
    usher::others,
    ways::{QUEUE, Stage},
};
use crate::{
    link::{DownKind, DownReason, LinkId, now_ms},
    node::{Identity, Network, Node, Running, Seen},
    wire::PeerName,
};

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
    terms: Terms,
    reserved: Reservation,
}

impl Standing {
    /// Starts it. Its links connect when [`Standing::joined`] lets them.
    pub(super) fn up(
        stage: &Stage,
        reserved: Reservation,
        name: &PeerName,
        plan: Plan,
        hands: Option<Hands>,
    ) -> Result<Self, StartFault> {
        let seat = stage.board.seat(name, QUEUE).ok_or(StartFault::NameTaken(Taken::Fake))?;
        let (mut links, gates, key) = stage.links(name)?;
        links.push(seat);
        let (shape, serving) = (plan.shape(), plan.serving());
        let actor = Actor::new(name.clone(), plan, hands);
        let identity = Identity { name: name.clone(), serving, exposed: actor.exposed() };
        let (node, running) = Node::start_hosted(identity, links);
        Ok(Self { up: Some(Up { node, running, actor, terms: Terms { shape, gates, key }, reserved }) })
    }

    /// Joins the networks that are there, beside `host`. Done when the host sees it on each of them, and under its own name
    /// nobody else.
    pub(super) async fn joined(&self, stage: &Stage, host: &Node) -> Result<(), StartFault> {
        let Some(Up { node, terms, .. }) = &self.up else { return Err(StartFault::Closing) };
        let name = node.name();
        let mine = |seen: &Seen| seen.shape.as_deref() == Some(&terms.shape);
        // Seen inside, its links know what to announce: then they may.
        let inside = host.network_when(SEEN, |network| network.roster.get(name).is_some_and(mine)).await;
        if on_the_network(&inside, name) {
            return Err(StartFault::NameTaken(Taken::Peer));
        }
        if !inside.roster.get(name).is_some_and(mine) {
            return Err(StartFault::Failed("it did not come up".into()));
        }
        let ways: Vec<LinkId> = terms.gates.links().filter(|link| inside.is_swept(*link)).collect();
        terms.gates.set(|link| ways.contains(&link));
        self.connected(stage, &ways).await?;
        let shown = |network: &Network, link: LinkId| !network.is_link_up(link) || is_seen_on(network, name, link);
        let seen = host.network_when(SEEN, |network| ways.iter().all(|link| shown(network, *link))).await;
        if seen.roster.get(name).is_some_and(|seen| !mine(seen)) {
            return Err(StartFault::NameTaken(Taken::Peer));
        }
        match ways.iter().find(|link| !shown(&seen, **link)) {
            Some(hidden) => Err(stage.unseen(*hidden)),
            None if on_the_network(&seen, name) => Ok(()),
            None => Err(StartFault::Failed("the network went away while it joined".into())),
        }
    }

    /// Waits until every one of these networks has it, or one of them will not.
    async fn connected(&self, stage: &Stage, ways: &[LinkId]) -> Result<(), StartFault> {
        let Some(Up { node, .. }) = &self.up else { return Err(StartFault::Closing) };
        let all_up = |network: &Network| ways.iter().all(|link| network.is_link_up(*link));
        let decided = |network: &Network| all_up(network) || trouble(network).is_some();
        let own = node.network_when(JOIN, decided).await;
        match trouble(&own) {
            _ if all_up(&own) => Ok(()),
            Some((_, down)) if down.kind == DownKind::Displaced => Err(StartFault::NameTaken(Taken::Peer)),
            Some((link, down)) => Err(stage.refused(link, down)),
            None => Err(StartFault::Failed("the network did not take it in time".into())),
        }
    }

    /// What it is from now on, and what is awaited at its end.
    pub(super) fn stays(mut self) -> Option<(Live, Running, Reservation)> {
        let Up { node, running, actor, terms, reserved } = self.up.take()?;
        Some((Live::new(node, actor, terms, now_ms()), running, reserved))
    }

    /// Takes it down again, without touching what networks show of somebody else under its name.
    pub(super) async fn fall(mut self, host: &Node) {
        if let Some(up) = self.up.take() {
            let theirs = others(&host.network(), up.node.name(), &up.terms.shape);
            up.leaves(theirs).await;
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if let Some(up) = self.up.take() {
            tokio::spawn(up.leaves(Vec::new()));
        }
    }
}

impl Up {
    /// The name is free again when this is done.
    async fn leaves(self, theirs: Vec<LinkId>) {
        part(&self.node, self.running, theirs).await;
        self.actor.rest().await;
        drop(self.reserved);
    }
}

/// Takes a fake off the network, within a bound; where its name is `theirs`, without a word.
pub(super) async fn part(node: &Node, running: Running, theirs: Vec<LinkId>) {
    node.yield_name(theirs);
    if timeout(LEAVE, running.ended()).await.is_err() {
        tracing::warn!(fake = %node.name(), "it did not leave in time; the network will notice by itself");
    }
}

/// Whether somebody of this name is seen over a network.
pub(super) fn on_the_network(network: &Network, name: &PeerName) -> bool {
    network.roster.get(name).is_some_and(|seen| seen.links.iter().any(|link| !link.is_inside()))
}

fn is_seen_on(network: &Network, name: &PeerName, link: LinkId) -> bool {
    network.roster.get(name).is_some_and(|seen| seen.links.contains(&link))
}

/// What keeps it from a network, if something does. A link that may not connect yet is in no trouble.
fn trouble(network: &Network) -> Option<(LinkId, &DownReason)> {
    let reasons = network.links.iter().filter_map(|(id, link)| Some((*id, link.down.as_ref()?)));
    reasons.into_iter().find(|(_, down)| down.kind != DownKind::Joining)
}

/// How long joining may take.
const JOIN: Duration = Duration::from_secs(10);
/// How long the host may take to see it.
const SEEN: Duration = Duration::from_secs(2);
/// How long leaving may take.
const LEAVE: Duration = Duration::from_secs(2);
