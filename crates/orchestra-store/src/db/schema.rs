//! The tables, and the steps from one schema to the next.
//!
//! Rows that belong to a project and can be found by text (issues, remembered texts, sessions) have
//! `project << 32 | n` as their rowid, where `n` counts up in the project and is never used again:
//! so whatever concerns one project is one range of rowids, in the full-text index as well.

mod foreign;
mod life;
mod uids;
mod words;

use rusqlite::Connection;

pub(crate) use self::foreign::ForeignObjects;
use crate::Fault;
use crate::files::needs::{EARLIER, TABLES};

/// The newest schema this program knows; kept in the database's `user_version`.
pub(crate) const SCHEMA: i64 = 7;
/// The oldest schema whose boards can be read as they stand, where nothing can be written.
pub(crate) const READABLE: i64 = 1;

/// Schema of a database that was copied to where all checkouts share it: every program refuses it.
pub(crate) const MOVED: i64 = 1_000_000;

/// Refusal of a database with a newer schema.
pub(crate) const fn newer(found: i64) -> Fault {
    match found {
        MOVED => Fault::Moved,
        found => Fault::Newer {
            found,
            known: SCHEMA,
        },
    }
}

/// Marks the file as ours, so that another program's database is not taken for a board.
const APPLICATION_ID: i64 = 0x4f52_4331;

/// Makes the tables of schema 1. States, kinds and priorities are their places in `ALL` of the
/// board's enums; times are seconds since the Unix epoch.
const CREATE: &str = r#"
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO counter VALUES ('change', 0);

CREATE TABLE project (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    slug TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    next_issue INTEGER NOT NULL,
    next_bug INTEGER NOT NULL,
    next_request INTEGER NOT NULL,
    next_chunk INTEGER NOT NULL DEFAULT 1,
    next_row INTEGER NOT NULL DEFAULT 1,
    phase_of TEXT,
    phase INTEGER,
    prd_origin TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER
);

-- The description stands last, so that long ones are not walked through to reach the rest.
CREATE TABLE issue (
    id INTEGER PRIMARY KEY,
    project INTEGER NOT NULL,
    prefix TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    parent INTEGER,
    state INTEGER NOT NULL,
    own INTEGER NOT NULL,
    priority INTEGER,
    rank INTEGER,
    waits INTEGER NOT NULL DEFAULT 0,
    cancelled_with TEXT,
    fixes TEXT,
    assignees TEXT,
    labels TEXT,
    claim_agent TEXT,
    claim_until INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER,
    title TEXT NOT NULL,
    description TEXT NOT NULL
);
CREATE UNIQUE INDEX issue_by_id ON issue (project, prefix, number);
CREATE INDEX issue_by_kind ON issue (project, kind, state, prefix, number);
CREATE INDEX issue_by_parent ON issue (parent, kind, state, prefix, number) WHERE parent IS NOT NULL;
CREATE INDEX issue_by_rank ON issue (project, rank, prefix, number) WHERE rank IS NOT NULL;

-- How many issues below `parent` are of a kind and in a state. A project is its own id, negated,
-- and counts all its issues. Follows from `issue`; `doctor` compares.
CREATE TABLE tally (
    parent INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    state INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (parent, kind, state)
) WITHOUT ROWID;

-- What an issue waits for is named and not pointed to: a file may name what is not there yet.
CREATE TABLE dependency (
    issue INTEGER NOT NULL,
    prefix TEXT NOT NULL,
    number INTEGER NOT NULL,
    project INTEGER NOT NULL,
    PRIMARY KEY (issue, prefix, number)
) WITHOUT ROWID;
CREATE INDEX dependency_on ON dependency (project, prefix, number);

-- Assignees (0) and labels (1), to find issues by them.
CREATE TABLE mark (
    project INTEGER NOT NULL,
    what INTEGER NOT NULL,
    text TEXT NOT NULL,
    issue INTEGER NOT NULL,
    PRIMARY KEY (project, what, text, issue)
) WITHOUT ROWID;

CREATE TABLE alias (
    project INTEGER NOT NULL,
    prefix TEXT NOT NULL,
    number INTEGER NOT NULL,
    issue INTEGER NOT NULL,
    PRIMARY KEY (project, prefix, number)
) WITHOUT ROWID;
CREATE INDEX alias_of ON alias (issue);

-- Everything that happened, in order; rows are added and never changed.
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    issue INTEGER,
    slug TEXT,
    id TEXT,
    body TEXT NOT NULL
);
CREATE INDEX event_of_issue ON event (issue, seq) WHERE issue IS NOT NULL;

CREATE TABLE document (
    project INTEGER NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (project, name)
);
CREATE TABLE prd_session (
    project INTEGER PRIMARY KEY,
    body TEXT NOT NULL
);
CREATE TABLE request (
    project INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    at INTEGER NOT NULL,
    description TEXT NOT NULL,
    PRIMARY KEY (project, number)
);
CREATE TABLE plan (
    project INTEGER NOT NULL,
    name TEXT NOT NULL,
    title TEXT NOT NULL,
    issue TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER,
    content TEXT NOT NULL,
    PRIMARY KEY (project, name)
);

-- `segment` is the file that a remembered text stands in, `bytes` what it counts there.
CREATE TABLE chunk (
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
    summary TEXT NOT NULL,
    content TEXT NOT NULL
);
CREATE UNIQUE INDEX chunk_by_number ON chunk (project, number);
CREATE UNIQUE INDEX chunk_by_hash ON chunk (project, hash);
CREATE INDEX chunk_by_segment ON chunk (project, segment, bytes);

CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    project INTEGER NOT NULL,
    name TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    summary TEXT NOT NULL,
    events TEXT NOT NULL
);
CREATE UNIQUE INDEX session_by_name ON session (project, name);
CREATE INDEX session_by_end ON session (project, ended_at, name);

CREATE TABLE usage_total (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cost INTEGER NOT NULL
);
INSERT INTO usage_total VALUES (1, 0, 0, 0);
CREATE TABLE usage_session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    requests INTEGER NOT NULL
);
CREATE INDEX usage_session_open ON usage_session (id) WHERE ended_at IS NULL;
CREATE TABLE usage_request (
    session INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;

CREATE TABLE hook_event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    session_id TEXT,
    tool_name TEXT,
    agent_type TEXT,
    data TEXT
);

-- Every word that was ever indexed, to complete the last word of a query from.
CREATE TABLE word (
    word TEXT PRIMARY KEY
) WITHOUT ROWID;
CREATE VIRTUAL TABLE issue_text USING fts5 (
    title, description,
    content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE memory_text USING fts5 (
    summary, content, tags,
    content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);
"#;

/// Makes of schema 1 schema 2: the documents of plugins. `place` is the path as it is ordered, see
/// `DocumentPath::key`; a row whose `size`, that of the file, is null was deleted, and stays for its
/// version. What documents say stands apart, so that lists do not walk through it. The counter is
/// the version below which none is given to a path that has had none.
const DOCUMENTS: &str = "
INSERT INTO counter VALUES ('document', 0);
CREATE TABLE plugin_document (
    id INTEGER PRIMARY KEY,
    place TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    size INTEGER,
    modified_at INTEGER NOT NULL
);
CREATE INDEX plugin_document_there ON plugin_document (place, size, version, modified_at)
    WHERE size IS NOT NULL;
CREATE TABLE plugin_document_body (
    document INTEGER PRIMARY KEY,
    metadata TEXT,
    content BLOB NOT NULL
);
";

/// Makes of schema 3 schema 4: what requests to models were made for, and what was used by day. The
/// sums of a project stand under the issue `''`, those of a day that no project was named for under
/// the project `''`.
const USAGE_SUMS: &str = "
CREATE TABLE usage_of (
    project TEXT NOT NULL,
    issue TEXT NOT NULL,
    requests INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (project, issue)
) WITHOUT ROWID;
CREATE TABLE usage_day (
    day TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    project TEXT NOT NULL,
    requests INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (day, provider, model, project)
) WITHOUT ROWID;
";

/// What sessions tell of days: their requests, and of what is kept no more the rest on the day on
/// which they began.
pub(crate) const DAYS_OF_SESSIONS: &str = "
SELECT coalesce(date(at, 'unixepoch'), '1970-01-01') AS day, provider, model, '' AS project,
    sum(requests) AS requests,
    CAST(min(total(input), 9e18) AS INTEGER) AS input,
    CAST(min(total(output), 9e18) AS INTEGER) AS output,
    CAST(min(total(cost), 9e18) AS INTEGER) AS cost
FROM (
    SELECT r.at, s.provider, s.model, 1 AS requests, r.input, r.output, r.cost
    FROM main.usage_request r JOIN main.usage_session s ON s.id = r.session
    UNION ALL
    SELECT s.started_at, s.provider, s.model, 0,
        max(s.input - (SELECT total(input) FROM main.usage_request WHERE session = s.id), 0),
        max(s.output - (SELECT total(output) FROM main.usage_request WHERE session = s.id), 0),
        max(s.cost - (SELECT total(cost) FROM main.usage_request WHERE session = s.id), 0)
    FROM main.usage_session s
)
GROUP BY 1, 2, 3 HAVING sum(requests) > 0 OR total(input) + total(output) + total(cost) > 0
";

/// Lets a board of an older schema be read as if it were of schema 4, where nothing can be written.
const USAGE_SUMS_AS_READ: &str = "
CREATE TEMP VIEW usage_of AS
    SELECT '' AS project, '' AS issue, 0 AS requests, 0 AS input, 0 AS output, 0 AS cost WHERE 0;
CREATE TEMP VIEW usage_day AS
";

/// Makes of schema 6 schema 7: owners of files that changed, for the next exchange with other clones, by the number of
/// their last change. What changed before is not known, so that any file may have. The triggers also record changes by a
/// program of an earlier version that has the database open.
const CHANGED: &str = "
CREATE TABLE IF NOT EXISTS changed (
    owner TEXT PRIMARY KEY,
    seq INTEGER NOT NULL
) WITHOUT ROWID;
INSERT OR REPLACE INTO changed SELECT '*', value FROM counter WHERE name = 'change';
DROP TRIGGER IF EXISTS owner_due;
DROP TRIGGER IF EXISTS owner_due_again;
CREATE TRIGGER owner_due AFTER INSERT ON dirty BEGIN
    INSERT INTO changed VALUES (new.owner, new.seq) ON CONFLICT (owner) DO UPDATE SET seq = excluded.seq;
END;
CREATE TRIGGER owner_due_again AFTER UPDATE OF seq ON dirty BEGIN
    INSERT INTO changed VALUES (new.owner, new.seq) ON CONFLICT (owner) DO UPDATE SET seq = excluded.seq;
END;
";

/// Gives a database that is made a number of its own, so that whoever keeps rows of it notices that it
/// was built anew. Those that were made before have none.
const IDENTITY: &str = "INSERT INTO counter VALUES ('database', random())";

/// The full-text index of what is remembered; the tables that it is kept in begin with its name.
pub(crate) const MEMORY_INDEX: &str = "memory_text";
/// The one that will take its place, while it is made.
pub(crate) const NEXT_MEMORY_INDEX: &str = "memory_text_next";
/// The one whose place was taken, until it is removed.
pub(crate) const OLD_MEMORY_INDEX: &str = "memory_text_old";

/// The tokenizer of the full-text indexes: it takes words as [`crate::words`] cuts them, and changes
/// nothing of them.
const WORDS: &str = "ascii";

/// Makes a full-text index of what is remembered.
pub(crate) fn create_memory_index(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE VIRTUAL TABLE {name} USING fts5 (
            summary, content, tags, stems,
            content = '', contentless_delete = 1, tokenize = '{WORDS}'
        );"
    ))
}

/// Removes a full-text index, whatever has become of its tables.
pub(crate) fn drop_index(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    let drop = format!("DROP TABLE IF EXISTS {name}");
    if connection.execute_batch(&drop).is_err() {
        // Without its settings it cannot be opened, and so not removed.
        connection.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS {name}_config (k PRIMARY KEY, v) WITHOUT ROWID;
             INSERT OR REPLACE INTO {name}_config VALUES ('version', 4);
             {drop};"
        ))?;
    }
    ["data", "idx", "docsize", "config"]
        .iter()
        .try_for_each(|part| {
            connection.execute_batch(&format!("DROP TABLE IF EXISTS {name}_{part}"))
        })
}

/// Brings the database to the newest schema, inside the caller's transaction; says whether it was
/// new. Triggers, views and indexes that are not the project's are removed first.
pub(crate) fn migrate(connection: &Connection) -> Result<Found, Fault> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > SCHEMA {
        return Err(newer(found));
    }
    let lacks = foreign::remove(connection)?;
    if found == SCHEMA {
        if lacks {
            foreign::restore(connection)?;
        }
        return Ok(Found::Ready);
    }
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let outcome = match (found, tables) {
        (0, 0) => {
            connection.execute_batch(CREATE)?;
            connection.execute_batch(TABLES)?;
            connection.execute_batch(IDENTITY)?;
            connection.pragma_update(None, "application_id", APPLICATION_ID)?;
            Found::New
        }
        (1.., _) => Found::Ready,
        _ => return Err(Fault::Corrupt),
    };
    if found < 2 {
        connection.execute_batch(DOCUMENTS)?;
    }
    if found < 3 {
        life::begin(connection)?;
    }
    if found < 4 {
        connection.execute_batch(USAGE_SUMS)?;
        connection.execute_batch(&format!("INSERT INTO usage_day {DAYS_OF_SESSIONS}"))?;
    }
    if found < 5 {
        uids::begin(connection)?;
        words::begin(connection)?;
    }
    if found < 6 {
        connection.execute_batch(uids::GONE)?;
    }
    if found < 7 {
        connection.execute_batch(EARLIER)?;
        connection.execute_batch(CHANGED)?;
    }
    connection.pragma_update(None, "user_version", SCHEMA)?;
    if lacks {
        foreign::restore(connection)?;
    }
    Ok(outcome)
}

/// Lets a connection that only reads see a board of an older schema as if it were of the newest.
pub(crate) fn read_as_newest(connection: &Connection, found: i64) -> Result<(), Fault> {
    if found < 3 {
        connection.execute_batch(life::AS_READ)?;
    }
    if found < 4 {
        connection.execute_batch(&format!("{USAGE_SUMS_AS_READ}{DAYS_OF_SESSIONS}"))?;
    }
    if found < 5 {
        connection.execute_batch(uids::AS_READ)?;
    }
    if found < 6 {
        connection.execute_batch(uids::GONE_AS_READ)?;
    }
    Ok(())
}

/// What [`migrate`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A database that has the newest schema, by now at least.
    Ready,
    /// An empty file, which has the tables now.
    New,
}
