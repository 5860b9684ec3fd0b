//! `plantbridge mcp`: one network behind the stdio door, the HTTP door, or both.

use std::{net::SocketAddr, time::Duration};

use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    StartError,
    args::McpArgs,
    audit,
    door::{Doors, Opened},
    environment::Environment,
    network::{Behaviour, Network},
    operator::Operator,
    secrets::Secrets,
};
use crate::{
    door::{
        http::HttpDoor,
        stdio::{self, Ended, StdioConfig},
    },
    mcp::{
        Door, Offer, Registry, Server,
        load::Limits,
        server::{self, REVISIONS},
        tools,
    },
    node::{Node, Running},
    plant::Plant,
};

/// How long calls that run may still be answered once the system asked us to end.
const GRACE: Duration = Duration::from_millis(500);
/// How long answers may take to be read after everything that waited was resolved.
const FLUSH: Duration = Duration::from_millis(500);
/// How long programs may take to end: asked, two seconds later killed, and by us when their supervisors do not do that.
const SCRIPTS: Duration = Duration::from_secs(8);
/// How long the farewell on the network may take.
const FAREWELL: Duration = Duration::from_millis(1_500);

#[cfg(feature = "demo")]
const NOTHING_TO_SERVE: &str = "give it --broker <url> of a plant's MQTT 5 broker, --hub <url> of its hub, or both, or set PLANTBRIDGE_BROKER or PLANTBRIDGE_HUB; or --demo for a bakery to look around in";
#[cfg(not(feature = "demo"))]
const NOTHING_TO_SERVE: &str = "give it --broker <url> of a plant's MQTT 5 broker, --hub <url> of its hub, or both, or set PLANTBRIDGE_BROKER or PLANTBRIDGE_HUB";

/// What `mcp` was asked to serve.
#[derive(Debug)]
pub(super) enum Config {
    /// A plant, and whether the scripts of other nodes are offered.
    Plant(Box<Network>, Doors, bool),
    /// A bakery on an embedded broker, whose address is only known once it runs.
    #[cfg(feature = "demo")]
    Demo(Box<McpArgs>, Doors),
}

impl Config {
    /// Checks everything that can be checked before anything is opened, and gives all that is wrong as far as it can be told at
    /// once; it is never nothing.
    pub(super) fn try_new(mut args: McpArgs, mut environment: Environment) -> Result<Self, Vec<StartError>> {
        args.read_only |= environment.read_only;
        let doors = Doors::new(&args.door, environment.secrets.door.take());
        #[cfg(feature = "demo")]
        if args.demo {
            return doors.map(|doors| Self::Demo(Box::new(args), doors)).map_err(|fault| vec![fault]);
        }
        let remote = args.remote_scripts;
        let network = if args.network.is_placed(&environment) {
            network(args, environment.secrets)
        } else {
            Err(StartError(NOTHING_TO_SERVE.into()))
        };
        match (doors, network) {
            (Ok(doors), Ok(network)) => Ok(Self::Plant(Box::new(network), doors, remote)),
            (doors, network) => Err(doors.err().into_iter().chain(network.err()).collect()),
        }
    }

    /// Where the HTTP door is to be, if there is to be one.
    pub(super) fn door(&self) -> Option<SocketAddr> {
        match self {
            Self::Plant(_, doors, _) => doors.address(),
            #[cfg(feature = "demo")]
            Self::Demo(_, doors) => doors.address(),
        }
    }
}

fn network(mut args: McpArgs, secrets: Secrets) -> Result<Network, StartError> {
    args.network.run_code(args.allow_exec);
    let (contracts, scripts, audit) = (args.contracts, args.scripts, args.audit);
    let behaviour = Behaviour { role: "mcp", read_only: args.read_only, secrets, contracts, scripts, audit };
    Network::new(args.network, behaviour)
}

/// Serves until the client goes away or the system asks us to end. `begun` is shown what serves, before anybody is served.
pub(super) async fn serve(config: Config, operator: Operator, begun: impl FnOnce(&Server)) -> Result<(), StartError> {
    match config {
        Config::Plant(network, doors, remote) => bridge(*network, doors, remote, operator, begun).await,
        #[cfg(feature = "demo")]
        Config::Demo(mut args, doors) => {
            let demo = crate::demo::Demo::start().await.map_err(StartError::new)?;
            tracing::info!("the bakery is open at {}", demo.url());
            // The account of a plant is no business of the demo's broker.
            args.network.broker = Some(demo.url().to_owned());
            let remote = args.remote_scripts;
            let served = bridge(network(*args, Secrets::default())?, doors, remote, operator, begun).await;
            demo.stop().await;
            served
        }
    }
}

async fn bridge(
    mut network: Network,
    doors: Doors,
    remote: bool,
    mut operator: Operator,
    begun: impl FnOnce(&Server),
) -> Result<(), StartError> {
    network.audit.open()?;
    network.tell().await;
    let stdio = doors.stdio;
    let Opened { http, metrics } = doors.open().await?;
    let grants = network.grants();
    let places = network.places().to_owned();
    if network.tells_its_token() {
        tracing::warn!("what we present to the hub travels in the clear: use https://");
    }
    let (plant, node, running) = network.join();
    tracing::info!("{} on {places}", plant.name());
    let server = front(plant.clone(), remote);
    server.grant(grants);
    begun(&server);
    // Open to the very end: that we leave is to be seen.
    let left = CancellationToken::new();
    let watching = metrics.map(|door| tokio::spawn(door.watch(server.clone(), left.clone())));
    operator.attends(&plant, &node, http.as_ref());
    until_over(&server, &plant, &node, stdio, http, &mut operator).await;
    operator.is_over();
    server.leaves();
    plant.give_back_all().await;
    tokio::join!(take_fakes_down(&plant), end_scripts(&plant));
    leave(&node, running).await;
    // What nobody waited for any more is resolved by the leaving; this lets it write its last line.
    if timeout(FLUSH, server.settled()).await.is_err() {
        tracing::warn!("a call that nobody waits for has not ended");
    }
    audit::close(&plant).await;
    left.cancel();
    if let Some(watching) = watching {
        // It bounds its own end.
        let _ = watching.await;
    }
    Ok(())
}

/// What MCP clients of a plant are served by.
pub(super) fn front(plant: Plant, remote: bool) -> Server {
    let (read_only, contracts) = (plant.settings().read_only, plant.keeps_contracts());
    let (scripts, exec) = (plant.keeps_scripts() || remote, plant.runs_code());
    let offer = Offer { read_only, contracts, scripts, exec };
    let registry = Registry::new(tools::all(), offer);
    let config = server::Config {
        limits: Limits::default(),
        longest_call: None,
        cursor_key: key(),
        incidents: Box::new(|| Uuid::new_v4().simple().to_string().chars().take(12).collect()),
    };
    tracing::debug!(revisions = REVISIONS.len(), "serving MCP");
    Server::new(plant, registry, config)
}

/// Serves the doors. Without an HTTP door the end of standard input is the end; with one it ends that client. When the
/// system asks us to end, calls that run get a moment; then the node leaves, which resolves them, and their answers are
/// still written.
async fn until_over(
    server: &Server,
    plant: &Plant,
    node: &Node,
    with_stdio: bool,
    http: Option<HttpDoor>,
    operator: &mut Operator,
) {
    let stopping = CancellationToken::new();
    let mut stdio = with_stdio.then(|| {
        let (read, write) = stdio::pipes();
        let session = server.session("stdio", Door::Stdio);
        tokio::spawn(stdio::serve(read, write, session, StdioConfig::default(), stopping.clone()))
    });
    let mut http = http.map(|door| tokio::spawn(door.serve(server.clone(), stopping.clone())));
    let mut asked = std::pin::pin!(operator.until_asked());
    loop {
        tokio::select! {
            ended = ended(&mut stdio) => {
                let why = match ended {
                    Ok(Ended::EndOfInput) => "the client closed its end",
                    Ok(Ended::OutputClosed) => "the client reads no more",
                    Ok(Ended::Stopped) => "it was stopped",
                    Err(_) => "it failed",
                };
                tracing::info!("the session of standard input is over: {why}");
            }
            _ = ended(&mut http) => tracing::error!("the HTTP door failed"),
            () = &mut asked => break,
        }
        if stdio.is_none() && http.is_none() {
            return;
        }
    }
    tracing::info!("asked to end");
    server.leaves();
    stopping.cancel();
    if timeout(GRACE, both(&mut stdio, &mut http)).await.is_err() {
        plant.give_back_all().await;
        tokio::join!(take_fakes_down(plant), end_scripts(plant));
        node.leave();
        if timeout(FLUSH, both(&mut stdio, &mut http)).await.is_err() {
            tracing::warn!("a client does not read its answers");
            stdio.iter().for_each(JoinHandle::abort);
            http.iter().for_each(JoinHandle::abort);
        }
    }
}

/// Ends with a door that is open, once; never for one that is not.
pub(super) async fn ended<T>(door: &mut Option<JoinHandle<T>>) -> Result<T, tokio::task::JoinError> {
    let Some(open) = door else { return std::future::pending().await };
    let outcome = open.await;
    *door = None;
    outcome
}

/// Ends when no door is open any more.
async fn both<T, U>(stdio: &mut Option<JoinHandle<T>>, http: &mut Option<JoinHandle<U>>) {
    while stdio.is_some() || http.is_some() {
        tokio::select! {
            _ = ended(stdio) => {}
            _ = ended(http) => {}
        }
    }
}

/// Takes the fakes off the network, within a bound. Done before we leave it, which would be the end of their roster.
pub(super) async fn take_fakes_down(plant: &Plant) {
    // What answers for one that runs code is seen to its end.
    let bound = if plant.runs_code() { SCRIPTS } else { FAREWELL };
    if timeout(bound, plant.stop_all_fakes()).await.is_err() {
        tracing::warn!("some fakes did not leave in time; the network will notice by itself");
    }
}

/// Ends the scripts, within a bound. One that is not gone by then could not be killed.
pub(super) async fn end_scripts(plant: &Plant) {
    if timeout(SCRIPTS, plant.stop_all_scripts()).await.is_err() {
        tracing::warn!("some scripts did not end in time, though they were killed; look for processes that are left");
    }
}

/// Says goodbye to the network, within a bound.
pub(super) async fn leave(node: &Node, running: Running) {
    node.leave();
    if timeout(FAREWELL, running.ended()).await.is_err() {
        tracing::warn!("the farewell took too long; the network will notice by itself");
    }
}

/// A key for this process's cursors.
fn key() -> [u8; 32] {
    let mut key = [0; 32];
    let halves = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()];
    for (byte, random) in key.iter_mut().zip(halves.as_flattened()) {
        *byte = *random;
    }
    key
}
