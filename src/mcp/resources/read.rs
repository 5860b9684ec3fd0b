//! Reading a resource.

use rmcp::{
    ErrorData, RoleServer,
    model::{ReadResourceResult, ResourceContents},
    service::RequestContext,
};
use serde_json::{Map, Value as Json, json};

use super::{JSON, MARKDOWN, Resource, refused};
use crate::{
    mcp::{
        CallContext, codes::errors_table, error::ToolError, handler::STATIC_MS, load::Work, result::Source,
        server::Session, standing::standing, text, tools::whole_or_head,
    },
    wire::json::to_json,
};

impl Session {
    /// Reads what `uri` names, and says how long it may be kept, in milliseconds.
    pub(in crate::mcp) async fn read(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(ReadResourceResult, u64), ErrorData> {
        let (mime, words, keep) = match self.resource(uri)? {
            Resource::Guide => (MARKDOWN, self.guide(), STATIC_MS),
            Resource::Errors => (MARKDOWN, errors_table(), STATIC_MS),
            Resource::Status => {
                (JSON, text::pretty(&standing(&self.front.plant, &self.front.shared.meter, self.read_only)), 0)
            }
            other => {
                let told = self.told(other, context).await.map_err(|error| refused(uri, &error))?;
                (JSON, text::pretty(&told), 0)
            }
        };
        let contents = ResourceContents::text(words, uri).with_mime_type(mime);
        Ok((ReadResourceResult::new(vec![contents]), keep))
    }

    /// What the tool of a resource answers, or what a fake serves.
    async fn told(&self, resource: Resource, context: &RequestContext<RoleServer>) -> Result<Json, ToolError> {
        let (tool, arguments) = match resource {
            Resource::Description { peer } => ("describe_peer", json!({"peer": peer})),
            Resource::State { peer, namespace } => ("read_state", json!({"peer": peer, "namespace": namespace})),
            Resource::Contract { name } => ("read_contract", json!({"name": name, "format": "detailed"})),
            Resource::Watch { id } => ("read_watch", json!({"watch": id})),
            Resource::FakeContract { name } => return self.fake_contract(name, context).await,
            Resource::Guide | Resource::Errors | Resource::Status => return Ok(Json::Null),
        };
        let arguments = if let Json::Object(arguments) = arguments { arguments } else { Map::new() };
        // Boxed, as a tool call is.
        Box::pin(self.run(tool, Ok(arguments), context)).await
    }

    async fn fake_contract(&self, name: String, context: &RequestContext<RoleServer>) -> Result<Json, ToolError> {
        let plant = self.front.plant.clone();
        let begin = |_: CallContext| {
            Ok(Box::pin(async move {
                let sourced = plant.fake_contract(&name).await?;
                let document = to_json(&sourced.document).unwrap_or_default();
                Ok(json!({
                    "fake": name,
                    "contract": whole_or_head(document),
                    "left_out": sourced.left_out,
                    "source": Source::fake(name),
                }))
            }) as Work)
        };
        self.carry("fake_contract", begin, context).await
    }
}
