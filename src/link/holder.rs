//! Who goes by our name, before we join under it: nobody is thrown off a network by a second peer of their name.

use std::time::Duration;

/// How long a look waits for a name that is in use: a process that died is gone once its will has fired, or its connection
/// to a hub was noticed to have ended.
pub const LEFTOVER: Duration = Duration::from_secs(3);

/// Whether to look before the next connection, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Not at all: nobody else can be there.
    No,
    /// For anybody: we were not there yet, or were displaced.
    Anybody,
    /// For somebody who is not us. We were there, and what is seen under our name may be what we left behind: it has the
    /// shape that we announced.
    Stranger,
}

impl Look {
    /// The first one.
    pub(super) const fn first(looks: bool) -> Self {
        if looks { Self::Anybody } else { Self::No }
    }

    /// The next one, after a connection ended, or an attempt at one.
    pub(super) const fn after(self, looks: bool, displaced: bool, was_up: bool) -> Self {
        match self {
            _ if displaced => Self::Anybody,
            Self::No if was_up && looks => Self::Stranger,
            same => same,
        }
    }

    /// Whether one that announces this shape under our name is in our way.
    pub(super) fn minds(self, shape: Option<&str>, ours: Option<&str>) -> bool {
        match self {
            Self::No => false,
            Self::Anybody => true,
            Self::Stranger => shape != ours,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was seen once is not forgotten by an attempt that failed; whoever was displaced looks, chosen name or not.
    #[test]
    fn one_looks_as_long_as_somebody_may_be_there() {
        for (before, looks, displaced, was_up, after) in [
            (Look::first(true), true, false, false, Look::Anybody),
            (Look::first(false), false, false, true, Look::No),
            (Look::No, true, false, true, Look::Stranger),
            (Look::No, true, false, false, Look::No),
            (Look::Stranger, true, false, false, Look::Stranger),
            (Look::No, false, true, true, Look::Anybody),
            (Look::Stranger, true, true, true, Look::Anybody),
        ] {
            assert_eq!(before.after(looks, displaced, was_up), after, "{before:?} {looks} {displaced} {was_up}");
        }
        assert!(Look::Anybody.minds(Some("a"), Some("a")) && !Look::Stranger.minds(Some("a"), Some("a")));
        assert!(Look::Stranger.minds(None, Some("a")) && Look::Stranger.minds(Some("b"), None));
    }
}
