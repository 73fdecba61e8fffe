//! Texts in drawings: made printable, cut to fit, and escaped for the format that they stand in.

use std::fmt::Write;

/// What stands in place of a character that cannot be shown.
const UNPRINTABLE: char = '\u{fffd}';

/// The text on one line: line ends and tabs are blanks; other controls, marks that turn the direction
/// of writing, and what is no character in XML show that they cannot be shown.
pub(super) fn printable(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|c| match c {
        '\n' | '\r' | '\t' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => UNPRINTABLE,
        '\u{fffe}' | '\u{ffff}' | '\u{2028}' | '\u{2029}' => UNPRINTABLE,
        c if c.is_control() => UNPRINTABLE,
        c => c,
    })
}

/// The text on one line, of at most so many columns; `…` stands where it was cut.
#[must_use]
pub fn cut(text: &str, columns: usize) -> String {
    cut_to(text, columns, columns_of)
}

/// The text on one line, in a room of so many pixels and in letters of 14 of them; `…` stands where
/// it was cut.
pub(super) fn cut_to_pixels(text: &str, pixels: usize) -> String {
    cut_to(text, pixels, pixels_of)
}

/// Cuts a text to a room in which each character takes what is said. Characters that take nothing
/// are counted as well, so that no text is without end.
fn cut_to(text: &str, room: usize, room_of: impl Fn(char) -> usize) -> String {
    let most = room.saturating_mul(4);
    let for_the_rest = room_of('…');
    let (mut cut, mut taken, mut fits) = (String::new(), 0, 0);
    for (count, c) in printable(text).enumerate() {
        let next = room_of(c);
        if taken + next > room || count >= most {
            cut.truncate(fits);
            cut.push('…');
            return cut;
        }
        taken += next;
        cut.push(c);
        if taken + for_the_rest <= room {
            fits = cut.len();
        }
    }
    cut
}

/// How many pixels a character takes at most, in letters of 14 of them of the usual fonts.
const fn pixels_of(c: char) -> usize {
    match c {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|'
        | '!' | '/' | '(' | ')' | '[' | ']' | '-' | '·' => 6,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 14,
        'A'..='Z' => 11,
        c if c.is_ascii() => 9,
        c => 9 * columns_of(c),
    }
}

/// How many columns a text takes in a terminal.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// How many columns a character takes in most terminals, or more: a line that is narrower than it seems
/// leaves a gap, and one that is wider breaks what stands below it.
pub(super) const fn columns_of(c: char) -> usize {
    match c {
        '\u{0300}'..='\u{036f}'
        | '\u{0483}'..='\u{0489}'
        | '\u{0591}'..='\u{05bd}'
        | '\u{0610}'..='\u{061a}'
        | '\u{064b}'..='\u{065f}'
        | '\u{1ab0}'..='\u{1ace}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{200b}'..='\u{200d}'
        | '\u{20d0}'..='\u{20f0}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{fe20}'..='\u{fe2f}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e0fff}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{17a4}'
        | '\u{231a}'..='\u{231b}'
        | '\u{23e9}'..='\u{23f3}'
        | '\u{2329}'..='\u{232a}'
        | '\u{25fd}'..='\u{25fe}'
        | '\u{2614}'..='\u{2615}'
        | '\u{2630}'..='\u{2637}'
        | '\u{2648}'..='\u{2653}'
        | '\u{267f}'
        | '\u{268a}'..='\u{268f}'
        | '\u{2693}'
        | '\u{26a1}'
        | '\u{26aa}'..='\u{26ab}'
        | '\u{26bd}'..='\u{26be}'
        | '\u{26c4}'..='\u{26c5}'
        | '\u{26ce}'
        | '\u{26d4}'
        | '\u{26ea}'
        | '\u{26f2}'..='\u{26f5}'
        | '\u{26fa}'
        | '\u{26fd}'
        | '\u{2705}'
        | '\u{270a}'..='\u{270b}'
        | '\u{2728}'
        | '\u{274c}'
        | '\u{274e}'
        | '\u{2753}'..='\u{2757}'
        | '\u{2795}'..='\u{2797}'
        | '\u{27b0}'
        | '\u{27bf}'
        | '\u{2b1b}'..='\u{2b1c}'
        | '\u{2b50}'..='\u{2b55}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe10}'..='\u{fe19}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{16fe0}'..='\u{18dff}'
        | '\u{1aff0}'..='\u{1b2ff}'
        | '\u{1d300}'..='\u{1d37f}'
        | '\u{1f000}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        '\u{17d8}' => 3,
        _ => 1,
    }
}

/// Escaped for the text and the attributes of XML.
pub(super) fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text) {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escaped for a quoted text of DOT, in which `\` and `&` have meanings of their own.
pub(super) fn dot(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text) {
        match c {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '&' => escaped.push_str("&amp;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escaped for a quoted text of Mermaid: every character of ASCII that is neither letter, digit,
/// blank nor one of `-_.,/()` is written as its number, so that none has a meaning of its own.
pub(super) fn mermaid(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text) {
        let plain = !c.is_ascii() || c.is_ascii_alphanumeric() || " -_.,/()".contains(c);
        match plain {
            true => escaped.push(c),
            false => {
                let _ = write!(escaped, "#{};", u32::from(c));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthChar as _;

    use super::*;

    #[test]
    fn no_character_is_wider_than_it_is_taken_for() {
        let wider: Vec<String> = ('\u{20}'..=char::MAX)
            .filter(|c| columns_of(*c) < c.width().unwrap_or_default())
            .map(|c| format!("{:x}", u32::from(c)))
            .collect();
        assert!(wider.is_empty(), "{wider:?}");
        assert_eq!(width("party 🎉 計画 ✨"), 16);
    }
}
