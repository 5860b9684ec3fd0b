//! What can be done with scripts gives these, here and, as JSON, on another node: one shape for both.

use serde::{Deserialize, Serialize};

/// The language of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// TypeScript, whose types are stripped; no build.
    #[default]
    Ts,
    /// JavaScript, as a module.
    Mjs,
    /// Python.
    Py,
}

impl Language {
    /// All, in the order they are looked for.
    pub const ALL: [Self; 3] = [Self::Ts, Self::Mjs, Self::Py];

    /// What its files end in.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Ts => ".ts",
            Self::Mjs => ".mjs",
            Self::Py => ".py",
        }
    }

    /// How it is called.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.ending().trim_start_matches('.')
    }
}

/// A script that was saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedScript {
    /// Its file in the directory.
    pub file: String,
    /// How large it is, in bytes.
    pub bytes: u64,
    /// Whether a script of that name was there before.
    pub overwrote: bool,
    /// The files of that name in other languages, which are gone.
    pub removed: Vec<String>,
    /// Whether one of that name is running: it runs the text it was started with.
    pub running: bool,
    /// What is to be known of the manifest, if anything is.
    pub manifest: Option<String>,
}

/// One script of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptLine {
    /// Its name.
    pub name: String,
    /// Its language, as its file says.
    pub language: Language,
    /// Whether it runs.
    #[serde(default)]
    pub running: bool,
    /// Its current run, or its last one since the bridge was started.
    #[serde(default)]
    pub run: Option<String>,
    /// How that ended, if it has.
    #[serde(default)]
    pub ended: Option<RunEnd>,
}

/// The scripts of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptList {
    /// By name.
    pub scripts: Vec<ScriptLine>,
    /// What else lies there and cannot be used, with why.
    #[serde(default)]
    pub junk: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunEnd {
    /// Its exit code, if it had one.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// When, in milliseconds since the Unix epoch.
    pub at: i64,
    /// What else is to be known, if anything is.
    pub note: Option<String>,
}

/// The text of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptText {
    /// Its language, if it is known.
    pub language: Option<Language>,
    /// The text.
    pub source: String,
}

/// A script that was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartedScript {
    /// Names this run.
    pub run: String,
    /// Its process id.
    pub pid: u32,
    /// What runs it, with its version.
    pub by: String,
    /// The name it is given for the network.
    pub peer: String,
    /// What it is given to be let in with, in words.
    pub credential: String,
}

/// A script that was stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoppedScript {
    /// The run that ended.
    pub run: String,
    /// How.
    pub ended: RunEnd,
}

/// What a run wrote, from some line on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Output {
    /// The run.
    pub run: String,
    /// The number of the first of these lines, counted from 0 in this run.
    pub first: u64,
    /// The lines, oldest first; those of standard error begin with `! `.
    pub lines: Vec<String>,
    /// Lines that follow these.
    pub more: u64,
    /// Lines that fell off, or were never asked for, before these.
    pub fell_off: u64,
    /// How it ended, if it has.
    pub ended: Option<RunEnd>,
    /// Whether these are from the disk: the bridge was started again since.
    pub stored: bool,
}

/// Whose packages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Packager {
    /// Those of TypeScript and JavaScript.
    #[default]
    Npm,
    /// Those of Python.
    Pip,
}

impl Packager {
    /// How it is called.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pip => "pip",
        }
    }
}

/// One package of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// What is asked for.
    pub range: String,
    /// What is there; nothing if it is not installed.
    pub installed: Option<String>,
    /// Whose.
    #[serde(default)]
    pub manager: Packager,
}

/// The packages of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageList {
    /// By manager and name.
    pub packages: Vec<Package>,
    /// What is to be known of them, if anything is.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What a package manager did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PackagesChanged {
    /// What it wrote, its end if that is long.
    pub output: String,
    /// What is to be known, if anything is.
    pub notes: Vec<String>,
}
