//! Objects of a schema that no program of the project created. A database that came along with a workspace may hold
//! some: SQLite would run its triggers with the next change, and evaluate the expressions of its tables with any query.

use rusqlite::Connection;

use super::{
    CHANGED, CREATE, DOCUMENTS, MEMORY_INDEX, NEXT_MEMORY_INDEX, OLD_MEMORY_INDEX, TABLES, life,
    migrate, uids,
};
use crate::Fault;

/// Statements that create the triggers and indexes of all schemas.
const STATEMENTS: [&str; 7] = [
    CREATE,
    TABLES,
    DOCUMENTS,
    life::LIFE,
    uids::UNIQUE,
    uids::GONE,
    CHANGED,
];

/// Full-text index of the issues.
const ISSUE_INDEX: &str = "issue_text";

/// Object of a schema that is not the project's.
struct Foreign {
    kind: String,
    name: String,
}

/// Returns whether a database has triggers, views or indexes that are not the project's.
///
/// # Errors
/// [`Fault::Corrupt`] for a table that could change rows by itself or evaluates an expression.
pub(crate) fn has_foreign(connection: &Connection) -> Result<bool, Fault> {
    Ok(!find(connection)?.is_empty())
}

/// Returns whether a database has views, which could take the place of tables.
pub(crate) fn has_views(connection: &Connection) -> Result<bool, Fault> {
    Ok(find(connection)?.iter().any(|found| found.kind == "view"))
}

/// Removes all objects that are not the project's, and returns whether there were any.
///
/// # Errors
/// As [`has_foreign`].
pub(super) fn remove(connection: &Connection) -> Result<bool, Fault> {
    let found = find(connection)?;
    for Foreign { kind, name } in &found {
        tracing::warn!(kind, name, "removed a foreign object from the database");
        let name = name.replace('"', "\"\"");
        connection.execute_batch(&format!("DROP {kind} main.\"{name}\""))?;
    }
    Ok(!found.is_empty())
}

/// Creates the triggers and indexes of the newest schema that are missing.
pub(super) fn restore(connection: &Connection) -> Result<(), Fault> {
    let model = Connection::open_in_memory()?;
    migrate(&model)?;
    let mut statement = model.prepare(
        "SELECT name, sql FROM sqlite_schema WHERE type IN ('trigger', 'index') AND sql IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    let exists = "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE name = ?1)";
    while let Some(row) = rows.next()? {
        let (name, sql): (String, String) = (row.get(0)?, row.get(1)?);
        if !connection.query_row(exists, [name], |row| row.get::<_, bool>(0))? {
            connection.execute_batch(&sql)?;
        }
    }
    Ok(())
}

fn find(connection: &Connection) -> Result<Vec<Foreign>, Fault> {
    let mut statement = connection
        .prepare("SELECT type, name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL")?;
    let mut rows = statement.query([])?;
    let mut foreign = Vec::new();
    while let Some(row) = rows.next()? {
        let (kind, name, sql): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        // SQLite goes by the statement, and not by the type.
        let starts = |with: &[&str]| with.iter().any(|start| sql.starts_with(start));
        let is_whole = match kind.as_str() {
            "table" => {
                let is_table = starts(&["CREATE TABLE "]) && orchestra_fs::is_plain_table(&sql);
                is_table || is_text_index(&sql)
            }
            "index" => starts(&["CREATE INDEX ", "CREATE UNIQUE INDEX "]),
            "trigger" => starts(&["CREATE TRIGGER "]),
            "view" => starts(&["CREATE VIEW "]),
            _ => false,
        };
        if !is_whole {
            return Err(Fault::Corrupt);
        }
        if kind != "table" && !is_ours(&sql) {
            foreign.push(Foreign { kind, name });
        }
    }
    // A view goes last: its triggers go with it.
    foreign.sort_by_key(|found| found.kind == "view");
    Ok(foreign)
}

/// Returns whether a statement creates one of the full-text indexes. Their options differ between schemas, but none has
/// a table of content.
fn is_text_index(sql: &str) -> bool {
    let Some(sql) = sql.strip_prefix("CREATE VIRTUAL TABLE ") else {
        return false;
    };
    // SQLite quotes the name of a renamed table.
    let named = sql.split_once(" USING fts5 (");
    named.is_some_and(|(name, options)| {
        let name = name.trim_matches('"');
        let names = [
            ISSUE_INDEX,
            MEMORY_INDEX,
            NEXT_MEMORY_INDEX,
            OLD_MEMORY_INDEX,
        ];
        names.contains(&name) && options.contains("content = '',")
    })
}

/// Returns whether a statement is one of the project's, byte by byte.
fn is_ours(sql: &str) -> bool {
    STATEMENTS.iter().any(|statements| {
        statements.match_indices(sql).any(|(at, _)| {
            let (before, after) = (&statements[..at], &statements[at + sql.len()..]);
            (before.is_empty() || before.ends_with('\n')) && after.starts_with(';')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Connection {
        let board = Connection::open_in_memory().unwrap();
        migrate(&board).unwrap();
        board
    }

    fn objects(board: &Connection) -> Vec<(String, String)> {
        let mut statement = board
            .prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
            .unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn schema_of_a_new_board_has_nothing_foreign() {
        assert!(!has_foreign(&board()).unwrap());
    }

    #[test]
    fn planted_triggers_views_and_indexes_are_removed_and_ours_restored() {
        let board = board();
        let whole = objects(&board);
        board
            .execute_batch(
                "CREATE TRIGGER \"z \"\"1\" AFTER INSERT ON event BEGIN DELETE FROM issue; END;
                 CREATE VIEW planted AS SELECT * FROM issue;
                 CREATE TRIGGER on_view INSTEAD OF INSERT ON planted BEGIN DELETE FROM issue; END;
                 CREATE UNIQUE INDEX one ON problem ((1));
                 DROP TRIGGER chunk_added;
                 CREATE TRIGGER chunk_added AFTER INSERT ON chunk BEGIN DELETE FROM issue; END;
                 DROP INDEX issue_by_uid;
                 CREATE INDEX issue_by_uid ON issue (title);",
            )
            .unwrap();
        assert!(has_foreign(&board).unwrap());
        migrate(&board).unwrap();
        assert!(!has_foreign(&board).unwrap());
        assert_eq!(objects(&board), whole);
    }

    #[test]
    fn table_with_a_rule_or_an_expression_is_refused() {
        for table in [
            "TABLE tombstone (project INTEGER UNIQUE ON CONFLICT REPLACE)",
            "TABLE tombstone (project INTEGER, uid AS (hex(project)))",
            "TABLE tombstone (project INTEGER CHECK (hex(project) <> ''))",
            "TABLE tombstone (project INTEGER, uid DEFAULT (hex(randomblob(9))))",
            "VIRTUAL TABLE tombstone USING fts5 (project)",
            "VIRTUAL TABLE other USING fts5 (a, content = 'issue')",
        ] {
            let board = board();
            board
                .execute_batch(&format!("DROP TABLE tombstone; CREATE {table};"))
                .unwrap();
            assert!(matches!(migrate(&board), Err(Fault::Corrupt)), "{table}");
            assert!(
                matches!(has_foreign(&board), Err(Fault::Corrupt)),
                "{table}"
            );
        }
    }

    #[test]
    fn renamed_full_text_index_is_ours() {
        let board = board();
        board
            .execute_batch("ALTER TABLE memory_text RENAME TO memory_text_old")
            .unwrap();
        assert!(!has_foreign(&board).unwrap());
    }
}
