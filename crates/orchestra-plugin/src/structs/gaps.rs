//! A buffer for messages in messages whose lengths are known only at their ends.
//!
//! One byte is left for each length. A length that needs more is put in at the end, for all of
//! them together, so that nothing is moved twice, however deep it lies.

use crate::field::{put_varint, varint_len};

/// Lengths below this have one byte.
const SHORT: usize = 0x80;

/// The buffer.
#[derive(Debug)]
pub(super) struct Gaps {
    bytes: Vec<u8>,
    /// The lengths that are open, or need more than one byte, in the order of their places.
    gaps: Vec<Gap>,
    /// How many bytes the lengths that have ended need beyond those left for them.
    extra: usize,
}

#[derive(Debug)]
struct Gap {
    /// Where the byte for the length is.
    at: usize,
    length: usize,
}

/// A message that was opened and not closed.
#[derive(Debug)]
#[must_use]
pub(super) struct Open {
    gap: usize,
    extra: usize,
}

impl Gaps {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
            gaps: Vec::new(),
            extra: 0,
        }
    }

    /// The bytes so far; what is pushed to them belongs to all messages that are open.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// How many bytes there will be.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + self.extra
    }

    /// Starts a message, behind its tag.
    pub(super) fn open(&mut self, tag: u8) -> Open {
        self.bytes.push(tag);
        self.gaps.push(Gap {
            at: self.bytes.len(),
            length: 0,
        });
        self.bytes.push(0);
        Open {
            gap: self.gaps.len() - 1,
            extra: self.extra,
        }
    }

    /// Ends the message that was opened last and is not closed yet.
    pub(super) fn close(&mut self, open: Open) {
        let gap = &mut self.gaps[open.gap];
        let length = self.bytes.len() - gap.at - 1 + self.extra - open.extra;
        if length < SHORT {
            self.bytes[gap.at] = length as u8;
            // Nothing in so short a message is long, so its gap is the last.
            self.gaps.truncate(open.gap);
        } else {
            gap.length = length;
            self.extra += varint_len(length as u64) - 1;
        }
    }

    /// Puts the long lengths in and gives the bytes out.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let mut from = self.bytes.len();
        let mut to = self.len();
        self.bytes.resize(to, 0);
        let mut varint = Vec::new();
        for gap in self.gaps.iter().rev() {
            let part = gap.at + 1..from;
            to -= part.len();
            self.bytes.copy_within(part, to);
            varint.clear();
            put_varint(&mut varint, gap.length as u64);
            to -= varint.len();
            self.bytes[to..to + varint.len()].copy_from_slice(&varint);
            from = gap.at;
        }
        debug_assert_eq!(from, to);
        self.bytes
    }
}
