//! Words: how texts are cut for the full-text index, and queries likewise.
//!
//! Words are lower-case, composed (Unicode's form NFKC) and without accents on Latin letters. An
//! identifier in camel case is indexed whole and in its parts (snake case comes apart by itself); of
//! scripts written without blanks every character is a word.

mod normal;

use std::borrow::Cow;
use std::cell::RefCell;

use foldhash::HashMap;
use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::char::is_combining_mark;

use self::normal::Normal;

/// The most pieces of a query that are looked for; what comes behind them is left out.
pub(crate) const MAX_QUERY_WORDS: usize = 8;
/// The most words of one piece that are looked for.
const MAX_PIECE_WORDS: usize = 8;
/// The most bytes of one word; longer ones are cut, in texts and queries alike.
const MAX_WORD_BYTES: usize = 48;
/// The most bytes of one text that are indexed.
const MAX_INDEXED_BYTES: usize = 64 * 1024;
/// The fewest letters of a word that is stemmed.
const MIN_STEMMED: usize = 3;
/// The most letters of a word that is stemmed; longer ones are no words of a language.
const MAX_STEMMED: usize = 24;

/// A text as it is indexed: its words with blanks between them.
pub(crate) fn indexed(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + text.len() / 8);
    each_word(text, Parts::Split, &mut |_, word| {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    });
    line
}

/// Calls `visit` with every word of a text and the byte it begins at, in the form in which words
/// are indexed; of an identifier in camel case with the whole and then with its parts.
pub fn words_of(text: &str, mut visit: impl FnMut(usize, &str)) {
    each_word(text, Parts::Split, &mut visit);
}

/// The stem of an indexed word: `retries`, `retrying` and `retried` have one. Words that are not
/// English ones by their letters are their own stems.
#[must_use]
pub fn stem(word: &str) -> Cow<'_, str> {
    if (MIN_STEMMED..=MAX_STEMMED).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_lowercase())
    {
        Stemmer::create(Algorithm::English).stem(word)
    } else {
        Cow::Borrowed(word)
    }
}

/// So many words have their stems at hand in a thread: few others are in most texts.
const MAX_STEMS: usize = 32 * 1024;

thread_local! {
    /// What the stems of words are that are not their own: finding them takes longer than looking.
    static STEMS: RefCell<HashMap<Box<str>, Option<Box<str>>>> = RefCell::default();
}

/// The stems of an indexed text that are not words of it themselves, with blanks between them.
pub(crate) fn stems(indexed: &str, line: &mut String) {
    STEMS.with_borrow_mut(|known| {
        for word in indexed.split(' ') {
            if !known.contains_key(word) {
                if known.len() >= MAX_STEMS {
                    known.clear();
                }
                let stem = stem(word);
                known.insert(word.into(), (stem != word).then(|| stem.as_ref().into()));
            }
            if let Some(Some(stem)) = known.get(word) {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(stem);
            }
        }
    });
}

/// The words of an indexed text to which queries are completed.
pub(crate) fn vocabulary(indexed: &str) -> impl Iterator<Item = &str> {
    let words = indexed.split(' ');
    words.filter(|word| word.chars().nth(1).is_some())
}

/// What a query looks for: each of its pieces between blanks, as the words that must stand next to
/// each other (`snake_case`, `MA-12`, a word of a script without blanks), each piece once.
pub(crate) fn query(text: &str) -> Vec<Vec<String>> {
    let mut pieces: Vec<Vec<String>> = Vec::new();
    for piece in text.split_whitespace() {
        let mut words = Vec::new();
        each_word(piece, Parts::Whole, &mut |_, word| {
            if words.len() < MAX_PIECE_WORDS {
                words.push(word.to_owned());
            }
        });
        if !words.is_empty() && !pieces.contains(&words) {
            pieces.push(words);
        }
        if pieces.len() == MAX_QUERY_WORDS {
            break;
        }
    }
    pieces
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    Whole,
    Split,
}

fn each_word(text: &str, parts: Parts, visit: &mut impl FnMut(usize, &str)) {
    let normal = Normal::of(text, MAX_INDEXED_BYTES);
    let visit = &mut |at, word: &str| visit(normal.original(at), word);
    let text = normal.text();
    for run in text.split(|c: char| !is_part(c)) {
        // A mark without a letter before it belongs to no word.
        let run = run.trim_start_matches(|c: char| !c.is_alphanumeric());
        // Scripts without blanks first: each character a word, what is between them words as well.
        let mut rest = run;
        let mut at = run.as_ptr().addr() - text.as_ptr().addr();
        while !rest.is_empty() {
            let end = if rest.is_ascii() {
                rest.len()
            } else {
                rest.find(stands_alone).unwrap_or(rest.len())
            };
            if end > 0 {
                visit_word(at, &rest[..end], parts, visit);
            }
            (at, rest) = (at + end, &rest[end..]);
            if let Some(first) = rest.chars().next() {
                visit(at, &rest[..first.len_utf8()]);
                (at, rest) = (at + first.len_utf8(), &rest[first.len_utf8()..]);
            }
        }
    }
}

fn visit_word(at: usize, word: &str, parts: Parts, visit: &mut impl FnMut(usize, &str)) {
    let whole = folded(word);
    visit(at, &whole);
    if parts == Parts::Split
        && matches!(whole, Cow::Owned(_))
        && word.chars().skip(1).any(char::is_uppercase)
        && word.chars().any(char::is_lowercase)
    {
        let mut start = 0;
        for end in boundaries(word) {
            visit(at + start, &folded(&word[start..end]));
            start = end;
        }
        if start > 0 {
            visit(at + start, &folded(&word[start..]));
        }
    }
}

/// Where one part of a camel-case word ends and the next begins: before a capital after a small
/// letter, and before the last capital of a row of them (`HTTPServer`).
fn boundaries(word: &str) -> Vec<usize> {
    let letters: Vec<(usize, char)> = word.char_indices().collect();
    letters
        .windows(2)
        .enumerate()
        .filter(|(at, pair)| {
            let next_is_small = letters.get(at + 2).is_some_and(|(_, c)| c.is_lowercase());
            let [(_, left), (_, right)] = pair else {
                return false;
            };
            right.is_uppercase() && (left.is_lowercase() || (left.is_uppercase() && next_is_small))
        })
        .map(|(_, pair)| pair[1].0)
        .collect()
}

/// A word as it is indexed. Most are so already.
fn folded(word: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if word.len() <= MAX_WORD_BYTES && word.bytes().all(plain) {
        return Cow::Borrowed(word);
    }
    let mut text = String::with_capacity(word.len());
    let mut is_latin = false;
    for c in word.chars() {
        match c {
            'a'..='z' | '0'..='9' => text.push(c),
            'A'..='Z' => text.push(c.to_ascii_lowercase()),
            // Accented Latin letters, and accents that no letter includes; other scripts keep what
            // they are.
            _ if is_latin && is_accent(c) => continue,
            '\u{C0}'..='\u{24F}' | '\u{1E00}'..='\u{1EFF}' => {
                is_latin = true;
                match deunicode::deunicode_char(c) {
                    Some(plain) if plain.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                        text.push_str(&plain.to_ascii_lowercase());
                    }
                    _ => text.extend(c.to_lowercase()),
                }
                if text.len() >= MAX_WORD_BYTES {
                    break;
                }
                continue;
            }
            _ => text.extend(c.to_lowercase()),
        }
        is_latin = c.is_ascii();
        if text.len() >= MAX_WORD_BYTES {
            break;
        }
    }
    Cow::Owned(text)
}

/// Whether a character is a mark of Latin letters, Greek ones and the like.
const fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36F}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20FF}')
}

/// Whether a character can stand in a word. Marks that sit on letters are part of them; those that
/// only choose how a character is drawn are not.
fn is_part(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    let is_variant = matches!(c, '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}');
    c.is_alphanumeric() || (is_combining_mark(c) && !is_variant)
}

/// Whether a character is of a script that is written without blanks.
const fn stands_alone(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' | '\u{E00}'..='\u{E7F}' | '\u{E80}'..='\u{EFF}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use proptest::strategy::{Just, Strategy};
    use unicode_normalization::UnicodeNormalization as _;

    use super::{MAX_INDEXED_BYTES, MAX_QUERY_WORDS, indexed, query, words_of};

    #[test]
    fn texts_are_cut_into_words() {
        let check = |text: &str, words: &str| assert_eq!(indexed(text), words, "{text}");
        check("Fix the Login-form!", "fix the login form");
        check("parseHttpRequest", "parsehttprequest parse http request");
        check("HTTPServer", "httpserver http server");
        check("snake_case_name", "snake case name");
        check("Überblick à la carte", "uberblick a la carte");
        check("北京 plan", "北 京 plan");
        check("в Москве", "в москве");
        check("v2.10", "v2 10");
        check("", "");
        check("\0\"*(){}^:", "");
        check("🚀 launch", "launch");
    }

    #[test]
    fn letters_and_their_marks_are_one_word_composed_or_not() {
        let check = |text: &str, words: &str| {
            let apart: String = text.nfd().collect();
            assert_eq!(indexed(text), words, "{text}");
            assert_eq!(indexed(&apart), words, "{text}, decomposed");
        };
        check("Résumé café", "resume cafe");
        check("naïveCafé", "naivecafe naive cafe");
        check("q\u{301}x", "qx");
        check("Tiếng Việt", "tieng viet");
        check("がぎぐ", "が ぎ ぐ");
        check("かきく", "か き く");
        check("한국어 문서", "한국어 문서");
        check("йод ёлка", "йод ёлка");
        check("Ελλάδα", "ελλάδα");
        check("हिन्दी क़लम", "हिन्दी क\u{93c}लम");
        check("বাংলা তথ্য", "ব\u{9be}ংল\u{9be} তথ্য");
        check("أحمد كِتَاب", "أحمد كِتَاب");
        check("שָׁלוֹם", "ש\u{5b8}\u{5c1}לו\u{5b9}ם");
        check("a ≠ b", "a b");
        check("ﬁle ｶﾞ Ｆｕｌｌ", "file ガ full");
        check("❤\u{fe0f} 1\u{fe0f}\u{20e3}", "1");
    }

    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[a-zA-Z0-9 _.-]{0,6}",
            any::<char>().prop_map(String::from),
            "[\u{c0}-\u{24f}\u{1e00}-\u{1eff}]{1,4}",
            "[\u{300}-\u{36f}]{1,2}",
            "[\u{370}-\u{52f}]{1,4}",
            "[\u{5b0}-\u{6ff}]{1,4}",
            "[\u{900}-\u{d7f}]{1,4}",
            "[\u{e00}-\u{eff}\u{1100}-\u{11ff}]{1,4}",
            "[\u{3040}-\u{318f}\u{ac00}-\u{ac7f}]{1,4}",
            "[\u{f900}-\u{faff}\u{fb00}-\u{fdff}\u{ff00}-\u{ffef}]{1,3}",
            Just("\u{e9}".to_owned()),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_text_has_the_same_words_composed_or_not(text in texts()) {
            let (whole, apart): (String, String) = (text.nfc().collect(), text.nfd().collect());
            prop_assert_eq!(indexed(&whole), indexed(&apart));
            prop_assert_eq!(indexed(&whole), indexed(&text));
            prop_assert_eq!(query(&whole), query(&apart));
        }

        #[test]
        fn words_begin_at_characters_of_the_text_in_its_order(text in texts()) {
            let mut last = 0;
            words_of(&text, |at, _| {
                assert!(text.is_char_boundary(at) && at <= text.len(), "{text:?} {at}");
                last = last.max(at);
            });
            prop_assert!(last <= text.len());
        }
    }

    #[test]
    fn long_texts_end_at_the_same_word_composed_or_not() {
        let whole = "\u{e9}t\u{e9} ".repeat(MAX_INDEXED_BYTES / 4);
        let apart: String = whole.nfd().collect();
        assert_eq!(indexed(&whole), indexed(&apart));
        assert!(indexed(&whole).len() < MAX_INDEXED_BYTES);
    }

    #[test]
    fn queries_are_bounded_and_say_each_piece_once() {
        let check = |text: &str, pieces: &[&str]| {
            let found: Vec<String> = query(text).iter().map(|words| words.join("+")).collect();
            assert_eq!(found, pieces, "{text}");
        };
        check("login LOGIN Login form", &["login", "form"]);
        check(
            "MA-12 snake_case parseHttp",
            &["ma+12", "snake+case", "parsehttp"],
        );
        check("据库", &["据+库"]);
        check(
            "title:x NEAR(a OR \"\"\" -- '; DROP",
            &["title+x", "near+a", "or", "drop"],
        );
        assert_eq!(
            query(&"a b c d e f g h i j k l ".repeat(100)).len(),
            MAX_QUERY_WORDS
        );
        assert!(query(&"a-b-".repeat(100_000))[0].len() <= 8);
        assert!(query(&"x".repeat(1_000_000))[0][0].len() < 64);
    }
}
