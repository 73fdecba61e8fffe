//! Moves of a board between its main checkout and the place that all checkouts share, on command.
//!
//! At each moment one of the two databases counts: the shared one until it is marked as moved, and without it the one in
//! the checkout.

use std::fs::File;
use std::path::{Path, PathBuf};

use orchestra_fs::Lock;

use crate::db::{self, Paths};
use crate::home::ALONE_PATIENCE;
use crate::shared::{self, clear, lock_former, publish_newest};
use crate::{Fault, FileIo as _, Home, OpenError, RealFs, SharedHome, linked};

/// Path of the database that the board of a checkout has in the directory of its readable files.
#[must_use]
pub fn own_database(projects: &Path) -> PathBuf {
    projects.join(db::STORE).join(db::DATABASE)
}

/// Returns whether a directory with readable files has the database of a board beside them.
#[must_use]
pub fn has_own_database(projects: &Path) -> bool {
    shared::is_board(&own_database(projects))
}

impl SharedHome {
    /// Returns whether the database was moved into the checkout, and its header may not show that yet.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn is_moved(&self) -> Result<bool, Fault> {
        shared::is_moved(&self.directory().join(db::DATABASE))
    }

    /// Checks that no program has the board open.
    ///
    /// # Errors
    /// [`Fault::Held`] with the names of the programs, and when the lock cannot be taken.
    pub fn check_unused(&self) -> Result<(), Fault> {
        self.alone().map(drop)
    }
}

/// Prepares the place that all checkouts share for a board, which its next opening moves there from the main checkout:
/// removes what an earlier move out of that place left.
///
/// # Errors
/// [`Fault::Held`] while another program uses the board of the main checkout, or the place cannot be written.
pub fn clear_shared(workspace: &Path, home: &SharedHome) -> Result<(), OpenError> {
    let paths = Paths::of(workspace, &Home::Shared(home.clone()));
    let clear = || {
        if let Some(former) = paths.former() {
            let lock = former.join(db::KEEPER_LOCK);
            if Lock::wait_for(&lock, ALONE_PATIENCE)?.is_none() {
                return Err(Fault::held(former, &lock));
            }
        }
        if !shared::is_moved(&paths.database)? {
            return Ok(());
        }
        let _alone = home.alone()?;
        let _locks = lock_former(&paths.store)?;
        clear(&[&paths.log, &paths.shared_memory, &paths.database])
    };
    clear().map_err(|fault| paths.failed(fault))
}

/// A shared board whose database is in the checkout as well. The shared one counts until [`CheckoutCopy::finish`].
#[derive(Debug)]
pub struct CheckoutCopy {
    shared: Paths,
    /// Held so that neither database is changed meanwhile.
    _locks: Vec<File>,
    _alone: [Lock; 2],
}

/// Copies a board that all checkouts share into its main checkout, or only locks both where the copy is there.
///
/// # Errors
/// [`Fault::Held`] while another program uses the board, [`OpenError::NotADirectory`] where the repository has no main
/// checkout, or a database cannot be read or written.
pub fn copy_to_checkout(home: &SharedHome, copies: bool) -> Result<CheckoutCopy, OpenError> {
    let directory = home.directory();
    let main = home.mirror().ok_or(OpenError::NotADirectory(directory))?;
    let from = Paths::of(main, &Home::Shared(home.clone()));
    let to = Paths::of(main, &Home::Checkout);
    to.check()?;
    let copied = || -> Result<_, Fault> {
        let alone = home.alone()?;
        to.make_directories()?;
        let mut locks = lock_former(&from.store)?;
        locks.extend(lock_former(&to.store)?);
        // A move that was cut off after its mark has nothing left to copy.
        if copies && !shared::is_moved(&from.database)? {
            home.check(&from)?;
            publish_copy(&from, &to)?;
        }
        Ok((locks, alone))
    };
    match copied() {
        Ok((locks, alone)) => Ok(CheckoutCopy {
            shared: from,
            _locks: locks,
            _alone: alone,
        }),
        Err(fault) => Err(from.failed(fault)),
    }
}

fn publish_copy(from: &Paths, to: &Paths) -> Result<(), Fault> {
    // A mirror is written without syncs, and the board follows the files of a checkout.
    let synced = RealFs.sync_all(&to.projects);
    synced.map_err(|error| Fault::io("sync .projects", error))?;
    let source = db::open_writer(&from.database)?;
    publish_newest(&source, to, |_| Ok(()))
}

impl CheckoutCopy {
    /// Has every program refuse the shared database: from now on that of the checkout counts.
    ///
    /// # Errors
    /// When the shared database cannot be marked. It still counts then.
    pub fn finish(self) -> Result<PathBuf, OpenError> {
        let marked = shared::mark_as_moved(&self.shared.database);
        marked.map_err(|fault| self.shared.failed(fault))?;
        if let Home::Shared(home) = &self.shared.home
            && let Err(fault) = home.forget()
        {
            // The next shared board skips the numbers that are listed.
            tracing::warn!(%fault, "cannot remove the board from the list of databases");
        }
        if let Home::Shared(home) = &self.shared.home
            && let Err(fault) = linked::remove_stubs(home)
        {
            tracing::warn!(%fault, "cannot remove an unusable database of a linked worktree");
        }
        Ok(self.shared.workspace)
    }
}
