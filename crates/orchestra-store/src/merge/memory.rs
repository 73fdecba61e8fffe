//! Remembered texts, which are the same by content, and sessions, which are the same by id.

use std::collections::{BTreeMap, HashMap};

use orchestra_board::Label;

use super::{MAX_CHUNK, ProjectContents};
use crate::writing::text_hash;
use crate::{Chunk, ChunkId, SessionEvent, SessionRecord};

/// Adds what the other side of a project remembers.
pub(super) fn merge(merged: &mut ProjectContents, theirs: &ProjectContents) {
    merge_chunks(merged, theirs);
    for (id, session) in &theirs.sessions {
        let mut session = session.clone();
        session.project.clone_from(&merged.project.slug);
        match merged.sessions.get_mut(id) {
            Some(ours) => merge_session(ours, session),
            None => drop(merged.sessions.insert(id.clone(), session)),
        }
    }
}

fn merge_chunks(merged: &mut ProjectContents, theirs: &ProjectContents) {
    let mut chunks: BTreeMap<u64, Chunk> = merged
        .chunks
        .drain(..)
        .map(|chunk| (chunk.id.number(), chunk))
        .collect();
    let mut known: HashMap<Vec<u8>, u64> = HashMap::new();
    for (number, chunk) in &chunks {
        // Of texts with the same content, a current one is preferred.
        let same = known.entry(text_hash(chunk.content.as_str()));
        let same = same.or_insert(*number);
        if chunks[&*same].superseded_by.is_some() && chunk.superseded_by.is_none() {
            *same = *number;
        }
    }
    let first_free = merged.next_chunk;
    let last = theirs.chunks.iter().map(|chunk| chunk.id.number());
    let last = last.filter(|number| *number <= MAX_CHUNK).max();
    let mut next = first_free.max(last.map_or(1, |last| last + 1));
    let mut numbers: HashMap<u64, u64> = HashMap::new();
    for chunk in &theirs.chunks {
        let hash = text_hash(chunk.content.as_str());
        let their_number = chunk.id.number();
        if let Some(number) = known.get(&hash) {
            numbers.insert(their_number, *number);
            if let Some(ours) = chunks.get_mut(number) {
                merge_chunk(ours, chunk);
            }
            continue;
        }
        // An id that was not given here stays, unless it would use up the others.
        let mut number = their_number;
        if number < first_free || number > MAX_CHUNK || chunks.contains_key(&number) {
            number = next;
        }
        next = next.max(number.saturating_add(1));
        numbers.insert(their_number, number);
        known.insert(hash, number);
        let arrived = Chunk {
            id: ChunkId::new(number),
            project: merged.project.slug.clone(),
            superseded_by: None,
            ..chunk.clone()
        };
        chunks.insert(number, arrived);
    }
    for chunk in &theirs.chunks {
        let by = chunk.superseded_by.and_then(|by| numbers.get(&by.number()));
        if let (Some(by), Some(number)) = (by, numbers.get(&chunk.id.number()))
            && chunks[number].superseded_by.is_none()
            && !leads_to(&chunks, *by, *number)
            && let Some(ours) = chunks.get_mut(number)
        {
            ours.superseded_by = Some(ChunkId::new(*by));
        }
    }
    merged.next_chunk = next;
    merged.chunks = chunks.into_values().collect();
}

/// Returns whether a text is, or was superseded by, another one.
fn leads_to(chunks: &BTreeMap<u64, Chunk>, from: u64, to: u64) -> bool {
    let mut at = Some(from);
    for _ in 0..=chunks.len() {
        match at {
            Some(number) if number == to => return true,
            Some(number) => {
                let by = chunks.get(&number).and_then(|chunk| chunk.superseded_by);
                at = by.map(ChunkId::number);
            }
            None => return false,
        }
    }
    true
}

fn merge_chunk(ours: &mut Chunk, theirs: &Chunk) {
    for tag in &theirs.tags {
        if !ours.tags.contains(tag) {
            ours.tags.push(tag.clone());
        }
    }
    if ours.summary.is_empty() {
        ours.summary.clone_from(&theirs.summary);
    }
    if ours.source.is_none() {
        ours.source.clone_from(&theirs.source);
        ours.source_id.clone_from(&theirs.source_id);
    }
    ours.created_at = ours.created_at.min(theirs.created_at);
    ours.updated_at = ours.updated_at.max(theirs.updated_at);
    // Of two ends the later one is meant, and none is the latest.
    let ends = ours.expires_at.zip(theirs.expires_at);
    ours.expires_at = ends.map(|(one, other)| one.max(other));
}

fn merge_session(ours: &mut SessionRecord, mut theirs: SessionRecord) {
    let rank = |session: &SessionRecord| (!session.from_hooks, session.ended_at);
    if rank(&theirs) > rank(ours) {
        std::mem::swap(&mut ours.summary, &mut theirs.summary);
        std::mem::swap(&mut ours.from_hooks, &mut theirs.from_hooks);
    }
    let mut news = theirs.events;
    if !theirs.from_hooks && !theirs.summary.is_empty() && theirs.summary != ours.summary {
        news.extend(Label::parse("summary").map(|kind| SessionEvent {
            kind,
            summary: theirs.summary,
            at: theirs.started_at,
        }));
    }
    news.retain(|event| !ours.events.contains(event));
    ours.events.extend(news);
    ours.events.sort_by_key(|event| event.at);
    ours.started_at = ours.started_at.min(theirs.started_at);
    ours.ended_at = ours.ended_at.max(theirs.ended_at);
}
