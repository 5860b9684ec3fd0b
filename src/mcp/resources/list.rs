//! Which resources there are now: from what is known, without asking anybody, in pages.

use rmcp::{
    ErrorData,
    model::{ListResourcesResult, Resource as Listed},
};
use serde_json::{Map, json};

use super::{JSON, MARKDOWN, Resource, annotations};
use crate::mcp::{
    page::{Format, Limit, Pager},
    server::Session,
    text,
};

/// A resource that is always there.
pub(super) struct Fixed {
    pub(super) uri: &'static str,
    name: &'static str,
    pub(super) title: &'static str,
    description: &'static str,
    mime: &'static str,
    priority: f32,
}

pub(super) const FIXED: [Fixed; 3] = [
    Fixed {
        uri: "plant://guide",
        name: "guide",
        title: "How to go about it",
        description: "What this bridge offers, and how to use it with care.",
        mime: MARKDOWN,
        priority: 1.0,
    },
    Fixed {
        uri: "plant://status",
        name: "status",
        title: "How the bridge stands",
        description: "Links, what it holds, calls since the start; nobody is asked. As bridge_status shows it; can be subscribed to.",
        mime: JSON,
        priority: 0.8,
    },
    Fixed {
        uri: "plant://errors",
        name: "errors",
        title: "Error codes",
        description: "Every code a tool may refuse with, when, and what it adds.",
        mime: MARKDOWN,
        priority: 0.3,
    },
];

impl Session {
    /// A page of them: what is always there, then watches, fakes, kept contracts and what peers say of themselves.
    pub(in crate::mcp) async fn resources(&self, cursor: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
        let fixed = FIXED.iter().zip(0..).map(|(fixed, at)| (format!("0{at}"), fixed.listed()));
        let mut entries: Vec<(String, Listed)> = fixed.collect();
        let offered = |resource: &Resource| resource.tool().is_none_or(|tool| self.offers(tool));
        for (rank, resource) in
            (1..).zip(self.there().await).flat_map(|(rank, all)| all.into_iter().map(move |one| (rank, one)))
        {
            if offered(&resource) {
                let listed = listed(&resource);
                // A name that cannot be shown makes an address that cannot be read.
                if Resource::parse(&listed.uri).is_some() {
                    entries.push((format!("{rank}{}", listed.uri), listed));
                }
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let nothing = Map::new();
        let cursors = &self.front.shared.cursors;
        let pager = Pager::over(cursors, "resources/list", &nothing, Limit::default(), Format::Detailed, cursor);
        let (page, info) = pager.keyed(entries).map_err(|error| {
            ErrorData::invalid_params(
                "this cursor is not one of this list; start again without it",
                Some(json!({"error": error.to_json()})),
            )
        })?;
        let page = page.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect();
        let mut list = ListResourcesResult::with_all_items(page);
        list.next_cursor = info.next_cursor;
        Ok(list)
    }

    async fn there(&self) -> [Vec<Resource>; 4] {
        let plant = &self.front.plant;
        let watches = plant.list_watches().into_iter().map(|line| Resource::Watch { id: line.id });
        let fakes = plant.list_fakes().fakes.into_iter();
        let fakes = fakes.map(|line| Resource::FakeContract { name: line.name.to_string() });
        let contracts = plant.contract_names().await.into_iter().map(|name| Resource::Contract { name });
        let peers = plant.known_peers().into_iter().map(|peer| Resource::Description { peer });
        [watches.collect(), fakes.collect(), contracts.collect(), peers.collect()]
    }

    fn offers(&self, tool: &str) -> bool {
        self.front.registry.offers_to(tool, self.read_only)
    }
}

impl Fixed {
    fn listed(&self) -> Listed {
        Listed::new(self.uri, self.name)
            .with_title(self.title)
            .with_description(self.description)
            .with_mime_type(self.mime)
            .with_annotations(annotations(self.priority))
    }
}

fn listed(resource: &Resource) -> Listed {
    let (name, title) = match resource {
        Resource::Description { peer } => (peer, "What this peer says of itself"),
        Resource::FakeContract { name } => (name, "What this fake serves"),
        Resource::Contract { name } => (name, "A kept contract"),
        Resource::Watch { id } => (id, "A standing watch"),
        Resource::State { namespace, .. } => (namespace, "What this component holds"),
        Resource::Guide | Resource::Errors | Resource::Status => return Listed::new(resource.uri(), "plant"),
    };
    Listed::new(resource.uri(), text::one_line(name))
        .with_title(title)
        .with_mime_type(JSON)
        .with_annotations(annotations(0.5))
}
