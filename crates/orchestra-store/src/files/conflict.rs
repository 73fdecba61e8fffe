//! What both sides changed: the person's file stays as it is, and what the board says stands beside
//! it until the person has chosen, as it is at every moment.

use std::collections::BTreeSet;

use super::FilesError;
use super::engine::Engine;
use super::fields::{ContentHash, Fields, content_hash};
use super::ledger::{self, Shown};
use super::place::{CONFLICT, TEMP, directory, under};
use crate::io::FileIo;
use crate::rows::Read;

/// Our side of a conflict, to be put beside the file.
#[derive(Debug)]
pub(super) struct Ours {
    /// The file.
    pub(super) path: String,
    pub(super) text: Vec<u8>,
    /// What was shown before, when there was something.
    pub(super) instead_of: Option<ContentHash>,
}

/// A conflict that a person has not settled yet.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) path: String,
    /// What is shown of our side.
    pub(super) shown: ContentHash,
    /// What our side says now.
    pub(super) text: Vec<u8>,
    pub(super) fields: Fields,
}

/// How a conflict stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// A person has removed our side.
    Answered,
    /// Our side says something else by now.
    Outdated,
    /// Nothing has come of it yet.
    Open,
}

/// Notes that both sides changed a file, of which the board says this.
pub(super) fn ask(
    connection: &rusqlite::Connection,
    question: Question,
    before: Option<Shown>,
    what: &str,
    now: i64,
) -> Read<Ours> {
    let Question {
        path,
        shown,
        text,
        fields,
    } = question;
    tracing::warn!(file = %path, "{what}");
    let hash = shown;
    ledger::conflict(connection, &path, what, &Shown { hash, fields }, now)?;
    Ok(Ours {
        path,
        text,
        instead_of: before.map(|shown| shown.hash),
    })
}

impl Question {
    /// A conflict about a file, of which the board says this.
    pub(super) fn new(path: &str, text: impl Into<Vec<u8>>, fields: Fields) -> Self {
        let text = text.into();
        Self {
            path: path.to_owned(),
            shown: content_hash(&text),
            text,
            fields,
        }
    }
}

/// What a person is told of a conflict.
pub(super) fn told(names: &[String], path: &str) -> String {
    format!(
        "both sides changed {}; the board's version is in {path}.conflict: put what you want into the file and remove the other",
        names.join(", "),
    )
}

impl Engine {
    /// Whether a person still has to settle a conflict, and sees what our side says.
    pub(super) fn is_open(&mut self, question: &Question) -> Result<Asked, FilesError> {
        let beside = format!("{}{CONFLICT}", question.path);
        if self.stat(&beside)?.is_none() {
            return Ok(Asked::Answered);
        }
        let there = self.bytes(&beside)?;
        let there = there.map(|text| content_hash(&text));
        // What a person has written there stays: when it goes, the board has changed, and the
        // person is asked again.
        let outdated =
            there == Some(question.shown) && content_hash(&question.text) != question.shown;
        Ok(if outdated {
            Asked::Outdated
        } else {
            Asked::Open
        })
    }

    /// Shows what our side of conflicts that stand says by now.
    pub(super) fn ask_anew(&mut self, questions: Vec<Question>) -> Result<(), FilesError> {
        if questions.is_empty() {
            return Ok(());
        }
        let (mut news, mut ours) = (Vec::new(), Vec::new());
        for question in questions {
            let hash = content_hash(&question.text);
            let fields = question.fields;
            news.push((question.path.clone(), Shown { hash, fields }));
            ours.push(Ours {
                path: question.path,
                text: question.text,
                instead_of: Some(question.shown),
            });
        }
        self.note(move |connection| {
            news.iter()
                .try_for_each(|(path, shown)| ledger::show_anew(connection, path, shown))
        })?;
        self.show(ours)
    }

    /// Puts our side of conflicts beside the files, durably, and says so in the database.
    pub(super) fn show(&mut self, all: Vec<Ours>) -> Result<(), FilesError> {
        if all.is_empty() {
            return Ok(());
        }
        let (mut touched, mut shown) = (BTreeSet::new(), Vec::new());
        for ours in all {
            if self.show_one(&ours, &mut touched)? {
                shown.push(ours.path);
            }
        }
        self.sync(
            touched.iter().map(String::as_str).collect(),
            FileIo::sync_dir,
        )?;
        // What could not be shown is asked again when the person has removed what is there.
        self.note(move |connection| {
            shown
                .iter()
                .try_for_each(|path| ledger::confirm_conflict(connection, path))
        })
    }

    /// Removes what was shown of our side of conflicts that are settled, unless a person has
    /// written there.
    pub(super) fn put_away(
        &mut self,
        settled: Vec<(String, ContentHash)>,
    ) -> Result<(), FilesError> {
        let mut touched = BTreeSet::new();
        for (path, shown) in settled {
            let path = format!("{path}{CONFLICT}");
            let before = self.stat(&path)?;
            let there = self.bytes(&path)?;
            if there.is_some_and(|text| content_hash(&text) == shown) {
                self.remove_known(&path, before, &mut touched)?;
            }
        }
        self.sync(
            touched.iter().map(String::as_str).collect(),
            FileIo::sync_dir,
        )
    }

    /// Says whether our side stands beside the file now: what a person has written there stays.
    fn show_one(
        &mut self,
        ours: &Ours,
        touched: &mut BTreeSet<String>,
    ) -> Result<bool, FilesError> {
        let path = format!("{}{CONFLICT}", ours.path);
        self.make_directory(directory(&path), touched)?;
        let before = self.stat(&path)?;
        if before.is_some() {
            let there = self.bytes(&path)?;
            if there.as_ref() == Some(&ours.text) {
                return Ok(true);
            }
            let there = there.map(|text| content_hash(&text));
            if ours.instead_of.is_some() && there != ours.instead_of {
                return Ok(false);
            }
        }
        let temp = format!("{path}{TEMP}");
        self.write_temp(&temp, &ours.text)?;
        let (temp, beside) = (under(&self.root, &temp), under(&self.root, &path));
        self.io.sync_file(&temp)?;
        if !self.io.replace(&temp, &beside, before)? {
            self.io.remove(&temp)?;
            return Ok(false);
        }
        touched.insert(directory(&path).to_owned());
        Ok(true)
    }
}
