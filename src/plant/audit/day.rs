//! Days and the names of files. Pure.

use std::fmt;

use crate::wire::instant;

const MS: i64 = 86_400_000;
/// Files a day may have; the last one grows on.
const MAX_FILES: u16 = 9_999;

/// The name of one file of a trail: `2026-08-07-0001.jsonl`. They sort as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileName {
    /// Days since the epoch, in UTC.
    day: i64,
    number: u16,
}

impl FileName {
    /// The first of the day that this instant is in.
    pub(super) fn first_of(ms: i64) -> Self {
        // No clock shows a year that has no four digits.
        Self { day: ms.div_euclid(MS).clamp(0, 2_932_896), number: 1 }
    }

    /// Reads a name that one of our files has.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stem, ending) = text.split_at_checked(15)?;
        let (day, number) = stem.split_at_checked(10)?;
        let number = number.strip_prefix('-').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        let found = Self {
            day: instant::parse(&format!("{day}T00:00:00.000Z"))?.div_euclid(MS),
            number: number.parse().ok().filter(|number| *number > 0)?,
        };
        (ending == ".jsonl" && found.to_string() == text).then_some(found)
    }

    /// The one after it at this instant: of the day that has come, or another of the same day. A clock that goes back
    /// changes nothing.
    pub(super) fn next(self, ms: i64) -> Self {
        let today = Self::first_of(ms);
        if today.day > self.day { today } else { Self { number: (self.number + 1).min(MAX_FILES), ..self } }
    }

    /// Whether its day is over.
    pub(super) fn is_over(self, ms: i64) -> bool {
        Self::first_of(ms).day > self.day
    }

    /// Whether its day is more than so many days before this instant's.
    pub(super) fn is_older(self, ms: i64, days: u32) -> bool {
        Self::first_of(ms).day - self.day > i64::from(days)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = instant::format(self.day * MS);
        write!(out, "{}-{:04}.jsonl", day.get(..10).unwrap_or_default(), self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_they_are_written_and_never_go_back() {
        let noon = 1_786_104_000_000;
        let first = FileName::first_of(noon);
        assert_eq!(first.to_string(), "2026-08-07-0001.jsonl");
        assert_eq!(FileName::parse("2026-08-07-0001.jsonl"), Some(first));
        let second = first.next(noon);
        assert_eq!(second.to_string(), "2026-08-07-0002.jsonl");
        assert_eq!(second.next(noon - 9 * MS).to_string(), "2026-08-07-0003.jsonl", "the clock went back");
        assert_eq!(second.next(noon + MS).to_string(), "2026-08-08-0001.jsonl");
        assert!(first < second && second < first.next(noon + MS));
        assert!(!first.is_over(noon) && !first.is_over(noon - MS) && first.is_over(noon + MS));
        assert!(!first.is_older(noon + 2 * MS, 2) && first.is_older(noon + 3 * MS, 2));
        for other in
            ["2026-08-07-0000.jsonl", "2026-08-07-1.jsonl", "2026-13-07-0001.jsonl", "2026-08-07-0001.json", "é"]
        {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }
}
