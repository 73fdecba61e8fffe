//! Files of the workspace outside `.projects/`: read with a limit, replaced in one step, never
//! reached through a symbolic link.

use std::{
    fs, io,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use orchestra_mcp::owners::{ForeignError, Owners};

/// The largest file that is read; client settings and guides are far smaller.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which path, relative to the workspace.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A part of the path is a symbolic link, which may lead out of the workspace.
    #[error("{} is a symbolic link; replace it by a real file or directory", .0.display())]
    Symlink(PathBuf),
    /// Not a regular file.
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// Too large to be what it should be.
    #[error("{} is larger than {MAX_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
    /// Not the user's alone.
    #[error("{}: {reason}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Whose it is, and the next step.
        reason: ForeignError,
    },
    /// Not text.
    #[error("{} is not UTF-8 text", .0.display())]
    NotText(PathBuf),
}

/// A directory below which files are read and written by relative path.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    directory: PathBuf,
    owners: Option<Owners>,
}

impl Root {
    /// The files below `directory`, whoever owns them.
    pub(crate) fn new(directory: &Path) -> Self {
        Self::of(directory, None)
    }

    /// The files below `directory` that belong to `owners`, where they are given.
    pub(crate) fn of(directory: &Path, owners: Option<Owners>) -> Self {
        let directory = directory.to_owned();
        Self { directory, owners }
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    /// The text of a file; `None` when there is none.
    ///
    /// # Errors
    /// When it is reached through a link, is not the user's alone, is too large, is no text, or cannot be read.
    pub(crate) fn read(&self, relative: &Path) -> Result<Option<String>, FileError> {
        if !self.check(relative)? {
            return Ok(None);
        }
        let io = |source| FileError::Io {
            action: "read",
            path: relative.to_owned(),
            source,
        };
        let file = fs::File::open(self.directory.join(relative)).map_err(io)?;
        if let Some(owners) = self.owners {
            let metadata = file.metadata().map_err(io)?;
            let path = relative.to_owned();
            owners
                .check(relative, &metadata)
                .map_err(|reason| FileError::Foreign { path, reason })?;
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(io)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(FileError::TooLarge(relative.to_owned()));
        }
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| FileError::NotText(relative.to_owned()))
    }

    /// Replaces or creates a file in one step. An existing file keeps its permissions, unless
    /// `mode` asks for others.
    ///
    /// # Errors
    /// When it is reached through a link or cannot be written.
    pub(crate) fn write(&self, relative: &Path, text: &str, mode: Mode) -> Result<(), FileError> {
        let exists = self.check(relative)?;
        let io = |source| FileError::Io {
            action: "write",
            path: relative.to_owned(),
            source,
        };
        let target = self.directory.join(relative);
        let parent = target.parent().unwrap_or(&self.directory);
        fs::create_dir_all(parent).map_err(io)?;
        let mut temporary = tempfile::Builder::new()
            .prefix(".orchestra-")
            .tempfile_in(parent)
            .map_err(io)?;
        temporary.write_all(text.as_bytes()).map_err(io)?;
        let permissions = match mode {
            Mode::Keep if exists => Some(fs::metadata(&target).map_err(io)?.permissions()),
            mode => mode.permissions(),
        };
        if let Some(permissions) = permissions {
            temporary
                .as_file()
                .set_permissions(permissions)
                .map_err(io)?;
        }
        temporary.as_file().sync_all().map_err(io)?;
        temporary
            .persist(&target)
            .map_err(|error| io(error.error))?;
        Ok(())
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// When it is reached through a link or cannot be removed.
    pub(crate) fn remove_file(&self, relative: &Path) -> Result<(), FileError> {
        if !self.check(relative)? {
            return Ok(());
        }
        let io = |source| FileError::Io {
            action: "remove",
            path: relative.to_owned(),
            source,
        };
        fs::remove_file(self.directory.join(relative)).map_err(io)
    }

    /// Removes a file, and the directories above it that are empty then, up to the root.
    ///
    /// # Errors
    /// When it is reached through a link or cannot be removed.
    pub(crate) fn remove_with_directories(&self, relative: &Path) -> Result<(), FileError> {
        self.remove_file(relative)?;
        for directory in relative
            .ancestors()
            .skip(1)
            .filter(|path| !path.as_os_str().is_empty())
        {
            // Fails on the first directory that holds something, which ends the walk.
            if fs::remove_dir(self.directory.join(directory)).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Whether there is a regular file at `relative`, reached through no link.
    fn check(&self, relative: &Path) -> Result<bool, FileError> {
        let mut path = self.directory.clone();
        let mut exists = true;
        for part in relative.components() {
            path.push(part);
            match fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_symlink() => {
                    let shown = path.strip_prefix(&self.directory).unwrap_or(relative);
                    return Err(FileError::Symlink(shown.to_owned()));
                }
                Ok(metadata) => exists = metadata.is_file(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(source) => {
                    let path = relative.to_owned();
                    return Err(FileError::Io {
                        action: "look at",
                        path,
                        source,
                    });
                }
            }
        }
        if exists {
            Ok(true)
        } else {
            Err(FileError::NotAFile(relative.to_owned()))
        }
    }
}

/// The permissions of a file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As it was; readable by everyone when it is new.
    Keep,
    /// A program.
    Executable,
    /// For the owner alone.
    Private,
}

impl Mode {
    #[cfg(unix)]
    #[expect(
        clippy::unnecessary_wraps,
        reason = "other systems have no such permissions"
    )]
    fn permissions(self) -> Option<fs::Permissions> {
        use std::os::unix::fs::PermissionsExt as _;
        let bits = match self {
            Self::Keep => 0o644,
            Self::Executable => 0o755,
            Self::Private => 0o600,
        };
        Some(fs::Permissions::from_mode(bits))
    }

    #[cfg(not(unix))]
    fn permissions(self) -> Option<fs::Permissions> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_and_their_empty_directories_go_with_them() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        let path = Path::new("a/b/c.txt");
        assert_eq!(root.read(path).unwrap(), None);
        root.write(path, "one", Mode::Keep).unwrap();
        root.write(path, "two", Mode::Keep).unwrap();
        assert_eq!(root.read(path).unwrap().as_deref(), Some("two"));
        root.write(Path::new("a/kept.txt"), "", Mode::Keep).unwrap();
        root.remove_with_directories(path).unwrap();
        assert!(!directory.path().join("a/b").exists());
        assert!(directory.path().join("a/kept.txt").exists());
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_reached_through_a_link() {
        let outside = tempfile::tempdir().unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), directory.path().join("link")).unwrap();
        let root = Root::new(directory.path());
        let path = Path::new("link/file.txt");
        assert!(matches!(
            root.write(path, "x", Mode::Keep),
            Err(FileError::Symlink(_))
        ));
        assert!(matches!(root.read(path), Err(FileError::Symlink(_))));
        assert!(matches!(root.remove_file(path), Err(FileError::Symlink(_))));
        assert!(matches!(
            root.read(Path::new("link")),
            Err(FileError::Symlink(_))
        ));
    }
}
