//! Our peer on its network, put together from what was typed.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use uuid::Uuid;

use super::{
    StartError,
    security::{self, SecurityArgs},
};
use crate::{
    fake::{Stage, names},
    link::{
        LinkId, loopback,
        mqtt::{self, BrokerUrl, Credentials, Signing, TlsFiles},
    },
    node::{Identity, Node, Running, Serving},
    plant::{Plant, Settings},
    wire::{PeerName, name::Prefix, topic::Topics},
};

/// The flags of every subcommand that joins a network.
#[derive(Clone, Debug, Args)]
pub(super) struct NetworkArgs {
    /// The MQTT 5 broker: mqtt://host[:1883] or mqtts://host[:8883]; else that of PLANTBRIDGE_BROKER. The account comes from
    /// PLANTBRIDGE_MQTT_USERNAME and PLANTBRIDGE_MQTT_PASSWORD, never from here.
    #[arg(long, value_name = "URL")]
    pub(super) broker: Option<String>,
    /// Our name on the network; made up if not given. A name belongs to one process per broker.
    #[arg(long, value_name = "PEER")]
    name: Option<String>,
    /// The topic prefix all peers share.
    #[arg(long, value_name = "TOPIC", default_value = "msgrpc/v2")]
    prefix: String,
    /// How long a call waits for its answer, in milliseconds, unless it says otherwise.
    #[arg(long, value_name = "MS", default_value_t = 10_000, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=600_000))]
    timeout: u32,
    /// Certificates of a private authority to trust beside the system's, as PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Our certificate towards the broker, as PEM. Needs --client-key.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// The key of --client-cert, as PEM.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    #[command(flatten)]
    security: SecurityArgs,
}

#[cfg(any(test, feature = "demo"))]
impl NetworkArgs {
    /// What they are when none is given.
    pub(super) fn defaults() -> Self {
        let (broker, name, prefix) = (None, None, "msgrpc/v2".into());
        let (ca, client_cert, client_key, security) = (None, None, None, SecurityArgs::default());
        Self { broker, name, prefix, timeout: 10_000, ca, client_cert, client_key, security }
    }
}

/// Which network, as whom.
#[derive(Debug)]
pub(super) struct Network {
    name: PeerName,
    link: mqtt::Config,
    settings: Settings,
    broker: String,
    prefix: Prefix,
    /// Whether any certificate is taken.
    insecure: bool,
    contracts: Option<PathBuf>,
}

/// What is not for the flags of the network to say.
#[derive(Debug, Default)]
pub(super) struct Behaviour {
    /// Whether no flag named the broker.
    pub(super) broker_is_environments: bool,
    /// What a made-up name begins with.
    pub(super) role: &'static str,
    /// Whether nothing may be changed.
    pub(super) read_only: bool,
    /// The account at the broker.
    pub(super) account: Option<Credentials>,
    /// Where contracts are kept.
    pub(super) contracts: Option<PathBuf>,
}

impl Network {
    /// Checks everything that can be checked before anything is opened.
    pub(super) fn new(broker: &str, args: NetworkArgs, behaviour: Behaviour) -> Result<Self, StartError> {
        if behaviour.contracts.as_ref().is_some_and(|path| path.exists() && !path.is_dir()) {
            return Err(StartError("--contracts: a directory is needed, and it is a file".into()));
        }
        let named = if behaviour.broker_is_environments { "PLANTBRIDGE_BROKER" } else { "--broker" };
        let url = BrokerUrl::parse(broker).map_err(|error| StartError(format!("{named}: {error}")))?;
        let made_up = || names::name(behaviour.role, Uuid::new_v4().as_u128());
        let keys = args.security.key_file()?;
        let name = security::name_of(args.name.as_deref(), keys.as_ref(), made_up)?;
        let prefix = Prefix::new(&args.prefix).map_err(|error| StartError(format!("--prefix: {error}")))?;
        let topics = Topics::new(&prefix, name.clone()).map_err(|error| StartError(format!("--prefix: {error}")))?;
        let mut link = mqtt::Config::new(url, topics);
        let broker = link.broker.to_string();
        let files = TlsFiles { ca: args.ca, identity: args.client_cert.zip(args.client_key) };
        let insecure = args.security.is_insecure();
        args.security.secure(&files, &mut link)?;
        link.signing = keys.map(Signing::from);
        link.credentials = behaviour.account;
        let settings = Settings {
            read_only: behaviour.read_only,
            call_timeout: Duration::from_millis(args.timeout.into()),
            link_names: vec!["mqtt".into()],
        };
        Ok(Self { name, link, settings, broker, prefix, insecure, contracts: behaviour.contracts })
    }

    /// The broker, as messages name it.
    pub(super) fn broker(&self) -> &str {
        &self.broker
    }

    /// Joins in the background: the link keeps trying for as long as the process runs.
    pub(super) fn join(self) -> (Plant, Node, Running) {
        security::tell(self.link.signing.as_ref(), self.insecure);
        let serving = Serving { introspection: true, ..Serving::default() };
        let (inside, board) = loopback::board(self.name.clone());
        let stage = Stage { board, link: self.link.clone(), prefix: self.prefix };
        let identity = Identity { name: self.name, serving, exposed: Vec::new() };
        let tap = mqtt::Tap::new(self.link.clone());
        let (node, running) = Node::start(identity, vec![mqtt::start(self.link, LinkId(0)), inside]);
        let node = node.with_tap(tap);
        (Plant::with_fakes(node.clone(), self.settings, self.contracts, Some(stage)), node, running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of contracts that is a file is refused before anything is opened; one that is not there yet is not.
    #[test]
    fn the_directory_of_contracts_is_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let network = |contracts: PathBuf| {
            let behaviour = Behaviour { contracts: Some(contracts), ..Behaviour::default() };
            Network::new("mqtt://localhost", NetworkArgs::defaults(), behaviour)
        };
        assert!(network(file).unwrap_err().0.starts_with("--contracts: "));
        assert!(network(folder.path().join("later")).is_ok());
    }
}
