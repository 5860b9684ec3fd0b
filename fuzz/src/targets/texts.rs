//! Short texts that stand for something: names, topics, paths into a state, packages, cursors.

use plantbridge::contract::Segments;
use plantbridge::mcp::cursor::{Cursors, Position};
use plantbridge::script::{Packager, Wanted};
use plantbridge::wire::topic::{self, Channel};
use plantbridge::wire::{NameError, PeerName, Prefix, Topics};

use super::{each, reason, vectors};

pub(super) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    names(&text);
    path(&text);
    packages(&text);
    cursors(&text);
}

fn told<T>(read: Result<T, NameError>) -> Option<T> {
    read.map_err(|why| reason(&why)).ok()
}

/// A name that is one leads to topics that lead back to it, and to no filter.
fn names(text: &str) {
    let (mqtt, hub) = (told(PeerName::mqtt(text)), told(PeerName::hub(text)));
    let own = told(PeerName::configured(text));
    assert!(own.is_none() || mqtt.is_some() && hub.is_some());
    for name in [&mqtt, &hub, &own].into_iter().flatten() {
        assert_eq!(name.as_str(), text);
    }
    let prefix = told(Prefix::new(text)).unwrap_or_default();
    let me = own.or_else(|| PeerName::configured("me").ok()).expect("a name");
    let Some(topics) = told(Topics::new(&prefix, me)) else { return };
    assert!(topic::sendable(topics.requests()) && topic::publishable(topics.replies()));
    assert_eq!(topics.answerable(topics.replies()), Ok(()), "nobody would answer us");
    if let Some(peer) = mqtt {
        let topic = topics.request_topic(&peer);
        assert_eq!(topics.parse(&topic), Some((Channel::Request, text)));
        assert!(!topic.contains(['#', '+']), "{topic}");
    }
    if let Err(why) = topics.answerable(text) {
        reason(&why);
    }
}

fn path(text: &str) {
    match Segments::parse(text) {
        Err(why) => reason(&why),
        Ok(segments) => {
            assert!(!segments.as_slice().is_empty());
            assert!(segments.as_slice().iter().all(|segment| !segment.is_empty()));
            assert_eq!(Segments::from_list(segments.as_slice().to_vec()).as_ref(), Ok(&segments));
        }
    }
}

/// What is taken for a package is one argument of a command and nothing else: no flag, no path, no address.
fn packages(text: &str) {
    for (manager, adds) in
        [(Packager::Npm, true), (Packager::Npm, false), (Packager::Pip, true), (Packager::Pip, false)]
    {
        let wanted = Wanted { spec: text.to_owned(), manager, allow_install_scripts: false };
        match wanted.check(adds) {
            Err(why) => reason(&why),
            Ok(()) => {
                assert!(!text.starts_with(['-', '.', '/']), "{text:?}");
                assert!(!text.contains([':', '\\', '$', '`', ';', '&', '\n', '"', '\'', '#']), "{text:?}");
                let scoped = manager == Packager::Npm && text.starts_with('@');
                assert_eq!(text.matches('/').count(), usize::from(scoped), "{text:?}");
            }
        }
    }
}

/// No client can make a cursor, and none of ours can be changed or taken elsewhere.
fn cursors(text: &str) {
    let cursors = Cursors::new([3; 32]);
    assert!(cursors.open("list_peers", &["a"], text).is_err(), "a cursor that nobody sealed");
    let position = Position::After(text.to_owned());
    let sealed = cursors.seal("list_peers", &["a"], &position);
    assert_eq!(cursors.open("list_peers", &["a"], &sealed).ok(), Some(position));
    assert!(cursors.open("list_peers", &["b"], &sealed).is_err());
    assert!(cursors.open("list_rows", &["a"], &sealed).is_err());
    let cut = sealed.get(..text.len() % sealed.len()).expect("it is ASCII");
    assert!(cursors.open("list_peers", &["a"], cut).is_err());
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let names = vectors(include_str!("../../../tests/vectors/names.json"));
    let mut seeds = each(&names, &|part| {
        let text = part.get("name").or_else(|| part.get("prefix")).or_else(|| part.get("topic"))?;
        Some(text.as_str()?.as_bytes().to_vec())
    });
    seeds.extend(
        [
            "state.temperature",
            "/a~1b/~0c",
            "@scope/name@^1.2.3",
            "paho-mqtt==2.1.0",
            "left_pad@1.x || 2.x",
            "msgrpc/v2/rsp/me",
            "AWtrZXk",
        ]
        .map(|text| text.as_bytes().to_vec()),
    );
    seeds
}
