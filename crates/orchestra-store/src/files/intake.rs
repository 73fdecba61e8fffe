//! Takes in what people and git did to the files: each changed file becomes changes of the board,
//! merged field by field with what changed there meanwhile.

mod course;
mod issue;
mod single;

pub(crate) use issue::below_another;
pub(crate) use single::{Value, owner_of};

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use self::course::{Course, News, above, last_event};
use super::conflict::Ours;
use super::engine::Engine;
use super::fields::{Choice, ContentHash, Fields, content_hash};
use super::ledger::{self, Next, Seen};
use super::place::{CONFLICT, Part, Place, directory, under};
use super::{FilesError, Owner, Work, render};
use crate::io::{EntryKind, Stat};
use crate::rows::Read;
use crate::toon::records::MAX_FILE_BYTES;
use crate::toon::{FileError, FileFault, IssuePlace};
use crate::{ActionError, Fault};

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
    /// Conflicts that are settled, each with what was shown of our side.
    settled: Vec<(String, ContentHash)>,
    /// The last event before the whole taking in.
    since: i64,
    /// The last events before and after the batch.
    events: (i64, i64),
    news: Vec<News>,
    /// The first files of issues that said before it what the board said.
    intact: Arc<HashSet<String>>,
}

impl Unit {
    fn of(path: &str) -> Option<Self> {
        let path = path.strip_suffix(CONFLICT).unwrap_or(path);
        Some(match Place::parse(path)? {
            Place::Issue(place, _) => Self::Issue(place),
            place => Self::File(place),
        })
    }

    /// The path of the file that makes it.
    fn first_path(&self) -> String {
        match self {
            Self::Issue(place) => Place::Issue(place.clone(), Part::Fields).path(),
            Self::File(place) => place.path(),
        }
    }

    /// All its paths, the first one first.
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
        format!("{}/", directory(&self.first_path()))
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
        let mut units: BTreeMap<String, Unit> = paths
            .iter()
            .filter_map(|path| Unit::of(path))
            .map(|unit| (unit.first_path(), unit))
            .collect();
        units.append(&mut self.around(&units)?);
        units.append(&mut self.changed_with(&units)?);
        let mut course = self.read(|reader| Course::begin(reader, units.values()))?;
        self.waiting = self.is_vanishing(&units)?;
        if self.waiting {
            return Ok(paths);
        }
        // What is gone comes last: it may have been moved, and have come up elsewhere.
        let mut ordered = Vec::with_capacity(units.len());
        for (path, unit) in units {
            let gone = self.stat(&path).is_ok_and(|stat| stat.is_none());
            ordered.push((gone, unit.depth(), unit));
        }
        ordered.sort_by_key(|(gone, depth, _)| (*gone, *depth));
        let mut later = BTreeSet::new();
        // Contents are read batch by batch, so that however much has changed, little is held.
        for batch in ordered.chunks(BATCH) {
            let mut candidates = Vec::new();
            for (_, _, unit) in batch {
                match self.gather(unit)? {
                    Some(candidate) => candidates.push(Arc::new(candidate)),
                    None => later.extend(unit.paths()),
                }
            }
            for found in candidates.iter().flat_map(|candidate| &candidate.files) {
                self.absent.remove(&found.path);
            }
            self.take_in_batch(candidates, &mut course)?;
        }
        self.follow(course)?;
        Ok(later)
    }

    /// Whether all files of an issue have only just vanished. Git does that while it changes others,
    /// and what it changes belongs together; so the others wait for that to be sure.
    fn is_vanishing(&mut self, units: &BTreeMap<String, Unit>) -> Result<bool, FilesError> {
        let mut vanishing = false;
        for unit in units.values().filter(|unit| matches!(unit, Unit::Issue(_))) {
            let (mut known, mut gone, mut sure) = (0, true, true);
            for path in unit.paths() {
                if self.stat(&path).is_ok_and(|stat| stat.is_none()) {
                    let entry = self.read(|reader| ledger::at(reader.connection(), &path))?;
                    if entry.is_some_and(|entry| entry.seen.is_some()) {
                        known += 1;
                        sure &= self.is_gone(&path);
                    }
                } else {
                    gone = false;
                    break;
                }
            }
            vanishing |= gone && known > 1 && !sure;
        }
        Ok(vanishing)
    }

    /// The files of what these stand in, where they were changed as well: git changes them
    /// together, and they are not always told of together.
    fn changed_with(
        &mut self,
        units: &BTreeMap<String, Unit>,
    ) -> Result<BTreeMap<String, Unit>, FilesError> {
        let mut with = BTreeMap::new();
        for unit in units.values() {
            let slug = match unit {
                Unit::Issue(place) => {
                    let parents = above(place).into_iter().map(Unit::Issue);
                    with.extend(parents.map(|unit| (unit.first_path(), unit)));
                    Some(&place.project)
                }
                Unit::File(place) => place.project(),
            };
            let project = slug.map(|slug| Unit::File(Place::Project(slug.clone())));
            with.extend(project.map(|unit| (unit.first_path(), unit)));
        }
        with.retain(|path, _| !units.contains_key(path));
        let mut changed = BTreeMap::new();
        for (path, unit) in with {
            for file in unit.paths() {
                let known = self.read(|reader| ledger::at(reader.connection(), &file))?;
                let stat = self.stat(&file).unwrap_or_default();
                let seen = known.and_then(|entry| entry.seen);
                // What is gone is told of by itself.
                if stat.is_some_and(|stat| seen.is_none_or(|seen| !seen.fits(&stat))) {
                    changed.insert(path, unit);
                    break;
                }
            }
        }
        Ok(changed)
    }

    /// What must be looked at together with these: a story that has come along with its tasks, and
    /// tasks that were refused for want of their story.
    fn around(&self, units: &BTreeMap<String, Unit>) -> Result<BTreeMap<String, Unit>, FilesError> {
        let (mut around, mut parents, mut asked) =
            (BTreeMap::new(), HashSet::new(), HashSet::new());
        self.read(|reader| {
            for unit in units.values() {
                let Unit::Issue(place) = unit else { continue };
                let (Some(epic), Some(story)) = (&place.epic, &place.story) else {
                    parents.insert(unit.directory());
                    continue;
                };
                let above = IssuePlace {
                    project: place.project.clone(),
                    id: story.clone(),
                    epic: Some(epic.clone()),
                    story: None,
                };
                let path = Place::Issue(above.clone(), Part::Fields).path();
                if units.contains_key(&path) || !asked.insert(path.clone()) {
                    continue;
                }
                let there = render::issue(reader, &place.project, story)?;
                if there.is_none_or(|there| render::place_of(&there) != above) {
                    around.insert(path, Unit::Issue(above));
                }
            }
            if parents.is_empty() {
                return Ok(());
            }
            for (path, ..) in ledger::problems(reader.connection())? {
                let ends = path.match_indices('/').map(|(at, _)| at);
                let is_below = ends.into_iter().any(|at| parents.contains(&path[..=at]));
                let refused = Unit::of(&path).filter(|_| is_below);
                around.extend(refused.map(|unit| (unit.first_path(), unit)));
            }
            Ok(())
        })?;
        Ok(around)
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

    /// Takes in a batch. Where that fails as a whole, each is tried alone, so that one bad file does
    /// not stop the others; what fails alone has left no trace, and is its own file's problem.
    fn take_in_batch(
        &mut self,
        candidates: Vec<Arc<Candidate>>,
        course: &mut Course,
    ) -> Result<(), FilesError> {
        let Err(error) = self.take_in_together(candidates.clone(), course)? else {
            return Ok(());
        };
        // What is no file's fault concerns all.
        let fault = fault_of_file(error)?;
        if let [candidate] = candidates.as_slice() {
            let (candidate, now) = (Arc::clone(candidate), self.clock.now().unix_seconds());
            let error = FileError::whole(&candidate.first().path, fault);
            return self.note(move |connection| complain(connection, &candidate, &error, now));
        }
        for candidate in candidates {
            self.take_in_batch(vec![candidate], course)?;
        }
        Ok(())
    }

    /// Takes in a batch as one, or nothing of it.
    fn take_in_together(
        &mut self,
        candidates: Vec<Arc<Candidate>>,
        course: &mut Course,
    ) -> Result<Result<(), ActionError>, FilesError> {
        let (since, intact) = (course.since, Arc::clone(&course.intact));
        let aftermath = Arc::new(Mutex::new(Aftermath::default()));
        let (shared, now) = (Arc::clone(&aftermath), self.clock.now().unix_seconds());
        let taken = self.board.write(Box::new(move |work| {
            let mut aftermath = Aftermath {
                since,
                intact,
                ..Aftermath::default()
            };
            aftermath.events.0 = last_event(work.connection())?;
            for candidate in &candidates {
                take_in_one(work, candidate, now, &mut aftermath)?;
            }
            aftermath.events.1 = last_event(work.connection())?;
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = aftermath;
            Ok(())
        }));
        if taken.is_err() {
            return Ok(taken);
        }
        let aftermath =
            std::mem::take(&mut *aftermath.lock().unwrap_or_else(PoisonError::into_inner));
        let (first, last) = aftermath.events;
        course.passed(first, last, aftermath.news);
        self.show(aftermath.ours)?;
        self.put_away(aftermath.settled)?;
        Ok(Ok(()))
    }
}

/// Takes in one unit. What is wrong with its files is noted; what the board or the store refuses is an
/// error, after which all must be undone.
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
        Err(Trouble::Board(error)) => return Err(error),
    };
    Ok(complain(work.connection(), candidate, &error, now)?)
}

/// Notes that a unit cannot be taken in.
fn complain(
    connection: &Connection,
    candidate: &Candidate,
    error: &FileError,
    now: i64,
) -> Read<()> {
    tracing::warn!(file = %error.file, line = error.line, "a readable file cannot be taken in: {error}");
    for found in candidate
        .files
        .iter()
        .filter(|found| found.content.is_some() || found.path == error.file)
    {
        ledger::complain(connection, &found.path, error, now)?;
    }
    if candidate.is_gone() {
        ledger::complain(connection, &candidate.first().path, error, now)?;
    }
    Ok(())
}

/// What an error says of the file that was being taken in.
///
/// # Errors
/// Gives back one that is no file's fault.
pub(super) fn fault_of_file(error: ActionError) -> Result<FileFault, ActionError> {
    use rusqlite::ErrorCode::{ConstraintViolation, TooBig, TypeMismatch};

    let is_of_value = |error: &rusqlite::Error| {
        matches!(error, rusqlite::Error::ToSqlConversionFailure(_))
            || matches!(
                error.sqlite_error_code(),
                Some(ConstraintViolation | TooBig | TypeMismatch)
            )
    };
    Ok(FileFault::Field(match error {
        ActionError::Refused(refusal) => refusal.to_string(),
        ActionError::Invalid(what) => what,
        ActionError::Fault(Fault::Unknown { what }) => format!("the {what} cannot be found"),
        ActionError::Fault(Fault::Panicked) => {
            "an internal error stopped the taking in; please report it with this file".to_owned()
        }
        ActionError::Fault(Fault::Database(error)) if is_of_value(&error) => {
            format!("the database cannot hold what it says: {error}")
        }
        other => return Err(other),
    }))
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
