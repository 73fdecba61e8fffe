//! Named pipes in the place of files that git opens, such as `.gitignore`: git waits for a writer without end.
//!
//! A server in a sandbox, a job or an archive can leave one. A call of git that takes long looks for a pipe from which a
//! program is about to read.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::fs::OFlags;
use tokio::time::sleep;

use super::{WORKTREES, files};

/// Duration of a call after which its directories are searched, and the factor by which the pauses grow.
const FIRST: Duration = Duration::from_secs(2);
const GROWTH: u32 = 8;

/// Files of a working tree that git opens.
const OPENED: [&str; 4] = [".gitattributes", ".gitignore", ".gitmodules", ".mailmap"];

/// Maximum number of entries that one search looks at.
const MAX_ENTRIES: usize = 4_000_000;

/// Maximum size of a file that leads to a git directory.
const MAX_LINK_BYTES: u64 = 64 << 10;

/// Opens without waiting.
const NONBLOCK: i32 = OFlags::NONBLOCK.bits().cast_signed();

/// A directory that is searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    path: PathBuf,
    /// Whether it is a git directory or in one. Git opens most files there.
    is_of_git: bool,
}

impl Place {
    pub(super) fn working_tree(path: &Path) -> Self {
        let path = path.to_owned();
        let is_of_git = path.iter().any(|name| name == ".git");
        Self { path, is_of_git }
    }

    pub(super) fn git_directory(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            is_of_git: true,
        }
    }
}

/// A look for a pipe during a call of git. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    places: Vec<Place>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The pipe. It is locked while a pipe is opened: git continues with an empty pipe, and may end before the look does.
    found: Mutex<Option<PathBuf>>,
    is_over: AtomicBool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Watch {
    pub(super) fn new(places: Vec<Place>) -> Self {
        Self {
            places,
            shared: Arc::default(),
        }
    }

    /// Waits until a program is about to read from a pipe in these directories. The program finds the pipe empty.
    pub(super) async fn finds(&self) {
        let mut pause = FIRST;
        loop {
            sleep(pause).await;
            pause = pause.saturating_mul(GROWTH);
            let (places, shared) = (self.places.clone(), Arc::clone(&self.shared));
            let looked = tokio::task::spawn_blocking(move || find(places, &shared)).await;
            if looked.is_ok_and(|is_found| is_found) {
                return;
            }
        }
    }

    /// Takes the pipe that was found.
    pub(super) fn found(&self) -> Option<PathBuf> {
        self.shared.lock().take()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a path if it leads to a pipe from which a program reads, or is about to. Returns whether it does.
    fn note(&self, path: &Path) -> bool {
        if !is_pipe(path) {
            return false;
        }
        let mut found = self.lock();
        // direct: a pipe that no program reads is not opened for writing, and nothing is written.
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(NONBLOCK);
        let is_awaited = options.open(path).is_ok();
        if is_awaited {
            *found = Some(path.to_owned());
        }
        is_awaited
    }
}

/// Finds a named pipe in the place of a file that git opens, in a working tree and its git directories.
#[must_use]
pub fn find_pipe(working_tree: &Path) -> Option<PathBuf> {
    let places = vec![Place::working_tree(working_tree)];
    search(places, &AtomicBool::new(false), is_pipe)
}

/// Returns whether a program waits for a pipe, and notes it.
fn find(places: Vec<Place>, shared: &Shared) -> bool {
    search(places, &shared.is_over, |path| shared.note(path)).is_some()
}

fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

/// Returns the first wanted path among the paths that git opens. Links to directories are not followed.
fn search(
    places: Vec<Place>,
    is_over: &AtomicBool,
    is_wanted: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let (mut below, mut count) = (places.clone(), 0);
    for Place { path, .. } in places {
        below.extend(git_directories(&path));
    }
    while let Some(place) = below.pop() {
        for entry in fs::read_dir(&place.path).into_iter().flatten().flatten() {
            count += 1;
            if count > MAX_ENTRIES || is_over.load(Ordering::Relaxed) {
                return None;
            }
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let is_of_git = place.is_of_git || name == ".git";
            let is_opened = is_of_git || OPENED.iter().any(|opened| name == *opened);
            if kind.is_dir() {
                // Other calls work in the worktrees of jobs.
                if name != WORKTREES {
                    below.push(Place { path, is_of_git });
                }
            } else if is_opened && is_wanted(&path) {
                return Some(path);
            }
        }
    }
    None
}

/// Returns the git directories of a linked worktree, or of a git directory that shares those of another.
fn git_directories(path: &Path) -> Vec<Place> {
    let named = |file: &Path, prefix: &str| {
        let text = files::read(file, MAX_LINK_BYTES).ok().flatten()?;
        let text = String::from_utf8(text).ok()?;
        let target = text.strip_prefix(prefix)?.trim_end().to_owned();
        Some(file.parent()?.join(target))
    };
    let own = named(&path.join(".git"), "gitdir: ");
    let common = named(&own.as_deref().unwrap_or(path).join("commondir"), "");
    let found = [own, common].into_iter().flatten();
    found.map(|path| Place::git_directory(&path)).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn make(path: &Path) {
        fs::create_dir_all(path.parent().unwrap_or(path)).unwrap_or_default();
        let made = Command::new("mkfifo").arg(path).status();
        assert!(made.is_ok_and(|status| status.success()));
    }

    fn reader(path: &Path) -> fs::File {
        let mut options = OpenOptions::new();
        let opened = options.read(true).custom_flags(NONBLOCK).open(path);
        opened.expect("a pipe opens for reading without a writer")
    }

    #[test]
    fn pipe_is_found_where_git_opens_it_and_a_program_reads() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("tree");
        let admin = root.path().join("admin");
        let search = || {
            let places = vec![Place::working_tree(&tree)];
            let shared = Shared::default();
            let is_found = find(places, &shared);
            let found = shared.lock().take();
            assert_eq!(found.is_some(), is_found);
            found
        };
        for name in [
            "a/data",
            "sub/.gitignore",
            ".git/objects/x",
            ".git/info/exclude",
        ] {
            make(&tree.join(name));
        }
        assert_eq!(search(), None);
        let _other = reader(&tree.join("a/data"));
        assert_eq!(search(), None);
        for name in ["sub/.gitignore", ".git/info/exclude", ".git/objects/x"] {
            let _reader = reader(&tree.join(name));
            assert_eq!(search(), Some(tree.join(name)));
        }
        fs::remove_dir_all(tree.join(".git")).unwrap();
        make(&admin.join("HEAD"));
        fs::write(tree.join(".git"), format!("gitdir: {}\n", admin.display())).unwrap();
        let _reader = reader(&admin.join("HEAD"));
        assert_eq!(search(), Some(admin.join("HEAD")));
    }
}
