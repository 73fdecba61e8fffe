//! The door to the board of one workspace.

mod documents;
mod exchange;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use orchestra_board::{AgentName, Source, Timestamp};
use orchestra_fs::Lock;
use tokio::sync::broadcast;

use crate::db::{self, Paths};
use crate::files::Files;
use crate::queue::LOCK_PATIENCE;
use crate::shared::{Shared, Step};
use crate::writer::Writer;
use crate::{
    Action, ActionError, ChangeNotice, Clock, DoctorError, Fault, FileIo, FilesError, Fix, Home,
    HomeCheck, ImportError, Imported, Made, OpenError, ReadError, Reader, RealFs, Receipt, Reindex,
    Reindexed, Report, Submission, SystemClock, linked, pulse, shared,
};

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Through what the readable files are read and written.
    pub files: Arc<dyn FileIo>,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Whether changes of the readable files are watched.
    pub watch: bool,
    /// Whether the readable files are looked through for changes after opening, in the background.
    pub sweep: bool,
    /// Whether the readable files are written at all; without, they are left as they are.
    pub flush: bool,
    /// The most remembered texts of one project, and the most sessions.
    pub max_chunks: u64,
    /// The most bytes of the remembered texts of one project, and of its sessions.
    pub max_memory_bytes: u64,
    /// Whether superseded texts and sessions of hook events are removed when a project is full.
    pub makes_room: bool,
    /// Where the database is, and what the readable files are.
    pub home: Home,
    /// Decides whether it is still there; `None` where no configuration decides that.
    pub check: Option<Arc<dyn HomeCheck>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            files: Arc::new(RealFs),
            clock: Arc::new(SystemClock),
            watch: true,
            sweep: true,
            flush: true,
            max_chunks: 100_000,
            max_memory_bytes: 256 * 1024 * 1024,
            makes_room: true,
            home: Home::Checkout,
            check: None,
        }
    }
}

/// The board of one workspace. Clones are cheap and mean the same board; when the last one is
/// dropped, what was submitted is still written and the threads end.
#[derive(Debug, Clone)]
pub struct Store(Arc<Handle>);

/// How often ending threads are looked at.
const END_LOOK: Duration = Duration::from_millis(2);

/// How long the readable files may take to be brought up to date when the last handle is dropped.
const SETTLE_AT_END: Duration = Duration::from_secs(5);

/// Owns the threads.
struct Handle {
    shared: Arc<Shared>,
    /// Completed when the threads were started.
    started: Once,
    /// State of the threads until they start; `None` if the store is read-only.
    idle: Mutex<Option<Idle>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The readable files; none where nothing can be written.
    files: Option<Files>,
    /// Held so that the board is not moved meanwhile.
    _attached: Option<Lock>,
}

/// State of the threads before they run.
struct Idle {
    writer: Writer,
    /// Last event before the changes that are sent; `None` if it could not be read.
    begin: Option<pulse::Place>,
    /// Identity of the database file with that event.
    file: Option<db::FileId>,
}

impl Store {
    /// Opens the board below `workspace`, or makes it in `.projects/`. Where the directory cannot
    /// be written but a board is there, it can be read, and every action is answered by
    /// [`Fault::ReadOnly`].
    ///
    /// # Errors
    /// When the workspace is no directory, or its database can neither be used nor made.
    pub fn open(workspace: &Path, options: Options) -> Result<Self, OpenError> {
        let store = Self::open_idle(workspace, options)?;
        let started = store.0.start();
        started.map_err(|fault| store.0.shared.paths.failed(fault))?;
        Ok(store)
    }

    /// As [`Store::open`], without threads. They start with the first change or with [`Store::start`].
    /// From then on, changes of other processes and of the readable files are noticed, including those
    /// since the opening. Reading needs no threads.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_idle(workspace: &Path, options: Options) -> Result<Self, OpenError> {
        let workspace = workspace
            .canonicalize()
            .map_err(|_| OpenError::NotADirectory(workspace.to_path_buf()))?;
        let options = options.home.clone().adapt(options);
        let paths = Paths::of(&workspace, &options.home);
        paths.check()?;
        match Self::open_for_writing(&paths, &options) {
            Ok(store) => Ok(store),
            Err(fault @ (Fault::ReadOnly | Fault::Untrusted(_))) if paths.database.exists() => {
                let fault = match (&options.home, fault) {
                    (Home::Shared(home), Fault::ReadOnly) => Fault::Sandboxed(home.directory()),
                    (_, fault) => fault,
                };
                let shared = Shared::new(paths.clone(), options, Some(fault));
                // Whether it can be read is said now and not by the first question.
                shared
                    .read(|reader| reader.slugs())
                    .map_err(|error| match error {
                        ReadError::Fault(source) => paths.failed(source),
                        ReadError::Refused(_) | ReadError::Cursor(_) => {
                            paths.failed(Fault::Corrupt)
                        }
                    })?;
                Ok(Self(Arc::new(Handle {
                    shared: Arc::new(shared),
                    started: Once::new(),
                    idle: Mutex::default(),
                    threads: Mutex::default(),
                    files: None,
                    _attached: None,
                })))
            }
            Err(fault) => Err(paths.failed(fault)),
        }
    }

    fn open_for_writing(paths: &Paths, options: &Options) -> Result<Self, Fault> {
        if let Home::Shared(home) = &options.home {
            home.check_only_board()?;
        }
        paths.make_directories()?;
        let attached = match &options.home {
            Home::Shared(home) => home.attach(),
            Home::Checkout => None,
        };
        let mut lock = db::lock_file(&paths.writer_lock)?;
        let shared = Arc::new(Shared::new(paths.clone(), options.clone(), None));
        // The thread of the writer opens its own connection, so that a reader needs only one.
        let mut connection = None;
        if !shared.is_ready()? || !shared.is_admitted()? {
            lock = Self::lock_database(lock, paths, options)?;
            connection = Some(shared.reopen()?);
            unlock(&lock)?;
        } else if let Some(former) = paths.former() {
            shared::leave(&former)?;
        }
        // Changes from now on are sent, even if the sending thread starts later.
        let (begin, file) = shared.latest().unwrap_or_default();
        let writer = Writer::new(Arc::clone(&shared), lock, connection);
        let files = Files::new(options, shared.engine(), &shared);
        Ok(Self(Arc::new(Handle {
            shared,
            started: Once::new(),
            idle: Mutex::new(Some(Idle {
                writer,
                begin,
                file,
            })),
            threads: Mutex::default(),
            files: Some(files),
            _attached: attached,
        })))
    }

    /// Takes the lock of the writers, once no other program is to put the database back.
    fn lock_database(mut lock: File, paths: &Paths, options: &Options) -> Result<File, Fault> {
        let Home::Shared(home) = &options.home else {
            return db::lock_within(lock, LOCK_PATIENCE);
        };
        loop {
            home.wait_for_database(paths)?;
            lock = db::lock_within(lock, LOCK_PATIENCE)?;
            // It may have been removed once more while the lock was waited for.
            if !home.awaits_database(paths)? {
                return Ok(lock);
            }
            unlock(&lock)?;
        }
    }

    /// Starts the threads of a store that [`Store::open_idle`] has opened, unless they run. If the system
    /// cannot create them, an error is logged, and changes fail with [`Fault::Closed`].
    pub fn start(&self) {
        if let Err(error) = self.0.start() {
            tracing::error!(%error, "cannot write the board");
        }
    }

    /// Why nothing can be written, if that was clear when it was opened.
    #[must_use]
    pub fn read_only(&self) -> Option<&Fault> {
        self.0.shared.read_only.as_ref()
    }

    /// The directory of the database.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.0.shared.paths.store
    }

    /// The directory without which there is no board any more.
    #[must_use]
    pub fn root(&self) -> &Path {
        let paths = &self.0.shared.paths;
        match &paths.home {
            Home::Checkout => &paths.projects,
            Home::Shared(home) => home.anchor(),
        }
    }

    /// The directory that it was opened for.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.0.shared.paths.workspace
    }

    /// Hands an action to the writer. It is queued at once: the order of calls is the order of
    /// effects. The answer comes once the action is durable; dropping it undoes nothing.
    pub fn submit(&self, agent: Option<AgentName>, action: Action) -> Submission {
        self.start();
        self.0.shared.submit(Source::Tool, agent, action)
    }

    /// [`Store::submit`], and waits on this thread for the answer.
    ///
    /// # Errors
    /// When the board refuses the action or the store fails; nothing of it was kept then.
    pub fn submit_blocking(
        &self,
        agent: Option<AgentName>,
        action: Action,
    ) -> Result<Receipt, ActionError> {
        self.start();
        self.0.shared.submit_blocking(Source::Tool, agent, action)
    }

    /// Makes the full-text index of what is remembered anew, and removes what has expired, in parts
    /// between which others write; `told` hears how far it is. Until it is whole the index that was
    /// there is searched.
    ///
    /// # Errors
    /// When the store fails. What was done is kept, and gone on with the next time.
    pub fn reindex_memory(
        &self,
        mut told: impl FnMut(&Reindexed),
    ) -> Result<Reindexed, ActionError> {
        let mut step = Reindex::Begin;
        loop {
            let receipt = self.submit_blocking(None, Action::ReindexMemory(step))?;
            let Made::Reindexed(now) = receipt.made else {
                return Err(Fault::Panicked.into());
            };
            told(&now);
            if now.is_done {
                return Ok(now);
            }
            step = Reindex::Continue(now.run);
        }
    }

    /// Reads from one snapshot, in place. Keep `work` short: the log of the database cannot be
    /// shortened meanwhile.
    ///
    /// # Errors
    /// As `work`, or when the database cannot be read.
    pub fn read<T>(
        &self,
        work: impl FnOnce(&Reader<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        self.0.shared.read(work)
    }

    /// Tells what changes from now on, whoever changes it, after it is durable; what changed a
    /// moment before may be told as well. Who is too slow misses the oldest ones, and is told so by
    /// the channel.
    ///
    /// While there is no [`CloseWatch`] only changes of the list of projects are told, at leisure:
    /// a process that nobody watches then pays nothing for what the others do.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        self.0.shared.notices.subscribe()
    }

    /// Has every change told, soon, until what this returns is dropped.
    #[must_use]
    pub fn watch_closely(&self) -> CloseWatch {
        self.start();
        let shared = Arc::clone(&self.0.shared);
        shared.watch_closely(Step::Begin);
        CloseWatch(shared)
    }

    /// The time, as the store sees it.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.shared.options.clock.now()
    }

    /// Waits until the readable files show everything that is committed, whichever process writes them. In mode
    /// `checkout` they do so durably. The first time what people edited before in the files is taken in as well, where
    /// [`Options::sweep`] says so.
    ///
    /// # Errors
    /// When that takes longer than `timeout`, or the files cannot be written.
    pub fn settle(&self, timeout: Duration) -> Result<(), FilesError> {
        self.start();
        match &self.0.files {
            Some(files) if self.0.shared.options.flush => files.settle(timeout),
            _ => Ok(()),
        }
    }

    /// Writes what was submitted, settles the readable files, and ends the threads. Later actions
    /// are answered by [`Fault::Closed`]; reading goes on. Where another process keeps the files it
    /// is not waited for; who wants to see its change there calls [`Store::settle`] before.
    pub fn close(&self, timeout: Duration) {
        // What is not settled now is settled when the workspace is opened next.
        self.0.end(timeout);
    }

    /// The directories in `.projects/` that hold a project of the earlier program which
    /// [`import`](Self::import) would take over; none where they cannot be read.
    #[must_use]
    pub fn not_imported(&self) -> Vec<String> {
        crate::import::waiting(&self.0.shared).unwrap_or_default()
    }

    /// Takes over the files of the earlier program that are in `.projects/`, after it has copied
    /// them beside it. Where there are none, nothing happens.
    ///
    /// # Errors
    /// When the old files cannot be read or copied, or the store fails.
    pub fn import(&self) -> Result<Imported, ImportError> {
        self.start();
        let shared = &self.0.shared;
        let mut unsaved = Vec::new();
        for action in crate::import::remembered(shared)? {
            if let Err(error) = self.submit_blocking(None, action) {
                unsaved.push(format!(
                    "a remembered text or session was not imported, and is in the copy alone: {error}"
                ));
            }
        }
        let mut imported = crate::import::import(shared, shared.engine())?;
        imported.remarks.append(&mut unsaved);
        Ok(imported)
    }

    /// Merges the board that a linked worktree has of its own into this one, without its claims, and marks it as merged.
    /// A worktree without a database has the board of its readable files.
    ///
    /// # Errors
    /// [`Fault::Held`] while another program uses the board of the worktree, and when either board cannot be read or
    /// written. This one is as it was then.
    pub fn merge_worktree(&self, worktree: &Path) -> Result<(), Fault> {
        match self.read_only() {
            Some(fault) => Err(fault.clone()),
            None => linked::merge(&self.0.shared, worktree),
        }
    }

    /// Applies the edits of the readable files. A missing file removes nothing.
    ///
    /// # Errors
    /// When another program looks at them, or the store fails.
    pub(crate) fn apply_edits(&self) -> Result<(), FilesError> {
        self.start();
        let mut engine = self.0.shared.engine().without_removals();
        let end = Instant::now() + LOCK_PATIENCE;
        let _lock = loop {
            if let Some(lock) = engine.try_lock()? {
                break lock;
            }
            // The own thread looks at the files when it starts.
            if Instant::now() > end {
                return Err(FilesError::Timeout);
            }
            thread::park_timeout(END_LOOK);
        };
        engine.sweep_whole()
    }

    /// Compares database and readable files.
    ///
    /// # Errors
    /// When either cannot be read at all.
    pub fn doctor(&self, fix: Fix) -> Result<Report, DoctorError> {
        self.start();
        let shared = &self.0.shared;
        crate::doctor::examine(shared, shared.engine(), fix, &[])
    }

    /// Mends what can be mended. The issues of these readable files, and of those below them, get the ids that they claim,
    /// and the board's issues with these ids get others. Paths begin below `.projects/`.
    ///
    /// # Errors
    /// When either side cannot be read at all, and when one of the files has no problem.
    pub fn mend_taking(&self, files: &[String]) -> Result<Report, DoctorError> {
        self.start();
        let shared = &self.0.shared;
        crate::doctor::examine(shared, shared.engine(), Fix::Mend, files)
    }
}

/// Accepts a board that programs of another user, or none of this one, created: it gets a new id, which is listed, and
/// its claims are dropped. Returns its directory; `None` where there is nothing to accept.
///
/// # Errors
/// When the database or the list cannot be read or written.
pub fn accept(workspace: &Path, options: &Options) -> Result<Option<PathBuf>, OpenError> {
    let Home::Shared(home) = &options.home else {
        return Ok(None);
    };
    let paths = Paths::of(workspace, &options.home);
    let accept = || {
        if !db::is_there(&paths.database)? && paths.former().is_none() {
            return Ok(None);
        }
        paths.make_directories()?;
        let file = db::lock_file(&paths.writer_lock)?;
        let _lock = db::lock_within(file, LOCK_PATIENCE)?;
        if !db::is_there(&paths.database)? && !shared::copy_tracked(&paths)? {
            return Ok(None);
        }
        match home.check(&paths) {
            Err(Fault::Untrusted(_)) => {}
            other => return other.map(|()| None),
        }
        let connection = shared::open_newest(&paths)?;
        home.renew(&connection)?;
        Ok(Some(home.directory()))
    };
    accept().map_err(|fault| paths.failed(fault))
}

/// The writers' lock of a database that was given up, until it is dropped.
#[derive(Debug)]
pub struct GivenUp {
    _lock: File,
}

/// Has programs that have the database of a shared board open leave it and not put it back, so that its directory can
/// be moved away while what this returns is held. Its changes after that go to another database.
///
/// # Errors
/// When another program keeps the board locked.
pub fn give_up(workspace: &Path, options: &Options) -> Result<GivenUp, OpenError> {
    let paths = Paths::of(workspace, &options.home);
    let give_up = || {
        paths.make_directories()?;
        let file = db::lock_file(&paths.writer_lock)?;
        let lock = db::lock_within(file, LOCK_PATIENCE)?;
        if matches!(options.home, Home::Shared(_)) {
            match shared::mark_as_moved(&paths.database) {
                // A database that is too damaged to be marked cannot be put back either.
                Err(Fault::Corrupt) | Ok(()) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(GivenUp { _lock: lock })
    };
    give_up().map_err(|fault| paths.failed(fault))
}

/// While there is one of these, [`Store::changes`] tells of every change.
#[derive(Debug)]
pub struct CloseWatch(Arc<Shared>);

impl Drop for CloseWatch {
    fn drop(&mut self) {
        self.0.watch_closely(Step::End);
    }
}

impl Handle {
    /// Starts the threads, once.
    fn start(&self) -> Result<(), Fault> {
        let mut started = Ok(());
        self.started.call_once(|| {
            let Some(idle) = lock(&self.idle).take() else {
                return;
            };
            started = self.start_threads(idle);
            if started.is_err() {
                self.shared.queue.close();
                self.shared.queue.fail_all(&Fault::Closed);
            }
        });
        started
    }

    fn start_threads(&self, idle: Idle) -> Result<(), Fault> {
        let Idle {
            mut writer,
            begin,
            file,
        } = idle;
        writer.share();
        let shared = Arc::clone(&self.shared);
        self.spawn("store-writer", move || writer.run())?;
        self.spawn("store-pulse", move || pulse::run(&shared, begin, file))?;
        match &self.files {
            Some(files) => files
                .start()
                .map_err(|error| Fault::io("start a thread", error)),
            None => Ok(()),
        }
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .map_err(|error| Fault::io("start a thread", error))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Lets the writer finish and waits for the threads.
    fn end(&self, timeout: Duration) {
        // A store that was opened applies the edits of the readable files before it ends.
        let _ = self.start();
        if let Some(files) = &self.files {
            // What is never written needs no time.
            files.close(if self.shared.options.flush {
                timeout
            } else {
                Duration::ZERO
            });
        }
        let shared = &self.shared;
        shared.queue.close();
        shared.close();
        let threads = std::mem::take(&mut *lock(&self.threads));
        let patience = Instant::now() + LOCK_PATIENCE;
        for thread in threads {
            // A writer that waits for a lock nobody gives back ends with the process: what waits
            // for it was answered by then.
            while !thread.is_finished() && Instant::now() < patience {
                thread::park_timeout(END_LOOK);
                shared.queue.give_up();
            }
            if thread.is_finished() {
                // A thread that panicked has nothing left to end.
                let _ = thread.join();
            }
        }
        shared.queue.fail_all(&Fault::Locked);
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

fn unlock(lock: &File) -> Result<(), Fault> {
    let unlocked = lock.unlock();
    unlocked.map_err(|error| Fault::io("unlock .projects/.store/writer.lock", error))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end(SETTLE_AT_END);
    }
}
