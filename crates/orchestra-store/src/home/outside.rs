//! Boards in the user's state directory whose workspace has changed since: it has moved, has become a repository, or
//! another directory is at its path.

use std::path::{Path, PathBuf};

use orchestra_place::{Choice, Listing, Place};

use super::{BOARD, SharedHome, id_of, listless};
use crate::db::{self, Paths};
use crate::{Fault, shared};

impl SharedHome {
    /// Moves the database of a directory that was at the path of this one before out of the way. Only outside of
    /// repositories: a repository may have been cloned again. The caller holds the writers' lock.
    pub(crate) fn set_former_aside(&self, paths: &Paths) -> Result<(), Fault> {
        if self.place.is_in_repository() || is_versioned(self.anchor()) {
            return Ok(());
        }
        let Some(connection) = db::open_any_reader(&paths.database)? else {
            return Ok(());
        };
        if self.listing(&connection)? != Listing::Foreign {
            return Ok(());
        }
        drop(connection);
        let aside = (1..)
            .map(|number| paths.store.join(format!("former-{number}.db")))
            .find(|path| !path.exists())
            .unwrap_or_default();
        // The log belongs to the database and is read with it under the new name.
        for (file, end) in [
            (&paths.log, "-wal"),
            (&paths.shared_memory, "-shm"),
            (&paths.database, ""),
        ] {
            let mut name = aside.clone().into_os_string();
            name.push(end);
            // Both names are in a directory that is the user's alone.
            match std::fs::rename(file, name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Fault::io(
                        "set the board of a former directory aside",
                        error,
                    ));
                }
                _ => {}
            }
        }
        self.forget()?;
        tracing::warn!(
            "the board of the directory that was at {} before is set aside as {}",
            self.anchor().display(),
            aside.display()
        );
        Ok(())
    }

    /// Removes the board from the list of known databases: another one, or one that has its own counters, follows.
    pub(crate) fn forget(&self) -> Result<(), Fault> {
        let directory = self.directory();
        let forgotten = self.list().change(|list| list.forget(&directory));
        forgotten.map_err(listless)
    }

    /// Directory of the board that the workspace had in the state directory at an earlier path, or before it became a
    /// repository.
    pub(crate) fn former(&self) -> Result<Option<PathBuf>, Fault> {
        match self.place.is_in_repository() {
            true => self.before_repository(),
            false => self.before_move(),
        }
    }

    fn before_move(&self) -> Result<Option<PathBuf>, Fault> {
        let list = self.list().read().map_err(listless)?;
        for directory in list.before_move(self.anchor()).map_err(listless)? {
            let database = directory.join(db::DATABASE);
            if !directory.ends_with(BOARD) || !shared::is_board(&database) {
                continue;
            }
            // One that cannot be read is left where it is.
            let Ok(Some(connection)) = db::open_any_reader(&database) else {
                continue;
            };
            let Ok(Some(id)) = id_of(&connection) else {
                continue;
            };
            let listing = list.listing(id, &directory, self.anchor(), |_| true);
            if listing.map_err(listless)? == Listing::Moved {
                return Ok(Some(directory));
            }
        }
        Ok(None)
    }

    fn before_repository(&self) -> Result<Option<PathBuf>, Fault> {
        let Some(main) = self.place.main() else {
            return Ok(None);
        };
        let Ok(place) = Place::find(main, Some(&self.state), Choice::State) else {
            return Ok(None);
        };
        let before = Self::new(place, self.state.clone());
        let directory = before.directory();
        if !shared::is_board(&directory.join(db::DATABASE)) {
            return Ok(None);
        }
        let Ok(Some(connection)) = db::open_any_reader(&directory.join(db::DATABASE)) else {
            return Ok(None);
        };
        let is_ours = matches!(before.listing(&connection)?, Listing::Here | Listing::Moved);
        Ok(is_ours.then_some(directory))
    }
}

/// Returns whether a directory is in a repository.
fn is_versioned(directory: &Path) -> bool {
    let mut above = directory.ancestors();
    above.any(|above| above.join(".git").symlink_metadata().is_ok())
}
