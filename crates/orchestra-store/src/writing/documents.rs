//! Documents of plugins: compare, then set, in one transaction.

use rusqlite::{OptionalExtension, params};

use super::{Write, Writing};
use crate::document::{DocumentBody, GIVEN_UP, front};
use crate::files::ledger;
use crate::files::owner::Owner;
use crate::files::place::under;
use crate::io::EntryKind;
use crate::{DocumentPath, DocumentRefusal, Expected, Fault, Made, NewDocument, Receipt};

/// How many versions a second a path could have had and still none is used again after the database
/// was lost.
const VERSIONS_A_SECOND: i64 = 1_000;

/// A row of a document, which may have been deleted.
struct Held {
    version: i64,
    is_there: bool,
}

impl Writing<'_> {
    pub(super) fn write_document(&mut self, new: &NewDocument) -> Write<Receipt> {
        let NewDocument {
            path,
            body,
            expected,
        } = new;
        let held = self.held(path)?;
        let current = held.as_ref().filter(|held| held.is_there);
        match (*expected, current) {
            (Expected::Create, Some(_)) => return Err(DocumentRefusal::Exists.into()),
            (Expected::Version(expected), current) => {
                let current = current.map_or(0, |held| held.version);
                if current != expected {
                    return Err(DocumentRefusal::Conflict { expected, current }.into());
                }
            }
            (Expected::Create, None) | (Expected::Any, _) => {}
        }
        if current.is_none() {
            self.check_way(path)?;
            self.check_document_ground(path, *expected)?;
        }
        let version = self.next_version(held.as_ref(), None)?;
        self.put_document_row(path, body, version)?;
        Ok(Receipt {
            made: Made::Document { version },
            ..Receipt::default()
        })
    }

    pub(super) fn delete_document(&mut self, path: &DocumentPath) -> Write<Receipt> {
        let was_there = self.remove_document_row(path)?;
        Ok(Receipt {
            made: Made::DocumentDeleted { was_there },
            ..Receipt::default()
        })
    }

    /// Puts there what a file says. `start` is the version that an earlier program kept beside it.
    pub(super) fn take_document(
        &mut self,
        path: &DocumentPath,
        body: &DocumentBody,
        start: Option<i64>,
    ) -> Write<()> {
        if self.loading {
            // What versions there were is not known any more, unless it stands beside the file.
            let lost = self.now.unix_seconds().saturating_mul(VERSIONS_A_SECOND);
            if start.is_none() {
                self.execute(
                    "UPDATE counter SET value = ?1 WHERE name = 'document'",
                    [lost],
                )?;
            }
            return self.put_document_row(path, body, start.unwrap_or(lost));
        }
        let held = self.held(path)?;
        if held.as_ref().is_none_or(|held| !held.is_there) {
            self.check_way(path)?;
        }
        let version = self.next_version(held.as_ref(), start)?;
        self.put_document_row(path, body, version)
    }

    fn held(&self, path: &DocumentPath) -> Write<Option<Held>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT version, size IS NOT NULL FROM plugin_document WHERE place = ?1",
        )?;
        let row = |row: &rusqlite::Row<'_>| {
            Ok(Held {
                version: row.get(0)?,
                is_there: row.get(1)?,
            })
        };
        Ok(statement.query_row([path.key()], row).optional()?)
    }

    /// A version that the path never had.
    fn next_version(&self, held: Option<&Held>, start: Option<i64>) -> Write<i64> {
        let last = match (held, start) {
            (None, Some(start)) => return Ok(start),
            (Some(held), start) => held.version.max(start.unwrap_or_default()),
            (None, None) => self
                .find_number("SELECT value FROM counter WHERE name = 'document'", [])?
                .unwrap_or_default(),
        };
        Ok(last + 1)
    }

    /// Refuses a document where a directory of others must be, and one in another.
    fn check_way(&self, path: &DocumentPath) -> Write<()> {
        for directory in path.directories() {
            let key = crate::document::key(directory);
            let found = self.find_number(
                "SELECT 1 FROM plugin_document WHERE place = ?1 AND size IS NOT NULL",
                [key],
            )?;
            if found.is_some() {
                return in_the_way(
                    directory,
                    "it is a document, and would have to be a directory",
                );
            }
        }
        let first = format!("{}{GIVEN_UP}", path.key());
        let last = format!("{}\u{2}", path.key());
        let below = self.find_number(
            "SELECT 1 FROM plugin_document WHERE place > ?1 AND place < ?2 AND size IS NOT NULL LIMIT 1",
            [first, last],
        )?;
        match below {
            Some(_) => in_the_way(path.as_str(), "it is a directory of documents"),
            None => Ok(()),
        }
    }

    /// Looks where the file of a new document will be, which somebody may have made by hand.
    fn check_document_ground(&self, path: &DocumentPath, expected: Expected) -> Write<()> {
        let Some((files, projects)) = self.ground else {
            return Ok(());
        };
        let look = |path: &str| {
            let found = files.stat(&under(projects, path));
            found.map_err(|error| Fault::io("look at .projects", error))
        };
        for directory in path.directories() {
            match look(directory)?.map(|stat| stat.kind) {
                Some(EntryKind::Directory) => {}
                Some(_) => {
                    return in_the_way(directory, "it is no directory; links are not followed");
                }
                None => return Ok(()),
            }
        }
        match look(path.as_str())?.map(|stat| stat.kind) {
            Some(EntryKind::File) => {
                let known = ledger::at(self.connection, path.as_str())?;
                if expected == Expected::Create && known.is_none() {
                    return Err(DocumentRefusal::Exists.into());
                }
                Ok(())
            }
            Some(EntryKind::Directory) => in_the_way(path.as_str(), "it is a directory"),
            Some(EntryKind::Other) => in_the_way(
                path.as_str(),
                "it is no regular file; links are not followed",
            ),
            None => Ok(()),
        }
    }

    fn put_document_row(
        &mut self,
        path: &DocumentPath,
        body: &DocumentBody,
        version: i64,
    ) -> Write<()> {
        let size = i64::try_from(front::write(body).len()).unwrap_or(i64::MAX);
        let row: i64 = self
            .connection
            .prepare_cached(
                "INSERT INTO plugin_document (place, version, size, modified_at) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (place) DO UPDATE SET version = excluded.version, size = excluded.size, \
                 modified_at = excluded.modified_at RETURNING id",
            )?
            .query_row(
                params![path.key(), version, size, self.now.unix_seconds()],
                |row| row.get(0),
            )?;
        let metadata = body.metadata.as_ref().map(crate::Metadata::as_json);
        self.execute(
            "INSERT OR REPLACE INTO plugin_document_body (document, metadata, content) VALUES (?1, ?2, ?3)",
            params![row, metadata, body.content],
        )?;
        self.dirty(&Owner::Document(path.clone()))
    }

    /// Says whether it was there. Its version stays.
    pub(super) fn remove_document_row(&mut self, path: &DocumentPath) -> Write<bool> {
        let row = self.find_number(
            "UPDATE plugin_document SET size = NULL, modified_at = ?2 \
             WHERE place = ?1 AND size IS NOT NULL RETURNING id",
            params![path.key(), self.now.unix_seconds()],
        )?;
        let Some(row) = row else {
            return Ok(false);
        };
        self.execute(
            "DELETE FROM plugin_document_body WHERE document = ?1",
            [row],
        )?;
        self.dirty(&Owner::Document(path.clone()))?;
        Ok(true)
    }
}

fn in_the_way(path: &str, what: &'static str) -> Write<()> {
    let path = path.to_owned();
    Err(DocumentRefusal::InTheWay { path, what }.into())
}
