//! What is heard of peers while they are asked: who signs, and by which clock. Nothing of it is verified; it says where to look.

use std::collections::BTreeMap;

use crate::{
    link::mqtt::Tapped,
    wire::mqtt::{Publish, claimed},
};

/// What was heard of the peers that sent anything.
#[derive(Debug, Default)]
pub(super) struct Ear {
    /// By the name they say.
    pub(super) peers: BTreeMap<String, Voice>,
    /// Whether everything could be heard at some time.
    pub(super) opened: bool,
    /// Why it cannot be.
    pub(super) shut: Option<String>,
}

/// What was heard of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Voice {
    /// Frames with a signature.
    pub(super) signed: u32,
    /// Frames without.
    pub(super) unsigned: u32,
    /// How far its clock is behind ours, in milliseconds: of the frame that says least.
    pub(super) behind_ms: Option<i64>,
}

impl Ear {
    /// Takes what is heard next.
    pub(super) fn take(&mut self, tapped: Tapped) {
        match tapped {
            Tapped::Up { .. } => self.opened = true,
            Tapped::Down(reason) => self.shut = Some(reason.detail),
            Tapped::Publish { retained: true, .. } => {}
            Tapped::Publish { publish, at_ms, .. } => self.hear(&publish, at_ms),
        }
    }

    fn hear(&mut self, publish: &Publish, now_ms: i64) {
        let Some(claims) = claimed(publish) else { return };
        if self.peers.len() >= MOST && !self.peers.contains_key(claims.source) {
            return;
        }
        let voice = self.peers.entry(claims.source.to_owned()).or_default();
        let count = if claims.signed { &mut voice.signed } else { &mut voice.unsigned };
        *count = count.saturating_add(1);
        let behind = claims.at_ms.filter(|_| claims.signed).map(|at| now_ms.saturating_sub(at));
        voice.behind_ms = voice.behind_ms.into_iter().chain(behind).min_by_key(|behind| behind.unsigned_abs());
    }
}

/// How many peers are told apart: as many as are asked.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn said(source: &str, at: Option<&str>) -> Publish {
        let mut properties = vec![("mr-src".to_owned(), source.to_owned())];
        properties.extend(at.map(|at| ("mr-ts".to_owned(), at.to_owned())));
        properties.extend(at.map(|_| ("mr-sig".to_owned(), "c2ln".to_owned())));
        Publish { user_properties: properties, ..Publish::default() }
    }

    /// The frame that took the shortest says most of a clock; one that is no number says nothing.
    #[test]
    fn a_clock_is_told_by_the_frame_that_says_least() {
        let mut ear = Ear::default();
        for (at, now) in [(Some("1000"), 1900), (Some("2000"), 2400), (Some("soon"), 2500), (None, 2600)] {
            ear.hear(&said("oven-1", at), now);
        }
        ear.hear(&said("oven-2", Some("99999999999999999999")), 0);
        ear.hear(&said("oven-3", Some("-9223372036854775808")), i64::MAX);
        ear.hear(&Publish::default(), 0);
        assert_eq!(ear.peers["oven-1"], Voice { signed: 3, unsigned: 1, behind_ms: Some(400) });
        assert_eq!(ear.peers["oven-2"].behind_ms, None);
        assert_eq!(ear.peers["oven-3"].behind_ms, Some(i64::MAX));
        for at in 0..1000 {
            ear.hear(&said(&format!("p{at}"), None), 0);
        }
        assert_eq!(ear.peers.len(), MOST);
    }
}
