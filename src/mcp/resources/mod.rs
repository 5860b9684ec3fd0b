//! Resources: what can be read of the plant under an address ([`uri`]). Each shows what a tool shows, or what is always there;
//! it is offered where its tool is, passes the same checks and bounds, and is marked in the same way as data.

mod guide;
mod list;
mod read;
mod uri;

use rmcp::{
    ErrorData,
    model::{Annotations, ResourceTemplate, Role},
};
use serde_json::json;

pub(super) use uri::Resource;

use super::{completion::Fill, error::ToolError, server::Session, text};

/// A family of resources.
#[derive(Debug)]
pub(super) struct Template {
    /// The address, with its variables in braces.
    pub(super) uri: &'static str,
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// The tool that shows the same.
    tool: &'static str,
    /// What its variables can be completed from.
    variables: &'static [(&'static str, Fill)],
}

const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";

const TEMPLATES: [Template; 5] = [
    Template {
        uri: "peer://{peer}/description",
        name: "description",
        title: "What a peer says of itself",
        description: "Its namespaces with a line for each method and event; asked afresh. As describe_peer shows it.",
        tool: "describe_peer",
        variables: &[("peer", Fill::Peer)],
    },
    Template {
        uri: "peer://{peer}/{namespace}/state",
        name: "state",
        title: "What a component holds",
        description: "Its props and state now, in one look; can be subscribed to. As read_state shows it.",
        tool: "read_state",
        variables: &[("peer", Fill::Peer), ("namespace", Fill::Component)],
    },
    Template {
        uri: "fake://{name}/contract",
        name: "fake_contract",
        title: "What a fake serves",
        description: "The contract a fake of this bridge stands for.",
        tool: "list_fakes",
        variables: &[("name", Fill::Fake)],
    },
    Template {
        uri: "contract://{name}",
        name: "contract",
        title: "A kept contract",
        description: "The document, its hash and what is wrong with it. As read_contract shows it in detail.",
        tool: "read_contract",
        variables: &[("name", Fill::Contract)],
    },
    Template {
        uri: "watch://{id}",
        name: "watch",
        title: "What a standing watch holds",
        description: "Its records from the oldest held, and what was missed; can be subscribed to. As read_watch shows it.",
        tool: "read_watch",
        variables: &[("id", Fill::Watch)],
    },
];

impl Session {
    /// The families that are there for this client.
    pub(super) fn templates(&self) -> impl Iterator<Item = &'static Template> {
        TEMPLATES.iter().filter(|template| self.front.registry.offers_to(template.tool, self.read_only))
    }

    /// The family of this address, as the list shows it.
    pub(super) fn find_template(&self, uri: &str) -> Result<&'static Template, ErrorData> {
        self.templates().find(|template| template.uri == uri).ok_or_else(|| {
            let shown = text::printable(uri, 120);
            ErrorData::invalid_params(format!("there is no resource template {shown:?} here"), None)
        })
    }

    /// What an address names, if it can be there for this client.
    pub(super) fn resource(&self, uri: &str) -> Result<Resource, ErrorData> {
        let resource = Resource::parse(uri).ok_or_else(|| self.no_such(uri))?;
        match resource.tool().map(|tool| self.front.registry.find_for(tool, self.read_only)) {
            Some(Err(error)) => Err(refused(uri, &error)),
            None | Some(Ok(_)) => Ok(resource),
        }
    }

    /// The refusal of what is no address of ours.
    fn no_such(&self, uri: &str) -> ErrorData {
        let shown = text::printable(uri, 200);
        let known: Vec<&str> =
            list::FIXED.iter().map(|fixed| fixed.uri).chain(self.templates().map(|known| known.uri)).collect();
        let message = format!("there is no resource {shown:?}; there are {}", known.join(", "));
        ErrorData::resource_not_found(message, Some(json!({"uri": shown, "alternatives": known})))
    }
}

impl Template {
    /// What a variable can be completed from.
    pub(super) fn fill(&self, variable: &str) -> Option<Fill> {
        self.variables.iter().find(|(known, _)| *known == variable).map(|(_, fill)| *fill)
    }

    pub(super) fn listed(&self) -> ResourceTemplate {
        ResourceTemplate::new(self.uri, self.name)
            .with_title(self.title)
            .with_description(self.description)
            .with_mime_type(JSON)
            .with_annotations(annotations(0.5))
    }
}

/// For whom it is, and how much it matters.
fn annotations(priority: f32) -> Annotations {
    Annotations::default().with_audience(vec![Role::User, Role::Assistant]).with_priority(priority)
}

/// A failure of a tool as that of a resource: the same error object stands in the data.
pub(super) fn refused(uri: &str, error: &ToolError) -> ErrorData {
    use super::ErrorCode as Code;
    let (said, _) = text::cut(error.message(), MOST_SAID);
    let message = text::one_line(&format!("{}: {said}", error.code().as_str()));
    let data = Some(json!({"uri": text::printable(uri, 200), "error": error.to_json()}));
    match error.code() {
        Code::UnknownPeer
        | Code::UnknownNamespace
        | Code::UnknownWatch
        | Code::UnknownContract
        | Code::UnknownFake
        | Code::UnknownTool
        | Code::NotAComponent => ErrorData::resource_not_found(message, data),
        Code::BadArgument | Code::StaleCursor => ErrorData::invalid_params(message, data),
        _ => ErrorData::internal_error(message, data),
    }
}

/// Bytes of what happened that stand in the message of an error.
const MOST_SAID: usize = 1_024;
