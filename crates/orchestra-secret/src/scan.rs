//! Search for secrets in a text. One pass finds every place where a secret may begin; each kind of place then reads
//! its surroundings once, so that the whole takes linear time.

mod address;
mod assignment;
mod beside;
mod command;
mod credential;
mod statement;
mod token;

use std::{
    cmp::Reverse,
    ops::Range,
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::table::{Alphabet, SECRET_PARAMETERS, TOKENS, commands::FORMS};

/// Parts of names that mean a secret, at which a name is read.
const STEMS: [&str; 17] = [
    "secret",
    "pass",
    "token",
    "key",
    "auth",
    "credential",
    "cookie",
    "jwt",
    "dsn",
    "pw",
    "otp",
    "mnemonic",
    "psk",
    "creds",
    "connection",
    "pin",
    "bearer",
];

/// Kind of place where a secret may begin.
#[derive(Debug, Clone, Copy)]
enum Trigger {
    /// Prefix of a token, by its index in the table.
    Token(usize),
    /// Part of a name.
    Name,
    /// `://` of a URL.
    Url,
    /// Parameter of a URL's query, up to `=`.
    Parameter,
    /// Authentication scheme.
    Scheme,
    /// Beginning of a JSON Web Token.
    Jwt,
    /// Beginning of a PEM block.
    Pem,
    /// Name of a program.
    Program,
    /// Program that prints its arguments, or a sign before its input.
    Echo,
    /// Option whose value is `name=secret`.
    Literal,
    /// Words before a quoted password in SQL.
    Sql,
    /// Words before the name of the user whose password follows.
    PasswordFor,
    /// Command that sets the password of a user of Redis.
    SetUser,
    /// End of the login of a database.
    Login,
    /// Beginning of a URL of Oracle.
    Thin,
    /// Host and port of a line of a password file.
    PasswordFile,
    /// End of a token, and what precedes it.
    Suffix(Alphabet, usize),
    /// Option whose value is `user:secret` with many programs.
    User,
}

/// Maximum length of a text that is compared with each trigger at each position.
const MAX_SHORT_BYTES: usize = 4 * 1024;

/// Number of bytes of short texts until the automaton is built. Its construction takes as long as these comparisons,
/// and many processes, such as hooks, read less.
const SHORT_BYTES: usize = 64 * 1024;

/// Triggers, and how a text is searched for them.
struct Triggers {
    kinds: Vec<Trigger>,
    /// In the order of the kinds.
    texts: Vec<String>,
    /// Triggers by their first byte, in lower case.
    by_first: [Vec<usize>; 256],
    /// Bytes of short texts that are still compared.
    short: AtomicUsize,
    automaton: OnceLock<Option<AhoCorasick>>,
}

static TRIGGERS: LazyLock<Triggers> = LazyLock::new(Triggers::new);

impl Triggers {
    fn new() -> Self {
        let mut patterns: Vec<(String, Trigger)> = Vec::new();
        let mut add = |text: &str, kind| patterns.push((text.to_owned(), kind));
        for (index, token) in TOKENS.iter().enumerate() {
            add(token.prefix, Trigger::Token(index));
        }
        STEMS.iter().for_each(|stem| add(stem, Trigger::Name));
        ["_pat", "-pat"]
            .iter()
            .for_each(|stem| add(stem, Trigger::Name));
        for name in SECRET_PARAMETERS {
            let name = match *name {
                "samlresponse" => "SAMLResponse",
                "xamzsignature" => "X-Amz-Signature",
                "xgoogsignature" => "X-Goog-Signature",
                "codeverifier" => "code_verifier",
                name => name,
            };
            for before in ["?", "&", "#", "&amp;", "u0026"] {
                add(&format!("{before}{name}="), Trigger::Parameter);
            }
        }
        add("://", Trigger::Url);
        ["bearer", "basic"]
            .iter()
            .for_each(|scheme| add(scheme, Trigger::Scheme));
        add("eyJ", Trigger::Jwt);
        add("-----BEGIN", Trigger::Pem);
        let mut programs: Vec<&str> = FORMS
            .iter()
            .flat_map(|form| form.programs)
            .copied()
            .collect();
        programs.sort_unstable();
        programs.dedup();
        programs
            .iter()
            .for_each(|program| add(program, Trigger::Program));
        ["echo", "printf", "yes", "<<<"]
            .iter()
            .for_each(|program| add(program, Trigger::Echo));
        add("from-literal", Trigger::Literal);
        ["identified by", "identified with"]
            .iter()
            .for_each(|words| add(words, Trigger::Sql));
        add("password for", Trigger::PasswordFor);
        add("setuser", Trigger::SetUser);
        ["@tcp(", "@unix("]
            .iter()
            .for_each(|address| add(address, Trigger::Login));
        add("jdbc:oracle:thin:", Trigger::Thin);
        ["*:*:", ":5432:"]
            .iter()
            .for_each(|host| add(host, Trigger::PasswordFile));
        add("-us", Trigger::Suffix(Alphabet::Hex, 32));
        add("_mmk", Trigger::Suffix(Alphabet::Word, 36));
        [" -u", "--user", "--creds"]
            .iter()
            .for_each(|option| add(option, Trigger::User));
        let (texts, kinds): (Vec<String>, _) = patterns.into_iter().unzip();
        let mut by_first = [const { Vec::new() }; 256];
        for (index, text) in texts.iter().enumerate() {
            by_first[usize::from(text.as_bytes()[0].to_ascii_lowercase())].push(index);
        }
        Self {
            kinds,
            texts,
            by_first,
            short: AtomicUsize::new(SHORT_BYTES),
            automaton: OnceLock::new(),
        }
    }

    /// Calls `at` with the kind and the range of each trigger in a text, in the order of their ends; of those with the
    /// same end, the longest is first.
    fn each(&self, text: &str, mut at: impl FnMut(Trigger, usize, usize)) {
        let rest = |rest: usize| rest.checked_sub(text.len());
        let is_short = text.len() <= MAX_SHORT_BYTES
            && self.short.fetch_update(Relaxed, Relaxed, rest).is_ok();
        if is_short {
            for (end, start, index) in self.compared(text.as_bytes()) {
                at(self.kinds[index], start, end);
            }
        } else if let Some(automaton) = self.automaton() {
            for hit in automaton.find_overlapping_iter(text) {
                at(self.kinds[hit.pattern().as_usize()], hit.start(), hit.end());
            }
        }
    }

    /// Returns end, beginning and index of each trigger in a text, in this order.
    fn compared(&self, text: &[u8]) -> Vec<(usize, usize, usize)> {
        let mut hits = Vec::new();
        for (start, first) in text.iter().enumerate() {
            for &index in &self.by_first[usize::from(first.to_ascii_lowercase())] {
                let trigger = self.texts[index].as_bytes();
                let end = start + trigger.len();
                if text
                    .get(start..end)
                    .is_some_and(|found| found.eq_ignore_ascii_case(trigger))
                {
                    hits.push((end, start, index));
                }
            }
        }
        hits.sort_unstable();
        hits
    }

    /// The automaton that finds all triggers in one pass.
    fn automaton(&self) -> Option<&AhoCorasick> {
        let automaton = self.automaton.get_or_init(|| {
            let automaton = AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(&self.texts);
            // The triggers are constant and far below the limits of the automaton: a test builds it.
            automaton.ok()
        });
        automaton.as_ref()
    }
}

pub(crate) use command::arguments;

/// Token with its prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundToken {
    pub(crate) start: usize,
    /// Position after the prefix.
    pub(crate) rest: usize,
    pub(crate) end: usize,
}

/// Secrets in a text.
pub(crate) struct Secrets {
    /// Ranges in any order.
    pub(crate) found: Vec<Range<usize>>,
    /// Tokens among them, in the order of their beginnings.
    pub(crate) tokens: Vec<FoundToken>,
    /// Set if the text ends within a here-document of secrets.
    pub(crate) is_open: bool,
}

/// Searches a text for secrets.
pub(crate) fn secrets(text: &str) -> Secrets {
    let Scanner {
        found,
        mut tokens,
        is_open,
        ..
    } = Scanner::of(text);
    // Of the prefixes of one token, the longest counts.
    tokens.sort_unstable_by_key(|token| (token.start, Reverse(token.end), Reverse(token.rest)));
    tokens.dedup_by_key(|token| token.start);
    Secrets {
        found,
        tokens,
        is_open,
    }
}

/// Ranges in order, with overlapping ranges joined.
pub(crate) fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// State of one search. The fields that end in `done` hold positions up to which a kind was read already.
struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    found: Vec<Range<usize>>,
    tokens: Vec<FoundToken>,
    name_done: usize,
    parameter_done: usize,
    literal_done: usize,
    list_done: usize,
    credential_done: usize,
    digest_done: usize,
    echo_done: usize,
    cookie_done: usize,
    pem_done: usize,
    jwt_done: usize,
    token_done: [usize; Alphabet::COUNT],
    command_done: usize,
    nested_done: usize,
    /// End of the last command that reads a secret from its input.
    input_done: usize,
    /// Set if the text ends within a here-document of secrets.
    is_open: bool,
    /// Beginnings of the words of the last command.
    words: Vec<usize>,
    /// Last run of bytes without an end of a value.
    run: Range<usize>,
    /// Number of bytes that were examined.
    #[cfg(test)]
    steps: std::cell::Cell<usize>,
}

impl<'t> Scanner<'t> {
    /// Returns the state after a whole text was searched.
    fn of(text: &'t str) -> Self {
        let mut scanner = Self::new(text);
        TRIGGERS.each(text, |kind, start, end| scanner.at(kind, start, end));
        scanner.discord();
        scanner
    }

    fn new(text: &'t str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            found: Vec::new(),
            tokens: Vec::new(),
            name_done: 0,
            parameter_done: 0,
            literal_done: 0,
            list_done: 0,
            credential_done: 0,
            digest_done: 0,
            echo_done: 0,
            cookie_done: 0,
            pem_done: 0,
            jwt_done: 0,
            token_done: [0; Alphabet::COUNT],
            command_done: 0,
            nested_done: 0,
            input_done: 0,
            is_open: false,
            words: Vec::new(),
            run: 0..0,
            #[cfg(test)]
            steps: std::cell::Cell::new(0),
        }
    }

    fn at(&mut self, kind: Trigger, start: usize, end: usize) {
        match kind {
            Trigger::Token(index) => self.token(&TOKENS[index], start, end),
            Trigger::Name => self.name(start, end),
            Trigger::Url => self.address(start, end),
            Trigger::Parameter => self.parameter(end),
            Trigger::Scheme => self.scheme(start, end),
            Trigger::Jwt => self.jwt(start, end),
            Trigger::Pem => self.pem(start, end),
            Trigger::Program => self.program(start, end),
            Trigger::Echo => self.echo(start, end),
            Trigger::Literal => self.literal(end),
            Trigger::Sql => self.sql(start, end),
            Trigger::PasswordFor => self.password_for(end),
            Trigger::SetUser => self.set_user(start, end),
            Trigger::Login => self.login(start),
            Trigger::Thin => self.thin(end),
            Trigger::PasswordFile => self.password_file(start, end),
            Trigger::Suffix(alphabet, length) => self.suffix(alphabet, length, start, end),
            Trigger::User => self.user(start, end),
        }
    }

    fn mask(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.found.push(range);
        }
    }

    /// Masks a token, of which the prefix remains where nothing before it is masked.
    fn mask_token(&mut self, start: usize, rest: usize, end: usize) {
        self.tokens.push(FoundToken { start, rest, end });
        self.mask(start..end);
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn before(&self, at: usize) -> Option<u8> {
        at.checked_sub(1).and_then(|at| self.byte(at))
    }

    /// First position from `at` on whose byte is not accepted.
    fn skip(&self, at: usize, accepts: impl Fn(u8) -> bool) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let end = at + rest.iter().take_while(|byte| accepts(**byte)).count();
        self.examined(end - at + 1);
        end
    }

    /// Counts bytes that are examined, for tests of the time that a search takes.
    #[cfg(test)]
    fn examined(&self, bytes: usize) {
        self.steps.set(self.steps.get() + bytes);
    }

    #[cfg(not(test))]
    fn examined(&self, _: usize) {}

    /// First position of a name that begins at `left`, without the end of an escape sequence (`ESC [ 3 2 m`).
    fn after_colour(&self, left: usize, limit: usize) -> usize {
        let end = self.skip(left, |byte| byte.is_ascii_digit());
        let is_colour = self.byte(end) == Some(b'm') && end < limit && self.is_colour(end);
        if is_colour { end + 1 } else { left }
    }

    /// Position after escape sequences that set colours.
    fn skip_colours(&self, mut at: usize) -> usize {
        while self.byte(at) == Some(b'\x1b') && self.byte(at + 1) == Some(b'[') {
            let end = self.skip(at + 2, |byte| byte.is_ascii_digit() || byte == b';');
            match self.byte(end) {
                Some(b'm') => at = end + 1,
                _ => break,
            }
        }
        at
    }

    fn skip_blanks(&self, at: usize) -> usize {
        self.skip(at, is_blank)
    }

    /// Returns whether no letter or digit precedes `at`, apart from an escape sequence (`\n`) or a colour.
    fn is_boundary(&self, at: usize) -> bool {
        let Some(before) = self.before(at) else {
            return true;
        };
        if !before.is_ascii_alphanumeric() {
            return true;
        }
        let is_escape = matches!(before, b'n' | b'r' | b't') && self.before(at - 1) == Some(b'\\');
        is_escape || (before == b'm' && self.is_colour(at - 1))
    }

    /// Returns whether the `m` at a position ends an escape sequence of a terminal, as `ESC [ 3 1 m` does.
    fn is_colour(&self, at: usize) -> bool {
        let from = at.saturating_sub(12);
        let parameters = self.bytes[from..at].iter().rev();
        let count = parameters
            .take_while(|byte| byte.is_ascii_digit() || **byte == b';')
            .count();
        self.before(at - count) == Some(b'[')
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

#[cfg(test)]
mod tests;
