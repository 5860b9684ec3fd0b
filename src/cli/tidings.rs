//! What a watch tells: a line of JSON for each event, and where something may be missing a sentence on standard error, or,
//! in JSON, a line of its own.

use serde_json::{Value as Json, json};

use crate::{
    mcp::{tagged, tools},
    plant::{Gap, Loss, Noted, Record, Verdict},
    wire::Value,
};

/// What is known of a watch so far, to be told once.
#[derive(Debug)]
pub(super) struct Tidings {
    json: bool,
    heard: u64,
    missed: u64,
    /// The worst that was found.
    worst: Verdict,
    /// What was said last of a stream whose count proves nothing, so as to say it once.
    unknown: String,
}

/// What is to be said.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// On standard output.
    pub(super) lines: Vec<Json>,
    /// On standard error.
    pub(super) notes: Vec<String>,
}

impl Tidings {
    pub(super) fn new(json: bool) -> Self {
        Self { json, heard: 0, missed: 0, worst: Verdict::Gapless, unknown: String::new() }
    }

    /// How many events were heard.
    pub(super) const fn heard(&self) -> u64 {
        self.heard
    }

    /// What these records, and the judgement about them, say.
    pub(super) fn of(&mut self, records: Vec<Record>, loss: &Loss) -> Said {
        let mut said = Said::default();
        for record in records {
            match record.noted {
                Noted::Event { args, stamp } => {
                    self.heard += 1;
                    let too_large = || json!([{"truncated": true, "bytes": record.bytes}]);
                    let args = args.map_or_else(too_large, |args| tagged::to_json(Value::Array(args)));
                    said.lines.push(match stamp {
                        Some(stamp) => json!({"at": record.at_ms, "args": args, "seq": stamp.seq}),
                        None => json!({"at": record.at_ms, "args": args}),
                    });
                }
                Noted::Gap(gap) => self.gap(&mut said, record.at_ms, &gap),
                // Only events are watched here.
                Noted::State { .. } | Noted::Changed { .. } => {}
            }
        }
        self.judged(&mut said, loss);
        said
    }

    fn gap(&self, said: &mut Said, at: i64, gap: &Gap) {
        let (word, sentence) = match gap {
            Gap::Interrupted => ("interrupted", "interrupted: the link or the peer went away".to_owned()),
            Gap::Attached => ("attached_again", "the peer has the subscription again".to_owned()),
            Gap::Refused(why) => ("refused", format!("the peer would not have the subscription again: {why}")),
            Gap::FellOff(missed) => ("fell_off", format!("{missed} deliveries came faster than they were taken")),
        };
        if !self.json {
            return said.notes.push(sentence);
        }
        said.lines.push(match gap {
            Gap::Refused(why) => json!({"at": at, "gap": word, "why": why}),
            Gap::FellOff(missed) => json!({"at": at, "gap": word, "deliveries": missed}),
            Gap::Interrupted | Gap::Attached => json!({"at": at, "gap": word}),
        });
    }

    fn judged(&mut self, said: &mut Said, loss: &Loss) {
        self.missed = self.missed.saturating_add(loss.missed);
        if rank(loss.verdict) > rank(self.worst) {
            self.worst = loss.verdict;
        }
        let news = match loss.verdict {
            Verdict::First | Verdict::Gapless => false,
            Verdict::Missed | Verdict::Unknowable => true,
            Verdict::Unknown => self.unknown != loss.sentence,
        };
        if loss.verdict == Verdict::Unknown {
            self.unknown.clone_from(&loss.sentence);
        }
        if news && self.json {
            said.lines.push(json!({"loss": loss.sentence, "loss_detail": tools::LossDetail::from(loss)}));
        } else if news {
            said.notes.push(loss.sentence.clone());
        }
    }

    /// The last word: how many were heard, and the worst that is known of loss.
    pub(super) fn end(&self, why: &str) -> Said {
        let verdict = self.worst.as_str();
        if self.json {
            let line = json!({"ended": why, "heard": self.heard, "missed": self.missed, "verdict": verdict});
            return Said { lines: vec![line], notes: Vec::new() };
        }
        let missed = if self.missed > 0 { format!(", {} missed", self.missed) } else { String::new() };
        Said { lines: Vec::new(), notes: vec![format!("ended ({why}): {} heard{missed}, {verdict}", self.heard)] }
    }
}

/// How bad a verdict is for whoever relies on having heard everything.
const fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Gapless | Verdict::First => 0,
        Verdict::Unknown => 1,
        Verdict::Unknowable => 2,
        Verdict::Missed => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Stamp;

    fn loss(verdict: Verdict, missed: u64) -> Loss {
        let (sentence, missing) = (format!("{} {missed}", verdict.as_str()), Vec::new());
        Loss { verdict, from: None, to: None, missing, missed, duplicates: 0, epochs: Vec::new(), sentence }
    }

    fn records() -> Vec<Record> {
        let record = |index, noted| Record { index, at_ms: 5, noted, bytes: 9 };
        let stamp = Some(Stamp { epoch: "e".into(), seq: 7 });
        vec![
            record(1, Noted::Event { args: Some(vec![Value::Int(1)]), stamp }),
            record(2, Noted::Gap(Gap::FellOff(3))),
            record(3, Noted::Event { args: None, stamp: None }),
        ]
    }

    #[test]
    fn loss_is_a_line_of_its_own_in_json_and_a_sentence_otherwise() {
        let mut tidings = Tidings::new(true);
        let said = tidings.of(records(), &loss(Verdict::Missed, 3));
        assert_eq!(said.lines[0], json!({"at": 5, "args": [1], "seq": 7}));
        assert_eq!(said.lines[1], json!({"at": 5, "gap": "fell_off", "deliveries": 3}));
        assert_eq!(said.lines[2], json!({"at": 5, "args": [{"truncated": true, "bytes": 9}]}));
        assert_eq!((&said.lines[3]["loss"], said.notes.len()), (&json!("missed 3"), 0));
        let mut tidings = Tidings::new(false);
        let said = tidings.of(records(), &loss(Verdict::Missed, 3));
        assert_eq!((said.lines.len(), said.notes.len()), (2, 2));
    }

    /// The worst stays, whatever comes after it; what is not known is said once.
    #[test]
    fn the_last_word_is_the_worst_that_was_found() {
        let mut tidings = Tidings::new(true);
        for (verdict, missed, lines) in [
            (Verdict::Gapless, 0, 0),
            (Verdict::Unknown, 0, 1),
            (Verdict::Unknown, 0, 0),
            (Verdict::Missed, 2, 1),
            (Verdict::Unknowable, 0, 1),
            (Verdict::Gapless, 0, 0),
        ] {
            assert_eq!(tidings.of(Vec::new(), &loss(verdict, missed)).lines.len(), lines, "{verdict:?}");
        }
        let end = tidings.end("time");
        assert_eq!(end.lines, [json!({"ended": "time", "heard": 0, "missed": 2, "verdict": "missed"})]);
    }
}
