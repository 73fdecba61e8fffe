//! Boards that linked worktrees have of their own beside the one that all checkouts share. Each is merged on command.
//!
//! A worktree is content of its repository, or a job's: its database and readable files prove no origin. So an opening
//! merges none, and a merge drops the claims of the source. The source is marked after the merge is durable. A program
//! that ends in between leaves a source whose merge is repeated, which changes nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use orchestra_board::Uid;
use rusqlite::{Connection, OptionalExtension as _};

use crate::db::{self, LogSync, Paths, schema};
use crate::merge::{self, Context};
use crate::queue::LOCK_PATIENCE;
use crate::reader::Reader;
use crate::shared::{Shared, clear, lock_former, mark_as_moved};
use crate::writing::KnownWords;
use crate::{ActionError, Fault, Home, OpenError, Options, SharedHome, Store};

/// Numbers of issues and of remembered texts of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoardSize {
    /// Issues of all projects.
    pub issues: u64,
    /// Remembered texts of all projects.
    pub memories: u64,
}

impl BoardSize {
    /// Counts the content of the database that a checkout has of its own; `None` without one.
    ///
    /// # Errors
    /// When the database is damaged, has views, or cannot be read.
    pub fn of_checkout(workspace: &Path) -> Result<Option<Self>, Fault> {
        let paths = Paths::of(workspace, &Home::Checkout);
        paths.check().map_err(fault_of)?;
        let Some(connection) = db::open_reader_of_tables(&paths.database)? else {
            return Ok(None);
        };
        let count = |sql| connection.query_row(sql, [], |row| row.get(0));
        Ok(Some(Self {
            issues: count("SELECT count(*) FROM issue")?,
            memories: count("SELECT count(*) FROM chunk")?,
        }))
    }
}

/// Removes the databases in linked worktrees whose boards were merged: each worktree has a board of its own again, which
/// begins with its readable files.
pub(crate) fn remove_stubs(home: &SharedHome) -> Result<(), Fault> {
    let is_stub = |workspace: &Path| {
        let database = Paths::of(workspace, &Home::Checkout).database;
        database.is_file() && matches!(db::header_version(&database), Ok(schema::MOVED))
    };
    for workspace in home.in_linked(&is_stub) {
        let paths = Paths::of(&workspace, &Home::Checkout);
        clear(&[&paths.log, &paths.shared_memory, &paths.database])?;
    }
    Ok(())
}

/// Merges the board of a worktree into a shared one.
///
/// # Errors
/// [`Fault::Held`] while another program uses the board of the worktree.
pub(crate) fn merge(shared: &Shared, workspace: &Path) -> Result<(), Fault> {
    let paths = Paths::of(workspace, &Home::Checkout);
    paths.check().map_err(fault_of)?;
    paths.make_directories()?;
    drop(lock_former(&paths.store)?);
    match apply_edits(workspace, &shared.options) {
        // The mark is in the log alone.
        Err(Fault::Moved) => return mark_as_moved(&paths.database),
        other => other?,
    }
    let _locks = lock_former(&paths.store)?;
    let source = db::open_ready_reader(&paths.database)?.ok_or(Fault::Corrupt)?;
    let lock = db::lock_file(&shared.paths.writer_lock)?;
    let _lock = db::lock_within(lock, LOCK_PATIENCE)?;
    let connection = shared.open_whole(db::open_ready)?;
    let connection = connection.ok_or_else(|| Fault::Removed(shared.paths.store.clone()))?;
    let mut log = LogSync::new(&shared.options.files);
    log.watch(&shared.paths);
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let merged = merge_content(shared, &connection, &source, &paths)
        .and_then(|()| Ok(connection.execute_batch("COMMIT")?));
    if merged.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    merged?;
    if connection.total_changes() != 0 {
        // The source is marked only after that.
        log.sync(&shared.paths)?;
    }
    drop(source);
    mark_as_moved(&paths.database)
}

/// Brings the database of a worktree to the newest schema, with the edits of its readable files. A file that is missing
/// removes nothing.
fn apply_edits(workspace: &Path, options: &Options) -> Result<(), Fault> {
    let options = Options {
        home: Home::Checkout,
        watch: false,
        sweep: false,
        flush: false,
        ..options.clone()
    };
    let store = Store::open(workspace, options).map_err(fault_of)?;
    let applied = store.apply_edits();
    store.close(Duration::ZERO);
    Ok(applied?)
}

fn merge_content(
    shared: &Shared,
    connection: &Connection,
    source: &Connection,
    paths: &Paths,
) -> Result<(), Fault> {
    let name = name_of(source, paths)?;
    let (ours, theirs) = (Reader::new(connection), Reader::new(source));
    let (ours, mut theirs) = (contents(&ours)?, contents(&theirs)?);
    for project in theirs.projects.values_mut() {
        for found in project.issues.values_mut() {
            found.issue.claim = None;
        }
    }
    let context = Context {
        base: None,
        origin: &origin(&paths.workspace),
        now: shared.options.clock.now(),
        is_repeated: is_known(connection, &name)?,
    };
    let merged = merge::merge(&ours, &theirs, &context);
    let mut words = KnownWords::default();
    let mut writing = shared.writing(connection, &mut words);
    writing
        .absorb(&ours, &merged)
        .map_err(|error| match error {
            ActionError::Fault(fault) => fault,
            other => unmerged(&other),
        })?;
    let sql = "INSERT OR IGNORE INTO counter (name, value) VALUES (?1, 1)";
    connection.execute(sql, [&name])?;
    if let Home::Shared(home) = &shared.options.home
        && let Err(error) = home.reserve(connection, &mut BTreeMap::new(), 0)
    {
        tracing::warn!(%error, "cannot record the highest ids of the board");
    }
    Ok(())
}

fn contents(reader: &Reader<'_>) -> Result<merge::BoardContents, Fault> {
    reader.contents().map_err(|error| match error {
        crate::ReadError::Fault(fault) => fault,
        other => unmerged(&other),
    })
}

/// Name of the counter that records the merge of a source.
fn name_of(source: &Connection, paths: &Paths) -> Result<String, Fault> {
    let sql = "SELECT value FROM counter WHERE name = 'database'";
    let number: Option<i64> = source.query_row(sql, [], |row| row.get(0)).optional()?;
    let number = number.unwrap_or_default().to_string();
    let place = paths.database.to_string_lossy();
    Ok(format!(
        "merged/{}",
        Uid::derived(["board", &place, &number])
    ))
}

fn is_known(connection: &Connection, name: &str) -> Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM counter WHERE name = ?1)";
    Ok(connection.query_row(sql, [name], |row| row.get(0))?)
}

/// Description of a worktree that holds on every machine.
fn origin(workspace: &Path) -> String {
    let mut above = workspace.ancestors();
    let top = above.find(|directory| directory.join(".git").exists());
    let name = top.unwrap_or(workspace).file_name().unwrap_or_default();
    format!("the worktree {}", name.to_string_lossy().escape_debug())
}

fn fault_of(error: OpenError) -> Fault {
    match error {
        OpenError::Fault { source, .. } => source,
        OpenError::Rebuild(error) => error.into(),
        other => unmerged(&other),
    }
}

fn unmerged(error: &dyn std::fmt::Display) -> Fault {
    let error = std::io::Error::other(error.to_string());
    Fault::io("merge the board of a worktree", error)
}
