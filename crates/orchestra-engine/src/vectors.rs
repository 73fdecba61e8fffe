//! Vectors of what is remembered, by rowid: in memory for searching, and in a file of their own so
//! that a start need not make them again.
//!
//! A search looks at every vector there is, in two steps: by one bit for each number, which is 32 MB
//! for a million texts of 256, then the fiftieth that looks nearest by its numbers. No graph has to be
//! built, a change costs the same at any size, a filter by project makes it quicker, and what is found
//! is what comparing all of them exactly would find, but for one in some thousands.
//!
//! The file follows from the store. Where it is damaged, of another format or of another model, it is
//! begun anew; where it cannot be written, vectors are kept in memory alone. Neither is an error.

mod file;
mod scan;
mod table;

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

use sha2::{Digest as _, Sha256};

use self::file::VectorFile;
use self::scan::{Query, nearest};
use self::table::Table;
use crate::model::ModelId;

/// What a text was when its vector was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextHash(i64);

impl TextHash {
    /// Of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let digest = Sha256::digest(text);
        let first = digest.first_chunk().copied().unwrap_or_default();
        Self(i64::from_le_bytes(first))
    }
}

/// A vector to be kept.
#[derive(Debug, Clone, Copy)]
pub struct NewVector<'a> {
    /// The rowid of what it was made of.
    pub row: i64,
    /// What that was.
    pub hash: TextHash,
    /// The vector; its length does not count.
    pub numbers: &'a [f32],
}

/// Something near a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// Its rowid.
    pub row: i64,
    /// The cosine of the angle between both, up to 1.
    pub similarity: f32,
}

/// What is searched.
#[derive(Clone)]
pub struct Within<'a> {
    /// The rowids, which are those of a project when they are a range.
    pub rows: RangeInclusive<i64>,
    /// What else must hold. It is asked of few rows, from several threads.
    pub keep: &'a (dyn Fn(i64) -> bool + Sync),
}

impl fmt::Debug for Within<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Within")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl Default for Within<'_> {
    /// Everything.
    fn default() -> Self {
        Self::rows(i64::MIN..=i64::MAX)
    }
}

impl Within<'_> {
    /// A range of rowids.
    #[must_use]
    pub fn rows(rows: RangeInclusive<i64>) -> Self {
        Self {
            rows,
            keep: &|_| true,
        }
    }
}

/// The vectors that one model has made.
///
/// All of it can be used from several threads at once: searches wait for nobody but a change that is
/// being put into memory, which takes microseconds.
#[derive(Debug)]
pub struct Vectors {
    model: ModelId,
    table: RwLock<Table>,
    /// None where nothing is to be kept.
    file: Option<Mutex<VectorFile>>,
}

impl Vectors {
    /// Opens those of a model, which are kept in `directory`; where there are none that can be used,
    /// it begins with none. A million are read in some seconds.
    #[must_use]
    pub fn open(directory: &Path, model: &ModelId, dimensions: usize) -> Self {
        let mut table = Table::new(dimensions);
        let file = VectorFile::open(directory, model, &mut table);
        Self {
            model: model.clone(),
            table: RwLock::new(table),
            file: Some(Mutex::new(file)),
        }
    }

    /// Vectors that are kept in memory alone.
    #[must_use]
    pub fn in_memory(model: &ModelId, dimensions: usize) -> Self {
        Self {
            model: model.clone(),
            table: RwLock::new(Table::new(dimensions)),
            file: None,
        }
    }

    /// Which model made them.
    pub const fn model(&self) -> &ModelId {
        &self.model
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(Table::len)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Of what the vector of a row was made.
    #[must_use]
    pub fn hash(&self, row: i64) -> Option<TextHash> {
        self.read(|table| table.hash(row))
    }

    /// The rows in a range that have vectors, in no order.
    #[must_use]
    pub fn rows(&self, within: RangeInclusive<i64>) -> Vec<i64> {
        self.read(|table| table.rows(&within))
    }

    /// How many rows in a range have vectors.
    #[must_use]
    pub fn count(&self, within: &RangeInclusive<i64>) -> usize {
        self.read(|table| {
            let rows = table.blocks().iter().flat_map(|block| &block.rows);
            rows.filter(|row| within.contains(row)).count()
        })
    }

    /// Keeps vectors, each in the place of what its row had. Those of another length than the
    /// model's are left out.
    pub fn put(&self, new: &[NewVector<'_>]) {
        // Whoever changes something holds the file throughout, so that it takes changes in the order
        // of the memory.
        let mut file = self.lock_file();
        {
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            for vector in new {
                table.put(vector);
            }
        }
        if let Some(file) = &mut file {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            let rows: Vec<i64> = new.iter().map(|vector| vector.row).collect();
            file.write(&table, &rows);
        }
    }

    /// Removes the vectors of rows.
    pub fn remove(&self, rows: &[i64]) {
        let mut file = self.lock_file();
        {
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            for row in rows {
                table.remove(*row);
            }
        }
        if let Some(file) = &mut file {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            file.write(&table, rows);
        }
    }

    /// The nearest rows to a query, nearest first, at most `wanted`; of equally near ones the newer
    /// first. A query that has no length, or another number of dimensions, is near nothing.
    #[must_use]
    pub fn near(&self, query: &[f32], wanted: usize, within: &Within<'_>) -> Vec<Near> {
        self.read(|table| match Query::new(query, table) {
            Some(query) if wanted > 0 => nearest(table, &query, wanted, within),
            _ => Vec::new(),
        })
    }

    fn read<T>(&self, work: impl FnOnce(&Table) -> T) -> T {
        work(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock_file(&self) -> Option<std::sync::MutexGuard<'_, VectorFile>> {
        let file = self.file.as_ref()?;
        Some(file.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
