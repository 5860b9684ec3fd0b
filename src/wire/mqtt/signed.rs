//! What of a publish is signed: on the way out from the packet as it will be sent, on the way in as it was received.

use std::borrow::Cow;

use super::decode::{Control, Kind};
use super::{Publish, names};
use crate::wire::signing::{Covered, Marks, Refusal, Signer};

/// Signs a frame that [`encode`](super::encode) made: `now` in milliseconds since 1970, and a nonce that was never used and
/// cannot be guessed. Nothing of the publish may change afterwards.
pub fn sign(publish: &mut Publish, signer: &Signer, now: u64, nonce: [u8; 16]) {
    let signed = signer.sign(&outgoing(publish), now, nonce);
    publish.user_properties.extend([
        (names::NONCE.to_owned(), signed.nonce),
        (names::TIME.to_owned(), signed.time),
        (names::SIGNATURE.to_owned(), signed.signature),
    ]);
}

/// What a frame says of itself, unverified: who sent it, when by the clock of whoever signed it, and whether anybody did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed<'a> {
    /// Who says to have sent it.
    pub source: &'a str,
    /// When it says it was signed, in milliseconds since the Unix epoch.
    pub at_ms: Option<i64>,
    /// Whether it carries a signature.
    pub signed: bool,
}

/// What a publish says of itself; `None` if it names nobody.
pub fn claimed(publish: &Publish) -> Option<Claimed<'_>> {
    let property = |name: &str| {
        let found = publish.user_properties.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    let at_ms = property(names::TIME).and_then(|time| time.parse().ok());
    let signed = property(names::SIGNATURE).is_some();
    Some(Claimed { source: property(names::SOURCE)?, at_ms, signed })
}

fn outgoing(publish: &Publish) -> Covered<'_> {
    let mut covered = Covered {
        topic: &publish.topic,
        // Only requests have one.
        response_topic: publish.response_topic.as_deref().unwrap_or_default(),
        correlation: text(publish.correlation.as_deref()),
        content_type: publish.content_type.as_deref().unwrap_or_default(),
        payload: &publish.payload,
        ..Covered::default()
    };
    for (name, value) in &publish.user_properties {
        let slot = match name.as_str() {
            names::SOURCE => &mut covered.source,
            names::KIND => &mut covered.kind,
            names::PATH => &mut covered.path,
            names::METHOD | names::EVENT => &mut covered.name,
            names::CODE => &mut covered.code,
            names::VERSION => &mut covered.contract_version,
            names::TTL => &mut covered.ttl,
            names::IDEMPOTENCY_KEY => &mut covered.idempotency_key,
            names::FENCE => &mut covered.fence,
            names::DEFERRED => &mut covered.deferred,
            names::OUTCOME => &mut covered.outcome,
            names::SEQ => &mut covered.seq,
            names::EPOCH => &mut covered.epoch,
            _ => continue,
        };
        *slot = value;
    }
    covered
}

impl Control {
    /// What the signature of a received frame has to cover, and the signature. A frame whose reader would heed something
    /// that the bytes to sign do not show is refused: an empty fence or receipt mark looks like none there, and of two
    /// names only the method's is shown, while an event goes by the other.
    pub(super) fn covered<'a>(&'a self, publish: &'a Publish) -> Result<(Covered<'a>, Marks<'a>), Refusal> {
        let kind = self.kind.as_deref().and_then(Kind::parse);
        for (name, value) in [(names::FENCE, &self.fence), (names::DEFERRED, &self.deferred)] {
            if value.as_deref() == Some("") {
                return Err(Refusal::Uncovered(name));
            }
        }
        if matches!(kind, Some(Kind::Event)) && self.method.is_some() {
            return Err(Refusal::Uncovered(names::EVENT));
        }
        let plain = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
        let response_topic = match kind {
            Some(Kind::Request(_)) => plain(&publish.response_topic),
            Some(Kind::Reply(_) | Kind::Event) | None => "",
        };
        let covered = Covered {
            topic: &publish.topic,
            response_topic,
            source: plain(&self.source),
            kind: plain(&self.kind),
            path: plain(&self.path),
            name: self.method.as_deref().unwrap_or_else(|| plain(&self.event)),
            correlation: text(publish.correlation.as_deref()),
            content_type: plain(&publish.content_type),
            code: plain(&self.code),
            contract_version: plain(&self.version),
            ttl: plain(&self.ttl),
            idempotency_key: plain(&self.idempotency_key),
            fence: plain(&self.fence),
            deferred: plain(&self.deferred),
            outcome: plain(&self.outcome),
            seq: plain(&self.seq),
            epoch: plain(&self.epoch),
            payload: &publish.payload,
        };
        let marks = Marks {
            layout: self.layout.as_deref(),
            nonce: self.nonce.as_deref(),
            time: self.time.as_deref(),
            signature: self.signature.as_deref(),
        };
        Ok((covered, marks))
    }
}

/// The correlation as its reader in the reference has it: what is no UTF-8 replaced, and without a byte order mark (W-051).
fn text(correlation: Option<&[u8]>) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(correlation.unwrap_or_default());
    match text {
        Cow::Borrowed(text) => text.strip_prefix('\u{FEFF}').unwrap_or(text).into(),
        Cow::Owned(text) => text.strip_prefix('\u{FEFF}').map(str::to_owned).unwrap_or(text).into(),
    }
}
