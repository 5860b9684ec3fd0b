//! Signatures of frames, and the files that keys and tokens come in.

use plantbridge::door::auth::{Keys, Shown, shown};
use plantbridge::wire::mqtt::{self, Publish};
use plantbridge::wire::signing::{KeyFile, Refusal, Secret, Seed, SignatureKey, Signer, Verifier, VerifierKey};
use plantbridge::wire::{DecodeError, Frame, PeerName};

use super::pieces::{Pieces, short};
use super::{mqtt_frame, reason};

pub(super) fn run(data: &[u8]) {
    let mut pieces = Pieces(data);
    match pieces.byte() % 4 {
        0 => frame(&mut pieces, &Pair::hmac()),
        1 => frame(&mut pieces, &Pair::ed25519()),
        2 => key_file(pieces.0),
        _ => tokens(&mut pieces),
    }
}

/// A key, and how others verify with it.
struct Pair {
    own: SignatureKey,
    theirs: VerifierKey,
}

impl Pair {
    fn hmac() -> Self {
        let secret = Secret::new("wire-vector-secret".to_owned());
        Self { own: SignatureKey::hmac(&secret), theirs: VerifierKey::hmac(&secret) }
    }

    fn ed25519() -> Self {
        let seed = Seed::new([7; 32]);
        Self { own: SignatureKey::ed25519(&seed), theirs: VerifierKey::ed25519(seed.public()) }
    }
}

/// What is signed is believed once, as what it was; changed in any place it is not believed, and spends nothing. What nobody
/// signed is never believed.
fn frame(pieces: &mut Pieces<'_>, pair: &Pair) {
    let (place, change) = (usize::from(pieces.byte()), pieces.byte().max(1));
    let received = mqtt_frame::publish(pieces);
    let topics = mqtt_frame::topics("me");
    let Ok(frame) = mqtt::decode(received.clone(), &topics) else { return };
    let mut verifier = Verifier::new([(frame.source.clone(), pair.theirs.clone())]);
    let read = |publish: Publish, verifier: &mut Verifier| mqtt::decode_signed(publish, &topics, verifier, NOW);
    unverified(&frame.source, read(received, &mut verifier));
    let Ok(mut signed) = mqtt::encode(&frame, &topics) else { return };
    let plain = mqtt::decode(signed.clone(), &topics).expect("what we write is read");
    mqtt::sign(&mut signed, &Signer::new(pair.own.clone()), NOW, [9; 16]);
    if let Some(changed) = changed(&signed, place, change) {
        assert!(read(changed, &mut verifier).is_err(), "a frame that was changed is believed");
    }
    let believed = read(signed.clone(), &mut verifier).expect("what is signed is believed");
    assert_eq!(format!("{believed:?}"), format!("{plain:?}"));
    let again = read(signed, &mut verifier);
    assert!(matches!(again, Err(DecodeError::Unverified { why: Refusal::Replayed, .. })), "{again:?}");
}

fn unverified(from: &PeerName, read: Result<Frame, DecodeError>) {
    match read {
        Ok(frame) => panic!("believed without a key: {frame:?}"),
        Err(why) => {
            assert!(matches!(&why, DecodeError::Unverified { from: named, .. } if named == from), "{why:?}");
            reason(&why);
        }
    }
}

/// The same publish with one thing in it that counts changed.
fn changed(signed: &Publish, place: usize, change: u8) -> Option<Publish> {
    let mut changed = signed.clone();
    if let Some(pair) = place.checked_sub(3).and_then(|at| changed.user_properties.get_mut(at)) {
        // The marks of a signature have more than one form, and the layout is that of the signature.
        if ["mr-nonce", "mr-ts", "mr-sig", "mr-v"].contains(&pair.0.as_str()) {
            return None;
        }
        pair.1.push(char::from(change));
        return Some(changed);
    }
    match place {
        0 => changed.topic.push('x'),
        1 => changed.correlation = Some([changed.correlation.as_deref()?, b"x"].concat().into()),
        _ => {
            let mut payload = changed.payload.to_vec();
            let at = usize::from(change) % payload.len().max(1);
            *payload.get_mut(at)? ^= change;
            changed.payload = payload.into();
        }
    }
    Some(changed)
}

fn key_file(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match KeyFile::parse(text) {
        Err(why) => assert!(!why.to_string().is_empty()),
        Ok(file) => {
            assert!(["HMAC-SHA256", "Ed25519"].contains(&file.signer.kind()), "{}", file.signer.kind());
            assert_eq!(file.verifier().is_some(), file.peers.is_some());
            let listed = file.peers.as_ref().map_or(0, Vec::len);
            assert_eq!(file.verifier().map_or(0, |verifier| verifier.len()), listed, "a peer stands twice");
        }
    }
}

/// A file of tokens lets in whoever has one of them, and nobody who has none.
fn tokens(pieces: &mut Pieces<'_>) {
    let header = pieces.short();
    let Ok(text) = std::str::from_utf8(pieces.0) else { return };
    match Keys::parse(text) {
        Err(why) => reason(&why),
        Ok(keys) => {
            assert!(!keys.is_open(), "a file that lets everybody in");
            assert_eq!(shown(&keys, std::iter::empty()), Shown::Nothing);
            assert_eq!(shown(&keys, [header, header].into_iter()), Shown::Wrong);
            if let Shown::Named(_) = shown(&keys, std::iter::once(header)) {
                let token = String::from_utf8_lossy(header.get(7..).unwrap_or_default()).trim().to_owned();
                assert!(!token.is_empty() && text.contains(&token) || text.contains('\\'), "let in by {token:?}");
            }
        }
    }
}

const NOW: u64 = 1_785_187_832_623;

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (at, frame) in (0_u8..).zip(mqtt_frame::seeds().into_iter().take(60)) {
        seeds.push([&[at % 2, at % 12, at][..], &frame].concat());
    }
    for file in [
        r#"{"name":"hmi","secret":"0123456789abcdef0123456789abcdef","peers":{"plantServer":"fedcba9876543210fedcba9876543210"}}"#,
        r#"{"ed25519":{"seed":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="},"peers":{"oven":{"public":"A6EHv/POEL4dcNY4vHKaZ+TWMIAmvGNKcwcUvlVLLlk="}}}"#,
        r#"{"secret":"x","secret":"y"}"#,
        r#"{"secret":"short","peers":{"a":{"secret":"b","public":"c"}}}"#,
    ] {
        seeds.push([b"\x02", file.as_bytes()].concat());
    }
    for (header, file) in [
        ("Bearer secret-a", r#"{"tokens":{"secret-a":{"name":"a"},"secret-b":{"name":"b","read_only":true}}}"#),
        ("bearer only", "only\n"),
        ("Basic only", "\u{feff}only"),
        ("", r#"{"tokens":{}}"#),
    ] {
        let mut out = vec![3];
        short(&mut out, header.as_bytes());
        out.extend_from_slice(file.as_bytes());
        seeds.push(out);
    }
    seeds
}
