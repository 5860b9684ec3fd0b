//! The account of one watch: what its answers showed and said was missed, held against what the emitter counted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// One answer of `read_watch`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) verdict: String,
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    pub(super) missing: Vec<(u64, u64)>,
    pub(super) missed: u64,
    /// Whether all stretches are in `missing`.
    pub(super) whole: bool,
    /// Whether records fell off before they were read.
    pub(super) fell_off: bool,
    /// What each incarnation proves, if there was more than one.
    pub(super) epochs: Vec<Span>,
    /// What was shown: the incarnation and the number that the emitter put into the event itself.
    pub(super) shown: Vec<(String, u64)>,
}

/// A stretch of one incarnation that was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) epoch: String,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) missing: Vec<(u64, u64)>,
}

impl Answer {
    /// Reads the structured part of an answer.
    pub(super) fn read(content: &Value) -> Self {
        let detail = content.get("loss_detail").unwrap_or(&Value::Null);
        let records = content.get("records").and_then(Value::as_array).into_iter().flatten();
        let shown = records.filter_map(|record| {
            let arguments = record.get("args")?.as_array()?;
            Some((arguments.first()?.as_str()?.to_owned(), arguments.get(1)?.as_u64()?))
        });
        let number = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64);
        let epochs = detail.get("epochs").and_then(Value::as_array).into_iter().flatten().filter_map(|span| {
            Some(Span {
                epoch: span.get("epoch")?.as_str()?.to_owned(),
                from: number(span, "from")?,
                to: number(span, "to")?,
                missing: stretches(span),
            })
        });
        Self {
            verdict: detail.get("verdict").and_then(Value::as_str).unwrap_or_default().to_owned(),
            from: number(detail, "from"),
            to: number(detail, "to"),
            missing: stretches(detail),
            missed: number(detail, "missed").unwrap_or_default(),
            whole: number(detail, "missing_not_shown").unwrap_or_default() == 0,
            fell_off: number(content, "fell_off").unwrap_or_default() > 0,
            epochs: epochs.collect(),
            shown: shown.collect(),
        }
    }
}

fn stretches(of: &Value) -> Vec<(u64, u64)> {
    let listed = of.get("missing").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|pair| Some((pair.get(0)?.as_u64()?, pair.get(1)?.as_u64()?))).collect()
}

/// All answers of one watch so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The incarnations, by when they were last shown or named.
    epochs: Vec<String>,
    shown: BTreeMap<String, BTreeSet<u64>>,
    /// What was named as missing.
    missing: BTreeMap<String, BTreeSet<u64>>,
    /// Up to where each incarnation was judged without a break.
    judged: BTreeMap<String, u64>,
    pub(super) shown_in_all: u64,
    pub(super) missed_in_all: u64,
}

impl Ledger {
    /// Takes the next answer; `count` is how far the emitter has counted in an incarnation. Gives what is wrong with it.
    pub(super) fn take(&mut self, answer: &Answer, count: impl Fn(&str) -> u64) -> Vec<String> {
        let mut wrong = self.show(answer, &count);
        self.missed_in_all += answer.missed;
        match answer.verdict.as_str() {
            "gapless" | "first" | "missed" if answer.epochs.is_empty() => {
                if let (Some(from), Some(to)) = (answer.from, answer.to) {
                    wrong.extend(self.judge(answer, from, to, &count));
                }
                if answer.verdict != "missed" && (answer.missed > 0 || !answer.missing.is_empty()) {
                    wrong.push(format!("{} was said, and {} events missing", answer.verdict, answer.missed));
                }
                if answer.verdict == "missed" && answer.missed == 0 {
                    wrong.push("missed was said, and nothing is missing".to_owned());
                }
            }
            "gapless" => wrong.push(format!("gapless was said across incarnations: {:?}", answer.epochs)),
            "first" | "missed" | "unknowable" | "unknown" => {
                for span in &answer.epochs {
                    wrong.extend(self.span(span, &count));
                }
                // After a restart, and where a stretch was given up, the account begins anew. Where only nothing could be
                // said yet it goes on: what no answer shows has to be named later.
                if answer.verdict == "unknowable" || answer.to.is_some() || answer.fell_off {
                    self.judged.clear();
                }
            }
            other => wrong.push(format!("there is no verdict {other:?}")),
        }
        wrong
    }

    /// Up to where an incarnation was judged.
    pub(super) fn reached(&self, epoch: &str) -> Option<u64> {
        self.judged.get(epoch).copied()
    }

    /// It was shown or named.
    fn seen(&mut self, epoch: &str) {
        if self.epochs.last().is_none_or(|last| last != epoch) {
            self.epochs.retain(|known| known != epoch);
            self.epochs.push(epoch.to_owned());
        }
    }

    fn show(&mut self, answer: &Answer, count: impl Fn(&str) -> u64) -> Vec<String> {
        let mut wrong = Vec::new();
        for (epoch, number) in &answer.shown {
            self.seen(epoch);
            if *number > count(epoch) {
                wrong.push(format!("event {number} of {epoch} was shown and never emitted"));
            }
            if !self.shown.entry(epoch.clone()).or_default().insert(*number) {
                wrong.push(format!("event {number} of {epoch} was shown twice"));
            }
            self.shown_in_all += 1;
        }
        wrong
    }

    /// Holds a judgement against what was shown. The answer does not name its incarnation where there is one only: it is one
    /// of those it shows, and if it shows none, one of those known.
    fn judge(&mut self, answer: &Answer, from: u64, to: u64, count: impl Fn(&str) -> u64) -> Option<String> {
        let mut candidates: Vec<String> = answer.shown.iter().map(|(epoch, _)| epoch.clone()).collect();
        candidates.dedup();
        if candidates.is_empty() {
            candidates = self.epochs.iter().rev().cloned().collect();
        }
        let mut first = None;
        for epoch in candidates {
            let span = Span { epoch: epoch.clone(), from, to, missing: answer.missing.clone() };
            match self.holds(&span, answer.whole, &count) {
                None => {
                    let named = self.missing.entry(epoch.clone()).or_default();
                    named.extend(answer.missing.iter().flat_map(|(first, last)| *first..=*last));
                    self.judged.insert(epoch, to);
                    return None;
                }
                Some(why) => first = first.or(Some(format!("{} of {epoch}: {why}", answer.verdict))),
            }
        }
        first
    }

    /// What is wrong with a stretch, if anything is.
    fn holds(&self, span: &Span, whole: bool, count: impl Fn(&str) -> u64) -> Option<String> {
        let Span { epoch, from, to, missing } = span;
        if *to > count(epoch) {
            return Some(format!("judged up to {to} of {} emitted", count(epoch)));
        }
        let none = BTreeSet::new();
        let shown = self.shown.get(epoch).unwrap_or(&none);
        let named = |number: u64| missing.iter().any(|(first, last)| (*first..=*last).contains(&number));
        let silent = (*from..=*to).find(|number| !shown.contains(number) && !named(*number));
        if let Some(number) = silent.filter(|_| whole) {
            return Some(format!("{from} to {to} judged, and {number} neither shown nor named as missing"));
        }
        if let Some(number) = (*from..=*to).find(|number| shown.contains(number) && named(*number)) {
            return Some(format!("{number} was shown and named as missing"));
        }
        let before = self.judged.get(epoch)?;
        let earlier = self.missing.get(epoch).unwrap_or(&none);
        let hole = (before + 1..*from).find(|number| !shown.contains(number) && !earlier.contains(number));
        hole.map(|number| format!("{number} lies between this answer and the one before, and in neither"))
    }

    /// A stretch beside others, of an incarnation that is named.
    fn span(&mut self, span: &Span, count: impl Fn(&str) -> u64) -> Option<String> {
        self.seen(&span.epoch);
        self.judged.remove(&span.epoch);
        self.holds(span, false, count).map(|why| format!("{}: {why}", span.epoch))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(verdict: &str, from: u64, to: u64, shown: &[u64], missing: &[(u64, u64)]) -> Answer {
        Answer {
            verdict: verdict.to_owned(),
            from: Some(from),
            to: Some(to),
            missing: missing.to_vec(),
            missed: missing.iter().map(|(first, last)| last - first + 1).sum(),
            whole: true,
            fell_off: false,
            epochs: Vec::new(),
            shown: shown.iter().map(|number| ("e1".to_owned(), *number)).collect(),
        }
    }

    fn wrong(answers: &[Answer]) -> Vec<String> {
        let mut ledger = Ledger::default();
        answers.iter().flat_map(|answer| ledger.take(answer, |_| 9)).collect()
    }

    #[test]
    fn a_true_account_passes() {
        let answers = [
            answer("gapless", 3, 5, &[3, 4, 5, 6], &[]),
            answer("missed", 6, 8, &[8], &[(7, 7)]),
            answer("gapless", 9, 9, &[9], &[]),
        ];
        assert_eq!(wrong(&answers), Vec::<String>::new());
        let mut ledger = Ledger::default();
        for answer in &answers {
            ledger.take(answer, |_| 9);
        }
        assert_eq!((ledger.reached("e1"), ledger.shown_in_all, ledger.missed_in_all), (Some(9), 6, 1));
    }

    #[test]
    fn each_untruth_is_found() {
        let first = answer("gapless", 3, 5, &[3, 4, 5], &[]);
        for (why, untrue) in [
            ("a wrong gapless", answer("gapless", 6, 8, &[6, 8], &[])),
            ("a gap between two answers", answer("gapless", 7, 8, &[7, 8], &[])),
            ("one missing that was shown", answer("missed", 6, 7, &[6, 7], &[(7, 7)])),
            ("too little named", answer("missed", 6, 9, &[6], &[(7, 8)])),
            ("beyond what was emitted", answer("gapless", 6, 10, &[6, 7, 8, 9, 10], &[])),
            ("shown again", answer("gapless", 6, 6, &[5, 6], &[])),
            ("gapless with something missing", answer("gapless", 6, 7, &[6], &[(7, 7)])),
            ("missed with nothing", answer("missed", 6, 6, &[6], &[])),
            ("no verdict", answer("fine", 6, 6, &[6], &[])),
        ] {
            assert!(!wrong(&[first.clone(), untrue]).is_empty(), "{why}");
        }
    }

    #[test]
    fn what_was_unknown_for_a_while_is_not_forgotten() {
        let first = answer("gapless", 3, 5, &[3, 4, 5], &[]);
        let unknown = Answer { from: None, to: None, ..answer("unknown", 0, 0, &[7], &[]) };
        let named = answer("missed", 6, 8, &[8], &[(6, 6)]);
        assert_eq!(wrong(&[first.clone(), unknown.clone(), named]), Vec::<String>::new());
        assert!(!wrong(&[first, unknown, answer("gapless", 7, 8, &[8], &[])]).is_empty(), "6 is forgotten");
    }

    #[test]
    fn each_incarnation_is_held_against_its_own_count() {
        let span = |to| Span { epoch: "e2".to_owned(), from: 1, to, missing: vec![(2, 2)] };
        let across = |to| Answer {
            verdict: "unknowable".to_owned(),
            epochs: vec![span(to)],
            shown: vec![("e2".to_owned(), 1)],
            ..Answer::default()
        };
        assert_eq!(wrong(&[across(2)]), Vec::<String>::new());
        assert!(!wrong(&[across(10)]).is_empty(), "judged beyond what was emitted");
        let gapless = Answer { verdict: "gapless".to_owned(), ..across(2) };
        assert!(!wrong(&[gapless]).is_empty());
    }

    #[test]
    fn an_answer_is_read() {
        let content = json!({
            "records": [{"index": 1, "args": ["e1", 4]}, {"index": 2, "gap": "interrupted"}],
            "loss_detail": {"verdict": "missed", "from": 4, "to": 6, "missing": [[5, 6]], "missed": 2,
                "epochs": [{"epoch": "e1", "from": 4, "to": 6, "missing": [[5, 6]]}]},
        });
        let missing = vec![(5, 6)];
        let span = Span { epoch: "e1".to_owned(), from: 4, to: 6, missing: missing.clone() };
        let expected = Answer { epochs: vec![span], missing, ..answer("missed", 4, 6, &[4], &[(5, 6)]) };
        assert_eq!(Answer::read(&content), expected);
    }
}
