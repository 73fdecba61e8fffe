//! Refuses what stands where it cannot be that issue, or below one that it is not of, and changes
//! by hand of what a file only repeats: nothing that a person wrote is undone unseen.

use orchestra_board::{Issue, IssueId, Kind, State, View};

use super::Given;
use crate::ReadError;
use crate::files::fields::{Fields, Side};
use crate::files::identity::UID_FIELD;
use crate::files::intake::course::above;
use crate::files::intake::{Found, Trouble};
use crate::files::ledger;
use crate::files::place::{Part, Place, directory};
use crate::files::{Work, render};
use crate::reader::Reader;
use crate::toon::issue::{SaidAbove, said_above};
use crate::toon::{FileError, FileFault, IssuePlace, line_of};

/// What is told of a file of an issue that there is twice.
pub(super) fn twin(found: &Found, place: &IssuePlace, what: &str) -> FileError {
    let what = format!("{} {what}; {}", place.id, apart(&found.path));
    FileError::whole(&found.path, FileFault::Place(what))
}

/// Names the commands for two issues of one id, of which a file has one. A date in a file takes no id away from the board.
pub(in crate::files) fn apart(path: &str) -> String {
    format!(
        "`orchestra doctor --fix` gives the younger another id, and the board's only with `--take {path}`"
    )
}

/// Whether a file is of another issue than the board's with the same id. One without a uid is an edit
/// of the board's.
pub(super) fn is_another(file: &Issue, board: &Issue) -> bool {
    file.uid.is_some_and(|uid| Some(uid) != board.uid)
}

/// Refuses a file of another issue than the board's with the same id: neither side's is lost.
pub(super) fn another(
    work: &dyn Work,
    given: &Given<'_>,
    text: &str,
    board: &Issue,
) -> Result<FileError, Trouble> {
    let id = &given.place.id;
    let uid = board.uid.map(|uid| uid.to_string()).unwrap_or_default();
    let what = format!(
        "belongs to another issue than {id} on the board, whose uid is {uid}; both stay unchanged, and {}",
        apart(&given.fields.path)
    );
    let error = wrong_field(&given.fields.path, text, UID_FIELD, what);
    for found in &given.candidate.files {
        // What we have of ours must not come to stand beside theirs.
        ledger::complain(work.connection(), &found.path, &error, given.now)?;
    }
    Ok(error)
}

/// Refuses a new issue below the file of another parent than the board's with the same id.
pub(super) fn check_twins_above(
    reader: &Reader<'_>,
    path: &str,
    place: &IssuePlace,
) -> Result<(), Trouble> {
    for above in above(place) {
        let file = Place::Issue(above, Part::Fields).path();
        let problem = ledger::problem(reader.connection(), &file)?;
        if problem.is_some_and(|(field, _)| field == UID_FIELD) {
            let what = format!(
                "is below {file}, which belongs to another issue than the one on the board"
            );
            return Err(FileError::whole(path, FileFault::Place(what)).into());
        }
    }
    Ok(())
}

/// What is told of a file below a parent that the board has elsewhere, `there`.
pub(in crate::files) fn below_another(there: &IssuePlace) -> String {
    format!(
        "is below another {} than the one on the board, which is in {}; `orchestra doctor --fix` gives one of them a new id",
        there.id,
        Place::Issue(there.clone(), Part::Fields).path()
    )
}

/// Refuses what stands below a parent that the board has elsewhere: the directory may be that of
/// another issue with the same id.
pub(super) fn check_parent(
    reader: &Reader<'_>,
    path: &str,
    place: &IssuePlace,
) -> Result<(), Trouble> {
    let Some(parent) = place.parent() else {
        return Ok(());
    };
    let known = render::issue(reader, &place.project, parent)?;
    let Some(there) = known.map(|record| render::place_of(&record)) else {
        return Ok(());
    };
    if place.story.is_none() || there.epic == place.epic {
        return Ok(());
    }
    let what = below_another(&there);
    Err(FileError::whole(path, FileFault::Place(what)).into())
}

/// Refuses a file in which somebody wrote another parent than its place says. What still says where
/// it stood before it was moved is left to be written again.
pub(super) fn check_said_parent(
    work: &dyn Work,
    given: &Given<'_>,
    text: &str,
) -> Result<(), Trouble> {
    let (path, place) = (&given.fields.path, given.place);
    let said = said_above(path, text)?;
    let differs = |said: Option<&String>, place: Option<&IssueId>| {
        said.is_some_and(|said| place.is_none_or(|id| *said != id.to_string()))
    };
    let story = differs(said.story.as_ref(), place.story.as_ref());
    if !story && !differs(said.epic.as_ref(), place.epic.as_ref()) {
        return Ok(());
    }
    let now = given.fields.seen(Fields::default()).map(|now| now.hash);
    let mut seen = ledger::of_owner(work.connection(), &given.owner)?
        .into_iter()
        .filter_map(|entry| match (entry.seen, Place::parse(&entry.path)?) {
            (Some(seen), Place::Issue(there, Part::Fields)) => Some((seen.hash, there)),
            _ => None,
        })
        .peekable();
    // Of what nobody has seen before, git may have moved the directory with it.
    let is_new = seen.peek().is_none();
    if is_new || seen.any(|(hash, there)| now == Some(hash) || is_said(&said, &there)) {
        return Ok(());
    }
    let reader = Reader::new(work.connection());
    let (field, what) = match (&said.story, &said.epic) {
        (Some(said), _) if story => ("story", other_parent(&reader, place, said, Kind::Story)?),
        (_, Some(said)) if place.story.is_none() => {
            ("epic", other_parent(&reader, place, said, Kind::Epic)?)
        }
        (_, said) => {
            let said = said.as_deref().unwrap_or_default();
            let epic = shown(place.epic.as_ref());
            let what = format!(
                "is {}, but a task has the epic of its story, {epic}; write {epic} here again",
                brief(said)
            );
            ("epic", what)
        }
    };
    Err(wrong_field(path, text, field, what).into())
}

/// Whether a file's words for what is above it are those of a place.
fn is_said(said: &SaidAbove, there: &IssuePlace) -> bool {
    let is = |said: &Option<String>, there: Option<&IssueId>| {
        said.as_ref()
            .is_none_or(|said| there.is_some_and(|id| *said == id.to_string()))
    };
    is(&said.epic, there.epic.as_ref()) && is(&said.story, there.story.as_ref())
}

/// What is told of a parent that a file's place does not say, and what to do instead.
fn other_parent(
    reader: &Reader<'_>,
    place: &IssuePlace,
    said: &str,
    kind: Kind,
) -> Result<String, Trouble> {
    let here = shown(place.parent());
    let target = match IssueId::parse(said) {
        Ok(id) => render::issue(reader, &place.project, &id)?,
        Err(_) => None,
    };
    let Some(target) = target.filter(|target| target.issue.kind == kind) else {
        return Ok(format!(
            "is {}, which is not a {kind} of this project; the file is below {here}: write {here} here again",
            brief(said)
        ));
    };
    let parent = Place::Issue(render::place_of(&target), Part::Fields).path();
    let (what, below) = match kind {
        Kind::Epic => (format!("the directory {}", place.id), "stories"),
        _ => ("the file".to_owned(), "tasks"),
    };
    Ok(format!(
        "is {}, but the file is below {here}, and the directory decides; move {what} to {}/{below}/ instead, or write {here} here again",
        brief(said),
        directory(&parent)
    ))
}

/// Refuses a state of an epic or story that somebody wrote and that cannot be set, `side` being
/// whose state holds. Where the history was changed with it, git did it, and the issues below tell.
pub(super) fn check_state(
    work: &dyn Work,
    given: &Given<'_>,
    side: Side,
    (file, board): (&Issue, &Issue),
) -> Result<(), Trouble> {
    if side == Side::Board || board.kind.is_leaf() {
        return Ok(());
    }
    let history = given.history.seen(Fields::default()).map(|now| now.hash);
    let entry = ledger::at(work.connection(), &given.history.path)?;
    let is_of_git = given.candidate.follows;
    if is_of_git && history.is_some_and(|now| entry.is_none_or(|entry| !entry.is(&now))) {
        return Ok(());
    }
    let reader = Reader::new(work.connection());
    if side == Side::File && can_be_set(&reader, board, file.state)? {
        return Ok(());
    }
    let what = format!(
        "cannot become {} by hand: the state of {} follows from the issues below it, and is {}; write {2} here again. \
         What can be written is cancelled while it is open, backlog to undo that, and backlog or todo while nothing below has started",
        file.state, board.id, board.state
    );
    let text = given.fields.text()?.unwrap_or_default();
    Err(wrong_field(&given.fields.path, text, "status", what).into())
}

/// Whether an epic or story can be given a state by hand: the board's own rule, which it applies
/// when it is told.
fn can_be_set(reader: &Reader<'_>, board: &Issue, to: State) -> Result<bool, Trouble> {
    let planned = |state| matches!(state, State::Backlog | State::Todo);
    Ok(match (board.state, to) {
        (from, State::Cancelled) => !from.is_final(),
        (State::Cancelled, State::Backlog) => {
            let children =
                View::children(reader, &board.project, &board.id).map_err(ReadError::from)?;
            children.is_empty() || went_along(reader, board, &children)?
        }
        (from, to) => planned(from) && planned(to),
    })
}

/// Whether the cancellation of an issue took any of those below along.
fn went_along(
    reader: &Reader<'_>,
    ancestor: &Issue,
    children: &[IssueId],
) -> Result<bool, Trouble> {
    for id in children {
        let Some(child) = render::issue(reader, &ancestor.project, id)? else {
            continue;
        };
        if child.issue.cancelled_with.as_ref() == Some(&ancestor.id) {
            return Ok(true);
        }
        let below = View::children(reader, &ancestor.project, id).map_err(ReadError::from)?;
        if went_along(reader, ancestor, &below)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn wrong_field(path: &str, text: &str, field: &str, what: String) -> FileError {
    FileError {
        file: path.to_owned(),
        line: line_of(text, field),
        field: field.to_owned(),
        fault: FileFault::Field(what),
    }
}

fn shown(id: Option<&IssueId>) -> String {
    id.map(IssueId::to_string).unwrap_or_default()
}

/// The beginning of what a file says, fit for a message.
fn brief(said: &str) -> String {
    said.chars().take(40).flat_map(char::escape_debug).collect()
}
