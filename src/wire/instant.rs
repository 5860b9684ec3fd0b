//! Instants as clients write them: ISO 8601 in UTC with milliseconds, as the peers' own language prints a date. Pure.

use std::fmt::Write as _;

/// The furthest instant from the epoch a peer can hold, in milliseconds.
pub const FURTHEST: i64 = 8_640_000_000_000_000;

const DAY: i64 = 86_400_000;

/// `millis` since the Unix epoch as `2026-08-07T18:22:10.114Z`; a year outside 0–9999 has a sign and six digits.
pub fn format(millis: i64) -> String {
    let (days, rest) = (millis.div_euclid(DAY), millis.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let mut out = String::with_capacity(24);
    let _ = if (0..=9999).contains(&year) {
        write!(out, "{year:04}")
    } else {
        write!(out, "{}{:06}", if year < 0 { '-' } else { '+' }, year.unsigned_abs())
    };
    let (hour, minute, second, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    let _ = write!(out, "-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z");
    out
}

/// The milliseconds since the Unix epoch that `text` names, or `None` if it is no instant a peer can hold. A zone is
/// required: a local time names no instant. Fractions finer than a millisecond are cut.
pub fn parse(text: &str) -> Option<i64> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.year()?;
    rest.expect(b'-')?;
    let month = rest.digits(2)?;
    rest.expect(b'-')?;
    let day = rest.digits(2)?;
    rest.expect(b'T')?;
    let hour = rest.digits(2)?;
    rest.expect(b':')?;
    let minute = rest.digits(2)?;
    let second = if rest.take(b':') { rest.digits(2)? } else { 0 };
    let milli = if rest.take(b'.') { rest.fraction()? } else { 0 };
    let zone = rest.zone()?;
    let valid = rest.0.is_empty()
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let millis = days_from(year, month, day) * DAY + hour * 3_600_000 + minute * 60_000 + second * 1000 + milli;
    (valid && (millis - zone * 60_000).abs() <= FURTHEST).then_some(millis - zone * 60_000)
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, byte: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if *first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
    }

    fn year(&mut self) -> Option<i64> {
        if self.take(b'+') {
            self.digits(6)
        } else if self.take(b'-') {
            self.digits(6).map(|year| -year)
        } else {
            self.digits(4)
        }
    }

    fn fraction(&mut self) -> Option<i64> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        let milli = (0..3).fold(0, |sum, at| sum * 10 + digits.get(at).map_or(0, |digit| i64::from(digit - b'0')));
        (1..=9).contains(&count).then_some(milli)
    }

    /// The offset of the zone from UTC, in minutes.
    fn zone(&mut self) -> Option<i64> {
        if self.take(b'Z') {
            return Some(0);
        }
        let sign = if self.take(b'+') {
            1
        } else {
            self.expect(b'-')?;
            -1
        };
        let hours = self.digits(2)?;
        self.expect(b':')?;
        let minutes = self.digits(2)?;
        (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
    }
}

/// Days from the epoch to a day of the proleptic Gregorian calendar. Years are counted from March, so that the leap day
/// is the last of its year.
fn days_from(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day
        - 1
        - EPOCH_FROM_MARCH_0
}

/// The year, month and day of a day counted from the epoch.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_FROM_MARCH_0;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let of_year_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_year_era + of_year_era / 4 - of_year_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + of_year_era;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// From the first of March of the year 0 to the epoch, in days.
const EPOCH_FROM_MARCH_0: i64 = 719_468;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_instants() {
        for (text, millis) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2026-08-07T18:22:10.114Z", 1_786_126_930_114),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2000-02-29T12:00:00.000Z", 951_825_600_000),
            ("+275760-09-13T00:00:00.000Z", FURTHEST),
            ("-271821-04-20T00:00:00.000Z", -FURTHEST),
        ] {
            assert_eq!(parse(text), Some(millis), "{text}");
            assert_eq!(format(millis), text);
        }
        assert_eq!(parse("2026-08-07T20:22+02:00"), parse("2026-08-07T18:22:00Z"));
        assert_eq!(parse("2026-08-07T18:22:10.1149999Z"), Some(1_786_126_930_114));
    }

    #[test]
    fn what_names_no_instant_is_refused() {
        for text in [
            "",
            "2026-08-07",
            "2026-08-07T18:22:10",
            "2026-13-01T00:00Z",
            "2026-02-29T00:00Z",
            "2026-08-07T24:00Z",
            "2026-08-07T18:60Z",
            "2026-08-07T18:22:10.Z",
            "2026-08-07t18:22:10Z",
            "2026-08-07T18:22:10Zx",
            "+275760-09-13T00:00:00.001Z",
            "٢٠٢٦-08-07T18:22Z",
            "2026-08-07T18:22:10+2:00",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_instant_survives(millis in -FURTHEST..=FURTHEST) {
            prop_assert_eq!(parse(&format(millis)), Some(millis));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,32}") {
            let _ = parse(&text);
        }

        #[test]
        fn no_number_panics(millis in i64::MIN..=i64::MAX) {
            let _ = format(millis);
        }
    }
}
