//! Names of servers.

use std::{fmt, str::FromStr};

use sha2::{Digest as _, Sha256};

use crate::names::hex;

/// The longest name.
const MAX_CHARS: usize = 64;

/// Names of this program, and of its entries in the files of clients.
pub(crate) const PROGRAM_NAMES: [&str; 2] = ["orchestra", "orchestra-mcp"];

/// The name of a server: 1 to 64 of `a`–`z`, `0`–`9` and `-`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(String);

/// A text that is no name of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a server's name must have 1 to 64 characters of a-z, 0-9 and -")]
pub struct NameError;

impl ServerName {
    /// The name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether it is a name of this program.
    #[must_use]
    pub fn is_of_program(&self) -> bool {
        PROGRAM_NAMES.contains(&self.as_str())
    }

    /// The name for a text that need not be one: letters become small, whatever else is not
    /// permitted becomes `-`. The same text gives the same name everywhere. Where nothing is left,
    /// or too much, a part of its hash stands in.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        if let Ok(name) = text.parse() {
            return name;
        }
        let mut name = String::new();
        for c in text.chars().flat_map(char::to_lowercase) {
            if is_permitted(c) {
                name.push(c);
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        }
        let name = name.trim_matches('-');
        if !name.is_empty() && name.len() <= MAX_CHARS {
            return Self(name.to_owned());
        }
        let digest = Sha256::digest(text.as_bytes());
        let hash = hex(&digest[..4]);
        let kept = &name[..name.len().min(MAX_CHARS - 1 - hash.len())];
        match kept.trim_end_matches('-') {
            "" => Self(format!("server-{hash}")),
            kept => Self(format!("{kept}-{hash}")),
        }
    }
}

fn is_permitted(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
}

impl FromStr for ServerName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if (1..=MAX_CHARS).contains(&text.len()) && text.chars().all(is_permitted) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError)
        }
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for ServerName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_wild_are_mapped_the_same_way_every_time() {
        for (text, name) in [
            ("github", "github"),
            ("a--b-", "a--b-"),
            ("GitHub", "github"),
            ("My Server (beta)", "my-server-beta"),
            ("io.github.user/server", "io-github-user-server"),
            ("brave_search", "brave-search"),
            ("", "server-e3b0c442"),
        ] {
            let mapped = ServerName::of_text(text);
            assert_eq!(mapped.as_str(), name);
            assert_eq!(mapped.as_str().parse(), Ok(mapped.clone()));
        }
        assert!(ServerName::of_text("ÜÖ").as_str().starts_with("server-"));
        let long = ServerName::of_text(&"A".repeat(100));
        assert_eq!(long.as_str().len(), MAX_CHARS);
        assert_ne!(long, ServerName::of_text(&"A".repeat(101)));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", "A", "a_b", "a b", "ä", &"a".repeat(65)] {
            assert_eq!(text.parse::<ServerName>(), Err(NameError));
        }
    }
}
