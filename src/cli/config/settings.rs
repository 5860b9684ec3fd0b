//! The settings that are in force, and where each came from.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, absolute},
};

use clap::{ArgMatches, CommandFactory, parser::ValueSource};

use super::{
    file::{Entry, Place},
    keys::{self, Key, Value},
    layers::{Line, serving},
};
use crate::cli::{Cli, environment::Environment};

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Flag,
    Environment,
    File(Place),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment => f.write_str("environment"),
            Self::File(place) => write!(f, "file {place}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One setting as it is in force; without values it is not set.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) key: Key,
    pub(super) values: Vec<OsString>,
    pub(super) origin: Origin,
}

impl Setting {
    /// Whether it is a switch that is on, or has a value that somebody gave.
    pub(super) fn is_given(&self) -> bool {
        !self.values.is_empty() && self.origin != Origin::Default
    }
}

/// All settings of a subcommand, in the order of its flags.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Settings(pub(super) Vec<Setting>);

impl Settings {
    /// Those of a line that was accepted; none of one that is for another subcommand.
    pub(in crate::cli) fn of(line: &Line, environment: &Environment) -> Self {
        let Some((command, _)) = serving(&line.arguments) else { return Self::default() };
        let Ok(all) = Cli::command().try_get_matches_from(&line.arguments) else { return Self::default() };
        let Some((_, flags)) = all.subcommand() else { return Self::default() };
        let settings = keys::of(&command).into_iter().map(|key| setting(key, flags, &line.entries));
        Self(settings.collect()).with(environment)
    }

    /// With what the environment says where no flag does.
    fn with(mut self, environment: &Environment) -> Self {
        let demo = self.0.iter().any(|setting| setting.key.name == "demo" && setting.is_given());
        let placed = ["broker", "hub"].iter().any(|name| self.get(name).is_some_and(Setting::is_given));
        if !placed && !demo {
            self.say("broker", environment.broker.clone());
            self.say("hub", environment.hub.clone());
        }
        if !self.get("log").is_some_and(Setting::is_given) {
            self.say("log", environment.log.map(|format| format.name().to_owned()));
        }
        if environment.read_only && !self.get("read_only").is_some_and(Setting::is_given) {
            self.say("read_only", Some("true".into()));
        }
        self
    }

    fn say(&mut self, name: &str, value: Option<String>) {
        let found = self.0.iter_mut().find(|setting| setting.key.name == name);
        if let (Some(setting), Some(value)) = (found, value) {
            setting.values = vec![value.into()];
            setting.origin = Origin::Environment;
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Setting> {
        self.0.iter().find(|setting| setting.key.name == name)
    }

    /// From now on these of them are those of others.
    pub(in crate::cli) fn take(&mut self, others: &Self, names: &[String]) {
        for setting in self.0.iter_mut().filter(|setting| names.contains(&setting.key.name)) {
            if let Some(other) = others.get(&setting.key.name) {
                setting.clone_from(other);
            }
        }
    }

    /// The names of those that others say otherwise.
    pub(in crate::cli) fn differ(&self, others: &Self) -> Vec<&str> {
        let same =
            |setting: &&Setting| others.get(&setting.key.name).is_none_or(|other| other.values == setting.values);
        self.0.iter().filter(|setting| !same(setting)).map(|setting| setting.key.name.as_str()).collect()
    }
}

fn setting(key: Key, flags: &ArgMatches, entries: &[Entry]) -> Setting {
    let origin = match flags.value_source(&key.id) {
        Some(ValueSource::CommandLine) => match entries.iter().find(|entry| entry.key.name == key.name) {
            Some(entry) => Origin::File(entry.place.clone()),
            None => Origin::Flag,
        },
        _ => Origin::Default,
    };
    let values = match key.value {
        Value::Switch => Vec::from_iter(flags.get_flag(&key.id).then(|| "true".into())),
        Value::Path => {
            raw(flags, &key).into_iter().map(|path| absolute(Path::new(&path)).map_or(path, Into::into)).collect()
        }
        Value::Number | Value::Text => raw(flags, &key),
    };
    Setting { key, values, origin }
}

fn raw(flags: &ArgMatches, key: &Key) -> Vec<OsString> {
    flags.get_raw(&key.id).map(|values| values.map(Into::into).collect()).unwrap_or_default()
}
