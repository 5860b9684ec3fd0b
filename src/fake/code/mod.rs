//! Code that the script of a fake brings along: what answers some of its methods.
//!
//! None of it runs in this process. JavaScript runs in a process of our own binary ([`child`]) that knows the language and
//! nothing else ([`engine`]); each fake that brings some along has one. Nothing here is there for anybody who did not start
//! the bridge with `--allow-exec`.

pub mod child;
mod convert;
mod engine;
mod given;
mod lines;
mod running;
mod worker;

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) use self::given::{Code, fields, handlers, state};
use self::worker::{Recipe, Worker};
use super::script::Target;
use crate::{
    contract::Problem,
    wire::{Value, tagged},
};

/// The leave to run code that scripts of fakes bring along, and the room for it.
#[derive(Clone, Debug)]
pub struct Exec {
    program: PathBuf,
    seats: Arc<Semaphore>,
}

/// The code of one fake, at work.
#[derive(Debug)]
pub(super) struct Hands {
    javascript: Option<Worker>,
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
    /// Code runs in processes of this program, which is our own binary.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self { program, seats: Arc::new(Semaphore::new(MOST_WITH_CODE)) }
    }

    /// Starts what answers for `fake`.
    pub(super) async fn start(&self, fake: &str, code: &Code) -> Result<Hands, CodeFault> {
        let seat = self.seats.clone().try_acquire_owned().map_err(|_| CodeFault::TooMany)?;
        let javascript = if code.handlers.is_empty() { None } else { Some(self.javascript(fake, code).await?) };
        Ok(Hands { javascript, _seat: seat })
    }

    async fn javascript(&self, fake: &str, code: &Code) -> Result<Worker, CodeFault> {
        let named = |((namespace, method), source): (&Target, &String)| (format!("{namespace}.{method}"), source.clone());
        let recipe = Recipe {
            fake: fake.to_owned(),
            program: self.program.clone(),
            handlers: code.handlers.iter().map(named).collect(),
            state: tagged::to_json(code.state.clone().into()),
            budget: CALL,
        };
        Worker::start(recipe).await.map_err(|faults| problems("handlers", faults))
    }
}

impl Hands {
    /// Answers a call, if there is something that does: what it gave, or how it failed, in words.
    pub(super) async fn call(&self, target: &Target, args: &[Value]) -> Option<Result<Value, String>> {
        let worker = self.javascript.as_ref()?;
        let params = args.iter().cloned().map(tagged::to_json).collect();
        let answered = worker.call(format!("{}.{}", target.0, target.1), params).await;
        Some(answered.and_then(|json| tagged::from_json(json).map_err(|error| format!("it gave no value: {error}"))))
    }

    /// Ends it, and waits until nothing of it is left.
    pub(super) async fn end(&self) {
        if let Some(worker) = &self.javascript {
            worker.end().await;
        }
    }
}

fn problems(field: &str, faults: worker::Faults) -> CodeFault {
    let problem = |(target, what): (String, String)| {
        let step = if target.is_empty() { target } else { format!("/{}", target.replace('~', "~0").replace('/', "~1")) };
        Problem { pointer: format!("/{field}{step}"), what }
    };
    CodeFault::Problems(faults.into_iter().map(problem).collect())
}

/// Fakes of one process that run code.
pub const MOST_WITH_CODE: usize = 32;
/// How long a JavaScript handler may take.
const CALL: Duration = Duration::from_millis(200);
