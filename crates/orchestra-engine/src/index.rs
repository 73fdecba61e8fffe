//! Vectors that keep in step with a store, in the background, and searching them.
//!
//! One thread looks what was remembered, changed or forgotten, and brings the vectors to it in small
//! batches. It can be stopped at any moment and goes on where it was: what a vector was made of is
//! kept with it. Where the model is changed, the old one answers, and is kept in step, until the new one
//! has seen all.

mod making;
mod queries;
mod worker;

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use orchestra_board::composed;
use orchestra_store::Store;
use tokio::sync::Notify;

use self::queries::Queries;
use crate::model::{EmbedError, Embedder, ModelId, ModelKind};
use crate::vectors::{Near, Vectors, Within};

/// How far the vectors are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The model that answers.
    pub model: ModelId,
    /// What sort of model that is.
    pub kind: ModelKind,
    /// How many vectors it has.
    pub vectors: usize,
    /// How many there will be.
    pub wanted: usize,
    /// The model that will answer once it has seen all, and how many vectors it has.
    pub next: Option<(ModelId, usize)>,
    /// What is being done.
    pub phase: Phase,
}

/// What the thread behind an index does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It reads the vectors that are there.
    Opening,
    /// It makes vectors.
    Filling,
    /// Every text that it knows of has its vector.
    Ready,
    /// It could not go on, and tries again.
    Failing(String),
    /// It has ended.
    Stopped,
}

/// Vectors that keep in step with a store. Dropping it stops the thread after its batch, without
/// waiting for it; [`Index::stop`] waits.
pub struct Index {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The vector of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryVector {
    model: ModelId,
    numbers: Vec<f32>,
}

impl QueryVector {
    /// The model that made it.
    #[must_use]
    pub const fn model(&self) -> &ModelId {
        &self.model
    }
}

/// What the thread and those who search share.
struct Shared {
    store: Store,
    directory: PathBuf,
    active: RwLock<Option<Arc<Pair>>>,
    queries: Queries,
    progress: Mutex<Progress>,
    changed: Condvar,
    /// The model that was asked for last, until it is taken up.
    asked: Mutex<Option<Arc<dyn Embedder>>>,
    wake: Notify,
    /// All vectors are to be made anew.
    rebuild: AtomicBool,
    stop: AtomicBool,
}

/// A model and what it made.
struct Pair {
    embedder: Arc<dyn Embedder>,
    vectors: Arc<Vectors>,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("directory", &self.shared.directory)
            .finish_non_exhaustive()
    }
}

impl Index {
    /// Begins to keep the vectors of a model in step with a store; they are kept in `directory`,
    /// which is there already. Nothing is waited for: until the vectors are read, nothing is near.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        store: Store,
        directory: &Path,
        embedder: Arc<dyn Embedder>,
    ) -> Result<Self, std::io::Error> {
        let progress = Progress {
            model: embedder.id().clone(),
            kind: embedder.kind(),
            vectors: 0,
            wanted: 0,
            next: None,
            phase: Phase::Opening,
        };
        let shared = Arc::new(Shared {
            store,
            directory: directory.to_path_buf(),
            active: RwLock::new(None),
            queries: Queries::default(),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
            asked: Mutex::new(Some(embedder)),
            wake: Notify::new(),
            rebuild: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let working = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("memory-index".to_owned())
            .spawn(move || worker::run(&working))?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Changes the model. The one before answers until the new one has seen all there is.
    pub fn change_model(&self, embedder: Arc<dyn Embedder>) {
        *lock(&self.shared.asked) = Some(embedder);
        self.shared.wake.notify_one();
    }

    /// Makes all vectors anew, of the model that was asked for last.
    pub fn rebuild(&self) {
        self.shared.rebuild.store(true, Ordering::Relaxed);
        self.shared.wake.notify_one();
    }

    /// What is nearest to a text, nearest first. Rows that were removed a moment ago may be among
    /// them; one that was saved a moment ago may not.
    ///
    /// Blocks for as long as the model takes for one text, unless that was asked a moment ago, and the
    /// search: some milliseconds with models on this machine.
    ///
    /// # Errors
    /// When the model fails.
    pub fn near(
        &self,
        query: &str,
        wanted: usize,
        within: &Within<'_>,
    ) -> Result<Vec<Near>, EmbedError> {
        let query = self.query(query)?;
        Ok(query.map_or_else(Vec::new, |query| self.near_to(&query, wanted, within)))
    }

    /// The vector of a query, by the model that answers; `None` until there is one. Blocks as
    /// [`Index::near`] does.
    ///
    /// # Errors
    /// When the model fails.
    pub fn query(&self, text: &str) -> Result<Option<QueryVector>, EmbedError> {
        let Some(pair) = self.shared.active() else {
            return Ok(None);
        };
        let numbers = self
            .shared
            .queries
            .vector(&*pair.embedder, &composed(text))?;
        Ok(Some(QueryVector {
            model: pair.embedder.id().clone(),
            numbers,
        }))
    }

    /// The same where it is known from a moment ago; never blocks for long.
    #[must_use]
    pub fn known_query(&self, text: &str) -> Option<QueryVector> {
        let pair = self.shared.active()?;
        let numbers = self
            .shared
            .queries
            .known(&*pair.embedder, &composed(text))?;
        Some(QueryVector {
            model: pair.embedder.id().clone(),
            numbers,
        })
    }

    /// What is nearest to a query, nearest first; nothing when another model answers by now.
    #[must_use]
    pub fn near_to(&self, query: &QueryVector, wanted: usize, within: &Within<'_>) -> Vec<Near> {
        let active = self.shared.active();
        let active = active.filter(|pair| *pair.embedder.id() == query.model);
        active.map_or_else(Vec::new, |pair| {
            pair.vectors.near(&query.numbers, wanted, within)
        })
    }

    /// How many rows in a range have vectors.
    #[must_use]
    pub fn count(&self, rows: &RangeInclusive<i64>) -> usize {
        let active = self.shared.active();
        active.map_or(0, |pair| pair.vectors.count(rows))
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// Waits until the progress is as wanted, or a time has passed; returns the last one.
    #[must_use]
    pub fn wait(&self, time: Duration, until: impl Fn(&Progress) -> bool) -> Progress {
        let end = Instant::now() + time;
        let mut guard = lock(&self.shared.progress);
        loop {
            let progress = self.shared.counted(&guard);
            let left = end.saturating_duration_since(Instant::now());
            if until(&progress) || left.is_zero() {
                return progress;
            }
            let waited = self.shared.changed.wait_timeout(guard, left);
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Stops the thread and waits for it, at most for the time that a batch takes. The file of the
    /// vectors is another's to use then, and nothing is near any more.
    pub fn stop(&self) {
        self.shared.end();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // Its panic was told by it.
            let _ = thread.join();
        }
        self.shared.activate(None);
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Shared {
    fn active(&self) -> Option<Arc<Pair>> {
        let active = self.active.read();
        active.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn activate(&self, pair: Option<Arc<Pair>>) {
        let active = self.active.write();
        *active.unwrap_or_else(PoisonError::into_inner) = pair;
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether something else is to be done than what is done.
    fn is_called(&self) -> bool {
        self.is_stopped() || self.rebuild.load(Ordering::Relaxed) || lock(&self.asked).is_some()
    }

    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    fn progress(&self) -> Progress {
        self.counted(&lock(&self.progress))
    }

    /// With the vectors counted now.
    fn counted(&self, progress: &Progress) -> Progress {
        let mut progress = progress.clone();
        if let Some(pair) = self.active() {
            progress.vectors = pair.vectors.len();
        }
        progress
    }

    fn tell(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut lock(&self.progress));
        self.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
