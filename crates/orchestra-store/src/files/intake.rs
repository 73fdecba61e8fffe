//! Takes in what people and git did to the files: each changed file becomes changes of the board,
//! merged field by field with what changed there meanwhile.

mod candidate;
mod course;
mod issue;
mod scope;
mod single;
mod trouble;
mod unit;

pub(crate) use course::above;
pub(crate) use issue::shorten_claim;
pub(super) use issue::{apart, below_another};
pub(crate) use single::read_document;
pub(super) use single::{Value, side_version};
pub(super) use trouble::fault_of_file;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_board::Slug;
use rusqlite::Connection;

use self::candidate::{Candidate, Found};
use self::course::{Course, News, last_event};
use self::trouble::Trouble;
use self::unit::Unit;
use super::conflict::Ours;
use super::engine::Engine;
use super::fields::ContentHash;
use super::identity::UID_FIELD;
use super::needs::Job;
use super::{FilesError, Work, ledger, render, report};
use crate::ActionError;
use crate::rows::Read;
use crate::toon::FileError;

/// How many things are taken in on one stretch of the writer's time.
const BATCH: usize = 32;
/// The most bytes of their files, save the last one's.
const BATCH_BYTES: usize = 32 * 1024 * 1024;

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
    /// Projects that the board did not have before the whole taking in.
    new: Arc<HashSet<Slug>>,
    /// The files that cannot be taken in, as far as that is news.
    troubles: Vec<FileError>,
    /// Files with an earlier text, which the board does not follow.
    restored: Vec<String>,
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
        units.append(&mut self.refused_with(&units)?);
        if !self.removes {
            self.pass_over_absent(&mut units)?;
        }
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
        orchestra_sort::sort_by_key(&mut ordered, |(gone, depth, _)| (*gone, *depth));
        let mut later = BTreeSet::new();
        // Contents are read batch by batch, so that however much has changed, little is held.
        for batch in ordered.chunks(BATCH) {
            let (mut candidates, mut bytes) = (Vec::new(), 0);
            for (_, _, unit) in batch {
                if bytes > BATCH_BYTES {
                    self.take_in_batch(std::mem::take(&mut candidates), &mut course)?;
                    bytes = 0;
                }
                match self.gather(unit)? {
                    Some(candidate) => {
                        bytes += candidate.bytes();
                        candidates.push(Arc::new(candidate));
                    }
                    None => later.extend(unit.paths()),
                }
            }
            self.take_in_batch(candidates, &mut course)?;
        }
        let present = ordered.into_iter().filter(|(gone, ..)| !gone);
        let units: Vec<Unit> = present.map(|(.., unit)| unit).collect();
        self.take_in_freed(&units, &mut course)?;
        self.take_in_states(&units, &mut course)?;
        report::report_all(&self.io, &self.root, &course.troubles);
        report::report_restored(&course.restored);
        self.follow(course)?;
        Ok(later)
    }

    /// Looks once more at files that were refused as another issue's: what had their id may be gone.
    fn take_in_freed(&mut self, units: &[Unit], course: &mut Course) -> Result<(), FilesError> {
        let freed = self.read(|reader| {
            let mut freed = Vec::new();
            for unit in units {
                let Unit::Issue(place) = unit else { continue };
                let problem = ledger::problem(reader.connection(), &unit.first_path())?;
                if problem.is_some_and(|(field, _)| field == UID_FIELD)
                    && render::issue(reader, &place.project, &place.id)?.is_none()
                {
                    freed.push(unit);
                }
            }
            Ok(freed)
        })?;
        for unit in freed {
            if let Some(candidate) = self.gather(unit)? {
                self.take_in_batch(vec![Arc::new(candidate)], course)?;
            }
        }
        Ok(())
    }

    /// Leaves out what has no file any more, where that removes nothing. A problem of such a file goes with it, and the
    /// file is written again.
    fn pass_over_absent(&mut self, units: &mut BTreeMap<String, Unit>) -> Result<(), FilesError> {
        let mut absent = Vec::new();
        for path in units.keys() {
            if self.stat(path).is_ok_and(|stat| stat.is_none()) {
                absent.push(path.clone());
            }
        }
        let absent: Vec<Unit> = absent
            .iter()
            .filter_map(|path| units.remove(path))
            .collect();
        let troubled = self.read(|reader| {
            let mut troubled = Vec::new();
            for unit in absent {
                if ledger::problem(reader.connection(), &unit.first_path())?.is_some() {
                    troubled.push(unit);
                }
            }
            Ok(troubled)
        })?;
        if troubled.is_empty() {
            return Ok(());
        }
        self.note(move |connection| {
            for unit in troubled {
                for path in unit.paths() {
                    ledger::forget(connection, &path)?;
                    ledger::approve(connection, &path)?;
                }
                ledger::make_due(connection, &unit.owner())?;
            }
            Ok(())
        })
    }

    /// Looks once more at the epics and stories whose state was refused: it may be what has followed
    /// since from what is below them.
    fn take_in_states(&mut self, units: &[Unit], course: &mut Course) -> Result<(), FilesError> {
        let parents = units.iter().filter(|unit| matches!(unit.depth(), 1 | 2));
        let mut refused = self.read(|reader| {
            let mut refused = Vec::new();
            for unit in parents {
                let problem = ledger::problem(reader.connection(), &unit.first_path())?;
                if problem.is_some_and(|(field, _)| field == "status") {
                    refused.push(unit);
                }
            }
            Ok(refused)
        })?;
        refused.retain(|_| units.len() > 1);
        orchestra_sort::sort_by_key(&mut refused, |unit| std::cmp::Reverse(unit.depth()));
        for unit in refused {
            if let Some(candidate) = self.gather(unit)? {
                self.take_in_batch(vec![Arc::new(candidate)], course)?;
            }
        }
        Ok(())
    }

    /// Takes in a batch. Where that fails as a whole, each is tried alone, so that one bad file does
    /// not stop the others; what fails alone has left no trace, and is its own file's problem.
    fn take_in_batch(
        &mut self,
        candidates: Vec<Arc<Candidate>>,
        course: &mut Course,
    ) -> Result<(), FilesError> {
        for found in candidates.iter().flat_map(|candidate| &candidate.files) {
            self.absent.remove(&found.path);
        }
        let Err(error) = self.take_in_together(candidates.clone(), course)? else {
            return Ok(());
        };
        // What is no file's fault concerns all.
        let fault = fault_of_file(error)?;
        if let [candidate] = candidates.as_slice() {
            let (candidate, now) = (Arc::clone(candidate), self.clock.now().unix_seconds());
            let error = FileError::whole(&candidate.first().path, fault);
            return self.note(move |connection| {
                if complain(connection, &candidate, &error, now)? {
                    report::report(&error);
                }
                Ok(())
            });
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
        let new = Arc::clone(&course.new);
        let aftermath = Arc::new(Mutex::new(Aftermath::default()));
        let (shared, now) = (Arc::clone(&aftermath), self.clock.now().unix_seconds());
        let taken = self.board.write(Job::synced(move |work| {
            let mut aftermath = Aftermath {
                since,
                intact,
                new,
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
        course.troubles.extend(aftermath.troubles);
        course.restored.extend(aftermath.restored);
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
    if candidate.unreadable.is_none() && candidate.is_ours(work)? {
        candidate.give_up_damaged(work)?;
        return Ok(ledger::make_due(
            work.connection(),
            &candidate.unit.owner(),
        )?);
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
    if complain(work.connection(), candidate, &error, now)? {
        aftermath.troubles.push(error);
    }
    Ok(())
}

/// Notes that a unit cannot be taken in. Returns whether that is news.
fn complain(
    connection: &Connection,
    candidate: &Candidate,
    error: &FileError,
    now: i64,
) -> Read<bool> {
    let known = ledger::problem(connection, &error.file)?;
    let is_news = known.is_none_or(|(_, message)| message != error.to_string());
    // A file that cannot be read is not written either.
    for found in candidate
        .files
        .iter()
        .filter(|found| found.content.is_some() || found.is_blocked || found.path == error.file)
    {
        ledger::complain(connection, &found.path, error, now)?;
    }
    if candidate.is_gone() {
        ledger::complain(connection, &candidate.first().path, error, now)?;
    }
    Ok(is_news)
}
