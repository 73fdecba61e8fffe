//! The tables that only the files use: what was last seen in each file, which owners are due, and
//! what is wrong with which file.
//!
//! `file.hash`, `size`, `modified` and `fields` tell of a file as it was when both sides last
//! agreed on it. `next_hash` and `next_fields` tell of what is about to be written, an empty hash
//! of a file about to be removed: after a crash, a file that is neither the one nor the other was
//! changed by somebody else.
//!
//! `earlier` has the contents of texts without a history that this program replaced. In mode `repository` a file with one
//! of them was put there by git or from an archive, and is no edit. A content that an edit replaced is not there: a person
//! can undo an edit. Issues have their history for that.
//!
//! `problem.shown` and `shown_fields` tell of the file that shows our side of a conflict: the hash
//! of its content, and the fields of the board at that moment.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Owner;
use super::fields::{Base, ContentHash, Fields};
use crate::io::Stat;
use crate::rows::Read;
use crate::toon::FileError;

/// What the database knows of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) owner: String,
    /// What was seen, when it was seen at all.
    pub(crate) seen: Option<Seen>,
    /// What is about to be there.
    pub(crate) next: Option<Next>,
    /// The fields of that.
    pub(crate) next_fields: Option<Fields>,
}

/// What was last seen in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) hash: ContentHash,
    pub(crate) size: u64,
    pub(crate) modified: i64,
    pub(crate) fields: Fields,
}

/// What is about to be in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// This content.
    Content(ContentHash),
    /// Nothing: it is about to be removed.
    Removed,
}

impl Entry {
    /// What both sides last agreed on, for bringing them together.
    pub(crate) fn base(self) -> Base {
        Base {
            seen: self.seen.map(|seen| seen.fields),
            announced: match self.next {
                Some(Next::Content(_)) => self.next_fields,
                Some(Next::Removed) | None => None,
            },
        }
    }

    /// Whether this is what was seen last, or what was announced.
    pub(crate) fn is(&self, hash: &ContentHash) -> bool {
        let seen = self.seen.as_ref().map(|seen| &seen.hash);
        seen == Some(hash) || self.next == Some(Next::Content(*hash))
    }
}

impl Seen {
    /// Whether the file still looks as it did.
    pub(crate) fn fits(&self, stat: &Stat) -> bool {
        self.size == stat.size && self.modified == stat.modified
    }
}

/// Maximum number of earlier contents that are stored of a file. An older one that comes back counts as an edit.
const MAX_EARLIER: u32 = 200;

/// How a conflict is named in the column `field` of `problem`.
pub(crate) const CONFLICT_FIELD: &str = "conflict";
/// A conflict whose `.conflict` file is not there yet.
pub(crate) const NEW_CONFLICT_FIELD: &str = "new conflict";

const ENTRY: &str =
    "SELECT path, owner, hash, size, modified, fields, next_hash, next_fields FROM file ";

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let hash: Option<Vec<u8>> = row.get(2)?;
    let next: Option<Vec<u8>> = row.get(6)?;
    let fields: Option<String> = row.get(5)?;
    let next_fields: Option<String> = row.get(7)?;
    // A hash of another length is of no use, and so as good as none.
    let seen = match hash.and_then(|hash| hash.try_into().ok()) {
        None => None,
        Some(hash) => Some(Seen {
            hash,
            size: row.get::<_, Option<u64>>(3)?.unwrap_or_default(),
            modified: row.get::<_, Option<i64>>(4)?.unwrap_or_default(),
            fields: Fields::parse(&fields.unwrap_or_default()),
        }),
    };
    let next = next.map(|hash| hash.try_into().map_or(Next::Removed, Next::Content));
    Ok(Entry {
        path: row.get(0)?,
        owner: row.get(1)?,
        seen,
        next,
        next_fields: next_fields.map(|fields| Fields::parse(&fields)),
    })
}

/// What is known of one file.
pub(crate) fn at(connection: &Connection, path: &str) -> Read<Option<Entry>> {
    let mut statement = connection.prepare_cached(&format!("{ENTRY} WHERE path = ?1"))?;
    Ok(statement.query_row([path], entry).optional()?)
}

/// What is known of the files of an owner.
pub(crate) fn of_owner(connection: &Connection, owner: &Owner) -> Read<Vec<Entry>> {
    let mut statement = connection.prepare_cached(&format!("{ENTRY} WHERE owner = ?1"))?;
    Ok(statement
        .query_map([owner.key()], entry)?
        .collect::<Result<_, _>>()?)
}

/// What is known of the files below a directory.
pub(crate) fn below(connection: &Connection, directory: &str) -> Read<Vec<Entry>> {
    let mut statement =
        connection.prepare_cached(&format!("{ENTRY} WHERE path > ?1 AND path < ?2"))?;
    // `0` is the character after `/`.
    let (first, last) = (format!("{directory}/"), format!("{directory}0"));
    Ok(statement
        .query_map([first, last], entry)?
        .collect::<Result<_, _>>()?)
}

/// The next files after a path, in the order of paths.
pub(crate) fn after(connection: &Connection, path: &str, limit: u32) -> Read<Vec<Entry>> {
    let mut statement =
        connection.prepare_cached(&format!("{ENTRY} WHERE path > ?1 ORDER BY path LIMIT ?2"))?;
    Ok(statement
        .query_map(params![path, limit], entry)?
        .collect::<Result<_, _>>()?)
}

/// Time of the last change of the file that was written last; `None` where no file was seen.
pub(crate) fn newest(connection: &Connection) -> Read<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT max(modified) FROM file")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// The owners that are due, those that have waited longest first, each with the change up to which
/// it is.
pub(crate) fn due(connection: &Connection, limit: u32) -> Read<Vec<(String, i64)>> {
    let mut statement =
        connection.prepare_cached("SELECT owner, seq FROM dirty ORDER BY seq LIMIT ?1")?;
    Ok(statement
        .query_map([limit], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?)
}

/// Whether any owner is due.
pub(crate) fn any_due(connection: &Connection) -> Read<bool> {
    let mut statement = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM dirty)")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// The number of the latest change.
pub(crate) fn last_change(connection: &Connection) -> Read<i64> {
    let mut statement =
        connection.prepare_cached("SELECT value FROM counter WHERE name = 'change'")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// Whether the files of any owner lack a change up to this one.
pub(crate) fn due_since(connection: &Connection, change: i64) -> Read<bool> {
    let mut statement =
        connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM dirty WHERE since <= ?1)")?;
    Ok(statement.query_row([change], |row| row.get(0))?)
}

/// An owner is up to date as of a change.
pub(crate) fn settled(connection: &Connection, owner: &str, change: i64) -> Read<()> {
    let mut statement =
        connection.prepare_cached("DELETE FROM dirty WHERE owner = ?1 AND seq <= ?2")?;
    if statement.execute(params![owner, change])? == 0 {
        // It has changed again, but nothing older is missing.
        connection
            .prepare_cached("UPDATE dirty SET since = max(since, ?2 + 1) WHERE owner = ?1")?
            .execute(params![owner, change])?;
    }
    Ok(())
}

/// An owner's files are to be looked at again.
pub(crate) fn make_due(connection: &Connection, owner: &Owner) -> Read<()> {
    connection
        .prepare_cached("UPDATE counter SET value = value + 1 WHERE name = 'change'")?
        .execute([])?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO dirty (owner, seq, since) SELECT ?1, value, value FROM counter WHERE name = 'change' \
         ON CONFLICT (owner) DO UPDATE SET seq = excluded.seq",
    )?;
    statement.execute([owner.key()])?;
    Ok(())
}

/// A file is about to be written, or removed when there is no hash.
pub(crate) fn announce(
    connection: &Connection,
    path: &str,
    owner: &Owner,
    next: Option<(&ContentHash, &Fields)>,
) -> Read<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO file (path, owner, next_hash, next_fields) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (path) DO UPDATE SET \
         owner = excluded.owner, next_hash = excluded.next_hash, next_fields = excluded.next_fields",
    )?;
    let (hash, fields) = next.map_or((&[][..], String::new()), |(hash, fields)| {
        (&hash[..], fields.to_text())
    });
    statement.execute(params![path, owner.key(), hash, fields])?;
    Ok(())
}

/// A file is found to be what an earlier run had announced, or what was seen before says more than
/// was known: both sides agree on that before something else is announced.
pub(crate) fn learn(connection: &Connection, path: &str, seen: &Seen) -> Read<()> {
    let mut statement = connection.prepare_cached(
        "UPDATE file SET hash = ?2, size = ?3, modified = ?4, fields = ?5 WHERE path = ?1",
    )?;
    let size = i64::try_from(seen.size).unwrap_or(i64::MAX);
    let fields = seen.fields.to_text();
    statement.execute(params![path, &seen.hash[..], size, seen.modified, fields])?;
    Ok(())
}

/// A file was damaged: it has a content that nobody wrote, and lacks the time of a write. Both sides still agree on what
/// it was.
pub(crate) fn give_up(connection: &Connection, path: &str, seen: &Seen) -> Read<()> {
    let mut statement = connection
        .prepare_cached("UPDATE file SET hash = ?2, size = ?3, modified = NULL WHERE path = ?1")?;
    let size = i64::try_from(seen.size).unwrap_or(i64::MAX);
    statement.execute(params![path, &seen.hash[..], size])?;
    Ok(())
}

/// Records a file that this program has written, and the content that it replaced.
pub(crate) fn replace(connection: &Connection, path: &str, owner: &Owner, seen: &Seen) -> Read<()> {
    if owner.lacks_history() {
        remember(connection, path, &seen.hash)?;
    }
    record(connection, path, owner, seen)
}

/// A file is what both sides agree on.
pub(crate) fn record(connection: &Connection, path: &str, owner: &Owner, seen: &Seen) -> Read<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO file (path, owner, hash, size, modified, fields) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
         ON CONFLICT (path) DO UPDATE SET owner = excluded.owner, hash = excluded.hash, size = excluded.size, \
         modified = excluded.modified, fields = excluded.fields, next_hash = NULL, next_fields = NULL",
    )?;
    let (size, fields) = (
        i64::try_from(seen.size).unwrap_or(i64::MAX),
        seen.fields.to_text(),
    );
    statement.execute(params![
        path,
        owner.key(),
        &seen.hash[..],
        size,
        seen.modified,
        fields
    ])?;
    Ok(())
}

/// Stores the content that a file had before another one takes its place, unless a power cut left it.
fn remember(connection: &Connection, path: &str, next: &ContentHash) -> Read<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO earlier (path, hash, seq) \
         SELECT path, hash, (SELECT value FROM counter WHERE name = 'change') FROM file \
         WHERE path = ?1 AND length(hash) > 0 AND hash <> ?2 AND modified IS NOT NULL \
         ON CONFLICT (path, hash) DO UPDATE SET seq = excluded.seq",
    )?;
    if statement.execute(params![path, &next[..]])? > 0 {
        connection
            .prepare_cached(
                "DELETE FROM earlier WHERE path = ?1 AND seq <= \
                 (SELECT seq FROM earlier WHERE path = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
            )?
            .execute(params![path, MAX_EARLIER])?;
    }
    Ok(())
}

/// Returns whether a file had this content before the one that both sides agreed on last.
pub(crate) fn is_earlier(connection: &Connection, path: &str, hash: &ContentHash) -> Read<bool> {
    let mut statement = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM earlier WHERE path = ?1 AND hash = ?2)")?;
    Ok(statement.query_row(params![path, &hash[..]], |row| row.get(0))?)
}

/// Forgets the earlier contents of a file whose text the board does not have any more.
pub(crate) fn forget_earlier(connection: &Connection, path: &str) -> Read<()> {
    connection
        .prepare_cached("DELETE FROM earlier WHERE path = ?1")?
        .execute([path])?;
    Ok(())
}

/// A file is gone, and is to be.
pub(crate) fn forget(connection: &Connection, path: &str) -> Read<()> {
    connection
        .prepare_cached("DELETE FROM file WHERE path = ?1")?
        .execute([path])?;
    Ok(())
}

/// What is wrong with a file, if anything: the line, the field and what.
pub(crate) fn problem(connection: &Connection, path: &str) -> Read<Option<(String, String)>> {
    let mut statement =
        connection.prepare_cached("SELECT field, message FROM problem WHERE path = ?1")?;
    Ok(statement
        .query_row([path], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// Everything that is wrong with files: path, field, message.
pub(crate) fn problems(connection: &Connection) -> Read<Vec<(String, String, String)>> {
    let mut statement =
        connection.prepare_cached("SELECT path, field, message FROM problem ORDER BY path")?;
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    Ok(statement.query_map([], row)?.collect::<Result<_, _>>()?)
}

/// A file cannot be taken as it is.
pub(crate) fn complain(
    connection: &Connection,
    path: &str,
    error: &FileError,
    now: i64,
) -> Read<()> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO problem (path, line, field, message, at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let line = i64::try_from(error.line).unwrap_or(i64::MAX);
    statement.execute(params![path, line, error.field, error.to_string(), now])?;
    Ok(())
}

/// Our side of a conflict, as it is shown to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The content of the file that shows it.
    pub(crate) hash: ContentHash,
    /// The fields of the board.
    pub(crate) fields: Fields,
}

/// Both sides changed the same thing; our side is about to be shown beside the file.
pub(crate) fn conflict(
    connection: &Connection,
    path: &str,
    message: &str,
    shown: &Shown,
    now: i64,
) -> Read<()> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO problem (path, line, field, message, at, shown, shown_fields) \
         VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6)",
    )?;
    statement.execute(params![
        path,
        NEW_CONFLICT_FIELD,
        message,
        now,
        &shown.hash[..],
        shown.fields.to_text()
    ])?;
    Ok(())
}

/// Something else is about to be shown as our side of a conflict that stands.
pub(crate) fn show_anew(connection: &Connection, path: &str, shown: &Shown) -> Read<()> {
    let mut statement = connection.prepare_cached(
        "UPDATE problem SET field = ?2, shown = ?3, shown_fields = ?4 WHERE path = ?1 AND field = ?5",
    )?;
    statement.execute(params![
        path,
        NEW_CONFLICT_FIELD,
        &shown.hash[..],
        shown.fields.to_text(),
        CONFLICT_FIELD
    ])?;
    Ok(())
}

/// What is shown of our side of a conflict, when there is one.
pub(crate) fn shown(connection: &Connection, path: &str) -> Read<Option<Shown>> {
    let mut statement =
        connection.prepare_cached("SELECT shown, shown_fields FROM problem WHERE path = ?1")?;
    let row = |row: &Row<'_>| {
        let (hash, fields): (Option<Vec<u8>>, Option<String>) = (row.get(0)?, row.get(1)?);
        Ok(hash.zip(fields))
    };
    let found = statement.query_row([path], row).optional()?.flatten();
    Ok(found.and_then(|(hash, fields)| {
        Some(Shown {
            hash: hash.try_into().ok()?,
            fields: Fields::parse(&fields),
        })
    }))
}

/// A file is all right.
pub(crate) fn approve(connection: &Connection, path: &str) -> Read<()> {
    connection
        .prepare_cached("DELETE FROM problem WHERE path = ?1")?
        .execute([path])?;
    Ok(())
}

/// Our side of a conflict stands beside the file now.
pub(crate) fn confirm_conflict(connection: &Connection, path: &str) -> Read<()> {
    let mut statement = connection
        .prepare_cached("UPDATE problem SET field = ?2 WHERE path = ?1 AND field = ?3")?;
    statement.execute([path, CONFLICT_FIELD, NEW_CONFLICT_FIELD])?;
    Ok(())
}
