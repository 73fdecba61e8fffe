//! Repositories at the places of submodules in a worktree. A job configures those that it creates, and git that
//! enters one runs the filters and programs of that configuration. So git enters none with it.
//!
//! A submodule that [`Worktree::link_submodules`] has linked is read with the configuration of the user's
//! checkout of it. Any other repository is read through a git directory of our own, which has its objects, its
//! index and the commit of its `HEAD`, and a configuration that only the user can extend.
//!
//! This runs outside of the sandbox and of the limits of the job. So a look reads and writes a bounded number of
//! bytes, and what exceeds the bounds counts as changed.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read as _},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use memchr::memmem;
use tempfile::TempDir;

use super::{
    Git, GitError, ObjectFormat, Worktree,
    call::Call,
    links::is_plain,
    names,
    removal::delete_all,
    status::{self, Status},
    submodules::{GITLINK, LIST, STAGED, real_directory},
};

/// Maximum size of a small file of a git directory.
const SMALL: u64 = 64 << 10;

/// Maximum total size of the indexes and packed references that one look reads: those of some 600,000 files.
const LARGE: u64 = 64 << 20;

/// Maximum number of repositories of jobs that one look enters, and of those that wait for it.
const MOST: usize = 256;

/// Maximum number of entries of a git directory. Git creates some twenty.
const MOST_ENTRIES: usize = 1000;

/// Number of bytes of an index that are in memory at once.
const PART: u64 = 64 << 10;

/// Marks of an index that may have submodules: it is split, it is sparse, or it has the mode of a submodule.
const MARKS: [&[u8]; 3] = [b"link\0", b"sdir\0\0\0\0", &0o160_000_u32.to_be_bytes()];

/// Length of the longest mark of an index.
const LONGEST_MARK: usize = 8;

/// A working tree, and how git is called in it.
pub(super) struct Tree {
    git: Git,
    pub(super) root: PathBuf,
    /// Its git directory.
    pub(super) directory: PathBuf,
    pub(super) index: PathBuf,
    stand_in: Option<StandIn>,
}

/// A git directory of our own for a repository whose configuration is not read.
struct StandIn {
    objects: PathBuf,
    /// The index of the repository itself, which git only reads.
    index: PathBuf,
    /// Removed with the last use of the tree.
    directory: TempDir,
}

/// A repository in the place of a submodule of a worktree.
struct Inner {
    /// Path of the submodule.
    path: PathBuf,
    /// Its root.
    place: PathBuf,
    /// Its working tree, if we have linked it: its configuration is the user's.
    linked: Option<Tree>,
}

/// What a look at the repositories of jobs may still read.
#[derive(Clone, Copy)]
struct Budget {
    repositories: usize,
    bytes: u64,
}

impl Budget {
    const WHOLE: Self = Self {
        repositories: MOST,
        bytes: LARGE,
    };

    /// Takes a number of bytes, if so many are left.
    fn take(&mut self, bytes: u64) -> Option<()> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(())
    }
}

impl Worktree {
    /// Submodules with changes inside that no commit of theirs has, at any depth. Runs nothing that a job has
    /// configured.
    pub(super) async fn dirty_submodules(&self) -> Result<Vec<PathBuf>, GitError> {
        let (mut dirty, mut budget) = (Vec::new(), Budget::WHOLE);
        for inner in self.repositories_inside().await? {
            let path = inner.path.clone();
            if self.has_changes(inner, &mut budget).await? {
                dirty.push(path);
            }
        }
        dirty.sort_unstable();
        Ok(dirty)
    }

    /// Refuses a worktree in which a command that enters submodules would run what a job has configured.
    ///
    /// # Errors
    /// [`GitError::NotOurs`] with the path of the first such repository.
    pub(super) async fn check_submodules(&self) -> Result<(), GitError> {
        match self.foreign_submodules().await?.into_iter().next() {
            None => Ok(()),
            Some(path) => Err(GitError::NotOurs {
                path,
                why: "it is a repository in the place of a submodule, and git would run what its configuration names"
                    .to_owned(),
            }),
        }
    }

    /// Roots of repositories in the places of submodules that we have not linked.
    pub(super) async fn foreign_submodules(&self) -> Result<Vec<PathBuf>, GitError> {
        let known = self.marker()?.submodules;
        let mut inside = self.repositories_inside().await?;
        let mut foreign = Vec::new();
        while let Some(inner) = inside.pop() {
            let Some(tree) = inner.linked else {
                foreign.push(inner.place);
                continue;
            };
            let places = tree.repositories().await?;
            inside.extend(self.inner(&known, places));
        }
        Ok(foreign)
    }

    /// Empties the places of submodules that have another repository than the one that we have linked.
    pub(super) async fn remove_foreign_repositories(&self) -> Result<(), GitError> {
        for inner in self.repositories_inside().await? {
            if inner.linked.is_some() {
                continue;
            }
            delete_all(&inner.place).await?;
            fs::create_dir(&inner.place).map_err(|source| GitError::File {
                operation: "empty a submodule",
                path: inner.place,
                source,
            })?;
        }
        Ok(())
    }

    /// The repositories in the places of submodules of the worktree.
    async fn repositories_inside(&self) -> Result<Vec<Inner>, GitError> {
        let places = self.whole().repositories().await?;
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.marker()?.submodules;
        Ok(self.inner(&known, places).collect())
    }

    fn inner(&self, known: &[String], places: Vec<PathBuf>) -> impl Iterator<Item = Inner> {
        places.into_iter().filter_map(|place| {
            let path = place.strip_prefix(self.path()).ok()?.to_owned();
            let linked = self.linked(known, &path);
            Some(Inner {
                path,
                place,
                linked,
            })
        })
    }

    /// The working tree that we have given a submodule, if it is still that one.
    pub(super) fn linked(&self, known: &[String], path: &Path) -> Option<Tree> {
        let name = path
            .to_str()
            .filter(|name| known.iter().any(|known| known == name))?;
        let directory = self.repository().submodule_directory(name)?;
        let root = self.path().join(path);
        let directory = leads_to(&root, &directory.join("worktrees"))?;
        Some(self.tree(root, directory))
    }

    /// The worktree itself.
    pub(super) fn whole(&self) -> Tree {
        self.tree(self.path().to_owned(), self.directory().to_owned())
    }

    /// A working tree with the configuration of the user.
    pub(super) fn tree(&self, root: PathBuf, directory: PathBuf) -> Tree {
        Tree {
            git: self.repository().git().clone(),
            root,
            index: directory.join("index"),
            directory,
            stand_in: None,
        }
    }

    /// Returns whether a submodule has changes that no commit has, or a repository of a job that cannot be read
    /// within the bounds.
    async fn has_changes(&self, inner: Inner, budget: &mut Budget) -> Result<bool, GitError> {
        let known = self.marker()?.submodules;
        let mut inside = vec![inner];
        while let Some(Inner { place, linked, .. }) = inside.pop() {
            let is_ours = linked.is_some();
            let tree = match linked {
                Some(tree) => Some(tree),
                None => self.stand_in(&place, budget).await?,
            };
            let Some(tree) = tree else {
                return Ok(true);
            };
            let (status, places) = match (tree.status().await, tree.repositories().await) {
                (Ok(status), Ok(places)) => (status, places),
                (Err(error), _) | (_, Err(error)) if is_ours => return Err(error),
                // A job can break what it has created.
                _ => return Ok(true),
            };
            inside.extend(self.inner(&known, places));
            if !status.entries.is_empty() || inside.len() > MOST {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A repository that a job may have configured, read through a git directory of our own; `None` if it
    /// cannot be read so within the bounds.
    async fn stand_in(&self, root: &Path, budget: &mut Budget) -> Result<Option<Tree>, GitError> {
        let Some(repositories) = budget.repositories.checked_sub(1) else {
            return Ok(None);
        };
        budget.repositories = repositories;
        let (format, place, mut left) = (self.repository().format(), root.to_owned(), *budget);
        let made = tokio::task::spawn_blocking(move || {
            let other = Other::at(&place, &mut left);
            let made = other.map(|other| other.stand_in(format)).transpose()?;
            Ok::<_, io::Error>((made, left))
        });
        let made = made
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        let (made, left) = made.map_err(|source| GitError::File {
            operation: "prepare a look at a submodule",
            path: root.to_owned(),
            source,
        })?;
        *budget = left;
        Ok(made.map(|made| Tree {
            git: self.repository().git().clone(),
            root: root.to_owned(),
            directory: made.directory.path().to_owned(),
            index: made.index.clone(),
            stand_in: Some(made),
        }))
    }
}

impl Tree {
    pub(super) fn call<const N: usize>(
        &self,
        operation: &'static str,
        arguments: [&str; N],
    ) -> Call {
        let call = self
            .git
            .call(operation, &self.root, arguments)
            .env("GIT_DIR", &self.directory)
            .env("GIT_WORK_TREE", &self.root);
        match &self.stand_in {
            None => call,
            Some(stand_in) => call
                .env("GIT_OBJECT_DIRECTORY", &stand_in.objects)
                .env("GIT_INDEX_FILE", &stand_in.index),
        }
    }

    async fn status(&self) -> Result<Status, GitError> {
        let call = self.call(status::OPERATION, status::ARGUMENTS);
        let mut status = Status::of(call.arg(status::OUTSIDE), &[]).await?;
        self.leave_out_unchanged(&mut status).await?;
        Ok(status)
    }

    /// Roots of the repositories in the places of its submodules.
    async fn repositories(&self) -> Result<Vec<PathBuf>, GitError> {
        let index = self.index.clone();
        let look = tokio::task::spawn_blocking(move || may_have_submodules(&index));
        let look = look
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        let may_have_submodules = look.map_err(|source| GitError::File {
            operation: "read an index",
            path: self.index.clone(),
            source,
        })?;
        if !may_have_submodules {
            return Ok(Vec::new());
        }
        let answer = self.call(LIST, STAGED).run().await?;
        let mut roots: Vec<PathBuf> = Vec::new();
        for field in answer.fields() {
            let Some(at) = field.iter().position(|byte| *byte == b'\t') else {
                continue;
            };
            let (entry, path) = (&field[..at], Path::new(OsStr::from_bytes(&field[at + 1..])));
            if !entry.starts_with(GITLINK.as_bytes()) {
                continue;
            }
            let Some(root) = real_directory(&self.root, path) else {
                continue;
            };
            let is_new = roots.last() != Some(&root);
            if is_new && fs::symlink_metadata(root.join(".git")).is_ok() {
                roots.push(root);
            }
        }
        Ok(roots)
    }
}

/// Returns whether an index may have a submodule. Most have none, and finding that out starts no process.
fn may_have_submodules(index: &Path) -> io::Result<bool> {
    let opened = orchestra_fs::open(index).map_err(orchestra_fs::Error::into_cause)?;
    let Some(mut file) = opened else {
        return Ok(false);
    };
    let mut part = Vec::new();
    loop {
        let before = part.len();
        file.by_ref().take(PART).read_to_end(&mut part)?;
        if part.len() == before {
            return Ok(false);
        }
        if MARKS.iter().any(|mark| memmem::find(&part, mark).is_some()) {
            return Ok(true);
        }
        // The next mark may begin in this part.
        part.drain(..part.len().saturating_sub(LONGEST_MARK - 1));
    }
}

/// The git directory below `parent` that the `.git` file of a working tree leads to, if that leads back.
pub(super) fn leads_to(root: &Path, parent: &Path) -> Option<PathBuf> {
    let content = small(&root.join(".git"))?;
    let leads = content.strip_prefix(b"gitdir: ")?.trim_ascii_end();
    let leads = root.join(OsStr::from_bytes(leads));
    let is_below = leads.parent()?.canonicalize().ok()? == parent.canonicalize().ok()?;
    let directory = parent.join(leads.file_name()?);
    (is_below && leads_back(&directory, root)).then_some(directory)
}

/// Returns whether a git directory belongs to a working tree, by the path that git has noted in it.
pub(super) fn leads_back(directory: &Path, root: &Path) -> bool {
    let back = || {
        let content = small(&directory.join("gitdir"))?;
        let back = directory.join(OsStr::from_bytes(content.trim_ascii_end()));
        back.parent()?.canonicalize().ok()
    };
    back().is_some_and(|back| root.canonicalize().is_ok_and(|root| root == back))
}

/// The content of a small regular file, if there is one.
pub(super) fn small(path: &Path) -> Option<Vec<u8>> {
    orchestra_fs::read(path, SMALL).ok().flatten()
}

/// A repository whose configuration is not read.
struct Other {
    objects: PathBuf,
    head: OsString,
    index: PathBuf,
    exclude: Vec<u8>,
}

impl Other {
    /// Finds the repository of a working tree; `None` if it cannot be read within the bounds.
    fn at(root: &Path, budget: &mut Budget) -> Option<Self> {
        let link = root.join(".git");
        let directory = match fs::symlink_metadata(&link).ok()?.is_dir() {
            true => link,
            false => {
                let content = small(&link)?;
                let leads = content.strip_prefix(b"gitdir: ")?.trim_ascii_end();
                root.join(OsStr::from_bytes(leads))
            }
        };
        let common = match small(&directory.join("commondir")) {
            None => directory.clone(),
            Some(content) => directory.join(OsStr::from_bytes(content.trim_ascii_end())),
        };
        // Git would read the other part of a split index, whatever its size.
        for (number, entry) in fs::read_dir(&directory).ok()?.enumerate() {
            let name = entry.ok()?.file_name();
            if number == MOST_ENTRIES || name.as_bytes().starts_with(b"sharedindex.") {
                return None;
            }
        }
        let index = directory.join("index");
        // Anything but a regular file is refused here, so that git does not wait for a pipe.
        if let Some(file) = orchestra_fs::open(&index).ok()? {
            budget.take(file.metadata().ok()?.len())?;
        }
        let exclude = orchestra_fs::read(&common.join("info/exclude"), SMALL).ok()?;
        Some(Self {
            objects: common.join("objects"),
            head: head(&directory, &common, budget)?,
            index,
            exclude: exclude.unwrap_or_default(),
        })
    }

    /// A git directory with all but the configuration.
    fn stand_in(self, format: ObjectFormat) -> io::Result<StandIn> {
        let made = orchestra_fs::temporary_directory()?;
        for name in ["objects", "refs", "info"] {
            fs::create_dir(made.path().join(name))?;
        }
        let config = match format {
            ObjectFormat::Sha1 => "[core]\n\trepositoryFormatVersion = 0\n\tbare = false\n",
            ObjectFormat::Sha256 => {
                "[core]\n\trepositoryFormatVersion = 1\n\tbare = false\n[extensions]\n\tobjectFormat = \
                 sha256\n"
            }
        };
        let mut head = self.head;
        head.push("\n");
        for (name, content) in [
            ("config", config.as_bytes()),
            ("HEAD", head.as_bytes()),
            ("info/exclude", &self.exclude),
        ] {
            // direct: a temporary directory of our own, which is removed after one look.
            fs::write(made.path().join(name), content)?;
        }
        Ok(StandIn {
            objects: self.objects,
            index: self.index,
            directory: made,
        })
    }
}

/// The commit that `HEAD` names, read without git.
fn head(directory: &Path, common: &Path, budget: &mut Budget) -> Option<OsString> {
    let commit = |content: &[u8]| {
        let text = std::str::from_utf8(content).ok()?.trim_end();
        let commit = names::commit(text).ok()?;
        Some(OsString::from(commit.to_string()))
    };
    let head = small(&directory.join("HEAD"))?;
    let Some(name) = head.strip_prefix(b"ref: ") else {
        return commit(&head);
    };
    let name = std::str::from_utf8(name).ok()?.trim_end();
    if !name.starts_with("refs/") || !is_plain(Path::new(name)) {
        return None;
    }
    if let Some(content) = small(&common.join(name)) {
        return commit(&content);
    }
    let packed = common.join("packed-refs");
    let length = fs::symlink_metadata(&packed).ok()?.len();
    budget.take(length)?;
    let packed = orchestra_fs::read(&packed, length).ok()??;
    let mut lines = packed.split(|byte| *byte == b'\n');
    lines.find_map(|line| {
        let at = line.iter().position(|byte| *byte == b' ')?;
        (&line[at + 1..] == name.as_bytes()).then(|| commit(&line[..at]))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: u64 = 100 << 20;

    /// A working tree with a repository whose `HEAD` names a commit.
    fn repository() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(".git/info")).unwrap();
        fs::write(root.path().join(".git/HEAD"), "a".repeat(40)).unwrap();
        root
    }

    /// Creates a file that has a length and takes no room.
    fn sparse(root: &TempDir, name: &str, length: u64) {
        let file = fs::File::create(root.path().join(name)).unwrap();
        file.set_len(length).unwrap();
    }

    /// Total size of the files below a directory.
    fn size(directory: &Path) -> u64 {
        let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
        entries
            .map(|entry| match entry.file_type().unwrap().is_dir() {
                true => size(&entry.path()),
                false => entry.metadata().unwrap().len(),
            })
            .sum()
    }

    /// Returns the number of bytes that a look at a repository writes, and those that it may still read.
    fn look(root: &TempDir) -> Option<(u64, u64)> {
        let mut budget = Budget::WHOLE;
        let other = Other::at(root.path(), &mut budget)?;
        let made = other.stand_in(ObjectFormat::Sha1).unwrap();
        Some((size(made.directory.path()), budget.bytes))
    }

    #[test]
    fn look_at_a_repository_with_large_files_writes_a_bounded_number_of_bytes() {
        let root = repository();
        sparse(&root, ".git/info/exclude", SMALL);
        sparse(&root, ".git/index", LARGE);
        let (written, left) = look(&root).unwrap();
        assert!(written < SMALL + 1024, "{written}");
        assert_eq!(left, 0);
    }

    #[test]
    fn repository_with_files_above_the_bounds_is_not_read() {
        for (name, length) in [
            (".git/HEAD", HUGE),
            (".git/info/exclude", SMALL + 1),
            (".git/info/exclude", HUGE),
            (".git/index", HUGE),
            (".git/sharedindex.a", 0),
        ] {
            let root = repository();
            sparse(&root, name, length);
            assert_eq!(look(&root), None, "{name}: {length}");
        }
        let root = repository();
        fs::write(root.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        sparse(&root, ".git/packed-refs", HUGE);
        assert_eq!(look(&root), None);
    }

    #[test]
    fn marks_of_submodules_are_found_across_parts_of_an_index() {
        let root = repository();
        let (index, part) = (root.path().join(".git/index"), PART.try_into().unwrap());
        for mark in MARKS {
            for before in [0, part - 1, part, 2 * part - mark.len(), 2 * part - 1] {
                let dots = vec![b'.'; 2 * part];
                let content = [&dots[..before], mark, &dots[..part]].concat();
                fs::write(&index, content).unwrap();
                assert!(may_have_submodules(&index).unwrap(), "{mark:?}: {before}");
            }
        }
        sparse(&root, ".git/index", 3 * PART);
        assert!(!may_have_submodules(&index).unwrap());
    }
}
