//! Values that only one side changed since the base, brought to both sides before they are merged. The merge then finds
//! differences only where both sides changed a value.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use orchestra_board::{PlanId, Slug, Timestamp, Uid};

use crate::merge::{BoardContents, IssueContents, ProjectContents};
use crate::toon::project::Tombstone;
use crate::{Chunk, PlanRecord};

/// Settles documents, plans, remembered texts, sessions and texts of projects, with their removals. Issues are left to
/// the merge, except that one that is gone from a side has a tombstone there.
pub(super) fn settle(
    base: &BoardContents,
    ours: &mut BoardContents,
    theirs: &mut BoardContents,
    now: Timestamp,
) {
    settle_map(&base.documents, &mut ours.documents, &mut theirs.documents);
    for (slug, base) in &base.projects {
        remove_gone(slug, base, ours, theirs);
        let sides = (ours.projects.get_mut(slug), theirs.projects.get_mut(slug));
        let (Some(ours), Some(theirs)) = sides else {
            continue;
        };
        settle_value(&base.prd, &mut ours.prd, &mut theirs.prd);
        settle_value(
            &base.project.prd_origin,
            &mut ours.project.prd_origin,
            &mut theirs.project.prd_origin,
        );
        settle_value(
            &base.questionnaire,
            &mut ours.questionnaire,
            &mut theirs.questionnaire,
        );
        settle_value(&base.readme, &mut ours.readme, &mut theirs.readme);
        settle_map(&base.sessions, &mut ours.sessions, &mut theirs.sessions);
        settle_plans(base, ours, theirs);
        settle_chunks(base, ours, theirs);
        unbury(base, ours, theirs);
        bury(base, ours, now);
        bury(base, theirs, now);
    }
}

/// Removes a project from both sides that one side has deleted and the other has not changed.
fn remove_gone(
    slug: &Slug,
    base: &ProjectContents,
    ours: &mut BoardContents,
    theirs: &mut BoardContents,
) {
    let is_unchanged = |side: &ProjectContents| {
        let side = ProjectContents {
            // It is in no file.
            next_chunk: base.next_chunk,
            ..side.clone()
        };
        side == *base
    };
    match (ours.projects.get(slug), theirs.projects.get(slug)) {
        (Some(side), None) if is_unchanged(side) => drop(ours.projects.remove(slug)),
        (None, Some(side)) if is_unchanged(side) => drop(theirs.projects.remove(slug)),
        _ => {}
    }
}

fn settle_value<T: Clone + PartialEq>(base: &T, ours: &mut T, theirs: &mut T) {
    if ours == base {
        ours.clone_from(theirs);
    } else if theirs == base {
        theirs.clone_from(ours);
    }
}

fn settle_map<K: Ord + Clone, V: Clone + PartialEq>(
    base: &BTreeMap<K, V>,
    ours: &mut BTreeMap<K, V>,
    theirs: &mut BTreeMap<K, V>,
) {
    let keys: BTreeSet<K> = [base, &*ours, &*theirs]
        .into_iter()
        .flat_map(|map| map.keys().cloned())
        .collect();
    for key in keys {
        let (before, one, other) = (base.get(&key), ours.get(&key), theirs.get(&key));
        if one == other {
            continue;
        }
        if one == before {
            set(ours, &key, theirs.get(&key).cloned());
        } else if other == before {
            set(theirs, &key, ours.get(&key).cloned());
        }
    }
}

fn set<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value)),
        None => drop(map.remove(key)),
    }
}

fn settle_plans(base: &ProjectContents, ours: &mut ProjectContents, theirs: &mut ProjectContents) {
    type Plans = BTreeMap<PlanId, (PlanRecord, String)>;
    let by_id = |side: &ProjectContents| -> Plans {
        let plans = side.plans.iter();
        plans
            .map(|plan| (plan.0.id.clone(), plan.clone()))
            .collect()
    };
    let (mut one, mut other) = (by_id(ours), by_id(theirs));
    settle_map(&by_id(base), &mut one, &mut other);
    ours.plans = one.into_values().collect();
    theirs.plans = other.into_values().collect();
}

fn settle_chunks(base: &ProjectContents, ours: &mut ProjectContents, theirs: &mut ProjectContents) {
    let by_number = |side: &ProjectContents| -> BTreeMap<u64, Chunk> {
        let chunks = side.chunks.iter();
        chunks
            .map(|chunk| (chunk.id.number(), chunk.clone()))
            .collect()
    };
    let (mut one, mut other) = (by_number(ours), by_number(theirs));
    settle_map(&by_number(base), &mut one, &mut other);
    ours.chunks = settled_chunks(base, one, &ours.chunks);
    theirs.chunks = settled_chunks(base, other, &theirs.chunks);
}

/// Returns the settled texts of a side. A text that the side still has under another number is left out. Each text is
/// superseded as before, or as in the base, because a number of the other side can belong to another text here. The merge
/// compares the sides.
fn settled_chunks(
    base: &ProjectContents,
    mut settled: BTreeMap<u64, Chunk>,
    before: &[Chunk],
) -> Vec<Chunk> {
    let own = before.iter().filter(|chunk| {
        let now = settled.get(&chunk.id.number());
        now.is_some_and(|now| now.content == chunk.content)
    });
    let own: HashMap<&str, &Chunk> = own.map(|chunk| (chunk.content.as_str(), chunk)).collect();
    let mut duplicates = HashMap::new();
    settled.retain(|_, chunk| match own.get(chunk.content.as_str()) {
        Some(known) if known.id != chunk.id => {
            duplicates.insert(chunk.id, known.id);
            false
        }
        _ => true,
    });
    let base: HashMap<&str, &Chunk> = base
        .chunks
        .iter()
        .map(|chunk| (chunk.content.as_str(), chunk))
        .collect();
    let settled = settled.into_values().map(|mut chunk| {
        let text = chunk.content.as_str();
        let known = own.get(text).or_else(|| base.get(text));
        let by = known.and_then(|known| known.superseded_by);
        let by = by.map(|by| duplicates.get(&by).copied().unwrap_or(by));
        chunk.superseded_by = by.filter(|by| *by != chunk.id);
        chunk
    });
    settled.collect()
}

/// Removes tombstones of issues that one side has again since the base, as after a change that outweighed the deletion.
fn unbury(base: &ProjectContents, ours: &mut ProjectContents, theirs: &mut ProjectContents) {
    let buried: HashSet<Uid> = base.retired.deleted.iter().map(|stone| stone.uid).collect();
    let again = |side: &ProjectContents| -> HashSet<Uid> {
        let uids = side.issues.values().map(IssueContents::uid);
        uids.filter(|uid| buried.contains(uid)).collect()
    };
    let (on_ours, on_theirs) = (again(ours), again(theirs));
    let stones = &mut theirs.retired.deleted;
    stones.retain(|stone| !on_ours.contains(&stone.uid));
    let stones = &mut ours.retired.deleted;
    stones.retain(|stone| !on_theirs.contains(&stone.uid));
}

/// Adds tombstones of issues that a side has neither as an issue nor as a tombstone. Each project has a limited number of
/// tombstones.
fn bury(base: &ProjectContents, side: &mut ProjectContents, now: Timestamp) {
    let issues = side.issues.values().map(IssueContents::uid);
    let stones = side.retired.deleted.iter().map(|stone| stone.uid);
    let known: HashSet<Uid> = issues.chain(stones).collect();
    let gone = base.issues.values().filter_map(|contents| {
        let uid = contents.uid();
        let id = contents.issue.id.clone();
        (!known.contains(&uid)).then_some(Tombstone { id, uid, at: now })
    });
    let gone: Vec<Tombstone> = gone.collect();
    side.retired.deleted.extend(gone);
}
