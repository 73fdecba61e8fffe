//! What a command that changes something says when it is done, in words or as JSON.

use std::path::PathBuf;

use serde::Serialize;

use crate::{
    exit::Failure,
    output::{self, Format},
};

/// What was done with a server.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    name: String,
    result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Done {
    pub(super) fn new(name: impl ToString, result: impl Into<String>) -> Self {
        Self {
            name: name.to_string(),
            result: result.into(),
            file: None,
            note: None,
        }
    }

    /// The file that was changed.
    pub(super) fn at(self, file: PathBuf) -> Self {
        Self {
            file: Some(file),
            ..self
        }
    }

    /// What else is to be known.
    pub(super) fn noting(self, note: impl Into<String>) -> Self {
        Self {
            note: Some(note.into()),
            ..self
        }
    }

    /// Says it, in JSON as one object.
    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        Format::of_flag(json).print(self, Self::words)
    }

    fn words(&self) -> String {
        let Self { name, result, .. } = self;
        let file = self.file.as_ref();
        let file = file.map(|file| match result.as_str() {
            "removed" => format!(" from {}", file.display()),
            _ => format!(" to {}", file.display()),
        });
        let note = self.note.as_ref().map(|note| format!("; {note}"));
        let (file, note) = (file.unwrap_or_default(), note.unwrap_or_default());
        output::printable(&format!("{name}: {result}{file}{note}")).into_owned()
    }
}

/// Says several, in JSON as a list.
pub(super) fn print(done: &[Done], json: bool) -> Result<(), Failure> {
    Format::of_flag(json).print(&done, |done| {
        let lines: Vec<String> = done.iter().map(Done::words).collect();
        lines.join("\n")
    })
}
