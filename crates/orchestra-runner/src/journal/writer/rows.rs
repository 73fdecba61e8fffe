//! What a transaction of the writer does to the rows.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rusqlite::{Connection, OptionalExtension as _};
use serde_json::value::RawValue;

use super::{
    super::{
        Append, AppendError, DatabaseId, Fault, Fresh, Kept, MAX_BYTES, Once, PlanKey, Receipt,
        entry::check, schema,
    },
    Work,
};

/// How many events of a deleted plan go at a time, while others wait.
const SWEEP: i64 = 2_000;

/// A plan as its row says it.
struct Row {
    id: i64,
    number: u64,
    is_deleted: bool,
}

pub(super) fn within(
    connection: &Connection,
    epoch: u64,
    works: &[Work],
) -> Result<Vec<Result<Receipt, AppendError>>, Fault> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    if fact(connection, "epoch")? != epoch {
        return Err(Fault::Fenced);
    }
    let begin = fact(connection, "seq")?;
    let mut seq = begin;
    let mut results = Vec::with_capacity(works.len());
    for work in works {
        let result = match work {
            Work::Append(append) => append_to(connection, append, 0, &mut seq),
            Work::All(appends) => append_all(connection, appends, &mut seq),
            Work::Delete(append) => append_to(connection, append, 1, &mut seq),
            Work::Sweep(plan) => sweep(connection, plan),
        };
        if let Err(AppendError::Fault(fault)) = result {
            return Err(fault);
        }
        results.push(result);
    }
    if seq != begin {
        let mut statement =
            connection.prepare_cached("UPDATE fact SET value = ?1 WHERE name = 'seq'")?;
        statement.execute([seq])?;
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(results)
}

/// Appends to several plans, or to none of them.
fn append_all(
    connection: &Connection,
    appends: &[Append],
    seq: &mut u64,
) -> Result<Receipt, AppendError> {
    let begin = *seq;
    let mut done = Ok(Receipt {
        seq: begin,
        number: 0,
        before: None,
    });
    connection
        .prepare_cached("SAVEPOINT several")?
        .execute([])?;
    for append in appends {
        done = append_to(connection, append, 0, seq);
        if !matches!(&done, Ok(receipt) if receipt.before.is_none()) {
            if let Err(AppendError::Fault(_)) = &done {
                // The transaction as a whole is undone.
                return done;
            }
            *seq = begin;
            connection
                .prepare_cached("ROLLBACK TO several")?
                .execute([])?;
            break;
        }
    }
    connection.prepare_cached("RELEASE several")?.execute([])?;
    done
}

/// Checks all that could be refused before anything is written.
fn append_to(
    connection: &Connection,
    append: &Append,
    state: u8,
    seq: &mut u64,
) -> Result<Receipt, AppendError> {
    let row = find(connection, &append.plan)?;
    let found = row.as_ref().map_or(0, |row| row.number);
    if let Some(before) = answered(connection, append.once.as_ref())? {
        return Ok(Receipt {
            seq: *seq,
            number: found,
            before: Some(before),
        });
    }
    if row.as_ref().is_some_and(|row| row.is_deleted) {
        return Err(AppendError::Deleted(append.plan.clone()));
    }
    if found != append.expected && !append.events.is_empty() {
        return Err(AppendError::Conflict {
            plan: append.plan.clone(),
            expected: append.expected,
            found,
        });
    }
    let mut number = found;
    if let Some(last) = append.events.last() {
        let id = match row {
            Some(row) => row.id,
            None => make(connection, &append.plan, append.events[0].at)?,
        };
        for event in &append.events {
            number += 1;
            *seq += 1;
            insert(connection, &append.plan, id, *seq, number, event)?;
        }
        let mut statement = connection.prepare_cached(
            "UPDATE plan SET number = ?2, seq = ?3, changed = ?4, state = ?5 WHERE id = ?1",
        )?;
        statement.execute((id, number, *seq, last.at, state))?;
    }
    if let Some(Once { key, answer }) = &append.once {
        connection
            .prepare_cached("INSERT INTO answer (key, at, json) VALUES (?1, ?2, ?3)")?
            .execute((key.as_str(), now(), answer.get()))?;
    }
    Ok(Receipt {
        seq: *seq,
        number,
        before: None,
    })
}

fn answered(connection: &Connection, once: Option<&Once>) -> Result<Option<Box<RawValue>>, Fault> {
    let Some(once) = once else { return Ok(None) };
    let json: Option<String> = connection
        .prepare_cached("SELECT json FROM answer WHERE key = ?1")?
        .query_row([once.key.as_str()], |row| row.get(0))
        .optional()?;
    json.map(|json| RawValue::from_string(json).map_err(|_| Fault::Damaged))
        .transpose()
}

fn find(connection: &Connection, plan: &PlanKey) -> Result<Option<Row>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT id, number, state FROM plan WHERE name = ?1")?;
    let row = statement.query_row([plan.as_str()], |row| {
        Ok(Row {
            id: row.get(0)?,
            number: row.get(1)?,
            is_deleted: row.get::<_, u8>(2)? > 0,
        })
    });
    Ok(row.optional()?)
}

fn make(connection: &Connection, plan: &PlanKey, at: u64) -> Result<i64, Fault> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO plan (name, number, seq, began, changed) VALUES (?1, 0, 0, ?2, ?2)",
    )?;
    Ok(statement.insert((plan.as_str(), at))?)
}

fn insert(
    connection: &Connection,
    plan: &PlanKey,
    id: i64,
    seq: u64,
    number: u64,
    event: &Fresh,
) -> Result<(), Fault> {
    let json = event.body.get();
    let check = check("event", plan.as_str(), number, event.at, json);
    let mut statement = connection.prepare_cached(
        r#"INSERT INTO event (seq, plan, number, at, json, "check") VALUES (?1, ?2, ?3, ?4, ?5, ?6)"#,
    )?;
    statement.execute((seq, id, number, event.at, json, check))?;
    Ok(())
}

fn sweep(connection: &Connection, plan: &PlanKey) -> Result<Receipt, AppendError> {
    let Some(row) = find(connection, plan)?.filter(|row| row.is_deleted) else {
        return Err(AppendError::Deleted(plan.clone()));
    };
    let removed = connection.execute(
        "DELETE FROM event WHERE seq IN (SELECT seq FROM event WHERE plan = ?1 AND number < ?2 ORDER BY number LIMIT ?3)",
        (row.id, row.number, SWEEP),
    )?;
    if removed == 0 {
        connection.execute("UPDATE plan SET state = 2 WHERE id = ?1", [row.id])?;
    }
    Ok(Receipt {
        seq: 0,
        number: u64::try_from(removed).unwrap_or(u64::MAX),
        before: None,
    })
}

pub(super) fn fact(connection: &Connection, name: &str) -> Result<u64, Fault> {
    Ok(connection
        .prepare_cached("SELECT value FROM fact WHERE name = ?1")?
        .query_row([name], |row| row.get(0))?)
}

pub(super) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, millis)
}

/// Makes a database of events that have their places already, beside the one that is used. When this returns,
/// all of it is in one file and on the disk.
pub(in crate::journal) fn refill(
    root: &Path,
    events: &[Kept],
    id: Option<DatabaseId>,
) -> Result<(), Fault> {
    let connection = schema::open_writer_of(root, schema::REBUILT, MAX_BYTES, id)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for event in events {
        let id = match find(&connection, &event.plan)? {
            Some(row) => row.id,
            None => make(&connection, &event.plan, event.at)?,
        };
        let fresh = Fresh {
            at: event.at,
            body: event.body.clone(),
        };
        insert(
            &connection,
            &event.plan,
            id,
            event.seq,
            event.number,
            &fresh,
        )?;
        connection
            .prepare_cached("UPDATE plan SET number = ?2, seq = ?3, changed = ?4 WHERE id = ?1")?
            .execute((id, event.number, event.seq, event.at))?;
    }
    let last = events.last().map_or(0, |event| event.seq);
    connection.execute("UPDATE fact SET value = ?1 WHERE name = 'seq'", [last])?;
    connection.execute_batch("COMMIT")?;
    schema::settle_doubt(&connection)?;
    connection.close().map_err(|(_, error)| Fault::from(error))
}
