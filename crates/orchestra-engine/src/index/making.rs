//! Making vectors of what the store says, in batches, and dropping those of what it says no more.

use std::collections::HashSet;

use orchestra_board::composed;
use orchestra_store::{MemoryChanges, Remembered};

use super::worker::Interrupted;
use super::{Pair, Shared};
use crate::model::{EmbedError, Embedder, ModelKind, Purpose, TRIAL};
use crate::vectors::{NewVector, TextHash};

/// How many texts are read from the store at a time.
const PAGE: usize = 256;
/// How many texts a network or a server is given at a time: between batches it is looked whether to
/// stop.
const BATCH: usize = 16;

/// Makes the vectors of rows; `between` is called before each batch.
pub(super) fn make(
    shared: &Shared,
    pair: &Pair,
    rows: &[i64],
    mut between: impl FnMut(),
) -> Result<(), Interrupted> {
    for rows in rows.chunks(batch(pair)) {
        between();
        let items = shared.store.read(|reader| {
            let texts = rows.iter().map(|row| reader.remembered_text(*row));
            texts
                .filter_map(Result::transpose)
                .collect::<Result<Vec<_>, _>>()
        })?;
        take_up(shared, pair, &items)?;
    }
    Ok(())
}

fn batch(pair: &Pair) -> usize {
    match pair.embedder.kind() {
        ModelKind::Static => PAGE,
        ModelKind::Network | ModelKind::Remote => BATCH,
    }
}

/// Brings the vectors of what was changed to what it says now.
pub(super) fn take_up_changes(
    shared: &Shared,
    pair: &Pair,
    changes: &MemoryChanges,
) -> Result<(), Interrupted> {
    make(shared, pair, &changes.rows, || {})?;
    let touched = changes.removed || !changes.rows.is_empty();
    if touched && (changes.removed || count(shared)? != pair.vectors.len() as u64) {
        remove_missing(shared, pair)?;
    }
    Ok(())
}

pub(super) fn count(shared: &Shared) -> Result<u64, Interrupted> {
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

/// Removes the vectors of what is not there or says something else; the rows that have none then.
pub(super) fn compare(shared: &Shared, pair: &Pair) -> Result<Vec<i64>, Interrupted> {
    let mut old: HashSet<i64> = pair.vectors.rows(i64::MIN..=i64::MAX).into_iter().collect();
    let (mut new, mut after) = (Vec::new(), i64::MIN);
    loop {
        if shared.is_called() {
            return Err(Interrupted::Asked);
        }
        let items = shared
            .store
            .read(|reader| reader.remembered_after(after, PAGE))?;
        let Some(last) = items.last() else { break };
        after = last.row;
        for item in &items {
            if pair.vectors.hash(item.row) == Some(TextHash::of(&composed(&item.text))) {
                old.remove(&item.row);
            } else {
                new.push(item.row);
            }
        }
    }
    if !old.is_empty() {
        let old: Vec<i64> = old.into_iter().collect();
        pair.vectors.remove(&old);
    }
    Ok(new)
}

/// Makes the vectors of those whose text is another one than theirs was made of.
fn take_up(shared: &Shared, pair: &Pair, items: &[Remembered]) -> Result<(), Interrupted> {
    let new: Vec<_> = items
        .iter()
        .map(|item| {
            let text = composed(&item.text);
            (item.row, TextHash::of(&text), text)
        })
        .filter(|(row, hash, _)| pair.vectors.hash(*row) != Some(*hash))
        .collect();
    let rows = new.iter().map(|(row, ..)| *row);
    let old: Vec<i64> = rows
        .filter(|row| pair.vectors.hash(*row).is_some())
        .collect();
    if !old.is_empty() {
        // Nobody finds them by what they said before while the model takes its time.
        pair.vectors.remove(&old);
    }
    for batch in new.chunks(batch(pair)) {
        if shared.is_called() {
            return Err(Interrupted::Asked);
        }
        let texts: Vec<&str> = batch.iter().map(|(.., text)| text.as_ref()).collect();
        let vectors = embed(pair.embedder.as_ref(), &texts)?;
        let put: Vec<NewVector<'_>> = batch
            .iter()
            .zip(&vectors)
            .map(|((row, hash, _), numbers)| NewVector {
                row: *row,
                hash: *hash,
                numbers,
            })
            .collect();
        pair.vectors.put(&put);
        shared.tell(|progress| {
            if let Some((id, vectors)) = &mut progress.next
                && id == pair.embedder.id()
            {
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
    // Where it fails on a text that none refuses as well, it is not the texts.
    if let Err(error) = embedder.embed(&[TRIAL], Purpose::Text) {
        return Err(if error.may_pass() { error } else { failure });
    }
    let mut vectors = Vec::with_capacity(texts.len());
    for text in texts {
        vectors.push(match embedder.embed(&[text], Purpose::Text) {
            Ok(mut one) => one.pop().unwrap_or_default(),
            Err(error) if error.may_pass() => return Err(error),
            Err(_) => vec![0.0; embedder.dimensions()],
        });
    }
    Ok(vectors)
}
