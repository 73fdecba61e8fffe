//! One line of a log, and how bytes become lines.

use serde::{Deserialize, Serialize};

/// Longest text of a line in bytes; what is longer is several of them, all but the last marked as
/// going on.
pub const MAX_LINE_BYTES: usize = 16 * 1024;

/// Who said a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// The command, on standard output.
    Out,
    /// The command, on standard error.
    Err,
    /// The runner, about what it does.
    Runner,
}

/// One line of a log, as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When it was written, in milliseconds since 1970.
    pub ts: u64,
    /// Its number; lines of an attempt have growing ones, whoever wrote them.
    pub seq: u64,
    /// The attempt.
    pub attempt: u32,
    /// The phase, by its name on the wire.
    pub phase: String,
    /// Which run of the phase.
    pub run: u32,
    /// Who said it.
    pub stream: Stream,
    /// What was said, without its end of line. Escape sequences are kept, bytes that are no UTF-8 are
    /// written as `\xff`.
    pub text: String,
    /// Whether the line goes on in the next of its stream.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

impl Line {
    /// Returns the text that separates it from the line before it, if that line ends without a line break; `None` if it
    /// continues that line. Only a line that continues no other has a [prefix](Stream::prefix).
    #[must_use]
    pub fn separator(&self, before: Option<&Self>) -> Option<&'static str> {
        let Some(before) = before.filter(|before| before.more) else {
            return Some("");
        };
        let is_same_run = (before.attempt, before.run, before.stream)
            == (self.attempt, self.run, self.stream)
            && before.phase == self.phase;
        (!is_same_run).then_some("\n")
    }
}

/// Precedes a line of a command that could be taken for one of the runner.
const QUOTE: &str = "| ";

impl Stream {
    /// Returns the text that precedes a line where its stream is not shown: `runner` before the lines of the runner, and a
    /// mark before lines of a command that contain it.
    #[must_use]
    pub fn prefix(self, text: &str, runner: &'static str) -> &'static str {
        match self {
            Self::Runner => runner,
            Self::Out | Self::Err if text.contains(runner.trim_end()) => QUOTE,
            Self::Out | Self::Err => "",
        }
    }
}

/// Cuts a stream of bytes into the texts of lines.
#[derive(Debug, Default)]
pub struct Splitter {
    pending: Vec<u8>,
}

impl Splitter {
    /// Takes more, and gives each text that is whole with whether it goes on.
    pub fn push(&mut self, bytes: &[u8], mut give: impl FnMut(String, bool)) {
        let mut rest = bytes;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            self.take(&rest[..at], &mut give);
            let line = self.pending.strip_suffix(b"\r").unwrap_or(&self.pending);
            give(visible(line), false);
            self.pending.clear();
            rest = &rest[at + 1..];
        }
        self.take(rest, &mut give);
    }

    /// Gives what has no end of line: the stream has ended.
    pub fn finish(&mut self, give: impl FnOnce(String, bool)) {
        if !self.pending.is_empty() {
            give(visible(&self.pending), false);
            self.pending.clear();
        }
    }

    /// Collects a part of a line, and gives what is too long.
    fn take(&mut self, mut part: &[u8], give: &mut impl FnMut(String, bool)) {
        while self.pending.len() + part.len() > MAX_LINE_BYTES {
            let (now, later) = part.split_at(MAX_LINE_BYTES - self.pending.len());
            self.pending.extend_from_slice(now);
            let kept = incomplete(&self.pending);
            let whole = self.pending.len() - kept;
            give(visible(&self.pending[..whole]), true);
            self.pending.drain(..whole);
            part = later;
        }
        self.pending.extend_from_slice(part);
    }
}

/// How many bytes at the end may be the beginning of a character.
fn incomplete(bytes: &[u8]) -> usize {
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(4)..]) {
        Ok(_) => 0,
        Err(_) => (1..=3.min(bytes.len()))
            .find(|length| {
                let last = &bytes[bytes.len() - length..];
                matches!(std::str::from_utf8(last), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none())
            })
            .unwrap_or(0),
    }
}

/// Text in which each byte that is no UTF-8 can be seen.
fn visible(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let mut all = Vec::new();
        let mut splitter = Splitter::default();
        for piece in pieces {
            splitter.push(piece, |text, more| all.push((text, more)));
        }
        splitter.finish(|text, more| all.push((text, more)));
        all
    }

    #[test]
    fn lines_end_with_either_end_and_the_last_needs_none() {
        let lines = split(&[b"one\r\ntw", b"o\n\n\x1b[1mthree\xff"]);
        let texts: Vec<_> = lines.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["one", "two", "", "\x1b[1mthree\\xff"]);
    }

    #[test]
    fn line_of_a_command_that_looks_like_one_of_the_runner_is_marked() {
        for (stream, text, expected) in [
            (Stream::Runner, "work: done", "[x] "),
            (Stream::Out, "done", ""),
            (Stream::Out, "[x] work: done", QUOTE),
            (Stream::Err, "\x1b[0m [x]", QUOTE),
        ] {
            assert_eq!(stream.prefix(text, "[x] "), expected, "{text}");
        }
    }

    #[test]
    fn line_that_follows_an_incomplete_one_continues_it_or_begins_on_a_new_line() {
        let line = |stream, run, more| Line {
            ts: 1,
            seq: 1,
            attempt: 1,
            phase: "work".to_owned(),
            run,
            stream,
            text: String::new(),
            more,
        };
        let begun = line(Stream::Out, 1, true);
        for (line, before, expected) in [
            (line(Stream::Out, 1, false), None, Some("")),
            (line(Stream::Out, 1, false), Some(&begun), None),
            (line(Stream::Err, 1, false), Some(&begun), Some("\n")),
            (line(Stream::Out, 2, false), Some(&begun), Some("\n")),
            (begun.clone(), Some(&line(Stream::Err, 1, false)), Some("")),
        ] {
            assert_eq!(line.separator(before), expected, "{line:?}");
        }
    }

    #[test]
    fn a_long_line_goes_on_and_no_character_is_cut() {
        let text = format!("x{}", "é".repeat(MAX_LINE_BYTES));
        let lines = split(&[text.as_bytes()]);
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines.iter().map(|(_, more)| *more).collect::<Vec<_>>(),
            [true, true, false]
        );
        assert!(lines.iter().all(|(text, _)| text.len() <= MAX_LINE_BYTES));
        assert_eq!(
            lines.into_iter().map(|(text, _)| text).collect::<String>(),
            text
        );
        // An exact fit is one line.
        assert_eq!(split(&[&vec![b'x'; MAX_LINE_BYTES], b"\n"]).len(), 1);
    }

    proptest! {
        #[test]
        fn no_cut_changes_lines(
            bytes in prop::collection::vec(prop::sample::select(b"a\n\r\xc3\xa9".to_vec()), 0..60),
            cut in 0_usize..60,
        ) {
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(split(&[first, second]), split(&[&bytes]));
        }
    }
}
