//! Why a frame is not believed.

/// Why a signed network does not take a frame. Nothing is sent about it (W-059), and no text of a network is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No signature or no nonce.
    #[error("it is not signed")]
    Unsigned,
    /// A layout version other than 3.
    #[error("it is signed under a layout version other than 3")]
    Layout,
    /// A time that is absent or not written as plain digits.
    #[error("its time is absent or not a plain number of milliseconds")]
    Time,
    /// Signed longer ago than the window.
    #[error("it was signed {seconds} s ago by its sender's clock, and at most 60 are allowed; are both clocks right?")]
    Stale {
        /// How long ago.
        seconds: u64,
    },
    /// Signed in the future, further than the window.
    #[error(
        "it was signed {seconds} s in the future by its sender's clock, and at most 60 are allowed; are both clocks right?"
    )]
    Early {
        /// How far.
        seconds: u64,
    },
    /// Seen before.
    #[error("it was seen before: a replay, or a message the broker delivered twice")]
    Replayed,
    /// So old that what was seen then is forgotten.
    #[error("it is older than what is remembered of its sender")]
    Forgotten,
    /// A source that no key is listed for.
    #[error("no key is listed for its sender")]
    UnknownSource,
    /// A signature that is no base64.
    #[error("its signature is no base64")]
    Encoding,
    /// A signature of something else, or by somebody else.
    #[error("its signature is wrong: another key, or changed on the way")]
    Signature,
    /// Something in it counts for its reader and is not covered by its signature.
    #[error("its `{0}` is not covered by its signature")]
    Uncovered(&'static str),
}

impl Refusal {
    /// The same for every frame refused for this cause, whatever its numbers.
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Layout => "layout version",
            Self::Time => "no readable time",
            Self::Stale { .. } => "stale",
            Self::Early { .. } => "from the future",
            Self::Replayed => "replayed",
            Self::Forgotten => "older than remembered",
            Self::UnknownSource => "unknown sender",
            Self::Encoding => "signature not base64",
            Self::Signature => "wrong signature",
            Self::Uncovered(_) => "not covered",
        }
    }
}
