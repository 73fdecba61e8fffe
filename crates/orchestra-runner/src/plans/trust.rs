//! Trust in a database of plans: it runs only if this user's programs created it or the user accepted it.
//!
//! A clone, an archive or another user can put a database of plans into a workspace. Its place and content prove
//! nothing. So each database has a random id, and a file in the user's state directory lists the ids of those that
//! this user's programs created, with the directory of each. A database that is not listed is data: it is read, and
//! nothing in it starts.

use std::{
    io,
    path::{Path, PathBuf},
};

use orchestra_place::{Databases, KnownDatabases, ListError, Listing};

use super::PlansError;
use crate::journal::{DatabaseId, Identity, Reader};

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
            Self::Listed { state, .. } => match read(state)?.has_files(digest) {
                true => Ok(()),
                false => Err(untrusted(root)),
            },
        }
    }

    /// Lists accepted files of the earlier system.
    ///
    /// # Errors
    /// As [`Trust::record`].
    pub(crate) fn record_files(&self, digest: String) -> Result<(), PlansError> {
        self.change(|list| {
            list.record_files(digest);
            Ok(())
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
            return self.change(|_| Ok(()));
        };
        self.change(|list| list.record(id, storage, workspace))
    }

    /// Changes the list under its lock.
    fn change(
        &self,
        change: impl FnOnce(&mut Databases) -> Result<(), ListError>,
    ) -> Result<(), PlansError> {
        let state = match self {
            Self::Any => return Ok(()),
            Self::Nothing => return Err(nowhere()),
            Self::Listed { state, .. } => state,
        };
        KnownDatabases::new(state).change(change).map_err(unusable)
    }

    /// Returns whether a database is listed with the directory of this storage root, under any id.
    pub(crate) fn has_place(&self, storage: &Path) -> bool {
        let Self::Listed { state, .. } = self else {
            return matches!(self, Self::Any);
        };
        read(state).is_ok_and(|list| list.has_place(storage))
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

fn listing(
    list: &Databases,
    identity: Identity,
    storage: &Path,
    workspace: &Path,
) -> Result<Listing, PlansError> {
    let Identity::Id(id) = identity else {
        return Ok(Listing::Unlisted);
    };
    let is_gone = |storage: &Path| is_gone(storage, identity);
    let found = list.listing(id, storage, workspace, is_gone);
    found.map_err(unusable)
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

fn read(state: &Path) -> Result<Databases, PlansError> {
    KnownDatabases::new(state).read().map_err(unusable)
}

fn unusable(error: ListError) -> PlansError {
    refused(match error {
        ListError::Damaged { path, what } => format!(
            "the list of your databases of plans, {}, cannot be used ({what}), so that no plan runs: move it away, and \
             accept the plans of a workspace by `orchestra plan trust`",
            path.display()
        ),
        ListError::Unlistable { path, source } => format!(
            "the plans cannot be listed as yours, so that none of them runs: {}: {source}",
            path.display()
        ),
        error @ (ListError::Busy(_) | ListError::TooLarge(_)) => error.to_string(),
    })
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

fn refused(message: String) -> PlansError {
    PlansError::Refused {
        code: "plans-untrusted".to_owned(),
        message,
    }
}
