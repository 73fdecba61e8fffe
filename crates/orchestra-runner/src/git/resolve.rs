//! A merge left in a worktree for somebody to solve, and whether they have.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use orchestra_plan::ids::Commit;

use super::{GitError, HalfDone, Worktree, drivers, status::Differs};

/// A file with a line that long is no text that markers were written into.
const LONGEST_LINE: usize = 1 << 20;

/// A merge that was begun in a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merging {
    /// It is done: the commit that has both.
    Merged(Commit),
    /// These paths have to be solved; the markers of the conflicts are in the files.
    Conflicts(Vec<PathBuf>),
}

/// What is not solved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unsolved {
    /// Files that still have markers of conflicts.
    pub markers: Vec<PathBuf>,
    /// Paths of which git knows several versions, and nobody has said by `git add` or `git rm` which holds.
    pub undecided: Vec<PathBuf>,
    /// Whether the merge was given up, or `HEAD` moved elsewhere: it has to be done anew.
    pub given_up: bool,
}

impl Unsolved {
    fn is_empty(&self) -> bool {
        self.markers.is_empty() && self.undecided.is_empty() && !self.given_up
    }
}

impl Worktree {
    /// Merges a commit in the worktree. Conflicts stay in its files, for an agent or a person to solve;
    /// [`finish_merge`](Self::finish_merge) says whether they have.
    ///
    /// # Errors
    /// [`GitError::Failed`] when git cannot begin, as when the worktree has uncommitted changes in the way.
    pub async fn begin_merge(&self, commit: &Commit, message: &str) -> Result<Merging, GitError> {
        self.unlock().await?;
        self.check_submodules().await?;
        let call = self
            .call(
                "merge in a worktree",
                ["merge", "--no-ff", "--no-edit", "--no-stat", "--no-verify"],
            )
            .arg("--no-autostash")
            .arg("--no-verify-signatures")
            .arg("-m")
            .arg(message.replace('\0', ""))
            .arg(commit.as_str())
            .on(commit)
            .accept(&[0, 1]);
        let ask = |operation, arguments| self.call(operation, arguments);
        let call = drivers::of_user(ask, call, ["HEAD", commit.as_str()]).await?;
        let answer = self.repository().signed(call).await?.run().await?;
        if answer.code == 0 {
            return Ok(Merging::Merged(self.head().await?));
        }
        if HalfDone::at(self.directory()).is_none() {
            // It was not even begun.
            return Err(super::error::classify(
                "merge in a worktree",
                commit.to_string(),
                "exit status: 1".to_owned(),
                answer.said,
            ));
        }
        self.seal_conflicts().await?;
        let status = self.status(&[]).await?;
        Ok(Merging::Conflicts(
            status.paths(|differs| differs == Differs::Unmerged),
        ))
    }

    /// Concludes a merge of a commit onto another that was left to be solved in these paths. A merge that
    /// was committed already is taken as it is.
    pub async fn finish_merge(
        &self,
        onto: &Commit,
        with: &Commit,
        conflicts: &[PathBuf],
        message: &str,
    ) -> Result<Result<Commit, Unsolved>, GitError> {
        self.unlock().await?;
        let markers = self.with_markers(conflicts, with).await?;
        let under_way = HalfDone::at(self.directory()) == Some(HalfDone::Merge);
        let mut unsolved = Unsolved {
            markers,
            ..Unsolved::default()
        };
        let status = match under_way {
            true => Some(self.status(&[]).await?),
            false => None,
        };
        if let Some(status) = &status {
            let undecided = status.paths(|differs| differs == Differs::Unmerged);
            // Where markers were written and are gone, whoever removed them has decided.
            unsolved.undecided = self.without_markers(undecided).await?;
        } else {
            let head = self.head().await?;
            let repository = self.repository();
            let both = repository.is_ancestor(onto, &head).await?
                && repository.is_ancestor(with, &head).await?;
            unsolved.given_up = !both;
        }
        if !unsolved.is_empty() {
            return Ok(Err(unsolved));
        }
        if let Some(status) = &status {
            self.stage(status).await?;
            let call = self.call(
                "conclude a merge",
                [
                    "commit",
                    "--quiet",
                    "--no-verify",
                    "--allow-empty",
                    "--cleanup=verbatim",
                    "-F",
                    "-",
                ],
            );
            let call = self.repository().signed(call).await?;
            call.input(format!("{}\n", message.replace('\0', "")))
                .run()
                .await?;
        }
        Ok(Ok(self.head().await?))
    }

    /// Those of the paths that have markers of conflicts: files of any size, read where nobody else waits.
    async fn with_markers(
        &self,
        conflicts: &[PathBuf],
        with: &Commit,
    ) -> Result<Vec<PathBuf>, GitError> {
        let (root, with, conflicts) = (self.path().to_owned(), with.clone(), conflicts.to_vec());
        let look = move || {
            let has = |path: &PathBuf| has_markers(&root.join(path), &with);
            conflicts.into_iter().filter(has).collect()
        };
        let looked = tokio::task::spawn_blocking(look).await;
        looked.map_err(|error| GitError::File {
            operation: "look for markers of conflicts",
            path: self.path().to_owned(),
            source: std::io::Error::other(error),
        })
    }

    /// Those of the unmerged paths into which git wrote no markers: binary files, and files that one side
    /// deleted.
    async fn without_markers(&self, unmerged: Vec<PathBuf>) -> Result<Vec<PathBuf>, GitError> {
        if unmerged.is_empty() {
            return Ok(unmerged);
        }
        let answer = self
            .call("list what is unmerged", ["ls-files", "--unmerged", "-z"])
            .run()
            .await?;
        let mut sides: std::collections::BTreeMap<Vec<u8>, u8> = std::collections::BTreeMap::new();
        for field in answer.fields() {
            let Some(at) = field.iter().position(|byte| *byte == b'\t') else {
                continue;
            };
            let side = match field[..at].last() {
                Some(b'2') => 1,
                Some(b'3') => 2,
                _ => 0,
            };
            let is_file = field.starts_with(b"100");
            *sides.entry(field[at + 1..].to_vec()).or_default() |= if is_file { side } else { 4 };
        }
        let text = |path: &PathBuf| {
            use std::os::unix::ffi::OsStrExt;
            let both = sides.get(path.as_os_str().as_bytes()) == Some(&3);
            both && is_text(&self.path().join(path))
        };
        Ok(unmerged.into_iter().filter(|path| !text(path)).collect())
    }
}

/// Whether a file has none of the bytes that make git take it for binary.
fn is_text(path: &Path) -> bool {
    use std::io::Read;
    const LOOKED_AT: u64 = 8000;
    let mut begin = Vec::new();
    // A job may have put a pipe in the place of a file.
    if std::fs::symlink_metadata(path).is_ok_and(|data| !data.is_file()) {
        return false;
    }
    File::open(path)
        .and_then(|file| file.take(LOOKED_AT).read_to_end(&mut begin))
        .is_ok_and(|_| !begin.contains(&0))
}

/// Whether a file has a marker that git wrote when it merged that commit. Lines that only look like one,
/// as texts about git have them, bear another label.
fn has_markers(path: &Path, with: &Commit) -> bool {
    if std::fs::symlink_metadata(path).is_ok_and(|data| !data.is_file()) {
        return false;
    }
    let Ok(file) = File::open(path) else {
        return false;
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut part = std::io::Read::take(&mut reader, LONGEST_LINE as u64);
        match part.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return false,
            Ok(_) if is_marker(&line, with) => return true,
            Ok(_) => {}
        }
    }
}

fn is_marker(line: &[u8], with: &Commit) -> bool {
    let labelled = |sign: u8, label: &[u8]| {
        let signs = line.iter().take_while(|byte| **byte == sign).count();
        let rest = line[signs..].strip_prefix(b" ");
        signs >= 5 && rest.is_some_and(|rest| rest.starts_with(label))
    };
    labelled(b'<', b"HEAD") || labelled(b'>', with.as_str().as_bytes())
}
