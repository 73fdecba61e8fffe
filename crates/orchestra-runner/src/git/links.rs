//! Links from a worktree into the user's working tree: directories that are costly to make anew, such as
//! `node_modules`, and belong to no commit.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Component, Path},
};

use super::{GitError, Worktree, names::shortened};

/// How many links a worktree may have.
const MOST_LINKS: usize = 100;

impl Worktree {
    /// Links directories of the user's working tree into this one, at the same paths. A directory that is
    /// not there, and a path at which the worktree has something already, is passed over. The links are in
    /// no commit of [`commit`](Self::commit). Returns the paths that were linked.
    ///
    /// # Errors
    /// [`GitError::Name`] for a path that leaves the working tree, by its parts or by links in it, or that leads to the
    /// whole of it or to a git directory.
    pub fn link_directories(&self, paths: &[&str]) -> Result<Vec<String>, GitError> {
        let mut marker = self.marker()?;
        let mut linked = Vec::new();
        for path in paths {
            let path = path.trim_end_matches('/');
            let bad = |why| GitError::Name {
                what: "directory to link",
                name: shortened(path),
                why,
            };
            if !is_plain(Path::new(path)) {
                return Err(bad("a path below the root of the working tree is expected"));
            }
            if marker.links.len() >= MOST_LINKS {
                return Err(bad("there are too many"));
            }
            let toplevel = self.repository().toplevel();
            let source = toplevel.join(path);
            let Ok(real) = source.canonicalize() else {
                continue;
            };
            let root = toplevel
                .canonicalize()
                .unwrap_or_else(|_| toplevel.to_owned());
            if !real.starts_with(&root) || real.starts_with(root.join(super::WORKTREES)) {
                return Err(bad("it leads out of the working tree"));
            }
            let common = self.repository().common_directory();
            let has_git = common
                .canonicalize()
                .is_ok_and(|git| git.starts_with(&real));
            if has_git || real.strip_prefix(&root).is_ok_and(|path| !is_plain(path)) {
                return Err(bad(
                    "it leads to the whole working tree, or to a git directory",
                ));
            }
            let place = self.path().join(path);
            if !real.is_dir() || !self.is_free(path)? || fs::symlink_metadata(&place).is_ok() {
                continue;
            }
            // What is to be a link is known before it is one, so that it is never taken for a job's work.
            marker.links.push(path.to_owned());
            marker.write(self.directory())?;
            make_link(&real, &place)?;
            linked.push(path.to_owned());
        }
        Ok(linked)
    }

    /// Whether the directories above a path are directories, or not there.
    fn is_free(&self, path: &str) -> Result<bool, GitError> {
        let mut above = self.path().to_owned();
        let parts: Vec<_> = Path::new(path).components().collect();
        for part in parts.iter().take(parts.len().saturating_sub(1)) {
            above.push(part);
            match fs::symlink_metadata(&above) {
                Ok(data) if data.is_dir() => {}
                Ok(_) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                Err(source) => {
                    return Err(GitError::File {
                        operation: "link a directory",
                        path: above,
                        source,
                    });
                }
            }
        }
        Ok(true)
    }
}

fn make_link(source: &Path, place: &Path) -> Result<(), GitError> {
    let failed = |source| GitError::File {
        operation: "link a directory",
        path: place.to_owned(),
        source,
    };
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    symlink(source, place).map_err(failed)
}

/// Whether a path stays below where it begins and means no directory of git's.
pub(super) fn is_plain(path: &Path) -> bool {
    let plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        _ => false,
    };
    !path.as_os_str().is_empty() && path.as_os_str().len() < 1024 && path.components().all(plain)
}
