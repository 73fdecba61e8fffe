//! Settings of git-lfs in a worktree. Where a job in a sandbox writes them, a checkout outside of the sandbox would
//! contact the addresses in them.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
};

use super::{GitError, Worktree, status};

/// Name of the file at the root of a worktree, which a file system may find in any case.
const NAME: &str = ".lfsconfig";

impl Worktree {
    /// Returns a file that git-lfs reads settings from and whose content is not in the commit of the worktree. It may be
    /// ignored. Files that we have linked there are the user's.
    ///
    /// # Errors
    /// When the worktree cannot be read.
    pub async fn lfs_settings(&self) -> Result<Option<PathBuf>, GitError> {
        let failed = |source| GitError::File {
            operation: "look for settings of git-lfs",
            path: self.path().to_owned(),
            source,
        };
        let links = self.marker()?.links;
        let mut call = self.call(
            status::OPERATION,
            ["status", "--porcelain", "-z", "--no-renames"],
        );
        for option in [
            "--untracked-files=all",
            "--ignored=matching",
            status::OUTSIDE,
            "--",
        ] {
            call = call.arg(option);
        }
        let mut is_there = false;
        let root = self.path().canonicalize().map_err(failed)?;
        for entry in fs::read_dir(&root).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let is_ours = links.iter().any(|link| name == link.as_str());
            let is_directory = entry.file_type().map_err(failed)?.is_dir();
            if is_ours || is_directory || !name.eq_ignore_ascii_case(NAME) {
                continue;
            }
            is_there = true;
            let target = entry.path().canonicalize().ok();
            let target = target.filter(|target| target.is_file());
            let target =
                target.and_then(|target| Some(target.strip_prefix(&root).ok()?.to_owned()));
            for path in [Some(PathBuf::from(name)), target].into_iter().flatten() {
                let mut literal = OsString::from(":(top,literal)");
                literal.push(path);
                call = call.arg(literal);
            }
        }
        if !is_there {
            return Ok(None);
        }
        let answer = call.run().await?;
        let changed = answer.fields().filter_map(|field| field.get(3..));
        let changed = changed.map(|path| PathBuf::from(OsStr::from_bytes(path)));
        // The file itself, before the target of a link.
        Ok(changed.min_by_key(|path| !path.as_os_str().eq_ignore_ascii_case(NAME)))
    }

    /// Removes settings of git-lfs that are not in the commit of the worktree, before files are checked out.
    pub(super) async fn remove_lfs_settings(&self) -> Result<(), GitError> {
        while let Some(settings) = self.lfs_settings().await? {
            let path = self.path().join(settings);
            fs::remove_file(&path).map_err(|source| GitError::File {
                operation: "remove settings of git-lfs",
                path,
                source,
            })?;
        }
        Ok(())
    }
}
