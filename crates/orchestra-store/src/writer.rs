//! The one writer of a process.
//!
//! It takes the lock that orders the writers of all processes, does everything that is queued in
//! one transaction, commits once, and answers. An action that is refused has left no trace by
//! itself. Where the transaction as a whole fails, each of its actions is tried alone, so that
//! nobody pays for somebody else's trouble.

mod done;

use std::collections::BTreeMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use orchestra_board::Source;
use orchestra_fs::Lock;
use orchestra_place::ListError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::db::LogSync;
use crate::files::needs;
use crate::home::{RESCUE_LOOK, RESCUE_PATIENCE, SPARE};
use crate::queue::Job;
use crate::reader::Reader;
use crate::shared::{Shared, is_stub};
use crate::writing::KnownWords;
use crate::{Action, ActionError, Fault, Home, Made, Receipt, Reindex, db, home};
use done::{Again, Done};

/// The most actions of one transaction.
const MAX_GROUP: usize = 256;
/// How long one transaction collects actions.
const MAX_GROUP_TIME: Duration = Duration::from_millis(5);
/// From this length on the log is moved into the database before anybody writes more: 64 MiB.
const FULL_LOG_PAGES: i64 = 16_384;

/// What a program has of a database that was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    None,
    /// From before another program put the database back.
    Earlier,
    Newest,
}

/// The writer's side of the database.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    /// The file of the lock, as long as it is at hand.
    lock: Option<File>,
    connection: Option<Connection>,
    /// Tells other programs that this one puts the board back if its directory is removed.
    alive: Option<Lock>,
    /// Shows the program that put the open database back that this one still has it open.
    held: Option<Lock>,
    /// Locks of removed databases that this program has put back. They show whether other programs have them open.
    removed: Vec<Lock>,
    /// Set when this program puts the database back, until it has reopened the database and marked the removed file.
    is_unmarked: bool,
    words: KnownWords,
    log: LogSync,
    /// Numbers of each project that the list of known databases has as given.
    reserved: BTreeMap<String, [u64; 3]>,
    /// Whether fewer than [`SPARE`] of these are left for a project, or nobody has looked.
    is_short: bool,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, lock: File, connection: Option<Connection>) -> Self {
        let log = LogSync::new(&shared.options.files);
        Self {
            shared,
            lock: Some(lock),
            connection,
            alive: None,
            held: None,
            removed: Vec::new(),
            is_unmarked: false,
            words: KnownWords::default(),
            log,
            reserved: BTreeMap::new(),
            is_short: true,
        }
    }

    /// Tells other programs that this one has a board open that all checkouts share.
    pub(crate) fn share(&mut self) {
        if let Home::Shared(home) = &self.shared.options.home {
            self.alive = home.share();
            self.hold();
        }
    }

    /// Shows other programs which database this one has open. A program that puts it back after this sees that.
    fn hold(&mut self) {
        let held = match (&self.shared.options.home, self.shared.open_file()) {
            (Home::Shared(home), Some(file)) => home.hold(file),
            _ => None,
        };
        if let Some(held) = &held {
            // A file gets the number of a removed one only after no program has that open any more.
            self.removed.retain(|lock| lock.path() != held.path());
        }
        if let Some(former) = std::mem::replace(&mut self.held, held) {
            home::release(&former);
        }
    }

    /// Returns what this program has of the database that was removed.
    fn state(&self) -> State {
        let is_earlier = match &self.connection {
            Some(connection) => Some(self.shared.is_superseded(connection)),
            None => self.shared.is_reader_superseded(),
        };
        match is_earlier {
            None => State::None,
            Some(true) => State::Earlier,
            Some(false) => State::Newest,
        }
    }

    /// Returns whether another program is to put the removed database back.
    fn awaits_database(&mut self) -> Result<bool, Fault> {
        let Home::Shared(home) = &self.shared.options.home else {
            return Ok(false);
        };
        if db::is_there(&self.shared.paths.database)? {
            return Ok(false);
        }
        match self.state() {
            State::Newest => Ok(false),
            // The lock stays shared. Otherwise a program without a state would find no other program, and build an
            // empty board.
            State::Earlier => Ok(true),
            State::None => {
                // The own share would look like that of another program.
                self.alive = None;
                home.awaits_database(&self.shared.paths)
            }
        }
    }

    /// Waits for the program that puts a removed database back. A program with an earlier state puts that back if none
    /// does: it is better than none.
    fn wait_for_others(&mut self, end: Instant) -> Result<(), Fault> {
        while self.awaits_database()? {
            if Instant::now() < end {
                thread::sleep(RESCUE_LOOK);
            } else if self.state() == State::Earlier {
                return Ok(());
            } else {
                return Err(Fault::Removed(self.shared.paths.store.clone()));
            }
        }
        Ok(())
    }

    /// Works until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        if self.connection.is_none() && shared.is_current() {
            // Before the first change comes. A failure is reported with that.
            let opened = shared.open_whole(db::open_ready).ok().flatten();
            self.connection = opened.filter(|_| shared.is_current());
        }
        while shared.queue.wait() {
            match self.locked() {
                Ok(()) => self.group(),
                Err(fault) => shared.queue.fail_all(&fault),
            }
        }
        self.stay();
        if let Some(held) = self.held.take() {
            home::release(&held);
        }
        if let Some(connection) = self.connection.take() {
            // Leaves a short log behind; what fails here is done at the next opening.
            let _ = db::move_log(&connection);
        }
    }

    /// Repairs the board again if it is removed again, until the other programs have also opened the database that this
    /// program has put back. Bounded: another program may hang.
    fn stay(&mut self) {
        let end = Instant::now() + RESCUE_PATIENCE;
        loop {
            self.removed.retain(|lock| !home::release(lock));
            let is_there = match &self.shared.options.home {
                Home::Shared(home) => home.is_there(),
                Home::Checkout => false,
            };
            if self.removed.is_empty() || !is_there || Instant::now() > end {
                return;
            }
            if !self.shared.is_current() && self.locked().is_ok() {
                self.unlock();
            }
            thread::sleep(RESCUE_LOOK);
        }
    }

    /// Refuses a board that was moved, belongs elsewhere, or whose git directory was removed. Other programs do not wait
    /// for this program if another directory is at the path of the moved one.
    fn check_place(&mut self) -> Result<(), Fault> {
        let checked = self.shared.place_check.check();
        let Home::Shared(home) = &self.shared.options.home else {
            return checked;
        };
        if let Err(Fault::DirectoryMoved { from, .. }) = &checked
            && (from != home.anchor() || home.is_there())
        {
            self.alive = None;
        }
        checked?;
        home.check_git_directory()
    }

    /// Takes the lock of the writers, and makes sure that the open database is the one that is there now.
    fn locked(&mut self) -> Result<(), Fault> {
        if !self.lock_in_place() {
            self.lock_anew()?;
        }
        let settled = match &self.connection {
            Some(connection) => {
                self.log.watch(&self.shared.paths);
                self.log.settle_doubt(connection)
            }
            None => Ok(()),
        };
        if settled.is_err() {
            self.unlock();
        }
        settled
    }

    /// Takes the lock of the writers if it is free, and returns true, if neither it nor the open database was moved or
    /// removed: the directories above them are in place then. [`Writer::lock_anew`] finds the reason where it does not.
    fn lock_in_place(&self) -> bool {
        let shared = &self.shared;
        let has_no_share = matches!(shared.options.home, Home::Shared(_)) && self.alive.is_none();
        let Some(lock) = self.lock.as_ref() else {
            return false;
        };
        if self.connection.is_none() || has_no_share || lock.try_lock().is_err() {
            return false;
        }
        let is_in_place = db::is_same_file(lock, &shared.paths.writer_lock)
            && shared.is_current()
            && shared.place_check.check_directory_beside().is_ok()
            && shared.place_check.check_configuration().is_ok();
        if !is_in_place {
            self.unlock();
        }
        is_in_place
    }

    /// Takes the lock of the writers, and opens the database that is there then.
    fn lock_anew(&mut self) -> Result<(), Fault> {
        self.check_place()?;
        let end = Instant::now() + RESCUE_PATIENCE;
        // Held until the end, so that no process writes into a directory that was removed while it is copied.
        let mut removed = Vec::new();
        loop {
            match self.open_newest(end, &mut removed) {
                Err(Fault::Removed(_)) if Instant::now() < end => {
                    self.unlock_all(&mut removed);
                    thread::sleep(RESCUE_LOOK);
                }
                Err(fault) => return Err(fault),
                // It may have been removed before other programs could see that this one has it open.
                Ok(()) if self.shared.is_current() || Instant::now() >= end => break,
                Ok(()) => self.unlock_all(&mut removed),
            }
        }
        Ok(())
    }

    /// Takes the lock of the writers, and opens the database that is there then, unless it is open.
    fn open_newest(&mut self, end: Instant, removed: &mut Vec<File>) -> Result<(), Fault> {
        loop {
            self.wait_for_others(end)?;
            self.lock(removed)?;
            // The database may have been removed once more while the lock was waited for.
            let is_late = Instant::now() >= end && self.state() == State::Earlier;
            match self.awaits_database() {
                Ok(true) if !is_late => self.unlock_all(removed),
                Ok(_) => break,
                Err(fault) => {
                    self.unlock();
                    return Err(fault);
                }
            }
        }
        if self.connection.is_none() || !self.shared.is_current() {
            let reopened = self.reopen();
            if reopened.is_err() {
                self.unlock();
            }
            reopened?;
        }
        if let (Home::Shared(home), None) = (&self.shared.options.home, &self.alive) {
            self.alive = home.share();
        }
        Ok(())
    }

    /// Opens the database that is there now. A removed database is put back before that, and stays open until then: there
    /// may be no other copy.
    fn reopen(&mut self) -> Result<(), Fault> {
        let (removed, is_put_back) = self.rescue()?;
        self.is_unmarked |= is_put_back;
        self.words.forget();
        self.reserved.clear();
        self.is_short = true;
        match self.shared.reopen() {
            Ok(connection) => self.connection = Some(connection),
            Err(fault) => {
                self.connection = removed;
                return Err(fault);
            }
        }
        let is_put_back = std::mem::take(&mut self.is_unmarked);
        if let Some(removed) = removed.filter(|_| is_put_back) {
            home::supersede(&removed);
            let held = self.held.take();
            // The own share would look like that of another program.
            self.removed
                .extend(held.filter(|lock| lock.file().unlock().is_ok()));
        }
        self.hold();
        Ok(())
    }

    /// Takes the lock of the writers, on the file that is there now.
    fn lock(&mut self, removed: &mut Vec<File>) -> Result<(), Fault> {
        let paths = &self.shared.paths;
        loop {
            let lock = match self.lock.take() {
                Some(lock) => lock,
                None => {
                    // Not in another directory that came to the path.
                    self.shared.place_check.check_directory()?;
                    paths.make_directories()?;
                    db::lock_file(&paths.writer_lock)?
                }
            };
            lock.lock()
                .map_err(|error| Fault::io("lock .projects/.store/writer.lock", error))?;
            if db::is_same_file(&lock, &paths.writer_lock) {
                self.lock = Some(lock);
                return Ok(());
            }
            removed.push(lock);
        }
    }

    /// Puts the database that is open back, unless it is still in its place. Returns it, and whether it was put back.
    /// Keeps it open when that fails.
    fn rescue(&mut self) -> Result<(Option<Connection>, bool), Fault> {
        let is_current = self.shared.is_current();
        let removed = match self.connection.take() {
            // Before the first change only a reader may have the database open.
            None if !is_current => self.shared.take_idle_reader(),
            open => open,
        };
        let Some(removed) = removed.filter(|_| !is_current) else {
            return Ok((None, false));
        };
        if is_stub(&removed).unwrap_or(false) {
            // It was replaced on purpose.
            self.alive = None;
            return Ok((None, false));
        }
        match self.shared.rescue(&removed) {
            Ok(is_put_back) => Ok((Some(removed), is_put_back)),
            Err(fault @ (Fault::Corrupt | Fault::Replaced(_))) => {
                tracing::error!(%fault, "the open board was moved or removed");
                self.shared.forget_readers();
                // This program does not put it back.
                self.alive = None;
                match fault {
                    Fault::Corrupt => Ok((None, false)),
                    fault => Err(fault),
                }
            }
            Err(fault) => {
                tracing::error!(%fault, "cannot save a copy of the board whose directory was removed");
                self.connection = Some(removed);
                Err(fault)
            }
        }
    }

    /// Also gives back the locks of directories that were removed: the program that is waited for may need them.
    fn unlock_all(&self, removed: &mut Vec<File>) {
        self.unlock();
        removed.clear();
    }

    fn unlock(&self) {
        if let Some(lock) = &self.lock {
            // A lock that cannot be given back goes with the file.
            let _ = lock.unlock();
        }
    }

    /// Does what is queued, up to the bounds of a group, and answers.
    fn group(&mut self) {
        let Some(connection) = self.connection.take() else {
            return self.unlock();
        };
        // Here and not in the transaction, which refuses a creation where this was not possible.
        if self.is_short {
            let _ = self.reserve(&connection, SPARE);
        }
        let before = connection.total_changes();
        let (done, committed) = self.transaction(&connection);
        let outcome = match committed {
            Ok(()) => Ok(done),
            Err(fault) => Err((done, fault)),
        };
        let done = match outcome {
            Ok(done) => done,
            Err((done, fault @ Fault::IndexDamaged)) if self.give_index_up(&connection) => {
                self.one_by_one(&connection, done, &fault, Again::All)
            }
            Err((done, fault)) => self.one_by_one(&connection, done, &fault, Again::OfOthers),
        };
        self.shorten_log(&connection);
        let changed = connection.total_changes() != before;
        self.connection = Some(connection);
        self.unlock();
        let durable = if changed && done.iter().any(Done::is_synced) {
            self.log.sync(&self.shared.paths)
        } else {
            Ok(())
        };
        self.shared.committed();
        for done in &done {
            if let Some(run) = done.unwatched_run() {
                self.go_on(run);
            }
        }
        done.into_iter().for_each(|done| done.answer(&durable));
        // The sooner the doubt is settled, the less others write behind it without knowing.
        if durable.is_err() && self.locked().is_ok() {
            self.unlock();
        }
    }

    fn transaction(&mut self, connection: &Connection) -> (Vec<Done>, Result<(), Fault>) {
        let mut done = Vec::new();
        if let Err(error) = self.begin(connection) {
            return (done, Err(error));
        }
        self.log.make_room(&self.shared.paths);
        let began = Instant::now();
        while done.len() < MAX_GROUP && began.elapsed() < MAX_GROUP_TIME {
            let Some(job) = self.shared.queue.pop() else {
                break;
            };
            let fault = self.do_job(connection, job, &mut done);
            if let Some(fault) = fault {
                self.roll_back(connection);
                return (done, Err(fault));
            }
        }
        if let Err(fault) = self.reserve(connection, 0) {
            self.roll_back(connection);
            return (done, Err(fault));
        }
        let committed = connection
            .prepare_cached("COMMIT")
            .and_then(|mut commit| commit.execute([]));
        match committed {
            Ok(_) => (done, Ok(())),
            Err(error) => {
                self.roll_back(connection);
                (done, Err(error.into()))
            }
        }
    }

    /// Lists ids as given before they are, so that no database that is built after this one is lost gives them again.
    ///
    /// # Errors
    /// When another program keeps the list locked. A list that cannot be written is logged: a sandbox may allow the
    /// board alone.
    fn reserve(&mut self, connection: &Connection, spare: u64) -> Result<(), Fault> {
        let Home::Shared(home) = &self.shared.options.home else {
            return Ok(());
        };
        match home.reserve(connection, &mut self.reserved, spare) {
            Err(Fault::Unlisted(error)) if matches!(*error, ListError::Busy(_)) => {
                Err(Fault::Unlisted(error))
            }
            Err(error) => {
                tracing::warn!(%error, "cannot record the highest ids of the board");
                Ok(())
            }
            Ok(is_short) => {
                self.is_short = is_short;
                Ok(())
            }
        }
    }

    /// Does one job inside the transaction; answers the fault after which it cannot be committed.
    fn do_job(&mut self, connection: &Connection, job: Job, done: &mut Vec<Done>) -> Option<Fault> {
        match job {
            Job::Reopen => None,
            Job::Action { .. } => {
                let result = self.do_action(connection, &job);
                let fault = match &result {
                    Err(ActionError::Fault(fault)) => Some(fault.clone()),
                    _ => None,
                };
                done.push(Done::Action {
                    job,
                    result: Box::new(result),
                });
                fault
            }
            Job::Files { work, answer } => {
                let durability = work.durability;
                let result = self.do_files(connection, work);
                let fault = match &result {
                    Err(ActionError::Fault(fault @ Fault::IndexDamaged)) => Some(fault.clone()),
                    _ => connection.is_autocommit().then_some(Fault::DiskFull),
                };
                done.push(Done::Files {
                    answer,
                    durability,
                    result,
                });
                fault
            }
        }
    }

    fn do_action(&mut self, connection: &Connection, job: &Job) -> Result<Receipt, ActionError> {
        let Job::Action {
            source,
            agent,
            action,
            ..
        } = job
        else {
            return Ok(Receipt::default());
        };
        let mut writing = self.shared.writing(connection, &mut self.words);
        let result = catch_unwind(AssertUnwindSafe(|| {
            writing.run(*source, agent.as_ref(), action)
        }))
        .unwrap_or_else(|_| Err(Fault::Panicked.into()));
        if result.is_err() && matches!(**action, Action::ReindexMemory(_)) {
            self.shared.index_was_not_mended();
        }
        result
    }

    /// Work of the files has a savepoint of its own, for it cannot be done twice.
    fn do_files(&mut self, connection: &Connection, work: needs::Job) -> Result<(), ActionError> {
        connection.execute_batch("SAVEPOINT files")?;
        let mut writing = self.shared.writing(connection, &mut self.words);
        let result = catch_unwind(AssertUnwindSafe(|| (work.run)(&mut writing)))
            .unwrap_or_else(|_| Err(Fault::Panicked.into()));
        drop(writing);
        if result.is_err() {
            self.words.forget();
            connection.execute_batch("ROLLBACK TO files; RELEASE files")?;
        } else {
            connection.execute_batch("RELEASE files")?;
        }
        result
    }

    /// Does again, each in a transaction of its own, what was done in one that failed.
    fn one_by_one(
        &mut self,
        connection: &Connection,
        done: Vec<Done>,
        fault: &Fault,
        again: Again,
    ) -> Vec<Done> {
        if done.is_empty() {
            // Not even a beginning: everybody who waits hears of it.
            self.shared.queue.fail_all(fault);
            return done;
        }
        let alone = done.len() == 1 && again == Again::OfOthers;
        let again = |done| match done {
            Done::Files {
                answer, durability, ..
            } => Done::Files {
                answer,
                durability,
                result: Err(fault.clone().into()),
            },
            Done::Action { job, result } => {
                let result = match *result {
                    // Alone it was already, and so it is its own trouble.
                    Err(error) if alone => Err(error),
                    Ok(_) if alone => Err(fault.clone().into()),
                    _ => self.alone(connection, &job),
                };
                Done::Action {
                    job,
                    result: Box::new(result),
                }
            }
        };
        done.into_iter().map(again).collect()
    }

    /// Begins the full-text index of what is remembered anew, because it is damaged: it holds up
    /// nobody who changes something. Says whether it is another one now.
    fn give_index_up(&mut self, connection: &Connection) -> bool {
        let Ok(run) = Reader::new(connection).reindex_run() else {
            return false;
        };
        let (answer, _) = oneshot::channel();
        let begun = self.alone(
            connection,
            &Job::Action {
                source: Source::Tool,
                agent: None,
                action: Box::new(Action::ReindexMemory(Reindex::Damaged(run))),
                answer,
            },
        );
        let Ok(Made::Reindexed(begun)) = begun.map(|receipt| receipt.made) else {
            return false;
        };
        self.go_on(begun.run);
        true
    }

    /// Has the next part of the index made, after what others wait for.
    fn go_on(&self, run: u64) {
        drop(self.shared.submit(
            Source::Tool,
            None,
            Action::ReindexMemory(Reindex::Continue(run)),
        ));
    }

    fn alone(&mut self, connection: &Connection, job: &Job) -> Result<Receipt, ActionError> {
        self.begin(connection)?;
        let result = self.do_action(connection, job);
        let committed = match &result {
            Ok(_) => self
                .reserve(connection, 0)
                .map_err(ActionError::from)
                .and_then(|()| Ok(connection.execute_batch("COMMIT")?)),
            Err(_) => Ok(()),
        };
        match (result, committed) {
            (Ok(receipt), Ok(())) => Ok(receipt),
            (Err(error), _) | (_, Err(error)) => {
                self.roll_back(connection);
                Err(error)
            }
        }
    }

    /// Begins a transaction, unless the database was moved to another place: what it gets now is in no board.
    fn begin(&self, connection: &Connection) -> Result<(), Fault> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        match is_stub(connection) {
            Ok(false) => Ok(()),
            Ok(true) => {
                connection.execute_batch("ROLLBACK")?;
                Err(self.shared.moved())
            }
            Err(fault) => {
                connection.execute_batch("ROLLBACK")?;
                Err(fault)
            }
        }
    }

    fn roll_back(&mut self, connection: &Connection) {
        self.words.forget();
        if !connection.is_autocommit() {
            // A rollback that fails leaves a connection that fails, which every answer then says.
            let _ = connection.execute_batch("ROLLBACK");
        }
    }

    /// Moves the log into the database while nobody else writes, if it has grown long although
    /// that is done in the background as well; only then can it be begun anew.
    fn shorten_log(&self, connection: &Connection) {
        if db::log_state(connection)
            .is_ok_and(|log| log.pages > FULL_LOG_PAGES && log.moved < log.pages)
        {
            // What cannot be moved now, because somebody reads it, is moved another time.
            let _ = db::move_log(connection);
        }
    }
}

#[cfg(test)]
mod tests;
