//! Keeps the process that runs code for one fake, and asks it one thing at a time.
//!
//! A call that takes longer than it may, and a process that says what is no answer, end that process; the next call finds a
//! fresh one, with what the handlers shared when they last answered. A call is begun once: of one that was cut off nothing
//! is left, for code in there reaches nothing but what it answers.

use std::{future::pending, time::Duration};

use serde_json::{Map, Value as Json};
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};
use tokio_util::sync::CancellationToken;

use super::{
    lines::{Ask, LINE},
    running::{Begin, Broken, Running},
};

/// The code of one fake in one language, at work.
#[derive(Debug)]
pub(super) struct Worker {
    calls: mpsc::Sender<Call>,
    closing: CancellationToken,
    ended: CancellationToken,
}

/// What is to be run, and how.
#[derive(Debug)]
pub(super) struct Recipe {
    /// Whose it is, for the log.
    pub(super) fake: String,
    pub(super) begin: Begin,
    /// The first line it is told: what it is to run. What JavaScript handlers share is its `state`.
    pub(super) hello: Map<String, Json>,
    /// How long one call may take.
    pub(super) budget: Duration,
}

/// Why it does not start.
#[derive(Debug)]
pub(super) enum NoStart {
    /// There is nothing to run it with.
    NotThere(String),
    /// What cannot be run, by what of the script that is; nothing means all of it.
    Faults(Vec<(String, String)>),
}

#[derive(Debug)]
struct Call {
    target: String,
    params: Vec<Json>,
    answer: oneshot::Sender<Result<Json, String>>,
}

impl Worker {
    /// Starts the process, and has it read what it is to run.
    pub(super) async fn start(recipe: Recipe) -> Result<Self, NoStart> {
        let mut keeper = Keeper { recipe, running: None, asked: 0 };
        keeper.begin().await?;
        let (calls, queue) = mpsc::channel(WAITING);
        let (closing, ended) = (CancellationToken::new(), CancellationToken::new());
        tokio::spawn(keeper.work(queue, closing.clone(), ended.clone()));
        Ok(Self { calls, closing, ended })
    }

    /// One call, in its turn.
    pub(super) async fn call(&self, target: String, params: Vec<Json>) -> Result<Json, String> {
        let (answer, answered) = oneshot::channel();
        self.calls.try_send(Call { target, params, answer }).map_err(|refused| match refused {
            TrySendError::Full(_) => format!("not run: {WAITING} calls wait for its handlers already"),
            TrySendError::Closed(_) => OVER.to_owned(),
        })?;
        answered.await.unwrap_or_else(|_| Err(OVER.to_owned()))
    }

    /// Ends it, and waits until nothing of it is left.
    pub(super) async fn end(&self) {
        self.closing.cancel();
        self.ended.cancelled().await;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

#[derive(Debug)]
struct Keeper {
    recipe: Recipe,
    running: Option<Running>,
    /// The number of the last call.
    asked: u64,
}

impl Keeper {
    async fn work(mut self, mut queue: mpsc::Receiver<Call>, closing: CancellationToken, ended: CancellationToken) {
        let _ended = ended.drop_guard();
        loop {
            let call = tokio::select! {
                biased; // a process that is gone is known to be before the next call
                () = closing.cancelled() => break,
                () = over(self.running.as_mut()) => {
                    tracing::warn!(fake = self.recipe.fake, "the process of its handlers ended; the next call starts another");
                    self.stop().await;
                    continue;
                }
                call = queue.recv() => call,
            };
            let Some(call) = call else { break };
            tokio::select! {
                biased;
                () = closing.cancelled() => break,
                answered = self.answer(call.target, call.params) => {
                    // A fake that is over waits for nothing.
                    let _ = call.answer.send(answered);
                }
            }
        }
        self.stop().await;
    }

    async fn answer(&mut self, target: String, params: Vec<Json>) -> Result<Json, String> {
        if self.running.is_none() {
            self.begin().await.map_err(|fault| not_again(&fault))?;
        }
        self.asked += 1;
        let ask = Ask { id: self.asked, target, params };
        let line = line(&ask).ok_or_else(|| format!("not run: its arguments are longer than {LINE} bytes"))?;
        let Some(running) = &mut self.running else { return Err(OVER.to_owned()) };
        match running.exchange(&line, self.asked, self.recipe.budget).await {
            Ok(answer) => {
                if let Some(state) = answer.state {
                    self.recipe.hello.insert("state".into(), state);
                }
                answer.error.map_or(Ok(answer.result.unwrap_or_default()), Err)
            }
            Err(broken) => {
                tracing::warn!(
                    fake = self.recipe.fake,
                    method = ask.target,
                    "a call of a handler failed: {broken}; the next call starts another process"
                );
                self.stop().await;
                Err(broken.to_string())
            }
        }
    }

    /// Starts a process, and has it read what it is to run.
    async fn begin(&mut self) -> Result<(), NoStart> {
        let whole = |what: String| NoStart::Faults(vec![(String::new(), what)]);
        let line =
            line(&self.recipe.hello).ok_or_else(|| whole(format!("it is longer than {LINE} bytes as one line")))?;
        let running = Running::start(&self.recipe.begin, &self.recipe.fake).await;
        let running = self.running.insert(running.map_err(|fault| NoStart::NotThere(fault.to_string()))?);
        let fault = match running.exchange(&line, 0, START).await {
            Ok(answer) if answer.faults.is_empty() => return Ok(()),
            Ok(answer) => NoStart::Faults(answer.faults),
            Err(Broken::Late(_)) => whole(format!(
                "reading it takes longer than {} s: it runs something without end before there is a function to call",
                START.as_secs()
            )),
            Err(_) => NoStart::NotThere("it ended before it had read anything".into()),
        };
        self.stop().await;
        Err(fault)
    }

    async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.end().await;
        }
    }
}

/// Ends when the process does; never without one.
async fn over(running: Option<&mut Running>) {
    match running {
        Some(running) => running.over().await,
        None => pending().await,
    }
}

fn line(said: &impl serde::Serialize) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(said).ok()?;
    line.push(b'\n');
    (line.len() <= LINE).then_some(line)
}

fn not_again(fault: &NoStart) -> String {
    let why = match fault {
        NoStart::NotThere(why) => why,
        NoStart::Faults(faults) => faults.first().map(|(_, what)| what.as_str()).unwrap_or_default(),
    };
    format!("not run: its handlers could not be started again: {why}")
}

const OVER: &str = "not run: the fake is leaving the network";
/// Calls of one fake that wait for its handlers.
const WAITING: usize = 32;
/// How long a process may take to start and to read what it is to run.
const START: Duration = Duration::from_secs(10);
