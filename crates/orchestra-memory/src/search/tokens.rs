//! About how many tokens a text costs a model.
//!
//! Models cut texts up differently, and none tells us how. What is counted is what usual ones make of
//! each script, rather more than less: four letters of English a token, fewer of other alphabets, one
//! sign of those that write a word with one or two.

/// Parts of a token that are counted with.
const PARTS: usize = 4;
/// What a text ends with that goes on.
const GOES_ON: char = '…';

/// About how many tokens a text costs.
#[must_use]
pub fn tokens(text: &str) -> usize {
    costs(text)
        .map(|(_, cost)| cost)
        .sum::<usize>()
        .div_ceil(PARTS)
}

/// The beginning of a text that costs no more than so many tokens, and says so where it is not all.
pub(super) fn beginning_within(text: &str, most: usize) -> String {
    if tokens(text) <= most {
        return text.to_owned();
    }
    let Some(mut left) = (most * PARTS).checked_sub(PARTS) else {
        return String::new();
    };
    let mut beginning = String::new();
    for (c, cost) in costs(text) {
        let Some(rest) = left.checked_sub(cost) else {
            break;
        };
        left = rest;
        beginning.push(c);
    }
    beginning.push(GOES_ON);
    beginning
}

/// The characters of a text, and how many parts of a token each costs.
fn costs(text: &str) -> impl Iterator<Item = (char, usize)> {
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    words.flat_map(|word| {
        // Sums and times are in no dictionary.
        let is_number = word.contains(|c: char| c.is_ascii_digit());
        word.chars().map(move |c| (c, parts(c, is_number)))
    })
}

/// How many parts of a token a character costs, in a word with digits or in another.
const fn parts(c: char, is_number: bool) -> usize {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' if is_number => 3,
        'a'..='z' | 'A'..='Z' | ' ' => 1,
        // Signs stand mostly alone.
        '\0'..='\u{7f}' => 2,
        // Letters with marks, and the alphabets of Greek, Cyrillic, Armenian, Hebrew and Arabic.
        '\u{80}'..='\u{6ff}' | '\u{1e00}'..='\u{1fff}' => 2,
        '\u{700}'..='\u{ffff}' => PARTS,
        // Pictures, and signs that are seldom written, are told by their bytes.
        _ => 3 * PARTS,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{beginning_within, tokens};

    #[test]
    fn each_script_costs_what_it_costs() {
        for (text, least, most) in [
            ("", 0, 0),
            ("The cache of the parser is kept in an arena", 9, 14),
            ("解析器将其标记保存在竞技场中", 14, 14),
            ("構文解析器はトークンをアリーナに保持する", 20, 20),
            ("Парсер хранит свои токены", 7, 13),
            ("🦀🦀", 4, 6),
            ("9f86d081884c7d65", 10, 12),
        ] {
            let told = tokens(text);
            assert!((least..=most).contains(&told), "{text}: {told}");
        }
    }

    proptest! {
        #[test]
        fn a_beginning_keeps_within(text in any::<String>(), most in 0_usize..50) {
            let beginning = beginning_within(&text, most);
            prop_assert!(tokens(&beginning) <= most);
            if beginning != text {
                let said = beginning.trim_end_matches('…');
                prop_assert!(text.starts_with(said));
            }
        }
    }
}
