//! Which directory is the workspace.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::env::Variable;

/// The directory that makes a directory a workspace.
pub(crate) const PROJECTS: &str = ".projects";

/// The directory of running programs, below [`PROJECTS`]; git ignores it.
pub(crate) const RUN: &str = ".run";

/// The file that calls are recorded in, below [`RUN`].
pub(crate) const AUDIT: &str = "audit.jsonl";

/// A directory that cannot be the workspace.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceError {
    /// There is none.
    #[error("workspace {}: no such directory; create it, or name another with --workspace", .0.display())]
    Missing(PathBuf),
    /// It is something else.
    #[error("workspace {}: it is a file, not a directory; name a directory with --workspace", .0.display())]
    File(PathBuf),
    /// It has no board, and none is made by looking.
    #[error(
        "no board in {}; `orchestra init` makes one there, --workspace names another place", .0.display()
    )]
    NoBoard(PathBuf),
    /// It is the one that the environment names.
    #[error("environment {}", Variable::Workspace)]
    Named {
        /// What is wrong with it.
        source: Box<Self>,
    },
    /// It cannot be looked at.
    #[error("workspace {}", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Finds the workspace: `chosen`, or what the environment names, or the nearest directory upwards from
/// the current one that has `.projects/` or `.git`, or the current one.
///
/// # Errors
/// When the directory does not exist or cannot be read.
pub(crate) fn find(chosen: Option<&Path>) -> Result<PathBuf, WorkspaceError> {
    if let Some(path) = chosen {
        return directory(path);
    }
    if let Some(named) = Variable::Workspace.read() {
        return directory(Path::new(&named)).map_err(|source| WorkspaceError::Named {
            source: Box::new(source),
        });
    }
    let unreadable = |source| WorkspaceError::Unreadable {
        path: ".".into(),
        source,
    };
    let here = std::env::current_dir().map_err(unreadable)?;
    Ok(nearest(&here).map_or_else(|| here.clone(), Path::to_path_buf))
}

/// Whether a workspace has a board. Opening one makes it, so who only looks asks first.
pub(crate) fn has_board(workspace: &Path) -> bool {
    workspace.join(PROJECTS).is_dir()
}

/// Refuses a workspace without a board, for commands that only look.
///
/// # Errors
/// When there is none.
pub(crate) fn check_board(workspace: &Path) -> Result<(), WorkspaceError> {
    if has_board(workspace) {
        Ok(())
    } else {
        Err(WorkspaceError::NoBoard(workspace.to_owned()))
    }
}

/// `path`, made absolute, if it is a directory.
///
/// # Errors
/// When it is none.
pub(crate) fn directory(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let unreadable = |source| WorkspaceError::Unreadable {
        path: path.to_owned(),
        source,
    };
    match path.canonicalize() {
        Ok(absolute) if absolute.is_dir() => Ok(absolute),
        Ok(_) => Err(WorkspaceError::File(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(WorkspaceError::Missing(path.to_owned()))
        }
        Err(error) => Err(unreadable(error)),
    }
}

/// Makes the directory of running programs, for the owner alone, and hands out its path.
///
/// # Errors
/// When it cannot be made, or is a symbolic link, which may lead out of the workspace.
pub(crate) fn run_directory(workspace: &Path) -> io::Result<PathBuf> {
    let path = workspace.join(PROJECTS).join(RUN);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&path)?;
    if fs::symlink_metadata(&path)?.is_symlink() {
        return Err(io::Error::other(
            "it is a symbolic link; replace it by a directory",
        ));
    }
    Ok(path)
}

/// Makes sure that what runs in the workspace is told by nobody but its user: nobody else could have
/// put anything into the directory of running programs.
///
/// # Errors
/// When another user has it, or may change what is in it.
#[cfg(unix)]
pub(crate) fn ensure_run_directory_is_ours(workspace: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let path = workspace.join(PROJECTS).join(RUN);
    let found = fs::symlink_metadata(&path)?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    anyhow::ensure!(
        is_ours && found.mode() & 0o077 == 0,
        "{PROJECTS}/{RUN} is not yours alone, so that no token is shown to who listens there; \
         `chmod 700` it where it is yours"
    );
    Ok(())
}

/// Elsewhere nobody is told apart by the directory.
#[cfg(not(unix))]
pub(crate) fn ensure_run_directory_is_ours(_workspace: &Path) -> anyhow::Result<()> {
    Ok(())
}

/// The nearest directory, `from` included, that looks like a workspace. `.git` is a file in a
/// worktree, so its kind does not matter.
fn nearest(from: &Path) -> Option<&Path> {
    from.ancestors().find(|directory| is_marked(directory))
}

/// Whether a directory looks like a workspace.
pub(crate) fn is_marked(directory: &Path) -> bool {
    directory.join(PROJECTS).is_dir() || directory.join(".git").symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_marked_directory_wins() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        fs::write(root.path().join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(nearest(&deep), Some(root.path()));
        fs::create_dir(root.path().join("a").join(PROJECTS)).unwrap();
        assert_eq!(nearest(&deep), Some(root.path().join("a").as_path()));
    }

    #[test]
    fn a_workspace_that_is_not_there_is_named() {
        let error = find(Some(Path::new("/no/such/place"))).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("workspace /no/such/place: no such directory")
        );
    }
}
