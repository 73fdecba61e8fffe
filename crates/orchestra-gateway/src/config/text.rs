//! From the text of a file to its tree: JSON with comments, TOML, YAML.

mod json;
mod toml;
mod yaml;

use std::{cell::Cell, path};

use super::{
    Place,
    node::{Node, Path},
};
pub use yaml::merged;

/// A notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    /// JSON; comments and commas at the end of lists are permitted.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// A text that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextError {
    /// Where.
    pub(crate) place: Place,
    /// What is wrong.
    pub(crate) message: String,
}

impl Notation {
    /// The notation of a file, by how its name ends; JSON when that says nothing.
    pub(crate) fn of_file(file: &path::Path) -> Self {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Json,
        }
    }

    /// Understands a text. What is in it nowhere nests deeper than a thread's stack can hold.
    pub(crate) fn parse(self, text: &str) -> Result<Node, TextError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Json => json::parse(text),
            Self::Toml => toml::parse(text),
            Self::Yaml => yaml::parse(text),
        }
    }
}

/// Finds places in a text whose tree does not have them. Each place costs one reading of the text.
pub(crate) struct Locator<'a> {
    notation: Notation,
    text: &'a str,
    /// Number of bytes that may still be read.
    left: Cell<usize>,
}

impl<'a> Locator<'a> {
    /// Maximum number of bytes that are read for the places of a text.
    const MAX_BYTES: usize = 1024 * 1024;

    /// A locator for a text in a notation.
    pub(crate) const fn new(notation: Notation, text: &'a str) -> Self {
        Self {
            notation,
            text,
            left: Cell::new(Self::MAX_BYTES),
        }
    }

    /// Returns the place to which a path leads. It is not known for a tree that has its places, and behind too many other
    /// places of a long text.
    pub(crate) fn place(&self, path: &Path) -> Option<Place> {
        if self.notation != Notation::Yaml {
            return None;
        }
        let left = self.left.get().checked_sub(self.text.len())?;
        self.left.set(left);
        yaml::locate(self.text, path)
    }
}

/// From byte offsets to places. Offsets of one line are expected to go up: each column is counted
/// from the one before, so that a long line costs no more than a short one.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    last: Cell<(usize, Place)>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0)
            .chain(breaks.map(|(at, _)| at + 1))
            .collect();
        Self {
            text,
            starts,
            last: Cell::new((0, Place::START)),
        }
    }

    fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = (self.starts[line.saturating_sub(1)], 1);
        let line = number(line);
        let (before, column) = match self.last.get() {
            (last, place) if place.line == line && last <= offset => (last, place.column),
            _ => start,
        };
        let passed = self.text.get(before..offset).unwrap_or_default();
        let place = Place {
            line,
            column: column.saturating_add(number(passed.chars().count())),
        };
        self.last.set((offset, place));
        place
    }
}

/// A count of lines or characters; files are far smaller than what does not fit.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
