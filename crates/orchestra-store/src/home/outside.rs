//! Boards in the user's state directory whose workspace has changed since: it has moved, has become a repository, or
//! another directory is at its path.

use std::path::PathBuf;

use orchestra_place::{Choice, Listing, Place};

use super::{BOARD, SharedHome, id_of, listless};
use crate::db::{self, Paths, schema};
use crate::{Fault, shared};

impl SharedHome {
    /// Moves a database out of the way that is not that of this workspace: of another directory, which was at the path
    /// before, or what a move to another place left. The caller holds the writers' lock.
    ///
    /// # Errors
    /// [`Fault::MovedAway`] when the board is in the checkout now.
    pub(crate) fn set_foreign_aside(&self, paths: &Paths) -> Result<(), Fault> {
        let Some(connection) = db::open_any_reader(&paths.database)? else {
            return Ok(());
        };
        // The git directory has its databases with it.
        let is_foreign =
            !self.place.is_in_repository() && self.listing(&connection)? == Listing::Foreign;
        let is_stub = db::schema_of(&connection)? == schema::MOVED;
        drop(connection);
        if !is_foreign && !is_stub {
            return Ok(());
        }
        if !is_foreign && paths.is_in_checkout() {
            return Err(Fault::MovedAway(paths.store.clone()));
        }
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
                    return Err(Fault::io("set an earlier board aside", error));
                }
                _ => {}
            }
        }
        if !is_foreign {
            return Ok(());
        }
        self.forget()?;
        tracing::warn!(
            "`{}` is a new directory: renamed the board of the previous one to `{}`",
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
    pub(crate) fn earlier(&self) -> Result<Option<PathBuf>, Fault> {
        match self.place.is_in_repository() {
            true => Ok(self.before_repository()?.map(|before| before.directory())),
            false => self.before_move(),
        }
    }

    /// Returns the place that the board had before its workspace became a repository, while a program has it open there,
    /// and otherwise this one. The board moves when it is opened after that.
    #[must_use]
    pub fn or_in_use_before(self) -> Self {
        if !self.place.is_in_repository() || self.directory().join(db::DATABASE).exists() {
            return self;
        }
        match self.before_repository() {
            Ok(Some(before)) if before.is_attached() => before,
            _ => self,
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

    fn before_repository(&self) -> Result<Option<Self>, Fault> {
        let Some(main) = self.place.main() else {
            return Ok(None);
        };
        let Ok(place) = Place::find(main, Some(&self.state), Choice::State) else {
            return Ok(None);
        };
        let before = Self::new(place, self.state.clone());
        let database = before.directory().join(db::DATABASE);
        if !shared::is_board(&database) {
            return Ok(None);
        }
        let Ok(Some(connection)) = db::open_any_reader(&database) else {
            return Ok(None);
        };
        let is_ours = matches!(before.listing(&connection)?, Listing::Here | Listing::Moved);
        Ok(is_ours.then_some(before))
    }
}
