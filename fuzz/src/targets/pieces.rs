//! Input that stands for more than one thing: pieces with their lengths before them, read in every form and written for seeds.

/// Input being read. What is not there any more is empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces<'a>(pub(super) &'a [u8]);

impl<'a> Pieces<'a> {
    /// One byte.
    pub(super) fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    /// A piece of at most 255 bytes.
    pub(super) fn short(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte());
        self.take(length)
    }

    /// A piece of at most 65 535 bytes.
    pub(super) fn long(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()) << 8 | usize::from(self.byte());
        self.take(length)
    }

    /// A short piece as text; what is no UTF-8 in it is replaced.
    pub(super) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.short()).into_owned()
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (piece, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        piece
    }
}

/// A short piece; a longer one is cut.
pub(super) fn short(into: &mut Vec<u8>, piece: &[u8]) {
    let length = u8::try_from(piece.len()).unwrap_or(u8::MAX);
    into.push(length);
    into.extend(piece.iter().take(length.into()));
}

/// A long piece; a longer one is cut.
pub(super) fn long(into: &mut Vec<u8>, piece: &[u8]) {
    let length = u16::try_from(piece.len()).unwrap_or(u16::MAX);
    into.extend(length.to_be_bytes());
    into.extend(piece.iter().take(length.into()));
}
