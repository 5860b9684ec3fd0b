//! Sets of UTF-16 code units, and how they are written for the engine.

use std::fmt::Write as _;

/// A set of code units as inclusive ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct UnitSet {
    ranges: Vec<(u16, u16)>,
}

impl UnitSet {
    /// The set of the class escape `\d`, `\w` or `\s`; upper case is the rest.
    pub(super) fn escape(letter: char) -> Option<Self> {
        let ranges = match letter.to_ascii_lowercase() {
            'd' => DIGIT,
            'w' => WORD,
            's' => SPACE,
            _ => return None,
        };
        let set = Self { ranges: ranges.to_vec() };
        Some(if letter.is_ascii_uppercase() { set.complement() } else { set })
    }

    /// What `.` matches: everything but the four line ends.
    pub(super) fn dot() -> Self {
        Self { ranges: LINE_ENDS.to_vec() }.complement()
    }

    /// Adds the units from `low` to `high`.
    pub(super) fn add(&mut self, low: u16, high: u16) {
        self.ranges.push((low, high));
    }

    /// Adds another set.
    pub(super) fn extend(&mut self, other: &Self) {
        self.ranges.extend_from_slice(&other.ranges);
    }

    /// Every unit that is not in this set.
    pub(super) fn complement(mut self) -> Self {
        self.ranges.sort_unstable();
        let mut rest = Vec::new();
        let mut next: u32 = 0;
        for (low, high) in self.ranges {
            if let (Ok(from), Some(to)) = (u16::try_from(next), low.checked_sub(1))
                && from <= to
            {
                rest.push((from, to));
            }
            next = next.max(u32::from(high) + 1);
        }
        if let Ok(from) = u16::try_from(next) {
            rest.push((from, u16::MAX));
        }
        Self { ranges: rest }
    }

    /// Appends the set as one class of the engine.
    pub(super) fn write(&self, out: &mut String) {
        if self.ranges.is_empty() {
            out.push_str("[^\\x{0}-\\x{10FFFF}]");
            return;
        }
        out.push('[');
        for &(low, high) in &self.ranges {
            if low <= 0xD800 && high == u16::MAX {
                // All surrogates and all above: planes the engine never sees may be in as well, and make the class small.
                write_range(out, if low == 0xD800 { '\u{E000}' } else { unit_char(low) }, char::MAX);
                continue;
            }
            // The surrogates live elsewhere, so a range that crosses them falls into up to three.
            for (from, to) in [(0, 0xD7FF), (0xD800, 0xDFFF), (0xE000, 0xFFFF)] {
                let (low, high) = (low.max(from), high.min(to));
                if low <= high {
                    write_range(out, unit_char(low), unit_char(high));
                }
            }
        }
        out.push(']');
    }
}

fn write_range(out: &mut String, low: char, high: char) {
    let _ = write!(out, "\\x{{{:X}}}-\\x{{{:X}}}", u32::from(low), u32::from(high));
}

/// The character that stands for a code unit: itself, or one of plane 15 for a surrogate. Characters of plane 15 never
/// reach the engine as themselves, since text that holds one is written as its pairs.
pub(super) fn unit_char(unit: u16) -> char {
    let stand_in = || char::from_u32(0xF_0000 + u32::from(unit.wrapping_sub(0xD800)));
    char::from_u32(u32::from(unit)).or_else(stand_in).unwrap_or(char::REPLACEMENT_CHARACTER)
}

const DIGIT: &[(u16, u16)] = &[(0x30, 0x39)];
const WORD: &[(u16, u16)] = &[(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];
const SPACE: &[(u16, u16)] = &[
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
];
const LINE_ENDS: &[(u16, u16)] = &[(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)];
