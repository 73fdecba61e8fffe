//! What one taking in as a whole comes to. Git changes the files of an issue, its history and
//! `project-status.toon` together: then the files tell already what happened and when, and what the
//! board would add of its own is taken back when all of them are in.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_board::{Issue, IssueId, Project, Slug, Timestamp, Uid};
use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::{Trouble, Unit};
use crate::ActionError;
use crate::files::engine::Engine;
use crate::files::fields::{of_issue, of_project};
use crate::files::identity::holder;
use crate::files::ledger;
use crate::files::place::{Part, Place};
use crate::files::{FilesError, Work, render};
use crate::reader::Reader;
use crate::rows::Read;
use crate::toon::history::without_uid;
use crate::toon::project::{Retired, Tombstone};
use crate::toon::{FileError, IssuePlace};

/// How many issues are gone through on one stretch of the writer's time.
const BATCH: usize = 256;

/// How an issue's files were changed.
#[derive(Debug, Clone)]
pub(super) enum News {
    /// Together with their history, which the board has now.
    Whole(IssuePlace, Goal),
    /// All of them are gone.
    Removed(IssuePlace),
    /// Otherwise: a person did it, and what follows is news.
    ByHand(IssuePlace),
    /// The project's own file says this.
    Project(Box<Project>, Retired),
    /// A document of the project was changed.
    Document(Slug),
}

/// What an issue is to come back to.
#[derive(Debug, Clone)]
pub(super) struct Goal {
    /// Events of files later than this follow from others' files.
    pub(super) after: i64,
    pub(super) updated_at: Option<Timestamp>,
}

type Address = (Slug, IssueId);

/// A taking in under way.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// The last event before it.
    pub(super) since: i64,
    /// The first files of issues that said what the board said.
    pub(super) intact: Arc<HashSet<String>>,
    /// Projects that the board did not have before.
    pub(super) new: Arc<HashSet<Slug>>,
    /// The last event that it knows of.
    last: i64,
    /// Whether somebody was at the board meanwhile.
    disturbed: bool,
    /// What issues come back to, of which those above what was changed.
    goals: BTreeMap<Address, (IssuePlace, Goal)>,
    /// The projects as they are to be, where all of them was in the files before.
    projects: BTreeMap<Slug, (Project, Retired)>,
    /// The issues that were changed whole, and those above them.
    whole: BTreeSet<Address>,
    by_hand: BTreeSet<Address>,
    /// Projects with changes by hand.
    touched: BTreeSet<Slug>,
    /// Projects whose own file was changed, with the issues that it lists as deleted.
    told: BTreeMap<Slug, Vec<Tombstone>>,
    /// Projects with a changed document.
    documents: BTreeSet<Slug>,
    /// The files that cannot be taken in, as far as that is news.
    pub(super) troubles: Vec<FileError>,
    /// Files with an earlier text, which the board does not follow.
    pub(super) restored: Vec<String>,
}

/// The number of the last event that there ever was.
pub(super) fn last_event(connection: &Connection) -> Read<i64> {
    let mut statement = connection.prepare_cached(
        "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0)",
    )?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// Whether anything but files has changed an issue after an event.
pub(super) fn is_changed_since(connection: &Connection, issue: &Issue, since: i64) -> Read<bool> {
    let Some(row) = Reader::new(connection).find_row(&issue.project, &issue.id)? else {
        return Ok(false);
    };
    let mut statement = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM event WHERE issue = ?1 AND seq > ?2 \
         AND json_extract(body, '$.source') IS NOT 'file')",
    )?;
    Ok(statement.query_row((row, since), |row| row.get(0))?)
}

/// The places of the parents of what stands at a place.
pub(crate) fn above(place: &IssuePlace) -> Vec<IssuePlace> {
    let at = |id: &IssueId, epic: Option<&IssueId>| IssuePlace {
        project: place.project.clone(),
        id: id.clone(),
        epic: epic.cloned(),
        story: None,
    };
    let story = place.story.as_ref().map(|id| at(id, place.epic.as_ref()));
    let epic = place.epic.as_ref().map(|id| at(id, None));
    story.into_iter().chain(epic).collect()
}

fn address(place: &IssuePlace) -> Address {
    (place.project.clone(), place.id.clone())
}

impl Course {
    /// Looks at the board before these are taken in.
    pub(super) fn begin<'u>(
        reader: &Reader<'_>,
        units: impl Iterator<Item = &'u Unit>,
    ) -> Read<Self> {
        let since = last_event(reader.connection())?;
        let mut course = Self {
            since,
            last: since,
            ..Self::default()
        };
        let (mut asked, mut intact, mut new) = (BTreeSet::new(), HashSet::new(), HashSet::new());
        for unit in units {
            if let Some(slug) = unit.owner().project()
                && asked.insert(slug.clone())
                && !course.look_at_project(reader, slug)?
            {
                new.insert(slug.clone());
            }
            let Unit::Issue(place) = unit else { continue };
            let (path, record) = (
                unit.first_path(),
                render::issue(reader, &place.project, &place.id)?,
            );
            let seen = ledger::at(reader.connection(), &path)?.and_then(|entry| entry.seen);
            if let (Some(seen), Some(record)) = (seen, record)
                && seen.fields == of_issue(&record.issue)
            {
                intact.insert(path);
            }
            for place in above(place) {
                let address = address(&place);
                if course.goals.contains_key(&address) {
                    continue;
                }
                let record = render::issue(reader, &place.project, &place.id)?;
                if let Some(record) = record.filter(|record| render::place_of(record) == place) {
                    let goal = Goal {
                        after: since,
                        updated_at: record.issue.updated_at,
                    };
                    course.goals.insert(address, (place, goal));
                }
            }
        }
        (course.intact, course.new) = (Arc::new(intact), Arc::new(new));
        Ok(course)
    }

    /// Returns whether the board has a project, after looking at its file.
    fn look_at_project(&mut self, reader: &Reader<'_>, slug: &Slug) -> Read<bool> {
        let Some((_, project)) = reader.find_project(slug)? else {
            return Ok(false);
        };
        let retired = reader.retired(slug)?;
        let path = Place::Project(slug.clone()).path();
        let seen = ledger::at(reader.connection(), &path)?.and_then(|entry| entry.seen);
        if seen.is_some_and(|seen| seen.fields == of_project(&project, &retired)) {
            self.projects.insert(slug.clone(), (project, retired));
        }
        Ok(true)
    }

    /// A batch was taken in between these two events.
    pub(super) fn passed(&mut self, first: i64, last: i64, news: Vec<News>) {
        self.disturbed |= first != self.last;
        self.last = last;
        for news in news {
            match news {
                News::Whole(place, goal) => {
                    self.whole.extend(above(&place).iter().map(address));
                    self.whole.insert(address(&place));
                    self.goals.insert(address(&place), (place, goal));
                }
                News::Removed(place) => {
                    self.whole.extend(above(&place).iter().map(address));
                    self.documents.insert(place.project);
                }
                News::ByHand(place) => {
                    self.by_hand.extend(above(&place).iter().map(address));
                    self.by_hand.insert(address(&place));
                    self.touched.insert(place.project);
                }
                News::Project(project, retired) => {
                    let (slug, deleted) = (project.slug.clone(), retired.deleted.clone());
                    self.told.insert(slug.clone(), deleted);
                    if self.new.contains(&slug) || self.projects.contains_key(&slug) {
                        self.projects.insert(slug, (*project, retired));
                    }
                }
                News::Document(slug) => drop(self.documents.insert(slug)),
            }
        }
    }

    /// The issues to be gone through once more.
    fn issues(&mut self) -> Vec<(IssuePlace, Goal)> {
        let whole = std::mem::take(&mut self.whole);
        let open = whole.difference(&self.by_hand);
        open.filter_map(|address| self.goals.remove(address))
            .collect()
    }

    /// The projects that are as their files have them.
    fn projects(&mut self, whole: &BTreeSet<Slug>) -> Vec<(Project, Retired)> {
        let mut projects = std::mem::take(&mut self.projects);
        projects.retain(|slug, _| {
            let together = self.told.contains_key(slug) && self.documents.contains(slug);
            !self.touched.contains(slug) && (whole.contains(slug) || together)
        });
        projects.into_values().collect()
    }
}

impl Engine {
    /// Takes back what the board added of its own to what the files told.
    pub(super) fn follow(&self, mut course: Course) -> Result<(), FilesError> {
        let issues = course.issues();
        let whole = issues
            .iter()
            .map(|(place, _)| place.project.clone())
            .collect();
        let projects = course.projects(&whole);
        for batch in issues.chunks(BATCH) {
            let batch = batch.to_vec();
            let passed = Arc::new(Mutex::new((0, 0)));
            let shared = Arc::clone(&passed);
            self.write(move |work| {
                let first = last_event(work.connection())?;
                for (place, goal) in &batch {
                    follow_issue(work, place, goal)?;
                }
                let last = last_event(work.connection())?;
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = (first, last);
                Ok(())
            })?;
            let (first, last) = *passed.lock().unwrap_or_else(PoisonError::into_inner);
            course.passed(first, last, Vec::new());
        }
        self.bury(std::mem::take(&mut course.told))?;
        if projects.is_empty() || course.disturbed {
            return Ok(());
        }
        let known = course.last;
        self.write(move |work| {
            if last_event(work.connection())? != known {
                return Ok(());
            }
            for (project, retired) in &projects {
                follow_project(work, project, retired)?;
            }
            Ok(())
        })
    }

    /// Puts tombstones of the files of projects in place, now that the files of their issues are gone as well.
    fn bury(&self, told: BTreeMap<Slug, Vec<Tombstone>>) -> Result<(), FilesError> {
        if told.values().all(Vec::is_empty) {
            return Ok(());
        }
        self.write(move |work| {
            told.iter()
                .try_for_each(|(slug, deleted)| bury_in(work, slug, deleted))
        })
    }
}

fn bury_in(work: &mut dyn Work, slug: &Slug, deleted: &[Tombstone]) -> Result<(), ActionError> {
    let reader = Reader::new(work.connection());
    let Some((_, project)) = reader.find_project(slug)? else {
        return Ok(());
    };
    let mut retired = reader.retired(slug)?;
    let known: HashSet<Uid> = retired.deleted.iter().map(|stone| stone.uid).collect();
    let before = retired.deleted.len();
    for stone in deleted {
        if !known.contains(&stone.uid) && holder(work.connection(), stone.uid)?.is_none() {
            retired.deleted.push(stone.clone());
        }
    }
    match retired.deleted.len() == before {
        true => Ok(()),
        false => work.load_project(&project, &retired),
    }
}

fn follow_issue(work: &mut dyn Work, place: &IssuePlace, goal: &Goal) -> Result<(), ActionError> {
    let (connection, path) = (
        work.connection(),
        Place::Issue(place.clone(), Part::Fields).path(),
    );
    let Some(record) = render::issue(&Reader::new(connection), &place.project, &place.id)? else {
        return Ok(());
    };
    let seen = ledger::at(connection, &path)?.and_then(|entry| entry.seen);
    if ledger::problem(connection, &path)?.is_some() {
        return Ok(());
    }
    let Some(file) = seen.map(|seen| seen.fields) else {
        return Ok(());
    };
    let mut board = of_issue(&record.issue);
    board.take("updated_at", &file);
    if board != file {
        // The files do not fit together: what the board made of them is news.
        return Ok(());
    }
    let alone = work.forget_followed(&place.project, &place.id, goal.after)?;
    if alone && record.issue.updated_at != goal.updated_at {
        let mut issue = record.issue;
        issue.updated_at = goal.updated_at;
        work.load_issue(&issue)?;
    }
    Ok(())
}

fn follow_project(
    work: &mut dyn Work,
    project: &Project,
    retired: &Retired,
) -> Result<(), ActionError> {
    let reader = Reader::new(work.connection());
    let path = Place::Project(project.slug.clone()).path();
    if ledger::problem(work.connection(), &path)?.is_some() {
        return Ok(());
    }
    match reader.find_project(&project.slug)? {
        // Its counters stay above all ids that are in use.
        Some((_, board)) if board != *project => work.load_project(project, retired),
        _ => Ok(()),
    }
}

/// What the history of an issue has that its file, as it was last seen, has not; `None` when that
/// cannot be told. Events that files brought after `since` are left out: they follow from others.
pub(super) fn unwritten(
    work: &dyn Work,
    issue: &Issue,
    seen: &crate::files::fields::ContentHash,
    since: i64,
) -> Result<Option<Vec<String>>, Trouble> {
    let lines = render::history_lines(&Reader::new(work.connection()), issue)?;
    // Earlier versions of the program wrote lines without uids.
    let (mut hasher, mut bare, mut written) = (Sha256::new(), Sha256::new(), None);
    for (index, (_, line)) in lines.iter().enumerate() {
        hasher.update(line);
        hasher.update("\n");
        bare.update(without_uid(line).as_bytes());
        bare.update("\n");
        let is_seen = |hasher: &Sha256| hasher.clone().finalize().starts_with(seen);
        if is_seen(&hasher) || is_seen(&bare) {
            written = Some(index + 1);
        }
    }
    let Some(written) = written else {
        return Ok(None);
    };
    let mut left = Vec::new();
    for (seq, line) in lines.into_iter().skip(written) {
        let event = crate::toon::history::read_line(&line, &issue.project, &issue.id);
        let follows = event.is_ok_and(|event| event.source == orchestra_board::Source::File);
        if seq <= since || !follows {
            left.push(line);
        }
    }
    Ok(Some(left))
}
