//! MessagePack (wire.md 3.1): written byte for byte as the network writes it, read in every valid form.
//!
//! Reading is bounded: nesting by [`MAX_DEPTH`], items by [`MAX_ITEMS`], and nothing is reserved for a list or map whose
//! header claims more than the rest of the payload can hold.

use std::convert::Infallible;

use bytes::Bytes;
use rmp::Marker;
use rmp::encode::{ByteBuf, ValueWriteError};

use super::json::ecma_number;
use super::value::{MAX_DEPTH, MAX_ITEMS, MAX_SAFE_INTEGER, Part};
use super::{DecodeError, EncodeError, Map, Value};

/// Encodes one value, every part in its shortest form (W-023).
///
/// # Errors
/// An integer beyond ±(2^53−1) (W-020), nesting beyond [`MAX_DEPTH`], the map key `__proto__`, or a part of 4 GiB.
pub fn encode(value: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut out = ByteBuf::with_capacity(ROOM);
    write(&mut out, value, 1)?;
    Ok(out.into_vec())
}

/// Encodes arguments as one list (W-012), without building it as a value first. Errors as for [`encode`].
pub fn encode_args(args: &[Value]) -> Result<Vec<u8>, EncodeError> {
    let mut out = ByteBuf::with_capacity(ROOM);
    write_array(&mut out, args, 1)?;
    Ok(out.into_vec())
}

/// Encodes a map whose parts are borrowed, in the order given. Errors as for [`encode`].
pub(super) fn encode_parts(parts: &[(&'static str, Part<'_>)]) -> Result<Vec<u8>, EncodeError> {
    let mut out = ByteBuf::with_capacity(ROOM * 2);
    sure(&rmp::encode::write_map_len(&mut out, length(parts.len(), "map")?));
    for (key, part) in parts {
        write_text(&mut out, key)?;
        match part {
            Part::Text(text) => write_text(&mut out, text)?,
            Part::List(items) => write_array(&mut out, items, 2)?,
            Part::Value(value) => write(&mut out, value, 2)?,
        }
    }
    Ok(out.into_vec())
}

/// Decodes exactly one value. Byte strings and extensions share the memory of `payload`.
///
/// # Errors
/// Bytes that are no value, or more than one (W-024); a text that is not UTF-8; a map key that is neither text nor a
/// number, or is `__proto__`; a malformed timestamp; more nesting or items than [`MAX_DEPTH`] and [`MAX_ITEMS`] (W-021).
pub fn decode(payload: &Bytes) -> Result<Value, DecodeError> {
    let mut reader = Reader { payload, at: 0, items: MAX_ITEMS };
    let value = reader.value(1)?;
    match reader.left() {
        0 => Ok(value),
        left => Err(DecodeError::Trailing(left)),
    }
}

/// What a small message needs, so that it is written into one allocation.
const ROOM: usize = 128;

fn write(out: &mut ByteBuf, value: &Value, depth: usize) -> Result<(), EncodeError> {
    if depth > MAX_DEPTH {
        return Err(EncodeError::TooDeep);
    }
    match value {
        Value::Null => out.as_mut_vec().push(Marker::Null.to_u8()),
        Value::Bool(bit) => out.as_mut_vec().push(if *bit { Marker::True } else { Marker::False }.to_u8()),
        Value::Int(number) => write_integer(out, *number)?,
        Value::Float(number) => write_number(out, *number),
        Value::Text(text) => write_text(out, text)?,
        Value::Bytes(bytes) => {
            sure(&rmp::encode::write_bin_len(out, length(bytes.len(), "byte string")?));
            out.as_mut_vec().extend_from_slice(bytes);
        }
        Value::Date(at) => write_date(out, *at),
        Value::Ext(kind, bytes) => write_extension(out, *kind, bytes)?,
        Value::Array(items) => write_array(out, items, depth)?,
        Value::Map(map) => write_map(out, map, depth)?,
    }
    Ok(())
}

fn write_array(out: &mut ByteBuf, items: &[Value], depth: usize) -> Result<(), EncodeError> {
    sure(&rmp::encode::write_array_len(out, length(items.len(), "list")?));
    items.iter().try_for_each(|item| write(out, item, depth + 1))
}

fn write_map(out: &mut ByteBuf, map: &Map, depth: usize) -> Result<(), EncodeError> {
    sure(&rmp::encode::write_map_len(out, length(map.len(), "map")?));
    map.iter().try_for_each(|(key, value)| {
        if key == PROTO {
            return Err(EncodeError::Key);
        }
        write_text(out, key)?;
        write(out, value, depth + 1)
    })
}

fn write_text(out: &mut ByteBuf, text: &str) -> Result<(), EncodeError> {
    sure(&rmp::encode::write_str_len(out, length(text.len(), "text")?));
    out.as_mut_vec().extend_from_slice(text.as_bytes());
    Ok(())
}

fn write_integer(out: &mut ByteBuf, number: i64) -> Result<(), EncodeError> {
    if number.unsigned_abs() > MAX_SAFE_INTEGER.unsigned_abs() {
        return Err(EncodeError::Integer(number));
    }
    sure(&rmp::encode::write_sint(out, number));
    Ok(())
}

/// An integral double is an integer to its readers and is written as one; beyond ±(2^53−1) it stays a double.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "exact within ±(2^53−1)")]
fn write_number(out: &mut ByteBuf, number: f64) {
    if number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER as f64 {
        sure(&rmp::encode::write_sint(out, number as i64));
    } else {
        sure(&rmp::encode::write_f64(out, number));
    }
}

fn write_date(out: &mut ByteBuf, at: i64) {
    let seconds = at.div_euclid(1000);
    let nanos = at.rem_euclid(1000).unsigned_abs() * NANOS_PER_MILLI;
    if let (Ok(seconds), 0) = (u32::try_from(seconds), nanos) {
        sure(&rmp::encode::write_ext_meta(out, 4, TIMESTAMP));
        out.as_mut_vec().extend_from_slice(&seconds.to_be_bytes());
    } else if let Some(seconds) = u64::try_from(seconds).ok().filter(|&seconds| seconds < SECONDS_64) {
        sure(&rmp::encode::write_ext_meta(out, 8, TIMESTAMP));
        out.as_mut_vec().extend_from_slice(&(nanos << 34 | seconds).to_be_bytes());
    } else {
        sure(&rmp::encode::write_ext_meta(out, 12, TIMESTAMP));
        // Below 10^9, so the upper half is zero.
        out.as_mut_vec().extend_from_slice(&nanos.to_be_bytes()[4..]);
        out.as_mut_vec().extend_from_slice(&seconds.to_be_bytes());
    }
}

fn write_extension(out: &mut ByteBuf, kind: i8, bytes: &[u8]) -> Result<(), EncodeError> {
    sure(&rmp::encode::write_ext_meta(out, length(bytes.len(), "extension")?, kind));
    out.as_mut_vec().extend_from_slice(bytes);
    Ok(())
}

fn length(len: usize, what: &'static str) -> Result<u32, EncodeError> {
    u32::try_from(len).map_err(|_| EncodeError::TooLarge(what))
}

/// Writing into memory cannot fail; the types say so, and this says it to the compiler.
fn sure<T>(written: &Result<T, ValueWriteError<Infallible>>) {
    match written {
        Ok(_) => {}
        Err(ValueWriteError::InvalidMarkerWrite(never) | ValueWriteError::InvalidDataWrite(never)) => match *never {},
    }
}

/// The extension type of a timestamp.
const TIMESTAMP: i8 = -1;
/// From this second on the 64-bit form has no room.
const SECONDS_64: u64 = 1 << 34;
const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// The key that makes a payload undecodable for the peers of this network.
const PROTO: &str = "__proto__";

struct Reader<'a> {
    payload: &'a Bytes,
    at: usize,
    /// How many more items may be claimed.
    items: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, DecodeError> {
        if depth > MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        Ok(match self.marker()? {
            Marker::Null => Value::Null,
            Marker::Reserved => return Err(DecodeError::Reserved),
            Marker::False => Value::Bool(false),
            Marker::True => Value::Bool(true),
            Marker::F32 => Value::Float(f64::from(f32::from_be_bytes(self.fixed()?))),
            Marker::F64 => Value::Float(f64::from_be_bytes(self.fixed()?)),
            Marker::FixArray(len) => self.array(len.into(), depth)?,
            Marker::Array16 => {
                let len = self.u16()?;
                self.array(len, depth)?
            }
            Marker::Array32 => {
                let len = self.u32()?;
                self.array(len, depth)?
            }
            Marker::FixMap(len) => self.map(len.into(), depth)?,
            Marker::Map16 => {
                let len = self.u16()?;
                self.map(len, depth)?
            }
            Marker::Map32 => {
                let len = self.u32()?;
                self.map(len, depth)?
            }
            scalar => self.scalar(scalar)?,
        })
    }

    /// Everything with a length but without parts.
    fn scalar(&mut self, marker: Marker) -> Result<Value, DecodeError> {
        if let Some(number) = self.integer(marker)? {
            return Ok(number);
        }
        if let Some(text) = self.text(marker)? {
            return Ok(Value::Text(text.to_owned()));
        }
        let (binary, len) = match marker {
            Marker::Bin8 => (true, self.u8()?),
            Marker::Bin16 => (true, self.u16()?),
            Marker::Bin32 => (true, self.u32()?),
            Marker::FixExt1 => (false, 1),
            Marker::FixExt2 => (false, 2),
            Marker::FixExt4 => (false, 4),
            Marker::FixExt8 => (false, 8),
            Marker::FixExt16 => (false, 16),
            Marker::Ext8 => (false, self.u8()?),
            Marker::Ext16 => (false, self.u16()?),
            Marker::Ext32 => (false, self.u32()?),
            _ => return Err(DecodeError::Reserved),
        };
        if binary {
            return Ok(Value::Bytes(self.bytes(len)?));
        }
        match i8::from_be_bytes(self.fixed()?) {
            TIMESTAMP => self.date(len),
            kind => Ok(Value::Ext(kind, self.bytes(len)?)),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "beyond i64 peers read the nearest double, and so do we")]
    fn integer(&mut self, marker: Marker) -> Result<Option<Value>, DecodeError> {
        Ok(Some(Value::Int(match marker {
            Marker::FixPos(number) => number.into(),
            Marker::FixNeg(number) => number.into(),
            Marker::U8 => u8::from_be_bytes(self.fixed()?).into(),
            Marker::U16 => u16::from_be_bytes(self.fixed()?).into(),
            Marker::U32 => u32::from_be_bytes(self.fixed()?).into(),
            Marker::U64 => {
                let number = u64::from_be_bytes(self.fixed()?);
                match i64::try_from(number) {
                    Ok(number) => number,
                    Err(_) => return Ok(Some(Value::Float(number as f64))),
                }
            }
            Marker::I8 => i8::from_be_bytes(self.fixed()?).into(),
            Marker::I16 => i16::from_be_bytes(self.fixed()?).into(),
            Marker::I32 => i32::from_be_bytes(self.fixed()?).into(),
            Marker::I64 => i64::from_be_bytes(self.fixed()?),
            _ => return Ok(None),
        })))
    }

    fn text(&mut self, marker: Marker) -> Result<Option<&'a str>, DecodeError> {
        let len = match marker {
            Marker::FixStr(len) => len.into(),
            Marker::Str8 => self.u8()?,
            Marker::Str16 => self.u16()?,
            Marker::Str32 => self.u32()?,
            _ => return Ok(None),
        };
        std::str::from_utf8(self.take(len)?).map(Some).map_err(|_| DecodeError::Text)
    }

    fn array(&mut self, len: usize, depth: usize) -> Result<Value, DecodeError> {
        self.claim(len)?;
        let mut items = Vec::with_capacity(len);
        for _ in 0..len {
            items.push(self.value(depth + 1)?);
        }
        Ok(Value::Array(items))
    }

    fn map(&mut self, len: usize, depth: usize) -> Result<Value, DecodeError> {
        self.claim(len.saturating_mul(2))?;
        let entry = |_| Ok((self.key()?, self.value(depth + 1)?));
        Ok(Value::Map((0..len).map(entry).collect::<Result<_, _>>()?))
    }

    fn key(&mut self) -> Result<String, DecodeError> {
        let marker = self.marker()?;
        let number = match marker {
            Marker::F32 => Some(Value::Float(f64::from(f32::from_be_bytes(self.fixed()?)))),
            Marker::F64 => Some(Value::Float(f64::from_be_bytes(self.fixed()?))),
            other => self.integer(other)?,
        };
        match number {
            Some(Value::Int(number)) => return Ok(number.to_string()),
            Some(Value::Float(number)) => return Ok(ecma_number(number)),
            _ => {}
        }
        match self.text(marker)?.ok_or(DecodeError::KeyKind)? {
            PROTO => Err(DecodeError::KeyProto),
            key => Ok(key.to_owned()),
        }
    }

    fn date(&mut self, len: usize) -> Result<Value, DecodeError> {
        let (seconds, nanos) = match len {
            4 => (u32::from_be_bytes(self.fixed()?).into(), 0),
            8 => {
                let both = u64::from_be_bytes(self.fixed()?);
                ((both & (SECONDS_64 - 1)).cast_signed(), both >> 34)
            }
            12 => {
                let nanos = u32::from_be_bytes(self.fixed()?);
                (i64::from_be_bytes(self.fixed()?), nanos.into())
            }
            _ => return Err(DecodeError::Timestamp),
        };
        let at = seconds.checked_mul(1000).and_then(|at| at.checked_add_unsigned(nanos / NANOS_PER_MILLI));
        at.filter(|_| nanos < NANOS_PER_SECOND).map(Value::Date).ok_or(DecodeError::Timestamp)
    }

    /// Counts items before they are read. Each takes a byte at least, so a header that claims more than there is lies.
    fn claim(&mut self, items: usize) -> Result<(), DecodeError> {
        if items > self.left() {
            return Err(DecodeError::Truncated);
        }
        self.items = self.items.checked_sub(items).ok_or(DecodeError::TooMany)?;
        Ok(())
    }

    fn left(&self) -> usize {
        self.payload.len() - self.at
    }

    fn bytes(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        self.take(len).map(|taken| self.payload.slice_ref(taken))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(len).ok_or(DecodeError::Truncated)?;
        let taken = self.payload.get(self.at..end).ok_or(DecodeError::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.take(N)?.try_into().map_err(|_| DecodeError::Truncated)
    }

    fn marker(&mut self) -> Result<Marker, DecodeError> {
        Ok(Marker::from_u8(u8::from_be_bytes(self.fixed()?)))
    }

    fn u8(&mut self) -> Result<usize, DecodeError> {
        Ok(u8::from_be_bytes(self.fixed()?).into())
    }

    fn u16(&mut self) -> Result<usize, DecodeError> {
        Ok(u16::from_be_bytes(self.fixed()?).into())
    }

    fn u32(&mut self) -> Result<usize, DecodeError> {
        usize::try_from(u32::from_be_bytes(self.fixed()?)).map_err(|_| DecodeError::Truncated)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::vectors::{self, hex};

    fn read(text: &str) -> Result<Value, DecodeError> {
        decode(&hex(text))
    }

    /// W-023: every recorded value, byte for byte, and back.
    #[test]
    fn values_are_written_as_recorded() {
        for vectors::Coded { name, value, vector } in vectors::coded() {
            let written = encode(&value).unwrap();
            match vector["msgpackHex"].as_str() {
                Some(recorded) => assert_eq!(Bytes::from(written.clone()), hex(recorded), "{name}"),
                None => {
                    assert!(written.starts_with(&hex(vector["msgpackHexPrefix"].as_str().unwrap())), "{name}");
                    assert_eq!(Some(written.len() as u64), vector["msgpackByteLength"].as_u64(), "{name}");
                }
            }
            let canonical = vectors::through_msgpack(value);
            match decode(&written.into()) {
                Ok(Value::Float(read)) if read.is_nan() => assert_eq!(name, "float-NaN"),
                back => assert_eq!(back, Ok(canonical), "{name}"),
            }
        }
    }

    /// What the reference decoder accepts and a bounded, strict one refuses (wire.md 3.1).
    const DEVIATIONS: [(&str, DecodeError); 2] =
        [("invalid-utf8-str", DecodeError::Text), ("nested-array-120", DecodeError::TooDeep)];

    /// W-022, W-024: every recorded decoding.
    #[test]
    fn bytes_are_read_as_recorded() {
        for vector in vectors::list("codec.json", "decode") {
            let name = vector["name"].as_str().unwrap();
            let Some(bytes) = vector["hex"].as_str() else {
                assert!(["re-encode-depth-120", "encode-depth-limit"].contains(&name), "{name}");
                continue;
            };
            let got = read(bytes);
            if let Some((_, error)) = DEVIATIONS.iter().find(|(deviating, _)| *deviating == name) {
                assert!(vector["error"].is_null(), "{name} deviates no longer");
                assert_eq!(got.as_ref(), Err(error), "{name}");
                continue;
            }
            match vector["result"].as_str() {
                Some(recorded) => assert_eq!(show(&got.unwrap()), recorded, "{name}"),
                None => assert_eq!(got.unwrap_err(), refusal(name), "{name}"),
            }
        }
    }

    fn refusal(name: &str) -> DecodeError {
        match name {
            "nil-map-key" | "bool-map-key" => DecodeError::KeyKind,
            "proto-key" => DecodeError::KeyProto,
            "trailing-bytes" => DecodeError::Trailing(1),
            "empty" | "truncated-array" => DecodeError::Truncated,
            "never-used-byte" => DecodeError::Reserved,
            other => panic!("{other} is new"),
        }
    }

    /// A value in the notation of the vectors.
    fn show(value: &Value) -> String {
        match value {
            Value::Null => "null".to_owned(),
            Value::Int(_) | Value::Float(_) => format!("number {}", ecma_number(value.as_f64().unwrap())),
            Value::Text(text) => format!("{text:?}"),
            Value::Date(at) => format!("Date({at})"),
            Value::Ext(kind, bytes) => format!("ExtData(type={kind},{bytes:x})"),
            Value::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
            Value::Map(map) => {
                let entries: Vec<_> = map.iter().map(|(key, value)| format!("{key:?}: {}", show(value))).collect();
                format!("{{{}}}", entries.join(", "))
            }
            Value::Bool(_) | Value::Bytes(_) => panic!("no vector shows {value:?}"),
        }
    }

    /// W-020: an integer that peers would round is refused, one they hold is not; a double is the sender's choice.
    #[test]
    fn integers_beyond_53_bits_are_refused() {
        for number in [MAX_SAFE_INTEGER, -MAX_SAFE_INTEGER] {
            assert_eq!(decode(&encode(&Value::Int(number)).unwrap().into()), Ok(Value::Int(number)));
        }
        for number in [MAX_SAFE_INTEGER + 1, -MAX_SAFE_INTEGER - 1, i64::MAX, i64::MIN] {
            assert_eq!(encode(&Value::Int(number)), Err(EncodeError::Integer(number)));
            assert_eq!(encode_args(&[Value::Int(number)]), Err(EncodeError::Integer(number)));
        }
        assert_eq!(read("cf0020000000000001"), Ok(Value::Int(9_007_199_254_740_993)), "read exactly all the same");
        assert_eq!(read("cf7fffffffffffffff"), Ok(Value::Int(i64::MAX)));
        assert_eq!(read("d38000000000000000"), Ok(Value::Int(i64::MIN)));
    }

    /// W-022: every width of integer, both widths of float, the three sizes of timestamp.
    #[test]
    fn every_width_is_read() {
        for one in ["01", "cc01", "cd0001", "ce00000001", "cf0000000000000001", "d001", "d10001", "d200000001"] {
            assert_eq!(read(one), Ok(Value::Int(1)), "{one}");
        }
        for minus_one in ["ff", "d0ff", "d1ffff", "d2ffffffff", "d3ffffffffffffffff"] {
            assert_eq!(read(minus_one), Ok(Value::Int(-1)), "{minus_one}");
        }
        assert_eq!(read("ca3fc00000"), read("cb3ff8000000000000"));
        for second in ["d6ff00000001", "d7ff0000000000000001", "c70cff000000000000000000000001", "c704ff00000001"] {
            assert_eq!(read(second), Ok(Value::Date(1000)), "{second}");
        }
        for text in ["a161", "d90161", "da000161", "db0000000161"] {
            assert_eq!(read(text), Ok("a".into()), "{text}");
        }
        for bytes in ["c40161", "c5000161", "c60000000161"] {
            assert_eq!(read(bytes), Ok(Value::Bytes(hex("61"))), "{bytes}");
        }
        for list in ["9101", "dc000101", "dd0000000101"] {
            assert_eq!(read(list), Ok(Value::Array(vec![Value::Int(1)])), "{list}");
        }
        let map: Map = [("a".to_owned(), Value::Int(1))].into_iter().collect();
        for text in ["81a16101", "de0001a16101", "df00000001a16101"] {
            assert_eq!(read(text), Ok(Value::Map(map.clone())), "{text}");
        }
        for extension in ["d40561", "c7010561", "c800010561", "c9000000010561"] {
            assert_eq!(read(extension), Ok(Value::Ext(5, hex("61"))), "{extension}");
        }
    }

    /// A timestamp that no clock shows is refused: a wrong size, a second of more than a second, beyond 64 bits.
    #[test]
    fn odd_timestamps_are_refused() {
        for odd in [
            "d5ff0000",
            "c700ff",
            "d7ffee6b280000000000",
            "c70cff3b9aca000000000000000000",
            "c70cff000000007fffffffffffffff",
        ] {
            assert_eq!(read(odd), Err(DecodeError::Timestamp), "{odd}");
        }
    }

    /// Keys: numbers are read as the text peers print for them; nothing else but text is one.
    #[test]
    fn keys_are_text_or_numbers() {
        let key = |bytes: &str| {
            read(&format!("81{bytes}01")).map(|map| map.as_map().unwrap().iter().next().unwrap().0.to_owned())
        };
        assert_eq!(key("ff").as_deref(), Ok("-1"));
        assert_eq!(key("cb3ff8000000000000").as_deref(), Ok("1.5"));
        assert_eq!(key("cfffffffffffffffff").as_deref(), Ok("18446744073709552000"));
        for bad in ["c0", "c2", "c40161", "90", "80", "d40561"] {
            assert_eq!(key(bad), Err(DecodeError::KeyKind), "{bad}");
        }
        let mut map = Map::new();
        map.insert("__proto__", 1);
        assert_eq!(encode(&Value::Map(map)), Err(EncodeError::Key));
    }

    /// Of equal keys the later wins at the place of the first, in maps small and large.
    #[test]
    fn repeated_keys_keep_the_later_value() {
        for count in [2_u32, 15, 16, 17, 18, 100] {
            let mut bytes = vec![0xdf];
            bytes.extend((2 * count).to_be_bytes());
            for round in 0..2_u8 {
                for key in 0..count {
                    bytes.push(0xce);
                    bytes.extend(key.to_be_bytes());
                    bytes.push(round);
                }
            }
            let read = decode(&bytes.into()).unwrap();
            let map = read.as_map().unwrap();
            let expected: Vec<_> = (0..count).map(|key| (key.to_string(), Value::Int(1))).collect();
            assert_eq!(map.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect::<Vec<_>>(), expected);
        }
    }

    /// W-021: nesting is bounded both ways at 100 levels, the scalar counted, however much of it there is.
    #[test]
    fn depth_is_bounded() {
        assert!(encode(&vectors::nested(99)).is_ok());
        assert_eq!(encode(&vectors::nested(100)), Err(EncodeError::TooDeep));
        let Value::Array(args) = vectors::nested(100) else { panic!() };
        assert_eq!(encode_args(&args), Err(EncodeError::TooDeep), "the list of arguments is a level");
        let nested = |depth: usize| [vec![0x91; depth], vec![0xc0]].concat().into();
        assert!(decode(&nested(99)).is_ok());
        assert_eq!(decode(&nested(100)), Err(DecodeError::TooDeep));
        assert_eq!(decode(&nested(100_000)), Err(DecodeError::TooDeep));
        assert_eq!(decode(&hex(&"81a161".repeat(100_000))), Err(DecodeError::TooDeep));
    }

    /// W-021: a header that claims more than there is reserves nothing, and items are counted before they are read.
    #[test]
    fn lying_headers_claim_no_memory() {
        for lie in ["ddffffffff", "dfffffffff", "dbffffffff", "c6ffffffff", "c9ffffffff05", "dcffff01", "deffffa16101"]
        {
            assert_eq!(read(lie), Err(DecodeError::Truncated), "{lie}");
        }
        // Lists within lists that each claim nearly all the bytes there are: refused by their sum.
        let claim = 200_000_u32;
        let mut bytes: Vec<u8> = (0..50).flat_map(|_| [&[0xdd][..], &claim.to_be_bytes()].concat()).collect();
        bytes.resize(bytes.len() + 300_000, 0xc0);
        assert_eq!(decode(&bytes.into()), Err(DecodeError::TooMany));
        let count = u32::try_from(MAX_ITEMS).unwrap();
        let flat = |count: u32| {
            let mut bytes = [&[0xdd][..], &count.to_be_bytes()].concat();
            bytes.resize(5 + count as usize, 0xc0);
            decode(&bytes.into())
        };
        assert!(flat(count).is_ok());
        assert_eq!(flat(count + 1), Err(DecodeError::TooMany));
    }

    /// Byte strings are slices of the payload, not copies.
    #[test]
    fn byte_strings_share_the_payload() {
        let payload = hex("92c4030102ffd60501020304");
        let Value::Array(items) = decode(&payload).unwrap() else { panic!() };
        let [Value::Bytes(bytes), Value::Ext(5, extension)] = &items[..] else { panic!("{items:?}") };
        assert_eq!(bytes.as_ptr(), payload[3..].as_ptr());
        assert_eq!(extension.as_ptr(), payload[8..].as_ptr());
    }

    proptest! {
        /// Whatever MessagePack can carry comes back.
        #[test]
        fn values_survive(value in vectors::any_value(vectors::Carrier::MessagePack)) {
            let bytes = Bytes::from(encode(&value).unwrap());
            prop_assert_eq!(decode(&bytes).unwrap(), vectors::through_msgpack(value.clone()));
            if let Value::Array(args) = &value {
                prop_assert_eq!(Bytes::from(encode_args(args).unwrap()), bytes.clone());
            }
            // W-024: neither a byte less nor a byte more is the same value.
            prop_assert!(decode(&bytes.slice(..bytes.len() - 1)).is_err());
            prop_assert!(decode(&[&bytes[..], &[0xc0]].concat().into()).is_err());
        }

        /// W-021: no bytes make the reader panic, and what it accepts it can write again.
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            if let Ok(value) = decode(&bytes.into()) {
                let _ = encode(&value);
            }
        }
    }
}
