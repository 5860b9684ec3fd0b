//! Fakes, below the network: what a script may say, and what a fake then does, called through a link in memory.

use std::{sync::Arc, time::Duration};

use serde_json::{Value as Json, json};
use tokio::time::Instant;

use super::{
    Plan, PlanFault,
    actor::Actor,
    live::{Live, Terms},
    ways::Gates,
};
use crate::{
    contract::{
        Contract,
        testing::{json as parsed, unordered, value, vectors},
    },
    link::loopback,
    node::{Answer, Call, CallError, Heard, Identity, Node, SNAPSHOT, Serving, Stream, Subscription, TicketUpdate},
    wire::{
        PeerName, Value,
        json::{from_json, to_json},
    },
};

/// The contract of the recorded fake: what its description shows, and the component that the recording left out.
fn recorded_contract() -> Json {
    let file = parsed(include_str!("../../tests/vectors/sem-describe.json"));
    let (described, component) = (&file["schemas"]["described"], &file["schemas"]["component"]);
    let mut contract = described.clone();
    contract["namespaces"]["oven"] = component["namespaces"]["oven"].clone();
    for (name, node) in component["types"].as_object().into_iter().flatten() {
        contract["types"][name] = node.clone();
    }
    contract
}

fn example() -> Json {
    vectors(include_str!("../../tests/vectors/sem-example-contract.json"))["contract"].clone()
}

fn planned(contract: &Json, script: &Json) -> Result<Plan, PlanFault> {
    let contract = Contract::parse_to_serve(&from_json(contract.clone())).expect("a contract");
    Plan::new(Arc::new(contract), Some(&value(script)), 0, false)
}

/// What is wrong with a script, as `pointer: what`.
fn faults(contract: &Json, script: &Json) -> Vec<String> {
    match planned(contract, script) {
        Ok(_) => Vec::new(),
        Err(PlanFault::Script(problems)) => problems.iter().map(ToString::to_string).collect(),
        Err(other) => vec![other.to_string()],
    }
}

/// A fake beside a peer that calls it.
struct Double {
    hmi: Node,
    live: Arc<Live>,
}

impl Double {
    fn new(contract: &Json, script: &Json) -> Self {
        let plan = planned(contract, script).expect("a script that fits");
        let name = |text| PeerName::mqtt(text).unwrap();
        let (ours, theirs) = loopback::pair(name("hmi"), name("double"));
        let (shape, serving) = (plan.shape(), plan.serving());
        let actor = Actor::new(name("double"), plan, None);
        let identity = Identity { name: name("double"), serving, exposed: actor.exposed() };
        let (node, _running) = Node::start_hosted(identity, vec![theirs]);
        let identity = Identity { name: name("hmi"), serving: Serving::default(), exposed: Vec::new() };
        let (hmi, _running) = Node::start(identity, vec![ours]);
        let live = Live::new(node, actor, Terms { shape, gates: Gates::default(), key: None }, 0);
        Self { hmi, live: Arc::new(live) }
    }

    async fn ask(&self, target: &str, args: Json) -> Result<Answer, CallError> {
        let (namespace, method) = target.rsplit_once('.').unwrap();
        let Value::Array(args) = value(&args) else { panic!("a list") };
        let call = Call {
            peer: PeerName::mqtt("double").unwrap(),
            namespace: namespace.into(),
            method: method.into(),
            args,
            timeout: Some(Duration::from_secs(3)),
            idempotency_key: None,
        };
        self.hmi.network_when(Duration::from_secs(5), |network| network.roster.len() == 1).await;
        self.hmi.call(call).await
    }

    async fn call(&self, target: &str, args: Json) -> Json {
        match self.ask(target, args).await {
            Ok(answer) => to_json(&answer.value.unwrap_or(Value::Null)).unwrap(),
            Err(CallError::Refused(error)) => json!(format!("{}: {}", error.code, error.message)),
            Err(other) => json!(format!("{other:?}")),
        }
    }

    async fn listen(&self, namespace: &str, event: &str) -> Subscription {
        self.hmi.network_when(Duration::from_secs(5), |network| network.roster.len() == 1).await;
        let peer = PeerName::mqtt("double").unwrap();
        self.hmi.subscribe(Stream { peer, namespace: namespace.into(), event: event.into() }).unwrap()
    }

    /// Waits for a snapshot whose state holds `expected` at `pointer`.
    async fn shows(&self, snapshots: &mut Subscription, pointer: &str, expected: Json) {
        let mut last = Json::Null;
        let shown = async {
            while last.pointer(pointer) != Some(&expected) {
                last = heard(snapshots).await.0[0]["state"].clone();
            }
        };
        let in_time = tokio::time::timeout(Duration::from_mins(1), shown).await.is_ok();
        assert!(in_time, "{expected} is not shown at {pointer}: {last}");
    }
}

async fn heard(subscription: &mut Subscription) -> (Json, Option<u64>) {
    loop {
        match subscription.next().await.expect("the node is there") {
            Heard::Event { args, stamp, .. } => {
                return (to_json(&Value::Array(args)).unwrap(), stamp.map(|stamp| stamp.seq));
            }
            Heard::Failed(error) => panic!("{error}"),
            Heard::Attached | Heard::Interrupted | Heard::Missed(_) => {}
        }
    }
}

async fn attached(subscription: &mut Subscription) {
    while !matches!(subscription.next().await, Some(Heard::Attached)) {}
}

/// Semantics 11.3, S-123, S-124: every recorded refusal. Code is refused before it is looked at, so that a handler that
/// would not compile is refused like one that would; and a script is refused whole, with where and what.
#[test]
fn s123_s124_every_recorded_refusal() {
    let file = vectors(include_str!("../../tests/vectors/sem-fake-peer.json"));
    let rows = file["refusals"].as_array().unwrap();
    let (handler, python) = (json!({"plant.read": "() => 1"}), json!({"program": "", "targets": []}));
    let code = "this script uses handlers, which run code it supplied";
    let ours = [
        ("only msgrpc", json!({}), "the contract describes no namespaces to serve"),
        ("empty", json!({}), "the contract describes no namespaces to serve"),
        ("handlers without permission", json!({"handlers": handler}), code),
        (
            "both without permission",
            json!({"handlers": handler, "python": python}),
            "this script uses handlers and python, which run code it supplied",
        ),
        ("handler does not compile", json!({"handlers": {"plant.read": "=>"}}), code),
        ("handler not a function", json!({"handlers": {"plant.read": "5"}}), code),
        (
            "emits unknown namespace",
            json!({"emits": [{"event": "nope.alarm", "every": 50}]}),
            "/emits/0/event: nothing called 'nope' to emit nope.alarm from; it has plant, oven",
        ),
        (
            "emits without namespace",
            json!({"emits": [{"event": "alarm", "every": 50}]}),
            "/emits/0/event: nothing called '' to emit alarm from; it has plant, oven",
        ),
    ];
    assert_eq!(rows.len(), ours.len());
    for (row, (label, script, text)) in rows.iter().zip(ours) {
        assert_eq!(row["label"], label);
        let contract = match label {
            "only msgrpc" => json!({"schema": 1, "namespaces": {"msgrpc": {"methods": {}}}}),
            "empty" => json!({"schema": 1, "namespaces": {}}),
            _ => recorded_contract(),
        };
        assert_eq!(faults(&contract, &script), [text], "{label}");
    }
}

/// Semantics 11.3: which scripts bring code along, as recorded.
#[test]
fn s123_every_recorded_use_of_code() {
    let file = vectors(include_str!("../../tests/vectors/sem-fake-generation.json"));
    let rows = file["execUsedBy"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    for row in rows {
        let uses: Vec<String> =
            row["expect"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().into()).collect();
        match planned(&recorded_contract(), &row["script"]) {
            Err(PlanFault::Code(code)) => assert_eq!(code, uses, "{row}"),
            // `state` is ours: what components hold at first. The recorded peer hands it to handlers.
            Err(PlanFault::Script(_)) => assert_eq!(row["script"], json!({"state": {"a": 1}})),
            Err(other) => panic!("{other}"),
            Ok(_) => assert!(uses.is_empty(), "{row}"),
        }
    }
}

/// What the recorded fake says of itself, and what ours says more: a component is one.
#[tokio::test(start_paused = true)]
async fn s126_a_fake_describes_itself_as_recorded_and_its_components_too() {
    let file = vectors(include_str!("../../tests/vectors/sem-fake-peer.json"));
    let recorded = file["describe"].as_array().unwrap();
    let double = Double::new(&recorded_contract(), &json!({}));
    let described = double.ask("msgrpc.describe", json!([])).await.unwrap().value.unwrap();
    let served = described.get("namespaces").and_then(Value::as_array).unwrap();
    assert_eq!(recorded.len(), 2);
    for expected in recorded {
        let ours = served.iter().find(|one| one.get("name") == Some(&value(&expected["name"]))).unwrap();
        let Value::Map(mut ours) = ours.clone() else { panic!("a map") };
        let component = ours.remove("component");
        assert_eq!(component.is_some(), expected["name"] == "oven");
        assert_eq!(unordered(ours.into()), unordered(value(expected)), "{expected}");
    }
    assert_eq!(described.get("validating"), Some(&true.into()));
    let shape = double.hmi.network().roster.iter().next().unwrap().1.shape.clone();
    assert_eq!(shape.as_deref(), Some(double.live.terms.shape.as_str()), "it is known before it is announced");
}

/// The recorded calls: those of handlers are for whoever may run code; a code nobody knows is refused at the start, where
/// the recorded fake answers `Exception`.
#[tokio::test(start_paused = true)]
async fn s013_the_recorded_calls() {
    let file = vectors(include_str!("../../tests/vectors/sem-fake-peer.json"));
    let calls = file["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 5);
    let scripted: Vec<&Json> = calls.iter().filter(|row| !row["label"].as_str().unwrap().contains("handler")).collect();
    assert_eq!(scripted.len(), 2);
    assert_eq!(scripted[0]["label"], "state persists", "of handlers too");
    let staged = scripted[1];
    assert_eq!(staged["label"], "unknown failure code becomes Exception");
    let unknown = faults(&recorded_contract(), &json!({"fails": {"plant.dispense": "ENOENT"}}));
    assert!(unknown[0].starts_with("/fails/plant.dispense: a method fails with Exception or one of "), "{unknown:?}");
    let double = Double::new(&recorded_contract(), &json!({"fails": {"plant.dispense": "Exception"}}));
    assert_eq!(double.call("plant.dispense", json!([])).await, staged["message"]);
}

/// S-127, the recorded emissions: what is not given is generated, and all is counted. An event that the contract does not
/// declare is refused at the start, and so is a pause below the recorded floor, which the recorded fake raises.
#[tokio::test(start_paused = true)]
async fn s127_the_recorded_emissions() {
    let file = vectors(include_str!("../../tests/vectors/sem-fake-peer.json"));
    assert_eq!(file["floorMs"], 50);
    let emits = json!([{"event": "plant.alarm", "every": 50}, {"event": "plant.idle", "every": 70}]);
    let double = Double::new(&recorded_contract(), &json!({ "emits": emits }));
    for (at, name) in ["alarm", "idle"].into_iter().enumerate() {
        let mut events = double.listen("plant", name).await;
        attached(&mut events).await;
        for seq in 1..=3 {
            double.live.emit(at).await;
            assert_eq!(heard(&mut events).await, (file["emitted"][name]["args"].clone(), Some(seq)));
        }
    }
    assert_eq!(file["emitted"].as_object().unwrap().len(), 3);
    let undeclared = faults(&recorded_contract(), &json!({"emits": [{"event": "plant.undeclared", "every": 50}]}));
    assert_eq!(undeclared, ["/emits/0/event: plant declares no event 'undeclared'; it declares alarm, idle"]);
}

/// S-124: everything a script can get wrong, with where and what to say instead.
#[test]
fn s124_a_script_is_refused_with_where_and_what() {
    let wrong = |script: Json, expected: &[&str]| {
        let faults = faults(&example(), &script);
        assert_eq!(faults.len(), expected.len(), "{script}: {faults:?}");
        for (fault, expected) in faults.iter().zip(expected) {
            assert!(fault.starts_with(expected), "{script}: {fault}");
        }
    };
    wrong(json!([]), &["expected an object"]);
    wrong(json!({"retruns": {}}), &["/retruns: a script has returns, fails, emits, rows and state"]);
    wrong(json!({"returns": []}), &["/returns: expected an object"]);
    wrong(
        json!({"returns": {"boiler.toString": 1}}),
        &["/returns/boiler.toString: the contract has no method 'toString'"],
    );
    wrong(
        json!({"returns": {"__proto__.x": 1}}),
        &["/returns/__proto__.x: the contract has no namespace '__proto__'; it has boiler"],
    );
    wrong(json!({"returns": {"read": 1}}), &["/returns/read: the contract has no namespace ''"]);
    wrong(
        json!({"returns": {"boiler.read": {"celsius": 999, "quality": "good"}}}),
        &[
            "/returns/boiler.read: boiler.read returned a value its own schema forbids: result.celsius: 999 is above the maximum 400",
        ],
    );
    wrong(
        json!({"returns": {"boiler.report": {"id": "x", "expiresAt": 0}}}),
        &["/returns/boiler.report: boiler.report returned a value its own schema forbids: result.pages: missing"],
    );
    wrong(json!({"fails": {"boiler.read": 5}}), &["/fails/boiler.read: a method fails with Exception or one of"]);
    wrong(json!({"fails": {"boiler.read": "Busy"}}), &["/fails/boiler.read: a method fails with Exception or one of"]);
    for every in [json!(null), json!("50"), json!(true)] {
        wrong(
            json!({"emits": [{"event": "boiler.alarm", "every": every}]}),
            &["/emits/0/every: expected a number of milliseconds"],
        );
    }
    wrong(json!({"emits": [{"event": "boiler.alarm"}]}), &["/emits/0/every: expected a number of milliseconds"]);
    wrong(json!({"emits": [{"event": "boiler.alarm", "every": 49.9}]}), &["/emits/0/every: 49.9 ms"]);
    wrong(json!({"emits": [{"event": "boiler.alarm", "every": -1}]}), &["/emits/0/every: -1 ms"]);
    wrong(
        json!({"emits": [{"event": "boiler.alarm", "every": 50, "params": ["hot", 9], "evry": 1}]}),
        &["/emits/0/evry: an entry of emits has", "/emits/0/params: argument 1: 9 is above the maximum 3"],
    );
    wrong(json!({"emits": [{"every": 50}, 7]}), &["/emits/0/event: expected", "/emits/1: expected an object"]);
    let many: Vec<Json> = (0..65).map(|_| json!({"event": "boiler.alarm", "every": 50})).collect();
    wrong(json!({ "emits": many }), &["/emits: 65 entries, and a fake emits at most 64 by itself"]);
    wrong(
        json!({"state": {"boiler": {"target": "hot"}}}),
        &["/state/boiler: with the samples of the rest: state.target: expected number"],
    );
    wrong(
        json!({"state": {"boiler": {"nope": 1}}}),
        &["/state/boiler: with the samples of the rest: state.nope: not part of this type"],
    );
    wrong(json!({"rows": {"boiler": {}}}), &["/rows/boiler: boiler has none of the methods of a store"]);
    let flood: serde_json::Map<_, _> = (0..80).map(|at| (format!("x.{at}"), json!(1))).collect();
    assert_eq!(faults(&example(), &json!({ "returns": flood })).last().unwrap(), "30 more problems are not listed");
}

/// S-128: what a generated value gets wrong is said, and so is a setter that has nothing to set.
#[test]
fn s128_what_may_surprise_is_said() {
    let contract = json!({"schema": 1, "types": {"Tag": {"kind": "string", "pattern": "^T-\\d+$"}}, "namespaces": {
        "p": {
            "methods": {
                "tag": {"params": [], "returns": {"kind": "ref", "name": "Tag"}, "semantics": "query"},
                "set": {"params": [{"kind": "number"}], "sets": "level", "semantics": "idempotent-command"},
            },
            "events": {"tagged": {"params": [{"kind": "ref", "name": "Tag"}]}},
        },
    }});
    let plan = planned(&contract, &json!({"emits": [{"event": "p.tagged", "every": 50}]})).unwrap();
    let [answer, setter, event] = plan.warnings() else { panic!("{:?}", plan.warnings()) };
    assert!(answer.starts_with("p.tag: its generated answer breaks the contract"), "{answer}");
    assert!(setter.starts_with("p.set declares that it sets 'level', which nothing here has"), "{setter}");
    assert!(event.starts_with("p.tagged: what it carries breaks the contract"), "{event}");
    let script = json!({"returns": {"p.tag": "T-1"}, "emits": [{"event": "p.tagged", "every": 50, "params": ["T-2"]}]});
    assert_eq!(planned(&contract, &script).unwrap().warnings().len(), 1);
}

/// Semantics 11.2, S-121: arguments, then fails, then returns, then what is generated.
#[tokio::test(start_paused = true)]
async fn s121_the_order_of_answers() {
    let script = json!({
        "returns": {"boiler.read": {"celsius": 21.5, "quality": "bad"}, "boiler.setTarget": false},
        "fails": {"boiler.setTarget": "Unauthorized"},
    });
    let double = Double::new(&example(), &script);
    assert_eq!(double.call("boiler.read", json!(["B-7"])).await, json!({"celsius": 21.5, "quality": "bad"}));
    let refused = double.call("boiler.read", json!(["x"])).await;
    assert_eq!(refused, r"InvalidParams: argument 0: does not match ^B-\d+$ (this server serves boiler@4)");
    let refused = double.call("boiler.setTarget", json!([900])).await;
    assert_eq!(refused, "InvalidParams: argument 0: 900 is above the maximum 200 (this server serves boiler@4)");
    let failed = double.call("boiler.setTarget", json!([90])).await;
    assert_eq!(failed, "Unauthorized: boiler.setTarget is set to fail");
    let plain = Double::new(&example(), &json!({}));
    assert_eq!(plain.call("boiler.read", json!(["B-7"])).await, json!({"celsius": 175, "quality": "good"}));
    assert_eq!(plain.call("boiler.explode", json!([])).await, "MethodNotFound: boiler.explode is not exposed");
    assert_eq!(plain.call("cellar.x", json!([])).await, "ClassNotFound: cellar.x is not exposed");
    assert_eq!(plain.live.actor.counts(), (1, 0), "what was refused before it ran was no deed of the fake");
}

/// S-085, semantics 7.5: a component shows itself from the start, a setter sets within bounds, and what fails sets nothing.
#[tokio::test(start_paused = true)]
async fn s085_a_component_is_observed_and_set() {
    let script = json!({"state": {"boiler": {"target": 60}}});
    let double = Double::new(&example(), &script);
    let mut snapshots = double.listen("boiler", SNAPSHOT).await;
    let (first, stamp) = heard(&mut snapshots).await;
    assert_eq!(stamp, None);
    assert_eq!(first[0]["state"], json!({"target": 60, "tags": {"sample": {"celsius": 175, "quality": "good"}}}));
    assert_eq!((&first[0]["props"], &first[0]["authority"]), (&json!({"unit": "sample"}), &json!({"generation": 0})));
    assert_eq!(double.call("boiler.setTarget", json!([75])).await, true, "what it answers is generated");
    double.shows(&mut snapshots, "/target", json!(75)).await;
    let rows = double.call("boiler.$data", json!(["getList", ["state", "tags"]])).await;
    assert_eq!(rows["ids"], json!(["sample"]));
    let failing = Double::new(&example(), &json!({"fails": {"boiler.setTarget": "Forbidden"}}));
    let mut snapshots = failing.listen("boiler", SNAPSHOT).await;
    failing.shows(&mut snapshots, "/target", json!(0)).await;
    assert_eq!(failing.call("boiler.setTarget", json!([75])).await, "Forbidden: boiler.setTarget is set to fail");
    let held = failing.call("boiler.$data", json!(["getList", ["state"]])).await;
    assert_eq!((&held["revision"], &held["data"][1]), (&json!(0), &json!(0)), "nothing was set: {held}");
    assert_eq!(failing.call("boiler.$acquire", json!([])).await["generation"], 1);
}

/// A setter whose state is narrower than its parameter brings the value within the state's bounds.
#[tokio::test(start_paused = true)]
async fn a_setter_clamps_to_what_the_state_declares() {
    let mut contract = example();
    contract["namespaces"]["boiler"]["component"]["state"]["fields"]["target"]["type"] =
        json!({"kind": "number", "integer": true, "min": 10, "max": 90});
    let double = Double::new(&contract, &json!({}));
    let mut snapshots = double.listen("boiler", SNAPSHOT).await;
    double.shows(&mut snapshots, "/target", json!(50)).await;
    for (given, stands) in [(180.0, 90), (0.0, 10), (41.5, 42)] {
        assert_eq!(double.call("boiler.setTarget", json!([given])).await, true);
        double.shows(&mut snapshots, "/target", json!(stands)).await;
    }
}

/// S-122: a method staged as Timeout never answers, and keeps no other command of its namespace waiting.
#[tokio::test(start_paused = true)]
async fn s122_a_staged_timeout_blocks_nobody() {
    let double = Double::new(&example(), &json!({"fails": {"boiler.report": "Timeout"}}));
    let started = Instant::now();
    let (hung, others) = tokio::join!(double.call("boiler.report", json!([])), async {
        let others = double.call("boiler.setTarget", json!([5])).await;
        (others, started.elapsed())
    });
    assert_eq!(others.0, true);
    assert!(others.1 < Duration::from_secs(1), "{:?}", others.1);
    assert!(hung.as_str().unwrap().contains("UnknownOutcome"), "{hung}");
    assert!(started.elapsed() >= Duration::from_secs(3));
}

/// R-15, semantics 10.1: a deferred method gives a receipt, reports progress and ends its ticket; one staged to fail
/// refuses at once. The recorded fake answers with a sample of the receipt and leaves it at that.
#[tokio::test(start_paused = true)]
async fn a_deferred_method_answers_later() {
    let double = Double::new(&example(), &json!({"returns": {"boiler.report": {"pages": 3}}}));
    let answer = double.ask("boiler.report", json!([])).await.unwrap();
    let mut ticket = answer.ticket.expect("a receipt");
    assert_eq!(answer.value.unwrap().get("id").and_then(Value::as_str), Some(ticket.id.as_str()));
    let ended = ticket.log.wait_for(|log| log.ended.is_some()).await.unwrap();
    assert_eq!(ended.reports, 1);
    let update = ended.ended.as_ref().unwrap().update.clone();
    drop(ended);
    let TicketUpdate::Resolved(Some(result)) = update else { panic!("{update:?}") };
    assert_eq!(to_json(&result).unwrap(), json!({"pages": 3}));
    let failing = Double::new(&example(), &json!({"fails": {"boiler.report": "UnknownOutcome"}}));
    assert_eq!(failing.call("boiler.report", json!([])).await, "UnknownOutcome: boiler.report is set to fail");
}

/// S-088: whatever sets any path is neither described nor accepted.
#[tokio::test(start_paused = true)]
async fn s088_what_sets_any_path_is_withheld() {
    let mut contract = example();
    contract["namespaces"]["boiler"]["methods"]["poke"] =
        json!({"params": [{"kind": "any"}, {"kind": "any"}], "sets": "*", "semantics": "idempotent-command"});
    let double = Double::new(&contract, &json!({}));
    let refused = double.call("boiler.poke", json!([["target"], 5])).await;
    assert!(refused.as_str().unwrap().starts_with("Forbidden: boiler.poke sets any path"), "{refused}");
}

/// The bakery's contract, and rows under it: read, written under a stamp, in conflict, and shown by the read half.
#[tokio::test(start_paused = true)]
async fn rows_are_written_under_stamps_and_shown() {
    let contract = parsed(include_str!("../../contracts/packaging.types.json"));
    let row = |product: &str| json!({"product": product, "quantity": 5, "status": "open", "note": null, "created": {"$date": "1970-01-01T00:00:00.000Z"}});
    let script = json!({"rows": {"workOrders.write": {"orders": {"7": row("rye"), "12": row("spelt")}}}});
    let double = Double::new(&contract, &script);
    let mut snapshots = double.listen("workOrders", SNAPSHOT).await;
    double.shows(&mut snapshots, "/orders/7/product", json!("rye")).await;
    let write = |method: &str, args: Json| {
        let target = format!("workOrders.write.{method}");
        let double = &double;
        async move { double.call(&target, args).await }
    };
    let writable = write("writable", json!([])).await;
    assert_eq!(writable[0]["columns"], json!(["product", "quantity", "status", "note", "created"]));
    let read = write("getOne", json!(["orders", "7"])).await;
    assert_eq!((&read["status"], &read["row"]["id"]), (&json!("ok"), &json!(7)));
    let update = |stamp: &Json| json!(["orders", "7", {"quantity": 9}, stamp]);
    assert_eq!(write("update", update(&read["stamp"])).await["status"], "ok");
    double.shows(&mut snapshots, "/orders/7/quantity", json!(9)).await;
    assert_eq!(write("update", update(&read["stamp"])).await, json!({"status": "conflict"}));
    assert_eq!(write("delete", json!(["orders", "99", "s"])).await, json!({"status": "missing"}));
    let made = write("create", json!(["orders", {"product": "wheat", "quantity": 1, "status": "open"}])).await;
    assert_eq!(made, "Exception: orders requires created");
    let wrong = write("create", json!(["orders", {"product": 5}])).await;
    assert_eq!(wrong, "Exception: product holds TEXT and was given a number");
    let gone = write("getOne", json!(["orders", "12"])).await;
    assert_eq!(write("delete", json!(["orders", "12", gone["stamp"]])).await, json!({"status": "ok", "id": "12"}));
    let left = double.call("workOrders.$data", json!(["getList", ["state", "orders"]])).await;
    assert_eq!(left["ids"], json!(["7"]));
    let mut wrong = row("rye");
    wrong["quantity"] = json!("many");
    let script = json!({"rows": {"workOrders.write": {"orders": {"7": wrong, "8": 1}}}});
    let told = faults(&contract, &script);
    assert_eq!(told[0], "/rows/workOrders.write/orders/7: row.quantity: expected number, got string");
    assert_eq!(told[1], "/rows/workOrders.write/orders/8: expected an object");
}

/// Rows of which no type is known: what may be written is what is there, under ids as they are.
#[tokio::test(start_paused = true)]
async fn rows_without_a_type_are_what_they_are() {
    let any = json!({"kind": "any"});
    let method = |params: usize| json!({"params": vec![any.clone(); params], "semantics": "non-repeatable-command"});
    let contract = json!({"schema": 1, "namespaces": {"store.write": {"methods": {
        "getOne": method(2), "create": method(2), "update": method(4), "delete": method(3), "refresh": method(0),
    }}}});
    let double = Double::new(&contract, &json!({"rows": {"store.write": {"tools": {"hammer": {"weight": 2}}}}}));
    let read = double.call("store.write.getOne", json!(["tools", "hammer"])).await;
    assert_eq!(read["row"], json!({"weight": 2}));
    let made = double.call("store.write.create", json!(["tools", {"weight": 1}])).await;
    assert_eq!((&made["status"], &made["id"]), (&json!("ok"), &json!("1")));
    let refused = double.call("store.write.create", json!(["tools", {"color": "red"}])).await;
    assert_eq!(refused, "Exception: color is not writable on tools - this node writes weight");
    let refused = double.call("store.write.getOne", json!(["cars", "x"])).await;
    assert_eq!(refused, "Exception: cars is not writable on this node - it accepts writes to tools");
    assert_eq!(double.call("store.write.refresh", json!([])).await, json!({"writable": 1, "refused": []}));
}

/// Names that objects of some languages have by themselves are names like any other (S-037).
#[tokio::test(start_paused = true)]
async fn s037_names_are_names() {
    let contract = json!({"schema": 1, "types": {"toString": {"kind": "number", "min": 4}}, "namespaces": {"__proto__": {
        "methods": {"constructor": {"params": [], "returns": {"kind": "ref", "name": "toString"}, "semantics": "query"}},
        "events": {"hasOwnProperty": {"params": []}},
    }}});
    let double = Double::new(&contract, &json!({}));
    assert_eq!(double.call("__proto__.constructor", json!([])).await, 4);
    let mut events = double.listen("__proto__", "hasOwnProperty").await;
    attached(&mut events).await;
    let scripted = Double::new(&contract, &json!({"returns": {"__proto__.constructor": 5}}));
    assert_eq!(scripted.call("__proto__.constructor", json!([])).await, 5);
}

/// A type that is made of itself gives a value of bounded depth, served like any other.
#[tokio::test(start_paused = true)]
async fn a_type_that_is_made_of_itself_is_served() {
    let node = json!({"kind": "object", "fields": {"next": {"type": {"kind": "ref", "name": "Node"}, "optional": true}, "at": {"type": {"kind": "number"}}}});
    let contract = json!({"schema": 1, "types": {"Node": node}, "namespaces": {"p": {
        "methods": {"list": {"params": [], "returns": {"kind": "array", "items": {"kind": "ref", "name": "Node"}}}},
    }}});
    let double = Double::new(&contract, &json!({}));
    assert_eq!(double.call("p.list", json!([])).await, json!([{"at": 0}]));
}

/// Timed events of many fakes come from one clock: in their time, not made up for, and not after the end.
#[tokio::test(start_paused = true)]
async fn timed_events_keep_their_pace() {
    let emits = json!([{"event": "boiler.alarm", "every": 1000, "params": ["hot", 2]}]);
    let double = Double::new(&example(), &json!({ "emits": emits }));
    let mut events = double.listen("boiler", "alarm").await;
    attached(&mut events).await;
    let clock = Arc::new(super::clock::Clock::default());
    let going = tokio::spawn({
        let clock = clock.clone();
        async move { clock.run().await }
    });
    let begun = Instant::now();
    clock.add(&double.live);
    for seq in 1..=5_u32 {
        assert_eq!(heard(&mut events).await, (json!(["hot", 2]), Some(seq.into())));
        let due = Duration::from_secs(1) * seq;
        assert!(begun.elapsed() >= due && begun.elapsed() < due + Duration::from_millis(20), "{:?}", begun.elapsed());
    }
    double.live.end(super::live::Why::Asked);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(double.live.actor.counts(), (0, 5));
    going.abort();
}
