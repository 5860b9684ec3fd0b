//! Contract patterns: ECMAScript, unanchored, without flags, run by an engine whose time is linear in the text (S-031,
//! S-038).
//!
//! Without flags ECMAScript matches UTF-16 code units, not characters: `^..$` accepts one emoji. The engine matches
//! characters, so surrogates are given characters of their own (private plane 15), in the pattern always and in the text
//! when it holds one that needs a pair. Text without such characters is matched as it is.

mod shared;
mod translate;
mod units;

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use units::unit_char;

/// A pattern, compiled where that is possible. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    program: Program,
}

#[derive(Clone, Debug)]
enum Program {
    Compiled(Arc<Regex>),
    Unchecked { why: String },
}

/// The same text, checked or left unchecked for the same reason.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.unchecked() == other.unchecked()
    }
}

/// Why a pattern was not compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternFault {
    /// No ECMAScript engine would take it either: a fault of the contract.
    #[error("not a pattern: {why}")]
    Syntax {
        /// What is wrong.
        why: String,
    },
    /// A pattern of ECMAScript that is not checked here.
    #[error("not checked here: {why}")]
    Unsupported {
        /// What it uses.
        why: String,
    },
    /// A pattern whose program passes the bound, its own or that of all patterns of one document.
    #[error("not checked here: too large a pattern, or too many in one document")]
    TooLarge,
}

impl Pattern {
    /// Compiles a pattern, within the bound for a single one.
    ///
    /// # Errors
    ///
    /// `Syntax` is the author's mistake. `Unsupported` (look-around, back-references, inline modifiers) and `TooLarge`
    /// are our limits.
    pub fn parse(text: &str) -> Result<Self, PatternFault> {
        Self::parse_within(text, MAX_PROGRAM)
    }

    /// Compiles a pattern whose program takes at most `limit` bytes.
    pub(crate) fn parse_within(text: &str, limit: usize) -> Result<Self, PatternFault> {
        let program = shared::program(text, limit, || {
            RegexBuilder::new(&translate::translate(text)?)
                .size_limit(limit)
                .dfa_size_limit(MAX_CACHE)
                .nest_limit(MAX_NESTING)
                .build()
                .map_err(|_| PatternFault::TooLarge)
        })?;
        Ok(Self { text: text.to_owned(), program: Program::Compiled(program) })
    }

    /// A pattern that accepts everything, and says why.
    pub fn left_unchecked(text: impl Into<String>, why: impl Into<String>) -> Self {
        Self { text: text.into(), program: Program::Unchecked { why: why.into() } }
    }

    /// The pattern as the contract writes it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Why this pattern is not checked, if it is not.
    pub fn unchecked(&self) -> Option<&str> {
        match &self.program {
            Program::Compiled(_) => None,
            Program::Unchecked { why } => Some(why),
        }
    }

    /// Whether the text holds a match. An unchecked pattern holds of every text.
    pub fn matches(&self, text: &str) -> bool {
        match &self.program {
            Program::Unchecked { .. } => true,
            Program::Compiled(program) if needs_pairs(text) => {
                let units: String = text.encode_utf16().map(unit_char).collect();
                program.is_match(&units)
            }
            Program::Compiled(program) => program.is_match(text),
        }
    }
}

/// Whether a character of the text takes two UTF-16 units; those take four bytes, and the first byte tells.
fn needs_pairs(text: &str) -> bool {
    text.bytes().any(|byte| byte >= 0xF0)
}

/// Compiled size of one pattern, in bytes. `.` repeated up to 700 times fits.
pub(crate) const MAX_PROGRAM: usize = 1 << 20;
/// Cache of one running pattern, in bytes; above it the engine is slower, not wrong.
const MAX_CACHE: usize = 1 << 20;
/// Groups inside groups.
const MAX_NESTING: u32 = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).unwrap_or_else(|fault| panic!("{pattern}: {fault}")).matches(text)
    }

    /// S-031: each row is (pattern, texts that match, texts that do not), as an ECMAScript engine answers.
    #[test]
    fn s031_patterns_mean_what_ecmascript_means() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("P-\\d{3}", &["P-101", "xxP-101yy"], &["p-101", "", "P-\u{661}\u{662}\u{663}"]),
            ("^a$", &["a"], &["a\n", "\na", "ba"]),
            ("^\\w+$", &["aZ_9"], &["å", "a-b", ""]),
            ("^\\W$", &["å", "-", " "], &["a", "_"]),
            ("^\\D$", &["x", "\u{661}"], &["1"]),
            ("^\\s$", &[" ", "\u{feff}", "\u{a0}", "\u{2028}", "\u{b}"], &["\u{85}", "\u{180e}", "\u{200b}"]),
            ("^\\S$", &["\u{85}"], &["\u{feff}"]),
            ("^.$", &["a", "\u{85}"], &["\n", "\r", "\u{2028}", "\u{2029}", ""]),
            ("^[^]$", &["\n", "a"], &[""]),
            ("[]", &[], &["", "a", "[]"]),
            ("^[^a]$", &["b", "\n", "å"], &["a"]),
            ("a\\/b", &["a/b"], &["a\\/b"]),
            ("^\\cA\\cz$", &["\u{1}\u{1a}"], &["cAcz"]),
            ("^\\c$", &["\\c"], &["c"]),
            ("^\\u0041\\x42\\u00e5$", &["ABå"], &["u0041"]),
            ("^\\u12\\x4$", &["u12x4"], &["\u{12}"]),
            ("^\\u{3}$", &["uuu"], &["\u{3}"]),
            ("^\\p{L}$", &["p{L}"], &["a"]),
            ("(?<year>\\d{4})-(?:x|y)", &["2026-x"], &["26-x"]),
            ("^a{$", &["a{"], &["a"]),
            ("^a{,5}$", &["a{,5}"], &["aaa"]),
            ("^a{x}b}]$", &["a{x}b}]"], &["a"]),
            ("^a{2,}$", &["aa", "aaaa"], &["a"]),
            ("^a{2,3}?b??c*?$", &["aa", "aaab", "aaccc"], &["a"]),
            ("^[\\d\\-x]$", &["1", "-", "x"], &["\\", "y"]),
            ("^[\\d-x]$", &["1", "-", "x"], &["y", "5x"]),
            ("^[a\\]\\\\]$", &["a", "]", "\\"], &["b"]),
            ("^[[:alpha:]]$", &["[]", "a]", ":]"], &["b", "b]"]),
            ("^[a&&b]$", &["a", "&", "b"], &["a&"]),
            ("^[~~]$", &["~"], &["a"]),
            ("^[\\b]$", &["\u{8}"], &["b"]),
            ("^[\\D]$", &["a"], &["5"]),
            ("^[^\\s\\S]$", &[], &["a", " "]),
            ("\\bcat\\b", &["a cat.", "cat"], &["concat", "cats", "_cat"]),
            ("\\bå", &["xå"], &["å", " å"]),
            ("a\\Bb", &["ab"], &["a b"]),
            ("^\\B$", &[""], &["a"]),
            ("^\\0\\1\\12\\8$", &["\u{0}\u{1}\n8"], &["1"]),
            ("^\\k$", &["k"], &["\\k"]),
            ("^[\\12\\k-m]$", &["\n", "k", "l"], &["1"]),
            ("^\\-\\_\\#\\%\\,\\ \\e$", &["-_#%, e"], &[""]),
            ("a||b", &["", "zzz"], &[]),
            ("^(|a)+$", &["", "aaa"], &["b"]),
            ("(?:)", &[""], &[]),
            ("^#x y$", &["#x y"], &["xy"]),
            ("^$", &[""], &["\n"]),
            ("^.{1,255}$", &["a"], &[""]),
            ("^\\S{1,128}$", &["a"], &[" "]),
            ("^[^/]{1,500}$", &["a"], &["/"]),
            ("a.c|^b", &["abc", "b"], &["a\nc", "cb"]),
        ];
        for (pattern, yes, no) in table {
            for text in *yes {
                assert!(matches(pattern, text), "{pattern} should match {text:?}");
            }
            for text in *no {
                assert!(!matches(pattern, text), "{pattern} should not match {text:?}");
            }
        }
    }

    /// S-031: without flags a pattern sees UTF-16 units, so that an emoji is two.
    #[test]
    fn s031_patterns_match_code_units() {
        assert!(matches("^..$", "😀"));
        assert!(!matches("^.$", "😀"));
        assert!(matches("😀", "a😀b"));
        assert!(matches("^[😀]{2}$", "😀"));
        assert!(matches("^\\ud83d\\ude00$", "😀"));
        assert!(matches("^\\ud83d", "😀"));
        assert!(!matches("^\\ud83d$", "\u{F003D}"));
        assert!(matches("^😀+$", "😀"));
        assert!(!matches("^😀+$", "😀😀"), "the sign repeats the second unit alone");
        assert!(matches("^[\\ue000-\\uffff]$", "\u{FF5E}"));
        assert!(!matches("^[^\\ud800-\\udfff]*$", "a😀"));
    }

    /// S-038: what no ECMAScript engine takes is a fault of the contract.
    #[test]
    fn s038_broken_patterns_are_faults() {
        let broken = [
            "(", ")", "(?:a", "[a", "[z-a]", "[a--b]", "a**", "a*+", "a???", "*a", "+", "?", "{1}", "a{2}{3}",
            "a{3,2}", "^*", "\\b+", "a|*", "(?x)", "(?", "\\", "(?<>a)", "(?<a", "(?<1a>b)", "(?P<a>b)",
        ];
        for pattern in broken {
            let fault = Pattern::parse(pattern).err();
            assert!(matches!(fault, Some(PatternFault::Syntax { .. })), "{pattern}: {fault:?}");
        }
    }

    /// S-038: what needs backtracking, or grows too large, is left unchecked with the reason.
    #[test]
    fn s038_what_is_not_linear_is_left_unchecked() {
        let long = "a".repeat(5000);
        let deep = format!("{}a{}", "(".repeat(300), ")".repeat(300));
        let unsupported = [
            "(?=a)",
            "(?!a)b",
            "(?<=a)b",
            "(?<!a)b",
            "(a)\\1",
            "\\2(a)(b)",
            "(?<x>a)\\k<x>",
            "(?i:a)",
            "a{1000000000}",
            "(?:a{1000}){1000}",
            "a{99999999999999999999}",
            &long,
            &deep,
        ];
        for pattern in unsupported {
            let fault = Pattern::parse(pattern).err();
            assert!(
                matches!(fault, Some(PatternFault::Unsupported { .. } | PatternFault::TooLarge)),
                "{pattern}: {fault:?}"
            );
        }
        let pattern = Pattern::left_unchecked("(?=a)", "look-around");
        assert!(pattern.matches("anything"));
        assert_eq!((pattern.as_str(), pattern.unchecked()), ("(?=a)", Some("look-around")));
    }

    proptest! {
        /// S-038: no pattern panics, and one that translates is one the engine takes or finds too large.
        #[test]
        fn s038_any_text_is_a_pattern_or_a_fault(pattern in "[\\\\\\[\\](){}?*+|^$.<>=!:,&~a-c0-9-]{0,16}|\\PC{0,8}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                pattern.matches("abc 012 😀");
            }
        }

        /// S-031: text in which every character is escaped matches itself.
        #[test]
        fn s031_escaped_text_matches_itself(text in "\\PC{0,12}") {
            let units: Vec<String> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            let anchored = format!("^{}$", units.concat());
            let pattern = Pattern::parse(&anchored).unwrap();
            prop_assert!(pattern.matches(&text));
            let longer = format!("{text}x");
            prop_assert!(!pattern.matches(&longer));
        }
    }
}
