//! Fields and texts of forms that ask a person for a secret.
//!
//! A person answers any question, so this looks at more than [`is_secret_name`]: at sentences, at words of
//! other languages, at words that are spelled out, and at letters that only look like those of ASCII.

use std::{collections::HashSet, sync::LazyLock};

use aho_corasick::AhoCorasick;
use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use crate::{
    is_secret_name,
    table::{
        ASKED_ATTRIBUTES, ASKED_CAPITALS, ASKED_NAMES, ASKED_PARTS, ASKED_PHRASES, ASKED_PLACES,
        ASKED_WORDS, ASKING_WORDS, LOOKALIKES, NOT_ASKED_PARTS, PAIRS, PLAIN_TOKENS, SECRET_PARTS,
        SUBSTITUTES, TOKENS,
    },
};

/// Number of words that a phrase may have, some of them syllables.
const MAX_PHRASE_WORDS: usize = 8;

/// Number of bytes of a text that a person may be expected to read.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Number of characters between two words of a phrase.
const MAX_GAP: usize = 3;

/// Number of single letters that may be a word which is spelled out.
const MIN_SPELLED: usize = 3;

/// Number of characters of a word that is found among single letters, with more letters before or behind it.
const MIN_FOUND: usize = 5;

/// Number of bytes of a reference of HTML without `&`.
const MAX_REFERENCE: usize = 12;

/// Number of words of a label that is a sentence.
const MIN_SENTENCE: usize = 5;

/// Returns whether a field of this name or title is for a secret.
#[must_use]
pub fn is_secret_field(name: &str) -> bool {
    let plain = skeleton(name);
    let words = words(&plain);
    let last = words.last().map(|word| word.text.as_str());
    is_secret_name(&plain)
        || last.is_some_and(|last| ASKED_NAMES.contains(&last))
        || mentions_secret(name)
}

/// Returns whether a text names a secret, as `Enter your GitHub password` does. A property of a secret is none: `token
/// name`, `password length`. A text that is too long to be read by a person counts as one.
#[must_use]
pub fn mentions_secret(text: &str) -> bool {
    if text.len() > MAX_TEXT_BYTES {
        return true;
    }
    let plain = skeleton(text);
    if has_place(&plain) || has_token_form(&plain) {
        return true;
    }
    let is_turned = text.contains(['\u{202d}', '\u{202e}']);
    let turned = is_turned.then(|| plain.chars().rev().collect());
    let substituted = substituted(&plain);
    let paired = paired(&plain);
    let readings = [Some(plain), turned, substituted, paired];
    readings
        .iter()
        .flatten()
        .any(|reading| asks(&words(reading)))
}

/// Returns whether a text names a file that holds secrets.
fn has_place(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ASKED_PLACES.iter().any(|place| {
        text.match_indices(place).any(|(at, _)| {
            let behind = &text[at + place.len()..];
            !text[..at].ends_with(char::is_alphanumeric)
                && (place.ends_with('/') || !behind.starts_with(char::is_alphanumeric))
        })
    })
}

/// Returns whether a text has the prefix of a well-known token, as `ghp_…`. A word behind it makes
/// another word of a short one: `key-value`, `npm_version`.
fn has_token_form(text: &str) -> bool {
    TOKENS.iter().any(|token| {
        let prefix = token.prefix;
        let is_prefix = prefix.len() > 2 && prefix.ends_with(['_', '-']);
        let is_long = prefix.matches(['_', '-']).count() > 1;
        is_prefix
            && text.match_indices(prefix).any(|(at, _)| {
                let next = text[at + prefix.len()..].chars().next();
                let is_word = next.is_some_and(|c| c.is_alphabetic() && !matches!(c, 'x' | 'X'));
                !text[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-'))
                    && (is_long || !is_word)
            })
    })
}

/// Returns whether the label of a choice asks a person to enter a secret elsewhere in the form, as `I typed my password
/// above` does. The name of a secret alone is an ordinary choice: `Password`, `Access token`.
#[must_use]
pub fn label_asks_for_secret(label: &str) -> bool {
    let plain = skeleton(label);
    let words = words(&plain);
    let is_asking = |word: &Word| ASKING_WORDS.contains(&word.text.as_str());
    (words.len() >= MIN_SENTENCE || words.iter().any(is_asking)) && mentions_secret(label)
}

/// A word in lower case.
struct Word {
    text: String,
    is_capital: bool,
    /// Whether only blanks, hyphens or underscores are before it.
    follows: bool,
    /// Whether it may be part of one word with the word before it.
    joins: bool,
    /// Whether only the case of its first letter separates it from the word before it.
    is_split: bool,
}

/// The tables, as they read in a skeleton.
struct Asked {
    parts: AhoCorasick,
    words: HashSet<String>,
    phrases: HashSet<String>,
    /// Those of the phrases that have letters beyond ASCII. Some languages write prepositions and articles together
    /// with them.
    foreign: Vec<String>,
    /// Names of secrets that are long enough to be found among other letters.
    long: AhoCorasick,
    /// Names of secrets that are not.
    short: HashSet<String>,
}

static ASKED: LazyLock<Asked> = LazyLock::new(|| {
    let joined = |names: &[&str]| -> Vec<String> {
        let joined = names.iter().map(|name| {
            let words = words(&skeleton(name));
            words.into_iter().map(|word| word.text).collect()
        });
        joined.collect()
    };
    let automaton = |names: &[String]| AhoCorasick::new(names).expect("the table is small");
    let parts = [joined(SECRET_PARTS), joined(ASKED_PARTS)].concat();
    let words = joined(ASKED_WORDS);
    let phrases = [parts.clone(), joined(ASKED_PHRASES)].concat();
    let foreign = phrases.iter().filter(|phrase| !phrase.is_ascii());
    let is_long = |name: &String| name.chars().count() >= MIN_FOUND;
    let all = [phrases.clone(), words.clone(), joined(ASKED_NAMES)].concat();
    let (long, short): (Vec<_>, Vec<_>) = all.into_iter().partition(is_long);
    Asked {
        parts: automaton(&parts),
        words: words.into_iter().collect(),
        foreign: foreign.cloned().collect(),
        phrases: phrases.into_iter().collect(),
        long: automaton(&long),
        short: short.into_iter().collect(),
    }
});

fn asks(words: &[Word]) -> bool {
    let named = (0..words.len()).any(|at| {
        let len = secret_at(words, at);
        let next = words.get(at + len).filter(|next| next.follows);
        let is_attribute = next.is_some_and(|next| ASKED_ATTRIBUTES.contains(&next.text.as_str()));
        len > 0 && !is_attribute
    });
    named || is_spelled(words)
}

/// Number of words from `at` that name a secret together; 0 when they name none.
fn secret_at(words: &[Word], at: usize) -> usize {
    let (word, asked) = (&words[at], &*ASKED);
    let text = word.text.as_str();
    let before = at.checked_sub(1).map(|before| words[before].text.as_str());
    let is_plain = text == "token" && before.is_some_and(|before| PLAIN_TOKENS.contains(&before));
    let is_capital = word.is_capital
        && ASKED_CAPITALS
            .iter()
            .any(|name| name.eq_ignore_ascii_case(text));
    if is_capital || (asked.words.contains(text) && !is_plain) || is_part(text) {
        return 1;
    }
    let (mut phrase, mut is_unbroken) = (String::new(), true);
    for (len, next) in (1..=MAX_PHRASE_WORDS).zip(&words[at..]) {
        if len > 1 && !next.joins {
            break;
        }
        phrase.push_str(&next.text);
        is_unbroken &= len == 1 || next.is_split;
        let one = phrase.strip_suffix('s').unwrap_or(&phrase);
        let has_end = |end: &String| phrase.ends_with(end.as_str());
        if asked.phrases.contains(one)
            || asked.phrases.contains(&phrase)
            || (len > 1 && is_unbroken && asked.words.contains(&phrase))
            || (!phrase.is_ascii() && asked.foreign.iter().any(has_end))
        {
            return len;
        }
    }
    0
}

fn is_part(text: &str) -> bool {
    ASKED.parts.is_match(text) && !NOT_ASKED_PARTS.iter().any(|plain| text.contains(plain))
}

/// Returns whether a run of single letters spells the name of a secret: `p a s s w o r d`, `P.I.N`.
fn is_spelled(words: &[Word]) -> bool {
    let is_letter = |word: &Word| word.text.chars().nth(1).is_none();
    words
        .chunk_by(|one, next| is_letter(one) && is_letter(next))
        .filter(|run| run.len() >= MIN_SPELLED)
        .any(|run| {
            let spelled: String = run.iter().map(|word| word.text.as_str()).collect();
            ASKED.short.contains(&spelled) || ASKED.long.is_match(&spelled)
        })
}

/// Words, parted at what is no letter or digit and at changes from lower to upper case.
fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut in_word, mut was_lower) = (false, false);
    let mut gap = Gap::default();
    for c in text.chars() {
        if !c.is_alphanumeric() {
            in_word = false;
            gap.add(c);
            continue;
        }
        if !in_word || (was_lower && c.is_uppercase()) {
            words.push(Word {
                text: String::new(),
                is_capital: true,
                follows: gap.is_blank,
                joins: gap.joins(),
                is_split: in_word,
            });
            gap = Gap::default();
        }
        if let Some(word) = words.last_mut() {
            // `2FA` is one word.
            was_lower = c.is_lowercase() || (c.is_numeric() && was_lower && in_word);
            word.is_capital &= !c.is_lowercase();
            word.text.extend(c.to_lowercase());
        }
        in_word = true;
    }
    words
}

/// The characters between two words.
struct Gap {
    length: usize,
    is_blank: bool,
    has_blank: bool,
    /// Whether a word may continue behind them: `pass-word`, `pass**word**`, `pass.word`.
    is_mark: bool,
    ends_sentence: bool,
}

impl Default for Gap {
    fn default() -> Self {
        Self {
            length: 0,
            is_blank: true,
            has_blank: false,
            is_mark: true,
            ends_sentence: false,
        }
    }
}

impl Gap {
    fn add(&mut self, c: char) {
        self.length += 1;
        self.is_blank &= matches!(c, ' ' | '-' | '_');
        self.has_blank |= c.is_whitespace();
        self.ends_sentence |= c == '.';
        self.is_mark &= c.is_whitespace()
            || matches!(
                c,
                '-' | '_'
                    | '.'
                    | '*'
                    | '`'
                    | '~'
                    | '\''
                    | '"'
                    | '/'
                    | '|'
                    | '+'
                    | '·'
                    | '•'
                    | '’'
                    | '‐'..='―'
            );
    }

    const fn joins(&self) -> bool {
        self.is_mark && self.length <= MAX_GAP && !(self.ends_sentence && self.has_blank)
    }
}

/// A text in the letters that it shows: decomposed, without marks above and below letters and without characters that
/// cannot be seen, with letters that look like those of ASCII replaced by these. Upper case remains.
fn skeleton(text: &str) -> String {
    let mut skeleton = String::with_capacity(text.len());
    let text = dereferenced(text);
    for c in text.as_str().nfkd() {
        match c {
            '\n' => skeleton.push('\n'),
            c if c.is_whitespace() || c == '\u{2800}' => skeleton.push(' '),
            c if c.is_control() || is_invisible(c) || is_combining_mark(c) => {}
            // These stand for other characters.
            '\u{fffc}' | '\u{fffd}' => {}
            c if c.is_ascii() => skeleton.push(c),
            'ß' | 'ẞ' => skeleton.push_str("ss"),
            c => skeleton.push(lookalike(c)),
        }
    }
    skeleton
}

/// A text with the references of HTML to characters (`&shy;`, `&#112;`) replaced: clients may render them.
fn dereferenced(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest
            .bytes()
            .take(MAX_REFERENCE)
            .position(|byte| byte == b';');
        match end.and_then(|end| Some((referenced(&rest[..end])?, end))) {
            Some((c, end)) => {
                plain.push(c);
                rest = &rest[end + 1..];
            }
            None => plain.push('&'),
        }
    }
    plain.push_str(rest);
    plain
}

/// The character to which a reference of HTML leads, if it may be part of a word.
fn referenced(name: &str) -> Option<char> {
    match name {
        "shy" => return Some('\u{ad}'),
        "zwj" => return Some('\u{200d}'),
        "zwnj" => return Some('\u{200c}'),
        "lrm" => return Some('\u{200e}'),
        "rlm" => return Some('\u{200f}'),
        _ => {}
    }
    let digits = name.strip_prefix('#')?;
    let number = match digits.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    char::from_u32(number.ok()?)
}

/// Returns whether a character is invisible: `Default_Ignorable_Code_Point` of Unicode, and annotation marks.
#[must_use]
pub const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The letter of ASCII that a character looks like; the character itself where there is none.
fn lookalike(c: char) -> char {
    // Letters in filled circles and squares, and halves of flags: each block has the order of the alphabet.
    for first in [0x1f150, 0x1f170, 0x1f1e6] {
        let at = u32::from(c).wrapping_sub(first);
        if let (0..26, Ok(at)) = (at, u8::try_from(at)) {
            return char::from(b'A' + at);
        }
    }
    let mut lower = c.to_lowercase();
    let (Some(letter), None) = (lower.next(), lower.next()) else {
        return c;
    };
    let row = LOOKALIKES.iter().find(|(_, all)| all.contains(letter));
    match row {
        Some((ascii, _)) if c.is_uppercase() => ascii.to_ascii_uppercase(),
        Some((ascii, _)) => *ascii,
        None => c,
    }
}

/// The text with letters in the place of digits and signs beside other letters; `None` where that changes nothing.
fn substituted(text: &str) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    let runs: Vec<&[char]> = chars
        .chunk_by(|one, next| substitute(*one).is_some() == substitute(*next).is_some())
        .collect();
    let is_letter = |c: Option<&char>| c.is_some_and(char::is_ascii_alphabetic);
    let mut substituted = String::with_capacity(text.len());
    for (at, run) in runs.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| runs[before].last());
        let behind = runs.get(at + 1).and_then(|behind| behind.first());
        // In the case of the letter beside it: a change of case separates words.
        let beside = [before, behind]
            .into_iter()
            .find(|c| is_letter(*c))
            .flatten();
        let Some(beside) = beside else {
            substituted.extend(run.iter());
            continue;
        };
        let letters = run.iter().map(|c| substitute(*c).unwrap_or(*c));
        match beside.is_ascii_uppercase() {
            true => substituted.extend(letters.map(|c| c.to_ascii_uppercase())),
            false => substituted.extend(letters),
        }
    }
    (substituted != text).then_some(substituted)
}

/// The text with letters in the place of pairs that look like them; `None` where there is no such pair.
fn paired(text: &str) -> Option<String> {
    let paired = PAIRS.iter().fold(text.to_owned(), |text, (pair, letter)| {
        text.replace(pair, letter)
    });
    (paired != text).then_some(paired)
}

fn substitute(c: char) -> Option<char> {
    let row = SUBSTITUTES.iter().find(|(from, _)| *from == c);
    row.map(|(_, letter)| *letter)
}

#[cfg(test)]
mod tests;
