//! The database file: where it is, how it is opened, and the lock that orders writers.

mod log;
pub(crate) mod schema;

use std::fs::{self, File, TryLockError};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use orchestra_fs::{Access, Directory};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

pub(crate) use self::log::LogSync;
use self::schema::ForeignObjects;
use crate::{Fault, Home, OpenError, shared};

/// How long a connection waits for another program that locked the database by itself.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a log in doubt waits for its readers, while all writers wait.
const DOUBT_PATIENCE: Duration = Duration::from_millis(500);
/// Prepared statements kept per connection; more than there are in the code.
const STATEMENTS: usize = 160;
/// Page cache of the writer, in KiB: what one group of changes touches.
const WRITER_CACHE_KIB: i64 = 4 * 1024;
/// Page cache while a database is built, in KiB.
const BUILDER_CACHE_KIB: i64 = 16 * 1024;
/// Page cache of each reading connection, in KiB: the upper levels of the indexes.
const READER_CACHE_KIB: i64 = 1024;
/// What is left of the log file when it is begun anew.
const LOG_LIMIT_BYTES: i64 = 32 * 1024 * 1024;

/// The directory of the board, and in it that of the database.
const PROJECTS: &str = ".projects";
pub(crate) const STORE: &str = ".store";
/// The database in its directory.
pub(crate) const DATABASE: &str = "board.db";
/// Locks beside it: of the program that writes the readable files, of each writer, and of each look at the files.
pub(crate) const KEEPER_LOCK: &str = "keeper.lock";
pub(crate) const WRITER_LOCK: &str = "writer.lock";
pub(crate) const FILES_LOCK: &str = "files.lock";

/// Where the parts of a board are.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    /// The directory that holds `.projects/`.
    pub(crate) workspace: PathBuf,
    /// `.projects/`
    pub(crate) projects: PathBuf,
    /// Directory of the database: `.projects/.store/`, or the one that all checkouts share.
    pub(crate) store: PathBuf,
    /// What decided where they are.
    pub(crate) home: Home,
    /// The database.
    pub(crate) database: PathBuf,
    /// The database while it is being rebuilt.
    pub(crate) rebuilt: PathBuf,
    /// The database's log.
    pub(crate) log: PathBuf,
    /// The memory that the users of the log share.
    pub(crate) shared_memory: PathBuf,
    /// Locked by whoever writes the database.
    pub(crate) writer_lock: PathBuf,
    /// Locked by whoever looks at the readable files or writes them, while it does.
    pub(crate) files_lock: PathBuf,
}

impl Paths {
    pub(crate) fn of(workspace: &Path, home: &Home) -> Self {
        let (projects, store) = match home {
            Home::Checkout => {
                let projects = workspace.join(PROJECTS);
                let store = projects.join(STORE);
                (projects, store)
            }
            Home::Shared(home) => {
                let store = home.directory();
                // Without a mirror there are no files, wherever they would be.
                let beside = home.mirror().unwrap_or(&store);
                (beside.join(PROJECTS), store)
            }
        };
        Self {
            workspace: workspace.to_path_buf(),
            home: home.clone(),
            database: store.join(DATABASE),
            rebuilt: store.join("board.db.new"),
            log: store.join("board.db-wal"),
            shared_memory: store.join("board.db-shm"),
            writer_lock: store.join(WRITER_LOCK),
            files_lock: store.join(FILES_LOCK),
            projects,
            store,
        }
    }

    /// Directory without which the board is another one: the git directory, or the workspace.
    pub(crate) fn anchor(&self) -> &Path {
        match &self.home {
            Home::Checkout => &self.workspace,
            Home::Shared(home) => home.anchor(),
        }
    }

    /// Refuses a workspace that is none, and links where the store's directories should be.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        if !self.workspace.is_dir() {
            return Err(OpenError::NotADirectory(self.workspace.clone()));
        }
        let store = Some(&self.store).filter(|_| self.home.removes());
        for directory in [Some(&self.projects), store].into_iter().flatten() {
            if fs::symlink_metadata(directory).is_ok_and(|found| found.is_symlink()) {
                return Err(OpenError::SymbolicLink(directory.clone()));
            }
        }
        Ok(())
    }

    /// Makes the store's directories.
    pub(crate) fn make_directories(&self) -> Result<(), Fault> {
        // The database holds what hooks report and agents remember: it is for its owner alone.
        let Home::Shared(home) = &self.home else {
            Directory::open(&self.workspace)?
                .make_below(PROJECTS.as_ref(), Access::Shared)?
                .make_below(STORE.as_ref(), Access::Private)?;
            return Ok(());
        };
        home.make()
    }

    /// Directory of the database in the mirror, from before all checkouts shared it.
    pub(crate) fn former(&self) -> Option<PathBuf> {
        let is_mirror = matches!(&self.home, Home::Shared(home) if home.mirror().is_some());
        let former = self.projects.join(STORE);
        (is_mirror && former.join(DATABASE).is_file()).then_some(former)
    }

    /// Returns whether the board is in the checkout, and not what a move of it left there.
    pub(crate) fn is_in_checkout(&self) -> bool {
        let database = self.former().map(|former| former.join(DATABASE));
        database.is_some_and(|database| !shared::is_moved(&database).unwrap_or(false))
    }

    /// Files of a database that is gone, which must not be taken for those of a new one.
    pub(crate) const fn leftovers(&self) -> [&PathBuf; 3] {
        [&self.rebuilt, &self.log, &self.shared_memory]
    }

    pub(crate) fn failed(&self, source: Fault) -> OpenError {
        OpenError::Fault {
            workspace: self.workspace.clone(),
            source,
        }
    }
}

/// Which file it is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    /// Number of the file in its file system, which no other file has while it is open.
    pub(crate) const fn number(self) -> u64 {
        self.1
    }

    /// The file at `path`; `None` when there is none.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        fs::metadata(path)
            .ok()
            .map(|found| Self::of_metadata(&found))
    }

    #[cfg(unix)]
    fn of_metadata(found: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;

        Self(found.dev(), found.ino())
    }

    #[cfg(not(unix))]
    fn of_metadata(_: &fs::Metadata) -> Self {
        // An open file cannot be removed there.
        Self(0, 0)
    }
}

/// Identities of the files at the paths of a database and its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identities {
    database: Option<FileId>,
    log: Option<FileId>,
}

impl Identities {
    pub(crate) fn of(paths: &Paths) -> Self {
        Self {
            database: FileId::of(&paths.database),
            log: FileId::of(&paths.log),
        }
    }

    /// Returns whether there is a database without a log.
    pub(crate) const fn lacks_log(self) -> bool {
        self.database.is_some() && self.log.is_none()
    }

    /// Returns whether these are the files from before. A log may be new.
    pub(crate) fn are_of(self, before: Self) -> bool {
        self.database == before.database && (before.log.is_none() || self.log == before.log)
    }
}

/// Whether an open file is the one at `path`.
pub(crate) fn is_same_file(file: &File, path: &Path) -> bool {
    let open = file
        .metadata()
        .ok()
        .map(|found| FileId::of_metadata(&found));
    open.is_some() && open == FileId::of(path)
}

/// Opens (and makes) a file that is only there to be locked.
pub(crate) fn lock_file(path: &Path) -> Result<File, Fault> {
    Ok(orchestra_fs::open_or_create(path, Access::Private)?)
}

/// Takes a lock, in the order of those who wait for it, within a time.
///
/// # Errors
/// [`Fault::Locked`] when somebody else has kept it for so long.
pub(crate) fn lock_within(file: File, time: Duration) -> Result<File, Fault> {
    let failed = |error| Fault::io("lock .projects/.store/writer.lock", error);
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    // Only who blocks has a place in the queue. A thread whose result comes too late gives the lock
    // back with the file.
    let (sender, receiver) = mpsc::sync_channel(1);
    let waiting = thread::Builder::new()
        .name("store-lock".to_owned())
        .spawn(move || sender.send(file.lock().map(|()| file)));
    waiting.map_err(|error| Fault::io("start a thread", error))?;
    match receiver.recv_timeout(time) {
        Ok(locked) => locked.map_err(failed),
        Err(_) => Err(Fault::Locked),
    }
}

/// The writer's connection to a database that has the newest schema; `None` when it must be made,
/// rebuilt or brought up to date first, which only the holder of the writers' lock may do.
pub(crate) fn open_ready(path: &Path) -> Result<Option<Connection>, Fault> {
    if !is_there(path)? {
        return Ok(None);
    }
    let (connection, foreign) = configured_writer(path)?;
    let is_ready = schema_of(&connection)? == schema::SCHEMA && foreign.is_empty();
    Ok(is_ready.then_some(connection))
}

/// A reading connection to a database that has the newest schema; `None` when it must be made,
/// rebuilt or brought up to date first.
pub(crate) fn open_ready_reader(path: &Path) -> Result<Option<Connection>, Fault> {
    let Some((connection, foreign)) = existing_reader(path)? else {
        return Ok(None);
    };
    let is_ready = schema_of(&connection)? == schema::SCHEMA && foreign.is_empty();
    Ok(is_ready.then_some(connection))
}

/// A reading connection to a database of any schema; `None` where there is none.
pub(crate) fn open_any_reader(path: &Path) -> Result<Option<Connection>, Fault> {
    Ok(existing_reader(path)?.map(|(connection, _)| connection))
}

/// As [`open_any_reader`], for queries of tables. A view in place of a table can take any time.
///
/// # Errors
/// [`Fault::Corrupt`] for a database with views, and those of [`open_any_reader`].
pub(crate) fn open_reader_of_tables(path: &Path) -> Result<Option<Connection>, Fault> {
    match existing_reader(path)? {
        Some((_, foreign)) if foreign.has_views() => Err(Fault::Corrupt),
        found => Ok(found.map(|(connection, _)| connection)),
    }
}

fn existing_reader(path: &Path) -> Result<Option<(Connection, ForeignObjects)>, Fault> {
    if !is_there(path)? {
        return Ok(None);
    }
    let (connection, foreign) = configured_reader(path, existing_flags())?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(Some((connection, foreign)))
}

/// Returns the version of the schema of a database.
pub(crate) fn schema_of(connection: &Connection) -> Result<i64, Fault> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Reads the schema in the header of a database file, without SQLite.
pub(crate) fn header_version(database: &Path) -> Result<i64, Fault> {
    let mut header = [0; 64];
    let read = File::open(database).and_then(|mut file| file.read_exact(&mut header));
    read.map_err(|error| Fault::io("read the former database of the board", error))?;
    let [.., a, b, c, d] = header;
    Ok(i64::from(u32::from_be_bytes([a, b, c, d])))
}

/// Whether the database is there. What cannot be told is an error: taken for gone it would be
/// built anew.
pub(crate) fn is_there(path: &Path) -> Result<bool, Fault> {
    path.try_exists()
        .map_err(|error| Fault::io("look for the database in .projects/.store", error))
}

/// Creates a database file for its owner alone, unless it exists. SQLite gives the files beside it the same permissions.
fn make_private(path: &Path) -> Result<(), Fault> {
    if is_there(path)? {
        return Ok(());
    }
    match orchestra_fs::create_new(path, Access::Private) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

/// The writer's connection to an existing database. A database that was just removed is not created empty.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, Fault> {
    configured_writer(path).map(|(connection, _)| connection)
}

fn configured_writer(path: &Path) -> Result<(Connection, ForeignObjects), Fault> {
    let connection = Connection::open_with_flags(path, existing_flags())?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    use_log(&connection, path)?;
    // A commit writes the log and a checkpoint syncs it; that a commit is durable before it is
    // answered is the writer's own work (`LogSync`), done after it let the next process in.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", LOG_LIMIT_BYTES)?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    // The log is moved into the database behind the answers, not by whoever happens to commit.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    let foreign = configure(&connection)?;
    Ok((connection, foreign))
}

/// Has a database use a log that all its users share. Without one its readers would wait for its writer, and nothing
/// that depends on the log would hold.
///
/// # Errors
/// [`Fault::NoLog`] on a file system that cannot share memory between processes, as some network file systems.
pub(crate) fn use_log(connection: &Connection, path: &Path) -> Result<(), Fault> {
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    match mode.as_str() {
        "wal" => Ok(()),
        _ => Err(Fault::NoLog(path.to_owned())),
    }
}

/// A connection that builds a database nobody else knows of yet, so without a log and without
/// waiting for the disk; [`publish`] makes it durable.
pub(crate) fn open_builder(path: &Path) -> Result<Connection, Fault> {
    make_private(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "journal_mode", "OFF")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "cache_size", -BUILDER_CACHE_KIB)?;
    configure(&connection)?;
    Ok(connection)
}

/// Opens a database that is in memory alone.
pub(crate) fn open_in_memory() -> Result<Connection, Fault> {
    let connection = Connection::open_in_memory()?;
    configure(&connection)?;
    Ok(connection)
}

/// How long the log is, and how much of it is in the database already, in pages of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogState {
    pub(crate) pages: i64,
    pub(crate) moved: i64,
}

/// Looks at the log without doing anything. Its file tells nothing: it stays as long as it was.
pub(crate) fn log_state(connection: &Connection) -> Result<LogState, Fault> {
    let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(LogState {
            pages: row.get(1)?,
            moved: row.get(2)?,
        })
    };
    Ok(statement.query_row([], read)?)
}

/// Moves as much of the log into the database as nobody reads.
pub(crate) fn move_log(connection: &Connection) -> Result<(), Fault> {
    Ok(connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)")?)
}

/// Moves all of the log into the database and begins it anew, empty; says whether that was possible:
/// not while somebody reads it.
fn empty_log(connection: &Connection) -> Result<bool, Fault> {
    connection.busy_timeout(DOUBT_PATIENCE)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, bool>(0)
    });
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(!busy?)
}

/// Puts a database that was built in its place, durably.
pub(crate) fn publish(built: &Path, place: &Path) -> Result<(), Fault> {
    Ok(orchestra_fs::publish(built, place)?)
}

/// A connection for reading. In a directory that cannot be written, what is in the database file
/// is read as it stands.
pub(crate) fn open_reader(paths: &Paths) -> Result<Connection, Fault> {
    let first = configured_reader(&paths.database, existing_flags())
        .and_then(|configured| checked_reader(configured, false));
    match first {
        Err(Fault::ReadOnly | Fault::Database(_)) if is_checkpointed(paths) => {
            let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_NO_MUTEX
                | OpenFlags::SQLITE_OPEN_URI;
            let uri = format!("{}?immutable=1", orchestra_fs::file_uri(&paths.database));
            checked_reader(configured_reader(uri, read_only)?, true)
        }
        other => other,
    }
}

fn existing_flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
}

fn configured_reader(
    path: impl AsRef<Path>,
    flags: OpenFlags,
) -> Result<(Connection, ForeignObjects), Fault> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    let foreign = configure(&connection)?;
    Ok((connection, foreign))
}

fn checked_reader(
    (connection, foreign): (Connection, ForeignObjects),
    immutable: bool,
) -> Result<Connection, Fault> {
    let found = schema_of(&connection)?;
    if (schema::READABLE..=schema::SCHEMA).contains(&found) && foreign.has_views() {
        return Err(Fault::Corrupt);
    }
    if (schema::READABLE..schema::SCHEMA).contains(&found) {
        schema::read_as_newest(&connection, found)?;
    }
    if !immutable {
        connection.pragma_update(None, "query_only", true)?;
    }
    match found.cmp(&schema::SCHEMA) {
        std::cmp::Ordering::Greater => Err(schema::newer(found)),
        // It could not be brought up to date, where nothing can be written.
        std::cmp::Ordering::Less if found < schema::READABLE => Err(Fault::Corrupt),
        std::cmp::Ordering::Less | std::cmp::Ordering::Equal => Ok(connection),
    }
}

fn is_checkpointed(paths: &Paths) -> bool {
    paths.database.exists() && fs::metadata(&paths.log).map_or(true, |log| log.len() == 0)
}

/// Sets a connection up, and reads the schema of the database once.
///
/// # Errors
/// [`Fault::Corrupt`] for a database whose tables evaluate expressions, before a query or a check of its integrity reads
/// them, and [`schema::newer`] for one of a later version, whose tables are not known.
fn configure(connection: &Connection) -> Result<ForeignObjects, Fault> {
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // The board has no foreign keys. Those of another's tables could delete rows.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false)?;
    // Plans do not depend on the values that are bound: else every binding of a prepared statement
    // has it parsed and planned anew.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    match ForeignObjects::of(connection) {
        Err(Fault::Corrupt) => match schema_of(connection)? {
            found if found > schema::SCHEMA => Err(schema::newer(found)),
            _ => Err(Fault::Corrupt),
        },
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_without_shared_memory_is_refused_with_advice_for_each_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("board.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        // SQLite's own access to file systems without locks between processes.
        let connection =
            Connection::open_with_flags_and_vfs(&path, flags, c"unix-dotfile").unwrap();
        let refused = use_log(&connection, &path).unwrap_err().to_string();
        for place in ["place = \"state\"", "XDG_STATE_HOME", "move the workspace"] {
            assert!(refused.contains(place), "{refused}");
        }
    }
}
