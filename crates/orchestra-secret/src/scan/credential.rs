//! Credentials of HTTP headers: `Authorization`, `Cookie`, and authentication schemes.

use super::{Scanner, is_blank, is_quote, token};
use crate::{
    table::{Alphabet, SCHEMES},
    value::{is_code, is_identifier, is_plain_value, is_random, is_reference},
};

/// Minimum lengths of a credential that follows a scheme without the name of its header.
const MIN_CREDENTIAL: usize = 6;
const MIN_BASIC: usize = 8;

/// Schemes whose credential is a list of parameters.
const WITH_PARAMETERS: [&str; 4] = ["digest", "aws4-hmac-sha256", "hawk", "oauth"];

impl Scanner<'_> {
    /// Reads the credential after `Bearer` or `Basic`.
    pub(super) fn scheme(&mut self, start: usize, end: usize) {
        let from = self.skip(end, |byte| is_blank(byte) || byte == b'\x1f');
        if from == end || !self.is_boundary(start) {
            return;
        }
        let to = self.skip(from, |byte| {
            Alphabet::Base64.has(byte) || byte == b'~' || byte == b'*'
        });
        let value = self.text[from..to].trim_end_matches(['.', '-', '/']);
        if is_reference(value) || is_plain_value(value) {
            return;
        }
        let is_basic = self.text[start..end].eq_ignore_ascii_case("basic");
        let is_secret = match is_basic {
            true => {
                value.len() >= MIN_BASIC
                    && (token::is_random(value.as_bytes()) || value.ends_with('='))
            }
            false => {
                value.len() >= MIN_CREDENTIAL
                    && (is_random(value) || token::is_random(value.as_bytes()))
                    && !is_identifier(value)
            }
        };
        if is_secret {
            self.mask(from..from + value.len());
        }
    }

    /// Reads the value of an `Authorization` header, which begins at `from`. An open quote is passed already.
    pub(super) fn authorization(&mut self, from: usize, closes: Option<u8>) {
        if from < self.credential_done {
            return;
        }
        let is_end = |byte: u8| {
            matches!(byte, b'\n' | b'\r')
                || closes.map_or_else(|| is_quote(byte), |quote| byte == quote)
        };
        let is_word =
            |byte: u8| byte.is_ascii_graphic() && !is_end(byte) && !matches!(byte, b',' | b';');
        let text = self.text;
        let trimmed = |from: usize, to: usize| from + text[from..to].trim_end_matches('\\').len();
        let first = trimmed(from, self.skip(from, is_word));
        self.credential_done = first;
        let scheme = &self.text[from..first];
        let second = self.skip_blanks(first);
        let letters: String = scheme.chars().filter(char::is_ascii_alphanumeric).collect();
        let is_scheme = SCHEMES.contains(&letters.to_ascii_lowercase().as_str());
        if second > first && self.byte(second).is_some_and(is_word) {
            if WITH_PARAMETERS
                .iter()
                .any(|with| scheme.eq_ignore_ascii_case(with))
            {
                if second < self.digest_done {
                    return;
                }
                let end = self.parameters(second);
                self.digest_done = end;
                if end > second {
                    self.mask(second..end);
                }
                if end > second || is_scheme {
                    return;
                }
            }
            let end = trimmed(
                second,
                self.skip(second, |byte| is_word(byte) && byte != b'|'),
            );
            let value = self.text[second..end].trim_end_matches([')', '.', ']', '}']);
            let is_secret =
                !is_reference(value) && !is_plain_value(value) && !value.contains(['(', '{', '<']);
            if is_secret && (is_scheme || is_random(value) && !is_identifier(value)) {
                self.mask(second..second + value.len());
            }
            if is_scheme {
                return;
            }
        }
        let value = scheme.trim_end_matches([')', '.', ']', '}']);
        let is_secret =
            is_random(value) && !is_code(value) && !is_identifier(value) && !is_reference(value);
        if is_secret && !is_scheme {
            self.mask(from..from + value.len());
        }
    }

    /// Position after a list of parameters, `name=value, name="value"`, that begins at `at`.
    fn parameters(&self, mut at: usize) -> usize {
        let mut end = at;
        loop {
            let name = self.skip(at, |byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
            });
            if name == at || self.byte(name) != Some(b'=') {
                return end;
            }
            end = match self.opens(name + 1) {
                Some((begin, delimiter)) => self.quoted(begin, &delimiter).end,
                None => self.skip(name + 1, |byte| {
                    byte.is_ascii_graphic() && !is_quote(byte) && !matches!(byte, b',' | b'\\')
                }),
            };
            at = self.skip(end, |byte| is_blank(byte) || byte == b',');
            if at == end {
                return end;
            }
        }
    }

    /// Reads the value of a `Cookie` or `Set-Cookie` header, which begins at `from`.
    pub(super) fn cookies(&mut self, from: usize) {
        if from < self.cookie_done {
            return;
        }
        let to = self.skip(from, |byte| {
            !matches!(byte, b'\n' | b'\r') && !is_quote(byte)
        });
        self.cookie_done = to;
        let to = from + self.text[from..to].trim_end_matches('\\').len();
        let text = &self.text[from..to];
        let mut pairs = text.split(';').filter_map(|pair| pair.split_once('='));
        let is_cookie = pairs.any(|(name, value)| {
            let name = name.trim();
            let is_name = !name.is_empty() && name.bytes().all(|byte| Alphabet::Dotted.has(byte));
            is_name
                && !value.starts_with(['=', '>', ' '])
                && value.len() >= 3
                && !is_reference(value)
                && !is_plain_value(value)
                && !value.contains(['(', '{'])
        });
        if is_cookie {
            self.mask(from..to);
        }
    }
}
