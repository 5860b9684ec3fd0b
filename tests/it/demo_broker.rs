//! The embedded broker: each property that the demo and other tests rely on, seen by a client of other making.

use std::{collections::BTreeSet, path::Path, time::Duration};

use plantbridge::demo::broker::Broker as Embedded;
use rumqttc::{
    AsyncClient, Broker, ConnectProperties, Event, LastWill, MqttOptions, Packet, Publish, PublishOptions,
    PublishProperties, QoS,
};
use tokio::{net::TcpStream, sync::mpsc, task::JoinHandle, time::timeout};

/// How long anything may take before the test fails. Nothing waits this long when all is well.
const PATIENCE: Duration = Duration::from_secs(20);
/// What the broker says it takes.
const SIXTEEN_MIB: u32 = 16 * 1024 * 1024;

/// A connected client. Dropping it cuts its connection without a word.
pub(crate) struct Client {
    asks: AsyncClient,
    packets: mpsc::UnboundedReceiver<Packet>,
    pump: JoinHandle<()>,
    largest: Option<u32>,
}

impl Client {
    pub(crate) async fn join(broker: &Embedded, id: &str, will: Option<LastWill>) -> Self {
        let address = broker.address();
        let mut options = MqttOptions::new(id, Broker::tcp(address.ip().to_string(), address.port()));
        options.set_clean_start(true);
        options.set_max_packet_size(Some(SIXTEEN_MIB));
        options.set_connect_properties(ConnectProperties::new());
        if let Some(will) = will {
            options.set_last_will(will);
        }
        let (client, mut events) = AsyncClient::builder(options).capacity(64).build();
        let (say, packets) = mpsc::unbounded_channel();
        let pump = tokio::spawn(async move {
            while let Ok(event) = events.poll().await {
                if let Event::Incoming(packet) = event
                    && say.send(packet).is_err()
                {
                    return;
                }
            }
        });
        let mut joined = Self { asks: client, packets, pump, largest: None };
        let greeting = joined.next_where(|packet| matches!(packet, Packet::ConnAck(_))).await;
        if let Packet::ConnAck(greeting) = greeting {
            joined.largest = greeting.properties.and_then(|properties| properties.max_packet_size);
        }
        joined
    }

    async fn next_where(&mut self, wanted: impl Fn(&Packet) -> bool) -> Packet {
        loop {
            let packet = timeout(PATIENCE, self.packets.recv()).await.expect("the broker says nothing");
            let packet = packet.expect("the connection ended");
            if wanted(&packet) {
                return packet;
            }
        }
    }

    async fn subscribe(&mut self, filter: &str, qos: QoS) {
        self.asks.subscribe(filter, qos).await.unwrap();
    }

    pub(crate) async fn publish(
        &mut self,
        topic: &str,
        retain: bool,
        payload: impl Into<Vec<u8>>,
        properties: PublishProperties,
    ) {
        let options = PublishOptions::new(QoS::AtLeastOnce).retain(retain).properties(properties);
        self.asks.publish(topic, payload.into(), options).await.unwrap();
        self.next_where(|packet| matches!(packet, Packet::PubAck(_))).await;
    }

    async fn arrived(&mut self) -> Publish {
        match self.next_where(|packet| matches!(packet, Packet::Publish(_))).await {
            Packet::Publish(publish) => publish,
            other => unreachable!("{other:?}"),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

fn topic(publish: &Publish) -> &str {
    std::str::from_utf8(&publish.topic).unwrap()
}

#[tokio::test]
async fn it_listens_on_loopback_and_takes_sixteen_mebibytes() {
    let broker = Embedded::start().await.unwrap();
    assert!(broker.address().ip().is_loopback());
    assert_ne!(broker.address().port(), 0);
    assert_eq!(broker.url(), format!("mqtt://127.0.0.1:{}", broker.address().port()));
    let client = Client::join(&broker, "looker", None).await;
    assert_eq!(client.largest, Some(SIXTEEN_MIB));
    broker.stop(PATIENCE).await;
}

#[tokio::test]
async fn one_wildcard_sweeps_every_retained_presence() {
    let broker = Embedded::start().await.unwrap();
    let mut plant = Client::join(&broker, "plant", None).await;
    let expected: BTreeSet<String> = (0..1001).map(|number| format!("msgrpc/v2/presence/peer-{number}")).collect();
    for name in &expected {
        plant.publish(name, true, "online", PublishProperties::default()).await;
    }
    let mut looker = Client::join(&broker, "looker", None).await;
    looker.subscribe("msgrpc/v2/presence/+", QoS::AtMostOnce).await;
    let mut seen = BTreeSet::new();
    while seen.len() < expected.len() {
        let presence = looker.arrived().await;
        assert!(presence.retain && presence.payload == "online", "{presence:?}");
        assert!(seen.insert(topic(&presence).to_owned()), "{presence:?} came twice");
    }
    assert_eq!(seen, expected);
    broker.stop(PATIENCE).await;
}

/// W-032: what a peer that dies leaves behind.
#[tokio::test]
async fn w032_a_connection_that_is_lost_leaves_its_will() {
    let broker = Embedded::start().await.unwrap();
    let mut looker = Client::join(&broker, "looker", None).await;
    looker.subscribe("msgrpc/v2/presence/+", QoS::AtMostOnce).await;
    looker.next_where(|packet| matches!(packet, Packet::SubAck(_))).await;
    let will = LastWill::new("msgrpc/v2/presence/oven", "offline", QoS::AtLeastOnce, true, None);
    let dying = Client::join(&broker, "msgrpc-oven", Some(will)).await;
    drop(dying);
    let gone = looker.arrived().await;
    assert_eq!((topic(&gone), &gone.payload[..]), ("msgrpc/v2/presence/oven", &b"offline"[..]));
    // It is retained: whoever comes later is told too.
    let mut later = Client::join(&broker, "later", None).await;
    later.subscribe("msgrpc/v2/presence/+", QoS::AtMostOnce).await;
    assert!(later.arrived().await.retain);
    broker.stop(PATIENCE).await;
}

/// What carries a request and its answer: properties in their order, response topic, correlation as bytes, expiry.
#[tokio::test]
async fn what_a_request_carries_arrives_as_it_left() {
    let broker = Embedded::start().await.unwrap();
    let mut oven = Client::join(&broker, "msgrpc-oven", None).await;
    oven.subscribe("msgrpc/v2/req/oven", QoS::AtLeastOnce).await;
    oven.next_where(|packet| matches!(packet, Packet::SubAck(_))).await;
    let mut caller = Client::join(&broker, "msgrpc-hmi", None).await;
    let named = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let user: Vec<_> = [("mr-v", "3"), ("mr-src", "hmi"), ("mr-path", "åäö")].map(named).into();
    let properties = PublishProperties {
        payload_format_indicator: Some(0),
        message_expiry_interval: Some(30),
        response_topic: Some("msgrpc/v2/rsp/hmi".into()),
        correlation_data: Some(vec![0, 0xff, 0x80].into()),
        content_type: Some("application/msgpack".into()),
        user_properties: user.clone(),
        ..PublishProperties::default()
    };
    caller.publish("msgrpc/v2/req/oven", false, [0x90], properties).await;
    let request = oven.arrived().await;
    assert_eq!((request.qos, request.retain, &request.payload[..]), (QoS::AtLeastOnce, false, &[0x90][..]));
    let arrived = request.properties.unwrap();
    assert_eq!(arrived.response_topic.as_deref(), Some("msgrpc/v2/rsp/hmi"));
    assert_eq!(arrived.correlation_data.as_deref(), Some(&[0, 0xff, 0x80][..]));
    assert_eq!(arrived.content_type.as_deref(), Some("application/msgpack"));
    assert_eq!(arrived.payload_format_indicator, Some(0));
    assert!(arrived.message_expiry_interval.is_some_and(|left| (1..=30).contains(&left)), "{arrived:?}");
    let (ours, added): (Vec<_>, Vec<_>) =
        arrived.user_properties.into_iter().partition(|(name, _)| name.starts_with("mr-"));
    assert_eq!(ours, user);
    assert_eq!(added, [named(("x-mqtt-client-id", "msgrpc-hmi"))], "the broker adds what it is known to add");
    broker.stop(PATIENCE).await;
}

/// A message that outlived its expiry is not delivered: a request is not run late by a peer that comes back.
#[tokio::test]
async fn an_expired_message_is_not_delivered() {
    let broker = Embedded::start().await.unwrap();
    let mut caller = Client::join(&broker, "caller", None).await;
    let short = PublishProperties { message_expiry_interval: Some(1), ..PublishProperties::default() };
    caller.publish("expiry/short", true, "short", short).await;
    caller.publish("expiry/stays", true, "stays", PublishProperties::default()).await;
    let mut sweeps = 0;
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        assert!(tokio::time::Instant::now() < until, "it does not expire");
        let mut looker = Client::join(&broker, &format!("looker-{sweeps}"), None).await;
        looker.subscribe("expiry/short", QoS::AtLeastOnce).await;
        looker.subscribe("expiry/stays", QoS::AtLeastOnce).await;
        let first = looker.arrived().await;
        if topic(&first) == "expiry/stays" {
            break;
        }
        sweeps += 1;
    }
    assert!(sweeps > 0, "it was never there");
    broker.stop(PATIENCE).await;
}

/// Statistics are no part of a plant: a look at everything the broker keeps finds what peers published.
#[tokio::test]
async fn nothing_is_published_by_the_broker_itself() {
    let broker = Embedded::start().await.unwrap();
    let mut client = Client::join(&broker, "looker", None).await;
    client.publish("the/plant", true, "there", PublishProperties::default()).await;
    client.subscribe("$SYS/#", QoS::AtLeastOnce).await;
    client.next_where(|packet| matches!(packet, Packet::SubAck(_))).await;
    client.subscribe("#", QoS::AtLeastOnce).await;
    assert_eq!(topic(&client.arrived().await), "the/plant");
    broker.stop(PATIENCE).await;
}

#[tokio::test]
async fn it_ends_when_told_frees_its_port_and_leaves_no_file() {
    let broker = Embedded::start().await.unwrap();
    let address = broker.address();
    let mut client = Client::join(&broker, "kept", None).await;
    client.publish("kept", true, "kept", PublishProperties::default()).await;
    broker.stop(PATIENCE).await;
    assert!(TcpStream::connect(address).await.is_err(), "something still listens at {address}");
    timeout(PATIENCE, async { while client.packets.recv().await.is_some() {} }).await.expect("the connection is cut");
    assert!(!Path::new("mqtt_storage").exists(), "the broker wrote into the working folder");
    // Dropped instead of stopped, it ends as well.
    let broker = Embedded::start().await.unwrap();
    let address = broker.address();
    drop(broker);
    let until = tokio::time::Instant::now() + PATIENCE;
    while TcpStream::connect(address).await.is_ok() {
        assert!(tokio::time::Instant::now() < until, "it goes on");
    }
}
