//! Cuts what a server writes into lines that own their bytes, so that large values go on without a
//! copy. A line that is too long is not held; what remains of it is enough to find its id.

use std::mem;

use bytes::{Bytes, BytesMut};
use orchestra_wire::RequestId;
use serde_json::value::RawValue;

/// Space for one read; what a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// A buffer that has grown past this by one long line is given back.
const KEPT_BYTES: usize = 1024 * 1024;

/// What is kept of each end of a line that is too long.
const END_BYTES: usize = 1_024;

/// A line.
pub(super) enum Cut {
    /// Whole, without its line end; never blank.
    Line(Bytes),
    /// Longer than is permitted.
    TooLong(TooLong),
}

/// What remains of a line that was too long.
#[derive(Default)]
pub(super) struct TooLong {
    head: Vec<u8>,
    tail: Vec<u8>,
    /// How long it was.
    pub(super) bytes: usize,
}

pub(super) struct Cutter {
    limit: usize,
    buffer: BytesMut,
    /// So much of the buffer has no line end.
    looked_at: usize,
    skipping: Option<TooLong>,
}

impl Cutter {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: BytesMut::new(),
            looked_at: 0,
            skipping: None,
        }
    }

    /// Where the next bytes go, behind those that are there.
    pub(super) fn space(&mut self) -> &mut BytesMut {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES {
            self.buffer = BytesMut::new();
        }
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES / 4 {
            self.buffer.reserve(READ_BYTES);
        }
        &mut self.buffer
    }

    /// The next line; `None` when more bytes are needed.
    pub(super) fn next(&mut self) -> Option<Cut> {
        loop {
            let end = memchr::memchr(b'\n', &self.buffer[self.looked_at..]);
            let Some(end) = end.map(|end| self.looked_at + end) else {
                self.keep_rest();
                return None;
            };
            let mut line = self.buffer.split_to(end + 1);
            self.looked_at = 0;
            line.truncate(end);
            if let Some(mut skipped) = self.skipping.take() {
                skipped.extend(&line);
                return Some(Cut::TooLong(skipped));
            }
            if let Some(cut) = self.whole(line) {
                return Some(cut);
            }
        }
    }

    /// What stands behind the last line end, when no more comes.
    pub(super) fn finish(&mut self) -> Option<Cut> {
        if let Some(skipped) = self.skipping.take() {
            return Some(Cut::TooLong(skipped));
        }
        self.looked_at = 0;
        let rest = mem::take(&mut self.buffer);
        self.whole(rest)
    }

    fn whole(&self, mut line: BytesMut) -> Option<Cut> {
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if line.len() > self.limit {
            let mut skipped = TooLong::default();
            skipped.extend(&line);
            return Some(Cut::TooLong(skipped));
        }
        let blank = line.iter().all(u8::is_ascii_whitespace);
        (!blank).then(|| Cut::Line(line.freeze()))
    }

    /// Keeps the beginning of a line, or its ends when it has become too long.
    fn keep_rest(&mut self) {
        self.looked_at = self.buffer.len();
        // One byte more, as it may be the `\r` of the line end.
        if self.skipping.is_none() && self.buffer.len() <= self.limit + 1 {
            return;
        }
        let skipped = self.skipping.get_or_insert_default();
        skipped.extend(&self.buffer);
        if self.buffer.capacity() > KEPT_BYTES {
            self.buffer = BytesMut::new();
        }
        self.buffer.clear();
        self.looked_at = 0;
    }
}

impl TooLong {
    fn extend(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        let room = END_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let last = &bytes[bytes.len().saturating_sub(END_BYTES)..];
        self.tail.extend_from_slice(last);
        let over = self.tail.len().saturating_sub(END_BYTES);
        self.tail.drain(..over);
    }

    /// Its id, if it stands at one of its ends.
    pub(super) fn id(&self) -> Option<RequestId> {
        self.id_in_head().or_else(|| self.id_in_tail())
    }

    /// The members at the head, as far as they are whole.
    fn id_in_head(&self) -> Option<RequestId> {
        let mut rest = trim(&self.head).strip_prefix(b"{")?;
        loop {
            let (key, behind) = value(rest)?;
            let (member, behind) = value(trim(behind).strip_prefix(b":")?)?;
            // Only what is followed by something is whole.
            let behind = trim(behind).strip_prefix(b",")?;
            if key.get() == "\"id\"" {
                return RequestId::from_raw(member).ok();
            }
            rest = behind;
        }
    }

    /// A place at the tail from which on the rest are members of the message itself: only then do
    /// they and an opening brace make a whole object. Inside of a string or a deeper object there
    /// would be a quote or a brace too many.
    fn id_in_tail(&self) -> Option<RequestId> {
        #[derive(serde::Deserialize)]
        struct Members<'a> {
            #[serde(borrow)]
            id: &'a RawValue,
        }
        let key = b"\"id\"";
        let found = memchr::memmem::rfind_iter(&self.tail, key).take(8);
        let found = found.filter_map(|at| {
            let object = [b"{", &self.tail[at..]].concat();
            let members = serde_json::from_slice::<Members<'_>>(&object).ok()?;
            RequestId::from_raw(members.id).ok()
        });
        found.last()
    }
}

/// The JSON value at the front, and what stands behind it.
fn value(text: &[u8]) -> Option<(&RawValue, &[u8])> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
    let value = values.next()?.ok()?;
    Some((value, &text[values.byte_offset()..]))
}

fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(limit: usize, pieces: &[&[u8]]) -> Vec<String> {
        let mut cutter = Cutter::new(limit);
        let mut cuts = Vec::new();
        let mut take = |cut: Cut| {
            cuts.push(match cut {
                Cut::Line(line) => String::from_utf8(line.to_vec()).unwrap(),
                Cut::TooLong(long) => format!("{} of {:?}", long.bytes, long.id()),
            });
        };
        for piece in pieces {
            cutter.space().extend_from_slice(piece);
            while let Some(cut) = cutter.next() {
                take(cut);
            }
            assert!(cutter.buffer.len() <= limit + 1);
        }
        cutter.finish().map(&mut take);
        cuts
    }

    #[test]
    fn a_stream_is_cut_the_same_wherever_it_comes_in_pieces() {
        let text = b"{\"a\":1}\r\n\n \r\n[2]\n0123456789\nabcdefghi\nlast";
        let expected = ["{\"a\":1}", "[2]", "10 of None", "9 of None", "last"];
        for first in 0..text.len() {
            for second in [first, (first + text.len()) / 2] {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(cuts(8, &pieces), expected, "{first} {second}");
            }
        }
    }

    #[test]
    fn the_id_of_a_line_that_is_too_long_is_found_at_its_ends() {
        let x = "x".repeat(3_000);
        let check = |line: String, expected: &str| {
            let bytes = format!("{line}\n");
            assert_eq!(
                cuts(2_000, &[bytes.as_bytes()]),
                [format!("{} of {expected}", line.len())],
            );
        };
        check(
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":"{x}"}}"#),
            "Some(7)",
        );
        check(
            format!(r#"{{ "id" : "a\"b" , "result":"{x}"}}"#),
            r#"Some("a\"b")"#,
        );
        check(format!(r#"{{"result":"{x}","id":7}}"#), "Some(7)");
        check(
            format!(r#"{{"result":"{x}","id":7,"jsonrpc":"2.0"}}"#),
            "Some(7)",
        );
        // Not its own.
        check(format!(r#"{{"result":{{"x":"{x}","id":8}}}}"#), "None");
        check(format!(r#"{{"result":"{x}\"id\":9}}"#), "None");
        check(format!(r#"{{"result":{{"id":1,"x":"{x}"}}}}"#), "None");
        // Cut in the middle, it would be another.
        check(format!(r#"{{"id":{}}}"#, "1".repeat(3_000)), "None");
    }
}
