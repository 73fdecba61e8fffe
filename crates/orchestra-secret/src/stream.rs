//! Masking of a stream of bytes, whose result does not depend on where it is cut.

use std::ops::Range;

use crate::{MASK, Masker, is_secret_name};

/// Number of bytes of a line that are held until its end arrives.
const MAX_HELD_BYTES: usize = 64 * 1024;

/// Number of bytes of a longer line that are held, and remain known after they were given away.
const CONTEXT_BYTES: usize = 4 * 1024;

/// Number of lines, and of their bytes, that are read again with the next line because it continues them.
const MAX_CONTINUED_LINES: usize = 4;
const MAX_CONTINUED_BYTES: usize = 1024;

/// Number of lines of a command and its here-document that are read again. A line may end with two bytes, each of which
/// ends one.
const MAX_DOCUMENT_LINES: usize = 20;

/// Number of lines of a private key.
const MAX_KEY_LINES: usize = 200;

/// Minimum length of a line of a private key beside other text.
const MIN_KEY_LINE_BYTES: usize = 40;

/// Masks a stream line by line. Bytes that are no UTF-8 pass unchanged.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    masker: Masker,
    pending: Vec<u8>,
    /// Number of pending bytes that were given away already.
    given: usize,
    /// Number of lines that may still belong to a private key.
    key_lines: usize,
    /// Number of pending lines that were given away and that the next line continues.
    continued: usize,
    /// Whether the bytes given away last end inside of a secret.
    is_inside: bool,
}

impl Stream {
    pub(crate) fn new(masker: Masker) -> Self {
        Self {
            masker,
            ..Self::default()
        }
    }

    /// Takes more of the stream, and appends what is certain to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let mut piece = piece;
            while self.pending.len() + piece.len() > MAX_HELD_BYTES {
                let (head, rest) =
                    piece.split_at(MAX_HELD_BYTES - self.pending.len().min(MAX_HELD_BYTES));
                self.pending.extend_from_slice(head);
                piece = rest;
                self.give_part(out);
            }
            self.pending.extend_from_slice(piece);
            if piece.ends_with(b"\n") || piece.ends_with(b"\r") {
                self.give_line(out);
            }
        }
    }

    /// Ends the stream, and appends its rest to `out`.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.give_line(out);
    }

    /// Masks a whole text.
    #[must_use]
    pub fn text(mut self, text: &str) -> String {
        let mut out = Vec::with_capacity(text.len());
        self.push(text.as_bytes(), &mut out);
        self.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn give_line(&mut self, out: &mut Vec<u8>) {
        let line = readable(&self.pending);
        let (mut ranges, is_open) = self.masker.ranges(&line);
        // Lines before the last are known already.
        let from = if self.continued > 0 { self.given } else { 0 };
        self.key_line(&line, from, &mut ranges);
        self.rest_of_secret(&mut ranges);
        self.give(&ranges, self.pending.len(), out);
        self.is_inside = false;
        let last = &line[from..];
        let is_continued = match is_open {
            true => self.continued < MAX_DOCUMENT_LINES,
            // A line may end with two bytes.
            false => {
                self.continued < MAX_CONTINUED_LINES
                    && (is_continued(last) || self.continued > 0 && last.trim().is_empty())
            }
        };
        if is_continued && line.len() <= MAX_CONTINUED_BYTES {
            self.continued += 1;
            self.given = self.pending.len();
        } else {
            self.continued = 0;
            self.pending.clear();
            self.given = 0;
        }
    }

    /// Gives the part of a long line away that no later byte changes.
    fn give_part(&mut self, out: &mut Vec<u8>) {
        let line = readable(&self.pending);
        let (mut ranges, _) = self.masker.ranges(&line);
        self.rest_of_secret(&mut ranges);
        let last = self
            .pending
            .len()
            .saturating_sub(CONTEXT_BYTES)
            .max(self.given);
        // At least half of what may be given is given, so that a long line is not read again and again.
        let half = self.given + (last - self.given) / 2;
        let blank = self.pending[half..last]
            .iter()
            .rposition(u8::is_ascii_whitespace);
        let mut cut = blank.map_or(last, |at| half + at);
        let divided = ranges
            .iter()
            .find(|range| range.start < cut && range.end > cut);
        if let Some(range) = divided.filter(|range| range.start > half) {
            cut = range.start;
        }
        self.give(&ranges, cut, out);
        self.is_inside = ranges
            .iter()
            .any(|range| range.start < cut && range.end > cut);
        let forget = cut.saturating_sub(CONTEXT_BYTES);
        self.pending.drain(..forget);
        self.given = cut - forget;
        // A line that long continues none.
        self.continued = 0;
    }

    /// Adds the rest of a secret of which only the beginning was known: everything up to a blank or a quote.
    fn rest_of_secret(&self, ranges: &mut Vec<Range<usize>>) {
        if self.is_inside && self.given > 0 {
            let rest = &self.pending[self.given..];
            let length = rest
                .iter()
                .take_while(|byte| !byte.is_ascii_whitespace() && !b"\"'`".contains(byte))
                .count();
            ranges.push(self.given - 1..self.given + length);
            *ranges = crate::scan::merged(std::mem::take(ranges));
        }
    }

    /// Appends the pending bytes up to `end` that were not given away yet, with the ranges masked.
    fn give(&self, ranges: &[Range<usize>], end: usize, out: &mut Vec<u8>) {
        let mut at = self.given;
        for range in ranges
            .iter()
            .filter(|range| range.end > self.given && range.start < end)
        {
            if range.start >= at {
                out.extend_from_slice(&self.pending[at..range.start]);
                out.extend_from_slice(MASK.as_bytes());
            }
            at = range.end.min(end).max(at);
        }
        out.extend_from_slice(&self.pending[at..end]);
    }

    /// Adds the ranges of a private key whose lines arrive one by one.
    fn key_line(&mut self, text: &str, from: usize, ranges: &mut Vec<Range<usize>>) {
        let line = &text[from..];
        if line.contains("-----END") {
            self.key_lines = 0;
        } else if line.contains("-----BEGIN") && line.contains("PRIVATE KEY") {
            self.key_lines = MAX_KEY_LINES;
        } else if let Some(left) = self.key_lines.checked_sub(1) {
            self.key_lines = left;
            let text = line.trim();
            let is_body = |text: &str| {
                text.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
            };
            let at = from + line.len() - line.trim_start().len();
            match is_body(text) {
                true => ranges.push(at..at + text.len()),
                false => {
                    let word = text
                        .rsplit(|char: char| char.is_whitespace())
                        .next()
                        .unwrap_or_default();
                    let from = at + text.len() - word.len();
                    if word.len() >= MIN_KEY_LINE_BYTES && is_body(word) {
                        ranges.push(from..from + word.len());
                    }
                }
            }
            *ranges = crate::scan::merged(std::mem::take(ranges));
        }
    }
}

/// Returns whether the value of a name, or the rest of a command, may be on the line after a text.
fn is_continued(text: &str) -> bool {
    let text = text.trim_end();
    let head = text.trim_end_matches(['{', '[', '|', '>', '-', '+', ' ']);
    if text.ends_with('\\') {
        return true;
    }
    if head.ends_with(':') {
        let name = head.trim_end_matches(|char: char| !char.is_ascii_alphanumeric());
        let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
        return name
            .rsplit(|char| !is_name(char))
            .next()
            .is_some_and(is_secret_name);
    }
    let first = text.trim_start_matches(['{', '-', '"', '\'', ' ', '\t']);
    let is_member = |name: &str| {
        let start = first.get(..name.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    is_member("name") || is_member("key")
}

/// Text with the same length as some bytes, in which `?` replaces every byte that is no UTF-8.
fn readable(bytes: &[u8]) -> String {
    if let Ok(text) = str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    text
}
