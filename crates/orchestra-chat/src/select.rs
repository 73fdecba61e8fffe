//! Which tools a question may need, where there are too many to show all of them.
//!
//! Words of the question are looked for in names, descriptions and arguments (BM25, where a word in the name counts
//! most). No word is looked at by meaning: a model that finds nothing asks for tools in its own words.

use std::collections::HashMap;

/// Weights of a word in the name, the description and the arguments.
const WEIGHTS: [f64; 3] = [3.0, 1.0, 0.6];

/// The usual constants of BM25.
const K1: f64 = 1.2;
const B: f64 = 0.5;

/// Longest word that is looked at.
const WORD_CHARS: usize = 40;
/// Words of a question that are looked at: the last ones, which say what is wanted now.
const WORDS: usize = 200;

/// Words of a question that say nothing about a tool.
const EMPTY: [&str; 48] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "could", "do", "does", "for",
    "from", "give", "has", "have", "how", "i", "in", "is", "it", "me", "my", "of", "on", "or",
    "our", "please", "show", "tell", "that", "the", "there", "this", "to", "us", "was", "we",
    "what", "when", "where", "which", "with", "would", "you", "your",
];

/// Words of tools, and which have them.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// By word: places and how much the word counts there.
    words: HashMap<String, Vec<(usize, f64)>>,
    /// How much text each has, against the mean.
    lengths: Vec<f64>,
}

impl Index {
    /// An index of names, descriptions and arguments.
    pub(crate) fn new(texts: impl Iterator<Item = [String; 3]>) -> Self {
        let mut index = Self::default();
        let mut total = 0.0;
        for (place, parts) in texts.enumerate() {
            let mut counts: HashMap<String, f64> = HashMap::new();
            let mut length = 0.0;
            for (part, weight) in parts.iter().zip(WEIGHTS) {
                for word in words(part) {
                    *counts.entry(word).or_default() += weight;
                    length += weight;
                }
            }
            total += length;
            index.lengths.push(length);
            for (word, count) in counts {
                index.words.entry(word).or_default().push((place, count));
            }
        }
        let mean = total / (index.lengths.len().max(1) as f64);
        index
            .lengths
            .iter_mut()
            .for_each(|length| *length /= mean.max(1.0));
        index
    }

    /// The places of those that have some of the words, best first.
    pub(crate) fn ranked(&self, question: &str) -> Vec<usize> {
        let all = self.lengths.len() as f64;
        let mut scores: HashMap<usize, f64> = HashMap::new();
        let mut asked: Vec<String> = words(question).collect();
        let over = asked.len().saturating_sub(WORDS);
        asked.drain(..over);
        asked.retain(|word| !EMPTY.contains(&word.as_str()));
        asked.sort_unstable();
        asked.dedup();
        for word in asked {
            let Some(found) = self.words.get(&word) else {
                continue;
            };
            let many = found.len() as f64;
            let rarity = ((all - many + 0.5) / (many + 0.5) + 1.0).ln();
            for (place, count) in found {
                let length = 1.0 - B + B * self.lengths[*place];
                let score = rarity * count * (K1 + 1.0) / (count + K1 * length);
                *scores.entry(*place).or_default() += score;
            }
        }
        let mut ranked: Vec<(usize, f64)> = scores.into_iter().collect();
        orchestra_sort::sort_by(&mut ranked, |(left, more), (right, less)| {
            less.total_cmp(more).then(left.cmp(right))
        });
        ranked.into_iter().map(|(place, _)| place).collect()
    }
}

/// The words of a text in one form: parts of names in several ways of writing, without the commonest endings.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut parts: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut before_lower = false;
    for c in text.chars().chain([' ']) {
        let begins = c.is_uppercase() && before_lower;
        if (!c.is_alphanumeric() || begins) && !word.is_empty() {
            parts.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() && word.chars().count() < WORD_CHARS {
            word.extend(c.to_lowercase());
        }
        before_lower = c.is_lowercase();
    }
    parts.into_iter().map(|word| stem(&word))
}

/// A word without the endings by which a question and a name differ most often.
fn stem(word: &str) -> String {
    let cut = |end: &str, least: usize| {
        let rest = word.strip_suffix(end)?;
        (rest.chars().count() >= least).then(|| rest.to_owned())
    };
    let ies = || cut("ies", 2).map(|rest| format!("{rest}y"));
    let plain = |word: &str| word.strip_suffix('e').unwrap_or(word).to_owned();
    let found = ies()
        .or_else(|| cut("ings", 3))
        .or_else(|| cut("ing", 3))
        .or_else(|| cut("sses", 2).map(|rest| format!("{rest}ss")))
        .or_else(|| cut("ed", 3))
        .or_else(|| cut("es", 3))
        .or_else(|| cut("s", 3).filter(|rest| !rest.ends_with('s')));
    match found {
        Some(found) => plain(&found),
        None if word.chars().count() > 3 => plain(word),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(tools: &[(&str, &str)]) -> Index {
        let texts = tools.iter();
        Index::new(
            texts.map(|(name, text)| [(*name).to_owned(), (*text).to_owned(), String::new()]),
        )
    }

    #[test]
    fn the_tool_that_is_asked_for_comes_first() {
        let tools = [
            ("get-alerts", "Weather alerts for a state."),
            ("get-forecast", "Weather forecast for a place."),
            ("create_task", "Create a task on the board."),
            ("listOpenIssues", "Lists what is open in a repository."),
        ];
        let index = index(&tools);
        for (question, expected) in [
            ("Any weather alerts in California?", "get-alerts"),
            ("what is the forecast for tomorrow", "get-forecast"),
            ("Please create tasks for the release", "create_task"),
            ("Which issues are open?", "listOpenIssues"),
            ("list the repositories", "listOpenIssues"),
        ] {
            let ranked = index.ranked(question);
            assert_eq!(tools[ranked[0]].0, expected, "{question}: {ranked:?}");
        }
        assert!(index.ranked("of the and 🦀").is_empty());
        assert!(index.ranked("").is_empty());
    }

    #[test]
    fn words_of_names_are_found_however_they_are_written() {
        let found = |text: &str| words(text).collect::<Vec<_>>();
        assert_eq!(found("listOpenIssues"), ["list", "open", "issu"]);
        assert_eq!(found("list_open-issues"), ["list", "open", "issu"]);
        assert_eq!(found("creating created creates create"), ["creat"; 4]);
        assert_eq!(found("queries query"), ["query", "query"]);
        assert_eq!(found("HTTPServer"), ["httpserver"]);
    }
}
