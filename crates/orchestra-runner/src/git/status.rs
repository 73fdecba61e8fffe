//! What a working tree holds besides the commit that it is at.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use orchestra_plan::ids::Commit;

use super::{GitError, call::Call, names};

/// What is attempted when a working tree is looked at.
pub(super) const OPERATION: &str = "look for changes in a worktree";

/// How git is asked about a working tree.
pub(super) const ARGUMENTS: [&str; 8] = [
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--no-ahead-behind",
    "--untracked-files=all",
    "--ignore-submodules=none",
    "--no-renames",
];

/// How something differs from the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Differs {
    /// Git knows it, and it is changed, added or gone.
    Changed,
    /// A merge has left it with several versions.
    Unmerged,
    /// Git does not know it.
    Untracked,
    /// A repository of its own that git does not know.
    Nested,
    /// A submodule with changes inside that it has no commit of.
    Dirty,
}

/// What a working tree holds.
#[derive(Debug, Default)]
pub(super) struct Status {
    pub(super) head: Option<Commit>,
    pub(super) entries: Vec<(PathBuf, Differs)>,
    /// All that git has said, for comparing.
    pub(super) raw: Vec<u8>,
}

impl Status {
    /// What git answers to a call with [`OPERATION`] and [`ARGUMENTS`]; paths in `without` are passed over.
    pub(super) async fn of(call: Call, without: &[String]) -> Result<Self, GitError> {
        let answer = call.run().await?;
        let mut status = Self::default();
        for field in answer.fields() {
            if let Some(header) = field.strip_prefix(b"# ") {
                if let Some(head) = header.strip_prefix(b"branch.oid ") {
                    let head = String::from_utf8_lossy(head);
                    status.head = names::commit(&head).ok();
                }
                continue;
            }
            let (path, differs) = parse_entry(field).ok_or_else(|| {
                let said = String::from_utf8_lossy(field);
                Call::unreadable(OPERATION, "", &said)
            })?;
            let passed = without.iter().any(|link| Path::new(link) == path);
            if !passed {
                status.entries.push((path, differs));
            }
        }
        status.raw = answer.output;
        Ok(status)
    }

    /// The paths that differ so.
    pub(super) fn paths(&self, which: impl Fn(Differs) -> bool) -> Vec<PathBuf> {
        let chosen = self.entries.iter().filter(|(_, differs)| which(*differs));
        chosen.map(|(path, _)| path.clone()).collect()
    }
}

/// Reads one entry of the second form that git writes for programs.
fn parse_entry(field: &[u8]) -> Option<(PathBuf, Differs)> {
    let (kind, rest) = (field.first()?, field.get(2..)?);
    let after = |fields: usize| rest.splitn(fields + 1, |byte| *byte == b' ').nth(fields);
    let (path, differs) = match kind {
        b'1' if is_dirty(after(1)?) => (after(7)?, Differs::Dirty),
        b'1' => (after(7)?, Differs::Changed),
        b'u' => (after(9)?, Differs::Unmerged),
        b'?' if rest.ends_with(b"/") => (rest.strip_suffix(b"/")?, Differs::Nested),
        b'?' => (rest, Differs::Untracked),
        _ => return None,
    };
    Some((PathBuf::from(OsStr::from_bytes(path)), differs))
}

/// Whether the second part of an entry is that of a submodule in which something is changed or new:
/// `S<c><m><u>`.
fn is_dirty(rest: &[u8]) -> bool {
    matches!(rest, [b'S', _, b'M', ..] | [b'S', _, _, b'U', ..])
}
