//! The handler of every session, over one shared process state, for all revisions of the protocol.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{
        CallToolRequestParams, Implementation, PromptsCapability, ProtocolVersion, ResourcesCapability,
        ServerCapabilities, ServerConfig, ToolsCapability,
    },
    service::RequestContext,
};
use serde_json::{Map, Value as Json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    audited::{audited, ending},
    check::{bad_argument, got},
    context::{CallContext, Door, ProgressSink, Shared},
    cursor::Cursors,
    error::{Outcome, ToolError},
    instructions::instructions,
    load::{ClientLoad, Limits, Load, Work},
    meter::Meter,
    progress::report,
    registry::Registry,
    subscriptions::{Listeners, Subscribed},
};
use crate::plant::{
    Plant,
    audit::{Entry, Stranger},
};

/// The revisions of the protocol that are served, oldest first.
pub const REVISIONS: [ProtocolVersion; 5] = [
    ProtocolVersion::V_2024_11_05,
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

/// What the front needs that is not a tool.
pub struct Config {
    /// How many calls a client may have.
    pub limits: Limits,
    /// When a call is to end at the latest, as tools are told; `None` leaves it to their own arguments.
    pub longest_call: Option<Duration>,
    /// The key of this process's cursors, drawn by the composition root.
    pub cursor_key: [u8; 32],
    /// Where incident ids come from.
    pub incidents: Box<dyn Fn() -> String + Send + Sync>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("limits", &self.limits)
            .field("longest_call", &self.longest_call)
            .finish_non_exhaustive()
    }
}

/// What all sessions share: the plant, the tools, the places. A cheap clone.
#[derive(Clone, Debug)]
pub struct Server(Arc<Front>);

#[derive(Debug)]
pub(super) struct Front {
    pub(super) plant: Plant,
    pub(super) registry: Registry,
    load: Arc<Load>,
    longest_call: Option<Duration>,
    pub(super) shared: Arc<Shared>,
    pub(super) listeners: Arc<Listeners>,
    #[cfg(feature = "otel")]
    spans: super::spans::Spans,
    /// What clients are told of the process: any, and one that may only look. Made when one asks.
    info: [OnceLock<ServerConfig>; 2],
    /// How many sessions each client has.
    sessions: Mutex<HashMap<Arc<str>, usize>>,
}

impl Server {
    /// The front of `plant` with these tools.
    pub fn new(plant: Plant, registry: Registry, config: Config) -> Self {
        let meter = Meter::new(registry.all().iter().map(|tool| tool.spec().name), registry.offer());
        let (cursors, incidents) = (Cursors::new(config.cursor_key), config.incidents);
        Self(Arc::new(Front {
            plant,
            registry,
            load: Load::new(config.limits),
            longest_call: config.longest_call,
            shared: Arc::new(Shared { cursors, incidents, meter }),
            listeners: Arc::default(),
            #[cfg(feature = "otel")]
            spans: super::spans::Spans::default(),
            info: Default::default(),
            sessions: Mutex::default(),
        }))
    }

    /// A session of `client`, which came in through `door`.
    pub fn session(&self, client: &str, door: Door) -> Session {
        let name: Arc<str> = client.into();
        self.meter().enters(door);
        *self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner).entry(Arc::clone(&name)).or_default() += 1;
        Session {
            front: Arc::clone(&self.0),
            client: name,
            door,
            read_only: false,
            comes_back: true,
            places: self.0.load.client(client),
            closing: CancellationToken::new(),
            until: CancellationToken::new(),
            subscribed: Arc::default(),
        }
    }

    /// Has the trail, if there is one, count somebody whom a door turned away.
    pub fn turned_away(&self, stranger: Stranger) {
        if let Some(audit) = self.0.plant.audit() {
            audit.turned_away(stranger);
        }
    }

    pub(super) fn plant(&self) -> &Plant {
        &self.0.plant
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.0.shared.meter
    }

    /// A door is open, whether somebody came through it or not.
    pub fn opened(&self, door: Door) {
        self.meter().opened(door);
    }

    /// Says what the command line switched on that the tools do not show. The first word on it counts.
    pub fn grant(&self, grants: Vec<&'static str>) {
        self.meter().grant(grants);
    }

    /// The process was asked to end: it is not ready for more from now on.
    pub fn leaves(&self) {
        self.meter().leave();
    }

    /// Makes a span of every tool call with this. The first one counts.
    #[cfg(feature = "otel")]
    pub fn trace_with(&self, tracer: super::SpanMaker) {
        self.0.spans.make_with(tracer);
    }

    /// Ends when every call that went on by itself has ended. To be bounded by the caller.
    pub async fn settled(&self) {
        self.0.load.settled().await;
    }
}

/// One client's session: what the SDK calls.
#[derive(Clone, Debug)]
pub struct Session {
    pub(super) front: Arc<Front>,
    pub(super) client: Arc<str>,
    pub(super) door: Door,
    pub(super) read_only: bool,
    comes_back: bool,
    places: ClientLoad,
    closing: CancellationToken,
    /// Cancelled when nothing is to be listened to any more.
    pub(super) until: CancellationToken,
    pub(super) subscribed: Arc<Subscribed>,
}

/// Stands in a request's extensions when the arguments of a tool call are no object: the SDK's type cannot hold them, and
/// a model is to read what was wrong (results.md 3).
#[derive(Clone, Debug)]
pub struct BadArguments(pub Json);

impl Session {
    /// The same session, for a client that may only look.
    #[must_use]
    pub fn looking(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// The same session, for whoever holds a connection and has no name to come back under.
    #[must_use]
    pub fn nameless(self) -> Self {
        Self { comes_back: false, ..self }
    }

    /// The same session, which listens until then at the latest.
    #[must_use]
    pub fn listening_until(self, until: CancellationToken) -> Self {
        Self { until, ..self }
    }

    /// Cancelled by the door when the session ends before its calls: every wait ends, the work goes on by itself.
    pub fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// What its client is in control of is given back, within a bound, whichever of its sessions took it.
    pub async fn give_back(&self) {
        self.front.plant.client_gone(&self.client).await;
    }

    /// The session is over. When it was the last one of its client, what the plant holds for that client is given back,
    /// within a bound. To be called once, by the door.
    pub async fn end(&self) {
        self.closing.cancel();
        self.subscribed.end();
        self.front.shared.meter.leaves(self.door);
        {
            let mut sessions = self.front.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            let left = sessions.get(&self.client).map_or(0, |open| open.saturating_sub(1));
            if left > 0 {
                sessions.insert(Arc::clone(&self.client), left);
                return;
            }
            sessions.remove(&self.client);
        }
        self.front.plant.client_gone(&self.client).await;
    }

    /// Serves a tool call.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Json, ToolError> {
        let begun = Instant::now();
        let meter = &self.front.shared.meter;
        let tool = self.front.registry.find_for(&request.name, self.read_only);
        #[cfg(feature = "otel")]
        let span = tool
            .as_ref()
            .ok()
            .and_then(|tool| self.front.spans.begin(tool.spec().name, request.arguments.as_ref(), &context.meta.0.0));
        let arguments = match context.extensions.get() {
            Some(BadArguments(value)) => Err(bad_argument("", "object", &got(value))),
            None => Ok(request.arguments.unwrap_or_default()),
        };
        // What is refused because there is no such tool is written down too.
        let outcome = self.run(&request.name, arguments, context).await;
        #[cfg(feature = "otel")]
        if let Some(span) = span {
            span.end(&outcome);
        }
        match tool {
            Ok(tool) => meter.ended(tool.place(), begun.elapsed(), &outcome),
            Err(error) => meter.refused(error.code()),
        }
        outcome
    }

    /// Runs a tool, whatever asked for it, and writes it down if there is a trail and it could change something.
    pub(super) async fn run(
        &self,
        name: &str,
        arguments: Result<Map<String, Json>, ToolError>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Json, ToolError> {
        let entry = self.entry(name, arguments.as_ref().ok());
        let answer = self.dispatch(name, arguments, entry.clone(), context).await;
        if let (Some(entry), Err(error)) = (entry, &answer) {
            entry.refuse(ending(error));
        }
        answer
    }

    async fn dispatch(
        &self,
        name: &str,
        arguments: Result<Map<String, Json>, ToolError>,
        entry: Option<Entry>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Json, ToolError> {
        let tool = self.front.registry.find_for(name, self.read_only)?;
        let arguments = arguments?;
        let changes = !tool.spec().hints.read_only;
        let begin = |call: CallContext| {
            let call = CallContext { entry: entry.clone(), ..call };
            let work = tool.start(self.front.plant.clone(), arguments, call);
            let work = work.map_err(|error| {
                if changes && error.certainty().is_none() { error.outcome(Outcome::NotRun) } else { error }
            })?;
            Ok(match entry {
                Some(entry) => audited(entry, work),
                None => work,
            })
        };
        // What a wait that ended says of a command that had begun: nothing.
        let in_doubt = |error: ToolError| {
            let doubt = changes && error.code() == super::ErrorCode::Cancelled;
            if doubt && error.certainty().is_none() { error.outcome(Outcome::Unknown) } else { error }
        };
        self.carry(tool.spec().name, begin, context).await.map_err(in_doubt)
    }

    /// Carries out what `begin` gives, in a place of this client, for as long as it waits, and tells it how it goes on.
    pub(super) async fn carry(
        &self,
        what: &'static str,
        begin: impl FnOnce(CallContext) -> Result<Work, ToolError>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Json, ToolError> {
        let heard = context.meta.get_progress_token().map(|token| (token, ProgressSink::heard()));
        let (progress, listener) = match heard {
            Some((token, (sink, waiting))) => (sink, Some((token, waiting))),
            None => (ProgressSink::silent(), None),
        };
        let token = CancellationToken::new();
        let call = CallContext {
            client: Arc::clone(&self.client),
            door: self.door,
            read_only: self.read_only,
            comes_back: self.comes_back,
            tool: what,
            cancel: token.clone(),
            progress,
            deadline: self.front.longest_call.map(|longest| Instant::now() + longest),
            entry: None,
            shared: Arc::clone(&self.front.shared),
        };
        let panicked = |panic: &str| call.internal(&format!("{what} panicked: {panic}"));
        let work = begin(call.clone())?;
        let answer = async {
            let place = self.places.place(self.gone(context)).await?;
            self.places.run(place, work, token, self.gone(context), panicked).await
        };
        match listener {
            None => answer.await,
            Some((token, waiting)) => tokio::select! {
                biased; // nothing is reported of a call that has ended
                answer = answer => answer,
                never = report(context, token, waiting) => match never {},
            },
        }
    }

    pub(super) async fn gone(&self, context: &RequestContext<RoleServer>) {
        tokio::select! {
            () = context.ct.cancelled() => {}
            () = self.closing.cancelled() => {}
        }
    }

    /// What this client is told of the process.
    pub(super) fn info(&self) -> &ServerConfig {
        let [any, looking] = &self.front.info;
        let told = if self.read_only { looking } else { any };
        told.get_or_init(|| info(&self.front.registry, self.read_only))
    }
}

fn info(registry: &Registry, read_only: bool) -> ServerConfig {
    let mut capabilities = ServerCapabilities::builder().enable_tools().build();
    let mut tools = ToolsCapability::default();
    tools.list_changed = Some(false);
    capabilities.tools = Some(tools);
    let mut prompts = PromptsCapability::default();
    prompts.list_changed = Some(false);
    capabilities.prompts = Some(prompts);
    let mut resources = ResourcesCapability::default();
    resources.list_changed = Some(false);
    resources.subscribe = Some(true);
    capabilities.resources = Some(resources);
    capabilities.completions = Some(Map::new());
    let name = Implementation::new("plantbridge", env!("CARGO_PKG_VERSION")).with_title("plantbridge");
    ServerConfig::new(capabilities).with_server_info(name).with_instructions(instructions(registry, read_only))
}
