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
        "another program holds a lock on the plans' database; close that program (such as a database browser) and try again"
    )]
    Locked,
    /// The database is damaged.
    #[error(
        "the plans' database is damaged. Stop all programs that use it, and run `orchestra doctor --fix` to rebuild it from the readable files beside it"
    )]
    Damaged,
    /// One event is not what was written.
    #[error(
        "event {number} of plan {plan} is damaged, so only the events before it are readable. Stop all programs that use the plans, and run `orchestra doctor --fix` to restore the event from the readable files"
    )]
    DamagedEvent {
        /// Of which plan.
        plan: PlanKey,
        /// Which event.
        number: u64,
    },
    /// The database was written by a newer program.
    #[error(
        "the plans' database has schema {found}, but this program supports schemas up to {known}; update the program"
    )]
    Newer {
        /// The schema found.
        found: i64,
        /// The newest schema this program knows.
        known: i64,
    },
    /// The file system has no write-ahead log.
    #[error(
        "the file system of {} does not support the plans' database, because SQLite cannot use a write-ahead log there. Set `place = \"state\"` in your own orchestra.toml, or set ORCHESTRATOR_STORAGE to a directory on a local disk", .0.display()
    )]
    NoLog(PathBuf),
    /// The plans were moved to another place.
    #[error(
        "the plans in this directory were moved, because the workspace stores its plans elsewhere now; move the directory away. If ORCHESTRATOR_STORAGE names the directory, unset the variable"
    )]
    Moved,
    /// It is another program's database.
    #[error("{} is not a database of plans; move it away", .0.display())]
    Foreign(PathBuf),
    /// Somebody removed or replaced the database.
    #[error(
        "this change was not saved, because the plans' database was removed or replaced while it was in use. Put the database back, or restart the program to begin with an empty one"
    )]
    Gone,
    /// The disk did not say whether it keeps a change.
    #[error(
        "the disk failed during a write, so the change may or may not have been saved; check the disk and the plan before you repeat the change"
    )]
    Unsure(#[source] Arc<rusqlite::Error>),
    /// Another process runs the plans of this workspace by now.
    #[error(
        "this change was not saved, because another process now runs the plans of this workspace; send the request to that process"
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
        "plan {plan} changed after it was read: it has {found} events, not {expected}; read it again before you change it"
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
