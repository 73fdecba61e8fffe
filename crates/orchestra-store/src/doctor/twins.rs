//! Gives another id to the younger of two issues that two branches gave the same, together with all
//! that stands below it.

use std::collections::{BTreeSet, HashMap, HashSet};

use orchestra_board::{Command, Event, Issue, IssueId, Slug};

use super::{DoctorError, Report};
use crate::files::place::{Part, Place, directory};
use crate::files::{Engine, Work, ledger, render};
use crate::reader::Reader;
use crate::shared::Shared;
use crate::toon::{self, FileError, IssuePlace};
use crate::{ActionError, Fault, IssueRecord};

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
    report: &mut Report,
) -> Result<(), DoctorError> {
    let mut stuck = HashSet::new();
    loop {
        let problems = shared.read(|reader| ledger::problems(reader.connection()))?;
        let next = problems
            .into_iter()
            .map(|(path, ..)| path)
            .find(|path| stuck.insert(path.clone()) && is_fields(path));
        let Some(path) = next else { return Ok(()) };
        let Some(Place::Issue(place, _)) = Place::parse(&path) else {
            continue;
        };
        if let Some(finding) = renumber_one(shared, engine, &path, &place)? {
            report.findings.push(finding);
            // What is below it may be all right now, or a twin that can be seen only now.
            let below = directory(&path).to_owned();
            stuck.retain(|path| !path.starts_with(&below));
            stuck.insert(path);
        }
    }
}

fn is_fields(path: &str) -> bool {
    matches!(Place::parse(path), Some(Place::Issue(_, Part::Fields)))
}

/// Gives one of two twins another id; says what was done, or why nothing could be.
fn renumber_one(
    shared: &Shared,
    engine: &mut Engine,
    path: &str,
    place: &IssuePlace,
) -> Result<Option<String>, DoctorError> {
    let Some(board) = elder_or_younger(shared, path, place)? else {
        return Ok(None);
    };
    let Ok(Some(twin)) = read(engine, place)? else {
        // One that cannot be read stays a problem that is told.
        return Ok(None);
    };
    if render::place_of(&board) == *place && board.issue.created_at == twin.issue.created_at {
        return Ok(None);
    }
    let old = place.id.clone();
    let new = if board.issue.created_at > twin.issue.created_at {
        let new = renumber_stored(engine, &place.project, &old)?;
        let mut paths = below(engine, place)?;
        paths.insert(path.to_owned());
        engine.take_in(paths)?;
        new
    } else {
        let mut all = vec![twin];
        for path in below(engine, place)? {
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
        all.sort_by_key(|told| (told.place.story.is_some(), told.place.epic.is_some()));
        renumber_files(engine, all)?
    };
    Ok(Some(format!(
        "{path}: two issues had the id {old}; the younger is {new} now"
    )))
}

/// The board's issue of the same id, if the file may tell of another: one elsewhere, or one that
/// was never seen to be the board's.
fn elder_or_younger(
    shared: &Shared,
    path: &str,
    place: &IssuePlace,
) -> Result<Option<IssueRecord>, DoctorError> {
    Ok(shared.read(|reader| {
        let Some(board) = render::issue(reader, &place.project, &place.id)? else {
            return Ok(None);
        };
        if render::place_of(&board) == *place {
            let known = ledger::at(reader.connection(), path)?;
            let was_seen = known.is_some_and(|entry| entry.seen.is_some());
            return Ok((!was_seen && place.story.is_some()).then_some(board));
        }
        // Below a parent that is a twin itself it goes where that goes.
        let parent = match place.parent() {
            Some(parent) => render::issue(reader, &place.project, parent)?,
            None => None,
        };
        let fits = parent.is_none_or(|parent| {
            place.story.is_none() || render::place_of(&parent).epic == place.epic
        });
        Ok(fits.then_some(board))
    })?)
}

/// The files of issues below a parent's place.
fn below(engine: &mut Engine, place: &IssuePlace) -> Result<BTreeSet<String>, DoctorError> {
    let mut found = BTreeSet::new();
    if place.story.is_some() {
        return Ok(found);
    }
    let own = PARTS.map(|part| Place::Issue(place.clone(), part).path());
    let mut directories = vec![directory(&own[0]).to_owned()];
    while let Some(directory) = directories.pop() {
        for path in engine.list(&directory, &mut directories)? {
            if matches!(Place::parse(&path), Some(Place::Issue(..))) && !own.contains(&path) {
                found.insert(path);
            }
        }
    }
    Ok(found)
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
    let aliases = reader.aliases(project)?;
    let new = loop {
        let new = IssueId::of_project(&found.key, found.next_issue);
        found.next_issue += 1;
        if !taken.contains(&new) && reader.issue(project, &new)?.is_none() {
            break new;
        }
    };
    work.load_project(&found, &aliases)?;
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
        let mut aliases = reader.aliases(&slug)?;
        aliases.retain(|(old, _)| *old != id);
        work.load_project(&project, &aliases)?;
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
            work.command(&Command::PutIssue(Box::new(issue.clone())))?;
            work.load_issue(&issue)?;
            work.load_history(&issue.project, &issue.id, &told.events)?;
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

/// The ids for the first of some issues, which must get another, and for those below it.
fn new_ids(work: &mut dyn Work, all: &[Told]) -> Result<HashMap<IssueId, IssueId>, ActionError> {
    let (mut ids, mut crowded) = (HashMap::new(), Vec::new());
    for (index, told) in all.iter().enumerate() {
        let (project, id) = (&told.issue.project, &told.issue.id);
        let free = index > 0 && Reader::new(work.connection()).issue(project, id)?.is_none();
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
