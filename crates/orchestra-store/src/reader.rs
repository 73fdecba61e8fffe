//! Reading: one snapshot of the database, and everything that can be asked of it.

mod contents;
mod documents;
mod filter;
mod held;
mod issues;
mod memory;
mod recall;
mod remembered;
mod rest;
mod search;
mod view;
mod workspace;

use std::fmt;

use orchestra_board::{Project, Refusal, Slug, Timestamp};
use rusqlite::{Connection, OptionalExtension};

use crate::rows::{PROJECT, Read, project_row};

pub(crate) use memory::{events_said, events_text};
pub use recall::{MemoryFilter, Recall, Recalled, WantedWord, forms_of, rarity};
pub use remembered::{MemoryChanges, MemoryPlace, Remembered};
pub(crate) use rest::{PRD, README};

/// What is stored, as it was when the reading began. It is also what the board decides on.
///
/// A list that names a project which is not there is refused by [`Refusal::NoProject`]; a single
/// thing that is not there is `None`.
#[derive(Clone)]
pub struct Reader<'a> {
    connection: &'a Connection,
    /// The time at which what is remembered is judged, in seconds since the Unix epoch.
    now: i64,
    /// Whether searches find remembered texts that others supersede.
    superseded: bool,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(connection: &'a Connection) -> Self {
        Self {
            connection,
            // Nothing has expired yet.
            now: i64::MIN,
            superseded: false,
        }
    }

    /// Reads as of this time: what has expired by then is not found any more.
    pub(crate) const fn at(mut self, now: Timestamp) -> Self {
        self.now = now.unix_seconds();
        self
    }

    /// The same snapshot, where searches also find remembered texts that others supersede.
    #[must_use]
    pub const fn with_superseded(&self) -> Self {
        Self {
            superseded: true,
            ..*self
        }
    }

    /// The connection, for the readable files.
    pub(crate) const fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// A project and its rowid.
    pub(crate) fn find_project(&self, slug: &Slug) -> Read<Option<(i64, Project)>> {
        let mut statement = self
            .connection
            .prepare_cached(&format!("{PROJECT} WHERE slug = ?1"))?;
        let mut rows = statement.query([slug.as_str()])?;
        rows.next()?.map(project_row).transpose()
    }

    /// The rowid of a project, or the refusal that there is none.
    pub(crate) fn project_id(&self, slug: &Slug) -> Read<i64> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT id FROM project WHERE slug = ?1")?;
        let found = statement
            .query_row([slug.as_str()], |row| row.get(0))
            .optional()?;
        found.ok_or_else(|| {
            Refusal::NoProject {
                project: slug.clone(),
            }
            .into()
        })
    }
}

/// The first rowid of what belongs to a project.
pub(crate) const fn first_row(project: i64) -> i64 {
    project << 32
}

/// The last rowid of what belongs to a project.
pub(crate) const fn last_row(project: i64) -> i64 {
    (project << 32) | 0xffff_ffff
}
