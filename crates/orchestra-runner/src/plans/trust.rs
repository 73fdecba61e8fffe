//! Trust in a database of plans: it runs only if this user's programs created it or the user accepted it.
//!
//! A clone, an archive or another user can put a database of plans into a workspace. Its place and content prove
//! nothing. So each database has a random id, and a file in the user's state directory lists the ids of those that
//! this user's programs created, with the directory of each. A database that is not listed is data: it is read, and
//! nothing in it starts.

use std::{
    ffi::OsString,
    io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

use orchestra_fs::{Access, Directory, Lock};
use serde::{Deserialize, Serialize};

use super::PlansError;
use crate::journal::{DatabaseId, Identity, Reader};

/// The list and its lock, in the state directory.
const FILE: &str = "plans.json";
const LOCK: &str = "plans.lock";
/// Version of the list.
const VERSION: u32 = 1;
/// Largest size of the list.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Most databases that are listed; the oldest are dropped.
const MAX_ENTRIES: usize = 4_096;
/// Prefix of a path that is not UTF-8, whose bytes follow in hexadecimal digits. Other paths begin with a slash.
const BYTES: &str = "bytes:";

/// The databases of plans that may run.
#[derive(Debug, Clone, Default)]
pub enum Trust {
    /// None: there is no state directory.
    #[default]
    Nothing,
    /// Those that a list has for the workspace.
    Listed {
        /// The state directory, in which the list is.
        state: PathBuf,
        /// The workspace.
        workspace: PathBuf,
    },
    /// Every database: for programs whose storage no other user can write.
    Any,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct List {
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
    place: Place,
    /// The directory of the workspace; earlier programs did not list it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workspace: Option<Place>,
}

/// The directory of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
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
enum Listing {
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

impl Trust {
    /// Checks that the plans below a storage root may run, and changes nothing. A place without a database passes,
    /// and so does a database that cannot be read: [`Trust::admit`] decides on those. Blocks while the disk works.
    ///
    /// # Errors
    /// [`PlansError::Refused`] with the code `plans-untrusted`.
    pub(crate) fn check(&self, storage: &Path, reader: &Reader) -> Result<(), PlansError> {
        let Ok(identity) = reader.identity() else {
            return Ok(());
        };
        match self {
            Self::Any => Ok(()),
            Self::Nothing => Err(nowhere()),
            Self::Listed { .. } if identity == Identity::Absent => Ok(()),
            Self::Listed { state, workspace } => {
                match listing(&read(state)?, identity, storage, workspace)? {
                    // The plans of a copy are paused before anything of it runs.
                    Listing::Here | Listing::Moved | Listing::Copy => Ok(()),
                    Listing::Foreign => Err(foreign(storage, workspace)),
                    Listing::Unlisted => Err(untrusted(storage)),
                }
            }
        }
    }

    /// Checks that plans of this database may be copied: as [`Trust::check`], but a database that cannot be read
    /// does not pass.
    ///
    /// # Errors
    /// [`PlansError::Refused`] with the code `plans-untrusted`, or when the id of the database cannot be read.
    pub(crate) fn check_source(&self, storage: &Path, reader: &Reader) -> Result<(), PlansError> {
        if !matches!(self, Self::Any) {
            reader.identity()?;
        }
        self.check(storage, reader)
    }

    /// Checks that the user accepted files of the earlier system, which have no id.
    ///
    /// # Errors
    /// [`PlansError::Refused`] with the code `plans-untrusted`.
    pub(crate) fn check_files(&self, root: &Path, digest: &str) -> Result<(), PlansError> {
        match self {
            Self::Any => Ok(()),
            Self::Nothing => Err(nowhere()),
            Self::Listed { state, .. } => {
                match read(state)?.files.iter().any(|known| known == digest) {
                    true => Ok(()),
                    false => Err(untrusted(root)),
                }
            }
        }
    }

    /// Lists accepted files of the earlier system.
    ///
    /// # Errors
    /// As [`Trust::record`].
    pub(crate) fn record_files(&self, digest: String) -> Result<(), PlansError> {
        self.change(|list| {
            list.files.retain(|known| *known != digest);
            list.files.push(digest);
            let surplus = list.files.len().saturating_sub(MAX_ENTRIES);
            list.files.drain(..surplus);
        })
    }

    /// Checks that databases can be listed.
    ///
    /// # Errors
    /// When there is no state directory, or the list cannot be read.
    pub(crate) fn check_list(&self) -> Result<(), PlansError> {
        match self {
            Self::Any => Ok(()),
            Self::Nothing => Err(nowhere()),
            Self::Listed { state, .. } => read(state).map(drop),
        }
    }

    /// Decides whether the plans below a storage root may run. Returns the id that their database must have when it
    /// is opened; a new database is listed before it is created. Only the holder of the workspace's lock may call it.
    /// Blocks while the disk works.
    ///
    /// # Errors
    /// [`PlansError::Refused`] with the code `plans-untrusted`, or when the database or the list cannot be read or
    /// written.
    pub(crate) fn admit(&self, storage: &Path) -> Result<Option<DatabaseId>, PlansError> {
        let (state, workspace) = match self {
            Self::Any => return Ok(None),
            Self::Nothing => return Err(nowhere()),
            Self::Listed { state, workspace } => (state, workspace),
        };
        crate::journal::end_rebuild(storage)?;
        let identity = Reader::new(storage).identity()?;
        let id = match identity {
            Identity::Absent => {
                let id = new_id()?;
                self.record(id, storage)?;
                return Ok(Some(id));
            }
            Identity::Unidentified => return Err(untrusted(storage)),
            Identity::Id(id) => id,
        };
        match listing(&read(state)?, identity, storage, workspace)? {
            Listing::Here => {}
            Listing::Moved => self.record(id, storage)?,
            Listing::Foreign => return Err(foreign(storage, workspace)),
            // The holder has given a copy an id of its own before.
            Listing::Copy | Listing::Unlisted => return Err(untrusted(storage)),
        }
        Ok(Some(id))
    }

    /// Returns whether a database is the copy of a listed one, which was in another directory. Only the holder of the
    /// workspace's lock may call it. Blocks while the disk works.
    ///
    /// # Errors
    /// When the database or the list cannot be read.
    pub(crate) fn is_copy(&self, storage: &Path) -> Result<bool, PlansError> {
        let Self::Listed { state, workspace } = self else {
            return Ok(false);
        };
        crate::journal::end_rebuild(storage)?;
        let reader = Reader::new(storage);
        let identity = reader.identity()?;
        reader.close();
        match identity {
            Identity::Id(_) => {
                Ok(listing(&read(state)?, identity, storage, workspace)? == Listing::Copy)
            }
            Identity::Absent | Identity::Unidentified => Ok(false),
        }
    }

    /// Lists a database with the directory that it has now, and that of its workspace.
    ///
    /// # Errors
    /// When there is no state directory, or the list cannot be read or written.
    pub(crate) fn record(&self, id: DatabaseId, storage: &Path) -> Result<(), PlansError> {
        let Self::Listed { workspace, .. } = self else {
            return self.change(|_| ());
        };
        let place_of = |path: &Path| Place::of(path).map_err(|error| unlistable(path, &error));
        let place = place_of(storage)?;
        let workspace = Some(place_of(workspace)?);
        self.change(|list| {
            let is_other = |entry: &Entry| entry.id != id && entry.place != place;
            list.databases.retain(is_other);
            list.databases.push(Entry {
                id,
                place,
                workspace,
            });
            let surplus = list.databases.len().saturating_sub(MAX_ENTRIES);
            list.databases.drain(..surplus);
        })
    }

    /// Changes the list under its lock.
    fn change(&self, change: impl FnOnce(&mut List)) -> Result<(), PlansError> {
        let state = match self {
            Self::Any => return Ok(()),
            Self::Nothing => return Err(nowhere()),
            Self::Listed { state, .. } => state,
        };
        let failed = |error: orchestra_fs::Error| unlistable(state, &io::Error::from(error));
        Directory::private(state).map_err(failed)?;
        // Held until it is dropped.
        let _lock = Lock::wait(&state.join(LOCK)).map_err(failed)?;
        let mut list = read(state)?;
        list.version = VERSION;
        change(&mut list);
        let mut text = serde_json::to_vec_pretty(&list)
            .map_err(|error| PlansError::Internal(error.to_string()))?;
        text.push(b'\n');
        orchestra_fs::write(&state.join(FILE), &text, Access::Private).map_err(failed)
    }

    /// Returns whether a database is listed with the directory of this storage root, under any id.
    pub(crate) fn has_place(&self, storage: &Path) -> bool {
        let Self::Listed { state, .. } = self else {
            return matches!(self, Self::Any);
        };
        let (Ok(list), Ok(place)) = (read(state), Place::of(storage)) else {
            return false;
        };
        let is_here = |entry: &Entry| {
            entry.place.path == place.path
                && entry.place.device == place.device
                && entry.place.is_same_directory(&place)
        };
        list.databases.iter().any(is_here)
    }
}

/// Creates a random id.
pub(super) fn new_id() -> Result<DatabaseId, PlansError> {
    let words = |error: getrandom::Error| {
        PlansError::Internal(format!("the system has no randomness: {error}"))
    };
    DatabaseId::random().map_err(words)
}

/// Returns whether an opened database is the one that was checked.
pub(crate) fn is_expected(expected: Option<DatabaseId>, found: Identity) -> bool {
    expected.is_none_or(|id| found == Identity::Id(id))
}

impl Place {
    fn of(storage: &Path) -> io::Result<Self> {
        let path = storage.canonicalize()?;
        let found = std::fs::metadata(&path)?;
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

fn listing(
    list: &List,
    identity: Identity,
    storage: &Path,
    workspace: &Path,
) -> Result<Listing, PlansError> {
    let Identity::Id(id) = identity else {
        return Ok(Listing::Unlisted);
    };
    let Some(entry) = list.databases.iter().find(|entry| entry.id == id) else {
        return Ok(Listing::Unlisted);
    };
    let place_of = |path: &Path| Place::of(path).map_err(|error| unlistable(path, &error));
    let here = place_of(storage)?;
    let is_moved =
        || entry.place.path == here.path || is_gone(&path_of(&entry.place.path), identity);
    // The id travels with each copy and archive of the database, so that it proves nothing in another directory.
    if !entry.place.is_same_directory(&here) || !is_moved() {
        return Ok(Listing::Copy);
    }
    let home = place_of(workspace)?;
    match &entry.workspace {
        // The place of a database follows from the path of the workspace alone.
        Some(listed) if !listed.is_same_directory(&home) => Ok(Listing::Foreign),
        Some(listed) if entry.place == here && *listed == home => Ok(Listing::Here),
        _ => Ok(Listing::Moved),
    }
}

/// Returns whether a directory has the database no more. One that cannot be looked at may still have it.
fn is_gone(storage: &Path, identity: Identity) -> bool {
    match std::fs::metadata(storage) {
        Err(error) => matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
        Ok(_) => Reader::new(storage)
            .identity()
            .is_ok_and(|found| found != identity),
    }
}

fn read(state: &Path) -> Result<List, PlansError> {
    let path = state.join(FILE);
    let damaged = |what: &str| {
        refused(format!(
            "the list of your databases of plans, {}, cannot be used ({what}), so that no plan runs: move it away, and \
         accept the plans of a workspace by `orchestra plan trust`",
            path.display()
        ))
    };
    let text = orchestra_fs::read_own(&path, MAX_BYTES)
        .map_err(|error| damaged(&io::Error::from(error).to_string()))?;
    let Some(text) = text else {
        return Ok(List::default());
    };
    let list: List = serde_json::from_slice(&text).map_err(|error| damaged(&error.to_string()))?;
    match list.version {
        VERSION => Ok(list),
        other => Err(damaged(&format!("it has version {other}, not {VERSION}"))),
    }
}

fn untrusted(storage: &Path) -> PlansError {
    refused(format!(
        "the plans in {} were not created by your programs, or come from an earlier version, which did not record \
         that: none of them runs, and no other is created there; look at them by `orchestra plan list`, accept them by `orchestra plan trust`, or remove that directory",
        storage.display()
    ))
}

fn foreign(storage: &Path, workspace: &Path) -> PlansError {
    refused(format!(
        "the plans in {} were created for another directory that had the path {}, so that none of them runs and no \
         other is created there: look at them by `orchestra plan list`, accept them by `orchestra plan trust`, or \
         remove that directory",
        storage.display(),
        workspace.display()
    ))
}

fn nowhere() -> PlansError {
    refused(
        "no plan runs without a state directory, which lists the plans that your programs created: set HOME or \
         XDG_STATE_HOME"
            .to_owned(),
    )
}

fn unlistable(path: &Path, error: &io::Error) -> PlansError {
    refused(format!(
        "the plans cannot be listed as yours, so that none of them runs: {}: {error}",
        path.display()
    ))
}

fn refused(message: String) -> PlansError {
    PlansError::Refused {
        code: "plans-untrusted".to_owned(),
        message,
    }
}
