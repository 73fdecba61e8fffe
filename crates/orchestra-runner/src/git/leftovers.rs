//! Files that the program of an agent leaves in a worktree and that are no work, such as its history. Git has no
//! ignored files of one worktree alone, and those of the repository are the user's. So the patterns are kept in
//! the git directory of the worktree, and files that match them are left out of its status.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::{GitError, Worktree, files, status::Status};

/// Name of the file with the patterns, in the git directory of the worktree.
const FILE: &str = "orchestra-leftovers";

/// Maximum size of that file.
const MOST: u64 = 1 << 20;

impl Worktree {
    /// Leaves files out of the commits of this worktree that match these patterns, as in `.gitignore`, and that the
    /// commit before does not have.
    ///
    /// # Errors
    /// When the patterns cannot be stored.
    pub fn leave_out(&self, patterns: &[String]) -> Result<(), GitError> {
        let mut content = self.leftover_patterns()?;
        let before = content.len();
        for pattern in patterns {
            let line = [pattern.as_bytes(), b"\n"].concat();
            if !content
                .split_inclusive(|byte| *byte == b'\n')
                .any(|known| known == line)
            {
                content.extend_from_slice(&line);
            }
        }
        match content.len() == before {
            true => Ok(()),
            false => files::replace(&self.admin.join(FILE), &content),
        }
    }

    fn leftover_patterns(&self) -> Result<Vec<u8>, GitError> {
        let content = files::read(&self.admin.join(FILE), MOST)?;
        Ok(content.unwrap_or_default())
    }

    /// Arguments of `git clean` that keep these files.
    pub(super) fn kept_leftovers(&self) -> Result<Vec<String>, GitError> {
        let content = String::from_utf8_lossy(&self.leftover_patterns()?).into_owned();
        let patterns = content.lines().filter(|line| !line.is_empty());
        Ok(patterns
            .flat_map(|line| ["-e".to_owned(), line.to_owned()])
            .collect())
    }

    /// Leaves such files out of a status.
    pub(super) async fn leave_out_leftovers(&self, status: &mut Status) -> Result<(), GitError> {
        if !status.has_new() || self.leftover_patterns()?.is_empty() {
            return Ok(());
        }
        let mut from = std::ffi::OsString::from("--exclude-from=");
        from.push(self.admin.join(FILE));
        let call = self
            .call(
                "look for what an agent has left",
                ["ls-files", "--cached", "--others", "--ignored", "-z"],
            )
            .arg(from);
        let answer = call.run().await?;
        let leftovers: BTreeSet<PathBuf> = answer
            .fields()
            .map(|path| path.strip_suffix(b"/").unwrap_or(path))
            .map(|path| Path::new(OsStr::from_bytes(path)).to_owned())
            .collect();
        status.leave_out_new(|path| leftovers.contains(path));
        Ok(())
    }
}
