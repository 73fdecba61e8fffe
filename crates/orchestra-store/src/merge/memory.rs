//! Remembered texts, which are the same by content, and sessions, which are the same by id.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

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
    merge_chunks(merged, base, &theirs.chunks, cx);
    for (id, session) in &theirs.sessions {
        let mut session = session.clone();
        session.project.clone_from(&merged.project.slug);
        match merged.sessions.get_mut(id) {
            Some(ours) => merge_session(ours, session),
            None => drop(merged.sessions.insert(id.clone(), session)),
        }
    }
}

/// Merges texts that a project has more than once into the first one of each. Merges of earlier versions could add such
/// duplicates. The result depends on the texts alone, so it is the same in each clone.
pub(crate) fn fold_duplicates(project: &mut ProjectContents) {
    let mut texts = HashSet::new();
    if project.chunks.iter().all(|chunk| texts.insert(text(chunk))) {
        return;
    }
    let all = std::mem::take(&mut project.chunks);
    let mut texts = HashSet::new();
    let first = all.iter().filter(|chunk| texts.insert(text(chunk)));
    project.chunks = first.cloned().collect();
    let newest = all.iter().map(|chunk| chunk.created_at).max();
    let cx = Context {
        base: None,
        origin: "a duplicate",
        now: newest.unwrap_or(project.project.created_at),
        is_repeated: false,
    };
    merge_chunks(project, None, &all, &cx);
}

fn merge_chunks(
    merged: &mut ProjectContents,
    base: Option<&ProjectContents>,
    theirs: &[Chunk],
    cx: &Context<'_>,
) {
    let before: HashMap<&str, &Chunk> = base
        .into_iter()
        .flat_map(|base| &base.chunks)
        .map(|chunk| (text(chunk), chunk))
        .collect();
    let ours = std::mem::take(&mut merged.chunks);
    let known = numbers_by_text(&ours);
    let mut alike = alike(&ours, theirs);
    let mut chunks: BTreeMap<u64, Chunk> = ours
        .iter()
        .map(|chunk| (chunk.id.number(), chunk.clone()))
        .collect();
    let first_free = merged.next_chunk;
    let last = theirs.iter().map(|chunk| chunk.id.number());
    let last = last.filter(|number| *number <= MAX_CHUNK).max();
    let mut next = first_free.max(last.map_or(1, |last| last + 1));
    let mut pairs = Vec::new();
    let mut aside = Vec::new();
    for chunk in theirs {
        let same = known.get(text(chunk)).copied();
        let same = same.or_else(|| alike.remove(&text_hash(text(chunk))));
        if let Some(number) = same
            && let Some(ours) = chunks.get_mut(&number)
        {
            let base = before.get(text(chunk)).or_else(|| before.get(text(ours)));
            let base = base.copied();
            aside.extend(merge_chunk(base, ours, chunk, cx));
            pairs.push((chunk, number, base));
            continue;
        }
        // An id that was not given here stays, unless it would use up the others.
        let mut number = chunk.id.number();
        if number < first_free || number > MAX_CHUNK || chunks.contains_key(&number) {
            number = next;
        }
        next = next.max(number.saturating_add(1));
        let arrived = Chunk {
            id: ChunkId::new(number),
            project: merged.project.slug.clone(),
            superseded_by: None,
            ..chunk.clone()
        };
        chunks.insert(number, arrived);
        pairs.push((chunk, number, None));
    }
    merge_superseded(&mut chunks, &pairs);
    for content in aside {
        if chunks.values().all(|chunk| chunk.content != content) {
            let slug = merged.project.slug.clone();
            let conflict = Chunk::new(ChunkId::new(next), slug, content, cx.now);
            let tags = Label::parse(CONFLICT).into_iter().collect();
            chunks.insert(next, Chunk { tags, ..conflict });
            next += 1;
        }
    }
    merged.next_chunk = next;
    merged.chunks = chunks.into_values().collect();
}

fn text(chunk: &Chunk) -> &str {
    chunk.content.as_str()
}

fn numbers_by_text(chunks: &[Chunk]) -> HashMap<&str, u64> {
    let chunks = chunks.iter();
    chunks
        .map(|chunk| (text(chunk), chunk.id.number()))
        .collect()
}

/// Numbers of our texts that the other side has not got word for word, by the hash that texts which look alike have in
/// common.
fn alike(ours: &[Chunk], theirs: &[Chunk]) -> HashMap<Vec<u8>, u64> {
    let theirs = numbers_by_text(theirs);
    let mut alike = HashMap::new();
    for chunk in ours.iter().filter(|ours| !theirs.contains_key(text(ours))) {
        let number = chunk.id.number();
        alike.entry(text_hash(text(chunk))).or_insert(number);
    }
    alike
}

/// A text of the other side, its number in the result, and the text of the base, where ours comes from that as well.
type Pair<'a> = (&'a Chunk, u64, Option<&'a Chunk>);

/// Merges the texts that supersede texts. Where both sides changed it, our value stays.
fn merge_superseded(chunks: &mut BTreeMap<u64, Chunk>, pairs: &[Pair<'_>]) {
    let numbers: HashMap<u64, u64> = pairs
        .iter()
        .map(|(theirs, number, _)| (theirs.id.number(), *number))
        .collect();
    let by = |chunk: &Chunk| chunk.superseded_by.map(ChunkId::number);
    // A text that was removed has no number.
    let by_ours = |chunk: &Chunk| by(chunk).filter(|by| chunks.contains_key(by));
    let by_theirs = |chunk: &Chunk| numbers.get(&by(chunk)?).copied();
    // Numbers of the base are ours, unless the text has another number here.
    let by_base = |chunk: &Chunk| by_ours(chunk).or_else(|| by_theirs(chunk));
    let changed: Vec<(u64, Option<u64>)> = pairs
        .iter()
        .filter_map(|(theirs, number, base)| {
            // A text can now have the number of the text that superseded it.
            let other = |by: Option<u64>| by.filter(|by| by != number);
            let (was, now) = (other(base.and_then(by_base)), other(by_theirs(theirs)));
            let is_theirs = now != was && by_ours(&chunks[number]) == was;
            is_theirs.then_some((*number, now))
        })
        .collect();
    for (number, _) in &changed {
        if let Some(ours) = chunks.get_mut(number) {
            ours.superseded_by = None;
        }
    }
    for (number, by) in changed {
        if let Some(by) = by
            && !leads_to(chunks, by, number)
            && let Some(ours) = chunks.get_mut(&number)
        {
            ours.superseded_by = Some(ChunkId::new(by));
        }
    }
    let numbers: BTreeSet<u64> = chunks.keys().copied().collect();
    for chunk in chunks.values_mut() {
        let by = chunk.superseded_by;
        chunk.superseded_by = by.filter(|by| numbers.contains(&by.number()));
    }
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
/// base, our value stays, and the other one is added to the summary. Returns the values for which there is no room.
fn merge_chunk(
    base: Option<&Chunk>,
    ours: &mut Chunk,
    theirs: &Chunk,
    cx: &Context<'_>,
) -> Vec<Body> {
    let mut conflicts = Vec::new();
    let origin = |chunk: &Chunk| (chunk.source.clone(), chunk.source_id.clone());
    if ours.summary != theirs.summary {
        // Without a base, a summary that is part of the other one is the older one.
        let is_old = |summary: &Body, other: &Body| match base {
            Some(base) => base.summary == *summary,
            None => other.as_str().contains(summary.as_str()),
        };
        if is_old(&ours.summary, &theirs.summary) {
            ours.summary.clone_from(&theirs.summary);
        } else if !is_old(&theirs.summary, &ours.summary) {
            conflicts.push(("summary", theirs.summary.to_string()));
        }
    }
    if origin(ours) != origin(theirs) {
        let is_ours_old = base.map_or(ours.source.is_none(), |base| origin(base) == origin(ours));
        if is_ours_old {
            (ours.source, ours.source_id) = origin(theirs);
        } else if base.is_some_and(|base| origin(base) != origin(theirs)) {
            let (source, id) = origin(theirs);
            conflicts.push(("source", joined(source.iter().chain(&id), " ")));
        }
    }
    let mut tags = union(base, ours, theirs, |chunk| &chunk.tags);
    // A file can have more of them.
    let room = NewChunk::MAX_TAGS.max(ours.tags.len());
    let excess = tags.split_off(room.min(tags.len()));
    if !excess.is_empty() {
        conflicts.push(("tags", joined(&excess, ", ")));
    }
    ours.tags = tags;
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
    conflicts.retain(|(name, value)| {
        !add_to_summary(ours, &format!("{name} on {}: {value}", cx.origin))
    });
    let without_room = conflicts.into_iter().filter_map(|(name, value)| {
        let text = format!("{name} of {} on {}: {value}", ours.id, cx.origin);
        // Longer summaries are in files alone.
        let end = text.floor_char_boundary(NewChunk::MAX_BYTES);
        Body::parse(&text[..end]).ok()
    });
    without_room.collect()
}

fn joined<'a>(labels: impl IntoIterator<Item = &'a Label>, between: &str) -> String {
    let labels: Vec<&str> = labels.into_iter().map(Label::as_str).collect();
    labels.join(between)
}

/// Adds a line to a summary, unless it is there, and the tag [`CONFLICT`]. Returns whether there is room for both.
fn add_to_summary(chunk: &mut Chunk, line: &str) -> bool {
    if chunk.summary.as_str().contains(line) {
        return true;
    }
    let summary = Body::parse(&format!("{}\n{line}", chunk.summary));
    let (Ok(summary), Ok(tag)) = (summary, Label::parse(CONFLICT)) else {
        return false;
    };
    let has_tag = chunk.tags.contains(&tag);
    if summary.as_str().len() > NewChunk::MAX_SUMMARY_BYTES
        || (!has_tag && chunk.tags.len() >= NewChunk::MAX_TAGS)
    {
        return false;
    }
    chunk.summary = summary;
    if !has_tag {
        chunk.tags.push(tag);
    }
    true
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
    orchestra_sort::sort_by_key(&mut ours.events, |event| event.at);
    ours.started_at = ours.started_at.min(theirs.started_at);
    ours.ended_at = ours.ended_at.max(theirs.ended_at);
}
