//! Values in statements and commands: of SQL, of Redis, of `--from-literal`, and of a user's option.

use std::ops::Range;

use super::{
    Scanner,
    assignment::{Judgement, MAX_BESIDE, MAX_JUDGED, MIN_LINE_WORD, Separator, is_name_byte},
    is_blank, is_quote, token,
};
use crate::{
    name::Strength,
    value::{is_code, is_plain_value, is_reference},
};

/// Number of bytes in which the end of the name of a user or of a plugin is looked for.
const MAX_USER: usize = 64;

/// Number of bytes before `SETUSER` in which `ACL` is looked for.
const MAX_ACL: usize = 16;

impl Scanner<'_> {
    /// Masks the password of `AUTH password` and `AUTH user password`.
    pub(super) fn redis(&mut self, at: usize) {
        let from = self.skip_blanks(at);
        if from == at {
            return;
        }
        let first = self.unquoted(from);
        let next = self.skip_blanks(first.end);
        let second = self.unquoted(next);
        let (first, second) = (first.range, second.range);
        let is_secret = |range: &Range<usize>| {
            let text = &self.text[range.clone()];
            text.len() <= MAX_JUDGED
                && token::is_random(text.as_bytes())
                && !is_code(text)
                && !is_reference(text)
        };
        let found = [second, first].into_iter().find(is_secret);
        found.into_iter().for_each(|range| self.mask(range));
    }

    /// Masks the passwords of `ACL SETUSER user on >password` and `aclSetUser("user", "on", ">password")`, of which
    /// `SETUSER` is given.
    pub(super) fn set_user(&mut self, start: usize, end: usize) {
        let before = &self.bytes[start.saturating_sub(MAX_ACL)..start];
        let is_part = |byte: u8| {
            is_blank(byte) || is_quote(byte) || matches!(byte, b',' | b'\\' | b'(' | b'_')
        };
        let parts = before
            .iter()
            .rev()
            .take_while(|byte| is_part(**byte))
            .count();
        let acl = before[..before.len() - parts].last_chunk::<3>();
        if !acl.is_some_and(|acl| acl.eq_ignore_ascii_case(b"acl"))
            || !self.byte(end).is_some_and(is_part)
        {
            return;
        }
        // A `>` without a quote compares, in the code of a program.
        let is_command = self.byte(end).is_some_and(is_blank);
        let highest = self.text.floor_char_boundary(end + MAX_BESIDE);
        let line = self.text[end..highest]
            .split(['\n', '\r'])
            .next()
            .unwrap_or_default();
        self.examined(line.len());
        let mut at = end;
        for word in line.split_inclusive([' ', '"', '\'']) {
            let text = word.trim_end_matches([' ', '"', '\'', '\\']);
            if let Some(password) = text.strip_prefix('>')
                && (is_command || self.before(at).is_some_and(is_quote))
                && !is_reference(password)
                && !is_plain_value(password)
            {
                self.mask(at + 1..at + 1 + password.len());
            }
            at += word.len();
        }
    }

    /// Reads the value of `password for user: secret` and `PASSWORD FOR user = 'secret'`.
    pub(super) fn password_for(&mut self, end: usize) {
        let highest = self.text.floor_char_boundary(end + MAX_USER);
        let user = &self.text[end..highest];
        let Some(at) = user.find(['=', ':', '\n']).map(|at| end + at) else {
            return;
        };
        let separator = match self.byte(at) {
            Some(b'=') => Separator::Assigns,
            Some(b':') if self.byte(at + 1).is_some_and(is_blank) => Separator::Colon,
            _ => return,
        };
        let judgement = match separator {
            Separator::Assigns => Judgement::Likely,
            _ => Judgement::Cautious,
        };
        self.values(at + 1, separator, judgement, Strength::Weak);
    }

    /// Reads the value of `name=secret` after an option such as `--from-literal`.
    pub(super) fn literal(&mut self, end: usize) {
        if end < self.literal_done {
            return;
        }
        let from = self.skip(end, |byte| {
            matches!(byte, b'=' | b' ' | b'\x1f') || is_quote(byte) || byte == b'\\'
        });
        if from == end {
            return;
        }
        let name = self.skip(from, |byte| is_name_byte(byte) || byte == b'/');
        if self.byte(name) != Some(b'=') {
            return;
        }
        let value = match self.before(from).filter(|byte| is_quote(*byte)) {
            Some(quote) => self.quoted(name + 1, &char::from(quote).to_string()),
            None => match self.opens(name + 1) {
                Some((begin, delimiter)) => self.quoted(begin, &delimiter),
                None => self.unquoted(name + 1),
            },
        };
        self.literal_done = value.range.end;
        if !is_reference(&self.text[value.range.clone()]) {
            self.mask(value.range);
        }
    }

    /// Reads the quoted password after `IDENTIFIED BY`, and after `IDENTIFIED WITH plugin BY`.
    pub(super) fn sql(&mut self, start: usize, end: usize) {
        let mut from = self.skip_blanks(end);
        if from == end {
            return;
        }
        if self.text[start..end].to_ascii_lowercase().ends_with("with") {
            let highest = self.text.floor_char_boundary(from + MAX_USER);
            let plugin = &self.text[from..highest];
            let plugin = plugin.find([' ', '\n']).map_or("", |at| &plugin[at..]);
            let by = ["by ", "as "].iter().find_map(|word| {
                let rest = plugin.trim_start().get(word.len()..)?;
                plugin.trim_start()[..word.len()]
                    .eq_ignore_ascii_case(word)
                    .then_some(rest)
            });
            let Some(rest) = by else {
                return;
            };
            from = self.skip_blanks(highest - rest.len());
        }
        if self.text[from..]
            .get(..8)
            .is_some_and(|word| word.eq_ignore_ascii_case("password"))
        {
            from = self.skip_blanks(from + 8);
        }
        // Prose that names an identifier: "the node identified by `nodeId`".
        if self.byte(from) == Some(b'`') {
            return;
        }
        if let Some((begin, delimiter)) = self.opens(from) {
            let value = self.quoted(begin, &delimiter);
            let text = &self.text[value.range.clone()];
            if !is_reference(text) && !is_plain_value(text) {
                self.mask(value.range);
            }
        }
    }

    /// Reads the value of an option `-u user:secret`.
    pub(super) fn user(&mut self, start: usize, end: usize) {
        let is_option = self.byte(start) == Some(b' ')
            || self
                .before(start)
                .is_none_or(|byte| byte.is_ascii_whitespace() || is_quote(byte));
        let from = self.skip(end, |byte| {
            is_blank(byte) || is_quote(byte) || matches!(byte, b'=' | b'\\' | b'\x1f')
        });
        if !is_option || from == end {
            return;
        }
        let value = self.unquoted(from);
        if let Some((user, secret)) = self.text[value.range.clone()].split_once(':')
            && !user.is_empty()
            && !is_code(user)
            && !secret.contains(['/', ':'])
            && secret != user
            && secret.len() >= MIN_LINE_WORD
            && !secret.bytes().all(|byte| byte.is_ascii_digit())
            && !is_plain_value(secret)
            && !is_reference(secret)
        {
            self.mask(value.range.end - secret.len()..value.range.end);
        }
    }
}
