//! What changed between two commits.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

use orchestra_plan::ids::Commit;

use super::{GitError, Repository, submodules::GITLINK};

/// How a file changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there before.
    Added,
    /// Its content, its mode or its kind is another.
    Modified,
    /// It is gone.
    Deleted,
}

/// A file that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its path below the root of the working tree.
    pub path: PathBuf,
    /// How it changed.
    pub kind: ChangeKind,
    /// Whether it is a submodule, or was one.
    pub submodule: bool,
}

/// What changed between two commits; a file that was renamed is one that is gone and one that is new.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiffStats {
    /// The files.
    pub changes: Vec<Change>,
    /// Lines that are new.
    pub lines_added: u64,
    /// Lines that are gone.
    pub lines_deleted: u64,
}

impl DiffStats {
    /// How many files changed so.
    pub fn count(&self, kind: ChangeKind) -> usize {
        self.changes
            .iter()
            .filter(|change| change.kind == kind)
            .count()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// What changed, line by line, as git tells it to people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// A unified diff. What is not UTF-8 in it is replaced.
    pub text: String,
    /// Whether its end is missing, since it is too long.
    pub truncated: bool,
}

impl Repository {
    /// What changed from one commit to another, line by line: the first `most` bytes of it, up to the end
    /// of a line.
    pub async fn patch(&self, from: &Commit, to: &Commit, most: usize) -> Result<Patch, GitError> {
        if from == to {
            return Ok(Patch::default());
        }
        let arguments = [
            "diff-tree",
            "-r",
            "--patch",
            "--find-renames",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--submodule=short",
            from.as_str(),
            to.as_str(),
            "--",
        ];
        let call = self
            .call("show what changed between two commits", arguments)
            .on(format!("{from} and {to}"))
            .first_bytes(most);
        let mut output = call.run().await?.output;
        let truncated = output.len() > most;
        if truncated {
            let end = output.iter().take(most).rposition(|byte| *byte == b'\n');
            output.truncate(end.map_or(0, |end| end + 1));
        }
        Ok(Patch {
            text: String::from_utf8_lossy(&output).into_owned(),
            truncated,
        })
    }

    /// What changed from one commit to another.
    pub async fn changes(&self, from: &Commit, to: &Commit) -> Result<DiffStats, GitError> {
        if from == to {
            return Ok(DiffStats::default());
        }
        self.diff(from, to, &["--raw", "--numstat"]).await
    }

    /// Files that differ between two commits. Reads no content of files, unlike [`Self::changes`].
    pub(super) async fn changed_paths(
        &self,
        from: &Commit,
        to: &Commit,
    ) -> Result<Vec<Change>, GitError> {
        if from == to {
            return Ok(Vec::new());
        }
        let stats = self.diff(from, to, &["--raw"]).await?;
        Ok(stats.changes)
    }

    /// Compares two commits in these formats of git.
    async fn diff(
        &self,
        from: &Commit,
        to: &Commit,
        formats: &[&str],
    ) -> Result<DiffStats, GitError> {
        let options = [
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=none",
            from.as_str(),
            to.as_str(),
            "--",
        ];
        let arguments = ["diff-tree", "-r", "-z"].iter().chain(formats);
        let call = self
            .call("compare two commits", arguments.chain(&options).copied())
            .on(format!("{from} and {to}"));
        let answer = call.run().await?;
        let mut stats = DiffStats::default();
        let mut fields = answer.fields();
        while let Some(field) = fields.next() {
            if let Some(raw) = field.strip_prefix(b":") {
                let raw = String::from_utf8_lossy(raw);
                let path = PathBuf::from(OsStr::from_bytes(fields.next().unwrap_or_default()));
                let kind = match raw.bytes().next_back() {
                    Some(b'A') => ChangeKind::Added,
                    Some(b'D') => ChangeKind::Deleted,
                    _ => ChangeKind::Modified,
                };
                let submodule = raw.split(' ').take(2).any(|mode| mode == GITLINK);
                stats.changes.push(Change {
                    path,
                    kind,
                    submodule,
                });
            } else {
                // Binary files have no lines, but a `-` in their place.
                let text = String::from_utf8_lossy(field);
                let mut numbers = text
                    .split('\t')
                    .map(|number| number.parse::<u64>().unwrap_or(0));
                stats.lines_added += numbers.next().unwrap_or(0);
                stats.lines_deleted += numbers.next().unwrap_or(0);
            }
        }
        Ok(stats)
    }

    /// How many files a commit has.
    pub(super) async fn count_files(&self, commit: &Commit) -> Result<u64, GitError> {
        let arguments = ["ls-tree", "-r", "-z", "--name-only", commit.as_str()];
        let answer = self
            .call("count the files of a commit", arguments)
            .on(commit)
            .run()
            .await?;
        Ok(answer.fields().count() as u64)
    }
}
