//! `$context`: what nodes of ours inherit, read and watched by others (semantics 8.2). It cannot be enumerated: a token is
//! asked for by its id, or not at all.

use std::collections::{BTreeMap, BTreeSet};

use super::{super::Outputs, Server, authority::Refusal};
use crate::{
    contract::context::{Change, HostAnswer, Ref, TopologyFault},
    link::LinkId,
    wire::{Map, PeerName, Request, Value},
};

/// The namespace, and the event of its pushes.
pub(super) const CONTEXT: &str = "$context";
/// Tokens of one request.
const MAX_TOKENS: usize = 64;
/// Subscriptions to context that one peer may hold here.
const MAX_OF_PEER: usize = 64;
/// Subscriptions to context of all peers.
const MAX_HELD: usize = 1_000;
/// Bytes of what a peer calls a subscription, and of a token id.
const MAX_ID: usize = 256;
/// Bytes of the name of a node.
const MAX_NODE: usize = 1_024;
/// What a node is called that was not named by text, as peers read it.
const UNNAMED: &str = "undefined";

/// Subscriptions of others to context, keyed by peer and its own id.
#[derive(Debug, Default)]
pub(super) struct Watched {
    held: BTreeMap<PeerName, BTreeMap<String, Subscribed>>,
    /// A topology changed in this turn: what is pushed is what stands at its end.
    moved: bool,
}

#[derive(Debug)]
struct Subscribed {
    link: LinkId,
    asked: Asked,
    seq: i64,
    /// What was told last, without values.
    told: HostAnswer,
}

/// What is asked: about which node, and which tokens.
#[derive(Clone, Debug)]
struct Asked {
    node: String,
    tokens: Vec<String>,
}

impl Watched {
    /// A peer is gone, and its subscriptions with it.
    pub(super) fn peer_gone(&mut self, peer: &PeerName) {
        self.held.remove(peer);
    }

    /// What was told may stand no longer.
    pub(super) fn moved(&mut self) {
        self.moved = true;
    }

    /// How many are held.
    pub(super) fn len(&self) -> usize {
        self.held.values().map(BTreeMap::len).sum()
    }

    fn room_for(&self, peer: &PeerName, id: &str) -> Result<(), Refusal> {
        let own = self.held.get(peer);
        if own.is_some_and(|own| own.contains_key(id)) {
            return Ok(());
        }
        let (held, of_peer) = (self.len(), own.map_or(0, BTreeMap::len));
        if of_peer < MAX_OF_PEER && held < MAX_HELD {
            return Ok(());
        }
        Err(("Busy", format!("{CONTEXT} holds {of_peer} subscriptions of {peer} and {held} in all, and no more")))
    }
}

impl Server {
    /// A call of `$context`.
    pub(super) fn context(&mut self, link: LinkId, source: &PeerName, request: &Request) -> Result<Value, Refusal> {
        let arg = |at: usize| request.args.get(at).unwrap_or(&Value::Null);
        match request.method.as_str() {
            "read" => Ok(self.read_context(&asked(arg(0), arg(1))?).to_value()),
            "subscribe" => {
                let (id, asked) = (subscription(arg(0))?, asked(arg(1), arg(2))?);
                self.watched.room_for(source, id)?;
                let mut answer = self.read_context(&asked);
                let own = self.watched.held.entry(source.clone()).or_default();
                answer.seq = own.get(id).map_or(0, |known| known.seq.saturating_add(1));
                let told = answer.outline();
                own.insert(id.to_owned(), Subscribed { link, asked, seq: answer.seq, told });
                Ok(answer.to_value())
            }
            "unsubscribe" => {
                if let (Some(own), Some(id)) = (self.watched.held.get_mut(source), arg(0).as_str()) {
                    own.remove(id);
                    if own.is_empty() {
                        self.watched.held.remove(source);
                    }
                }
                Ok("ok".into())
            }
            method => Err(("ClassNotFound", format!("{CONTEXT}.{method} is not exposed"))),
        }
    }

    /// Changes where our instances stand, or what they provide; whoever watches is told at the end of the turn.
    pub(in super::super) fn change_topology(&mut self, change: Change) -> Result<(), TopologyFault> {
        self.topology.apply(change)?;
        self.watched.moved();
        Ok(())
    }

    /// Tells those that watch what became different in this turn.
    pub(super) fn publish_context(&mut self, out: &mut Outputs) {
        if !std::mem::take(&mut self.watched.moved) {
            return;
        }
        let mut held = std::mem::take(&mut self.watched.held);
        for (peer, own) in &mut held {
            for (id, subscribed) in own {
                let mut answer = self.read_context(&subscribed.asked);
                let outline = answer.outline();
                if outline == subscribed.told {
                    continue;
                }
                subscribed.seq = subscribed.seq.saturating_add(1);
                answer.seq = subscribed.seq;
                subscribed.told = outline;
                let mut push = Map::new();
                push.insert("subscriptionId", id.as_str());
                push.insert("snapshot", answer.to_value());
                self.send_event(peer, subscribed.link, CONTEXT, CONTEXT, vec![push.into()], None, out);
            }
        }
        self.watched.held = held;
    }

    fn read_context(&self, asked: &Asked) -> HostAnswer {
        self.topology.answer(Ref { peer: self.me.clone(), instance: asked.node.clone() }, &asked.tokens)
    }
}

/// Reads what is asked. A list of tokens that is none reads as empty, as peers read it.
fn asked(node: &Value, tokens: &Value) -> Result<Asked, Refusal> {
    // Nothing is declared under a name that is none, so the answer to one is that nothing is there.
    let node = node.as_str().unwrap_or(UNNAMED);
    if node.len() > MAX_NODE {
        return Err(invalid(format!("the name of a node has at most {MAX_NODE} bytes")));
    }
    let mut named = BTreeSet::new();
    let mut ids = Vec::new();
    for token in tokens.as_array().unwrap_or_default() {
        let id = token.as_str().filter(|id| id.len() <= MAX_ID);
        let id = id.ok_or_else(|| invalid(format!("a token id is text of at most {MAX_ID} bytes")))?;
        if !named.insert(id) {
            return Err(invalid("a token is asked for twice"));
        }
        ids.push(id.to_owned());
        if ids.len() > MAX_TOKENS {
            return Err(invalid(format!("at most {MAX_TOKENS} tokens are asked for at once")));
        }
    }
    Ok(Asked { node: node.to_owned(), tokens: ids })
}

fn subscription(id: &Value) -> Result<&str, Refusal> {
    let id = id.as_str().filter(|id| !id.is_empty() && id.len() <= MAX_ID);
    id.ok_or_else(|| invalid(format!("a subscription is named by text of 1 to {MAX_ID} bytes")))
}

fn invalid(what: impl std::fmt::Display) -> Refusal {
    ("InvalidParams", format!("{CONTEXT}: {what}"))
}
