//! Repositories at the places of submodules in a worktree. A job configures those that it creates, and git that
//! enters one runs the filters and programs of that configuration. So git enters none with it.
//!
//! A submodule that [`Worktree::link_submodules`] has linked is read with the configuration of the user's
//! checkout of it. Any other repository is read through a git directory of our own, which has its objects, its
//! index and the commit of its `HEAD`, and a configuration that only the user can extend.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
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

/// Maximum size of an index or of packed references: those of some million files.
const LARGE: u64 = 256 << 20;

/// Maximum number of repositories that are looked into. The others count as changed.
const MOST: usize = 256;

/// Mode of a submodule as the index stores it.
const GITLINK_MODE: [u8; 4] = 0o160_000_u32.to_be_bytes();

/// Marks of an index that has not all entries in this form: it is split, or sparse.
const INCOMPLETE: [&[u8]; 2] = [b"link\0", b"sdir\0\0\0\0"];

/// A working tree, and how git is called in it.
struct Tree {
    git: Git,
    root: PathBuf,
    directory: PathBuf,
    objects: Option<PathBuf>,
    /// Removed with the last use of the tree.
    _stand_in: Option<TempDir>,
}

/// A repository in a worktree.
struct Inner {
    /// Path of the submodule of the worktree that it is, or that it lies in.
    top: PathBuf,
    /// Its root.
    place: PathBuf,
    /// Whether we have linked it, so that its configuration is the user's.
    is_linked: bool,
    /// Its working tree; `None` if it cannot be read.
    tree: Option<Tree>,
}

impl Worktree {
    /// Submodules with changes inside that no commit of theirs has, at any depth. Runs nothing that a job has
    /// configured.
    pub(super) async fn dirty_submodules(&self) -> Result<Vec<PathBuf>, GitError> {
        let mut dirty = Vec::new();
        for inner in self.repositories_inside().await? {
            let is_dirty = match &inner.tree {
                None => true,
                Some(tree) => match tree.status().await {
                    Ok(status) => !status.entries.is_empty(),
                    Err(error) if inner.is_linked => return Err(error),
                    // A job can break what it has created.
                    Err(_) => true,
                },
            };
            if is_dirty {
                dirty.push(inner.top);
            }
        }
        dirty.sort_unstable();
        dirty.dedup();
        Ok(dirty)
    }

    /// Refuses a worktree in which a command that enters submodules would run what a job has configured.
    ///
    /// # Errors
    /// [`GitError::NotOurs`] with the path of the first such repository.
    pub(super) async fn check_submodules(&self) -> Result<(), GitError> {
        let inside = self.repositories_inside().await?;
        match inside.into_iter().find(|inner| !inner.is_linked) {
            None => Ok(()),
            Some(inner) => Err(GitError::NotOurs {
                path: inner.place,
                why: "it is a repository in the place of a submodule, and git would run what its configuration \
                      names"
                    .to_owned(),
            }),
        }
    }

    /// Empties the places of submodules that have another repository than the one that we have linked.
    pub(super) async fn remove_foreign_repositories(&self) -> Result<(), GitError> {
        for inner in self.repositories_inside().await? {
            if inner.is_linked || inner.place != self.path().join(&inner.top) {
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

    /// The repositories in the places of submodules, at any depth.
    async fn repositories_inside(&self) -> Result<Vec<Inner>, GitError> {
        let tree = Tree {
            git: self.repository().git().clone(),
            root: self.path().to_owned(),
            directory: self.directory().to_owned(),
            objects: None,
            _stand_in: None,
        };
        let mut found: Vec<Inner> = Vec::new();
        for path in tree.populated().await? {
            let place = tree.root.join(&path);
            let (is_linked, tree) = match self.linked(&path)? {
                Some(linked) => (true, Some(linked)),
                None => (false, self.stand_in(&place)?),
            };
            found.push(Inner {
                top: path,
                place,
                is_linked,
                tree,
            });
        }
        let mut next = 0;
        while let Some(inner) = found.get_mut(next) {
            next += 1;
            let (top, is_linked) = (inner.top.clone(), inner.is_linked);
            let Some(tree) = &inner.tree else {
                continue;
            };
            let places: Vec<PathBuf> = match tree.populated().await {
                Ok(paths) => paths.iter().map(|path| tree.root.join(path)).collect(),
                Err(error) if is_linked => return Err(error),
                Err(_) => {
                    inner.tree = None;
                    continue;
                }
            };
            for place in places {
                let tree = match found.len() < MOST {
                    true => self.stand_in(&place)?,
                    false => None,
                };
                // Submodules of submodules are never linked.
                found.push(Inner {
                    top: top.clone(),
                    place,
                    is_linked: false,
                    tree,
                });
            }
        }
        Ok(found)
    }

    /// The working tree that we have given a submodule, if it is still that one.
    fn linked(&self, path: &Path) -> Result<Option<Tree>, GitError> {
        let Some(name) = path.to_str() else {
            return Ok(None);
        };
        if !self.marker()?.submodules.iter().any(|known| known == name) {
            return Ok(None);
        }
        let Some(directory) = self.repository().submodule_directory(name) else {
            return Ok(None);
        };
        let root = self.path().join(path);
        let directory = leads_to(&root, &directory.join("worktrees"));
        Ok(directory.map(|directory| Tree {
            git: self.repository().git().clone(),
            root,
            directory,
            objects: None,
            _stand_in: None,
        }))
    }

    /// A repository that a job may have configured, read through a git directory of our own; `None` if it
    /// cannot be read so.
    fn stand_in(&self, root: &Path) -> Result<Option<Tree>, GitError> {
        let Some(other) = Other::at(root) else {
            return Ok(None);
        };
        let format = self.repository().format();
        let made = other.stand_in(format).map_err(|source| GitError::File {
            operation: "prepare a look at a submodule",
            path: root.to_owned(),
            source,
        })?;
        Ok(Some(Tree {
            git: self.repository().git().clone(),
            root: root.to_owned(),
            directory: made.path().to_owned(),
            objects: Some(other.objects),
            _stand_in: Some(made),
        }))
    }
}

impl Tree {
    fn call<const N: usize>(&self, operation: &'static str, arguments: [&str; N]) -> Call {
        let call = self
            .git
            .call(operation, &self.root, arguments)
            .env("GIT_DIR", &self.directory)
            .env("GIT_WORK_TREE", &self.root);
        match &self.objects {
            None => call,
            Some(objects) => call.env("GIT_OBJECT_DIRECTORY", objects),
        }
    }

    async fn status(&self) -> Result<Status, GitError> {
        let call = self.call(status::OPERATION, status::ARGUMENTS);
        Status::of(call.arg(status::OUTSIDE), &[]).await
    }

    /// Submodules that have a repository in their place.
    async fn populated(&self) -> Result<Vec<PathBuf>, GitError> {
        let index = self.directory.join("index");
        if !may_have_submodules(&index).await? {
            return Ok(Vec::new());
        }
        let answer = self.call(LIST, STAGED).run().await?;
        let mut paths: Vec<PathBuf> = Vec::new();
        for field in answer.fields() {
            let Some(at) = field.iter().position(|byte| *byte == b'\t') else {
                continue;
            };
            let (entry, path) = (&field[..at], Path::new(OsStr::from_bytes(&field[at + 1..])));
            let is_populated = || {
                let place = real_directory(&self.root, path)?;
                fs::symlink_metadata(place.join(".git")).ok()
            };
            let is_new = paths.last().is_none_or(|last| last != path);
            if entry.starts_with(GITLINK.as_bytes()) && is_new && is_populated().is_some() {
                paths.push(path.to_owned());
            }
        }
        Ok(paths)
    }
}

/// Returns whether an index may have a submodule. Most have none, and finding that out starts no process.
async fn may_have_submodules(index: &Path) -> Result<bool, GitError> {
    match tokio::fs::read(index).await {
        Ok(content) => Ok(INCOMPLETE
            .iter()
            .chain([&GITLINK_MODE.as_slice()])
            .any(|mark| memmem::find(&content, mark).is_some())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(GitError::File {
            operation: "read an index",
            path: index.to_owned(),
            source,
        }),
    }
}

/// The git directory below `parent` that the `.git` file of a working tree leads to, if that leads back.
fn leads_to(root: &Path, parent: &Path) -> Option<PathBuf> {
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
fn small(path: &Path) -> Option<Vec<u8>> {
    orchestra_fs::read(path, SMALL).ok().flatten()
}

/// A repository whose configuration is not read.
struct Other {
    objects: PathBuf,
    head: OsString,
    index: Vec<u8>,
    exclude: Vec<u8>,
}

impl Other {
    fn at(root: &Path) -> Option<Self> {
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
        let read = |path: &Path| orchestra_fs::read(path, LARGE).ok();
        Some(Self {
            objects: common.join("objects"),
            head: head(&directory, &common)?,
            index: read(&directory.join("index"))?.unwrap_or_default(),
            exclude: read(&common.join("info/exclude"))?.unwrap_or_default(),
        })
    }

    /// A git directory with all but the configuration.
    fn stand_in(&self, format: ObjectFormat) -> io::Result<TempDir> {
        let made = tempfile::tempdir()?;
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
        let mut head = self.head.clone();
        head.push("\n");
        for (name, content) in [
            ("config", config.as_bytes()),
            ("HEAD", head.as_bytes()),
            ("index", &self.index),
            ("info/exclude", &self.exclude),
        ] {
            if name == "index" && content.is_empty() {
                continue;
            }
            // direct: a temporary directory of our own, which is removed after one look.
            fs::write(made.path().join(name), content)?;
        }
        Ok(made)
    }
}

/// The commit that `HEAD` names, read without git.
fn head(directory: &Path, common: &Path) -> Option<OsString> {
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
    let packed = orchestra_fs::read(&common.join("packed-refs"), LARGE).ok()??;
    let mut lines = packed.split(|byte| *byte == b'\n');
    lines.find_map(|line| {
        let at = line.iter().position(|byte| *byte == b' ')?;
        (&line[at + 1..] == name.as_bytes()).then(|| commit(&line[..at]))?
    })
}
