//! Which settings a file may hold, read off the command line itself, so that no flag is forgotten: a key is the long name of a
//! flag with `_` for `-`, and its type is that of the flag's value.

use std::{any::TypeId, path::PathBuf};

use clap::{Arg, ArgAction, Command, builder::Resettable};

/// Flags that are no settings, each with its reason.
pub(super) const NO_SETTINGS: [(&str, &str); 3] = [
    ("config", "a file of settings names no other"),
    ("tools", "it prints a table and ends"),
    ("errors", "it prints a table and ends"),
];

/// What one value of a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// On or off; without a value on the command line.
    Switch,
    /// A whole number.
    Number,
    Text,
    /// A file or a directory.
    Path,
}

/// One setting.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// As a file names it.
    pub(super) name: String,
    /// As clap knows it.
    pub(super) id: String,
    /// As the command line names it, without its dashes.
    pub(super) long: String,
    pub(super) value: Value,
    /// Whether it takes a list of them.
    pub(super) many: bool,
}

impl Key {
    fn of(flag: &Arg) -> Option<Self> {
        let long = flag.get_long()?;
        if NO_SETTINGS.iter().any(|(name, _)| *name == long) {
            return None;
        }
        let kind = flag.get_value_parser().type_id();
        let value = match flag.get_action() {
            ArgAction::SetTrue => Value::Switch,
            ArgAction::Set | ArgAction::Append if numbers().iter().any(|number| kind == *number) => Value::Number,
            ArgAction::Set | ArgAction::Append if kind == TypeId::of::<PathBuf>() => Value::Path,
            ArgAction::Set | ArgAction::Append => Value::Text,
            _ => return None,
        };
        let many = matches!(flag.get_action(), ArgAction::Append);
        Some(Self { name: key(long), id: flag.get_id().to_string(), long: long.into(), value, many })
    }

    /// What is to stand behind it, in words.
    pub(super) const fn expected(&self) -> &'static str {
        match (self.value, self.many) {
            (Value::Switch, _) => "true or false",
            (Value::Number, false) => "a whole number",
            (Value::Text, false) => "a text in quotes",
            (Value::Path, false) => "a path in quotes",
            (Value::Number, true) => "a list of whole numbers, as [1, 2]",
            (Value::Text | Value::Path, true) => "a list of texts, as [\"a\", \"b\"]",
        }
    }
}

/// The name of a setting, from that of its flag.
pub(super) fn key(long: &str) -> String {
    long.replace('-', "_")
}

fn numbers() -> [TypeId; 6] {
    [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<i64>(),
    ]
}

/// The settings of a subcommand.
pub(super) fn of(command: &Command) -> Vec<Key> {
    command.get_arguments().filter_map(Key::of).collect()
}

/// The same flags without their rules: what it takes and refuses are values alone, so that what one layer says can be read before
/// the others are known.
pub(super) fn without_rules(command: &Command) -> Command {
    let flags = command.get_arguments().filter(|flag| flag.get_long().is_some()).map(|flag| {
        let free = flag.clone().required(false).exclusive(false);
        free.requires(Resettable::Reset).conflicts_with(Resettable::Reset)
    });
    Command::new("flags").no_binary_name(true).disable_help_flag(true).args(flags.collect::<Vec<_>>())
}
