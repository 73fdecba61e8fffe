//! What is remembered, texts and sessions alike, for those who keep an index of it beside the store:
//! by row, and which rows were changed.

use std::ops::RangeInclusive;

use orchestra_board::{SessionId, Slug};
use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, params};
use serde_json::Value;

use super::memory::parse_events;
use super::{Reader, first_row, last_row};
use crate::ChunkId;
use crate::rows::Read;

/// So much of a text is given: what any model reads at once.
const MAX_TEXT: usize = 8 * 1024;
/// More changes at once are told as [`MemoryChanges::look_through`].
const MAX_CHANGES: i64 = 1_000;
/// So much text is given at a time at most, but for the last one.
const MAX_PAGE: usize = 1 << 20;

/// Something that is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Its row: `project << 32 | n`. A row is never used again by the same database; one that was built
    /// anew gives others, and [`Reader::memory_changes`] says so.
    pub row: i64,
    /// What it says: its summary and its text, or the summaries of a session's events; the beginning,
    /// where it is longer than a model reads.
    pub text: String,
}

/// A place in the log of changes of one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlace {
    /// Which database: its own number, which one that is built anew does not share.
    database: i64,
    seq: i64,
}

/// What was changed after a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryChanges {
    /// The place after them.
    pub place: MemoryPlace,
    /// The rows that were made or changed.
    pub rows: Vec<i64>,
    /// Whether some were removed.
    pub removed: bool,
    /// Whether anything may have been changed, so that all has to be looked through.
    pub look_through: bool,
}

impl Reader<'_> {
    /// Where the log of changes ends.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn memory_place(&self) -> Read<MemoryPlace> {
        // Those that older versions made have no number, and are of one kind until they are rebuilt.
        let mut statement = self.connection.prepare_cached(
            "SELECT coalesce((SELECT value FROM counter WHERE name = 'database'), 0), \
             coalesce((SELECT max(seq) FROM event), 0)",
        )?;
        let place = statement.query_row([], |row| {
            Ok(MemoryPlace {
                database: row.get(0)?,
                seq: row.get(1)?,
            })
        })?;
        Ok(place)
    }

    /// What was changed after a place. A place of another database, as after the board was rebuilt,
    /// means that anything may have been: rows are numbered anew there.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn memory_changes(&self, since: MemoryPlace) -> Read<MemoryChanges> {
        let mut changes = MemoryChanges {
            place: self.memory_place()?,
            rows: Vec::new(),
            removed: false,
            look_through: false,
        };
        let behind = changes.place.seq - since.seq;
        if changes.place.database != since.database || !(0..=MAX_CHANGES).contains(&behind) {
            changes.look_through = true;
            return Ok(changes);
        }
        let mut statement = self.connection.prepare_cached(
            "SELECT kind, slug, body FROM event WHERE seq > ?1 AND seq <= ?2 ORDER BY seq",
        )?;
        let mut rows = statement.query([since.seq, changes.place.seq])?;
        while let Some(row) = rows.next()? {
            let kind: String = row.get(0)?;
            if kind == "project-deleted" {
                changes.removed = true;
            } else if kind.starts_with("memory") || kind.starts_with("session") {
                let slug: Option<String> = row.get(1)?;
                let body: String = row.get(2)?;
                let what = serde_json::from_str::<Value>(&body).ok();
                let what = what.as_ref().and_then(|body| body.get("what")?.as_str());
                match self.row_that_is(
                    slug.as_deref().unwrap_or_default(),
                    what.unwrap_or_default(),
                )? {
                    Known::At(row) => changes.rows.push(row),
                    Known::Gone => changes.removed = true,
                    Known::Not => changes.look_through = true,
                }
            }
        }
        changes.rows.sort_unstable();
        changes.rows.dedup();
        Ok(changes)
    }

    /// The row of what the log names.
    fn row_that_is(&self, slug: &str, what: &str) -> Read<Known> {
        let project: Option<i64> = self
            .connection
            .prepare_cached("SELECT id FROM project WHERE slug = ?1")?
            .query_row([slug], |row| row.get(0))
            .optional()?;
        let Some(project) = project else {
            return Ok(Known::Gone);
        };
        // A session may have a name that looks like the id of a text.
        let mut found = None;
        if let Ok(id) = ChunkId::parse(what) {
            found = self
                .connection
                .prepare_cached("SELECT id FROM chunk WHERE project = ?1 AND number = ?2")?
                .query_row(params![project, id.number()], |row| row.get(0))
                .optional()?;
        } else if SessionId::parse(what).is_err() {
            return Ok(Known::Not);
        }
        if found.is_none() {
            found = self
                .connection
                .prepare_cached("SELECT id FROM session WHERE project = ?1 AND name = ?2")?
                .query_row(params![project, what], |row| row.get(0))
                .optional()?;
        }
        Ok(found.map_or(Known::Gone, Known::At))
    }

    /// The rows that what is remembered in a project has, whatever there is of it.
    ///
    /// # Errors
    /// When there is no such project, or the database cannot be read.
    pub fn remembered_range(&self, project: &Slug) -> Read<RangeInclusive<i64>> {
        let project = self.project_id(project)?;
        Ok(first_row(project)..=last_row(project))
    }

    /// How much is remembered.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn remembered_count(&self) -> Read<u64> {
        self.count(
            "SELECT (SELECT count(*) FROM chunk) + (SELECT count(*) FROM session)",
            [],
        )
    }

    /// The rows of all that is remembered, in their order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn remembered_rows(&self) -> Read<Vec<i64>> {
        // Read from the small indexes and not from among the texts. Views, which hide the tables of an older schema,
        // have no indexes.
        let mut statement = self.connection.prepare_cached(
            "SELECT id FROM main.chunk INDEXED BY chunk_by_number \
             UNION ALL SELECT id FROM main.session INDEXED BY session_by_end",
        )?;
        let rows = statement.query_map([], |row| row.get(0))?;
        let mut rows: Vec<i64> = rows.collect::<Result<_, _>>()?;
        rows.sort_unstable();
        Ok(rows)
    }

    /// What is remembered after a row, in the order of rows: at most `limit`, and fewer where they
    /// are long.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn remembered_after(&self, after: i64, limit: usize) -> Read<Vec<Remembered>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.connection.prepare_cached(
            "SELECT * FROM (SELECT id, summary, content, 0 FROM chunk WHERE id > ?1 ORDER BY id LIMIT ?2) \
             UNION ALL \
             SELECT * FROM (SELECT id, summary, events, 1 FROM session WHERE id > ?1 ORDER BY id LIMIT ?2) \
             ORDER BY 1 LIMIT ?2",
        )?;
        let mut rows = statement.query([after, limit])?;
        let mut found = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let item = remembered(row)?;
            bytes += item.text.len();
            found.push(item);
            if bytes > MAX_PAGE {
                break;
            }
        }
        Ok(found)
    }

    /// What is remembered in a row.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn remembered_text(&self, row: i64) -> Read<Option<Remembered>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, summary, content, 0 FROM chunk WHERE id = ?1 \
             UNION ALL SELECT id, summary, events, 1 FROM session WHERE id = ?1",
        )?;
        let mut rows = statement.query([row])?;
        rows.next()?.map(remembered).transpose()
    }
}

/// What became of what the log names.
enum Known {
    At(i64),
    Gone,
    /// It names nothing.
    Not,
}

fn remembered(row: &rusqlite::Row<'_>) -> Read<Remembered> {
    let mut text = String::new();
    push(&mut text, row.get_ref(1)?);
    if row.get(3)? {
        let events: String = row.get(2)?;
        for event in parse_events(&events).unwrap_or_default() {
            push(&mut text, ValueRef::Text(event.summary.as_str().as_bytes()));
        }
    } else {
        push(&mut text, row.get_ref(2)?);
    }
    Ok(Remembered {
        row: row.get(0)?,
        text,
    })
}

/// Adds a line as far as there is room; one that only repeats what is there adds nothing.
fn push(text: &mut String, more: ValueRef<'_>) {
    let ValueRef::Text(bytes) = more else { return };
    let room = MAX_TEXT.saturating_sub(text.len() + 1);
    let bytes = bytes.get(..room.min(bytes.len())).unwrap_or_default();
    let more = String::from_utf8_lossy(bytes);
    let more = more.trim_end_matches('\u{fffd}').trim();
    if more.is_empty() || (!text.is_empty() && more == text) {
        return;
    }
    if !text.is_empty() && more.starts_with(text.as_str()) {
        text.clear();
    } else if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}
