//! Passwords in URLs, and parameters of their queries.

use super::{Scanner, is_quote, token};
use crate::value::{is_capitals, is_plain_value, is_reference};

/// Maximum length of a password that contains a `/`.
const MAX_PASSWORD: usize = 256;

/// Minimum length of a user name that is a token.
const MIN_USER_TOKEN: usize = 12;

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
