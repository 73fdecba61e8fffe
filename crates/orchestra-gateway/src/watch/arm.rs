//! Has the system tell of changes of some paths, also of those that are not there yet: the nearest
//! directory above that is there tells when something comes.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};

use super::Told;

/// Maximum number of times that directories are looked for while new ones appear.
const MAX_ROUNDS: usize = 8;

/// What is watched.
pub(super) struct Armed {
    watcher: Option<RecommendedWatcher>,
    /// The paths whose changes count.
    wanted: Arc<Mutex<Vec<PathBuf>>>,
    /// The directories that are watched.
    directories: BTreeSet<PathBuf>,
}

impl Armed {
    pub(super) fn new(told: Told, decisions: &Path) -> Self {
        let wanted = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&wanted);
        let decisions = decisions.to_owned();
        let tell = move |event: notify::Result<Event>| {
            let wanted = seen.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                Ok(event) if !counts(&event, &wanted) => {}
                Ok(event) if is_about(&event, &decisions) => told.decision(),
                // An error says that something was not told.
                _ => told.change(),
            }
        };
        let watcher = notify::recommended_watcher(tell);
        Self {
            watcher: watcher.inspect_err(super::complain).ok(),
            wanted,
            directories: BTreeSet::new(),
        }
    }

    /// Whether the system tells of changes.
    pub(super) const fn is_told(&self) -> bool {
        self.watcher.is_some()
    }

    /// Watches exactly these paths.
    pub(super) fn arm(&mut self, paths: &[Arc<Path>]) {
        let mut wanted: Vec<PathBuf> = Vec::with_capacity(paths.len());
        for path in paths {
            wanted.extend(std::path::absolute(path));
            // A link changes where it leads to.
            wanted.extend(path.canonicalize());
        }
        self.wanted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&wanted);
        settle(&wanted, |directories| self.watch(directories));
    }

    /// Watches exactly these directories.
    fn watch(&mut self, directories: &BTreeSet<PathBuf>) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        for gone in self.directories.difference(directories) {
            // It may be gone for good.
            let _ = watcher.unwatch(gone);
        }
        let mut failed = None;
        for directory in directories {
            // Also those that are watched already: one that was removed and made again is another.
            match watcher.watch(directory, RecursiveMode::NonRecursive) {
                // What may not be looked into holds nothing that could be read.
                Err(error) if !is_denied(&error) => failed = Some(error),
                _ => {}
            }
        }
        self.directories.clone_from(directories);
        if let Some(error) = failed {
            super::complain(&error);
            self.watcher = None;
        }
    }
}

/// Passes the nearest existing directories of `wanted` to `watch`, again for as long as they change: a directory
/// that was created before its parent was watched caused no event.
fn settle(wanted: &[PathBuf], mut watch: impl FnMut(&BTreeSet<PathBuf>)) {
    let nearest =
        || -> BTreeSet<PathBuf> { wanted.iter().filter_map(|path| nearest(path)).collect() };
    let mut directories = nearest();
    for _ in 0..MAX_ROUNDS {
        watch(&directories);
        let now = nearest();
        if now == directories {
            break;
        }
        directories = now;
    }
}

fn is_denied(error: &notify::Error) -> bool {
    let notify::ErrorKind::Io(error) = &error.kind else {
        return false;
    };
    error.kind() == io::ErrorKind::PermissionDenied
}

/// The path itself when it is a directory, else the nearest one above that is there.
fn nearest(path: &Path) -> Option<PathBuf> {
    let found = path.ancestors().find(|path| path.is_dir());
    found.map(Path::to_owned)
}

/// Whether an event may have changed one of the paths: it is about one, about a directory above,
/// or about what is in one.
fn counts(event: &Event, wanted: &[PathBuf]) -> bool {
    let is_read = matches!(event.kind, EventKind::Access(kind)
        if kind != AccessKind::Close(AccessMode::Write));
    let meets = |path: &PathBuf| {
        let near = |one: &PathBuf| one.starts_with(path) || path.parent() == Some(one.as_path());
        wanted.iter().any(near)
    };
    !is_read && (event.need_rescan() || event.paths.iter().any(meets))
}

/// Whether an event is about this file, also if a link leads to its directory.
fn is_about(event: &Event, file: &Path) -> bool {
    let directory = |path: &Path| path.parent()?.canonicalize().ok();
    let is_it =
        |path: &PathBuf| path.file_name() == file.file_name() && directory(path) == directory(file);
    event.paths.iter().any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_created_while_its_parent_is_about_to_be_watched_is_watched() {
        let root = tempfile::tempdir().unwrap();
        let state = root.path().join("state");
        let mut watched = Vec::new();
        settle(&[state.join("decisions.json")], |directories| {
            if watched.is_empty() {
                std::fs::create_dir(&state).unwrap();
            }
            watched.push(directories.clone());
        });
        let only = |path: &Path| BTreeSet::from([path.to_owned()]);
        assert_eq!(watched, [only(root.path()), only(&state)]);
    }
}
