//! As much of MessagePack as a flat frame needs.

/// A text.
pub(super) fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
    let head = if length < 32 { vec![0xa0 | length] } else { vec![0xd9, length] };
    [head, text.as_bytes().to_vec()].concat()
}

/// A list of up to 15 items.
pub(super) fn list(items: &[Vec<u8>]) -> Vec<u8> {
    let head = vec![0x90 | u8::try_from(items.len()).unwrap_or(15)];
    [head, items.concat()].concat()
}

/// A map of up to 15 entries.
pub(super) fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![0x80 | u8::try_from(entries.len()).unwrap_or(15)];
    for (key, value) in entries {
        out.extend(text(key));
        out.extend_from_slice(value);
    }
    out
}

/// The entries of a map, each value as its bytes; empty if these bytes are none.
pub(super) fn entries(bytes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut at = 0;
    let count = match bytes.first() {
        Some(head @ 0x80..=0x8f) => usize::from(head & 0x0f),
        _ => return Vec::new(),
    };
    at += 1;
    let mut found = Vec::with_capacity(count);
    for _ in 0..count {
        let Some(key_end) = end(bytes, at) else { break };
        let Some(value_end) = end(bytes, key_end) else { break };
        let key = bytes.get(at..key_end).unwrap_or_default();
        found.push((key.get(1..).unwrap_or_default(), bytes.get(key_end..value_end).unwrap_or_default()));
        at = value_end;
    }
    found
}

/// The bytes of a field; empty if it is not there.
pub(super) fn field<'a>(entries: &[(&'a [u8], &'a [u8])], name: &str) -> &'a [u8] {
    entries.iter().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| *value).unwrap_or_default()
}

/// The text that these bytes stand for; empty if they are none.
pub(super) fn plain(packed: &[u8]) -> String {
    let text = match packed {
        [0xa0..=0xbf, text @ ..] | [0xd9, _, text @ ..] => text,
        _ => &[],
    };
    String::from_utf8_lossy(text).into_owned()
}

/// Where the value at `at` ends.
fn end(bytes: &[u8], at: usize) -> Option<usize> {
    let head = *bytes.get(at)?;
    let size = |width: usize| {
        let digits = bytes.get(at + 1..at + 1 + width)?;
        Some(digits.iter().fold(0_usize, |all, byte| all << 8 | usize::from(*byte)))
    };
    let items = |count: usize, from: usize| (0..count).try_fold(from, |at, _| end(bytes, at));
    match head {
        0x80..=0x8f => items(2 * usize::from(head & 0x0f), at + 1),
        0x90..=0x9f => items(usize::from(head & 0x0f), at + 1),
        0xa0..=0xbf => Some(at + 1 + usize::from(head & 0x1f)),
        0xc4 | 0xd9 => Some(at + 2 + size(1)?),
        0xc5 | 0xda => Some(at + 3 + size(2)?),
        0xcc | 0xd0 => Some(at + 2),
        0xcd | 0xd1 => Some(at + 3),
        0xca | 0xce | 0xd2 => Some(at + 5),
        0xcb | 0xcf | 0xd3 => Some(at + 9),
        0xdc => items(size(2)?, at + 3),
        0xde => items(2 * size(2)?, at + 3),
        _ => Some(at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found_again() {
        let inner = list(&[text("a"), map(&[("x", vec![0xc0])])]);
        let long = "x".repeat(40);
        let bytes = map(&[("corr", text(&long)), ("n", vec![0xcd, 1, 2]), ("body", inner.clone())]);
        let found = entries(&bytes);
        assert_eq!(field(&found, "corr"), text(&long));
        assert_eq!(field(&found, "body"), inner);
        assert_eq!(field(&found, "none"), b"");
        assert!(entries(b"\x90").is_empty());
        assert_eq!((plain(&text("a")), plain(&text(&long)), plain(&inner)), ("a".into(), long, String::new()));
    }
}
