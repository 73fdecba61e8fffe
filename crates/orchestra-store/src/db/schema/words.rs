//! Schema 5: words composed (Unicode's form NFKC), in indexes that change nothing of them, and labels
//! and names composed as they are parsed.

use orchestra_board::composed;
use rusqlite::Connection;

use super::{
    MEMORY_INDEX, NEXT_MEMORY_INDEX, OLD_MEMORY_INDEX, WORDS, create_memory_index, drop_index,
};
use crate::Fault;
use crate::writing::{index_all_issues, index_all_memory, text_hash};

/// Removes the index that was being made and finds no one to end it, and lets every program forget
/// which words it saw.
const FORGET: &str = "
DELETE FROM counter WHERE name IN ('reindex_row', 'reindex_damaged');
INSERT INTO counter VALUES ('words', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1;
DELETE FROM word;
";

/// Collects the words that queries are completed to: those of texts, and no stems.
const LEARN: &str = "
CREATE VIRTUAL TABLE temp.issue_words_of_5 USING fts5vocab ('main', 'issue_text', 'col');
CREATE VIRTUAL TABLE temp.memory_words_of_5 USING fts5vocab ('main', 'memory_text', 'col');
INSERT OR IGNORE INTO word SELECT term FROM issue_words_of_5 WHERE length(term) > 1;
INSERT OR IGNORE INTO word SELECT term FROM memory_words_of_5 WHERE length(term) > 1 AND col <> 'stems';
DROP TABLE temp.issue_words_of_5;
DROP TABLE temp.memory_words_of_5;
";

/// Makes of schema 4 schema 5: every text is indexed once more.
pub(super) fn begin(connection: &Connection) -> Result<(), Fault> {
    compose_chunks(connection)?;
    compose_marks(connection)?;
    for index in [
        MEMORY_INDEX,
        NEXT_MEMORY_INDEX,
        OLD_MEMORY_INDEX,
        "issue_text",
    ] {
        drop_index(connection, index)?;
    }
    connection.execute_batch(FORGET)?;
    create_memory_index(connection, MEMORY_INDEX)?;
    connection.execute_batch(&format!(
        "CREATE VIRTUAL TABLE issue_text USING fts5 (
            title, description,
            content = '', contentless_delete = 1, tokenize = '{WORDS}'
        );"
    ))?;
    index_all_memory(connection)?;
    index_all_issues(connection)?;
    connection.execute_batch(LEARN)?;
    Ok(())
}

/// Composes the marks of remembered texts, by which they are filtered, and what says which texts are
/// the same.
fn compose_chunks(connection: &Connection) -> Result<(), Fault> {
    let ids: Vec<i64> = connection
        .prepare("SELECT id FROM chunk")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut look =
        connection.prepare("SELECT content, tags, source, source_id FROM chunk WHERE id = ?1")?;
    let mut put = connection.prepare(
        "UPDATE chunk SET hash = ?2, tags = ?3, source = ?4, source_id = ?5 WHERE id = ?1",
    )?;
    for id in ids {
        let texts: [Option<String>; 4] = look.query_row([id], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
        })?;
        if texts.iter().flatten().all(|text| text.is_ascii()) {
            continue;
        }
        let [content, marks @ ..] = &texts;
        let hash = text_hash(content.as_deref().unwrap_or_default());
        let [tags, source, source_id] = marks.each_ref().map(|text| text.as_deref().map(composed));
        put.execute((id, hash, tags, source, source_id))?;
    }
    Ok(())
}

/// Composes the assignees and labels that issues are found by.
fn compose_marks(connection: &Connection) -> Result<(), Fault> {
    let texts: Vec<String> = connection
        .prepare("SELECT DISTINCT text FROM mark")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut put = connection.prepare("UPDATE OR REPLACE mark SET text = ?2 WHERE text = ?1")?;
    for text in texts {
        let whole = composed(&text);
        if whole != text {
            put.execute((&text, whole))?;
        }
    }
    Ok(())
}
