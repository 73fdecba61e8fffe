//! Fields and texts of forms that ask a person for a secret.
//!
//! A person answers whatever a text asks for, so this looks at more than [`is_secret_name`](crate::is_secret_name):
//! at sentences, at words of other languages, and at letters that only look like those of ASCII.

use crate::{
    is_secret_name,
    table::{
        ASKED_NAMES, ASKED_PARTS, ASKED_PHRASES, ASKED_WORDS, ATTRIBUTES, PLAIN_TOKENS,
        SECRET_PARTS,
    },
};

/// Number of words that a phrase may have.
const PHRASE: usize = 3;

/// Number of bytes of a text that are considered.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Returns whether a field of this name or title is for a secret.
#[must_use]
pub fn is_secret_field(name: &str) -> bool {
    let name = folded(name);
    let words = words(&name);
    let last = words.last().map(|word| word.text.as_str());
    is_secret_name(&name) || last.is_some_and(|last| ASKED_NAMES.contains(&last)) || asks(&words)
}

/// Returns whether a text names a secret, as `Enter your GitHub password` does. A property of a secret is none: `token
/// name`, `password length`.
#[must_use]
pub fn mentions_secret(text: &str) -> bool {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    asks(&words(&folded(text)))
}

/// A word in lower case, and whether only a blank, a hyphen or an underscore is before it.
struct Word {
    text: String,
    follows: bool,
}

fn asks(words: &[Word]) -> bool {
    (0..words.len()).any(|at| {
        let len = secret_at(words, at);
        let next = words.get(at + len).filter(|next| next.follows);
        let is_attribute = next.is_some_and(|next| ATTRIBUTES.contains(&next.text.as_str()));
        len > 0 && !is_attribute
    })
}

/// Number of words from `at` that name a secret together; 0 when they name none.
fn secret_at(words: &[Word], at: usize) -> usize {
    let word = words[at].text.as_str();
    let before = at.checked_sub(1).map(|before| words[before].text.as_str());
    let is_plain = word == "token" && before.is_some_and(|before| PLAIN_TOKENS.contains(&before));
    let has_part = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
    let is_word = ASKED_WORDS.contains(&word) && !is_plain;
    if is_word || has_part(ASKED_PARTS) || (has_part(SECRET_PARTS) && !word.contains("secretar")) {
        return 1;
    }
    let mut phrase = String::new();
    for (len, next) in (1..=PHRASE).zip(&words[at..]) {
        if len > 1 && !next.follows {
            break;
        }
        phrase.push_str(&next.text);
        let one = phrase.strip_suffix('s').unwrap_or(&phrase);
        let parts = [ASKED_PHRASES, SECRET_PARTS, ASKED_PARTS];
        if parts.iter().any(|parts| parts.contains(&one)) {
            return len;
        }
    }
    0
}

/// Words, parted at what is no letter or digit and at changes from lower to upper case.
fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut in_word, mut was_lower, mut follows) = (false, false, true);
    for c in text.chars() {
        if c.is_alphanumeric() {
            if !in_word || (was_lower && c.is_uppercase()) {
                words.push(Word {
                    text: String::new(),
                    follows: std::mem::replace(&mut follows, true),
                });
            }
            if let Some(word) = words.last_mut() {
                word.text.extend(c.to_lowercase());
            }
            in_word = true;
            was_lower = c.is_lowercase() || c.is_numeric();
        } else {
            in_word = false;
            follows &= matches!(c, ' ' | '-' | '_');
        }
    }
    words
}

/// A text with letters that look like those of ASCII replaced by these, and without characters that cannot be seen.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{ad}'
            | '\u{300}'..='\u{36f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' => {}
            '\u{3000}' | '\u{a0}' => folded.push(' '),
            // The forms of ASCII as wide as those of Chinese have the order of ASCII.
            '\u{ff01}'..='\u{ff5e}' => {
                folded.extend(char::from_u32(u32::from(c) - 0xff01 + 0x21));
            }
            'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => folded.push('a'),
            'ç' => folded.push('c'),
            'è' | 'é' | 'ê' | 'ë' => folded.push('e'),
            'ì' | 'í' | 'î' | 'ï' => folded.push('i'),
            'ñ' | 'Ñ' => folded.push(if c == 'ñ' { 'n' } else { 'N' }),
            'ò' | 'ó' | 'ô' | 'õ' | 'ö' => folded.push('o'),
            'ù' | 'ú' | 'û' | 'ü' => folded.push('u'),
            'ł' => folded.push('l'),
            c => folded.push(c),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_asks_for_a_secret_is_recognised() {
        for text in [
            "Orchestra needs your GitHub password",
            "Enter the pass word",
            "Paste an API key.",
            "Your access token, please",
            "Type the one-time code",
            "Dein Passwort bitte",
            "Kennwort?",
            "Su contraseña",
            "Su CONTRASEÑA",
            "Votre mot de passe",
            "Введите пароль",
            "请输入密码",
            "ｐａｓｓｗｏｒｄ",
            "pass\u{200b}word",
            "contrasen\u{303}a",
            "credit_card",
            "Card number and CVV",
            "mfa_code",
            "mfaCode",
            "Enter token: name it",
        ] {
            assert!(mentions_secret(text), "{text}");
        }
        for field in [
            "pat",
            "PIN",
            "otp",
            "github_pat",
            "apiKey",
            "card_number",
            "Passwort",
        ] {
            assert!(is_secret_field(field), "{field}");
        }
    }

    #[test]
    fn other_texts_of_forms_are_plain() {
        for text in [
            "",
            "Which branch?",
            "A compass, or words for the secretary",
            "Title of the issue, at most 80 characters",
            "The token name",
            "Max tokens of the answer",
            "Pin the issue for Pat?",
            "Code of the error",
            "Next page token",
        ] {
            assert!(!mentions_secret(text), "{text}");
        }
        for field in [
            "name",
            "path",
            "pattern",
            "pinned",
            "code",
            "token_name",
            "card",
            "author",
        ] {
            assert!(!is_secret_field(field), "{field}");
        }
    }
}
