//! The full-text indexes.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use orchestra_board::Issue;
use rusqlite::Connection;

use super::{Write, Writing};
use crate::reader::events_said;
use crate::words;

/// Adds the indexed words of something remembered to the index, and their stems.
fn insert_memory(connection: &Connection, row: i64, texts: [&str; 3]) -> rusqlite::Result<()> {
    let mut stems = String::new();
    texts.iter().for_each(|text| words::stems(text, &mut stems));
    let [summary, content, tags] = texts;
    connection
        .prepare_cached(
            "INSERT INTO memory_text (rowid, summary, content, tags, stems) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((row, summary, content, tags, stems))?;
    Ok(())
}

/// Indexes everything remembered anew, in a table that is empty.
pub(crate) fn reindex_memory(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT id, summary, content, tags, source_id, NULL FROM chunk \
               UNION ALL SELECT id, summary, '', NULL, NULL, events FROM session";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let [tags, source_id, events]: [Option<String>; 3] =
            [row.get(3)?, row.get(4)?, row.get(5)?];
        let mut tags: Vec<String> = tags
            .and_then(|tags| serde_json::from_str(&tags).ok())
            .unwrap_or_default();
        tags.extend(source_id);
        let said = events.map(|events| events_said(&events));
        let (summary, content): (String, String) = (row.get(1)?, row.get(2)?);
        let texts = [&summary, said.as_ref().unwrap_or(&content), &tags.join(" ")];
        let [summary, content, tags] = texts.map(|text| words::indexed(text));
        insert_memory(connection, row.get(0)?, [&summary, &content, &tags])?;
    }
    Ok(())
}

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
        insert_memory(self.connection, row, [&summary, &content, &tags])?;
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
