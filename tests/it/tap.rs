//! The tap against a broker that follows a script: what it sends, when it is there, and what it says when it is not.

use std::collections::HashSet;

use plantbridge::link::DownKind;
use plantbridge::link::mqtt::{Credentials, Secret, Tap, Tapped, Watcher};
use plantbridge::wire::mqtt;
use tokio::time::timeout;

use crate::link_mqtt::{config, connect_fields, request, topics, vectors};
use crate::scripted::{Broker, CONNACK, PATIENCE, Packet, Wire, plain, publish};

async fn heard(watcher: &mut Watcher) -> Tapped {
    timeout(PATIENCE, watcher.next()).await.expect("the tap says nothing")
}

async fn up(watcher: &mut Watcher) {
    let tapped = heard(watcher).await;
    assert!(matches!(tapped, Tapped::Up { .. }), "{tapped:?}");
}

async fn down(watcher: &mut Watcher, kind: DownKind) -> String {
    match heard(watcher).await {
        Tapped::Down(reason) if reason.kind == kind => reason.detail,
        other => panic!("{other:?} instead of {kind:?}"),
    }
}

async fn topic(watcher: &mut Watcher) -> String {
    match heard(watcher).await {
        Tapped::Publish { publish, .. } => publish.topic.clone(),
        other => panic!("{other:?} instead of a message"),
    }
}

/// The next connection, listening.
async fn opened(broker: &Broker) -> (Packet, Wire) {
    let mut wire = broker.accept().await;
    let connect = wire.greet(CONNACK).await;
    wire.answer_subscribe(0).await;
    (connect, wire)
}

async fn closed(wire: &mut Wire) {
    let farewell = wire.packet().await;
    assert_eq!(farewell.kind(), 14, "a DISCONNECT and nothing else: {farewell:?}");
    assert_eq!(wire.try_packet().await, None, "the connection is closed");
}

/// W-120: a connection of its own, without will and presence, for everything under the prefix at QoS 0. Where it differs
/// from the recorded tap, and why: no session may queue for it, what is larger than it takes must not cut it, its name is
/// nobody else's (F-22), and one filter at QoS 0 hears all there is, answers on deeper topics included.
#[tokio::test]
async fn w120_it_is_a_connection_of_its_own_and_no_peer() {
    let recorded = vectors("mqtt-link.json")["connect"].clone();
    let recorded =
        recorded.as_array().unwrap().iter().find(|vector| vector["name"] == "tap").unwrap()["fields"].clone();
    let broker = Broker::new().await;
    let tap = Tap::new(config(&broker, "watch"));
    let mut watcher = tap.watch();
    let mut wire = broker.accept().await;
    let fields = connect_fields(&wire.greet(CONNACK).await);
    let same = ["protocolLevel", "keepAliveSeconds", "will"];
    assert!(same.iter().all(|field| fields[field] == recorded[field]), "{fields}");
    assert_eq!((&fields["cleanStart"], &fields["sessionExpiryInterval"]), (&true.into(), &0.into()));
    let own = fields["clientId"].as_str().unwrap();
    assert!(own.starts_with(recorded["clientId"].as_str().unwrap()) && own.len() > "msgrpc-watch-tap-".len(), "{own}");
    let subscribe = wire.answer_subscribe(0).await;
    assert_eq!(subscribe.body[3..], [&b"\x00\x0bmsgrpc/v2/#"[..], b"\x00"].concat()[..], "{subscribe:?}");
    up(&mut watcher).await;
    drop(watcher);
    closed(&mut wire).await;
}

/// The first opens it, the second shares it, the last closes it; the next one is another connection, of another name.
#[tokio::test]
async fn one_connection_however_many_watch() {
    let broker = Broker::new().await;
    let tap = Tap::new(config(&broker, "hmi"));
    let mut names = HashSet::new();
    for _ in 0..3 {
        let (mut one, mut other) = (tap.watch(), tap.clone().watch());
        let (connect, mut wire) = opened(&broker).await;
        assert!(names.insert(connect_fields(&connect)["clientId"].to_string()), "{names:?}");
        up(&mut one).await;
        up(&mut other).await;
        let mut late = tap.watch();
        up(&mut late).await;
        wire.send(&publish(&plain("msgrpc/v2/req/oven", b""), None, false)).await;
        for watcher in [&mut one, &mut other, &mut late] {
            assert_eq!(topic(watcher).await, "msgrpc/v2/req/oven");
        }
        drop((one, late));
        wire.send(&publish(&plain("msgrpc/v2/evt/hmi", b""), None, false)).await;
        assert_eq!(topic(&mut other).await, "msgrpc/v2/evt/hmi", "it stays for who is left");
        drop(other);
        closed(&mut wire).await;
    }
}

/// It publishes nothing and answers nothing, whatever it hears.
#[tokio::test]
async fn w120_it_never_answers() {
    let broker = Broker::new().await;
    let tap = Tap::new(config(&broker, "hmi"));
    let mut watcher = tap.watch();
    let (_, mut wire) = opened(&broker).await;
    up(&mut watcher).await;
    let ping = mqtt::encode(&request("oven", "hmi", "read"), &topics("oven")).unwrap();
    wire.send(&publish(&ping, None, false)).await;
    wire.send(&publish(&plain("msgrpc/v2/presence/oven", b"online"), None, true)).await;
    assert_eq!(topic(&mut watcher).await, "msgrpc/v2/req/hmi");
    assert!(matches!(heard(&mut watcher).await, Tapped::Publish { retained: true, .. }));
    drop(watcher);
    closed(&mut wire).await;
}

/// F-08: whoever stops watching before the connection is there leaves none.
#[tokio::test]
async fn given_up_early_it_leaves_no_connection() {
    let broker = Broker::new().await;
    let tap = Tap::new(config(&broker, "hmi"));
    let watcher = tap.watch();
    let mut wire = broker.accept().await;
    assert_eq!(wire.packet().await.kind(), 1);
    drop(watcher);
    assert_eq!(wire.try_packet().await, None, "it hangs up before the CONNACK");
    let mut watcher = tap.watch();
    let mut wire = broker.accept().await;
    wire.greet(CONNACK).await;
    assert_eq!(wire.packet().await.kind(), 8);
    drop(watcher);
    closed(&mut wire).await;
    watcher = tap.watch();
    let (_, _wire) = opened(&broker).await;
    up(&mut watcher).await;
}

/// F-23: a broker that does not let us watch is named as such, with what would have to be allowed.
#[tokio::test]
async fn a_refused_subscription_is_said() {
    let broker = Broker::new().await;
    let tap = Tap::new(config(&broker, "hmi"));
    let mut watcher = tap.watch();
    let mut wire = broker.accept().await;
    wire.greet(CONNACK).await;
    wire.answer_subscribe(0x87).await;
    let why = down(&mut watcher, DownKind::Unauthorized).await;
    assert!(why.contains("msgrpc/v2/#") && why.contains("NotAuthorized") && why.contains(&broker.url()), "{why}");
    let mut late = tap.watch();
    down(&mut late, DownKind::Unauthorized).await;
}

/// A connection that is lost is said, tried again, and said to be back; the same cause is said once.
#[tokio::test]
async fn a_lost_connection_is_said_and_comes_back() {
    let broker = Broker::new().await;
    let tap = Tap::new(config(&broker, "hmi"));
    let mut watcher = tap.watch();
    let (first, wire) = opened(&broker).await;
    up(&mut watcher).await;
    drop(wire);
    down(&mut watcher, DownKind::Lost).await;
    let (second, mut wire) = opened(&broker).await;
    assert_eq!(connect_fields(&first), connect_fields(&second), "the same tap");
    up(&mut watcher).await;
    wire.send(&publish(&plain("msgrpc/v2/evt/hmi", b""), None, false)).await;
    assert_eq!(topic(&mut watcher).await, "msgrpc/v2/evt/hmi");
}

/// F-23: the account of the link is the tap's too.
#[tokio::test]
async fn it_has_the_account_of_the_link() {
    let broker = Broker::new().await;
    let mut config = config(&broker, "hmi");
    config.credentials =
        Some(Credentials { username: "operator".into(), password: Some(Secret::new("open sesame".into())) });
    let _watcher = Tap::new(config).watch();
    let connect = broker.accept().await.packet().await;
    let sent = String::from_utf8_lossy(&connect.body);
    assert!(sent.contains("operator") && sent.contains("open sesame"), "{sent}");
}
