//! Client settings, guides and configuration files: read with a limit and replaced in one step.
//!
//! In the workspace nothing is reached through a symbolic link. A file of the user's home may be a link to another
//! file of theirs outside the workspace, as those of dotfiles are; that file is then read and replaced.

use std::{
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};

use orchestra_fs::{Access, Directory, Reason};
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
        /// Its owner, and the next step.
        reason: ForeignError,
    },
    /// Not text.
    #[error("{} is not UTF-8 text", .0.display())]
    NotText(PathBuf),
}

impl FileError {
    /// Error of an operation below the directory `root`, which names the path relative to it.
    pub(crate) fn below(root: &Path, action: &'static str, error: orchestra_fs::Error) -> Self {
        let path = error.path().strip_prefix(root).unwrap_or(error.path());
        let path = path.to_owned();
        match error.reason() {
            Reason::SymbolicLink => Self::Symlink(path),
            Reason::NotAFile | Reason::NotADirectory => Self::NotAFile(path),
            Reason::TooLarge { .. } => Self::TooLarge(path),
            _ => Self::Io {
                action,
                path,
                source: error.into_cause(),
            },
        }
    }
}

/// A directory below which files are read and written by relative path.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    directory: PathBuf,
    owners: Option<Owners>,
    /// The workspace, where the directory is one of the user's home.
    outside: Option<PathBuf>,
}

impl Root {
    /// The files below `directory`, which are reached through no symbolic link, of any owner.
    pub(crate) fn new(directory: &Path) -> Self {
        Self::of(directory, None)
    }

    /// The same, of files that belong to `owners`, where they are given.
    pub(crate) fn of(directory: &Path, owners: Option<Owners>) -> Self {
        Self {
            directory: directory.to_owned(),
            owners,
            outside: None,
        }
    }

    /// The files below `directory`: in `workspace` as by [`Root::new`], elsewhere files of the user's home.
    pub(crate) fn near(directory: &Path, workspace: &Path) -> Self {
        let is_inside = directory.starts_with(workspace);
        Self {
            outside: (!is_inside).then(|| workspace.to_owned()),
            ..Self::new(directory)
        }
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
        let opened = match &self.outside {
            Some(workspace) => self
                .target(relative, workspace)
                .and_then(|path| orchestra_fs::open(&path)),
            None => match self.existing(relative)? {
                Some((directory, name)) => directory.open_file(name),
                None => return Ok(None),
            },
        };
        let Some(file) = opened.map_err(self.failed("read"))? else {
            return Ok(None);
        };
        let io = |source| FileError::Io {
            action: "read",
            path: relative.to_owned(),
            source,
        };
        if let Some(owners) = &self.owners {
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

    /// Replaces or creates a file in one step.
    ///
    /// # Errors
    /// When it is reached through a link or cannot be written.
    pub(crate) fn write(
        &self,
        relative: &Path,
        text: &str,
        access: Access,
    ) -> Result<(), FileError> {
        let (above, name) = split(relative);
        let written = match &self.outside {
            Some(workspace) => self.target(relative, workspace).and_then(|path| {
                let directory = path.parent().unwrap_or(&self.directory);
                Directory::make(directory)?;
                orchestra_fs::write(&path, text.as_bytes(), access)
            }),
            None => Directory::make(&self.directory)
                .and_then(|root| root.make_below(above, Access::Shared))
                .and_then(|directory| directory.write(name, text.as_bytes(), access)),
        };
        written.map_err(self.failed("write"))
    }

    /// Removes a file of the workspace, if it is there.
    ///
    /// # Errors
    /// When it is reached through a link or cannot be removed.
    pub(crate) fn remove_file(&self, relative: &Path) -> Result<(), FileError> {
        let Some((directory, name)) = self.existing(relative)? else {
            return Ok(());
        };
        let removed = match directory.open_file(name) {
            Ok(Some(_)) => directory.remove(name).map(drop),
            found => found.map(drop),
        };
        removed.map_err(self.failed("remove"))
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

    /// The directory of a file, reached through no link; `None` where there is none.
    fn existing<'p>(&self, relative: &'p Path) -> Result<Option<(Directory, &'p Path)>, FileError> {
        let (above, name) = split(relative);
        let directory = match Directory::open(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            directory => directory.and_then(|root| root.below(above)),
        };
        let directory = directory.map_err(self.failed("look at"))?;
        Ok(directory.map(|directory| (directory, name)))
    }

    /// The path of a file of the user's home, through a link of theirs.
    fn target(&self, relative: &Path, workspace: &Path) -> orchestra_fs::Result<PathBuf> {
        orchestra_fs::own_target(&self.directory.join(relative), workspace)
    }

    fn failed(&self, action: &'static str) -> impl Fn(orchestra_fs::Error) -> FileError {
        move |error| FileError::below(&self.directory, action, error)
    }
}

/// Splits a relative path into the directory and the name of a file.
fn split(relative: &Path) -> (&Path, &Path) {
    let name = relative.file_name().map_or(relative, Path::new);
    (relative.parent().unwrap_or(Path::new("")), name)
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
        root.write(path, "one", Access::Shared).unwrap();
        root.write(path, "two", Access::Shared).unwrap();
        assert_eq!(root.read(path).unwrap().as_deref(), Some("two"));
        root.write(Path::new("a/kept.txt"), "", Access::Shared)
            .unwrap();
        root.remove_with_directories(path).unwrap();
        assert!(!directory.path().join("a/b").exists());
        assert!(directory.path().join("a/kept.txt").exists());
    }

    #[test]
    fn nothing_is_reached_through_a_link() {
        let outside = tempfile::tempdir().unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), directory.path().join("link")).unwrap();
        let root = Root::new(directory.path());
        let path = Path::new("link/file.txt");
        assert!(matches!(
            root.write(path, "x", Access::Shared),
            Err(FileError::Symlink(_))
        ));
        assert!(matches!(root.read(path), Err(FileError::Symlink(_))));
        assert!(matches!(root.remove_file(path), Err(FileError::Symlink(_))));
        assert!(matches!(
            root.read(Path::new("link")),
            Err(FileError::Symlink(_))
        ));
    }

    #[test]
    fn link_in_the_home_of_the_user_is_replaced_behind_itself() {
        let home = tempfile::tempdir().unwrap();
        let workspace = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        fs::create_dir_all(at("dotfiles")).unwrap();
        fs::create_dir_all(at(".config")).unwrap();
        fs::write(at("dotfiles/a.json"), "before").unwrap();
        std::os::unix::fs::symlink(at("dotfiles/a.json"), at(".config/a.json")).unwrap();
        let root = Root::near(&at(".config"), workspace.path());
        let path = Path::new("a.json");
        assert_eq!(root.read(path).unwrap().as_deref(), Some("before"));
        root.write(path, "after", Access::Private).unwrap();
        assert_eq!(fs::read_to_string(at("dotfiles/a.json")).unwrap(), "after");
        assert!(at(".config/a.json").is_symlink());
        // The same link, where it leads into the workspace, and where it is in the workspace.
        let root = Root::near(&at(".config"), &at("dotfiles"));
        assert!(matches!(root.read(path), Err(FileError::Io { .. })));
        assert!(matches!(
            root.write(path, "x", Access::Shared),
            Err(FileError::Io { .. })
        ));
        let root = Root::near(&at(".config"), home.path());
        assert!(matches!(root.read(path), Err(FileError::Symlink(_))));
        assert!(matches!(
            root.write(path, "x", Access::Shared),
            Err(FileError::Symlink(_))
        ));
        assert_eq!(fs::read_to_string(at("dotfiles/a.json")).unwrap(), "after");
    }
}
