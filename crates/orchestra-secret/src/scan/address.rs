//! Passwords in URLs, and parameters of their queries.

use super::{Scanner, is_quote, token};
use crate::value::{is_capitals, is_plain_value, is_reference};

/// Maximum length of a password that contains a `/`.
const MAX_PASSWORD: usize = 256;

/// Minimum length of a user name that is a token.
const MIN_USER_TOKEN: usize = 12;

/// Maximum number of bytes of a part of a login that is read.
const MAX_PART: usize = 128;

impl Scanner<'_> {
    /// Reads the authority of a URL whose `://` is given.
    pub(super) fn address(&mut self, start: usize, end: usize) {
        let is_end = |byte: u8| {
            byte.is_ascii_whitespace()
                || is_quote(byte)
                || matches!(byte, b'<' | b'>' | b'|' | b'\\' | b'\x1f')
        };
        let authority = self.skip(end, |byte| {
            !is_end(byte) && !matches!(byte, b'/' | b'?' | b'#')
        });
        let mut at = self.text[end..authority].rfind('@').map(|at| end + at);
        let colon = self.text[end..authority].find(':').map(|at| end + at);
        if at.is_none()
            && let Some(colon) = colon
            && !self.bytes[colon + 1..authority]
                .iter()
                .all(u8::is_ascii_digit)
        {
            // A password with a `/`, `?` or `#` that is not encoded.
            let last = (authority + MAX_PASSWORD).min(self.bytes.len());
            let rest = &self.bytes[authority..last];
            let found = rest.iter().position(|byte| *byte == b'@' || is_end(*byte));
            at = found
                .map(|found| authority + found)
                .filter(|at| self.byte(*at) == Some(b'@'));
        }
        let Some(at) = at else { return };
        let is_secret = |value: &str| !is_reference(value) && !is_plain_value(value);
        match self.text[end..at].find(':') {
            Some(colon) => {
                // A token with a word in the place of the password: `https://TOKEN:x-oauth-basic@host`.
                let user = &self.text[end..end + colon];
                let is_token = user.len() >= MIN_USER_TOKEN && token::is_random(user.as_bytes());
                if is_token && is_secret(user) {
                    self.mask(end..end + colon);
                }
                let password = end + colon + 1..at;
                if is_secret(&self.text[password.clone()]) {
                    self.mask(password);
                }
            }
            None => {
                let is_shell = start
                    .checked_sub(3)
                    .is_some_and(|from| self.bytes[from..start].eq_ignore_ascii_case(b"ssh"));
                let user = &self.text[end..at];
                let is_web = self.bytes[..start].ends_with(b"http")
                    || self.bytes[..start].ends_with(b"https");
                let is_token = user.len() >= MIN_USER_TOKEN && token::is_random(user.as_bytes());
                if !is_shell && is_secret(user) && (is_token || is_web && is_capitals(user)) {
                    self.mask(end..at);
                }
            }
        }
    }

    /// Reads the login before the address of a database, `user:secret@tcp(`, of which the `@` is given.
    pub(super) fn login(&mut self, at: usize) {
        let lowest = self
            .text
            .ceil_char_boundary(at.saturating_sub(2 * MAX_PART));
        let before = &self.text[lowest..at];
        self.examined(before.len());
        let is_outside = |char: char| char.is_whitespace() || matches!(char, '"' | '\'' | '`');
        let login = before.rsplit(is_outside).next().unwrap_or_default();
        let login = login.rsplit_once("://").map_or(login, |(_, login)| login);
        if let Some((_, password)) = login.split_once(':')
            && !is_reference(password)
            && !is_plain_value(password)
        {
            self.mask(at - password.len()..at);
        }
    }

    /// Reads the login of a URL of Oracle, `jdbc:oracle:thin:user/secret@host`, which begins at `from`.
    pub(super) fn thin(&mut self, from: usize) {
        let user = self.skip_at_most(from, |byte| {
            byte.is_ascii_alphanumeric() || b"_$".contains(&byte)
        });
        if self.byte(user) != Some(b'/') {
            return;
        }
        let to = self.skip_at_most(user + 1, |byte| {
            byte.is_ascii_graphic() && byte != b'@' && !is_quote(byte)
        });
        let password = &self.text[user + 1..to];
        if self.byte(to) == Some(b'@') && !is_reference(password) && !is_plain_value(password) {
            self.mask(user + 1..to);
        }
    }

    /// Reads the rest of a line of `.pgpass`, `database:user:secret`, which begins at `from`. The host and the port are
    /// before it.
    pub(super) fn password_file(&mut self, start: usize, from: usize) {
        // Part of a longer list: `arn:aws:lambda:*:*:function:name`.
        let is_line = self.is_boundary(start) && self.before(start) != Some(b':');
        if self.byte(start) == Some(b'*') && !is_line {
            return;
        }
        let is_part = |byte: u8| byte.is_ascii_graphic() && !is_quote(byte) && byte != b':';
        let database = self.skip_at_most(from, is_part);
        if self.byte(database) != Some(b':') || database == from {
            return;
        }
        let user = self.skip_at_most(database + 1, is_part);
        if self.byte(user) != Some(b':') || user == database + 1 {
            return;
        }
        let to = self.skip_at_most(user + 1, |byte| is_part(byte) && byte != b'/');
        let password = &self.text[user + 1..to];
        if !is_reference(password)
            && !is_plain_value(password)
            && self
                .byte(to)
                .is_none_or(|byte| !byte.is_ascii_graphic() || is_quote(byte))
        {
            self.mask(user + 1..to);
        }
    }

    /// First position from `at` on whose byte is not accepted, or the position after the longest part of a login.
    fn skip_at_most(&self, at: usize, accepts: impl Fn(u8) -> bool) -> usize {
        let rest = &self.bytes[at..self.bytes.len().min(at + MAX_PART)];
        let end = at + rest.iter().take_while(|byte| accepts(**byte)).count();
        self.examined(end - at + 1);
        end
    }

    /// Reads the value of a parameter that is a secret in the query of a URL.
    pub(super) fn parameter(&mut self, from: usize) {
        if from < self.parameter_done {
            return;
        }
        let to = self.skip(from, |byte| {
            byte.is_ascii_graphic()
                && !is_quote(byte)
                && !matches!(
                    byte,
                    b'&' | b'#' | b';' | b'<' | b'>' | b'|' | b'\\' | b')' | b','
                )
        });
        self.parameter_done = to;
        let value = &self.text[from..to];
        if !is_reference(value) && !is_plain_value(value) && !value.contains(['{', '(']) {
            self.mask(from..to);
        }
    }
}
