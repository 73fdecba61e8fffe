//! What git calls things: branches and commits.

use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{IdError, text_id};

/// The name of a branch, without `refs/heads/`: what `git check-ref-format --branch` takes, at most
/// 200 characters. It never starts with `-`, so that no program takes it for an option.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Branch(Arc<str>);

/// The id of a commit: 40 or 64 hexadecimal digits, kept in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Commit(Arc<str>);

impl Branch {
    /// The most characters a branch's name may have.
    pub const MAX_CHARS: usize = 200;

    /// Parses a branch's name.
    ///
    /// # Errors
    /// When git would not take the name for a branch, or it is too long.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let expected = "the name of a branch that git takes, of at most 200 characters, \
            such as feature/search";
        let legal = text.chars().nth(Self::MAX_CHARS).is_none() && is_branch(text);
        legal
            .then(|| Self(text.into()))
            .ok_or_else(|| IdError::new(text, expected))
    }
}

/// The rules of git-check-ref-format(1), and those that only branches have.
fn is_branch(text: &str) -> bool {
    let forbidden = |c: char| {
        c.is_ascii_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\')
    };
    let component = |name: &str| {
        !name.is_empty() && !name.starts_with('.') && !name.to_ascii_lowercase().ends_with(".lock")
    };
    !text.starts_with('-')
        && !text.ends_with('.')
        && !matches!(text, "@" | "HEAD")
        && !text.contains("..")
        && !text.contains("@{")
        && !text.contains(forbidden)
        && text.split('/').all(component)
}

text_id!(Branch);

#[cfg(feature = "schema")]
impl JsonSchema for Branch {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Branch".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1, "maxLength": Self::MAX_CHARS})
    }
}

impl Commit {
    /// Parses a commit's id; capitals are taken too.
    ///
    /// # Errors
    /// When the text is not 40 or 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let legal =
            matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        legal
            .then(|| Self(text.to_ascii_lowercase().into()))
            .ok_or_else(|| IdError::new(text, "a commit: 40 or 64 hexadecimal digits"))
    }

    /// The first digits, for people to read.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

text_id!(Commit);

#[cfg(feature = "schema")]
impl JsonSchema for Commit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Commit".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$"})
    }
}
