//! What watches the process is told: whether it lives, whether it is ready, what it has counted, and who may ask.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::atomic::Ordering,
    time::Duration,
};

use plantbridge::{
    door::{
        auth::Keys,
        hosts::Hosts,
        http::{HttpConfig, HttpDoor, Meters, Rules},
    },
    link::{DownKind, DownReason, LinkEvent},
};
use serde_json::{Value as Json, json};
use tokio::{net::TcpStream, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    harness::Client,
    http::{BOTH, HOST, Open, PATIENCE, TYPE, Told, Wire, call, post},
    plant::joined,
    silence::{ByHand, attached},
    tools::{bad, client_of, good},
};

/// A request for a path, with these headers.
fn look(verb: &str, path: &str, headers: &[&str]) -> Vec<u8> {
    let first = format!("{verb} {path} HTTP/1.1");
    let lines: Vec<&str> = [first.as_str()].into_iter().chain(headers.iter().copied()).chain(["", ""]).collect();
    lines.join("\r\n").into_bytes()
}

async fn ask(door: &Open, bytes: &[u8]) -> Told {
    door.connect().await.ask(bytes).await
}

async fn get(door: &Open, path: &str) -> Told {
    ask(door, &look("GET", path, &[HOST])).await
}

/// A door on what a client looks at.
async fn door_of(client: &Client) -> Open {
    Open::of(client.server.clone(), Keys::default(), HttpConfig::default()).await
}

/// Every sample of a text by its name and labels. The format is held to its rules: each family is introduced once, before its
/// samples, which stand together; and a bucket without a bound holds as many as are counted.
fn samples(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut family = "";
    assert!(text.ends_with('\n'), "the last line ends");
    for line in text.lines() {
        if let Some(about) = line.strip_prefix("# TYPE ") {
            let (name, kind) = about.split_once(' ').unwrap();
            assert_eq!(name, family, "HELP and TYPE are of one family");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kind != "counter" || name.ends_with("_total"), "{line}");
            assert!(kinds.insert(name, kind).is_none(), "{name} is introduced twice");
            continue;
        }
        if let Some(about) = line.strip_prefix("# HELP ") {
            family = about.split_once(' ').unwrap().0;
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let base = if kinds[family] == "histogram" {
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap()
        } else {
            name
        };
        assert_eq!(base, family, "{line}");
        assert!(value.parse::<f64>().unwrap() >= 0.0, "{line}");
        assert!(found.insert(series.to_owned(), value.to_owned()).is_none(), "{line}");
    }
    for (series, value) in found.iter().filter(|(series, _)| series.contains("le=\"+Inf\"")) {
        let count = series.replace("_bucket", "_count").replace(",le=\"+Inf\"", "").replace("{le=\"+Inf\"}", "");
        assert_eq!(&found[&count], value, "{series}");
    }
    found
}

async fn metrics(door: &Open) -> BTreeMap<String, String> {
    let told = get(door, "/metrics").await;
    assert_eq!(told.status, 200, "{told:?}");
    assert!(told.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{told:?}");
    samples(&told.body)
}

fn of(found: &BTreeMap<String, String>, series: &str) -> u64 {
    let value = found.get(series).unwrap_or_else(|| panic!("no {series} in {found:#?}"));
    value.parse().unwrap()
}

fn scale(method: &str, args: Json) -> Json {
    json!({"peer": "works", "namespace": "scale", "method": method, "args": args})
}

/// As many calls as were made, each under how it ended, in the metrics and in `bridge_status` alike.
#[tokio::test]
async fn each_call_is_counted_under_how_it_ended() {
    let (plant, works, _node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let door = door_of(&client).await;
    let before = metrics(&door).await;
    assert_eq!(
        of(&before, "plantbridge_network_call_duration_seconds_count"),
        of(&before, "plantbridge_network_calls_total{outcome=\"answered\"}")
    );
    for _ in 0..3 {
        good(&mut client, "call_method", scale("read", json!([]))).await;
    }
    for code in ["Forbidden", "Forbidden", "Exception"] {
        bad(&mut client, "call_method", scale("refuse", json!([code]))).await;
    }
    works.holds.store(true, Ordering::Relaxed);
    let mut held = scale("tare", json!([]));
    held["timeout_ms"] = json!(20);
    assert_eq!(bad(&mut client, "call_method", held).await["outcome"], "unknown");
    bad(&mut client, "call_method", json!({"peer": "works"})).await;
    bad(&mut client, "describe_peer", json!({"peer": "nobody"})).await;
    bad(&mut client, "no_such_tool", json!({})).await;

    let found = metrics(&door).await;
    let calls = |tool: &str, outcome: &str| {
        of(&found, &format!("plantbridge_tool_calls_total{{tool=\"{tool}\",outcome=\"{outcome}\"}}"))
    };
    let ends = ["ok", "not_run", "ran", "unknown", "failed"].map(|outcome| calls("call_method", outcome));
    // Forbidden twice and what was wrongly asked for; the method that failed; the one that nobody heard of.
    assert_eq!(ends, [3, 3, 1, 1, 0]);
    assert_eq!(calls("describe_peer", "not_run"), 1);
    assert_eq!(of(&found, "plantbridge_tool_call_duration_seconds_count{tool=\"call_method\"}"), 8);
    let refusals = |code: &str| of(&found, &format!("plantbridge_refusals_total{{code=\"{code}\"}}"));
    let codes = ["peer_refused", "unknown_outcome", "bad_argument", "unknown_peer", "unknown_tool"];
    assert_eq!(codes.map(refusals), [3, 1, 1, 1, 1]);
    let network = |outcome: &str| {
        let series = format!("plantbridge_network_calls_total{{outcome=\"{outcome}\"}}");
        of(&found, &series) - of(&before, &series)
    };
    // Three reads and the description before the first of them.
    assert_eq!(["answered", "refused", "not_sent", "unknown", "abandoned"].map(network), [4, 3, 0, 1, 0]);
    assert_eq!(of(&found, "plantbridge_network_calls_open"), 0);
    let timed = of(&found, "plantbridge_network_call_duration_seconds_count");
    assert_eq!(timed - of(&before, "plantbridge_network_call_duration_seconds_count"), 7);
    assert_eq!(of(&found, "plantbridge_link_up{link=\"0\",kind=\"memory\"}"), 1);
    assert_eq!((of(&found, "plantbridge_peers"), of(&found, "plantbridge_clients{door=\"stdio\"}")), (1, 1));
    assert_eq!(of(&found, "plantbridge_http_requests_total{listener=\"mcp\",status=\"200\"}"), 1, "the one before");

    let status = good(&mut client, "bridge_status", json!({})).await;
    assert_eq!(status["tool_calls"], json!({"ok": 3, "not_run": 4, "ran": 1, "unknown": 1, "failed": 0}));
    assert!(status["refusals"].as_array().unwrap().contains(&json!({"code": "peer_refused", "times": 3})), "{status}");
    let calls = &status["network_calls"];
    assert_eq!((&calls["refused"], &calls["unknown"], &calls["open"]), (&json!(3), &json!(1), &json!(0)));
    let ms = |share: &str| calls["latency_ms"][share].as_f64().unwrap();
    assert!(0.0 < ms("p50") && ms("p50") <= ms("p90") && ms("p90") <= ms("p99"), "{calls}");
    assert_eq!(status["doors"], json!([{"door": "stdio", "clients": 1}, {"door": "http", "clients": 0}]));
    door.closed().await;
}

/// Whatever clients and peers call themselves and each other, the series stay those that were there.
#[tokio::test]
async fn no_word_from_outside_becomes_a_label() {
    let (plant, _works, _node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let door = door_of(&client).await;
    let flood = async |client: &mut Client, times: usize| {
        for time in 0..times {
            let name = format!("flood-{time}\"}} 1\n");
            client.call(&name, json!({})).await;
            client.call("call_method", json!({"peer": name, "namespace": name, "method": name})).await;
            client.call("call_method", scale(&name, json!([]))).await;
            client.call("call_method", scale("refuse", json!([name]))).await;
            let told = ask(&door, &post(&[HOST, TYPE, BOTH], &call(&json!(1), &name, &json!({})))).await;
            assert_eq!(told.status, 200);
            ask(&door, &look(&format!("FLOOD{time}"), "/metrics", &[HOST])).await;
            get(&door, &format!("/flood{time}")).await;
        }
    };
    flood(&mut client, 2).await;
    let series = |found: BTreeMap<String, String>| found.into_keys().collect::<BTreeSet<String>>();
    metrics(&door).await;
    let first = series(metrics(&door).await);
    flood(&mut client, 100).await;
    let later = series(metrics(&door).await);
    assert_eq!(later.difference(&first).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(!later.iter().any(|series| series.to_lowercase().contains("flood")), "{later:#?}");
    door.closed().await;
}

fn down() -> LinkEvent {
    let detail = "connection to broker.plant.example refused".into();
    LinkEvent::Down(DownReason { kind: DownKind::Unreachable, detail })
}

async fn until(door: &Open, path: &str, status: u16) -> Told {
    let changes = async {
        loop {
            let told = get(door, path).await;
            if told.status == status {
                return told;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, changes).await.expect("it changes")
}

/// Ready while every link is up, and alive all the time; what is told names nobody. At the end it is not ready any more.
#[tokio::test]
async fn ready_follows_the_links_and_alive_does_not() {
    let (plant, hand) = ByHand::plant().await;
    let mut client = attached(plant).await;
    let door = door_of(&client).await;
    let ready = until(&door, "/readyz", 200).await;
    assert_eq!(ready.json(), json!({"status": "ready"}));
    assert!(ready.head.contains("cache-control: no-store"), "{ready:?}");
    hand.tell(down()).await;
    let told = until(&door, "/readyz", 503).await;
    assert!(!told.body.contains("plant.example"), "{told:?}");
    let mut told = told.json();
    assert!(told["links"][0]["for_ms"].take().as_u64().unwrap() < 20_000, "{told}");
    let link = json!({"link": 0, "kind": "memory", "trouble": "unreachable", "for_ms": null});
    assert_eq!(told, json!({"status": "not_ready", "why": ["link_down"], "links": [link]}));
    assert_eq!(get(&door, "/healthz").await.json(), json!({"status": "ok"}));
    let found = metrics(&door).await;
    let (up, again) = ("plantbridge_link_up", "plantbridge_link_reconnects_total");
    let link = |name: &str| format!("{name}{{link=\"0\",kind=\"memory\"}}");
    assert_eq!((of(&found, &link(up)), of(&found, &link(again))), (0, 0));

    // It answers without a network, and says why there is none.
    let status = good(&mut client, "bridge_status", json!({})).await;
    assert_eq!((&status["on_network"], &status["links"][0]["state"]), (&json!(false), &json!("down")));
    assert_eq!(status["links"][0]["kind"], "unreachable");

    hand.tell(LinkEvent::Up).await;
    until(&door, "/readyz", 200).await;
    let found = metrics(&door).await;
    assert_eq!((of(&found, &link(up)), of(&found, &link(again))), (1, 1));
    let status = good(&mut client, "bridge_status", json!({})).await;
    let link = &status["links"][0];
    assert_eq!((&link["state"], &link["reconnects"], &link["kind"]), (&json!("up"), &json!(1), &Json::Null));
    assert!(link["since"].as_str().unwrap().ends_with('Z'), "{link}");
    assert_eq!(link["last_error"], "unreachable: connection to broker.plant.example refused");

    client.server.leaves();
    assert_eq!(get(&door, "/readyz").await.json()["why"], json!(["leaving"]));
    assert_eq!(get(&door, "/healthz").await.status, 200);
    door.closed().await;
}

/// Counts are for whoever has a token, where there are any, be it one to look with; that it lives is for all. A look makes nobody a
/// client.
#[tokio::test]
async fn counts_need_a_token_where_there_are_any() {
    let door = Open::for_named().await;
    for token in ["key-a", "key-eye"] {
        let told = ask(&door, &look("GET", "/metrics", &[HOST, &format!("Authorization: Bearer {token}")])).await;
        assert_eq!((told.status, of(&samples(&told.body), "plantbridge_clients{door=\"http\"}")), (200, 0));
    }
    for wrong in [None, Some("Authorization: Bearer nobody"), Some("Authorization: Basic a2V5LWE=")] {
        let headers: Vec<&str> = [HOST].into_iter().chain(wrong).collect();
        let told = ask(&door, &look("GET", "/metrics", &headers)).await;
        assert!(told.status == 401 && told.head.contains("www-authenticate: bearer"), "{told:?}");
        assert!(!told.body.contains("plantbridge_"), "{told:?}");
        assert_eq!(ask(&door, &look("GET", "/healthz", &headers)).await.status, 200);
        assert_eq!(ask(&door, &look("GET", "/readyz", &headers)).await.status, 200);
    }
    door.closed().await;
}

/// Only looks, only by a name of ours or by address, and to no web page that was not named.
#[tokio::test]
async fn a_look_is_a_get_by_name_or_address() {
    let door = Open::anybody().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        for verb in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let told = ask(&door, &look(verb, path, &[HOST, "Content-Length: 0"])).await;
            assert!(told.status == 405 && told.head.contains("allow: get, head\r\n"), "{verb} {path}: {told:?}");
        }
        for host in ["10.1.2.3:9464", "[fe80::1]", "plant.example", "127.0.0.1"] {
            let told = ask(&door, &look("GET", path, &[&format!("Host: {host}")])).await;
            assert_eq!(told.status, 200, "{host} {path}");
        }
        for host in ["evil.example", "evil.example:9464", "10.1.2.3.evil.example"] {
            let told = ask(&door, &look("GET", path, &[&format!("Host: {host}")])).await;
            assert_eq!(told.status, 403, "{host} {path}: its name was pointed here");
        }
        let page = ["Host: 10.1.2.3", "Origin: https://evil.example"];
        assert_eq!(ask(&door, &look("GET", path, &page)).await.status, 403, "{path}");
        let mut wire = door.connect().await;
        let whole = wire.ask(&look("GET", path, &[HOST])).await;
        wire.send(&look("HEAD", path, &[HOST])).await;
        let head = wire.head().await;
        assert!(head.starts_with("http/1.1 200 ") && head.contains("content-length: "), "{head}");
        // Nothing followed the head: the next answer begins where it ended.
        assert_eq!(wire.ask(&look("GET", path, &[HOST])).await.status, whole.status);
    }
    for path in ["/", "/metrics/", "/healthz?x=y/", "/Metrics", "/metrics/x"] {
        let told = get(&door, path).await;
        assert_eq!(told.status, if path.starts_with("/healthz") { 200 } else { 404 }, "{path}");
    }
    let by_address = ask(&door, &post(&["Host: 10.1.2.3", TYPE, BOTH], b"{}")).await;
    assert_eq!(by_address.status, 403, "MCP is for the names of the door alone");
    door.closed().await;
}

/// A listener that answers nothing but looks.
struct Alone {
    address: SocketAddr,
    stop: CancellationToken,
    ended: JoinHandle<()>,
}

impl Alone {
    async fn beside(client: &Client, meters: Meters, config: HttpConfig) -> Self {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let rules = Rules { keys: Keys::default(), hosts: Hosts::new(local.ip(), &[], &[]).unwrap(), tls: None };
        let door = HttpDoor::bind(local, rules, config).await.unwrap().counted_in(meters);
        let (address, stop) = (door.address().unwrap(), CancellationToken::new());
        let ended = tokio::spawn(door.watch(client.server.clone(), stop.clone()));
        Self { address, stop, ended }
    }

    async fn ask(&self, bytes: &[u8]) -> Told {
        Wire::to(TcpStream::connect(self.address).await.unwrap()).ask(bytes).await
    }
}

/// Beside a door it counts that one's requests too, and there is no MCP behind it.
#[tokio::test]
async fn a_listener_for_looks_has_nothing_else() {
    let (plant, _works, _node) = joined(false, None).await;
    let client = client_of(plant).await;
    let meters = Meters::default();
    let config = HttpConfig { drain: Duration::from_millis(100), ..HttpConfig::default() };
    let (first, second) =
        (Alone::beside(&client, meters.clone(), config).await, Alone::beside(&client, meters, config).await);
    for (path, body) in [("/mcp", "{}"), ("/", "")] {
        for bytes in [look("GET", path, &[HOST]), post(&[HOST, TYPE, BOTH], body.as_bytes())] {
            let told = first.ask(&bytes).await;
            assert!(
                told.status == 404 && told.json()["error"]["message"].as_str().unwrap().contains("/metrics"),
                "{told:?}"
            );
        }
    }
    let told = second.ask(&look("GET", "/metrics", &["Host: 172.17.0.2:9464"])).await;
    let found = samples(&told.body);
    assert_eq!(of(&found, "plantbridge_http_requests_total{listener=\"metrics\",status=\"404\"}"), 4);
    assert_eq!(of(&found, "plantbridge_http_connections_total{listener=\"metrics\"}"), 5);
    assert!(!found.keys().any(|series| series.contains("listener=\"mcp\"")), "{found:#?}");
    for alone in [first, second] {
        alone.stop.cancel();
        timeout(PATIENCE, alone.ended).await.expect("it closes").unwrap();
    }
}

/// Whoever begins and does not go on is cut off, and those who come meanwhile are answered.
#[tokio::test]
async fn who_is_slow_to_ask_is_cut_off() {
    let (plant, _works, _node) = joined(false, None).await;
    let client = client_of(plant).await;
    let config = HttpConfig { head: Duration::from_millis(100), connections: 2, ..HttpConfig::default() };
    let alone = Alone::beside(&client, Meters::default(), config).await;
    let mut slow = Vec::new();
    for begun in ["GET /met", "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-"] {
        let mut wire = Wire::to(TcpStream::connect(alone.address).await.unwrap());
        wire.send(begun.as_bytes()).await;
        slow.push(wire);
    }
    assert_eq!(alone.ask(&look("GET", "/healthz", &[HOST])).await.status, 200);
    for wire in &mut slow {
        assert!(timeout(PATIENCE, wire.is_closed()).await.expect("it is cut off"));
    }
    alone.stop.cancel();
    timeout(PATIENCE, alone.ended).await.expect("it closes").unwrap();
}

#[cfg(all(feature = "demo", unix))]
mod process {
    //! The binary: its two listeners, its log as JSON, and `plantbridge health`.

    use rustix::process::Signal;

    use super::*;
    use crate::people::{Lasting, ended, line, plantbridge};

    /// Reads the log until a line says this; every line is one object. Gives the address in it.
    async fn said(bridge: &mut Lasting, words: &str) -> String {
        loop {
            let text = line(&mut bridge.notes).await.expect("it goes on");
            let told: Json = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
            let message = told["message"].as_str().unwrap();
            if message.contains(words) {
                let (_, rest) = message.split_once("http://").unwrap();
                return format!("http://{}", rest.split(['/', ':']).take(1).collect::<String>() + ":" + &port(rest));
            }
        }
    }

    fn port(rest: &str) -> String {
        let (_, rest) = rest.split_once(':').unwrap();
        rest.chars().take_while(char::is_ascii_digit).collect()
    }

    async fn health(arguments: &[&str]) -> (i32, String, String) {
        let told = ended(&mut plantbridge(&[&["health"], arguments].concat())).await;
        (told.code, told.out, told.err)
    }

    /// Both listeners answer, health follows, every line of the log is an object to the end, and nothing but MCP is on standard
    /// output.
    #[tokio::test]
    async fn a_bridge_is_watched_from_its_start_to_its_end() {
        let flags = [
            "mcp",
            "--demo",
            "--no-stdio",
            "--port",
            "0",
            "--metrics-port",
            "0",
            "--log",
            "json",
            "--log-level",
            "debug",
        ];
        let mut bridge = Lasting::begun(plantbridge(&flags));
        let door = said(&mut bridge, "MCP over HTTP is at").await;
        let alone = said(&mut bridge, "health and metrics are at").await;
        assert_ne!(door, alone);
        let ready = async { while health(&["--url", &alone]).await.0 != 0 {} };
        timeout(PATIENCE, ready).await.expect("it joins");
        assert_eq!(health(&["--url", &door]).await, (0, "ready\n".into(), String::new()));
        let number = port(alone.strip_prefix("http://").unwrap());
        assert_eq!(health(&["--port", &number, "--live"]).await, (0, "ok\n".into(), String::new()));
        let mut command = plantbridge(&["health"]);
        let told = ended(command.env("PLANTBRIDGE_HEALTH_URL", &alone)).await;
        assert_eq!((told.code, told.out.as_str()), (0, "ready\n"));

        bridge.signal(Signal::TERM);
        let (code, lines, notes) = bridge.end().await;
        assert_eq!((code, lines), (0, Vec::new()));
        let told: Vec<Json> = notes.iter().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
        assert!(told.iter().any(|line| line["message"] == "asked to end" && line["level"] == "INFO"), "{told:?}");
        assert!(told.iter().all(|line| line["time"].is_string() && line["fields"].is_object()), "{told:?}");

        let (code, out, err) = health(&["--url", &alone]).await;
        assert!((code, out.as_str()) == (1, "") && err.starts_with("plantbridge: health: 127.0.0.1:"), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }

    /// What cannot start says so in the log, where the log is for programs; and the environment names the same.
    #[tokio::test]
    async fn why_it_does_not_start_is_a_line_of_the_log() {
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        for flags in [&["--demo", "--metrics-port", &port][..], &["--port", "0"]] {
            let mut command = plantbridge(&[&["mcp"], flags].concat());
            let told = ended(command.env("PLANTBRIDGE_LOG", "json")).await;
            let lines: Vec<Json> = told.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let last = lines.last().unwrap();
            assert_eq!((told.code, &last["level"]), (1, &json!("ERROR")), "{}", told.err);
            let expected = if flags.len() == 3 { "--metrics-port: 127.0.0.1:" } else { "give it --broker" };
            assert!(last["message"].as_str().unwrap().starts_with(expected), "{last}");
        }
        let mut command = plantbridge(&["mcp", "--demo"]);
        let told = ended(command.env("PLANTBRIDGE_LOG", "xml")).await;
        assert!(told.code == 1 && told.err.starts_with("plantbridge: PLANTBRIDGE_LOG is text or json"), "{}", told.err);
    }

    /// What is no bridge is not healthy, however it behaves, and that is known within the bound.
    #[tokio::test]
    async fn who_never_answers_is_not_healthy() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port().to_string();
        let (code, out, err) = health(&["--port", &port]).await;
        assert!((code, out.as_str()) == (1, "") && err.lines().count() == 1, "{err}");
        let (code, _, err) = health(&["--url", "https://127.0.0.1:1"]).await;
        assert!(code == 1 && err.contains("--metrics-port"), "{err}");
        assert!(health(&[]).await.2.contains("PLANTBRIDGE_HEALTH_URL"));
    }
}
