//! The thread that brings vectors to what the store says.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use orchestra_store::{MemoryPlace, ReadError, Remembered, What};
use tokio::runtime;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time;

use super::{Pair, Phase, Shared, lock};
use crate::model::{EmbedError, Embedder, ModelKind, Purpose};
use crate::vectors::{NewVector, TextHash, Vectors};

/// How many texts are read from the store at a time.
const PAGE: usize = 256;
/// How many texts a network or a server is given at a time: between batches it is looked whether to
/// stop.
const BATCH: usize = 16;
/// How long after a change others are waited for, to be taken up together.
const BREATH: Duration = Duration::from_millis(25);
/// How long after a failure it is tried again, the first time and at most.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);
/// How often the store is asked for changes that nobody told of.
const LOOK: Duration = Duration::from_secs(10);

/// Why a pass ended before its end.
#[derive(Debug, thiserror::Error)]
enum Interrupted {
    /// It is to stop, or another model was asked for.
    #[error("something else is to be done")]
    Asked,
    #[error("what is remembered cannot be read: {0}")]
    Store(#[from] ReadError),
    #[error(transparent)]
    Model(#[from] EmbedError),
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
        Err(error) => tracing::error!(%error, "vectors cannot be kept in step"),
    }
    shared.tell(|progress| progress.phase = Phase::Stopped);
}

fn work(
    shared: &Arc<Shared>,
    runtime: &runtime::Runtime,
    notices: &mut Receiver<orchestra_store::ChangeNotice>,
) {
    let mut target: Option<Arc<Pair>> = None;
    // How far the target has seen all changes; unknown at its beginning.
    let mut place: Option<MemoryPlace> = None;
    let mut rest = FIRST_REST;
    while !shared.is_stopped() {
        if let Some(embedder) = lock(&shared.asked).take()
            && target
                .as_ref()
                .is_none_or(|pair| pair.embedder.id() != embedder.id())
        {
            target = Some(open(shared, embedder));
            place = None;
        }
        let Some(pair) = &target else { return };
        match step(shared, pair, &mut place) {
            Ok(()) => {
                rest = FIRST_REST;
                arrive(shared, pair);
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

/// Opens the vectors of a model. Where none answers yet, it does at once, with what it has.
fn open(shared: &Shared, embedder: Arc<dyn Embedder>) -> Arc<Pair> {
    let vectors = Vectors::open(&shared.directory, embedder.id(), embedder.dimensions());
    let pair = Arc::new(Pair { embedder, vectors });
    if shared.active().is_none() {
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
fn arrive(shared: &Shared, pair: &Arc<Pair>) {
    shared.activate(Some(Arc::clone(pair)));
    Vectors::remove_others(&shared.directory, pair.embedder.id());
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
        tracing::warn!(cause = %text, "vectors are not kept in step for now");
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

/// Takes up what was changed since `place`, or looks through everything.
fn step(shared: &Shared, pair: &Pair, place: &mut Option<MemoryPlace>) -> Result<(), Interrupted> {
    let store = &shared.store;
    let Some(since) = *place else {
        let begin = store.read(|reader| reader.memory_place())?;
        look_through(shared, pair)?;
        *place = Some(begin);
        return Ok(());
    };
    let changes = store.read(|reader| reader.memory_changes(since))?;
    if changes.look_through {
        look_through(shared, pair)?;
    } else if changes.place != since {
        let mut items = Vec::new();
        for row in &changes.rows {
            items.extend(store.read(|reader| reader.remembered_text(*row))?);
            if items.len() >= PAGE {
                take_up(shared, pair, &std::mem::take(&mut items))?;
            }
        }
        take_up(shared, pair, &items)?;
        let touched = changes.removed || !changes.rows.is_empty();
        if touched && (changes.removed || count(shared)? != pair.vectors.len() as u64) {
            remove_missing(shared, pair)?;
        }
    }
    *place = Some(changes.place);
    Ok(())
}

fn count(shared: &Shared) -> Result<u64, Interrupted> {
    Ok(shared.store.read(|reader| reader.remembered_count())?)
}

/// Removes the vectors of what is not there any more.
fn remove_missing(shared: &Shared, pair: &Pair) -> Result<(), Interrupted> {
    let there = shared.store.read(|reader| reader.remembered_rows())?;
    let mut gone = pair.vectors.rows(i64::MIN..=i64::MAX);
    gone.retain(|row| there.binary_search(row).is_err());
    if !gone.is_empty() {
        pair.vectors.remove(&gone);
    }
    Ok(())
}

fn look_through(shared: &Shared, pair: &Pair) -> Result<(), Interrupted> {
    let wanted = usize::try_from(count(shared)?).unwrap_or(usize::MAX);
    shared.tell(|progress| {
        progress.phase = Phase::Filling;
        progress.wanted = wanted;
    });
    let mut gone: HashSet<i64> = pair.vectors.rows(i64::MIN..=i64::MAX).into_iter().collect();
    let mut after = i64::MIN;
    loop {
        let items = shared
            .store
            .read(|reader| reader.remembered_after(after, PAGE))?;
        let Some(last) = items.last() else { break };
        after = last.row;
        for item in &items {
            gone.remove(&item.row);
        }
        take_up(shared, pair, &items)?;
    }
    if !gone.is_empty() {
        let gone: Vec<i64> = gone.into_iter().collect();
        pair.vectors.remove(&gone);
    }
    Ok(())
}

/// Makes the vectors of those whose text is another one than theirs was made of.
fn take_up(shared: &Shared, pair: &Pair, items: &[Remembered]) -> Result<(), Interrupted> {
    let new: Vec<_> = items
        .iter()
        .map(|item| (item, TextHash::of(&item.text)))
        .filter(|(item, hash)| pair.vectors.hash(item.row) != Some(*hash))
        .collect();
    let batch = match pair.embedder.kind() {
        ModelKind::Static => PAGE,
        ModelKind::Network | ModelKind::Remote => BATCH,
    };
    for batch in new.chunks(batch) {
        if shared.is_stopped() || lock(&shared.asked).is_some() {
            return Err(Interrupted::Asked);
        }
        let texts: Vec<&str> = batch.iter().map(|(item, _)| item.text.as_str()).collect();
        let vectors = embed(pair.embedder.as_ref(), &texts)?;
        let put: Vec<NewVector<'_>> = batch
            .iter()
            .zip(&vectors)
            .map(|((item, hash), numbers)| NewVector {
                row: item.row,
                hash: *hash,
                numbers,
            })
            .collect();
        pair.vectors.put(&put);
        shared.tell(|progress| {
            if let Some((_, vectors)) = &mut progress.next {
                *vectors = pair.vectors.len();
            }
        });
    }
    Ok(())
}

/// The vectors of texts. A text that the model fails on by itself gets one without length: it is
/// found by its words alone, and does not stop the others.
fn embed(embedder: &dyn Embedder, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
    let failure = match embedder.embed(texts, Purpose::Text) {
        Ok(vectors) => return Ok(vectors),
        Err(error) if error.may_pass() => return Err(error),
        Err(error) => error,
    };
    let mut vectors = Vec::with_capacity(texts.len());
    let mut any = false;
    for text in texts {
        vectors.push(match embedder.embed(&[text], Purpose::Text) {
            Ok(mut one) => {
                any = true;
                one.pop().unwrap_or_default()
            }
            Err(error) if error.may_pass() => return Err(error),
            Err(_) => vec![0.0; embedder.dimensions()],
        });
    }
    // Where it fails on every one, it is not the texts.
    if any { Ok(vectors) } else { Err(failure) }
}
