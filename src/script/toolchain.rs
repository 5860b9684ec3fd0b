//! What runs scripts: which Node and which Python there is, whether it can, and how it is to be told.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use super::{
    Input, Limits, Plan, ScriptFault, Supervisor,
    environment::Inherited,
    gather::{Gathered, gather},
    results::Language,
};

/// A version, as far as it is looked at.
type Version = (u32, u32);

/// Finds what runs scripts, and remembers what it said of itself for as long as the file is the same.
#[derive(Debug)]
pub(super) struct Toolchain {
    supervisor: Supervisor,
    inherited: Inherited,
    known: Mutex<Vec<(Stamp, Version)>>,
}

/// One file, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    bytes: u64,
    changed: Option<SystemTime>,
}

/// How a script is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Runner {
    pub(super) program: PathBuf,
    /// What stands before the script's file.
    pub(super) flags: Vec<String>,
    /// What it is, for people.
    pub(super) label: String,
    /// Bytes of memory it takes for itself before the script has any.
    pub(super) reserves: u64,
}

impl Toolchain {
    pub(super) fn new(supervisor: Supervisor, inherited: Inherited) -> Self {
        Self { supervisor, inherited, known: Mutex::default() }
    }

    /// What runs a script of this language in this directory.
    pub(super) async fn runner(&self, language: Language, directory: &Path) -> Result<Runner, ScriptFault> {
        if language == Language::Py {
            return self.python(directory).await;
        }
        let (program, version) = self.node().await?;
        let flags = node_flags(language, version)?;
        let reserves = if version >= RESERVES { CODE_RANGE } else { 0 };
        Ok(Runner { program, flags, label: format!("node {}.{}", version.0, version.1), reserves })
    }

    /// The Node there is.
    pub(super) async fn node(&self) -> Result<(PathBuf, Version), ScriptFault> {
        let Some(program) = self.which("node") else {
            return Err(unfit("no `node` is on the bridge's PATH", format!("{NODE_FIX}; a .py script needs none")));
        };
        let version = self.version(&program, "Node").await?;
        Ok((program, version))
    }

    /// The Python there is: that of the directory's own packages first.
    pub(super) async fn python(&self, directory: &Path) -> Result<Runner, ScriptFault> {
        let own = venv(directory);
        let program = if own.exists() { Some(own) } else { self.which("python3").or_else(|| self.which("python")) };
        let Some(program) = program else {
            return Err(unfit("no `python3` is on the bridge's PATH", PYTHON_FIX));
        };
        let version = self.version(&program, "Python").await?;
        if version < OLDEST_PYTHON {
            let text = format!("Python {}.{} is too old: scripts need 3.8 or later", version.0, version.1);
            return Err(unfit(text, PYTHON_FIX));
        }
        let label = format!("python {}.{}", version.0, version.1);
        Ok(Runner { program, flags: Vec::new(), label, reserves: 0 })
    }

    /// A program of this name on the PATH.
    pub(super) fn which(&self, name: &str) -> Option<PathBuf> {
        std::env::split_paths(self.inherited.path()).map(|folder| folder.join(name)).find(|path| is_program(path))
    }

    /// What a program says its version is.
    async fn version(&self, program: &Path, what: &str) -> Result<Version, ScriptFault> {
        let about = program.metadata().ok();
        let bytes = about.as_ref().map_or(0, std::fs::Metadata::len);
        let stamp = Stamp { path: program.to_owned(), bytes, changed: about.and_then(|about| about.modified().ok()) };
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, version)) = known().iter().find(|(known, _)| *known == stamp) {
            return Ok(*version);
        }
        let fix = if what == "Node" { NODE_FIX } else { PYTHON_FIX };
        let broken = |why: &str| unfit(format!("the {what} on the bridge's PATH is broken: {why}"), fix);
        let plan = Plan {
            program: program.to_owned(),
            arguments: vec!["--version".into()],
            environment: self.inherited.everybody.clone(),
            directory: std::env::temp_dir(),
            scratch: false,
            input: Input::Closed,
            limits: Limits { run_ms: Some(ANSWER_MS), ..Limits::default() },
        };
        let process = self.supervisor.start(&plan).await.map_err(|fault| broken(&fault.to_string()))?;
        let Gathered { ended, text, .. } = gather(process, LONGEST_ANSWER, |_| {}).await;
        if ended.code != Some(0) {
            return Err(broken(&format!("`--version` ended with {}", super::how(&ended))));
        }
        let Some(version) = parse(&text) else {
            return Err(broken("what it answers to `--version` is no version"));
        };
        let mut known = known();
        known.retain(|(other, _)| other.path != stamp.path);
        known.push((stamp, version));
        Ok(version)
    }
}

/// The Python of the directory's own packages.
pub(super) fn venv(directory: &Path) -> PathBuf {
    directory.join(".venv/bin/python")
}

/// What Node needs to be told before the file (tools.md 5).
fn node_flags(language: Language, version: Version) -> Result<Vec<String>, ScriptFault> {
    if language != Language::Ts || version >= STRIPS {
        return Ok(Vec::new());
    }
    if version >= STRIPS_IF_TOLD {
        return Ok(vec!["--experimental-strip-types".into()]);
    }
    let why = format!("Node {}.{} cannot run TypeScript: that takes 22.6 or later", version.0, version.1);
    Err(unfit(why, format!("save the script with \"language\": \"mjs\", or {NODE_FIX}")))
}

fn unfit(why: impl Into<String>, fix: impl Into<String>) -> ScriptFault {
    ScriptFault::Toolchain { why: why.into(), fix: fix.into() }
}

/// `v24.9.0` or `Python 3.11.7`.
fn parse(text: &str) -> Option<Version> {
    let word = text.split_whitespace().last()?;
    let mut parts = word.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn is_program(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    }
    #[cfg(not(unix))]
    path.is_file()
}

const NODE_FIX: &str = "ask a person to install Node 23.6 or later where the bridge looks for it: as `node` in a folder of the PATH that the bridge was started with";
const PYTHON_FIX: &str = "ask a person to install Python 3.8 or later where the bridge looks for it: as `python3` in a folder of the PATH that the bridge was started with";
/// From here on Node strips types by itself.
const STRIPS: Version = (23, 6);
/// From here on if it is told to.
const STRIPS_IF_TOLD: Version = (22, 6);
/// From here on Node's engine may reserve room for code that counts as data from the start; 24 does and does not start without.
const RESERVES: Version = (21, 0);
/// How much that is.
const CODE_RANGE: u64 = 512 << 20;
const OLDEST_PYTHON: Version = (3, 8);
/// How long a program may take to say its version, in milliseconds.
const ANSWER_MS: u64 = 10_000;
/// Bytes of such an answer.
const LONGEST_ANSWER: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_programs_say_them() {
        assert_eq!(parse("v24.9.0\n"), Some((24, 9)));
        assert_eq!(parse("Python 3.11.7\n"), Some((3, 11)));
        for odd in ["", "node", "v", "vx.1", "24"] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }

    /// tools.md 5: plain from 23.6 on, with the flag from 22.6 on, refused before, with advice.
    #[test]
    fn an_old_node_is_told_or_refused() {
        let flags = |language, version| node_flags(language, version).map(|flags| flags.len());
        assert_eq!(flags(Language::Ts, (24, 0)), Ok(0));
        assert_eq!(flags(Language::Ts, (23, 6)), Ok(0));
        assert_eq!(flags(Language::Ts, (23, 5)), Ok(1));
        assert_eq!(flags(Language::Ts, (22, 6)), Ok(1));
        assert_eq!(flags(Language::Mjs, (18, 0)), Ok(0));
        let refused = node_flags(Language::Ts, (20, 20)).unwrap_err();
        let ScriptFault::Toolchain { why, fix } = refused else { panic!("{refused}") };
        assert!(why.contains("20.20") && fix.contains("mjs") && fix.contains("PATH"), "{why} {fix}");
    }
}
