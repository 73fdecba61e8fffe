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

/// An option that keeps git out of submodules, after [`ARGUMENTS`]: their changes are found without their
/// configuration ([`super::Worktree::dirty_submodules`]).
pub(super) const OUTSIDE: &str = "--ignore-submodules=dirty";

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

/// How a path differs from what is staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unstaged {
    /// Its content is another, or it is new.
    Content,
    /// It is gone.
    Gone,
    /// It is unmerged: it may be gone or not.
    Unmerged,
}

/// Paths to stage.
#[derive(Debug, Default)]
pub(super) struct ToStage {
    /// Their content is added.
    pub(super) content: Vec<PathBuf>,
    /// They are removed.
    pub(super) gone: Vec<PathBuf>,
}

/// What a working tree holds.
#[derive(Debug, Default)]
pub(super) struct Status {
    pub(super) head: Option<Commit>,
    pub(super) entries: Vec<(PathBuf, Differs)>,
    /// Paths whose content is not what is staged.
    unstaged: Vec<(PathBuf, Unstaged)>,
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
            let (path, differs, unstaged) = parse_entry(field).ok_or_else(|| {
                let said = String::from_utf8_lossy(field);
                Call::unreadable(OPERATION, "", &said)
            })?;
            let passed = without.iter().any(|link| Path::new(link) == path);
            if !passed {
                let unstaged = unstaged.map(|unstaged| (path.clone(), unstaged));
                status.unstaged.extend(unstaged);
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

    /// Notes that a submodule has changes inside that it has no commit of.
    pub(super) fn note_dirty(&mut self, path: PathBuf) {
        self.raw.extend_from_slice(b"dirty ");
        self.raw.extend_from_slice(path.as_os_str().as_bytes());
        self.raw.push(0);
        self.entries.retain(|(known, _)| *known != path);
        self.entries.push((path, Differs::Dirty));
    }

    /// Returns the paths to stage so that nothing differs from the working tree with that root. Repositories that
    /// git does not know are left out.
    pub(super) fn to_stage(&self, root: &Path) -> ToStage {
        let mut paths = ToStage::default();
        for (path, unstaged) in &self.unstaged {
            let is_gone = match unstaged {
                Unstaged::Content => false,
                Unstaged::Gone => true,
                Unstaged::Unmerged => !is_there(root, path),
            };
            let chosen = match is_gone {
                true => &mut paths.gone,
                false => &mut paths.content,
            };
            chosen.push(path.clone());
        }
        paths
    }
}

/// Returns whether something is at a path, with no symbolic link on the way.
fn is_there(root: &Path, path: &Path) -> bool {
    let is_directory = |above: &Path| {
        root.join(above)
            .symlink_metadata()
            .is_ok_and(|data| data.is_dir())
    };
    let mut above = path.ancestors().skip(1);
    above.all(is_directory) && root.join(path).symlink_metadata().is_ok()
}

/// Reads one entry of the second form that git writes for programs.
fn parse_entry(field: &[u8]) -> Option<(PathBuf, Differs, Option<Unstaged>)> {
    let (kind, rest) = (field.first()?, field.get(2..)?);
    let after = |fields: usize| rest.splitn(fields + 1, |byte| *byte == b' ').nth(fields);
    let beside_staged = || match rest.get(1)? {
        b'.' => None,
        b'D' => Some(Unstaged::Gone),
        _ => Some(Unstaged::Content),
    };
    let (path, differs, unstaged) = match kind {
        b'1' if is_dirty(after(1)?) => (after(7)?, Differs::Dirty, beside_staged()),
        b'1' => (after(7)?, Differs::Changed, beside_staged()),
        b'u' => (after(9)?, Differs::Unmerged, Some(Unstaged::Unmerged)),
        b'?' if rest.ends_with(b"/") => (rest.strip_suffix(b"/")?, Differs::Nested, None),
        b'?' => (rest, Differs::Untracked, Some(Unstaged::Content)),
        _ => return None,
    };
    Some((PathBuf::from(OsStr::from_bytes(path)), differs, unstaged))
}

/// Whether the second part of an entry is that of a submodule in which something is changed or new:
/// `S<c><m><u>`.
fn is_dirty(rest: &[u8]) -> bool {
    matches!(rest, [b'S', _, b'M', ..] | [b'S', _, _, b'U', ..])
}
