//! Bytes on their way out: many small pieces in one buffer, and large bodies left where they lie.

use bytes::Bytes;

/// Bodies of at least this size are not copied into the buffer but written from where they lie.
pub const SPLICE_BYTES: usize = 64 * 1024;

/// A sequence of bytes built by appending.
#[derive(Debug, Default, Clone)]
pub struct Rope {
    text: Vec<u8>,
    /// Large bodies and the offset in `text` before which each belongs, in ascending order.
    splices: Vec<(usize, Bytes)>,
    spliced_bytes: usize,
}

/// A place in a rope to cut it back to.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    text: usize,
    splices: usize,
}

impl Rope {
    /// An empty rope.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            text: Vec::new(),
            splices: Vec::new(),
            spliced_bytes: 0,
        }
    }

    /// Appends a copy of `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    /// Appends one byte.
    pub fn push_byte(&mut self, byte: u8) {
        self.text.push(byte);
    }

    /// Appends `body`, without a copy when it is large.
    pub fn push_body(&mut self, body: Bytes) {
        if body.len() < SPLICE_BYTES {
            self.text.extend_from_slice(&body);
        } else {
            self.spliced_bytes += body.len();
            self.splices.push((self.text.len(), body));
        }
    }

    /// Appends another rope.
    pub fn append(&mut self, other: Self) {
        if self.is_empty() && self.text.capacity() < other.text.capacity() {
            *self = other;
            return;
        }
        let start = self.text.len();
        self.text.extend_from_slice(&other.text);
        self.splices.extend(
            other
                .splices
                .into_iter()
                .map(|(at, body)| (start + at, body)),
        );
        self.spliced_bytes += other.spliced_bytes;
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.text.len() + self.spliced_bytes
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.splices.is_empty()
    }

    /// Makes it empty and keeps its buffer, unless that has grown large.
    pub fn clear(&mut self) {
        if self.text.capacity() > 4 * SPLICE_BYTES {
            self.text = Vec::new();
        }
        self.text.clear();
        self.splices.clear();
        self.spliced_bytes = 0;
    }

    /// The present end, to come back to.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            text: self.text.len(),
            splices: self.splices.len(),
        }
    }

    /// Drops everything appended since `mark` was taken.
    pub fn cut_back(&mut self, mark: Mark) {
        self.text.truncate(mark.text);
        for (_, body) in self.splices.drain(mark.splices..) {
            self.spliced_bytes -= body.len();
        }
    }

    /// Takes off everything appended since `mark` was taken.
    #[must_use]
    pub fn split_off(&mut self, mark: Mark) -> Self {
        let splices = self.splices.drain(mark.splices..);
        let splices: Vec<_> = splices.map(|(at, body)| (at - mark.text, body)).collect();
        let spliced_bytes = splices.iter().map(|(_, body)| body.len()).sum();
        self.spliced_bytes -= spliced_bytes;
        Self {
            text: self.text.split_off(mark.text),
            splices,
            spliced_bytes,
        }
    }

    /// How many bytes were appended since `mark` was taken.
    #[must_use]
    pub fn len_since(&self, mark: Mark) -> usize {
        let bodies: usize = self.splices[mark.splices..]
            .iter()
            .map(|(_, body)| body.len())
            .sum();
        self.text.len() - mark.text + bodies
    }

    /// Its bytes, in order, piece by piece; no piece is empty.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self
            .splices
            .iter()
            .map(|(at, _)| *at)
            .chain([self.text.len()]);
        let starts = [0]
            .into_iter()
            .chain(self.splices.iter().map(|(at, _)| *at));
        let bodies = self
            .splices
            .iter()
            .map(|(_, body)| &body[..])
            .chain([&[][..]]);
        let texts = starts.zip(ends).map(|(start, end)| &self.text[start..end]);
        texts
            .zip(bodies)
            .flat_map(|(text, body)| [text, body])
            .filter(|piece| !piece.is_empty())
    }

    /// Its bytes in one piece.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        if self.splices.is_empty() {
            return self.text;
        }
        let mut all = Vec::with_capacity(self.len());
        self.pieces().for_each(|piece| all.extend_from_slice(piece));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_are_not_copied_and_keep_their_place() {
        let body = Bytes::from(vec![b'x'; SPLICE_BYTES]);
        let mut rope = Rope::new();
        rope.push(b"a");
        let mark = rope.mark();
        rope.push_body(body.clone());
        rope.push(b"b");
        let mut other = Rope::new();
        other.push_body(body.clone());
        other.push(b"c");
        rope.append(other);
        let pieces: Vec<&[u8]> = rope.pieces().collect();
        assert_eq!(pieces, [b"a", &body[..], b"b", &body[..], b"c"]);
        assert_eq!(pieces[1].as_ptr(), body.as_ptr());
        assert_eq!(rope.len(), 2 * SPLICE_BYTES + 3);
        assert_eq!(rope.len_since(mark), rope.len() - 1);
        assert_eq!(rope.clone().into_vec().len(), rope.len());
        rope.cut_back(mark);
        assert_eq!(rope.len(), 1);
        assert_eq!(rope.into_vec(), b"a");
    }
}
