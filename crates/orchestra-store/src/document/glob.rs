//! Patterns for the last names of documents: `*`, `?`, `[a-z]`, `[^a]` and `\` before a character that
//! means itself, as the shell has them.

/// A pattern for names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(Vec<Part>);

/// Why a pattern is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// It is too long.
    #[error(
        "the pattern has {bytes} bytes; at most {} are allowed",
        Glob::MAX_BYTES
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// It does not end as it must, or a set of characters is none.
    #[error(
        "the pattern is invalid: each `[` needs a `]` with at least one character between, and each `\\` needs a character after it"
    )]
    Syntax,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Any number of any characters.
    Many,
    /// Any character.
    One,
    /// This character.
    Is(char),
    /// A character in one of these ranges, or in none of them.
    Set {
        ranges: Vec<(char, char)>,
        inside: bool,
    },
}

impl Glob {
    /// The most bytes of a pattern.
    pub const MAX_BYTES: usize = 256;

    /// Reads a pattern; an empty one is `*.md`.
    ///
    /// # Errors
    /// When it is too long or malformed.
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        if text.len() > Self::MAX_BYTES {
            return Err(GlobError::TooLong { bytes: text.len() });
        }
        let text = if text.is_empty() { "*.md" } else { text };
        let mut parts = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let part = match c {
                '*' if parts.last() == Some(&Part::Many) => continue,
                '*' => Part::Many,
                '?' => Part::One,
                '[' => set(&mut chars)?,
                '\\' => Part::Is(chars.next().ok_or(GlobError::Syntax)?),
                c => Part::Is(c),
            };
            parts.push(part);
        }
        Ok(Self(parts))
    }

    /// Whether a name fits, after at most as many steps as the name has characters times the pattern
    /// has parts.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        let (mut part, mut rest) = (0, name.chars());
        // Where to go on when what follows the last `*` does not fit: one character further.
        let mut again: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            let mut ahead = rest.clone();
            match (self.0.get(part), ahead.next()) {
                (Some(Part::Many), _) => {
                    again = Some((part, rest.clone()));
                    part += 1;
                    continue;
                }
                (Some(found), Some(c)) if found.is(c) => {
                    (part, rest) = (part + 1, ahead);
                    continue;
                }
                (None, None) => return true,
                // Nothing is left for what the pattern still wants.
                (Some(_), None) => return false,
                (Some(_) | None, Some(_)) => {}
            }
            let Some((many, from)) = &mut again else {
                return false;
            };
            if from.next().is_none() {
                return false;
            }
            (part, rest) = (*many + 1, from.clone());
        }
    }
}

impl Default for Glob {
    fn default() -> Self {
        Self::parse("*.md").expect("is a pattern")
    }
}

impl Part {
    fn is(&self, c: char) -> bool {
        match self {
            Self::Many | Self::One => true,
            Self::Is(wanted) => *wanted == c,
            Self::Set { ranges, inside } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) == *inside
            }
        }
    }
}

/// Reads a set of characters, behind its `[`.
fn set(chars: &mut std::str::Chars<'_>) -> Result<Part, GlobError> {
    let inside = match chars.clone().next() {
        Some('^') => {
            chars.next();
            false
        }
        _ => true,
    };
    let mut ranges = Vec::new();
    loop {
        let low = match chars.next().ok_or(GlobError::Syntax)? {
            ']' if !ranges.is_empty() => return Ok(Part::Set { ranges, inside }),
            ']' | '-' => return Err(GlobError::Syntax),
            '\\' => chars.next().ok_or(GlobError::Syntax)?,
            c => c,
        };
        let mut high = low;
        if chars.clone().next() == Some('-') {
            chars.next();
            high = match chars.next().ok_or(GlobError::Syntax)? {
                ']' | '-' => return Err(GlobError::Syntax),
                '\\' => chars.next().ok_or(GlobError::Syntax)?,
                c => c,
            };
        }
        ranges.push((low, high));
    }
}

#[cfg(test)]
mod tests {
    use super::{Glob, GlobError};

    #[test]
    fn names_fit_as_in_the_shell() {
        for (pattern, name, expected) in [
            ("", "a.md", true),
            ("", "a.txt", false),
            ("*.md", ".md", true),
            ("*", "", true),
            ("FEAT-???.md", "FEAT-ABC.md", true),
            ("FEAT-???.md", "FEAT-ABCD.md", false),
            ("[a-c]*[^0-9]", "bx", true),
            ("[a-c]*[^0-9]", "b0", false),
            ("[^é]", "é", false),
            ("\\*.md", "*.md", true),
            ("\\*.md", "a.md", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("**x", "x", true),
            ("a.md", "a.md.md", false),
        ] {
            let glob = Glob::parse(pattern).expect("a pattern");
            assert_eq!(glob.fits(name), expected, "{pattern} {name}");
        }
        for pattern in ["[", "[]", "[a", "[a-]", "[-a]", "\\", "[a\\"] {
            assert_eq!(Glob::parse(pattern), Err(GlobError::Syntax), "{pattern}");
        }
        assert!(Glob::parse(&"a".repeat(257)).is_err());
    }

    #[test]
    fn the_worst_pattern_takes_no_time() {
        let glob = Glob::parse(&"*a".repeat(127)).expect("a pattern");
        // One that tried all ways would not end.
        assert!(!glob.fits(&("a".repeat(200) + "b")));
    }
}
