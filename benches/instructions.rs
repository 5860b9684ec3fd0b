//! What `cargo xtask count` counts the instructions of: the steps every call goes through, each as often as it is told.
//!
//! `instructions` alone names the steps; `instructions STEP TIMES` does one of them. Two runs that differ in their times alone
//! differ in the instructions of the step alone.
#![expect(clippy::unnecessary_wraps, reason = "every step is prepared by a function of one type")]

use std::error::Error;
use std::hint::black_box;
use std::io::Write as _;

use bytes::Bytes;
use plantbridge::contract::{Contract, Namespace, validate};
use plantbridge::door::guard::judge;
use plantbridge::mcp::{check::Checker, tools};
use plantbridge::wire::frame::Answer;
use plantbridge::wire::mqtt::{self, Publish};
use plantbridge::wire::signing::{Secret, SignatureKey, Signer, Verifier, VerifierKey};
use plantbridge::wire::socketio::{Assembler, FRAME};
use plantbridge::wire::{
    Frame, Map, Message, PeerName, Prefix, Reply, ReplyRoute, Request, Stamp, Topics, Value, flat, json, msgpack,
    tagged,
};
use serde_json::Value as Json;

/// What goes wrong here is told to whoever started this.
type Outcome<T> = Result<T, Box<dyn Error>>;

/// A step that was prepared: each call does it once.
type Step = Box<dyn FnMut() -> Outcome<()>>;

/// Prepares a step.
type Prepare = fn() -> Outcome<Step>;

const STEPS: [(&str, Prepare); 19] = [
    ("mqtt_encode_call", mqtt_encode_call),
    ("mqtt_decode_reply", || mqtt_decode(&reply()?)),
    ("mqtt_decode_event", || mqtt_decode(&event()?)),
    ("mqtt_decode_presence", mqtt_decode_presence),
    ("hub_encode_call", hub_encode_call),
    ("hub_decode_reply", hub_decode_reply),
    ("hub_take_message", hub_take_message),
    ("msgpack_encode", msgpack_encode),
    ("msgpack_decode", msgpack_decode),
    ("json_encode", json_encode),
    ("json_decode", json_decode),
    ("tagged_from_json", tagged_from_json),
    ("tagged_to_json", tagged_to_json),
    ("hmac_sign", hmac_sign),
    ("hmac_sign_and_verify", hmac_sign_and_verify),
    ("check_arguments", check_arguments),
    ("check_tool_call", check_tool_call),
    ("judge_line", || judged(LINE)),
    ("judge_refused_line", || judged("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":5}")),
];

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {
            let names = STEPS.map(|(name, _)| name).join("\n");
            writeln!(std::io::stdout(), "{names}")?;
        }
        [name, times] => {
            let known = STEPS.into_iter().find(|(known, _)| known == name);
            let (_, prepare) = known.ok_or_else(|| format!("there is no step {name}"))?;
            let mut step = prepare()?;
            for _ in 0..times.parse::<u64>()? {
                step()?;
            }
        }
        _ => return Err("usage: instructions [STEP TIMES]".into()),
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------------------------------------
// What is said
// ---------------------------------------------------------------------------------------------------------------------

fn name(text: &str) -> Outcome<PeerName> {
    Ok(PeerName::configured(text)?)
}

fn topics(me: &str) -> Outcome<Topics> {
    Ok(Topics::new(&Prefix::default(), name(me)?)?)
}

/// A reading as devices send it: texts, numbers, a date, a list.
fn reading() -> Value {
    let zones = (0..4).map(|zone| Value::Float(180.25 + f64::from(zone))).collect();
    let entries: [(&str, Value); 6] = [
        ("celsius", Value::Float(212.5)),
        ("setpoint", 220.into()),
        ("mode", "heating".into()),
        ("door", "closed".into()),
        ("at", Value::Date(1_785_187_832_623)),
        ("zones", Value::Array(zones)),
    ];
    Value::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map>())
}

/// The same without what JSON has no form of its own for.
fn plain_reading() -> Value {
    let mut reading = reading();
    if let Value::Map(map) = &mut reading {
        map.insert("at", "2026-07-27T21:30:32.623Z");
    }
    reading
}

fn call() -> Outcome<Frame> {
    let request = Request {
        correlation: "9f0c1f6e-7a55-4a1e-9d8e-3f2b1c0d4e5f".into(),
        path: "oven".into(),
        method: "setSetpoint".into(),
        args: vec![220.into(), reading()],
        version: Some("1".into()),
        ttl: Some(10_000),
        expiry: None,
        idempotency_key: Some("01890a5d-ac96-774b-bcce-b302099a8057".into()),
        fence: None,
        reply: ReplyRoute::default(),
    };
    Ok(Frame { source: name("bridge")?, target: name("oven-1")?, message: Message::Request(request) })
}

fn reply() -> Outcome<Frame> {
    let reply = Reply {
        correlation: "9f0c1f6e-7a55-4a1e-9d8e-3f2b1c0d4e5f".into(),
        route: ReplyRoute::default(),
        answer: Answer::Value(Some(reading())),
    };
    Ok(Frame { source: name("oven-1")?, target: name("bridge")?, message: Message::Reply(reply) })
}

fn event() -> Outcome<Frame> {
    let stamp = Some(Stamp { epoch: "0123456789abcdef".into(), seq: 4_711 });
    let message = Message::Event { path: Some("oven".into()), event: "batchDone".into(), args: vec![reading()], stamp };
    Ok(Frame { source: name("oven-1")?, target: name("bridge")?, message })
}

const LINE: &str = r#"{"jsonrpc":"2.0","id":4711,"method":"tools/call","params":{"name":"call_method","arguments":{"peer":"oven-1","namespace":"oven","method":"setSetpoint","args":[220,{"zone":"top","ramp":1.5}],"idempotency_key":"01890a5d-ac96-774b-bcce-b302099a8057"},"_meta":{"progressToken":"p-1"}}}"#;

// ---------------------------------------------------------------------------------------------------------------------
// The steps
// ---------------------------------------------------------------------------------------------------------------------

fn mqtt_encode_call() -> Outcome<Step> {
    let (frame, topics) = (call()?, topics("bridge")?);
    Ok(Box::new(move || {
        black_box(mqtt::encode(black_box(&frame), &topics)?);
        Ok(())
    }))
}

fn mqtt_decode(frame: &Frame) -> Outcome<Step> {
    let publish = mqtt::encode(frame, &topics("oven-1")?)?;
    let topics = topics("bridge")?;
    Ok(Box::new(move || {
        black_box(mqtt::decode(black_box(publish.clone()), &topics)?);
        Ok(())
    }))
}

fn mqtt_decode_presence() -> Outcome<Step> {
    let Publish { topic, payload, user_properties, .. } = mqtt::online(Some("0123456789abcdef"), &topics("oven-1")?)?;
    let topics = topics("bridge")?;
    Ok(Box::new(move || {
        let said = mqtt::presence(black_box(&topic), black_box(&payload), &user_properties, &topics);
        black_box(said.ok_or("presence means nothing")?);
        Ok(())
    }))
}

fn hub_encode_call() -> Outcome<Step> {
    let frame = call()?;
    Ok(Box::new(move || {
        black_box(flat::encode(black_box(&frame))?);
        Ok(())
    }))
}

fn hub_decode_reply() -> Outcome<Step> {
    let bytes = Bytes::from(flat::encode(&reply()?)?);
    Ok(Box::new(move || {
        black_box(flat::decode(black_box(&bytes))?);
        Ok(())
    }))
}

fn hub_take_message() -> Outcome<Step> {
    let bytes = Bytes::from(flat::encode(&reply()?)?);
    let mut assembler = Assembler::new(1_000_000);
    Ok(Box::new(move || {
        assembler.text(black_box(FRAME))?;
        black_box(assembler.binary(bytes.clone())?.ok_or("the frame is not complete")?);
        Ok(())
    }))
}

fn msgpack_encode() -> Outcome<Step> {
    let value = reading();
    Ok(Box::new(move || {
        black_box(msgpack::encode(black_box(&value))?);
        Ok(())
    }))
}

fn msgpack_decode() -> Outcome<Step> {
    let bytes = Bytes::from(msgpack::encode(&reading())?);
    Ok(Box::new(move || {
        black_box(msgpack::decode(black_box(&bytes))?);
        Ok(())
    }))
}

fn json_encode() -> Outcome<Step> {
    let value = plain_reading();
    Ok(Box::new(move || {
        black_box(json::encode(black_box(&value))?);
        Ok(())
    }))
}

fn json_decode() -> Outcome<Step> {
    let text = json::encode(&plain_reading())?;
    Ok(Box::new(move || {
        black_box(json::decode(black_box(&text))?);
        Ok(())
    }))
}

fn tagged_from_json() -> Outcome<Step> {
    let told = tagged::to_json(reading());
    Ok(Box::new(move || {
        black_box(tagged::from_json(black_box(told.clone()))?);
        Ok(())
    }))
}

fn tagged_to_json() -> Outcome<Step> {
    let value = reading();
    Ok(Box::new(move || {
        black_box(serde_json::to_string(&tagged::Tagged(black_box(&value)))?);
        Ok(())
    }))
}

/// A signer, who believes it, and what it is to sign.
struct Signing {
    signer: Signer,
    verifier: Verifier,
    publish: Publish,
    topics: Topics,
    /// How many were signed: each has a time and a nonce of its own.
    count: u64,
}

impl Signing {
    fn new() -> Outcome<Self> {
        let secret = Secret::new("0123456789abcdef0123456789abcdef".to_owned());
        Ok(Self {
            signer: Signer::new(SignatureKey::hmac(&secret)),
            verifier: Verifier::new([(name("bridge")?, VerifierKey::hmac(&secret))]),
            publish: mqtt::encode(&call()?, &topics("bridge")?)?,
            topics: topics("oven-1")?,
            count: 0,
        })
    }

    fn sign(&mut self) -> (Publish, u64) {
        self.count += 1;
        let now = 1_785_187_832_623 + self.count;
        let mut publish = self.publish.clone();
        mqtt::sign(&mut publish, &self.signer, now, (u128::from(self.count) << 64).to_be_bytes());
        (publish, now)
    }
}

fn hmac_sign() -> Outcome<Step> {
    let mut signing = Signing::new()?;
    Ok(Box::new(move || {
        black_box(signing.sign());
        Ok(())
    }))
}

fn hmac_sign_and_verify() -> Outcome<Step> {
    let mut signing = Signing::new()?;
    Ok(Box::new(move || {
        let (publish, now) = signing.sign();
        black_box(mqtt::decode_signed(publish, &signing.topics, &mut signing.verifier, now)?);
        Ok(())
    }))
}

fn check_arguments() -> Outcome<Step> {
    let document = json::decode(include_bytes!("../contracts/bakery.types.json"))?;
    let contract = Contract::parse_to_serve(&document).map_err(|problems| format!("{problems:?}"))?;
    let method = contract.namespace("oven").and_then(|oven: &Namespace| oven.method("setSetpoint")).cloned();
    let (method, types) = (method.ok_or("the oven has no setpoint")?, contract.types);
    let args = [Value::Float(220.5)];
    Ok(Box::new(move || {
        validate::before_sending(black_box(&args), &method, &types)?;
        Ok(())
    }))
}

fn check_tool_call() -> Outcome<Step> {
    let tool = tools::all().into_iter().find(|tool| tool.spec().name == "call_method").ok_or("no such tool")?;
    let listed = serde_json::to_value(tool.listed())?;
    let schema = listed.get("inputSchema").and_then(Json::as_object).ok_or("the tool has no schema")?;
    let (checker, _) = Checker::compile(schema);
    let line: Json = serde_json::from_str(LINE)?;
    let arguments = line.pointer("/params/arguments").and_then(Json::as_object).cloned().ok_or("no arguments")?;
    Ok(Box::new(move || checker.check(black_box(&arguments)).map_err(|error| format!("{error:?}").into())))
}

fn judged(line: &'static str) -> Outcome<Step> {
    Ok(Box::new(move || {
        black_box(judge(black_box(line.as_bytes())));
        Ok(())
    }))
}
