//! Watches the readable files, and tells which may have changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::{EventKind, RecursiveMode, Watcher as _};

use crate::files::{Reports, TEMP};

/// A running watcher; dropping it ends the watching.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// `None` when the system offers no watching, or has run out of it.
    _running: Option<notify::RecommendedWatcher>,
}

impl Watcher {
    /// Begins to watch `.projects/`. Where that is not possible, changes are only seen at the next
    /// start or before a file is written; that is logged.
    pub(crate) fn start(projects: &Path, reports: &Arc<Reports>) -> Self {
        // Events name files by the real path.
        let root = projects
            .canonicalize()
            .unwrap_or_else(|_| projects.to_path_buf());
        match watch(root, Arc::clone(reports)) {
            Ok(running) => Self {
                _running: Some(running),
            },
            Err(error) => {
                tracing::warn!(
                    "the readable files cannot be watched, so edits are seen late: {error}"
                );
                Self { _running: None }
            }
        }
    }
}

fn watch(root: PathBuf, reports: Arc<Reports>) -> notify::Result<notify::RecommendedWatcher> {
    let below = root.clone();
    let config = notify::Config::default().with_follow_symlinks(false);
    let mut watcher =
        notify::RecommendedWatcher::new(move |event| tell(&below, &reports, event), config)?;
    watcher.watch(&root, RecursiveMode::Recursive)?;
    Ok(watcher)
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
    let ours = !(path.is_empty()
        || path.ends_with(TEMP)
        || path == ".store"
        || path == ".run"
        || path.starts_with(".store/")
        || path.starts_with(".run/"));
    ours.then_some(path)
}
