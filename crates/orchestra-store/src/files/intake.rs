//! Takes in what people and git did to the files: each changed file becomes changes of the board,
//! merged field by field with what changed there meanwhile.

mod issue;
mod single;

pub(crate) use single::{Value, owner_of};

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::conflict::Ours;
use super::engine::Engine;
use super::fields::{Choice, Fields, content_hash};
use super::ledger::{self, Next, Seen};
use super::place::{CONFLICT, Part, Place, directory, under};
use super::{FilesError, Owner, Work, render};
use crate::ActionError;
use crate::io::{EntryKind, Stat};
use crate::toon::records::MAX_FILE_BYTES;
use crate::toon::{FileError, FileFault, IssuePlace};

/// How many things are taken in on one stretch of the writer's time.
const BATCH: usize = 32;

/// One thing whose files are looked at together, in the order in which they are taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Unit {
    Issue(IssuePlace),
    File(Place),
}

/// A file as it is now.
#[derive(Debug)]
struct Found {
    path: String,
    /// `None` when it is not there.
    content: Option<Content>,
}

#[derive(Debug)]
struct Content {
    bytes: Vec<u8>,
    stat: Stat,
}

/// A unit with its files as they are now, the one that makes it first.
#[derive(Debug)]
struct Candidate {
    unit: Unit,
    files: Vec<Found>,
    /// Why the files cannot be read.
    unreadable: Option<FileError>,
    /// Whether our side of a conflict still stands beside the first file.
    conflict: bool,
    /// Whether other files stand below.
    below: bool,
    /// Whether the board has the issue at another place, and its file stands there.
    elsewhere: bool,
}

/// What the taking in of one batch left to do.
#[derive(Debug, Default)]
struct Aftermath {
    ours: Vec<Ours>,
}

impl Unit {
    fn of(path: &str) -> Option<Self> {
        let path = path.strip_suffix(CONFLICT).unwrap_or(path);
        Some(match Place::parse(path)? {
            Place::Issue(place, _) => Self::Issue(place),
            place => Self::File(place),
        })
    }

    fn paths(&self) -> Vec<String> {
        match self {
            Self::Issue(place) => [Part::Fields, Part::Description, Part::History]
                .map(|part| Place::Issue(place.clone(), part).path())
                .to_vec(),
            Self::File(place) => vec![place.path()],
        }
    }

    /// The directory of its files, with the `/` at its end.
    fn directory(&self) -> String {
        let paths = self.paths();
        let first = paths.first().map_or("", String::as_str);
        format!("{}/", directory(first))
    }

    /// Projects before what is in them, parents before children.
    const fn depth(&self) -> u8 {
        match self {
            Self::File(Place::Project(_)) => 0,
            Self::Issue(IssuePlace { epic: None, .. }) => 1,
            Self::Issue(IssuePlace { story: None, .. }) => 2,
            Self::Issue(_) => 3,
            Self::File(_) => 4,
        }
    }
}

impl Candidate {
    fn first(&self) -> &Found {
        self.files.first().expect("a unit has at least one file")
    }

    /// Whether a person has chosen the file's side of a conflict, by removing the other.
    fn choice(&self, work: &dyn Work) -> Result<Choice, ActionError> {
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

    fn is_gone(&self) -> bool {
        self.first().content.is_none()
    }
}

impl Found {
    fn seen(&self, fields: Fields) -> Option<Seen> {
        let content = self.content.as_ref()?;
        let (size, modified) = (content.stat.size, content.stat.modified);
        Some(Seen {
            hash: content_hash(&content.bytes),
            size,
            modified,
            fields,
        })
    }

    fn text(&self) -> Result<Option<&str>, FileError> {
        let bytes = self
            .content
            .as_ref()
            .map(|content| content.bytes.as_slice());
        bytes
            .map(|bytes| crate::toon::records::utf8(&self.path, bytes))
            .transpose()
    }
}

impl Engine {
    /// Takes in the files at these paths, whatever happened to them. Gives back the paths that
    /// must be looked at again a little later.
    pub(crate) fn take_in(
        &mut self,
        paths: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, FilesError> {
        self.distrust();
        let mut later = BTreeSet::new();
        let mut units: Vec<Unit> = Vec::new();
        for unit in paths.iter().filter_map(|path| Unit::of(path)) {
            if !units.contains(&unit) {
                units.push(unit);
            }
        }
        let mut around = self.around(&units)?;
        around.retain(|unit| !units.contains(unit));
        units.append(&mut around);
        let mut candidates = Vec::new();
        for unit in units {
            match self.gather(&unit)? {
                Some(candidate) => candidates.push(candidate),
                None => later.extend(unit.paths()),
            }
        }
        // What is gone comes last: it may have been moved, and have come up elsewhere.
        candidates.sort_by_key(|candidate| (candidate.is_gone(), candidate.unit.depth()));
        while !candidates.is_empty() {
            let rest = candidates.split_off(candidates.len().min(BATCH));
            for found in candidates.iter().flat_map(|candidate| &candidate.files) {
                self.absent.remove(&found.path);
            }
            self.take_in_batch(std::mem::replace(&mut candidates, rest))?;
        }
        Ok(later)
    }

    /// What must be looked at together with these: a story that has come along with its tasks, and
    /// tasks that were refused for want of their story.
    fn around(&self, units: &[Unit]) -> Result<Vec<Unit>, FilesError> {
        let places = units.iter().filter_map(|unit| match unit {
            Unit::Issue(place) => Some(place),
            Unit::File(_) => None,
        });
        self.read(|reader| {
            let (mut around, mut parents) = (Vec::new(), Vec::new());
            for place in places {
                let (Some(epic), Some(story)) = (&place.epic, &place.story) else {
                    parents.push(Unit::Issue(place.clone()).directory());
                    continue;
                };
                let above = IssuePlace {
                    project: place.project.clone(),
                    id: story.clone(),
                    epic: Some(epic.clone()),
                    story: None,
                };
                let there = render::issue(reader, &place.project, story)?;
                let elsewhere = there.is_none_or(|there| render::place_of(&there) != above);
                let above = Unit::Issue(above);
                if elsewhere && !around.contains(&above) {
                    around.push(above);
                }
            }
            if !parents.is_empty() {
                for (path, ..) in ledger::problems(reader.connection())? {
                    let is_below = |parent: &String| path.starts_with(parent);
                    let refused = Unit::of(&path).filter(|_| parents.iter().any(is_below));
                    around.extend(refused.filter(|unit| !around.contains(unit)));
                }
            }
            Ok(around)
        })
    }

    /// Reads the files of a unit; `None` when one of them has only just vanished.
    fn gather(&mut self, unit: &Unit) -> Result<Option<Candidate>, FilesError> {
        let mut candidate = Candidate {
            unit: unit.clone(),
            files: Vec::new(),
            unreadable: None,
            conflict: false,
            below: false,
            elsewhere: false,
        };
        for path in unit.paths() {
            let stat = match self.stat(&path) {
                Err(FilesError::NotADirectory { path: link }) => {
                    let fault = FileFault::Place(format!(
                        "{link} is not a directory; links are not followed"
                    ));
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
                        candidate.unreadable.get_or_insert(error);
                        None
                    }
                },
            };
            if content.is_none() && candidate.unreadable.is_none() {
                let known = self.read(|reader| ledger::at(reader.connection(), &path))?;
                if known.is_some_and(|entry| entry.seen.is_some()) && !self.is_gone(&path) {
                    return Ok(None);
                }
            }
            candidate.files.push(Found { path, content });
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

    fn content(&self, path: &str, stat: Stat) -> Result<Option<Content>, FileError> {
        if stat.kind != EntryKind::File {
            let fault =
                FileFault::Place("is not a regular file; links are not followed".to_owned());
            return Err(FileError::whole(path, fault));
        }
        match self.io.read(&under(&self.root, path), MAX_FILE_BYTES) {
            Ok(bytes) => Ok(Some(Content { bytes, stat })),
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

    fn take_in_batch(&mut self, candidates: Vec<Candidate>) -> Result<(), FilesError> {
        let aftermath = Arc::new(Mutex::new(Aftermath::default()));
        let (shared, now) = (Arc::clone(&aftermath), self.clock.now().unix_seconds());
        self.board.write(Box::new(move |work| {
            let mut aftermath = Aftermath::default();
            for candidate in &candidates {
                take_in_one(work, candidate, now, &mut aftermath)?;
            }
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = aftermath;
            Ok(())
        }))?;
        let aftermath =
            std::mem::take(&mut *aftermath.lock().unwrap_or_else(PoisonError::into_inner));
        self.show(aftermath.ours)
    }
}

/// Takes in one unit. What is wrong with its files is noted; only a fault of the store is an error.
fn take_in_one(
    work: &mut dyn Work,
    candidate: &Candidate,
    now: i64,
    aftermath: &mut Aftermath,
) -> Result<(), ActionError> {
    if candidate.unreadable.is_none() && is_ours(work, candidate)? {
        let owner = match &candidate.unit {
            Unit::Issue(place) => Owner::Issue(place.project.clone(), place.id.clone()),
            Unit::File(place) => owner_of(place),
        };
        return Ok(ledger::make_due(work.connection(), &owner)?);
    }
    let taken = match &candidate.unreadable {
        Some(error) => Err(Trouble::File(error.clone())),
        None => match &candidate.unit {
            Unit::Issue(place) => issue::take_in(work, candidate, place, now, aftermath),
            Unit::File(place) => single::take_in(work, candidate, place, now, aftermath),
        },
    };
    let error = match taken {
        Ok(()) => return Ok(()),
        Err(Trouble::File(error)) => error,
        Err(Trouble::Board(ActionError::Refused(refusal))) => FileError::whole(
            &candidate.first().path,
            FileFault::Field(refusal.to_string()),
        ),
        Err(Trouble::Board(ActionError::Invalid(what))) => {
            FileError::whole(&candidate.first().path, FileFault::Field(what))
        }
        Err(Trouble::Board(error)) => return Err(error),
    };
    tracing::warn!(file = %error.file, line = error.line, "a readable file cannot be taken in: {error}");
    for found in candidate
        .files
        .iter()
        .filter(|found| found.content.is_some() || found.path == error.file)
    {
        ledger::complain(work.connection(), &found.path, &error, now)?;
    }
    if candidate.is_gone() {
        ledger::complain(work.connection(), &candidate.first().path, &error, now)?;
    }
    Ok(())
}

/// Whether every file of a unit is as we left it, or as we were about to leave it when a run was cut
/// off: there is nobody's change to take in. One with a problem is looked at again all the same,
/// save a conflict that nobody has settled.
fn is_ours(work: &dyn Work, candidate: &Candidate) -> Result<bool, ActionError> {
    if let Some((field, _)) = ledger::problem(work.connection(), &candidate.first().path)?
        && !(field == ledger::CONFLICT_FIELD && candidate.conflict)
    {
        return Ok(false);
    }
    for found in &candidate.files {
        let entry = ledger::at(work.connection(), &found.path)?;
        let ours = match &found.content {
            None => {
                entry.is_none_or(|entry| entry.seen.is_none() || entry.next == Some(Next::Removed))
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

/// Why a unit is not taken in.
#[derive(Debug)]
enum Trouble {
    /// Something is wrong with a file.
    File(FileError),
    /// The board refuses it, or the store failed.
    Board(ActionError),
}

impl From<FileError> for Trouble {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl<E: Into<ActionError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Board(error.into())
    }
}
