//! What is a secret, by the names of variables and by what stands in their values: one rule for all that is
//! written down of what commands and agents print.

use std::ffi::OsStr;

use orchestra_process::{Environment, PROXIES};

use crate::logs::MIN_SECRET_BYTES;

/// Parts of names, letters and digits only, by which variables are known that hold secrets.
const ANYWHERE: [&str; 8] = [
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
];

/// Words of names that say it, wherever they stand.
const WORDS: [&str; 3] = ["token", "authorization", "bearer"];

/// Words of names that say it at the end.
const LAST_WORDS: [&str; 9] = [
    "tokens", "key", "authkey", "auth", "pat", "pass", "jwt", "cookie", "dsn",
];

/// Last words of names of variables that say where and how something runs.
const PLACES: [&str; 18] = [
    "home", "dir", "path", "root", "env", "sha", "ref", "branch", "version", "name", "host",
    "port", "level", "mode", "user", "shell", "editor", "display",
];

/// Values that say yes, no or nothing, and would be found everywhere.
const SWITCHES: [&str; 4] = ["true", "false", "none", "null"];

/// Shorter values of variables whose names tell nothing are no secrets.
const MIN_UNNAMED_BYTES: usize = 8;

/// A number with fewer digits is a count rather than a secret.
const MIN_DIGITS: usize = 6;

/// Whether a variable of this name holds a secret.
pub(crate) fn names_secret(name: &str) -> bool {
    let words = words(name);
    let letters = words.concat();
    let last = words.last().map_or("", String::as_str);
    ANYWHERE.iter().any(|part| letters.contains(part))
        || words.iter().any(|word| WORDS.contains(&word.as_str()))
        || LAST_WORDS.contains(&last)
        || last.ends_with("token")
}

/// Whether a value of a variable with such a name is worth hiding.
pub(crate) fn is_worth_hiding(value: &str) -> bool {
    let is_count = value.len() < MIN_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_switch = SWITCHES.iter().any(|word| value.eq_ignore_ascii_case(word));
    value.len() >= MIN_SECRET_BYTES && !is_count && !is_switch
}

/// Whether the value of a variable of the host is hidden that a plan has put into a value of its own: where
/// its name says so, or does not say that it is something else.
pub(crate) fn is_hidden(name: &str, value: &str) -> bool {
    if names_secret(name) {
        return is_worth_hiding(value);
    }
    let is_known = Environment::Default.inherits(OsStr::new(name)) && !PROXIES.contains(&name);
    let last = words(name).pop().unwrap_or_default();
    let is_place = value.starts_with('/') || PLACES.contains(&last.as_str()) || name == "PWD";
    value.len() >= MIN_UNNAMED_BYTES && !is_known && !is_place && !value.contains("://")
}

/// The passwords of the addresses in a value, as they are written there.
pub(crate) fn passwords(value: &str) -> impl Iterator<Item = &str> {
    value.split("://").skip(1).filter_map(|rest| {
        let end = rest.find(|char: char| matches!(char, '/' | '?' | '#') || char.is_whitespace());
        let (who, _) = rest[..end.unwrap_or(rest.len())].rsplit_once('@')?;
        let password = who.split_once(':').map_or(who, |(_, password)| password);
        // A name alone, as in `ssh://git@host`, is a token where it is as long as one.
        let least = match who.contains(':') {
            true => MIN_SECRET_BYTES,
            false => MIN_UNNAMED_BYTES * 2,
        };
        (password.len() >= least).then_some(password)
    })
}

/// The words of a name in lower case: what stands between underlines and the like, and from one capital that
/// follows a small letter to the next.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for char in name.chars() {
        let ends = !char.is_ascii_alphanumeric() || (was_small && char.is_ascii_uppercase());
        if ends && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if char.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(char.to_ascii_lowercase());
        }
        was_small = char.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_secret() {
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
            "GITHUB_PAT",
            "NPM_AUTH",
            "_KEY",
            "SENTRY_DSN",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "HTTP_AUTHORIZATION",
        ] {
            assert!(names_secret(name), "{name}");
        }
        for name in [
            "HOME",
            "PATH",
            "TOKENS_PER_MINUTE",
            "KEYBOARD",
            "MONKEY",
            "SSH_AUTH_SOCK",
            "PASSENGERS",
            "",
        ] {
            assert!(!names_secret(name), "{name}");
        }
    }

    #[test]
    fn switches_and_counts_are_not_worth_hiding() {
        for value in ["abcd", "123456", "s3cr", "trueish"] {
            assert!(is_worth_hiding(value), "{value}");
        }
        for value in ["", "abc", "4096", "True", "none"] {
            assert!(!is_worth_hiding(value), "{value}");
        }
    }

    #[test]
    fn what_is_put_in_is_hidden_unless_its_name_says_what_it_is() {
        for (name, value) in [
            ("VAULT", "aB3dE5gH"),
            ("DB_PASSWORD", "hunt"),
            ("X", "a-long-value"),
        ] {
            assert!(is_hidden(name, value), "{name}");
        }
        for (name, value) in [
            ("PATH", "bin:usr/bin:sbin"),
            ("HOME", "/home/somebody"),
            ("NODE_ENV", "production"),
            ("CACHE", "/var/cache/x"),
            ("X", "short"),
            ("API_URL", "https://example.org"),
        ] {
            assert!(!is_hidden(name, value), "{name}");
        }
    }

    #[test]
    fn addresses_have_passwords() {
        let of = |value| passwords(value).collect::<Vec<_>>();
        assert_eq!(of("postgres://app:pa:ss@w0rd@db/x?y=a@b"), ["pa:ss@w0rd"]);
        assert_eq!(
            of("http://u:first@a,https://u:second@b:1"),
            ["first", "second"]
        );
        assert_eq!(of("https://0123456789abcdef@host/x"), ["0123456789abcdef"]);
        assert_eq!(of("ssh://git@host x://"), [""; 0]);
    }
}
