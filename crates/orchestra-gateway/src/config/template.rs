//! Texts that may hold `${…}`.

use std::fmt;

/// A text as it was written, `${…}` included. It may hold a secret that somebody wrote down, so
/// it does not show itself.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Template(String);

impl Template {
    /// A text as it was written.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A text in which nothing refers to anything: it is put in as it stands.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        Self(text.replace('$', "$$"))
    }

    /// What was written. May hold a secret: not for logs.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template(…)")
    }
}

impl From<&str> for Template {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// What a file says of an `${input:ID}`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Input {
    /// What is asked for.
    pub description: Option<String>,
    /// What it is where nobody says otherwise.
    pub default: Option<String>,
    /// Whether it is a secret.
    pub is_secret: bool,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("description", &self.description)
            .field("is_secret", &self.is_secret)
            .finish_non_exhaustive()
    }
}
