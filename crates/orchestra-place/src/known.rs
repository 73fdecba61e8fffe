//! The list of the databases that this user's programs created or the user accepted.
//!
//! A clone, an archive or another user can put a database into a workspace. Its place and content prove nothing. So each
//! database has a random id, and a file in the user's state directory lists the ids, with the directory of each.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use orchestra_fs::{Access, Directory, Lock};
use serde::{Deserialize, Serialize};

use crate::DatabaseId;

/// The list and its lock, in the state directory.
const FILE: &str = "plans.json";
const LOCK: &str = "plans.lock";
/// Version of the list.
const VERSION: u32 = 1;
/// Largest size of the list.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Most databases that are listed; the oldest are dropped.
const MAX_ENTRIES: usize = 4_096;
/// Maximum time to wait for another program that changes the list.
const PATIENCE: Duration = Duration::from_secs(5);
/// Prefix of a path that is not UTF-8, whose bytes follow in hexadecimal digits. Other paths begin with a slash.
const BYTES: &str = "bytes:";

/// A list that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// It cannot be read, or is not a list.
    #[error("cannot use the list of your databases ({}): {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// Another program keeps it locked.
    #[error("another program holds a lock on the list of your databases ({}); try again, or end that program", .0.display())]
    Busy(PathBuf),
    /// It would be larger than is read.
    #[error("the list of your databases ({}) would have more than {} bytes; remove boards that you no longer need", .0.display(), MAX_BYTES)]
    TooLarge(PathBuf),
    /// A directory cannot be listed, or the list cannot be written.
    #[error("{}: {source}", path.display())]
    Unlistable {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// The file of the list in the state directory.
#[derive(Debug, Clone)]
pub struct KnownDatabases {
    state: PathBuf,
}

/// The databases of the list.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Databases {
    version: u32,
    databases: Vec<Entry>,
    /// Digests of accepted files of the earlier system. Unlike the id of a database, anyone can compute one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    id: DatabaseId,
    #[serde(flatten)]
    place: DirectoryId,
    /// The directory of the workspace; earlier programs did not list it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workspace: Option<DirectoryId>,
    /// Of a board: the lowest issue, bug and request numbers of each project that were never given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    next: BTreeMap<String, [u64; 3]>,
}

/// The directory of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DirectoryId {
    path: String,
    device: u64,
    inode: u64,
    /// When the directory was created, in nanoseconds, where the file system records it: the number of an inode that was
    /// removed is used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<u64>,
}

/// Entry of a database in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// With its directory.
    Here,
    /// With this directory, which has another path now or is on a device with another number.
    Moved,
    /// With another directory: a copy, an archive that was extracted, or a backup that was restored.
    Copy,
    /// For another workspace, which had the path of this one.
    Foreign,
    /// None.
    Unlisted,
}

impl KnownDatabases {
    /// The list in a state directory.
    #[must_use]
    pub fn new(state: &Path) -> Self {
        let state = state.to_owned();
        Self { state }
    }

    /// Reads the list.
    ///
    /// # Errors
    /// When it cannot be read, or is not a list.
    pub fn read(&self) -> Result<Databases, ListError> {
        let path = self.state.join(FILE);
        let damaged = |what: String| ListError::Damaged {
            path: path.clone(),
            what,
        };
        let text = orchestra_fs::read_own(&path, MAX_BYTES)
            .map_err(|error| damaged(io::Error::from(error).to_string()))?;
        let Some(text) = text else {
            return Ok(Databases::default());
        };
        let list: Databases =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        match list.version {
            VERSION => Ok(list),
            other => Err(damaged(format!("it has version {other}, not {VERSION}"))),
        }
    }

    /// Changes the list under its lock.
    ///
    /// # Errors
    /// When it cannot be read or written, a directory to be listed cannot be looked at, or another program keeps the
    /// lock.
    pub fn change(
        &self,
        change: impl FnOnce(&mut Databases) -> Result<(), ListError>,
    ) -> Result<(), ListError> {
        self.change_within(PATIENCE, change)
    }

    /// As [`KnownDatabases::change`], with a maximum time to wait for the lock.
    ///
    /// # Errors
    /// Those of [`KnownDatabases::change`].
    pub fn change_within(
        &self,
        patience: Duration,
        change: impl FnOnce(&mut Databases) -> Result<(), ListError>,
    ) -> Result<(), ListError> {
        let failed = |error: orchestra_fs::Error| unlistable(&self.state)(io::Error::from(error));
        Directory::private(&self.state).map_err(failed)?;
        // Held until it is dropped.
        let lock = self.state.join(LOCK);
        let _lock = Lock::wait_for(&lock, patience)
            .map_err(failed)?
            .ok_or_else(|| ListError::Busy(self.state.join(FILE)))?;
        let mut list = self.read()?;
        list.version = VERSION;
        change(&mut list)?;
        let written = |list: &Databases| {
            let mut text = serde_json::to_vec_pretty(list)
                .map_err(|error| unlistable(&self.state)(error.into()))?;
            text.push(b'\n');
            Ok::<_, ListError>(text)
        };
        let mut text = written(&list)?;
        if is_too_large(&text) {
            list.databases.retain(Entry::may_exist);
            text = written(&list)?;
        }
        if is_too_large(&text) {
            return Err(ListError::TooLarge(self.state.join(FILE)));
        }
        orchestra_fs::write(&self.state.join(FILE), &text, Access::Private).map_err(failed)
    }
}

impl Databases {
    /// Returns how a database is listed. `is_gone` returns whether a directory has that database no more.
    ///
    /// # Errors
    /// When a directory cannot be looked at.
    pub fn listing(
        &self,
        id: DatabaseId,
        storage: &Path,
        workspace: &Path,
        is_gone: impl FnOnce(&Path) -> bool,
    ) -> Result<Listing, ListError> {
        let Some(entry) = self.databases.iter().find(|entry| entry.id == id) else {
            return Ok(Listing::Unlisted);
        };
        let here = DirectoryId::of(storage)?;
        let is_moved = || entry.place.path == here.path || is_gone(&path_of(&entry.place.path));
        // The id travels with each copy and archive of the database, so that it proves nothing in another directory.
        if !entry.place.is_same_directory(&here) || !is_moved() {
            return Ok(Listing::Copy);
        }
        let home = DirectoryId::of(workspace)?;
        match &entry.workspace {
            // The place of a database follows from the path of the workspace alone.
            Some(listed) if !listed.is_same_directory(&home) => Ok(Listing::Foreign),
            Some(listed) if entry.place == here && *listed == home => Ok(Listing::Here),
            _ => Ok(Listing::Moved),
        }
    }

    /// Lists a database with the directory that it has now, and that of its workspace. Ids that were given by the
    /// database before it in that directory stay given.
    ///
    /// # Errors
    /// When a directory cannot be looked at.
    pub fn record(
        &mut self,
        id: DatabaseId,
        storage: &Path,
        workspace: &Path,
    ) -> Result<(), ListError> {
        let place = DirectoryId::of(storage)?;
        let workspace = Some(DirectoryId::of(workspace)?);
        let mut next = self.next_at(storage)?;
        for entry in self.databases.iter().filter(|entry| entry.id == id) {
            raise(&mut next, &entry.next);
        }
        let is_other = |entry: &Entry| entry.id != id && entry.place != place;
        self.databases.retain(is_other);
        // The new entry has the numbers of all that had this path. Their ids stay: a directory may have been moved.
        for entry in &mut self.databases {
            if entry.place.path == place.path {
                entry.next.clear();
            }
        }
        self.databases.push(Entry {
            id,
            place,
            workspace,
            next,
        });
        let surplus = self.databases.len().saturating_sub(MAX_ENTRIES);
        self.databases.drain(..surplus);
        Ok(())
    }

    /// Returns the directories of the databases that a workspace had at an earlier path, which leads nowhere now.
    ///
    /// # Errors
    /// When the workspace cannot be looked at.
    pub fn before_move(&self, workspace: &Path) -> Result<Vec<PathBuf>, ListError> {
        let here = DirectoryId::of(workspace)?;
        let is_moved = |listed: &DirectoryId| {
            listed.is_same_directory(&here)
                && listed.device == here.device
                && path_of(&listed.path).symlink_metadata().is_err()
        };
        let entries = self.databases.iter();
        let moved = entries.filter(|entry| entry.workspace.as_ref().is_some_and(is_moved));
        Ok(moved.map(|entry| path_of(&entry.place.path)).collect())
    }

    /// Removes the databases with this path from the list. Their ids are free for another workspace.
    ///
    /// # Errors
    /// When the directory cannot be looked at.
    pub fn forget(&mut self, storage: &Path) -> Result<(), ListError> {
        let path = storage.canonicalize().map_err(unlistable(storage))?;
        let path = text_of(path);
        self.databases.retain(|entry| entry.place.path != path);
        Ok(())
    }

    /// Returns whether a database is listed with this directory, under any id.
    #[must_use]
    pub fn has_place(&self, storage: &Path) -> bool {
        let Ok(place) = DirectoryId::of(storage) else {
            return false;
        };
        let is_here = |entry: &Entry| {
            entry.place.path == place.path
                && entry.place.device == place.device
                && entry.place.is_same_directory(&place)
        };
        self.databases.iter().any(is_here)
    }

    /// Returns the lowest numbers of each project that no board at this path has given.
    ///
    /// # Errors
    /// When the directory cannot be looked at.
    pub fn next_at(&self, storage: &Path) -> Result<BTreeMap<String, [u64; 3]>, ListError> {
        let path = storage.canonicalize().map_err(unlistable(storage))?;
        let path = text_of(path);
        let mut next = BTreeMap::new();
        for entry in self
            .databases
            .iter()
            .filter(|entry| entry.place.path == path)
        {
            raise(&mut next, &entry.next);
        }
        Ok(next)
    }

    /// Raises the lowest numbers that a board has not given. Does nothing for a board that is not listed.
    pub fn raise_next(&mut self, id: DatabaseId, next: &BTreeMap<String, [u64; 3]>) {
        for entry in self.databases.iter_mut().filter(|entry| entry.id == id) {
            raise(&mut entry.next, next);
        }
    }

    /// Returns whether accepted files of the earlier system have this digest.
    #[must_use]
    pub fn has_files(&self, digest: &str) -> bool {
        self.files.iter().any(|known| known == digest)
    }

    /// Lists accepted files of the earlier system.
    pub fn record_files(&mut self, digest: String) {
        self.files.retain(|known| *known != digest);
        self.files.push(digest);
        let surplus = self.files.len().saturating_sub(MAX_ENTRIES);
        self.files.drain(..surplus);
    }
}

impl Entry {
    /// Returns whether its directory exists or cannot be looked at.
    fn may_exist(&self) -> bool {
        path_of(&self.place.path).try_exists().unwrap_or(true)
    }
}

/// Returns whether the next program would refuse to read a list.
fn is_too_large(text: &[u8]) -> bool {
    u64::try_from(text.len()).is_ok_and(|length| length > MAX_BYTES)
}

fn raise(next: &mut BTreeMap<String, [u64; 3]>, others: &BTreeMap<String, [u64; 3]>) {
    for (project, others) in others {
        let own = next.entry(project.clone()).or_default();
        for (own, other) in own.iter_mut().zip(others) {
            *own = (*own).max(*other);
        }
    }
}

impl DirectoryId {
    fn of(directory: &Path) -> Result<Self, ListError> {
        let path = directory.canonicalize().map_err(unlistable(directory))?;
        let found = std::fs::metadata(&path).map_err(unlistable(directory))?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            born: found.created().ok().and_then(nanoseconds),
            path: text_of(path),
        })
    }

    /// Returns whether both are one directory, but for its path and the number of its device, which may change when the
    /// machine starts.
    fn is_same_directory(&self, other: &Self) -> bool {
        let is_same_birth = match (self.born, other.born) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        self.inode == other.inode && is_same_birth
    }
}

fn unlistable(path: &Path) -> impl Fn(io::Error) -> ListError {
    let path = path.to_owned();
    move |source| ListError::Unlistable {
        path: path.clone(),
        source,
    }
}

fn nanoseconds(at: SystemTime) -> Option<u64> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

fn text_of(path: PathBuf) -> String {
    path.into_os_string().into_string().unwrap_or_else(|path| {
        let bytes = path.as_bytes().iter();
        let digits: String = bytes.map(|byte| format!("{byte:02x}")).collect();
        format!("{BYTES}{digits}")
    })
}

fn path_of(text: &str) -> PathBuf {
    let Some(digits) = text.strip_prefix(BYTES) else {
        return PathBuf::from(text);
    };
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    };
    let bytes: Vec<u8> = digits.as_bytes().chunks(2).filter_map(byte).collect();
    PathBuf::from(OsString::from_vec(bytes))
}
