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

use super::{
    Limits, ScriptFault, ScriptName, Supervisor, beside,
    environment::{Inherited, Whereabouts},
    record,
    results::{Language, Output, SavedScript, ScriptLine, ScriptList, ScriptText, StoppedScript},
    ring::LINES,
    run::Run,
    store::Store,
    toolchain::Toolchain,
};
use crate::wire::signing::Minter;

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
pub(super) struct Reserved<'a> {
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
        let listing = beside(move || store.list()).await.map_err(ScriptFault::of_reading)?;
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
        beside(move || store.read(&wanted)).await.map_err(ScriptFault::of_reading)
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
        .await
        .map_err(ScriptFault::of_reading)?;
        Ok(record::output(run, &lines, after, most.min(LINES), bytes))
    }

    /// How many run, or are about to.
    pub fn running_now(&self) -> usize {
        self.shared.table().values().filter(|slot| slot.is_taken()).count()
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
    pub(super) fn reserve<'a>(&'a self, name: &'a ScriptName) -> Result<Reserved<'a>, ScriptFault> {
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
}

impl Slot {
    /// Whether it runs or is about to.
    fn is_taken(&self) -> bool {
        self.starting || self.run.as_ref().is_some_and(|run| run.ended().is_none())
    }
}

impl Reserved<'_> {
    pub(super) fn fill(self, run: Arc<Run>) {
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

/// Files each process of a script may have open.
const OPEN_FILES: u64 = 4_096;
/// Bytes of a file a script writes.
const FILE_BYTES: u64 = 256 << 20;
