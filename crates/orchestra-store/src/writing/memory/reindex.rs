//! The full-text index of what is remembered, made anew in parts, between which others write.
//!
//! The new index is made beside the one that is searched meanwhile, and takes its place when it is
//! whole: up to the row that is reached whatever changes is changed in both. An index that is damaged
//! is removed at once; whoever searches then finds none until the new one is whole, and is told so. How
//! far it is stands in the database, so that any process goes on with what another has begun.

use std::time::{Duration, Instant};

use rusqlite::OptionalExtension;

use crate::db::schema::{
    MEMORY_INDEX, NEXT_MEMORY_INDEX, OLD_MEMORY_INDEX, create_memory_index, drop_index,
};
use crate::writing::text::texts_after;
use crate::writing::{Write, Writing};
use crate::{Made, Receipt, Reindex, Reindexed};

/// How long one part may take before others may write.
const PART: Duration = Duration::from_millis(30);
/// How many pages of an index that is not needed any more go at once.
const PAGES: usize = 1_000;

/// A new index that is not whole yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Filling {
    /// The last row that is in it.
    row: i64,
    /// Whether there is no other, because that was damaged.
    is_alone: bool,
}

impl Writing<'_> {
    /// The indexes that a row is in, or is to be in.
    pub(in crate::writing) fn indexes_of(&self, row: i64) -> Write<[Option<&'static str>; 2]> {
        if self.loading {
            return Ok([Some(MEMORY_INDEX), None]);
        }
        let filling = self.filling()?;
        let is_alone = filling.is_some_and(|filling| filling.is_alone);
        let is_reached = filling.is_some_and(|filling| row <= filling.row);
        Ok([
            (!is_alone).then_some(MEMORY_INDEX),
            is_reached.then_some(NEXT_MEMORY_INDEX),
        ])
    }

    fn filling(&self) -> Write<Option<Filling>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT value, EXISTS (SELECT 1 FROM counter WHERE name = 'reindex_damaged') \
             FROM counter WHERE name = 'reindex_row'",
        )?;
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Filling {
                row: row.get(0)?,
                is_alone: row.get(1)?,
            })
        };
        Ok(statement.query_row([], read).optional()?)
    }

    /// Makes one part of the index anew.
    pub(in crate::writing) fn reindex_memory(&mut self, step: Reindex) -> Write<Receipt> {
        let run = self.reader().reindex_run()?;
        let filling = self.filling()?;
        match step {
            Reindex::Begin if filling.is_none() => self.begin(false)?,
            Reindex::Damaged(of) if of == run => self.begin(true)?,
            Reindex::Continue(of) if of != run => return self.reindexed(true),
            Reindex::Begin | Reindex::Continue(_) | Reindex::Damaged(_) => {}
        }
        let is_done = match self.filling()? {
            Some(filling) => {
                self.fill(filling)?;
                false
            }
            None => !self.remove_old_index()? && self.prune_some()?,
        };
        self.reindexed(is_done)
    }

    fn reindexed(&self, is_done: bool) -> Write<Receipt> {
        let count = |name| {
            let found = self.find_number("SELECT value FROM counter WHERE name = ?1", [name])?;
            Write::Ok(u64::try_from(found.unwrap_or(0)).unwrap_or(0))
        };
        Ok(Receipt {
            made: Made::Reindexed(Reindexed {
                run: self.reader().reindex_run()?,
                rows: count("reindex_rows")?,
                total: count("reindex_total")?,
                expired: count("reindex_expired")?,
                is_done,
            }),
            ..Receipt::default()
        })
    }

    /// Begins an index that has nothing in it, and removes the one that is there if it is damaged.
    fn begin(&mut self, damaged: bool) -> Write<()> {
        drop_index(self.connection, NEXT_MEMORY_INDEX)?;
        drop_index(self.connection, OLD_MEMORY_INDEX)?;
        if damaged {
            drop_index(self.connection, MEMORY_INDEX)?;
        }
        create_memory_index(self.connection, NEXT_MEMORY_INDEX)?;
        self.connection.execute_batch(
            "INSERT INTO counter VALUES ('reindex_run', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1;
             INSERT OR REPLACE INTO counter SELECT 'reindex_total',
                 (SELECT count(*) FROM chunk) + (SELECT count(*) FROM session);
             INSERT OR REPLACE INTO counter VALUES ('reindex_rows', 0), ('reindex_expired', 0);",
        )?;
        self.execute(
            "INSERT OR REPLACE INTO counter VALUES ('reindex_row', ?1)",
            [i64::MIN],
        )?;
        if damaged {
            self.execute(
                "INSERT OR REPLACE INTO counter VALUES ('reindex_damaged', 1)",
                [],
            )?;
        }
        self.words.pruning = None;
        Ok(())
    }

    /// Adds the next rows; behind the last of them the index is whole.
    fn fill(&mut self, filling: Filling) -> Write<()> {
        let began = Instant::now();
        let expired = self.remove_expired()?;
        let (mut last, mut rows, mut is_whole) = (filling.row, 0, false);
        while !is_whole && (rows == 0 || began.elapsed() < PART) {
            let batch = texts_after(self.connection, last)?;
            is_whole = batch.is_empty();
            for (row, texts) in &batch {
                self.index_anew(NEXT_MEMORY_INDEX, *row, texts)?;
                (last, rows) = (*row, rows + 1);
                // Long ones take as long as many short ones.
                if began.elapsed() >= PART {
                    break;
                }
            }
        }
        let add = "UPDATE counter SET value = value + ?2 WHERE name = ?1";
        self.execute(add, ("reindex_rows", rows))?;
        self.execute(add, ("reindex_expired", expired))?;
        self.execute(
            "UPDATE counter SET value = ?1 WHERE name = 'reindex_row'",
            [last],
        )?;
        // At once: however quickly others add to it, it comes to its end.
        if is_whole && expired == 0 {
            self.take_place(filling)?;
        }
        Ok(())
    }

    fn take_place(&mut self, filling: Filling) -> Write<()> {
        let rename = |from: &str, to: &str| {
            let sql = format!("ALTER TABLE {from} RENAME TO {to}");
            self.connection.execute_batch(&sql)
        };
        if !filling.is_alone {
            self.connection.execute_batch("SAVEPOINT old_index")?;
            let is_aside = rename(MEMORY_INDEX, OLD_MEMORY_INDEX).is_ok();
            if !is_aside {
                self.connection.execute_batch("ROLLBACK TO old_index")?;
                // It is damaged, then.
                drop_index(self.connection, MEMORY_INDEX)?;
            }
            self.connection.execute_batch("RELEASE old_index")?;
        }
        rename(NEXT_MEMORY_INDEX, MEMORY_INDEX)?;
        self.execute(
            "DELETE FROM counter WHERE name IN ('reindex_row', 'reindex_damaged')",
            [],
        )?;
        self.words.pruning = Some(String::new());
        Ok(())
    }

    /// Removes a part of the index whose place was taken; says whether there was one.
    fn remove_old_index(&self) -> Write<bool> {
        let there = self.find_number(
            "SELECT 1 FROM sqlite_schema WHERE name = ?1",
            [OLD_MEMORY_INDEX],
        )?;
        if there.is_none() {
            return Ok(false);
        }
        // All at once it would take as long as it is large.
        let pages = format!("{OLD_MEMORY_INDEX}_data");
        let sql = format!("DELETE FROM {pages} WHERE id IN (SELECT id FROM {pages} LIMIT ?1)");
        if self.execute(&sql, [PAGES])? < PAGES {
            drop_index(self.connection, OLD_MEMORY_INDEX)?;
        }
        Ok(true)
    }

    /// Forgets some of the words that nothing has any more; says whether that was the last of it.
    /// A process that ends meanwhile leaves them for the next time: they cost little.
    fn prune_some(&mut self) -> Write<bool> {
        let Some(last) = self.words.pruning.take() else {
            return Ok(true);
        };
        self.words.pruning = self.prune_words(&last)?;
        Ok(self.words.pruning.is_none())
    }
}
