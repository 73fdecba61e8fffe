//! Knows whether git is in the middle of changing the files, whose half-done work is not looked at.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::FileIo;

/// How long git may hold its lock before its changes are taken in all the same.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of a file that says where a repository is.
const MAX_POINTER_BYTES: u64 = 16 * 1024;

/// The repository that a workspace is part of, if it is.
pub(super) struct Git {
    workspace: PathBuf,
    /// The door to the files, through which its lock is looked at as well.
    files: Arc<dyn FileIo>,
    /// Since when its lock is held.
    since: Option<Instant>,
}

impl Git {
    pub(super) fn around(workspace: &Path, files: Arc<dyn FileIo>) -> Self {
        Self {
            workspace: workspace.to_path_buf(),
            files,
            since: None,
        }
    }

    /// Whether git changes the work tree now, and has not done so for too long.
    pub(super) fn is_at_work(&mut self) -> bool {
        // Each time anew: repositories are made and moved while we run.
        let lock = directory(&self.workspace).map(|git| git.join("index.lock"));
        let stands = |lock: PathBuf| matches!(self.files.stat(&lock), Ok(Some(_)));
        if !lock.is_some_and(stands) {
            self.since = None;
            return false;
        }
        self.since.get_or_insert_with(Instant::now).elapsed() < PATIENCE
    }
}

/// Where git keeps the index of the work tree that holds `workspace`: `.git` there or in a directory
/// above, or where such a file points to, as in further work trees and in submodules.
fn directory(workspace: &Path) -> Option<PathBuf> {
    for above in workspace.ancestors() {
        let git = above.join(".git");
        match fs::metadata(&git) {
            Ok(found) if found.is_dir() => return Some(git),
            Ok(found) if found.is_file() => {
                let mut text = String::new();
                let pointer = fs::File::open(&git).ok()?;
                pointer
                    .take(MAX_POINTER_BYTES)
                    .read_to_string(&mut text)
                    .ok()?;
                // A relative path is meant from where the file stands; an absolute one replaces that.
                return Some(above.join(text.strip_prefix("gitdir:")?.trim()));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::{Git, directory};
    use crate::RealFs;

    #[test]
    fn the_lock_is_found_from_below_and_through_pointers() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |path: &str| top.path().join(path);
        for path in ["repo/.git/worktrees/w", "repo/sub/deep", "w/below"] {
            fs::create_dir_all(at(path)).expect("made");
        }
        let pointer = format!("gitdir: {}\n", at("repo/.git/worktrees/w").display());
        fs::write(at("w/.git"), pointer).expect("written");
        assert_eq!(directory(&at("repo/sub/deep")), Some(at("repo/.git")));
        assert_eq!(directory(&at("w/below")), Some(at("repo/.git/worktrees/w")));
        fs::write(at("w/.git"), "gitdir: ../repo/.git/worktrees/w\n").expect("written");
        let mut git = Git::around(&at("w/below"), Arc::new(RealFs));
        assert!(!git.is_at_work());
        fs::write(at("repo/.git/worktrees/w/index.lock"), "").expect("written");
        assert!(git.is_at_work());
        fs::remove_file(at("repo/.git/worktrees/w/index.lock")).expect("removed");
        assert!(!git.is_at_work());
    }
}
