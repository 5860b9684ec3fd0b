//! What a broker lets us do, topic by topic. A broker need not say that it refuses: what is published is waited for.

use rumqttc::{QoS, SubscribeReasonCode};

use super::probe::{Probe, Sent};
use super::{Found, Need, Right};
use crate::link::DownReason;
use crate::wire::{PeerName, Topics};

/// The subscriptions of a peer, in its order (W-031). Replies at QoS 0: the round trips are measured with them, and an
/// acknowledgement of ours would carry the one that a stalled broker waits for.
pub(super) async fn subscriptions(
    probe: &mut Probe,
    topics: &Topics,
    rights: &mut Vec<Right>,
) -> Result<(), DownReason> {
    for (filter, qos) in [
        (topics.requests(), QoS::AtLeastOnce),
        (topics.replies(), QoS::AtMostOnce),
        (topics.events(), QoS::AtMostOnce),
        (topics.presence_filter(), QoS::AtMostOnce),
    ] {
        let found = match probe.subscribe(filter, qos).await? {
            Some(SubscribeReasonCode::Success(_)) => Found::Allowed,
            Some(code) => Found::Refused(format!("{code:?}")),
            None => Found::Unanswered,
        };
        rights.push(Right { topic: filter.to_owned(), need: Need::Subscribe, found });
    }
    Ok(())
}

/// What a bridge publishes: requests, answers, presence; events come from its fakes, which are peers of their own. Nothing of it
/// says anything to anybody: the first two go to ourselves, the presence is one that means nothing (W-040), and nobody has the last name.
pub(super) async fn publications(
    probe: &mut Probe,
    topics: &Topics,
    retains: bool,
    rights: &mut Vec<Right>,
) -> Result<(), DownReason> {
    for topic in [topics.requests(), topics.replies()] {
        let comes = is_subscribed(rights, topic);
        let word = probe.word();
        let sent = tried(probe.send(topic, word, false, comes).await, topic, rights)?;
        let found = found(&sent, comes);
        rights.push(Right { topic: topic.to_owned(), need: if comes { Need::Both } else { Need::Publish }, found });
    }
    if retains {
        let topic = topics.presence();
        let comes = is_subscribed(rights, topics.presence_filter());
        let sent = tried(probe.send(topic, bytes::Bytes::new(), true, comes).await, topic, rights)?;
        let found = found(&sent, comes);
        rights.push(Right { topic: topic.to_owned(), need: if comes { Need::Both } else { Need::Publish }, found });
    }
    if let Ok(nobody) = PeerName::mqtt(&format!("{}-nobody", topics.me())) {
        let topic = topics.request_topic(&nobody);
        let word = probe.word();
        let sent = tried(probe.send(&topic, word, false, false).await, &topic, rights)?;
        rights.push(Right { topic, need: Need::Others, found: found(&sent, false) });
    }
    Ok(())
}

/// Whether the broker keeps a message for those who come later; nothing if it may not be tried.
pub(super) async fn keeps(probe: &mut Probe, topics: &Topics) -> Result<Option<bool>, DownReason> {
    let topic = topics.replies();
    let word = probe.word();
    let sent = probe.send(topic, word.clone(), true, true).await?;
    if sent.is_refused().is_some() || !sent.heard {
        return Ok(None);
    }
    let kept = probe.kept(topic, &word).await;
    // Whatever was found: it expires by itself if this does not get through.
    probe.send(topic, bytes::Bytes::new(), true, true).await?;
    kept.map(Some)
}

/// A broker may answer what it refuses by ending the connection: then that is known of this topic.
fn tried(sent: Result<Sent, DownReason>, topic: &str, rights: &mut Vec<Right>) -> Result<Sent, DownReason> {
    sent.inspect_err(|reason| {
        let found = Found::Refused(format!("the connection ended with it: {}", reason.detail));
        rights.push(Right { topic: topic.to_owned(), need: Need::Publish, found });
    })
}

fn is_subscribed(rights: &[Right], filter: &str) -> bool {
    rights.iter().any(|right| right.topic == filter && right.found == Found::Allowed)
}

fn found(sent: &Sent, comes: bool) -> Found {
    match (sent.is_refused(), sent.acknowledged) {
        (Some(reason), _) => Found::Refused(format!("{reason:?}")),
        (None, None) => Found::Unanswered,
        (None, Some(_)) if comes && !sent.heard => Found::Lost,
        (None, Some(_)) => Found::Allowed,
    }
}
