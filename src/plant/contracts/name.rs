//! The name of a stored contract. A name is not a path: what passes here names one file of one directory on any machine,
//! and nothing else.

use std::{fmt, sync::Arc};

use crate::script::names::{self, NameFault};

/// The name a contract is stored under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContractName(Arc<str>);

impl ContractName {
    /// Takes a name (S-052).
    ///
    /// # Errors
    ///
    /// When it could be anything but a name.
    pub fn parse(text: &str) -> Result<Self, NameFault> {
        names::check(text, &[ENDING]).map(|()| Self(text.into()))
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

/// What the file of a contract ends in.
const ENDING: &str = ".types.json";

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
            ("oven.types.json", NameFault::Ending(ENDING)),
            ("oven.TYPES.json", NameFault::Ending(ENDING)),
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
