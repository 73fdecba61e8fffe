//! Values under the name of a secret: assignments, members, headers, options, elements, and plain words.

use std::ops::Range;

use super::{Scanner, is_blank, is_quote};
use crate::{
    name::{Strength, strength},
    value::{
        is_capitals, is_code, is_file, is_identifier, is_name, is_phrase, is_plain_value,
        is_random, is_reference, is_two_words,
    },
};

/// Maximum number of bytes of a name on each side of the part that means a secret.
const MAX_SIDE: usize = 64;

/// Minimum lengths of a value that is a word: in quotes, and at the end of a line.
const MIN_QUOTED_WORD: usize = 4;
pub(super) const MIN_LINE_WORD: usize = 6;

/// Minimum length of a word that is assigned without quotes. Shorter words are variables.
const MIN_ASSIGNED_WORD: usize = 10;

/// Minimum length of a value that is a token.
const MIN_TOKEN: usize = 16;

/// Minimum length of the value of an option that is a word at the end of a line.
const MIN_OPTION_WORD: usize = 3;

/// Number of bytes of a value by which it is judged, and in which a section of XML with signs or line ends is read.
pub(super) const MAX_JUDGED: usize = 512;

/// Number of bytes on each side of a name in which the value beside it is looked for.
pub(super) const MAX_BESIDE: usize = 160;

/// Number of bytes before a name in which the command that sets a variable is looked for.
const MAX_COMMAND: usize = 40;

/// Minimum length of a word that is a secret beside other words.
const MIN_MIXED: usize = 10;

/// Number of brackets and full stops that end a value without being part of it.
const MAX_CLOSING: usize = 16;

/// Beginning of a section of XML whose text has no elements.
const SECTION: &str = "<![CDATA[";

/// Names that precede their value without a separator: `set password X`.
const PROSE: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "requirepass",
    "masterauth",
    "token",
    "pass",
];

/// Names whose value may be a word in prose: `the password is X`.
const SPOKEN: [&str; 2] = ["password", "passphrase"];

/// Words between a name and its value in prose.
const COPULAS: [&str; 3] = ["is ", "was ", "to "];

/// Text between a name and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// `NAME=value`
    Equals,
    /// `name = value`, `name := value`, `name => value`
    Assigns,
    /// `name: value`
    Colon,
    /// `<name>value<`
    Element,
    /// `"name", "value"`
    Comma,
    /// `--name value`
    Blank,
    /// `PASSWORD 'value'`, `set password value`
    Prose,
    /// `password is value`
    Copula,
    /// `X-Auth: value`
    Header,
    /// `key="Password" value="value"`
    Attribute,
    /// `- name: DB_PASSWORD`, and `value: value` on the next line
    Below,
    /// `PASSWORD('value')`
    Call,
}

/// Readiness to take a value for a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Everything but references and placeholders.
    Certain,
    /// Values that no program text has there.
    Likely,
    /// Random values.
    Cautious,
    /// Random values that are as long as a token.
    Long,
}

/// Value as it is written.
pub(super) struct Written {
    pub(super) range: Range<usize>,
    is_quoted: bool,
    /// Byte after the value, without its quote.
    next: Option<u8>,
    /// Position after the value and its quote.
    pub(super) end: usize,
}

impl Written {
    /// Text that its surroundings delimit as quotes do.
    const fn line(range: Range<usize>) -> Self {
        let end = range.end;
        Self {
            range,
            is_quoted: true,
            next: None,
            end,
        }
    }
}

impl Scanner<'_> {
    /// Reads the name around a part that means a secret, and its value.
    pub(super) fn name(&mut self, start: usize, end: usize) {
        if start < self.name_done {
            return;
        }
        let lowest = start.saturating_sub(MAX_SIDE);
        let before = &self.bytes[lowest..start];
        let mut left = start
            - before
                .iter()
                .rev()
                .take_while(|byte| is_name_byte(**byte))
                .count();
        let right = self.skip(end, is_name_byte);
        self.name_done = right;
        if right - end > MAX_SIDE {
            return;
        }
        left = self.after_colour(left, start);
        if self.before(left) == Some(b'\\') {
            let escape = match self.byte(left) {
                Some(b'n' | b'r' | b't') => 1,
                Some(b'u') if self.text[left..].starts_with("u0026") => 5,
                _ => 0,
            };
            left = (left + escape).min(start);
        }
        let right = left + self.text[left..right].trim_end_matches(['-', '.']).len();
        if right < end {
            return;
        }
        let name = &self.text[left..right];
        if name == "AUTH" {
            self.redis(right);
        }
        self.beside(left, right, name);
        let Some((separator, from)) = self.separator(left, right, name) else {
            return;
        };
        let is_tokens = || {
            let is_list = self.byte(self.skip_blanks(from)) == Some(b'[');
            is_list && name.to_ascii_lowercase().ends_with("tokens")
        };
        let strength = match strength(name.trim_start_matches('-')) {
            Some(strength) => strength,
            None if is_tokens() => {
                return self.values(from, separator, Judgement::Long, Strength::Weak);
            }
            None => return,
        };
        let lower = name.to_ascii_lowercase();
        let is_header = matches!(
            separator,
            Separator::Colon
                | Separator::Header
                | Separator::Comma
                | Separator::Equals
                | Separator::Assigns
        );
        if is_header && lower.ends_with("authorization") {
            let open = self.skip(from, |byte| is_blank(byte) || byte == b'\\');
            let quote = self.byte(open).filter(|byte| is_quote(*byte));
            let closes = quote.or_else(|| self.before(left).filter(|byte| is_quote(*byte)));
            let closes = closes.filter(|_| {
                !matches!(separator, Separator::Colon | Separator::Header)
                    || quote.is_some()
                    || self.byte(right).is_none_or(|byte| !is_quote(byte))
            });
            return self.authorization(open + usize::from(quote.is_some()), closes);
        }
        if matches!(separator, Separator::Colon | Separator::Header)
            && lower.ends_with("cookie")
            && self.byte(from).is_some_and(is_blank)
        {
            let open = self.skip(from, |byte| is_blank(byte) || is_quote(byte));
            return self.cookies(open);
        }
        let judgement = self.judgement(separator, strength, left, name);
        self.values(from, separator, judgement, strength);
    }

    /// Separator after a name, and the position after it.
    fn separator(&self, left: usize, right: usize, name: &str) -> Option<(Separator, usize)> {
        let is_option = name.starts_with('-') && self.is_boundary(left);
        let close = self.skip(right, |byte| byte == b'\\');
        let is_closed = self.byte(close).is_some_and(is_quote);
        let named = match is_closed {
            true => self.skip(close + 1, |byte| byte == b']'),
            false => self.skip_colours(right),
        };
        let at = self.skip_blanks(named);
        let next = self.byte(at + 1);
        match self.byte(at)? {
            b'=' if matches!(next, Some(b'=' | b'~')) => None,
            b'=' if next == Some(b'>') => Some((Separator::Assigns, at + 2)),
            b'=' if at == named && next.is_none_or(|byte| !is_blank(byte)) => {
                Some((Separator::Equals, at + 1))
            }
            b'=' => Some((Separator::Assigns, at + 1)),
            b':' if matches!(next, Some(b':')) => None,
            b':' if next == Some(b'=') => Some((Separator::Assigns, at + 2)),
            b':' if self.text[at..].starts_with("://") => None,
            b':' if !is_closed && at == right && next == Some(b' ') && is_header(name) => {
                Some((Separator::Header, at + 1))
            }
            b':' => Some((Separator::Colon, at + 1)),
            b'>' if self.before(left) == Some(b'<') && at == right => {
                Some((Separator::Element, at + 1))
            }
            b'>' if is_closed && at == named && self.is_key(left) => {
                Some((Separator::Element, at + 1))
            }
            // An assignment in R.
            b'<' if next == Some(b'-') => Some((Separator::Assigns, at + 2)),
            b'|' if at > right && self.text[..left].ends_with("| ") => {
                Some((Separator::Prose, self.skip_blanks(at + 1)))
            }
            b',' if is_closed => {
                let value = self.skip_blanks(at + 1);
                let quote = self.skip(value, |byte| byte == b'\\');
                self.byte(quote)
                    .is_some_and(is_quote)
                    .then_some((Separator::Comma, value))
            }
            b'(' if !is_closed && self.byte(at + 1).is_some_and(is_quote) => {
                Some((Separator::Call, at + 1))
            }
            b'\n' | b'\r' => self
                .value_below(left, at)
                .map(|value| (Separator::Below, value)),
            _ if is_closed && at > named && self.is_attribute(left) => {
                let value = self.text[at..].strip_prefix("value=")?;
                Some((Separator::Attribute, self.bytes.len() - value.len()))
            }
            _ if at > right && !is_closed && (is_option || self.is_variable(left, name)) => {
                Some((Separator::Blank, at))
            }
            b'\x1f' if is_option => Some((Separator::Blank, at + 1)),
            _ if at > named
                && !is_closed
                && PROSE.iter().any(|word| name.eq_ignore_ascii_case(word)) =>
            {
                let rest = &self.text[at..];
                let copula = COPULAS.iter().find(|copula| rest.starts_with(**copula));
                let is_spoken =
                    copula.is_some() && SPOKEN.iter().any(|word| name.eq_ignore_ascii_case(word));
                let separator = if is_spoken {
                    Separator::Copula
                } else {
                    Separator::Prose
                };
                Some((
                    separator,
                    self.skip_blanks(at + copula.map_or(0, |copula| copula.len())),
                ))
            }
            _ => None,
        }
    }

    /// Returns whether a quoted name is the value of an attribute: `key="Password"`.
    fn is_attribute(&self, left: usize) -> bool {
        self.before(left).is_some_and(is_quote)
            && left.checked_sub(1).and_then(|quote| self.before(quote)) == Some(b'=')
    }

    /// Returns whether a quoted name is the value of the attribute `key` or `name`.
    fn is_key(&self, left: usize) -> bool {
        if !self.is_attribute(left) {
            return false;
        }
        // The byte before the name is a quote.
        let before = &self.bytes[..left - 1];
        before.ends_with(b"key=") || before.ends_with(b"name=")
    }

    /// Returns whether a command that sets a variable precedes its name: `ENV`, `setenv`, `setx`, `set -g -x`.
    fn is_variable(&self, left: usize, name: &str) -> bool {
        let is_upper = !name.bytes().any(|byte| byte.is_ascii_lowercase());
        if !is_upper || !self.before(left).is_some_and(is_blank) {
            return false;
        }
        let from = self
            .text
            .floor_char_boundary(left.saturating_sub(MAX_COMMAND));
        let mut is_export = false;
        for word in self.text[from..left].split_ascii_whitespace().rev() {
            if !word.starts_with('-') {
                let is_command = ["ENV", "setenv", "setx"]
                    .iter()
                    .any(|command| word.ends_with(command));
                return is_command || is_export && word.ends_with("set");
            }
            is_export |= word.contains('x');
        }
        false
    }

    /// Position of the value on the line after `name: NAME`, where it is `value: …`.
    fn value_below(&self, left: usize, at: usize) -> Option<usize> {
        let from = self.text.floor_char_boundary(left.saturating_sub(8));
        let before = self.text[from..left].trim_end_matches(['"', '\'']);
        let is_named = ["name: ", "key: "]
            .iter()
            .any(|name| before.ends_with(name));
        let line = self.skip(at, |byte| byte.is_ascii_whitespace());
        let value = self.text[line..]
            .strip_prefix("value:")
            .filter(|_| is_named)?;
        Some(self.bytes.len() - value.len())
    }

    fn judgement(
        &self,
        separator: Separator,
        strength: Strength,
        left: usize,
        name: &str,
    ) -> Judgement {
        let is_upper = name.len() > 2 && !name.bytes().any(|byte| byte.is_ascii_lowercase());
        let is_strong = strength == Strength::Strong;
        match separator {
            Separator::Blank => Judgement::Certain,
            Separator::Equals
                if name.starts_with('-')
                    || matches!(self.before(left), Some(b'?' | b'&' | b'#')) =>
            {
                Judgement::Certain
            }
            Separator::Equals | Separator::Below if is_upper => Judgement::Certain,
            // A connection string, or a variable of a configuration.
            Separator::Equals if self.before(left) == Some(b';') || name.contains('_') => {
                Judgement::Likely
            }
            Separator::Prose | Separator::Call if is_upper && is_strong => Judgement::Likely,
            Separator::Prose | Separator::Copula | Separator::Call | Separator::Comma => {
                Judgement::Cautious
            }
            Separator::Header => Judgement::Likely,
            _ if is_strong => Judgement::Likely,
            _ => Judgement::Cautious,
        }
    }

    /// Masks the value, or the values of a list, that begins at `from`.
    pub(super) fn values(
        &mut self,
        from: usize,
        separator: Separator,
        judgement: Judgement,
        strength: Strength,
    ) {
        let from = match separator {
            Separator::Element => from,
            _ => self.skip_blanks(self.skip_colours(from)),
        };
        if separator == Separator::Element {
            if self.text[from..].starts_with(SECTION) {
                return self.section(from + SECTION.len(), judgement);
            }
            let to = self.skip(from, |byte| byte != b'<' && byte != b'\n');
            let value = self.text[from..to].trim();
            if self.byte(to) == Some(b'<') && is_secret_literal(value, judgement) {
                self.mask(from..to);
            }
            return;
        }
        if self.byte(from) == Some(b'[') && self.opens(from + 1).is_some() {
            let mut at = from + 1;
            while let Some((begin, delimiter)) =
                self.opens(self.skip(at, |byte| byte.is_ascii_whitespace() || byte == b','))
            {
                let value = self.quoted(begin, &delimiter);
                at = value.end;
                self.judge(&value, separator, judgement, strength);
                // The rest of a list within a list was read with it.
                if from < self.list_done {
                    break;
                }
            }
            self.list_done = self.list_done.max(at);
            return;
        }
        if separator == Separator::Colon && self.byte(from) == Some(b'{') {
            let highest = self.text.floor_char_boundary(from + MAX_BESIDE);
            let close = self.text[from..highest]
                .find('}')
                .map_or(highest, |at| from + at);
            self.examined(close - from);
            if let Some(at) = self.member(from..close)
                && let Some((begin, delimiter)) = self.opens(at)
            {
                let value = self.quoted(begin, &delimiter);
                self.judge(&value, separator, judgement, strength);
            }
            return;
        }
        // A block of YAML.
        if separator == Separator::Colon && matches!(self.byte(from), Some(b'|' | b'>')) {
            let indicator = self.skip(from + 1, |byte| {
                matches!(byte, b'-' | b'+') || byte.is_ascii_digit()
            });
            let line = self.skip(indicator, |byte| byte.is_ascii_whitespace());
            if self.text[indicator..line].contains('\n') {
                let to = self.skip(line, |byte| !matches!(byte, b'\n' | b'\r'));
                return self.judge(&Written::line(line..to), separator, judgement, strength);
            }
        }
        let mut from = from;
        let is_below = separator == Separator::Colon
            && strength == Strength::Strong
            && self.byte(from) == Some(b'\n');
        if is_below {
            from = self.skip(from, |byte| byte.is_ascii_whitespace());
        }
        let value = match self.opens(from) {
            Some((begin, delimiter)) => self.quoted(begin, &delimiter),
            None => self.unquoted(from),
        };
        let judgement = match is_below {
            true => Judgement::Cautious,
            false => judgement,
        };
        self.judge(&value, separator, judgement, strength);
    }

    /// Masks the text of a CDATA section, which begins at `from`. It may contain `<` and `>`.
    fn section(&mut self, from: usize, judgement: Judgement) {
        let highest = self.text.floor_char_boundary(from + MAX_JUDGED);
        let window = &self.text[from..highest];
        let close = window.find("]]>");
        self.examined(close.unwrap_or(window.len()));
        let close = close.or_else(|| {
            // A long token is in one line.
            let to = self.skip(from, |byte| byte != b'<' && byte != b'\n');
            self.text[from..to].find("]]>")
        });
        let section = &self.text[from..from + close.unwrap_or(0)];
        let value = section.trim();
        let is_secret = || {
            is_secret_literal(value, judgement)
                || is_secret_literal(&value.replace(['<', '>'], ""), judgement)
        };
        if !is_reference(value) && is_secret() {
            let from = from + (section.len() - section.trim_start().len());
            self.mask(from..from + value.len());
        }
    }

    /// Position after an opening quote at `at`, and the text that closes it.
    pub(super) fn opens(&self, at: usize) -> Option<(usize, String)> {
        // A prefix of a literal: `b"…"`, `$'…'`, `N'…'`.
        let is_prefix = self.byte(at).is_some_and(|byte| b"bfru$N".contains(&byte))
            && self.byte(at + 1).is_some_and(is_quote);
        let at = at + usize::from(is_prefix);
        let quote = self.skip(at, |byte| byte == b'\\');
        let byte = self.byte(quote).filter(|byte| is_quote(*byte))?;
        let mut delimiter = "\\".repeat(quote - at);
        delimiter.push(char::from(byte));
        Some((quote + 1, delimiter))
    }

    /// Value from `begin` to the text that closes it, or to the end of the line.
    pub(super) fn quoted(&self, begin: usize, delimiter: &str) -> Written {
        let quote = delimiter.as_bytes().last().copied();
        let mut at = begin;
        let (to, end) = loop {
            at = self.skip(at, |byte| byte != b'\n' && Some(byte) != quote);
            if self.byte(at).is_none_or(|byte| byte == b'\n') {
                break (at, at);
            }
            let slashes = self.bytes[begin..at]
                .iter()
                .rev()
                .take_while(|byte| **byte == b'\\')
                .count();
            let own = delimiter.len() - 1;
            // One more backslash escapes the quote.
            if slashes >= own && (slashes - own).is_multiple_of(2) {
                break (at - own, at + 1);
            }
            at += 1;
        };
        Written {
            range: begin..to,
            is_quoted: true,
            next: self.byte(end),
            end,
        }
    }

    pub(super) fn unquoted(&mut self, from: usize) -> Written {
        let is_end = |byte: u8| {
            byte.is_ascii_whitespace()
                || is_quote(byte)
                || matches!(
                    byte,
                    b'&' | b';' | b'|' | b'<' | b'>' | b',' | b'\x1f' | b'\x1b'
                )
        };
        if !self.run.contains(&from) {
            self.run = from..self.skip(from, |byte| !is_end(byte));
        }
        let end = self.run.end.max(from);
        // An escaped line end within a string ends the value too.
        let head = &self.bytes[from..end.min(from + MAX_JUDGED)];
        let escape = head
            .windows(2)
            .position(|pair| matches!(pair, [b'\\', b'n' | b'r' | b't']));
        let end = escape.map_or(end, |at| from + at);
        let is_closing = |byte: &u8| b")]}.:\\".contains(byte);
        let closing = self.bytes[from..end].iter().rev().take(MAX_CLOSING);
        let to = end - closing.take_while(|byte| is_closing(byte)).count();
        Written {
            range: from..to,
            is_quoted: false,
            next: self.byte(to),
            end,
        }
    }

    pub(super) fn judge(
        &mut self,
        value: &Written,
        separator: Separator,
        judgement: Judgement,
        strength: Strength,
    ) {
        // A value within a masked value: `TOKEN=TOKEN=…`.
        let is_within =
            |found: &Range<usize>| found.start <= value.range.start && value.range.end <= found.end;
        if self.found.last().is_some_and(is_within) {
            return;
        }
        // The beginning decides of a long value.
        let length = self.text[value.range.clone()].floor_char_boundary(MAX_JUDGED);
        let text = &self.text[value.range.start..value.range.start + length];
        self.examined(length);
        let is_secret = match value.is_quoted {
            true if matches!(separator, Separator::Prose | Separator::Copula) => {
                judgement == Judgement::Likely
                    && text.len() >= 3
                    && !text.contains(' ')
                    && !is_plain_value(text)
                    && !is_reference(text)
                    || is_secret_literal(text, Judgement::Cautious)
            }
            true => is_secret_literal(text, judgement),
            false => self.is_secret_word(text, value, separator, judgement, strength),
        };
        if is_secret {
            self.mask(value.range.clone());
        }
    }

    /// Returns whether an unquoted value is a secret.
    fn is_secret_word(
        &self,
        text: &str,
        value: &Written,
        separator: Separator,
        judgement: Judgement,
        strength: Strength,
    ) -> bool {
        if is_reference(text) || is_plain_value(text) || is_name(text) {
            return false;
        }
        let is_expression = text.contains(['(', '[', '{']) || value.next == Some(b'(');
        // The end of an argument or of a statement of a program.
        let is_argument = matches!(value.next, Some(b',' | b')' | b']' | b'}' | b';'));
        let is_line = value.next.is_none_or(|byte| {
            matches!(
                byte,
                b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'&' | b'|' | b'\x1f' | b'\\'
            )
        });
        let is_word = is_identifier(text) && !text.bytes().any(|byte| byte.is_ascii_digit());
        let is_capitals = is_capitals(text) && is_line;
        match separator {
            _ if is_expression => false,
            Separator::Blank => {
                let is_option = text.starts_with('-') || is_file(text);
                // Prose continues with another word.
                let is_prose = text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
                !is_option
                    && (!is_prose
                        || (is_line && text.len() >= MIN_OPTION_WORD)
                        || self.is_option_at(value.end))
            }
            Separator::Equals | Separator::Below if judgement == Judgement::Certain => {
                let is_expression = is_argument && is_code(text) && is_word;
                let is_count = text.len() < 4 && text.bytes().all(|byte| byte.is_ascii_digit());
                !(is_expression || is_count || text.starts_with('='))
            }
            Separator::Equals => {
                let is_argument = is_argument && value.next != Some(b';');
                let is_long = text.len() >= 4
                    && (strength == Strength::Strong
                        || judgement == Judgement::Likely
                        || value.next == Some(b';')
                        || is_capitals);
                let is_expression = is_code(text) || (is_argument && is_identifier(text));
                !is_expression && (is_long || (is_random(text) && !is_identifier(text)))
            }
            Separator::Header => !is_code(text) && text.len() >= 4,
            Separator::Colon if judgement == Judgement::Likely => {
                let is_literal = is_random(text) && !(is_argument && is_identifier(text));
                let is_lower = text
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
                let is_word = is_capitals || (is_lower && is_line && text.len() >= MIN_LINE_WORD);
                (!is_code(text) && (is_literal || is_word)) || (is_line && is_two_words(text))
            }
            Separator::Prose => {
                is_random(text)
                    && !is_code(text)
                    && (!is_identifier(text) || strength == Strength::Strong)
            }
            Separator::Copula => {
                !is_code(text)
                    && (is_random(text) || (is_line && (is_capitals || text.contains('-'))))
            }
            _ => {
                let is_lower = text.bytes().all(|byte| byte.is_ascii_lowercase());
                let is_long = is_lower && is_line && text.len() >= MIN_ASSIGNED_WORD;
                let is_word = strength == Strength::Strong && (is_capitals || is_long);
                !is_code(text) && ((is_random(text) && !is_identifier(text)) || is_word)
            }
        }
    }

    /// Returns whether the next word is an option.
    fn is_option_at(&self, at: usize) -> bool {
        let next = self.skip_blanks(at);
        next > at
            && self.byte(next) == Some(b'-')
            && self
                .byte(next + 1)
                .is_some_and(|byte| byte == b'-' || byte.is_ascii_alphabetic())
    }
}

/// Returns whether a quoted value, or the text of an element, is a secret.
fn is_secret_literal(text: &str, judgement: Judgement) -> bool {
    if is_reference(text) || is_plain_value(text) {
        return false;
    }
    if judgement == Judgement::Certain {
        return !text.contains(['{', '}']) || is_random(text);
    }
    if judgement == Judgement::Likely && (is_phrase(text) || has_mixed_word(text)) {
        return true;
    }
    if text.contains(char::is_whitespace)
        || text.contains(['<', '>', '{', '}', '(', ')'])
        || is_name(text)
    {
        return false;
    }
    match judgement {
        Judgement::Likely => {
            // Labels of user interfaces begin with a capital.
            let is_label = text.bytes().skip(1).all(|byte| byte.is_ascii_lowercase())
                && text.starts_with(|char: char| char.is_uppercase());
            let is_word = text.len() >= MIN_QUOTED_WORD
                && !is_label
                && !text.contains(['/', '.', '_', ':', '%']);
            (is_random(text) && !text.starts_with(['/', '.'])) || is_word
        }
        _ => {
            let is_long = judgement != Judgement::Long || text.len() >= MIN_TOKEN;
            is_random(text)
                && is_long
                && !is_code(text)
                && !is_identifier(text)
                && !text.contains("://")
        }
    }
}

/// Returns whether a text of several words has one of letters of both cases and digits.
fn has_mixed_word(text: &str) -> bool {
    let is_mixed = |word: &str| {
        word.len() >= MIN_MIXED
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && is_random(word)
            && !is_identifier(word)
            && word.bytes().any(|byte| byte.is_ascii_uppercase())
            && word.bytes().any(|byte| byte.is_ascii_lowercase())
    };
    text.contains(' ') && text.split(' ').any(is_mixed)
}

/// Returns whether a name is written as those of HTTP headers are: `X-Auth`.
fn is_header(name: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|char: char| char.is_ascii_uppercase())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    name.contains('-') && name.split('-').all(is_word)
}

pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}
