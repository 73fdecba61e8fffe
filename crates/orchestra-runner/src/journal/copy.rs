//! Reads a database from a private copy, so that its own files stay as they are.
//!
//! SQLite creates, changes and removes the log and its index when a database is read. Git would show that as changes
//! where these files are in a repository.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
    time::SystemTime,
};

use rusqlite::Connection;
use tempfile::TempDir;

use super::{
    Fault,
    schema::{DATABASE, is_there, log, open_reader},
};

/// How often a database that is written meanwhile is copied again.
const ATTEMPTS: usize = 5;

/// Largest size of a file that is copied. A larger database is read in its place.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// Sizes of a database and its log, and the times of their last changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version([Option<(u64, Option<SystemTime>)>; 2]);

impl Version {
    pub(super) fn of(root: &Path) -> Self {
        let path = root.join(DATABASE);
        let of = |path: &Path| {
            let found = path.symlink_metadata().ok()?;
            Some((found.len(), found.modified().ok()))
        };
        Self([of(&path), of(&log(&path))])
    }

    fn is_large(&self) -> bool {
        let mut files = self.0.iter().flatten();
        files.any(|(bytes, _)| *bytes > MAX_BYTES)
    }
}

/// A connection that reads a copy of the database below a storage root; `None` where there is none yet.
pub(super) fn open(root: &Path) -> Result<Option<Connection>, Fault> {
    if !is_there(root)? {
        return Ok(None);
    }
    let path = root.join(DATABASE);
    for _ in 0..ATTEMPTS {
        let version = Version::of(root);
        if version.is_large() {
            return open_reader(root);
        }
        let copy = copied(root).map_err(|error| Fault::io("copy", &path, error))?;
        if Version::of(root) == version {
            // The copy is removed at once. SQLite has opened its files when it has looked at the schema.
            return open_reader(copy.path());
        }
    }
    Err(Fault::Locked)
}

/// Copies the database and its log.
fn copied(root: &Path) -> io::Result<TempDir> {
    let copy = orchestra_fs::temporary_directory()?;
    let (from, to) = (root.join(DATABASE), copy.path().join(DATABASE));
    for (from, to) in [(log(&from), log(&to)), (from, to)] {
        let Some(source) = orchestra_fs::open(&from).map_err(io::Error::from)? else {
            continue;
        };
        // direct: into a temporary directory that is this process's alone
        let mut target = File::create_new(&to)?;
        io::copy(&mut source.take(MAX_BYTES), &mut target)?;
    }
    Ok(copy)
}
