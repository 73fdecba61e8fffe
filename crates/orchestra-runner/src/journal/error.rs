//! What can go wrong with the journal, and what to do about it.

use std::{io, path::PathBuf, sync::Arc};

use rusqlite::ErrorCode;

use super::PlanKey;

/// Trouble with what plans are kept on. Every text says what to do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// No room.
    #[error("the disk is full; this change was not saved: free some space and try again")]
    DiskFull,
    /// The directory cannot be written.
    #[error(
        "the plans cannot be written: check the permissions of their directory and whether its file system is read-only"
    )]
    ReadOnly,
    /// Another program keeps the database.
    #[error(
        "another program holds a lock on the plans' database; close it (a database browser, perhaps) and try again"
    )]
    Locked,
    /// The database is damaged.
    #[error(
        "the plans' database is damaged; stop all programs that use it and run `orchestra doctor --fix`, which rebuilds it from the readable files beside it"
    )]
    Damaged,
    /// One event is not what was written.
    #[error(
        "event {number} of plan {plan} is damaged; the events before it are readable: stop all programs that use the plans and run `orchestra doctor --fix`, which restores the event from the readable files"
    )]
    DamagedEvent {
        /// Of which plan.
        plan: PlanKey,
        /// Which event.
        number: u64,
    },
    /// The database was written by a newer program.
    #[error(
        "the plans' database has schema {found}, this program knows up to {known}; update the program"
    )]
    Newer {
        /// The schema found.
        found: i64,
        /// The newest schema this program knows.
        known: i64,
    },
    /// The file system has no write-ahead log.
    #[error(
        "the file system of {} cannot hold the plans' database, since SQLite has no write-ahead log there: set `place = \"state\"` in your own orchestra.toml, or ORCHESTRATOR_STORAGE to a directory on a local disk", .0.display()
    )]
    NoLog(PathBuf),
    /// The plans were moved to another place.
    #[error(
        "the plans of this directory were moved to the place of the workspace: move the directory away, and unset ORCHESTRATOR_STORAGE if it names the directory"
    )]
    Moved,
    /// It is another program's database.
    #[error("{} is not a database of plans; move it away", .0.display())]
    Foreign(PathBuf),
    /// Somebody removed or replaced the database.
    #[error(
        "the plans' database was removed or replaced while it was in use; this change was not saved: put it back, or restart the program to begin with an empty one"
    )]
    Gone,
    /// The disk did not say whether it keeps a change.
    #[error(
        "the disk failed while a change was being written, and the change may or may not have been saved; check the disk, and whether the change is there, before you repeat it"
    )]
    Unsure(#[source] Arc<rusqlite::Error>),
    /// Another process runs the plans of this workspace by now.
    #[error(
        "another process runs the plans of this workspace now; this change was not saved: send the request to that process"
    )]
    Fenced,
    /// The journal was closed, or is closing.
    #[error("the plans are closed; restart the program")]
    Closed,
    /// A file or directory could not be used.
    #[error("cannot {attempted} {}", .path.display())]
    Io {
        /// What was attempted.
        attempted: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Arc<io::Error>,
    },
    /// The database failed in another way.
    #[error("the plans' database failed; run `orchestra doctor` if this happens again")]
    Database(#[source] Arc<rusqlite::Error>),
}

impl Fault {
    pub(crate) fn io(attempted: &'static str, path: &std::path::Path, source: io::Error) -> Self {
        use io::ErrorKind as Kind;
        match source.kind() {
            Kind::StorageFull | Kind::QuotaExceeded => Self::DiskFull,
            Kind::ReadOnlyFilesystem => Self::ReadOnly,
            _ => Self::Io {
                attempted,
                path: path.to_owned(),
                source: Arc::new(source),
            },
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged,
            Some(ErrorCode::SystemIoFailure) => Self::Unsure(Arc::new(error)),
            _ => Self::Database(Arc::new(error)),
        }
    }
}

/// Why events were not appended. Nothing of them was kept, unless the fault says otherwise.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// Others have appended meanwhile.
    #[error(
        "plan {plan} has {found} events, not {expected}: it has changed since it was read; read it again before you change it"
    )]
    Conflict {
        /// Which plan.
        plan: PlanKey,
        /// How many events it was thought to have.
        expected: u64,
        /// How many it has.
        found: u64,
    },
    /// The plan was deleted, and its id is never used again.
    #[error("plan {0} was deleted")]
    Deleted(PlanKey),
    /// More than is kept at once.
    #[error("{what} is larger than {limit}; make it smaller")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How much there may be.
        limit: usize,
    },
    /// The journal failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<rusqlite::Error> for AppendError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Fault(error.into())
    }
}
