//! What a watched window says of itself: what could be seen of each link, when nothing could be heard, and what the numbers
//! alone do not say.

use serde_json::{Map, Value as Json, json};

use super::moment;
use crate::plant::{Interruption, Plant, Sees, TrafficWatched, View};

/// Who it comes from.
pub(super) fn sources(watched: &TrafficWatched) -> Vec<String> {
    let hubs = watched.views.iter().filter_map(|view| view.by.as_ref()).map(ToString::to_string);
    std::iter::once("this process".to_owned()).chain(hubs).collect()
}

/// What could be seen of a link.
pub(super) fn seen(plant: &Plant, view: &View) -> Json {
    let sees = match view.sees {
        Sees::Everything => "everything",
        Sees::Relayed => "relayed",
        Sees::Presence => "presence",
        Sees::Nothing => "nothing",
    };
    let mut shown = Map::new();
    shown.insert("link".to_owned(), plant.link_name(view.link).into());
    shown.insert("sees".to_owned(), sees.into());
    let more = [("by", view.by.as_ref().map(ToString::to_string)), ("why", view.why.clone())];
    shown.extend(more.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?.into()))));
    Json::Object(shown)
}

/// What the numbers alone do not say.
pub(super) fn note(plant: &Plant, watched: &TrafficWatched) -> Option<String> {
    let mut notes = Vec::new();
    if watched.dropped.frames > 0 {
        notes.push("frames were dropped here unread, so a call may look unanswered that was answered".to_owned());
    }
    if !watched.interruptions.is_empty() {
        notes.push("the connection was lost meanwhile: what was said then was not heard".to_owned());
    }
    if watched.seen.forgotten > 0 {
        notes.push(format!("{} calls waited too long to be remembered", watched.seen.forgotten));
    }
    let named = |sees: Sees| watched.views.iter().filter(move |view| view.sees == sees);
    for view in named(Sees::Presence) {
        let link = plant.link_name(view.link);
        notes.push(format!("of {link} only who comes and goes was seen: what peers say to each other there was not"));
    }
    for view in named(Sees::Nothing) {
        notes.push(format!("nothing was seen of {}", plant.link_name(view.link)));
    }
    if watched.seen.batches > 0 {
        notes.push("a hub does not tell what is in a batch, so answers to its members are without a call".to_owned());
    }
    if watched.quiet && named(Sees::Everything).next().is_some() {
        notes.push("no peer said anything, or the broker's access list hides it from this account".to_owned());
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// When nothing was heard, and why.
pub(super) fn interruptions(plant: &Plant, watched: &TrafficWatched) -> Vec<Json> {
    let shown = |gap: &Interruption| {
        let mut shown = json!({"link": plant.link_name(gap.link), "from": moment(gap.from_ms), "why": gap.why});
        if let (Some(to), Json::Object(shown)) = (gap.to_ms, &mut shown) {
            shown.insert("to".into(), moment(to).into());
        }
        shown
    };
    watched.interruptions.iter().map(shown).collect()
}
