//! A trail as somebody looks at it: the lines as they are, or a row for each call.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Map, Value as Json};

use super::{
    folder::{Unusable, checked, files, plain},
    tail::{Lines, Piece},
};

/// Calls whose end is looked for. The oldest of more is shown as one that has none.
const MAX_OPEN: usize = 4_096;

/// One line of a trail.
#[derive(Clone, Debug)]
pub struct Shown {
    /// As it was written, without its line feed.
    pub line: String,
    /// What it says.
    pub fields: Map<String, Json>,
}

impl Shown {
    fn of(line: &[u8]) -> Option<Self> {
        let line = str::from_utf8(line).ok()?.to_owned();
        let fields: Map<String, Json> = serde_json::from_str(&line).ok()?;
        fields.contains_key("event").then_some(Self { line, fields })
    }

    /// A text it says, or nothing.
    pub fn text(&self, key: &str) -> &str {
        self.fields.get(key).and_then(Json::as_str).unwrap_or_default()
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.fields.get(key).and_then(Json::as_u64)
    }
}

/// Gives every line, or with `calls` one for each call: how it ended, or that it began if no end is to be found. Gives how
/// many lines could not be read.
///
/// # Errors
///
/// When the directory cannot be read, or what `each` says.
pub fn show<E: From<Unusable>>(
    path: &Path,
    calls: bool,
    mut each: impl FnMut(Shown) -> Result<(), E>,
) -> Result<u64, E> {
    let path = checked(path)?;
    let (mut open, mut unread) = (BTreeMap::new(), 0);
    for name in files(&path)? {
        let unreadable = |problem| Unusable::of(&format!("{name} cannot be read"), &problem);
        let mut lines = Lines::new(plain(&path.join(name.to_string())).map_err(unreadable)?);
        while let Some(piece) = lines.next().map_err(unreadable)? {
            let shown = match piece {
                Piece::Line(line) => Shown::of(line),
                Piece::TooLong | Piece::Torn(_) => None,
            };
            match shown {
                None => unread += 1,
                Some(shown) if calls => paired(shown, &mut open, &mut each)?,
                Some(shown) => each(shown)?,
            }
        }
    }
    open.into_values().try_for_each(each)?;
    Ok(unread)
}

/// Keeps what began until its end comes.
fn paired<E>(
    shown: Shown,
    open: &mut BTreeMap<u64, Shown>,
    each: &mut impl FnMut(Shown) -> Result<(), E>,
) -> Result<(), E> {
    match shown.text("event") {
        "begun" => {
            open.insert(shown.number("seq").unwrap_or_default(), shown);
            if open.len() <= MAX_OPEN {
                return Ok(());
            }
            return open.pop_first().map_or(Ok(()), |(_, oldest)| each(oldest));
        }
        "ended" => drop(shown.number("call").and_then(|call| open.remove(&call))),
        // Of what the process before had begun, no end will come.
        "opened" => std::mem::take(open).into_values().try_for_each(&mut *each)?,
        _ => {}
    }
    each(shown)
}
