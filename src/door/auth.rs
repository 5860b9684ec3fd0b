//! Who a client of the HTTP door is: the name of its token (F-34). Pure.
//!
//! Tokens are kept as digests. What a client presents is compared with every one of them, in constant time, so that
//! neither how much of it was right nor which client was nearly meant can be told from how long a refusal takes.

use core::net::IpAddr;
use std::{collections::HashSet, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// Clients one process may have tokens for.
const MAX_CLIENTS: usize = 256;
/// Bytes a token may have.
const MAX_TOKEN: usize = 1_024;
/// Bytes a name may have.
const MAX_NAME: usize = 64;
/// The name of the client whose token was given without one.
pub const NAMELESS: &str = "http";

/// A client with a name of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name: in the log, for its places, for what it was told of loss.
    pub name: Arc<str>,
    /// Whether it may only look.
    pub read_only: bool,
}

/// Who may come in.
#[derive(Clone, Default)]
pub struct Keys(Vec<([u8; 32], Named)>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(_, named)| named)).finish()
    }
}

/// What became of a client when the tokens changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Became {
    /// It has the same token, which lets it do the same.
    Same,
    /// It comes with another, or may do something else with the one it has.
    OtherToken {
        /// Whether it may only look now.
        read_only: bool,
    },
    /// It has none.
    Nobody,
}

/// Why tokens cannot be used. Never says a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// There is none.
    #[error("it is empty, and would let everybody in")]
    Empty,
    /// It cannot stand in a header.
    #[error("a token is 1 to 1024 visible ASCII characters")]
    Unusable,
    /// It begins like JSON and is none, or has another shape.
    #[error(
        "it is neither one token nor {{\"tokens\": {{\"<token>\": {{\"name\": \"<client>\", \"read_only\": false}}}}}}: {0}"
    )]
    Shape(String),
    /// A name that is no name, or is ours.
    #[error("{0:?} is not a usable name: 1 to 64 letters, digits, '.', '_', '-', and neither stdio, http nor http-…")]
    Name(String),
    /// Two clients would count as one.
    #[error("two tokens are named {0:?}")]
    Twice(String),
    /// Too many.
    #[error("it holds over {MAX_CLIENTS} tokens")]
    Many,
}

impl Keys {
    /// One token, for a client without a name of its own.
    ///
    /// # Errors
    ///
    /// A token no client could present.
    pub fn one(token: &str) -> Result<Self, KeyFault> {
        let named = Named { name: NAMELESS.into(), read_only: false };
        Ok(Self(vec![(digest_of(token)?, named)]))
    }

    /// What a file holds: one token, or named clients.
    ///
    /// # Errors
    ///
    /// What keeps it from being used.
    pub fn parse(text: &str) -> Result<Self, KeyFault> {
        let text = text.trim_start_matches('\u{feff}').trim();
        if !text.starts_with('{') {
            return Self::one(text);
        }
        // The place is enough: what the parser says may quote the file.
        let file: File = serde_json::from_str(text)
            .map_err(|problem| KeyFault::Shape(format!("line {}, column {}", problem.line(), problem.column())))?;
        if file.tokens.0.is_empty() {
            return Err(KeyFault::Empty);
        }
        if file.tokens.0.len() > MAX_CLIENTS {
            return Err(KeyFault::Many);
        }
        let mut names = HashSet::new();
        let keys = file.tokens.0.into_iter().map(|(token, Client { name, read_only })| {
            if !usable(&name) {
                return Err(KeyFault::Name(name.chars().take(MAX_NAME).collect()));
            }
            if !names.insert(name.clone()) {
                return Err(KeyFault::Twice(name));
            }
            Ok((digest_of(&token)?, Named { name: name.into(), read_only }))
        });
        keys.collect::<Result<_, _>>().map(Self)
    }

    /// Whether there is no token, and every process that reaches the door may come in.
    pub fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// What became of the client that goes by a name, when these take the place of others.
    pub(super) fn now(&self, before: &Self, name: &str) -> Became {
        let of = |keys: &Self| keys.0.iter().find(|(_, named)| &*named.name == name).cloned();
        match (of(before), of(self)) {
            (_, None) => Became::Nobody,
            (was, is) if was == is => Became::Same,
            (_, Some((_, named))) => Became::OtherToken { read_only: named.read_only },
        }
    }

    /// Whose token this is.
    fn owner(&self, token: &[u8]) -> Option<&Named> {
        let presented = digest(token);
        let mut found = u32::MAX;
        for (at, (kept, _)) in (0_u32..).zip(&self.0) {
            let same: Choice = kept.as_slice().ct_eq(presented.as_slice());
            found = u32::conditional_select(&found, &at, same);
        }
        self.0.get(usize::try_from(found).ok()?).map(|(_, named)| named)
    }
}

/// What a request shows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The client has a name.
    Named(Named),
    /// There are no tokens: whoever holds the connection.
    Anonymous,
    /// No token where one is needed.
    Nothing,
    /// A token that is nobody's.
    Wrong,
}

/// Who a request comes from, by the values of its `Authorization` headers.
pub fn shown<'a>(keys: &Keys, mut authorization: impl Iterator<Item = &'a [u8]>) -> Shown {
    if keys.is_open() {
        return Shown::Anonymous;
    }
    let Some(value) = authorization.next() else { return Shown::Nothing };
    if authorization.next().is_some() || value.len() > MAX_TOKEN + 64 {
        return Shown::Wrong;
    }
    let Some((scheme, token)) = value.split_at_checked(7) else { return Shown::Wrong };
    if !scheme.eq_ignore_ascii_case(b"bearer ") {
        return Shown::Wrong;
    }
    keys.owner(token.trim_ascii()).map_or(Shown::Wrong, |named| Shown::Named(named.clone()))
}

/// Why a door with these keys must not be opened there; `Ok` says whether everybody on this machine may come in.
///
/// # Errors
///
/// One sentence.
pub fn may_open(host: IpAddr, keys: &Keys, required: bool) -> Result<bool, &'static str> {
    match (keys.is_open(), host.to_canonical().is_loopback()) {
        (false, _) => Ok(false),
        (true, _) if required => {
            Err("--require-token: there is no token; give PLANTBRIDGE_MCP_TOKEN or --mcp-auth <file>")
        }
        (true, true) => Ok(true),
        (true, false) => Err(
            "--host: others on the network could drive the plant; give PLANTBRIDGE_MCP_TOKEN or --mcp-auth <file>, or \
             leave the door on 127.0.0.1",
        ),
    }
}

fn digest_of(token: &str) -> Result<[u8; 32], KeyFault> {
    if token.is_empty() {
        return Err(KeyFault::Empty);
    }
    if token.len() > MAX_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KeyFault::Unusable);
    }
    Ok(digest(token.as_bytes()))
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// A name that is mistaken for nobody else's.
fn usable(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let ours = ["stdio", "cli", NAMELESS].contains(&name) || name.starts_with("http-");
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(plain) && !ours
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tokens: Tokens,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    name: String,
    #[serde(default)]
    read_only: bool,
}

/// The tokens in order; one that stands twice is refused, where a map would keep the last.
struct Tokens(Vec<(String, Client)>);

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TokensVisitor)
    }
}

struct TokensVisitor;

impl<'de> Visitor<'de> for TokensVisitor {
    type Value = Tokens;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tokens and their clients")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tokens, A::Error> {
        let mut tokens: Vec<(String, Client)> = Vec::new();
        while let Some((token, client)) = members.next_entry()? {
            if tokens.iter().any(|(known, _)| *known == token) {
                return Err(A::Error::custom("a token stands twice"));
            }
            if tokens.len() <= MAX_CLIENTS {
                tokens.push((token, client));
            }
        }
        Ok(Tokens(tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"{"tokens": {"secret-a": {"name": "a"}, "secret-b": {"name": "b", "read_only": true}}}"#;

    fn who(keys: &Keys, values: &[&str]) -> String {
        match shown(keys, values.iter().map(|value| value.as_bytes())) {
            Shown::Named(named) => format!("{}{}", named.name, if named.read_only { " (looks)" } else { "" }),
            other => format!("{other:?}"),
        }
    }

    /// F-34: each token is its client's, and what is not exactly a token is nobody's.
    #[test]
    fn a_token_names_its_client() {
        let keys = Keys::parse(TWO).unwrap();
        assert_eq!(who(&keys, &["Bearer secret-a"]), "a");
        assert_eq!(who(&keys, &["bearer  secret-b "]), "b (looks)");
        assert_eq!(who(&keys, &[]), "Nothing");
        for value in [
            "",
            "Bearer",
            "Bearer ",
            "secret-a",
            "Basic secret-a",
            "Bearer secret-",
            "Bearer secret-ab",
            "Bearer Secret-a",
        ] {
            assert_eq!(who(&keys, &[value]), "Wrong", "{value:?}");
        }
        assert_eq!(who(&keys, &["Bearer secret-a", "Bearer secret-b"]), "Wrong", "one client, one token");
        assert_eq!(who(&keys, &[&format!("Bearer {}", "x".repeat(5_000))]), "Wrong");
        assert_eq!(who(&Keys::one("only").unwrap(), &["Bearer only"]), NAMELESS);
        assert_eq!(who(&Keys::default(), &["Bearer whatever"]), "Anonymous");
    }

    /// F-34: a file that would silently let everybody in, or the wrong one, is refused, and no token is ever said.
    #[test]
    fn files_that_are_no_keys_are_refused() {
        let many: Vec<String> = (0..=MAX_CLIENTS).map(|at| format!("\"t{at}\": {{\"name\": \"c{at}\"}}")).collect();
        let cases = [
            String::new(),
            " \n\t".into(),
            "two words".into(),
            "hunter2\nhunter3".into(),
            "hünter2".into(),
            "x".repeat(MAX_TOKEN + 1),
            "{".into(),
            "{}".into(),
            r#"{"tokens": {}}"#.into(),
            r#"{"tokens": ["hunter2"]}"#.into(),
            r#"{"tokens": {"hunter2": "name"}}"#.into(),
            r#"{"tokens": {"hunter2": {"name": "a", "readonly": true}}}"#.into(),
            r#"{"tokens": {"hunter2": {"name": "a"}, "hunter2": {"name": "b"}}}"#.into(),
            r#"{"tokens": {"hunter2": {"name": "a"}, "hunter3": {"name": "a"}}}"#.into(),
            r#"{"tokens": {"": {"name": "a"}}}"#.into(),
            r#"{"tokens": {"hunter2": {"name": "stdio"}}}"#.into(),
            r#"{"tokens": {"hunter2": {"name": "http-1"}}}"#.into(),
            r#"{"tokens": {"hunter2": {"name": "a b"}}}"#.into(),
            r#"{"tokens": {"hunter2": {"name": ""}}}"#.into(),
            format!("{{\"tokens\": {{{}}}}}", many.join(",")),
        ];
        for text in cases {
            let fault = Keys::parse(&text).expect_err(&text).to_string();
            assert!(!fault.contains("unter"), "{fault}");
        }
        assert!(!format!("{:?}", Keys::parse("hunter2\n").unwrap()).contains("hunter2"));
    }

    /// Whoever keeps the same token and may do the same is not touched; everybody else is told apart.
    #[test]
    fn what_became_of_a_client_is_told_by_its_name() {
        let one = |token: &str, name: &str, looks: bool| {
            Keys::parse(&format!(r#"{{"tokens": {{"{token}": {{"name": "{name}", "read_only": {looks}}}}}}}"#)).unwrap()
        };
        let before = one("secret-a", "a", false);
        let became = |after: &Keys| after.now(&before, "a");
        assert_eq!(became(&one("secret-a", "a", false)), Became::Same);
        assert_eq!(became(&one("secret-c", "a", false)), Became::OtherToken { read_only: false });
        assert_eq!(became(&one("secret-a", "a", true)), Became::OtherToken { read_only: true });
        assert_eq!(became(&one("secret-a", "b", false)), Became::Nobody);
        assert_eq!(became(&Keys::default()), Became::Nobody);
        assert_eq!(Keys::parse(TWO).unwrap().now(&Keys::default(), "b"), Became::OtherToken { read_only: true });
    }

    /// Loopback without a token opens and is told; anything wider needs one, and so does loopback when asked.
    #[test]
    fn a_wide_door_needs_a_token() {
        let (open, kept) = (Keys::default(), Keys::one("t").unwrap());
        for host in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(may_open(host.parse().unwrap(), &open, false), Ok(true), "{host}");
            assert!(may_open(host.parse().unwrap(), &open, true).is_err(), "{host}");
            assert_eq!(may_open(host.parse().unwrap(), &kept, true), Ok(false), "{host}");
        }
        for host in ["0.0.0.0", "::", "192.168.1.7", "fe80::1", "::ffff:10.0.0.1"] {
            assert!(may_open(host.parse().unwrap(), &open, false).is_err(), "{host}");
            assert_eq!(may_open(host.parse().unwrap(), &kept, false), Ok(false), "{host}");
        }
    }
}
