//! What an operator, and the service manager on their behalf, may want of a process that serves: to read its settings again, to say
//! how it is, and to end.
//!
//! SIGHUP reads the file of settings, and the files it names, again. Everything that is read is checked first, and taken together
//! or not at all; what cannot change while the process runs is named in the log.

use std::{ffi::OsString, io::IsTerminal, net::SocketAddr, sync::Arc};

use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::{Interval, MissedTickBehavior, interval},
};

use super::{
    args::{self, Command, Parsed},
    config::{self, Line, Settings},
    door::Doors,
    environment::Environment,
    log::{Dial, LogArgs},
    mcp::ended,
    service::Manager,
    stop,
};
use crate::{
    door::http::{HttpDoor, Rules, RulesHandle},
    node::{Network, Node},
    plant::Plant,
};

/// What is taken while the process runs, where there is no door.
const LEVEL: &str = "log_level";
/// The same where there is one.
const TAKEN: [&str; 7] = ["mcp_auth", "require_token", "allow_origin", "allow_host", "door_cert", "door_key", LEVEL];

/// What the process was started with, and how it is told of.
pub(super) struct Operator {
    started: Arc<Start>,
    /// The settings that are in force.
    settings: Settings,
    dial: Dial,
    manager: Manager,
    /// Whether somebody sits at a terminal: when that goes away, so do we.
    at_terminal: bool,
    hangups: stop::Hangups,
    door: Option<RulesHandle>,
    links: Option<Links>,
}

/// What settings are read again from.
struct Start {
    typed: Vec<OsString>,
    environment: Environment,
    /// Where the door is, whatever the file says of that by now.
    door: Option<SocketAddr>,
}

/// Our links, and how they are called.
struct Links {
    network: watch::Receiver<Arc<Network>>,
    plant: Plant,
}

/// Settings that were read again and found good.
struct Fresh {
    settings: Settings,
    rules: Option<Rules>,
    log: LogArgs,
}

impl Operator {
    /// Hears of SIGHUP from now on; to be made where the process is driven.
    pub(super) fn new(
        typed: &[OsString],
        line: &Line,
        environment: Environment,
        dial: Dial,
        door: Option<SocketAddr>,
    ) -> Self {
        let settings = Settings::of(line, &environment);
        let started = Arc::new(Start { typed: typed.to_vec(), environment, door });
        let (manager, at_terminal) = (Manager::of_environment(), std::io::stderr().is_terminal());
        let hangups = stop::Hangups::new();
        Self { started, settings, dial, manager, at_terminal, hangups, door: None, links: None }
    }

    /// The doors are open, and the network is being joined.
    pub(super) fn attends(&mut self, plant: &Plant, node: &Node, door: Option<&HttpDoor>) {
        self.links = Some(Links { network: node.watch_network(), plant: plant.clone() });
        self.door = door.map(HttpDoor::rules);
    }

    /// Does what is wanted, until the system asks us to end.
    pub(super) async fn until_asked(&mut self) {
        let mut asked = std::pin::pin!(stop::asked());
        let (mut reading, mut once_more): (Option<JoinHandle<_>>, _) = (None, false);
        let mut beat = self.manager.pace().map(beat);
        self.manager.ready();
        loop {
            self.tell_links();
            tokio::select! {
                () = &mut asked => return,
                () = self.hangups.next() => {
                    if self.at_terminal && !std::io::stderr().is_terminal() {
                        tracing::info!("the terminal is gone");
                        return;
                    }
                    if reading.is_some() {
                        once_more = true;
                    } else {
                        reading = Some(self.reads());
                    }
                }
                read = ended(&mut reading) => {
                    let read = read.unwrap_or_else(|_| Err("the reading failed".into()));
                    if let Err(why) = read.and_then(|fresh| self.take(fresh)) {
                        tracing::error!("the settings stay as they are, all of them: {why}");
                    }
                    self.manager.ready();
                    if std::mem::take(&mut once_more) {
                        reading = Some(self.reads());
                    }
                }
                () = ticks(&mut beat) => self.manager.alive(),
                () = changes(&mut self.links) => {}
            }
        }
    }

    /// The doors are shut.
    pub(super) fn is_over(&self) {
        self.manager.stopping();
    }

    fn tell_links(&mut self) {
        if let Some(links) = &mut self.links {
            self.manager.status(&links.told());
        }
    }

    /// Reads everything again, beside the loop.
    fn reads(&self) -> JoinHandle<Result<Fresh, String>> {
        self.manager.reloading();
        let started = Arc::clone(&self.started);
        spawn_blocking(move || started.again())
    }

    /// Takes what can be taken, all of it in this moment.
    fn take(&mut self, fresh: Fresh) -> Result<(), String> {
        let door = self.door.as_ref().zip(fresh.rules);
        if door.as_ref().is_some_and(|(door, rules)| door.has_tls() != rules.tls.is_some()) {
            return Err("--door-cert: whether the door has TLS is settled when it opens; that takes a restart".into());
        }
        let taken = if let Some((door, rules)) = door {
            if rules.keys.is_open() {
                tracing::warn!("any process on this machine can drive the plant through the door: there is no token");
            }
            door.set(rules);
            &TAKEN[..]
        } else {
            &[LEVEL][..]
        };
        self.dial.turn(fresh.log);
        let (now, later): (Vec<String>, Vec<String>) = self
            .settings
            .differ(&fresh.settings)
            .into_iter()
            .map(str::to_owned)
            .partition(|name| taken.contains(&name.as_str()));
        self.settings.take(&fresh.settings, &now);
        match now.as_slice() {
            [] => tracing::info!("the settings were read again"),
            changed => tracing::info!("the settings were read again, and these were taken: {}", changed.join(", ")),
        }
        if !later.is_empty() {
            tracing::warn!("changed, and not taken before a restart: {}", later.join(", "));
        }
        Ok(())
    }
}

impl Start {
    /// Reads everything again. Blocks on the file system.
    fn again(&self) -> Result<Fresh, String> {
        let line = config::whole(&self.typed, Some(&self.environment));
        let line = line.map_err(|problems| config::in_one_line(&problems))?;
        let settings = Settings::of(&line, &self.environment);
        let (rules, log) = match args::parse(&line.arguments) {
            Parsed::Run(Command::Mcp(mut args)) => {
                let doors = self.door.map(|address| {
                    args.door.stay_at(address);
                    Doors::new(&args.door, self.environment.secrets.door.clone())
                });
                let doors = doors.transpose().map_err(|why| line.blame(why.0))?;
                (doors.and_then(Doors::rules), args.log)
            }
            Parsed::Run(Command::Node(args)) => (None, args.log),
            Parsed::Wrong(why, _) => return Err(line.blame(why)),
            Parsed::Run(_) | Parsed::Say(_) => return Err("this is no line that serves".into()),
        };
        Ok(Fresh { settings, rules, log })
    }
}

impl Links {
    fn told(&mut self) -> String {
        let network = self.network.borrow_and_update();
        let outer = network.links.iter().filter(|(id, _)| !id.is_inside());
        let one = |(id, link): &(_, crate::node::LinkState)| match &link.down {
            None => format!("{} is joined", self.plant.link_name(*id)),
            Some(down) => format!("{} is not: {}", self.plant.link_name(*id), down.detail),
        };
        outer.map(one).collect::<Vec<_>>().join("; ")
    }
}

fn beat(pace: std::time::Duration) -> Interval {
    let mut beat = interval(pace);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

async fn ticks(beat: &mut Option<Interval>) {
    match beat {
        Some(beat) => drop(beat.tick().await),
        None => std::future::pending().await,
    }
}

/// Ends when a link is up or down that was not. Never again once the node is gone.
async fn changes(links: &mut Option<Links>) {
    if let Some(links) = links
        && links.network.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
