//! Words of commands that a person copies into a shell.

use std::ffi::OsStr;

/// Returns a word as a POSIX shell reads it: in single quotes, unless all its characters are plain.
#[must_use]
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-+:@%,".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn word_is_quoted_unless_it_is_plain() {
        for (word, text) in [
            ("hello/Cargo.toml", "hello/Cargo.toml"),
            ("a b'c", r"'a b'\''c'"),
            ("x;touch $HOME", "'x;touch $HOME'"),
            ("~", "'~'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), text);
        }
    }
}
