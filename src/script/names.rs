//! Names of what is kept in a directory. A name is not a path: what passes here names one file of one directory on any
//! machine, and nothing else.

/// Why something is no such name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// Not made of what names are made of.
    #[error("1 to 64 letters, digits, dots, dashes and underscores, the first a letter or a digit")]
    Form,
    /// It ends in a dot, which some systems drop.
    #[error("it ends in a dot, which is not kept everywhere")]
    Dot,
    /// A device of another operating system.
    #[error("it is the name of a device on some systems")]
    Device,
    /// The name of the file, not of what it holds.
    #[error("the name goes without {0}")]
    Ending(&'static str),
    /// A module of Python's own library.
    #[error(
        "a name that no module of Python's own library has: every .py script here would import this file in its place"
    )]
    Library,
}

/// Checks a name that goes without one of these endings of its file (S-052, F-27).
pub(crate) fn check(text: &str, endings: &[&'static str]) -> Result<(), NameFault> {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let starts = text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    if !starts || text.len() > LONGEST || !text.bytes().all(kept) {
        return Err(NameFault::Form);
    }
    if text.ends_with('.') {
        return Err(NameFault::Dot);
    }
    let lower = text.to_ascii_lowercase();
    if let Some(ending) = endings.iter().find(|ending| lower.ends_with(**ending)) {
        return Err(NameFault::Ending(ending));
    }
    if is_device(&lower) { Err(NameFault::Device) } else { Ok(()) }
}

/// Whether some system opens a device instead of a file of this name, whatever follows the first dot.
fn is_device(lower: &str) -> bool {
    let stem = lower.split('.').next().unwrap_or_default();
    let numbered = |stem: &str| stem.len() == 4 && stem.ends_with(|last: char| last.is_ascii_digit());
    matches!(stem, "con" | "prn" | "aux" | "nul")
        || ((stem.starts_with("com") || stem.starts_with("lpt")) && numbered(stem))
}

/// Bytes of a name.
const LONGEST: usize = 64;
