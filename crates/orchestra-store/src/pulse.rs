//! The thread behind the writer: tells what was committed, by whomever, and keeps the log short.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use orchestra_board::{IssueId, Slug};
use rusqlite::Connection;

use crate::db::{FileId, LogSync};
use crate::queue::Job;
use crate::shared::{Pulse, Shared};
use crate::writing::notice_kind;
use crate::{ChangeNotice, Fault, Home, What, db};

/// How often other processes' commits are looked for by whoever writes the files that follow.
const KEEPING: Duration = Duration::from_millis(25);
/// How often other processes' commits are looked for while somebody watches closely.
const WATCHING: Duration = Duration::from_millis(50);
/// How often changes of the list of projects are looked for while somebody listens for them.
const LISTENING: Duration = Duration::from_millis(250);
/// How often it is looked whether the files of the board are still those that are open, which costs
/// more than to look for commits.
const SAME: Duration = Duration::from_millis(250);
/// The least time between two tellings: what is committed meanwhile is told together.
const BREATH: Duration = Duration::from_millis(5);
/// How often the rest is looked after.
const IDLE: Duration = Duration::from_secs(1);
/// More events at once than this are told as [`What::Everything`].
const MAX_EVENTS: usize = 512;
/// So much of the log is moved into the database in the background at a time, 4 MiB, so that little
/// is left to be moved while all writers wait.
const LONG_LOG_PAGES: i64 = 1_024;

/// How far the telling has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    event: i64,
    hook: i64,
}

/// The database that is looked at.
struct Watched {
    connection: Connection,
    /// The number of its last change that was looked at.
    version: Option<i64>,
}

/// Runs until the store is closed. Sends the changes after `begin`, which was read from the database
/// `file` when the store was opened.
pub(crate) fn run(shared: &Arc<Shared>, begin: Option<Place>, mut file: Option<FileId>) {
    let mut seen = Pulse::default();
    // Opened when there is something to look for: a hook ends before that.
    let mut watched = None;
    let mut place = begin;
    let mut log = LogSync::new(&shared.options.files);
    let mut looked: Option<Instant> = None;
    let mut was_moved = false;
    loop {
        let pause = if shared.reports.is_keeper() {
            KEEPING
        } else if seen.is_watched_closely() {
            WATCHING
        } else if shared.notices.receiver_count() > 0 {
            LISTENING
        } else {
            IDLE
        };
        let now = shared.wait_for_pulse(seen, pause);
        let (committed, timed_out) = (now.commits != seen.commits, now == seen);
        seen = now;
        if now.closed {
            return;
        }
        shared.queue.give_up();
        let is_due = looked.is_none_or(|at| at.elapsed() >= SAME);
        if is_due {
            looked = timed_out.then(Instant::now);
            // Without `.projects` somebody removed the board, and means it.
            let is_left = match &shared.paths.home {
                Home::Checkout => shared.paths.projects.is_dir(),
                Home::Shared(home) => home.is_there(),
            };
            let is_in_place = shared.place_check.check().is_ok();
            if !is_in_place {
                // The thread of the readable files leaves them to another program.
                shared.reports.committed();
            }
            let is_moved = shared.place_check.check_directory().is_err();
            if is_moved || was_moved {
                // The writer shows other programs whether they have to wait for this one.
                shared.queue.push(Job::Reopen);
            }
            was_moved = is_moved;
            let removable = shared.read_only.is_none() && is_left && is_in_place;
            if timed_out && removable && !shared.is_current() {
                shared.queue.push(Job::Reopen);
                continue;
            }
            let found = FileId::of(&shared.paths.database);
            if found.is_some() && found != file {
                // Of another database nothing is known, whether the one before could be read or not.
                (watched, place, file) = (None, None, found);
            }
        }
        if watched.is_none() {
            watched = open(shared).ok();
        }
        let Some(Watched {
            connection: database,
            version,
            ..
        }) = &mut watched
        else {
            continue;
        };
        let told = version_of(database).and_then(|found| {
            // Only other connections' commits change the number, and the writer is one of those.
            let is_other = committed || *version != Some(found);
            if is_other {
                *version = Some(found);
                shared.reports.committed();
                match &mut place {
                    Some(place) => tell(shared, database, place, &mut log)?,
                    None => {
                        place = Some(latest(database)?);
                        shared.tell(of_all(What::Everything));
                    }
                }
                thread::sleep(BREATH);
            }
            Ok(is_other)
        });
        let Ok(is_other) = told else {
            watched = None;
            continue;
        };
        // The log grows by commits alone.
        if shared.read_only.is_none()
            && (is_other || is_due)
            && db::log_state(database).is_ok_and(|log| log.pages - log.moved > LONG_LOG_PAGES)
        {
            // What is in use now is moved next time.
            let _ = db::move_log(database);
        }
    }
}

fn open(shared: &Shared) -> Result<Watched, Fault> {
    let connection = db::open_reader(&shared.paths)?;
    // A checkpoint is a change of the file, though none of the board.
    let _ = connection.pragma_update(None, "query_only", false);
    Ok(Watched {
        connection,
        version: None,
    })
}

fn version_of(connection: &Connection) -> Result<i64, Fault> {
    Ok(connection
        .prepare_cached("PRAGMA data_version")?
        .query_row([], |row| row.get(0))?)
}

/// The place of what is newest.
pub(crate) fn latest(connection: &Connection) -> Result<Place, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT coalesce((SELECT max(seq) FROM event), 0), coalesce((SELECT max(number) FROM hook_event), 0)",
    )?;
    Ok(statement.query_row([], |row| {
        Ok(Place {
            event: row.get(0)?,
            hook: row.get(1)?,
        })
    })?)
}

fn tell(
    shared: &Shared,
    connection: &Connection,
    place: &mut Place,
    log: &mut LogSync,
) -> Result<(), Fault> {
    let now = latest(connection)?;
    // Asked after it, for whoever watched before a change was made hears of it.
    let closely = shared.is_watched_closely();
    let listened_to = now != *place && shared.notices.receiver_count() > 0;
    if !listened_to || (!closely && !any_of_projects(connection, *place, now)?) {
        *place = now;
        return Ok(());
    }
    // Another process may not have made its change durable yet; what comes after it is told next
    // time.
    log.sync(&shared.paths)?;
    if !closely {
        *place = now;
        shared.tell(of_all(What::Projects));
        return Ok(());
    }
    let mut statement = connection.prepare_cached(
        "SELECT kind, slug, id FROM event WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = statement.query((place.event, now.event, MAX_EVENTS + 1))?;
    let mut notices = Vec::new();
    while let Some(row) = rows.next()? {
        let (kind, slug, id): (String, Option<String>, Option<String>) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        notices.push(ChangeNotice {
            project: slug.and_then(|slug| Slug::parse(&slug).ok()),
            issue: id.and_then(|id| IssueId::parse(&id).ok()),
            what: notice_kind(&kind),
        });
    }
    if notices.len() > MAX_EVENTS {
        shared.tell(of_all(What::Everything));
    } else {
        // Several events of one change are one notice.
        notices.dedup();
        notices.into_iter().for_each(|notice| shared.tell(notice));
    }
    if now.hook != place.hook {
        shared.tell(of_all(What::HookEvents));
    }
    *place = now;
    Ok(())
}

const fn of_all(what: What) -> ChangeNotice {
    ChangeNotice {
        project: None,
        issue: None,
        what,
    }
}

/// Whether projects were made, renamed or deleted between two places.
fn any_of_projects(connection: &Connection, from: Place, to: Place) -> Result<bool, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT DISTINCT kind FROM event WHERE seq > ?1 AND seq <= ?2")?;
    let mut rows = statement.query((from.event, to.event))?;
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        if notice_kind(&kind) == What::Projects {
            return Ok(true);
        }
    }
    Ok(false)
}
