//! The append-only log of each plan, in one database, and its readable exports.
//!
//! The log is the truth: what a plan is, is folded from its events. The holder of the workspace's lock
//! is the only writer; each holder raises the database's epoch when it opens the journal, and what is
//! appended under an older one is refused, so that a process that has lost its place without knowing
//! harms nobody. Nothing is answered before it is on the disk. One thread writes, and commits together
//! what waits at the same time.
//!
//! What an event says is not known here: it is text in JSON. Any process of the workspace may read
//! ([`Reader`]), also while it is written, and where nothing can be written.

mod copy;
mod entry;
mod error;
mod export;
mod id;
mod import;
mod reader;
mod rebuild;
mod schema;
mod writer;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};

pub use entry::{Fresh, Kept, OnceKey, PlanKey, PlanKeyError};
pub use error::{AppendError, Fault};
pub(crate) use export::shown_number;
pub use export::{EVENTS_FILE, Exported, PLAN_FILE, Readable, read_export};
pub use id::{DatabaseId, Identity};
pub use import::{ImportError, Original, OriginalJob, OriginalPlan, originals, read_original};
pub(crate) use import::{candidates, is_original};
pub use reader::{Page, PlanRow, Reader};
pub use rebuild::{FromFiles, Rebuilt, rebuild};
pub(crate) use schema::end_rebuild;
pub use schema::{BUSY_TIMEOUT, DATABASE};
use writer::{Queued, Work, Writer};

/// The most events that are appended at once.
pub const MAX_EVENTS: usize = 100_000;
/// The longest event: the definition of a plan is one.
pub const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;
/// Appends that wait for the writer; who comes later waits to be let in.
const MAX_WAITING: usize = 4_096;
/// How large the database may grow, unless told otherwise: far more than a workspace makes in years.
const MAX_BYTES: u64 = 64 * 1024 * 1024 * 1024;

/// How a journal is kept.
pub struct Options {
    /// How large the database may grow; beyond it the disk counts as full.
    pub max_bytes: u64,
    /// How the readable files are made; `None` for none.
    pub readable: Option<Arc<dyn Readable>>,
    /// Id of a database that is created; `None` for none.
    pub id: Option<DatabaseId>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_bytes: MAX_BYTES,
            readable: None,
            id: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").finish_non_exhaustive()
    }
}

/// Events that are to be kept together or not at all.
#[derive(Debug, Clone)]
pub struct Append {
    /// Of which plan; the first events make it.
    pub plan: PlanKey,
    /// How many events it has, as the caller knows it.
    pub expected: u64,
    /// What happened.
    pub events: Vec<Fresh>,
    /// What makes it be done once, although it is asked for again.
    pub once: Option<Once>,
}

impl Append {
    fn is_within_bounds(&self) -> Result<(), AppendError> {
        let too_large = |what, limit| Err(AppendError::TooLarge { what, limit });
        if self.events.len() > MAX_EVENTS {
            return too_large("the list of events", MAX_EVENTS);
        }
        let is_long = |event: &Fresh| event.body.get().len() > MAX_EVENT_BYTES;
        match self.events.iter().any(is_long) {
            true => too_large("an event", MAX_EVENT_BYTES),
            false => Ok(()),
        }
    }
}

/// What makes a request be done once.
#[derive(Debug, Clone)]
pub struct Once {
    /// The key that whoever asks has chosen.
    pub key: OnceKey,
    /// What is answered, now and when it is asked again.
    pub answer: Box<RawValue>,
}

/// What was kept.
#[derive(Debug, Clone)]
pub struct Receipt {
    /// The place of the last event among all events of the workspace.
    pub seq: u64,
    /// How many events the plan has now.
    pub number: u64,
    /// The answer that was kept when the same was asked for before; then nothing was appended now.
    pub before: Option<Box<RawValue>>,
}

/// The journal of a workspace, as its holder writes it. Clones are the same.
#[derive(Clone)]
pub struct Journal(Arc<Inner>);

struct Inner {
    root: PathBuf,
    epoch: u64,
    /// Which file its database is.
    file: (u64, u64),
    identity: Identity,
    jobs: Mutex<Option<mpsc::Sender<Queued>>>,
    committed: watch::Receiver<u64>,
    files: Option<export::Files>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let epoch = self.0.epoch;
        f.debug_struct("Journal")
            .field("epoch", &epoch)
            .finish_non_exhaustive()
    }
}

impl Journal {
    /// Opens, or makes, the journal below a storage root, and raises its epoch: only the holder of the
    /// workspace's lock may. Blocks while the disk works.
    ///
    /// # Errors
    /// When the database cannot be opened for writing, is damaged, or is of a newer program.
    pub fn open(root: &Path, options: Options) -> Result<Self, Fault> {
        let (committed, watched) = watch::channel(0);
        let (jobs, queue) = mpsc::channel(MAX_WAITING);
        let mut writer = Writer::open(root, options.max_bytes, options.id, committed)?;
        let (epoch, file) = (writer.epoch(), writer.file());
        let identity = writer.identity();
        let files = options
            .readable
            .map(|readable| export::Files::start(root, readable, jobs.downgrade()))
            .transpose()?;
        writer.tells(files.as_ref());
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(|error| Fault::io("start a thread for", root, error))?;
        let journal = Self(Arc::new(Inner {
            root: root.to_owned(),
            epoch,
            file,
            identity,
            jobs: Mutex::new(Some(jobs)),
            committed: watched,
            files,
            writer: Mutex::new(Some(thread)),
        }));
        journal.look_after_files()?;
        Ok(journal)
    }

    /// How many times a holder has opened it, this time counted.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// Returns the id of the database that was opened.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.0.identity
    }

    /// The place of the last event that is on the disk, as it grows.
    #[must_use]
    pub fn committed(&self) -> watch::Receiver<u64> {
        self.0.committed.clone()
    }

    /// Whether its database is still the one that was opened.
    #[must_use]
    pub fn is_there(&self) -> bool {
        writer::identity(&self.0.root).is_ok_and(|file| file == self.0.file)
    }

    /// A reader of its own connection.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(&self.0.root)
    }

    /// Appends events to the log of a plan. Who gives up waiting does not know whether it was done.
    ///
    /// # Errors
    /// When others have appended meanwhile, the plan was deleted, or the journal fails.
    pub async fn append(&self, append: Append) -> Result<Receipt, AppendError> {
        append.is_within_bounds()?;
        self.ask(Work::Append(append)).await
    }

    /// Appends events to the logs of several plans, in this order: all of them or none. A plan may be named
    /// more than once. Where one of them was asked for before, nothing is appended, and the receipt has the
    /// answer that was kept then.
    ///
    /// # Errors
    /// Those of [`Journal::append`] for any of them.
    pub async fn append_all(&self, appends: Vec<Append>) -> Result<Receipt, AppendError> {
        for append in &appends {
            append.is_within_bounds()?;
        }
        self.ask(Work::All(appends)).await
    }

    /// Deletes a plan. `farewell` is the last of its events and stays, so that whoever follows the events
    /// hears of it; the others and its directory are removed soon, at the latest by the next holder.
    ///
    /// # Errors
    /// Those of [`Journal::append`].
    pub async fn delete(
        &self,
        plan: PlanKey,
        expected: u64,
        farewell: Fresh,
        once: Option<Once>,
    ) -> Result<Receipt, AppendError> {
        let append = Append {
            plan,
            expected,
            events: vec![farewell],
            once,
        };
        self.ask(Work::Delete(append)).await
    }

    /// Waits until the readable files say what was committed before.
    pub async fn flush_files(&self) {
        let journal = self.clone();
        // A thread that cannot be had leaves the files to the next start.
        let _ = tokio::task::spawn_blocking(move || {
            if let Some(files) = &journal.0.files {
                files.flush();
            }
        })
        .await;
    }

    /// Does what waits, brings the readable files up to date, and lets nothing more in.
    pub async fn close(&self) {
        let journal = self.clone();
        let _ = tokio::task::spawn_blocking(move || journal.0.close()).await;
    }

    /// The same, and blocks for as long.
    pub(crate) fn close_now(&self) {
        self.0.close();
    }

    async fn ask(&self, work: Work) -> Result<Receipt, AppendError> {
        let jobs = self.0.sender().ok_or(Fault::Closed)?;
        let (answer, answered) = oneshot::channel();
        let queued = Queued { work, answer };
        jobs.send(queued).await.map_err(|_| Fault::Closed)?;
        answered.await.unwrap_or(Err(Fault::Closed.into()))
    }

    /// Has the readable files made that are missing or behind, and removed what was deleted.
    fn look_after_files(&self) -> Result<(), Fault> {
        let Some(files) = &self.0.files else {
            return Ok(());
        };
        let (mut live, mut dead) = (BTreeMap::new(), BTreeSet::new());
        let reader = self.reader();
        let mut after = None;
        loop {
            let plans = reader.plans(after.as_ref())?;
            let Some(last) = plans.last() else { break };
            after = Some(last.plan.clone());
            for row in plans {
                if !row.is_deleted {
                    live.insert(row.plan, row.number);
                } else if !row.is_swept {
                    dead.insert(row.plan);
                }
            }
        }
        files.look_after(live, dead);
        Ok(())
    }
}

/// Replaces the id of the database below a storage root. Only the holder of the
/// workspace's lock may. Blocks while the disk works.
///
/// # Errors
/// When the database cannot be opened for writing, is damaged, or is of a newer program.
pub fn identify(root: &Path, id: DatabaseId) -> Result<(), Fault> {
    let connection = schema::open_writer(root, MAX_BYTES, Some(id))?;
    schema::identify(&connection, id)?;
    connection.close().map_err(|(_, error)| Fault::from(error))
}

/// Removes plans that were moved to another place from the database below a storage root, and gives it a newer schema
/// number, so that programs of earlier versions refuse it. Only the holder of that root's lock may. Blocks while the
/// disk works.
///
/// # Errors
/// When the database cannot be opened for writing, is damaged, or is of a newer program.
pub(crate) fn retire(root: &Path, moved: &[PlanKey]) -> Result<(), Fault> {
    schema::retire(schema::open_writer(root, MAX_BYTES, None)?, moved)
}

impl Inner {
    fn sender(&self) -> Option<mpsc::Sender<Queued>> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.clone()
    }

    fn close(&self) {
        if let Some(files) = &self.files {
            files.close();
        }
        *self.jobs.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(writer) = writer {
            // A writer that panicked has answered nobody, which they hear of.
            let _ = writer.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(files) = &self.files {
            files.stop();
        }
    }
}
