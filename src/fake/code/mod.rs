//! Code that the script of a fake brings along: what answers some of its methods.
//!
//! None of it runs in this process. JavaScript runs in a process of our own binary ([`child`]) that knows the language and
//! nothing else (`engine`); Python in an interpreter under the supervisor of programs ([`crate::script`]), with limits, and
//! with whatever else the user may do. Each fake that brings some along has its own. Nothing here is there for anybody who did
//! not start the bridge with `--allow-exec`.

pub mod child;
mod convert;
mod engine;
mod given;
mod lines;
mod prints;
mod running;
mod worker;

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Map, Value as Json, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) use self::given::{Code, fields, handlers, python, state};
use self::{
    given::Python,
    running::Begin,
    worker::{NoStart, Recipe, Worker},
};
use super::script::Target;
use crate::{
    contract::Problem,
    script::Supervisor,
    wire::{Value, tagged},
};

/// The leave to run code that scripts of fakes bring along, and the room for it.
#[derive(Clone, Debug)]
pub struct Exec {
    program: PathBuf,
    environment: Vec<(String, String)>,
    seats: Arc<Semaphore>,
}

/// The code of one fake, at work.
#[derive(Debug)]
pub(super) struct Hands {
    javascript: Option<Worker>,
    python: Option<Worker>,
    _seat: OwnedSemaphorePermit,
}

/// Why the code of a fake is not run.
#[derive(Debug)]
pub(super) enum CodeFault {
    /// As many fakes as may run code do.
    TooMany,
    /// It cannot be run as it is.
    Problems(Vec<Problem>),
}

impl Exec {
    /// Code runs in processes of this program, which is our own binary. What programs are told of our environment is this, but
    /// for whose it is and where that one's files are.
    #[must_use]
    pub fn new(program: PathBuf, environment: Vec<(String, String)>) -> Self {
        let mut environment = environment;
        environment.retain(|(name, _)| !THEIRS.contains(&name.as_str()));
        Self { program, environment, seats: Arc::new(Semaphore::new(MOST_WITH_CODE)) }
    }

    /// Starts what answers for `fake`.
    pub(super) async fn start(&self, fake: &str, code: &Code) -> Result<Hands, CodeFault> {
        let seat = self.seats.clone().try_acquire_owned().map_err(|_| CodeFault::TooMany)?;
        let javascript = if code.handlers.is_empty() { None } else { Some(self.javascript(fake, code).await?) };
        let python = match &code.python {
            None => None,
            Some(python) => Some(self.python(fake, python).await?),
        };
        Ok(Hands { javascript, python, _seat: seat })
    }

    async fn javascript(&self, fake: &str, code: &Code) -> Result<Worker, CodeFault> {
        let handlers: Vec<(String, &String)> =
            code.handlers.iter().map(|(target, source)| (dotted(target), source)).collect();
        let recipe = Recipe {
            fake: fake.to_owned(),
            begin: Begin::JavaScript { program: self.program.clone() },
            hello: members([("state", tagged::to_json(code.state.clone().into())), ("handlers", json!(handlers))]),
            budget: CALL,
        };
        Worker::start(recipe).await.map_err(|fault| match fault {
            NoStart::NotThere(why) => problems("handlers", vec![(String::new(), format!("they cannot be run: {why}"))]),
            NoStart::Faults(faults) => problems("handlers", faults),
        })
    }

    /// The first Python that serves it. One that is none ends before it has read anything.
    async fn python(&self, fake: &str, python: &Python) -> Result<Worker, CodeFault> {
        let targets: Vec<String> = python.targets.iter().map(dotted).collect();
        let hello = members([("program", python.program.as_str().into()), ("targets", json!(targets))]);
        let named = python.interpreter.as_deref();
        let mut tried = Vec::new();
        for interpreter in named.map_or_else(|| PYTHONS.to_vec(), |one| vec![one]) {
            let begin = Begin::Python {
                supervisor: Supervisor::at(self.program.clone()),
                interpreter: interpreter.into(),
                environment: self.environment.clone(),
            };
            let recipe = Recipe { fake: fake.to_owned(), begin, hello: hello.clone(), budget: PROGRAM_CALL };
            match Worker::start(recipe).await {
                Ok(worker) => return Ok(worker),
                Err(NoStart::Faults(faults)) => return Err(problems("python", faults)),
                Err(NoStart::NotThere(why)) => tried.push(format!("{interpreter}: {why}")),
            }
        }
        let what = format!("no Python 3.8 or later runs it ({})", tried.join("; "));
        Err(problems("python", vec![(if named.is_some() { "interpreter" } else { "" }.to_owned(), what)]))
    }
}

impl Hands {
    /// Answers a call, if there is something that does, JavaScript before Python: what it gave, or how it failed, in words.
    pub(super) async fn call(&self, code: &Code, target: &Target, args: &[Value]) -> Option<Result<Value, String>> {
        let worker = if code.handlers.contains_key(target) { &self.javascript } else { &self.python };
        let params = args.iter().cloned().map(tagged::to_json).collect();
        let answered = worker.as_ref()?.call(dotted(target), params).await;
        Some(answered.and_then(|json| tagged::from_json(json).map_err(|error| format!("it gave no value: {error}"))))
    }

    /// Ends it, and waits until nothing of it is left.
    pub(super) async fn end(&self) {
        for worker in [&self.javascript, &self.python].into_iter().flatten() {
            worker.end().await;
        }
    }
}

fn dotted((namespace, method): &Target) -> String {
    format!("{namespace}.{method}")
}

fn members<const N: usize>(all: [(&str, Json); N]) -> Map<String, Json> {
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn problems(field: &str, faults: Vec<(String, String)>) -> CodeFault {
    let problem = |(target, what): (String, String)| {
        let step =
            if target.is_empty() { target } else { format!("/{}", target.replace('~', "~0").replace('/', "~1")) };
        Problem { pointer: format!("/{field}{step}"), what }
    };
    CodeFault::Problems(faults.into_iter().map(problem).collect())
}

/// Fakes of one process that run code.
pub const MOST_WITH_CODE: usize = 32;
/// How long a JavaScript handler may take.
const CALL: Duration = Duration::from_millis(200);
/// How long a function of a Python program may take.
const PROGRAM_CALL: Duration = Duration::from_secs(5);
/// What is tried where no interpreter is named.
const PYTHONS: [&str; 2] = ["python3", "python"];
/// What is not passed on: a program has a directory of its own instead.
const THEIRS: [&str; 6] = ["HOME", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP"];
