//! The only place that writes to stdout: data goes there, talk goes to stderr.

use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, Write as _},
};

use orchestra_mcp::client::is_deceptive;
use orchestra_plan::draw::Paint;
use serde::{Serialize, de::IgnoredAny};

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

/// Formats a number of things: `1 memory`, `2 memories`.
pub(crate) fn counted<N: Display + PartialEq + From<u8>>(number: N, thing: &str) -> String {
    match thing.strip_suffix('y') {
        _ if number == N::from(1) => format!("{number} {thing}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {thing}s"),
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
    lines(&json_in_a_line(&serde_json::to_string(value)?))
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
/// newline and tab, and [deceptive](is_deceptive) ones are shown, not sent.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_harmful(c) {
            shown.extend(c.escape_unicode())
        } else {
            shown.push(c)
        }
    }
    Cow::Owned(shown)
}

/// As [`printable`], of the result of a tool: JSON remains JSON.
pub(crate) fn printable_result(text: &str) -> Cow<'_, str> {
    let is_json = || {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        values.all(|value| value.is_ok())
    };
    match text.contains(is_harmful) && is_json() {
        true => json_in_a_line(text),
        false => printable(text),
    }
}

/// As [`printable`], of TOML: in a basic string, an escaped character keeps its meaning.
pub(crate) fn printable_toml(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_harmful(c) {
            true => shown.push_str(&format!("\\U{:08X}", u32::from(c))),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// JSON with the characters escaped that [`printable`] escapes.
fn json_in_a_line(json: &str) -> Cow<'_, str> {
    if !json.contains(is_harmful) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // A string of JSON holds none, so it stands between values.
            '\r' => shown.push(' '),
            c if is_harmful(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    shown.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Returns whether a character is not printed as it is.
fn is_harmful(c: char) -> bool {
    is_deceptive(c) && !matches!(c, '\n' | '\t')
}

/// The beginning and the end of a text that is longer than `most` bytes.
pub(crate) fn without_middle(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let (start, end) = (
        &text[..text.floor_char_boundary(most / 4 * 3)],
        &text[text.ceil_char_boundary(text.len() - most / 8)..],
    );
    let left_out = text.len() - start.len() - end.len();
    Cow::Owned(format!("{start} … {left_out} bytes are left out … {end}"))
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
            c if is_blank_letter(c) => shown.extend(c.escape_unicode()),
            // What a text without these would be escaped for as well.
            '"' | '\'' | '\\' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
        is_behind_blank = c == ' ';
    }
    shown
}

/// Returns whether a character is a letter or a symbol for Unicode, and looks like a blank: fillers of Hangul and the empty
/// pattern of Braille.
const fn is_blank_letter(c: char) -> bool {
    matches!(
        c,
        '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}'
    )
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
        assert_eq!(
            printable("a\u{200b}\u{2028}\u{2029}\u{feff}\u{e0041}b"),
            r"a\u{200b}\u{2028}\u{2029}\u{feff}\u{e0041}b"
        );
        assert_eq!(printable("a\u{ad}\u{180e}b"), r"a\u{ad}\u{180e}b");
        assert_eq!(printable("❤\u{fe0f}"), "❤\u{fe0f}", "part of ordinary text");
    }

    #[test]
    fn json_remains_json_whatever_characters_it_holds() {
        for c in (0..=0x2070).filter_map(char::from_u32).chain([
            '\u{feff}',
            '🦀',
            '\u{e0041}',
            '\u{10ffff}',
        ]) {
            let json = serde_json::to_string(&format!("a{c}b")).unwrap();
            for text in [json.clone(), format!("{{\"k\":\r\n{json}}}\r\n[{json}]")] {
                let shown = printable_result(&text);
                let values = |text| -> Vec<serde_json::Value> {
                    let values = serde_json::Deserializer::from_str(text).into_iter();
                    values.map(Result::unwrap).collect()
                };
                assert_eq!(values(&shown), values(&text), "{c:?}");
                assert!(!shown.contains(is_harmful), "{c:?}: {shown}");
            }
            assert!(json_in_a_line(&json).lines().count() == 1);
        }
        assert_eq!(
            printable_result("{\"\\ud800\u{7f}\"}"),
            "{\"\\ud800\\u{7f}\"}"
        );
        assert_eq!(printable_result("\"\\ud800\u{7f}\""), "\"\\ud800\\u007f\"");
    }

    #[test]
    fn long_text_loses_its_middle() {
        assert_eq!(without_middle("short", 5), "short");
        let text = format!("{}é{}", "a".repeat(3_071), "b".repeat(100_000));
        let shown = without_middle(&text, 4_096);
        assert!(
            shown.len() <= 4_096 && shown.starts_with("aaa"),
            "{}",
            shown.len()
        );
        assert!(
            shown.contains("… 99490 bytes are left out … bbb"),
            "{shown}"
        );
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
            ("a\u{3164}\u{2800}b", r"a\u{3164}\u{2800}b"),
        ] {
            assert_eq!(in_a_line(text), shown);
        }
    }
}
