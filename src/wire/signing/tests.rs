//! Signatures against `signing.json`, to its last row.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;
use serde_json::Value as Json;

use super::key::signature_bytes;
use super::*;
use crate::wire::mqtt::{Publish, decode_signed, encode, sign};
use crate::wire::vectors::{file, hex, list, publish};
use crate::wire::{DecodeError, Frame, Message, PeerName, Prefix, ReplyRoute, Request, Topics};

const VECTORS: &str = "signing.json";
/// The time of every recorded signature.
const THEN: u64 = 1_785_187_832_623;
/// The nonce of every recorded signature.
const NONCE: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("{json} is no text"))
}

fn peer(name: &str) -> PeerName {
    PeerName::mqtt(name).unwrap()
}

fn topics(me: &str) -> Topics {
    Topics::new(&Prefix::default(), peer(me)).unwrap()
}

/// The recorded keys: a secret, and a pair.
struct Keys {
    secret: Secret,
    seed: Seed,
}

impl Keys {
    fn recorded() -> Self {
        let keys = &file(VECTORS)["keys"];
        let seed: [u8; 32] = hex(text(&keys["ed25519SeedHex"])).as_ref().try_into().unwrap();
        assert_eq!(hex(text(&keys["hmacSecretHex"])), text(&keys["hmacSecretUtf8"]).as_bytes());
        let keys_of = Self { secret: Secret::new(text(&keys["hmacSecretUtf8"]).into()), seed: Seed::new(seed) };
        let public = BASE64_STANDARD.encode(hex(text(&keys["ed25519PublicKeyHex"])));
        assert_eq!(keys_of.seed.public().to_string(), public);
        keys_of
    }

    fn signature_key(&self, algorithm: &str) -> SignatureKey {
        match algorithm {
            "hmac-sha256" => SignatureKey::hmac(&self.secret),
            "ed25519" => SignatureKey::ed25519(&self.seed),
            other => panic!("{other}"),
        }
    }

    fn verifier_key(&self, algorithm: &str) -> VerifierKey {
        match algorithm {
            "hmac-sha256" => VerifierKey::hmac(&self.secret),
            "ed25519" => VerifierKey::ed25519(self.seed.public()),
            other => panic!("{other}"),
        }
    }

    /// Believes these sources by the recorded key.
    fn verifier(&self, algorithm: &str, sources: &[&str]) -> Verifier {
        Verifier::new(sources.iter().map(|source| (peer(source), self.verifier_key(algorithm))))
    }
}

/// W-091, W-093: the bytes, and both signatures over them.
#[test]
fn w091_w093_the_canonical_bytes_and_their_signatures_are_as_recorded() {
    let keys = Keys::recorded();
    for vector in list(VECTORS, "canonical") {
        let name = text(&vector["name"]);
        let fields = &vector["fields"];
        let field = |name: &str| text(&fields[name]);
        let payload = hex(field("payloadHex"));
        let covered = Covered {
            topic: field("topic"),
            response_topic: field("responseTopic"),
            source: field("source"),
            kind: field("kind"),
            path: field("path"),
            name: field("methodOrEvent"),
            correlation: field("correlation").into(),
            content_type: field("contentType"),
            code: field("code"),
            contract_version: field("contractVersion"),
            ttl: field("ttl"),
            idempotency_key: field("idempotencyKey"),
            fence: field("fence"),
            deferred: field("deferred"),
            outcome: field("outcome"),
            seq: field("seq"),
            epoch: field("epoch"),
            payload: &payload,
        };
        assert_eq!(field("version"), "3", "{name}");
        let bytes = covered.canonical(fields["timestamp"].as_u64().unwrap(), field("nonce"));
        assert_eq!(bytes, hex(text(&vector["canonicalHex"])), "{name}");
        assert!(bytes.starts_with(text(&vector["preambleUtf8"]).as_bytes()), "{name}");
        for (algorithm, recorded) in [("hmac-sha256", "hmacSha256Base64"), ("ed25519", "ed25519Base64")] {
            let recorded = text(&vector[recorded]);
            assert_eq!(keys.signature_key(algorithm).sign(&bytes), recorded, "{name} {algorithm}");
            let signature = signature_bytes(recorded).unwrap();
            let key = keys.verifier_key(algorithm);
            assert!(key.verifies(&bytes, &signature), "{name} {algorithm}");
            assert!(!key.verifies(&bytes[1..], &signature), "{name} {algorithm}");
        }
    }
}

/// Whole packets: each is believed as it stands, and signed anew it is the same packet.
#[test]
fn w091_recorded_packets_are_believed_and_are_what_we_would_send() {
    let keys = Keys::recorded();
    for vector in list(VECTORS, "signedFrames") {
        let algorithm = text(&vector["algorithm"]);
        let recorded = publish(&vector);
        let mut verifier = keys.verifier(algorithm, &["hmi", "plantServer"]);
        decode_signed(recorded.clone(), &topics("hmi"), &mut verifier, THEN)
            .unwrap_or_else(|e| panic!("{e}: {vector}"));
        let again = decode_signed(recorded.clone(), &topics("hmi"), &mut verifier, THEN).unwrap_err();
        assert!(matches!(again, DecodeError::Unverified { why: Refusal::Replayed, .. }), "{vector}: {again}");
        let mut ours = recorded.clone();
        ours.user_properties.retain(|(name, _)| !["mr-nonce", "mr-ts", "mr-sig"].contains(&name.as_str()));
        assert_eq!(ours.user_properties.len() + 3, recorded.user_properties.len());
        sign(&mut ours, &Signer::new(keys.signature_key(algorithm)), THEN, NONCE);
        assert_eq!(ours, recorded, "{vector}");
    }
}

/// A call of `hmi` to `plantServer` with what the probes change, signed with the recorded secret.
fn probe() -> Publish {
    let request = Request {
        correlation: "c-1".into(),
        path: "plant".into(),
        method: "writeSetpoint".into(),
        args: vec![1200.into()],
        version: None,
        ttl: Some(10_000),
        expiry: None,
        idempotency_key: None,
        fence: Some("e-7f21c9".into()),
        reply: ReplyRoute::default(),
    };
    let frame = Frame { source: peer("hmi"), target: peer("plantServer"), message: Message::Request(request) };
    let mut publish = encode(&frame, &topics("hmi")).unwrap();
    sign(&mut publish, &Signer::new(Keys::recorded().signature_key("hmac-sha256")), THEN, NONCE);
    publish
}

fn unverified(why: Refusal) -> DecodeError {
    DecodeError::Unverified { from: peer("hmi"), why }
}

fn set(publish: &mut Publish, name: &str, value: &str) {
    match publish.user_properties.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => value.clone_into(old),
        None => publish.user_properties.push((name.into(), value.into())),
    }
}

fn unset(publish: &mut Publish, name: &str) {
    let before = publish.user_properties.len();
    publish.user_properties.retain(|(known, _)| known != name);
    assert_eq!(publish.user_properties.len() + 1, before, "{name} was not there");
}

/// What a probe of the recording delivers: the packets, the verifier, the time.
fn probed(name: &str) -> (Vec<Publish>, Verifier, u64) {
    let mut packet = probe();
    let genuine = packet.clone();
    let mut verifier = Keys::recorded().verifier("hmac-sha256", &["hmi"]);
    let mut now = THEN;
    match name {
        "untouched" => {}
        "no mr-sig" => unset(&mut packet, "mr-sig"),
        "no mr-nonce" => unset(&mut packet, "mr-nonce"),
        "no mr-ts" => unset(&mut packet, "mr-ts"),
        "mr-v 1" | "mr-v 2" | "mr-v 4" => set(&mut packet, "mr-v", &name[5..]),
        "mr-v removed (treated as 3)" => unset(&mut packet, "mr-v"),
        "replayed" => return (vec![packet.clone(), packet], verifier, now),
        "ts 61 s old" => now += 61_000,
        "ts 61 s ahead" => now -= 61_000,
        "ts altered 1 ms" => set(&mut packet, "mr-ts", &(THEN + 1).to_string()),
        "ts respelled with .0" => set(&mut packet, "mr-ts", &format!("{THEN}.0")),
        "ts respelled with leading zero" => set(&mut packet, "mr-ts", &format!("0{THEN}")),
        "ttl altered" => set(&mut packet, "mr-ttl", "20000"),
        "ttl respelled 010000" => set(&mut packet, "mr-ttl", "010000"),
        "fence stripped" => unset(&mut packet, "mr-fence"),
        "content type swapped" => packet.content_type = Some("application/json".into()),
        "content type removed" => packet.content_type = None,
        "payload altered" => packet.payload = hex("91cd04b1"),
        "response topic redirected" => packet.response_topic = Some("msgrpc/v2/rsp/thief".into()),
        "moved to another topic" => packet.topic = "msgrpc/v2/req/other".into(),
        "expiry altered" => packet.expiry = Some(3600),
        "payload format indicator altered" => packet.payload_format = Some(1),
        "code added" => set(&mut packet, "mr-code", "Busy"),
        "foreign property added" => set(&mut packet, "x-trace", "1"),
        "unknown mr- property added" => set(&mut packet, "mr-new", "1"),
        "mr-event added beside mr-method" => set(&mut packet, "mr-event", "alarm"),
        "garbage signature then genuine (nonce already spent)" => {
            set(&mut packet, "mr-sig", &BASE64_STANDARD.encode([7; 32]));
            return (vec![packet, genuine], verifier, now);
        }
        "signature not base64" => set(&mut packet, "mr-sig", "§§§"),
        "verifier names another peer" => verifier = Keys::recorded().verifier("hmac-sha256", &["another"]),
        "verifier has no key" => verifier = Verifier::new([]),
        "verifier throws" => verifier = Keys::recorded().verifier("ed25519", &["hmi"]),
        other => panic!("no probe {other}"),
    }
    (vec![packet], verifier, now)
}

/// What the reference would say.
fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Unsigned => "unsigned",
        Refusal::Layout => "signed frame version",
        Refusal::Time | Refusal::Stale { .. } | Refusal::Early { .. } | Refusal::Replayed | Refusal::Forgotten => {
            "stale or replayed"
        }
        Refusal::UnknownSource | Refusal::Signature => "bad signature",
        Refusal::Encoding => "verifier error",
        Refusal::Uncovered(_) => "(the reference does not look)",
    }
}

/// Where we decide otherwise than was recorded: how many frames are delivered, and why the others are not.
const DEVIATIONS: [(&str, usize, &[&str]); 5] = [
    // wire.md 8.2: a time is plain digits, so that no text of it can stand for another under one signature.
    ("ts respelled with .0", 0, &["stale or replayed"]),
    ("ts respelled with leading zero", 0, &["stale or replayed"]),
    // W-090: a forged frame does not spend the nonce of a genuine one.
    ("garbage signature then genuine (nonce already spent)", 1, &["bad signature"]),
    // Our keys are found by the source a frame names, so that a verifier cannot name anybody else; nor can it throw.
    ("verifier names another peer", 0, &["bad signature"]),
    ("verifier throws", 0, &["bad signature"]),
];

/// W-090, W-094, W-095 as recorded, but for the list above.
#[test]
fn w090_w094_w095_each_probe_is_met_as_recorded() {
    let recorded = file(VECTORS);
    let settings = &recorded["verifier"]["settings"];
    assert_eq!(settings["maxClockSkewMs"], nonces::WINDOW_MS);
    let mut deviant: Vec<&str> = DEVIATIONS.iter().map(|(name, ..)| *name).collect();
    for vector in recorded["verifier"]["probes"].as_array().unwrap() {
        let name = text(&vector["name"]);
        let (packets, mut verifier, now) = probed(name);
        let (mut delivered, mut refused) = (0, Vec::new());
        for packet in packets {
            match decode_signed(packet, &topics("plantServer"), &mut verifier, now) {
                Ok(_) => delivered += 1,
                Err(DecodeError::Unverified { why: refusal, .. }) => refused.push(reason(refusal)),
                Err(other) => panic!("{name}: {other}"),
            }
        }
        let recorded_delivered = usize::try_from(vector["delivered"].as_u64().unwrap()).unwrap();
        let recorded_refused: Vec<&str> = vector["rejected"].as_array().unwrap().iter().map(text).collect();
        let same = delivered == recorded_delivered
            && refused.len() == recorded_refused.len()
            && refused.iter().zip(&recorded_refused).all(|(ours, theirs)| theirs.starts_with(ours));
        match DEVIATIONS.iter().find(|(deviation, ..)| *deviation == name) {
            Some((_, wanted_delivered, wanted_refused)) => {
                assert!(!same, "{name} is no deviation any more");
                assert_eq!((delivered, &refused[..]), (*wanted_delivered, *wanted_refused), "{name}");
                deviant.retain(|known| *known != name);
            }
            None => {
                assert!(same, "{name}: {delivered} {refused:?}, recorded {recorded_delivered} {recorded_refused:?}");
            }
        }
    }
    assert!(deviant.is_empty(), "not recorded: {deviant:?}");
}

/// The recorded spellings of a signature's base64, and whether the reference takes them.
#[test]
fn a_signature_may_be_spelled_as_recorded() {
    let bytes = [0xFB, 0xEF, 0xBE, 0xFF];
    for (spelling, taken) in file(VECTORS)["signatureEncodingAccepted"].as_object().unwrap() {
        let written = match spelling.as_str() {
            "standard padded" => "++++/w==",
            "standard unpadded" => "++++/w",
            "url-safe padded" => "----_w==",
            "url-safe unpadded" => "----_w",
            "with trailing newline" => "++++/w==\n",
            other => panic!("{other}"),
        };
        let read = signature_bytes(written);
        assert_eq!(read.is_some(), taken == &Json::Bool(true), "{spelling}");
        assert!(read.is_none_or(|read| read == bytes), "{spelling}");
    }
}

/// The recorded credentials of hubs (wire.md 8.5) and of pairing (8.6) are HMACs of texts by the rule of W-093. Neither
/// travels on MQTT; the first is minted in `minter`, and nothing of ours makes the second yet.
#[test]
fn w093_other_recorded_hmacs_are_keyed_alike() {
    let recorded = file(VECTORS);
    let derived = &recorded["derivedCredential"];
    let key = SignatureKey::hmac(&Secret::new(text(&derived["secretUtf8"]).into()));
    let token = text(&derived["token"]);
    let (claims, signature) = token.strip_prefix("srpc-d1.").unwrap().split_once('.').unwrap();
    assert_eq!(key.sign(text(&derived["signedTextUtf8"]).as_bytes()), signature);
    let claims: Json = serde_json::from_slice(&BASE64_STANDARD.decode(claims).unwrap()).unwrap();
    assert_eq!(claims, derived["claims"]);

    let pairing = &recorded["pairingProof"];
    let key = VerifierKey::hmac(&Secret::new(text(&pairing["secretUtf8"]).into()));
    let parts = ["deviceId", "sessionId", "nodeNonce", "claimNonce"].map(|part| text(&pairing["transcript"][part]));
    for (direction, proof) in [("claim", "claimProofBase64Url"), ("accept", "acceptProofBase64Url")] {
        let said = [&["source-rpc/pairing/1", direction][..], &parts].concat().join("\0");
        assert!(key.verifies(said.as_bytes(), &signature_bytes(text(&pairing[proof])).unwrap()), "{direction}");
    }
}

/// What the recording has no row for: a reader heeds it, and the bytes to sign do not show it.
#[test]
fn w094_what_a_signature_does_not_show_is_not_heeded() {
    let mut verifier = Keys::recorded().verifier("hmac-sha256", &["hmi"]);
    let mut refusal = |packet: Publish| match decode_signed(packet, &topics("plantServer"), &mut verifier, THEN) {
        Err(DecodeError::Unverified { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let mut receipt = probe();
    set(&mut receipt, "mr-deferred", "");
    assert_eq!(refusal(receipt), Refusal::Uncovered("mr-deferred"));
    let mut fenced = probe();
    set(&mut fenced, "mr-fence", "");
    assert_eq!(refusal(fenced), Refusal::Uncovered("mr-fence"));

    // An event renamed under its own signature: the method's name is signed, the event's is read.
    let message = Message::Event { path: Some("plant".into()), event: "calm".into(), args: vec![], stamp: None };
    let mut event =
        encode(&Frame { source: peer("hmi"), target: peer("plantServer"), message }, &topics("hmi")).unwrap();
    sign(&mut event, &Signer::new(Keys::recorded().signature_key("hmac-sha256")), THEN, NONCE);
    let mut renamed = event.clone();
    set(&mut renamed, "mr-method", "calm");
    set(&mut renamed, "mr-event", "alarm");
    assert_eq!(refusal(renamed), Refusal::Uncovered("mr-event"));
    decode_signed(event, &topics("plantServer"), &mut verifier, THEN).unwrap();
}

/// W-092: a payload that cannot be read is not read before somebody we know stands behind it.
#[test]
fn w092_the_payload_is_not_looked_at_before_the_signature() {
    let mut verifier = Keys::recorded().verifier("hmac-sha256", &["hmi"]);
    let mut packet = probe();
    packet.payload = hex("c1");
    let refused = decode_signed(packet.clone(), &topics("plantServer"), &mut verifier, THEN).unwrap_err();
    assert_eq!(refused, unverified(Refusal::Signature));
    for mark in ["mr-nonce", "mr-ts", "mr-sig"] {
        unset(&mut packet, mark);
    }
    sign(&mut packet, &Signer::new(Keys::recorded().signature_key("hmac-sha256")), THEN, NONCE);
    let refused = decode_signed(packet, &topics("plantServer"), &mut verifier, THEN).unwrap_err();
    assert_eq!(refused, DecodeError::Reserved);
}

/// W-094: the window is closed at both ends, whatever a clock says.
#[test]
fn w094_freshness_is_a_comparison_that_cannot_overflow() {
    let at = |now: u64| {
        let mut verifier = Keys::recorded().verifier("hmac-sha256", &["hmi"]);
        decode_signed(probe(), &topics("plantServer"), &mut verifier, now).map(drop)
    };
    assert!(at(THEN - 60_000).is_ok() && at(THEN + 60_000).is_ok());
    assert_eq!(at(THEN + 60_001), Err(unverified(Refusal::Stale { seconds: 60 })));
    assert_eq!(at(THEN - 60_001), Err(unverified(Refusal::Early { seconds: 60 })));
    for now in [0, u64::MAX] {
        assert!(at(now).is_err());
    }
    for time in ["", "-1", "+1785187832623", "1785187832623 ", "9007199254740992", "99999999999999999999", "1e12", "٣"]
    {
        let mut packet = probe();
        set(&mut packet, "mr-ts", time);
        let mut verifier = Keys::recorded().verifier("hmac-sha256", &["hmi"]);
        let refused = decode_signed(packet, &topics("plantServer"), &mut verifier, THEN).unwrap_err();
        assert_eq!(refused, unverified(Refusal::Time), "{time:?}");
    }
}

/// W-096: neither kind of key takes a signature of the other, of none of its bytes, or of another key.
#[test]
fn w096_only_the_whole_signature_of_the_right_key_counts() {
    let keys = Keys::recorded();
    for algorithm in ["hmac-sha256", "ed25519"] {
        let signature = signature_bytes(&keys.signature_key(algorithm).sign(b"frame")).unwrap();
        let key = keys.verifier_key(algorithm);
        assert!(key.verifies(b"frame", &signature));
        for end in 0..signature.len() {
            assert!(!key.verifies(b"frame", &signature[..end]));
        }
        for bit in 0..signature.len() * 8 {
            let mut changed = signature.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verifies(b"frame", &changed), "{algorithm} bit {bit}");
        }
        let longer = [&signature[..], &[0]].concat();
        assert!(!key.verifies(b"frame", &longer));
        let other = if algorithm == "ed25519" { "hmac-sha256" } else { "ed25519" };
        assert!(!keys.verifier_key(other).verifies(b"frame", &signature));
    }
    let long = Secret::new("x".repeat(65));
    let signed = SignatureKey::hmac(&long).sign(b"frame");
    assert!(VerifierKey::hmac(&long).verifies(b"frame", &signature_bytes(&signed).unwrap()));
}

proptest! {
    /// Whatever we can send can be verified by whoever has the key, and by nobody who has not.
    #[test]
    fn a_signed_frame_is_believed_and_a_changed_one_is_not(
        path in "[a-z]{1,8}", method in "[a-zA-Z\"\\\\é]{1,8}", args in prop::collection::vec(any::<i32>(), 0..4),
        fence in proptest::option::of("[a-z0-9]{1,6}"), pair in any::<bool>(), flip in any::<prop::sample::Index>(),
    ) {
        let keys = Keys::recorded();
        let algorithm = if pair { "ed25519" } else { "hmac-sha256" };
        let request = Request {
            correlation: "c".into(), path, method, args: args.into_iter().map(|n| i64::from(n).into()).collect(),
            version: None, ttl: None, expiry: None, idempotency_key: None, fence, reply: ReplyRoute::default(),
        };
        let frame = Frame { source: peer("hmi"), target: peer("plantServer"), message: Message::Request(request) };
        let mut publish = encode(&frame, &topics("hmi")).unwrap();
        sign(&mut publish, &Signer::new(keys.signature_key(algorithm)), THEN, NONCE);
        let mut verifier = keys.verifier(algorithm, &["hmi"]);
        let mut changed = publish.clone();
        let mut payload = changed.payload.to_vec();
        let at = flip.index(payload.len());
        payload[at] ^= 1;
        changed.payload = payload.into();
        let refused = decode_signed(changed, &topics("plantServer"), &mut verifier, THEN).unwrap_err();
        prop_assert_eq!(refused, unverified(Refusal::Signature));
        let read = decode_signed(publish, &topics("plantServer"), &mut verifier, THEN).unwrap();
        prop_assert_eq!(read.source, frame.source);
    }
}
