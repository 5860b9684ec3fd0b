//! Messages of a hub: Engine.IO, Socket.IO, attachments.

use std::time::Duration;

use bytes::Bytes;
use plantbridge::wire::socketio::{Assembler, Engine, Got, MAX_ATTACHMENTS, Opening, Packet};

use super::pieces::{Pieces, long};
use super::{each, reason, same_again, vectors};

/// Bytes that may be attached.
const LIMIT: usize = 4_096;

pub(super) fn run(data: &[u8]) {
    let mut pieces = Pieces(data);
    let mut assembler = Assembler::new(LIMIT);
    while !pieces.0.is_empty() {
        let is_text = pieces.byte() % 2 == 0;
        let message = pieces.long();
        let got = if is_text {
            let text = String::from_utf8_lossy(message);
            engine(&text);
            assembler.text(&text)
        } else {
            assembler.binary(Bytes::copy_from_slice(message))
        };
        match got {
            Err(why) => reason(&why),
            Ok(None) => {}
            Ok(Some(Got::Frame(bytes))) => assert!(bytes.len() <= LIMIT),
            Ok(Some(Got::Packet(packet))) => again(packet),
        }
    }
}

fn engine(text: &str) {
    match Engine::parse(text) {
        Err(why) => reason(&why),
        Ok(engine) => {
            let written = engine.write();
            assert_eq!(Engine::parse(&written), Ok(engine));
            if let Engine::Open(settings) = engine {
                opening(settings);
            }
        }
    }
}

fn opening(settings: &str) {
    match Opening::parse(settings) {
        Err(why) => reason(&why),
        Ok(opening) => {
            assert!(opening.max_payload <= 1_000_000);
            assert!((Duration::from_millis(100)..=Duration::from_mins(10)).contains(&opening.silence));
        }
    }
}

/// What we write is put together again as what it was.
fn again(packet: Packet) {
    let (text, attached) = match packet.clone().write() {
        Ok(written) => written,
        Err(why) => return reason(&why),
    };
    assert!(attached.len() <= MAX_ATTACHMENTS);
    assert!(attached.iter().map(Bytes::len).sum::<usize>() <= LIMIT);
    let mut assembler = Assembler::new(LIMIT);
    let mut got = assembler.text(&format!("4{text}"));
    for bytes in &attached {
        assert_eq!(got, Ok(None));
        got = assembler.binary(bytes.clone());
    }
    match got {
        Ok(Some(Got::Packet(after))) => {
            assert_eq!((after.kind, after.id), (packet.kind, packet.id));
            same_again(&(text, attached), after.write());
        }
        other => panic!("{packet:?} became {other:?}"),
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let session = vectors(include_str!("../../../tests/vectors/hub-session.json"));
    let texts = each(&session, &|part| part.get("text")?.as_str().map(str::to_owned));
    let mut seeds: Vec<Vec<u8>> = texts.iter().map(|text| message(&[(0, text.as_bytes())])).collect();
    seeds.extend([
        message(&[(0, b"451-[\"frame\",{\"_placeholder\":true,\"num\":0}]"), (1, b"\x81\xa1v\x02")]),
        message(&[
            (0, b"452-[\"x\",{\"_placeholder\":true,\"num\":1},[{\"num\":0,\"_placeholder\":true}]]"),
            (1, b"one"),
            (1, b"two"),
        ]),
        message(&[(0, b"461-12[{\"_placeholder\":true,\"num\":0}]"), (1, b"")]),
        message(&[(0, b"42/,7[\"x\",1.0,{\"_placeholder\":true}]"), (0, b"41"), (1, b"unannounced")]),
        message(&[(0, b"0{\"pingInterval\":25000,\"pingTimeout\":20000,\"maxPayload\":1000000}"), (0, b"2probe")]),
        message(&[(0, b"44{\"message\":\"no\"}"), (0, b"40{\"sid\":\"x\"}"), (0, b"43[1]")]),
    ]);
    seeds.retain(|seed| seed.len() < 2_048);
    seeds
}

fn message(messages: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, bytes) in messages {
        out.push(*kind);
        long(&mut out, bytes);
    }
    out
}
