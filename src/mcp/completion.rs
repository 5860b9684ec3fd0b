//! Completion of the arguments of prompts and of the variables of addresses: from what is known here. Nobody is asked.

use std::collections::BTreeSet;

use rmcp::{
    ErrorData,
    model::{CompleteRequestParams, CompletionInfo, Reference},
};

use super::{server::Session, text};
use crate::plant::{like, nearest};

/// What a value can be completed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// The names of peers.
    Peer,
    /// The components of the peer that was given before; without one, those of all peers.
    Component,
    /// The names of contracts that are kept.
    Contract,
    /// The names of fakes.
    Fake,
    /// The ids of standing watches.
    Watch,
    /// Nothing: it is said in one's own words.
    Words,
}

impl Session {
    /// The values that go on from what was typed, then those most like it.
    pub(super) async fn completion(&self, request: &CompleteRequestParams) -> Result<CompletionInfo, ErrorData> {
        let wrong = |why: String| Err(ErrorData::invalid_params(why, None));
        let argument = request.argument.name.as_str();
        let fill = match &request.r#ref {
            Reference::Prompt(prompt) => self.find_prompt(&prompt.name)?.fill(argument),
            Reference::Resource(template) => self.find_template(&template.uri)?.fill(argument),
            _ => return wrong("ref must be a ref/prompt or a ref/resource".into()),
        };
        let Some(fill) = fill else {
            return wrong(format!("there is no argument {:?} to complete", text::printable(argument, 80)));
        };
        let typed = request.argument.value.as_str();
        if typed.len() > LONGEST {
            return wrong(format!("argument.value has {} bytes, and at most {LONGEST}", typed.len()));
        }
        let before = request.context.as_ref().and_then(|context| context.get_argument("peer"));
        Ok(choose(typed, self.values(fill, before.map(String::as_str)).await))
    }

    async fn values(&self, fill: Fill, peer: Option<&str>) -> BTreeSet<String> {
        let plant = &self.front.plant;
        match fill {
            Fill::Peer => plant.known_peers(),
            Fill::Component => plant.known_components(peer),
            Fill::Contract => plant.contract_names().await.into_iter().collect(),
            Fill::Fake => plant.list_fakes().fakes.into_iter().map(|line| line.name.to_string()).collect(),
            Fill::Watch => plant.list_watches().into_iter().map(|line| line.id).collect(),
            Fill::Words => BTreeSet::new(),
        }
    }
}

/// Those that begin with what was typed, then a few that are like it; with neither, a few of those there are. What cannot be
/// shown as it is, is left out.
fn choose(typed: &str, known: BTreeSet<String>) -> CompletionInfo {
    let all = known.len();
    let shown: Vec<String> =
        known.into_iter().filter(|name| name.len() <= LONGEST && !name.chars().any(text::is_unsafe)).collect();
    let hidden = all > shown.len();
    let begins = |name: &String| name.get(..typed.len()).is_some_and(|head| head.eq_ignore_ascii_case(typed));
    let (mut values, rest): (Vec<String>, Vec<String>) = shown.into_iter().partition(begins);
    let total = values.len();
    if total < CompletionInfo::MAX_VALUES && !typed.is_empty() {
        let rest = rest.iter().map(String::as_str);
        values.extend(if total > 0 { like(typed, rest) } else { nearest(typed, rest) });
    }
    values.truncate(CompletionInfo::MAX_VALUES);
    let more = total > CompletionInfo::MAX_VALUES || hidden;
    let mut info = CompletionInfo::default();
    info.total = u32::try_from(total.max(values.len())).ok();
    info.has_more = Some(more);
    info.values = values;
    info
}

/// Bytes of a value, typed or offered.
const LONGEST: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: impl IntoIterator<Item = impl Into<String>>) -> BTreeSet<String> {
        names.into_iter().map(Into::into).collect()
    }

    /// What begins so comes first, in order; then what is like it.
    #[test]
    fn prefix_then_nearest() {
        let known = || names(["oven-2", "oven-1", "Oven-9", "mover", "cooler"]);
        assert_eq!(choose("oven", known()).values, ["Oven-9", "oven-1", "oven-2", "mover"]);
        assert_eq!(choose("", known()).values.len(), 5);
        assert_eq!(choose("mvoer", known()).values[0], "mover");
        assert_eq!(choose("é", known()).values.len(), 5, "with nothing like it, some of those there are");
    }

    /// At most a hundred, and it is said that there are more.
    #[test]
    fn at_most_a_hundred() {
        let info = choose("p", names((0..1_000).map(|at| format!("p{at:04}"))));
        assert_eq!((info.values.len(), info.total, info.has_more), (100, Some(1_000), Some(true)));
        assert_eq!(info.values[0], "p0000");
        let few = choose("p", names(["p1"]));
        assert_eq!((few.total, few.has_more), (Some(1), Some(false)));
    }

    /// F-36: a name that would have to be escaped could not be used as it is shown.
    #[test]
    fn what_cannot_be_shown_is_left_out() {
        let long = "x".repeat(LONGEST + 1);
        let info = choose("", names(["oven", "ov\u{202e}en", "ov\u{9b}2Jen", &long]));
        assert_eq!((info.values, info.has_more), (vec!["oven".to_owned()], Some(true)));
    }
}
