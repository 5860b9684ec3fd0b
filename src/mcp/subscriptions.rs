//! Subscriptions to resources: a client is told that one may have changed, at most once a second each, and reads it if it
//! cares. On standard input a session of the older revisions subscribes (`resources/subscribe`); of the newest, a request
//! that stays open listens (`subscriptions/listen`), through either door.
//!
//! What comes while a client is told, or within the second after, is one piece of news: a client that reads slowly holds up
//! nobody and costs nothing. What it listened to is given up with it.

use std::{
    collections::{BTreeSet, HashMap},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer,
    model::{ErrorCode as RpcCode, ResourceUpdatedNotificationParam, SubscriptionFilter},
    service::{RequestContext, SubscriptionContext},
};
use serde_json::json;
use tokio::{
    task::{JoinHandle, JoinSet, consume_budget},
    time::{Instant, sleep_until},
};

use super::{
    context::Door,
    resources::{Resource, refused},
    server::Session,
    text,
};
use crate::plant::{News, Subject};

/// How many resources each client listens to.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<HashMap<Arc<str>, usize>>);

/// The places of what a client listens to; free again when dropped.
#[derive(Debug)]
struct Places {
    listeners: Arc<Listeners>,
    client: Arc<str>,
    count: usize,
}

impl Listeners {
    fn enter(self: &Arc<Self>, client: &Arc<str>, count: usize) -> Result<Places, ErrorData> {
        let mut held = self.held();
        let mine = held.get(client).copied().unwrap_or_default() + count;
        let all = held.values().sum::<usize>() + count;
        let (limit, whose) = if mine > PER_CLIENT { (PER_CLIENT, "this client") } else { (IN_ALL, "all clients") };
        if mine > PER_CLIENT || all > IN_ALL {
            let message =
                format!("{whose} may listen to {limit} resources; give up one that is not needed, then ask again");
            return Err(ErrorData::internal_error(
                message,
                Some(json!({"error": {"code": "limit_reached", "limit": limit}})),
            ));
        }
        held.insert(Arc::clone(client), mine);
        Ok(Places { listeners: Arc::clone(self), client: Arc::clone(client), count })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let mut held = self.listeners.held();
        let left = held.get(&self.client).map_or(0, |mine| mine.saturating_sub(self.count));
        if left > 0 {
            held.insert(Arc::clone(&self.client), left)
        } else {
            held.remove(&self.client)
        };
    }
}

/// What a session subscribed to, by address.
#[derive(Debug, Default)]
pub(super) struct Subscribed(Mutex<HashMap<String, Told>>);

/// One of them; it ends when dropped.
#[derive(Debug)]
struct Told {
    task: JoinHandle<()>,
    _place: Places,
}

impl Drop for Told {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Subscribed {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Told>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all of them.
    pub(super) fn end(&self) {
        let ended = std::mem::take(&mut *self.all());
        drop(ended);
    }
}

impl Session {
    /// `resources/subscribe`: answered once nothing is missed any more without being told.
    pub(super) async fn subscribe_to(&self, uri: String, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if self.door == Door::Http {
            return Err(ErrorData::new(RpcCode::METHOD_NOT_FOUND, NO_SESSION, None));
        }
        let subject = self.subject(&uri)?;
        if self.subscribed.all().contains_key(&uri) {
            return Ok(());
        }
        let place = self.front.listeners.enter(&self.client, 1)?;
        let news = tokio::select! {
            opened = self.front.plant.news_from_now(&subject) => opened.map_err(|error| refused(&uri, &error.into()))?,
            () = self.gone(&context) => return Err(ErrorData::internal_error("nobody waits for this any more", None)),
        };
        let (peer, closing, told) = (context.peer, self.closing(), uri.clone());
        let tell = move || {
            let (peer, update) = (peer.clone(), ResourceUpdatedNotificationParam::new(told.clone()));
            async move { peer.notify_resource_updated(update).await.is_ok() }
        };
        let task = tokio::spawn(async move {
            tokio::select! {
                () = pass_on(news, tell) => {}
                () = closing.cancelled() => {}
            }
        });
        self.subscribed.all().insert(uri, Told { task, _place: place });
        Ok(())
    }

    /// `resources/unsubscribe`.
    pub(super) fn unsubscribe_from(&self, uri: &str) {
        let ended = self.subscribed.all().remove(uri);
        drop(ended);
    }

    /// What of a wish to listen is granted: addresses that tell of changes and are there.
    pub(super) fn granted(&self, wished: &SubscriptionFilter) -> SubscriptionFilter {
        let mut uris = BTreeSet::new();
        for uri in wished.resource_subscriptions.iter().flatten() {
            let there = |subject: Subject| match subject {
                Subject::Watch(id) => self.front.plant.has_watch(&id),
                Subject::State { .. } | Subject::Status => true,
            };
            if uris.len() < PER_CLIENT && self.subject(uri).is_ok_and(there) {
                uris.insert(uri.clone());
            }
        }
        let mut granted = SubscriptionFilter::new();
        granted.resource_subscriptions = (!uris.is_empty()).then(|| uris.into_iter().collect());
        granted
    }

    /// `subscriptions/listen`: for as long as the request stays open.
    pub(super) async fn listens(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let uris: BTreeSet<String> = context.accepted().resource_subscriptions.iter().flatten().cloned().collect();
        let _places = self.front.listeners.enter(&self.client, uris.len().max(1))?;
        let mut telling = JoinSet::new();
        for uri in uris {
            let news = self.subject(&uri).ok().and_then(|subject| self.front.plant.news(&subject).ok());
            let sink = context.sink().clone();
            let tell = move || {
                let (sink, uri) = (sink.clone(), uri.clone());
                async move { sink.notify_resource_updated(uri).await.is_ok() }
            };
            telling.spawn(async move {
                match news {
                    Some(news) => pass_on(news, tell).await,
                    // It went, or there is no room: a read says which.
                    None => drop(tell().await),
                }
            });
        }
        let closing = self.closing();
        tokio::select! {
            () = context.cancelled() => {}
            () = closing.cancelled() => {}
            () = self.until.cancelled() => {}
        }
        Ok(())
    }

    /// What an address tells news of.
    fn subject(&self, uri: &str) -> Result<Subject, ErrorData> {
        match self.resource(uri)? {
            Resource::State { peer, namespace } => Ok(Subject::State { peer, namespace }),
            Resource::Status => Ok(Subject::Status),
            Resource::Watch { id } => Ok(Subject::Watch(id)),
            _ => {
                let shown = text::printable(uri, 200);
                let message = format!("{shown:?} does not tell of changes; plant://status, states and watches do");
                Err(ErrorData::invalid_params(message, Some(json!({"uri": shown}))))
            }
        }
    }
}

/// Tells of news until there is none any more, or nobody reads.
async fn pass_on<F: Future<Output = bool>>(mut news: News, tell: impl Fn() -> F) {
    let mut goes_on = news.moved().await;
    loop {
        let until = Instant::now() + BETWEEN;
        let mut turn = pin!(async {
            let read = tell().await;
            sleep_until(until).await;
            read
        });
        let mut more = false;
        let read = loop {
            tokio::select! {
                biased; // however fast news comes, the turn ends
                read = &mut turn => break read,
                moved = news.moved(), if goes_on => {
                    (more, goes_on) = (true, moved);
                    consume_budget().await;
                }
            }
        };
        if !read || !goes_on && !more {
            return;
        }
        if !more {
            goes_on = news.moved().await;
        }
    }
}

/// What a client of the older revisions is told over HTTP.
const NO_SESSION: &str = "over HTTP there is no session that updates could be sent to; use subscriptions/listen of 2026-07-28, or \
                          read the resource again";
/// The least time between two updates of one resource.
const BETWEEN: Duration = Duration::from_secs(1);
/// How many resources a client may listen to.
const PER_CLIENT: usize = 32;
/// How many resources may be listened to by all clients.
const IN_ALL: usize = 128;
