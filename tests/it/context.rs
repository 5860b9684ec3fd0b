//! What a node inherits, through the tool: hosts of the recorded kind in the hands of the test, and hosts that lie, are
//! silent, leave and return.

use std::{collections::HashMap, time::Duration};

use plantbridge::{
    contract::context::{Axis, Change, Place, Provided, Ref, TokenId, Topology},
    link::{LinkEvent, Outbound},
    wire::{Message, Request, Value, frame::Answer, json::from_json, json::to_json},
};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use crate::{
    harness::Client,
    over::over_both,
    plant::joined,
    silence::{ByHand, error_of, name, refusal},
    tools::{bad, client_of, good},
};

over_both!(paused:
    s090_a_chain_over_hosts,
    s092_a_wrong_axis_and_a_local_value_are_missing,
    what_makes_no_sense_is_refused_here,
    s090_chains_that_do_not_hold,
    a_chain_without_end_is_given_up,
    s091_a_silent_host_is_asked_until_the_time_is_up,
    s091_a_host_that_is_not_there_is_awaited,
    a_host_that_leaves_and_returns_is_asked_again,
    a_host_that_returned_is_asked_for_its_part_again,
    hops_that_lie_are_found_out,
    a_host_that_refuses_is_named,
    a_chain_that_leads_to_the_bridge,
    huge_values_and_long_names_are_cut,
    s094_a_hundred_looks_leave_nothing_behind,
);

over_both!(running:
    s093_a_peer_that_declares_nothing_has_a_root,
);

fn at(peer: &str, instance: &str) -> Ref {
    Ref::new(name(peer), instance).unwrap()
}

/// A name with everything that may stand in one.
const ODD: &str = "a.b/c\"d'\\e \u{1f9ea}";

/// The hosts `works` (with a node, in a cell, owned by `mes/line`), `site` above it, and `mes`.
struct Hosts {
    hand: ByHand,
    hosts: HashMap<&'static str, Topology>,
}

impl Hosts {
    async fn joined() -> (Client, Self) {
        let (client, hand) = ByHand::joined().await;
        for peer in ["site", "mes"] {
            hand.tell(LinkEvent::Online { peer: name(peer), shape: None }).await;
        }
        let hosts = ["works", "site", "mes"].map(|peer| (peer, Topology::new(name(peer), peer)));
        let mut this = Self { hand, hosts: hosts.into() };
        let place = |instance: &str, parent, owner| Place { instance: instance.into(), parent, owner, label: None };
        this.change("works", Change::Parent("$host".into(), Some(at("site", "$host"))));
        let cell = place("cell", Some(at("works", "$host")), None);
        this.change("works", Change::Declare(cell));
        this.change("works", Change::Declare(place(ODD, Some(at("works", "cell")), Some(at("mes", "line")))));
        this.change("mes", Change::Declare(place("line", Some(at("mes", "$host")), None)));
        this.provide("works", "cell", Axis::Physical, json!("near"));
        this.provide("site", "$host", Axis::Physical, json!({"far": {"$date": 0}}));
        this.provide("mes", "line", Axis::Logical, json!(17));
        (client, this)
    }

    fn change(&mut self, host: &str, change: Change) {
        self.hosts.get_mut(host).unwrap().apply(change).unwrap();
    }

    fn provide(&mut self, host: &str, instance: &str, axis: Axis, value: Json) {
        let (token, value) = (TokenId::parse("acme.note").unwrap(), from_json(value));
        self.change(host, Change::Provide(Provided { token, instance: instance.into(), axis, value, local: false }));
    }

    /// The next request, whoever it is for; it must be a look at context.
    async fn asked(&mut self) -> (String, Request) {
        loop {
            let Some(Outbound::Frame { frame, claim, .. }) = self.hand.asked.recv().await else { continue };
            let Message::Request(request) = frame.message else { panic!("{frame:?}") };
            if claim.unwrap().take() {
                assert_eq!((request.path.as_str(), request.method.as_str()), ("$context", "read"));
                return (frame.target.to_string(), request);
            }
        }
    }

    /// Makes sure that nobody was asked anything more.
    fn asked_nothing(&mut self) {
        while let Ok(outbound) = self.hand.asked.try_recv() {
            assert!(matches!(outbound, Outbound::Announce { .. }), "{outbound:?}");
        }
    }

    /// What the host that was asked would say.
    fn truth(&self, host: &str, request: &Request) -> Value {
        let [node, Value::Array(tokens)] = request.args.as_slice() else { panic!("{request:?}") };
        let node = Ref { peer: name(host), instance: node.as_str().unwrap().into() };
        let tokens: Vec<String> = tokens.iter().map(|token| token.as_str().unwrap().to_owned()).collect();
        assert_eq!(tokens.len(), 1);
        self.hosts[host].answer(node, &tokens).to_value()
    }

    async fn says(&self, host: &str, request: &Request, answer: Answer) {
        self.hand.answer_as(host, request, answer).await;
    }

    /// The next request, which must be for this host, is answered as it would.
    async fn answers(&mut self, host: &str) {
        let (asked, request) = self.asked().await;
        assert_eq!(asked, host);
        let truth = self.truth(host, &request);
        self.says(host, &request, Answer::Value(Some(truth))).await;
    }

    async fn leaves(&self, host: &str) {
        self.hand.tell(LinkEvent::Offline(name(host))).await;
    }

    async fn returns(&self, host: &str) {
        self.hand.tell(LinkEvent::Online { peer: name(host), shape: None }).await;
    }
}

fn read(axis: &str) -> Json {
    json!({"peer": "works", "node": ODD, "token": "acme.note", "axis": axis})
}

async fn told(client: &mut Client) -> Json {
    let answer = client.read().await;
    assert_eq!(answer["result"]["isError"], Json::Null, "{answer}");
    answer["result"]["structuredContent"].clone()
}

fn providers(told: &Json) -> Vec<(&str, &Json)> {
    let entries = told["entries"].as_array().unwrap();
    entries.iter().map(|entry| (entry["provider"].as_str().unwrap(), &entry["value"])).collect()
}

/// S-090: along both chains, from host to host, nearest first, every provider named; one `read` a host, and nothing else.
async fn s090_a_chain_over_hosts() {
    let (mut client, mut hosts) = Hosts::joined().await;
    client.start("p", "read_context", read("physical")).await;
    for host in ["works", "site"] {
        hosts.answers(host).await;
    }
    let physical = told(&mut client).await;
    let node = format!("works/{ODD}");
    assert_eq!(
        (&physical["status"], &physical["node"], &physical["note"]),
        (&json!("live"), &json!(node), &json!(null))
    );
    let far = json!({"far": {"$map": {"$date": 0}}});
    assert_eq!(providers(&physical), [("works/cell", &json!("near")), ("site/$host", &far)]);
    assert_eq!(physical["hops"], json!([node, "site/$host"]));
    assert_eq!(physical["chain"], json!([node, "works/cell", "works/$host", "site/$host"]));
    assert_eq!((&physical["chain_length"], &physical["source"]["trust"]), (&json!(4), &json!("data")));
    client.start("l", "read_context", read("logical")).await;
    for host in ["works", "mes"] {
        hosts.answers(host).await;
    }
    let logical = told(&mut client).await;
    assert_eq!((providers(&logical), &logical["hops"]), (vec![("mes/line", &json!(17))], &json!([node, "mes/line"])));
    client.still_there().await;
    hosts.asked_nothing(); // nothing is held, so nothing is closed
}

/// S-091, S-092: a wrong axis and a local value are missing, which is an answer, and says what it does not prove.
async fn s092_a_wrong_axis_and_a_local_value_are_missing() {
    let (mut client, mut hosts) = Hosts::joined().await;
    let token = TokenId::parse("acme.secret").unwrap();
    let (instance, value) = ("line".into(), "s".into());
    hosts.change("mes", Change::Provide(Provided { token, instance, axis: Axis::Logical, value, local: true }));
    let mut secret = read("logical");
    secret["token"] = json!("acme.secret");
    let withdrawn =
        Change::Withdraw { token: TokenId::parse("acme.note").unwrap(), instance: "line".into(), axis: Axis::Logical };
    hosts.change("mes", withdrawn);
    for arguments in [secret, read("logical")] {
        client.start("m", "read_context", arguments).await;
        hosts.answers("works").await;
        hosts.answers("mes").await;
        let told = told(&mut client).await;
        assert_eq!((&told["status"], &told["entries"]), (&json!("missing"), &json!([])), "{told}");
        assert!(told["note"].as_str().unwrap().contains("local"), "{told}");
    }
}

/// tools.md 3.1: what makes no sense is refused before anybody is asked, with what would make sense.
async fn what_makes_no_sense_is_refused_here() {
    let (mut client, mut hosts) = Hosts::joined().await;
    let with = |key: &str, value: Json| {
        let mut arguments = read("physical");
        arguments[key] = value;
        arguments
    };
    for (arguments, argument, words) in [
        (with("token", json!("site")), "/token", "contains a dot"),
        (with("token", json!("acme.\u{7}")), "/token", "control character"),
        (with("token", json!("")), "/token", ""),
        (with("node", json!("a\u{0}b")), "/node", "control character"),
        (with("node", json!("")), "/node", ""),
        (with("node", json!("x".repeat(1_025))), "/node", ""),
        (with("axis", json!("both")), "/axis", ""),
        (with("seconds", json!(61)), "/seconds", ""),
        (with("tokens", json!([])), "/tokens", ""),
        (json!({"peer": "works", "node": "x", "token": "a.b"}), "/axis", ""),
    ] {
        let error = bad(&mut client, "read_context", arguments).await;
        assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!(argument)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = bad(&mut client, "read_context", with("peer", json!("work"))).await;
    assert_eq!((&error["code"], &error["alternatives"][0]), (&json!("unknown_peer"), &json!("works")));
    hosts.asked_nothing();
}

/// S-090: a ring over hosts, a host's own trouble, and a chain without end are invalid, with the refs that show it.
async fn s090_chains_that_do_not_hold() {
    let (mut client, mut hosts) = Hosts::joined().await;
    hosts.change("mes", Change::Owner("line".into(), Some(at("works", ODD))));
    client.start("c", "read_context", read("logical")).await;
    hosts.answers("works").await;
    hosts.answers("mes").await;
    let cycle = told(&mut client).await;
    assert_eq!((&cycle["status"], &cycle["invalidReason"]), (&json!("invalid"), &json!("cycle")), "{cycle}");
    assert_eq!((&cycle["invalidPath"], &cycle["entries"]), (&json!([format!("works/{ODD}"), "mes/line"]), &json!([])));
    hosts.change("mes", Change::Owner("line".into(), Some(at("mes", "ghost"))));
    client.start("i", "read_context", read("logical")).await;
    hosts.answers("works").await;
    hosts.answers("mes").await;
    let dangling = told(&mut client).await;
    assert_eq!(
        (&dangling["invalidReason"], &dangling["invalidPath"]),
        (&json!("invalid-reference"), &json!(["mes/ghost"]))
    );
    client.start("n", "read_context", json!({"peer": "mes", "node": "x", "token": "a.b", "axis": "physical"})).await;
    hosts.answers("mes").await;
    let nowhere = told(&mut client).await;
    assert_eq!(nowhere["invalidReason"], "invalid-reference", "no such node");
    assert!(nowhere["note"].as_str().unwrap().contains("mes says that it has no place called 'x'"), "{nowhere}");
    assert!(!dangling["note"].as_str().unwrap().contains("no place called"), "{dangling}");
}

/// Two hosts that pass a chain to and fro for ever, with a new node each time, are given up after 128 refs.
async fn a_chain_without_end_is_given_up() {
    let (mut client, mut hosts) = Hosts::joined().await;
    client.start("e", "read_context", read("logical")).await;
    let mut asked = 0;
    let told = loop {
        tokio::select! {
            answer = client.read() => break answer["result"]["structuredContent"].clone(),
            (host, request) = hosts.asked() => {
                asked += 1;
                let node = json!({"peer": host, "instance": request.args[0].as_str().unwrap()});
                let next = if host == "works" { "mes" } else { "works" };
                let walked = json!({"physical": [node], "logical": [node]});
                let tokens = json!([{"tokenId": "acme.note", "entries": []}]);
                let answer = json!({
                    "node": node, "walked": walked, "trouble": [], "tokens": tokens, "seq": 0,
                    "continues": {"logical": {"peer": next, "instance": format!("n{asked}")}},
                    "chainKey": {"physical": "", "logical": ""},
                });
                hosts.says(&host, &request, Answer::Value(Some(from_json(answer)))).await;
            }
        }
    };
    assert_eq!((&told["status"], &told["invalidReason"]), (&json!("invalid"), &json!("depth-exceeded")), "{told}");
    assert_eq!((asked, &told["chain_length"]), (129, &json!(129)));
    assert!(told.to_string().len() < 20_000);
}

/// S-091: a host that says nothing is asked again until the time is up; then nothing is known, which is not missing.
async fn s091_a_silent_host_is_asked_until_the_time_is_up() {
    let (mut client, mut hosts) = Hosts::joined().await;
    let mut arguments = read("physical");
    arguments["seconds"] = json!(10);
    let begun = Instant::now();
    client.start("s", "read_context", arguments.clone()).await;
    hosts.answers("works").await;
    let mut ttls = Vec::new();
    let told = loop {
        tokio::select! {
            told = told(&mut client) => break told,
            (host, request) = hosts.asked() => {
                assert_eq!(host, "site");
                ttls.push(request.ttl.unwrap());
            }
        }
    };
    assert_eq!((&told["status"], &told["entries"]), (&json!("initializing"), &json!([])), "{told}");
    assert!(told["note"].as_str().unwrap().contains("site/$host has not answered"), "{told}");
    assert_eq!(told["hops"], json!([format!("works/{ODD}")]));
    assert!(begun.elapsed() >= Duration::from_millis(9_990) && begun.elapsed() < Duration::from_millis(10_500));
    assert!(ttls.len() == 3 && ttls[0] == 2000 && ttls[1] == 4000 && ttls[2] <= 4000, "{ttls:?}");
    // One that answers the second time, and one that is busy the first time, are heard.
    client.start("a", "read_context", arguments).await;
    let (host, busy) = hosts.asked().await;
    hosts.says(&host, &busy, refusal("Busy", "later")).await;
    hosts.answers("works").await;
    hosts.asked().await;
    hosts.answers("site").await;
    assert_eq!(crate::context::told(&mut client).await["status"], "live");
}

/// S-091: a host that is not there is awaited; one that comes is asked.
async fn s091_a_host_that_is_not_there_is_awaited() {
    let (mut client, mut hosts) = Hosts::joined().await;
    hosts.leaves("site").await;
    client.start("w", "read_context", read("physical")).await;
    hosts.answers("works").await;
    let told_so_far = tokio::time::timeout(Duration::from_secs(5), client.read()).await;
    assert!(told_so_far.is_err(), "it waits: {told_so_far:?}");
    hosts.returns("site").await;
    hosts.answers("site").await;
    assert_eq!(told(&mut client).await["status"], "live");
    hosts.leaves("site").await;
    let mut short = read("physical");
    short["seconds"] = json!(1);
    client.start("n", "read_context", short).await;
    hosts.answers("works").await;
    assert_eq!(told(&mut client).await["status"], "initializing");
}

/// A host that leaves while it is asked is asked again when it returns, at once and not when its time is up.
async fn a_host_that_leaves_and_returns_is_asked_again() {
    let (mut client, mut hosts) = Hosts::joined().await;
    let begun = Instant::now();
    client.start("r", "read_context", read("physical")).await;
    hosts.answers("works").await;
    let (_, first) = hosts.asked().await;
    hosts.leaves("site").await;
    client.still_there().await;
    hosts.returns("site").await;
    let (host, second) = hosts.asked().await;
    assert_ne!(first.correlation, second.correlation, "S-003");
    assert!(begun.elapsed() < Duration::from_secs(1));
    let truth = hosts.truth(&host, &second);
    hosts.says(&host, &first, Answer::Value(Some("late".into()))).await;
    hosts.says(&host, &second, Answer::Value(Some(truth))).await;
    assert_eq!(told(&mut client).await["status"], "live");
}

/// S-091: values of a host that was lost after it answered are stale; what nobody provided then is not known to be missing.
///
/// In memory only: what arrives between a departure and the next message of the client is put in order by the hand alone.
#[tokio::test(start_paused = true)]
async fn s091_what_a_lost_host_said_is_stale() {
    let (mut client, mut hosts) = Hosts::joined().await;
    client.start("s", "read_context", read("physical")).await;
    hosts.answers("works").await;
    let (host, request) = hosts.asked().await;
    hosts.leaves("works").await;
    client.still_there().await;
    let truth = hosts.truth(&host, &request);
    hosts.says(&host, &request, Answer::Value(Some(truth))).await;
    let stale = told(&mut client).await;
    assert_eq!((&stale["status"], providers(&stale).len()), (&json!("stale"), 2), "values are kept: {stale}");
    assert!(stale["staleSince"].is_string() && stale["note"].as_str().unwrap().contains("works went away"), "{stale}");
    hosts.returns("works").await;
    let mut nothing = read("physical");
    (nothing["token"], nothing["seconds"]) = (json!("acme.nothing"), json!(3));
    client.start("m", "read_context", nothing).await;
    hosts.answers("works").await;
    let (host, request) = hosts.asked().await;
    hosts.leaves("works").await;
    client.still_there().await;
    let truth = hosts.truth(&host, &request);
    hosts.says(&host, &request, Answer::Value(Some(truth))).await;
    let told = told(&mut client).await;
    assert_eq!(told["status"], "initializing", "{told}");
    assert!(told["note"].as_str().unwrap().contains("works/"), "{told}");
}

/// A host that left and returned after it answered is asked again, for it may be another one now: what is told is fresh.
async fn a_host_that_returned_is_asked_for_its_part_again() {
    let (mut client, mut hosts) = Hosts::joined().await;
    client.start("a", "read_context", read("physical")).await;
    hosts.answers("works").await;
    let (host, request) = hosts.asked().await;
    hosts.leaves("works").await;
    client.still_there().await;
    // A stay is told by when it began, in milliseconds of the wall.
    let began = std::time::SystemTime::now();
    while began.elapsed().unwrap() < Duration::from_millis(2) {}
    hosts.returns("works").await;
    client.still_there().await;
    hosts.provide("works", "cell", Axis::Physical, json!("nearer"));
    let truth = hosts.truth(&host, &request);
    hosts.says(&host, &request, Answer::Value(Some(truth))).await;
    hosts.answers("works").await;
    hosts.answers("site").await;
    let told = told(&mut client).await;
    assert_eq!((&told["status"], providers(&told)[0]), (&json!("live"), ("works/cell", &json!("nearer"))), "{told}");
}

/// A hop that answers about another node, for another host, without the token, or nothing: an error that says what is
/// wrong and where, and concludes nothing.
async fn hops_that_lie_are_found_out() {
    let (mut client, mut hosts) = Hosts::joined().await;
    let lie = |truth: &Value, pointer: &str, lie: Json| {
        let mut json = to_json(truth).unwrap();
        *json.pointer_mut(pointer).unwrap() = lie;
        from_json(json)
    };
    for (pointer, said, words) in [
        ("/node/instance", json!("other"), "it is about site/other, and site/$host was asked for"),
        ("/node/peer", json!("works"), "it is about works/$host"),
        ("/walked/physical/0/instance", json!("other"), "its chain begins with site/other"),
        ("/walked/physical", json!([]), "its chain is empty"),
        ("/tokens", json!([]), "it says nothing about acme.note"),
        ("/tokens/0/entries/0/node/peer", json!("mes"), "mes/$host provides and is not on the chain"),
        ("", json!(null), "it is no map"),
        ("", json!("ok"), "it is no map"),
    ] {
        client.start("l", "read_context", read("physical")).await;
        hosts.answers("works").await;
        let (host, request) = hosts.asked().await;
        let answer = lie(&hosts.truth(&host, &request), pointer, said);
        hosts.says(&host, &request, Answer::Value(Some(answer))).await;
        let error = error_of(&mut client).await;
        assert_eq!((&error["code"], &error["at"]), (&json!("peer_refused"), &json!("site/$host")), "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert_eq!(error["hops"], json!([format!("works/{ODD}")]));
        assert!(error["fix"].as_str().unwrap().contains("nothing may be concluded"), "{error}");
    }
}

/// A host without `$context`, and one that does not let us read it, are said to be just that.
async fn a_host_that_refuses_is_named() {
    let (mut client, mut hosts) = Hosts::joined().await;
    for (code, words) in [
        ("ClassNotFound", "serves no $context that could be read"),
        ("MethodNotFound", "serves no $context that could be read"),
        ("Forbidden", "it refused"),
    ] {
        client.start("r", "read_context", read("physical")).await;
        let (host, request) = hosts.asked().await;
        hosts.says(&host, &request, refusal(code, "not for you")).await;
        let error = error_of(&mut client).await;
        assert_eq!((&error["code"], &error["peer_error"]["code"]), (&json!("peer_refused"), &json!(code)), "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    }
    client.still_there().await;
    hosts.asked_nothing(); // a refusal is no reason to ask again
}

/// A chain that leads to the bridge is said to, at once: it would wait for itself.
async fn a_chain_that_leads_to_the_bridge() {
    let (mut client, mut hosts) = Hosts::joined().await;
    hosts.change("mes", Change::Owner("line".into(), Some(at("bridge", "x"))));
    client.start("b", "read_context", read("logical")).await;
    hosts.answers("works").await;
    hosts.answers("mes").await;
    let error = error_of(&mut client).await;
    assert_eq!((&error["code"], &error["at"]), (&json!("peer_refused"), &json!("bridge/x")), "{error}");
    hosts.asked_nothing();
}

/// F-09: what hosts say is bounded before it reaches the model, and what was cut says so.
async fn huge_values_and_long_names_are_cut() {
    let (mut client, mut hosts) = Hosts::joined().await;
    for n in 0..40 {
        let instance = format!("i{n}{}", "x".repeat(900));
        let below = if n == 0 { "$host".to_owned() } else { format!("i{}{}", n - 1, "x".repeat(900)) };
        let place = Place { instance, parent: Some(at("works", &below)), owner: None, label: None };
        let instance = place.instance.clone();
        hosts.change("works", Change::Declare(place));
        hosts.provide("works", &instance, Axis::Physical, json!("v".repeat(5_000)));
    }
    let last = format!("i39{}", "x".repeat(900));
    hosts.provide("works", &last, Axis::Physical, json!("v".repeat(15_000)));
    client
        .start("h", "read_context", json!({"peer": "works", "node": last, "token": "acme.note", "axis": "physical"}))
        .await;
    hosts.answers("works").await;
    hosts.answers("site").await;
    let told = told(&mut client).await;
    assert_eq!((&told["status"], &told["entries"][0]["value"]["truncated"]), (&json!("live"), &json!(true)));
    let shown = told["entries"].as_array().unwrap().len();
    assert_eq!(told["entries_left_out"], json!(41 - shown), "{shown}");
    assert!(shown >= 2 && told.to_string().len() < 100_000, "{}", told.to_string().len());
}

/// S-094 and results.md 6: of a hundred looks, half of them cancelled wherever they were, nothing is left anywhere: only
/// `read` was ever sent, so no host holds anything, and what answers late is for nobody.
async fn s094_a_hundred_looks_leave_nothing_behind() {
    let (mut client, mut hosts) = Hosts::joined().await;
    let mut late = Vec::new();
    for n in 0..100 {
        let id = format!("q{n}");
        client.start(&id, "read_context", read("physical")).await;
        if n % 4 == 1 {
            hosts.answers("works").await;
        }
        if n % 2 == 1 {
            let cancelled = Instant::now();
            late.push(hosts.asked().await);
            client
                .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
                .await;
            client.still_there().await;
            assert!(cancelled.elapsed() < Duration::from_millis(100));
        } else {
            hosts.answers("works").await;
            hosts.answers("site").await;
            assert_eq!(told(&mut client).await["status"], "live");
        }
    }
    for (host, request) in late {
        let truth = hosts.truth(&host, &request);
        hosts.says(&host, &request, Answer::Value(Some(truth))).await;
    }
    client.still_there().await;
    // Nothing is asked again once its time would be up.
    tokio::time::sleep(Duration::from_mins(1)).await;
    hosts.asked_nothing();
    client.still_there().await;
}

/// Over a real peer: one that declares nothing has a root and nothing else (S-093).
async fn s093_a_peer_that_declares_nothing_has_a_root() {
    let (plant, _works, _node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let root = json!({"peer": "works", "node": "$host", "token": "acme.note", "axis": "logical", "schema_version": 2});
    let told = good(&mut client, "read_context", root).await;
    assert_eq!((&told["status"], &told["chain"]), (&json!("missing"), &json!(["works/$host"])), "{told}");
    assert_eq!(told["schema_version"], 2);
    let scale = json!({"peer": "works", "node": "scale", "token": "acme.note", "axis": "logical"});
    let told = good(&mut client, "read_context", scale).await;
    assert_eq!((&told["status"], &told["invalidPath"]), (&json!("invalid"), &json!(["works/scale"])), "{told}");
    let note = told["note"].as_str().unwrap();
    assert!(note.contains("no place called 'scale'") && note.contains("it has $host"), "{note}");
}
