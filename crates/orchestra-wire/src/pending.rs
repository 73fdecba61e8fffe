//! The table of open requests, for either direction: those a peer sent us, and those we sent it.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
};

use crate::RequestId;

/// Open requests by id, never more than a fixed number.
#[derive(Debug)]
pub struct Pending<T> {
    open: HashMap<RequestId, T, BuildHasherDefault<IdHasher>>,
    limit: usize,
    next_number: u64,
}

/// Why a request cannot be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PendingError {
    /// Another request with this id is open.
    #[error("a request with this id is still open")]
    Duplicate,
    /// The table is full.
    #[error("too many open requests")]
    Full,
}

impl<T> Pending<T> {
    /// A table for at most `limit` open requests.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            open: HashMap::default(),
            limit,
            next_number: 1,
        }
    }

    /// Enters a request that the peer sent.
    ///
    /// # Errors
    /// When its id is in use, or the table is full.
    pub fn accept(&mut self, id: RequestId, value: T) -> Result<(), PendingError> {
        let full = self.open.len() >= self.limit;
        match self.open.entry(id) {
            Entry::Occupied(_) => Err(PendingError::Duplicate),
            Entry::Vacant(_) if full => Err(PendingError::Full),
            Entry::Vacant(place) => {
                place.insert(value);
                Ok(())
            }
        }
    }

    /// Enters a request of our own under a fresh id. Ids are not used again.
    ///
    /// # Errors
    /// When the table is full.
    pub fn issue(&mut self, value: T) -> Result<RequestId, PendingError> {
        if self.open.len() >= self.limit {
            return Err(PendingError::Full);
        }
        let id = RequestId::from_number(self.next_number);
        self.next_number += 1;
        self.open.insert(id.clone(), value);
        Ok(id)
    }

    /// The open request `id`.
    #[must_use]
    pub fn get(&self, id: &RequestId) -> Option<&T> {
        self.open.get(id)
    }

    /// The open request `id`, to change it.
    pub fn get_mut(&mut self, id: &RequestId) -> Option<&mut T> {
        self.open.get_mut(id)
    }

    /// Closes the request `id`.
    pub fn close(&mut self, id: &RequestId) -> Option<T> {
        self.open.remove(id)
    }

    /// Closes the request `id` if `really` says so of it.
    pub fn close_if(&mut self, id: &RequestId, really: impl FnOnce(&T) -> bool) -> Option<T> {
        let (id, value) = self.open.remove_entry(id)?;
        if really(&value) {
            return Some(value);
        }
        self.open.insert(id, value);
        None
    }

    /// Closes every request for which `keep` says no.
    pub fn retain(&mut self, mut keep: impl FnMut(&RequestId, &mut T) -> bool) {
        self.open.retain(|id, value| keep(id, value));
    }

    /// All open requests, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&RequestId, &T)> {
        self.open.iter()
    }

    /// Closes all, and hands them out in no order.
    pub fn into_open(self) -> impl Iterator<Item = (RequestId, T)> {
        self.open.into_iter()
    }

    /// How many are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Hashes ids. The table is small and belongs to the peer that chooses the ids, so that a peer
/// which makes them collide slows down itself alone, by a bounded factor.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let mixed = (self.0.rotate_left(5) ^ u64::from_le_bytes(word))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // The table uses the highest and the lowest bits.
            self.0 = mixed ^ (mixed >> 32);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_open_once_and_the_table_is_bounded() {
        let mut table = Pending::new(2);
        let id = RequestId::from_number(7);
        assert_eq!(table.accept(id.clone(), 'a'), Ok(()));
        assert_eq!(table.accept(id.clone(), 'b'), Err(PendingError::Duplicate));
        assert_eq!(table.accept(RequestId::from_number(8), 'c'), Ok(()));
        assert_eq!(
            table.accept(RequestId::from_number(9), 'd'),
            Err(PendingError::Full)
        );
        assert_eq!(table.close_if(&id, |value| *value == 'x'), None);
        assert_eq!(table.close_if(&id, |value| *value == 'a'), Some('a'));
        assert_eq!(table.close(&id), None);
        assert_eq!(table.accept(id, 'e'), Ok(()));
    }

    #[test]
    fn issued_ids_are_never_used_again() {
        let mut table = Pending::new(1);
        let first = table.issue(()).unwrap();
        assert_eq!(table.issue(()), Err(PendingError::Full));
        table.close(&first);
        assert_ne!(table.issue(()).unwrap(), first);
    }
}
