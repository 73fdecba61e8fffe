//! Merges two boards that were one, or never met, into one board.
//!
//! Nothing here reads or writes: both sides are values, wherever they come from, and so is the result. The merge is
//! deterministic, and merging a side a second time changes nothing. No issue of either side is lost: two issues with
//! one id are distinguished by their uids, and theirs gets a free id. A field that both sides changed keeps our
//! value. The other value becomes a comment, and the issue gets the label [`CONFLICT`].

mod identity;
mod issue;
mod memory;
mod texts;
mod usage;

use std::collections::{BTreeMap, HashSet};

use orchestra_board::{
    Event, Issue, IssueId, Key, PrdSession, Project, Request, Slug, Timestamp, Uid,
};

use self::identity::Identities;
pub(crate) use self::memory::fold_duplicates;
use crate::document::DocumentBody;
use crate::files::shorten_claim;
use crate::toon::project::{MAX_NUMBER, Retired, Tombstone};
use crate::{Chunk, DocumentPath, HookEventRecord, PlanRecord, SessionRecord, UsageRecord, uid};

/// Label of issues with values of two boards to choose from.
pub(crate) const CONFLICT: &str = "merge-conflict";
/// Largest number of a remembered text, which fits into the numbers of files.
pub(crate) const MAX_CHUNK: u64 = 60_000_000;

/// Everything of a board that is merged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BoardContents {
    pub(crate) projects: BTreeMap<Slug, ProjectContents>,
    pub(crate) usage: UsageRecord,
    /// In the order of their arrival.
    pub(crate) hook_events: Vec<HookEvent>,
    pub(crate) documents: BTreeMap<String, (DocumentPath, DocumentBody)>,
}

/// A project with everything in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectContents {
    pub(crate) project: Project,
    pub(crate) retired: Retired,
    pub(crate) issues: BTreeMap<IssueId, IssueContents>,
    pub(crate) prd: String,
    pub(crate) questionnaire: Option<PrdSession>,
    pub(crate) readme: Option<String>,
    pub(crate) requests: Vec<Request>,
    pub(crate) plans: Vec<(PlanRecord, String)>,
    /// By id.
    pub(crate) chunks: Vec<Chunk>,
    /// Number of the next remembered text.
    pub(crate) next_chunk: u64,
    pub(crate) sessions: BTreeMap<String, SessionRecord>,
}

/// An issue with its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IssueContents {
    pub(crate) issue: Issue,
    /// Oldest first.
    pub(crate) events: Vec<Event>,
}

/// A hook event. Two are the same when all of it is.
#[derive(Debug, Clone)]
pub(crate) struct HookEvent(pub(crate) HookEventRecord);

/// Facts that a merge depends on beside its sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The board that both sides come from, where it is known.
    pub(crate) base: Option<&'a BoardContents>,
    /// Description of the other side, for comments and titles.
    pub(crate) origin: &'a str,
    pub(crate) now: Timestamp,
    /// Whether the other side was merged before. Its usage is not added again.
    pub(crate) is_repeated: bool,
}

/// Merges their board into ours.
pub(crate) fn merge(
    ours: &BoardContents,
    theirs: &BoardContents,
    cx: &Context<'_>,
) -> BoardContents {
    let mut merged = ours.clone();
    let mut usage = theirs.usage.clone();
    for (slug, theirs) in &theirs.projects {
        let base = cx.base.and_then(|base| base.projects.get(slug));
        let before = merged.projects.remove(slug);
        let taken: HashSet<Uid> = merged.projects.values().flat_map(uids).collect();
        let before = before.unwrap_or_else(|| theirs.without_content(&merged.projects));
        let identities = Identities::of(base, &before, theirs, &taken);
        let project = merge_project(base, &before, theirs, &identities, cx);
        usage::rename(&mut usage, slug, &identities);
        merged.projects.insert(slug.clone(), project);
    }
    let base = cx.base.map(|base| &base.usage);
    merged.usage = usage::merge(base, &ours.usage, &usage, cx.is_repeated);
    merged.hook_events = usage::merge_hook_events(&ours.hook_events, &theirs.hook_events);
    texts::merge_documents(&mut merged.documents, &theirs.documents);
    merged
}

/// Uids that a project has given away.
fn uids(project: &ProjectContents) -> impl Iterator<Item = Uid> {
    project.issues.values().map(IssueContents::uid)
}

fn merge_project(
    base: Option<&ProjectContents>,
    ours: &ProjectContents,
    theirs: &ProjectContents,
    identities: &Identities,
    cx: &Context<'_>,
) -> ProjectContents {
    let mut merged = ours.clone();
    let base_by_uid: BTreeMap<Uid, &IssueContents> = base
        .into_iter()
        .flat_map(|base| base.issues.values())
        .map(|contents| (contents.uid(), contents))
        .collect();
    let mut by_uid: BTreeMap<Uid, IssueContents> = ours
        .issues
        .values()
        .map(|contents| (contents.uid(), contents.clone()))
        .filter(|(uid, _)| identities.is_alive(*uid))
        .collect();
    for (id, theirs) in &theirs.issues {
        let Some(uid) = identities.uid_of(id) else {
            continue;
        };
        let mut renamed = identities.theirs(theirs, uid);
        shorten_claim(&mut renamed.issue, cx.now.unix_seconds());
        let contents = match by_uid.get(&uid) {
            // Most issues are the same on both sides.
            Some(ours) if *ours == renamed && ours.is_in_order() => continue,
            Some(ours) => {
                let base = base_by_uid.get(&uid).map(|base| identities.base(base, uid));
                issue::merge(base.as_ref(), ours, &renamed, cx)
            }
            None => issue::arrived(renamed, id, identities, cx),
        };
        by_uid.insert(uid, contents);
    }
    merged.issues = by_uid
        .into_iter()
        .map(|(uid, mut contents)| {
            contents.issue.uid = Some(uid);
            (contents.issue.id.clone(), contents)
        })
        .collect();
    merged.retired = identities.retired(ours, theirs);
    merged.release();
    merged.project = identities.counted(&ours.project);
    texts::merge(&mut merged, base, theirs, identities, cx);
    memory::merge(&mut merged, base, theirs, cx);
    merged
}

/// A project with counters above the ids of its issues, its retired ids and the numbers of its requests.
pub(crate) fn counted<'a>(
    project: &Project,
    issues: impl Iterator<Item = &'a IssueId>,
    retired: &'a Retired,
    requests: &[Request],
) -> Project {
    let stones = retired.deleted.iter().map(|stone| &stone.id);
    let aliases = retired.aliases.iter().map(|(old, _)| old);
    let ids: Vec<&IssueId> = issues.chain(stones).chain(aliases).collect();
    let above = |prefix: &str| {
        let numbers = ids.iter().filter(|id| id.prefix() == prefix);
        next_of(numbers.map(|id| id.number()))
    };
    Project {
        next_issue: above(project.key.as_str()),
        next_bug: above(IssueId::BUG),
        next_request: next_of(requests.iter().map(|request| request.number)),
        ..project.clone()
    }
}

impl ProjectContents {
    /// The project with counters that follow from its ids. Those of another board can be anything, and would use up the
    /// ids of this one.
    pub(crate) fn counted(&self) -> Project {
        let issues = self.issues.keys();
        counted(&self.project, issues, &self.retired, &self.requests)
    }

    /// Has no issue wait for a deleted one.
    fn release(&mut self) {
        let stones = self.retired.deleted.iter().map(|stone| stone.id.clone());
        let gone: HashSet<IssueId> = stones.filter(|id| !self.issues.contains_key(id)).collect();
        for contents in self.issues.values_mut() {
            let depends_on = &mut contents.issue.depends_on;
            depends_on.retain(|on| !gone.contains(on));
        }
    }

    /// A project that only the other side has, before anything of it is merged. Its key may be another project's here.
    fn without_content(&self, projects: &BTreeMap<Slug, Self>) -> Self {
        let is_free = |key: &Key| projects.values().all(|other| other.project.key != *key);
        let mut project = Project {
            next_issue: 1,
            next_bug: 1,
            next_request: 1,
            ..self.project.clone()
        };
        if !is_free(&project.key) {
            let free = Key::candidates(project.name.as_str()).find(is_free);
            project.key = free.unwrap_or(project.key);
        }
        Self {
            prd: self.prd.clone(),
            ..Self::empty(project)
        }
    }

    /// A project with nothing in it.
    pub(crate) fn empty(project: Project) -> Self {
        Self {
            project,
            retired: Retired::default(),
            issues: BTreeMap::new(),
            prd: String::new(),
            questionnaire: None,
            readme: None,
            requests: Vec::new(),
            plans: Vec::new(),
            chunks: Vec::new(),
            next_chunk: 1,
            sessions: BTreeMap::new(),
        }
    }
}

impl IssueContents {
    /// Identity of the issue: its uid, or what follows from its id, the time of its creation and its first line.
    pub(crate) fn uid(&self) -> Uid {
        let derived = || uid::of_issue_with(&self.issue, &self.events);
        self.issue.uid.unwrap_or_else(derived)
    }

    /// Returns whether its lists are in the order that a merge brings them into.
    fn is_in_order(&self) -> bool {
        self.issue.depends_on.is_sorted() && self.events.is_sorted_by_key(|event| event.at)
    }

    /// Time of the last change.
    fn changed_at(&self) -> Timestamp {
        let last = self.events.iter().map(|event| event.at);
        let own = [Some(self.issue.created_at), self.issue.updated_at];
        let all = last.chain(own.into_iter().flatten());
        all.max().unwrap_or(self.issue.created_at)
    }

    /// Returns whether it was changed since it was as in the base, or else after a deletion.
    fn is_changed(&self, base: Option<&Self>, deleted: &Tombstone) -> bool {
        match base {
            Some(base) => self.issue != base.issue || self.events.len() != base.events.len(),
            None => self.changed_at() > deleted.at,
        }
    }
}

/// The number after the highest one that counts.
fn next_of(numbers: impl Iterator<Item = u64>) -> u64 {
    let last = numbers.filter(|number| *number <= MAX_NUMBER).max();
    last.map_or(1, |last| last + 1)
}

impl PartialEq for HookEvent {
    fn eq(&self, other: &Self) -> bool {
        let number = self.0.number;
        let other = HookEventRecord {
            number,
            ..other.0.clone()
        };
        self.0 == other
    }
}

impl Eq for HookEvent {}

#[cfg(test)]
mod tests;
