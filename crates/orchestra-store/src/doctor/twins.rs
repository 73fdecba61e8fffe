//! Gives another id to the younger of two issues that two branches gave the same, together with all
//! that stands below it. A file may have any date in it, so the board's issue loses its id only where a person names the
//! file.

use std::collections::{BTreeSet, HashMap, HashSet};

use orchestra_board::{Command, Event, Issue, IssueId, Slug, Uid};

use super::{DoctorError, Report};
use crate::files::above;
use crate::files::identity::{self, Settled};
use crate::files::place::{Part, Place, directory};
use crate::files::{Engine, Work, ledger, render};
use crate::reader::Reader;
use crate::shared::Shared;
use crate::toon::{self, FileError, IssuePlace};
use crate::{ActionError, Fault, FilesError, IssueRecord};

const PARTS: [Part; 3] = [Part::Fields, Part::Description, Part::History];

/// An issue as its files tell it.
struct Told {
    place: IssuePlace,
    issue: Issue,
    events: Vec<Event>,
}

/// Looks for twins among the files that cannot be taken in, until there are none.
pub(super) fn renumber(
    shared: &Shared,
    engine: &mut Engine,
    taken: &[String],
    report: &mut Report,
) -> Result<(), DoctorError> {
    let mut done = HashSet::new();
    loop {
        // Read once for all of them: there may be many files with problems, most of which are no twins.
        let problems = shared.read(|reader| ledger::problems(reader.connection()))?;
        let mut is_changed = false;
        for (path, ..) in problems {
            let Some(Place::Issue(place, Part::Fields)) = Place::parse(&path) else {
                continue;
            };
            let problem = shared.read(|reader| ledger::problem(reader.connection(), &path))?;
            if problem.is_none() || done.contains(&path) {
                continue;
            }
            if let Some(finding) = renumber_one(shared, engine, taken, &place)? {
                report.findings.push(finding);
                is_changed = true;
                done.insert(path);
            }
        }
        // Other files may be all right now, or twins that can be seen only now.
        if !is_changed {
            return Ok(());
        }
    }
}

/// Gives one of two twins another id; says what was done, or why nothing could be.
fn renumber_one(
    shared: &Shared,
    engine: &mut Engine,
    taken: &[String],
    place: &IssuePlace,
) -> Result<Option<String>, DoctorError> {
    let path = Place::Issue(place.clone(), Part::Fields).path();
    let path = path.as_str();
    let Some(side) = other_side(shared, path, place)? else {
        return Ok(None);
    };
    let Ok(Some(twin)) = read(engine, place)? else {
        // One that cannot be read stays a problem that is told.
        return Ok(None);
    };
    let old = place.id.clone();
    let is_taken = match &side {
        Other::Deleted => false,
        Other::Board(board) => match gives_way(shared, taken, board, &twin)? {
            Some(gives_way) => gives_way,
            None => return Ok(None),
        },
    };
    let new = if is_taken {
        let new = renumber_stored(engine, &place.project, &old)?;
        let mut paths = below(shared, engine, place)?;
        paths.insert(path.to_owned());
        engine.take_in(paths)?;
        new
    } else {
        let mut all = vec![twin];
        for path in below(shared, engine, place)? {
            let Some(Place::Issue(place, Part::Fields)) = Place::parse(&path) else {
                continue;
            };
            match read(engine, &place)? {
                Ok(Some(told)) => all.push(told),
                Ok(None) => {}
                Err(error) => {
                    return Ok(Some(format!(
                        "{path}: two issues have the id {old}; the younger can get another when what is below it can be read: {error}"
                    )));
                }
            }
        }
        orchestra_sort::sort_by_key(&mut all, |told| {
            (told.place.story.is_some(), told.place.epic.is_some())
        });
        match renumber_files(engine, all) {
            // For instance because its parent was deleted as well. The file stays as it is.
            Err(DoctorError::Files(FilesError::Refused(refusal))) => {
                return Ok(Some(format!(
                    "{path}: cannot create a new issue from this file: {refusal}"
                )));
            }
            renumbered => renumbered?,
        }
    };
    Ok(Some(match side {
        Other::Board(_) if is_taken => {
            format!("{path}: this file's issue has the id {old} now; the board's is {new}")
        }
        Other::Board(_) => format!("{path}: two issues had the id {old}; the younger is {new} now"),
        Other::Deleted => {
            format!("{path}: {old} was deleted; the content of its file is now issue {new}")
        }
    }))
}

/// Returns whether the board's issue gets another id, rather than the issue of a file; `None` where both have theirs.
fn gives_way(
    shared: &Shared,
    taken: &[String],
    board: &IssueRecord,
    twin: &Told,
) -> Result<Option<bool>, DoctorError> {
    let (ours, theirs) = (&board.issue, &twin.issue);
    let is_same = theirs.uid.is_none_or(|uid| Some(uid) == ours.uid);
    if is_same && render::place_of(board) == twin.place && ours.created_at == theirs.created_at {
        return Ok(None);
    }
    let path = Place::Issue(twin.place.clone(), Part::Fields).path();
    if is_named(taken, &path) {
        return Ok(Some(true));
    }
    // Files that were copied from an issue over those of another are the younger ones. Of two
    // of one second, every clone finds the same one to be the younger.
    let is_elder = !is_copy(shared, theirs)?
        && (ours.created_at, ours.uid) > (theirs.created_at, theirs.uid.or(ours.uid));
    Ok((!is_elder).then_some(false))
}

/// Returns whether one of these files is the one at a path, or that of an epic or story that the path is below.
fn is_named(files: &[String], path: &str) -> bool {
    files.iter().any(|file| {
        let is_parent =
            matches!(Place::parse(file), Some(Place::Issue(place, _)) if place.story.is_none());
        let below = path.strip_prefix(directory(file));
        file == path || (is_parent && below.is_some_and(|rest| rest.starts_with('/')))
    })
}

/// What the board has of the id of a file that may tell of another issue.
enum Other {
    Board(Box<IssueRecord>),
    /// An issue that was deleted.
    Deleted,
}

/// Whether another issue of the board has the uid that a file says.
fn is_copy(shared: &Shared, issue: &Issue) -> Result<bool, DoctorError> {
    let Some(uid) = issue.uid else {
        return Ok(false);
    };
    let holder = shared.read(|reader| identity::holder(reader.connection(), uid))?;
    Ok(holder.is_some_and(|id| id != issue.id))
}

/// The board's side of a file that may tell of another issue: one of another uid, one elsewhere, or
/// one that was never seen to be the board's. `None` below such a file.
fn other_side(
    shared: &Shared,
    path: &str,
    place: &IssuePlace,
) -> Result<Option<Other>, DoctorError> {
    Ok(shared.read(|reader| {
        // It goes where that goes.
        for above in above(place) {
            let above = Place::Issue(above, Part::Fields).path();
            let problem = ledger::problem(reader.connection(), &above)?;
            if problem.is_some_and(|(field, _)| field == identity::UID_FIELD) {
                return Ok(None);
            }
        }
        let problem = ledger::problem(reader.connection(), path)?;
        let is_another = problem.is_some_and(|(field, _)| field == identity::UID_FIELD);
        let Some(board) = render::issue(reader, &place.project, &place.id)? else {
            return Ok(is_another.then_some(Other::Deleted));
        };
        let board = Box::new(board);
        if render::place_of(&board) == *place {
            let known = ledger::at(reader.connection(), path)?;
            let was_seen = known.is_some_and(|entry| entry.seen.is_some());
            let is_twin = is_another || (!was_seen && place.story.is_some());
            return Ok(is_twin.then_some(Other::Board(board)));
        }
        // Below a parent that is a twin itself it goes where that goes.
        let parent = match place.parent() {
            Some(parent) => render::issue(reader, &place.project, parent)?,
            None => None,
        };
        let fits = parent.is_none_or(|parent| {
            place.story.is_none() || render::place_of(&parent).epic == place.epic
        });
        Ok(fits.then_some(Other::Board(board)))
    })?)
}

/// The files of issues below a parent's place, without those that are the board's.
fn below(
    shared: &Shared,
    engine: &mut Engine,
    place: &IssuePlace,
) -> Result<BTreeSet<String>, DoctorError> {
    let mut found = BTreeSet::new();
    if place.story.is_some() {
        return Ok(found);
    }
    let own = PARTS.map(|part| Place::Issue(place.clone(), part).path());
    let mut directories = vec![directory(&own[0]).to_owned()];
    while let Some(directory) = directories.pop() {
        for path in engine.list(&directory, &mut directories)? {
            if own.contains(&path) {
                continue;
            }
            if let Some(Place::Issue(place, _)) = Place::parse(&path)
                && !is_boards(shared, &place)?
            {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

/// Whether the files at a place are those of the board's issue.
fn is_boards(shared: &Shared, place: &IssuePlace) -> Result<bool, DoctorError> {
    let path = Place::Issue(place.clone(), Part::Fields).path();
    Ok(shared.read(|reader| {
        let connection = reader.connection();
        let is_seen = ledger::at(connection, &path)?.is_some_and(|entry| entry.seen.is_some());
        Ok(is_seen && ledger::problem(connection, &path)?.is_none())
    })?)
}

/// What the files of an issue tell, if it has any.
fn read(
    engine: &mut Engine,
    place: &IssuePlace,
) -> Result<Result<Option<Told>, FileError>, DoctorError> {
    let paths = PARTS.map(|part| Place::Issue(place.clone(), part).path());
    let [fields, description, history] = &paths;
    let Some(text) = engine.text(fields)? else {
        return Ok(Ok(None));
    };
    let beside = engine.text(description)?;
    let events = engine.text(history)?;
    let beside = beside.as_deref().map(|text| (description.as_str(), text));
    let told = toon::issue::read(fields, &text, place, beside).and_then(|issue| {
        let events = match events {
            Some(text) => toon::history::read(history, &text, &place.project, &place.id)?,
            None => Vec::new(),
        };
        Ok(Some(Told {
            place: place.clone(),
            issue,
            events,
        }))
    });
    Ok(told)
}

/// Takes the next number of a project that is free on both sides.
fn next_id(
    work: &mut dyn Work,
    project: &Slug,
    taken: &HashSet<IssueId>,
) -> Result<IssueId, ActionError> {
    let reader = Reader::new(work.connection());
    let (_, mut found) = reader
        .find_project(project)?
        .ok_or(Fault::Unknown { what: "project" })?;
    let retired = reader.retired(project)?;
    let new = loop {
        let new = IssueId::of_project(&found.key, found.next_issue);
        found.next_issue += 1;
        if !taken.contains(&new) && reader.issue(project, &new)?.is_none() {
            break new;
        }
    };
    work.load_project(&found, &retired)?;
    Ok(new)
}

fn renumber_stored(engine: &Engine, project: &Slug, old: &IssueId) -> Result<IssueId, DoctorError> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (slug, id) = (project.clone(), old.clone());
    engine.write(move |work| {
        let new = next_id(work, &slug, &HashSet::new())?;
        work.renumber(&slug, &id, &new)?;
        // The old id is the elder's alone.
        let reader = Reader::new(work.connection());
        let (_, project) = reader
            .find_project(&slug)?
            .ok_or(Fault::Unknown { what: "project" })?;
        let mut retired = reader.retired(&slug)?;
        retired.aliases.retain(|(old, _)| *old != id);
        work.load_project(&project, &retired)?;
        // The receiver lives until this was waited for.
        let _ = sender.send(new);
        Ok(())
    })?;
    Ok(receiver.recv().map_err(|_| Fault::Closed)?)
}

/// Puts an issue that only files tell of into the database under another id, and below it all that
/// stands below it in the files, under their own ids where those are free.
fn renumber_files(engine: &mut Engine, all: Vec<Told>) -> Result<IssueId, DoctorError> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let path = |told: &Told| PARTS.map(|part| Place::Issue(told.place.clone(), part).path());
    let paths: Vec<String> = all.iter().flat_map(path).collect();
    let known = paths.clone();
    engine.write(move |work| {
        let ids = new_ids(work, &all)?;
        // The receiver lives until this was waited for.
        let _ = sender.send(
            all.first()
                .and_then(|first| ids.get(&first.issue.id))
                .cloned(),
        );
        for told in all {
            let mut issue = told.issue;
            issue.id = ids[&issue.id].clone();
            let Issue {
                parent,
                cancelled_with,
                fixes,
                depends_on,
                ..
            } = &mut issue;
            for named in [parent, cancelled_with, fixes]
                .into_iter()
                .flatten()
                .chain(depends_on)
            {
                if let Some(new) = ids.get(named) {
                    named.clone_from(new);
                }
            }
            let mut events = told.events;
            disown(&Reader::new(work.connection()), &told.place, &mut events)?;
            if let Settled::Deleted(_) =
                identity::settle(work.connection(), &mut issue, &mut events)?
            {
                identity::make_own(work.connection(), &mut issue, &mut events)?;
            }
            work.command(&Command::PutIssue(Box::new(issue.clone())))?;
            work.load_issue(&issue)?;
            if !events.is_empty() {
                work.load_history(&issue.project, &issue.id, &events)?;
            }
        }
        for path in &known {
            ledger::forget(work.connection(), path)?;
            ledger::approve(work.connection(), path)?;
        }
        Ok(())
    })?;
    let new = receiver.recv().ok().flatten().ok_or(Fault::Closed)?;
    // What they said is durable under the new ids before they go.
    engine.remove_all(&paths)?;
    Ok(new)
}

/// Takes the uids of lines away that the board's issue at the same place has: a line has one history.
fn disown(
    reader: &Reader<'_>,
    place: &IssuePlace,
    events: &mut [Event],
) -> Result<(), ActionError> {
    let Some(board) = render::issue(reader, &place.project, &place.id)? else {
        return Ok(());
    };
    let ours = render::history_text(reader, &board.issue)?;
    let ours = toon::history::read("history", &ours, &place.project, &place.id);
    let ours: HashSet<Uid> = ours
        .into_iter()
        .flatten()
        .filter_map(|event| event.uid)
        .collect();
    for event in events {
        event.uid = event.uid.filter(|uid| !ours.contains(uid));
    }
    Ok(())
}

/// The ids for the first of some issues, which must get another, and for those below it.
fn new_ids(work: &mut dyn Work, all: &[Told]) -> Result<HashMap<IssueId, IssueId>, ActionError> {
    let (mut ids, mut crowded) = (HashMap::new(), Vec::new());
    for (index, told) in all.iter().enumerate() {
        let (project, id) = (&told.issue.project, &told.issue.id);
        let is_deleted = match told.issue.uid {
            Some(uid) => identity::deleted_at(work.connection(), project, uid)?.is_some(),
            None => false,
        };
        let free = index > 0
            && !is_deleted
            && Reader::new(work.connection()).issue(project, id)?.is_none();
        if free {
            ids.insert(id.clone(), id.clone());
        } else {
            crowded.push((project, id));
        }
    }
    let kept: HashSet<IssueId> = ids.keys().cloned().collect();
    for (project, id) in crowded {
        let new = next_id(work, project, &kept)?;
        ids.insert(id.clone(), new);
    }
    Ok(ids)
}
