//! A file of settings, read strictly: what it says is known, of the right type and said once, and nothing in it is secret. All that
//! is wrong with it is found at once, each with its place. What stands behind a key is never repeated.

use std::{
    ffi::OsString,
    fmt,
    fs::File,
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf, absolute},
    sync::Arc,
};

use clap::Command;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    keys::{self, Key, NO_SETTINGS, Value},
    secret,
};
use crate::{cli::plain, plant::like};

/// Bytes a file of settings may have.
const LARGEST: u64 = 256 * 1024;

/// Where something stands: a file as it was named, and counted from 1 the line and the character of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: Arc<str>,
    pub(super) line: usize,
    pub(super) column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// What a file says of one setting, as the command line would say it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) values: Vec<OsString>,
    pub(super) place: Place,
}

impl Entry {
    /// Whether it is a path that a text names.
    pub(super) fn is_path_in(&self, text: &str) -> bool {
        let named = |path: &OsString| path.to_str().is_some_and(|path| text.contains(path));
        self.key.value == Value::Path && self.values.iter().any(named)
    }

    /// The flags that say the same.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        if self.key.value == Value::Switch {
            return vec![format!("--{}", self.key.long).into()];
        }
        let flag = |value: &OsString| {
            let mut flag = OsString::from(format!("--{}=", self.key.long));
            flag.push(value);
            flag
        };
        self.values.iter().map(flag).collect()
    }
}

/// Which subcommand a file is read for.
#[derive(Clone, Copy, Debug)]
pub(super) struct For<'a> {
    /// Its definition.
    pub(super) command: &'a Command,
    /// The other one that takes a file of settings.
    pub(super) other: &'a Command,
}

/// Reads a file. What is wrong is one line each.
pub(super) fn read(path: &Path, wanted: For<'_>) -> Result<Vec<Entry>, Vec<String>> {
    let name: Arc<str> = path.display().to_string().into();
    let refuse = |why: String| vec![format!("--config {name}: {why}")];
    let text = text_of(path).map_err(refuse)?;
    let whole = absolute(path).map_err(|problem| refuse(problem.to_string()))?;
    let directory = whole.parent().unwrap_or(Path::new("/")).to_owned();
    Reading { name: Arc::clone(&name), text: &text, directory, wanted, wrong: Vec::new() }.all()
}

/// The text of a plain file that others cannot write to, within its bound.
fn text_of(path: &Path) -> Result<String, String> {
    let file = plain::open(path).map_err(|problem| match problem.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::PermissionDenied => "it cannot be read by this user".into(),
        _ => problem.to_string(),
    })?;
    nobody_else_writes(&file)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|problem| problem.to_string())?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("it is over {LARGEST} bytes"));
    }
    String::from_utf8(bytes).map_err(|fault| {
        let good = fault.utf8_error().valid_up_to();
        let line = fault.as_bytes().iter().take(good).filter(|byte| **byte == b'\n').count() + 1;
        format!("it is not UTF-8, from line {line} on")
    })
}

/// Whoever can write to it can grant themselves what it can grant, the running of programs among that, so it is not a question of
/// what it grants now.
fn nobody_else_writes(file: &File) -> Result<(), String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let about = file.metadata().map_err(|problem| problem.to_string())?;
        if about.permissions().mode() & 0o002 != 0 {
            return Err("everybody on this machine can change it, and so what this process may do; chmod o-w".into());
        }
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// One reading of one file.
struct Reading<'a> {
    name: Arc<str>,
    text: &'a str,
    directory: PathBuf,
    wanted: For<'a>,
    wrong: Vec<(usize, String)>,
}

impl Reading<'_> {
    fn all(mut self) -> Result<Vec<Entry>, Vec<String>> {
        let (table, faults) = DeTable::parse_recoverable(self.text);
        for fault in faults {
            // The message alone: all of it quotes the line.
            let at = fault.span().map_or(0, |span| span.start);
            let what = match self.word(fault.span()) {
                Some(word) if fault.message().contains("duplicate") => format!("{word} stands twice"),
                _ => format!("this is not TOML: {}", fault.message()),
            };
            self.wrong.push((at, what));
        }
        let known = keys::of(self.wanted.command);
        let mut entries = Vec::new();
        for (name, value) in table.get_ref() {
            match self.entry(&known, name.get_ref(), value) {
                Ok(Some(entry)) => entries.push((name.span().start, entry)),
                Ok(None) => {}
                Err((at, why)) => self.wrong.push((at.unwrap_or(name.span().start), why)),
            }
        }
        entries.sort_by_key(|(at, _)| *at);
        if self.wrong.is_empty() {
            return Ok(entries.into_iter().map(|(at, entry)| Entry { place: self.place(at), ..entry }).collect());
        }
        self.wrong.sort();
        let told = self.wrong.iter().map(|(at, why)| format!("{}: {why}", self.place(*at)));
        Err(told.collect())
    }

    /// The bare word that stands there, if one does; what is quoted could be anything.
    fn word(&self, span: Option<Range<usize>>) -> Option<&str> {
        let word = self.text.get(span?)?.trim();
        let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        (!word.is_empty() && word.len() <= 64 && word.bytes().all(bare)).then_some(word)
    }

    fn place(&self, at: usize) -> Place {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Place { file: Arc::clone(&self.name), line, column }
    }

    /// What the file says of one setting; nothing where that is nothing. An error without a place is about the key.
    fn entry(
        &self,
        known: &[Key],
        name: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Option<Entry>, (Option<usize>, String)> {
        let Some(key) = known.iter().find(|key| key.name == name) else {
            return Err((None, self.unknown(known, name, value.get_ref())));
        };
        let values = self.values(key, value)?;
        if values.is_empty() {
            return Ok(None);
        }
        let place = Place { file: Arc::clone(&self.name), line: 0, column: 0 };
        let entry = Entry { key: key.clone(), values, place };
        self.accepted(&entry).map_err(|why| (Some(value.span().start), why))?;
        Ok(Some(entry))
    }

    fn unknown(&self, known: &[Key], name: &str, value: &DeValue<'_>) -> String {
        if let Some(why) = secret::of_key(name).or_else(|| secret::below(value)) {
            return why;
        }
        if let DeValue::Table(_) = value {
            return format!("{}: there are no tables here; every setting stands at the top", shown(name));
        }
        if let Some((_, why)) = NO_SETTINGS.iter().find(|(flag, _)| keys::key(flag) == name) {
            return format!("{name} cannot be set in a file: {why}");
        }
        let (ours, theirs) = (self.wanted.command.get_name(), self.wanted.other.get_name());
        if keys::of(self.wanted.other).iter().any(|key| key.name == name) {
            return format!("{name} is a setting of `plantbridge {theirs}` and not of `plantbridge {ours}`");
        }
        let near = like(name, known.iter().map(|key| key.name.as_str())).into_iter().next();
        let hint = near.map_or_else(
            || format!("`plantbridge {ours} --help` lists the flags; a key is one, with _ for -"),
            |near| format!("did you mean {near}?"),
        );
        format!("there is no setting {}; {hint}", shown(name))
    }

    fn values(&self, key: &Key, value: &Spanned<DeValue<'_>>) -> Result<Vec<OsString>, (Option<usize>, String)> {
        let one = |value: &Spanned<DeValue<'_>>| {
            self.value(key, value.get_ref()).map_err(|why| (Some(value.span().start), why))
        };
        match value.get_ref() {
            DeValue::Array(items) if key.many => items.iter().map(one).collect(),
            DeValue::Boolean(on) if key.value == Value::Switch => {
                Ok(if *on { vec!["true".into()] } else { Vec::new() })
            }
            other if key.many => Err((Some(value.span().start), wrong_type(key, other))),
            _ => one(value).map(|value| vec![value]),
        }
    }

    fn value(&self, key: &Key, value: &DeValue<'_>) -> Result<OsString, String> {
        match (key.value, value) {
            (Value::Number, DeValue::Integer(number)) => {
                // In the notation of the command line, whatever it is here.
                let digits = i64::from_str_radix(number.as_str(), number.radix());
                digits.map(|number| number.to_string().into()).map_err(|_| format!("{}: it is too large", key.name))
            }
            (Value::Text | Value::Path, DeValue::String(text)) if text.is_empty() => {
                Err(format!("{}: it is empty; leave the line out", key.name))
            }
            (Value::Text | Value::Path, DeValue::String(text)) if text.contains('\0') => {
                Err(format!("{}: there is a NUL in it", key.name))
            }
            (Value::Text, DeValue::String(text)) => match secret::of_url(text) {
                Some(why) => Err(format!("{}: {why}", key.name)),
                None => Ok(text.as_ref().into()),
            },
            // Where a service is started from is nobody's choice, and where its file is, is.
            (Value::Path, DeValue::String(text)) => Ok(self.directory.join(text.as_ref()).into()),
            (_, other) => Err(wrong_type(key, other)),
        }
    }

    /// Whether the flag would take it, whatever else is said.
    fn accepted(&self, entry: &Entry) -> Result<(), String> {
        let taken = keys::without_rules(self.wanted.command).try_get_matches_from(entry.arguments());
        let Err(refusal) = taken else { return Ok(()) };
        let why = match std::error::Error::source(&refusal) {
            Some(source) => source.to_string(),
            None => crate::cli::args::plain_refusal(&refusal),
        };
        Err(format!("{}: {why}", entry.key.name))
    }
}

fn wrong_type(key: &Key, value: &DeValue<'_>) -> String {
    let there = match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    format!("{}: expected {}, and there is {there}", key.name, key.expected())
}

/// A key nobody knows, as it may stand in a line.
fn shown(name: &str) -> String {
    crate::mcp::text::printable(name, 64)
}
