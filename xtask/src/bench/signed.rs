//! What signatures cost: the same call through a bridge that signs, in turns with one that does not.
//!
//! The peers at the other end sign and verify as well, with code of their own, so that what is told is the whole price of a
//! signed call: two signatures and two verifications.

use std::fmt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, Verifier as _, VerifyingKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::Plan;
use super::bridge::Bridge;
use super::broker::{Broker, Kind};
use super::mqtt::{Arrived, Closer, Connection, Outbox, Publish};
use super::peer::DESCRIPTION;
use super::stats::{list, median, micros, percentile};

/// The peers: one that does not sign, and one for each kind of key.
const PEERS: [&str; 3] = ["plain", "sealed", "paired"];
/// What a signed call may cost more at the median, in microseconds, with the keys peers have had so far.
const TARGET: f64 = 60.0;

/// The median of each round in microseconds, in the order of [`PEERS`].
#[derive(Debug)]
pub(super) struct Signed {
    rounds: Vec<[f64; 3]>,
    judged: bool,
}

pub(super) fn measure(binary: &Path, plan: &Plan) -> Result<Signed, String> {
    let broker = Broker::start(Kind::Tuned)?;
    let _peers = Sealed::join(broker.port)?;
    let files = Files::write()?;
    let start =
        |more: [&str; 2]| Bridge::start_as(&mut Command::new(binary), broker.port, &more).map(|(bridge, _)| bridge);
    let mut bridges =
        [start(["--name", "bench-plain"])?, start(["--sign", &files.sealed])?, start(["--sign", &files.paired])?];
    for (bridge, peer) in bridges.iter_mut().zip(PEERS) {
        // The peer is described, and caches fill.
        bridge.sequential(peer, plan.calls.min(100), &mut Vec::new())?;
    }
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let mut samples: [Vec<Duration>; 3] = Default::default();
        for _ in 0..plan.blocks {
            for ((bridge, peer), samples) in bridges.iter_mut().zip(PEERS).zip(&mut samples) {
                bridge.sequential(peer, plan.calls, samples)?;
            }
        }
        rounds.push(samples.map(|mut samples| micros(percentile(&mut samples, 0.5))));
    }
    Ok(Signed { rounds, judged: plan.rounds > 1 })
}

impl Signed {
    /// What a kind of signature adds, each round.
    fn added(&self, kind: impl Fn(&[f64; 3]) -> f64) -> Vec<f64> {
        self.rounds.iter().map(|round| kind(round) - round[0]).collect()
    }

    /// Fails if a call signed with HMAC costs more than it may.
    pub(super) fn judge(&self) -> Result<(), String> {
        let added = median(&self.added(|[_, sealed, _]| *sealed));
        let passes = !self.judged || added <= TARGET;
        if passes { Ok(()) } else { Err(format!("a signed call costs {added:.0} µs more, and {TARGET} are wanted")) }
    }
}

/// Picks one figure of a round.
type Of = fn(&[f64; 3]) -> f64;

impl fmt::Display for Signed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "| one signed call at a time, p50 | unsigned | signed | more | each round, more |")?;
        writeln!(out, "| --- | --- | --- | --- | --- |")?;
        let middle = |of: &dyn Fn(&[f64; 3]) -> f64| median(&self.rounds.iter().map(of).collect::<Vec<_>>());
        let kinds: [(&str, Of); 2] = [("HMAC-SHA256", |[_, sealed, _]| *sealed), ("Ed25519", |[_, _, paired]| *paired)];
        for (name, of) in kinds {
            let (plain, signed, added) = (middle(&|[plain, ..]| *plain), middle(&of), self.added(of));
            let more = median(&added);
            writeln!(out, "| {name} | {plain:.0} µs | {signed:.0} µs | **{more:.0} µs** | {} |", list(&added, 0))?;
        }
        Ok(())
    }
}

/// The key files of the two bridges that sign; gone with this.
struct Files {
    folder: PathBuf,
    sealed: String,
    paired: String,
}

impl Files {
    fn write() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("plantbridge-bench-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let files = Self {
            sealed: folder.join("sealed.json").display().to_string(),
            paired: folder.join("paired.json").display().to_string(),
            folder,
        };
        let seed = BASE64_STANDARD.encode(BRIDGE_SEED);
        let public = BASE64_STANDARD.encode(SigningKey::from_bytes(&PEER_SEED).verifying_key().as_bytes());
        let sealed = format!(
            "{{\"name\":\"bench-sealed\",\"secret\":\"{BRIDGE_SECRET}\",\"peers\":{{\"sealed\":\"{PEER_SECRET}\"}}}}"
        );
        let paired = format!(
            "{{\"name\":\"bench-paired\",\"ed25519\":{{\"seed\":\"{seed}\"}},\
             \"peers\":{{\"paired\":{{\"public\":\"{public}\"}}}}}}"
        );
        for (path, text) in [(&files.sealed, sealed), (&files.paired, paired)] {
            std::fs::write(path, text).map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Nothing that is secret anywhere is in them.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The peers on a thread of their own; they leave when dropped.
struct Sealed {
    closer: Option<Closer>,
    thread: Option<JoinHandle<()>>,
}

impl Sealed {
    fn join(port: u16) -> Result<Self, String> {
        let mut connection = Connection::open(port, "bench-signed-peers")?;
        for name in PEERS {
            connection.subscribe(&format!("msgrpc/v2/req/{name}"))?;
            let topic = format!("msgrpc/v2/presence/{name}");
            let here = Publish { topic: topic.as_bytes(), retain: true, payload: b"online", ..Publish::default() };
            connection.publish(&here)?;
        }
        let closer = connection.closer()?;
        let keys = Keys::new();
        let mut nonce = 0;
        let serve = move || {
            while connection.turn(|request, out| answer(&keys, &mut nonce, request, out)).is_ok() {}
        };
        Ok(Self { closer: Some(closer), thread: Some(std::thread::spawn(serve)) })
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        drop(self.closer.take());
        // A thread that panicked has said so itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The keys the peers sign and verify with.
struct Keys {
    own: Hmac<Sha256>,
    bridge: Hmac<Sha256>,
    pair: SigningKey,
    public: VerifyingKey,
}

impl Keys {
    fn new() -> Self {
        // A secret of up to one block is the key, filled with zeros.
        let keyed = |secret: &str| {
            let mut block = [0; 64];
            block.iter_mut().zip(secret.bytes()).for_each(|(to, from)| *to = from);
            Hmac::<Sha256>::new(&block.into())
        };
        Self {
            own: keyed(PEER_SECRET),
            bridge: keyed(BRIDGE_SECRET),
            pair: SigningKey::from_bytes(&PEER_SEED),
            public: SigningKey::from_bytes(&BRIDGE_SEED).verifying_key(),
        }
    }

    fn sign(&self, name: &str, bytes: &[u8]) -> Option<String> {
        match name {
            "sealed" => Some(BASE64_STANDARD.encode(self.own.clone().chain_update(bytes).finalize().into_bytes())),
            "paired" => Some(BASE64_STANDARD.encode(self.pair.sign(bytes).to_bytes())),
            _ => None,
        }
    }

    /// Whether a peer of that name may answer.
    fn believes(&self, name: &str, bytes: &[u8], signature: &[u8]) -> bool {
        let signature = BASE64_STANDARD.decode(signature).unwrap_or_default();
        match name {
            "sealed" => self.bridge.clone().chain_update(bytes).verify_slice(&signature).is_ok(),
            "paired" => Signature::from_slice(&signature).is_ok_and(|it| self.public.verify(bytes, &it).is_ok()),
            _ => true,
        }
    }
}

fn answer(keys: &Keys, count: &mut u64, request: &Arrived<'_>, out: &mut Outbox) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
    let name = text(request.topic.rsplit(|byte| *byte == b'/').next().unwrap_or_default());
    let property = |name: &str| text(request.property(name.as_bytes()));
    let asked = canonical(&Said {
        topic: text(request.topic),
        response_topic: text(request.response_topic),
        correlation: text(request.correlation),
        content_type: "application/msgpack",
        properties: &|name| property(name),
        payload: request.payload,
    });
    if !keys.believes(name, &asked, request.property(b"mr-sig")) {
        return;
    }
    let (content_type, payload) = match request.property(b"mr-method") {
        // A list of one, in MessagePack: without its first byte it is the one.
        b"echo" => ("application/msgpack", request.payload.get(1..).unwrap_or_default()),
        _ => ("application/json", DESCRIPTION.as_bytes()),
    };
    *count += 1;
    let nonce = BASE64_STANDARD.encode(u128::from(*count).to_be_bytes());
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().to_string();
    let mut user = vec![("mr-v", "3"), ("mr-src", name), ("mr-kind", "result"), ("mr-nonce", &nonce), ("mr-ts", &time)];
    let find = |wanted: &str| user.iter().find(|(name, _)| *name == wanted).map_or("", |(_, value)| *value);
    let signature = keys.sign(
        name,
        &canonical(&Said {
            topic: text(request.response_topic),
            response_topic: "",
            correlation: text(request.correlation),
            content_type,
            properties: &find,
            payload,
        }),
    );
    match &signature {
        Some(signature) => user.push(("mr-sig", signature)),
        None => user.truncate(3),
    }
    let user: Vec<(&[u8], &[u8])> = user.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    out.publish(&Publish {
        topic: request.response_topic,
        correlation: request.correlation,
        user: &user,
        content_type: content_type.as_bytes(),
        payload,
        ..Publish::default()
    });
}

/// A frame, as far as it is signed.
struct Said<'a> {
    topic: &'a str,
    response_topic: &'a str,
    correlation: &'a str,
    content_type: &'a str,
    properties: &'a dyn Fn(&str) -> &'a str,
    payload: &'a [u8],
}

/// The bytes to sign. Nothing here holds a character that JSON would escape.
fn canonical(said: &Said<'_>) -> Vec<u8> {
    let of = said.properties;
    let mut text = String::with_capacity(512);
    let first = [
        of("mr-v"),
        said.topic,
        said.response_topic,
        of("mr-src"),
        of("mr-kind"),
        of("mr-path"),
        of("mr-method"),
        said.correlation,
        said.content_type,
    ];
    let rest = ["code", "ver", "ttl", "idem", "fence", "deferred", "outcome", "seq", "epoch"];
    for value in first {
        let _ = write!(text, "{}\"{value}\"", if text.is_empty() { '[' } else { ',' });
    }
    for name in rest {
        let _ = write!(text, ",\"{}\"", of(&format!("mr-{name}")));
    }
    let _ = write!(text, ",{},\"{}\"]", of("mr-ts"), of("mr-nonce"));
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(said.payload);
    bytes
}

const BRIDGE_SECRET: &str = "the secret of the bridge that is measured";
const PEER_SECRET: &str = "the secret of the peer that answers it";
const BRIDGE_SEED: [u8; 32] = [7; 32];
const PEER_SEED: [u8; 32] = [9; 32];
