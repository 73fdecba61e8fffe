//! Watches the readable files, and tells which may have changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::{EventKind, RecursiveMode, Watcher as _};

use crate::files::{OTHERS, Reports, TEMP};

/// A running watcher; dropping it ends the watching.
#[derive(Debug)]
pub(crate) struct Watcher {
    root: PathBuf,
    /// `None` where the directory does not exist yet, and when the system offers no watching, or has run out of it.
    running: Option<notify::RecommendedWatcher>,
}

impl Watcher {
    /// Begins to watch `.projects/` and all directories in it but those that hold nothing
    /// readable. Where that is not possible, changes are only seen at the next start or before a
    /// file is written; that is logged. Where the directory does not exist there is nothing to watch:
    /// the caller starts another watcher once it does.
    pub(crate) fn start(projects: &Path, reports: &Arc<Reports>) -> Self {
        // Events name files by the real path.
        let root = projects
            .canonicalize()
            .unwrap_or_else(|_| projects.to_path_buf());
        let running = watch(root.clone(), Arc::clone(reports)).unwrap_or_else(|error| {
            complain(&error);
            None
        });
        let mut watcher = Self { root, running };
        let entries = std::fs::read_dir(&watcher.root)
            .into_iter()
            .flatten()
            .flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            watcher.add(&name);
        }
        watcher
    }

    /// Watches a directory right below `.projects/`, if it is one.
    pub(crate) fn add(&mut self, name: &str) {
        let path = self.root.join(name);
        let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        if OTHERS.contains(&name) || !is_directory {
            return;
        }
        if let Some(Err(error)) = self
            .running
            .as_mut()
            .map(|watcher| watcher.watch(&path, RecursiveMode::Recursive))
        {
            complain(&error);
        }
    }
}

fn complain(error: &notify::Error) {
    tracing::warn!("cannot watch the readable files, so edits are imported late: {error}");
}

/// Begins to watch a directory; `None` where it does not exist.
fn watch(
    root: PathBuf,
    reports: Arc<Reports>,
) -> notify::Result<Option<notify::RecommendedWatcher>> {
    let below = root.clone();
    let config = notify::Config::default().with_follow_symlinks(false);
    let mut watcher =
        notify::RecommendedWatcher::new(move |event| tell(&below, &reports, event), config)?;
    match watcher.watch(&root, RecursiveMode::NonRecursive) {
        Err(_) if !root.exists() => Ok(None),
        watched => watched.map(|()| Some(watcher)),
    }
}

fn tell(root: &Path, reports: &Reports, event: notify::Result<notify::Event>) {
    let event = match event {
        Ok(event) => event,
        Err(error) => {
            tracing::warn!("watching the readable files failed: {error}");
            return reports.report_all();
        }
    };
    if event.need_rescan() {
        return reports.report_all();
    }
    if matches!(event.kind, EventKind::Access(_)) {
        return;
    }
    for path in &event.paths {
        if let Some(path) = below(root, path) {
            reports.report(path);
        }
    }
}

/// The path below `.projects/`, with `/` between the names; `None` for what is none of ours.
fn below(root: &Path, path: &Path) -> Option<String> {
    let relative = path.strip_prefix(root).ok()?;
    let names: Option<Vec<&str>> = relative.iter().map(|name| name.to_str()).collect();
    let path = names?.join("/");
    let top = path.split('/').next().unwrap_or_default();
    let ours = !(path.is_empty() || path.ends_with(TEMP) || OTHERS.contains(&top));
    ours.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_does_not_exist_yet_is_no_fault_and_is_watched_once_it_does() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("projects");
        let begin = || watch(root.clone(), Arc::default()).unwrap();
        assert!(begin().is_none());
        std::fs::create_dir(&root).unwrap();
        assert!(begin().is_some());
    }
}
