//! Documents of plugins.

use orchestra_board::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

use super::Reader;
use crate::document::DocumentBody;
use crate::rows::{Read, unknown};
use crate::{
    Detail, Document, DocumentDirectory, DocumentEntry, DocumentPath, DocumentPathError, Glob,
    Metadata,
};

/// The most bytes of metadata on one page of a list.
const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;
const PLAIN: &str = "SELECT place, size, version, modified_at, NULL FROM plugin_document ";
const WITH_METADATA: &str = "SELECT place, size, version, modified_at, metadata FROM plugin_document \
     LEFT JOIN plugin_document_body ON document = id ";

/// Some documents of a list, and where to go on.
pub(crate) struct Documents {
    pub(crate) entries: Vec<DocumentEntry>,
    /// The key of the last one looked at, if there may be more.
    pub(crate) last: Option<String>,
}

impl Reader<'_> {
    /// A document; `None` when there is none.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn document(&self, path: &DocumentPath) -> Read<Option<Document>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT version, modified_at, metadata, content FROM plugin_document \
             JOIN plugin_document_body ON document = id WHERE place = ?1 AND size IS NOT NULL",
        )?;
        let document = |row: &Row<'_>| {
            let metadata: Option<String> = row.get(2)?;
            Ok(Document {
                version: row.get(0)?,
                modified: Timestamp::from_unix_seconds(row.get(1)?),
                metadata: metadata.map(Metadata::kept),
                content: row.get(3)?,
            })
        };
        Ok(statement.query_row([path.key()], document).optional()?)
    }

    /// What a document says.
    pub(crate) fn document_body(&self, path: &DocumentPath) -> Read<Option<DocumentBody>> {
        let found = self.document(path)?;
        Ok(found.map(|found| DocumentBody {
            content: found.content,
            metadata: found.metadata,
        }))
    }

    /// Documents below a directory whose last names fit, after a key, about as many as wanted.
    pub(crate) fn documents(
        &self,
        directory: &DocumentDirectory,
        pattern: &Glob,
        detail: Detail,
        after: Option<&str>,
        wanted: usize,
    ) -> Read<Documents> {
        let (first, end) = match directory.keys() {
            Some((first, end)) => (first, Some(end)),
            None => (String::new(), None),
        };
        let columns = match detail {
            Detail::Plain => PLAIN,
            Detail::Metadata => WITH_METADATA,
        };
        // Two statements, for a bound that may be absent keeps the index from being used.
        let bound = if end.is_some() {
            "AND place < ?2"
        } else {
            "AND ?2 IS NULL"
        };
        let sql = format!("{columns} WHERE place > ?1 {bound} AND size IS NOT NULL ORDER BY place");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![after.unwrap_or(&first), end])?;
        let (mut entries, mut looked, mut bytes) = (Vec::new(), 0, 0);
        while let Some(row) = rows.next()? {
            let key: String = row.get(0)?;
            let Some(path) = path_of(&key)? else {
                continue;
            };
            if pattern.fits(path.name()) {
                let metadata: Option<String> = row.get(4)?;
                bytes += metadata.as_ref().map_or(0, String::len);
                entries.push(DocumentEntry {
                    path,
                    size: row.get(1)?,
                    version: row.get(2)?,
                    modified: Timestamp::from_unix_seconds(row.get(3)?),
                    metadata: metadata.map(Metadata::kept),
                });
            }
            looked += 1;
            if looked >= wanted || bytes > MAX_PAGE_BYTES {
                return Ok(Documents {
                    entries,
                    last: Some(key),
                });
            }
        }
        Ok(Documents {
            entries,
            last: None,
        })
    }

    /// The paths of all documents that have files.
    pub(crate) fn document_paths(&self) -> Read<Vec<DocumentPath>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT place FROM plugin_document WHERE size IS NOT NULL ORDER BY place",
        )?;
        let mut rows = statement.query([])?;
        let mut paths = Vec::new();
        while let Some(row) = rows.next()? {
            let key: String = row.get(0)?;
            paths.extend(path_of(&key)?.filter(DocumentPath::may_be_created));
        }
        Ok(paths)
    }
}

/// Returns the path of a document; `None` for one that the database has, which can come from an archive, and that is no
/// document's.
fn path_of(key: &str) -> Read<Option<DocumentPath>> {
    match DocumentPath::of_key(key) {
        Ok(path) => Ok(Some(path)),
        Err(DocumentPathError::Reserved { .. }) => Ok(None),
        Err(_) => Err(unknown("path of a document")),
    }
}
