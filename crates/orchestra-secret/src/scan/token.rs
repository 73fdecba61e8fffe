//! Tokens of well-known forms, JSON Web Tokens, and private keys.

use super::Scanner;
use crate::table::{Alphabet, Before, Token};

/// Minimum length of a random part of a token.
const MIN_RUN: usize = 6;

/// Minimum lengths of the first two parts of a JSON Web Token.
const MIN_JWT_PARTS: [usize; 2] = [8, 8];

/// Minimum and maximum lengths of the parts of a token of Discord.
const DISCORD_PARTS: [(usize, usize); 3] = [(23, 28), (6, 6), (27, 40)];

/// Maximum length of the label of a PEM block.
const MAX_LABEL: usize = 80;

/// Minimum length of the body of a private key.
const MIN_KEY_BYTES: usize = 24;

impl Scanner<'_> {
    pub(super) fn token(&mut self, token: &Token, start: usize, end: usize) {
        if &self.text[start..end] != token.prefix || !self.is_allowed(token.before, start) {
            return;
        }
        // A longer prefix may begin at the same place.
        let done = self.token_done[token.alphabet as usize];
        let is_longer = self
            .tokens
            .last()
            .is_some_and(|last| last.start == start && last.end == done);
        if start < done && !is_longer {
            return;
        }
        let rest = self.skip(end, |byte| token.alphabet.has(byte));
        let rest = end
            + self.text[end..rest]
                .trim_end_matches(['.', '-', ':', '@'])
                .len();
        // A digest may begin with any hexadecimal digits.
        let is_hex =
            |from: usize, to: usize| self.bytes[from..to].iter().all(u8::is_ascii_hexdigit);
        let is_digest = token.alphabet != Alphabet::Hex && is_hex(start, rest);
        // A digest or a UUID behind a number: `1764482078000000|550e8400-e29b-…`. The secret of an app of
        // Facebook has 32 digits.
        let is_id = || {
            let mut parts = self.bytes[end..rest].split(|byte| *byte == b'-');
            matches!(token.before, Before::Digits(_))
                && rest - end != 32
                && parts.all(|part| part.iter().all(u8::is_ascii_hexdigit))
        };
        if rest - end >= token.min && !is_digest && !is_id() && is_random(&self.bytes[end..rest]) {
            self.mask_token(start, end, rest);
        }
        if rest - end >= token.min {
            // A prefix within it begins no other secret.
            self.token_done[token.alphabet as usize] = rest;
        }
    }

    /// Reads the tokens of Discord: the number of a user, a time, and a signature, joined by full stops. A full stop
    /// occurs less often than the beginnings of such a number.
    pub(super) fn discord(&mut self) {
        let [user, time, signature] = DISCORD_PARTS;
        let count = |bytes: &mut dyn Iterator<Item = &u8>| {
            bytes.take_while(|byte| Alphabet::Word.has(**byte)).count()
        };
        if self.bytes.len() < user.0 + time.0 + signature.0 {
            return;
        }
        for (first, _) in self.text.match_indices('.') {
            let second = first + time.0 + 1;
            if self.byte(second) != Some(b'.') {
                continue;
            }
            let between = &self.bytes[first + 1..second];
            let lowest = first.saturating_sub(user.1 + 1);
            let before = count(&mut self.bytes[lowest..first].iter().rev());
            let after = count(&mut self.bytes[second + 1..].iter().take(signature.1 + 1));
            self.examined(before + after);
            let (start, end) = (first - before, second + 1 + after);
            if (user.0..=user.1).contains(&before)
                && (signature.0..=signature.1).contains(&after)
                && count(&mut between.iter()) == between.len()
                && matches!(self.bytes[start], b'M' | b'N' | b'O')
                && is_random(&self.bytes[start..end])
            {
                self.found.push(start..end);
            }
        }
    }

    /// Reads a token that is recognised by its end: `…-us12`, `…_mmk`.
    pub(super) fn suffix(&mut self, alphabet: Alphabet, length: usize, start: usize, end: usize) {
        let Some(from) = start.checked_sub(length) else {
            return;
        };
        let is_part = self.bytes[from..start]
            .iter()
            .all(|byte| alphabet.has(*byte));
        let to = match alphabet {
            Alphabet::Hex => {
                end + self.bytes[end..]
                    .iter()
                    .take(2)
                    .take_while(|byte| byte.is_ascii_digit())
                    .count()
            }
            _ => end,
        };
        let is_whole =
            self.is_boundary(from) && self.byte(to).is_none_or(|byte| !Alphabet::Word.has(byte));
        if is_part
            && is_whole
            && (alphabet != Alphabet::Hex || to > end)
            && is_random(&self.bytes[from..start])
        {
            self.mask(from..to);
        }
    }

    fn is_allowed(&self, before: Before, start: usize) -> bool {
        match before {
            Before::Any => true,
            Before::Boundary => self.is_boundary(start),
            Before::Digits(count) => start
                .checked_sub(count)
                .is_some_and(|from| self.bytes[from..start].iter().all(u8::is_ascii_digit)),
        }
    }

    pub(super) fn jwt(&mut self, start: usize, end: usize) {
        if start < self.jwt_done || &self.text[start..end] != "eyJ" || !self.is_boundary(start) {
            return;
        }
        let is_part = |byte| Alphabet::Word.has(byte) || byte == b'=';
        let header = self.skip(end, is_part);
        self.jwt_done = header;
        if header - end < MIN_JWT_PARTS[0] || self.byte(header) != Some(b'.') {
            return;
        }
        let payload = self.skip(header + 1, is_part);
        self.jwt_done = payload;
        if payload - header - 1 < MIN_JWT_PARTS[1] {
            return;
        }
        // A signature, or the parts of an encrypted token.
        let last = self.skip(payload, |byte| is_part(byte) || byte == b'.');
        self.jwt_done = last;
        let last = end + self.text[end..last].trim_end_matches('.').len();
        self.mask_token(start, end, last);
    }

    pub(super) fn pem(&mut self, start: usize, end: usize) {
        if start < self.pem_done {
            return;
        }
        let label = self.skip(end, |byte| byte.is_ascii_alphanumeric() || byte == b' ');
        if label - end > MAX_LABEL
            || !self.text[end..label]
                .to_ascii_uppercase()
                .contains("PRIVATE KEY")
        {
            return;
        }
        let head = self.skip(label, |byte| byte == b'-');
        let mut from = self.skip_line_ends(head);
        let mut to = self.skip(from, |byte| {
            byte.is_ascii_alphanumeric()
                || byte.is_ascii_whitespace()
                || b"+/=\\:,-.".contains(&byte)
        });
        if let Some(close) = self.text[from..to].find("-----END") {
            to = from + close;
        }
        self.pem_done = to;
        while to > from {
            let body = &self.text[from..to];
            let is_end = body.ends_with(|char: char| char.is_ascii_whitespace());
            let is_escape = ["\\n", "\\r", "\\"]
                .iter()
                .find(|escape| body.ends_with(**escape));
            match is_escape {
                _ if is_end => to -= 1,
                Some(escape) => to -= escape.len(),
                None => break,
            }
        }
        from = from.min(to);
        if to - from >= MIN_KEY_BYTES && is_random(&self.bytes[from..to]) {
            self.mask(from..to);
        }
    }

    /// Position after white space and escaped line ends.
    fn skip_line_ends(&self, mut at: usize) -> usize {
        loop {
            let next = match (self.byte(at), self.byte(at + 1)) {
                (Some(b'\\'), Some(b'n' | b'r')) => at + 2,
                (Some(byte), _) if byte.is_ascii_whitespace() => at + 1,
                (Some(b'\\'), Some(b'\\')) => at + 1,
                _ => return at,
            };
            at = next;
        }
    }
}

/// Returns whether a text has a run of letters and digits that no word has.
pub(super) fn is_random(text: &[u8]) -> bool {
    text.split(|byte| !byte.is_ascii_alphanumeric()).any(|run| {
        let digits = run.iter().filter(|byte| byte.is_ascii_digit()).count();
        let upper = run.iter().filter(|byte| byte.is_ascii_uppercase()).count();
        let lower = run.len() - digits - upper;
        let is_mixed = run.len() >= 2 * MIN_RUN && upper >= 3 && lower >= 3;
        let is_upper = run.len() >= 2 * MIN_RUN && lower == 0;
        // Only letters, but longer than a word.
        let is_long = run.len() >= 5 * MIN_RUN;
        run.len() >= MIN_RUN && digits > 0 || is_mixed || is_upper || is_long
    })
}
