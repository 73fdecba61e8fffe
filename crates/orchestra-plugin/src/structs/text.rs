//! Finds what needs an escape in strings of JSON, and writes it. Eight bytes are looked at together,
//! as one number: a word.

use super::Style;

/// How many bytes are in a word.
const WORD: usize = size_of::<u64>();

/// How many words are looked at together.
const BLOCK: usize = 4;

/// A number with one in each byte, and one with the high bit of each.
const ONES: u64 = u64::MAX / 0xff;
const HIGHS: u64 = ONES << 7;

/// How many bytes at the front of `bytes` can stand in a JSON string as they are.
#[inline]
pub(super) fn plain_len(bytes: &[u8]) -> usize {
    prefix_len(bytes, needs_escape)
}

/// Appends `text` as a JSON string.
pub(super) fn put_string(out: &mut String, text: &str, style: Style) {
    out.push('"');
    match style {
        Style::Plain => escape(out, text, needs_escape),
        // The byte 0xe2 starts the two line separators, among others.
        Style::Sorted => escape(out, text, |word| {
            needs_escape(word)
                | equal_to(word, b'<')
                | equal_to(word, b'>')
                | equal_to(word, b'&')
                | equal_to(word, 0xe2)
        }),
    }
    out.push('"');
}

/// Sets the high bit of the first byte in `word` that cannot stand in a string, if there is one;
/// those of the bytes behind it may be wrong.
#[inline(always)]
fn needs_escape(word: u64) -> u64 {
    let below_space = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    below_space | equal_to(word, b'"') | equal_to(word, b'\\')
}

/// Sets the high bit of the first byte in `word` that is `byte`.
#[inline(always)]
fn equal_to(word: u64, byte: u8) -> u64 {
    let zero_where_equal = word ^ (ONES * u64::from(byte));
    zero_where_equal.wrapping_sub(ONES) & !zero_where_equal & HIGHS
}

#[inline(always)]
fn prefix_len(bytes: &[u8], special: impl Fn(u64) -> u64) -> usize {
    let (words, rest) = bytes.as_chunks::<WORD>();
    // In long text several words are looked at together, which the compiler turns into vectors.
    let is_plain = |block: &&[[u8; WORD]; BLOCK]| {
        let found = block.map(|word| special(u64::from_le_bytes(word)));
        found.iter().fold(0, |all, found| all | found) == 0
    };
    let (blocks, _) = words.as_chunks::<BLOCK>();
    let skipped = BLOCK * blocks.iter().take_while(is_plain).count();
    for (index, word) in words.iter().enumerate().skip(skipped) {
        // The first byte is the lowest, so that a borrow of the subtractions goes behind it.
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return index * WORD + found.trailing_zeros() as usize / 8;
        }
    }
    // What is missing in the last word is filled with spaces, which need no escape.
    let mut last = [b' '; WORD];
    last[..rest.len()].copy_from_slice(rest);
    match special(u64::from_le_bytes(last)) {
        0 => bytes.len(),
        found => bytes.len() - rest.len() + found.trailing_zeros() as usize / 8,
    }
}

#[inline(always)]
fn escape(out: &mut String, text: &str, special: impl Fn(u64) -> u64 + Copy) {
    let mut rest = text;
    loop {
        let plain = prefix_len(rest.as_bytes(), special);
        let (head, tail) = rest.split_at(plain);
        out.push_str(head);
        // The byte that was found is ASCII or starts a character, so a character stands here.
        let Some(character) = tail.chars().next() else {
            return;
        };
        put_escape(out, character);
        rest = &tail[character.len_utf8()..];
    }
}

fn put_escape(out: &mut String, character: char) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\u{2028}' => out.push_str("\\u2028"),
        '\u{2029}' => out.push_str("\\u2029"),
        '\0'..='\u{1f}' | '<' | '>' | '&' => {
            let code = character as usize;
            out.push_str("\\u00");
            out.push(char::from(HEX[code >> 4]));
            out.push(char::from(HEX[code & 15]));
        }
        other => out.push(other),
    }
}
