//! Worktrees of which files of git's are gone: a deletion was broken off, or the power was cut before they
//! were on the disk, which git sees to for objects and references alone; or a job has replaced them.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

use orchestra_plan::ids::Commit;

use super::{GitError, Marker, Owner, Repository, Worktree, files, nested::leads_back};

/// More than the files have that lead from a worktree to its git directory and back.
const SMALL: u64 = 64 << 10;

/// Name of what a job has put in the place of the `.git` file of its worktree, in the git directory of the worktree.
const REPLACEMENT: &str = "orchestra-replaced-git";

/// Permissions of the owner of a directory.
const OWNER: u32 = 0o700;

impl Repository {
    /// The git directory of a worktree of ours that does not lead there itself any more.
    pub(super) fn lost_admin(&self, path: &Path) -> Result<Option<PathBuf>, GitError> {
        let Ok(admins) = std::fs::read_dir(self.common_directory().join("worktrees")) else {
            return Ok(None);
        };
        let name = path.file_name().unwrap_or_default();
        let mut by_owner = None;
        for admin in admins.filter_map(Result::ok).map(|entry| entry.path()) {
            let leads = files::read(&admin.join("gitdir"), SMALL)?;
            let leads = leads.unwrap_or_default();
            let is_lost = is_lost(&leads);
            let leads = Path::new(OsStr::from_bytes(leads.trim_ascii_end()));
            if !is_lost && leads.parent() != Some(path) {
                continue;
            }
            let Some(marker) = Marker::read(&admin)? else {
                continue;
            };
            if !is_lost {
                return Ok(Some(admin));
            }
            let is_there = path == self.worktree_path(marker.owner);
            if is_there && OsStr::new(&marker.owner.directory()) == name {
                by_owner = Some(admin);
            }
        }
        Ok(by_owner)
    }

    /// Writes the `.git` file of a worktree again if a job has replaced or deleted it, so that git of the user there
    /// does not use a repository of the job, with its settings. Returns the path to which a replacement was moved.
    ///
    /// # Errors
    /// [`GitError::File`] when the replacement cannot be moved, or the file not be written.
    pub fn restore_link(&self, owner: Owner) -> Result<Option<PathBuf>, GitError> {
        let path = self.worktree_path(owner);
        if !permit(&path)? {
            return Ok(None);
        }
        let link = path.join(".git");
        let content = || files::read(&link, SMALL).map(Option::unwrap_or_default);
        let is_own = |admin: &PathBuf| {
            let marker = Marker::read(admin).ok().flatten();
            marker.is_some_and(|marker| marker.owner == owner) && leads_back(admin, &path)
        };
        let admin = match self.worktree(owner) {
            Ok(Some(worktree)) if is_lost(&content()?) => Some(worktree.admin),
            Err(GitError::NotOurs { .. }) => {
                let admins = fs::read_dir(self.common_directory().join("worktrees"));
                let admins = admins.into_iter().flatten().filter_map(Result::ok);
                admins.map(|entry| entry.path()).find(is_own)
            }
            _ => None,
        };
        let Some(admin) = admin else {
            return Ok(None);
        };
        let moved = move_away(&link, &admin)?;
        files::replace(&link, &link_to(&admin))?;
        Ok(moved)
    }
}

/// Moves what is in the place of a `.git` file into the git directory of the worktree, and returns its new path.
fn move_away(link: &Path, admin: &Path) -> Result<Option<PathBuf>, GitError> {
    // A directory that its owner cannot write cannot be moved to another parent.
    permit(link)?;
    let moved = free(admin);
    match fs::rename(link, &moved) {
        Ok(()) => Ok(Some(moved)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(GitError::File {
            operation: "move the replacement of a `.git` file",
            path: link.to_owned(),
            source,
        }),
    }
}

/// Gives the owner of a directory the permissions that a job may have removed. Returns whether it is a directory.
fn permit(path: &Path) -> Result<bool, GitError> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(false);
    };
    let mode = found.permissions().mode();
    if found.is_dir() && mode & OWNER != OWNER {
        let permissions = Permissions::from_mode(mode | OWNER);
        fs::set_permissions(path, permissions).map_err(|source| GitError::File {
            operation: "change the permissions of a directory",
            path: path.to_owned(),
            source,
        })?;
    }
    Ok(found.is_dir())
}

/// Path in a git directory at which nothing is.
fn free(admin: &Path) -> PathBuf {
    let mut path = admin.join(REPLACEMENT);
    let mut number = 1;
    while fs::symlink_metadata(&path).is_ok() {
        number += 1;
        path = admin.join(format!("{REPLACEMENT}-{number}"));
    }
    path
}

/// Content of the `.git` file that leads to a git directory.
fn link_to(admin: &Path) -> Vec<u8> {
    [b"gitdir: ".as_slice(), admin.as_os_str().as_bytes(), b"\n"].concat()
}

impl Worktree {
    /// Whether its files were checked out to the end: before that nobody works in it.
    pub(super) fn is_checked_out(&self) -> bool {
        let has_some =
            |name: &str| fs::metadata(self.admin.join(name)).is_ok_and(|found| found.len() > 0);
        has_some("index") && has_some("HEAD")
    }

    /// Writes anew what leads from it to its git directory and back, where the power was cut before it was
    /// on the disk, and puts a `HEAD` that was lost at a commit.
    pub(super) fn mend(&self, commit: &Commit) -> Result<(), GitError> {
        let line = |path: &Path| [path.as_os_str().as_bytes(), b"\n"].concat();
        let link = self.path().join(".git");
        for (file, content) in [
            (link.clone(), link_to(&self.admin)),
            (self.admin.join("gitdir"), line(&link)),
            (self.admin.join("commondir"), b"../..\n".to_vec()),
            (self.admin.join("HEAD"), format!("{commit}\n").into_bytes()),
        ] {
            let there = files::read(&file, SMALL)?.unwrap_or_default();
            if is_lost(&there) {
                files::replace(&file, &content)?;
            }
        }
        let index = self.admin.join("index");
        if fs::metadata(&index).is_ok_and(|found| found.len() == 0) {
            // Git makes one anew, but takes none that is empty.
            fs::remove_file(&index).map_err(|source| GitError::File {
                operation: "put a worktree in order",
                path: index.clone(),
                source,
            })?;
        }
        Ok(())
    }
}

/// Whether a file has nothing in it, or what a file system puts where it has lost something.
pub(super) fn is_lost(content: &[u8]) -> bool {
    content.iter().all(|byte| *byte == 0)
}
