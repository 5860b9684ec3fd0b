//! The tools of this process. A tool is data plus a function; adding one is a file and a line.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt::Write as _,
    future::Future,
    sync::{Arc, OnceLock},
};

use rmcp::model::{Tool as Listed, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value as Json};

use super::{
    check::{Checker, bad_argument},
    codes::ErrorCode,
    context::CallContext,
    error::{Outcome, ToolError},
    load::Work,
    looking, schema,
    settling::settled,
    text,
};
use crate::plant::{Plant, nearest};

/// What a client may expect of a tool. All four are always published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may change what is there, and not only add to it.
    pub destructive: bool,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It deals with what is outside this process.
    pub open_world: bool,
}

impl Hints {
    /// A look at the plant.
    pub const LOOK: Self = Self { read_only: true, destructive: false, idempotent: true, open_world: true };
    /// A look at what this process holds.
    pub const LOOK_INSIDE: Self = Self { open_world: false, ..Self::LOOK };
    /// Something that reaches devices and may not be repeated.
    pub const ACT: Self = Self { read_only: false, destructive: true, idempotent: false, open_world: true };
}

/// What a process must offer for a tool to be there. A tool that is not there is refused by naming the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It always changes something, so it is not there under `--read-only`.
    Changing,
    /// A directory of contracts.
    Contracts,
    /// A directory of scripts, or leave to script other nodes.
    Scripts,
    /// The leave to run code that scripts of fakes bring along.
    Exec,
}

/// What this process offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// It may only look.
    pub read_only: bool,
    /// It has a directory of contracts.
    pub contracts: bool,
    /// It has a directory of scripts, or may script other nodes.
    pub scripts: bool,
    /// It runs code that scripts of fakes bring along.
    pub exec: bool,
}

impl Offer {
    /// What is left of it for a client that may only look.
    const fn looking(self, read_only: bool) -> Self {
        Self { read_only: self.read_only || read_only, ..self }
    }

    /// The one place that decides whether a tool is there: listing and calling both come through here.
    fn missing(self, tool: &Tool, of_client: bool) -> Option<ToolError> {
        tool.spec.needs.iter().find_map(|need| self.refusal(tool.spec.name, *need, of_client))
    }

    /// The flag the process would need, if it runs without.
    fn missing_flag(self, need: Need) -> Option<&'static str> {
        match need {
            Need::Contracts => (!self.contracts).then_some("--contracts"),
            Need::Scripts => (!self.scripts).then_some("--scripts"),
            Need::Exec => (!self.exec).then_some("--allow-exec"),
            Need::Changing => None,
        }
    }

    fn refusal(self, name: &str, need: Need, of_client: bool) -> Option<ToolError> {
        if need != Need::Changing {
            return self.missing_flag(need).map(|flag| {
                ToolError::new(ErrorCode::UnknownTool, format!("{name} needs {flag}, and this bridge runs without it"))
                    .cause(format!("the bridge was started without {flag}"))
                    .fix(format!("ask a person to start the bridge with {flag}"))
            });
        }
        self.read_only.then(|| looking::no_tool(name, of_client))
    }
}

/// What a tool says of itself.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The name clients call.
    pub name: &'static str,
    /// The name people read.
    pub title: &'static str,
    /// When to use it, what it gives, what comes next.
    pub description: Cow<'static, str>,
    /// What to expect of it.
    pub hints: Hints,
    /// What it needs; nothing means it is always there.
    pub needs: &'static [Need],
}

type Start = dyn Fn(Plant, Map<String, Json>, CallContext) -> Result<Work, ToolError> + Send + Sync;
type Schema = Map<String, Json>;

/// One tool: what is published of it, and what runs.
///
/// Its schemas are made when somebody asks: those of all tools together are a good part of what an idle process would
/// hold, and most sessions call a few tools.
pub struct Tool {
    spec: Spec,
    /// Its place among all tools, where it is counted.
    place: usize,
    input: fn() -> Schema,
    output: fn() -> Schema,
    checker: OnceLock<Checker>,
    start: Box<Start>,
    /// Arguments that are there only where the process offers what they need.
    needing: Vec<(&'static str, Need)>,
    /// Those that are not, with why.
    withheld: Vec<(&'static str, &'static str)>,
    /// What is said of it only where the process offers what that needs.
    further: Option<(Need, &'static str)>,
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Tool {
    /// A tool whose arguments are `A` and whose result is `R`. `A` denies unknown fields, or its schema is not closed.
    pub fn new<A, R, F, Fut>(spec: Spec, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + 'static,
        F: Fn(Plant, A, CallContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let run = Arc::new(run);
        let start = move |plant: Plant, arguments: Map<String, Json>, context: CallContext| {
            let arguments = A::deserialize(Json::Object(arguments))
                .map_err(|problem| bad_argument("", "what the schema says", &text::one_line(&problem.to_string())))?;
            let run = Arc::clone(&run);
            Ok(Box::pin(async move {
                let incident = context.clone();
                let result = run(plant.clone(), arguments, context).await.map_err(|error| settled(&plant, error))?;
                serde_json::to_value(&result).map_err(|problem| incident.internal(&problem))
            }) as Work)
        };
        Self {
            spec,
            place: 0,
            input: schema::input::<A>,
            output: schema::output::<R>,
            checker: OnceLock::new(),
            start: Box::new(start),
            needing: Vec::new(),
            withheld: Vec::new(),
            further: None,
        }
    }

    /// The same with an argument that is there only where the process offers what it needs: what would be refused is not shown.
    #[must_use]
    pub fn argument_needs(mut self, argument: &'static str, need: Need) -> Self {
        self.needing.push((argument, need));
        self
    }

    /// The same with a further word in its description, where the process offers what that is about.
    #[must_use]
    pub fn says_where(mut self, need: Need, words: &'static str) -> Self {
        self.further = Some((need, words));
        self
    }

    /// The tool as a process that offers `offer` shows it.
    fn within(mut self, offer: Offer) -> Self {
        let missing = |(argument, need): &(&'static str, Need)| Some((*argument, offer.missing_flag(*need)?));
        self.withheld = self.needing.iter().filter_map(missing).collect();
        if let Some((_, words)) = self.further.filter(|(need, _)| offer.missing_flag(*need).is_none()) {
            self.spec.description.to_mut().push_str(words);
        }
        self
    }

    /// The schema of its arguments, without those that are not there.
    fn arguments(&self) -> Schema {
        let mut input = (self.input)();
        if let Some(Json::Object(properties)) = input.get_mut("properties") {
            properties.retain(|name, _| self.withheld.iter().all(|(withheld, _)| withheld != name));
        }
        input
    }

    /// What it says of itself.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Its place among all tools.
    pub(super) const fn place(&self) -> usize {
        self.place
    }

    /// As `tools/list` shows it.
    pub fn listed(&self) -> Listed {
        let Hints { read_only, destructive, idempotent, open_world } = self.spec.hints;
        let hints = ToolAnnotations::new()
            .read_only(read_only)
            .destructive(destructive)
            .idempotent(idempotent)
            .open_world(open_world);
        Listed::new(self.spec.name, self.spec.description.clone(), self.arguments())
            .with_title(self.spec.title)
            .with_annotations(hints)
            .with_raw_output_schema(Arc::new((self.output)()))
    }

    /// Checks the arguments and begins. Nothing happens before the work is polled.
    ///
    /// # Errors
    ///
    /// `bad_argument`, before anything else.
    pub fn start(&self, plant: Plant, arguments: Map<String, Json>, context: CallContext) -> Result<Work, ToolError> {
        if let Some((argument, flag)) = self.withheld.iter().find(|(argument, _)| arguments.contains_key(*argument)) {
            return Err(bad_argument(&format!("/{argument}"), &format!("nothing: it needs {flag}"), "a value")
                .fix(format!("leave it out, or ask a person to start the bridge with {flag}")));
        }
        let changes = !self.spec.hints.read_only;
        let checker = self.checker.get_or_init(|| Checker::compile(&self.arguments()).0);
        checker.check(&arguments).map_err(|error| unsent(changes, error))?;
        let work = (self.start)(plant, arguments, context).map_err(|error| unsent(changes, error))?;
        Ok(Box::pin(async move { work.await.map_err(|error| unsent(changes, error)) }))
    }
}

/// An argument that a tool that changes something refuses was refused before anything was sent.
fn unsent(changes: bool, error: ToolError) -> ToolError {
    let certain = changes && error.code() == ErrorCode::BadArgument && error.certainty().is_none();
    if certain { error.outcome(Outcome::NotRun) } else { error }
}

/// All tools, of which this process offers some.
#[derive(Debug)]
pub struct Registry {
    tools: Vec<Tool>,
    by_name: HashMap<&'static str, usize>,
    offer: Offer,
}

impl Registry {
    /// The tools of a process that offers `offer`.
    pub fn new(tools: Vec<Tool>, offer: Offer) -> Self {
        let placed = tools.into_iter().enumerate().map(|(place, tool)| Tool { place, ..tool.within(offer) });
        let tools: Vec<Tool> = placed.collect();
        let by_name = tools.iter().enumerate().map(|(at, tool)| (tool.spec.name, at)).collect();
        Self { tools, by_name, offer }
    }

    /// What the process offers.
    pub const fn offer(&self) -> Offer {
        self.offer
    }

    /// The tools that are there, in the order they were given.
    pub fn available(&self) -> impl Iterator<Item = &Tool> {
        self.available_for(false)
    }

    /// Those that are there for a client that may only look, or for any other.
    pub fn available_for(&self, read_only: bool) -> impl Iterator<Item = &Tool> {
        let offer = self.offer.looking(read_only);
        self.tools.iter().filter(move |tool| offer.missing(tool, read_only).is_none())
    }

    /// Every tool, there or not.
    pub fn all(&self) -> &[Tool] {
        &self.tools
    }

    /// Whether a tool of this name is there.
    pub fn offers(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    /// The same, for a client that may only look, or for any other.
    pub fn offers_to(&self, name: &str, read_only: bool) -> bool {
        self.find_for(name, read_only).is_ok()
    }

    /// The tool `name`, if it is there.
    ///
    /// # Errors
    ///
    /// `read_only`, or `unknown_tool` with the flag it needs or the nearest names.
    pub fn find(&self, name: &str) -> Result<&Tool, ToolError> {
        self.find_for(name, false)
    }

    /// The same, for a client that may only look, or for any other.
    ///
    /// # Errors
    ///
    /// Those of [`Registry::find`].
    pub fn find_for(&self, name: &str, read_only: bool) -> Result<&Tool, ToolError> {
        let Some(tool) = self.by_name.get(name).and_then(|at| self.tools.get(*at)) else {
            let names = nearest(name, self.available_for(read_only).map(|tool| tool.spec.name));
            let (shown, _) = text::cut(name, 80);
            return Err(
                ToolError::new(ErrorCode::UnknownTool, format!("there is no tool {shown:?}")).alternatives(names)
            );
        };
        let of_client = read_only && !self.offer.read_only;
        self.offer.looking(read_only).missing(tool, of_client).map_or(Ok(tool), Err)
    }
}

/// The table of all tools in Markdown, for `plantbridge mcp --tools` and the README.
pub fn tools_table(tools: &[Tool]) -> String {
    let mut out = String::from("| tool | title | hints | arguments |\n| --- | --- | --- | --- |\n");
    for tool in tools {
        let Hints { read_only, destructive, idempotent, open_world } = tool.spec.hints;
        let named = [
            (read_only, "read-only"),
            (destructive, "destructive"),
            (idempotent, "idempotent"),
            (open_world, "open-world"),
        ];
        let hints: Vec<_> = named.into_iter().filter(|(set, _)| *set).map(|(_, name)| name).collect();
        let schema = (tool.input)();
        let required = schema.get("required").and_then(Json::as_array);
        let arguments = schema.get("properties").and_then(Json::as_object).into_iter().flatten();
        let arguments: Vec<_> = arguments
            .map(|(name, _)| {
                let needed = required.is_some_and(|required| required.iter().any(|key| key == name));
                if needed { format!("`{name}`") } else { format!("`{name}?`") }
            })
            .collect();
        let (name, title) = (tool.spec.name, tool.spec.title);
        let _ = writeln!(out, "| `{name}` | {title} | {} | {} |", hints.join(", "), arguments.join(" "));
    }
    out
}

/// What is wrong with a set of tools: unique names, hints that agree, closed schemas without combinators at the top, only
/// keywords that are enforced, words of a sensible length. Empty is good. The test of the real registry calls this.
pub fn violations(tools: &[Tool]) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    for tool in tools {
        let Spec { name, title, description, hints, needs } = &tool.spec;
        let mut claim = |holds: bool, what: &str| {
            if !holds {
                out.push(format!("{name}: {what}"));
            }
        };
        let schema = &(tool.input)();
        claim(seen.insert(*name), "the name is taken");
        claim(name.len() <= 64 && !name.is_empty(), "the name has 1 to 64 characters");
        claim(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "the name is snake_case");
        claim((3..=60).contains(&title.len()), "the title has 3 to 60 bytes");
        claim((40..=1_200).contains(&description.len()), "the description has 40 to 1200 bytes");
        claim(!(hints.read_only && hints.destructive), "what only looks destroys nothing");
        claim(!(hints.read_only && needs.contains(&Need::Changing)), "what changes is not read-only");
        claim(schema.get("type").is_some_and(|kind| kind == "object"), "the arguments are an object");
        claim(schema.get("additionalProperties") == Some(&Json::Bool(false)), "the arguments are closed");
        claim(schema::combinator_at_top(schema).is_none(), "no combinator at the top of the input");
        let (_, unsupported) = Checker::compile(schema);
        claim(unsupported.is_empty(), &format!("keywords nobody enforces: {unsupported:?}"));
        let output = (tool.output)();
        claim(schema::combinator_at_top(&output).is_none(), "no combinator at the top of the output");
        claim(!Json::Object(output).to_string().contains("\"$ref\""), "no reference in the output");
    }
    out
}
