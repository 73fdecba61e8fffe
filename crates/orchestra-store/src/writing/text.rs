//! The full-text indexes.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use orchestra_board::Issue;

use super::{Write, Writing};
use crate::words;

impl Writing<'_> {
    pub(super) fn index_issue(&mut self, row: i64, issue: &Issue) -> Write<()> {
        let title = words::indexed(issue.title.as_str());
        let description = words::indexed(issue.description.as_str());
        self.execute(
            "INSERT INTO issue_text (rowid, title, description) VALUES (?1, ?2, ?3)",
            (row, &title, &description),
        )?;
        self.learn(&[&title, &description])
    }

    pub(super) fn unindex_issue(&self, row: i64) -> Write<()> {
        self.execute("DELETE FROM issue_text WHERE rowid = ?1", [row])?;
        Ok(())
    }

    pub(super) fn index_memory(
        &mut self,
        row: i64,
        summary: &str,
        content: &str,
        tags: &str,
    ) -> Write<()> {
        let [summary, content, tags] = [summary, content, tags].map(words::indexed);
        self.execute("DELETE FROM memory_text WHERE rowid = ?1", [row])?;
        self.execute(
            "INSERT INTO memory_text (rowid, summary, content, tags) VALUES (?1, ?2, ?3, ?4)",
            (row, &summary, &content, &tags),
        )?;
        self.learn(&[&summary, &content, &tags])
    }

    pub(super) fn unindex_memory(&self, row: i64) -> Write<()> {
        self.execute("DELETE FROM memory_text WHERE rowid = ?1", [row])?;
        Ok(())
    }

    /// Keeps the words that were not seen before, so that queries can be completed to them.
    fn learn(&mut self, texts: &[&str]) -> Write<()> {
        let mut vocabulary = BTreeSet::new();
        texts
            .iter()
            .for_each(|text| words::vocabulary(text, &mut vocabulary));
        self.check_known_words()?;
        for word in vocabulary {
            let mut hasher = DefaultHasher::new();
            word.hash(&mut hasher);
            if !self.words.learn(hasher.finish()) {
                self.execute("INSERT OR IGNORE INTO word (word) VALUES (?1)", [word])?;
            }
        }
        Ok(())
    }

    /// Forgets the words that were known, when somebody has pruned the table since.
    fn check_known_words(&mut self) -> Write<()> {
        if !self.words_checked {
            self.words_checked = true;
            let pruned = self.find_number("SELECT value FROM counter WHERE name = 'words'", [])?;
            self.words.pruned(pruned.unwrap_or(0));
        }
        Ok(())
    }

    /// Removes the words that no text has any more, so that no query is completed to them.
    pub(super) fn prune_words(&mut self) -> Write<()> {
        self.connection.execute_batch(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.issue_words USING fts5vocab ('main', 'issue_text', 'row');
             CREATE VIRTUAL TABLE IF NOT EXISTS temp.memory_words USING fts5vocab ('main', 'memory_text', 'row');
             DELETE FROM word WHERE word NOT IN (SELECT term FROM issue_words) AND word NOT IN (SELECT term FROM memory_words);
             INSERT INTO counter VALUES ('words', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1;",
        )?;
        self.words_checked = false;
        Ok(())
    }
}
