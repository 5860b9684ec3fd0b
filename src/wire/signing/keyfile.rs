//! The file that keys come in: that of the reference (wire.md 8.3), and our form of it for Ed25519.
//!
//! ```text
//! { "name": "hmi", "secret": "…", "peers": { "plantServer": "…" } }
//! { "name": "hmi", "ed25519": { "seed": "…", "public": "…" },
//!   "peers": { "plantServer": { "public": "…" }, "oven": { "secret": "…" } } }
//! ```
//!
//! Read strictly: a member nobody knows, or one that stands twice, would else be a setting that is silently another. What
//! is refused is named by its place in the file; no value of the file is in a message.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::key::{KeyText, PublicKey, Secret, Seed};
use super::{Kin, SignatureKey, Signer, Verifier, VerifierKey};
use crate::wire::{NameError, PeerName};

/// What a key file holds.
#[derive(Clone, Debug)]
pub struct KeyFile {
    /// Our name, if it says so.
    pub name: Option<PeerName>,
    /// What we sign with.
    pub signer: Signer,
    /// What the keys of further peers of ours are made of.
    pub kin: Kin,
    /// Whom we believe, by which key. `None`: everybody, unverified.
    pub peers: Option<Vec<(PeerName, VerifierKey)>>,
    /// Where secrets stand that are short enough to be guessed from one signed frame.
    pub short: Vec<String>,
}

/// What is wrong with a key file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// Not JSON, or something in it twice.
    #[error("it is not usable JSON: {0}")]
    Json(String),
    /// Something of another kind than it has to be.
    #[error("`{at}` must be {wanted}")]
    Kind {
        /// Where.
        at: String,
        /// What.
        wanted: &'static str,
    },
    /// A member that means nothing.
    #[error("`{at}` is unknown here; {known} can stand there")]
    Unknown {
        /// Where.
        at: String,
        /// What could stand there.
        known: &'static str,
    },
    /// Nothing to sign with, or too much.
    #[error("it needs one of `secret` and `ed25519`, to sign with; {0}")]
    Own(&'static str),
    /// The half of our key pair that cannot sign.
    #[error("`ed25519` has no `seed`; `public` is the half that others verify with, and cannot sign")]
    NoSeed,
    /// Two halves of different pairs.
    #[error("`ed25519.public` is not the public key of `ed25519.seed`")]
    Halves,
    /// A peer without a key, or with two.
    #[error("`{0}` needs one of `public` and `secret`")]
    Peer(String),
    /// A name that nobody can go by.
    #[error("`{at}`: the name {name:?} is not usable: {why}")]
    Name {
        /// Where.
        at: &'static str,
        /// The name.
        name: String,
        /// Why not.
        why: NameError,
    },
    /// A key that is none.
    #[error("`{at}` {why}")]
    Key {
        /// Where.
        at: String,
        /// Why not.
        why: KeyText,
    },
    /// An empty secret.
    #[error("`{0}` is empty")]
    Empty(String),
    /// More peers than we remember frames of.
    #[error("`peers` lists {0} peers, and at most {MAX_PEERS} are possible")]
    TooMany(usize),
}

impl KeyFile {
    /// Reads the text of a key file.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let file: Node = serde_json::from_str(text).map_err(|error| KeyFileError::Json(error.to_string()))?;
        let Node::Object(members) = file else { return Err(kind("the file", "a JSON object")) };
        let (mut name, mut secret, mut pair, mut peers) = (None, None, None, None);
        for (member, value) in members {
            match member.as_str() {
                "name" => name = Some(own_name(value)?),
                "secret" => secret = Some(text_of("secret", value)?),
                "ed25519" => pair = Some(own_pair(value)?),
                "peers" => peers = Some(peers_of(value)?),
                _ => return Err(unknown(&member, "`name`, `secret` or `ed25519`, and `peers`")),
            }
        }
        let mut short = Vec::new();
        let (key, kin) = match (secret, pair) {
            (Some(secret), None) => {
                note_short(&mut short, "secret", &secret);
                (SignatureKey::hmac(&secret), Kin::hmac(secret))
            }
            (None, Some(seed)) => (SignatureKey::ed25519(&seed), Kin::ed25519(seed)),
            (None, None) => return Err(KeyFileError::Own("it has neither")),
            (Some(_), Some(_)) => return Err(KeyFileError::Own("it has both")),
        };
        let peers = peers.map(|peers| {
            let keyed = peers.into_iter().map(|(name, key)| match key {
                PeerKey::Public(key) => (name, VerifierKey::ed25519(key)),
                PeerKey::Secret(secret) => {
                    note_short(&mut short, &format!("peers.{name}"), &secret);
                    let key = VerifierKey::hmac(&secret);
                    (name, key)
                }
            });
            keyed.collect()
        });
        Ok(Self { name, signer: Signer::new(key), kin, peers, short })
    }

    /// What decides about frames of others; `None` if the file lists nobody.
    pub fn verifier(&self) -> Option<Verifier> {
        self.peers.clone().map(Verifier::new)
    }
}

enum PeerKey {
    Public(PublicKey),
    Secret(Secret),
}

fn own_name(value: Node) -> Result<PeerName, KeyFileError> {
    let Node::Text(name) = value else { return Err(kind("name", "a text")) };
    let name = name.expose();
    PeerName::configured(name).map_err(|why| KeyFileError::Name { at: "name", name: name.to_owned(), why })
}

fn own_pair(value: Node) -> Result<Seed, KeyFileError> {
    let Node::Object(members) = value else { return Err(kind("ed25519", "an object with `seed`")) };
    let (mut seed, mut public) = (None, None);
    for (member, value) in members {
        let at = format!("ed25519.{member}");
        match member.as_str() {
            "seed" => seed = Some(Seed::read(text_of(&at, value)?.expose()).map_err(|why| key(&at, why))?),
            "public" => public = Some(PublicKey::read(text_of(&at, value)?.expose()).map_err(|why| key(&at, why))?),
            _ => return Err(unknown(&at, "`seed` and `public`")),
        }
    }
    let seed = seed.ok_or(KeyFileError::NoSeed)?;
    if public.is_some_and(|public| public != seed.public()) { Err(KeyFileError::Halves) } else { Ok(seed) }
}

fn peers_of(value: Node) -> Result<Vec<(PeerName, PeerKey)>, KeyFileError> {
    let Node::Object(members) = value else { return Err(kind("peers", "an object of names and keys")) };
    if members.len() > MAX_PEERS {
        return Err(KeyFileError::TooMany(members.len()));
    }
    let one = |(name, value): (String, Node)| {
        let at = format!("peers.{name}");
        let peer = PeerName::mqtt(&name).map_err(|why| KeyFileError::Name { at: "peers", name, why })?;
        Ok((peer, peer_key(&at, value)?))
    };
    members.into_iter().map(one).collect()
}

fn peer_key(at: &str, value: Node) -> Result<PeerKey, KeyFileError> {
    let members = match value {
        Node::Text(_) => return text_of(at, value).map(PeerKey::Secret),
        Node::Object(members) => members,
        Node::Other => return Err(KeyFileError::Peer(at.to_owned())),
    };
    let mut found = None;
    for (member, value) in members {
        let at_member = format!("{at}.{member}");
        let value = match member.as_str() {
            "secret" => PeerKey::Secret(text_of(&at_member, value)?),
            "public" => {
                let text = text_of(&at_member, value)?;
                PeerKey::Public(PublicKey::read(text.expose()).map_err(|why| key(&at_member, why))?)
            }
            _ => return Err(unknown(&at_member, "`public` or `secret`")),
        };
        if found.replace(value).is_some() {
            return Err(KeyFileError::Peer(at.to_owned()));
        }
    }
    found.ok_or_else(|| KeyFileError::Peer(at.to_owned()))
}

fn text_of(at: &str, value: Node) -> Result<Secret, KeyFileError> {
    match value {
        Node::Text(text) if text.expose().is_empty() => Err(KeyFileError::Empty(at.to_owned())),
        Node::Text(text) => Ok(text),
        Node::Object(_) | Node::Other => Err(kind(at, "a text")),
    }
}

fn note_short(short: &mut Vec<String>, at: &str, secret: &Secret) {
    if secret.expose().len() < SHORT {
        short.push(at.to_owned());
    }
}

fn kind(at: &str, wanted: &'static str) -> KeyFileError {
    KeyFileError::Kind { at: at.to_owned(), wanted }
}

fn unknown(at: &str, known: &'static str) -> KeyFileError {
    KeyFileError::Unknown { at: at.to_owned(), known }
}

fn key(at: &str, why: KeyText) -> KeyFileError {
    KeyFileError::Key { at: at.to_owned(), why }
}

/// As much of JSON as a key file is made of. Every text counts as a secret until it is known what it is.
enum Node {
    Text(Secret),
    Object(Vec<(String, Self)>),
    Other,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(Secret::new(text.to_owned())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members: Vec<(String, Node)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some((member, value)) = map.next_entry::<String, Node>()? {
            if !seen.insert(member.clone()) {
                return Err(de::Error::custom(format_args!("`{member}` stands twice")));
            }
            members.push((member, value));
        }
        Ok(Node::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Node::Other)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Other)
    }
}

/// How many peers a key file may list.
const MAX_PEERS: usize = 1024;
/// A secret of fewer bytes is worth a warning: whoever hears one frame can try all of them at home.
const SHORT: usize = 16;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SEED: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const PUBLIC: &str = "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";
    const LONG: &str = "a secret that is long enough";

    fn refused(text: &str) -> String {
        KeyFile::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_file_of_the_reference_is_read() {
        let file = json!({"name": "hmi", "secret": LONG, "peers": {"plantServer": LONG, "oven": "short"}}).to_string();
        let file = KeyFile::parse(&file).unwrap();
        assert_eq!(file.name.as_ref().map(PeerName::as_str), Some("hmi"));
        assert_eq!((file.signer.kind(), file.verifier().map(|known| known.len())), ("HMAC-SHA256", Some(2)));
        assert_eq!(file.short, ["peers.oven"]);
        let bare = KeyFile::parse(&json!({"secret": LONG}).to_string()).unwrap();
        assert!(bare.name.is_none() && bare.verifier().is_none() && bare.short.is_empty());
        assert!(KeyFile::parse(&json!({"secret": LONG, "peers": {}}).to_string()).unwrap().verifier().is_some());
    }

    #[test]
    fn our_form_mixes_both_kinds_of_keys() {
        let file = json!({
            "name": "hmi", "ed25519": {"seed": SEED, "public": PUBLIC},
            "peers": {"a": {"public": PUBLIC}, "b": {"secret": LONG}, "c": LONG},
        });
        let file = KeyFile::parse(&file.to_string()).unwrap();
        assert_eq!((file.signer.kind(), file.peers.unwrap().len()), ("Ed25519", 3));
    }

    #[test]
    fn what_is_refused_is_named_by_its_place() {
        let weak = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let other = "O2onvM62pC1imeQ2pW5hXgpPtKPJ1oKhGIvJkT/Is0A=";
        let cases = [
            (json!([]), "`the file` must be a JSON object"),
            (json!({}), "one of `secret` and `ed25519`, to sign with; it has neither"),
            (json!({"secret": LONG, "ed25519": {"seed": SEED}}), "it has both"),
            (json!({"secret": ""}), "`secret` is empty"),
            (json!({"secret": 7}), "`secret` must be a text"),
            (json!({"secret": null}), "`secret` must be a text"),
            (json!({"secret": LONG, "name": 7}), "`name` must be a text"),
            (json!({"secret": LONG, "name": ""}), "`name`: the name \"\" is not usable: it is empty"),
            (json!({"secret": LONG, "name": "a/b"}), "the name \"a/b\" is not usable"),
            (json!({"secret": LONG, "peer": {}}), "`peer` is unknown here; `name`, `secret` or `ed25519`, and `peers`"),
            (json!({"secret": LONG, "peers": null}), "`peers` must be an object"),
            (json!({"secret": LONG, "peers": ["a"]}), "`peers` must be an object"),
            (json!({"secret": LONG, "peers": {"a": ""}}), "`peers.a` is empty"),
            (json!({"secret": LONG, "peers": {"a": 1.5}}), "`peers.a` needs one of `public` and `secret`"),
            (json!({"secret": LONG, "peers": {"a": {}}}), "`peers.a` needs one of `public` and `secret`"),
            (json!({"secret": LONG, "peers": {"a": {"public": PUBLIC, "secret": LONG}}}), "`peers.a` needs one of"),
            (json!({"secret": LONG, "peers": {"a": {"seed": SEED}}}), "`peers.a.seed` is unknown here"),
            (json!({"secret": LONG, "peers": {"a+": LONG}}), "`peers`: the name \"a+\" is not usable"),
            (json!({"secret": LONG, "peers": {"a": {"public": "AAEC"}}}), "`peers.a.public` is 3 bytes long"),
            (json!({"secret": LONG, "peers": {"a": {"public": "§"}}}), "`peers.a.public` is not base64"),
            (json!({"secret": LONG, "peers": {"a": {"public": weak}}}), "is a key for which anybody can sign"),
            (json!({"ed25519": SEED}), "`ed25519` must be an object"),
            (json!({"ed25519": {}}), "`ed25519` has no `seed`"),
            (json!({"ed25519": {"public": PUBLIC}}), "cannot sign"),
            (json!({"ed25519": {"seed": SEED, "public": other}}), "is not the public key of `ed25519.seed`"),
            (json!({"ed25519": {"seed": "AAEC"}}), "`ed25519.seed` is 3 bytes long; an Ed25519 key has 32"),
            (json!({"ed25519": {"seed": SEED.trim_end_matches('=')}}), "`ed25519.seed` is not base64"),
            (json!({"ed25519": {"seed": SEED, "private": SEED}}), "`ed25519.private` is unknown here"),
        ];
        for (file, wanted) in cases {
            let said = refused(&file.to_string());
            assert!(said.contains(wanted), "{said:?} does not say {wanted:?}");
            assert!(!said.contains(LONG) && !said.contains(SEED) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn what_stands_twice_is_refused_wherever_it_stands() {
        for text in [
            r#"{"secret": "one long secret text", "secret": "another"}"#,
            r#"{"secret": "one long secret text", "peers": {"oven": "a", "oven": "b"}}"#,
            r#"{"secret": "one long secret text", "peers": {"oven": {"secret": "a", "secret": "b"}}}"#,
        ] {
            assert!(refused(text).contains("stands twice"), "{}", refused(text));
            assert!(!refused(text).contains("another"));
        }
    }

    #[test]
    fn what_is_no_json_is_told_without_its_text() {
        for text in ["", "secret", "{\"secret\": hunter2}", "{\"secret\": \"hunter2\"", "{\"secret\": \"hunter2\\q\"}"]
        {
            let said = refused(text);
            assert!(said.starts_with("it is not usable JSON") && !said.contains("hunter2"), "{said}");
        }
        let deep = format!("{{\"secret\": {}", "[".repeat(100_000));
        assert!(refused(&deep).contains("JSON"));
    }

    #[test]
    fn no_key_is_printed() {
        let file = json!({"ed25519": {"seed": SEED}, "peers": {"a": LONG, "b": {"public": PUBLIC}}}).to_string();
        let file = KeyFile::parse(&file).unwrap();
        let printed = format!("{file:?} {:?}", file.verifier());
        assert!(!printed.contains(LONG) && !printed.contains("AAEC"), "{printed}");
        let bytes: Vec<String> = (0..4).map(|byte: u8| byte.to_string()).collect();
        assert!(!printed.contains(&bytes.join(", ")), "{printed}");
    }

    #[test]
    fn more_peers_than_can_be_remembered_are_refused() {
        let peers: serde_json::Map<_, _> = (0..=MAX_PEERS).map(|n| (format!("p{n}"), json!(LONG))).collect();
        assert!(refused(&json!({"secret": LONG, "peers": peers}).to_string()).contains("at most 1024"));
    }
}
