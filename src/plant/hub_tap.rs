//! Watching what a hub passes on between others, through its path `bus` (wire.md 11.2). A tap that is dropped is given
//! back to the hub, which ends it by itself soon after the window otherwise.

use std::{pin::Pin, time::Duration};

use tokio::{sync::oneshot, time::timeout};

use super::Plant;
use crate::{
    link::LinkId,
    node::{Call, CallError, Heard, Stream, Subscription},
    wire::{
        PeerName, Value,
        bus::{self, Mirrored},
    },
};

/// How long each step of opening may take: the subscription, the tap.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much longer than the window a tap lasts.
const SPARE: Duration = Duration::from_secs(10);

/// What a hub is asked to mirror.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Only what this peer sends or is sent.
    pub(super) peer: Option<String>,
    /// With what it carries.
    pub(super) payloads: bool,
    /// For how long.
    pub(super) window: Duration,
}

/// A tap on a hub.
pub(super) struct HubTap {
    pub(super) link: LinkId,
    pub(super) hub: PeerName,
    heard: Subscription,
    held: Held,
    /// The tap that is asked for anew after an interruption.
    asking: Option<Asking>,
}

type Asking = Pin<Box<dyn Future<Output = Result<Token, String>> + Send + Sync>>;

/// What was asked for, and what stands for it.
struct Held {
    plant: Plant,
    hub: PeerName,
    wanted: Wanted,
    token: Option<Token>,
}

/// What a hub gave for a tap. It is given back wherever it is dropped, also on its way to somebody who no longer waits.
struct Token {
    plant: Plant,
    hub: PeerName,
    text: Option<String>,
}

/// What a tap hears.
#[derive(Debug)]
pub(super) enum HubNews {
    /// Something was passed on.
    Mirrored(Mirrored),
    /// It is mirrored again.
    Up,
    /// Nothing is mirrored until [`HubNews::Up`], and why.
    Down(String),
    /// So many messages were dropped because we were too slow.
    Dropped(u64),
    /// The hub sent what cannot be used.
    Nonsense(String),
}

impl HubTap {
    /// Opens one, or says why there is none.
    pub(super) async fn open(plant: &Plant, link: LinkId, hub: PeerName, wanted: Wanted) -> Result<Self, String> {
        let stream = Stream { peer: hub.clone(), namespace: bus::PATH.into(), event: bus::FRAME.into() };
        let mut heard = plant.node().subscribe(stream).map_err(|error| error.to_string())?;
        match timeout(PATIENCE, attached(&mut heard)).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Err(why),
            Err(_) => return Err(format!("{} does not answer", hub.as_str())),
        }
        let mut held = Held { plant: plant.clone(), hub: hub.clone(), wanted, token: None };
        held.token = Some(held.tapped().await?);
        Ok(Self { link, hub, heard, held, asking: None })
    }

    /// What is heard next. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> HubNews {
        loop {
            let heard = match &mut self.asking {
                Some(asking) => tokio::select! {
                    tapped = asking.as_mut() => {
                        self.asking = None;
                        match tapped {
                            Ok(token) => {
                                self.held.token = Some(token);
                                return HubNews::Up;
                            }
                            Err(why) => return HubNews::Down(why),
                        }
                    }
                    heard = self.heard.next() => heard,
                },
                None => self.heard.next().await,
            };
            if let Some(news) = self.take(heard) {
                return news;
            }
        }
    }

    /// What is heard already, without waiting.
    pub(super) fn try_next(&mut self) -> Option<HubNews> {
        loop {
            let heard = self.heard.try_next()?;
            if let Some(news) = self.take(Some(heard)) {
                return Some(news);
            }
        }
    }

    fn take(&mut self, heard: Option<Heard>) -> Option<HubNews> {
        match heard {
            Some(Heard::Event { args, .. }) => {
                // Before a new token is known, what comes is for others.
                let token = self.held.token.as_ref().filter(|_| self.asking.is_none())?.text();
                match bus::mirrored(args.into_iter().next().unwrap_or(Value::Null), token) {
                    Ok(mirrored) => mirrored.map(HubNews::Mirrored),
                    Err(problem) => Some(HubNews::Nonsense(problem)),
                }
            }
            // A hub that was away may have forgotten what it was asked.
            Some(Heard::Attached) => {
                self.asking = Some(self.held.tapped());
                None
            }
            Some(Heard::Failed(error)) => Some(HubNews::Down(why(&error))),
            Some(Heard::Interrupted) => {
                self.asking = None;
                Some(HubNews::Down("the hub, or the way to it, went away".into()))
            }
            Some(Heard::Missed(missed)) => Some(HubNews::Dropped(missed)),
            // Our peer has left: nothing comes any more.
            None => Some(HubNews::Down("this bridge has left the network".into())),
        }
    }
}

async fn attached(heard: &mut Subscription) -> Result<(), String> {
    loop {
        match heard.next().await {
            Some(Heard::Attached) => return Ok(()),
            Some(Heard::Failed(error)) => return Err(why(&error)),
            // Somebody else watches too: what is his comes before we are attached.
            Some(Heard::Event { .. } | Heard::Missed(_)) => {}
            Some(Heard::Interrupted) | None => return Err("the hub went away".into()),
        }
    }
}

impl Held {
    /// Asks for a tap. The token there was is given back first, should it still stand for something.
    fn tapped(&mut self) -> Asking {
        let (plant, hub, wanted) = (self.plant.clone(), self.hub.clone(), self.wanted.clone());
        let old = self.token.take();
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            if let Some(old) = old {
                old.back().await;
            }
            let asked = ask(&plant, &hub, &wanted).await;
            let _ = answer.send(asked.map(|text| Token { plant, hub, text: Some(text) }));
        });
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err("this bridge is leaving the network".into())) })
    }
}

impl Token {
    fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Gives it back.
    async fn back(mut self) {
        if let Some(text) = self.text.take() {
            give_back(&self.plant, &self.hub, text).await;
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let Some(text) = self.text.take() else { return };
        let (plant, hub) = (self.plant.clone(), self.hub.clone());
        // Whoever watched waits for nothing any more, and may have been given up.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { give_back(&plant, &hub, text).await });
        }
    }
}

async fn ask(plant: &Plant, hub: &PeerName, wanted: &Wanted) -> Result<String, String> {
    let filter = bus::filter(wanted.peer.as_deref(), wanted.payloads, wanted.window + SPARE);
    let answer = call(plant, hub, bus::TAP, filter).await.map_err(|error| why(&error))?;
    let token = answer.as_ref().and_then(bus::token).map(str::to_owned);
    token.ok_or_else(|| format!("{} gave no token", hub.as_str()))
}

/// Bounded. A hub that does not answer ends the tap when its time is up.
async fn give_back(plant: &Plant, hub: &PeerName, token: String) {
    if let Err(error) = call(plant, hub, bus::UNTAP, token.into()).await {
        tracing::debug!(hub = hub.as_str(), %error, "a tap was not given back; it ends by itself");
    }
}

async fn call(plant: &Plant, hub: &PeerName, method: &str, argument: Value) -> Result<Option<Value>, CallError> {
    let call = Call {
        peer: hub.clone(),
        namespace: bus::PATH.into(),
        method: method.into(),
        args: vec![argument],
        timeout: Some(PATIENCE),
        idempotency_key: None,
    };
    plant.node().call(call).await.map(|answer| answer.value)
}

/// Why a hub mirrors nothing for us.
fn why(error: &CallError) -> String {
    match error {
        CallError::Refused(error) if matches!(error.code.as_str(), "ClassNotFound" | "MethodNotFound") => {
            "the hub does not mirror what it passes on: it serves no `bus`".into()
        }
        CallError::Refused(error) if matches!(error.code.as_str(), "Unauthorized" | "Forbidden") => {
            format!("the hub does not let this bridge watch: {}", error.code)
        }
        other => other.to_string(),
    }
}
