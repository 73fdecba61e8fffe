//! Arguments of well-known programs.

use std::ops::Range;

use super::{Scanner, assignment::is_name_byte, is_quote};
use crate::{
    table::commands::{FORMS, Form, Take},
    value::{is_file, is_reference},
};

/// Number of programs of a pipeline that are considered after a printing program.
const MAX_PIPELINE: usize = 4;

/// Number of bytes of a word in which the drive of a path is looked for.
const MAX_DRIVE: usize = 64;

/// Number of bytes in which the end of a group of commands is looked for.
const MAX_GROUP: usize = 128;

/// Number of lines of a here-document that are secrets.
const MAX_DOCUMENT_LINES: usize = 8;

/// Maximum length of a word of options of one letter.
const MAX_OPTIONS: usize = 8;

/// Options of one letter without a value, which may precede `-u` in one word.
const FLAGS: &str = "sSfLkvigGINnaqZjJlRO";

/// Answers to questions, which are piped into programs as passwords are.
const ANSWERS: [&str; 4] = ["y", "yes", "n", "no"];

/// Progress of a form through the words of a command.
struct State {
    form: &'static Form,
    /// Whether a word of [`Form::after`] was read, or none is required.
    is_ready: bool,
    positional: usize,
    /// Whether the next word is the value of an option.
    is_pending: bool,
}

impl Scanner<'_> {
    /// Reads the command that begins with a program.
    pub(super) fn program(&mut self, start: usize, end: usize) {
        if !self.is_command(start, end) {
            return;
        }
        if start < self.command_done {
            // The command that contains it has read it, unless it is inside of a quoted argument.
            if start < self.nested_done || self.words.binary_search(&start).is_ok() {
                return;
            }
            let (words, end) = self.words(start);
            self.nested_done = end;
            self.command(&words, end);
            return;
        }
        let (words, end) = self.words(start);
        self.command_done = end;
        self.nested_done = self.nested_done.max(start);
        // A quoted argument with several words may be a command itself.
        let single = words
            .iter()
            .filter(|word| !self.text[(*word).clone()].contains(' '));
        self.words = single.map(|word| word.start).collect();
        self.command(&words, end);
    }

    /// Masks the secrets among the words of a command, and in its here-document, which begins behind `end`.
    fn command(&mut self, words: &[Range<usize>], end: usize) {
        if !self.run(words) {
            return;
        }
        self.input_done = self.input_done.max(end);
        let text = self.text;
        let mut words = words.iter().map(|word| &text[word.clone()]);
        if !words.any(|word| word == "<<") {
            return;
        }
        // `<<EOF`, `<<-EOF`, `<<-'EOF'`, `<<\EOF`
        let mut delimiters = words.map(|word| word.trim_start_matches(['-', '\\']));
        let Some(delimiter) = delimiters.find(|word| !word.is_empty()) else {
            return;
        };
        let mut at = end;
        for _ in 0..MAX_DOCUMENT_LINES {
            let from = match (self.byte(at), self.byte(at + 1)) {
                (Some(b'\r'), Some(b'\n')) => at + 2,
                (Some(b'\r'), None) | (Some(b'\n'), _) => at + 1,
                _ => return,
            };
            if from == self.bytes.len() {
                self.is_open = true;
                return;
            }
            at = self.skip(from, |byte| !matches!(byte, b'\n' | b'\r'));
            let rest = text[from..at].trim_start();
            let start = at - rest.len();
            let line = rest.trim_end();
            if line == delimiter {
                return;
            }
            // A command for a shell is no secret: `su me <<EOF`.
            if !line.contains(' ') {
                self.value(start..start + line.len());
            }
        }
    }

    /// Reads the arguments of a program that prints them, when they are the input of a program that reads a secret.
    pub(super) fn echo(&mut self, start: usize, end: usize) {
        let is_here = &self.text[start..end] == "<<<";
        if start < self.echo_done || !is_here && !self.is_command(start, end) {
            return;
        }
        let (printed, at) = self.words(start);
        self.echo_done = at;
        let is_substitution = start < self.input_done && self.before(start) == Some(b'(');
        if !is_substitution && !self.is_input(self.group_end(at)) {
            return;
        }
        let is_format =
            |word: &Range<usize>| self.text[word.clone()].contains('%') && printed.len() > 2;
        let arguments: Vec<Range<usize>> = match is_here {
            true => self.here_strings(&printed),
            false => {
                let arguments = printed.iter().skip(1).filter(|word| {
                    let text = &self.text[(*word).clone()];
                    !text.starts_with('-') && !is_format(word) && !ANSWERS.contains(&text)
                });
                arguments.cloned().collect()
            }
        };
        arguments
            .into_iter()
            .for_each(|argument| self.value(argument));
    }

    /// Returns whether a pipe at a position leads to a program that reads a secret.
    fn is_input(&mut self, mut at: usize) -> bool {
        for _ in 0..MAX_PIPELINE {
            if self.byte(at) != Some(b'|') || self.byte(at + 1) == Some(b'|') {
                return false;
            }
            let next = self.skip(at + 1, |byte| {
                byte == b' ' || byte == b'\t' || byte == b'\n' || byte == b'\\'
            });
            let (words, end) = self.words(next);
            if self.run(&words) {
                return true;
            }
            if end <= at {
                return false;
            }
            at = end;
        }
        false
    }

    /// Position after the group of commands that the command before `at` belongs to: `(echo X; cat)`, `{ echo X; }`.
    fn group_end(&self, at: usize) -> usize {
        if !matches!(self.byte(at), Some(b';' | b')' | b'&')) {
            return at;
        }
        let rest = &self.bytes[at..self.bytes.len().min(at + MAX_GROUP)];
        self.examined(rest.len());
        let close = rest
            .iter()
            .position(|byte| matches!(byte, b')' | b'}' | b'|' | b'\n' | b'(' | b'{'));
        match close.filter(|close| matches!(rest[*close], b')' | b'}')) {
            Some(close) => self.skip_blanks(at + close + 1),
            None => at,
        }
    }

    /// Words after `<<<`.
    fn here_strings(&self, words: &[Range<usize>]) -> Vec<Range<usize>> {
        let pairs = words.iter().zip(words.iter().skip(1));
        let strings = pairs.filter(|(sign, _)| &self.text[(*sign).clone()] == "<<<");
        strings.map(|(_, string)| string.clone()).collect()
    }

    /// Returns whether the name of a program is where a command may begin.
    fn is_command(&self, start: usize, end: usize) -> bool {
        let begins = self.is_boundary(start)
            && !matches!(
                self.before(start),
                Some(b'-' | b'.' | b'_' | b':' | b'@' | b'=' | b'$' | b'#')
            );
        let end = match self.text[end..].starts_with(".exe") {
            true => end + 4,
            false => end,
        };
        begins
            && self
                .byte(end)
                .is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\x1f'))
    }

    /// Words of a command from `start` on, without their quotes, and the position where it ends.
    fn words(&self, start: usize) -> (Vec<Range<usize>>, usize) {
        let mut words = Vec::new();
        let mut at = start;
        loop {
            at = self.skip(at, |byte| matches!(byte, b' ' | b'\t' | b'\x1f'));
            let colour = self.skip_colours(at);
            if colour > at {
                at = colour;
                continue;
            }
            // A line that continues.
            if self.byte(at) == Some(b'\\') && self.byte(at + 1) == Some(b'\n') {
                at += 2;
                continue;
            }
            let Some(byte) = self.byte(at) else { break };
            let is_end = matches!(byte, b'\n' | b'\r' | b';' | b'|' | b'&' | b')' | b'`');
            if is_end || self.is_escaped_line_end(at, at) {
                break;
            }
            // A placeholder is a word: `-u <user>`.
            let close = match byte {
                b'<' => self.skip(at + 1, is_name_byte),
                _ => at,
            };
            if close > at + 1 && self.byte(close) == Some(b'>') {
                words.push(at..close + 1);
                at = close + 1;
                continue;
            }
            if byte == b'<' || byte == b'>' {
                let end = self.skip(at, |byte| matches!(byte, b'<' | b'>' | b'&'));
                words.push(at..end);
                at = end;
                continue;
            }
            let Some((word, end)) = self.word(at) else {
                break;
            };
            words.push(word);
            at = end;
        }
        (words, at)
    }

    /// Returns whether the end of a line is written as an escape at a position of a word, as in JSON. In a path, such as
    /// `C:\new`, it is none.
    fn is_escaped_line_end(&self, word: usize, at: usize) -> bool {
        let is_escape =
            self.byte(at) == Some(b'\\') && matches!(self.byte(at + 1), Some(b'n' | b'r'));
        let head = &self.bytes[word..at.min(word + MAX_DRIVE)];
        is_escape
            && !matches!(self.before(at), Some(b':' | b'.' | b'\\'))
            && !head.windows(2).any(|pair| pair == b":\\")
    }

    /// Word at `at` without its quotes and the position after it, or `None` where a quote closes the command.
    fn word(&self, at: usize) -> Option<(Range<usize>, usize)> {
        let mut end = at;
        loop {
            let plain = self.skip(end, |byte| {
                !is_quote(byte)
                    && !byte.is_ascii_whitespace()
                    && !matches!(
                        byte,
                        b';' | b'|' | b'<' | b'>' | b'&' | b'\x1b' | b'\x1f' | b'\\' | b')'
                    )
            });
            let delimiter = plain..self.skip(plain, |byte| byte == b'\\');
            let Some(quote) = self.byte(delimiter.end).filter(|byte| is_quote(*byte)) else {
                if delimiter.is_empty()
                    || self.is_escaped_line_end(at, plain)
                    || self
                        .byte(delimiter.end)
                        .is_none_or(|byte| byte.is_ascii_whitespace())
                {
                    end = plain;
                    break;
                }
                // A backslash inside of a word.
                end = delimiter.end
                    + self.text[delimiter.end..]
                        .chars()
                        .next()
                        .map_or(0, char::len_utf8);
                continue;
            };
            let opening = &self.text[plain..=delimiter.end];
            let inside = delimiter.end + 1;
            let line = self.skip(inside, |byte| byte != b'\n' && byte != quote);
            let close = (self.byte(line) == Some(quote)).then_some(line);
            // A quote that nothing closes in this word was opened before the command.
            let is_value = plain == at
                || self
                    .before(plain)
                    .is_some_and(|byte| matches!(byte, b'=' | b':' | b'/'))
                || plain - at == 2;
            match close {
                Some(close) if is_value => {
                    let own = self.bytes[inside..close]
                        .iter()
                        .rev()
                        .take(opening.len() - 1);
                    let slashes = own.take_while(|byte| **byte == b'\\').count();
                    let inner = inside..close - slashes;
                    if plain == at
                        && self.skip(close + 1, |byte| {
                            !byte.is_ascii_whitespace() && byte != b'\x1f' && !is_quote(byte)
                        }) == close + 1
                    {
                        return Some((inner, close + 1));
                    }
                    end = close + 1;
                }
                _ if plain > at => {
                    end = plain;
                    break;
                }
                _ => return None,
            }
        }
        (end > at).then_some((at..end, end))
    }

    /// Masks the secrets among the words of a command. Returns whether it reads a secret from its input.
    fn run(&mut self, words: &[Range<usize>]) -> bool {
        let mut states: Vec<State> = Vec::new();
        let mut is_target = false;
        for word in words {
            let text = &self.text[word.clone()];
            let is_sign = !text.is_empty() && text.bytes().all(|byte| b"<>&".contains(&byte));
            // The file or the text of a redirection is no argument. A sign behind other text may belong to an element:
            // `<b>docker login</b>`.
            let is_apart = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_digit();
            let is_redirect =
                is_sign && (text.len() > 1 || self.before(word.start).is_some_and(is_apart));
            if std::mem::replace(&mut is_target, is_redirect) || is_sign {
                states.iter_mut().for_each(|state| state.is_pending = false);
                continue;
            }
            if begin(&mut states, text) {
                continue;
            }
            for state in &mut states {
                if let Some(range) = state.step(text, word) {
                    let value = trimmed(self.text, range);
                    if !is_reference(&self.text[value.clone()]) {
                        self.found.push(value);
                    }
                }
            }
        }
        let reads = states
            .iter()
            .any(|state| state.is_ready && matches!(state.form.take, Take::Stdin));
        if reads {
            let strings = self.here_strings(words);
            strings.into_iter().for_each(|string| self.value(string));
        }
        reads
    }

    fn value(&mut self, range: Range<usize>) {
        if !is_reference(&self.text[range.clone()]) {
            self.mask(range);
        }
    }
}

/// Secrets of an argument list. The words are separate, so that no quotes are read.
pub(crate) fn arguments(words: &[&str]) -> Vec<Option<Range<usize>>> {
    let mut secrets: Vec<Option<Range<usize>>> = vec![None; words.len()];
    let mut states: Vec<State> = Vec::new();
    for (index, text) in words.iter().enumerate() {
        if begin(&mut states, text) {
            continue;
        }
        for state in &mut states {
            if let Some(range) = state.step(text, &(0..text.len()))
                && !is_reference(&text[range.clone()])
            {
                secrets[index] = Some(range);
            }
        }
    }
    secrets
}

/// Begins the forms of a program. Returns whether a word is the name of one.
fn begin(states: &mut Vec<State>, text: &str) -> bool {
    let program = text.rsplit('/').next().unwrap_or(text);
    let program = program.strip_suffix(".exe").unwrap_or(program);
    let is_pending = states.iter().any(|state| state.is_pending);
    if is_pending
        || text.starts_with('-')
        || !FORMS.iter().any(|form| form.programs.contains(&program))
        || is_subcommand(states, program)
    {
        return false;
    }
    // Forms that read the input remain (`sudo -S mysql`), and those in which the name of a program may be an argument
    // (`wpa_passphrase net …`).
    states.retain(|state| match state.form.take {
        Take::Stdin => state.is_ready,
        Take::Positional(_) => state.form.after.is_empty(),
        _ => false,
    });
    states.iter_mut().for_each(|state| state.positional += 1);
    let forms = FORMS.iter().filter(|form| form.programs.contains(&program));
    states.extend(forms.map(|form| State {
        form,
        is_ready: form.after.is_empty(),
        positional: 0,
        is_pending: false,
    }));
    true
}

/// Returns whether a word that is also the name of a program is a subcommand here: `docker login`, `net user`.
fn is_subcommand(states: &[State], word: &str) -> bool {
    states
        .iter()
        .any(|state| state.form.after.contains(&word) && !state.form.programs.contains(&word))
}

impl State {
    /// Reads the next word, which has the given range. Returns the range of a secret in it.
    fn step(&mut self, text: &str, word: &Range<usize>) -> Option<Range<usize>> {
        let found = match self.is_ready {
            true => self.take(text, word),
            false => None,
        };
        // `//registry.example/:_authToken`
        let member = text
            .strip_prefix("//")
            .and_then(|registry| registry.rsplit_once(':'))
            .map(|(_, member)| member);
        let mut after = self.form.after.iter();
        if after.any(|word| precedes(word, text) || Some(*word) == member) {
            self.is_ready = true;
            self.positional = 0;
        } else if self.is_ready
            && !text.starts_with('-')
            && (found.is_none() || matches!(self.form.take, Take::Positional(_)))
        {
            self.positional += 1;
        }
        found
    }

    fn take(&mut self, text: &str, word: &Range<usize>) -> Option<Range<usize>> {
        let from = |length: usize| (length < text.len()).then_some(word.start + length..word.end);
        let behind = |options: &[&str], is_glued: bool| {
            options.iter().find_map(|option| {
                let rest = text.strip_prefix(option)?;
                let rest = match option.starts_with("--") || !is_glued {
                    true => rest.strip_prefix('=')?,
                    false => rest.strip_prefix('=').unwrap_or(rest),
                };
                from(text.len() - rest.len())
            })
        };
        if std::mem::take(&mut self.is_pending) {
            return match self.form.take {
                Take::Pair(_) => pair(text, word, [':', '%', ',']),
                Take::Named(_) => pair(text, word, ['=']),
                _ => (!text.starts_with('-')).then(|| word.clone()),
            };
        }
        match self.form.take {
            Take::Value(options) => {
                self.is_pending = is_option(options, text);
                behind(options, true)
            }
            Take::Next(options) => {
                self.is_pending = options.contains(&text);
                behind(options, false)
            }
            Take::Glued(options) => behind(options, true),
            Take::Pair(options) => {
                self.is_pending = is_option(options, text);
                let flags = text.get(1..).unwrap_or_default();
                let flags =
                    flags.len() - flags.trim_start_matches(|flag| FLAGS.contains(flag)).len();
                let is_bundled = options.iter().any(|option| {
                    option.len() == 2
                        && text.starts_with('-')
                        && text[1 + flags..].starts_with(&option[1..])
                });
                let range = match is_bundled {
                    true => from(flags + 2)?,
                    false => behind(options, true)?,
                };
                pair(&text[range.start - word.start..], &range, [':', '%', ','])
            }
            Take::Named(options) => {
                self.is_pending = is_option(options, text);
                let range = behind(options, true)?;
                pair(&text[range.start - word.start..], &range, ['='])
            }
            Take::Login => {
                let login_at = text.len() - text.strip_prefix("userid=").unwrap_or(text).len();
                let range = login(&text[login_at..])?;
                let at = word.start + login_at;
                Some(at + range.start..at + range.end)
            }
            Take::Host => {
                self.is_pending = is_host(text);
                None
            }
            Take::Prefixed(prefixes) => prefixes.iter().find_map(|prefix| {
                text.strip_prefix(prefix)
                    .and_then(|rest| from(text.len() - rest.len()))
            }),
            Take::Positional(index) => {
                (!text.starts_with('-') && self.positional == index).then(|| word.clone())
            }
            Take::Assigned => {
                let (name, _) = text.split_once('=')?;
                (!text.starts_with('-')).then_some(())?;
                from(name.len() + 1).filter(|_| !text[name.len() + 1..].starts_with('@'))
            }
            Take::Stdin => None,
        }
    }
}

/// Returns whether `word` of [`Form::after`] accepts a word of a command.
fn precedes(word: &str, text: &str) -> bool {
    let is_bundled =
        word.len() == 2 && word.starts_with('-') && is_bundle(text) && text.contains(&word[1..]);
    text == word || is_bundled || word.ends_with('.') && text.starts_with(word)
}

/// Returns whether a word is one of some options, or several options of one letter of which the last is one: `-sSu`.
fn is_option(options: &[&str], text: &str) -> bool {
    options.iter().any(|option| {
        *option == text || option.len() == 2 && is_bundle(text) && text.ends_with(&option[1..])
    })
}

/// Returns whether a word may be several options of one letter.
fn is_bundle(text: &str) -> bool {
    let letters = text.strip_prefix('-').unwrap_or_default();
    (2..MAX_OPTIONS).contains(&letters.len())
        && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Returns whether a word of `bundle config` names a host: `gems.example`, but not `build.nokogiri`.
fn is_host(text: &str) -> bool {
    let is_setting = ["build.", "local.", "mirror.", "-"]
        .iter()
        .any(|prefix| text.starts_with(prefix));
    text.contains('.') && !text.contains('/') && !is_setting
}

/// Range of the secret of `user:secret`.
fn pair<const N: usize>(text: &str, word: &Range<usize>, parts: [char; N]) -> Option<Range<usize>> {
    let at = text.find(parts)?;
    (at + 1 < text.len()).then_some(word.start + at + 1..word.end)
}

/// Range of the password in the login of Oracle, `user/password@database`.
fn login(text: &str) -> Option<Range<usize>> {
    let (user, rest) = text.split_once('/')?;
    // The address may have a `/`: `user/password@//host/name`.
    let (password, is_address) = rest
        .split_once('@')
        .map_or((rest, false), |(password, _)| (password, true));
    let is_user = !user.is_empty()
        && user
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_$#".contains(&byte));
    let from = user.len() + 1;
    let is_password =
        !password.is_empty() && !password.contains('/') && (is_address || !is_file(password));
    (is_user && is_password).then_some(from..from + password.len())
}

/// Range without the quotes around its text.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let value = &text[range.clone()];
    let inner = value.trim_start_matches(['\\', '"', '\'']);
    let from = range.end - inner.len();
    let inner = inner.trim_end_matches(['"', '\'']);
    let inner = match value.len() == inner.len() {
        true => inner,
        false => inner.trim_end_matches('\\'),
    };
    from..from + inner.len()
}
