//! The older layout: a header in JSON, a dollar sign, an envelope. Enough to recognise it (wire.md 12, W-130).

use crate::wire::{PeerName, Value, json};

/// What the header of an older frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyHeader {
    /// Who sent it.
    pub source: PeerName,
    /// Whom it is addressed to.
    pub target: PeerName,
}

/// The header, if these bytes are a frame of the older layout.
pub fn legacy(bytes: &[u8]) -> Option<LegacyHeader> {
    let header = bytes.get(..header_length(bytes)?)?;
    let Ok(Value::Map(map)) = json::decode(header) else { return None };
    let name = |field| map.get(field).and_then(Value::as_str).and_then(|name| PeerName::hub(name).ok());
    Some(LegacyHeader { source: name("source")?, target: name("target")? })
}

/// Where the brace that opens the header is closed, if the dollar sign follows it. A name may hold either character.
fn header_length(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_u32, false, false);
    for (at, &byte) in bytes.iter().take(MAX_HEADER).enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return (at + 1 < MAX_HEADER && bytes.get(at + 1) == Some(&b'$')).then_some(at + 1);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// How many bytes a header may have, the dollar sign included.
const MAX_HEADER: usize = 1024;
