//! What a query looks for.
//!
//! A query is a few words, an identifier, or a whole question. Words that every text has are known
//! and told apart, so that a question is no worse than its words that matter.

use std::collections::HashSet;

use orchestra_board::{Timestamp, composed};
use orchestra_store::{WantedWord, forms_of, stem, words_of};

use super::date::{self, Span};
use super::score::COUNTED;

/// The most bytes of a query that are read; the rest is left out.
pub const MAX_QUERY_BYTES: usize = 4_096;
/// The most different words that are looked for; those of the beginning.
const MAX_WORDS: usize = 24;
/// The most identifiers that are compared letter by letter.
const MAX_LITERALS: usize = 8;

/// A query, cut into what is looked for.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) words: Vec<Word>,
    /// Identifiers, paths and the like, in small letters.
    pub(super) literals: Vec<String>,
    /// Days and months that are named.
    pub(super) dates: Vec<Span>,
    pub(super) asks: Asks,
    pub(super) is_question: bool,
    pub(super) now: Timestamp,
}

/// A word that is looked for.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) stem: String,
    /// What is looked for in its place, since no text has the word itself.
    pub(super) mended: Vec<String>,
    /// Whether it tells texts apart.
    pub(super) tells: bool,
    /// How much it tells; known once the store has been asked.
    pub(super) rarity: f64,
}

/// What kind of answer a question wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    Anything,
    /// When: a day, an hour, a month.
    Time,
    /// How many, how much, how long, how old.
    Number,
    /// Who.
    Person,
}

/// Words that nearly every English text has, and those that questions are made of.
const TELL_NOTHING: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "but", "by", "can", "could", "did", "do", "does",
    "doing", "done", "for", "from", "get", "gets", "had", "has", "have", "having", "he", "her",
    "here", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "may", "me",
    "might", "must", "my", "no", "not", "now", "of", "on", "one", "or", "other", "our", "out",
    "over", "s", "same", "say", "said", "says", "she", "should", "so", "some", "such", "t", "tell",
    "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those",
    "to", "too", "up", "us", "use", "used", "very", "was", "we", "were", "what", "when", "where",
    "which", "while", "who", "whom", "whose", "why", "will", "with", "would", "you", "your",
];

impl Query {
    pub(super) fn parse(text: &str, now: Timestamp) -> Self {
        let text = &text[..text.floor_char_boundary(MAX_QUERY_BYTES)];
        let mut words: Vec<Word> = Vec::new();
        let mut seen = HashSet::new();
        for piece in text.split_whitespace() {
            if words.len() >= MAX_WORDS {
                break;
            }
            let mut cut = Vec::new();
            words_of(piece, |_, word| cut.push(word.to_owned()));
            // A word of a script without blanks is its characters next to each other.
            let joined = cut.iter().all(|word| is_one_wide_char(word)) && cut.len() > 1;
            let cut = if joined { vec![cut.join(" ")] } else { cut };
            for word in cut {
                if words.len() < MAX_WORDS && seen.insert(word.clone()) {
                    words.push(Word::new(word));
                }
            }
        }
        // The same stem twice tells no more than once.
        let mut stems = HashSet::new();
        words.retain(|word| stems.insert(word.stem.clone()));
        let literals = literals(text);
        let asks = asks(text);
        Self {
            words,
            literals,
            dates: date::named(text, now),
            asks,
            is_question: is_question(text),
            now,
        }
    }

    /// Counts all words that tell something alike, where nobody knows how rare they are.
    pub(super) fn weigh_alike(&mut self) {
        for word in &mut self.words {
            word.rarity = if word.tells { 1.0 } else { 0.05 };
        }
    }

    /// Which identifiers of the query stand in texts.
    pub(super) fn literals_in(&self, texts: [&str; 3]) -> Vec<usize> {
        if self.literals.is_empty() {
            return Vec::new();
        }
        let small =
            texts.map(|text| composed(&text[..text.floor_char_boundary(COUNTED)]).to_lowercase());
        let is_there = |literal: &String| small.iter().any(|text| stands_in(text, literal));
        (0..self.literals.len())
            .filter(|&at| is_there(&self.literals[at]))
            .collect()
    }

    /// Whether it has a word that tells texts apart.
    pub(super) fn tells(&self) -> bool {
        self.words.iter().any(|word| word.tells)
    }

    /// About the score of a text that has each word that tells something once.
    pub(super) fn whole(&self) -> f64 {
        let telling = self.words.iter().filter(|word| word.tells);
        telling.map(|word| word.rarity).sum()
    }

    /// The words as the store looks for them.
    pub(super) fn wanted(&self) -> Vec<WantedWord> {
        let word = |word: &Word| {
            let mut forms = forms_of(&word.text);
            forms.extend(word.mended.iter().flat_map(|other| forms_of(other)));
            forms.sort();
            forms.dedup();
            WantedWord {
                forms,
                tells: word.tells,
            }
        };
        self.words.iter().map(word).collect()
    }
}

impl Word {
    fn new(text: String) -> Self {
        Self {
            stem: stem(&text).into_owned(),
            tells: !TELL_NOTHING.contains(&text.as_str()),
            text,
            mended: Vec::new(),
            rarity: 0.0,
        }
    }
}

fn is_one_wide_char(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|c| u32::from(c) >= 0xE00) && letters.next().is_none()
}

/// Pieces that are names of code and files rather than words, as they would stand in a text.
fn literals(text: &str) -> Vec<String> {
    let trim = |piece: &str| {
        piece
            .trim_matches(|c: char| !c.is_alphanumeric())
            .to_owned()
    };
    let mut found: Vec<String> = composed(text)
        .split_whitespace()
        .map(trim)
        .filter(|piece| is_literal(piece))
        .take(MAX_LITERALS)
        .map(|piece| piece.to_lowercase())
        .collect();
    found.dedup();
    found
}

fn is_literal(piece: &str) -> bool {
    let inner = piece.contains(['_', '/', ':', '.', '-', '=', '#']);
    let digits =
        piece.bytes().any(|byte| byte.is_ascii_digit()) && piece.chars().any(char::is_alphabetic);
    let mut letters = piece.chars().zip(piece.chars().skip(1));
    inner || digits || letters.any(|(a, b)| a.is_lowercase() && b.is_uppercase())
}

/// Whether an identifier stands in a text and is not a part of a longer word there.
fn stands_in(text: &str, literal: &str) -> bool {
    text.match_indices(literal).take(64).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + literal.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

fn is_question(text: &str) -> bool {
    const BEGIN: &[&str] = &[
        "when", "what", "which", "who", "whose", "why", "where", "how", "is", "are", "was", "were",
        "do", "does", "did", "can", "could", "should", "will",
    ];
    let first = text.split_whitespace().next().unwrap_or_default();
    text.trim_end().ends_with('?') || BEGIN.contains(&first.to_lowercase().as_str())
}

fn asks(text: &str) -> Asks {
    let mut first = Vec::new();
    for piece in text.split_whitespace().take(3) {
        first.push(piece.to_lowercase());
    }
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    match first.as_slice() {
        ["when", ..]
        | [
            "which" | "what",
            "day" | "date" | "month" | "time" | "night",
            ..,
        ] => Asks::Time,
        [
            "how",
            "many" | "much" | "long" | "old" | "big" | "often" | "large",
            ..,
        ] => Asks::Number,
        ["who" | "whose", ..] => Asks::Person,
        _ => Asks::Anything,
    }
}
