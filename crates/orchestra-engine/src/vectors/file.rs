//! The file that vectors are kept in: an SQLite database of one model's, for one process at a time.
//!
//! Every row has a sum over what stands in it, so that damage which the database does not notice is
//! noticed here. Whatever goes wrong, memory is right: the file is begun anew and all of it is written
//! again, at once or, where that fails, later.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orchestra_fs::Access;
use orchestra_memory::engine::{remove_vectors, vectors_path};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use super::TextHash;
use super::table::{Kept, Table};
use crate::model::ModelId;

/// The format; another one is not read.
const FORMAT: i64 = 1;
/// Marks the file as ours.
const APPLICATION_ID: i64 = 0x4f52_4356;
/// How long after a failure the file is tried again.
const REST: Duration = Duration::from_secs(30);
/// What is left of the log when it is begun anew.
const LOG_LIMIT_BYTES: i64 = 8 << 20;
const CREATE: &str = "
CREATE TABLE model (id TEXT NOT NULL, dimensions INTEGER NOT NULL);
-- The scale (four bytes) and two bytes for each number.
CREATE TABLE vector (
    row INTEGER PRIMARY KEY,
    hash INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    body BLOB NOT NULL
);
";

/// The file, or that there is none at the moment.
#[derive(Debug)]
pub(super) struct VectorFile {
    path: PathBuf,
    model: ModelId,
    state: State,
    /// Whether somebody was told that it cannot be written.
    told: bool,
}

#[derive(Debug)]
enum State {
    /// All that is in memory is in it.
    Whole(Connection, FileId),
    /// It cannot be written, and is tried again then.
    Broken(Option<Instant>),
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the file has another format, model or owner")]
    Foreign,
    #[error("the file was removed or replaced")]
    Gone,
}

impl Trouble {
    /// Whether another process has it, so that it must be left alone.
    fn is_taken(&self) -> bool {
        match self {
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            ),
            _ => false,
        }
    }
}

impl VectorFile {
    /// Opens the file of a model and reads it into `table`.
    pub(super) fn open(given: &Path, model: &ModelId, table: &mut Table) -> Self {
        // The database follows no link, on the way to it neither.
        let directory = given.canonicalize();
        let directory = directory.as_deref().unwrap_or(given);
        let path = vectors_path(directory, model);
        let mut file = Self {
            path,
            model: model.clone(),
            state: State::Broken(None),
            told: false,
        };
        match file.read(table) {
            Ok(state) => file.state = state,
            Err(trouble) if trouble.is_taken() => file.tell(&trouble),
            Err(trouble) => {
                if !matches!(trouble, Trouble::Gone) {
                    tracing::warn!(
                        file = %file.path.display(),
                        %trouble,
                        "cannot read the embeddings; computing them again"
                    );
                }
                *table = Table::new(table.dimensions());
                file.begin_anew(table);
            }
        }
        file
    }

    fn read(&self, table: &mut Table) -> Result<State, Trouble> {
        if !self.path.try_exists()? {
            return Err(Trouble::Gone);
        }
        let connection = connect(&self.path, false)?;
        let application: i64 = connection.pragma_query_value(None, "application_id", first)?;
        let format: i64 = connection.pragma_query_value(None, "user_version", first)?;
        if (application, format) != (APPLICATION_ID, FORMAT) {
            return Err(Trouble::Foreign);
        }
        if !has_plain_tables(&connection)? {
            return Err(Trouble::Foreign);
        }
        let (model, dimensions): (String, i64) =
            connection.query_row("SELECT id, dimensions FROM model", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let expected = i64::try_from(table.dimensions()).unwrap_or(i64::MAX);
        if model != self.model.as_str() || dimensions != expected {
            return Err(Trouble::Foreign);
        }
        let mut damaged = Vec::new();
        let mut numbers = Vec::new();
        {
            let mut statement = connection.prepare("SELECT row, hash, sum, body FROM vector")?;
            let mut rows = statement.query([])?;
            while let Some(found) = rows.next()? {
                let row: i64 = found.get(0)?;
                let kept = (found.get_ref(1)?, found.get_ref(2)?, found.get_ref(3)?);
                match parse(row, kept, table.dimensions(), &mut numbers) {
                    Some(kept) => table.put_kept(row, kept),
                    None => damaged.push(row),
                }
            }
        }
        for row in damaged {
            connection.execute("DELETE FROM vector WHERE row = ?1", [row])?;
        }
        let id = FileId::of(&self.path)?;
        Ok(State::Whole(connection, id))
    }

    /// Brings rows to what they are in memory; those that are not there are removed.
    pub(super) fn write(&mut self, table: &Table, rows: &[i64]) {
        let State::Whole(connection, id) = &mut self.state else {
            let State::Broken(Some(until)) = &self.state else {
                return self.begin_anew(table);
            };
            if Instant::now() >= *until {
                self.begin_anew(table);
            }
            return;
        };
        let written = if FileId::of(&self.path).is_ok_and(|found| found == *id) {
            write_rows(connection, table, rows)
        } else {
            Err(Trouble::Gone)
        };
        if let Err(trouble) = written {
            tracing::warn!(
                file = %self.path.display(),
                %trouble,
                "cannot write the embeddings; starting a new file"
            );
            self.begin_anew(table);
        }
    }

    /// Makes the file anew and writes all that is in memory.
    fn begin_anew(&mut self, table: &Table) {
        // Closed before it is removed.
        self.state = State::Broken(Some(Instant::now() + REST));
        match self.make(table) {
            Ok(state) => {
                self.state = state;
                self.told = false;
            }
            Err(trouble) => self.tell(&trouble),
        }
    }

    fn make(&self, table: &Table) -> Result<State, Trouble> {
        if let Err(trouble) = connect(&self.path, false).map(drop)
            && trouble.is_taken()
        {
            return Err(trouble);
        }
        remove_vectors(&self.path)?;
        let mut connection = connect(&self.path, true)?;
        connection.execute_batch(CREATE)?;
        connection.execute(
            "INSERT INTO model VALUES (?1, ?2)",
            params![self.model.as_str(), table.dimensions() as i64],
        )?;
        write_rows(&mut connection, table, &table.all_rows())?;
        // Now it counts as whole.
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", FORMAT)?;
        let id = FileId::of(&self.path)?;
        Ok(State::Whole(connection, id))
    }

    fn tell(&mut self, trouble: &Trouble) {
        if !self.told {
            self.told = true;
            tracing::warn!(
                file = %self.path.display(),
                %trouble,
                "embeddings are stored only in memory for now"
            );
        }
        self.state = State::Broken(Some(Instant::now() + REST));
    }
}

fn connect(path: &Path, make: bool) -> Result<Connection, Trouble> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    if make {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
        // Vectors reveal the text that they were computed from.
        orchestra_fs::create_new(path, Access::Private).map_err(io::Error::from)?;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    // One process alone: then no memory is shared through a file that somebody may cut short.
    let _: String = connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], first)?;
    let _: String = connection.query_row("PRAGMA journal_mode = WAL", [], first)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", LOG_LIMIT_BYTES)?;
    Ok(connection)
}

/// Returns whether a database has only tables that evaluate no expressions.
fn has_plain_tables(connection: &Connection) -> rusqlite::Result<bool> {
    let mut statement =
        connection.prepare("SELECT sql FROM main.sqlite_schema WHERE sql IS NOT NULL")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if !orchestra_fs::is_plain_table(row.get_ref(0)?.as_str().unwrap_or_default()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn first<T: rusqlite::types::FromSql>(row: &rusqlite::Row<'_>) -> rusqlite::Result<T> {
    row.get(0)
}

fn write_rows(connection: &mut Connection, table: &Table, rows: &[i64]) -> Result<(), Trouble> {
    let transaction = connection.transaction()?;
    {
        let mut put =
            transaction.prepare_cached("INSERT OR REPLACE INTO vector VALUES (?1, ?2, ?3, ?4)")?;
        let mut remove = transaction.prepare_cached("DELETE FROM vector WHERE row = ?1")?;
        let mut body = Vec::new();
        for &row in rows {
            match table.kept(row) {
                Some(kept) => {
                    body.clear();
                    body.extend(kept.scale.to_le_bytes());
                    body.extend(kept.numbers.iter().flat_map(|number| number.to_le_bytes()));
                    let sum = sum(row, kept.hash, &body);
                    put.execute(params![row, kept.hash.0, sum, body])?;
                }
                None => {
                    remove.execute([row])?;
                }
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

/// A row as it was written, or `None` where it was not written so.
fn parse<'n>(
    row: i64,
    (hash, sum_found, body): (ValueRef<'_>, ValueRef<'_>, ValueRef<'_>),
    dimensions: usize,
    numbers: &'n mut Vec<i16>,
) -> Option<Kept<'n>> {
    let (ValueRef::Integer(hash), ValueRef::Integer(found), ValueRef::Blob(body)) =
        (hash, sum_found, body)
    else {
        return None;
    };
    let hash = TextHash(hash);
    let (scale, bytes) = body.split_first_chunk()?;
    let (parts, rest) = bytes.as_chunks::<2>();
    if parts.len() != dimensions || !rest.is_empty() || sum(row, hash, body) != found {
        return None;
    }
    numbers.clear();
    numbers.extend(parts.iter().map(|part| i16::from_le_bytes(*part)));
    Some(Kept {
        hash,
        scale: f32::from_le_bytes(*scale),
        numbers,
    })
}

/// A sum (FNV-1a, eight bytes at a time) that tells damage, and nothing of an attacker: who can
/// write the file can write it as they like.
fn sum(row: i64, hash: TextHash, body: &[u8]) -> i64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut sum: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |word: u64| sum = (sum ^ word).wrapping_mul(PRIME).rotate_left(29);
    add(row as u64);
    add(hash.0 as u64);
    let (words, rest) = body.as_chunks::<8>();
    for word in words {
        add(u64::from_le_bytes(*word));
    }
    for byte in rest {
        add(u64::from(*byte));
    }
    sum as i64
}

/// Which file it is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    #[cfg(unix)]
    fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;

        let found = fs::symlink_metadata(path)?;
        Ok(Self(found.dev(), found.ino()))
    }

    #[cfg(not(unix))]
    fn of(path: &Path) -> io::Result<Self> {
        // An open file cannot be removed there.
        fs::symlink_metadata(path).map(|_| Self(0, 0))
    }
}
