//! Reasons why a workspace has no place for private state. Each is one sentence with the next step.

use std::{io, path::PathBuf};

/// A workspace whose private state cannot be stored. It is never stored in another place instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Neither a repository nor a state directory.
    #[error("the workspace has no place for private state: set HOME or XDG_STATE_HOME")]
    NoState,
    /// A `.git` file that is not one of git.
    #[error("`{}` is not a valid git file (`gitdir: PATH`): repair or remove it", .0.display())]
    NotALink(PathBuf),
    /// A `.git` file or a `commondir` file with the path of something else than a git directory.
    #[error(
        "`{}` names the git directory `{}`, but no git directory is there; run `git worktree repair` in the main \
         checkout, or remove the file",
        file.display(), target.display()
    )]
    Dangling {
        /// The file.
        file: PathBuf,
        /// The directory that it names.
        target: PathBuf,
    },
    /// A git directory that does not lead back to the working tree.
    #[error(
        "`{}` points to the git directory `{}`, which belongs to another working tree. If you moved this worktree, \
         run `git worktree repair` in it; if you did not create the first path, remove it. To work without plans, set \
         `place = \"state\"` in your own orchestra.toml",
        entry.display(), target.display()
    )]
    Elsewhere {
        /// The entry `.git` of the working tree.
        entry: PathBuf,
        /// The git directory.
        target: PathBuf,
    },
    /// A git directory elsewhere that names no working tree.
    #[error(
        "`{}` points to the git directory `{}`, which does not point to any working tree. If you created it (`git \
         init --separate-git-dir`, or a bare repository), add the workspace to `safe_directories` in your own \
         orchestra.toml. To work without plans, set `place = \"state\"` there",
        entry.display(), target.display()
    )]
    Separate {
        /// The entry `.git` of the working tree.
        entry: PathBuf,
        /// The git directory.
        target: PathBuf,
    },
    /// A symbolic link in a git directory that leads out of it.
    #[error(
        "the link `{}` leads out of the git directory to `{}`, where git would change files; replace the link by its \
         target. If you created the link, you can instead add the workspace to `safe_directories` in your own \
         orchestra.toml",
        link.display(), target.display()
    )]
    LinkOut {
        /// The link.
        link: PathBuf,
        /// Its target.
        target: PathBuf,
    },
    /// A git directory with more references, or logs of references, in files of their own than are looked at.
    #[error(
        "`{}` has too many files for a check of its symbolic links; run `git pack-refs --all` in the repository. If \
         that does not help, add the workspace to `safe_directories` in your own orchestra.toml",
        .0.display()
    )]
    LooseReferences(PathBuf),
    /// A git directory whose configuration names another working tree.
    #[error(
        "`{}` sets `core.worktree` to another directory than `{}`; remove that line, or set `place = \"state\"` in \
         your own orchestra.toml to work without plans",
        config.display(), top.display()
    )]
    OtherWorkingTree {
        /// The configuration file.
        config: PathBuf,
        /// The working tree.
        top: PathBuf,
    },
    /// A repository in which git finds another working tree or git directory than its files name.
    #[error(
        "git uses `{}` as the working tree of `{}`, but the files of the git directory do not name that working tree; find the setting `core.worktree` with `git config list --show-origin`",
        top.display(), workspace.display()
    )]
    OtherAnswer {
        /// The workspace.
        workspace: PathBuf,
        /// The working tree of git's answer.
        top: PathBuf,
    },
    /// A git directory, or a configuration file of git in it, of another user.
    #[error(
        "`{}` belongs to another user, who could replace private state in the git directory; run the program as that \
         user, or set `place = \"state\"` in your own orchestra.toml",
        .0.display()
    )]
    AnotherOwner(PathBuf),
    /// A git directory, or a configuration file of git in it, that other users may write.
    #[error(
        "other users can write `{}` (mode {mode:03o}), so they could replace private state in the git directory; run \
         `chmod go-w {}`. If other users need access, set `place = \"state\"` in your own orchestra.toml instead",
        path.display(), orchestra_fs::quoted(path)
    )]
    Writable {
        /// The directory or file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A repository that several users write.
    #[error(
        "`{}` sets `core.sharedRepository`, which lets other users write the git directory; set `place = \"state\"` \
         in your own orchestra.toml",
        .0.display()
    )]
    SharedRepository(PathBuf),
    /// A run directory that is not private.
    #[error(
        "the files in `{}` are not used, because other users can access that directory and could name their own programs in it; if the directory is yours, run `chmod 700` on it",
        .0.display()
    )]
    NotPrivate(PathBuf),
    /// A file or directory of the repository that cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// Answer of the system.
        source: io::Error,
    },
    /// A directory of the place that cannot be created or used.
    #[error(
        "`{}` cannot be used for private state{}",
        path.display(), other_place(*is_repository)
    )]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// Whether it is inside a git directory.
        is_repository: bool,
        /// The reason.
        source: orchestra_fs::Error,
    },
    /// A file in a directory of the place that cannot be used.
    #[error(transparent)]
    File(#[from] orchestra_fs::Error),
}

const fn other_place(is_repository: bool) -> &'static str {
    match is_repository {
        true => "; make it usable, or set `place = \"state\"` in your own orchestra.toml",
        false => "",
    }
}
