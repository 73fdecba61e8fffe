//! Bounded texts: titles of one line, and bodies of many.

use std::borrow::Cow;
use std::fmt;

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

/// Composes the letters of a text and their marks (Unicode's form NFC), so that equal texts have
/// equal bytes however they were entered.
#[must_use]
pub fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    }
}

/// A title: one line of 1 to 300 characters, without surrounding white space or control characters.
/// Its letters are [`composed`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Title(String);

/// A text of any number of lines, at most 256 KiB, without NUL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Body(String);

/// A text that is too long, empty or not printable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Nothing but white space.
    #[error("must not be empty")]
    Empty,
    /// More characters or bytes than allowed.
    #[error("is too long: at most {limit} {unit}")]
    TooLong {
        /// The limit.
        limit: usize,
        /// `characters` or `bytes`.
        unit: &'static str,
    },
    /// A character that cannot stand in this text.
    #[error("contains the control character U+{code:04X}; remove it")]
    Control {
        /// Its code point.
        code: u32,
    },
}

impl Title {
    /// The most characters a title may have.
    pub const MAX_CHARS: usize = 300;

    /// Parses a title; surrounding white space is dropped.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let text = composed(text.trim());
        if text.is_empty() {
            return Err(TextError::Empty);
        }
        if text.chars().nth(Self::MAX_CHARS).is_some() {
            return Err(TextError::TooLong {
                limit: Self::MAX_CHARS,
                unit: "characters",
            });
        }
        if let Some(control) = text.chars().find(|c| c.is_control()) {
            return Err(TextError::Control {
                code: control.into(),
            });
        }
        Ok(Self(text.into_owned()))
    }

    /// A title from text that may be longer: cut to fit, control characters made blanks.
    /// `None` when nothing is left.
    #[must_use]
    pub fn cut(text: &str) -> Option<Self> {
        let clean: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let clean = composed(clean.trim());
        let cut: String = clean.chars().take(Self::MAX_CHARS).collect();
        Self::parse(&cut).ok()
    }

    /// The title as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Body {
    /// The most bytes a body may have.
    pub const MAX_BYTES: usize = 256 * 1024;

    /// Parses a body. Line ends become `\n`, and white space at the very end is dropped, so that
    /// what a file shows and what an answer shows are the same text.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        if text.len() > Self::MAX_BYTES {
            return Err(TextError::TooLong {
                limit: Self::MAX_BYTES,
                unit: "bytes",
            });
        }
        let illegal = |c: &char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
        if let Some(control) = text.chars().find(illegal) {
            return Err(TextError::Control {
                code: control.into(),
            });
        }
        let text = if text.contains('\r') {
            text.replace("\r\n", "\n").replace('\r', "\n")
        } else {
            text.to_owned()
        };
        Ok(Self(text.trim_end().to_owned()))
    }

    /// The body as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the text has more than one line.
    #[must_use]
    pub fn is_multi_line(&self) -> bool {
        self.0.contains('\n')
    }
}

impl fmt::Display for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Body, TextError, Title, composed};

    #[test]
    fn titles_that_differ_only_in_composition_are_equal() {
        for (apart, whole) in [
            ("re\u{301}sume\u{301}", "r\u{e9}sum\u{e9}"),
            ("\u{304b}\u{3099}", "\u{304c}"),
            ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
        ] {
            assert_eq!(Title::parse(apart), Title::parse(whole));
            assert_eq!(Title::cut(apart), Title::cut(whole));
            assert_eq!(composed(apart), whole);
        }
        let long = "e\u{301}".repeat(Title::MAX_CHARS);
        assert!(
            Title::parse(&long).is_ok(),
            "characters are counted composed"
        );
    }

    #[test]
    fn titles_are_one_printable_line() {
        assert_eq!(
            Title::parse("  שלום 🚀 ").map(|t| t.to_string()),
            Ok("שלום 🚀".to_owned())
        );
        assert_eq!(Title::parse(" \t"), Err(TextError::Empty));
        assert_eq!(Title::parse("a\nb"), Err(TextError::Control { code: 10 }));
        assert_eq!(Title::parse("a\0b"), Err(TextError::Control { code: 0 }));
        assert!(Title::parse(&"x".repeat(300)).is_ok());
        assert!(Title::parse(&"x".repeat(301)).is_err());
        assert_eq!(
            Title::cut("a\nb").map(|t| t.to_string()),
            Some("a b".to_owned())
        );
    }

    #[test]
    fn bodies_have_one_kind_of_line_end() {
        assert_eq!(
            Body::parse("a\r\nb\rc\n\n").map(|b| b.to_string()),
            Ok("a\nb\nc".to_owned())
        );
        assert_eq!(Body::parse("a\0"), Err(TextError::Control { code: 0 }));
        assert!(Body::parse(&"x".repeat(Body::MAX_BYTES + 1)).is_err());
    }
}
