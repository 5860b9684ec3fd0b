//! The name of a stored contract. A name is not a path: what passes here names one file of one directory on any machine,
//! and nothing else.

use std::{fmt, sync::Arc};

/// The name a contract is stored under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContractName(Arc<str>);

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
    /// The name of the file, not of the contract.
    #[error("the name goes without .types.json")]
    Ending,
}

impl ContractName {
    /// Takes a name (S-052).
    ///
    /// # Errors
    ///
    /// When it could be anything but a name.
    pub fn parse(text: &str) -> Result<Self, NameFault> {
        let kept = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let starts = text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
        if !starts || text.len() > LONGEST || !text.bytes().all(kept) {
            return Err(NameFault::Form);
        }
        if text.ends_with('.') {
            return Err(NameFault::Dot);
        }
        if text.to_ascii_lowercase().ends_with(ENDING) {
            return Err(NameFault::Ending);
        }
        if is_device(text) { Err(NameFault::Device) } else { Ok(Self(text.into())) }
    }

    /// The name a file stands for, if it is one of a contract.
    ///
    /// # Errors
    ///
    /// `None` for a file that is no contract's, else why its name cannot be used.
    pub(super) fn of_file(file: &str) -> Result<Self, Option<NameFault>> {
        Self::parse(file.strip_suffix(ENDING).ok_or(None)?).map_err(Some)
    }

    /// The file it is stored in.
    pub fn file(&self) -> String {
        format!("{}{ENDING}", self.0)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContractName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Whether some system opens a device instead of a file of this name, whatever follows the first dot.
fn is_device(text: &str) -> bool {
    let stem = text.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let numbered = |stem: &str| stem.len() == 4 && stem.ends_with(|last: char| last.is_ascii_digit());
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul")
        || ((stem.starts_with("com") || stem.starts_with("lpt")) && numbered(&stem))
}

/// What the file of a contract ends in.
const ENDING: &str = ".types.json";
/// Bytes of a name.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// S-052, F-27: a name names a file in the directory and nothing else, here and on other systems.
    #[test]
    fn s052_a_name_is_not_a_path() {
        for good in
            ["a", "oven", "Oven-2", "2026.2", "a_b.c-d", "a..b", "console", "com", "com10", "x.con", &"x".repeat(64)]
        {
            assert_eq!(ContractName::parse(good).map(|name| name.file()), Ok(format!("{good}.types.json")));
        }
        let bad: &[(&str, NameFault)] = &[
            ("", NameFault::Form),
            (".", NameFault::Form),
            ("..", NameFault::Form),
            (".hidden", NameFault::Form),
            ("-flag", NameFault::Form),
            ("_x", NameFault::Form),
            ("../x", NameFault::Form),
            ("a/b", NameFault::Form),
            ("a\\b", NameFault::Form),
            ("/etc/passwd", NameFault::Form),
            ("c:x", NameFault::Form),
            ("a b", NameFault::Form),
            ("a\0b", NameFault::Form),
            ("a\n", NameFault::Form),
            ("ov\u{e9}n", NameFault::Form),
            ("a%2fb", NameFault::Form),
            ("a.", NameFault::Dot),
            ("con", NameFault::Device),
            ("NUL.x", NameFault::Device),
            ("Com1", NameFault::Device),
            ("lpt9.tar.gz", NameFault::Device),
            ("oven.types.json", NameFault::Ending),
            ("oven.TYPES.json", NameFault::Ending),
        ];
        for (text, fault) in bad {
            assert_eq!(ContractName::parse(text), Err(*fault), "{text:?}");
        }
        assert_eq!(ContractName::parse(&"x".repeat(65)), Err(NameFault::Form));
    }

    proptest! {
        /// S-052: whatever is taken stays one plain component of a path.
        #[test]
        fn s052_what_is_taken_is_one_component(text in ".{0,70}") {
            if let Ok(name) = ContractName::parse(&text) {
                let file = name.file();
                let parts: Vec<_> = std::path::Path::new(&file).components().collect();
                prop_assert!(matches!(parts.as_slice(), [std::path::Component::Normal(_)]));
                prop_assert_eq!(ContractName::of_file(&file), Ok(name));
            }
        }
    }
}
