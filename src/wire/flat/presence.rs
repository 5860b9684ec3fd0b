//! Presence on a hub: what we say of ourselves, and what it says of the others (wire.md 10.4, 10.5).

use crate::wire::error::clip;
use crate::wire::name::units;
use crate::wire::{Map, PeerName, Value};

/// What a hub says of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Everybody that can be reached.
    Everybody {
        /// The hub itself, which is the first of them (W-106); nobody if what stands there is no name.
        hub: Option<PeerName>,
        /// All of them, the hub included.
        peers: Vec<Known>,
    },
    /// One is there.
    Online(Known),
    /// One is gone.
    Offline(PeerName),
}

/// A peer that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub peer: PeerName,
    /// What it announces of its surface.
    pub shape: Option<String>,
}

/// What we announce: our name, the layout we read (W-101), the shape of what we serve. A shape that others would ignore
/// is left out (W-043).
pub fn announcement(me: &PeerName, shape: Option<&str>) -> Value {
    let mut map = Map::new();
    map.insert("name", me.as_str());
    map.insert("v", super::LAYOUT);
    if let Some(shape) = shape.filter(|shape| usable(shape)) {
        map.insert("shape", shape);
    }
    Value::Map(map)
}

/// Reads what a hub says. Names that are none are left out of a list (W-002); `Err` says why nothing of it can be used.
pub fn presence(value: Value) -> Result<Presence, String> {
    let Value::Map(mut map) = value else { return Err("a presence that is no map".into()) };
    if let Some(peers) = map.remove("peers") {
        let Value::Array(peers) = peers else { return Err("a list of peers that is no list".into()) };
        let shapes =
            map.remove("shapes").and_then(|shapes| if let Value::Map(map) = shapes { Some(map) } else { None });
        let hub = peers.first().and_then(Value::as_str).and_then(|name| PeerName::hub(name).ok());
        return Ok(Presence::Everybody { hub, peers: known(peers, shapes.unwrap_or_default()) });
    }
    let name = map.remove("peer");
    let name = name.as_ref().and_then(Value::as_str).ok_or("a presence that names nobody")?;
    let peer = PeerName::hub(name).map_err(|error| format!("the presence of {:?}: {error}", clip(name)))?;
    match map.remove("state") {
        Some(Value::Text(state)) if state == "offline" => Ok(Presence::Offline(peer)),
        _ => Ok(Presence::Online(Known { peer, shape: shape(map.remove("shape")) })),
    }
}

fn known(peers: Vec<Value>, shapes: Map) -> Vec<Known> {
    let mut shapes: std::collections::HashMap<String, Value> = shapes.into_iter().collect();
    let named = |value: Value| {
        let peer = PeerName::hub(value.as_str()?).ok()?;
        let shape = shape(shapes.remove(peer.as_str()));
        Some(Known { peer, shape })
    };
    peers.into_iter().filter_map(named).collect()
}

fn shape(value: Option<Value>) -> Option<String> {
    if let Some(Value::Text(text)) = value { Some(text).filter(|text| usable(text)) } else { None }
}

fn usable(shape: &str) -> bool {
    (1..=MAX_SHAPE).contains(&units(shape))
}

/// How many UTF-16 units a shape may have.
const MAX_SHAPE: usize = 64;
