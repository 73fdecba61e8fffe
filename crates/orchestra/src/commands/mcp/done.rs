//! What a command that changes something says when it is done, in words or as JSON.

use std::path::{Path, PathBuf};

use orchestra_gateway::discovery::Found;
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
    /// The stronger server of that name, which is used instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadowed_by: Option<String>,
    /// The weaker servers of that name, which are not used any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shadows: Vec<String>,
}

impl Done {
    pub(super) fn new(name: impl ToString, result: impl Into<String>) -> Self {
        Self {
            name: name.to_string(),
            result: result.into(),
            file: None,
            note: None,
            shadowed_by: None,
            shadows: Vec::new(),
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

    /// Also says which servers of that name it meets in other files.
    pub(super) fn among(self, found: &Found, file: &Path) -> Self {
        let named = found
            .shadowed
            .iter()
            .filter(|one| one.name.as_str() == self.name);
        let stronger = named.clone().find(|one| *one.origin.file == *file);
        let stronger = stronger.map(|one| one.by.to_string());
        let weaker = named.filter(|one| *one.by.file == *file);
        let weaker: Vec<String> = weaker.map(|one| one.origin.to_string()).collect();
        let note = match (&stronger, weaker.is_empty()) {
            (Some(by), _) => Some(format!(
                "but it is shadowed by the one in {by}, which is used instead"
            )),
            (None, false) => Some(format!(
                "it shadows the one in {}, which is no longer used",
                weaker.join(" and the one in ")
            )),
            (None, true) => None,
        };
        Self {
            note: note.or(self.note),
            shadowed_by: stronger,
            shadows: weaker,
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
        let file = file.map(|file| output::in_a_line(&file.display().to_string()));
        let file = file.map(|file| match result.as_str() {
            "removed" => format!(" from {file}"),
            _ => format!(" to {file}"),
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
