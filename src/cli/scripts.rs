//! The flags that let programs be kept and run here: each is off, and each says at the start what it opens.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;

use super::{StartError, environment};
use crate::{
    link::{hub, mqtt},
    node::{Exposed, Service},
    script::{Bounds, Scripts, ScriptsConfig, Supervisor, Whereabouts, served},
    wire::{PeerName, signing::Minter},
};

/// Flags of what may run scripts.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ScriptArgs {
    /// A directory of programs that clients may write, start and stop, as <name>.ts, .mjs or .py; made when the first is saved. A
    /// program has every right of this process's user: reaching real devices, the disk, the network.
    #[arg(long, value_name = "DIR")]
    pub(super) scripts: Option<PathBuf>,
    /// A peer that may write and start programs here from afar. It must sign (--sign, with a key file that lists it). May be given
    /// for several.
    #[arg(long, value_name = "PEER", requires = "scripts")]
    pub(super) scriptable_by: Vec<String>,
    /// How many scripts may run at once.
    #[arg(long, value_name = "N", requires = "scripts", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    scripts_running: u16,
    /// The memory each process of a script may use, in MiB; half a GiB that newer Nodes reserve for themselves does not count.
    #[arg(long, value_name = "MIB", requires = "scripts", default_value_t = 512, value_parser = clap::value_parser!(u32).range(16..=1_048_576))]
    script_memory: u32,
    /// How long a script may run, in seconds; for ever if not given.
    #[arg(long, value_name = "SECONDS", requires = "scripts", value_parser = clap::value_parser!(u32).range(1..=31_536_000))]
    script_time: Option<u32>,
}

/// What the flags come to, once it is known who and where we are.
#[derive(Debug)]
pub(super) struct Scripting {
    /// The scripts.
    pub(super) scripts: Scripts,
    /// The namespace that others reach them by, if somebody may.
    pub(super) exposed: Option<(Exposed, Arc<dyn Service>)>,
    directory: PathBuf,
    allowed: BTreeSet<PeerName>,
    /// Whether frames are verified, without which nobody is anybody.
    verifies: bool,
    minted: bool,
    /// Whether the process changes nothing, scripts included.
    read_only: bool,
}

/// Who and where we are, as scripts are told.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) name: PeerName,
    pub(super) whereabouts: Whereabouts,
    pub(super) minter: Option<Minter>,
    pub(super) verifies: bool,
    pub(super) read_only: bool,
}

impl Place {
    /// Who we are on these links; what mints for us, and what we may do, is for others to say.
    pub(super) fn new(
        name: &PeerName,
        broker: Option<&mqtt::Config>,
        hub: Option<&hub::Config>,
        prefix: String,
    ) -> Self {
        let verifies = broker.and_then(|link| link.signing.as_ref()).is_some_and(|keys| keys.peers.is_some());
        let (broker, hub) = (broker.map(|link| link.broker.to_string()), hub.map(|link| link.hub.to_string()));
        let whereabouts = Whereabouts { broker, hub, prefix };
        Self { name: name.clone(), whereabouts, minter: None, verifies, read_only: false }
    }
}

impl ScriptArgs {
    /// Checks what can be checked before anything is opened, and reads what scripts are given of our environment.
    pub(super) fn prepare(self, place: Place) -> Result<Option<Scripting>, StartError> {
        let Some(directory) = self.scripts else { return Ok(None) };
        if directory.exists() && !directory.is_dir() {
            return Err(StartError("--scripts: a directory is needed, and it is a file".into()));
        }
        if place.read_only && !self.scriptable_by.is_empty() {
            let text =
                "--scriptable-by lets others start programs here, and --read-only changes nothing: give one of them";
            return Err(StartError(text.into()));
        }
        let allowed = self.scriptable_by.iter().map(|name| {
            PeerName::configured(name).map_err(|error| StartError(format!("--scriptable-by {name:?}: {error}")))
        });
        let allowed = allowed.collect::<Result<BTreeSet<PeerName>, _>>()?;
        let bounds = Bounds {
            running: self.scripts_running.into(),
            memory: u64::from(self.script_memory) << 20,
            run: self.script_time.map(|seconds| Duration::from_secs(seconds.into())),
        };
        let minted = place.minter.is_some();
        let scripts = Scripts::new(ScriptsConfig {
            directory: directory.clone(),
            supervisor: Supervisor::own(),
            inherited: environment::inherited(),
            place: place.whereabouts,
            bridge: place.name.to_string(),
            minter: place.minter,
            bounds,
        });
        let exposed = (!allowed.is_empty()).then(|| served(scripts.clone(), allowed.clone()));
        let exposed = exposed.transpose().map_err(|why| StartError(format!("scripting cannot be served: {why}")))?;
        Ok(Some(Scripting {
            scripts,
            exposed,
            directory,
            allowed,
            verifies: place.verifies,
            minted,
            read_only: place.read_only,
        }))
    }
}

impl Scripting {
    /// What clients may do with the directory.
    fn opens(&self) -> String {
        let directory = self.directory.display();
        if self.read_only {
            return format!(
                "--scripts is on with --read-only: clients may read the programs in {directory} and what these wrote; none can be \
                 written, started or stopped, and no package changed"
            );
        }
        format!(
            "--scripts is on: clients may write programs into {directory} and run them with every right of this user: real \
             devices, the disk, the network. There is no sandbox."
        )
    }

    /// Says plainly what was switched on, in the order of tools.md 7.5.
    pub(super) async fn tell(&self) {
        tracing::warn!("{}", self.opens());
        if !self.minted && !self.read_only {
            tracing::info!(
                "scripts are given no token and no account: the auth file has no `derive` secret to mint one with"
            );
        }
        match self.scripts.packages().await {
            Ok(list) => list.notes.iter().for_each(|note| tracing::info!("{note}")),
            Err(fault) => tracing::warn!("the packages of scripts cannot be listed: {fault}"),
        }
        if self.allowed.is_empty() {
            return;
        }
        let names = self.allowed.iter().map(PeerName::as_str).collect::<Vec<_>>().join(", ");
        tracing::warn!(
            "--scriptable-by is on: {names} may write and start such programs here, over the network, with no person asked"
        );
        if !self.verifies {
            tracing::warn!(
                "nobody is let in by --scriptable-by: that takes --broker, and --sign with a key file that lists them, so that \
                 frames are verified"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(args: ScriptArgs, read_only: bool) -> Result<Option<Scripting>, String> {
        let name = PeerName::configured("bridge").unwrap();
        let place = Place { name, whereabouts: Whereabouts::default(), minter: None, verifies: false, read_only };
        args.prepare(place).map_err(|error| error.0)
    }

    #[test]
    fn what_was_typed_wrongly_is_named_by_its_flag() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let on = |scripts: PathBuf, by: &[&str]| ScriptArgs {
            scripts: Some(scripts),
            scriptable_by: by.iter().map(|name| (*name).to_owned()).collect(),
            ..ScriptArgs::default()
        };
        assert!(prepared(on(file, &[]), false).unwrap_err().starts_with("--scripts: "));
        let later = folder.path().join("later");
        assert!(prepared(on(later.clone(), &["a/b"]), false).unwrap_err().starts_with("--scriptable-by \"a/b\": "));
        assert!(prepared(on(later.clone(), &["bench"]), true).unwrap_err().contains("--read-only"));
        let looking = prepared(on(later.clone(), &[]), true).unwrap().unwrap();
        assert!(looking.exposed.is_none());
        assert!(looking.opens().contains("may read") && !looking.opens().contains("run them"), "{}", looking.opens());
        assert!(prepared(on(later.clone(), &[]), false).unwrap().unwrap().opens().contains("run them"));
        assert!(prepared(on(later.clone(), &["bench"]), false).unwrap().unwrap().exposed.is_some());
        assert!(prepared(ScriptArgs::default(), false).unwrap().is_none());
        assert!(!later.exists(), "nothing is touched before somebody asks");
    }
}
