//! The scripts of this bridge: kept in one directory, each run in a process of its own, known by name.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Mutex as AsyncMutex;
use uuid::Uuid;

use super::{
    Input, Limits, Plan, ScriptFault, ScriptName, Supervisor, beside,
    environment::{self, Inherited, Whereabouts},
    record::{self, Record},
    results::{Language, Output, SavedScript, ScriptLine, ScriptList, ScriptText, StartedScript, StoppedScript},
    ring::LINES,
    run::Run,
    store::Store,
    toolchain::Toolchain,
};
use crate::{
    link::now_ms,
    wire::{
        PeerName, instant,
        signing::{Claims, Minter, Secret},
    },
};

/// Where scripts are kept, and what they are given.
#[derive(Debug)]
pub struct ScriptsConfig {
    /// The directory; made when the first is saved.
    pub directory: PathBuf,
    /// What runs them.
    pub supervisor: Supervisor,
    /// What they have of the bridge's environment.
    pub inherited: Inherited,
    /// Where the network is.
    pub place: Whereabouts,
    /// The bridge's own name.
    pub bridge: String,
    /// What mints their credentials, for hubs that take the bridge's word.
    pub minter: Option<Minter>,
    /// What they may use up.
    pub bounds: Bounds,
}

/// What scripts may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many may run at once.
    pub running: usize,
    /// Bytes of memory of each of their processes, beside what runs it reserves for itself.
    pub memory: u64,
    /// How long one may run.
    pub run: Option<Duration>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { running: 8, memory: 512 << 20, run: None }
    }
}

/// The scripts of this bridge. Clones share them.
#[derive(Clone, Debug)]
pub struct Scripts {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: ScriptsConfig,
    pub(super) store: Arc<Store>,
    pub(super) toolchain: Toolchain,
    table: Mutex<BTreeMap<ScriptName, Slot>>,
    /// None is started any more.
    closing: AtomicBool,
    /// One package manager at a time.
    pub(super) installing: AsyncMutex<()>,
}

/// What is known of one name.
#[derive(Debug, Default)]
struct Slot {
    starting: bool,
    run: Option<Arc<Run>>,
}

/// A name that is being started. Dropped before the run is there, it is as it was.
struct Reserved<'a> {
    shared: &'a Shared,
    name: &'a ScriptName,
}

impl Scripts {
    /// The scripts of a directory. Nothing is touched before somebody asks.
    #[must_use]
    pub fn new(config: ScriptsConfig) -> Self {
        let store = Arc::new(Store::new(config.directory.clone()));
        let toolchain = Toolchain::new(config.supervisor.clone(), config.inherited.clone());
        let shared = Shared {
            config,
            store,
            toolchain,
            table: Mutex::default(),
            closing: AtomicBool::new(false),
            installing: AsyncMutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// What the directory is called, without where it is.
    #[must_use]
    pub fn directory(&self) -> String {
        let name = self.shared.store.path().file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| "scripts".to_owned())
    }

    /// Writes a script, and does not start it.
    ///
    /// # Errors
    ///
    /// Why not; what was there is there still.
    pub async fn save(
        &self,
        name: &ScriptName,
        language: Language,
        source: String,
    ) -> Result<SavedScript, ScriptFault> {
        let (store, wanted) = (self.shared.store.clone(), name.clone());
        let mut saved = beside(move || store.save(&wanted, language, &source)).await?;
        saved.running = self.running(name).is_some();
        Ok(saved)
    }

    /// The scripts there are.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub async fn list(&self) -> Result<ScriptList, ScriptFault> {
        let store = self.shared.store.clone();
        let listing = beside(move || store.list()).await?;
        let table = self.shared.table();
        let line = |(name, language): (ScriptName, Language)| {
            let slot = table.get(&name);
            let run = slot.and_then(|slot| slot.run.as_ref());
            let ended = run.and_then(|run| run.ended());
            ScriptLine {
                name: name.to_string(),
                language,
                running: slot.is_some_and(Slot::is_taken),
                run: run.map(|run| run.id.clone()),
                ended,
            }
        };
        let scripts = listing.scripts.into_iter().map(line).collect();
        let mut junk = listing.junk;
        if listing.more {
            junk.push("the directory holds more than is looked at".to_owned());
        }
        Ok(ScriptList { scripts, junk })
    }

    /// The text of a script.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be read.
    pub async fn read(&self, name: &ScriptName) -> Result<ScriptText, ScriptFault> {
        let (store, wanted) = (self.shared.store.clone(), name.clone());
        beside(move || store.read(&wanted)).await
    }

    /// Stops a script if it runs, and removes it; gives its file.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be removed.
    pub async fn delete(&self, name: &ScriptName) -> Result<String, ScriptFault> {
        if let Some(run) = self.running(name) {
            run.stop().await;
        }
        let (store, wanted) = (self.shared.store.clone(), name.clone());
        let file = beside(move || store.delete(&wanted)).await?;
        let mut table = self.shared.table();
        if table.get(name).is_some_and(|slot| !slot.is_taken()) {
            table.remove(name);
        }
        Ok(file)
    }

    /// Starts a script; gives it once its process runs. A caller that stops waiting before leaves nothing behind.
    ///
    /// # Errors
    ///
    /// Why it does not run.
    pub async fn start(&self, name: &ScriptName) -> Result<StartedScript, ScriptFault> {
        let shared = &*self.shared;
        let reserved = shared.reserve(name)?;
        let (store, wanted) = (shared.store.clone(), name.clone());
        let (folder, language) = beside(move || store.find(&wanted)).await?;
        // Absolute, because a relative program would be looked for from there.
        let directory = std::path::absolute(shared.store.path()).unwrap_or_else(|_| shared.store.path().to_owned());
        let runner = shared.toolchain.runner(language, &directory).await?;
        let now = now_ms();
        let id = run_id(now);
        let (wanted, named) = (name.clone(), id.clone());
        let record = beside(move || Record::begin(&folder, &wanted, &named)).await?;
        let peer = format!("{name}@{}", shared.config.bridge);
        let token = shared.token(&peer, &id, now);
        let mut arguments = runner.flags;
        arguments.push(name.file(language));
        let token_text = token.as_ref().map(Secret::expose);
        let environment = environment::of_script(&shared.config.inherited, &shared.config.place, &peer, token_text);
        let limits = shared.config.bounds.limits(runner.reserves);
        let (program, input) = (runner.program, Input::Closed);
        let plan = Plan { program, arguments, environment, directory, scratch: false, input, limits };
        let started = shared.config.supervisor.start(&plan).await;
        let process = started.map_err(|fault| ScriptFault::Start { name: name.to_string(), fault })?;
        let (run, reading) = Run::follow(id.clone(), process, record);
        let pid = run.pid;
        reserved.fill(run);
        tokio::spawn(reading);
        tracing::info!(script = %name, run = %id, pid, "a script runs");
        Ok(StartedScript { run: id, pid, by: runner.label, peer, credential: credential(token.is_some()).to_owned() })
    }

    /// Stops a script, and waits until it and everything it began is gone.
    ///
    /// # Errors
    ///
    /// When it does not run here.
    pub async fn stop(&self, name: &ScriptName) -> Result<StoppedScript, ScriptFault> {
        let run = self.running(name).ok_or_else(|| ScriptFault::NotRunning { name: name.to_string() })?;
        let ended = run.stop().await;
        Ok(StoppedScript { run: run.id.clone(), ended })
    }

    /// Stops all of them, at once; none is started any more.
    pub async fn stop_all(&self) {
        self.shared.closing.store(true, Ordering::Release);
        let runs: Vec<Arc<Run>> = self.shared.table().values().filter_map(|slot| slot.run.clone()).collect();
        let stopping: Vec<_> = runs.iter().filter(|run| run.ended().is_none()).map(|run| run.stop()).collect();
        // Each was asked before the first is waited for: a line that is dropped is the asking.
        let mut stopping = stopping.into_iter().map(Box::pin).collect::<Vec<_>>();
        std::future::poll_fn(|context| {
            stopping.retain_mut(|stop| stop.as_mut().poll(context).is_pending());
            if stopping.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    /// What a script wrote: of the run that is asked for, else of its current or last one. Without `after` the last lines there
    /// are. What was written before the bridge was started is on the disk.
    ///
    /// # Errors
    ///
    /// When nothing of it is kept.
    pub async fn output(
        &self,
        name: &ScriptName,
        run: Option<&str>,
        after: Option<u64>,
        most: usize,
        bytes: usize,
    ) -> Result<Output, ScriptFault> {
        let current = self.shared.table().get(name).and_then(|slot| slot.run.clone());
        if let Some(current) = current.filter(|current| run.is_none_or(|run| run == current.id)) {
            let after = after.unwrap_or_else(|| current.tail(most as u64));
            return Ok(current.output(after, most, bytes));
        }
        if let Some(run) = run.filter(|run| !record::is_run(run)) {
            return Err(ScriptFault::NeverStarted {
                what: format!("run '{}'", run.chars().take(40).collect::<String>()),
            });
        }
        let (store, wanted, run) = (self.shared.store.clone(), name.clone(), run.map(str::to_owned));
        let (run, lines) = beside(move || {
            let folder = store.folder_if_there()?;
            let folder = folder.ok_or_else(|| ScriptFault::NeverStarted { what: format!("'{wanted}'") })?;
            record::read(&folder, &wanted, run.as_deref())
        })
        .await?;
        Ok(record::output(run, &lines, after, most.min(LINES), bytes))
    }

    fn running(&self, name: &ScriptName) -> Option<Arc<Run>> {
        let run = self.shared.table().get(name)?.run.clone()?;
        run.ended().is_none().then_some(run)
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, BTreeMap<ScriptName, Slot>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the name, so that of two starts one goes on (F-28).
    fn reserve<'a>(&'a self, name: &'a ScriptName) -> Result<Reserved<'a>, ScriptFault> {
        let mut table = self.table();
        let limit = self.config.bounds.running;
        if self.closing.load(Ordering::Acquire) {
            return Err(ScriptFault::Closing);
        }
        if table.get(name).is_some_and(Slot::is_taken) {
            let run = table.get(name).and_then(|slot| slot.run.as_ref()).filter(|run| run.ended().is_none());
            let run = run.map_or_else(|| "that is being started".to_owned(), |run| run.id.clone());
            return Err(ScriptFault::Running { name: name.to_string(), run });
        }
        if table.values().filter(|slot| slot.is_taken()).count() >= limit {
            return Err(ScriptFault::TooMany { limit });
        }
        table.entry(name.clone()).or_default().starting = true;
        Ok(Reserved { shared: self, name })
    }

    /// A credential for this run, if there is something to mint it with. The bridge's own never reaches a script.
    fn token(&self, peer: &str, id: &str, now: i64) -> Option<Secret> {
        let minter = self.config.minter.as_ref()?;
        let subject = PeerName::configured(peer).ok()?;
        let issued_ms = u64::try_from(now).ok()?;
        let id = format!("script-{id}");
        let claims = Claims {
            id: &id,
            subject: &subject,
            roles: &["ai-program"],
            generation: 2,
            issued_ms,
            expires_ms: issued_ms.saturating_add(GOOD_FOR_MS),
        };
        Some(minter.mint(&claims))
    }
}

impl Slot {
    /// Whether it runs or is about to.
    fn is_taken(&self) -> bool {
        self.starting || self.run.as_ref().is_some_and(|run| run.ended().is_none())
    }
}

impl Reserved<'_> {
    fn fill(self, run: Arc<Run>) {
        self.shared.table().entry(self.name.clone()).or_default().run = Some(run);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut table = self.shared.table();
        let Some(slot) = table.get_mut(self.name) else { return };
        slot.starting = false;
        // A name that was never one of a run is not kept.
        if slot.run.is_none() {
            table.remove(self.name);
        }
    }
}

impl Bounds {
    pub(super) fn limits(&self, reserves: u64) -> Limits {
        Limits {
            memory: Some(self.memory.saturating_add(reserves)),
            cpu_seconds: None,
            run_ms: self.run.map(|run| u64::try_from(run.as_millis()).unwrap_or(u64::MAX)),
            open_files: Some(OPEN_FILES),
            file_bytes: Some(FILE_BYTES),
        }
    }
}

/// Names a run: the moment, so that runs sort by it, and a little chance.
fn run_id(now: i64) -> String {
    let moment: String = instant::format(now).chars().filter(char::is_ascii_digit).take(17).collect();
    let chance: String = Uuid::new_v4().simple().to_string().chars().take(4).collect();
    format!("{moment:0<17}-{chance}")
}

const fn credential(minted: bool) -> &'static str {
    if minted {
        "a token of its own, good for four hours at hubs that take this bridge's word"
    } else {
        "none: the bridge's own account and token are never handed on, and its auth file has no `derive` secret"
    }
}

/// How long a credential is good, in milliseconds (wire.md 8.5).
const GOOD_FOR_MS: u64 = 4 * 60 * 60 * 1000;
/// Files each process of a script may have open.
const OPEN_FILES: u64 = 4_096;
/// Bytes of a file a script writes.
const FILE_BYTES: u64 = 256 << 20;
