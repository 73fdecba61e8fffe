//! Whether two texts say the same.
//!
//! They do when nothing that tells something differs: articles, marks, capital letters and endings do
//! not, and where nothing of a text depends on their order, words do in any order. A text that differs
//! in a number, a name or any other word says something else, however much the two have in common.

use orchestra_board::composed;
use orchestra_store::{stem, words_of};
use unicode_normalization::UnicodeNormalization as _;

/// The most bytes of a text whose words are compared; what is behind them is compared as it stands.
const COMPARED: usize = 8 * 1024;

/// Words that leave a text the same whether it has them or not.
const ADD_NOTHING: &[&str] = &[
    "a", "also", "am", "an", "and", "are", "be", "been", "being", "had", "has", "have", "is", "it",
    "its", "just", "of", "so", "that", "the", "there", "these", "this", "those", "very", "was",
    "were",
];

/// Words that say something else of the same words in another order.
const ORDER: &[&str] = &[
    "above", "after", "as", "at", "because", "before", "below", "but", "by", "for", "from", "if",
    "in", "instead", "into", "no", "not", "on", "onto", "over", "than", "to", "under", "unless",
    "until", "when", "while", "with", "without",
];

/// Marks that leave a text the same. A minus before a number is none of them.
const MARKS: &str = ".,;:!?'\"()[]{}-–—…*`_’‘“”、。，！？";

/// What a text says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The stems of the words that tell something: as they stand where their order tells something,
    /// else each once and sorted.
    words: Vec<String>,
    /// What is no word and no mark: signs and pictures, and the accents of letters.
    signs: String,
    /// What is behind the part whose words are compared.
    rest: String,
}

impl Said {
    pub(super) fn of(text: &str) -> Self {
        let text = composed(text);
        let (compared, rest) = text.split_at(text.floor_char_boundary(COMPARED));
        let mut words = Vec::new();
        let mut ordered = false;
        words_of(compared, |_, word| {
            ordered |= ORDER.contains(&word) || !word.bytes().all(|byte| byte.is_ascii_lowercase());
            if !ADD_NOTHING.contains(&word) {
                words.push(stem(word).into_owned());
            }
        });
        if !ordered {
            words.sort_unstable();
            words.dedup();
        }
        Self {
            words,
            signs: signs(compared),
            rest: rest.to_owned(),
        }
    }
}

fn signs(text: &str) -> String {
    let mut signs = String::new();
    let mut before = ' ';
    let mut letters = text.nfd().peekable();
    while let Some(c) = letters.next() {
        let is_minus = c == '-'
            && !before.is_alphanumeric()
            && letters.peek().is_some_and(char::is_ascii_digit);
        if is_minus || !(c.is_alphanumeric() || c.is_whitespace() || MARKS.contains(c)) {
            signs.push(c);
        }
        before = c;
    }
    signs
}

#[cfg(test)]
mod tests {
    use super::Said;

    #[test]
    fn what_tells_something_makes_a_difference() {
        for (a, b) in [
            ("release 1.4 of the service", "release 1.5 of the service"),
            ("release 1.45 of it", "release 14.5 of it"),
            ("the port of the api is 8080", "the port of the api is 8081"),
            ("Carol cut the release", "Dave cut the release"),
            ("call parseFast first", "call parseSlow first"),
            ("the feature is on", "the feature is not on"),
            (
                "it moved from redis to postgres",
                "it moved from postgres to redis",
            ),
            ("猫追狗", "狗追猫"),
            ("due 2026-03-01", "due 2026-01-03"),
            ("a delay < 5 is fine", "a delay > 5 is fine"),
            ("the offset is 5", "the offset is -5"),
            ("🦀", "🎉"),
            ("con m\u{e1}", "con m\u{e0}"),
            ("ガ", "カ"),
        ] {
            assert_ne!(Said::of(a), Said::of(b), "{a} / {b}");
        }
        let long = |end: &str| format!("{}{end}", "word ".repeat(4_000));
        assert_ne!(Said::of(&long("one")), Said::of(&long("two")));
    }

    #[test]
    fn what_tells_nothing_makes_none() {
        for (a, b) in [
            ("The cache lives in Redis.", "cache lives in redis!"),
            ("the parser keeps tokens", "The parser keeps its token"),
            (
                "the cache timeout was ten minutes",
                "ten minutes is the timeout of the cache",
            ),
            ("Release 1.4 was cut", "release 1.4 is cut"),
            ("the cafe\u{301} is open", "the caf\u{e9} is open"),
            ("\u{304b}\u{3099}", "\u{304c}"),
            ("\u{1112}\u{1161}\u{11ab} a", "\u{d55c} a"),
        ] {
            assert_eq!(Said::of(a), Said::of(b), "{a} / {b}");
        }
    }
}
