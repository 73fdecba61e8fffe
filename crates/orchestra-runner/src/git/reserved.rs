//! Paths that no result of a job brings into a checkout: directories of Orchestra, readable files of a board that is
//! in the git directory, and bare repositories, whose configuration names programs.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use orchestra_fs::folded;
use orchestra_plan::ids::Commit;

use super::{
    ChangeKind, EXCLUDED, GitError, Repository,
    commit::{NAMED, listed},
    repository::BOARD,
};

/// Entries by which git recognizes a bare repository: `HEAD`, and the two directories or the file that names another
/// directory.
const PARTS: [&str; 4] = ["head", "objects", "refs", "commondir"];

/// Files of a bare repository that name programs, or other such files.
pub(super) const SETTINGS: [&str; 3] = ["config", "config.worktree", "commondir"];

/// Rule for the readable files of a board in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoardPaths<'a> {
    /// They are part of the commits.
    Committed,
    /// They mirror a board in the git directory, and belong to no commit. The path is that of the board's workspace
    /// below the top of the repository. Boards of other directories are not affected.
    Refused(&'a Path),
}

/// Reason why a result, or a worktree in which an agent would work, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathRefusal {
    /// It has new files in directories of Orchestra.
    #[error("the result has new files in `.worktrees` or `.orchestrator`, which are reserved for Orchestra; remove these files: {}", listed(.0))]
    Own(Vec<PathBuf>),
    /// It changes the readable files of a board in the git directory.
    #[error("the result changes the board's files in `.projects`, but commits must not contain the board of this workspace. Undo these changes, and change the board with its tools: {}", listed(.0))]
    Board(Vec<PathBuf>),
    /// A new path with the name of the board's directory is no directory.
    #[error("`.projects` must be a directory, because a board is stored in it; remove these links or files of that name: {}", listed(.0))]
    NotADirectory(Vec<PathBuf>),
    /// It has new bare repositories, or changes the configuration of one.
    #[error("the result adds bare git repositories or changes their configuration, and git would use that configuration. Rename `HEAD` in these directories: {}", listed(.0))]
    Bare(Vec<PathBuf>),
    /// The worktree has repositories that commands in the sandbox may have configured.
    #[error("these directories are separate git repositories, whose configuration can name programs that an agent's git would run. Remove their `.git`, or rename `HEAD` if they are bare repositories: {}", listed(.0))]
    Repositories(Vec<PathBuf>),
}

impl Repository {
    /// Checks the paths that a commit adds to all of these commits or changes in all of them.
    ///
    /// # Errors
    /// The outer error is git's; the inner one names the paths.
    pub async fn check_paths(
        &self,
        bases: &[&Commit],
        commit: &Commit,
        board: BoardPaths<'_>,
    ) -> Result<Result<(), PathRefusal>, GitError> {
        // The new paths, and for each whether no base has it.
        let mut changed: Option<BTreeMap<PathBuf, bool>> = None;
        for base in bases {
            let changes = self.changed_paths(base, commit).await?;
            let paths = changes
                .into_iter()
                .filter(|change| change.kind != ChangeKind::Deleted)
                .map(|change| (change.path, change.kind == ChangeKind::Added));
            changed = Some(match changed {
                None => paths.collect(),
                Some(before) => paths
                    .filter_map(|(path, is_new)| {
                        let was_new = *before.get(&path)?;
                        Some((path, is_new && was_new))
                    })
                    .collect(),
            });
        }
        let changed = changed.unwrap_or_default();
        if let Some(refusal) = refusal(&changed, board) {
            return Ok(Err(refusal));
        }
        let may_be_bare = |path: &Path| {
            let path = folded(&path.to_string_lossy());
            // Directories with the name of such a file are frequent, and are no settings.
            path.rsplit('/')
                .next()
                .is_some_and(|name| SETTINGS.contains(&name))
                || path.split('/').any(|name| PARTS.contains(&name))
        };
        if !changed.keys().any(|path| may_be_bare(path)) {
            return Ok(Ok(()));
        }
        let mut bare = self.bare_directories(commit).await?;
        if bare.is_empty() {
            return Ok(Ok(()));
        }
        let folded_paths: BTreeSet<String> = changed
            .keys()
            .map(|path| folded(&path.to_string_lossy()))
            .collect();
        for base in bases {
            for known in self.bare_directories(base).await? {
                let mut settings = SETTINGS.iter().map(|name| format!("{known}{name}"));
                if !settings.any(|path| folded_paths.contains(&path)) {
                    bare.remove(&known);
                }
            }
        }
        let paths = bare.into_iter().map(PathBuf::from);
        let paths: Vec<PathBuf> = paths.take(NAMED).collect();
        Ok(match paths.is_empty() {
            true => Ok(()),
            false => Err(PathRefusal::Bare(paths)),
        })
    }

    /// The directories of a commit in which git finds a bare repository.
    pub(super) async fn bare_directories(
        &self,
        commit: &Commit,
    ) -> Result<BTreeSet<String>, GitError> {
        let arguments = [
            "ls-tree",
            "-r",
            "-z",
            "--name-only",
            "--full-tree",
            commit.as_str(),
        ];
        let call = self.call("list the files of a commit", arguments);
        let answer = call.on(commit).run().await?;
        let paths = answer
            .fields()
            .map(|field| Path::new(OsStr::from_bytes(field)));
        Ok(bare(paths))
    }
}

/// Returns why changed paths are refused by their names. A value is set where no base has the path.
fn refusal(changed: &BTreeMap<PathBuf, bool>, board: BoardPaths<'_>) -> Option<PathRefusal> {
    let refused = match board {
        BoardPaths::Committed => None,
        BoardPaths::Refused(workspace) => {
            let directory = workspace.join(BOARD);
            Some(folded(&directory.to_string_lossy()))
        }
    };
    let own = EXCLUDED.map(|name| name.trim_end_matches('/'));
    let (mut of_own, mut of_board, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for (path, is_new) in changed {
        let text = folded(&path.to_string_lossy());
        if *is_new
            && text
                .split('/')
                .next()
                .is_some_and(|name| own.contains(&name))
        {
            of_own.push(path.clone());
        }
        if *is_new && text.rsplit('/').next() == Some(BOARD) {
            files.push(path.clone());
        } else if refused
            .as_ref()
            .is_some_and(|directory| Path::new(&text).starts_with(directory))
        {
            of_board.push(path.clone());
        }
    }
    let named = |mut paths: Vec<PathBuf>| {
        paths.truncate(NAMED);
        (!paths.is_empty()).then_some(paths)
    };
    let own = named(of_own).map(PathRefusal::Own);
    let own = own.or_else(|| named(files).map(PathRefusal::NotADirectory));
    own.or_else(|| named(of_board).map(PathRefusal::Board))
}

/// The directories that are bare repositories, as a file system without case has them: each ends in `/`, save the root.
fn bare<'a>(paths: impl Iterator<Item = &'a Path>) -> BTreeSet<String> {
    let mut found: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for path in paths {
        let path = folded(&path.to_string_lossy());
        let mut directory = String::new();
        for name in path.split('/') {
            // A link, a file or a submodule of such a name counts as well.
            if let Some(part) = PARTS.into_iter().find(|part| *part == name) {
                if let Some(parts) = found.get_mut(&directory) {
                    parts.insert(part);
                } else {
                    found.insert(directory.clone(), BTreeSet::from([part]));
                }
            }
            directory.push_str(name);
            directory.push('/');
        }
    }
    found.retain(|_, parts| {
        let has = |name: &str| parts.contains(name);
        has("head") && (has("commondir") || (has("objects") && has("refs")))
    });
    found.into_keys().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_repositories_are_recognized_in_any_case() {
        for (paths, expected) in [
            (&["a/HEAD", "a/objects/x", "a/refs/x"][..], &["a/"][..]),
            (&["a/b/head", "A/b/Objects", "a/B/refs"], &["a/b/"]),
            (&["a/HEAD", "a/commondir"], &["a/"]),
            (&["HEAD", "objects/x", "refs/x"], &[""]),
            (&["a/HEAD", "a/objects/x", "b/refs/x"], &[]),
            (&["a/objects/x", "a/refs/x", "a/config"], &[]),
        ] {
            let found: Vec<String> = bare(paths.iter().map(Path::new)).into_iter().collect();
            assert_eq!(found, expected, "{paths:?}");
        }
    }
}
