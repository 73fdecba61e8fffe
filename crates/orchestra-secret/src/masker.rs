//! The masker: table and known values applied to texts and argument lists.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt,
    ops::Range,
    sync::{PoisonError, RwLock},
};

use crate::{
    MASK,
    known::Known,
    name::is_secret_name,
    scan::{self, Secrets},
    stream::Stream,
    table::SCHEMES,
    value::{is_reference, url_passwords},
};

/// Masks secrets: those of the table, the values that its caller knows, and those that the process knows
/// ([`Masker::install`]).
///
/// A clone shares the known values. Its `Debug` form shows only how many there are.
#[derive(Clone)]
pub struct Masker {
    known: Known,
    pub(crate) members: BTreeSet<String>,
}

/// Values that every masker of this process knows.
static OF_PROCESS: RwLock<Option<Known>> = RwLock::new(None);

impl Default for Masker {
    /// Returns a masker of the table and the values that the process knows.
    fn default() -> Self {
        let known = OF_PROCESS.read().unwrap_or_else(PoisonError::into_inner);
        Self {
            known: known.clone().unwrap_or_default(),
            ..Self::table()
        }
    }
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Masker({} values)", self.known.len())
    }
}

/// Number of bytes behind a cut that are read to recognise a secret before it.
const MAX_READ_BEHIND: usize = 4 * 1024;

/// Masks the secrets that a [`Masker::default`] knows in the beginning of a text, and cuts it to at most `max` bytes.
#[must_use]
pub fn excerpt(text: &str, max: usize) -> String {
    Masker::default().excerpt(text, max)
}

/// Masks the secrets that a [`Masker::default`] knows in a text.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    Masker::default().text(text)
}

impl Masker {
    /// Returns a masker of the table alone.
    #[must_use]
    pub fn table() -> Self {
        Self {
            known: Known::default(),
            members: BTreeSet::new(),
        }
    }

    /// Makes the known values of this masker known to every masker that the process creates from now on, wherever it
    /// does. They replace those of an earlier call, which a masker of [`Masker::default`] has as well.
    pub fn install(self) {
        let mut known = OF_PROCESS.write().unwrap_or_else(PoisonError::into_inner);
        *known = Some(self.known);
    }

    /// Returns a masker of the table, the values that the process knows, and these values.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        Self::default().values(values)
    }

    /// Masks these values in any text. Values that are no secret by [`crate::is_secret_value`] are ignored.
    #[must_use]
    pub fn values<'a>(mut self, values: impl IntoIterator<Item = &'a str>) -> Self {
        self.known.extend(values);
        self
    }

    /// Masks this value in any text.
    #[must_use]
    pub fn value(self, value: &str) -> Self {
        self.values([value])
    }

    /// Masks the values of the variables whose names mean a secret, and the passwords of all URLs among the values.
    #[must_use]
    pub fn environment<N: AsRef<str>, V: AsRef<str>>(
        self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut secrets = Vec::new();
        for (name, value) in variables {
            let value = value.as_ref();
            secrets.extend(url_passwords(value).map(str::to_owned));
            if is_secret_name(name.as_ref()) && !is_url(value) {
                // The credential without its scheme: `Bearer …`.
                let is_scheme = |word: &str| {
                    SCHEMES
                        .iter()
                        .any(|scheme| word.eq_ignore_ascii_case(scheme))
                };
                let credential = value
                    .split_once(' ')
                    .filter(|(scheme, _)| is_scheme(scheme));
                secrets.extend(credential.map(|(_, credential)| credential.to_owned()));
                secrets.push(value.to_owned());
            }
        }
        self.values(secrets.iter().map(String::as_str))
    }

    /// Masks every member of JSON with this name.
    #[must_use]
    pub fn member(mut self, name: &str) -> Self {
        self.members.insert(name.to_owned());
        self
    }

    /// Masks the secrets in a text.
    #[must_use]
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let (ranges, _) = self.ranges(text);
        masked(text, ranges)
    }

    /// Masks the known values in a text, and nothing else: for a text that a program parses.
    #[must_use]
    pub fn known_values<'t>(&self, text: &'t str) -> Cow<'t, str> {
        masked(text, self.known.ranges(text))
    }

    /// Masks the secrets in the beginning of a text, and cuts it to at most `max` bytes.
    #[must_use]
    pub fn excerpt(&self, text: &str, max: usize) -> String {
        // A secret that begins before the cut is read to its end. The text behind is not shown, also where masking leaves
        // room for it: it may end inside of a secret.
        let read = text.floor_char_boundary(max.saturating_add(MAX_READ_BEHIND));
        let cut = text.floor_char_boundary(max);
        let (mut ranges, _) = self.ranges(&text[..read]);
        ranges.retain(|range| range.start < cut);
        let end = ranges.last().map_or(cut, |last| last.end.max(cut));
        let mut excerpt = masked(&text[..end], ranges).into_owned();
        excerpt.truncate(excerpt.floor_char_boundary(max));
        excerpt
    }

    /// Masks the secrets in the beginning of a text in bytes, and cuts it to at most `max` bytes. U+FFFD replaces bytes
    /// that are no UTF-8.
    #[must_use]
    pub fn excerpt_of_bytes(&self, bytes: &[u8], max: usize) -> String {
        let read = bytes.len().min(max.saturating_add(MAX_READ_BEHIND));
        self.excerpt(&String::from_utf8_lossy(&bytes[..read]), max)
    }

    /// Masks the secrets in an argument list, program first where it is known.
    #[must_use]
    pub fn arguments(&self, words: &[&str]) -> Vec<String> {
        let secrets = scan::arguments(words);
        let mut is_value = false;
        let words = words.iter().zip(secrets).map(|(word, secret)| {
            let assigned = word
                .split_once('=')
                .filter(|(name, value)| is_secret_name(name) && !is_reference(value));
            let masked = match (secret, assigned) {
                _ if is_value && !is_reference(word) => MASK.to_owned(),
                (_, Some((name, _))) => format!("{name}={MASK}"),
                (Some(range), None) => {
                    format!("{}{MASK}{}", &word[..range.start], &word[range.end..])
                }
                (None, None) => self.text(word).into_owned(),
            };
            is_value = word.starts_with('-') && !word.contains('=') && is_secret_name(word);
            masked
        });
        words.collect()
    }

    /// Returns a masker of a stream of bytes.
    #[must_use]
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone())
    }

    /// Ranges of the secrets in a text, in order, without overlap, and whether a here-document of secrets continues
    /// behind the text. The prefix of a token is not part of its range.
    pub(crate) fn ranges(&self, text: &str) -> (Vec<Range<usize>>, bool) {
        let Secrets {
            mut found,
            tokens,
            is_open,
        } = scan::secrets(text);
        found.extend(self.known.ranges(text));
        let mut ranges = scan::merged(found);
        for range in &mut ranges {
            if let Ok(at) = tokens.binary_search_by_key(&range.start, |token| token.start)
                && tokens[at].end == range.end
            {
                range.start = tokens[at].rest;
            }
        }
        (ranges, is_open)
    }
}

/// Masks ranges of a text, which are in order and do not overlap.
fn masked(text: &str, ranges: Vec<Range<usize>>) -> Cow<'_, str> {
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    for range in ranges {
        masked.push_str(&text[at..range.start]);
        masked.push_str(MASK);
        at = range.end;
    }
    masked.push_str(&text[at..]);
    Cow::Owned(masked)
}

/// Returns whether a value is one URL, of which only the password is secret.
fn is_url(value: &str) -> bool {
    value.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.contains(char::is_whitespace)
            && url_passwords(value).next().is_some()
            && !rest.contains(char::is_whitespace)
    })
}

#[cfg(test)]
mod tests;
