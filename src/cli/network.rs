//! Our peer on its network, put together from what was typed.

use std::{path::PathBuf, time::Duration};

use uuid::Uuid;

use super::StartError;
use crate::{
    fake::{Stage, names},
    link::{
        LinkId, loopback,
        mqtt::{self, BrokerUrl, Credentials, Tls, TlsFiles},
    },
    node::{Identity, Node, Running, Serving},
    plant::{Plant, Settings},
    wire::{PeerName, name::Prefix, topic::Topics},
};

/// Which network, as whom.
#[derive(Debug)]
pub(super) struct Network {
    name: PeerName,
    link: mqtt::Config,
    settings: Settings,
    broker: String,
    prefix: Prefix,
}

/// The files TLS is made of.
#[derive(Debug, Default)]
pub(super) struct TlsArgs {
    pub(super) ca: Option<PathBuf>,
    pub(super) client_cert: Option<PathBuf>,
    pub(super) client_key: Option<PathBuf>,
}

/// How verbs behave on it.
#[derive(Debug)]
pub(super) struct Behaviour {
    pub(super) read_only: bool,
    pub(super) timeout: Duration,
}

impl Network {
    /// Checks everything that can be checked before anything is opened.
    pub(super) fn new(
        broker: &str,
        name: Option<&str>,
        prefix: &str,
        account: Option<Credentials>,
        tls: TlsArgs,
        behaviour: &Behaviour,
    ) -> Result<Self, StartError> {
        let url = BrokerUrl::parse(broker).map_err(|error| StartError(format!("--broker: {error}")))?;
        let made_up = || names::name("mcp", Uuid::new_v4().as_u128());
        let name = name.map_or_else(made_up, str::to_owned);
        let name = PeerName::configured(&name).map_err(|error| StartError(format!("--name {name:?}: {error}")))?;
        let prefix = Prefix::new(prefix).map_err(|error| StartError(format!("--prefix: {error}")))?;
        let topics = Topics::new(&prefix, name.clone()).map_err(|error| StartError(format!("--prefix: {error}")))?;
        let mut link = mqtt::Config::new(url, topics);
        let broker = link.broker.to_string();
        link.tls = files(tls, link.broker.is_tls())?;
        link.credentials = account;
        let settings = Settings {
            read_only: behaviour.read_only,
            call_timeout: behaviour.timeout,
            link_names: vec!["mqtt".into()],
        };
        Ok(Self { name, link, settings, broker, prefix })
    }

    /// The broker, as messages name it.
    pub(super) fn broker(&self) -> &str {
        &self.broker
    }

    /// Joins in the background: the link keeps trying for as long as the process runs.
    pub(super) fn join(self) -> (Plant, Node, Running) {
        let serving = Serving { introspection: true, ..Serving::default() };
        let (inside, board) = loopback::board(self.name.clone());
        let stage = Stage { board, link: self.link.clone(), prefix: self.prefix };
        let identity = Identity { name: self.name, serving, exposed: Vec::new() };
        let (node, running) = Node::start(identity, vec![mqtt::start(self.link, LinkId(0)), inside]);
        (Plant::with_fakes(node.clone(), self.settings, None, Some(stage)), node, running)
    }
}

/// The TLS settings, if files were named. Files for a connection without TLS would protect nothing, so they are refused.
fn files(args: TlsArgs, is_tls: bool) -> Result<Option<Tls>, StartError> {
    let identity = args.client_cert.zip(args.client_key);
    if args.ca.is_none() && identity.is_none() {
        return Ok(None);
    }
    if !is_tls {
        return Err(StartError("--ca, --client-cert and --client-key need a broker with TLS: mqtts://".into()));
    }
    Tls::load(&TlsFiles { ca: args.ca, identity }).map(Some).map_err(StartError::new)
}
