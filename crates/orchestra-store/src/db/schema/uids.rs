//! Schema 5: uids of issues and of the lines of their histories, and tombstones of deleted issues. Schema 6: issues that
//! the board has had.

use rusqlite::Connection;

use crate::Fault;
use crate::toon::history::{with_uid, without_uid};
use crate::uid::{OfLines, of_issue};

/// The uid of a history line is part of the line.
const UIDS: &str = "
ALTER TABLE issue ADD COLUMN uid BLOB;
CREATE TABLE tombstone (
    project INTEGER NOT NULL,
    uid BLOB NOT NULL,
    prefix TEXT NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (project, uid)
) WITHOUT ROWID;
";

/// Created when every issue has its uid. A program of an earlier version that had the database open
/// before continues to write, and its issues get their uids from the trigger.
pub(super) const UNIQUE: &str = "
CREATE UNIQUE INDEX issue_by_uid ON issue (uid);
CREATE TRIGGER issue_without_uid AFTER INSERT ON issue WHEN new.uid IS NULL BEGIN
    UPDATE issue SET uid = randomblob(16) WHERE id = new.id;
END;
";

/// Makes of schema 5 schema 6. All deletions leave their uids in `gone`, also those by a program of an earlier version that
/// has the database open. A tombstone without such a row came from a file.
pub(super) const GONE: &str = "
CREATE TABLE gone (
    project INTEGER NOT NULL,
    uid BLOB NOT NULL,
    PRIMARY KEY (project, uid)
) WITHOUT ROWID;
INSERT INTO gone SELECT project, uid FROM tombstone;
DELETE FROM alias WHERE EXISTS (SELECT 1 FROM issue i
    WHERE i.project = alias.project AND i.prefix = alias.prefix AND i.number = alias.number)
    OR EXISTS (SELECT 1 FROM tombstone t
    WHERE t.project = alias.project AND t.prefix = alias.prefix AND t.number = alias.number);
CREATE TRIGGER issue_gone AFTER DELETE ON issue BEGIN
    INSERT OR IGNORE INTO gone VALUES (old.project, old.uid);
END;
";

/// Lets a board of an older schema be read as if it were of schema 6, where nothing can be written.
pub(super) const GONE_AS_READ: &str = "CREATE TEMP VIEW gone AS SELECT project, uid FROM tombstone";

/// Lets a board of an older schema be read as if it were of schema 5, where nothing can be written.
pub(super) const AS_READ: &str = "
CREATE TEMP VIEW issue AS SELECT *, NULL AS uid FROM main.issue;
CREATE TEMP VIEW tombstone AS
    SELECT 0 AS project, x'' AS uid, '' AS prefix, 0 AS number, 0 AS at WHERE 0;
";

struct Issue {
    row: i64,
    slug: String,
    id: String,
    created_at: i64,
}

/// Makes of schema 4 schema 5. Uids are derived from what is stored, so that two clones of one
/// board give equal issues equal uids.
pub(super) fn begin(connection: &Connection) -> Result<(), Fault> {
    connection.execute_batch(UIDS)?;
    let issues: Vec<Issue> = connection
        .prepare(
            "SELECT i.id, p.slug, i.prefix || '-' || i.number, i.created_at FROM issue i \
             JOIN project p ON p.id = i.project ORDER BY i.id",
        )?
        .query_map([], |row| {
            Ok(Issue {
                row: row.get(0)?,
                slug: row.get(1)?,
                id: row.get(2)?,
                created_at: row.get(3)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    let mut lines =
        connection.prepare("SELECT seq, body FROM event WHERE issue = ?1 ORDER BY seq")?;
    let mut put_uid = connection.prepare("UPDATE issue SET uid = ?2 WHERE id = ?1")?;
    let mut put_line = connection.prepare("UPDATE event SET body = ?2 WHERE seq = ?1")?;
    for issue in issues {
        let history: Vec<(i64, String)> = lines
            .query_map([issue.row], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let first = history.first().map_or("", |(_, line)| line);
        let uid = of_issue(&issue.slug, &issue.id, issue.created_at, first);
        put_uid.execute((issue.row, uid.to_bytes()))?;
        let mut uids = OfLines::new(uid);
        for (seq, line) in history {
            let uid = uids.next(&line);
            put_line.execute((seq, with_uid(without_uid(&line).into_owned(), uid)))?;
        }
    }
    connection.execute_batch(UNIQUE)?;
    Ok(())
}
