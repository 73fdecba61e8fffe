//! Compares the database and the readable files, and mends either side.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use orchestra_board::{Issue, IssueId, Slug};

use crate::files::ledger;
use crate::files::place::{Part, Place};
use crate::files::{Engine, Haste, Left, Owner, render};
use crate::reader::Reader;
use crate::rows::Read;
use crate::shared::Shared;
use crate::toon::{self, IssuePlace};
use crate::writing::Writing;
use crate::{ActionError, Fault, FilesError, ReadError};

/// How long another process may look at the files before the doctor gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to do about what is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fix {
    /// Only tell.
    #[default]
    Nothing,
    /// Mend what can be mended without losing anything.
    Mend,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// What is wrong, each with what to do or what was done.
    pub findings: Vec<String>,
}

/// Why the comparison could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The readable files could not be looked at.
    #[error(transparent)]
    Files(#[from] FilesError),
}

impl From<ReadError> for DoctorError {
    fn from(error: ReadError) -> Self {
        Self::Files(error.into())
    }
}

impl From<ActionError> for DoctorError {
    fn from(error: ActionError) -> Self {
        Self::Files(error.into())
    }
}

/// Examines a board whose files nobody else looks at meanwhile.
pub(crate) fn examine(
    shared: &Shared,
    mut engine: Engine,
    fix: Fix,
) -> Result<Report, DoctorError> {
    let start = Instant::now();
    let lock = loop {
        if let Some(lock) = engine.try_lock()? {
            break lock;
        }
        if start.elapsed() > PATIENCE {
            return Err(FilesError::Timeout.into());
        }
        thread::sleep(Duration::from_millis(10));
    };
    let mut report = Report::default();
    // On a connection of its own: the full-text index's check trusts what a connection remembers.
    let connection = crate::db::open_reader(&shared.paths)?;
    database(&Reader::new(&connection), &mut report)?;
    drop(connection);
    let missing = missing(shared, &mut engine)?;
    for path in &missing {
        report.findings.push(match fix {
            Fix::Nothing => format!("{path}: is missing; `orchestra doctor --fix` writes it again"),
            Fix::Mend => format!("{path}: was missing; written again"),
        });
    }
    if fix == Fix::Mend {
        mend(shared, &mut engine, missing, &mut report)?;
    }
    let questionable = shared.read(|reader| ledger::problems(reader.connection()))?;
    report
        .findings
        .extend(questionable.into_iter().map(|(path, _, message)| {
            if message.starts_with(&path) {
                message
            } else {
                format!("{path}: {message}")
            }
        }));
    drop(lock);
    Ok(report)
}

/// What is wrong in the database itself.
fn database(reader: &Reader<'_>, report: &mut Report) -> Read<()> {
    reader.refresh_indexes()?;
    let mut statement = reader.connection().prepare("PRAGMA integrity_check(10)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let found: String = row.get(0)?;
        if found != "ok" {
            report.findings.push(format!(
                "the database is damaged ({found}); stop all programs that use it and delete `.projects/.store`: it is rebuilt from the readable files"
            ));
        }
    }
    let wrong = Writing::wrong_tallies(reader.connection())?;
    if wrong > 0 {
        report.findings.push(format!(
            "{wrong} counts of children are wrong; stop all programs that use the board and delete `.projects/.store`: it is rebuilt from the readable files"
        ));
    }
    Ok(())
}

/// Files that the database has written and that are not there.
fn missing(shared: &Shared, engine: &mut Engine) -> Result<Vec<String>, DoctorError> {
    let (mut missing, mut last) = (Vec::new(), String::new());
    loop {
        let known = shared.read(|reader| ledger::after(reader.connection(), &last, 1_000))?;
        let Some(end) = known.last() else {
            return Ok(missing);
        };
        last.clone_from(&end.path);
        engine.distrust();
        for entry in known.into_iter().filter(|entry| entry.seen.is_some()) {
            if engine.stat(&entry.path).is_ok_and(|stat| stat.is_none()) {
                missing.push(entry.path);
            }
        }
    }
}

fn mend(
    shared: &Shared,
    engine: &mut Engine,
    missing: Vec<String>,
    report: &mut Report,
) -> Result<(), DoctorError> {
    // A file that is not known to have been there is not taken for removed, but written.
    engine.note(move |connection| {
        missing
            .iter()
            .try_for_each(|path| ledger::forget(connection, path))
    })?;
    engine.sweep(&|| true)?;
    renumber_twins(shared, engine, report)?;
    let owners = shared.read(owners)?;
    engine.note(move |connection| {
        owners
            .iter()
            .try_for_each(|owner| ledger::make_due(connection, owner))
    })?;
    while engine.flush(Haste::Now)? == Left::More {}
    Ok(())
}

/// Everything that has files.
fn owners(reader: &Reader<'_>) -> Read<Vec<Owner>> {
    let mut owners = vec![];
    for slug in reader.slugs()? {
        let all = reader.owners_of(&slug)?;
        owners.push(Owner::Project(slug.clone()));
        owners.push(Owner::Prd(slug.clone()));
        owners.extend(all);
    }
    for (owner, sql) in [
        (
            Owner::HookEvents,
            "SELECT EXISTS (SELECT 1 FROM hook_event)",
        ),
        (Owner::Usage, "SELECT EXISTS (SELECT 1 FROM usage_session)"),
    ] {
        if reader.connection().query_row(sql, [], |row| row.get(0))? {
            owners.push(owner);
        }
    }
    Ok(owners)
}

/// Gives another id to the younger of two issues that two branches gave the same.
fn renumber_twins(
    shared: &Shared,
    engine: &mut Engine,
    report: &mut Report,
) -> Result<(), DoctorError> {
    for (path, _, _) in shared.read(|reader| ledger::problems(reader.connection()))? {
        let Some(Place::Issue(place, Part::Fields)) = Place::parse(&path) else {
            continue;
        };
        let board = shared.read(|reader| render::issue(reader, &place.project, &place.id))?;
        let Some(board) = board.filter(|record| render::place_of(record) != place) else {
            continue;
        };
        let Some(twin) = read_twin(engine, &place)? else {
            continue;
        };
        let (old, project) = (place.id.clone(), place.project.clone());
        let new = if board.issue.created_at > twin.created_at {
            let new = renumber_stored(engine, &project, &old)?;
            engine.take_in(BTreeSet::from([path.clone()]))?;
            new
        } else {
            renumber_file(engine, &place, twin)?
        };
        report.findings.push(format!(
            "{path}: two issues had the id {old}; the younger is {new} now"
        ));
    }
    Ok(())
}

fn read_twin(engine: &mut Engine, place: &IssuePlace) -> Result<Option<Issue>, DoctorError> {
    let mut text = |part| engine.text(&Place::Issue(place.clone(), part).path());
    let (fields, description) = (text(Part::Fields)?, text(Part::Description)?);
    let Some(fields) = fields else {
        return Ok(None);
    };
    let beside = Place::Issue(place.clone(), Part::Description).path();
    let beside = description.as_deref().map(|text| (beside.as_str(), text));
    // One that cannot be read stays a problem that is told.
    Ok(toon::issue::read("", &fields, place, beside).ok())
}

/// Takes the next number of a project.
fn next_id(work: &mut dyn crate::files::Work, project: &Slug) -> Result<IssueId, ActionError> {
    let reader = Reader::new(work.connection());
    let (_, mut found) = reader
        .find_project(project)?
        .ok_or(Fault::Unknown { what: "project" })?;
    let aliases = reader.aliases(project)?;
    let new = IssueId::of_project(&found.key, found.next_issue);
    found.next_issue += 1;
    work.load_project(&found, &aliases)?;
    Ok(new)
}

fn renumber_stored(engine: &Engine, project: &Slug, old: &IssueId) -> Result<IssueId, DoctorError> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (slug, id) = (project.clone(), old.clone());
    engine.write(move |work| {
        let new = next_id(work, &slug)?;
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

fn renumber_file(
    engine: &mut Engine,
    place: &IssuePlace,
    twin: Issue,
) -> Result<IssueId, DoctorError> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let path = |part| Place::Issue(place.clone(), part).path();
    let history = engine.text(&path(Part::History))?;
    let events =
        history.and_then(|text| toon::history::read("", &text, &place.project, &place.id).ok());
    let paths = [Part::Fields, Part::Description, Part::History].map(path);
    let known = paths.clone();
    engine.write(move |work| {
        let mut issue = twin;
        issue.id = next_id(work, &issue.project)?;
        work.command(&orchestra_board::Command::PutIssue(Box::new(issue.clone())))?;
        work.load_issue(&issue)?;
        work.load_history(&issue.project, &issue.id, &events.unwrap_or_default())?;
        for path in &known {
            ledger::forget(work.connection(), path)?;
            ledger::approve(work.connection(), path)?;
        }
        // The receiver lives until this was waited for.
        let _ = sender.send(issue.id);
        Ok(())
    })?;
    let new = receiver.recv().map_err(|_| Fault::Closed)?;
    // What they said is durable under the new id before they go.
    engine.remove_all(&paths)?;
    Ok(new)
}
