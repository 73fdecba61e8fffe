//! The error of every operation: what was attempted, on which path, and why it failed.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// Result of an operation on files.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on a file or directory that failed or was refused.
#[derive(Debug)]
pub struct Error {
    operation: &'static str,
    path: PathBuf,
    reason: Reason,
}

/// Cause of an [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason {
    /// A symbolic link, which may lead anywhere.
    SymbolicLink,
    /// A directory, pipe, socket or device in the place of a file.
    NotAFile,
    /// A file, pipe, socket or device in the place of a directory.
    NotADirectory,
    /// Not the name of an entry in a directory.
    InvalidName,
    /// The file or directory belongs to another user.
    AnotherOwner,
    /// Other users can write the file.
    WritableByOthers,
    /// All users share the directory, such as `/tmp`.
    Shared,
    /// The file is larger than what is read.
    TooLarge {
        /// Maximum number of bytes.
        limit: u64,
    },
    /// The target of a symbolic link is inside the workspace.
    InsideWorkspace,
    /// The operating system refused the operation.
    System(io::Error),
}

impl Error {
    pub(crate) fn new(operation: &'static str, path: &Path, reason: Reason) -> Self {
        let path = path.to_owned();
        Self {
            operation,
            path,
            reason,
        }
    }

    /// An operation that the operating system refused, or for which there is no content.
    pub fn system(operation: &'static str, path: &Path, error: impl Into<io::Error>) -> Self {
        Self::new(operation, path, Reason::System(error.into()))
    }

    /// Returns the path of the file or directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the cause.
    #[must_use]
    pub const fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Returns the kind of the cause.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match &self.reason {
            Reason::SymbolicLink | Reason::InsideWorkspace => io::ErrorKind::InvalidInput,
            Reason::NotAFile | Reason::InvalidName => io::ErrorKind::InvalidInput,
            Reason::NotADirectory => io::ErrorKind::NotADirectory,
            Reason::AnotherOwner | Reason::WritableByOthers | Reason::Shared => {
                io::ErrorKind::PermissionDenied
            }
            Reason::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            Reason::System(error) => error.kind(),
        }
    }

    /// Returns the cause alone, for an error that names operation and path itself.
    #[must_use]
    pub fn into_cause(self) -> io::Error {
        let kind = self.kind();
        match self.reason {
            Reason::System(error) => error,
            reason => io::Error::new(kind, reason.to_string()),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SymbolicLink => f.write_str(
                "it is a symbolic link; remove it or replace it by a regular file or directory",
            ),
            Self::NotAFile => {
                f.write_str("it is not a regular file; remove it or use another path")
            }
            Self::NotADirectory => f.write_str("it is not a directory; remove it"),
            Self::InvalidName => {
                f.write_str("it does not end in a file name; name a file, without `..`")
            }
            Self::AnotherOwner => {
                f.write_str("it belongs to another user; run as that user or remove it")
            }
            Self::WritableByOthers => f.write_str(
                "other users can write it; check its content and run `chmod go-w` on it",
            ),
            Self::Shared => {
                f.write_str("all users share it; name a directory below it, or another one")
            }
            Self::TooLarge { limit } => write!(f, "it is larger than {limit} bytes; remove it"),
            Self::InsideWorkspace => f.write_str(
                "it is a symbolic link into the workspace; replace it by a regular file",
            ),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operation, path) = (self.operation, self.path.display());
        write!(f, "cannot {operation} `{path}`")?;
        match &self.reason {
            Reason::System(error) => match hint(error.kind()) {
                Some(hint) => write!(f, "; {hint}"),
                None => Ok(()),
            },
            reason => write!(f, ": {reason}"),
        }
    }
}

/// Next step after a failure of the operating system.
const fn hint(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::PermissionDenied => Some("check the owner and mode of it and its directory"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("free disk space"),
        io::ErrorKind::ReadOnlyFilesystem => Some("its file system is mounted read-only"),
        _ => None,
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            Reason::System(error) => Some(error),
            _ => None,
        }
    }
}

/// Text of an error and its cause, for the places where only an [`io::Error`] fits.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let text = match &error.reason {
            Reason::System(cause) => format!("{error}: {cause}"),
            _ => error.to_string(),
        };
        Self::new(error.kind(), text)
    }
}
