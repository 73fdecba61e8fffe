//! Cuts a stream of bytes into lines, with a cap on the length of a line. What a line means is
//! left to the envelope.

use bytes::Bytes;

/// Longest inbound line, without its line end: 10 MiB, the scanner buffer of the first Orchestra
/// (`maxScannerBuffer`).
pub const MAX_LINE_BYTES: usize = 10 * 1024 * 1024;

/// A line collected over several chunks and longer than this is handed out as shared bytes, so
/// that large arguments can go on without a copy.
const SHARE_BYTES: usize = 16 * 1024;

/// Decodes newline-delimited frames from chunks of any size.
///
/// Lines that lie wholly inside a chunk are borrowed from it. A trailing `\r` is cut off, blank
/// lines are skipped. A line over the cap is reported once, when it passes the cap, and then
/// skipped without being held in memory.
#[derive(Debug)]
pub struct LineDecoder {
    cap: usize,
    partial: Vec<u8>,
    /// `partial` holds a line that was handed out and is dropped at the next call.
    handed_out: bool,
    skipping: bool,
}

/// One frame of the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A line, without its line end; never blank.
    Line(Line<'a>),
    /// A line longer than the cap; its bytes are gone.
    TooLong,
}

/// The bytes of one line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Borrowed from the chunk or from the decoder.
    Borrowed(&'a [u8]),
    /// A large line that was collected over several chunks.
    Shared(Bytes),
}

impl Line<'_> {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    /// The bytes as something that slices of them can share, if that costs nothing.
    #[must_use]
    pub fn shared(&self) -> Option<&Bytes> {
        match self {
            Self::Borrowed(_) => None,
            Self::Shared(bytes) => Some(bytes),
        }
    }
}

impl Default for LineDecoder {
    fn default() -> Self {
        Self::new(MAX_LINE_BYTES)
    }
}

impl LineDecoder {
    /// A decoder that accepts lines of up to `cap` bytes.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self {
            cap,
            partial: Vec::new(),
            handed_out: false,
            skipping: false,
        }
    }

    /// Takes the next frame from the front of `input`. `None` means that `input` is used up and
    /// more bytes are needed.
    pub fn next<'d, 'c: 'd>(&'d mut self, input: &mut &'c [u8]) -> Option<Frame<'d>> {
        self.forget_handed_out();
        loop {
            if input.is_empty() {
                return None;
            }
            let Some(end) = memchr::memchr(b'\n', input) else {
                let rest = std::mem::take(input);
                return self.collect(rest).then_some(Frame::TooLong);
            };
            let (head, tail) = (&input[..end], &input[end + 1..]);
            *input = tail;
            if self.skipping {
                self.skipping = false;
            } else if self.partial.is_empty() {
                let line = trim_end(head);
                if line.len() > self.cap {
                    return Some(Frame::TooLong);
                }
                if !is_blank(line) {
                    return Some(Frame::Line(Line::Borrowed(line)));
                }
            } else if self.partial.len() + head.len() > self.cap + 1 {
                self.partial = Vec::new();
                return Some(Frame::TooLong);
            } else {
                self.partial.extend_from_slice(head);
                let kept = trim_end(&self.partial).len();
                self.partial.truncate(kept);
                if kept > self.cap {
                    self.partial = Vec::new();
                    return Some(Frame::TooLong);
                }
                if is_blank(&self.partial) {
                    self.partial.clear();
                    continue;
                }
                return Some(Frame::Line(self.hand_out()));
            }
        }
    }

    /// Hands out what stands after the last line end, at the end of the stream.
    pub fn finish(&mut self) -> Option<Frame<'_>> {
        self.forget_handed_out();
        if std::mem::take(&mut self.skipping) {
            return None;
        }
        let kept = trim_end(&self.partial).len();
        self.partial.truncate(kept);
        if is_blank(&self.partial) {
            self.partial.clear();
            return None;
        }
        if kept > self.cap {
            self.partial = Vec::new();
            return Some(Frame::TooLong);
        }
        Some(Frame::Line(self.hand_out()))
    }

    /// How many bytes are held back for lines that have not ended.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        if self.handed_out {
            0
        } else {
            self.partial.len()
        }
    }

    fn forget_handed_out(&mut self) {
        if std::mem::take(&mut self.handed_out) {
            self.partial.clear();
        }
    }

    /// Keeps `rest`, the start of a line; true when the line has just passed the cap.
    fn collect(&mut self, rest: &[u8]) -> bool {
        if self.skipping {
            return false;
        }
        // One byte more than the cap is kept, as it may be the `\r` of the line end.
        if self.partial.len() + rest.len() > self.cap + 1 {
            self.partial = Vec::new();
            self.skipping = true;
            return true;
        }
        self.partial.extend_from_slice(rest);
        false
    }

    fn hand_out(&mut self) -> Line<'_> {
        if self.partial.len() > SHARE_BYTES {
            return Line::Shared(std::mem::take(&mut self.partial).into());
        }
        self.handed_out = true;
        Line::Borrowed(&self.partial)
    }
}

fn trim_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(cap: usize, chunks: &[&[u8]]) -> Vec<Result<Vec<u8>, ()>> {
        let mut decoder = LineDecoder::new(cap);
        let mut frames = Vec::new();
        for chunk in chunks {
            let mut input: &[u8] = chunk;
            while let Some(frame) = decoder.next(&mut input) {
                frames.push(owned(frame));
            }
        }
        frames.extend(decoder.finish().map(owned));
        frames
    }

    fn owned(frame: Frame<'_>) -> Result<Vec<u8>, ()> {
        match frame {
            Frame::Line(line) => Ok(line.as_bytes().to_vec()),
            Frame::TooLong => Err(()),
        }
    }

    #[test]
    fn lines_end_in_lf_or_crlf_and_blank_ones_are_skipped() {
        let frames = decode(100, &[b"{\"a\":1}\r\n\n  \r\n[2]\nlast"]);
        assert_eq!(
            frames,
            [
                Ok(b"{\"a\":1}".to_vec()),
                Ok(b"[2]".to_vec()),
                Ok(b"last".to_vec())
            ]
        );
    }

    #[test]
    fn a_line_inside_a_chunk_is_borrowed() {
        let chunk = b"abc\ndef\n".to_vec();
        let mut decoder = LineDecoder::default();
        let mut input = chunk.as_slice();
        let Some(Frame::Line(Line::Borrowed(line))) = decoder.next(&mut input) else {
            panic!("a borrowed line")
        };
        assert_eq!(line.as_ptr(), chunk.as_ptr());
    }

    #[test]
    fn a_line_of_exactly_the_cap_passes_and_one_byte_more_does_not() {
        for split in 0..8 {
            for (text, fits) in [("abcd\n", true), ("abcd\r\n", true), ("abcde\n", false)] {
                let (head, tail) = text.as_bytes().split_at(split.min(text.len()));
                let frames = decode(4, &[head, tail, b"ok\n"]);
                let first = if fits { Ok(b"abcd".to_vec()) } else { Err(()) };
                assert_eq!(
                    frames,
                    [first, Ok(b"ok".to_vec())],
                    "{text:?} cut at {split}"
                );
            }
        }
    }

    #[test]
    fn an_overlong_line_is_reported_once_and_not_held() {
        let mut decoder = LineDecoder::new(1_000);
        let chunk = vec![b'x'; 700];
        let mut reports = 0;
        for _ in 0..100 {
            let mut input = chunk.as_slice();
            while let Some(frame) = decoder.next(&mut input) {
                assert_eq!(frame, Frame::TooLong);
                reports += 1;
            }
            assert!(decoder.held_bytes() <= 1_001);
        }
        assert_eq!(reports, 1);
        let mut input: &[u8] = b"tail\nnext\n";
        assert_eq!(
            decoder.next(&mut input),
            Some(Frame::Line(Line::Borrowed(b"next".as_slice())))
        );
    }

    #[test]
    fn a_large_line_over_several_chunks_is_shared() {
        let mut decoder = LineDecoder::default();
        let part = vec![b'x'; SHARE_BYTES];
        let mut input = part.as_slice();
        assert_eq!(decoder.next(&mut input), None);
        let mut input: &[u8] = b"y\nz\n";
        let Some(Frame::Line(line)) = decoder.next(&mut input) else {
            panic!("a line")
        };
        assert_eq!(line.shared().map(Bytes::len), Some(SHARE_BYTES + 1));
    }

    proptest::proptest! {
        #[test]
        fn a_stream_cut_anywhere_decodes_the_same(
            text in "([ab\r\n]|\r\n|é){0,40}",
            cuts in proptest::collection::vec(0usize..60, 0..6),
        ) {
            let whole = decode(5, &[text.as_bytes()]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut start = 0;
            for cut in cuts {
                chunks.push(&text.as_bytes()[start..cut]);
                start = cut;
            }
            chunks.push(&text.as_bytes()[start..]);
            proptest::prop_assert_eq!(decode(5, &chunks), whole);
        }
    }
}
