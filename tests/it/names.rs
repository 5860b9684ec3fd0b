//! Whose a name is: it is looked for before it is joined under, and whoever was displaced looks before coming back.

use std::time::Duration;

use plantbridge::{
    link::{DownKind, Link, LinkEvent, LinkId, hub, mqtt::start},
    wire::mqtt,
};
use tokio::time::timeout;

use crate::{
    hub::{Door, Hub, PATIENCE, config, linked, name},
    link_mqtt,
    links::{any_event, down, event, up},
    scripted::{Broker, CONNACK, plain, publish},
};

/// A link that looks first.
fn careful(url: &str, me: &str) -> Link {
    hub::start(looking(url, me), LinkId(0))
}

fn looking(url: &str, me: &str) -> hub::Config {
    let mut config = config(url, me);
    config.looks = true;
    config
}

/// Everything up to the end of the first sweep.
async fn joined(link: &mut Link) {
    up(link).await;
    while !matches!(event(link).await, LinkEvent::Settled) {}
}

/// A look announces a name that nobody has, sends no frame and says goodbye; then the name is announced.
#[tokio::test]
async fn a_chosen_name_is_looked_for_on_a_hub() {
    let door = Door::new().await;
    let mut link = careful(&door.url, "hmi");
    let mut look = door.accept().await;
    let said = look.admit().await;
    assert!(said.contains("look-") && !said.contains("hmi") && said.contains("\"v\":2"), "{said}");
    look.say(r#"42["presence",{"peers":["bus","oven"]}]"#).await;
    assert_eq!(look.text().await, "41", "nothing but a goodbye");
    assert_eq!(look.message().await, None);
    let mut wire = door.accept().await;
    assert!(wire.admit().await.contains("hmi"));
    up(&mut link).await;
}

/// What is not said cannot be waited for: a hub that binds names to tokens does not answer a look, one that says nonsense
/// or goes away is met again when we join.
#[tokio::test]
async fn a_look_that_shows_nothing_is_no_reason_to_stay_away() {
    for answer in [None, Some("42[\"presence\",7]"), Some("41")] {
        let door = Door::new().await;
        let mut config = looking(&door.url, "hmi");
        config.sweep = Duration::from_millis(30);
        let mut link = hub::start(config, LinkId(0));
        let mut look = door.joined().await;
        if let Some(answer) = answer {
            look.say(answer).await;
        }
        assert_eq!(look.text().await, "41");
        drop(look);
        let _wire = door.joined().await;
        up(&mut link).await;
    }
}

/// While somebody has the name we stay away, say so once, and join when he has left; he is not disturbed.
#[tokio::test]
async fn somebody_elses_name_is_left_to_him_on_a_hub() {
    let hub = Hub::start().await;
    let mut device = linked(&hub.url, "oven");
    joined(&mut device).await;
    let mut link = careful(&hub.url, "oven");
    let why = down(&mut link, DownKind::NameTaken).await;
    assert!(why.contains("a peer named oven is on the hub") && why.contains("--name"), "{why}");
    assert_eq!(hub.announcements("oven"), 1, "he alone");
    drop(device);
    joined(&mut link).await;
    assert_eq!(hub.announcements("oven"), 2);
}

/// A process that died is about to be noticed: its name is waited for, and nothing is said.
#[tokio::test]
async fn what_a_process_that_died_left_is_waited_for() {
    let door = Door::new().await;
    let mut link = careful(&door.url, "hmi");
    let mut look = door.joined().await;
    look.say(r#"42["presence",{"peers":["bus","hmi"]}]"#).await;
    look.say(r#"42["presence",{"peer":"hmi","state":"offline"}]"#).await;
    assert_eq!(look.text().await, "41");
    drop(look);
    let _wire = door.joined().await;
    up(&mut link).await;
}

/// Somebody takes our name while we are there: we go, say so, and come back when he has gone. We do not take it back.
#[tokio::test]
async fn whoever_is_displaced_on_a_hub_does_not_take_the_name_back() {
    let hub = Hub::start().await;
    let mut link = linked(&hub.url, "hmi");
    joined(&mut link).await;
    let mut other = linked(&hub.url, "hmi");
    joined(&mut other).await;
    let why = down(&mut link, DownKind::Displaced).await;
    assert!(why.contains("another peer goes by our name now"), "{why}");
    down(&mut link, DownKind::NameTaken).await;
    assert_eq!(hub.announcements("hmi"), 2, "he alone came after us");
    while let Ok(event) = other.events.try_recv() {
        // He sees the looks come and go.
        assert!(matches!(event, LinkEvent::Online { .. } | LinkEvent::Offline(_)), "he is disturbed: {event:?}");
    }
    drop(other);
    joined(&mut link).await;
}

/// A hub that tells everybody that they came themselves is believed twice, and then worked with.
#[tokio::test]
async fn a_hub_that_echoes_us_is_not_fled_for_ever() {
    let hub = Hub::start().await;
    hub.echo();
    let mut link = linked(&hub.url, "hmi");
    for _ in 0..2 {
        up(&mut link).await;
        while !matches!(&event(&mut link).await, LinkEvent::Down(reason) if reason.kind == DownKind::Displaced) {}
    }
    up(&mut link).await;
    let mut refused = false;
    while !refused {
        refused = matches!(&event(&mut link).await, LinkEvent::Refused(why) if why.contains("says that we came"));
    }
    assert_eq!(hub.announcements("hmi"), 3);
}

/// After a loss what we left behind is ours, and told by its shape; whoever has another one is somebody else. A broker may
/// carry our name to the hub, without a shape.
#[tokio::test]
async fn after_a_loss_only_a_stranger_is_in_our_way_on_a_hub() {
    for (shape, carried, joins) in [
        (Some("ours"), false, true),
        (Some("theirs"), false, false),
        (None, false, false),
        (None, true, true),
        (Some("theirs"), true, false),
    ] {
        let door = Door::new().await;
        let mut config = looking(&door.url, "hmi");
        config.carried = carried;
        let mut link = hub::start(config, LinkId(0));
        let announce = plantbridge::link::Outbound::Announce { shape: Some("ours".into()) };
        link.outbound.send(announce).await.unwrap();
        let mut look = door.joined().await;
        look.say(r#"42["presence",{"peers":["bus"]}]"#).await;
        look.text().await;
        drop(look);
        let wire = door.joined().await;
        up(&mut link).await;
        drop(wire);
        down(&mut link, DownKind::Lost).await;
        let mut look = door.joined().await;
        let shapes = shape.map_or_else(|| "{}".into(), |shape| format!(r#"{{"hmi":"{shape}"}}"#));
        look.say(&format!(r#"42["presence",{{"peers":["bus","hmi"],"shapes":{shapes}}}]"#)).await;
        if joins {
            assert_eq!(look.text().await, "41");
            drop(look);
            let _wire = door.joined().await;
            up(&mut link).await;
        } else {
            assert_eq!(look.text().await, "41", "after some patience");
            drop(look);
            down(&mut link, DownKind::NameTaken).await;
        }
    }
}

/// The same on a broker that names a displacement: the next connection is a look, and not one under our name.
#[tokio::test]
async fn whoever_is_displaced_on_a_broker_looks_first() {
    let broker = Broker::new().await;
    let mut link = link_mqtt::linked(&broker);
    let mut wire = broker.join().await;
    up(&mut link).await;
    wire.send(&[0xE0, 2, 0x8E, 0]).await;
    drop(wire);
    down(&mut link, DownKind::Displaced).await;
    for _ in 0..2 {
        let mut look = broker.accept().await;
        let connect = look.greet(CONNACK).await;
        let has = |part: &[u8]| connect.body.windows(part.len()).any(|window| window == part);
        assert!(has(b"msgrpc-hmi-look-"), "{connect:?}");
        look.answer_subscribe(0).await;
        look.send(&publish(&plain("msgrpc/v2/presence/hmi", b"online"), None, true)).await;
        assert_eq!(timeout(PATIENCE, look.packet()).await.unwrap().kind(), 14);
    }
    let why = down(&mut link, DownKind::NameTaken).await;
    assert!(why.contains("hmi"), "{why}");
    let mut look = broker.accept().await;
    look.greet(CONNACK).await;
    look.answer_subscribe(0).await;
    look.send(&publish(&plain("msgrpc/v2/presence/hmi", b"offline"), None, true)).await;
    assert_eq!(look.packet().await.kind(), 14);
    drop(look);
    let _wire = broker.join().await;
    assert!(matches!(any_event(&mut link).await, LinkEvent::Up), "told once, however often it was tried");
}

/// A broker may throw us off without a word: for a chosen name the next connection is a look, which only minds whoever has
/// another shape than ours. What it kept of us is ours.
#[tokio::test]
async fn after_a_loss_only_a_stranger_is_in_our_way_on_a_broker() {
    for (shape, joins) in [(Some("ours"), true), (Some("theirs"), false), (None, false)] {
        let broker = Broker::new().await;
        let mut config = link_mqtt::config(&broker, "hmi");
        config.looks = true;
        let mut link = start(config, LinkId(0));
        let announce = plantbridge::link::Outbound::Announce { shape: Some("ours".into()) };
        link.outbound.send(announce).await.unwrap();
        let mut look = broker.accept().await;
        look.greet(CONNACK).await;
        look.answer_subscribe(0).await;
        assert_eq!(look.packet().await.kind(), 14);
        drop(look);
        let wire = broker.join().await;
        up(&mut link).await;
        drop(wire);
        down(&mut link, DownKind::Lost).await;
        let mut look = broker.accept().await;
        look.greet(CONNACK).await;
        look.answer_subscribe(0).await;
        let mut presence = mqtt::Publish { payload: "online".into(), ..plain("msgrpc/v2/presence/hmi", b"") };
        presence.user_properties.extend(shape.map(|shape| ("shape".to_owned(), shape.to_owned())));
        look.send(&publish(&presence, None, true)).await;
        assert_eq!(timeout(PATIENCE, look.packet()).await.unwrap().kind(), 14);
        drop(look);
        if joins {
            let _wire = broker.join().await;
            up(&mut link).await;
        } else {
            down(&mut link, DownKind::NameTaken).await;
        }
    }
}

/// Each link is looked at by itself: a name that is free on the broker and taken on the hub is joined under on the broker.
#[cfg(feature = "demo")]
#[tokio::test]
async fn with_both_links_each_is_looked_at() {
    use plantbridge::{
        demo::broker,
        node::{Identity, Network, Node, Serving},
    };
    let (broker, hub) = (broker::Broker::start().await.unwrap(), Hub::start().await);
    let mut device = linked(&hub.url, "press");
    joined(&mut device).await;
    let topics = plantbridge::wire::Topics::new(&plantbridge::wire::Prefix::default(), name("press")).unwrap();
    let mut on_broker =
        plantbridge::link::mqtt::Config::new(plantbridge::link::mqtt::BrokerUrl::parse(&broker.url()).unwrap(), topics);
    on_broker.looks = true;
    let mut on_hub = looking(&hub.url, "press");
    on_hub.carried = true;
    let identity = Identity { name: name("press"), serving: Serving::default(), exposed: Vec::new() };
    let node = Node::start(identity, vec![start(on_broker, LinkId(0)), hub::start(on_hub, LinkId(1))]).0;
    let taken = |network: &Network| {
        let down = network.links.iter().find(|(id, _)| *id == LinkId(1)).and_then(|(_, link)| link.down.as_ref());
        network.is_link_up(LinkId(0)) && down.is_some_and(|down| down.kind == DownKind::NameTaken)
    };
    assert!(taken(&*node.network_when(PATIENCE, taken).await));
    assert_eq!(hub.announcements("press"), 1);
    drop(device);
    let both = |network: &Network| network.is_link_up(LinkId(0)) && network.is_link_up(LinkId(1));
    assert!(both(&*node.network_when(PATIENCE, both).await));
}
