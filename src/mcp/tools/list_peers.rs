//! `list_peers`: who is on the network.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value as Json;

use super::{look, moment, repeatable};
use crate::{
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
        refusal::link_state,
    },
    plant::{PeerKind, PeerLine, Plant},
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Only peers whose name begins with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    prefix: Option<String>,
    /// Only peers reachable over this link.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    /// Only peers of this kind, as far as it is known: what nobody has described yet is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    #[serde(default)]
    limit: Limit,
    /// Where the page starts: `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// What a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Device,
    Fake,
    Unknown,
}

impl From<PeerKind> for Kind {
    fn from(kind: PeerKind) -> Self {
        match kind {
            PeerKind::Device => Self::Device,
            PeerKind::Fake => Self::Fake,
            PeerKind::Unknown => Self::Unknown,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// The names, sorted.
    peers: Vec<String>,
    /// What is known of each, in the same order.
    details: Vec<Json>,
    #[serde(flatten)]
    page: PageInfo,
    /// Peers that were forgotten because more than 10 000 are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten: Option<u64>,
    /// Why not everybody is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    /// Links that are down, and why: peers that only they lead to are not listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links_down: Vec<Json>,
    source: Source,
}

#[derive(Debug, Serialize)]
struct Line {
    name: String,
    links: Vec<String>,
    kind: Kind,
    since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<String>,
    /// A peer that sent a frame and never announced itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    announced: Option<bool>,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "list_peers",
        title: "List peers",
        description: "Lists the peers on the plant network now, the bridge itself left out: names, links, since when, \
                      and what each is as far as it was described. Waits up to a second for the first sweep of \
                      presence. Next: describe_peer."
            .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let found = look(&context, async { Ok(plant.peers().await?) }).await?;
    let links_down = found.down.iter().map(|(name, down)| link_state(name, Some(down))).collect();
    let note =
        (!plant.is_on_network()).then_some("the plant network is away: only the fakes of this bridge can be reached");
    let wanted = found.lines.iter().filter(|peer| args.wants(&plant, peer));
    // What is known of a peer is only written where it is on the page.
    let lines = wanted.map(|peer| (peer.name.as_str(), Shown { plant: &plant, peer }));
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let (details, page) = pager.keyed(lines)?;
    let peers = details.iter().filter_map(|line| line["name"].as_str().map(str::to_owned)).collect();
    let forgotten = (found.forgotten > 0).then_some(found.forgotten);
    Ok(Answer { peers, details, page, forgotten, note, links_down, source: Source::bridge() })
}

/// What is known of a peer.
pub(crate) fn peer_detail(plant: &Plant, peer: &PeerLine) -> Json {
    serde_json::to_value(line(plant, peer)).unwrap_or_default()
}

impl Args {
    fn wants(&self, plant: &Plant, peer: &PeerLine) -> bool {
        let over = |wanted: &String| peer.seen.links.iter().any(|link| plant.link_name(*link) == *wanted);
        self.prefix.as_ref().is_none_or(|prefix| peer.name.as_str().starts_with(prefix))
            && self.link.as_ref().is_none_or(over)
            && self.kind.is_none_or(|kind| Kind::from(peer.kind) == kind)
    }
}

/// A peer, as it is shown once it is.
struct Shown<'a> {
    plant: &'a Plant,
    peer: &'a PeerLine,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        line(self.plant, self.peer).serialize(serializer)
    }
}

fn line(plant: &Plant, peer: &PeerLine) -> Line {
    Line {
        name: peer.name.to_string(),
        links: peer.seen.links.iter().map(|link| plant.link_name(*link)).collect(),
        kind: peer.kind.into(),
        since: moment(peer.seen.since_ms),
        shape: peer.seen.shape.as_deref().map(str::to_owned),
        announced: (!peer.seen.announced).then_some(false),
    }
}
