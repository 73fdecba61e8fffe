//! Which directory is the workspace, and whose it may be.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use orchestra_mcp::owners::{ForeignError, Owners};
use orchestra_place::{Choice, Place, RunDirectory, Safety};
use orchestra_store::Home;

use crate::{
    board,
    config::{self, Config},
    env::Variable,
    exit::Failure,
    servers,
};

/// The directory that makes a directory a workspace.
pub(crate) const PROJECTS: &str = ".projects";

/// Maximum size of a git configuration that is searched for remotes.
const MAX_GIT_CONFIG_BYTES: u64 = 1 << 20;

/// The file that calls are recorded in, in the run directory.
pub(crate) const AUDIT: &str = "audit.jsonl";

/// A directory that cannot be the workspace.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceError {
    /// There is none.
    #[error("workspace {}: no such directory; create it, or name another with --workspace", .0.display())]
    Missing(PathBuf),
    /// It is something else.
    #[error("workspace {} is a file, not a directory; name a directory with --workspace", .0.display())]
    File(PathBuf),
    /// It has no board, and commands that only look create none.
    #[error(
        "no board in {}; create one with `orchestra init`, or name another workspace with --workspace", .0.display()
    )]
    NoBoard(PathBuf),
    /// It has no board, but its repository has a remote, which may have one.
    #[error(
        "no board in {}; fetch the board of the git remote with `orchestra sync`, or create a board with `orchestra \
         init`. To use another workspace, pass --workspace", .0.display()
    )]
    NoBoardInClone(PathBuf),
    /// Neither it nor the remote of its repository has a board.
    #[error(
        "no board in {}, and none at the git remote. Run `orchestra sync` first in the clone that has the board, or \
         create a board with `orchestra init`. To use another workspace, pass --workspace", .0.display()
    )]
    NoBoardAtRemote(PathBuf),
    /// It has no board, and that of the main checkout is in files which travel with commits.
    #[error(
        "no board in {}: the board of the main checkout {} is in the files of its branch (mode `checkout`). Commit \
         these files there and merge that branch, or create a separate board with `orchestra init`", workspace.display(), main.display()
    )]
    NoBoardOnBranch {
        /// The directory.
        workspace: PathBuf,
        /// The directory in the main checkout.
        main: PathBuf,
    },
    /// Its board is among the files that git tracks, and they are not in the checkout: it is sparse, or they were removed.
    #[error(
        "no board in {}: git tracks `.projects`, but the directory is missing in the checkout; run `git restore \
         .projects`. In a sparse checkout, run `git sparse-checkout add .projects`", .0.display()
    )]
    NotCheckedOut(PathBuf),
    /// Its board has no place.
    #[error("{0}")]
    NoPlace(String),
    /// The directory that the environment names.
    #[error("environment {}", Variable::Workspace)]
    Named {
        /// Fault of the directory.
        source: Box<Self>,
    },
    /// It, or the board in it, is not the user's alone.
    #[error("workspace {}", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner, and the next step.
        source: ForeignError,
    },
    /// It is the home or the root directory, where no board is created.
    #[error(
        "cannot create a board in {}: this is {what}, and the board would apply to every directory below it. Run \
         `orchestra init` in the directory of a project, or pass such a directory with --workspace",
        path.display()
    )]
    TooWide {
        /// The directory.
        path: PathBuf,
        /// Which of them it is.
        what: &'static str,
    },
    /// It is a git directory, such as a bare repository.
    #[error(
        "cannot create a board in {}, because it is a git directory; run `orchestra init` in a worktree of the \
         repository, or pass that worktree with --workspace", .0.display()
    )]
    GitDirectory(PathBuf),
    /// It cannot be looked at.
    #[error("workspace {}", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Finds the workspace: `chosen`, or the directory that the environment names, or the nearest directory upwards
/// from the current one that has `.projects/` or `.git`, or the current one. The search ends below the home
/// directory, and where another file system begins.
///
/// # Errors
/// When the directory does not exist, cannot be read, or is not the user's alone. A directory of another user ends
/// the search: a workspace farther up or down is not what the user expects there.
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
    let found = nearest(&here, home().as_deref()).unwrap_or(&here);
    // In a linked worktree nothing marks a workspace below the top of the repository.
    let shared = match found.join(PROJECTS).is_dir() {
        true => None,
        false => board::nearest_shared(&here, found),
    };
    check_owner(shared.unwrap_or(found).to_owned())
}

/// The users whose files and directories are used: the current one, and for root the user of `sudo`, as git has it.
pub(crate) fn owners() -> Owners {
    let sudo = Variable::SudoUid.read();
    let sudo = sudo.and_then(|uid| uid.to_str()?.parse().ok());
    Owners::current(sudo).with_user_file(config::user_file())
}

/// Refuses the home, the root and a git directory, for commands that create a board or files beside it.
///
/// # Errors
/// When it is one of them.
pub(crate) fn check_narrow(workspace: &Path) -> Result<(), WorkspaceError> {
    let is_git_directory = workspace.join("HEAD").is_file()
        && ["objects", "refs"]
            .iter()
            .all(|name| workspace.join(name).is_dir());
    if is_git_directory {
        return Err(WorkspaceError::GitDirectory(workspace.to_owned()));
    }
    let what = match workspace {
        path if path.parent().is_none() => "the root directory",
        path if home().is_some_and(|home| home == path) => "your home directory",
        _ => return Ok(()),
    };
    let path = workspace.to_owned();
    Err(WorkspaceError::TooWide { path, what })
}

/// Returns whether a workspace has a board. Commands that only look ask first, since opening creates one.
pub(crate) fn has_board(workspace: &Path) -> bool {
    has_board_at(workspace, None) || has_board_at(workspace, board::home(workspace).ok().as_ref())
}

/// [`has_board`] of a workspace whose board would be there; `None` where it has no place.
pub(crate) fn has_board_at(workspace: &Path, home: Option<&Home>) -> bool {
    workspace.join(PROJECTS).is_dir() || home.is_some_and(board::is_shared_or_mirrored)
}

/// Refuses a workspace without a board, for commands that only look. `orchestra init` is named as the next step only
/// where it would create one.
///
/// # Errors
/// When there is none.
pub(crate) fn check_board(workspace: &Path) -> Result<(), WorkspaceError> {
    if has_board(workspace) {
        return Ok(());
    }
    check_narrow(workspace)?;
    check_checked_out(workspace)?;
    match board::home(workspace) {
        Ok(Home::Shared(_)) if has_remote(workspace) => {
            Err(WorkspaceError::NoBoardInClone(workspace.to_owned()))
        }
        Ok(home) => Err(match main_board(workspace, &home) {
            Some(main) => WorkspaceError::NoBoardOnBranch {
                workspace: workspace.to_owned(),
                main,
            },
            None => WorkspaceError::NoBoard(workspace.to_owned()),
        }),
        Err(failure) => Err(WorkspaceError::NoPlace(failure.text())),
    }
}

/// Returns the directory of a linked worktree's workspace in the main checkout, if a board is in the files there.
fn main_board(workspace: &Path, home: &Home) -> Option<PathBuf> {
    if matches!(home, Home::Shared(_)) {
        return None;
    }
    let place = place(workspace).ok()?;
    let main = place.main().filter(|main| *main != workspace)?;
    main.join(PROJECTS).is_dir().then(|| main.to_owned())
}

/// Refuses a workspace without a board whose readable files git tracks. A board that began there would have the ids of
/// these files again, and would write over them.
///
/// # Errors
/// When git tracks them.
pub(crate) fn check_checked_out(workspace: &Path) -> Result<(), WorkspaceError> {
    match orchestra_place::is_tracked(&workspace.join(PROJECTS)) {
        true => Err(WorkspaceError::NotCheckedOut(workspace.to_owned())),
        false => Ok(()),
    }
}

/// Hint for an empty board whose repository has a remote, which may have a board. Starts no program.
pub(crate) fn remote_hint(config: &Config) -> Option<&'static str> {
    let may_have_board =
        matches!(config.home(), Ok(Home::Shared(_))) && has_remote(&config.workspace);
    may_have_board.then_some(
        "the board is empty; `orchestra sync` fetches the board of the git remote, if it has one",
    )
}

/// Returns whether the git configuration of a workspace's repository names a remote.
fn has_remote(workspace: &Path) -> bool {
    let found = orchestra_place::repository(workspace, config::safety(workspace));
    let config = found
        .and_then(|(git, _)| orchestra_fs::read(&git.join("config"), MAX_GIT_CONFIG_BYTES).ok()?);
    config.is_some_and(|text| String::from_utf8_lossy(&text).contains("[remote \""))
}

/// `path`, made absolute, if it is a directory of the user.
///
/// # Errors
/// When it is none.
pub(crate) fn directory(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let unreadable = |source| WorkspaceError::Unreadable {
        path: path.to_owned(),
        source,
    };
    match path.canonicalize() {
        Ok(absolute) if absolute.is_dir() => check_owner(absolute),
        Ok(_) => Err(WorkspaceError::File(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(WorkspaceError::Missing(path.to_owned()))
        }
        Err(error) => Err(unreadable(error)),
    }
}

/// Finds the place of a workspace's private state, and creates nothing. A place in a repository is found once: a process
/// has it as long as the git directory exists, so that its board, its plans and its locks are in the same one.
///
/// # Errors
/// When its repository or the user's configuration cannot be used, and when a state directory is needed and there
/// is none.
pub(crate) fn place(workspace: &Path) -> Result<Place, Failure> {
    place_as(workspace, || config::place(workspace))
}

/// [`place`] of a workspace for these settings of the user.
///
/// # Errors
/// Those of [`place`].
pub(crate) fn place_as(
    workspace: &Path,
    settings: impl FnOnce() -> Result<(Choice, Safety), Failure>,
) -> Result<Place, Failure> {
    static FOUND: Mutex<BTreeMap<PathBuf, Place>> = Mutex::new(BTreeMap::new());
    let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let known = found().get(workspace).cloned();
    if let Some(place) = known.filter(|place| place.base().is_dir()) {
        return Ok(place);
    }
    let place = find_place(workspace, settings())?;
    if place.is_in_repository() {
        found().insert(workspace.to_owned(), place.clone());
    }
    Ok(place)
}

/// Finds the place of a workspace for these settings of the user, whatever was found before.
///
/// # Errors
/// Those of [`place`].
pub(crate) fn find_place(
    workspace: &Path,
    settings: Result<(Choice, Safety), Failure>,
) -> Result<Place, Failure> {
    let state = servers::state_directory().ok();
    let (choice, safety) = settings?;
    Place::find_as(workspace, state.as_deref(), choice, safety)
        .map_err(|error| Failure::Failed(error.into()))
}

/// The run directory of a workspace, which may not exist yet.
///
/// # Errors
/// When the workspace has no place for private state.
pub(crate) fn run_directory(config: &Config) -> anyhow::Result<RunDirectory> {
    run_directory_of(&config.workspace, config.home())
}

/// [`run_directory`] of a workspace whose board is there.
///
/// # Errors
/// Those of [`run_directory`].
pub(crate) fn run_directory_of(
    workspace: &Path,
    home: Result<Home, Failure>,
) -> anyhow::Result<RunDirectory> {
    let text = |failure: Failure| anyhow::Error::msg(failure.text());
    Ok(match home.map_err(text)? {
        Home::Shared(home) => RunDirectory::shared(home.place().clone()),
        Home::Checkout => RunDirectory::new(place(workspace).map_err(text)?),
    })
}

/// Refuses a workspace that is not the user's alone, and one whose board is not.
fn check_owner(workspace: PathBuf) -> Result<PathBuf, WorkspaceError> {
    let owners = owners();
    for path in [workspace.clone(), workspace.join(PROJECTS)] {
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            // The store reports a board that cannot be read.
            Err(_) if path != workspace => continue,
            Err(source) => return Err(WorkspaceError::Unreadable { path, source }),
        };
        match owners.check(&path, &metadata) {
            Err(source) if !config::is_safe(&workspace) => {
                return Err(WorkspaceError::Foreign { path, source });
            }
            _ => {}
        }
    }
    Ok(workspace)
}

/// The user's home directory, without links.
fn home() -> Option<PathBuf> {
    Variable::Home.directory()?.canonicalize().ok()
}

/// The nearest directory, `from` included, that looks like a workspace. Neither the home directory nor a directory
/// of another file system is looked at, unless it is `from`.
fn nearest<'a>(from: &'a Path, home: Option<&Path>) -> Option<&'a Path> {
    let starts_on = file_system(from);
    for directory in from.ancestors() {
        let is_home = Some(directory) == home;
        if directory != from && (is_home || file_system(directory) != starts_on) {
            return None;
        }
        if is_marked(directory) {
            return Some(directory);
        }
        if is_home {
            return None;
        }
    }
    None
}

/// The file system that a directory is on, where the system numbers them.
fn file_system(directory: &Path) -> Option<u64> {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::dev(&fs::metadata(directory).ok()?).into();
    #[cfg(not(unix))]
    return None;
}

/// Returns whether a directory looks like a workspace. `.git` is a file in a worktree, so its kind does not matter; it marks
/// the top of a repository, where the search ends.
pub(crate) fn is_marked(directory: &Path) -> bool {
    directory.join(PROJECTS).is_dir() || directory.join(".git").symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_marked_directory_below_home_is_the_workspace() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let (first, deep) = (root.join("a"), root.join("a/b/c"));
        fs::create_dir_all(&deep).unwrap();
        fs::write(root.join(".git"), "gitdir: elsewhere").unwrap();
        for home in [None, root.parent()] {
            assert_eq!(nearest(&deep, home), Some(root));
        }
        for home in [root, &first, &deep] {
            assert_eq!(nearest(&deep, Some(home)), None);
        }
        assert_eq!(nearest(root, Some(root)), Some(root));
        fs::create_dir(first.join(PROJECTS)).unwrap();
        assert_eq!(nearest(&deep, None), Some(&*first));
    }

    #[test]
    fn place_in_a_repository_is_found_once_while_the_git_directory_exists() {
        let root = tempfile::tempdir().unwrap();
        let workspace = root.path().canonicalize().unwrap();
        let git = workspace.join(".git");
        for name in ["objects", "refs"] {
            fs::create_dir_all(git.join(name)).unwrap();
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let first = place(&workspace).unwrap();
        assert!(first.shared().starts_with(&git));
        // It is refused where it is found.
        let config = "[core]\n\tworktree = ../elsewhere\n";
        fs::write(git.join("config"), config).unwrap();
        assert_eq!(place(&workspace).unwrap(), first);
        fs::rename(&git, workspace.join("renamed")).unwrap();
        assert!(!place(&workspace).is_ok_and(|place| place == first));
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
