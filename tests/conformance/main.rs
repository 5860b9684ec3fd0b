//! The server the MCP conformance suite is run against: our HTTP door, its guards and our registry of tools, with the
//! tools, prompts and resources the suite asks for in place of the plant. `cargo xtask conform` starts it; nobody ships it.
//!
//! It says where it is in one line on standard output, and ends with its standard input.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a program for one test: it says its address, or fails"
)]

mod asking;
mod offered;
mod tools;

use std::{borrow::Cow, net::SocketAddr, time::Duration};

use plantbridge::{
    door::{
        auth::Keys,
        hosts::Hosts,
        http::{HttpConfig, HttpDoor, Rules},
    },
    mcp::{
        Offer, Registry, Server,
        load::Limits,
        server::{Config, Session},
    },
    node::{Identity, Node, Serving},
    plant::{Plant, Settings},
    wire::PeerName,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, ClientCapabilities, CompleteRequestParams, CompleteResult,
        CompletionInfo, CustomRequest, CustomResult, DiscoverResult, GetPromptRequestParams, GetPromptResponse,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        SamplingCapability, ServerCapabilities, ServerConfig, SubscriptionFilter,
    },
    service::{RequestContext, SubscriptionContext},
};
use serde_json::{Value as Json, json};
use tokio::{io::AsyncReadExt, sync::broadcast};
use tokio_util::sync::CancellationToken;

use asking::Round;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let name = PeerName::configured("fixture").expect("a name");
    let identity = Identity { name, serving: Serving::default(), exposed: Vec::new() };
    let settings = Settings { read_only: false, call_timeout: Duration::from_secs(1), link_names: Vec::new() };
    let plant = Plant::new(Node::start(identity, Vec::new()).0, settings);
    let incidents = Box::new(|| "incident".to_owned());
    let config = Config { limits: Limits::default(), longest_call: None, cursor_key: [1; 32], incidents };
    let server = Server::new(plant, Registry::new(tools::all(), Offer::default()), config);

    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let hosts = Hosts::new(local.ip(), &[], &[]).expect("hosts");
    let rules = Rules { keys: Keys::default(), hosts, tls: None };
    let door = HttpDoor::bind(local, rules, HttpConfig::default()).await.expect("a port");
    println!("http://{}/mcp", door.address().expect("an address"));

    let stop = CancellationToken::new();
    let (changes, _) = broadcast::channel(16);
    let show = move |session| Fixture { session, changes: changes.clone() };
    let serving = tokio::spawn(door.serve_as(server, show, stop.clone()));
    let mut rest = Vec::new();
    let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    stop.cancel();
    let _ = serving.await;
}

/// What may change while it runs.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Tools,
    Prompts,
}

/// A session of ours, with what the suite asks for in front of it.
struct Fixture {
    session: Session,
    changes: broadcast::Sender<Change>,
}

impl Fixture {
    /// What a tool does beside giving its content.
    async fn meanwhile(&self, tool: &str, context: &RequestContext<RoleServer>) {
        match tool {
            "test_tool_with_progress" => progress(context).await,
            "test_trigger_tool_change" => drop(self.changes.send(Change::Tools)),
            "test_trigger_prompt_change" => drop(self.changes.send(Change::Prompts)),
            _ => {}
        }
    }
}

async fn progress(context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else { return };
    for done in [0.0, 50.0, 100.0] {
        let report = ProgressNotificationParam::new(token.clone(), done).with_total(100.0);
        let _ = context.peer.notify_progress(report).await;
    }
}

/// What is typed as JSON here, as the SDK's type.
fn typed<T: serde::de::DeserializeOwned>(mut json: Json) -> Result<T, ErrorData> {
    if let Json::Object(result) = &mut json {
        result.entry("resultType").or_insert("complete".into());
    }
    serde_json::from_value(json).map_err(|problem| ErrorData::internal_error(problem.to_string(), None))
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.session.get_info();
        info.capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_completions()
            .build();
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.session.supported_protocol_versions()
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let mut told = self.session.discover(context).await?;
        told.capabilities = self.get_info().capabilities;
        Ok(told)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut list = self.session.list_tools(request, context).await?;
        // The suite's tools give content of many kinds; ours always give a value with a schema.
        list.tools.iter_mut().for_each(|tool| tool.output_schema = None);
        Ok(list)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let declared = context.client_capabilities().unwrap_or_default();
        let (name, responses, state) =
            (request.name.clone(), request.input_responses.clone(), request.request_state.clone());
        self.meanwhile(&name, &context).await;
        let CallToolResponse::Complete(told) = self.session.call_tool(request, context).await? else {
            return Err(ErrorData::internal_error("ours asks nothing back", None));
        };
        if told.is_error == Some(true) {
            return Ok(told.into());
        }
        if name == "test_missing_capability" && declared.sampling.is_none() {
            let mut needed = ClientCapabilities::default();
            needed.sampling = Some(SamplingCapability::default());
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        match asking::round(&name, &responses.unwrap_or_default(), state.as_deref(), &declared)? {
            Some(Round::Ask(ask)) => Ok(CallToolResponse::InputRequired(typed(ask)?)),
            Some(Round::Done(text)) => {
                typed(json!({"content": [{"type": "text", "text": text}]})).map(CallToolResponse::Complete)
            }
            None => {
                let content = told.structured_content.unwrap_or_default()["content"].take();
                typed(json!({"content": content})).map(CallToolResponse::Complete)
            }
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        typed(offered::prompts())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let declared = context.client_capabilities().unwrap_or_default();
        let responses = request.input_responses.unwrap_or_default();
        let said = match asking::round(&request.name, &responses, request.request_state.as_deref(), &declared)? {
            Some(Round::Ask(ask)) => return Ok(GetPromptResponse::InputRequired(typed(ask)?)),
            Some(Round::Done(text)) => Some(text),
            None => None,
        };
        let arguments = Json::Object(request.arguments.unwrap_or_default());
        let messages = match said {
            Some(text) => Some(offered::said(&text)),
            None => offered::prompt(&request.name, &arguments),
        };
        let messages =
            messages.ok_or_else(|| ErrorData::invalid_params(format!("no prompt {:?}", request.name), None))?;
        typed(messages).map(GetPromptResponse::Complete)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        typed(offered::resources())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        typed(offered::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let not_found =
            || ErrorData::resource_not_found("there is no such resource", Some(json!({"uri": request.uri})));
        typed(offered::read(&request.uri).ok_or_else(not_found)?).map(ReadResourceResponse::Complete)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let begun = &request.argument.value;
        let values = offered::WORDS.iter().filter(|word| word.starts_with(begun)).map(|word| (*word).to_owned());
        let found = CompletionInfo::new(values.collect()).map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(CompleteResult::new(found))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            // A filter that was not asked for this is no error.
            let _ = match change {
                Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => context.sink().notify_prompt_list_changed().await,
                Err(_) => return Ok(()),
            };
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.session.on_custom_request(request, context).await
    }
}
