//! Watches the directories of the skills, and the way to them, and tells when something there is
//! other than before. What it is, is left to whoever looks then.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::{Directories, HOME};

/// Whether a watch stays with a directory that is moved away, so that another one of its name has
/// to be watched anew.
const IS_OF_INODE: bool = cfg!(target_os = "linux");

/// What watches; dropping it ends that.
pub(crate) struct Watching {
    workspace: PathBuf,
    /// `None` when the system offers no watching, or has run out of it.
    running: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl Watching {
    /// Gets ready to watch. `changed` is told of what happens in the directories that are
    /// [followed](Self::follow).
    pub(crate) fn new(workspace: &Path, changed: Arc<Notify>) -> Self {
        // Events name files by the real path.
        let workspace = workspace
            .canonicalize()
            .unwrap_or_else(|_| workspace.to_owned());
        let root = workspace.clone();
        let tell = move |event: notify::Result<Event>| {
            let matters = event.map_or(true, |event| matters(&root, &event));
            if matters {
                changed.notify_one();
            }
        };
        let config = notify::Config::default().with_follow_symlinks(false);
        let running = RecommendedWatcher::new(tell, config);
        Self {
            running: running.map_err(|error| complain(&error)).ok(),
            workspace,
            watched: BTreeSet::new(),
        }
    }

    /// Watches the way to the skills and these directories below it, and no others.
    pub(crate) fn follow(&mut self, directories: &Directories) {
        let way = (0..HOME.len()).map(|length| HOME[..length].iter().collect());
        let below = directories.iter().map(|names| {
            let names = names.iter().map(String::as_str);
            HOME.into_iter().chain(names).collect()
        });
        let paths = way
            .chain(below)
            .map(|path: PathBuf| self.workspace.join(path));
        let wanted: BTreeSet<PathBuf> = paths.collect();
        let Some(watcher) = &mut self.running else {
            return;
        };
        let before = std::mem::take(&mut self.watched);
        for gone in before.difference(&wanted) {
            // It fails for what is not there any more, whose watch has ended by itself.
            let _ = watcher.unwatch(gone);
        }
        // Whatever is around a directory comes before it, so that one which is not there yet is
        // told of when it comes.
        for path in wanted {
            if !is_directory(&path) {
                let _ = watcher.unwatch(&path);
                continue;
            }
            if !IS_OF_INODE && before.contains(&path) {
                self.watched.insert(path);
                continue;
            }
            match watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(path);
                }
                // It went away a moment ago, which the directory around it tells.
                Err(error) if is_missing(&error) => {}
                Err(error) => {
                    complain(&error);
                    self.running = None;
                    return;
                }
            }
        }
    }
}

fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

fn is_missing(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

fn complain(error: &notify::Error) {
    tracing::warn!("cannot watch the skills, so edits are found at the next request: {error}");
}

/// Whether an event may be one of skills.
fn matters(workspace: &Path, event: &Event) -> bool {
    // Reading is no change; a look reads.
    let is_read = matches!(event.kind, EventKind::Access(kind)
        if kind != AccessKind::Close(AccessMode::Write));
    let is_near = |path: &PathBuf| is_near(workspace, path);
    event.need_rescan() || (!is_read && event.paths.iter().any(is_near))
}

/// Whether a path lies on the way to the skills or below. What is hidden below is no part of them.
fn is_near(workspace: &Path, path: &Path) -> bool {
    let Ok(path) = path.strip_prefix(workspace) else {
        return false;
    };
    let mut names = path.iter();
    for expected in HOME {
        match names.next() {
            Some(name) if name == expected => {}
            Some(_) => return false,
            None => return true,
        }
    }
    names.all(|name| !name.as_encoded_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_skills_are_made_of_matters() {
        let workspace = Path::new("/w");
        for (path, expected) in [
            ("/w", true),
            ("/w/.claude", true),
            ("/w/.claude/skills", true),
            ("/w/.claude/skills/a/SKILL.md", true),
            ("/w/.claude/skills/a/.SKILL.md.swp", false),
            ("/w/.claude/settings.json", false),
            ("/w/src", false),
            ("/elsewhere", false),
        ] {
            assert_eq!(is_near(workspace, Path::new(path)), expected, "{path}");
        }
    }
}
