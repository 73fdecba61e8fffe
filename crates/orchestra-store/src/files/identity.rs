//! Which issue a file is of: uids decide, where files have them.

use orchestra_board::{Event, Issue, IssueId, Slug, Timestamp, Uid};
use rusqlite::{Connection, OptionalExtension, params};

use crate::ActionError;
use crate::reader::Reader;
use crate::rows::{Read, id_of};
use crate::toon::{FileError, FileFault};
use crate::uid;

/// How a file that is of another issue than the board's is named in the column `field` of `problem`.
pub(crate) const UID_FIELD: &str = "uid";

/// The issue that has a uid, of any project.
pub(crate) fn holder(connection: &Connection, uid: Uid) -> Read<Option<IssueId>> {
    let mut statement =
        connection.prepare_cached("SELECT prefix, number FROM issue WHERE uid = ?1")?;
    let found: Option<(String, u64)> = statement
        .query_row([uid.to_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        Some((prefix, number)) => id_of(Some(&prefix), Some(number)),
        None => Ok(None),
    }
}

/// Time at which the issue with a uid was deleted, if it was on this board. A tombstone of a file proves nothing about an
/// issue that the board never had.
pub(crate) fn deleted_at(
    connection: &Connection,
    project: &Slug,
    uid: Uid,
) -> Read<Option<Timestamp>> {
    let project = Reader::new(connection).project_id(project)?;
    let mut statement = connection.prepare_cached(
        "SELECT t.at FROM tombstone t JOIN gone g ON g.project = t.project AND g.uid = t.uid \
         WHERE t.project = ?1 AND t.uid = ?2",
    )?;
    let found = statement.query_row(params![project, uid.to_bytes()], |row| row.get(0));
    Ok(found.optional()?.map(Timestamp::from_unix_seconds))
}

/// What the uid of an issue that only files have came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It is this issue's alone.
    Own,
    /// Another issue has it, from which the files were copied: this one has got its own.
    Copy,
    /// It is that of an issue that was deleted then.
    Deleted(Timestamp),
}

/// Gives an issue that only files have its uid: the one that they say, or that follows from what
/// they say, as long as no other issue has it.
pub(crate) fn settle(
    connection: &Connection,
    issue: &mut Issue,
    events: &mut [Event],
) -> Result<Settled, ActionError> {
    let uid = match issue.uid {
        Some(uid) => uid,
        None => uid::of_issue_with(issue, events),
    };
    issue.uid = Some(uid);
    if let Some(at) = deleted_at(connection, &issue.project, uid)? {
        return Ok(Settled::Deleted(at));
    }
    if holder(connection, uid)?.is_none() {
        return Ok(Settled::Own);
    }
    make_own(connection, issue, events)?;
    Ok(Settled::Copy)
}

/// Gives an issue that only files have, and its history, uids that nothing has had before.
pub(crate) fn make_own(
    connection: &Connection,
    issue: &mut Issue,
    events: &mut [Event],
) -> Result<(), ActionError> {
    // Every clone that sees these files comes to the same.
    let derived = uid::of_issue_with(issue, events);
    let is_taken = holder(connection, derived)?.is_some()
        || deleted_at(connection, &issue.project, derived)?.is_some();
    issue.uid = Some(if is_taken { uid::random()? } else { derived });
    for event in events {
        event.uid = None;
    }
    Ok(())
}

/// Error of the file of an issue that was deleted.
pub(super) fn deleted(path: &str, at: Timestamp) -> FileError {
    let what = format!(
        "is of an issue that was deleted at {at}; remove this file, or `orchestra doctor --fix` takes it \
         as a new issue with another id"
    );
    FileError {
        field: UID_FIELD.to_owned(),
        ..FileError::whole(path, FileFault::Field(what))
    }
}
