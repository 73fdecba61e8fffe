//! Directories that `orchestra doctor --fix` moves out of the working tree: a damaged database, and the run directory
//! of earlier versions. Nothing of them is removed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use orchestra_fs::{Directory, Reason, is_locked};

use super::plans::Found;
use crate::{
    config::Config,
    output,
    workspace::{PROJECTS, run_directory},
};

/// Maximum number of directories of one name.
const MAX_ASIDE: u32 = 100;

/// Name of the run directory of earlier versions, below [`PROJECTS`].
const OLD_RUN: &str = ".run";

/// Moves a directory into the run directory of a workspace, and returns its new path.
///
/// # Errors
/// When the directory cannot be moved, or too many are there.
pub(super) fn set_aside(config: &Config, directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let run = run_directory(config)?.make()?;
    for number in 1..=MAX_ASIDE {
        let target = run.path().join(format!("{name}-{number}"));
        if target.symlink_metadata().is_ok() {
            continue;
        }
        let moved = orchestra_fs::move_directory(directory, &target);
        let attempt = || {
            format!(
                "cannot move {} to {}",
                directory.display(),
                target.display()
            )
        };
        moved.with_context(attempt)?;
        return Ok(target);
    }
    let run = run.path().display();
    anyhow::bail!("{run} has {MAX_ASIDE} directories {name}-NUMBER already; remove some")
}

/// Reports the run directory of earlier versions, and moves it out of the working tree if asked and no program of
/// such a version holds a lock in it.
pub(super) fn examine_old_run_directory(config: &Config, mends: bool, found: &mut Found) {
    let workspace = &config.workspace;
    let path = Path::new(PROJECTS).join(OLD_RUN);
    let shown = path.display();
    let old = match Directory::open(workspace).and_then(|workspace| workspace.below(&path)) {
        Ok(Some(old)) => old,
        Ok(None) => return,
        Err(error) => {
            let is_link = matches!(error.reason(), Reason::SymbolicLink);
            let is_removed = mends
                && is_link
                && error.path() == workspace.join(&path)
                && orchestra_fs::remove(error.path()).is_ok();
            let error = error.into_cause();
            let finding = format!("{shown} is no longer used: {error}");
            match is_removed {
                true => found.findings.push(finding),
                false => found.still(finding),
            }
            return;
        }
    };
    match holds_lock(old.path()) {
        Ok(None) => {}
        Ok(Some(lock)) => {
            let lock = output::in_a_line(&lock.display().to_string());
            found.still(format!(
                "{shown} is used by a program of an earlier version of orchestra, which holds {lock}: end that \
                 program; this version does not use the directory"
            ));
            return;
        }
        Err(error) => {
            found.still(format!(
                "{shown} is no longer used, and cannot be read: {error}"
            ));
            return;
        }
    }
    if !mends {
        found.still(format!(
            "{shown} is no longer used; `orchestra doctor --fix` moves it out of the working tree"
        ));
        return;
    }
    match set_aside(config, &workspace.join(&path), "earlier-run") {
        Ok(target) => found.findings.push(format!(
            "{shown} was no longer used: it was moved to {}",
            target.display()
        )),
        Err(error) => found.still(format!("{shown} is no longer used: {error:#}")),
    }
}

/// Returns the first lock file of a directory that a process holds.
fn holds_lock(directory: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_lock = path.extension().is_some_and(|end| end == "lock");
        // A link or a pipe in the place of a lock is held by nobody.
        if is_lock && is_locked(&path).unwrap_or(false) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
