//! Identities of the issues of two sides: the same ones, those that remain, and their ids.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use orchestra_board::{Cause, Change, Issue, IssueId, Key, Kind, Project, Slug, Uid};

use super::{IssueContents, ProjectContents};
use crate::toon::project::{MAX_NUMBER, Retired, Tombstone};

/// Issues of a project that two sides have.
#[derive(Debug)]
pub(super) struct Identities {
    slug: Slug,
    /// Uids of the other side's issues that remain, by their ids there.
    uids: BTreeMap<IssueId, Uid>,
    /// Ids of issues that remain.
    ids: BTreeMap<Uid, IssueId>,
    /// Ids of the other side and of the base, and those of the same issues in the result.
    theirs: HashMap<IssueId, IssueId>,
    base: HashMap<IssueId, IssueId>,
    /// Key of the other side's ids, and ours, where they differ.
    keys: Option<(String, Key)>,
    /// Numbers of the next issue, bug and request.
    next: [u64; 3],
}

impl Identities {
    /// Compares two sides of a project. Uids in `taken` are those of issues of other projects.
    pub(super) fn of(
        base: Option<&ProjectContents>,
        ours: &ProjectContents,
        theirs: &ProjectContents,
        taken: &HashSet<Uid>,
    ) -> Self {
        let differ = ours.project.key != theirs.project.key;
        let mut identities = Self {
            slug: ours.project.slug.clone(),
            uids: uids_of(theirs, taken),
            ids: BTreeMap::new(),
            theirs: HashMap::new(),
            base: HashMap::new(),
            keys: differ.then(|| {
                let theirs = theirs.project.key.to_string();
                (theirs, ours.project.key.clone())
            }),
            next: next(&ours.project, &theirs.counted()),
        };
        let alive = alive(base, ours, theirs, &identities.uids);
        identities.uids.retain(|_, uid| alive.contains(uid));
        identities.name(ours, theirs, &alive);
        for (id, uid) in &identities.uids {
            let new = identities.ids[uid].clone();
            identities.theirs.insert(id.clone(), new);
        }
        for (old, new) in &theirs.retired.aliases {
            if let Some(new) = identities.theirs.get(new).cloned() {
                identities.theirs.entry(old.clone()).or_insert(new);
            }
        }
        for contents in base.into_iter().flat_map(|base| base.issues.values()) {
            if let Some(new) = identities.ids.get(&contents.uid()) {
                let old = contents.issue.id.clone();
                identities.base.insert(old, new.clone());
            }
        }
        identities
    }

    /// Assigns an id to each remaining issue: ours if we have the issue, else its own if that is free and not too large,
    /// else a new one.
    fn name(&mut self, ours: &ProjectContents, theirs: &ProjectContents, alive: &HashSet<Uid>) {
        for contents in ours.issues.values() {
            if alive.contains(&contents.uid()) {
                let id = contents.issue.id.clone();
                self.ids.insert(contents.uid(), id);
            }
        }
        let mut used: HashSet<IssueId> = ours.issues.keys().cloned().collect();
        used.extend(ours.retired.aliases.iter().map(|(old, _)| old.clone()));
        let buried: HashMap<&IssueId, Uid> = ours
            .retired
            .deleted
            .iter()
            .map(|stone| (&stone.id, stone.uid))
            .collect();
        let mut news: Vec<(&IssueId, Uid)> = self
            .uids
            .iter()
            .filter(|(_, uid)| !self.ids.contains_key(uid))
            .map(|(id, uid)| (id, *uid))
            .collect();
        orchestra_sort::sort_by_key(&mut news, |(id, uid)| {
            let issue = &theirs.issues[*id].issue;
            (depth(issue), issue.created_at, *uid)
        });
        let mut crowded = Vec::new();
        let mut given = Vec::new();
        for (id, uid) in news {
            let wanted = self.rekeyed(id);
            let is_buried = buried.get(&wanted).is_some_and(|other| *other != uid);
            if is_buried || wanted.number() > MAX_NUMBER || !used.insert(wanted.clone()) {
                crowded.push((id.is_reported_bug(), uid));
            } else {
                given.push((uid, wanted));
            }
        }
        self.ids.extend(given);
        used.extend(buried.into_keys().cloned());
        for (is_bug, uid) in crowded {
            let id = loop {
                let number = &mut self.next[usize::from(is_bug)];
                let id = match is_bug {
                    true => IssueId::bug(*number),
                    false => IssueId::of_project(&ours.project.key, *number),
                };
                *number = number.saturating_add(1);
                if used.insert(id.clone()) {
                    break id;
                }
            };
            self.ids.insert(uid, id);
        }
    }

    /// Returns whether an issue remains.
    pub(super) fn is_alive(&self, uid: Uid) -> bool {
        self.ids.contains_key(&uid)
    }

    /// The uid of an issue of the other side that remains.
    pub(super) fn uid_of(&self, theirs: &IssueId) -> Option<Uid> {
        self.uids.get(theirs).copied()
    }

    /// An id of the other side with our key.
    pub(super) fn rekeyed(&self, id: &IssueId) -> IssueId {
        match &self.keys {
            Some((theirs, ours)) if id.prefix() == theirs => IssueId::of_project(ours, id.number()),
            _ => id.clone(),
        }
    }

    /// Our id for an id in the other side's fields. An id without an issue stays, unless it is another issue's here.
    pub(super) fn id_for(&self, theirs: &IssueId) -> Option<IssueId> {
        self.resolved(&self.theirs, theirs)
    }

    fn resolved(&self, known: &HashMap<IssueId, IssueId>, id: &IssueId) -> Option<IssueId> {
        if let Some(new) = known.get(id) {
            return Some(new.clone());
        }
        let same = self.rekeyed(id);
        let is_other = self.ids.values().any(|id| *id == same);
        (!is_other).then_some(same)
    }

    /// An issue of the other side with our ids.
    pub(super) fn theirs(&self, contents: &IssueContents, uid: Uid) -> IssueContents {
        self.renamed(&self.theirs, contents, uid)
    }

    /// An issue of the base with our ids.
    pub(super) fn base(&self, contents: &IssueContents, uid: Uid) -> IssueContents {
        self.renamed(&self.base, contents, uid)
    }

    fn renamed(
        &self,
        known: &HashMap<IssueId, IssueId>,
        contents: &IssueContents,
        uid: Uid,
    ) -> IssueContents {
        let mut contents = contents.clone();
        let id = self.ids[&uid].clone();
        let named = |id: &IssueId| self.resolved(known, id);
        let issue = &mut contents.issue;
        issue.project.clone_from(&self.slug);
        issue.id.clone_from(&id);
        issue.uid = Some(uid);
        rename_in(issue, named);
        // The history is about the past, and may name issues that were deleted.
        let past = |id: &IssueId| named(id).or_else(|| Some(id.clone()));
        for event in &mut contents.events {
            event.project = Some(self.slug.clone());
            event.issue = Some(id.clone());
            rename_in_change(&mut event.change, past);
            if let Change::IssueCreated(created) = &mut event.change {
                created.project.clone_from(&self.slug);
                created.id.clone_from(&id);
            }
        }
        contents
    }

    /// Retired ids of both sides, and ids that issues had on the other side. An id that one of our issues has or had is
    /// no alias: a call with it means that issue, also a deletion that is retried. Where the keys differ, an id is an alias
    /// with either key.
    pub(super) fn retired(&self, ours: &ProjectContents, theirs: &ProjectContents) -> Retired {
        let deleted = self.deleted(ours, theirs);
        let is_alive: HashSet<&IssueId> = self.ids.values().collect();
        let buried = deleted.iter().chain(&ours.retired.deleted);
        let mut taken: HashSet<&IssueId> = buried.map(|stone| &stone.id).collect();
        taken.extend(ours.issues.keys());
        taken.extend(&is_alive);
        let ours_alive = ours.retired.aliases.iter();
        let mut aliases: BTreeMap<IssueId, IssueId> = ours_alive
            .filter(|(old, new)| is_alive.contains(new) && !taken.contains(old))
            .cloned()
            .collect();
        // An issue that we have as well may have another id there.
        let theirs_before = self
            .theirs
            .iter()
            .flat_map(|(old, new)| [(old.clone(), new), (self.rekeyed(old), new)]);
        let mut before: Vec<(IssueId, &IssueId)> = theirs_before
            .filter(|(old, _)| !taken.contains(old) && old.number() <= MAX_NUMBER)
            .collect();
        before.sort();
        for (old, new) in before {
            aliases.entry(old).or_insert_with(|| new.clone());
        }
        Retired {
            aliases: aliases.into_iter().collect(),
            deleted,
        }
    }

    /// Tombstones of both sides, oldest first. That of an issue of ours has our id.
    fn deleted(&self, ours: &ProjectContents, theirs: &ProjectContents) -> Vec<Tombstone> {
        let issues = ours.issues.iter();
        let ids: HashMap<Uid, &IssueId> =
            issues.map(|(id, contents)| (contents.uid(), id)).collect();
        let all = ours.retired.deleted.iter().cloned();
        let rekeyed = theirs.retired.deleted.iter().map(|stone| Tombstone {
            id: match ids.get(&stone.uid) {
                Some(id) => (*id).clone(),
                None => self.rekeyed(&stone.id),
            },
            ..stone.clone()
        });
        let rekeyed = rekeyed.filter(|stone| stone.id.number() <= MAX_NUMBER);
        let mut deleted: Vec<Tombstone> = Vec::new();
        let mut known = HashSet::new();
        for stone in all.chain(rekeyed) {
            if !self.is_alive(stone.uid) && known.insert(stone.uid) {
                deleted.push(stone);
            }
        }
        orchestra_sort::sort_by(&mut deleted, |a, b| {
            (a.at, &a.id, a.uid).cmp(&(b.at, &b.id, b.uid))
        });
        deleted
    }

    /// A project with counters above the ids of both sides.
    pub(super) fn counted(&self, ours: &Project) -> Project {
        let [next_issue, next_bug, next_request] = self.next;
        Project {
            next_issue,
            next_bug,
            next_request,
            ..ours.clone()
        }
    }
}

fn rename_in(issue: &mut Issue, named: impl Fn(&IssueId) -> Option<IssueId>) {
    for field in [
        &mut issue.parent,
        &mut issue.cancelled_with,
        &mut issue.fixes,
    ] {
        *field = field.as_ref().and_then(&named);
    }
    let depends_on: BTreeSet<IssueId> = issue.depends_on.iter().filter_map(named).collect();
    issue.depends_on = depends_on.into_iter().collect();
}

fn rename_in_change(change: &mut Change, named: impl Fn(&IssueId) -> Option<IssueId>) {
    match change {
        Change::Moved { to: other }
        | Change::DependencyAdded { on: other }
        | Change::DependencyRemoved { on: other }
        | Change::StateChanged {
            cause: Cause::CancelledWith(other),
            ..
        } => {
            if let Some(new) = named(other) {
                *other = new;
            }
        }
        Change::IssueCreated(created) => rename_in(created, named),
        _ => {}
    }
}

fn next(ours: &Project, theirs: &Project) -> [u64; 3] {
    [
        ours.next_issue.max(theirs.next_issue),
        ours.next_bug.max(theirs.next_bug),
        ours.next_request.max(theirs.next_request),
    ]
}

const fn depth(issue: &Issue) -> u8 {
    match issue.kind {
        Kind::Epic => 0,
        Kind::Story => 1,
        Kind::Task | Kind::Bug | Kind::Hotfix => 2,
    }
}

/// Uids of a side's issues. A uid that another issue has, here or in another project, is replaced by a derived one.
fn uids_of(side: &ProjectContents, taken: &HashSet<Uid>) -> BTreeMap<IssueId, Uid> {
    let mut known = HashSet::new();
    let mut uids = BTreeMap::new();
    for (id, contents) in &side.issues {
        let mut uid = contents.uid();
        while taken.contains(&uid) || !known.insert(uid) {
            let slug = side.project.slug.as_str();
            uid = Uid::derived(["merge", slug, &id.to_string(), &uid.to_string()]);
        }
        uids.insert(id.clone(), uid);
    }
    uids
}

/// Uids of the remaining issues: all except issues that one side has deleted and the other has not changed since. The
/// parents of remaining issues remain as well.
fn alive(
    base: Option<&ProjectContents>,
    ours: &ProjectContents,
    theirs: &ProjectContents,
    uids: &BTreeMap<IssueId, Uid>,
) -> HashSet<Uid> {
    let stones = |side: &ProjectContents| -> HashMap<Uid, Tombstone> {
        let stones = side.retired.deleted.iter();
        stones.map(|stone| (stone.uid, stone.clone())).collect()
    };
    let (our_stones, their_stones) = (stones(ours), stones(theirs));
    let before: HashMap<Uid, &IssueContents> = base
        .into_iter()
        .flat_map(|base| base.issues.values())
        .map(|contents| (contents.uid(), contents))
        .collect();
    let our_uids: BTreeMap<IssueId, Uid> = ours
        .issues
        .iter()
        .map(|(id, contents)| (id.clone(), contents.uid()))
        .collect();
    let mut alive = HashSet::new();
    let mut above: HashMap<Uid, Vec<Uid>> = HashMap::new();
    for (side, uids, other, stones) in [
        (ours, &our_uids, uids, &their_stones),
        (theirs, uids, &our_uids, &our_stones),
    ] {
        let on_both: HashSet<&Uid> = other.values().collect();
        for (id, uid) in uids {
            let contents = &side.issues[id];
            let is_kept = stones.get(uid).is_none_or(|stone| {
                on_both.contains(uid) || contents.is_changed(before.get(uid).copied(), stone)
            });
            if is_kept {
                alive.insert(*uid);
            }
            let parent = contents.issue.parent.as_ref();
            let parent = parent.and_then(|parent| uids.get(parent));
            above.entry(*uid).or_default().extend(parent);
        }
    }
    let mut left: Vec<Uid> = alive.iter().copied().collect();
    while let Some(uid) = left.pop() {
        for parent in above.get(&uid).into_iter().flatten() {
            if alive.insert(*parent) {
                left.push(*parent);
            }
        }
    }
    alive
}
