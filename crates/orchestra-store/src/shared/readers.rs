//! The connections for reading, and the checks before one of them is used.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use orchestra_place::Listing;
use rusqlite::Connection;

use super::Shared;
use crate::db::{self, FileId};
use crate::{Fault, Home};

/// The most connections for reading that are kept while nobody reads.
const IDLE_READERS: usize = 4;
/// How long a check of the place of a board holds for further reads. A check looks at three files and a header, which
/// takes a sixth of the time of a call. A read that is under way does not notice either that its board was moved.
const CHECK_HOLDS: Duration = Duration::from_millis(1);

impl Shared {
    /// Takes a reader of which the place was checked lately. See [`CHECK_HOLDS`].
    pub(super) fn take_checked_reader(&self, now: Instant) -> Option<(Connection, Option<FileId>)> {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let age = now.saturating_duration_since(readers.checked?);
        let connection = (age < CHECK_HOLDS).then(|| readers.idle.pop())??;
        Some((connection, readers.file))
    }

    pub(super) fn take_reader(&self) -> Result<(Connection, Option<FileId>), Fault> {
        if self.is_current() {
            self.place_check.check_directory_beside()?;
        } else {
            self.place_check.check()?;
            if let Some(reader) = self.reader_of_replacement() {
                return Ok(reader);
            }
        }
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let (idle, file) = (readers.idle.pop(), readers.file);
        drop(readers);
        if let Some(connection) = idle {
            return Ok((connection, file));
        }
        let Home::Shared(home) = &self.options.home else {
            return Ok((db::open_reader(&self.paths)?, file));
        };
        home.wait_for_database(&self.paths)?;
        match db::open_reader(&self.paths) {
            // It was removed again since.
            Err(_) if home.awaits_database(&self.paths)? => self.take_reader(),
            opened => Ok((opened?, file)),
        }
    }

    /// Opens this user's database that has replaced the open one. The writer reopens it a little later; readers see
    /// acknowledged changes of other programs before that.
    fn reader_of_replacement(&self) -> Option<(Connection, Option<FileId>)> {
        let Home::Shared(home) = &self.options.home else {
            return None;
        };
        let file = FileId::of(&self.paths.database)?;
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = readers.file.is_some_and(|open| open != file);
        drop(readers);
        if !is_other {
            return None;
        }
        let connection = db::open_reader(&self.paths).ok()?;
        let listing = home.listing(&connection).ok()?;
        (listing == Listing::Here).then_some((connection, Some(file)))
    }

    pub(super) fn return_reader(&self, connection: Connection, file: Option<FileId>) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.file == file && readers.idle.len() < IDLE_READERS {
            readers.idle.push(connection);
        }
    }
}
