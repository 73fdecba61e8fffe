//! Changes of the configuration that place a board elsewhere while a program has it open.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use orchestra_store::{Home, HomeCheck};

use super::{directory_in, home_anew};
use crate::{
    config,
    exit::Failure,
    workspace::{self, WorkspaceError},
};

/// Configuration that decides where the board of a workspace is, and whether it is used. It is evaluated again only
/// after a file was changed.
#[derive(Debug)]
pub(super) struct SettingsCheck {
    workspace: PathBuf,
    /// Directory of the database that is open.
    directory: PathBuf,
    /// Configuration files, existing or not.
    files: Vec<PathBuf>,
    last: Mutex<Evaluation>,
}

/// Result of the last evaluation of the files.
#[derive(Debug)]
struct Evaluation {
    stamps: Vec<Option<Stamp>>,
    objection: Option<String>,
}

/// Metadata of a file that differs after a change.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            inode: found.ino(),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

impl SettingsCheck {
    /// The configuration by which a board was located.
    pub(super) fn new(workspace: &Path, home: &Home) -> Self {
        let user = config::user_directory().map(|directory| directory.join(config::FILE));
        let files: Vec<_> = [workspace.join(config::FILE)]
            .into_iter()
            .chain(user)
            .collect();
        let last = Evaluation {
            stamps: files.iter().map(|file| Stamp::of(file)).collect(),
            objection: None,
        };
        Self {
            workspace: workspace.to_owned(),
            directory: directory_in(workspace, home),
            files,
            last: Mutex::new(last),
        }
    }

    fn evaluate(&self) -> Option<String> {
        if !self.workspace.is_dir() {
            // A worktree that was moved or removed has left its board where it is.
            return None;
        }
        let named = self.workspace.display();
        if let Err(error @ WorkspaceError::Foreign { .. }) = workspace::directory(&self.workspace) {
            let error = anyhow::Error::from(error);
            return Some(format!("`safe_directories` was changed: {error:#}"));
        }
        match home_anew(&self.workspace) {
            Ok(home) => {
                let now = directory_in(&self.workspace, &home);
                (now != self.directory).then(|| {
                    format!(
                        "the configuration was changed and places the board of {named} in {}, while this program has \
                         the one in {} open",
                        now.display(),
                        self.directory.display()
                    )
                })
            }
            // A file that is wrong changes nothing: the next start reports it.
            Err(Failure::Usage(_)) => None,
            Err(failure) => Some(format!(
                "the configuration was changed, and the board of {named} has no place: {}",
                failure.text()
            )),
        }
    }
}

impl HomeCheck for SettingsCheck {
    fn objection(&self) -> Option<String> {
        let stamps: Vec<_> = self.files.iter().map(|file| Stamp::of(file)).collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.stamps != stamps {
            *last = Evaluation {
                stamps,
                objection: self.evaluate(),
            };
        }
        last.objection.clone()
    }
}
