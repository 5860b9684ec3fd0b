//! Regular expressions of contracts, and texts they are to match.

use plantbridge::contract::Pattern;
use plantbridge::contract::pattern::PatternFault;

use super::pieces::{Pieces, short};
use super::{each, reason, vectors};

pub(super) fn run(data: &[u8]) {
    let mut pieces = Pieces(data);
    let pattern = pieces.text();
    let text = String::from_utf8_lossy(pieces.0);
    match Pattern::parse(&pattern) {
        Err(why) => reason(&why),
        Ok(read) => {
            assert_eq!((read.as_str(), read.unchecked()), (pattern.as_str(), None));
            let matched = read.matches(&text);
            // A group round a whole says nothing more, and what also matches nothing matches everything.
            if let Some(grouped) = within_bounds(&format!("(?:{pattern})")) {
                assert_eq!(grouped.matches(&text), matched, "{pattern:?} on {text:?}");
            }
            if let Some(always) = within_bounds(&format!("{pattern}|")) {
                assert!(always.matches(&text), "{pattern:?}| on {text:?}");
            }
        }
    }
    // A text is matched by itself, whatever it is made of.
    let literal: String = text.chars().take(64).collect();
    if let Some(itself) = within_bounds(&format!("^{}$", escaped(&literal))) {
        assert!(itself.matches(&literal), "{literal:?}");
        assert!(!itself.matches(&format!("{literal}x")), "{literal:?}");
    }
}

/// A pattern that is right; none if it is too large.
fn within_bounds(text: &str) -> Option<Pattern> {
    match Pattern::parse(text) {
        Ok(pattern) => Some(pattern),
        Err(PatternFault::TooLarge) => None,
        Err(why) => panic!("{text:?}: {why}"),
    }
}

fn escaped(text: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_punctuation() { format!("\\{letter}") } else { letter.to_string() };
    text.chars().map(letter).collect()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let validation = vectors(include_str!("../../../tests/vectors/sem-validation.json"));
    let mut patterns = each(&validation, &|part| Some(part.get("pattern")?.as_str()?.to_owned()));
    patterns.extend(
        [
            "^[a-z]{2,8}(-[0-9]+)*$",
            r"\d\D\w\W\s\S\b\B",
            r"[\x41-\u005a\cJ\0]",
            "(?<name>a|b)+?",
            r"(a)\1",
            "(?=a)b",
            "a{2,}?[^]",
            r"^\uD83C\uDF9B.$",
            "[]|[^\\]-]{,3}",
        ]
        .map(str::to_owned),
    );
    let texts = ["", "ab-1", "🎛x", "a\n\u{2028}b"];
    let seed = |(at, pattern): (usize, &String)| {
        let mut out = Vec::new();
        short(&mut out, pattern.as_bytes());
        out.extend_from_slice(texts.get(at % texts.len()).copied().unwrap_or_default().as_bytes());
        out
    };
    patterns.iter().enumerate().map(seed).collect()
}
