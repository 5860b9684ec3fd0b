//! Writes an ECMAScript pattern (no flags, the lenient web grammar) as one for our engine.
//!
//! Every literal and every class is spelled out in code points, so that no character of the pattern can mean something
//! to the engine that it does not mean in ECMAScript. Laziness and capture do not change whether a text matches and are
//! dropped.

use std::fmt::Write as _;

use super::PatternFault;
use super::units::{UnitSet, unit_char};

/// The pattern in the engine's notation.
pub(super) fn translate(pattern: &str) -> Result<String, PatternFault> {
    let units: Vec<u16> = pattern.encode_utf16().take(MAX_UNITS + 1).collect();
    if units.len() > MAX_UNITS {
        return Err(unsupported("the pattern is too long"));
    }
    let groups = Groups::count(&units);
    let mut translator = Translator { units, at: 0, out: String::new(), open: 0, last: Last::Nothing, groups };
    translator.run()?;
    Ok(translator.out)
}

struct Translator {
    units: Vec<u16>,
    at: usize,
    out: String,
    open: usize,
    last: Last,
    groups: Groups,
}

/// What was just written, which decides whether a repetition may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// The start of an alternative, an assertion, or something repeated already.
    Nothing,
    /// Something that can be repeated.
    Atom,
}

impl Translator {
    fn run(&mut self) -> Result<(), PatternFault> {
        while let Some(unit) = self.next() {
            match ascii(unit) {
                '^' => self.assertion("\\A"),
                '$' => self.assertion("\\z"),
                '.' => self.class(&UnitSet::dot()),
                '(' => self.open_group()?,
                ')' => self.close_group()?,
                '[' => self.bracket()?,
                '\\' => self.escape()?,
                '|' => self.assertion("|"),
                '*' => self.repeat("*")?,
                '+' => self.repeat("+")?,
                '?' => self.repeat("?")?,
                '{' => match self.braces()? {
                    Some(braces) => self.repeat(&braces)?,
                    None => self.literal(unit),
                },
                _ => self.literal(unit),
            }
        }
        if self.open > 0 { Err(syntax("a group is not closed")) } else { Ok(()) }
    }

    fn assertion(&mut self, text: &str) {
        self.out.push_str(text);
        self.last = Last::Nothing;
    }

    fn class(&mut self, set: &UnitSet) {
        set.write(&mut self.out);
        self.last = Last::Atom;
    }

    fn literal(&mut self, unit: u16) {
        let _ = write!(self.out, "\\x{{{:X}}}", u32::from(unit_char(unit)));
        self.last = Last::Atom;
    }

    fn repeat(&mut self, sign: &str) -> Result<(), PatternFault> {
        if self.last != Last::Atom {
            return Err(syntax("nothing to repeat"));
        }
        self.out.push_str(sign);
        self.eat('?');
        self.last = Last::Nothing;
        Ok(())
    }

    /// What stands between braces, if it is a repetition; otherwise the brace is text, and nothing is consumed.
    fn braces(&mut self) -> Result<Option<String>, PatternFault> {
        let start = self.at;
        let least = self.number();
        let most = if self.eat(',') { self.number().map_or(Some(None), |most| Some(Some(most))) } else { None };
        let (Some(least), true) = (least, self.eat('}')) else {
            self.at = start;
            return Ok(None);
        };
        match most {
            None => Ok(Some(format!("{{{least}}}"))),
            Some(None) => Ok(Some(format!("{{{least},}}"))),
            Some(Some(most)) if least <= most => Ok(Some(format!("{{{least},{most}}}"))),
            Some(Some(_)) => Err(syntax("the numbers of a repetition are out of order")),
        }
    }

    /// Digits as a number; one too large to count stays too large for the engine.
    fn number(&mut self) -> Option<u32> {
        let mut number: Option<u32> = None;
        while let Some(digit) = self.peek().and_then(|unit| ascii(unit).to_digit(10)) {
            number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit));
            self.at += 1;
        }
        number
    }

    fn open_group(&mut self) -> Result<(), PatternFault> {
        if self.eat('?') {
            match self.next().map(ascii) {
                Some(':') => {}
                Some('=' | '!') => return Err(unsupported("the pattern looks ahead")),
                Some('<') if matches!(self.peek().map(ascii), Some('=' | '!')) => {
                    return Err(unsupported("the pattern looks behind"));
                }
                Some('<') => self.group_name()?,
                Some('i' | 'm' | 's' | '-') => return self.modifiers(),
                _ => return Err(syntax("unknown kind of group")),
            }
        }
        self.open += 1;
        self.assertion("(?:");
        Ok(())
    }

    fn group_name(&mut self) -> Result<(), PatternFault> {
        let start = self.at;
        while let Some(unit) = self.next() {
            match ascii(unit) {
                '>' if self.at > start + 1 => return Ok(()),
                '0'..='9' if self.at > start + 1 => {}
                'a'..='z' | 'A'..='Z' | '_' | '$' | '\\' => {}
                _ if unit > 0x7F => {}
                _ => break,
            }
        }
        Err(syntax("a group has no usable name"))
    }

    /// Inline modifiers are ECMAScript when a colon follows their letters, and are not translated.
    fn modifiers(&mut self) -> Result<(), PatternFault> {
        while let Some(unit) = self.next() {
            match ascii(unit) {
                'i' | 'm' | 's' | '-' => {}
                ':' => return Err(unsupported("the pattern changes its own flags")),
                _ => break,
            }
        }
        Err(syntax("unknown kind of group"))
    }

    fn close_group(&mut self) -> Result<(), PatternFault> {
        self.open = self.open.checked_sub(1).ok_or_else(|| syntax("a group is closed that was not opened"))?;
        self.out.push(')');
        self.last = Last::Atom;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), PatternFault> {
        let letter = self.peek().map(ascii).ok_or_else(|| syntax("the pattern ends in a backslash"))?;
        if let Some(set) = UnitSet::escape(letter) {
            self.at += 1;
            self.class(&set);
            return Ok(());
        }
        match letter {
            'b' | 'B' => {
                self.at += 1;
                self.assertion(if letter == 'b' { "(?-u:\\b)" } else { "(?-u:\\B)" });
            }
            'k' if self.groups.named => return Err(unsupported("the pattern refers back to a group")),
            '1'..='9' => {
                let start = self.at;
                if self.number().is_some_and(|group| group <= self.groups.capturing) {
                    return Err(unsupported("the pattern refers back to a group"));
                }
                self.at = start;
                let unit = self.escaped_unit();
                self.literal(unit);
            }
            _ => {
                let unit = self.escaped_unit();
                self.literal(unit);
            }
        }
        Ok(())
    }

    /// The unit an escape stands for; an escape that stands for nothing is its own letter.
    fn escaped_unit(&mut self) -> u16 {
        let start = self.at;
        let Some(unit) = self.next() else { return BACKSLASH };
        match ascii(unit) {
            'f' => 0x0C,
            'n' => 0x0A,
            'r' => 0x0D,
            't' => 0x09,
            'v' => 0x0B,
            'x' => self.hex(2).unwrap_or(unit),
            'u' => self.hex(4).unwrap_or(unit),
            'c' => match self.peek() {
                Some(letter) if ascii(letter).is_ascii_alphabetic() => {
                    self.at += 1;
                    letter % 32
                }
                // Not a control escape: the backslash itself is meant, and what follows stands for itself.
                _ => {
                    self.at = start;
                    BACKSLASH
                }
            },
            '0'..='7' => {
                self.at = start;
                self.octal()
            }
            _ => unit,
        }
    }

    fn hex(&mut self, digits: usize) -> Option<u16> {
        let start = self.at;
        let mut value: u32 = 0;
        for _ in 0..digits {
            let Some(digit) = self.peek().and_then(|unit| ascii(unit).to_digit(16)) else {
                self.at = start;
                return None;
            };
            value = value * 16 + digit;
            self.at += 1;
        }
        u16::try_from(value).ok()
    }

    /// Up to three octal digits, at most 255.
    fn octal(&mut self) -> u16 {
        let mut value: u16 = 0;
        for _ in 0..3 {
            let digit =
                self.peek().and_then(|unit| ascii(unit).to_digit(8)).and_then(|digit| u16::try_from(digit).ok());
            let Some(longer) = digit.map(|digit| value * 8 + digit).filter(|longer| *longer <= 0o377) else { break };
            value = longer;
            self.at += 1;
        }
        value
    }

    fn bracket(&mut self) -> Result<(), PatternFault> {
        let negated = self.eat('^');
        let mut set = UnitSet::default();
        while !self.eat(']') {
            let low = self.member()?;
            if self.peek().map(ascii) != Some('-') || self.units.get(self.at + 1).copied().map(ascii) == Some(']') {
                low.add_to(&mut set);
                continue;
            }
            self.at += 1;
            let high = self.member()?;
            match (&low, &high) {
                (Member::Unit(low), Member::Unit(high)) if low <= high => set.add(*low, *high),
                (Member::Unit(_), Member::Unit(_)) => return Err(syntax("a range of a class is out of order")),
                _ => {
                    low.add_to(&mut set);
                    high.add_to(&mut set);
                    set.add(DASH, DASH);
                }
            }
        }
        self.class(&if negated { set.complement() } else { set });
        Ok(())
    }

    fn member(&mut self) -> Result<Member, PatternFault> {
        let unit = self.next().ok_or_else(|| syntax("a class is not closed"))?;
        if unit != BACKSLASH {
            return Ok(Member::Unit(unit));
        }
        let letter = self.peek().map(ascii).ok_or_else(|| syntax("a class is not closed"))?;
        if let Some(set) = UnitSet::escape(letter) {
            self.at += 1;
            return Ok(Member::Set(set));
        }
        let control = self.units.get(self.at + 1).copied().filter(|unit| matches!(ascii(*unit), '0'..='9' | '_'));
        match (letter, control) {
            ('b', _) => {
                self.at += 1;
                Ok(Member::Unit(0x08))
            }
            // Inside a class, digits and the underscore make control escapes as well.
            ('c', Some(unit)) => {
                self.at += 2;
                Ok(Member::Unit(unit % 32))
            }
            _ => Ok(Member::Unit(self.escaped_unit())),
        }
    }

    fn peek(&self) -> Option<u16> {
        self.units.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u16> {
        let unit = self.peek()?;
        self.at += 1;
        Some(unit)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek().map(ascii) == Some(wanted);
        self.at += usize::from(found);
        found
    }
}

/// One entry of a class.
enum Member {
    Unit(u16),
    Set(UnitSet),
}

impl Member {
    fn add_to(&self, set: &mut UnitSet) {
        match self {
            Self::Unit(unit) => set.add(*unit, *unit),
            Self::Set(other) => set.extend(other),
        }
    }
}

/// The groups of a whole pattern: a number refers back only if there are that many, and `\k` only if one has a name.
struct Groups {
    capturing: u32,
    named: bool,
}

impl Groups {
    fn count(units: &[u16]) -> Self {
        let mut groups = Self { capturing: 0, named: false };
        let (mut at, mut in_class) = (0, false);
        let look = |at: usize| units.get(at).copied().map(ascii);
        while let Some(c) = look(at) {
            match c {
                '\\' => at += 1,
                '[' => in_class = true,
                ']' => in_class = false,
                '(' if !in_class && look(at + 1) != Some('?') => groups.capturing += 1,
                '(' if !in_class && look(at + 2) == Some('<') && !matches!(look(at + 3), Some('=' | '!')) => {
                    groups.capturing += 1;
                    groups.named = true;
                }
                _ => {}
            }
            at += 1;
        }
        groups
    }
}

/// The unit as a character to compare with ASCII; anything else compares equal to none.
fn ascii(unit: u16) -> char {
    u8::try_from(unit).ok().filter(u8::is_ascii).map_or(char::REPLACEMENT_CHARACTER, char::from)
}

fn syntax(why: &str) -> PatternFault {
    PatternFault::Syntax { why: why.to_owned() }
}

fn unsupported(why: &str) -> PatternFault {
    PatternFault::Unsupported { why: why.to_owned() }
}

const BACKSLASH: u16 = 0x5C;
const DASH: u16 = 0x2D;
/// Length of one pattern, in code units.
const MAX_UNITS: usize = 2048;
