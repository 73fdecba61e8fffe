//! Permissions of new files and directories.

use rustix::fs::Mode;

/// Permissions of a file or directory that is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Its owner alone: 0600, and 0700 for a directory.
    Private,
    /// The permissions that the umask leaves. A file that replaces another one has the permissions of that one.
    Shared,
    /// The permissions that the umask leaves, with those to execute the file.
    Executable,
}

impl Access {
    pub(crate) fn of_file(self) -> Mode {
        Mode::from_bits_truncate(match self {
            Self::Private => 0o600,
            Self::Shared => 0o666,
            Self::Executable => 0o777,
        })
    }

    pub(crate) fn of_directory(self) -> Mode {
        Mode::from_bits_truncate(match self {
            Self::Private => 0o700,
            Self::Shared | Self::Executable => 0o777,
        })
    }
}
