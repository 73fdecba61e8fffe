//! Schema 3, the life of what is remembered: texts that change, expire and are superseded, sessions
//! made of hook events, and how much a project remembers.

use rusqlite::Connection;

use crate::Fault;
use crate::writing::text_hash;

/// Texts stand last, so that they are not walked through to reach the rest. Two texts may look alike
/// by now (`hash` leaves out white space and case): files may say so. `memory_size` follows by
/// triggers, so that what a project remembers need not be counted to know whether there is room.
pub(super) const LIFE: &str = "
CREATE TABLE chunk_of_life (
    id INTEGER PRIMARY KEY,
    project INTEGER NOT NULL,
    number INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    hash BLOB NOT NULL,
    source TEXT,
    source_id TEXT,
    tags TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER,
    expires_at INTEGER,
    superseded_by INTEGER,
    summary TEXT NOT NULL,
    content TEXT NOT NULL
);
INSERT INTO chunk_of_life
    SELECT id, project, number, segment, bytes, hash, source, source_id, tags, created_at,
        NULL, NULL, NULL, summary, content FROM chunk;
DROP TABLE chunk;
ALTER TABLE chunk_of_life RENAME TO chunk;
CREATE UNIQUE INDEX chunk_by_number ON chunk (project, number);
CREATE INDEX chunk_by_hash ON chunk (project, hash);
CREATE INDEX chunk_by_segment ON chunk (project, segment, bytes);
CREATE INDEX chunk_by_time ON chunk (project, created_at, source);
CREATE INDEX chunk_by_expiry ON chunk (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX chunk_superseded ON chunk (project, superseded_by) WHERE superseded_by IS NOT NULL;

ALTER TABLE session ADD COLUMN from_hooks INTEGER NOT NULL DEFAULT 0;
CREATE INDEX session_from_hooks ON session (project, ended_at) WHERE from_hooks = 1;

CREATE TABLE memory_size (
    project INTEGER PRIMARY KEY,
    chunks INTEGER NOT NULL DEFAULT 0,
    chunk_bytes INTEGER NOT NULL DEFAULT 0,
    sessions INTEGER NOT NULL DEFAULT 0,
    session_bytes INTEGER NOT NULL DEFAULT 0
);
INSERT INTO memory_size (project) SELECT id FROM project;
UPDATE memory_size SET
    chunks = (SELECT count(*) FROM chunk c WHERE c.project = memory_size.project),
    chunk_bytes = (SELECT coalesce(sum(bytes), 0) FROM chunk c WHERE c.project = memory_size.project),
    sessions = (SELECT count(*) FROM session s WHERE s.project = memory_size.project),
    session_bytes = (SELECT coalesce(sum(octet_length(summary) + octet_length(events)), 0)
        FROM session s WHERE s.project = memory_size.project);
CREATE TRIGGER chunk_added AFTER INSERT ON chunk BEGIN
    INSERT INTO memory_size (project, chunks, chunk_bytes) VALUES (new.project, 1, new.bytes)
        ON CONFLICT (project) DO UPDATE SET chunks = chunks + 1, chunk_bytes = chunk_bytes + new.bytes;
END;
CREATE TRIGGER chunk_resized AFTER UPDATE OF bytes ON chunk WHEN old.bytes <> new.bytes BEGIN
    UPDATE memory_size SET chunk_bytes = chunk_bytes + new.bytes - old.bytes WHERE project = new.project;
END;
CREATE TRIGGER chunk_removed AFTER DELETE ON chunk BEGIN
    UPDATE memory_size SET chunks = chunks - 1, chunk_bytes = chunk_bytes - old.bytes
        WHERE project = old.project;
END;
CREATE TRIGGER session_added AFTER INSERT ON session BEGIN
    INSERT INTO memory_size (project, sessions, session_bytes)
        VALUES (new.project, 1, octet_length(new.summary) + octet_length(new.events))
        ON CONFLICT (project) DO UPDATE SET sessions = sessions + 1,
            session_bytes = session_bytes + excluded.session_bytes;
END;
CREATE TRIGGER session_resized AFTER UPDATE OF summary, events ON session BEGIN
    UPDATE memory_size SET session_bytes = session_bytes
        + octet_length(new.summary) + octet_length(new.events)
        - octet_length(old.summary) - octet_length(old.events) WHERE project = new.project;
END;
CREATE TRIGGER session_removed AFTER DELETE ON session BEGIN
    UPDATE memory_size SET sessions = sessions - 1,
        session_bytes = session_bytes - octet_length(old.summary) - octet_length(old.events)
        WHERE project = old.project;
END;
";

/// Lets a board of schema 1 or 2 be read as if it were of schema 3, where nothing can be written.
pub(super) const AS_READ: &str = "
CREATE TEMP VIEW chunk AS SELECT *, NULL AS updated_at, NULL AS expires_at, NULL AS superseded_by
    FROM main.chunk;
CREATE TEMP VIEW session AS SELECT *, 0 AS from_hooks FROM main.session;
CREATE TEMP VIEW memory_size AS SELECT id AS project,
    (SELECT count(*) FROM main.chunk c WHERE c.project = p.id) AS chunks,
    (SELECT coalesce(sum(bytes), 0) FROM main.chunk c WHERE c.project = p.id) AS chunk_bytes,
    (SELECT count(*) FROM main.session s WHERE s.project = p.id) AS sessions,
    (SELECT coalesce(sum(octet_length(summary) + octet_length(events)), 0)
        FROM main.session s WHERE s.project = p.id) AS session_bytes
    FROM main.project p;
";

/// Makes of schema 2 schema 3.
pub(super) fn begin(connection: &Connection) -> Result<(), Fault> {
    connection.execute_batch(LIFE)?;
    let ids: Vec<i64> = connection
        .prepare("SELECT id FROM chunk")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut content = connection.prepare("SELECT content FROM chunk WHERE id = ?1")?;
    let mut put = connection.prepare("UPDATE chunk SET hash = ?2 WHERE id = ?1")?;
    for id in ids {
        let content: String = content.query_row([id], |row| row.get(0))?;
        put.execute((id, text_hash(&content)))?;
    }
    Ok(())
}
