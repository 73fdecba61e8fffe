//! Names that mean a secret: of variables, members, headers, options, and parameters.

use crate::table::{
    ATTRIBUTES, NOT_SECRET_ENDS, PLAIN_KEYS, PLAIN_TOKENS, SECRET_ENDS, SECRET_LAST_WORDS,
    SECRET_PARTS, SECRET_TOKENS, SECRET_WORDS,
};

/// Number of bytes of a name that are considered; the end of a longer name decides.
const MAX_NAME_BYTES: usize = 256;

/// Certainty with which a name means a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    /// The name has other meanings in programs: `token`, `auth`, `pass`.
    Weak,
    /// The name has no other meaning: `password`, `api_key`.
    Strong,
}

/// Returns whether a value under this name is a secret. Names of variables, members of JSON, headers, options and
/// parameters are accepted, in any case and with any separators.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    strength(name).is_some()
}

/// Certainty with which `name` means a secret, or `None` when it does not.
pub(crate) fn strength(name: &str) -> Option<Strength> {
    if matches!(name, "PWD" | "OLDPWD") {
        return None;
    }
    let from = name.len().saturating_sub(MAX_NAME_BYTES);
    let name = &name[name.ceil_char_boundary(from)..];
    let words = words(name);
    let last = words.last()?.as_str();
    let before = words.len().checked_sub(2).map(|at| words[at].as_str());
    if ATTRIBUTES.contains(&last) {
        return None;
    }
    if last == "key" || last == "keys" {
        return match before {
            Some(before) => key_after(before, &words),
            // A bare `key` is a member of many objects, and `KEY` a variable.
            None => name.contains("KEY").then_some(Strength::Weak),
        };
    }
    let letters = words.concat();
    if SECRET_PARTS.iter().any(|part| letters.contains(part)) && !letters.contains("secretar") {
        return Some(Strength::Strong);
    }
    if matches!(last, "token" | "tokens") {
        let is_plain = before.is_some_and(|before| PLAIN_TOKENS.contains(&before));
        let is_number =
            last == "tokens" && !before.is_some_and(|word| SECRET_TOKENS.contains(&word));
        return (!is_plain && !is_number).then_some(match before {
            Some(_) => Strength::Strong,
            None => Strength::Weak,
        });
    }
    if last == "authorization" {
        return Some(Strength::Strong);
    }
    if words
        .iter()
        .any(|word| SECRET_WORDS.contains(&word.as_str()))
    {
        return Some(Strength::Weak);
    }
    if SECRET_LAST_WORDS.contains(&last) || (last == "pat" && before.is_some()) {
        return Some(Strength::Weak);
    }
    let ends = SECRET_ENDS.iter().any(|end| last.ends_with(end));
    (ends && !NOT_SECRET_ENDS.contains(&last)).then_some(Strength::Weak)
}

/// Strength of a name whose last word is `key`.
fn key_after(before: &str, words: &[String]) -> Option<Strength> {
    let strong = [
        "api",
        "access",
        "secret",
        "private",
        "auth",
        "signing",
        "encryption",
        "master",
        "account",
        "service",
    ];
    if strong.contains(&before)
        || SECRET_PARTS
            .iter()
            .any(|part| words.concat().contains(part))
    {
        return Some(Strength::Strong);
    }
    (!PLAIN_KEYS.contains(&before)).then_some(Strength::Weak)
}

/// Words of a name in lower case, parted at separators and at changes from lower to upper case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for char in name.chars() {
        let ends = !char.is_ascii_alphanumeric() || (was_lower && char.is_ascii_uppercase());
        if ends && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if char.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(char.to_ascii_lowercase());
        }
        was_lower = char.is_ascii_lowercase() || char.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_names_are_recognised_in_any_notation() {
        for name in [
            "GITHUB_TOKEN",
            "GH_TOKEN",
            "NPMTOKEN",
            "API_TOKENS",
            "OPENAI_API_KEY",
            "apiKey",
            "db_password",
            "PGPASSWORD",
            "MYSQL_PASS",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "SIGNING_PASSPHRASE",
            "DB_PASSPHRASE",
            "GITHUB_PAT",
            "NPM_AUTH",
            "_KEY",
            "SENTRY_DSN",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "HTTP_AUTHORIZATION",
            "X-Api-Key",
            "token",
            "db.password",
            "Ocp-Apim-Subscription-Key",
            "PRIVATE-TOKEN",
            "x-vault-token",
            "--docker-password",
            "cookies",
            "access_token",
            "id_token",
            "client_secret",
            "clientSecret",
            "AccountKey",
            "SharedAccessKey",
            "Pwd",
            "requirepass",
            "STRIPE_KEY",
            "OPENAI_KEY",
            "SSH_KEY",
            "DBPASS",
            "_authToken",
            "npmAuthToken",
            "CF-Access-Client-Secret",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn plain_names_are_not_secret() {
        for name in [
            "HOME",
            "PATH",
            "TOKENS_PER_MINUTE",
            "KEYBOARD",
            "MONKEY",
            "SSH_AUTH_SOCK",
            "PASSENGERS",
            "",
            "tokens",
            "name",
            "keyboard",
            "PWD",
            "max_tokens",
            "output_tokens",
            "token_type",
            "TOKEN_URL",
            "progressToken",
            "nextPageToken",
            "primary_key",
            "publicKey",
            "cache_key",
            "author",
            "key",
            "compass",
            "password_file",
            "secretName",
            "tokenizer",
            "path",
            "session_id",
            "token_count",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
