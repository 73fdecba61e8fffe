//! What can go wrong, and what to do about it.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_board::{DecideError, Refusal, ViewError};
use orchestra_fs::Reason;
use rusqlite::ErrorCode;

use crate::db::schema::MEMORY_INDEX;
use crate::{CursorError, DocumentRefusal};

/// Trouble with what the board is stored on. Every text says what to do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// No room.
    #[error("the disk is full; this change was not saved: free some space and try again")]
    DiskFull,
    /// A change was made, but the disk did not confirm that it keeps it.
    #[error(
        "the change was made, but the disk did not confirm it, so a power failure can lose it. Before you repeat the change, check the disk and check that the change is missing"
    )]
    NotDurable(#[source] Arc<std::io::Error>),
    /// The log has been in doubt since the disk failed to keep it, and still is.
    #[error(
        "this change was not saved, because the disk failed to store an earlier change and the log of that change cannot be cleared yet. Another program reads the log, or the disk still fails; check the disk and try again"
    )]
    LogInDoubt,
    /// The workspace cannot be written.
    #[error(
        "the workspace cannot be written: check the permissions of `.projects` and whether its file system is read-only"
    )]
    ReadOnly,
    /// The directory of a board that all checkouts share cannot be written, as in the sandbox of an agent.
    #[error(
        "cannot change the board in {}: the directory is read-only here, as in the sandbox of an agent. Use the MCP tools of the server `orchestra`, which runs outside of the sandbox; or allow writes to the directory (`sandbox.filesystem.allowWrite` of Claude Code, `writable_roots` of Codex)", .0.display()
    )]
    Sandboxed(PathBuf),
    /// The database was not created by programs of this user.
    #[error(
        "the board in {} was not created by you on this machine: it is read-only and its claims are ignored; run `orchestra board trust` to accept it, or remove that directory", .0.display()
    )]
    Untrusted(PathBuf),
    /// The directory of the board was removed, and the program that still has it open does not put it back.
    #[error(
        "the board in {} was removed, and the program that still has it open has not restored it yet; try again. If that does not help, end the programs that use the board", .0.display()
    )]
    Removed(PathBuf),
    /// The git directory that the board is in was removed while a program has the board open.
    #[error(
        "nothing was done, because the git directory {} was removed while a program has its board open. Restore the `.git` directory or run `git init`; that program then writes the board back", .0.display()
    )]
    RepositoryRemoved(PathBuf),
    /// The directory of the board was removed and another database is in its place.
    #[error(
        "this change was not saved, because the board that this program had open was replaced by another. To use the new board, try again; to use the earlier board, end all programs and copy {} over the `board.db` beside it", .0.display()
    )]
    Replaced(PathBuf),
    /// The file system of the database has no memory that processes share.
    #[error(
        "the file system of {} cannot share a database between programs; some network file systems cannot. Move the board to a local disk: for a board in a git directory, set `place = \"state\"` in your own orchestra.toml; for a board in your state directory, set `XDG_STATE_HOME`; for a board in `.projects`, move the workspace", .0.display()
    )]
    NoLog(PathBuf),
    /// The list of known databases cannot be used.
    #[error("cannot check whether your programs created the board")]
    Unlisted(#[source] Arc<orchestra_place::ListError>),
    /// Another program uses a board that is to be moved.
    #[error(
        "the board in {} cannot be moved, because {by} and try again", directory.display()
    )]
    Held {
        /// The directory of the board.
        directory: PathBuf,
        /// The programs that use it, as far as the system names them, and the next step.
        by: String,
    },
    /// The database was moved into the checkout.
    #[error(
        "the board in {} was moved into `.projects` of the checkout: start this program again, or run `orchestra board convert repository` to move it back", .0.display()
    )]
    MovedAway(PathBuf),
    /// The directory that the board belongs to was moved.
    #[error(
        "{} was moved to {} while this program had its board open, so nothing was done: start this program again there", from.display(), to.display()
    )]
    DirectoryMoved {
        /// The git directory or the workspace, where it was.
        from: PathBuf,
        /// Where it is now.
        to: PathBuf,
    },
    /// The configuration that decides where the board is was changed since it was opened.
    #[error("{0}, so nothing was done: start this program again")]
    Reconfigured(String),
    /// Another program keeps the database.
    #[error(
        "another program holds a lock on the board; close that program (such as a database browser) and try again"
    )]
    Locked,
    /// The database is damaged.
    #[error(
        "the board's database is damaged. Stop all programs that use it, and run `orchestra doctor --fix` to rebuild it from the readable files"
    )]
    Corrupt,
    /// The full-text index of what is remembered is damaged, or not whole yet.
    #[error(
        "the full-text index of the memories was damaged and is being rebuilt; no memory is lost. Try again in a moment, or run `orchestra memory reindex`"
    )]
    IndexDamaged,
    /// The database was written by a newer program.
    #[error(
        "the board's database has schema {found}, but this program supports schemas up to {known}; update the program"
    )]
    Newer {
        /// The schema found.
        found: i64,
        /// The newest schema this program knows.
        known: i64,
    },
    /// The database was copied to where all checkouts share it.
    #[error(
        "the board of this checkout was moved, and all worktrees share it now; to use it here, set `board = \"repository\"` in orchestra.toml. To move it back, run `orchestra board convert checkout`"
    )]
    Moved,
    /// Too much waits to be written.
    #[error("too many changes are waiting to be written; try again in a moment")]
    Overloaded,
    /// The store was closed, or is closing.
    #[error("the board is closed; restart the program")]
    Closed,
    /// A file or directory of the store could not be used.
    #[error("cannot {attempted}")]
    Io {
        /// What was attempted.
        attempted: &'static str,
        /// Why not.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// A symbolic link, or anything but a file or directory, is in the place of one of the store's.
    #[error(transparent)]
    Misplaced(Arc<orchestra_fs::Error>),
    /// The database failed in another way.
    #[error("the database failed; run `orchestra doctor` if this happens again")]
    Database(#[source] Arc<rusqlite::Error>),
    /// What is stored is not what was written: a value that the board does not know.
    #[error("the database contains an unknown {what}; run `orchestra doctor --fix`")]
    Unknown {
        /// What it was taken for.
        what: &'static str,
    },
    /// The work panicked; it left no trace.
    #[error("an internal error stopped this change; it was not saved")]
    Panicked,
}

/// Why a workspace cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such directory.
    #[error("workspace {} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// A directory of the store is a symbolic link, which is never followed.
    #[error("{} is a symbolic link; replace it by a directory", .0.display())]
    SymbolicLink(PathBuf),
    /// The database cannot be used.
    #[error("cannot open the board of workspace {}", .workspace.display())]
    Fault {
        /// The workspace.
        workspace: PathBuf,
        /// Why not.
        #[source]
        source: Fault,
    },
    /// The database could not be rebuilt from the readable files.
    #[error("cannot rebuild the board from its readable files")]
    Rebuild(#[source] crate::FilesError),
}

/// Why an action was not done. Nothing of it was kept.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ActionError {
    /// The board refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What is asked for is not there, or there is too much of it.
    #[error("{0}")]
    Invalid(String),
    /// What is there forbids to write a document.
    #[error(transparent)]
    Document(#[from] DocumentRefusal),
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why something could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// What is asked for is not there.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The cursor is of another list.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

thread_local! {
    /// Whether the index was found to be damaged on this thread.
    static INDEX_DAMAGE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the full-text index of what is remembered was found to be damaged on this thread since this
/// was asked last. Whoever reads may make an error of its own of what it was told, so that the answer
/// does not say it.
pub(crate) fn index_damage_was_found() -> bool {
    INDEX_DAMAGE.take()
}

impl Fault {
    /// [`Fault::IndexDamaged`], of which [`index_damage_was_found`] tells.
    pub(crate) fn index_damaged() -> Self {
        INDEX_DAMAGE.set(true);
        Self::IndexDamaged
    }

    /// A board that other programs have locked by a file.
    pub(crate) fn held(directory: PathBuf, lock: &Path) -> Self {
        let holders = orchestra_fs::holders(lock);
        let names: Vec<String> = holders.iter().map(ToString::to_string).collect();
        let by = match &names[..] {
            [] => "another program uses it: end that program".to_owned(),
            [name] => format!("{name} uses it: end that program"),
            [names @ .., last] => {
                format!("{} and {last} use it: end these programs", names.join(", "))
            }
        };
        Self::Held { directory, by }
    }

    pub(crate) fn io(attempted: &'static str, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        match source.kind() {
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => Self::DiskFull,
            Kind::ReadOnlyFilesystem | Kind::PermissionDenied => Self::ReadOnly,
            _ => Self::Io {
                attempted,
                source: Arc::new(source),
            },
        }
    }
}

impl From<orchestra_fs::Error> for Fault {
    fn from(error: orchestra_fs::Error) -> Self {
        match error.reason() {
            Reason::System(_) => Self::io("use a file in .projects/.store", error.into_cause()),
            _ => Self::Misplaced(Arc::new(error)),
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::Unknown) if is_of_memory_index(&error) => {
                Self::index_damaged()
            }
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt,
            _ => Self::Database(Arc::new(error)),
        }
    }
}

/// Whether an error is about the full-text index of what is remembered alone: it follows from the
/// rest, which may be sound. Whatever is wrong with its tables, they are named.
fn is_of_memory_index(error: &rusqlite::Error) -> bool {
    let text = match error {
        rusqlite::Error::SqliteFailure(_, text) => text.as_deref(),
        rusqlite::Error::SqlInputError { msg, .. } => Some(msg.as_str()),
        _ => None,
    };
    text.is_some_and(|text| text.contains(MEMORY_INDEX))
}

impl From<rusqlite::Error> for ActionError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Fault(error.into())
    }
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Fault(error.into())
    }
}

impl From<ReadError> for ActionError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Refused(refusal) => Self::Refused(refusal),
            ReadError::Cursor(error) => Self::Invalid(error.to_string()),
            ReadError::Fault(fault) => Self::Fault(fault),
        }
    }
}

impl From<ViewError> for ReadError {
    /// Takes back what this crate's own `View` gave.
    fn from(error: ViewError) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => *error,
            Err(_) => Self::Fault(Fault::Unknown { what: "view" }),
        }
    }
}

impl From<DecideError> for ActionError {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::Refused(refusal) => Self::Refused(refusal),
            DecideError::View(error) => ReadError::from(error).into(),
        }
    }
}
