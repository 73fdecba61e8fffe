//! Compares the database and the readable files, and mends either side.

mod twins;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use crate::db::schema;
use crate::files::ledger::{self, Next};
use crate::files::render::is_unwritten;
use crate::files::{Engine, Owner};
use crate::merge::CONFLICT;
use crate::reader::Reader;
use crate::rows::Read;
use crate::shared::Shared;
use crate::writing::Writing;
use crate::{ActionError, Fault, FilesError, ReadError};

/// How long another process may look at the files before the doctor gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long changes may take to reach the files before the doctor says that they lag; large lists
/// rest for two seconds.
const KEEPING_UP: Duration = Duration::from_secs(5);

/// How many missing files are named.
const NAMED: usize = 3;

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
    /// Whether the database itself is damaged: it was left as it is, even where mending was asked
    /// for, and has to be made again from the readable files, which needs it closed.
    pub damaged: bool,
}

impl Report {
    /// Notes damage of the database; `found` says which.
    fn damage(&mut self, found: &dyn fmt::Display) {
        self.damaged = true;
        self.findings.push(format!("{} ({found})", Fault::Corrupt));
    }
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
    /// A file that is to be taken and has no problem.
    #[error("`{0}` has no problem; `orchestra doctor` lists the files that have one")]
    NoProblem(String),
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

impl DoctorError {
    /// Which damage of the database it tells of, if it does.
    fn damage(&self) -> Option<String> {
        match self {
            Self::Fault(fault) | Self::Files(FilesError::Fault(fault)) => match fault {
                Fault::Corrupt => Some("not all of it can be read".to_owned()),
                Fault::Unknown { what } => Some(format!("it holds an unknown {what}")),
                _ => None,
            },
            Self::Files(_) | Self::NoProblem(_) => None,
        }
    }
}

/// Examines a board whose files nobody else looks at meanwhile.
pub(crate) fn examine(
    shared: &Shared,
    engine: Engine,
    fix: Fix,
    taken: &[String],
) -> Result<Report, DoctorError> {
    let mut report = Report::default();
    if let Err(error) = look(shared, engine, fix, taken, &mut report) {
        // One damaged page of many shows at any step.
        report.damage(&error.damage().ok_or(error)?);
    }
    Ok(report)
}

fn look(
    shared: &Shared,
    mut engine: Engine,
    fix: Fix,
    taken: &[String],
    report: &mut Report,
) -> Result<(), DoctorError> {
    behind(shared, &engine, report);
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
    // On a connection of its own: the full-text index's check trusts what a connection remembers.
    let connection = crate::db::open_reader(&shared.paths)?;
    let is_whole = database(&Reader::new(&connection), report)?;
    drop(connection);
    if !is_whole {
        return Ok(());
    }
    if let Some(fault @ (Fault::Untrusted(_) | Fault::Sandboxed(_))) = &shared.read_only {
        report.findings.push(fault.to_string());
    }
    for name in crate::import::waiting(shared).unwrap_or_default() {
        report.findings.push(format!(
            "{name}: is a project of orchestra-mcp; `orchestra import` takes it over"
        ));
    }
    let missing = missing(shared, &mut engine)?;
    report.findings.extend(absent(&missing, fix));
    if fix == Fix::Mend {
        mend(shared, &mut engine, missing, taken, report)?;
    }
    let questionable = shared.read(questionable)?;
    let findings = told_once(questionable, |path| {
        engine.stat(path).is_ok_and(|stat| stat.is_some())
    });
    report.findings.extend(findings);
    report.findings.extend(shared.read(unsettled)?);
    drop(lock);
    Ok(())
}

/// Whether the files are kept in step with the database, by this process or another. What cannot be
/// read for that is found by the examination of the database.
fn behind(shared: &Shared, engine: &Engine, report: &mut Report) {
    if let Some(why) = shared.reports.failing() {
        report.findings.push(format!(
            "the readable files are not being kept in step: {why}"
        ));
        return;
    }
    if !shared.options.flush || shared.read_only.is_some() {
        return;
    }
    let start = Instant::now();
    let Ok(change) = engine.last_change() else {
        return;
    };
    while engine.is_due_since(change).unwrap_or(false) {
        if start.elapsed() > KEEPING_UP {
            report.findings.push(
                "the readable files are older than the database; the log of the program that writes them has the reason"
                    .to_owned(),
            );
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// What is wrong in the database itself; whether it can be worked with all the same.
fn database(reader: &Reader<'_>, report: &mut Report) -> Read<bool> {
    reader.refresh_indexes()?;
    // The check evaluates the expressions of indexes. Those of another program are only there until the first change.
    if !schema::ForeignObjects::of(reader.connection())?.is_empty() {
        report.findings.push(
            "the database has triggers or indexes of another program, so that its pages were not checked; the first change removes them"
                .to_owned(),
        );
    } else {
        check_integrity(reader, report)?;
    }
    let is_whole = !report.damaged;
    let wrong = Writing::wrong_tallies(reader.connection())?;
    if wrong > 0 {
        report.damage(&format_args!("{wrong} counts of children are wrong"));
    }
    for slug in Writing::low_counters(reader.connection())? {
        report.findings.push(format!(
            "{slug}: counts ids that are in use as free; `orchestra doctor --fix` raises its counters"
        ));
    }
    Ok(is_whole)
}

/// Reports damaged pages and indexes.
fn check_integrity(reader: &Reader<'_>, report: &mut Report) -> Read<()> {
    let mut statement = reader.connection().prepare("PRAGMA integrity_check(10)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let found: String = row.get(0)?;
        if found != "ok" {
            report.damage(&found);
        }
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
            // Such a file was moved to where it cannot be taken in yet: it is not to be there.
            let is_to_go = entry.next == Some(Next::Removed);
            if !is_to_go && engine.stat(&entry.path).is_ok_and(|stat| stat.is_none()) {
                missing.push(entry.path);
            }
        }
    }
}

/// The finding about files that are missing: one line for all of them.
fn absent(missing: &[String], fix: Fix) -> Option<String> {
    let named = missing[..missing.len().min(NAMED)].join(", ");
    let (files, is, was, it) = match missing.len() {
        0 => return None,
        1 => (format!("{named}:"), "is", "was", "it"),
        all => {
            let more = match all.saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let files = format!("{all} readable files ({named}{more})");
            (files, "are", "were", "them")
        }
    };
    Some(match fix {
        Fix::Nothing => format!("{files} {is} missing; `orchestra doctor --fix` writes {it} again"),
        Fix::Mend => format!("{files} {was} missing; written again"),
    })
}

/// The files with a problem, each with its field and message.
fn questionable(reader: &Reader<'_>) -> Read<Vec<(String, String, String)>> {
    let mut problems = ledger::problems(reader.connection())?;
    for (path, field, message) in &mut problems {
        // The text of the board of a conflict is in a file of its own.
        let is_conflict =
            [ledger::CONFLICT_FIELD, ledger::NEW_CONFLICT_FIELD].contains(&field.as_str());
        if !is_conflict && is_unwritten(reader, path)? {
            message.push_str(
                "; the board has another text for this file and writes it when the file is moved away",
            );
        }
    }
    Ok(problems)
}

/// Reports issues with values of two merged boards to choose from.
fn unsettled(reader: &Reader<'_>) -> Read<Vec<String>> {
    let mut statement = reader.connection().prepare(
        "SELECT p.slug, i.prefix || '-' || i.number FROM mark m JOIN issue i ON i.id = m.issue \
         JOIN project p ON p.id = m.project WHERE m.what = 1 AND m.text = ?1 ORDER BY 1, i.id",
    )?;
    let found = statement.query_map([CONFLICT], |row| {
        let (project, id): (String, String) = (row.get(0)?, row.get(1)?);
        Ok(format!(
            "{project}: {id} has other values on a board that was merged, and its history shows them: set the \
             right ones, and remove the label {CONFLICT}"
        ))
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Formats the problems of files. Files that only wait for another one of the same issue are named with it if they exist:
/// nothing is wrong with them.
fn told_once(
    questionable: Vec<(String, String, String)>,
    mut exists: impl FnMut(&str) -> bool,
) -> Vec<String> {
    let paths: HashSet<String> = questionable.iter().map(|(path, ..)| path.clone()).collect();
    let is_of_another = |path: &str, message: &str| {
        let of = message.split(':').next().unwrap_or_default();
        of != path && paths.contains(of)
    };
    let (waiting, own): (Vec<_>, Vec<_>) = questionable
        .into_iter()
        .partition(|(path, _, message)| is_of_another(path, message));
    let mut others: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, _, message) in waiting {
        if exists(&path) {
            others.entry(message).or_default().push(path);
        }
    }
    let findings = own.into_iter().map(|(path, _, message)| {
        let others = others.remove(&message).unwrap_or_default();
        let finding = if message.starts_with(&path) {
            message
        } else {
            format!("{path}: {message}")
        };
        match others.as_slice() {
            [] => finding,
            [other] => format!("{finding}; until then {other} is not imported either"),
            [first @ .., last] => format!(
                "{finding}; until then {} and {last} are not imported either",
                first.join(", ")
            ),
        }
    });
    let mut findings: Vec<String> = findings.collect();
    // A file whose other one is told with different words.
    let rest = others.into_iter().flat_map(|(message, paths)| {
        paths
            .into_iter()
            .map(move |path| format!("{path}: {message}"))
    });
    findings.extend(rest);
    findings
}

fn mend(
    shared: &Shared,
    engine: &mut Engine,
    missing: Vec<String>,
    taken: &[String],
    report: &mut Report,
) -> Result<(), DoctorError> {
    if !shared.options.home.removes() {
        engine.tell_git()?;
    }
    // A file that is not known to have been there is not taken for removed, but written.
    engine.note(move |connection| {
        missing
            .iter()
            .try_for_each(|path| ledger::forget(connection, path))
    })?;
    engine.sweep_whole()?;
    engine.write(|work| work.tidy())?;
    let problems = shared.read(|reader| ledger::problems(reader.connection()))?;
    for file in taken {
        if !problems.iter().any(|(path, ..)| path == file) {
            return Err(DoctorError::NoProblem(file.clone()));
        }
    }
    twins::renumber(shared, engine, taken, report)?;
    let owners = shared.read(owners)?;
    engine.note(move |connection| {
        owners
            .iter()
            .try_for_each(|owner| ledger::make_due(connection, owner))
    })?;
    Ok(engine.flush_all()?)
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
    owners.extend(reader.document_paths()?.into_iter().map(Owner::Document));
    Ok(owners)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that wait for another one of theirs, which has another trouble by now.
    #[test]
    fn missing_files_are_one_finding_that_names_three_of_them() {
        let files = |count: usize| {
            (1..=count)
                .map(|at| format!("a/{at}.toon"))
                .collect::<Vec<_>>()
        };
        for (count, expected) in [
            (0, None),
            (
                1,
                Some("a/1.toon: is missing; `orchestra doctor --fix` writes it again"),
            ),
            (
                3,
                Some(
                    "3 readable files (a/1.toon, a/2.toon, a/3.toon) are missing; `orchestra doctor --fix` writes them again",
                ),
            ),
            (
                9,
                Some(
                    "9 readable files (a/1.toon, a/2.toon, a/3.toon and 6 more) are missing; `orchestra doctor --fix` writes them again",
                ),
            ),
        ] {
            assert_eq!(absent(&files(count), Fix::Nothing).as_deref(), expected);
        }
        let mended = absent(&files(2), Fix::Mend).unwrap();
        assert_eq!(
            mended,
            "2 readable files (a/1.toon, a/2.toon) were missing; written again"
        );
    }

    #[test]
    fn findings_come_in_the_same_order_each_time() {
        let problem = |path: String, message: String| (path, "status".to_owned(), message);
        let mut problems = Vec::new();
        for number in 10..30 {
            let file = format!("a/{number}.toon");
            problems.push(problem(file.clone(), format!("{file}:1: is empty")));
            let waits = format!("{file}:2: no such status");
            problems.push(problem(format!("b/{number}.jsonl"), waits));
        }
        let own = (10..30).map(|number| format!("a/{number}.toon:1: is empty"));
        let rest =
            (10..30).map(|number| format!("b/{number}.jsonl: a/{number}.toon:2: no such status"));
        let expected: Vec<String> = own.chain(rest).collect();
        assert_eq!(told_once(problems, |_| true), expected);
    }

    #[test]
    fn files_that_wait_for_another_one_are_named_if_they_exist() {
        let problem = |path: &str| {
            let message = "a/1.toon:6: uid: belongs to another issue".to_owned();
            (path.to_owned(), "uid".to_owned(), message)
        };
        let check = |existing: &[&str], expected: &str| {
            let problems = ["a/1.toon", "a/1.history.jsonl", "a/1.md"].map(problem);
            let found = told_once(problems.to_vec(), |path| existing.contains(&path));
            let all = format!("a/1.toon:6: uid: belongs to another issue{expected}");
            assert_eq!(found, [all]);
        };
        check(&[], "");
        check(
            &["a/1.history.jsonl"],
            "; until then a/1.history.jsonl is not imported either",
        );
        check(
            &["a/1.history.jsonl", "a/1.md"],
            "; until then a/1.history.jsonl and a/1.md are not imported either",
        );
    }
}
