//! What runs when somebody calls: arguments out of the call, one transition of the model, and what it has to tell.
//!
//! A model is locked until what it has to tell is told, so that states are told in the order they were in.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{Mutex, Notify},
    time::{Instant, sleep, sleep_until},
};

use super::{
    line::Line,
    loaves::Baked,
    news::Event,
    oven::{Door, Oven},
};
use crate::{
    node::{Commit, Failure, Incoming, Node, Service, ServiceFuture},
    wire::{Map, Value},
};

/// The oven, and the clock it lives by.
#[derive(Clone, Debug)]
pub(super) struct OvenService {
    oven: Arc<Mutex<Oven>>,
    first_state: Map,
    started: Instant,
    /// Somebody touched the oven: what was the next thing to happen may be another.
    touched: Arc<Notify>,
    /// No loaf comes out well.
    bake_fails: Arc<AtomicBool>,
}

impl OvenService {
    pub(super) fn new() -> Self {
        let oven = Oven::new(Duration::ZERO);
        let first_state = oven.state();
        let oven = Arc::new(Mutex::new(oven));
        Self { oven, first_state, started: Instant::now(), touched: Arc::default(), bake_fails: Arc::default() }
    }

    /// The state to begin with.
    pub(super) fn first_state(&self) -> Map {
        self.first_state.clone()
    }

    /// Has every loaf fail that is in, or put in; or none.
    pub(super) fn set_bake_fails(&self, fails: bool) {
        self.bake_fails.store(fails, Ordering::Relaxed);
    }

    /// Lets time pass in the oven for as long as it is polled. While nothing moves it sleeps.
    pub(super) async fn let_time_pass(self, node: Node) {
        loop {
            let due = self.oven.lock().await.next_change();
            let ripe = async {
                match due.and_then(|due| self.started.checked_add(due)) {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = ripe => {}
                () = self.touched.notified() => continue,
            }
            let mut oven = self.oven.lock().await;
            oven.advance(self.started.elapsed());
            let news = oven.take_news();
            tell(&node, OVEN, news).await;
        }
    }

    fn transition(oven: &mut Oven, now: Duration, call: &Incoming) -> Result<Option<Value>, Failure> {
        let args = Args(&call.args);
        let value: Value = match call.method.as_str() {
            "read" => oven.read(now).into(),
            "setSetpoint" => oven.set_setpoint(now, args.number(0)?).into(),
            "setTopSetpoint" => oven.set_top_setpoint(now, args.number(0)?).into(),
            "setMode" => {
                let on = match args.text(0)? {
                    "idle" => false,
                    "heating" => true,
                    other => {
                        return Err(unusable(0, &format!("'{other}' is not set; it is what the oven does by itself")));
                    }
                };
                oven.set_heating(now, on)?.as_str().into()
            }
            "calibrate" => oven.calibrate(now, args.number(0)?).into(),
            "setDoor" => {
                let door = Door::parse(args.text(0)?).ok_or_else(|| unusable(0, "a door is open or closed"))?;
                oven.set_door(now, door).as_str().into()
            }
            "setTag" => oven.set_tag(now, args.text(0)?, args.number(1)?)?.into(),
            "startBatch" => {
                let (recipe, loaves) = (args.text(0)?, args.integer(1)?);
                let mut batch = Map::new();
                batch.insert("batch", oven.start_batch(now, recipe, loaves)?);
                batch.insert("recipe", recipe);
                batch.insert("loaves", loaves);
                batch.into()
            }
            "stampLot" => lot(args.date(0)?, args.bytes(1)?)?.into(),
            // The lamp is at the oven: who stands there sees it, and nothing else shows it.
            "blinkLamp" => return Ok(None),
            _ => return Err(unknown(call)),
        };
        Ok(Some(value))
    }
}

impl OvenService {
    /// Bakes a loaf: what is refused is refused at once, the rest comes later.
    async fn bake(self, node: Node, call: Incoming) -> Result<Option<Value>, Failure> {
        let recipe = Args(&call.args).text(0)?;
        let now = self.started.elapsed();
        let number = self.oven.lock().await.loaves(now)?.start(now, recipe)?;
        let later = match node.answer_later(call.run, None).await {
            Ok(later) => later,
            Err(failure) => {
                if let Ok(loaves) = self.oven.lock().await.loaves(now) {
                    loaves.take_out(number);
                }
                return Err(failure);
            }
        };
        loop {
            if self.bake_fails.load(Ordering::Relaxed) {
                if let Ok(loaves) = self.oven.lock().await.loaves(self.started.elapsed()) {
                    loaves.take_out(number);
                }
                return Err(Failure::exception("the flame went out: the loaf is lost"));
            }
            let baked = self.oven.lock().await.loaf(self.started.elapsed(), number);
            match baked {
                Baked::Partly(percent) => later.progress(percent.into()).await,
                Baked::Spoilt => return Err(Failure::exception("the door was opened: the loaf is spoilt")),
                Baked::Done(celsius) => {
                    later.progress(100.into()).await;
                    let mut loaf = Map::new();
                    loaf.insert("loaf", number);
                    loaf.insert("recipe", recipe);
                    loaf.insert("celsius", celsius);
                    return Ok(Some(loaf.into()));
                }
            }
            sleep(LOOK).await;
        }
    }
}

impl Service for OvenService {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        let this = self.clone();
        if call.method == "bake" {
            return Box::pin(this.bake(node, call));
        }
        Box::pin(async move {
            let mut oven = this.oven.lock().await;
            let result = Self::transition(&mut oven, this.started.elapsed(), &call);
            let news = oven.take_news();
            tell(&node, OVEN, news).await;
            drop(oven);
            this.touched.notify_one();
            result
        })
    }
}

/// What is stamped on a lot: when it was baked, until when it is good, and the label as it came.
fn lot(baked: i64, label: Bytes) -> Result<Map, Failure> {
    let good = baked.checked_add(SHELF_LIFE_MS).filter(|date| *date <= LAST_DATE_MS);
    let good = good.ok_or_else(|| unusable(0, "bread baked then outlives the calendar"))?;
    let mut lot = Map::new();
    lot.insert("baked", Value::Date(baked));
    lot.insert("bestBefore", Value::Date(good));
    lot.insert("label", Value::Bytes(label));
    Ok(lot)
}

/// The packaging line.
#[derive(Clone, Debug)]
pub(super) struct LineService {
    line: Arc<Mutex<Line>>,
    first_state: Map,
}

impl LineService {
    pub(super) fn new() -> Self {
        let line = Line::new();
        let first_state = line.state();
        Self { line: Arc::new(Mutex::new(line)), first_state }
    }

    /// The state to begin with.
    pub(super) fn first_state(&self) -> Map {
        self.first_state.clone()
    }

    fn transition(line: &mut Line, call: &Incoming) -> Result<Option<Value>, Failure> {
        let args = Args(&call.args);
        let value: Value = match call.method.as_str() {
            "read" => line.state().into(),
            "setSpeed" => line.set_speed(args.number(0)?)?.into(),
            "pack" => line.pack(args.integer(0)?)?.into(),
            "clearJam" => {
                line.clear_jam();
                return Ok(None);
            }
            _ => return Err(unknown(call)),
        };
        Ok(Some(value))
    }
}

impl Service for LineService {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        let this = self.clone();
        Box::pin(async move {
            let mut line = this.line.lock().await;
            let result = Self::transition(&mut line, &call);
            let news = line.take_news();
            tell(&node, LINE, news).await;
            result
        })
    }
}

/// The label printer: it counts what it printed.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelService {
    printed: Arc<Mutex<i64>>,
}

impl Service for LabelService {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        let this = self.clone();
        Box::pin(async move {
            let args = Args(&call.args);
            match call.method.as_str() {
                "preview" => Ok(Some(format!("[ {} ]", args.text(0)?).into())),
                "print" => {
                    let (text, copies) = (args.text(0)?, args.integer(1)?);
                    let mut printed = this.printed.lock().await;
                    *printed = printed.saturating_add(copies);
                    node.emit("labels", "printed", vec![text.into(), copies.into()]).await;
                    Ok(Some((*printed).into()))
                }
                _ => Err(unknown(&call)),
            }
        })
    }
}

/// A scale with a pallet on it.
#[derive(Clone, Debug, Default)]
pub(super) struct ScaleService {
    tared: Arc<Mutex<bool>>,
}

impl Service for ScaleService {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        let this = self.clone();
        Box::pin(async move {
            let mut tared = this.tared.lock().await;
            match call.method.as_str() {
                "weigh" => {
                    let kg: Value = if *tared { 0.0 } else { PALLET_KG }.into();
                    // No contract declares it, so it is counted only from when somebody asks for it.
                    node.emit("scale", "settled", vec![kg.clone()]).await;
                    Ok(Some(kg))
                }
                // Nothing is declared about it, so it takes whatever it is given.
                "tare" => {
                    *tared = true;
                    Ok(None)
                }
                _ => Err(unknown(&call)),
            }
        })
    }
}

/// Tells what a model had to tell: the state first, then what happened.
pub(super) fn tell(
    node: &Node,
    namespace: &'static str,
    (state, events): (Option<Map>, Vec<Event>),
) -> impl Future<Output = ()> + Send + use<> {
    let node = node.clone();
    async move {
        if let Some(state) = state {
            node.commit(namespace, Commit::State(state)).await;
        }
        for event in events {
            node.emit(namespace, event.name, event.args).await;
        }
    }
}

/// Arguments that were checked against the contract before the call came here. That they are what it says is looked at
/// again, because a model that trusts is one edit of the contract away from a panic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Args<'a>(pub(super) &'a [Value]);

impl<'a> Args<'a> {
    fn number(self, at: usize) -> Result<f64, Failure> {
        let number = self.0.get(at).and_then(Value::as_f64).filter(|number| !number.is_nan());
        number.ok_or_else(|| unusable(at, "expected a number"))
    }

    pub(super) fn integer(self, at: usize) -> Result<i64, Failure> {
        self.0.get(at).and_then(Value::as_i64).ok_or_else(|| unusable(at, "expected an integer"))
    }

    pub(super) fn text(self, at: usize) -> Result<&'a str, Failure> {
        self.0.get(at).and_then(Value::as_str).ok_or_else(|| unusable(at, "expected text"))
    }

    pub(super) fn flag(self, at: usize) -> Result<bool, Failure> {
        self.0.get(at).and_then(Value::as_bool).ok_or_else(|| unusable(at, "expected true or false"))
    }

    fn date(self, at: usize) -> Result<i64, Failure> {
        match self.0.get(at) {
            Some(Value::Date(date)) => Ok(*date),
            _ => Err(unusable(at, "expected a date")),
        }
    }

    fn bytes(self, at: usize) -> Result<Bytes, Failure> {
        match self.0.get(at) {
            Some(Value::Bytes(bytes)) => Ok(bytes.clone()),
            _ => Err(unusable(at, "expected bytes")),
        }
    }
}

pub(super) fn unusable(at: usize, why: &str) -> Failure {
    Failure::coded("InvalidParams", format!("argument {at}: {why}"))
}

pub(super) fn unknown(call: &Incoming) -> Failure {
    Failure::coded("MethodNotFound", format!("{}.{} is not exposed", call.namespace, call.method))
}

pub(super) const OVEN: &str = "oven";
const LINE: &str = "line";
/// How often is told how far a loaf is.
const LOOK: Duration = Duration::from_millis(250);
/// Bread is good for three days.
const SHELF_LIFE_MS: i64 = 3 * 24 * 60 * 60 * 1000;
/// The last instant that peers can hold as a date.
const LAST_DATE_MS: i64 = 8_640_000_000_000_000;
/// What stands on the scale.
const PALLET_KG: f64 = 312.5;
