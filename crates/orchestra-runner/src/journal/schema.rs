//! The database file: its tables, and how it is opened for writing and for reading.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use orchestra_fs::{Access, Directory};
use rusqlite::{Connection, OpenFlags, TransactionBehavior, config::DbConfig};

use super::{DatabaseId, Fault, Identity, PlanKey};

/// The newest schema this program knows; kept in the database's `user_version`.
pub(super) const SCHEMA: i64 = 1;

/// Schema number of a database whose plans were moved to another place: newer than any that a program writes.
const MOVED: i64 = 1_000_000;

/// Marks the file as ours, so that another program's database is not taken for it.
const APPLICATION_ID: i64 = 0x4f52_4332;

/// How long a connection waits for another program that locked the database by itself.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// More statements than there are in the code.
const STATEMENTS: usize = 64;
const PAGE_BYTES: u64 = 4096;
/// What is left of the log file when it is begun anew.
const LOG_LIMIT_BYTES: i64 = 16 * 1024 * 1024;

/// The database's name below the storage root.
pub const DATABASE: &str = "plans.db";
/// The one that is made anew of a damaged one has this name until it is whole.
pub(super) const REBUILT: &str = "plans.db.rebuilt";

/// Times are milliseconds since the Unix epoch. `fact` has the number of holders so far (`epoch`) and of
/// the last event (`seq`), which is never used again, also after deletions. Its row `id`, a blob of 16 bytes, is
/// the [`DatabaseId`], which databases of earlier versions lack. `plan.state`: 0 there is one,
/// 1 it is deleted and its events are still there, 2 nothing of it is left but its last event.
const CREATE: &str = r#"
CREATE TABLE fact (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO fact VALUES ('epoch', 0), ('seq', 0);
CREATE TABLE plan (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    number INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    began INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    state INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    plan INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    json TEXT NOT NULL,
    "check" BLOB NOT NULL
);
CREATE UNIQUE INDEX event_by_plan ON event (plan, number);
CREATE TABLE answer (
    key TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    json TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX answer_by_age ON answer (at);
"#;

/// What keeps all that is kept of plans out of commits, wherever in a working tree it is kept.
const IGNORED: &str = ".gitignore";
const EVERYTHING: &[u8] = b"*\n";

/// The writer's connection, to a database with the newest schema. One that is created has this id.
pub(super) fn open_writer(
    root: &Path,
    max_bytes: u64,
    id: Option<DatabaseId>,
) -> Result<Connection, Fault> {
    end_rebuild(root)?;
    open_writer_of(root, DATABASE, max_bytes, id)
}

/// The writer's connection to a database of this name.
pub(super) fn open_writer_of(
    root: &Path,
    name: &str,
    max_bytes: u64,
    id: Option<DatabaseId>,
) -> Result<Connection, Fault> {
    // The directory is made by who takes its lock: one that was removed since is not made again.
    let path = root.join(name);
    // What SQLite makes beside it has its permissions. One that is there is not even opened: with any
    // file that is closed, the system takes all locks of this process from it.
    match orchestra_fs::create_new(&path, Access::Private) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Fault::io("make", &path, error.into_cause())),
        Ok(_) => {
            let ignored = root.join(IGNORED);
            if !ignored.exists() {
                orchestra_fs::write(&ignored, EVERYTHING, Access::Private)
                    .map_err(|error| Fault::io("make", &ignored, error.into_cause()))?;
            }
            sync(root)?;
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    // A path whose directories are links is fine; the file itself is none.
    let real = real_path(root, &path)?.with_file_name(name);
    let mut connection = Connection::open_with_flags(real, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    check_version(&connection, &path)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(Fault::NoLog(path));
    }
    // A commit is on the disk before it is answered.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", LOG_LIMIT_BYTES)?;
    connection.pragma_update(None, "max_page_count", max_bytes.div_ceil(PAGE_BYTES))?;
    configure(&connection)?;
    check_tables(&connection)?;
    remove_foreign(&connection)?;
    bring_up_to_date(&mut connection, id)?;
    Ok(connection)
}

/// Moves all of the log into the database and begins it anew, which writes and syncs once more what a
/// failing disk may have left in doubt. Not possible while somebody reads it.
pub(super) fn settle_doubt(connection: &Connection) -> Result<(), Fault> {
    let busy: bool =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy { Err(Fault::Locked) } else { Ok(()) }
}

/// Puts a database in its place that was made anew of a damaged one by whoever was stopped before: the damaged
/// one was moved aside, so that the new one is whole. Only who has the lock of the workspace may.
pub(crate) fn end_rebuild(root: &Path) -> Result<(), Fault> {
    let (new, path) = (root.join(REBUILT), root.join(DATABASE));
    if path.exists() || !new.exists() {
        return Ok(());
    }
    aside(root, &["-wal", "-shm"])?;
    let published = orchestra_fs::publish(&new, &path);
    published.map_err(|error| Fault::io("put in place", &path, error.into_cause()))
}

/// Moves those files of the damaged database aside that have these ends; where the first lies now.
pub(super) fn aside(root: &Path, ends: &[&str]) -> Result<Option<PathBuf>, Fault> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_millis());
    let mut moved = None;
    for end in ends {
        let from = root.join(format!("{DATABASE}{end}"));
        let to = root.join(format!("{DATABASE}.damaged-{now}{end}"));
        match std::fs::rename(&from, &to) {
            Ok(()) => moved = moved.or(Some(to)),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Fault::io("move aside", &from, error));
            }
            Err(_) => {}
        }
    }
    sync(root)?;
    Ok(moved)
}

fn sync(root: &Path) -> Result<(), Fault> {
    let synced = Directory::open(root).and_then(|directory| directory.sync());
    synced.map_err(|error| Fault::io("keep", root, error.into_cause()))
}

fn real_path(root: &Path, path: &Path) -> Result<PathBuf, Fault> {
    let root = root
        .canonicalize()
        .map_err(|error| Fault::io("find", path, error))?;
    Ok(root.join(DATABASE))
}

fn version(connection: &Connection) -> Result<i64, Fault> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Refuses what a newer program or another one has written, before anything is written to it.
fn check_version(connection: &Connection, path: &Path) -> Result<(), Fault> {
    // In this order: whoever makes the database meanwhile makes all of it at once.
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let application: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let found = version(connection)?;
    if application != APPLICATION_ID && tables > 0 {
        return Err(Fault::Foreign(path.to_owned()));
    }
    if found == MOVED {
        return Err(Fault::Moved);
    }
    if found > SCHEMA {
        return Err(Fault::Newer {
            found,
            known: SCHEMA,
        });
    }
    Ok(())
}

/// Object of a schema that no program of the project created.
struct Foreign {
    kind: String,
    name: String,
}

/// Returns the triggers, views and indexes that no program of the project created.
///
/// # Errors
/// [`Fault::Damaged`] for a table that could change rows by itself or evaluates an expression.
fn find_foreign(connection: &Connection) -> Result<Vec<Foreign>, Fault> {
    let mut statement = connection
        .prepare("SELECT type, name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL")?;
    let mut rows = statement.query([])?;
    let mut foreign = Vec::new();
    while let Some(row) = rows.next()? {
        let (kind, name, sql): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        // SQLite goes by the statement, and not by the type.
        let is_whole = match kind.as_str() {
            "table" => sql.starts_with("CREATE TABLE ") && orchestra_fs::is_plain_table(&sql),
            "index" => sql.starts_with("CREATE INDEX ") || sql.starts_with("CREATE UNIQUE INDEX "),
            "trigger" => sql.starts_with("CREATE TRIGGER "),
            "view" => sql.starts_with("CREATE VIEW "),
            _ => false,
        };
        if !is_whole {
            return Err(Fault::Damaged);
        }
        if kind != "table" && !CREATE.contains(&format!("\n{sql};")) {
            foreign.push(Foreign { kind, name });
        }
    }
    Ok(foreign)
}

/// Refuses a database whose tables evaluate expressions, or that has views in place of tables, before a query reads
/// them.
fn check_tables(connection: &Connection) -> Result<(), Fault> {
    let foreign = find_foreign(connection)?;
    let takes_place = |found: &Foreign| {
        let table = format!("\nCREATE TABLE {} (", found.name.to_ascii_lowercase());
        found.kind == "view" && CREATE.contains(&table)
    };
    match foreign.iter().any(takes_place) {
        true => Err(Fault::Damaged),
        false => Ok(()),
    }
}

/// Removes triggers, views and indexes that no program of the project created: they came along with the database, and
/// SQLite would run them with the next change.
fn remove_foreign(connection: &Connection) -> Result<(), Fault> {
    let mut foreign = find_foreign(connection)?;
    // A view goes last: its triggers go with it.
    orchestra_sort::sort_by_key(&mut foreign, |found| found.kind == "view");
    for Foreign { kind, name } in &foreign {
        tracing::warn!(
            kind,
            name,
            "removed a foreign object from the database of plans"
        );
        let name = name.replace('"', "\"\"");
        connection.execute_batch(&format!("DROP {kind} main.\"{name}\""))?;
    }
    if !foreign.is_empty() {
        let all = CREATE.split_inclusive(";\n");
        for index in all.filter(|statement| statement.contains(" INDEX ")) {
            connection.execute_batch(&index.replacen("INDEX ", "INDEX IF NOT EXISTS ", 1))?;
        }
    }
    Ok(())
}

/// Returns the id of a database. A value that is no id counts as none.
pub(super) fn identity(connection: &Connection) -> Result<Identity, Fault> {
    let mut statement = connection.prepare_cached("SELECT value FROM fact WHERE name = 'id'")?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else {
        return Ok(Identity::Unidentified);
    };
    let bytes = row.get_ref(0)?.as_blob().ok();
    let id = bytes.and_then(DatabaseId::from_bytes);
    Ok(id.map_or(Identity::Unidentified, Identity::Id))
}

/// Replaces the id of a database.
pub(super) fn identify(connection: &Connection, id: DatabaseId) -> Result<(), Fault> {
    connection.execute(
        "INSERT OR REPLACE INTO fact VALUES ('id', ?1)",
        [&id.as_bytes()[..]],
    )?;
    Ok(())
}

/// Removes plans in one transaction, and marks the database as moved.
pub(super) fn retire(mut connection: Connection, moved: &[PlanKey]) -> Result<(), Fault> {
    // Values of environments are not left behind.
    connection.pragma_update(None, "secure_delete", true)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for plan in moved {
        let named = "(SELECT id FROM plan WHERE name = ?1)";
        let sql = format!("DELETE FROM event WHERE plan = {named}");
        transaction.execute(&sql, [plan.as_str()])?;
        transaction.execute("DELETE FROM plan WHERE name = ?1", [plan.as_str()])?;
    }
    transaction.execute_batch("DELETE FROM answer; DELETE FROM fact WHERE name = 'id'")?;
    transaction.pragma_update(None, "user_version", MOVED)?;
    transaction.commit()?;
    // A program that still reads it leaves the log where it is.
    if let Err(error) = settle_doubt(&connection) {
        tracing::debug!(%error, "cannot remove the write-ahead log of a moved database");
    }
    connection.close().map_err(|(_, error)| Fault::from(error))
}

fn bring_up_to_date(connection: &mut Connection, id: Option<DatabaseId>) -> Result<(), Fault> {
    if version(connection)? == SCHEMA {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it meanwhile. Later schemas add their steps here, one after the other.
    if version(&transaction)? < 1 {
        transaction.execute_batch(CREATE)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        if let Some(id) = id {
            identify(&transaction, id)?;
        }
    }
    transaction.pragma_update(None, "user_version", SCHEMA)?;
    Ok(transaction.commit()?)
}

/// Returns whether there is a database to read.
pub(super) fn is_there(root: &Path) -> Result<bool, Fault> {
    let path = root.join(DATABASE);
    match std::fs::metadata(&path) {
        // Whoever writes puts it in its place; it is not there for a moment, or somebody was stopped then.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match root.join(REBUILT).exists() && !path.exists() {
                true => Err(Fault::Damaged),
                false => Ok(false),
            }
        }
        // It is being made.
        Ok(found) if found.len() == 0 && !log(&path).exists() => Ok(false),
        Err(error) => Err(Fault::io("look at", &path, error)),
        Ok(_) => Ok(true),
    }
}

/// A connection for reading; `None` where there is no database yet. In a directory that cannot be
/// written, what is in the database file is read as it stands.
pub(super) fn open_reader(root: &Path) -> Result<Option<Connection>, Fault> {
    if !is_there(root)? {
        return Ok(None);
    }
    let path = root.join(DATABASE);
    let path = real_path(root, &path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let first = Connection::open_with_flags(&path, flags)
        .map_err(Fault::from)
        .and_then(|connection| checked_reader(connection, &path));
    match first {
        Err(Fault::ReadOnly | Fault::Database(_) | Fault::Unsure(_)) if is_checkpointed(&path) => {
            open_immutable(&path)
        }
        other => other,
    }
}

/// A connection that reads the database file as it stands, without its log.
fn open_immutable(path: &Path) -> Result<Option<Connection>, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(
        format!("{}?immutable=1", orchestra_fs::file_uri(path)),
        flags,
    )?;
    checked_reader(connection, path)
}

fn checked_reader(connection: Connection, path: &Path) -> Result<Option<Connection>, Fault> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    check_version(&connection, path)?;
    configure(&connection)?;
    check_tables(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    // A database that is being made has no tables yet.
    Ok((version(&connection)? == SCHEMA).then_some(connection))
}

pub(super) fn log(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

fn is_checkpointed(path: &Path) -> bool {
    std::fs::metadata(log(path)).map_or(true, |log| log.len() == 0)
}

fn configure(connection: &Connection) -> Result<(), Fault> {
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // There are no foreign keys. Those of another's tables could delete rows.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_triggers_views_and_indexes_are_removed_and_ours_restored() {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch(CREATE).unwrap();
        let objects = || -> Vec<(String, String)> {
            let sql = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
            let mut statement = database.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
            rows.unwrap().collect::<Result<_, _>>().unwrap()
        };
        let whole = objects();
        remove_foreign(&database).unwrap();
        assert_eq!(objects(), whole);
        database
            .execute_batch(
                "CREATE TRIGGER planted AFTER INSERT ON event BEGIN DELETE FROM plan; END;
                 CREATE VIEW seen AS SELECT * FROM plan;
                 CREATE TRIGGER of_view INSTEAD OF INSERT ON seen BEGIN DELETE FROM plan; END;
                 DROP INDEX event_by_plan;
                 CREATE UNIQUE INDEX event_by_plan ON event (plan);",
            )
            .unwrap();
        remove_foreign(&database).unwrap();
        assert_eq!(objects(), whole);
    }

    #[test]
    fn planted_tables_with_expressions_and_views_for_tables_are_refused() {
        for planted in [
            "CREATE TABLE other (a UNIQUE ON CONFLICT REPLACE)",
            "CREATE TABLE other (a, b AS (hex(a)))",
            "ALTER TABLE event ADD COLUMN b AS (hex(json))",
            "DROP TABLE answer; CREATE TABLE answer (key CHECK (hex(key) <> ''), at, json)",
            "DROP TABLE fact; CREATE VIEW fact AS SELECT 'epoch' AS name, 0 AS value",
        ] {
            let database = Connection::open_in_memory().unwrap();
            database.execute_batch(CREATE).unwrap();
            check_tables(&database).unwrap();
            database.execute_batch(planted).unwrap();
            assert!(
                matches!(check_tables(&database), Err(Fault::Damaged)),
                "{planted}"
            );
        }
    }
}
