//! A hub for tests, written from wire.md 10: one that works ([`Hub`]), and one that does what a test says ([`Door`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use plantbridge::{
    link::{
        Link, LinkId,
        hub::{Config, HubUrl, start},
    },
    wire::{Map, PeerName, Value, msgpack},
};
use serde_json::{Value as Json, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::{AbortHandle, JoinSet},
    time::timeout,
};
use tokio_tungstenite::{WebSocketStream, accept_async, tungstenite::Message};

/// How long anything may take before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// What a hub says first.
pub(crate) const OPENING: &str =
    r#"0{"sid":"s","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}"#;
/// What comes before a frame.
pub(crate) const FRAME: &str = r#"451-["frame",{"_placeholder":true,"num":0}]"#;

pub(crate) fn name(text: &str) -> PeerName {
    PeerName::hub(text).unwrap()
}

/// A link to the hub at `url`, quick to retry.
pub(crate) fn config(url: &str, me: &str) -> Config {
    let mut config = Config::new(HubUrl::parse(url).unwrap(), name(me));
    config.backoff_min = Duration::from_millis(1);
    config.backoff_max = Duration::from_millis(20);
    config
}

pub(crate) fn linked(url: &str, me: &str) -> Link {
    start(config(url, me), LinkId(0))
}

// ---------------------------------------------------------------------------------------------------------------------
// A hub that does what a test says
// ---------------------------------------------------------------------------------------------------------------------

/// Where links come in.
pub(crate) struct Door {
    listener: TcpListener,
    pub(crate) url: String,
}

/// One WebSocket, at the hub's end.
pub(crate) struct Wire(pub(crate) WebSocketStream<TcpStream>);

impl Door {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { listener, url }
    }

    pub(crate) async fn socket(&self) -> TcpStream {
        timeout(PATIENCE, self.listener.accept()).await.expect("nobody comes").unwrap().0
    }

    pub(crate) async fn accept(&self) -> Wire {
        Wire(accept_async(self.socket().await).await.unwrap())
    }

    /// A link that was let in and announced itself.
    pub(crate) async fn joined(&self) -> Wire {
        let mut wire = self.accept().await;
        wire.admit().await;
        wire
    }
}

impl Wire {
    /// Opens, lets in, and reads the announcement.
    pub(crate) async fn admit(&mut self) -> String {
        self.say(OPENING).await;
        assert!(self.text().await.starts_with("40"));
        self.say(r#"40{"sid":"t"}"#).await;
        self.text().await
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// Sends bytes as an attachment.
    pub(crate) async fn attach(&mut self, bytes: Vec<u8>) {
        self.0.send(Message::binary(bytes)).await.unwrap();
    }

    pub(crate) async fn frame(&mut self, frame: Json) {
        self.say(FRAME).await;
        self.attach(packed(frame)).await;
    }

    pub(crate) async fn message(&mut self) -> Option<Message> {
        match timeout(PATIENCE, self.0.next()).await.expect("the link says nothing") {
            Some(Ok(Message::Close(_)) | Err(_)) | None => None,
            Some(Ok(message)) => Some(message),
        }
    }

    pub(crate) async fn text(&mut self) -> String {
        self.message().await.expect("a text, not the end").into_text().unwrap().to_string()
    }

    /// The next frame: its announcement, and the attachment directly after it.
    pub(crate) async fn arrived(&mut self) -> Value {
        assert_eq!(self.text().await, FRAME);
        let Some(Message::Binary(bytes)) = self.message().await else { panic!("an attachment") };
        msgpack::decode(&bytes).unwrap()
    }
}

pub(crate) fn packed(frame: Json) -> Vec<u8> {
    msgpack::encode(&plantbridge::wire::json::from_json(frame)).unwrap()
}

// ---------------------------------------------------------------------------------------------------------------------
// A hub that works
// ---------------------------------------------------------------------------------------------------------------------

/// A hub named `bus`. Dropping it ends it and every connection.
pub(crate) struct Hub {
    pub(crate) url: String,
    state: Shared,
    task: AbortHandle,
}

type Shared = Arc<Mutex<State>>;

#[derive(Default)]
struct State {
    /// Who announced itself: on which connection, with which shape.
    peers: BTreeMap<String, Peer>,
    /// Who is not let stay.
    unwanted: BTreeSet<String>,
    next: u64,
    /// Everybody who is told of others: whoever announced himself, also if somebody else has his name now.
    told: BTreeMap<u64, UnboundedSender<Message>>,
    /// Whether it serves `bus`, who listens to it, and what is tapped: by token, the filter.
    mirrors: bool,
    listeners: BTreeSet<String>,
    taps: BTreeMap<String, Json>,
    /// Whether it tells whoever announces themselves that they came.
    echoes: bool,
    /// Everybody who ever announced themselves.
    announced: Vec<String>,
}

struct Peer {
    connection: u64,
    shape: Option<String>,
    out: UnboundedSender<Message>,
}

impl Hub {
    /// One that mirrors what it passes on (wire.md 11.2).
    pub(crate) async fn mirroring() -> Self {
        let hub = Self::start().await;
        hub.state.lock().unwrap().mirrors = true;
        hub
    }

    /// What is tapped now: the filters.
    pub(crate) fn taps(&self) -> Vec<Json> {
        self.state.lock().unwrap().taps.values().cloned().collect()
    }

    /// Forgets every tap, and who listens, as one that was started again.
    pub(crate) fn forget_taps(&self) {
        let mut state = self.state.lock().unwrap();
        state.taps.clear();
        state.listeners.clear();
    }

    /// Has it tell whoever announces themselves that they came.
    pub(crate) fn echo(&self) {
        self.state.lock().unwrap().echoes = true;
    }

    /// How often somebody announced himself under this name.
    pub(crate) fn announcements(&self, peer: &str) -> usize {
        self.state.lock().unwrap().announced.iter().filter(|name| *name == peer).count()
    }

    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Shared::default();
        let shared = state.clone();
        let task = tokio::spawn(async move {
            // Ends with this task.
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                socket.set_nodelay(true).unwrap();
                connections.spawn(serve(shared.clone(), socket));
            }
        });
        Self { url, state, task: task.abort_handle() }
    }

    /// Ends the connection of a peer.
    pub(crate) fn cut(&self, peer: &str) {
        let out = self.state.lock().unwrap().peers.get(peer).expect("it is there").out.clone();
        out.send(Message::Close(None)).unwrap();
    }
}

impl Hub {
    /// Ends the connection of a peer, and every further one.
    pub(crate) fn keep_out(&self, peer: &str) {
        self.state.lock().unwrap().unwanted.insert(peer.to_owned());
        self.cut(peer);
    }

    /// Lets everybody stay again.
    pub(crate) fn let_in(&self) {
        self.state.lock().unwrap().unwanted.clear();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(state: Shared, socket: TcpStream) {
    let Ok(stream) = accept_async(socket).await else { return };
    let (mut write, mut read) = stream.split();
    let (out, mut queue) = unbounded_channel::<Message>();
    let id = {
        let mut state = state.lock().unwrap();
        state.next += 1;
        state.next
    };
    out.send(Message::text(OPENING)).unwrap();
    let mut attachment = false;
    loop {
        tokio::select! {
            message = queue.recv() => {
                let last = matches!(message, Some(Message::Close(_)));
                if write.send(message.unwrap()).await.is_err() || last {
                    break;
                }
            }
            message = read.next() => match message {
                Some(Ok(Message::Text(text))) if text.starts_with("40") => out.send(Message::text(r#"40{"sid":"t"}"#)).unwrap(),
                Some(Ok(Message::Text(text))) if text.starts_with("42") => {
                    let event: Json = serde_json::from_str(&text[2..]).unwrap();
                    assert_eq!(event[0], "presence");
                    announce(&mut state.lock().unwrap(), id, &event[1], &out);
                }
                Some(Ok(Message::Text(text))) if text == FRAME => attachment = true,
                Some(Ok(Message::Text(text))) if text == "41" => break,
                Some(Ok(Message::Binary(bytes))) => {
                    assert!(std::mem::take(&mut attachment), "bytes that nothing announced");
                    relay(&mut state.lock().unwrap(), &msgpack::decode(&bytes).unwrap(), &out);
                }
                Some(Ok(Message::Text(text))) => panic!("{text}"),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break,
            },
        }
    }
    gone(&mut state.lock().unwrap(), id);
}

fn presence(argument: Json) -> Message {
    Message::text(format!("42{}", json!(["presence", argument])))
}

fn announce(state: &mut State, connection: u64, said: &Json, out: &UnboundedSender<Message>) {
    assert_eq!(said["v"], 2, "W-101");
    let name = said["name"].as_str().unwrap();
    if state.unwanted.contains(name) {
        out.send(Message::Close(None)).unwrap();
        return;
    }
    let shape = said["shape"].as_str().map(str::to_owned);
    let known = state.peers.get(name).is_some_and(|peer| peer.connection == connection && peer.shape == shape);
    let mut shapes: serde_json::Map<String, Json> = serde_json::Map::new();
    for (peer, entry) in &state.peers {
        if let Some(shape) = &entry.shape {
            shapes.insert(peer.clone(), shape.as_str().into());
        }
    }
    shapes.remove(name);
    let others = state.peers.keys().filter(|peer| *peer != name);
    let peers: Vec<&str> = ["bus"].into_iter().chain(others.map(String::as_str)).collect();
    out.send(presence(json!({"peers": peers, "shapes": shapes}))).unwrap();
    state.peers.insert(name.to_owned(), Peer { connection, shape: shape.clone(), out: out.clone() });
    state.announced.push(name.to_owned());
    state.told.insert(connection, out.clone());
    if state.echoes {
        out.send(presence(json!({"peer": name, "state": "online"}))).unwrap();
    }
    if !known {
        let mut news = json!({"peer": name, "state": "online"});
        if let Some(shape) = shape {
            news["shape"] = shape.into();
        }
        tell_others(state, connection, &news);
    }
}

fn gone(state: &mut State, connection: u64) {
    state.told.remove(&connection);
    let left: Vec<String> =
        state.peers.iter().filter(|(_, peer)| peer.connection == connection).map(|(name, _)| name.clone()).collect();
    for name in left {
        state.peers.remove(&name);
        tell_others(state, connection, &json!({"peer": name, "state": "offline"}));
    }
}

fn tell_others(state: &State, connection: u64, news: &Json) {
    for (_, out) in state.told.iter().filter(|(told, _)| **told != connection) {
        // One that is just leaving hears nothing any more.
        let _ = out.send(presence(news.clone()));
    }
}

/// Passes a frame on, one hop further; a single request that nobody can have is answered.
fn relay(state: &mut State, frame: &Value, back: &UnboundedSender<Message>) {
    let text = |field: &str| frame.get(field).and_then(Value::as_str).map(str::to_owned);
    let (source, target, kind) = (text("src").unwrap(), text("tgt").unwrap(), text("kind").unwrap());
    if target == "bus" && state.mirrors {
        return bus(state, frame, &source, back);
    }
    mirror(state, frame);
    let mut relayed = frame.as_map().unwrap().clone();
    let hops = frame.get("hops").and_then(Value::as_i64).unwrap_or(0) + 1;
    let refusal = match state.peers.get(&target) {
        Some(peer) if hops <= 8 => {
            relayed.insert("hops", hops);
            send(&peer.out, relayed);
            return;
        }
        Some(_) => "bus: over 8 relays".to_owned(),
        None => format!("bus: no route to '{target}'"),
    };
    if matches!(kind.as_str(), "call" | "subscribe" | "unsubscribe") {
        let body: Map = [("name", "RpcError"), ("message", &refusal)]
            .into_iter()
            .map(|(key, value)| (key.to_owned(), Value::from(value)))
            .collect();
        let mut answer = Map::new();
        answer.insert("v", 2);
        for (key, value) in [("src", "bus"), ("tgt", &source), ("kind", "error"), ("code", "TransportError")] {
            answer.insert(key, value);
        }
        answer.insert("corr", frame.get("corr").unwrap().clone());
        answer.insert("body", body);
        send(back, answer);
    }
}

fn send(out: &UnboundedSender<Message>, frame: Map) {
    // One that is just leaving hears nothing any more.
    let _ = out.send(Message::text(FRAME));
    let _ = out.send(Message::binary(msgpack::encode(&Value::Map(frame)).unwrap()));
}

/// The hub's own namespace.
fn bus(state: &mut State, frame: &Value, source: &str, back: &UnboundedSender<Message>) {
    let Some(corr) = frame.get("corr").cloned() else { return };
    let argument = frame.get("body").and_then(|body| body.as_array()?.first()).cloned().unwrap_or(Value::Null);
    let answer = match frame.get("method").and_then(Value::as_str).unwrap_or_default() {
        "on" => {
            state.listeners.insert(source.to_owned());
            json!("ok")
        }
        "off" => {
            state.listeners.remove(source);
            json!("ok")
        }
        "tap" => {
            state.next += 1;
            let token = format!("tap-{}", state.next);
            state.taps.insert(token.clone(), plantbridge::wire::tagged::to_json(argument.clone()));
            json!({"token": token, "expires": 1, "filter": {}})
        }
        "untap" => json!({"tapping": false, "already": state.taps.remove(argument.as_str().unwrap()).is_none()}),
        other => panic!("bus.{other}"),
    };
    let mut reply = Map::new();
    reply.insert("v", 2);
    for (key, value) in [("src", "bus"), ("tgt", source), ("kind", "result")] {
        reply.insert(key, value);
    }
    reply.insert("corr", corr);
    reply.insert("body", plantbridge::wire::json::from_json(answer));
    send(back, reply);
}

/// Tells who taps of a frame that is passed on; everybody who listens hears of everything that anybody taps.
fn mirror(state: &State, frame: &Value) {
    let text = |field: &str| frame.get(field).and_then(Value::as_str).map(str::to_owned);
    let wants = |filter: &Json| {
        filter["peer"].is_null()
            || [text("src"), text("tgt")].iter().flatten().any(|name| filter["peer"] == name.as_str())
    };
    let taps: Vec<&String> = state.taps.iter().filter(|(_, filter)| wants(filter)).map(|(token, _)| token).collect();
    if taps.is_empty() {
        return;
    }
    let payloads = state.taps.values().any(|filter| filter["payloads"] == true);
    let kind = text("kind").unwrap();
    let kind = match kind.as_str() {
        "call" | "subscribe" | "unsubscribe" => "POST",
        "result" => "SUCCESS",
        "error" => "ERROR",
        "event" => "EVENT",
        "ticket" => "TICKET",
        "batch" => "BATCH",
        other => panic!("{other}"),
    };
    let mut told = Map::new();
    told.insert("at", 1_796_025_067_028_i64);
    told.insert("kind", kind);
    told.insert("taps", Value::Array(taps.iter().map(|token| token.as_str().into()).collect()));
    for (from, to) in [
        ("src", "source"),
        ("tgt", "target"),
        ("path", "namespace"),
        ("method", "method"),
        ("event", "event"),
        ("corr", "id"),
        ("code", "code"),
    ] {
        if let Some(value) = frame.get(from) {
            told.insert(to, value.clone());
        }
    }
    if let (true, Some(body)) = (payloads, frame.get("body")) {
        told.insert(if matches!(kind, "POST" | "EVENT") { "params" } else { "result" }, body.clone());
    }
    for listener in &state.listeners {
        let mut event = Map::new();
        event.insert("v", 2);
        for (key, value) in
            [("src", "bus"), ("tgt", listener.as_str()), ("kind", "event"), ("path", "bus"), ("event", "frame")]
        {
            event.insert(key, value);
        }
        event.insert("body", Value::Array(vec![Value::Map(told.clone())]));
        if let Some(peer) = state.peers.get(listener) {
            send(&peer.out, event);
        }
    }
}
