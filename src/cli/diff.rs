//! `plantbridge diff`: what two sides expose differently. Each is a live peer or the file of a contract. Exit code 1 if they
//! differ.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::Args;
use serde_json::{Value as Json, json};

use super::{
    contract_file,
    ending::Failure,
    errand::{Errand, ErrandArgs},
    out::Out,
};
use crate::{
    contract::{
        Contract,
        compat::{self, Difference, difference::Exposed},
    },
    mcp::{text, tools},
    plant::{Described, is_fake, said_of_a_fake},
};

#[derive(Clone, Debug, Args)]
pub(super) struct DiffArgs {
    /// One side: a file if it has a slash or ends in .json, else a peer. peer:NAME is a peer whatever the name looks like.
    #[arg(value_name = "A")]
    left: Side,
    /// The other side, likewise. Two files need no broker.
    #[arg(value_name = "B")]
    right: Side,
    #[command(flatten)]
    pub(super) errand: ErrandArgs,
}

/// What is to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    Peer(String),
    File(PathBuf),
}

/// The same, read.
#[derive(Debug)]
enum Read {
    Peer(Described),
    File(PathBuf, Contract),
}

impl FromStr for Side {
    type Err = Infallible;

    fn from_str(typed: &str) -> Result<Self, Infallible> {
        let is_json = || Path::new(typed).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        Ok(match typed.strip_prefix("peer:") {
            Some(peer) => Self::Peer(peer.into()),
            None if typed.contains(['/', std::path::MAIN_SEPARATOR]) || is_json() => Self::File(typed.into()),
            None => Self::Peer(typed.into()),
        })
    }
}

impl DiffArgs {
    /// Whether nobody needs to be asked.
    pub(super) fn is_local(&self) -> bool {
        matches!((&self.left, &self.right), (Side::File(_), Side::File(_)))
    }
}

impl Read {
    fn file(path: PathBuf) -> Result<Self, Failure> {
        let contract = contract_file::contract(&path)?;
        Ok(Self::File(path, contract))
    }

    fn name(&self) -> String {
        match self {
            Self::Peer(described) => described.peer.to_string(),
            Self::File(path, _) => path.display().to_string(),
        }
    }

    fn exposed(&self) -> Exposed<'_> {
        match self {
            Self::Peer(described) => Exposed::from(&*described.description),
            Self::File(_, contract) => Exposed::from(contract),
        }
    }

    /// What of it could not be read, or is compared by its text alone.
    fn unread(&self) -> Vec<String> {
        let (problems, unchecked) = match self {
            Self::Peer(described) => (described.description.problems.as_slice(), &described.description.unchecked),
            Self::File(_, contract) => (&[][..], &contract.unchecked),
        };
        let texts = unchecked.iter().map(|problem| format!("compared by its text alone: {problem}"));
        let all = problems.iter().map(ToString::to_string).chain(texts);
        let fake = match self {
            Self::Peer(described) if is_fake(&described.description) => Some(said_of_a_fake(&described.peer)),
            _ => None,
        };
        all.map(|problem| format!("{}: {problem}", self.name())).chain(fake).collect()
    }
}

/// Compares, asking whom there is to ask.
pub(super) async fn run(errand: &Errand, args: DiffArgs) -> Result<(), Failure> {
    let read = async |side: Side| match side {
        Side::Peer(peer) => Ok(Read::Peer(errand.look(errand.plant.describe(&peer, errand.wait)).await?)),
        Side::File(path) => Read::file(path),
    };
    let (left, right) = tokio::join!(read(args.left), read(args.right));
    let (left, right) = (left?, right?);
    // What peers say may take long to compare, and their broker waits for a sign of life meanwhile.
    let compared = tokio::task::spawn_blocking(move || {
        let differences = compat::differences(left.exposed(), right.exposed());
        (left, right, differences)
    });
    let (left, right, differences) = compared.await.map_err(|error| Failure::Broken(error.to_string()))?;
    tell(errand.out, &left, &right, differences)
}

/// Compares two files.
pub(super) fn local(args: DiffArgs) -> Result<(), Failure> {
    let read = |side: Side| match side {
        Side::File(path) => Read::file(path),
        Side::Peer(peer) => Err(Failure::Usage(format!("'{peer}' is a peer, and needs a broker"))),
    };
    let (left, right) = (read(args.left)?, read(args.right)?);
    let differences = compat::differences(left.exposed(), right.exposed());
    tell(Out::new(args.errand.json), &left, &right, differences)
}

fn tell(out: Out, left: &Read, right: &Read, mut differences: Vec<Difference>) -> Result<(), Failure> {
    let mut notes = [left.unread(), right.unread()].concat();
    if matches!((left, right), (Read::Peer(_), Read::File(..)) | (Read::File(..), Read::Peer(_))) {
        let all = differences.len();
        differences.retain(told_by_both);
        if differences.len() < all {
            notes.push(ONE_SIDED.into());
        }
    }
    if out.json {
        let shown: Vec<Json> = differences.iter().map(tools::difference_shown).collect();
        let same = differences.is_empty();
        let answer = json!({
            "left": left.name(), "right": right.name(), "same": same, "differences": shown, "notes": notes
        });
        out.say(&text::pretty(&answer))?;
    } else {
        for note in &notes {
            out.note(note);
        }
        out.say(&written(&left.name(), &right.name(), &differences))?;
    }
    if differences.is_empty() { Ok(()) } else { Err(Failure::Finding) }
}

/// What is said when a peer and a file were compared, and one of them told what the other never does.
const ONE_SIDED: &str = "what a method answers later is told by contracts alone, and who must be in control by peers alone: \
                         that was not compared";

/// A peer does not describe what follows a ticket, and a contract does not say what requires authority.
fn told_by_both(difference: &Difference) -> bool {
    let member = difference.member.as_deref().unwrap_or_default();
    ![" deferred result", " deferred progress", " authority"].iter().any(|one_sided| member.ends_with(one_sided))
}

fn written(left: &str, right: &str, differences: &[Difference]) -> String {
    let line = |difference: &Difference| {
        let Difference { namespace, member, left, right, pointer } = difference;
        let member = member.as_ref().map(|member| format!(" {member}")).unwrap_or_default();
        let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "-".into());
        let pointer = pointer.as_ref().map(|pointer| format!("  ({pointer})")).unwrap_or_default();
        text::one_line(&format!("  {namespace}{member}: {} | {}{pointer}", side(left), side(right)))
    };
    let last = match differences.len() {
        0 => format!("{left} and {right} expose the same"),
        1 => format!("1 difference between {left} and {right}"),
        count => format!("{count} differences between {left} and {right}"),
    };
    differences.iter().map(line).chain([text::one_line(&last)]).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_file_is_one() {
        let side = |typed: &str| typed.parse::<Side>().unwrap();
        for typed in ["./oven", "a/b", "oven.types.json", "/x"] {
            assert_eq!(side(typed), Side::File(typed.into()));
        }
        assert_eq!(side("oven-1"), Side::Peer("oven-1".into()));
        assert_eq!(side("peer:odd.json"), Side::Peer("odd.json".into()));
    }
}
