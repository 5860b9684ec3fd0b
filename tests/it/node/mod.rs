//! The node over its public handle: what the driver adds to the machine, which is tested by itself.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

use plantbridge::contract::{Event, Method, ServedNamespace};
use plantbridge::link::{Claim, DownKind, DownReason, Link, LinkEvent, LinkId, Outbound, Rejection, loopback};
use plantbridge::node::{
    Call, CallError, Certainty, Commit, Exposed, Failure, Heard, Identity, Incoming, Node, NotSent, Running, Service,
    ServiceFuture, Serving, Stream, Subscription,
};
use plantbridge::wire::frame::{Answer, Message, Reply};
use plantbridge::wire::{Frame, Map, PeerName, ReplyRoute, Request, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

mod calls;
mod hearing;
mod serving;

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn name(text: &str) -> PeerName {
    PeerName::mqtt(text).unwrap()
}

pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

/// A namespace whose methods do what their names say.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// Lets `wait` go on, and says that it runs.
    pub(crate) gate: Mutex<Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>>,
    pub(crate) runs: AtomicU64,
}

impl Service for Bell {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        self.runs.fetch_add(1, Ordering::Relaxed);
        assert_ne!(call.method, "panic at once", "as it was told to");
        let gate = if call.method == "wait" { self.gate.lock().unwrap().take() } else { None };
        Box::pin(async move {
            if let Some((runs, released)) = gate {
                runs.send(()).unwrap();
                released.await.unwrap();
            }
            match call.method.as_str() {
                "panic later" => panic!("as it was told to"),
                "fail" => Err(Failure::exception("no")),
                "change" => {
                    for at in 1..=3 {
                        node.commit("bell", Commit::State(state(at))).await;
                    }
                    node.emit("bell", "ring", vec![3.into()]).await;
                    Ok(Some("changed".into()))
                }
                _ => Ok(call.args.first().cloned()),
            }
        })
    }
}

pub(crate) fn state(at: i64) -> Map {
    let mut state = Map::new();
    state.insert("at", at);
    state
}

pub(crate) fn bell() -> Exposed {
    let methods = ["echo", "wait", "fail", "panic at once", "panic later", "change"];
    Exposed {
        name: "bell".into(),
        surface: ServedNamespace {
            name: "bell".into(),
            class_name: "Bell".into(),
            emitter: true,
            methods: Vec::from(methods.map(Method::undeclared)).into(),
            events: vec![Event { name: "ring".into(), ..Event::default() }],
            ..ServedNamespace::default()
        },
        validate: false,
        component: Some((Map::new(), state(0))),
        mailbox: 10,
        path_writes: false,
    }
}

pub(crate) fn identity(me: &str, service: Option<Arc<dyn Service>>) -> Identity {
    let exposed = service.map(|service| (bell(), service));
    Identity { name: name(me), serving: Serving::default(), exposed: exposed.into_iter().collect() }
}

pub(crate) fn call(peer: &str, method: &str, args: Vec<Value>) -> Call {
    Call {
        peer: name(peer),
        namespace: "bell".into(),
        method: method.into(),
        args,
        timeout: Some(PATIENCE),
        idempotency_key: None,
    }
}

pub(crate) fn stream(event: &str) -> Stream {
    Stream { peer: name("tower"), namespace: "bell".into(), event: event.into() }
}

/// Two nodes joined in memory.
pub(crate) struct Pair {
    pub(crate) hmi: Node,
    pub(crate) tower: Node,
    pub(crate) bell: Arc<Bell>,
    pub(crate) running: [Running; 2],
}

pub(crate) async fn joined() -> Pair {
    let (a, b) = loopback::pair(name("hmi"), name("tower"));
    let bell = Arc::new(Bell::default());
    let (hmi, first) = Node::start(identity("hmi", None), vec![a]);
    let (tower, second) = Node::start(identity("tower", Some(bell.clone())), vec![b]);
    for node in [&hmi, &tower] {
        let network = node.network_when(PATIENCE, |network| network.is_settled() && network.roster.len() == 1).await;
        assert!(network.is_settled());
    }
    Pair { hmi, tower, bell, running: [first, second] }
}

/// A node whose links are in the hands of the test.
pub(crate) struct Hands {
    pub(crate) node: Node,
    pub(crate) running: Running,
    pub(crate) links: Vec<Ends>,
}

/// The other ends of one link.
pub(crate) struct Ends {
    pub(crate) said: mpsc::Receiver<Outbound>,
    pub(crate) happens: mpsc::Sender<LinkEvent>,
}

pub(crate) fn link(id: u8, room: usize) -> (Link, Ends) {
    let (outbound, said) = mpsc::channel(1024);
    let (happens, events) = mpsc::channel(room);
    (Link { id: LinkId(id), outbound, events }, Ends { said, happens })
}

pub(crate) fn in_hand(me: &str, links: Vec<(Link, Ends)>, service: Option<Arc<dyn Service>>) -> Hands {
    let (links, ends): (Vec<_>, Vec<_>) = links.into_iter().unzip();
    let (node, running) = Node::start(identity(me, service), links);
    Hands { node, running, links: ends }
}

/// A node with one link, up.
pub(crate) async fn up(me: &str, service: Option<Arc<dyn Service>>) -> Hands {
    let hands = in_hand(me, vec![link(0, 8192)], service);
    hands.happens(LinkEvent::Up).await;
    hands.happens(LinkEvent::Settled).await;
    hands.node.network_when(PATIENCE, plantbridge::node::Network::is_settled).await;
    hands
}

impl Hands {
    pub(crate) async fn happens(&self, event: LinkEvent) {
        self.links[0].happens.send(event).await.unwrap();
    }

    /// The next frame the first link is asked to write, whether or not it is still wanted.
    pub(crate) async fn frame(&mut self) -> (u64, Frame, Option<Claim>) {
        soon(self.links[0].frame()).await
    }
}

impl Ends {
    pub(crate) async fn frame(&mut self) -> (u64, Frame, Option<Claim>) {
        loop {
            match self.said.recv().await.expect("the node let go of its link") {
                Outbound::Frame { id, frame, claim } => return (id, *frame, claim),
                Outbound::Announce { .. } => {}
                Outbound::Leave | Outbound::Yield => panic!("it leaves"),
            }
        }
    }
}

pub(crate) fn request(frame: &Frame) -> &Request {
    match &frame.message {
        Message::Request(request) => request,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn answer(frame: &Frame) -> &Answer {
    match &frame.message {
        Message::Reply(reply) => &reply.answer,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn asks(correlation: &str, method: &str, args: Vec<Value>) -> LinkEvent {
    let request = Request {
        correlation: correlation.into(),
        path: "bell".into(),
        method: method.into(),
        args,
        version: None,
        ttl: None,
        expiry: None,
        idempotency_key: None,
        fence: None,
        reply: ReplyRoute::default(),
    };
    LinkEvent::Frame(Box::new(Frame { source: name("hmi"), target: name("tower"), message: Message::Request(request) }))
}

pub(crate) fn answers(to: &Frame, value: &str) -> LinkEvent {
    let reply = Reply {
        correlation: request(to).correlation.clone(),
        route: ReplyRoute::default(),
        answer: Answer::Value(Some(value.into())),
    };
    LinkEvent::Frame(Box::new(Frame {
        source: to.target.clone(),
        target: to.source.clone(),
        message: Message::Reply(reply),
    }))
}

pub(crate) fn rings(at: i64) -> LinkEvent {
    let message =
        Message::Event { path: Some("bell".into()), event: "ring".into(), args: vec![at.into()], stamp: None };
    LinkEvent::Frame(Box::new(Frame { source: name("tower"), target: name("hmi"), message }))
}

pub(crate) async fn hears(subscription: &mut Subscription) -> Heard {
    soon(subscription.next()).await.expect("the node has left")
}

pub(crate) fn heard_ring(heard: &Heard) -> i64 {
    match heard {
        Heard::Event { args, .. } => args[0].as_i64().unwrap(),
        other => panic!("{other:?}"),
    }
}
