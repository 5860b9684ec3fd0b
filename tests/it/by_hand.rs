//! A hub between a bridge and the hand of a test: what the bridge sends arrives as a link is asked, and what the test tells is
//! said as a hub says it.

use plantbridge::{
    link::{Claim, Link, LinkEvent, LinkId, Outbound, hub::start},
    wire::flat,
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use crate::hub::{Door, FRAME, Wire, config};
use futures_util::StreamExt;

/// Silence is borne for as long as a hub may ask for: the clock of these tests jumps.
const PATIENT: &str = r#"0{"sid":"s","upgrades":[],"pingInterval":590000,"pingTimeout":10000,"maxPayload":1000000}"#;

/// A link over a hub, whose other side asks `asked` and says what `told` tells it to.
pub(crate) async fn hub(asked: mpsc::Sender<Outbound>, told: mpsc::Receiver<LinkEvent>) -> Link {
    let door = Door::new().await;
    let link = start(config(&door.url, "bridge"), LinkId(0));
    // It ends with the test, which holds the other ends.
    tokio::spawn(between(door, asked, told));
    link
}

async fn between(door: Door, asked: mpsc::Sender<Outbound>, mut told: mpsc::Receiver<LinkEvent>) {
    let mut there = vec!["bus".to_owned()];
    let mut wire: Option<Wire> = None;
    let mut numbers = 0..;
    loop {
        let Some(open) = &mut wire else {
            match told.recv().await {
                None => return,
                Some(LinkEvent::Up) => wire = Some(admitted(&door).await),
                Some(_) => {}
            }
            continue;
        };
        tokio::select! {
            biased; // what the test told comes before what the bridge has to say to it
            event = told.recv() => match event {
                None => return,
                Some(LinkEvent::Down(_)) => {
                    wire = None;
                    there.truncate(1);
                }
                Some(event) => say(open, event, &mut there).await,
            },
            message = open.0.next() => match message {
                Some(Ok(Message::Binary(bytes))) => {
                    let arrived = flat::decode(&bytes).unwrap();
                    for message in arrived.messages {
                        let frame = plantbridge::wire::Frame {
                            source: arrived.source.clone(),
                            target: arrived.target.clone(),
                            message,
                        };
                        let id = numbers.next().unwrap();
                        let outbound = Outbound::Frame { id, frame: Box::new(frame), claim: Some(Claim::default()) };
                        if asked.send(outbound).await.is_err() {
                            return;
                        }
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
}

async fn admitted(door: &Door) -> Wire {
    let mut wire = door.accept().await;
    wire.say(PATIENT).await;
    assert!(wire.text().await.starts_with("40"));
    wire.say(r#"40{"sid":"t"}"#).await;
    wire.text().await;
    wire
}

async fn say(wire: &mut Wire, event: LinkEvent, there: &mut Vec<String>) {
    let presence = |said: serde_json::Value| format!("42{}", json!(["presence", said]));
    match event {
        LinkEvent::Online { peer, shape } => {
            there.push(peer.to_string());
            let mut said = json!({"peer": peer.as_str(), "state": "online"});
            if let Some(shape) = shape {
                said["shape"] = shape.into();
            }
            wire.say(&presence(said)).await;
        }
        LinkEvent::Offline(peer) => {
            there.retain(|name| *name != peer.as_str());
            wire.say(&presence(json!({"peer": peer.as_str(), "state": "offline"}))).await;
        }
        LinkEvent::Settled => wire.say(&presence(json!({"peers": there}))).await,
        LinkEvent::Frame(frame) => {
            wire.say(FRAME).await;
            wire.attach(flat::encode(&frame).unwrap()).await;
        }
        other => panic!("a hub cannot say {other:?}"),
    }
}
