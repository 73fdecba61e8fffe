//! The audit file: one JSON line per call, written by a thread of its own so that no answer waits
//! for it. Arguments and results are never written, only names, sizes, outcome and duration. Each
//! line names the hash of the one before it.

mod chain;
mod line;
mod note;
mod place;
mod verify;
mod writer;

use std::{
    fmt, io,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::Ordering,
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use crate::{CallEnd, Caller};
use place::Place;
pub use verify::{Misfit, Spot, Verified, verify_audit};
use writer::{Shared, Writer};

/// Records that wait for the thread; more are dropped and counted.
const QUEUE: usize = 4_096;

/// Where the audit file is, how large and old it may become, and when it is on the disk. Several
/// processes may share one; all must say the same of it.
#[derive(Debug, Clone)]
pub struct AuditConfig {
    /// The file, for its owner alone; older ones stand beside it as `NAME.1`, `NAME.2`, …, and what
    /// is noted of their chain as `NAME.head`. Neither they nor the directory may be a symbolic link.
    pub path: PathBuf,
    /// Size at which the file is rotated, in bytes.
    pub max_bytes: u64,
    /// How many older files are kept.
    pub keep: usize,
    /// Age of its first record at which the file is rotated, and of its last one at which an older
    /// file is removed, so that a record becomes at most twice as old; `None` for whatever age. It
    /// is looked for at the opening, and once an hour.
    pub max_age: Option<Duration>,
    /// When records are on the disk.
    pub fsync: Fsync,
}

/// When records are made sure to be on the disk. A program that is killed loses none that were
/// written; a machine that loses power does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// When the system gets to it.
    Never,
    /// Five seconds after they were written, and at the end.
    #[default]
    Interval,
    /// When they are written. No answer waits for it.
    Always,
}

impl AuditConfig {
    /// A file of 4 MiB and two older ones, none older than seven days.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            max_bytes: 4 * 1024 * 1024,
            keep: 2,
            max_age: Some(Duration::from_secs(7 * 86_400)),
            fsync: Fsync::default(),
        }
    }
}

/// Writes audit records. Dropping it writes what is queued.
pub struct Audit {
    shared: Arc<Shared>,
    /// Writer of the thread, until the thread starts.
    idle: Mutex<Option<Writer>>,
    /// Set at the start; `None` if the system could not create the thread.
    thread: OnceLock<Option<Thread>>,
}

/// Thread that writes records, and its queue, which needs most of a megabyte.
#[derive(Debug)]
struct Thread {
    queue: SyncSender<Record>,
    handle: JoinHandle<()>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit")
            .field("thread", &self.thread)
            .finish_non_exhaustive()
    }
}

/// One call, as it is recorded.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) ended: SystemTime,
    pub(crate) face: &'static str,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) provider: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) argument_bytes: usize,
    pub(crate) result_bytes: usize,
    pub(crate) end: CallEnd,
    /// What the provider said of it.
    pub(crate) remark: Option<String>,
    pub(crate) elapsed: Duration,
    /// W3C `traceparent`, as it came.
    pub(crate) trace: Option<String>,
}

/// An action of the user that is not a call, such as the approval of a server.
#[derive(Debug, Clone)]
pub struct Action {
    /// The user's program.
    pub caller: Caller,
    /// The action and its object, such as `approve server notes`.
    pub name: String,
    /// How it ended.
    pub end: CallEnd,
    /// When it began.
    pub began: Instant,
    /// W3C `traceparent`.
    pub trace: Option<String>,
}

impl Audit {
    /// Opens the file, creating it and its directory when they are missing. The thread starts with
    /// the first record or by [`Audit::start`], whichever comes first.
    ///
    /// # Errors
    /// When the directory or the file cannot be created.
    pub fn open(config: AuditConfig) -> io::Result<Self> {
        Place::make_directory(&config.path)?;
        let shared = Arc::<Shared>::default();
        let writer = Writer::open(config, Arc::clone(&shared))?;
        Ok(Self {
            shared,
            idle: Mutex::new(Some(writer)),
            thread: OnceLock::new(),
        })
    }

    /// Starts the thread, which also removes files that are too old.
    pub fn start(&self) {
        self.thread();
    }

    fn thread(&self) -> Option<&Thread> {
        let start = || {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let writer = idle.take()?;
            let (queue, records) = sync_channel(QUEUE);
            let handle = thread::Builder::new()
                .name("audit".into())
                .stack_size(128 * 1024)
                .spawn(move || writer.run(&records, QUEUE))
                .map_err(|error| tracing::warn!(%error, "calls are not audited: cannot start the writer thread"));
            Some(Thread {
                queue,
                handle: handle.ok()?,
            })
        };
        self.thread.get_or_init(start).as_ref()
    }

    /// How many records were lost: the thread could not keep up, or could not write them. The next
    /// record says it as well.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Records an action.
    pub fn record_action(&self, action: Action) {
        self.record(Record {
            ended: SystemTime::now(),
            face: action.caller.face,
            client: action.caller.client,
            provider: None,
            kind: "action",
            name: action.name,
            argument_bytes: 0,
            result_bytes: 0,
            end: action.end,
            remark: None,
            elapsed: action.began.elapsed(),
            trace: action.trace,
        });
    }

    pub(crate) fn record(&self, record: Record) {
        let thread = self.thread();
        let is_queued = thread.is_some_and(|thread| thread.queue.try_send(record).is_ok());
        if !is_queued {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::Relaxed);
        if let Some(Some(Thread { queue, handle })) = self.thread.take() {
            drop(queue);
            handle.thread().unpark();
            // A panicked thread has nothing left to write.
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests;
