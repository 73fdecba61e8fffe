//! Paths in work: inside the worktree, or of a whole folder elsewhere. Whether they exist, and where
//! symbolic links lead, is for the runner to see.

use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::ids::{IdError, text_id};

/// A path inside the worktree, from its top: at most 500 characters, without `..`. `/` stands
/// between its names on every system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorktreePath(Arc<str>);

/// The absolute path of a folder: at most 500 characters, without `..`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FolderPath(Arc<str>);

const MAX_CHARS: usize = 500;

/// Both kinds of separators count, so that no system reads a path as more than was checked.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split(['/', '\\'])
}

fn is_text(path: &str) -> bool {
    !path.is_empty()
        && path.chars().nth(MAX_CHARS).is_none()
        && !path.contains(char::is_control)
        && names(path).all(|name| name != "..")
}

/// Whether a path starts with the name of a drive, as in `C:`.
fn has_drive(path: &str) -> bool {
    let mut letters = path.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic()) && letters.next() == Some(':')
}

impl WorktreePath {
    /// Parses a path; names that mean nothing (`.` and empty ones) are dropped.
    ///
    /// # Errors
    /// When the path is absolute, leaves the worktree, or is no path.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let inside = is_text(text) && !text.starts_with(['/', '\\']) && !has_drive(text);
        if !inside {
            let expected = "a relative path inside the worktree without .., such as crates/app";
            return Err(IdError::new(text, expected));
        }
        let path: Vec<&str> = text
            .split('/')
            .filter(|name| !matches!(*name, "" | "."))
            .collect();
        Ok(Self(match path.as_slice() {
            [] => ".".into(),
            names => names.join("/").into(),
        }))
    }
}

text_id!(WorktreePath);

impl FolderPath {
    /// Parses a path.
    ///
    /// # Errors
    /// When the path is not absolute, goes up with `..`, or is no path.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let drive = has_drive(text) && text[2..].starts_with(['/', '\\']);
        let legal = is_text(text) && (text.starts_with('/') || drive);
        let expected = "the absolute path of a directory without .., such as /srv/data";
        legal
            .then(|| Self(text.into()))
            .ok_or_else(|| IdError::new(text, expected))
    }
}

text_id!(FolderPath);

macro_rules! path_schema {
    ($name:ident) => {
        #[cfg(feature = "schema")]
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "minLength": 1, "maxLength": MAX_CHARS})
            }
        }
    };
}

path_schema!(WorktreePath);
path_schema!(FolderPath);
