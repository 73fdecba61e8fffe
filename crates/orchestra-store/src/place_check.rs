//! Checks that a board is still where it was opened: its directory was not moved, and the configuration does not place
//! it elsewhere.

use std::fmt;
use std::sync::Arc;

use orchestra_fs::Directory;

use crate::db::Paths;
use crate::shared::Shared;
use crate::{Fault, Home};

/// Configuration that decides where a board is. It is looked at before an open board is used.
pub trait HomeCheck: fmt::Debug + Send + Sync {
    /// Returns what was changed so that the board belongs elsewhere, or may not be used; `None` otherwise. It is called
    /// before each transaction, and before a read unless it was called in the last millisecond: it must be quick.
    fn objection(&self) -> Option<String>;
}

/// Check of an open board before it is used.
#[derive(Debug)]
pub(crate) struct PlaceCheck {
    /// The directory without which the board is another one, and that of the workspace in the main checkout, whose path
    /// below the git directory names the board (a linked worktree can move). As they were opened, if they existed.
    above: Vec<Directory>,
    /// Those of them that are not above the database.
    beside: Vec<Directory>,
    home: Option<Arc<dyn HomeCheck>>,
}

impl PlaceCheck {
    pub(crate) fn new(paths: &Paths, home: Option<Arc<dyn HomeCheck>>) -> Self {
        let is_main = match &paths.home {
            Home::Checkout => false,
            Home::Shared(home) => home.place().main() == Some(&*paths.workspace),
        };
        let workspace = Some(&*paths.workspace).filter(|it| is_main && *it != paths.anchor());
        let directories = workspace.into_iter().chain([paths.anchor()]);
        let (above, beside) = directories
            .filter_map(|it| Directory::open(it).ok())
            .partition(|it| paths.database.starts_with(it.path()));
        Self {
            above,
            beside,
            home,
        }
    }

    /// Refuses a board that was moved, or belongs elsewhere.
    ///
    /// # Errors
    /// Those of [`PlaceCheck::check_directory`] and [`PlaceCheck::check_configuration`].
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.check_directory()?;
        self.check_configuration()
    }

    /// Refuses a board whose directory was moved. Another one may be at its path by now, with a board of its own. A
    /// removed directory is not refused, since its board is restored.
    ///
    /// # Errors
    /// [`Fault::DirectoryMoved`].
    pub(crate) fn check_directory(&self) -> Result<(), Fault> {
        refuse_moved(&self.above).and_then(|()| refuse_moved(&self.beside))
    }

    /// As [`PlaceCheck::check_directory`], for a database that is still the file at its path: the directories above it
    /// are in place then.
    ///
    /// # Errors
    /// [`Fault::DirectoryMoved`].
    pub(crate) fn check_directory_beside(&self) -> Result<(), Fault> {
        refuse_moved(&self.beside)
    }

    /// Refuses a board that the configuration places elsewhere by now.
    ///
    /// # Errors
    /// [`Fault::Reconfigured`].
    pub(crate) fn check_configuration(&self) -> Result<(), Fault> {
        let objection = self.home.as_ref().and_then(|home| home.objection());
        objection.map_or(Ok(()), |objection| Err(Fault::Reconfigured(objection)))
    }
}

fn refuse_moved(directories: &[Directory]) -> Result<(), Fault> {
    let mut moved = directories
        .iter()
        .filter(|directory| !directory.is_in_place())
        .filter_map(|directory| Some((directory.path(), directory.current_path()?)))
        // Inode numbers change on some file systems without a move.
        .filter(|(from, to)| from != to);
    match moved.next() {
        None => Ok(()),
        Some((from, to)) => Err(Fault::DirectoryMoved {
            from: from.to_owned(),
            to,
        }),
    }
}

impl Shared {
    /// Error of a program that has a database open which was moved to another place.
    pub(crate) fn moved(&self) -> Fault {
        match &self.paths.home {
            Home::Checkout => Fault::Moved,
            Home::Shared(_) if self.paths.is_in_checkout() => {
                Fault::MovedAway(self.paths.store.clone())
            }
            // Its workspace has another path, or became a repository.
            Home::Shared(_) => Fault::Closed,
        }
    }
}
