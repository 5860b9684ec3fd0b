//! The links of a fake: those of whom it stands beside, under its own name, and by keys and credentials of its own where
//! there are any. What that means for others is told, and so is why a network would not have it.

use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;

use super::{code::Exec, host::StartFault};
use crate::{
    link::{
        DownKind, DownReason, Link, LinkId,
        hub::{self, Passport},
        loopback::Board,
        mqtt::{self, Signing},
    },
    wire::{
        PeerName, Prefix, Topics,
        signing::{Kin, Listed, Minter, VerifierKey},
    },
};

/// Where fakes stand.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Beside whom, inside this process.
    pub board: Board,
    /// Which networks, and as whom in their eyes; the name in it is replaced. The numbers are those of the links of whom they
    /// stand beside.
    pub ways: Vec<(LinkId, Way)>,
    /// What topics of a broker begin with.
    pub prefix: Prefix,
    /// What their keys are made of, where frames are signed. Without it they sign with the key of the way.
    pub kin: Option<Kin>,
    /// What vouches for them at a hub. Without it they present the token of the way.
    pub minter: Option<Minter>,
    /// The leave to run code that scripts bring along, if there is one.
    pub exec: Option<Exec>,
}

/// One network, as one link is to join it.
#[derive(Clone, Debug)]
pub enum Way {
    /// Through a broker.
    Broker(Box<mqtt::Config>),
    /// Through a hub.
    Hub(Box<hub::Config>),
}

/// What a fake signs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeKey {
    /// What kind of key it is.
    pub kind: &'static str,
    /// What others verify with, where that is no secret.
    pub public: Option<String>,
}

/// Which links of a fake may connect.
#[derive(Debug, Default)]
pub(super) struct Gates(Vec<(LinkId, watch::Sender<bool>)>);

impl Gates {
    pub(super) fn links(&self) -> impl Iterator<Item = LinkId> {
        self.0.iter().map(|(link, _)| *link)
    }

    /// Opens those that may be open, and shuts the others.
    pub(super) fn set(&self, may: impl Fn(LinkId) -> bool) {
        for (link, gate) in &self.0 {
            let may = may(*link);
            gate.send_if_modified(|open| std::mem::replace(open, may) != may);
        }
    }
}

/// What a fake is to a hub: something a model had started, and no device.
const ROLES: &[&str] = &["ai-program", "simulated"];
/// A model stands between it and a person.
const GENERATION: u8 = 2;
/// How long a credential holds. Each connection begins with a new one.
const LIFE: Duration = Duration::from_hours(4);
/// Commands and events that wait in its links.
pub(super) const QUEUE: usize = 64;
/// Messages of its that may be unacknowledged.
const WINDOW: u16 = 4;

impl Stage {
    /// The links of the fake of this name, and what lets them connect; and its key, if its frames are signed.
    pub(super) fn links(&self, name: &PeerName) -> Result<(Vec<Link>, Gates, Option<FakeKey>), StartFault> {
        let topics = Topics::new(&self.prefix, name.clone()).map_err(|error| StartFault::Name(error.to_string()))?;
        let (mut links, mut gates, mut key) = (Vec::new(), Vec::new(), None);
        for (id, way) in &self.ways {
            let (gate, allowed) = watch::channel(false);
            links.push(match way {
                Way::Broker(like) => {
                    let signing = self.signing(like.signing.as_ref(), name);
                    key = signing.as_ref().map(FakeKey::of);
                    mqtt::start(on_broker(like, topics.clone(), signing, allowed), *id)
                }
                Way::Hub(like) => hub::start(on_hub(like, name, self.minter.clone(), allowed), *id),
            });
            gates.push((*id, gate));
        }
        Ok((links, Gates(gates), key))
    }

    /// Whether our own key file lists the name with another key than that of a fake: then it is somebody's, there or not.
    pub(super) fn is_listed(&self, name: &PeerName) -> bool {
        let signings = self.ways.iter().filter_map(|(_, way)| match way {
            Way::Broker(like) => like.signing.as_ref()?.peers.as_ref(),
            Way::Hub(_) => None,
        });
        signings.flatten().any(|(peer, key)| peer == name && !self.is_of_a_fake(name, key))
    }

    fn is_of_a_fake(&self, name: &PeerName, key: &VerifierKey) -> bool {
        match (self.kin.as_ref().map(|kin| kin.key_of(name).listed), key) {
            (Some(Listed::Public(ours)), VerifierKey::Ed25519(listed)) => ours == **listed,
            _ => false,
        }
    }

    fn signing(&self, like: Option<&Signing>, name: &PeerName) -> Option<Signing> {
        let mut signing = like?.clone();
        if let Some(kin) = &self.kin {
            signing.signer = kin.key_of(name).signer;
        }
        Some(signing)
    }

    /// As whom a fake of this name is there, as far as that may surprise.
    pub(super) fn terms(&self, name: &PeerName) -> Vec<String> {
        let mut terms = Vec::new();
        for (_, way) in &self.ways {
            match way {
                Way::Broker(like) => {
                    if let Some(signing) = &like.signing {
                        terms.extend(self.kin.as_ref().map(|kin| unlisted(kin, name)));
                        terms.extend(signing.peers.as_ref().map(|_| ONLY_LISTED.to_owned()));
                    }
                    terms.extend(like.credentials.as_ref().map(|_| ACCOUNT.to_owned()));
                }
                Way::Hub(like) => {
                    terms.extend(self.kin.as_ref().map(|_| UNSIGNED.to_owned()));
                    terms.extend(like.token.as_ref().filter(|_| self.minter.is_none()).map(|_| TOKEN.to_owned()));
                }
            }
        }
        terms
    }

    /// Why a network would not have it, in words that help.
    pub(super) fn refused(&self, link: LinkId, down: &DownReason) -> StartFault {
        let hint = match self.way(link) {
            Some(Way::Broker(like)) if down.kind == DownKind::Unauthorized && like.credentials.is_some() => {
                "; the fake uses the account of this bridge, which may be allowed the topics of its own name only"
            }
            Some(Way::Hub(_)) if down.kind == DownKind::Unauthorized && self.minter.is_some() => {
                "; does the hub list this bridge as an issuer, by its name and with the `derive` secret of its --auth file?"
            }
            Some(Way::Hub(_)) if down.kind == DownKind::Unauthorized => HUB_WANTS_OWN,
            _ => "",
        };
        failed(format!("{}{hint}", down.detail), hint)
    }

    /// Why a network that took its connection does not show it.
    pub(super) fn unseen(&self, link: LinkId) -> StartFault {
        let (place, hint) = match self.way(link) {
            Some(Way::Hub(like)) if self.minter.is_none() && like.token.is_some() => ("hub", HUB_WANTS_OWN),
            Some(Way::Hub(_)) => ("hub", ""),
            Some(Way::Broker(like)) if like.credentials.is_some() => (
                "broker",
                "; the account of this bridge, which the fake uses, may not be allowed to announce another name",
            ),
            Some(Way::Broker(_)) | None => ("broker", ""),
        };
        failed(format!("it joined the {place}, and the network does not show it{hint}"), hint)
    }

    fn way(&self, link: LinkId) -> Option<&Way> {
        self.ways.iter().find(|(id, _)| *id == link).map(|(_, way)| way)
    }
}

impl FakeKey {
    fn of(signing: &Signing) -> Self {
        Self { kind: signing.signer.kind(), public: signing.signer.public().map(|public| public.to_string()) }
    }
}

const HUB_WANTS_OWN: &str = "; the fake presents the token of this bridge, and a hub that ties a token to a name keeps every \
                             other name out: a `derive` secret in the file of --auth gives each fake a credential of its own";
const ACCOUNT: &str = "on the broker it goes by the account of this bridge";
const TOKEN: &str = "to the hub it presents the token of this bridge; with a `derive` secret in the file of --auth each fake has \
                     a credential of its own";
const UNSIGNED: &str = "over the hub its frames are not signed, and nobody's that reach it are verified";
const ONLY_LISTED: &str =
    "on the broker it takes the frames of the peers that the key file of this bridge lists, and of nobody else";

/// What others have to list before they believe it.
fn unlisted(kin: &Kin, name: &PeerName) -> String {
    let until = "its frames are signed with a key of its own: peers that verify drop what it answers and emits, and calls of \
                 theirs run into their deadline, until they list";
    match kin.key_of(name).listed {
        Listed::Public(public) => {
            let entry = json!({ name.as_str(): {"public": public.to_string()} });
            format!("{until} under `peers` of their key files: {entry}")
        }
        Listed::Secret(_) => format!(
            "{until} its secret, which `plantbridge keygen --for-fake NAME KEYFILE` prints for whoever has the key file of this \
             bridge"
        ),
    }
}

/// The link to a broker: cheap, because there may be many.
fn on_broker(
    like: &mqtt::Config,
    topics: Topics,
    signing: Option<Signing>,
    gate: watch::Receiver<bool>,
) -> mqtt::Config {
    mqtt::Config {
        topics,
        signing,
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

/// The link to a hub, likewise.
fn on_hub(like: &hub::Config, name: &PeerName, minter: Option<Minter>, gate: watch::Receiver<bool>) -> hub::Config {
    let passport = |minter| Passport { minter, roles: ROLES, generation: GENERATION, life: LIFE };
    hub::Config {
        me: name.clone(),
        passport: minter.map(passport),
        queue: QUEUE,
        hears: false,
        gate: Some(gate),
        looks: false,
        yields: true,
        ..like.clone()
    }
}

/// What a hint speaks of does not pass by itself.
fn failed(why: String, hint: &str) -> StartFault {
    if hint.is_empty() { StartFault::Failed(why) } else { StartFault::Barred(why) }
}
