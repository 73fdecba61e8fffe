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

/// Columns of the full-text indexes of all schemas.
const TEXT_COLUMNS: [&str; 3] = [
    "title, description",
    "summary, content, tags",
    "summary, content, tags, stems",
];

/// Triggers, views and indexes of a database that are not the project's.
#[derive(Debug)]
pub(crate) struct ForeignObjects(Vec<Foreign>);

#[derive(Debug)]
struct Foreign {
    kind: String,
    name: String,
}

impl ForeignObjects {
    /// Reads the schema of a database.
    ///
    /// # Errors
    /// [`Fault::Corrupt`] for a table that could change rows by itself or evaluates an expression.
    pub(crate) fn of(connection: &Connection) -> Result<Self, Fault> {
        let mut statement = connection
            .prepare("SELECT type, name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL")?;
        let mut rows = statement.query([])?;
        let mut foreign = Vec::new();
        while let Some(row) = rows.next()? {
            let (kind, name, sql): (String, String, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
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
        orchestra_sort::sort_by_key(&mut foreign, |found| found.kind == "view");
        Ok(Self(foreign))
    }

    /// Returns whether there are none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there are views, which could take the place of tables.
    pub(crate) fn has_views(&self) -> bool {
        self.0.iter().any(|found| found.kind == "view")
    }
}

/// Removes all objects that are not the project's, and returns whether there were any.
///
/// # Errors
/// As [`ForeignObjects::of`].
pub(super) fn remove(connection: &Connection) -> Result<bool, Fault> {
    let found = ForeignObjects::of(connection)?;
    for Foreign { kind, name } in &found.0 {
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

/// Returns whether a statement creates one of the full-text indexes. Their other options differ between schemas, but
/// none has a table of content. FTS5 refuses a second option `content`.
fn is_text_index(sql: &str) -> bool {
    let named = sql.strip_prefix("CREATE VIRTUAL TABLE ");
    let Some((name, options)) = named.and_then(|sql| sql.split_once(" USING fts5 (")) else {
        return false;
    };
    // SQLite quotes the name of a renamed table.
    let is_name = [
        ISSUE_INDEX,
        MEMORY_INDEX,
        NEXT_MEMORY_INDEX,
        OLD_MEMORY_INDEX,
    ]
    .contains(&name.trim_matches('"'));
    let options: Vec<&str> = options.split_ascii_whitespace().collect();
    let options = options.join(" ");
    // Behind anything but the columns, the words can be part of a comment or a quoted name.
    let has_no_content = |columns: &&str| {
        let behind = options.strip_prefix(*columns);
        behind.is_some_and(|behind| behind.starts_with(", content = '',"))
    };
    is_name && TEXT_COLUMNS.iter().any(has_no_content)
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

    fn has_foreign(board: &Connection) -> bool {
        !ForeignObjects::of(board).unwrap().is_empty()
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
        assert!(!has_foreign(&board()));
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
        assert!(has_foreign(&board));
        migrate(&board).unwrap();
        assert!(!has_foreign(&board));
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
            "VIRTUAL TABLE memory_text_next USING fts5 (title, description, /* content = '', */ content = 'issue')",
        ] {
            let board = board();
            board
                .execute_batch(&format!("DROP TABLE tombstone; CREATE {table};"))
                .unwrap();
            assert!(matches!(migrate(&board), Err(Fault::Corrupt)), "{table}");
            assert!(
                matches!(ForeignObjects::of(&board), Err(Fault::Corrupt)),
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
        assert!(!has_foreign(&board));
    }

    #[test]
    fn full_text_index_is_ours_with_no_content_directly_behind_our_columns() {
        for options in [
            "title, description, content = '', contentless_delete = 1",
            "\n  title,\n  description,\n  content = '',\n  tokenize = 'ascii'\n",
            "summary, content, tags, content = '', contentless_delete = 1",
            "summary, content, tags, stems, content = '', tokenize = 'ascii'",
        ] {
            let sql = format!("CREATE VIRTUAL TABLE issue_text USING fts5 ({options})");
            assert!(is_text_index(&sql), "{sql}");
        }
        for options in [
            "title, description, /* content = '', */ content = 'issue'",
            "title, description, -- content = '',\n content = 'issue'",
            "/* title, description, content = '', */ title, content = 'issue'",
            "title, \"description, content = '',\", content = 'issue'",
            "title, 'description, content = '',', content = 'issue'",
            "title, [description, content = '',], content = 'issue'",
            "title, description, content = 'issue', content = '',",
            "title, description, Content = 'issue', tokenize = 'x content = '','",
            "title, description, CONTENT = '', tokenize = 'ascii'",
            "title, description, content = ''",
            "title, description, content = ' ', tokenize = 'ascii'",
            "title,\u{a0}description, content = '', tokenize = 'ascii'",
            "title, content = '', tokenize = 'ascii'",
        ] {
            let sql = format!("CREATE VIRTUAL TABLE issue_text USING fts5 ({options})");
            assert!(!is_text_index(&sql), "{sql}");
        }
        let other = "USING fts5 (title, description, content = '', tokenize = 'ascii')";
        for start in [
            "CREATE VIRTUAL TABLE other ",
            "create virtual table issue_text ",
            "CREATE VIRTUAL TABLE issue_text /**/ ",
        ] {
            assert!(!is_text_index(&format!("{start}{other}")), "{start}");
        }
    }
}
