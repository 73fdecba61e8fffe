//! The thread that brings vectors to what the store says: which model's, when, and what stops it.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use orchestra_memory::engine::remove_other_vectors;
use orchestra_store::{MemoryPlace, ReadError, What};
use tokio::runtime;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time;

use super::making::{compare, count, make, take_up_changes};
use super::{Pair, Phase, Shared, lock};
use crate::model::{EmbedError, Embedder};
use crate::vectors::Vectors;

/// How long after a change others are waited for, to be taken up together.
const BREATH: Duration = Duration::from_millis(25);
/// How long after a failure it is tried again, the first time and at most.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);
/// How often the store is asked for changes that nobody told of.
const LOOK: Duration = Duration::from_secs(10);

/// Why a pass ended before its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Interrupted {
    /// It is to stop, or another model was asked for.
    #[error("the indexing was interrupted by a newer request")]
    Asked,
    #[error("cannot read the memories and sessions to index: {0}")]
    Store(#[from] ReadError),
    #[error(transparent)]
    Model(#[from] EmbedError),
    #[error("an internal error stopped the indexing")]
    Panicked,
}

/// Runs until it is stopped.
pub(super) fn run(shared: &Arc<Shared>) {
    let runtime = runtime::Builder::new_current_thread().enable_time().build();
    match runtime {
        Ok(runtime) => {
            // Both, so that changes are told, and soon.
            let mut notices = shared.store.changes();
            let _closely = shared.store.watch_closely();
            work(shared, &runtime, &mut notices);
        }
        Err(error) => tracing::error!(%error, "cannot keep the embeddings up to date"),
    }
    shared.tell(|progress| progress.phase = Phase::Stopped);
}

fn work(
    shared: &Arc<Shared>,
    runtime: &runtime::Runtime,
    notices: &mut Receiver<orchestra_store::ChangeNotice>,
) {
    let mut course = Course::default();
    let mut rest = FIRST_REST;
    while !shared.is_stopped() {
        // What a panic leaves is looked through from its beginning: hashes say what is right.
        let passed = panic::catch_unwind(AssertUnwindSafe(|| course.pass(shared)));
        let passed = passed.unwrap_or_else(|_| {
            course.place = None;
            Err(Interrupted::Panicked)
        });
        match passed {
            Ok(()) => {
                rest = FIRST_REST;
                runtime.block_on(changed(shared, notices));
            }
            Err(Interrupted::Asked) => {}
            Err(failure) => {
                fail(shared, &failure);
                let woken = async {
                    // Only another model or the end is worth waking for.
                    let _ = time::timeout(rest, shared.wake.notified()).await;
                };
                runtime.block_on(woken);
                rest = (rest * 2).min(LONGEST_REST);
            }
        }
    }
}

/// What the thread is at.
#[derive(Default)]
struct Course {
    /// The model that was asked for last.
    wanted: Option<Arc<dyn Embedder>>,
    /// It and what it made.
    target: Option<Arc<Pair>>,
    /// How far the target has seen all changes; unknown at its beginning.
    place: Option<MemoryPlace>,
    /// Whether it is known to have seen all there is.
    has_arrived: bool,
    behind: Behind,
}

/// How far the pair that answers has seen all changes, while that is another than the target.
#[derive(Default)]
struct Behind {
    place: Option<MemoryPlace>,
    /// Not before then, after a failure: that model may be the one that was given up.
    again_at: Option<Instant>,
}

impl Behind {
    /// Lets the pair that answers see what was changed, where the target has not seen all yet.
    fn keep_up(&mut self, shared: &Shared, target: &Pair) {
        let active = shared.active();
        let Some(pair) = active.filter(|pair| pair.embedder.id() != target.embedder.id()) else {
            return;
        };
        if self.again_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        // Before it is tried: it may panic.
        self.again_at = Some(Instant::now() + LONGEST_REST);
        match self.see(shared, &pair) {
            Ok(place) => {
                self.place = Some(place);
                self.again_at = None;
            }
            Err(Interrupted::Asked) => self.again_at = None,
            Err(error) => {
                tracing::debug!(%error, "cannot keep the embeddings of the active model up to date")
            }
        }
    }

    fn see(&self, shared: &Shared, pair: &Pair) -> Result<MemoryPlace, Interrupted> {
        let Some(since) = self.place else {
            let begin = shared.store.read(|reader| reader.memory_place())?;
            // What it has not seen yet it is not shown any more.
            compare(shared, pair)?;
            return Ok(begin);
        };
        let changes = shared.store.read(|reader| reader.memory_changes(since))?;
        if changes.look_through {
            compare(shared, pair)?;
        } else if changes.place != since {
            take_up_changes(shared, pair, &changes)?;
        }
        Ok(changes.place)
    }
}

impl Course {
    /// Brings the vectors of the model that is wanted to what the store says.
    fn pass(&mut self, shared: &Shared) -> Result<(), Interrupted> {
        if let Some(embedder) = lock(&shared.asked).take() {
            self.wanted = Some(embedder);
        }
        let Some(embedder) = &self.wanted else {
            return Ok(());
        };
        let is_it = |pair: &&Arc<Pair>| Arc::ptr_eq(&pair.embedder, embedder);
        let pair = match self.target.as_ref().filter(is_it) {
            Some(pair) => Arc::clone(pair),
            None => {
                let place = self.place.take();
                if self.has_arrived {
                    self.behind.place = place;
                }
                self.has_arrived = false;
                let pair = open(shared, embedder, self.target.take());
                self.target = Some(Arc::clone(&pair));
                pair
            }
        };
        if shared.rebuild.swap(false, Ordering::Relaxed) {
            pair.vectors.remove(&pair.vectors.rows(i64::MIN..=i64::MAX));
            self.place = None;
        }
        self.step(shared, &pair)?;
        arrive(shared, &pair, !self.has_arrived);
        self.has_arrived = true;
        self.behind = Behind::default();
        Ok(())
    }

    /// Takes up what was changed since its place, or looks through everything.
    fn step(&mut self, shared: &Shared, pair: &Arc<Pair>) -> Result<(), Interrupted> {
        let store = &shared.store;
        let Some(since) = self.place else {
            let begin = store.read(|reader| reader.memory_place())?;
            look_through(shared, pair, &mut self.behind)?;
            self.place = Some(begin);
            return Ok(());
        };
        let changes = store.read(|reader| reader.memory_changes(since))?;
        if changes.look_through {
            look_through(shared, pair, &mut self.behind)?;
        } else if changes.place != since {
            take_up_changes(shared, pair, &changes)?;
        }
        self.place = Some(changes.place);
        Ok(())
    }
}

/// Brings everything to what the store says. What was made of other texts goes first, so that nothing is
/// found by what it said once, however long the model takes; then the vectors may answer.
fn look_through(shared: &Shared, pair: &Arc<Pair>, behind: &mut Behind) -> Result<(), Interrupted> {
    let wanted = usize::try_from(count(shared)?).unwrap_or(usize::MAX);
    shared.tell(|progress| {
        progress.phase = Phase::Filling;
        progress.wanted = wanted;
    });
    let new = compare(shared, pair)?;
    if shared.active().is_none() {
        shared.activate(Some(Arc::clone(pair)));
    }
    make(shared, pair, &new, || behind.keep_up(shared, pair))
}

/// Opens the vectors of a model, unless they are in use already: of the pair that answers, or of the one
/// that was filled until now.
fn open(shared: &Shared, embedder: &Arc<dyn Embedder>, before: Option<Arc<Pair>>) -> Arc<Pair> {
    let active = shared.active();
    let mut known = active.iter().chain(&before);
    let known = known.find(|pair| pair.embedder.id() == embedder.id());
    // The same model may be asked for by another way, as with another key of its server.
    let vectors = known.map_or_else(
        || {
            let (id, dimensions) = (embedder.id(), embedder.dimensions());
            Arc::new(Vectors::open(&shared.directory, id, dimensions))
        },
        |pair| Arc::clone(&pair.vectors),
    );
    let pair = Arc::new(Pair {
        embedder: Arc::clone(embedder),
        vectors,
    });
    if active.is_some_and(|active| active.embedder.id() == embedder.id()) {
        shared.activate(Some(Arc::clone(&pair)));
    }
    shared.tell(|progress| {
        progress.phase = Phase::Filling;
        let next = (pair.embedder.id().clone(), pair.vectors.len());
        progress.next = (progress.model != next.0).then_some(next);
    });
    pair
}

/// The target has seen all: it answers from now on, and what others made is not needed any more.
fn arrive(shared: &Shared, pair: &Arc<Pair>, is_first: bool) {
    if is_first {
        shared.activate(Some(Arc::clone(pair)));
        remove_other_vectors(&shared.directory, Some(pair.embedder.id()));
    }
    shared.tell(|progress| {
        progress.model = pair.embedder.id().clone();
        progress.kind = pair.embedder.kind();
        progress.next = None;
        progress.wanted = pair.vectors.len();
        progress.phase = Phase::Ready;
    });
}

fn fail(shared: &Shared, failure: &Interrupted) {
    let text = failure.to_string();
    let known = matches!(&lock(&shared.progress).phase, Phase::Failing(told) if *told == text);
    if !known {
        tracing::warn!(cause = %text, "the embeddings are not updated for now");
    }
    shared.tell(|progress| progress.phase = Phase::Failing(text));
}

/// Waits for a change of what is remembered, or for something to be asked.
async fn changed(shared: &Shared, notices: &mut Receiver<orchestra_store::ChangeNotice>) {
    let told = async {
        loop {
            match notices.recv().await {
                Ok(notice) => match notice.what {
                    What::Memory | What::Sessions | What::Projects | What::Everything => break,
                    _ => {}
                },
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
        // What comes right after it is taken up with it.
        time::sleep(BREATH).await;
    };
    tokio::select! {
        () = told => {}
        () = shared.wake.notified() => {}
        () = time::sleep(LOOK) => {}
    }
}
