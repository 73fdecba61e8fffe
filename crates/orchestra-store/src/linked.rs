//! Boards of linked worktrees from before all checkouts shared one. Each is merged into that, once.
//!
//! A worktree that is not mounted is merged when a program finds it. The source is marked after the merge is durable. A
//! program that ends in between leaves a source whose merge is repeated, which changes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_board::Uid;
use rusqlite::{Connection, OptionalExtension as _};

use crate::db::{self, LogSync, Paths, schema};
use crate::merge::{self, Context};
use crate::reader::Reader;
use crate::shared::{Shared, clear, header_version, lock_former, mark_as_moved};
use crate::writing::KnownWords;
use crate::{ActionError, Fault, Home, OpenError, Options, SharedHome, Store};

/// Returns the directories of the workspace in linked worktrees that have a database to be merged.
pub(crate) fn due(paths: &Paths) -> Vec<PathBuf> {
    let Home::Shared(home) = &paths.home else {
        return Vec::new();
    };
    let mut found = home.in_linked(&is_due);
    // A submodule of a linked worktree is in no list of worktrees.
    let own = &paths.workspace;
    let is_mirror = paths.projects.parent() == Some(own.as_path());
    if !is_mirror && !found.contains(own) && is_due(own) {
        found.push(own.clone());
    }
    found
}

/// Returns whether a workspace has a database of its own that no program has moved or merged.
fn is_due(workspace: &Path) -> bool {
    let database = Paths::of(workspace, &Home::Checkout).database;
    database.is_file() && is_unmarked(&database)
}

fn is_unmarked(database: &Path) -> bool {
    header_version(database).is_ok_and(|version| (1..=schema::SCHEMA).contains(&version))
}

/// Removes the databases in linked worktrees whose boards were merged: each worktree has a board of its own again, which
/// begins with its readable files.
pub(crate) fn remove_stubs(home: &SharedHome) -> Result<(), Fault> {
    let is_stub = |workspace: &Path| {
        let database = Paths::of(workspace, &Home::Checkout).database;
        database.is_file() && matches!(header_version(&database), Ok(schema::MOVED))
    };
    for workspace in home.in_linked(&is_stub) {
        let paths = Paths::of(&workspace, &Home::Checkout);
        clear(&[&paths.log, &paths.shared_memory, &paths.database])?;
    }
    Ok(())
}

/// Merges the boards of worktrees. The caller holds the writers' lock. A board that cannot be read is logged and left as
/// it is.
///
/// # Errors
/// [`Fault::Held`] when another program uses one of them.
pub(crate) fn merge_all(
    shared: &Shared,
    connection: &Connection,
    workspaces: &[PathBuf],
) -> Result<(), Fault> {
    for workspace in workspaces {
        let shown = workspace.display();
        match merge_one(shared, connection, workspace) {
            Ok(()) => tracing::info!("the board of {shown} is part of the board of all worktrees"),
            Err(fault @ Fault::Held { .. }) => return Err(fault),
            Err(fault) => tracing::warn!(
                error = &fault as &dyn std::error::Error,
                "the board of {shown} is not merged into that of all worktrees"
            ),
        }
    }
    Ok(())
}

fn merge_one(shared: &Shared, connection: &Connection, workspace: &Path) -> Result<(), Fault> {
    let paths = Paths::of(workspace, &Home::Checkout);
    paths.check().map_err(fault_of)?;
    drop(lock_former(&paths.store)?);
    match apply_edits(workspace, &shared.options) {
        // The mark is in the log alone.
        Err(Fault::Moved) => return mark_as_moved(&paths.database),
        other => other?,
    }
    let _locks = lock_former(&paths.store)?;
    let source = db::open_ready_reader(&paths.database)?.ok_or(Fault::Corrupt)?;
    let before = connection.total_changes();
    let mut log = LogSync::new(&shared.options.files);
    log.watch(&shared.paths);
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let merged = merge_content(shared, connection, &source, &paths)
        .and_then(|()| Ok(connection.execute_batch("COMMIT")?));
    if merged.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    merged?;
    if connection.total_changes() != before {
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
    let (ours, theirs) = (contents(&ours)?, contents(&theirs)?);
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
        tracing::warn!(%error, "the highest ids of the board cannot be listed");
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
