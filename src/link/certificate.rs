//! When a certificate ends, read out of its DER. Pure, and of nothing but what was verified: the TLS library checks the time
//! and does not tell it.

use crate::wire::instant;

/// The end of a certificate's time, in milliseconds since the Unix epoch; `None` if it cannot be read.
pub(super) fn ends(der: &[u8]) -> Option<i64> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    // The version is left out of the oldest kind.
    if let Some((_, after)) = element(rest, VERSION) {
        rest = after;
    }
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        rest = element(rest, tag)?.1;
    }
    let (validity, _) = element(rest, SEQUENCE)?;
    let (_, end) = moment(validity)?;
    moment(end).map(|(ends, _)| ends)
}

/// A moment, and what follows it.
fn moment(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (text, rest, century) = match element(bytes, UTC_TIME) {
        Some((text, rest)) => (text, rest, true),
        None => element(bytes, GENERALIZED_TIME).map(|(text, rest)| (text, rest, false))?,
    };
    let text = std::str::from_utf8(text).ok()?;
    let (year, rest_of) = if century {
        let short = text.get(..2)?;
        let base = if short.parse::<u8>().ok()? < 50 { "20" } else { "19" };
        (format!("{base}{short}"), text.get(2..)?)
    } else {
        (text.get(..4)?.to_owned(), text.get(4..)?)
    };
    let part = |at: usize| rest_of.get(at..at + 2);
    let (month, day, hour, minute, second) = (part(0)?, part(2)?, part(4)?, part(6)?, part(8)?);
    let ends = instant::parse(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))?;
    (rest_of.get(10..) == Some("Z")).then_some((ends, rest))
}

/// What is inside an element with this tag that `bytes` begin with, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7F => (usize::from(*length), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (digits.iter().fold(0, |value, digit| value << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    if *first == tag { rest.split_at_checked(length) } else { None }
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xA0;

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn made(year: i32) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["plant".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 2, 3);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    /// Both ways a certificate writes a time.
    #[test]
    fn the_end_is_read() {
        for year in [1999, 2031, 2049, 2050, 3000] {
            let expected = instant::parse(&format!("{year}-02-03T00:00:00Z"));
            assert_eq!(ends(&made(year)), expected, "{year}");
        }
    }

    /// Nothing that was cut or bent makes it fall over.
    #[test]
    fn what_is_cut_or_bent_has_no_end_or_another() {
        let whole = made(2031);
        for at in 0..whole.len() {
            assert!(at > 300 || ends(&whole[..at]).is_none(), "cut at {at}");
            let mut bent = whole.clone();
            bent[at] ^= 0xFF;
            let _ = ends(&bent);
        }
        assert_eq!(ends(&[0x30, 0x85, 1, 1, 1, 1, 1]), None);
    }
}
