//! Exchange of the board with its other clones.

use super::Store;
use crate::exchange::{
    self, BoardChanges, BoardFiles, BoardSnapshot, BoardVersion, Effect, ExchangeError, Exchanged,
    LastExchange,
};
use crate::{ActionError, ReadError};

impl Store {
    /// Files of the board as other clones get them: without claims, usage and hook events.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn board_files(&self) -> Result<BoardSnapshot, ReadError> {
        self.read(exchange::snapshot)
    }

    /// The last exchange of the board. One that was built from its readable files alone has none.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn last_exchange(&self) -> Result<Option<LastExchange>, ReadError> {
        self.read(exchange::last)
    }

    /// The commit that the board was last exchanged as; for a copy that was never exchanged, the commit that its
    /// original was exchanged as before.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn exchanged_ancestor(&self) -> Result<Option<String>, ReadError> {
        self.read(exchange::ancestor)
    }

    /// Files of the board that can differ from those of its last exchange; `None` where all files have to be compared.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn board_changes(&self, last: &LastExchange) -> Result<Option<BoardChanges>, ReadError> {
        self.read(|reader| exchange::since(reader, last))
    }

    /// Records the commit that a version of the board was exchanged as.
    ///
    /// # Errors
    /// When the store fails.
    pub fn note_exchange(&self, commit: &str, version: BoardVersion) -> Result<(), ActionError> {
        self.start();
        exchange::note(&self.0.shared, commit, version)
    }

    /// Merges the changes of a few files that another clone has published since an exchange. `changed` has the paths of
    /// all files that either side has changed since then, with the earlier paths of moved issues. The published files and those of the exchange are those of
    /// [`files_to_parse`](crate::files_to_parse). Returns whether it did: otherwise the board stays as it is, and
    /// [`Store::exchange`] is to merge whole boards.
    ///
    /// # Errors
    /// When the store fails.
    pub fn exchange_changes(
        &self,
        changed: &[String],
        (published, base): (&BoardFiles, &BoardFiles),
        last: &LastExchange,
        origin: &str,
    ) -> Result<bool, ExchangeError> {
        self.start();
        exchange::exchange_changes(&self.0.shared, changed, (published, base), last, origin)
    }

    /// Merges files that another clone has published into the board, in one transaction. `base` has the files that both
    /// boards come from, where there are some. What is published keeps its ids, and its values where both sides changed
    /// a field; values of this board that lose are comments. `origin` describes this board in them.
    ///
    /// # Errors
    /// When a file is none of a board, cannot be parsed or contradicts another one, or when the store fails. The board
    /// stays as it is then.
    pub fn exchange(
        &self,
        published: &BoardFiles,
        base: Option<&BoardFiles>,
        origin: &str,
        effect: Effect,
    ) -> Result<Exchanged, ExchangeError> {
        self.start();
        exchange::exchange(&self.0.shared, published, base, origin, effect)
    }
}
