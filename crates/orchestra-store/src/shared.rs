//! What the threads of a store share: the queue of the writer, the connections for reading, and
//! word of what was committed.

mod readers;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use orchestra_board::{AgentName, Source};
use orchestra_place::Listing;
use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, ValueRef};
use tokio::sync::{broadcast, oneshot};

use crate::db::schema::{self, Found, migrate};
use crate::db::{self, FileId, Identities, Paths};
use crate::error::index_damage_was_found;
use crate::files::needs::{self, Board, Work};
use crate::files::{Engine, Reports};
use crate::place_check::PlaceCheck;
use crate::pulse::{self, Place};
use crate::queue::{Job, Queue};
use crate::reader::Reader;
use crate::writing::{KnownWords, Limits, Writing, limit_counters};
use crate::{
    Action, ActionError, ChangeNotice, Fault, Home, Options, ReadError, Receipt, SharedHome,
    Submission, exchange, home,
};

/// After how many commits the thread behind the writer is woken where nobody listens.
const QUIET_COMMITS: u64 = 32;
/// Maximum time that the removal of a directory takes, and the interval of looks at its files.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(1);
const REMOVAL_LOOK: Duration = Duration::from_millis(2);
/// How many notices a slow listener may lag behind.
const NOTICES: usize = 1_024;

/// What the threads share.
pub(crate) struct Shared {
    pub(crate) paths: Paths,
    pub(crate) options: Options,
    pub(crate) queue: Queue,
    pub(crate) notices: broadcast::Sender<ChangeNotice>,
    /// Why nothing can be written, if that was clear from the start.
    pub(crate) read_only: Option<Fault>,
    /// What the thread behind the writer waits for.
    pulse: Mutex<Pulse>,
    beat: Condvar,
    readers: Mutex<Readers>,
    /// Wakes the thread of the readable files.
    pub(crate) reports: Arc<Reports>,
    /// Notices a board that was moved, or belongs elsewhere.
    pub(crate) place_check: Arc<PlaceCheck>,
    /// The run of the full-text index that was told to be damaged last.
    mending: AtomicU64,
}

/// What the thread behind the writer waits for: it wakes when any of this changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pulse {
    /// The commits so far.
    pub(crate) commits: u64,
    /// How many watch every change, and not only the list of projects.
    close_watches: usize,
    pub(crate) closed: bool,
}

impl Pulse {
    /// Whether somebody wants to hear of every change.
    pub(crate) const fn is_watched_closely(&self) -> bool {
        self.close_watches > 0
    }
}

#[derive(Default)]
struct Readers {
    idle: Vec<Connection>,
    /// The database file that the connections belong to.
    file: Option<FileId>,
    /// When the place of the board was checked last, for a read that was allowed.
    checked: Option<Instant>,
}

/// Whether a close watch begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Begin,
    End,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(paths: Paths, options: Options, read_only: Option<Fault>) -> Self {
        let file = FileId::of(&paths.database);
        Self {
            place_check: Arc::new(PlaceCheck::new(&paths, options.check.clone())),
            paths,
            options,
            queue: Queue::new(),
            notices: broadcast::channel(NOTICES).0,
            read_only,
            pulse: Mutex::new(Pulse::default()),
            beat: Condvar::new(),
            readers: Mutex::new(Readers {
                idle: Vec::new(),
                file,
                checked: None,
            }),
            reports: Arc::default(),
            mending: AtomicU64::new(u64::MAX),
        }
    }

    /// Hands an action to the writer.
    pub(crate) fn submit(
        &self,
        source: Source,
        agent: Option<AgentName>,
        action: Action,
    ) -> Submission {
        if let Some(fault) = &self.read_only {
            return Submission::refused(fault.clone().into());
        }
        let (answer, receiver) = oneshot::channel();
        self.queue.push(Job::Action {
            source,
            agent,
            action: Box::new(action),
            answer,
        });
        Submission::new(receiver)
    }

    /// Hands an action to the writer, and waits.
    pub(crate) fn submit_blocking(
        &self,
        source: Source,
        agent: Option<AgentName>,
        action: Action,
    ) -> Result<Receipt, ActionError> {
        crate::wait::block_on(self.submit(source, agent, action))
    }

    /// Reads from one snapshot.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Reader<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let now = Instant::now();
        let checked = self.take_checked_reader(now);
        let is_checked = checked.is_some();
        let (connection, file) = match checked {
            Some(reader) => reader,
            None => {
                let reader = self.take_reader()?;
                self.place_check.check_configuration()?;
                reader
            }
        };
        connection
            .prepare_cached("BEGIN")
            .and_then(|mut begin| begin.execute([]))
            .map_err(ReadError::from)?;
        if !is_checked {
            if is_stub(&connection)? {
                return Err(self.moved().into());
            }
            let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
            // A database that replaced this one has no idle readers yet.
            if readers.file == file {
                readers.checked = Some(now);
            }
        }
        let reader = Reader::new(&connection).at(self.options.clock.now());
        // What was found before concerns another database, perhaps.
        index_damage_was_found();
        let result = work(&reader);
        if index_damage_was_found() {
            self.mend_index(&reader);
        }
        // What was only read is given up either way; a connection that cannot is not used again.
        let ended = connection
            .prepare_cached("ROLLBACK")
            .and_then(|mut end| end.execute([]));
        if ended.is_ok() {
            self.return_reader(connection, file);
        }
        result
    }

    /// Has the full-text index of what is remembered made anew, which somebody found damaged, unless
    /// that was asked for already.
    fn mend_index(&self, reader: &Reader<'_>) {
        let Ok((run, step)) = reader.mending() else {
            return;
        };
        if self.mending.swap(run, Ordering::Relaxed) != run {
            // Nobody waits for it.
            drop(self.submit(Source::Tool, None, Action::ReindexMemory(step)));
        }
    }

    /// Lets the index be mended again that was found damaged in a run.
    pub(crate) fn index_was_not_mended(&self) {
        self.mending.store(u64::MAX, Ordering::Relaxed);
    }

    /// Returns whether the database has the newest schema. The connection that it opens is reused by
    /// readers.
    pub(crate) fn is_ready(&self) -> Result<bool, Fault> {
        let Some(connection) = self.open_whole(db::open_ready_reader)? else {
            return Ok(false);
        };
        // Another process may have created it after the check.
        let file = FileId::of(&self.paths.database);
        self.readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .file = file;
        self.return_reader(connection, file);
        Ok(true)
    }

    /// Opens the database with the log that other programs have open. A directory that is removed loses one file after
    /// the other, and SQLite would create a log in place of theirs.
    ///
    /// # Errors
    /// Those of `open`, and [`Fault::Removed`] if the files are replaced again and again.
    pub(crate) fn open_whole(
        &self,
        open: fn(&Path) -> Result<Option<Connection>, Fault>,
    ) -> Result<Option<Connection>, Fault> {
        let Home::Shared(home) = &self.options.home else {
            return open(&self.paths.database);
        };
        let start = Instant::now();
        loop {
            let before = Identities::of(&self.paths);
            let is_late = start.elapsed() > REMOVAL_PATIENCE;
            if before.lacks_log() && home.is_open() && !is_late {
                thread::sleep(REMOVAL_LOOK);
                continue;
            }
            let opened = open(&self.paths.database)?;
            if opened.is_none() || Identities::of(&self.paths).are_of(before) {
                return Ok(opened);
            }
            if is_late {
                return Err(Fault::Removed(self.paths.store.clone()));
            }
        }
    }

    /// Returns whether the database was created by programs of this user, or needs no proof of that.
    pub(crate) fn is_admitted(&self) -> Result<bool, Fault> {
        let Home::Shared(home) = &self.options.home else {
            return Ok(true);
        };
        let (connection, file) = self.take_reader()?;
        let listing = home.listing(&connection)?;
        self.return_reader(connection, file);
        Ok(listing == Listing::Here)
    }

    /// Returns the newest event, if it can be read, and the identity of its database file.
    pub(crate) fn latest(&self) -> Result<(Option<Place>, Option<FileId>), Fault> {
        let (connection, file) = self.take_reader()?;
        let latest = pulse::latest(&connection).ok();
        self.return_reader(connection, file);
        Ok((latest, file))
    }

    /// Whether the database file is still the one that was opened.
    pub(crate) fn is_current(&self) -> bool {
        let file = FileId::of(&self.paths.database);
        file.is_some()
            && self
                .readers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .file
                == file
    }

    /// The database file that connections belong to.
    pub(crate) fn open_file(&self) -> Option<FileId> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.file
    }

    /// As [`Shared::is_superseded`], for the database that an idle reader has open; `None` without one.
    pub(crate) fn is_reader_superseded(&self) -> Option<bool> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.idle.last().map(home::is_superseded)
    }

    /// Takes the connection of a reader that is idle, if there is one.
    pub(crate) fn take_idle_reader(&self) -> Option<Connection> {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.idle.pop()
    }

    /// Closes the connections of idle readers, whose database was replaced.
    pub(crate) fn forget_readers(&self) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.idle.clear();
        readers.file = None;
    }

    /// Puts a copy of a database that is still open in its place, where its directory was removed. Where another
    /// database is in that place, the copy is written beside it. The caller holds the writers' locks of both.
    ///
    /// Returns whether it was put back: other programs may still have the removed one open.
    ///
    /// # Errors
    /// [`Fault::Replaced`] with the path of a copy beside the database, or the reason why there is no copy.
    pub(crate) fn rescue(&self, removed: &Connection) -> Result<bool, Fault> {
        let paths = &self.paths;
        let Home::Shared(home) = &paths.home else {
            return Ok(false);
        };
        // A reader may not even write to another database.
        removed.pragma_update(None, "query_only", false)?;
        if db::is_there(&paths.database)? {
            let Some(beside) = home.place_beside(removed, paths)? else {
                return Ok(false);
            };
            if !db::is_there(&beside)? {
                clear(&[&paths.rebuilt])?;
                copy(removed, paths)?;
                db::publish(&paths.rebuilt, &beside)?;
            }
            return Err(Fault::Replaced(beside));
        }
        clear(&paths.leftovers())?;
        copy(removed, paths)?;
        let built = db::open_builder(&paths.rebuilt)?;
        home.keep(&built)?;
        if built.execute("DELETE FROM counter WHERE name = 'superseded'", [])? > 0 {
            tracing::error!("the board is put back in an earlier state: its last changes are lost");
            home.raise_all(&built)?;
        }
        db::use_log(&built, &paths.rebuilt)?;
        drop(built);
        db::publish(&paths.rebuilt, &paths.database)?;
        Ok(true)
    }

    /// Returns whether the database of a connection was removed, and put back by another program since.
    pub(crate) fn is_superseded(&self, connection: &Connection) -> bool {
        !self.is_current() && home::is_superseded(connection)
    }

    /// Opens the database that is there now, or rebuilds it. The caller holds the writers' lock.
    pub(crate) fn reopen(&self) -> Result<Connection, Fault> {
        let connection = prepare(&self.paths, &self.options)?;
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.idle.clear();
        readers.file = FileId::of(&self.paths.database);
        drop(readers);
        Ok(connection)
    }

    pub(crate) fn writing<'a>(
        &'a self,
        connection: &'a Connection,
        words: &'a mut KnownWords,
    ) -> Writing<'a> {
        let limits = Limits {
            chunks: self.options.max_chunks,
            memory_bytes: self.options.max_memory_bytes,
            makes_room: self.options.makes_room,
        };
        let mut writing = Writing::new(connection, words, limits, self.options.clock.now());
        writing.stand_on(self.options.files.as_ref(), &self.paths.projects);
        writing
    }

    /// What keeps the readable files and this board in step.
    pub(crate) fn engine(self: &Arc<Self>) -> Engine {
        let board: Arc<dyn Board> = Arc::clone(self) as Arc<dyn Board>;
        let (root, lock) = (self.paths.projects.clone(), self.paths.files_lock.clone());
        Engine::new(
            root,
            lock,
            Arc::clone(&self.options.files),
            board,
            Arc::clone(&self.options.clock),
            self.options.home.removes(),
        )
    }

    /// Says that something was committed.
    pub(crate) fn committed(&self) {
        let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.commits += 1;
        // Where nobody watches, the log is all there is to look after.
        let due = pulse.is_watched_closely() || pulse.commits.is_multiple_of(QUIET_COMMITS);
        drop(pulse);
        if due {
            self.beat.notify_all();
        }
        self.reports.committed();
    }

    /// Tells whoever listens.
    pub(crate) fn tell(&self, notice: ChangeNotice) {
        // Nobody listening is no error.
        let _ = self.notices.send(notice);
    }

    /// Whether somebody wants to hear of every change, now.
    pub(crate) fn is_watched_closely(&self) -> bool {
        let pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.is_watched_closely()
    }

    /// One more, or one less, wants to hear of every change.
    pub(crate) fn watch_closely(&self, step: Step) {
        let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            Step::Begin => pulse.close_watches += 1,
            Step::End => pulse.close_watches -= 1,
        }
        drop(pulse);
        self.beat.notify_all();
    }

    /// Says that the store is closed.
    pub(crate) fn close(&self) {
        self.pulse
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed = true;
        self.beat.notify_all();
    }

    /// Waits until something is other than `seen`, or `timeout` is over.
    pub(crate) fn wait_for_pulse(&self, seen: Pulse, timeout: Duration) -> Pulse {
        let pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .beat
            .wait_timeout_while(pulse, timeout, |now| *now == seen);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Board for Shared {
    fn read(
        &self,
        work: &mut dyn FnMut(&Reader<'_>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        Self::read(self, |reader| work(reader))
    }

    fn write(&self, work: needs::Job) -> Result<(), ActionError> {
        if let Some(fault) = &self.read_only {
            return Err(fault.clone().into());
        }
        let (answer, receiver) = oneshot::channel();
        self.queue.push(Job::Files { work, answer });
        crate::wait::block_on(receiver).unwrap_or_else(|_| Err(Fault::Closed.into()))
    }
}

/// Opens the database for writing, with the newest schema. One that is not there is built beside
/// its place from the readable files, and put there when it is whole. The caller holds the lock.
fn prepare(paths: &Paths, options: &Options) -> Result<Connection, Fault> {
    paths.make_directories()?;
    if let Home::Shared(home) = &paths.home {
        home.set_foreign_aside(paths)?;
    }
    match (&paths.home, db::is_there(&paths.database)?) {
        (Home::Shared(home), false) => {
            // It was removed again since, and a program that has it open puts it back.
            if home.is_open() {
                return Err(Fault::Removed(paths.store.clone()));
            }
            if !adopt_any(paths, home)? {
                build(paths, options)?;
            }
        }
        (Home::Checkout, false) => build(paths, options)?,
        (Home::Shared(home), true) => {
            home.check(paths)?;
            if let Some(former) = paths.former() {
                leave(&former)?;
            }
        }
        (Home::Checkout, true) => {}
    }
    let file = FileId::of(&paths.database);
    let connection = open_newest(paths)?;
    if let Home::Shared(home) = &paths.home {
        if FileId::of(&paths.database) != file {
            // Its log may be another one than that of the programs that put it back.
            return Err(Fault::Removed(paths.store.clone()));
        }
        home.settle(&connection)?;
    }
    Ok(connection)
}

/// Opens a database for writing, and brings it to the newest schema. The caller holds the lock.
pub(crate) fn open_newest(paths: &Paths) -> Result<Connection, Fault> {
    let connection = db::open_writer(&paths.database)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    match migrate(&connection) {
        Ok(_) => connection.execute_batch("COMMIT")?,
        Err(fault) => {
            connection.execute_batch("ROLLBACK")?;
            return Err(fault);
        }
    }
    Ok(connection)
}

/// Copies the database that the workspace had in its checkout, or in the state directory before. Returns whether there
/// was one. The caller holds the lock of the new place.
///
/// # Errors
/// [`Fault::Untrusted`] when the copy is data until the user accepts it.
fn adopt_any(paths: &Paths, home: &SharedHome) -> Result<bool, Fault> {
    if copy_tracked(paths)? {
        return Err(Fault::Untrusted(home.directory()));
    }
    // An archive can contain the database of a checkout, and no list has its id.
    if let Some(former) = paths.former()
        && adopt(paths, &former, home, exchange::disown)?
    {
        return Ok(true);
    }
    match home.earlier()? {
        Some(earlier) => adopt(paths, &earlier, home, |_| Ok(())),
        None => Ok(false),
    }
}

/// Copies a database and changes the copy. Programs refuse the original afterwards. Returns false if an earlier call has
/// copied it.
fn adopt(
    paths: &Paths,
    former: &Path,
    home: &SharedHome,
    change: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<bool, Fault> {
    let _locks = lock_former(former)?;
    let source = db::open_writer(&former.join(db::DATABASE))?;
    if is_stub(&source)? {
        // The place that it was moved to is gone, and the readable files are newer.
        return Ok(false);
    }
    publish_newest(&source, paths, |built| {
        change(built)?;
        home::shorten_claims(built)?;
        home.identify(built)
    })?;
    source.pragma_update(None, "user_version", schema::MOVED)?;
    db::move_log(&source)?;
    Ok(true)
}

/// Copies a database in the checkout that git tracks: it came from elsewhere, since that of this user's programs is
/// ignored. The copy has no id, so that it is in no list. Leaves the original as it is. Returns whether there was one.
pub(crate) fn copy_tracked(paths: &Paths) -> Result<bool, Fault> {
    let tracked = paths.former().filter(|it| orchestra_place::is_tracked(it));
    let Some(from) = tracked else {
        return Ok(false);
    };
    let Some(source) = db::open_any_reader(&from.join(db::DATABASE))? else {
        return Ok(false);
    };
    if is_stub(&source)? {
        return Ok(false);
    }
    // A reader may not even write to another database.
    source.pragma_update(None, "query_only", false)?;
    publish_newest(&source, paths, |built| {
        Ok(built.execute_batch("DROP TABLE IF EXISTS home")?)
    })?;
    Ok(true)
}

/// Puts a copy of what a connection sees in the place of a database, with the newest schema and a change.
pub(crate) fn publish_newest(
    source: &Connection,
    paths: &Paths,
    change: impl FnOnce(&Connection) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let version = db::schema_of(source)?;
    if version > schema::SCHEMA {
        return Err(schema::newer(version));
    }
    clear(&paths.leftovers())?;
    copy(source, paths)?;
    let built = db::open_builder(&paths.rebuilt)?;
    built.execute_batch("BEGIN IMMEDIATE")?;
    migrate(&built)?;
    // It can have come along with the workspace.
    limit_counters(&built).map_err(of_reading)?;
    change(&built)?;
    built.execute_batch("COMMIT")?;
    db::use_log(&built, &paths.rebuilt)?;
    drop(built);
    db::publish(&paths.rebuilt, &paths.database)
}

fn of_reading(error: ReadError) -> Fault {
    match error {
        ReadError::Fault(fault) => fault,
        ReadError::Refused(_) | ReadError::Cursor(_) => Fault::Unknown { what: "project" },
    }
}

/// Takes the locks of the directory that a database is moved out of. A program that uses it holds one of them, or takes
/// one for its next change.
pub(crate) fn lock_former(former: &Path) -> Result<Vec<fs::File>, Fault> {
    let lock = |name: &str| {
        let path = former.join(name);
        let lock = db::lock_file(&path)?;
        lock.try_lock()
            .map_err(|_| Fault::held(former.to_owned(), &path))?;
        Ok(lock)
    };
    [db::KEEPER_LOCK, db::WRITER_LOCK, db::FILES_LOCK]
        .into_iter()
        .map(lock)
        .collect()
}

/// Marks the database in the mirror as moved, where a program ended between its copy and that mark. Leaves anything
/// that no earlier program has written there as it is.
pub(crate) fn leave(former: &Path) -> Result<(), Fault> {
    let database = former.join(db::DATABASE);
    let is_board = |version: Result<i64, Fault>| {
        version.is_ok_and(|version| (1..=schema::SCHEMA).contains(&version))
    };
    // The header is enough: a mark that is still in the log alone is written again.
    if !is_board(db::header_version(&database)) {
        return Ok(());
    }
    let marked = lock_former(former).and_then(|_locks| mark_as_moved(&database));
    match marked {
        Err(fault @ Fault::Held { .. }) => Err(fault),
        Err(fault) => {
            let database = database.display();
            tracing::warn!(%fault, "cannot mark `{database}` as the previous database of the board");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Returns whether there is the database of a board, and not what is left of one that was moved. A log may say more than
/// its header.
pub(crate) fn is_board(database: &Path) -> bool {
    database.is_file() && !matches!(db::header_version(database), Ok(schema::MOVED))
}

/// Returns whether a database is what is left of one that was moved.
pub(crate) fn is_moved(database: &Path) -> Result<bool, Fault> {
    let Some(connection) = db::open_any_reader(database)? else {
        return Ok(false);
    };
    is_stub(&connection)
}

pub(crate) fn is_stub(connection: &Connection) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached("PRAGMA user_version")?;
    let version: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(version == schema::MOVED)
}

/// Has every program refuse a database. The caller holds the writers' lock.
pub(crate) fn mark_as_moved(database: &Path) -> Result<(), Fault> {
    let connection = db::open_writer(database)?;
    connection.pragma_update(None, "user_version", schema::MOVED)?;
    // Programs that only look for a board read the header.
    db::move_log(&connection)
}

/// Writes what a connection sees into the file of a new database.
pub(crate) fn copy(source: &Connection, paths: &Paths) -> Result<(), Fault> {
    // Created here, so that it is for its owner alone from the start.
    drop(orchestra_fs::open_or_create(
        &paths.rebuilt,
        orchestra_fs::Access::Private,
    )?);
    // SQLite takes the bytes of a path as they are, UTF-8 or not.
    let target = ValueRef::Text(paths.rebuilt.as_os_str().as_encoded_bytes());
    source.execute("VACUUM INTO ?1", [ToSqlOutput::Borrowed(target)])?;
    Ok(())
}

/// Removes what is left of a database that is gone: it must not be taken for the log of the new one.
pub(crate) fn clear(leftovers: &[&PathBuf]) -> Result<(), Fault> {
    for path in leftovers {
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Fault::io(
                    "remove an old database beside the new one",
                    error,
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn build(paths: &Paths, options: &Options) -> Result<(), Fault> {
    clear(&paths.leftovers())?;
    let connection = db::open_builder(&paths.rebuilt)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    if migrate(&connection)? == Found::New {
        let mut words = KnownWords::default();
        let limits = Limits {
            chunks: options.max_chunks,
            memory_bytes: options.max_memory_bytes,
            makes_room: options.makes_room,
        };
        let mut writing = Writing::new(&connection, &mut words, limits, options.clock.now());
        let loaded = writing
            .begin_loading()
            .and_then(|()| Ok(load(paths, options, &mut writing)?))
            .and_then(|()| writing.recount());
        loaded.map_err(|error| match error {
            ActionError::Fault(fault) => fault,
            ActionError::Refused(_) | ActionError::Invalid(_) | ActionError::Document(_) => {
                Fault::Unknown {
                    what: "readable file",
                }
            }
        })?;
    }
    if let Home::Shared(home) = &paths.home {
        home.drop_first_claims(&connection)?;
        home.identify(&connection)?;
    }
    connection.execute_batch("COMMIT")?;
    // The database is still private, so this does not wait for the disk. After publication it would.
    db::use_log(&connection, &paths.rebuilt)?;
    drop(connection);
    db::publish(&paths.rebuilt, &paths.database)
}

fn load(paths: &Paths, options: &Options, work: &mut dyn Work) -> Result<(), Fault> {
    let now = options.clock.now().unix_seconds();
    Ok(crate::files::rebuild(
        &paths.projects,
        &options.files,
        work,
        now,
    )?)
}
