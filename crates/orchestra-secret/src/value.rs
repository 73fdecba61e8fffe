//! Values: whether a text under the name of a secret is a secret, and not a reference, a word or code.

use crate::{
    MASK,
    name::is_secret_name,
    table::{COMMON_WORDS, OBJECTS, PLACEHOLDER_WORDS, PLAIN_WORDS, TOKENS},
};

/// Minimum length of a known value. Shorter values occur in too many words.
pub const MIN_SECRET_BYTES: usize = 4;

/// Minimum length of a user name in a URL to count as a token.
const MIN_USER_TOKEN_BYTES: usize = 16;

/// Minimum length of a random value.
const MIN_RANDOM_BYTES: usize = 6;

/// Minimum length of a token of letters alone.
const MIN_SCRAMBLED_BYTES: usize = 16;

/// Number with fewer digits is a count.
const MIN_DIGITS: usize = 6;

/// Maximum length of a value made of plain words.
const MAX_PLAIN_BYTES: usize = 64;

/// Ends of names of files that contain keys or configurations.
const EXTENSIONS: [&str; 14] = [
    ".pem", ".key", ".crt", ".cer", ".p12", ".pfx", ".jks", ".pub", ".json", ".txt", ".yml",
    ".yaml", ".toml", ".env",
];

/// Values that switch something on or off, or are empty.
const SWITCHES: [&str; 8] = ["true", "false", "none", "null", "yes", "no", "on", "off"];

/// Returns whether the value of a secret variable is worth masking in any text: not a switch, not a small
/// number, and not shorter than [`MIN_SECRET_BYTES`].
#[must_use]
pub fn is_secret_value(value: &str) -> bool {
    let is_count = value.len() < MIN_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_switch = SWITCHES.iter().any(|word| value.eq_ignore_ascii_case(word));
    value.len() >= MIN_SECRET_BYTES && !is_count && !is_switch
}

/// Passwords of the URLs in a value, and user names that are long enough for a token.
pub fn url_passwords(value: &str) -> impl Iterator<Item = &str> {
    value.split("://").skip(1).filter_map(|rest| {
        let end = rest.find(|char: char| matches!(char, '/' | '?' | '#') || char.is_whitespace());
        let (who, _) = rest[..end.unwrap_or(rest.len())].rsplit_once('@')?;
        let (password, least) = match who.split_once(':') {
            // A token with a word in the place of the password.
            Some((user, "" | "x-oauth-basic")) => (user, MIN_USER_TOKEN_BYTES),
            Some((_, password)) => (password, MIN_SECRET_BYTES),
            None => (who, MIN_USER_TOKEN_BYTES),
        };
        (password.len() >= least).then_some(password)
    })
}

/// Returns whether a value is masked already, or refers to a secret, or fills its place: `$TOKEN`,
/// `${{ secrets.TOKEN }}`, `%TOKEN%`, `<token>`, `{token}`, `...`.
pub(crate) fn is_reference(value: &str) -> bool {
    let value = value.trim();
    if value.is_empty()
        || value.starts_with(MASK)
        || is_masked(value)
        || value.contains("${")
        || value.contains("$(")
        || value.contains("{{")
    {
        return true;
    }
    if let Some(name) = value.strip_prefix('$') {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'.');
        return name
            .bytes()
            .next()
            .is_none_or(|first| !first.is_ascii_digit() || name.len() == 1)
            && name.bytes().all(is_name);
    }
    let is_enclosed = |open: char, close: char| {
        value.len() > 1 && value.starts_with(open) && value.ends_with(close)
    };
    if is_enclosed('%', '%')
        || is_enclosed('<', '>')
        || is_enclosed('{', '}')
        || is_enclosed('[', ']')
        || is_enclosed('`', '`')
    {
        return true;
    }
    if value.starts_with('<') || value.starts_with("%s") || value.starts_with("@@") {
        return true;
    }
    // `…`, `...`, `***`, `xxxx`, `----`
    let mut chars = value.chars();
    let first = chars.next().unwrap_or_default();
    let is_filled = value.len() >= 3 || !first.is_ascii_alphanumeric();
    is_filled
        && matches!(
            first,
            '.' | '*' | '…' | '•' | 'x' | 'X' | '-' | '_' | '#' | '?' | '0'
        )
        && chars.all(|char| char == first)
}

/// Returns whether a value is a mask of any length, or the prefix of a token and a mask.
fn is_masked(value: &str) -> bool {
    let prefix = value.trim_end_matches(['*', '…']);
    let is_prefix = || TOKENS.iter().any(|token| token.prefix == prefix);
    prefix != value && (prefix.is_empty() || prefix == "eyJ" || is_prefix())
}

/// Returns whether a value is made of words that are no secrets: `password`, `your-token-here`, `null`.
#[must_use]
pub fn is_plain_value(value: &str) -> bool {
    let value = value.trim_end_matches('…');
    if value.len() > MAX_PLAIN_BYTES || !value.is_ascii() {
        return false;
    }
    let is_in = |words: &[&str], word: &str| {
        word.len() <= 16 && words.iter().any(|plain| word.eq_ignore_ascii_case(plain))
    };
    let words = || {
        value
            .split(|char: char| !char.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
    };
    let is_placeholder = words().nth(1).is_none()
        || value.contains('/')
        || words().any(|word| is_in(PLACEHOLDER_WORDS, word));
    is_placeholder && words().all(|word| is_in(PLAIN_WORDS, word))
}

/// Returns whether a value is a passphrase: several words in lower case, none of them of a sentence.
pub(crate) fn is_phrase(value: &str) -> bool {
    let is_word = |word: &str| {
        let is_common = COMMON_WORDS.contains(&word) || PLACEHOLDER_WORDS.contains(&word);
        let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        !is_common && !word.is_empty() && word.bytes().all(is_lower)
    };
    let words = value.split(' ').count();
    value.len() >= MIN_RANDOM_BYTES && (2..=8).contains(&words) && value.split(' ').all(is_word)
}

/// Returns whether a value is two words in lower case with a full stop between, where the first is no object of a
/// program: `letmein.now`, but not `config.password`.
pub(crate) fn is_two_words(value: &str) -> bool {
    let is_word =
        |word: &str| word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    value.split_once('.').is_some_and(|(first, last)| {
        is_word(first) && is_word(last) && !OBJECTS.contains(&first) && !is_secret_name(last)
    })
}

/// Returns whether a value is the name of a file, as the value of `--tls-key` is.
pub(crate) fn is_file(value: &str) -> bool {
    let is_extension = |end: &str| value.len() > end.len() && value.ends_with(end);
    let is_relative = ["~/", "./", "../"]
        .iter()
        .any(|start| value.starts_with(start));
    is_relative || EXTENSIONS.iter().any(|end| is_extension(end))
}

/// Returns whether a value is one word in capitals.
pub(crate) fn is_capitals(value: &str) -> bool {
    value.len() >= MIN_SECRET_BYTES
        && value.bytes().all(|byte| byte.is_ascii_uppercase())
        && !is_plain_value(value)
}

/// Returns whether a value looks random: a digit beside letters, or a mixture of cases or symbols that no
/// identifier has.
pub(crate) fn is_random(value: &str) -> bool {
    if value.len() < MIN_RANDOM_BYTES || is_plain_value(value) {
        return false;
    }
    let has = |is: fn(&u8) -> bool| value.as_bytes().iter().any(&is);
    let has_letter = has(u8::is_ascii_alphabetic);
    let has_digit = has(u8::is_ascii_digit);
    let has_symbol = value.bytes().any(|byte| {
        matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'^' | b'*' | b'+' | b'~' | b'@'
        )
    });
    has_letter && (has_digit || has_symbol)
        || is_mixed(value)
        || (has_digit
            && value.len() >= 2 * MIN_RANDOM_BYTES
            && value.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether a value is letters of both cases in an order that no name has.
fn is_mixed(value: &str) -> bool {
    let upper = value.bytes().filter(u8::is_ascii_uppercase).count();
    let lower = value.bytes().filter(u8::is_ascii_lowercase).count();
    upper + lower == value.len()
        && value.len() >= 2 * MIN_RANDOM_BYTES
        && lower >= 4
        && 5 * upper >= 2 * value.len()
}

/// Returns whether an unquoted value is an expression of a program, such as a path of names or a call.
pub(crate) fn is_code(value: &str) -> bool {
    if value.contains(['(', ')', '[', ']', '{', '}', '<', '>', '`', '|', '\\'])
        || value.contains("::")
        || value.contains("->")
        || value.contains("?.")
    {
        return true;
    }
    // A type, a reference or a negation.
    if value.starts_with([
        '&', '*', '!', '@', '?', '-', '.', '/', '#', ',', ';', ':', '=', '"', '\'', '…', '~',
    ]) {
        return true;
    }
    is_path_of_names(value)
}

/// Returns whether a value is names joined by dots, with at least one dot: `self.token`, `config.auth2.key`.
fn is_path_of_names(value: &str) -> bool {
    let mut parts = value.split('.').peekable();
    let is_name = |part: &str| {
        part.bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && part.len() <= 32
            && (part.bytes().filter(u8::is_ascii_digit).count() <= 2)
    };
    value.contains('.') && parts.all(is_name)
}

/// Returns whether a value is an identifier of a program: letters, digits and `_`, where words are parted by `_` or
/// by case and digits only end a word (`new_token2`).
pub(crate) fn is_identifier(value: &str) -> bool {
    let is_word = |word: &str| {
        let letters = word.trim_end_matches(|char: char| char.is_ascii_digit());
        let digits = word.len() - letters.len();
        !letters.is_empty() && digits <= 1 && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    !is_scrambled(value) && value.trim_matches('_').split('_').all(is_word)
}

/// Returns whether a value is as long as a token and made of letters whose case changes more often than that of words
/// does: `AbCdEfGhIjKlMnOp`.
fn is_scrambled(value: &str) -> bool {
    let bytes = value.as_bytes();
    let changes = bytes.windows(2).filter(|pair| {
        let [first, second] = [pair[0], pair[1]].map(|byte| byte.is_ascii_uppercase());
        first != second
    });
    value.len() >= MIN_SCRAMBLED_BYTES
        && bytes.iter().all(u8::is_ascii_alphabetic)
        && 5 * changes.count() >= 2 * value.len()
}

/// Returns whether a value repeats the name of a secret: `password=new_password`.
pub(crate) fn is_name(value: &str) -> bool {
    is_identifier(value) && is_secret_name(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_counts_are_not_secret_values() {
        for value in ["abcd", "123456", "s3cr", "trueish"] {
            assert!(is_secret_value(value), "{value}");
        }
        for value in ["", "abc", "4096", "True", "none"] {
            assert!(!is_secret_value(value), "{value}");
        }
    }

    #[test]
    fn passwords_of_urls_are_found() {
        let of = |value| url_passwords(value).collect::<Vec<_>>();
        assert_eq!(of("postgres://app:pa:ss@w0rd@db/x?y=a@b"), ["pa:ss@w0rd"]);
        assert_eq!(
            of("http://u:first@a,https://u:second@b:1"),
            ["first", "second"]
        );
        for url in [
            "https://0123456789abcdef@host/x",
            "https://0123456789abcdef:@host/x",
            "https://0123456789abcdef:x-oauth-basic@host/x",
        ] {
            assert_eq!(of(url), ["0123456789abcdef"], "{url}");
        }
        assert_eq!(of("ssh://git@host x://"), [""; 0]);
    }

    #[test]
    fn letters_of_a_token_are_no_identifier() {
        for value in [
            "AbCdEfGhIjKlMnOpQrStUvWx",
            "qWmTzRbYkLpNcVxJ",
            "kZbQwErTyUiOpAsD",
        ] {
            assert!(is_random(value) && !is_identifier(value), "{value}");
        }
        for value in [
            "getHTTPURLForAPIToken",
            "parseJSONFromHTTPResponse",
            "accessTokenProvider",
            "XMLHttpRequestUpload",
            "MAXIMUM_TOKEN_BYTES",
            "UserServiceClientId",
        ] {
            assert!(is_identifier(value), "{value}");
        }
    }

    #[test]
    fn references_and_placeholders_are_recognised() {
        for value in [
            "$TOKEN",
            "${TOKEN}",
            "${{ secrets.TOKEN }}",
            "%TOKEN%",
            "<token>",
            "{token}",
            "...",
            "***",
            "ghp_***",
            "xxxx",
            "$1",
            "",
        ] {
            assert!(is_reference(value), "{value}");
        }
        for value in ["hunter2", "$2b$10$abcdefgh", "x1", "a%b"] {
            assert!(!is_reference(value), "{value}");
        }
    }
}
