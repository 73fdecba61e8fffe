//! The run directory of a workspace: how programs that run find each other.

use std::path::{Path, PathBuf};

use orchestra_fs::Directory;
use serde::de::DeserializeOwned;

use crate::{Election, Leader, error::PlaceError, place::Place};

/// Its name below [`Place::own`].
const RUN: &str = "run";

/// Directory of the programs that run in a checkout, or on a board that checkouts share: where they listen, which locks they hold, and which calls they
/// have answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory {
    place: Place,
    path: PathBuf,
    is_shared: bool,
}

impl RunDirectory {
    /// The run directory in the place of a workspace.
    #[must_use]
    pub fn new(place: Place) -> Self {
        let path = place.own().join(RUN);
        Self {
            place,
            path,
            is_shared: false,
        }
    }

    /// The run directory of a board that all checkouts share.
    #[must_use]
    pub fn shared(place: Place) -> Self {
        let path = place.shared().join(RUN);
        Self {
            place,
            path,
            is_shared: true,
        }
    }

    /// Path of the directory, which may not exist yet.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it; `None` where it does not exist.
    ///
    /// # Errors
    /// When it is reached through a symbolic link or cannot be opened.
    pub fn open(&self) -> Result<Option<Directory>, PlaceError> {
        match self.is_shared {
            true => self.place.open_shared(RUN),
            false => self.place.open_own(RUN),
        }
    }

    /// Opens it, and creates it for its owner alone where it does not exist.
    ///
    /// # Errors
    /// Those of [`Place::make_own`].
    pub fn make(&self) -> Result<Directory, PlaceError> {
        match self.is_shared {
            true => self.place.make_shared(RUN),
            false => self.place.make_own(RUN),
        }
    }

    /// Returns the leader of an election in the directory. A directory that other users can open is refused while a
    /// process leads: the endpoint file may come from an archive, and another user can hold the lock.
    ///
    /// # Errors
    /// Those of [`RunDirectory::open`], [`RunDirectory::check`] and [`Election::leader`].
    pub fn leader<T: DeserializeOwned>(&self, election: Election) -> Result<Leader<T>, PlaceError> {
        match self.open()? {
            Some(run) if election.is_led(&run)? => {
                Self::check(&run)?;
                Ok(election.leader(&run)?)
            }
            _ => Ok(Leader::None),
        }
    }

    /// Checks that no other user could have put a file into the open run directory. Programs that it names are believed
    /// only then.
    ///
    /// # Errors
    /// When it belongs to another user, and when other users have a permission on it.
    pub fn check(run: &Directory) -> Result<(), PlaceError> {
        match run.is_private() {
            true => Ok(()),
            false => Err(PlaceError::NotPrivate(run.path().to_owned())),
        }
    }
}
