//! Reads the files of what is to be taken in, as they are now.

use std::io;

use super::Unit;
use crate::ActionError;
use crate::files::engine::{Engine, GONE, HALF_WRITTEN};
use crate::files::fields::{Choice, Fields, content_hash};
use crate::files::ledger::{self, Next, Seen};
use crate::files::place::{CONFLICT, Part, Place, directory, under};
use crate::files::{FilesError, Work, render};
use crate::io::{EntryKind, Stat};
use crate::toon::records::MAX_FILE_BYTES;
use crate::toon::{FileError, FileFault, IssuePlace};

/// A file as it is now.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: String,
    /// `None` when it is not there.
    pub(super) content: Option<Content>,
    /// Whether something stands at its path, or above it, that is not read.
    pub(super) is_blocked: bool,
    /// Whether it is what a power cut left of the file that was written: it says nothing.
    pub(super) is_damaged: bool,
}

#[derive(Debug)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    stat: Stat,
}

/// A unit with its files as they are now, the one that makes it first.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) unit: Unit,
    pub(super) files: Vec<Found>,
    /// Why the files cannot be read.
    pub(super) unreadable: Option<FileError>,
    /// Whether our side of a conflict still stands beside the first file.
    conflict: bool,
    /// Whether other files stand below.
    pub(super) below: bool,
    /// Whether the board has the issue at another place, and its file stands there.
    pub(super) elsewhere: bool,
    /// Whether a file that is not there says something.
    pub(super) removes: bool,
    /// Whether the board follows files that come back to an earlier state.
    pub(super) follows: bool,
}

impl Candidate {
    pub(super) fn first(&self) -> &Found {
        self.files.first().expect("a unit has at least one file")
    }

    /// Whether a person has chosen the file's side of a conflict, by removing the other.
    pub(super) fn choice(&self, work: &dyn Work) -> Result<Choice, ActionError> {
        let (connection, path) = (work.connection(), &self.first().path);
        let problem = ledger::problem(connection, path)?;
        let asked = problem.is_some_and(|(field, _)| field == ledger::CONFLICT_FIELD);
        Ok(match ledger::shown(connection, path)? {
            Some(shown) if asked && !self.conflict => Choice::File {
                shown: shown.fields,
            },
            _ => Choice::Open,
        })
    }

    /// Whether every file of it is as we left it, as we were about to leave it when a run was cut
    /// off, or damaged by a power cut: there is nobody's change to take in. One with a problem is looked at again all the same,
    /// save a conflict that nobody has settled.
    pub(super) fn is_ours(&self, work: &dyn Work) -> Result<bool, ActionError> {
        if let Some((field, _)) = ledger::problem(work.connection(), &self.first().path)?
            && !(field == ledger::CONFLICT_FIELD && self.conflict)
        {
            return Ok(false);
        }
        for found in self.files.iter().filter(|found| !found.is_damaged) {
            let entry = ledger::at(work.connection(), &found.path)?;
            let ours = match &found.content {
                None => {
                    !self.removes
                        || entry.is_none_or(|entry| {
                            entry.seen.is_none() || entry.next == Some(Next::Removed)
                        })
                }
                Some(content) => {
                    let hash = content_hash(&content.bytes);
                    entry.is_some_and(|entry| {
                        entry.next == Some(Next::Content(hash))
                            || entry.seen.is_some_and(|seen| seen.hash == hash)
                    })
                }
            };
            if !ours {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Records what was damaged as seen, so that it is written again.
    pub(super) fn give_up_damaged(&self, work: &dyn Work) -> Result<(), ActionError> {
        let connection = work.connection();
        for found in self.files.iter().filter(|found| found.is_damaged) {
            let known = ledger::at(connection, &found.path)?.and_then(|entry| entry.seen);
            let fields = known.map(|seen| seen.fields).unwrap_or_default();
            if let Some(seen) = found.seen(fields) {
                tracing::warn!(file = %found.path, "a readable file is damaged and is written again");
                ledger::record(connection, &found.path, &self.unit.owner(), &seen)?;
            }
        }
        Ok(())
    }

    /// How much its files hold.
    pub(super) fn bytes(&self) -> usize {
        let held = self.files.iter().filter_map(Found::bytes);
        held.map(<[u8]>::len).sum()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.first().content.is_none()
    }
}

impl Found {
    /// What the file holds, when it is there.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        let content = self.content.as_ref();
        content.map(|content| content.bytes.as_slice())
    }

    pub(super) fn seen(&self, fields: Fields) -> Option<Seen> {
        let content = self.content.as_ref()?;
        let (size, modified) = (content.stat.size, content.stat.modified);
        Some(Seen {
            hash: content_hash(&content.bytes),
            size,
            modified,
            fields,
        })
    }

    pub(super) fn text(&self) -> Result<Option<&str>, FileError> {
        self.bytes()
            .map(|bytes| crate::toon::records::utf8(&self.path, bytes))
            .transpose()
    }
}

impl Engine {
    /// Reads the files of a unit; `None` when one of them has only just vanished or is being written.
    pub(super) fn gather(&mut self, unit: &Unit) -> Result<Option<Candidate>, FilesError> {
        let mut candidate = Candidate {
            unit: unit.clone(),
            files: Vec::new(),
            unreadable: None,
            conflict: false,
            below: false,
            elsewhere: false,
            removes: self.removes,
            follows: self.follows,
        };
        for path in unit.paths() {
            let mut is_blocked = false;
            let stat = match self.stat(&path) {
                Err(FilesError::NotADirectory { path: link }) => {
                    let fault = FileFault::Place(format!(
                        "{link} is not a directory; links are not followed"
                    ));
                    is_blocked = true;
                    candidate
                        .unreadable
                        .get_or_insert(FileError::whole(&path, fault));
                    None
                }
                stat => stat?,
            };
            let content = match stat {
                None => None,
                Some(stat) => match self.content(&path, stat) {
                    Ok(content) => content,
                    Err(error) => {
                        is_blocked = true;
                        candidate.unreadable.get_or_insert(error);
                        None
                    }
                },
            };
            let known = self.read(|reader| ledger::at(reader.connection(), &path))?;
            let seen = known.as_ref().and_then(|entry| entry.seen.as_ref());
            if candidate.unreadable.is_none() && self.is_unfinished(&path, content.as_ref(), seen) {
                return Ok(None);
            }
            let is_damaged = content.as_ref().is_some_and(|content| {
                self.is_damaged(&content.stat, &content_hash(&content.bytes), known.as_ref())
            });
            candidate.files.push(Found {
                path,
                content,
                is_blocked,
                is_damaged,
            });
        }
        let first = candidate.first().path.clone();
        candidate.conflict = self
            .stat(&format!("{first}{CONFLICT}"))
            .is_ok_and(|stat| stat.is_some());
        candidate.below = candidate.is_gone() && self.stands_below(unit, &first)?;
        if let (Unit::Issue(place), false) = (unit, candidate.is_gone()) {
            let record = self.read(|reader| render::issue(reader, &place.project, &place.id))?;
            if let Some(there) = record
                .map(|record| render::place_of(&record))
                .filter(|there| there != place)
            {
                let path = Place::Issue(there, Part::Fields).path();
                candidate.elsewhere = self.stat(&path).is_ok_and(|stat| stat.is_some());
            }
        }
        Ok(Some(candidate))
    }

    /// Returns whether a file has only just vanished, or may be half written.
    fn is_unfinished(
        &mut self,
        path: &str,
        content: Option<&Content>,
        seen: Option<&Seen>,
    ) -> bool {
        let patience = match content {
            None if seen.is_some() && self.removes => GONE,
            Some(Content { bytes, stat })
                if self.is_half_written(path, (stat, bytes.len()), seen) =>
            {
                HALF_WRITTEN
            }
            _ => return false,
        };
        !self.has_waited(path, patience)
    }

    fn content(&self, path: &str, stat: Stat) -> Result<Option<Content>, FileError> {
        if stat.kind != EntryKind::File {
            let fault =
                FileFault::Place("is not a regular file; links are not followed".to_owned());
            return Err(FileError::whole(path, fault));
        }
        // Content and metadata are of one moment, since a program may be writing the file.
        match self.io.read_whole(&under(&self.root, path), MAX_FILE_BYTES) {
            Ok(content) => Ok(content.map(|(bytes, stat)| Content { bytes, stat })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(FileError::whole(
                path,
                FileFault::TooLarge {
                    limit: MAX_FILE_BYTES,
                },
            )),
            Err(error) => Err(FileError::whole(
                path,
                FileFault::Io(format!("cannot be read: {error}")),
            )),
        }
    }

    /// Whether files of children still stand below the place of a parent that is gone.
    fn stands_below(&self, unit: &Unit, first: &str) -> Result<bool, FilesError> {
        let names: &[&str] = match unit {
            Unit::File(Place::Project(_)) => &["epics", ".memory", ".plans"],
            Unit::Issue(IssuePlace { epic: None, .. }) => &["stories"],
            Unit::Issue(IssuePlace { story: None, .. }) => &["tasks"],
            Unit::Issue(_) | Unit::File(_) => &[],
        };
        for name in names {
            if !self
                .io
                .list(&under(&self.root, &format!("{}/{name}", directory(first))))?
                .is_empty()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
