//! Remembered texts, which are the same by content, and sessions, which are the same by id.

use std::collections::{BTreeMap, HashMap};

use orchestra_board::{Body, Label};

use super::issue::union;
use super::{CONFLICT, Context, MAX_CHUNK, ProjectContents};
use crate::writing::text_hash;
use crate::{Chunk, ChunkId, NewChunk, SessionEvent, SessionRecord};

/// Adds what the other side of a project remembers.
pub(super) fn merge(
    merged: &mut ProjectContents,
    base: Option<&ProjectContents>,
    theirs: &ProjectContents,
    cx: &Context<'_>,
) {
    merge_chunks(merged, base, theirs, cx);
    for (id, session) in &theirs.sessions {
        let mut session = session.clone();
        session.project.clone_from(&merged.project.slug);
        match merged.sessions.get_mut(id) {
            Some(ours) => merge_session(ours, session),
            None => drop(merged.sessions.insert(id.clone(), session)),
        }
    }
}

fn merge_chunks(
    merged: &mut ProjectContents,
    base: Option<&ProjectContents>,
    theirs: &ProjectContents,
    cx: &Context<'_>,
) {
    let base: HashMap<Vec<u8>, &Chunk> = base
        .into_iter()
        .flat_map(|base| &base.chunks)
        .map(|chunk| (text_hash(chunk.content.as_str()), chunk))
        .collect();
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
                merge_chunk(base.get(&hash).copied(), ours, chunk, cx);
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

/// Merges the other side's version of a text into ours, field by field. Of a field that both sides changed since the
/// base, our value stays, and the other one is added to the summary.
fn merge_chunk(base: Option<&Chunk>, ours: &mut Chunk, theirs: &Chunk, cx: &Context<'_>) {
    let mut conflicts = Vec::new();
    let origin = |chunk: &Chunk| (chunk.source.clone(), chunk.source_id.clone());
    if ours.summary != theirs.summary {
        let is_ours_old = base.map_or(ours.summary.is_empty(), |base| base.summary == ours.summary);
        if is_ours_old {
            ours.summary.clone_from(&theirs.summary);
        } else if base.is_some_and(|base| base.summary != theirs.summary) {
            conflicts.push(format!("summary on {}: {}", cx.origin, theirs.summary));
        }
    }
    if origin(ours) != origin(theirs) {
        let is_ours_old = base.map_or(ours.source.is_none(), |base| origin(base) == origin(ours));
        if is_ours_old {
            (ours.source, ours.source_id) = origin(theirs);
        } else if base.is_some_and(|base| origin(base) != origin(theirs)) {
            let (source, id) = origin(theirs);
            let words = [source, id].into_iter().flatten();
            let words: Vec<String> = words.map(|word| word.to_string()).collect();
            conflicts.push(format!("source on {}: {}", cx.origin, words.join(" ")));
        }
    }
    ours.tags = union(base, ours, theirs, |chunk| &chunk.tags);
    ours.created_at = ours.created_at.min(theirs.created_at);
    ours.updated_at = ours.updated_at.max(theirs.updated_at);
    ours.expires_at = match base.map(|base| base.expires_at) {
        Some(before) if before == ours.expires_at => theirs.expires_at,
        Some(before) if before == theirs.expires_at => ours.expires_at,
        // Of two ends the later one is meant, and none is the latest.
        _ => {
            let ends = ours.expires_at.zip(theirs.expires_at);
            ends.map(|(one, other)| one.max(other))
        }
    };
    for conflict in conflicts {
        add_to_summary(ours, &conflict);
    }
}

/// Adds a line to a summary, as far as it has room, unless it is there.
fn add_to_summary(chunk: &mut Chunk, line: &str) {
    if chunk.summary.as_str().contains(line) {
        return;
    }
    let text = format!("{}\n{line}", chunk.summary);
    let end = text.floor_char_boundary(NewChunk::MAX_SUMMARY_BYTES);
    if let (Ok(summary), Ok(tag)) = (Body::parse(&text[..end]), Label::parse(CONFLICT)) {
        chunk.summary = summary;
        if !chunk.tags.contains(&tag) {
            chunk.tags.push(tag);
        }
    }
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
