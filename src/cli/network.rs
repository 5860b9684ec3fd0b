//! Our peer on its network, put together from what was typed.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use uuid::Uuid;

use super::{
    StartError,
    audit::{self, AuditArgs},
    environment::{self, Environment},
    scripts::{Place, ScriptArgs, Scripting},
    secrets::Secrets,
    security::{self, SecurityArgs},
    token,
};
use crate::{
    fake::{Exec, Stage, Way, names},
    link::{
        LinkId,
        hub::{self, HubUrl},
        loopback,
        mqtt::{self, BrokerUrl, Signing},
        tls::TlsFiles,
        trust::Trust,
    },
    node::{Identity, Node, Running, Serving},
    plant::{Plant, Settings},
    script::own_program,
    wire::{
        PeerName,
        name::Prefix,
        signing::{Kin, Minter, Secret},
        topic::Topics,
    },
};

/// The flags of every subcommand that joins a network.
#[derive(Clone, Debug, Args)]
pub(super) struct NetworkArgs {
    /// The MQTT 5 broker: mqtt://host[:1883] or mqtts://host[:8883], or through a WebSocket ws://host[:80][/mqtt] or
    /// wss://host[:443][/mqtt]; else that of PLANTBRIDGE_BROKER. The account comes from PLANTBRIDGE_MQTT_USERNAME and
    /// PLANTBRIDGE_MQTT_PASSWORD, never from here.
    #[arg(long, value_name = "URL")]
    pub(super) broker: Option<String>,
    /// The Socket.IO hub, instead of a broker or beside it: http://host[:7843] or https://host[:8843]; else that of
    /// PLANTBRIDGE_HUB. What we present to it comes from --auth or PLANTBRIDGE_TOKEN, never from here.
    #[arg(long, value_name = "URL")]
    pub(super) hub: Option<String>,
    /// A file with what we present to the hub, {"token": "…"}, and where the hub lists us as an issuer the secret that makes the
    /// credentials of our fakes, "derive": "…". Others must not be able to read it.
    #[arg(long, value_name = "FILE")]
    auth: Option<PathBuf>,
    /// Our name on the network; made up if not given. A name belongs to one process: never give that of a device. One that is
    /// in use is refused, on a broker and on a hub.
    #[arg(long, value_name = "PEER")]
    name: Option<String>,
    /// Whether the name above, and that of a key file, are those of a fake; ours is made up then.
    #[arg(skip)]
    is_fakes: bool,
    /// The topic prefix all peers of a broker share.
    #[arg(long, value_name = "TOPIC", default_value = "msgrpc/v2")]
    prefix: String,
    /// How long a call waits for its answer, in milliseconds, unless it says otherwise.
    #[arg(long, value_name = "MS", default_value_t = 10_000, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=600_000))]
    timeout: u32,
    /// Certificates of a private authority to trust beside the system's, as PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Our certificate towards the broker and the hub, as PEM. Needs --client-key.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// The key of --client-cert, as PEM.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Whether no flag named a place, and the environment did.
    #[arg(skip)]
    by_environment: bool,
    #[command(flatten)]
    security: SecurityArgs,
    /// Whether code that scripts of fakes bring along may be run.
    #[arg(skip)]
    exec: bool,
}

impl NetworkArgs {
    /// What they are when nothing but a broker is given.
    #[cfg(feature = "demo")]
    pub(super) fn of_broker(url: &str) -> Self {
        let (hub, auth, name, prefix) = (None, None, None, "msgrpc/v2".into());
        let (ca, client_cert, client_key) = (None, None, None);
        let (by_environment, is_fakes, exec) = (false, false, false);
        let security = SecurityArgs::default();
        let (broker, timeout) = (Some(url.into()), 10_000);
        Self {
            broker,
            hub,
            auth,
            name,
            is_fakes,
            prefix,
            timeout,
            ca,
            client_cert,
            client_key,
            by_environment,
            security,
            exec,
        }
    }

    /// The same, where code that scripts of fakes bring along may be run.
    pub(super) fn run_code(&mut self, may: bool) {
        self.exec = may;
    }

    /// The name of the fake that joins by these flags, from --name, the key file, or else this.
    pub(super) fn fake_name(&mut self, otherwise: impl FnOnce() -> String) -> Result<PeerName, StartError> {
        self.is_fakes = true;
        security::name_of(self.name.take().as_deref(), self.security.key_file()?.as_ref(), otherwise)
    }

    /// Which certificate these flags trust.
    pub(super) const fn trust(&self) -> Trust {
        self.security.trust()
    }

    /// With the places that the environment names, if no flag names any. True if there is one at all.
    pub(super) fn is_placed(&mut self, environment: &Environment) -> bool {
        if self.broker.is_none() && self.hub.is_none() {
            self.broker.clone_from(&environment.broker);
            self.hub.clone_from(&environment.hub);
            self.by_environment = true;
        }
        self.broker.is_some() || self.hub.is_some()
    }
}

/// Which network, as whom.
#[derive(Debug)]
pub(super) struct Network {
    name: PeerName,
    broker: Option<mqtt::Config>,
    hub: Option<hub::Config>,
    /// What keys of fakes are made of, where frames are signed by a key of ours.
    kin: Option<Kin>,
    /// What vouches for fakes at a hub.
    minter: Option<Minter>,
    settings: Settings,
    places: String,
    prefix: Prefix,
    /// Whether any certificate is taken.
    insecure: bool,
    /// Whether what must never be on beside a plant may be.
    development: bool,
    named: bool,
    contracts: Option<PathBuf>,
    scripting: Option<Scripting>,
    pub(super) audit: AuditArgs,
    /// Whether code that scripts of fakes bring along may be run.
    exec: bool,
}

/// What is not for the flags of the network to say.
#[derive(Debug, Default)]
pub(super) struct Behaviour {
    /// What a made-up name begins with.
    pub(super) role: &'static str,
    /// Whether nothing may be changed.
    pub(super) read_only: bool,
    /// The account at the broker, and what is presented to a hub.
    pub(super) secrets: Secrets,
    /// Where contracts are kept.
    pub(super) contracts: Option<PathBuf>,
    /// Where scripts are kept, and who may reach them.
    pub(super) scripts: ScriptArgs,
    /// Where what could change the plant is written down.
    pub(super) audit: AuditArgs,
}

impl Network {
    /// Checks everything that can be checked before anything is opened.
    pub(super) fn new(args: NetworkArgs, behaviour: Behaviour) -> Result<Self, StartError> {
        if behaviour.contracts.as_ref().is_some_and(|path| path.exists() && !path.is_dir()) {
            return Err(StartError("--contracts: a directory is needed, and it is a file".into()));
        }
        let made_up = || names::name(behaviour.role, Uuid::new_v4().as_u128());
        let keys = args.security.key_file()?;
        let filed = keys.as_ref().filter(|_| !args.is_fakes);
        let chosen = args.name.is_some() || filed.is_some_and(|file| file.name.is_some());
        let name = security::name_of(args.name.as_deref(), filed, made_up)?;
        let named = if args.by_environment { ["PLANTBRIDGE_BROKER", "PLANTBRIDGE_HUB"] } else { ["--broker", "--hub"] };
        let prefix = Prefix::new(&args.prefix).map_err(|error| StartError(format!("--prefix: {error}")))?;
        let mut broker = args.broker.map(|url| broker_at(named[0], &url, &prefix, &name)).transpose()?;
        let mut hub = args.hub.map(|url| hub_at(named[1], &url, &name)).transpose()?;
        let files = TlsFiles { ca: args.ca, identity: args.client_cert.zip(args.client_key) };
        let (insecure, development) = (args.security.is_insecure(), args.security.is_development());
        if keys.is_some() && broker.is_none() {
            return Err(StartError("--sign signs frames on a broker, and there is none".into()));
        }
        args.security.allows_hub(keys.is_some(), hub.is_some())?;
        // A key file that names a fake is that fake's own.
        let kin = keys.as_ref().filter(|_| !args.is_fakes).map(|file| file.kin.clone());
        args.security.secure(&files, broker.as_mut(), hub.as_mut())?;
        if let Some(link) = &mut broker {
            link.credentials = behaviour.secrets.mqtt;
            link.looks = chosen;
            link.signing = keys.map(Signing::from);
        }
        let derive = authorized(hub.as_mut(), args.auth.as_deref(), behaviour.secrets.token)?;
        let minter = token::minter(derive, &name, args.is_fakes, chosen)?;
        if let Some(link) = &mut hub {
            link.looks = chosen;
            link.carried = broker.is_some();
        }
        let at = [broker.as_ref().map(|link| link.broker.to_string()), hub.as_ref().map(|link| link.hub.to_string())];
        let names = [broker.as_ref().map(|_| "mqtt"), hub.as_ref().map(|_| "hub")];
        let settings = Settings {
            read_only: behaviour.read_only,
            call_timeout: Duration::from_millis(args.timeout.into()),
            link_names: names.into_iter().flatten().map(str::to_owned).collect(),
        };
        let place = Place::new(&name, broker.as_ref(), hub.as_ref(), args.prefix);
        let place = Place { minter: minter.clone(), read_only: behaviour.read_only, ..place };
        let scripting = behaviour.scripts.prepare(place)?;
        let places = at.into_iter().flatten().collect::<Vec<_>>().join(" and ");
        Ok(Self {
            name,
            broker,
            hub,
            kin,
            minter,
            settings,
            places,
            prefix,
            insecure,
            development,
            named: chosen,
            contracts: behaviour.contracts,
            scripting,
            audit: behaviour.audit,
            exec: args.exec,
        })
    }

    /// Says what was switched on and what it opens, before anything is.
    pub(super) async fn tell(&self) {
        if self.exec {
            tell_exec();
        }
        if let Some(scripting) = &self.scripting {
            scripting.tell().await;
        }
    }

    /// What was switched on that no tool shows.
    pub(super) fn grants(&self) -> Vec<&'static str> {
        let switched = [(self.development, "development"), (self.insecure, "insecure_tls")];
        switched.into_iter().filter_map(|(on, word)| on.then_some(word)).collect()
    }

    /// Our name.
    pub(super) const fn name(&self) -> &PeerName {
        &self.name
    }

    /// The broker, if there is one.
    pub(super) const fn broker(&self) -> Option<&mqtt::Config> {
        self.broker.as_ref()
    }

    /// The hub, if there is one.
    pub(super) const fn hub(&self) -> Option<&hub::Config> {
        self.hub.as_ref()
    }

    /// The same without its hub; `None` if nothing is left.
    pub(super) fn without_hub(mut self) -> Option<Self> {
        self.hub = None;
        self.settings.link_names.retain(|name| name != "hub");
        self.broker.is_some().then_some(self)
    }

    /// Where it is, as messages say it.
    pub(super) fn places(&self) -> &str {
        &self.places
    }

    /// Whether somebody chose our name: then it can be that of another process later.
    pub(super) fn is_named(&self) -> bool {
        self.named
    }

    /// How long a network may take to let us in at most, beside what the network itself takes: a name that somebody chose may
    /// still be in use.
    pub(super) fn patience(&self) -> Duration {
        let looks =
            self.broker.as_ref().is_some_and(|link| link.looks) || self.hub.as_ref().is_some_and(|hub| hub.looks);
        if looks { mqtt::LEFTOVER } else { Duration::ZERO }
    }

    /// Whether what we present to the hub could be read on its way.
    pub(super) fn tells_its_token(&self) -> bool {
        let exposed = |hub: &hub::Config| {
            let host = hub.hub.host();
            let near = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
            hub.token.is_some() && !hub.hub.is_tls() && !near
        };
        self.hub.as_ref().is_some_and(exposed)
    }

    /// Joins in the background: the links keep trying for as long as the process runs.
    pub(super) fn join(self) -> (Plant, Node, Running) {
        let signing = self.broker.as_ref().and_then(|link| link.signing.as_ref());
        security::tell(signing, self.hub.is_some(), self.insecure);
        if self.minter.is_some() && self.hub.as_ref().is_some_and(|hub| hub.token.is_none()) {
            tracing::warn!("--auth: there is a `derive` for our programs and no token of our own to present");
        }
        let exec = self.exec.then(|| Exec::new(own_program(), environment::inherited().everybody().to_vec()));
        let serving = Serving { introspection: true, ..Serving::default() };
        let (inside, board) = loopback::board(self.name.clone());
        let (scripts, exposed) = self.scripting.map(|on| (on.scripts, on.exposed)).unzip();
        // Their numbers are their places in the list of names.
        let broker = self.broker.map(|link| Way::Broker(Box::new(link)));
        let hub = self.hub.map(|link| Way::Hub(Box::new(link)));
        let ways: Vec<_> = (0..).map(LinkId).zip(broker.into_iter().chain(hub)).collect();
        let exposed = exposed.flatten().into_iter().map(|on| audit::served(self.audit.trail.as_ref(), on)).collect();
        let identity = Identity { name: self.name, serving, exposed };
        let mut tap = None;
        let mut links = Vec::new();
        for (id, way) in &ways {
            links.push(match way {
                Way::Broker(link) => {
                    tap = Some(mqtt::Tap::new((**link).clone()));
                    mqtt::start((**link).clone(), *id)
                }
                Way::Hub(link) => hub::start((**link).clone(), *id),
            });
        }
        links.push(inside);
        // Fakes join the same networks, each by itself.
        let stage = Some(Stage { board, ways, prefix: self.prefix, kin: self.kin, minter: self.minter, exec });
        let (node, running) = Node::start(identity, links);
        let node = match tap {
            Some(tap) => node.with_tap(LinkId(0), tap),
            None => node,
        };
        let plant = Plant::with_scripts(node.clone(), self.settings, self.contracts, stage, scripts);
        (plant.audited(self.audit.trail), node, running)
    }
}

/// What is to be read before anybody relies on it.
fn tell_exec() {
    tracing::warn!(
        "--allow-exec: FAKES RUN CODE THAT THEIR SCRIPTS BRING ALONG, in processes of this user, for every client"
    );
    tracing::warn!(
        "that may start a fake. JavaScript is shut in; Python may do what this user may. Never beside a plant."
    );
}

fn broker_at(named: &str, url: &str, prefix: &Prefix, name: &PeerName) -> Result<mqtt::Config, StartError> {
    let url = BrokerUrl::parse(url).map_err(|error| StartError(format!("{named}: {error}")))?;
    let topics = Topics::new(prefix, name.clone()).map_err(|error| StartError(format!("--prefix: {error}")))?;
    Ok(mqtt::Config::new(url, topics))
}

fn hub_at(named: &str, url: &str, name: &PeerName) -> Result<hub::Config, StartError> {
    let url = HubUrl::parse(url).map_err(|error| StartError(format!("{named}: {error}")))?;
    Ok(hub::Config::new(url, name.clone()))
}

/// Gives the hub what we present to it, from the file or else the environment. Gives the secret that vouches for our fakes, if
/// the file has one.
fn authorized(
    hub: Option<&mut hub::Config>,
    file: Option<&Path>,
    environment: Option<Secret>,
) -> Result<Option<Secret>, StartError> {
    let Some(hub) = hub else {
        return match file {
            Some(_) => Err(StartError("--auth is what is presented to a hub, and there is none".into())),
            None => Ok(None),
        };
    };
    let auth = file.map(token::of_file).transpose()?;
    let (token, derive) = auth.map_or((None, None), |auth| (auth.token, auth.derive));
    hub.token = token.or(environment);
    Ok(derive)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        network: NetworkArgs,
    }

    fn typed(arguments: &[&str]) -> NetworkArgs {
        Typed::parse_from(["x"].iter().chain(arguments)).network
    }

    fn network(arguments: &[&str]) -> Result<Network, String> {
        Network::new(typed(arguments), Behaviour { role: "mcp", ..Behaviour::default() }).map_err(|error| error.0)
    }

    /// Results call a link by what it is, whichever links there are.
    #[test]
    fn links_are_named_in_the_order_of_their_numbers() {
        let both = network(&["--broker", "mqtt://plant", "--hub", "http://plant"]).unwrap();
        assert_eq!(both.settings.link_names, ["mqtt", "hub"]);
        assert_eq!(both.places(), "mqtt://plant:1883 and http://plant:7843");
        assert_eq!(network(&["--hub", "https://plant"]).unwrap().settings.link_names, ["hub"]);
        assert_eq!(network(&["--broker", "mqtt://plant"]).unwrap().settings.link_names, ["mqtt"]);
    }

    #[test]
    fn what_was_typed_wrongly_is_named_by_its_flag() {
        for (arguments, holds) in [
            (&["--hub", "plant"][..], "--hub: "),
            (&["--broker", "plant", "--hub", "http://plant"], "--broker: "),
            (&["--broker", "mqtt://plant", "--hub", "http://plant", "--ca", "ca.pem"], "need TLS"),
            (&["--broker", "mqtt://plant", "--auth", "a.json"], "--auth"),
            (&["--hub", "http://plant", "--auth", "missing.json"], "--auth missing.json: "),
        ] {
            let error = network(arguments).unwrap_err();
            assert!(error.contains(holds), "{arguments:?}: {error}");
        }
    }

    /// What was typed wins over the environment as a whole: a hub that was named is not joined by a broker that was not.
    #[test]
    fn the_environment_places_us_if_nothing_was_typed() {
        let (broker, hub) = (Some("mqtt://env".to_owned()), Some("http://env".to_owned()));
        let environment = Environment { broker, hub, ..Environment::default() };
        let mut args = typed(&[]);
        assert!(args.is_placed(&environment) && args.broker.is_some() && args.hub.is_some());
        let mut args = typed(&["--hub", "http://plant"]);
        assert!(args.is_placed(&environment) && args.broker.is_none());
        assert!(!typed(&[]).is_placed(&Environment::default()));
        // What is wrong with it is not laid at the door of a flag that nobody gave.
        let mut args = typed(&[]);
        args.is_placed(&Environment { hub: Some("env".into()), ..Environment::default() });
        let error = Network::new(args, Behaviour { role: "mcp", ..Behaviour::default() }).unwrap_err().0;
        assert!(error.starts_with("PLANTBRIDGE_HUB: "), "{error}");
    }

    /// A directory of contracts that is a file is refused before anything is opened; one that is not there yet is not.
    #[test]
    fn the_directory_of_contracts_is_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let network = |contracts: PathBuf| {
            let behaviour = Behaviour { role: "mcp", contracts: Some(contracts), ..Behaviour::default() };
            Network::new(typed(&["--broker", "mqtt://localhost"]), behaviour)
        };
        assert!(network(file).unwrap_err().0.starts_with("--contracts: "));
        assert!(network(folder.path().join("later")).is_ok());
    }

    /// Nothing is signed on a hub: beside frames that are, it takes a word of the operator's own.
    #[test]
    fn a_hub_beside_signed_frames_is_asked_for_twice() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.json");
        std::fs::write(&file, r#"{"name": "bridge", "secret": "a secret of some length"}"#).unwrap();
        let file = file.display().to_string();
        let (signed, both) = (["--sign", file.as_str()], ["--broker", "mqtt://plant", "--hub", "http://plant"]);
        let tried = |more: &[&str], places: &[&str]| network(&[&signed[..], more, places].concat()).map(drop);
        let refused = tried(&[], &both).unwrap_err();
        assert!(refused.contains("--hub-unsigned") && refused.contains("speak as anybody"), "{refused}");
        assert_eq!(tried(&["--hub-unsigned"], &both), Ok(()));
        assert_eq!(tried(&[], &both[..2]), Ok(()));
        assert!(tried(&["--hub-unsigned"], &both[..2]).unwrap_err().contains("there is no hub"));
        assert!(tried(&["--hub-unsigned"], &both[2..]).unwrap_err().contains("on a broker, and there is none"));
    }

    /// Who vouches does so under a name that the hub knows.
    #[test]
    fn vouching_for_fakes_takes_a_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"token": "t", "derive": "d"}"#).unwrap();
        let auth = file.path().display().to_string();
        let arguments = ["--hub", "http://plant", "--auth", &auth];
        assert!(network(&arguments).unwrap_err().contains("--name"));
        assert!(network(&[&arguments[..], &["--name", "bridge"]].concat()).unwrap().minter.is_some());
        let mut args = typed(&arguments);
        args.fake_name(|| "boiler".into()).unwrap();
        let refused = Network::new(args, Behaviour { role: "cli", ..Behaviour::default() }).unwrap_err().0;
        assert!(refused.contains("plantbridge mcp"), "{refused}");
    }

    /// A token in the clear is worth a word, unless it stays on this machine.
    #[test]
    fn a_token_in_the_clear_is_noticed() {
        let with = |url| {
            let secrets = Secrets { token: Some(Secret::new("hunter2".into())), ..Secrets::default() };
            let behaviour = Behaviour { role: "mcp", secrets, ..Behaviour::default() };
            let network = Network::new(typed(&["--hub", url]), behaviour).unwrap();
            assert!(!format!("{network:?}").contains("hunter2"));
            network.tells_its_token()
        };
        assert!(with("http://plant"));
        for safe in ["https://plant", "http://127.0.0.1", "ws://[::1]", "http://localhost"] {
            assert!(!with(safe), "{safe}");
        }
        assert!(!network(&["--hub", "http://plant"]).unwrap().tells_its_token());
    }
}
