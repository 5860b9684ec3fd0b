//! How many calls a client may have, and what becomes of a call nobody waits for (results.md 6).
//!
//! A client has at most 32 calls running and 128 waiting for their turn, first come, first served; beyond that it hears
//! `busy` at once. Each client has its own places, so none can starve another.
//!
//! A call that is no longer waited for is told so through its token and finishes on its own, still holding its place: a
//! command is never stopped half-way, and cancelling is no way around the bound. One that had not begun never runs. A
//! panic ends the call it happened in and nothing else.

use std::{
    collections::HashMap,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use serde_json::Value as Json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    codes::ErrorCode,
    error::{Outcome, ToolError},
};

/// One call at work.
pub type Work = Pin<Box<dyn Future<Output = Result<Json, ToolError>> + Send>>;

/// The bounds of every client.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls a client may have running.
    pub running: usize,
    /// Calls of a client that may wait for a place.
    pub queued: usize,
    /// What a client that is turned away is told to wait.
    pub retry_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { running: 32, queued: 128, retry_after: Duration::from_millis(250) }
    }
}

/// The places of all clients, and the calls that finish on their own.
#[derive(Debug)]
pub struct Load {
    limits: Limits,
    clients: Mutex<HashMap<String, Weak<Places>>>,
    detached: TaskTracker,
}

impl Load {
    /// Places under these bounds.
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, clients: Mutex::default(), detached: TaskTracker::new() })
    }

    /// The places of the client `name`: the same ones for as long as anybody holds them.
    pub fn client(self: &Arc<Self>, name: &str) -> ClientLoad {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, places| places.strong_count() > 0);
        let places = clients.get(name).and_then(Weak::upgrade).unwrap_or_else(|| {
            let places = Arc::new(Places {
                running: Arc::new(Semaphore::new(self.limits.running)),
                queued: AtomicUsize::new(0),
            });
            clients.insert(name.to_owned(), Arc::downgrade(&places));
            places
        });
        ClientLoad { load: Arc::clone(self), places }
    }

    /// Ends when every call that went on by itself has ended. To be bounded by the caller.
    pub async fn settled(&self) {
        self.detached.close();
        self.detached.wait().await;
    }

    /// How many calls go on by themselves.
    pub fn detached(&self) -> usize {
        self.detached.len()
    }
}

#[derive(Debug)]
struct Places {
    running: Arc<Semaphore>,
    queued: AtomicUsize,
}

/// The places of one client.
#[derive(Clone, Debug)]
pub struct ClientLoad {
    load: Arc<Load>,
    places: Arc<Places>,
}

impl ClientLoad {
    /// A place to run in, now or when one is free.
    ///
    /// # Errors
    ///
    /// `busy` at once when too many wait already; `cancelled`, and nothing ran, when `cancelled` ends first.
    pub async fn place(&self, cancelled: impl Future<Output = ()>) -> Result<Place, ToolError> {
        if let Ok(permit) = Arc::clone(&self.places.running).try_acquire_owned() {
            return Ok(Place(permit));
        }
        let waiting = Queued::enter(&self.places, self.load.limits.queued).ok_or_else(|| self.busy())?;
        let permit = tokio::select! {
            permit = Arc::clone(&self.places.running).acquire_owned() => permit,
            () = cancelled => return Err(not_begun()),
        };
        drop(waiting);
        permit.map(Place).map_err(|_| self.busy())
    }

    /// Runs `work` in its place for as long as somebody waits, which is until `cancelled` ends or this future is dropped.
    ///
    /// # Errors
    ///
    /// What the work says, `internal` if it panics, or `cancelled`.
    pub async fn run(
        &self,
        place: Place,
        work: Work,
        token: CancellationToken,
        cancelled: impl Future<Output = ()>,
        panicked: impl FnOnce(&str) -> ToolError,
    ) -> Result<Json, ToolError> {
        let mut waited_for = WaitedFor { work: Some(Caught { work, _place: place }), token, load: &self.load };
        tokio::select! {
            biased; // an answer that is there is given, even if the client has just gone
            result = waited_for.finished() => result.unwrap_or_else(|panic| Err(panicked(&panic))),
            () = cancelled => Err(ToolError::new(ErrorCode::Cancelled, "nobody waits for this call any more")),
        }
    }

    fn busy(&self) -> ToolError {
        let Limits { running, queued, retry_after } = self.load.limits;
        ToolError::new(ErrorCode::Busy, format!("{running} calls are running and {queued} are waiting"))
            .outcome(Outcome::NotRun)
            .retry_after(retry_after)
    }
}

fn not_begun() -> ToolError {
    ToolError::new(ErrorCode::Cancelled, "cancelled before it began").outcome(Outcome::NotRun)
}

/// A place a call runs in; free again when dropped.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held, never read")] OwnedSemaphorePermit);

/// One call in the queue; leaves it when dropped.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn enter(places: &'a Places, most: usize) -> Option<Self> {
        let entered = places
            .queued
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |queued| (queued < most).then_some(queued + 1));
        entered.is_ok().then_some(Self(&places.queued))
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Work whose panic is an answer. It holds its place until it ends.
struct Caught {
    work: Work,
    _place: Place,
}

impl Future for Caught {
    type Output = Result<Result<Json, ToolError>, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let work = self.work.as_mut();
        match catch_unwind(AssertUnwindSafe(|| work.poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                Poll::Ready(Err(text.unwrap_or_else(|| "a panic without words".to_owned())))
            }
        }
    }
}

/// Work somebody waits for. When the wait ends first, the work is told and goes on by itself.
struct WaitedFor<'a> {
    work: Option<Caught>,
    token: CancellationToken,
    load: &'a Load,
}

impl WaitedFor<'_> {
    async fn finished(&mut self) -> Result<Result<Json, ToolError>, String> {
        std::future::poll_fn(|context| {
            let Some(work) = &mut self.work else { return Poll::Ready(Err("polled after its end".to_owned())) };
            let result = std::task::ready!(Pin::new(work).poll(context));
            self.work = None;
            Poll::Ready(result)
        })
        .await
    }
}

impl Drop for WaitedFor<'_> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.token.cancel();
        if tokio::runtime::Handle::try_current().is_ok() {
            self.load.detached.spawn(async move {
                if let Err(panic) = work.await {
                    tracing::error!(%panic, "a call that nobody waits for panicked");
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::sync::oneshot;

    use super::*;

    fn small() -> Arc<Load> {
        Load::new(Limits { running: 1, queued: 1, retry_after: Duration::from_millis(250) })
    }

    fn unexpected(panic: &str) -> ToolError {
        ToolError::new(ErrorCode::Internal, panic)
    }

    /// results.md 6: so many run, so many wait, and beyond that `busy` at once.
    #[tokio::test]
    async fn beyond_the_bound_a_client_is_busy_at_once() {
        let client = small().client("a");
        let running = client.place(pending()).await.unwrap();
        let (second, third) = tokio::join!(biased; async { client.place(pending()).await.map(|_| ()) }, async {
            let refused = client.place(pending()).await.unwrap_err();
            drop(running);
            refused
        });
        second.unwrap();
        assert_eq!(third.code(), ErrorCode::Busy);
        assert_eq!(third.to_json()["retry_after_ms"], 250);
        client.place(pending()).await.unwrap();
    }

    /// results.md 6: no client can starve another.
    #[tokio::test]
    async fn clients_have_places_of_their_own() {
        let load = small();
        let (a, b) = (load.client("a"), load.client("b"));
        let _held = a.place(pending()).await.unwrap();
        b.place(pending()).await.unwrap();
        let same = load.client("a");
        assert_eq!(same.place(ready(())).await.unwrap_err().certainty(), Some(Outcome::NotRun));
    }

    /// results.md 6: a cancelled call that had not begun never runs, and leaves the queue.
    #[tokio::test]
    async fn cancelled_in_the_queue_is_not_run() {
        let client = small().client("a");
        let held = client.place(pending()).await.unwrap();
        for _ in 0..3 {
            let error = client.place(ready(())).await.unwrap_err();
            assert_eq!((error.code(), error.retryable()), (ErrorCode::Cancelled, true));
        }
        drop(held);
        client.place(pending()).await.unwrap();
    }

    /// results.md 6: cancelling ends the wait; the work is told, goes on, and keeps its place until it ends.
    #[tokio::test]
    async fn cancelled_work_goes_on_by_itself() {
        let load = small();
        let client = load.client("a");
        let (token, (release, released)) = (CancellationToken::new(), oneshot::channel::<()>());
        let told = token.clone();
        let work: Work = Box::pin(async move {
            told.cancelled().await;
            released.await.unwrap();
            Ok(Json::Null)
        });
        let place = client.place(pending()).await.unwrap();
        let error = client.run(place, work, token, ready(()), unexpected).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Cancelled);
        assert_eq!(load.detached(), 1);
        assert!(client.place(ready(())).await.is_err(), "the place is still taken");
        release.send(()).unwrap();
        load.settled().await;
        client.place(pending()).await.unwrap();
    }

    /// A panic is the answer of one call.
    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let client = small().client("a");
        let place = client.place(pending()).await.unwrap();
        let work: Work = Box::pin(async { panic!("the shelf fell") });
        let error = client.run(place, work, CancellationToken::new(), pending(), unexpected).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (ErrorCode::Internal, "the shelf fell"));
        client.place(pending()).await.unwrap();
    }
}
