//! Known values: secrets that a caller names, found in any text.

use std::{collections::HashSet, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{scan::merged, value::is_secret_value};

/// Minimum length of a line of a value with several lines. Shorter lines are braces and the like.
const MIN_LINE_BYTES: usize = 8;

/// Maximum length of one pattern; longer values are searched for in parts.
const MAX_PATTERN_BYTES: usize = 1024;

/// Maximum number of patterns. Those of the newest values are retained.
const MAX_PATTERNS: usize = 4096;

/// Known values and the automaton that finds them.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// Each once, from the oldest to the newest. Shared with the clones.
    patterns: Arc<Vec<String>>,
    automaton: Option<Arc<AhoCorasick>>,
}

impl Known {
    /// Adds values, each in all spellings, and each line of a value with several.
    pub(crate) fn extend<'a>(&mut self, values: impl IntoIterator<Item = &'a str>) {
        let patterns = Arc::make_mut(&mut self.patterns);
        let before = patterns.len();
        for value in values {
            let lines = value
                .lines()
                .map(str::trim)
                .filter(|line| line.len() >= MIN_LINE_BYTES);
            for part in lines
                .chain([value.trim()])
                .filter(|part| is_secret_value(part))
            {
                for spelling in spellings(part) {
                    add(patterns, &spelling);
                }
            }
        }
        if patterns.len() == before {
            return;
        }
        let mut distinct = HashSet::new();
        patterns.reverse();
        patterns
            .retain(|pattern| distinct.len() < MAX_PATTERNS && distinct.insert(pattern.clone()));
        patterns.reverse();
        let automaton = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&*patterns);
        self.automaton = automaton.ok().map(Arc::new);
    }

    pub(crate) fn len(&self) -> usize {
        self.patterns.len()
    }

    /// Ranges of the values in a text.
    pub(crate) fn ranges(&self, text: &str) -> Vec<Range<usize>> {
        let Some(automaton) = &self.automaton else {
            return Vec::new();
        };
        merged(
            automaton
                .find_overlapping_iter(text)
                .map(|hit| hit.range())
                .collect(),
        )
    }
}

/// Returns a value as programs write it: as it is, in JSON, in JSON within JSON, in a URL, in a form and in HTML.
fn spellings(value: &str) -> Vec<String> {
    let json = json_escaped(value);
    let lower = ascii_escaped(&json, |unit| format!("\\u{unit:04x}"));
    let upper = ascii_escaped(&json, |unit| format!("\\u{unit:04X}"));
    let html_safe = json
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    let url = percent_encoded(value, RESERVED);
    let html = HTML.iter().fold(value.to_owned(), |html, (sign, entity)| {
        html.replace(*sign, entity)
    });
    let mut all = vec![
        json_escaped(&json),
        json_escaped(&lower),
        json_escaped(&upper),
        json.replace('/', "\\/"),
        lower.replace('/', "\\/"),
        html_safe,
        url.replace("%20", "+"),
        percent_encoded(value, PATH),
        percent_encoded(value, COMPONENT),
        html.replace("&#39;", "&#x27;"),
        html,
        url,
        upper,
        lower,
        json,
        value.to_owned(),
    ];
    all.sort_unstable();
    all.dedup();
    all
}

/// Adds a value as a pattern, in parts where it is long.
fn add(patterns: &mut Vec<String>, text: &str) {
    let mut rest = text;
    while rest.len() > MAX_PATTERN_BYTES {
        let (part, after) = rest.split_at(rest.floor_char_boundary(MAX_PATTERN_BYTES));
        patterns.push(part.to_owned());
        rest = after;
    }
    if is_secret_value(rest) {
        patterns.push(rest.to_owned());
    }
}

/// Bytes that are not unreserved (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The same for a path: what `quote` of Python leaves.
const PATH: &AsciiSet = &RESERVED.remove(b'/');

/// The same for a part of a URL: what `encodeURIComponent` of JavaScript leaves.
const COMPONENT: &AsciiSet = &RESERVED
    .remove(b'!')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*');

/// Characters that HTML escapes. The first is part of the entities of the rest.
const HTML: [(char, &str); 5] = [
    ('&', "&amp;"),
    ('<', "&lt;"),
    ('>', "&gt;"),
    ('"', "&quot;"),
    ('\'', "&#39;"),
];

fn percent_encoded(text: &str, set: &'static AsciiSet) -> String {
    utf8_percent_encode(text, set).to_string()
}

/// Text with the UTF-16 units of all characters beyond ASCII escaped.
fn ascii_escaped(text: &str, escape: impl Fn(u16) -> String) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii() {
            true => escaped.push(c),
            false => escaped.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| escape(*unit))),
        }
    }
    escaped
}

/// Text as the content of a JSON string.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
