//! As much of MessagePack as the arguments of a call to the plant need.

use serde_json::Value;

/// The arguments of a call; what cannot be read ends them.
pub(super) fn list(payload: &[u8]) -> Vec<Value> {
    let mut rest = payload;
    let Some(first) = take::<1>(&mut rest) else { return Vec::new() };
    let [kind] = first;
    if kind & 0xF0 != 0x90 {
        return Vec::new();
    }
    (0..kind & 0x0F).map_while(|_| value(&mut rest)).collect()
}

/// One number, text, truth or map of such.
fn value(rest: &mut &[u8]) -> Option<Value> {
    let [kind] = take::<1>(rest)?;
    Some(match kind {
        0x00..=0x7F => kind.into(),
        0x80..=0x8F => {
            let entries = (0..kind & 0x0F).map(|_| Some((value(rest)?.as_str()?.to_owned(), value(rest)?)));
            Value::Object(entries.collect::<Option<_>>()?)
        }
        0xA0..=0xBF => text(rest, usize::from(kind & 0x1F))?,
        0xC0 => Value::Null,
        0xC2 | 0xC3 => (kind == 0xC3).into(),
        0xCB => f64::from_be_bytes(take(rest)?).into(),
        0xCC => u8::from_be_bytes(take(rest)?).into(),
        0xCD => u16::from_be_bytes(take(rest)?).into(),
        0xCE => u32::from_be_bytes(take(rest)?).into(),
        0xCF => u64::from_be_bytes(take(rest)?).into(),
        0xD9 => {
            let [length] = take(rest)?;
            text(rest, usize::from(length))?
        }
        _ => return None,
    })
}

fn text(rest: &mut &[u8], length: usize) -> Option<Value> {
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    std::str::from_utf8(text).ok().map(Value::from)
}

fn take<const SIZE: usize>(rest: &mut &[u8]) -> Option<[u8; SIZE]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_arguments_of_a_call_are_read() {
        let packed = b"\x95\x07\xCD\x01\x00\xA3abc\xC3\x81\xA4take\xC2";
        assert_eq!(list(packed), [json!(7), json!(256), json!("abc"), json!(true), json!({"take": false})]);
        assert_eq!(list(b"\x90"), Vec::<Value>::new());
        assert_eq!(list(b"\x92\x01"), [json!(1)], "what is cut ends them");
        assert_eq!(list(b""), Vec::<Value>::new());
    }
}
