//! The bakery as a caller meets it, over a link in memory and with a clock that jumps.

use std::time::Duration;

use super::*;
use crate::{
    link::loopback,
    node::{Call, CallError, Heard, SNAPSHOT, Stream, Subscription},
    wire::Value,
};

/// Somebody who calls a peer of the demo.
struct Caller {
    node: Node,
    peer: Peer,
}

impl Caller {
    async fn of(start: impl FnOnce(Link) -> Result<Peer, PeerError>, name: &str) -> Self {
        let (ours, theirs) = loopback::pair(PeerName::mqtt("hmi").unwrap(), PeerName::mqtt(name).unwrap());
        let identity =
            Identity { name: PeerName::mqtt("hmi").unwrap(), serving: Serving::default(), exposed: Vec::new() };
        let (node, _) = Node::start(identity, vec![ours]);
        let peer = start(theirs).unwrap();
        let there = peer.node().name().clone();
        node.network_when(Duration::from_secs(5), |network| network.roster.get(&there).is_some()).await;
        Self { node, peer }
    }

    async fn bakery() -> Self {
        Self::of(Peer::bakery, BAKERY).await
    }

    async fn packaging() -> Self {
        Self::of(Peer::packaging, PACKAGING).await
    }

    async fn call(&self, namespace: &str, method: &str, args: Vec<Value>) -> Result<Value, CallError> {
        let peer = self.peer.node().name().clone();
        let timeout = Some(Duration::from_secs(5));
        let (namespace, method) = (namespace.into(), method.into());
        let call = Call { peer, namespace, method, args, timeout, idempotency_key: None };
        self.node.call(call).await.map(|answer| answer.value.unwrap_or(Value::Null))
    }

    /// The code and text of a refusal.
    async fn refusal(&self, namespace: &str, method: &str, args: Vec<Value>) -> (String, String) {
        match self.call(namespace, method, args).await {
            Err(CallError::Refused(error)) => (error.code, error.message),
            other => panic!("{namespace}.{method} was not refused: {other:?}"),
        }
    }

    fn listen(&self, namespace: &str, event: &str) -> Subscription {
        let peer = self.peer.node().name().clone();
        let stream = Stream { peer, namespace: namespace.into(), event: event.into() };
        self.node.subscribe(stream).unwrap()
    }

    async fn ended(self) {
        self.node.leave();
        self.peer.stop(Duration::from_secs(1)).await;
    }
}

/// The arguments of the next event, and its count.
async fn next(subscription: &mut Subscription) -> (Vec<Value>, Option<i64>) {
    loop {
        match subscription.next().await.unwrap() {
            Heard::Event { args, stamp, .. } => return (args, stamp.map(|stamp| i64::try_from(stamp.seq).unwrap())),
            Heard::Attached => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The state in the next snapshot.
async fn next_state(subscription: &mut Subscription) -> Value {
    next(subscription).await.0[0].get("state").unwrap().clone()
}

async fn attached(subscription: &mut Subscription) {
    assert_eq!(subscription.next().await, Some(Heard::Attached));
}

/// Later answers and authority, as a caller meets them.
#[tokio::test(start_paused = true)]
async fn a_loaf_answers_later_and_calibration_needs_control() {
    let caller = Caller::bakery().await;
    let bake = || {
        let (peer, timeout) = (PeerName::mqtt(BAKERY).unwrap(), Some(Duration::from_secs(5)));
        let (namespace, method) = ("oven".into(), "bake".into());
        caller.node.call(Call { peer, namespace, method, args: vec!["rye".into()], timeout, idempotency_key: None })
    };
    let mut ticket = bake().await.unwrap().ticket.expect("a ticket");
    let loaf = ticket.log.wait_for(|log| log.ended.is_some()).await.unwrap();
    let told: Vec<f64> = loaf.progress.iter().map(|report| report.value.as_ref().unwrap().as_f64().unwrap()).collect();
    assert!(told.is_sorted() && told.first() == Some(&0.0) && told.last() == Some(&100.0), "{told:?}");
    let ended = format!("{:?}", loaf.ended);
    assert!(ended.contains("Resolved") && ended.contains("rye"), "{ended}");
    drop(loaf);
    let mut ticket = bake().await.unwrap().ticket.expect("a ticket");
    assert_eq!(caller.refusal("oven", "bake", vec!["rye".into()]).await.0, "Forbidden", "one at a time");
    caller.call("oven", "setDoor", vec!["open".into()]).await.unwrap();
    let spoilt = ticket.log.wait_for(|log| log.ended.is_some()).await.unwrap();
    assert!(format!("{:?}", spoilt.ended).contains("spoilt"));
    drop(spoilt);
    assert_eq!(caller.refusal("oven", "calibrate", vec![1.into()]).await.0, "NotInControl");
    caller.call("oven", "$acquire", vec![]).await.unwrap();
    assert_eq!(caller.call("oven", "calibrate", vec![1.into()]).await.unwrap().as_f64(), Some(1.0));
    caller.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_setter_clamps_and_the_snapshot_tells_what_it_took() {
    let caller = Caller::bakery().await;
    let mut snapshots = caller.listen("oven", SNAPSHOT);
    assert_eq!(next_state(&mut snapshots).await.get("setpoint").unwrap().as_f64(), Some(180.0));
    let taken = caller.call("oven", "setSetpoint", vec![9000.into()]).await.unwrap();
    assert_eq!(taken.as_f64(), Some(oven::MAXIMUM));
    assert_eq!(next_state(&mut snapshots).await.get("setpoint").unwrap().as_f64(), Some(oven::MAXIMUM));
    caller.call("oven", "setTopSetpoint", vec![Value::Float(210.5)]).await.unwrap();
    let zones = next_state(&mut snapshots).await.get("zones").cloned().unwrap();
    assert_eq!(zones.get("top").unwrap().get("setpoint").unwrap().as_f64(), Some(210.5));
    caller.call("oven", "setTag", vec!["line.2".into(), 4.into()]).await.unwrap();
    assert_eq!(next_state(&mut snapshots).await.get("tags").unwrap().get("line.2").unwrap().as_f64(), Some(4.0));
    caller.ended().await;
}

/// The interlock, seen from outside: what is told first is the state it leaves, and what happened is counted from 1.
#[tokio::test(start_paused = true)]
async fn opening_the_door_stops_the_heating_and_everybody_is_told() {
    let caller = Caller::bakery().await;
    let mut doors = caller.listen("oven", "doorChanged");
    attached(&mut doors).await;
    let mut snapshots = caller.listen("oven", SNAPSHOT);
    next(&mut snapshots).await;
    assert_eq!(caller.call("oven", "setMode", vec!["heating".into()]).await, Ok("heating".into()));
    assert_eq!(next_state(&mut snapshots).await.get("mode"), Some(&"heating".into()));
    for number in [1, 2, 3] {
        let state = next_state(&mut snapshots).await;
        let celsius = state.get("celsius").unwrap().as_f64().unwrap();
        let expected = 20.0 + 4.0 * f64::from(number);
        assert!((celsius - expected).abs() < 0.5, "after {number} s it is {celsius}");
    }
    assert_eq!(caller.call("oven", "setDoor", vec!["open".into()]).await, Ok("open".into()));
    let state = next_state(&mut snapshots).await;
    assert_eq!((state.get("mode"), state.get("door")), (Some(&"idle".into()), Some(&"open".into())));
    assert_eq!(next(&mut doors).await, (vec!["open".into()], Some(1)));
    let (code, text) = caller.refusal("oven", "setMode", vec!["heating".into()]).await;
    assert_eq!(code, "Forbidden");
    assert!(text.contains("door") && text.contains("setDoor"), "{text}");
    caller.call("oven", "setDoor", vec!["open".into()]).await.unwrap();
    caller.call("oven", "setDoor", vec!["closed".into()]).await.unwrap();
    assert_eq!(next(&mut doors).await, (vec!["closed".into()], Some(2)), "an open door is not opened again");
    caller.ended().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_oven_says_nothing() {
    let caller = Caller::bakery().await;
    let mut snapshots = caller.listen("oven", SNAPSHOT);
    next(&mut snapshots).await;
    attached(&mut snapshots).await;
    // The clock jumps: anything due within the hour would come first.
    let silence = timeout(Duration::from_hours(1), snapshots.next()).await;
    assert!(silence.is_err(), "{silence:?}");
    caller.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_refused_cold_and_done_when_it_is_done() {
    let caller = Caller::bakery().await;
    let mut done = caller.listen("oven", "batchDone");
    attached(&mut done).await;
    let (code, text) = caller.refusal("oven", "startBatch", vec!["rye".into(), 40.into()]).await;
    assert_eq!(code, "Forbidden");
    assert!(text.contains("setpoint"), "{text}");
    caller.call("oven", "setMode", vec!["heating".into()]).await.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let batch = caller.call("oven", "startBatch", vec!["rye".into(), 40.into()]).await.unwrap();
    assert_eq!(batch.get("batch"), Some(&Value::Int(1)));
    assert_eq!(next(&mut done).await, (vec![1.into(), "rye".into(), 40.into()], Some(1)));
    caller.ended().await;
}

#[tokio::test(start_paused = true)]
async fn arguments_are_checked_before_anything_runs() {
    let caller = Caller::bakery().await;
    for (method, args) in [
        ("setSetpoint", vec!["hot".into()]),
        ("setSetpoint", vec![Value::Int(-1)]),
        ("setSetpoint", vec![]),
        ("setMode", vec!["holding".into()]),
        ("setTag", vec!["1".into(), 1.into()]),
        ("startBatch", vec!["rye".into(), Value::Float(1.5)]),
        ("stampLot", vec!["yesterday".into(), "x".into()]),
    ] {
        assert_eq!(caller.refusal("oven", method, args).await.0, "InvalidParams", "{method}");
    }
    assert_eq!(caller.refusal("oven", "explode", vec![]).await.0, "MethodNotFound");
    assert_eq!(caller.refusal("cellar", "read", vec![]).await.0, "ClassNotFound");
    let reading = caller.call("oven", "read", vec![]).await.unwrap();
    assert_eq!(reading.get("setpoint").unwrap().as_f64(), Some(180.0));
    caller.ended().await;
}

#[tokio::test(start_paused = true)]
async fn dates_and_bytes_come_back_and_a_void_method_returns_nothing() {
    let caller = Caller::bakery().await;
    let label = Value::Bytes(vec![0, 0xff, 7].into());
    let lot = caller.call("oven", "stampLot", vec![Value::Date(86_400_000), label.clone()]).await.unwrap();
    assert_eq!(lot.get("baked"), Some(&Value::Date(86_400_000)));
    assert_eq!(lot.get("bestBefore"), Some(&Value::Date(4 * 86_400_000)));
    assert_eq!(lot.get("label"), Some(&label));
    let last = vec![Value::Date(8_640_000_000_000_000), label];
    assert_eq!(caller.refusal("oven", "stampLot", last).await.0, "InvalidParams");
    assert_eq!(caller.call("oven", "blinkLamp", vec![]).await, Ok(Value::Null));
    caller.ended().await;
}

#[tokio::test(start_paused = true)]
async fn packaging_jams_prints_and_weighs() {
    let caller = Caller::packaging().await;
    let mut jams = caller.listen("line", "jammed");
    attached(&mut jams).await;
    let mut snapshots = caller.listen("line", SNAPSHOT);
    next(&mut snapshots).await;
    assert_eq!(caller.call("line", "pack", vec![201.into()]).await, Ok(Value::Int(200)));
    assert_eq!(next(&mut jams).await, (vec![200.into()], Some(1)));
    assert_eq!(next_state(&mut snapshots).await.get("jam"), Some(&true.into()));
    assert_eq!(caller.refusal("line", "setSpeed", vec![5.into()]).await.0, "Forbidden");
    assert_eq!(caller.call("line", "clearJam", vec![]).await, Ok(Value::Null));
    assert_eq!(caller.call("labels", "print", vec!["rye".into(), 3.into()]).await, Ok(Value::Int(3)));
    assert_eq!(caller.call("labels", "print", vec!["rye".into(), 2.into()]).await, Ok(Value::Int(5)));
    assert_eq!(caller.call("scale", "weigh", vec![]).await.unwrap().as_f64(), Some(312.5));
    // Nobody described it, so nothing is checked.
    assert_eq!(caller.call("scale", "tare", vec!["anything".into()]).await, Ok(Value::Null));
    assert_eq!(caller.call("scale", "weigh", vec![]).await.unwrap().as_f64(), Some(0.0));
    caller.ended().await;
}

/// Both halves of the store are one: what is written in one is read in the other, and told.
#[tokio::test(start_paused = true)]
async fn what_is_written_in_one_half_is_read_in_the_other() {
    let caller = Caller::packaging().await;
    let mut snapshots = caller.listen("workOrders", SNAPSHOT);
    next(&mut snapshots).await;
    let row = json::from_json(serde_json::json!({"product": "rye", "quantity": 7}));
    let made = caller.call("workOrders.write", "create", vec!["orders".into(), row]).await.unwrap();
    assert_eq!(made.get("id"), Some(&"1004".into()));
    assert_eq!(next_state(&mut snapshots).await.get("orders").unwrap().as_map().unwrap().len(), 4);
    let open = json::from_json(serde_json::json!({"filter": {"field": "status", "op": "eq", "operand": "open"}}));
    let resource = Value::Array(vec!["state".into(), "orders".into()]);
    let page = caller.call("workOrders", "$data", vec!["getList".into(), resource, open]).await.unwrap();
    assert_eq!(page.get("ids"), Some(&Value::Array(["1001", "1003", "1004"].map(Value::from).to_vec())));
    assert_eq!(caller.call("workOrders", "start", vec![1004.into()]).await, Ok("started".into()));
    assert_eq!(caller.refusal("workOrders", "start", vec![9.into()]).await.0, "Exception");
    caller.ended().await;
}

/// A late store is what an unknown outcome is made of: nothing was answered, and the row is there.
#[tokio::test(start_paused = true)]
async fn a_late_store_has_written_what_it_did_not_answer() {
    let caller = Caller::packaging().await;
    assert_eq!(caller.call("workOrders", "setDelay", vec![9000.into()]).await, Ok(Value::Int(9000)));
    let row = json::from_json(serde_json::json!({"product": "rye", "quantity": 7}));
    let made = caller.call("workOrders.write", "create", vec!["orders".into(), row]).await;
    assert!(matches!(made, Err(CallError::UnknownOutcome(_))), "{made:?}");
    let resource = Value::Array(vec!["state".into(), "orders".into()]);
    let page = caller.call("workOrders", "$data", vec!["getList".into(), resource]).await.unwrap();
    assert_eq!(page.get("total"), Some(&4.into()));
    caller.ended().await;
}

/// Every namespace says of itself what its contract says; the shared capability is the parent of both machines.
#[tokio::test(start_paused = true)]
async fn the_description_holds_everything_that_is_declared() {
    for (caller, expected) in [
        (Caller::bakery().await, vec!["faults", "msgrpc", "oven"]),
        (
            Caller::packaging().await,
            vec!["faults", "labels", "line", "msgrpc", "scale", "workOrders", "workOrders.write"],
        ),
    ] {
        let description = caller.call("msgrpc", "describe", vec![]).await.unwrap();
        let namespaces = description.get("namespaces").unwrap().as_array().unwrap().to_vec();
        let names: Vec<&str> = namespaces.iter().map(|one| one.get("name").unwrap().as_str().unwrap()).collect();
        assert_eq!(names, expected);
        let machines = namespaces.iter().filter(|one| {
            let capabilities = one.get("capabilities").and_then(Value::as_array).unwrap_or_default();
            capabilities.contains(&"@plantbridge/contracts/Machine".into())
        });
        assert_eq!(machines.count(), 1);
        assert_eq!(description.get("validating"), Some(&true.into()));
        caller.ended().await;
    }
}

/// The contracts are samples to be read: written as contracts are written, two spaces and a newline at the end.
#[test]
fn contracts_are_written_as_contracts_are() {
    for text in
        [include_str!("../../../contracts/bakery.types.json"), include_str!("../../../contracts/packaging.types.json")]
    {
        let json: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(text, format!("{}\n", serde_json::to_string_pretty(&json).unwrap()));
    }
}
