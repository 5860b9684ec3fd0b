//! `plantbridge peers`: who is on the network.

use clap::Args;
use serde_json::{Map, Value as Json, json};

use super::{
    ending::Failure,
    errand::{Errand, ErrandArgs},
};
use crate::{
    mcp::{text, tools},
    plant::Peers,
};

#[derive(Clone, Debug, Args)]
pub(super) struct PeersArgs {
    #[command(flatten)]
    pub(super) errand: ErrandArgs,
}

/// Lists them. The first sweep of presence is awaited for a second at most.
pub(super) async fn run(errand: &Errand) -> Result<(), Failure> {
    let Peers { lines: peers, forgotten, down } = errand.look(errand.plant.peers()).await?;
    let details: Vec<Json> = peers.iter().map(|peer| tools::peer_detail(&errand.plant, peer)).collect();
    for (link, why) in down {
        errand.out.note(&format!("peers that only {link} leads to are left out, for it is down: {}", why.detail));
    }
    if errand.out.json {
        let names: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
        let mut answer = Map::new();
        answer.insert("peers".into(), json!(names));
        answer.insert("details".into(), details.into());
        answer.extend((forgotten > 0).then(|| ("forgotten".into(), forgotten.into())));
        return errand.out.say(&text::pretty(&answer));
    }
    if forgotten > 0 {
        errand.out.note(&format!("{forgotten} more were forgotten: too many are there"));
    }
    if details.is_empty() {
        errand.out.note("nobody else is there");
        return Ok(());
    }
    let cell = |detail: &Json, key: &str| detail.get(key).and_then(Json::as_str).unwrap_or("-").to_owned();
    let links = |detail: &Json| {
        detail["links"].as_array().into_iter().flatten().filter_map(Json::as_str).collect::<Vec<_>>().join(",")
    };
    let row = |detail: &Json| vec![cell(detail, "name"), links(detail), cell(detail, "shape")];
    let rows: Vec<Vec<String>> = details.iter().map(row).collect();
    errand.out.say(&errand.out.table(&["NAME", "LINKS", "SHAPE"], &rows))
}
