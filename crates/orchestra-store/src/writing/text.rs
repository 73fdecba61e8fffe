//! The full-text indexes.

use orchestra_board::Issue;
use rusqlite::Connection;

use super::{Write, Writing};
use crate::db::schema::MEMORY_INDEX;
use crate::reader::events_said;
use crate::words;

/// How many words are looked at before others may write.
const PRUNED_AT_ONCE: i64 = 1_000;

/// What is indexed of something remembered: its summary, what it says, and its marks.
type Texts = [String; 3];

/// How many rows are read at once.
const BATCH: usize = 64;

/// The next of what is remembered, in the order of its rows.
pub(super) fn texts_after(
    connection: &Connection,
    row: i64,
) -> rusqlite::Result<Vec<(i64, Texts)>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, summary, content, tags, source_id, NULL FROM chunk WHERE id > ?1 \
         UNION ALL SELECT id, summary, '', NULL, NULL, events FROM session WHERE id > ?1 \
         ORDER BY id LIMIT ?2",
    )?;
    let rows = statement.query_map((row, BATCH), |row| {
        let [tags, source_id, events]: [Option<String>; 3] =
            [row.get(3)?, row.get(4)?, row.get(5)?];
        let mut marks: Vec<String> = tags
            .and_then(|tags| serde_json::from_str(&tags).ok())
            .unwrap_or_default();
        marks.extend(source_id);
        let said = match events {
            Some(events) => events_said(&events),
            None => row.get(2)?,
        };
        Ok((row.get(0)?, [row.get(1)?, said, marks.join(" ")]))
    })?;
    rows.collect()
}

/// Adds something remembered, cut into words, and the stems of those to an index.
fn insert_memory(
    connection: &Connection,
    index: &str,
    row: i64,
    texts: [&str; 3],
) -> rusqlite::Result<()> {
    let mut stems = String::new();
    texts.iter().for_each(|text| words::stems(text, &mut stems));
    let [summary, content, tags] = texts;
    connection
        .prepare_cached(&format!(
            "INSERT INTO {index} (rowid, summary, content, tags, stems) VALUES (?1, ?2, ?3, ?4, ?5)"
        ))?
        .execute((row, summary, content, tags, stems))?;
    Ok(())
}

/// Indexes everything remembered, in an index that is empty.
pub(crate) fn index_all_memory(connection: &Connection) -> rusqlite::Result<()> {
    let mut last = i64::MIN;
    loop {
        let batch = texts_after(connection, last)?;
        let Some((end, _)) = batch.last() else {
            return Ok(());
        };
        last = *end;
        for (row, texts) in &batch {
            let [summary, content, tags] = texts.each_ref().map(|text| words::indexed(text));
            insert_memory(connection, MEMORY_INDEX, *row, [&summary, &content, &tags])?;
        }
    }
}

/// Indexes all issues, in an index that is empty.
pub(crate) fn index_all_issues(connection: &Connection) -> rusqlite::Result<()> {
    let mut issues = connection.prepare("SELECT id, title, description FROM issue ORDER BY id")?;
    let mut rows = issues.query([])?;
    while let Some(row) = rows.next()? {
        let [title, description]: [String; 2] = [row.get(1)?, row.get(2)?];
        insert_issue(
            connection,
            row.get(0)?,
            [&words::indexed(&title), &words::indexed(&description)],
        )?;
    }
    Ok(())
}

fn insert_issue(connection: &Connection, row: i64, texts: [&str; 2]) -> rusqlite::Result<()> {
    let [title, description] = texts;
    connection
        .prepare_cached("INSERT INTO issue_text (rowid, title, description) VALUES (?1, ?2, ?3)")?
        .execute((row, title, description))?;
    Ok(())
}

impl Writing<'_> {
    pub(super) fn index_issue(&mut self, row: i64, issue: &Issue) -> Write<()> {
        let title = words::indexed(issue.title.as_str());
        let description = words::indexed(issue.description.as_str());
        insert_issue(self.connection, row, [&title, &description])?;
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
        for index in self.indexes_of(row)?.into_iter().flatten() {
            self.execute(&format!("DELETE FROM {index} WHERE rowid = ?1"), [row])?;
            insert_memory(self.connection, index, row, [&summary, &content, &tags])?;
        }
        self.learn(&[&summary, &content, &tags])
    }

    /// Adds something remembered to an index that does not have it.
    pub(super) fn index_anew(&mut self, index: &str, row: i64, texts: &[String; 3]) -> Write<()> {
        let [summary, content, tags] = texts.each_ref().map(|text| words::indexed(text));
        insert_memory(self.connection, index, row, [&summary, &content, &tags])?;
        self.learn(&[&summary, &content, &tags])
    }

    pub(super) fn unindex_memory(&self, row: i64) -> Write<()> {
        for index in self.indexes_of(row)?.into_iter().flatten() {
            self.execute(&format!("DELETE FROM {index} WHERE rowid = ?1"), [row])?;
        }
        Ok(())
    }

    /// Keeps the words that were not seen before, so that queries can be completed to them.
    fn learn(&mut self, texts: &[&str]) -> Write<()> {
        self.check_known_words()?;
        for word in texts.iter().flat_map(|text| words::vocabulary(text)) {
            if !self.words.learn(word) {
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

    /// Removes the words that no text has any more, so that no query is completed to them: those
    /// among the next ones after `last`. Answers the last of them, `None` at the end.
    pub(super) fn prune_words(&mut self, last: &str) -> Write<Option<String>> {
        self.connection.execute_batch(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.issue_words USING fts5vocab ('main', 'issue_text', 'row');
             CREATE VIRTUAL TABLE IF NOT EXISTS temp.memory_words USING fts5vocab ('main', 'memory_text', 'row');",
        )?;
        let end: Option<String> = self
            .connection
            .prepare_cached("SELECT max(word) FROM (SELECT word FROM word WHERE word > ?1 ORDER BY word LIMIT ?2)")?
            .query_row((last, PRUNED_AT_ONCE), |row| row.get(0))?;
        let Some(end) = end else { return Ok(None) };
        let removed = self.execute(
            "DELETE FROM word WHERE word > ?1 AND word <= ?2 \
             AND word NOT IN (SELECT term FROM issue_words WHERE term > ?1 AND term <= ?2) \
             AND word NOT IN (SELECT term FROM memory_words WHERE term > ?1 AND term <= ?2)",
            (last, &end),
        )?;
        if removed > 0 {
            self.execute(
                "INSERT INTO counter VALUES ('words', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1",
                [],
            )?;
            self.words_checked = false;
        }
        Ok(Some(end))
    }
}
