//! What a tally proves.

use super::{
    Baseline, Cursor, Doubt, EpochLoss, Judged, Loss, Verdict,
    tally::{Heard, Tally, count},
};

/// What a tally is judged against.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Against<'a> {
    /// Up to where the stream was judged before.
    pub(crate) baseline: Option<&'a Baseline>,
    /// Another watch of the same stream was open when this one began, and judges what came before.
    pub(crate) overlapped: bool,
    /// The closing cursor.
    pub(crate) after: Option<&'a Cursor>,
    /// Nothing beyond this stamp is judged: it was left unread.
    pub(crate) end: Option<u64>,
    /// Since what the baseline is, in words.
    pub(crate) since: &'static str,
}

impl Tally {
    /// What all of it proves.
    pub(crate) fn judge(&self, against: Against<'_>) -> Judged {
        let Some(after) = against.after else { return self.without_cursor(&against) };
        let mut end = against.end.map_or(after.seq, |end| end.min(after.seq));
        // What came while the cursor was under way and follows it without a hole was heard by this watch, not by the next.
        let there = |seq: &u64| self.stamps(&after.epoch).is_some_and(|stamps| stamps.contains_key(seq));
        while let Some(following) = end.checked_add(1).filter(|seq| against.end.is_none() && there(seq)) {
            end = following;
        }
        let next = Some(Cursor { seq: end, ..after.clone() });
        if let Some(doubt) = self.unreliable(against.baseline, after) {
            let sentence = format!("unknown - {}, so the count proves nothing", doubt.why());
            return Judged {
                loss: self.loss(Verdict::Unknown, sentence),
                base: None,
                next,
                distrust: (doubt != Doubt::Known).then_some(u64::MAX),
            };
        }
        let before = self.before.as_ref();
        let kept = against.baseline.filter(|_| !against.overlapped);
        let others = [before, kept.map(|kept| &kept.cursor)].into_iter().flatten();
        if others
            .map(|cursor| &cursor.epoch)
            .chain(self.epochs.iter().map(|heard| &heard.epoch))
            .any(|epoch| *epoch != after.epoch)
        {
            return Judged { loss: self.across_a_restart(kept, after, end), base: Some(0), next, distrust: None };
        }
        let lowest =
            self.stamps(&after.epoch).and_then(|stamps| stamps.first_key_value()).map(|(seq, _)| seq.saturating_sub(1));
        let base = kept.map(|kept| kept.cursor.seq).or(before.map(|before| before.seq)).or(lowest).unwrap_or(end);
        let ahead = kept.map(|kept| kept.ahead.as_slice()).unwrap_or_default();
        let missing = self.gaps(&after.epoch, base, end, ahead);
        let fired = end.saturating_sub(base);
        let mut loss = self.within(&against, after, fired, count(&missing));
        loss.missed = count(&missing);
        loss.missing = missing;
        if fired > 0 {
            (loss.from, loss.to) = (Some(base.saturating_add(1)), Some(end));
        }
        Judged { loss, base: Some(base), next, distrust: self.stands_still(after).then_some(after.seq) }
    }

    fn loss(&self, verdict: Verdict, sentence: String) -> Loss {
        let duplicates = self.duplicates;
        Loss { verdict, from: None, to: None, missing: Vec::new(), missed: 0, duplicates, epochs: Vec::new(), sentence }
    }

    /// Why the count cannot be relied on, if so (S-068).
    fn unreliable(&self, baseline: Option<&Baseline>, after: &Cursor) -> Option<Doubt> {
        if self.doubt.is_some() {
            return self.doubt;
        }
        if self.unstamped > 0 {
            return Some(Doubt::Unstamped);
        }
        let before = self.before.as_ref();
        let kept = baseline.map(|kept| &kept.cursor);
        let anew = |earlier: &Cursor, later: &Cursor| {
            let begun_anew = earlier.since.zip(later.since).is_some_and(|(a, b)| a != b);
            earlier.epoch == later.epoch && (later.seq < earlier.seq || begun_anew)
        };
        let pairs = [(before, Some(after)), (kept, before.or(Some(after)))];
        let back = pairs.into_iter().any(|pair| matches!(pair, (Some(earlier), Some(later)) if anew(earlier, later)));
        back.then_some(Doubt::Backwards)
    }

    /// Whether deliveries came while the count stood still: a replaced instance may emit without being counted, and then
    /// repeats its stamp. One more delivery of the last stamp is what a link may do; two are not.
    fn stands_still(&self, after: &Cursor) -> bool {
        let opened_there =
            self.before.as_ref().is_some_and(|before| before.epoch == after.epoch && before.seq == after.seq);
        self.under && opened_there || self.is_stuck(after)
    }

    /// One incarnation, and a count to rely on.
    fn within(&self, against: &Against<'_>, after: &Cursor, fired: u64, missed: u64) -> Loss {
        let heard = fired.saturating_sub(missed);
        let before = self.before.as_ref();
        if missed > 0 {
            let since =
                if against.baseline.is_some() && !against.overlapped { against.since } else { "this watch began" };
            let sentence = format!("missed {missed} - {fired} fired since {since} and {heard} of them were heard here");
            return self.loss(Verdict::Missed, sentence);
        }
        if self.fell_off > 0 {
            let sentence =
                format!("unknown - {} deliveries arrived faster than they were read, and fell off", self.fell_off);
            return self.loss(Verdict::Unknown, sentence);
        }
        if self.stands_still(after) {
            let sentence = if self.is_stuck(after) {
                "unknown - deliveries came while the count stood still, so it does not count them all"
            } else {
                "unknown - what came had been counted before: it was late or repeated, or the count does not count it"
            };
            return self.loss(Verdict::Unknown, sentence.into());
        }
        match (against.baseline, before) {
            (Some(_), _) if !against.overlapped => self.loss(
                Verdict::Gapless,
                format!("gapless - everything that fired since {} was heard ({fired} fired, {heard} heard)", against.since),
            ),
            (Some(_), Some(_)) => self.loss(
                Verdict::Gapless,
                format!(
                    "gapless - everything that fired in this watch was heard ({fired} fired, {heard} heard); another watch \
                     of this stream was open when it began, and judges what came before"
                ),
            ),
            (Some(_), None) => {
                self.loss(Verdict::Unknown, "unknown - the peer gave no cursor when this watch began".into())
            }
            (None, Some(_)) => self.loss(
                Verdict::First,
                format!(
                    "first watch of this stream here - everything that fired in it was heard ({fired} fired, {heard} \
                     heard); the next one can tell what fell between them"
                ),
            ),
            (None, None) => self.loss(
                Verdict::First,
                "first watch of this stream here - the next one can tell what fell between them".into(),
            ),
        }
    }

    /// Each incarnation proves what it proves; across the change nothing is known.
    fn across_a_restart(&self, kept: Option<&Baseline>, after: &Cursor, end: u64) -> Loss {
        let sentence = "unknowable - the peer restarted since the previous cursor, and nobody can say what its earlier \
                        incarnation still emitted";
        let mut loss = self.loss(Verdict::Unknowable, sentence.into());
        for heard in self.epochs.iter().filter(|heard| heard.epoch != after.epoch) {
            let known = kept.map(|kept| &kept.cursor).into_iter().chain(self.before.as_ref());
            let from = known.filter(|cursor| cursor.epoch == heard.epoch).map(|cursor| cursor.seq).min();
            let lowest = heard.stamps.first_key_value().map_or(0, |(seq, _)| seq.saturating_sub(1));
            let (base, to) = (from.unwrap_or(lowest), self.highest(&heard.epoch).unwrap_or(0));
            let missing = self.gaps(&heard.epoch, base, to, &[]);
            loss.epochs.push(EpochLoss { epoch: heard.epoch.clone(), from: base.saturating_add(1), to, missing });
        }
        let missing = self.gaps(&after.epoch, 0, end, &[]);
        loss.epochs.push(EpochLoss { epoch: after.epoch.clone(), from: 1, to: end, missing: missing.clone() });
        loss.missed = count(&missing);
        loss.missing = missing;
        if end > 0 {
            (loss.from, loss.to) = (Some(1), Some(end));
        }
        loss
    }

    /// Without a closing cursor only the stamps speak, and only of what lies between them (semantics.md 6.4 rule 7).
    fn without_cursor(&self, against: &Against<'_>) -> Judged {
        let nothing = |loss| Judged { loss, base: None, next: None, distrust: None };
        let unknown =
            "unknown - the peer gives no cursor for this event, so nothing is known of what fell between watches";
        let mut loss = self.loss(Verdict::Unknown, unknown.into());
        let known = against.baseline.map(|kept| &kept.cursor).or(self.before.as_ref());
        let restarted = |heard: &Heard| known.is_some_and(|cursor| cursor.epoch != heard.epoch);
        if self.epochs.len() > 1 || self.epochs.iter().any(restarted) {
            loss.verdict = Verdict::Unknowable;
            loss.sentence = "unknowable - the peer restarted since the previous cursor, and gives none now".into();
            return nothing(loss);
        }
        let [heard] = self.epochs.as_slice() else { return nothing(loss) };
        if let Some(doubt) = self.doubt.or((self.unstamped > 0).then_some(Doubt::Unstamped)) {
            loss.sentence = format!("{unknown}; {}", doubt.why());
            return nothing(loss);
        }
        let (Some((lowest, _)), Some((highest, _))) = (heard.stamps.first_key_value(), heard.stamps.last_key_value())
        else {
            return nothing(loss);
        };
        let base = known.map_or(lowest.saturating_sub(1), |cursor| cursor.seq);
        let ahead = against.baseline.map(|kept| kept.ahead.as_slice()).unwrap_or_default();
        let told = ahead.iter().map(|(_, last)| *last).fold(*highest, u64::max);
        let end = against.end.unwrap_or(told).max(base);
        let next = Some(Cursor { epoch: heard.epoch.clone(), seq: end, since: known.and_then(|cursor| cursor.since) });
        if end == base {
            // Nothing beyond what was judged before; what was heard lies below it.
            return Judged { loss, base: Some(base), next, distrust: None };
        }
        let first = base.saturating_add(1);
        loss.missing = self.gaps(&heard.epoch, base, end, ahead);
        loss.missed = count(&loss.missing);
        (loss.from, loss.to) = (Some(first), Some(end));
        if loss.missed > 0 {
            loss.verdict = Verdict::Missed;
            loss.sentence = format!("missed {} - the stamps heard leave holes; the peer gives no cursor", loss.missed);
        } else {
            loss.sentence = format!("{unknown}; the stamps {first} to {end} follow each other");
        }
        Judged { loss, base: Some(base), next, distrust: None }
    }
}
