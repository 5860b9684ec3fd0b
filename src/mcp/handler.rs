//! What the SDK calls: each method of the protocol, given to whatever serves it.

use std::borrow::Cow;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest,
        CustomResult, DiscoverResult, ErrorCode as RpcCode, GetPromptRequestParams, GetPromptResponse,
        InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        ServerConfig, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
};

use super::{
    context::Door,
    registry::Tool,
    resources::Template,
    result,
    server::{REVISIONS, Session},
    text,
};

impl ServerHandler for Session {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Boxed: the SDK moves the future of a request about several times before it runs.
        let answer = match Box::pin(self.call(request, &context)).await {
            Ok(value) => result::success(value),
            Err(error) => result::failure(&error),
        };
        Ok(CallToolResponse::Complete(answer))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        one_page(request.as_ref(), "tools")?;
        let tools = self.front.registry.available_for(self.read_only).map(Tool::listed).collect();
        let list = ListToolsResult::with_all_items(tools);
        Ok(if keeps(&context) { list.with_ttl_ms(STATIC_MS).with_cache_scope(CacheScope::Private) } else { list })
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        one_page(request.as_ref(), "prompts")?;
        let list = ListPromptsResult::with_all_items(self.prompts());
        Ok(if keeps(&context) { list.with_ttl_ms(STATIC_MS).with_cache_scope(CacheScope::Private) } else { list })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.prompt(&request.name, request.arguments.unwrap_or_default()).map(Into::into)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let list = self.resources(request.as_ref().and_then(|request| request.cursor.as_deref())).await?;
        Ok(if keeps(&context) { list.with_ttl_ms(0).with_cache_scope(CacheScope::Private) } else { list })
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        one_page(request.as_ref(), "resource templates")?;
        let list = ListResourceTemplatesResult::with_all_items(self.templates().map(Template::listed).collect());
        Ok(if keeps(&context) { list.with_ttl_ms(STATIC_MS).with_cache_scope(CacheScope::Private) } else { list })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (read, keep) = self.read(&request.uri, &context).await?;
        let read = if keeps(&context) { read.with_ttl_ms(keep).with_cache_scope(CacheScope::Private) } else { read };
        Ok(read.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.completion(&request).await.map(CompleteResult::new)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut told = self.negotiate_initialize(&request)?;
        if let (Door::Http, Some(resources)) = (self.door, &mut told.capabilities.resources) {
            // There is no session that updates could be sent to.
            resources.subscribe = None;
        }
        Ok(told)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribe_to(request.uri, context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.unsubscribe_from(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(self.granted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.listens(context).await
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        Ok(DiscoverResult::from_server_info(REVISIONS.to_vec(), self.info().clone()).with_ttl_ms(STATIC_MS))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = text::printable(&request.method, 80);
        Err(ErrorData::new(RpcCode::METHOD_NOT_FOUND, format!("there is no method {method:?}"), None))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(REVISIONS.to_vec())
    }

    fn get_info(&self) -> ServerConfig {
        self.info().clone()
    }
}

/// Whether the client is of a revision that is told how long it may keep what it is given.
fn keeps(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

fn one_page(request: Option<&PaginatedRequestParams>, what: &str) -> Result<(), ErrorData> {
    if request.is_some_and(|request| request.cursor.is_some()) {
        return Err(ErrorData::invalid_params(format!("the list of {what} is one page; leave cursor out"), None));
    }
    Ok(())
}

/// How long a client may keep what never changes while the process runs.
pub(super) const STATIC_MS: u64 = 3_600_000;
