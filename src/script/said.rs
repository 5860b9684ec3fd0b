//! What kind of fault it was, where another node is told: an error there is a text, and what to do next must not hang on its
//! words. The kind stands in front, as `[unknown_script] no script 'x' is kept here`; whoever does not know that reads it as
//! text.

use super::ScriptFault;

/// A kind of fault that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The name, or the package, is none.
    Argument,
    /// There is no such script.
    Unknown,
    /// It runs already.
    Running,
    /// It does not run.
    NotRunning,
    /// No output of it is kept.
    NeverStarted,
    /// As many run, or are kept, as may be.
    Limit,
    /// What would run it is not fit for it.
    Toolchain,
    /// What would install it is not fit for it.
    Packager,
    /// Its process did not start.
    Start,
    /// A file of the directory.
    File,
    /// The node is ending.
    Closing,
    /// The package manager did not do it.
    Install,
    /// It was given up while it was at work.
    Cancelled,
}

impl Said {
    const ALL: [(Self, &'static str); 13] = [
        (Self::Argument, "bad_argument"),
        (Self::Unknown, "unknown_script"),
        (Self::Running, "already_running"),
        (Self::NotRunning, "not_running"),
        (Self::NeverStarted, "never_started"),
        (Self::Limit, "limit_reached"),
        (Self::Toolchain, "no_runtime"),
        (Self::Packager, "no_package_manager"),
        (Self::Start, "not_started"),
        (Self::File, "bad_file"),
        (Self::Closing, "closing"),
        (Self::Install, "install_failed"),
        (Self::Cancelled, "cancelled"),
    ];

    /// The kind of this fault.
    pub const fn of(fault: &ScriptFault) -> Self {
        match fault {
            ScriptFault::Name { .. }
            | ScriptFault::Spec { .. }
            | ScriptFault::Needed { .. }
            | ScriptFault::NotInstalled { .. } => Self::Argument,
            ScriptFault::Unknown { .. } => Self::Unknown,
            ScriptFault::Running { .. } => Self::Running,
            ScriptFault::NotRunning { .. } => Self::NotRunning,
            ScriptFault::NeverStarted { .. } => Self::NeverStarted,
            ScriptFault::TooMany { .. } | ScriptFault::Full { .. } => Self::Limit,
            ScriptFault::Toolchain { .. } => Self::Toolchain,
            ScriptFault::Packager { .. } => Self::Packager,
            ScriptFault::Start { .. } => Self::Start,
            ScriptFault::File { .. } | ScriptFault::Content { .. } | ScriptFault::Unreadable { .. } => Self::File,
            ScriptFault::Closing => Self::Closing,
            ScriptFault::Install { .. } => Self::Install,
            ScriptFault::Cancelled { .. } => Self::Cancelled,
        }
    }

    /// Whether nothing had been begun.
    pub const fn nothing_ran(self) -> bool {
        !matches!(self, Self::Install | Self::Cancelled)
    }

    /// A fault as it is told.
    pub(super) fn written(fault: &ScriptFault) -> String {
        let text = match fault {
            ScriptFault::Toolchain { fix, .. } | ScriptFault::Packager { fix, .. } => format!("{fault}; {fix}"),
            ScriptFault::Install { output, .. } if !output.is_empty() => format!("{fault}: {output}"),
            other => other.to_string(),
        };
        format!("[{}] {text}", Self::of(fault).word())
    }

    /// What was told, and its text; `None` of whoever tells no kind.
    pub fn read(message: &str) -> Option<(Self, &str)> {
        let (word, text) = message.strip_prefix('[')?.split_once("] ")?;
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(said, _)| (*said, text))
    }

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(said, _)| *said == self).map_or("", |(_, word)| *word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_as_it_was_written_and_other_texts_stay_texts() {
        let fault = ScriptFault::Unknown { name: "x".into(), names: Vec::new() };
        assert_eq!(Said::read(&Said::written(&fault)), Some((Said::Unknown, "no script 'x' is kept here")));
        for (said, word) in Said::ALL {
            assert_eq!(Said::read(&format!("[{word}] text")), Some((said, "text")), "{word}");
        }
        for other in ["", "no script 'x' is kept here", "[unknown_script]", "[weather] wet", "npm [cancelled] it"] {
            assert_eq!(Said::read(other), None, "{other}");
        }
    }
}
