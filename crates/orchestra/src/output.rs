//! The only place that writes to stdout: data goes there, talk goes to stderr.

use std::{
    borrow::Cow,
    io::{self, Write as _},
};

use orchestra_plan::draw::Paint;
use serde::Serialize;

use crate::{commands::progress, env::Variable, exit::Failure};

/// How a command prints its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON document.
    Json,
}

impl Format {
    /// The format that the flag `--json` asks for.
    pub const fn of_flag(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }

    /// Prints `value` as JSON, or the text that `text` makes of it.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn print<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self {
            Self::Text => lines(&text(value)),
            Self::Json => json(value),
        }
    }
}

/// Prints text, ended by a newline; nothing when it is empty.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn lines(text: &str) -> Result<(), Failure> {
    if text.is_empty() {
        return Ok(());
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    raw(format!("{text}{end}").as_bytes())
}

/// Prints one JSON document on one line.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    raw(&bytes)
}

/// Prints bytes as they are.
///
/// # Errors
/// When stdout cannot be written to; that the reader has gone is told apart.
pub(crate) fn raw(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Err(error) => Err(anyhow::Error::new(error).context("write to stdout").into()),
    }
}

/// Says something to the person at the terminal. That it cannot be said is no error.
pub(crate) fn complain(text: &str) {
    let _ = progress::aside(|| writeln!(io::stderr().lock(), "{text}"));
}

/// Whether a terminal is told of colours: unless who uses it wants none.
pub(crate) fn paint() -> Paint {
    let is_dumb = Variable::Terminal.read().is_some_and(|kind| kind == "dumb");
    match Variable::NoColor.read().is_some() || is_dumb {
        true => Paint::Plain,
        false => Paint::Colour,
    }
}

/// Text of others (a file, a tool) made harmless for a terminal: control characters other than
/// newline and tab, and those that turn the direction of what follows, are shown, not sent.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let harmful = |c: char| turns(c) || c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if harmful(c) {
            shown.extend(c.escape_unicode())
        } else {
            shown.push(c)
        }
    }
    Cow::Owned(shown)
}

/// Text of others as part of one line that is ours: what would end the line, move on the screen,
/// turn the direction or not be seen is escaped, and so are blanks behind a blank, with which it could
/// be wrapped so that it looks like a line of its own.
pub fn in_a_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut is_behind_blank = false;
    for c in text.chars() {
        match c {
            ' ' if is_behind_blank => shown.extend(c.escape_unicode()),
            // What a text without these would be escaped for as well.
            '"' | '\'' | '\\' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
        is_behind_blank = c == ' ';
    }
    shown
}

/// A number of bytes for people.
#[must_use]
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes / 1_024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_never_reach_a_terminal() {
        assert_eq!(printable("plain\n\ttext ü 🦀"), "plain\n\ttext ü 🦀");
        assert_eq!(printable("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(printable("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn what_stands_in_a_line_makes_no_line() {
        for (text, shown) in [
            (r#"a "b c" \d'é ü"#, r#"a "b c" \d'é ü"#),
            ("a\n  b", r"a\n \u{20}b"),
            ("a\r\tb\0", r"a\r\tb\0"),
            ("\u{1b}[2J", r"\u{1b}[2J"),
            (
                "a\u{2028}b\u{202e}c\u{200b}d\u{a0}e",
                r"a\u{2028}b\u{202e}c\u{200b}d\u{a0}e",
            ),
        ] {
            assert_eq!(in_a_line(text), shown);
        }
    }
}
