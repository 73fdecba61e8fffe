//! The lines by which git overlooks our directories, in `info/exclude`, which is in no commit.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use orchestra_fs::{Access, Directory, Reason};

use super::{GitError, Repository, files};

/// Our own directories in a working tree, which belong in no commit. Nothing of other programs is added here: the
/// file is the user's, and holds for all of the repository.
pub const EXCLUDED: [&str; 2] = [".worktrees/", ".orchestrator/"];

/// Says in the file where the lines come from.
const HEADING: &str = "# Orchestra's own directories";

/// More than any such file has.
const MOST: u64 = 4 << 20;

/// What is done, for errors.
const OPERATION: &str = "add lines to the ignored files of the repository";

impl Repository {
    /// Sees to it that `info/exclude` of the repository has these lines; true when any was missing. What
    /// else the file has stays as it is, to the byte. One of us at a time changes it, under the lock of the
    /// repository.
    ///
    /// # Errors
    /// [`GitError::Linked`] when the file is a symbolic link and would have to be changed, and [`GitError::NotOurs`]
    /// when its directory is one.
    pub async fn exclude(&self, lines: &[&str]) -> Result<bool, GitError> {
        let common = self.common_directory().to_owned();
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let (look, wanted) = (common.clone(), lines.clone());
        let (_, missing) = off_thread(move || missing(&look, &wanted)).await?;
        if missing.is_empty() {
            return Ok(false);
        }
        // single-flight: of two who change it at once the lines of one would be lost.
        let _lock = self.lock().await?;
        off_thread(move || append(&common, &lines)).await
    }
}

/// Files are read and synced where nobody else waits for it.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GitError> + Send + 'static,
) -> Result<T, GitError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(GitError::File {
            operation: OPERATION,
            path: PathBuf::from("info/exclude"),
            source: io::Error::other(error),
        })
    })
}

/// What the file has, and which lines it lacks.
fn missing(common: &Path, lines: &[String]) -> Result<(Vec<u8>, Vec<String>), GitError> {
    let content = files::read(&common.join("info/exclude"), MOST)?.unwrap_or_default();
    let present: Vec<&[u8]> = content
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
        .collect();
    let absent = |line: &&String| !present.contains(&line.as_bytes());
    let missing = lines.iter().filter(absent).cloned().collect();
    Ok((content, missing))
}

/// Adds those lines that are still missing; the lock is held.
fn append(common: &Path, lines: &[String]) -> Result<bool, GitError> {
    let path = common.join("info/exclude");
    let (mut content, missing) = missing(common, lines)?;
    if missing.is_empty() {
        return Ok(false);
    }
    if fs::symlink_metadata(&path).is_ok_and(|data| data.is_symlink()) {
        return Err(GitError::Linked {
            path,
            lines: missing,
        });
    }
    // An archive may bring a link along, which would lead anywhere.
    let opened = Directory::open(common)
        .and_then(|common| common.make_below("info".as_ref(), Access::Shared));
    let directory = opened.map_err(|error| match error.reason() {
        Reason::System(_) => GitError::File {
            operation: OPERATION,
            path: path.clone(),
            source: error.into_cause(),
        },
        reason => GitError::NotOurs {
            path: error.path().to_owned(),
            why: reason.to_string(),
        },
    })?;
    if !content.is_empty() && !content.ends_with(b"\n") {
        content.push(b'\n');
    }
    content.extend_from_slice(format!("{HEADING}\n").as_bytes());
    for line in missing {
        content.extend_from_slice(format!("{line}\n").as_bytes());
    }
    let written = directory.write("exclude", &content, Access::Shared);
    written.map_err(|error| GitError::File {
        operation: OPERATION,
        path,
        source: error.into_cause(),
    })?;
    Ok(true)
}
