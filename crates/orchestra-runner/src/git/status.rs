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
    /// Its content is another, and its mode is not the job's.
    ContentAlone,
    /// Its mode is another, and its content is not the job's.
    ModeAlone,
}

/// A file or link whose content or mode is not what is staged.
#[derive(Debug, Clone)]
pub(super) struct Compared {
    pub(super) path: PathBuf,
    /// Name of the object that is staged.
    pub(super) object: String,
    mode: String,
    has_other_mode: bool,
    /// Whether what is staged differs from the commit.
    is_staged: bool,
}

/// What of a file is not the job's although git takes it for changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sameness {
    pub(super) content: bool,
    pub(super) mode: bool,
}

/// Paths to stage.
#[derive(Debug, Default)]
pub(super) struct ToStage {
    /// Their content is added.
    pub(super) content: Vec<PathBuf>,
    /// Their content is added, and their mode stays.
    pub(super) content_alone: Vec<PathBuf>,
    /// Their mode is staged, with the object that is staged already.
    pub(super) mode_alone: Vec<Compared>,
    /// They are removed.
    pub(super) gone: Vec<PathBuf>,
}

impl Compared {
    /// Returns what `update-index --index-info` reads to stage the mode alone.
    pub(super) fn line(&self) -> Vec<u8> {
        let head = format!("{} {} 0\t", self.mode, self.object);
        [head.as_bytes(), self.path.as_os_str().as_bytes(), b"\0"].concat()
    }
}

/// What a working tree holds.
#[derive(Debug, Default)]
pub(super) struct Status {
    pub(super) head: Option<Commit>,
    pub(super) entries: Vec<(PathBuf, Differs)>,
    /// Paths whose content is not what is staged.
    unstaged: Vec<(PathBuf, Unstaged)>,
    /// Those of them that may be as they were checked out.
    compared: Vec<Compared>,
    /// Paths that are staged and that the commit does not have.
    added: Vec<PathBuf>,
    /// Those of them that no commit is to have.
    pub(super) left: Vec<PathBuf>,
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
                status.compared.extend(compared(field, &path));
                if field.starts_with(b"1 A") {
                    status.added.push(path.clone());
                }
                status.entries.push((path, differs));
            }
        }
        status.raw = answer.output;
        Ok(status)
    }

    /// Files that may be as they were checked out although git takes them for changed.
    pub(super) fn compared(&self) -> &[Compared] {
        &self.compared
    }

    /// Leaves out what is not the job's.
    pub(super) fn leave_out(&mut self, same: impl Fn(&Compared) -> Sameness) {
        let mut unchanged = std::collections::BTreeSet::new();
        let mut partly = std::collections::BTreeMap::new();
        self.compared.retain(|compared| {
            let same = same(compared);
            match (same.content, same.mode || !compared.has_other_mode) {
                (true, true) => {
                    unchanged.insert((compared.path.clone(), compared.is_staged));
                }
                (true, false) => {
                    partly.insert(compared.path.clone(), Unstaged::ModeAlone);
                }
                (false, true) if compared.has_other_mode => {
                    partly.insert(compared.path.clone(), Unstaged::ContentAlone);
                }
                (false, _) => {}
            }
            same.content && !same.mode && compared.has_other_mode
        });
        let is_unchanged = |path: &Path, is_staged| {
            let key = (path.to_owned(), is_staged);
            unchanged.contains(&key)
        };
        self.entries.retain(|(path, _)| !is_unchanged(path, false));
        self.unstaged
            .retain(|(path, _)| !is_unchanged(path, false) && !is_unchanged(path, true));
        for (path, unstaged) in &mut self.unstaged {
            if let Some(part) = partly.get(path) {
                *unstaged = *part;
            }
        }
    }

    /// Returns whether there are files that the commit does not have.
    pub(super) fn has_new(&self) -> bool {
        let mut entries = self.entries.iter();
        !self.added.is_empty() || entries.any(|(_, differs)| is_unknown(*differs))
    }

    /// Leaves files out that the commit does not have.
    pub(super) fn leave_out_new(&mut self, which: impl Fn(&Path) -> bool) {
        let mut out: std::collections::BTreeSet<PathBuf> = self
            .entries
            .iter()
            .filter(|(path, differs)| is_unknown(*differs) && which(path))
            .map(|(path, _)| path.clone())
            .collect();
        self.left = std::mem::take(&mut self.added);
        self.left.retain(|path| which(path));
        out.extend(self.left.iter().cloned());
        self.entries.retain(|(path, _)| !out.contains(path));
        self.unstaged.retain(|(path, _)| !out.contains(path));
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
            let chosen = match unstaged {
                Unstaged::Content => &mut paths.content,
                Unstaged::ContentAlone => &mut paths.content_alone,
                Unstaged::ModeAlone => {
                    let mut compared = self.compared.iter();
                    let staged = compared.find(|compared| compared.path == *path);
                    paths.mode_alone.extend(staged.cloned());
                    continue;
                }
                Unstaged::Gone => &mut paths.gone,
                Unstaged::Unmerged if is_there(root, path) => &mut paths.content,
                Unstaged::Unmerged => &mut paths.gone,
            };
            chosen.push(path.clone());
        }
        paths
    }
}

/// Returns whether git does not know what is there.
fn is_unknown(differs: Differs) -> bool {
    matches!(differs, Differs::Untracked | Differs::Nested)
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

/// The entry of a file that may be as it was checked out: `1 XY SUB MODE_HEAD MODE_INDEX MODE_WORKTREE OBJECT_HEAD
/// OBJECT_INDEX PATH`.
fn compared(field: &[u8], path: &Path) -> Option<Compared> {
    let fields: Vec<&[u8]> = field.splitn(9, |byte| *byte == b' ').collect();
    let [b"1", &[staged, b'M'], b"N...", _, before, now, _, object, _] = fields[..] else {
        return None;
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    Some(Compared {
        path: path.to_owned(),
        object: text(object)?,
        mode: text(now)?,
        has_other_mode: before != now,
        is_staged: staged != b'.',
    })
}

/// Whether the second part of an entry is that of a submodule in which something is changed or new:
/// `S<c><m><u>`.
fn is_dirty(rest: &[u8]) -> bool {
    matches!(rest, [b'S', _, b'M', ..] | [b'S', _, _, b'U', ..])
}
