//! What a shell line or a program may reach where jobs are in a sandbox.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use orchestra_place::IN_GIT;
use orchestra_plan::{
    event::{Failure, FailureKind},
    work::WorkSpec,
};
use orchestra_process::Sandbox;

use super::Cx;
use crate::{
    git::{WORKTREES, Worktree},
    plans::Options,
    runner::host::git_failure,
    supervise::Order,
};

/// Its home and its temporary files, in the git directory of its worktree, with which they go.
const OWN: &str = "orchestra-home";

/// Directory for bytecode of Python outside of a sandbox, in the git directory of the worktree. No sandbox opens it for
/// writing.
const BYTECODE: &str = "orchestra-bytecode";

/// Variable with this directory.
const BYTECODE_VARIABLE: &str = "PYTHONPYCACHEPREFIX";

/// Directories of other git directories inside a git directory, and whether these may be at any depth.
const NESTED: [(&str, bool); 2] = [("worktrees", false), ("modules", true)];

/// Variables that lead there, unless the plan says otherwise.
const HOMES: [&str; 2] = ["HOME", "TMPDIR"];

/// Puts a run into the sandbox, if the options ask for one or the settings did when the plan was created: it reads and
/// writes its worktree and a directory of its own, and reads the repository and what is linked from the user's checkout.
/// It reaches the board over a descriptor that it inherits; no socket that has a name is open to it. Without a sandbox it
/// has variables of its own.
pub(super) async fn confine(
    cx: &Cx<'_>,
    options: &Options,
    spec: &WorkSpec,
    order: &mut Order,
) -> Result<(), Failure> {
    let (mut paths, mut read_only, protected) = match &options.sandbox {
        Sandbox::Workspace {
            paths,
            read_only,
            protected,
        } => (paths.clone(), read_only.clone(), protected.clone()),
        Sandbox::None if cx.assignment.sandboxed => (Vec::new(), Vec::new(), Vec::new()),
        Sandbox::None => {
            for (name, value) in &options.unconfined {
                let entry = order.environment.entry(name.clone());
                entry.or_insert_with(|| value.clone());
            }
            set_bytecode(order, &cx.worktree().await?);
            return Ok(());
        }
    };
    let (repository, worktree) = (cx.repository().await?, cx.worktree().await?);
    let noted = worktree.expect_repositories();
    noted.map_err(|error| git_failure(&error))?;
    let own = worktree.directory().join(OWN);
    let mut directory = DirBuilder::new();
    if let Err(error) = directory.mode(0o700).create(&own)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        let words = format!("cannot make `{}`: {error}", own.display());
        return Err(Failure::new(FailureKind::Storage, words));
    }
    let (settings, job) = (&cx.assignment.settings, &cx.assignment.job);
    let envs = [&settings.env, &job.env, &spec.env];
    for name in HOMES {
        let is_said = envs
            .iter()
            .any(|env| env.iter().any(|(said, _)| said == name));
        if !is_said {
            order.environment.insert(name.into(), own.clone().into());
        }
    }
    paths.extend([worktree.path().to_owned(), own]);
    // The sandbox follows no links. A directory below the worktree was resolved when it was checked.
    if order.directory == worktree.path() {
        order.directory = resolved(worktree.path());
    }
    let common = repository.common_directory();
    let readable = readable(common).map_err(|error| {
        let words = format!("cannot list `{}`: {error}", common.display());
        Failure::new(FailureKind::Storage, words)
    })?;
    read_only.extend(readable);
    if let Some(server) = &options.board {
        let mut server = server.clone();
        let job = &cx.assignment.job.producer_id;
        let name = format!("{}/{job}", cx.assignment.plan);
        server.arguments.push(name.into());
        let environment = options.environment.iter();
        let environment = environment.map(|(name, value)| (name.clone(), value.clone()));
        server.environment.extend(environment);
        read_only.push(server.program.clone());
        order.board = Some(server);
    }
    for path in paths.iter_mut().chain(&mut read_only) {
        *path = resolved(path);
    }
    // A job that sets up its worktree by a command has no links.
    let has_links = settings.worktree_init.is_empty();
    for path in settings
        .additional_symlink_dirs
        .iter()
        .filter(|_| has_links)
    {
        let private = options.closed.iter().chain([&options.storage]);
        let real = linked(repository.toplevel(), common, path.as_str(), private)?;
        read_only.extend(real);
    }
    order.sandbox = Sandbox::Workspace {
        paths,
        read_only,
        protected,
    };
    Ok(())
}

/// Sets the variable by which Python reads and writes bytecode outside of the worktree, unless it is set. A job in a
/// sandbox may leave bytecode there that has the time and size of a source, and would run in its place.
pub(super) fn set_bytecode(order: &mut Order, worktree: &Worktree) {
    let entry = order.environment.entry(BYTECODE_VARIABLE.into());
    entry.or_insert_with(|| worktree.directory().join(BYTECODE).into());
}

/// A path without symbolic links, where it exists.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Resolves a directory of the user's checkout that the job reads, if it is there. It was checked when it was linked, and
/// other programs may have changed it since. It has none of the `private` directories in it.
fn linked<'p>(
    top: &Path,
    git: &Path,
    path: &str,
    private: impl Iterator<Item = &'p PathBuf>,
) -> Result<Option<PathBuf>, Failure> {
    let Ok(real) = top.join(path).canonicalize() else {
        return Ok(None);
    };
    let (top, git) = (resolved(top), resolved(git));
    // A working tree may be in the directory of a bare repository.
    let is_git = real.starts_with(&git) && !top.starts_with(&git);
    if !real.starts_with(&top) || is_git || real.starts_with(top.join(WORKTREES)) {
        let words = format!(
            "`{path}` of `additionalSymlinkDirs` changed: it leads out of the working tree, to `{}`; find the program that \
             changes it, and retry the job",
            real.display()
        );
        return Err(Failure::new(FailureKind::Unavailable, words));
    }
    let private = private.map(|path| resolved(path)).chain([git]);
    let mut private = private.filter(|private| private.starts_with(&real));
    if let Some(private) = private.next() {
        let words = format!(
            "`{path}` of `additionalSymlinkDirs` cannot be read in a sandbox: it contains `{}`, which is private; link a \
             directory without it",
            private.display()
        );
        return Err(Failure::new(FailureKind::Unavailable, words));
    }
    Ok(real.is_dir().then_some(real))
}

/// Paths that give a git directory without its private state. A rule of the sandbox holds for all that is below a
/// path, so the entries are listed where there is such state.
fn readable(git: &Path) -> io::Result<Vec<PathBuf>> {
    let nested = NESTED.map(|(name, is_deep)| (git.join(name), is_deep));
    let (mut paths, mut is_private) = (Vec::new(), false);
    for entry in fs::read_dir(git)? {
        let path = entry?.path();
        if let Some((_, is_deep)) = nested.iter().find(|(nested, _)| *nested == path) {
            is_private |= nested_readable(&path, *is_deep, &mut paths)?;
            continue;
        }
        match () {
            () if path.file_name().is_some_and(|name| name == IN_GIT) => is_private = true,
            // A lock may be gone by now.
            () if path.extension().is_some_and(|end| end == "lock") => {}
            () => paths.push(path),
        }
    }
    paths.retain(|path| path.exists());
    Ok(match is_private {
        true => paths,
        false => vec![git.to_owned()],
    })
}

/// Adds the paths of git directories in a directory; returns whether one of them has private state. What is left of the
/// git directory of a worktree that was removed is none.
fn nested_readable(directory: &Path, is_deep: bool, paths: &mut Vec<PathBuf>) -> io::Result<bool> {
    let mut is_private = false;
    for entry in fs::read_dir(directory)? {
        let (path, kind) = match entry.and_then(|entry| Ok((entry.path(), entry.file_type()?))) {
            Ok(found) => found,
            // A worktree that is just being removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if !kind.is_dir() {
            continue;
        }
        let found = match path.join("HEAD").exists() {
            true => readable(&path).map(|readable| {
                is_private |= readable != [path.clone()];
                paths.extend(readable);
            }),
            false if is_deep => {
                nested_readable(&path, true, paths).map(|found| is_private |= found)
            }
            false => Ok(()),
        };
        match found {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(is_private)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(root: &Path, names: &[&str]) {
        for name in names {
            fs::create_dir_all(root.join(name)).unwrap();
        }
    }

    fn names(root: &Path) -> Vec<String> {
        let found = readable(root).unwrap();
        let name = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
        let mut names: Vec<String> = found.iter().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn linked_directory_that_changes_after_its_check_is_refused() {
        let (top, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, git) = (top.path(), top.path().join(".git"));
        directories(
            root,
            &[
                ".git/x",
                ".worktrees/x",
                "shared/x",
                "other",
                "private/state",
            ],
        );
        let private = [root.join("private/state")];
        let linked = |path: &str| {
            let found = linked(root, &git, path, private.iter());
            found.map_err(|failure| failure.to_string())
        };
        let real = root.canonicalize().unwrap();
        assert_eq!(linked("shared/x").unwrap(), Some(real.join("shared/x")));
        assert_eq!(linked("shared/none").unwrap(), None);
        let link = root.join("shared/link");
        for (target, is_open) in [
            (root.join("other"), true),
            (outside.path().to_owned(), false),
            (git.clone(), false),
            (git.join("x"), false),
            (root.join(".worktrees/x"), false),
            (root.to_owned(), false),
            (root.join("private"), false),
        ] {
            std::os::unix::fs::symlink(&target, &link).unwrap();
            match linked("shared/link") {
                Ok(found) => assert!(is_open && found == Some(resolved(&target)), "{found:?}"),
                Err(words) => {
                    assert!(!is_open, "{words}");
                    assert!(words.contains("`shared/link` of"), "{words}");
                }
            }
            fs::remove_file(&link).unwrap();
        }
    }

    #[test]
    fn private_state_of_a_repository_and_its_worktrees_is_not_readable() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        directories(
            root,
            &["HEAD", "objects", "worktrees/a/HEAD", "modules/x/y/HEAD"],
        );
        assert_eq!(names(root), [""], "the whole directory");
        directories(
            root,
            &["modules/x/y/.orchestra/_/plans", "modules/x/y/refs"],
        );
        let expected = [
            "HEAD",
            "modules/x/y/HEAD",
            "modules/x/y/refs",
            "objects",
            "worktrees/a",
        ];
        assert_eq!(names(root), expected);
        directories(root, &[".orchestra/_/plans", "worktrees/a/.orchestra/_"]);
        directories(root, &["worktrees/removed/orchestra-home/HEAD"]);
        let expected = [
            "HEAD",
            "modules/x/y/HEAD",
            "modules/x/y/refs",
            "objects",
            "worktrees/a/HEAD",
        ];
        assert_eq!(names(root), expected);
    }
}
