//! One issue that both sides have, field by field.

use std::collections::HashSet;

use orchestra_board::{
    AgentName, Body, Change, Claim, Event, Issue, IssueId, Label, Source, Timestamp, Uid,
};

use super::identity::Identities;
use super::{CONFLICT, Context, IssueContents};
use crate::files::fields::{Base, Choice, DESCRIPTION, of_issue};
use crate::files::merge::merge as merge_fields;
use crate::toon::history::Lines;

/// Largest part of another value in one comment.
const PART_BYTES: usize = Body::MAX_BYTES / 2;

/// Merges the other side's version of an issue into ours. Both have the same ids. Without a base, a side whose whole
/// history the other one has is the base.
pub(super) fn merge(
    base: Option<&IssueContents>,
    ours: &IssueContents,
    theirs: &IssueContents,
    cx: &Context<'_>,
) -> IssueContents {
    let base = base.or_else(|| older(ours, theirs)).map(|base| &base.issue);
    let agreed = Base {
        seen: base.map(of_issue),
        announced: None,
    };
    let merged = merge_fields(&agreed, &ours.issue, &theirs.issue, &Choice::Open);
    let (mut issue, mut both) = (merged.issue, merged.both);
    issue.assignees = union(base, &ours.issue, &theirs.issue, |issue| &issue.assignees);
    issue.labels = union(base, &ours.issue, &theirs.issue, |issue| &issue.labels);
    issue.depends_on = union(base, &ours.issue, &theirs.issue, |issue| &issue.depends_on);
    issue.depends_on.sort();
    both.retain(|name| !["assignees", "labels", "depends_on"].contains(&name.as_str()));
    if issue.kind != ours.issue.kind {
        // The type decides about states and places, and no command changes it.
        issue.kind = ours.issue.kind;
        both.push("type".to_owned());
    }
    issue.created_at = ours.issue.created_at.min(theirs.issue.created_at);
    issue.updated_at = ours.issue.updated_at.max(theirs.issue.updated_at);
    let mut conflicts: Vec<(String, String)> = both
        .into_iter()
        .map(|name| {
            let value = shown(&theirs.issue, &name);
            (name, value)
        })
        .collect();
    let (claim, dropped) = merge_claims(base, ours, theirs, cx.now);
    issue.claim = claim;
    if let Some(dropped) = dropped {
        let value = format!("{} until {}", dropped.agent, dropped.until);
        conflicts.push(("claim".to_owned(), value));
    }
    let mut events = ours.events.clone();
    let known = Lines::of(&events);
    let news = theirs.events.iter().filter(|event| !known.has(event));
    events.extend(news.cloned());
    orchestra_sort::sort_by_key(&mut events, |event| event.at);
    let mut contents = IssueContents { issue, events };
    contents.record(conflicts, cx);
    contents
}

/// An issue that only the other side has. A comment records its former id if it has a new one.
pub(super) fn arrived(
    mut contents: IssueContents,
    id: &IssueId,
    identities: &Identities,
    cx: &Context<'_>,
) -> IssueContents {
    if identities.rekeyed(id) != contents.issue.id {
        let text = format!("{id} on {}, where another issue has that id", cx.origin);
        contents.comment(&["id", &id.to_string()], &text, cx);
    }
    contents
}

/// Returns the side all of whose changes the other one has, if it is one of them.
fn older<'a>(ours: &'a IssueContents, theirs: &'a IssueContents) -> Option<&'a IssueContents> {
    let has_all = |side: &IssueContents, other: &IssueContents| {
        let lines = Lines::of(&side.events);
        !other.events.is_empty() && other.events.iter().all(|event| lines.has(event))
    };
    match (has_all(theirs, ours), has_all(ours, theirs)) {
        (true, false) => Some(ours),
        (false, true) => Some(theirs),
        (true, true) | (false, false) => None,
    }
}

/// Values of a list of both sides, except values that either side removed.
pub(super) fn union<S, T: Clone + PartialEq>(
    base: Option<&S>,
    ours: &S,
    theirs: &S,
    of: impl Fn(&S) -> &Vec<T>,
) -> Vec<T> {
    let base: &[T] = match base {
        Some(base) => of(base),
        None => &[],
    };
    let (ours, theirs) = (of(ours), of(theirs));
    let mut all: Vec<T> = ours
        .iter()
        .filter(|value| theirs.contains(value) || !base.contains(value))
        .cloned()
        .collect();
    for value in theirs {
        if !all.contains(value) && !base.contains(value) {
            all.push(value.clone());
        }
    }
    all
}

/// Returns the claim that holds, and the live claim that lost.
fn merge_claims(
    base: Option<&Issue>,
    ours: &IssueContents,
    theirs: &IssueContents,
    now: Timestamp,
) -> (Option<Claim>, Option<Claim>) {
    let (one, other) = (&ours.issue.claim, &theirs.issue.claim);
    let before = base.map(|base| &base.claim);
    if one == other || before == Some(other) {
        return (one.clone(), None);
    }
    if before == Some(one) {
        return (other.clone(), None);
    }
    let live = |claim: &Option<Claim>| claim.clone().filter(|claim| claim.until > now);
    match (live(one), live(other)) {
        (Some(one), Some(other)) if one.agent == other.agent => {
            let longer = if other.until > one.until { other } else { one };
            (Some(longer), None)
        }
        (Some(one), Some(other)) => match began_at(theirs, &other) < began_at(ours, &one) {
            true => (Some(other), Some(one)),
            false => (Some(one), Some(other)),
        },
        (Some(one), None) => (Some(one), None),
        (None, Some(other)) => (Some(other), None),
        (None, None) => (one.clone().or_else(|| other.clone()), None),
    }
}

/// Time at which the holder of a claim began to hold it, renewals left out.
fn began_at(contents: &IssueContents, claim: &Claim) -> Timestamp {
    let mut held: Option<(&AgentName, Timestamp)> = None;
    for event in &contents.events {
        match &event.change {
            Change::Claimed { agent, .. } if held.is_none_or(|(holder, _)| holder != agent) => {
                held = Some((agent, event.at));
            }
            Change::Released { .. } => held = None,
            _ => {}
        }
    }
    match held {
        Some((agent, at)) if *agent == claim.agent => at,
        _ => claim.until,
    }
}

impl IssueContents {
    /// Records values of the other side that the issue has not got.
    fn record(&mut self, conflicts: Vec<(String, String)>, cx: &Context<'_>) {
        let mut is_new = false;
        for (name, value) in conflicts {
            let parts = parts(&value);
            for (number, part) in parts.iter().enumerate() {
                let text = match parts.len() {
                    1 => format!("{name} on {}: {part}", cx.origin),
                    all => format!("{name} on {} ({} of {all}): {part}", cx.origin, number + 1),
                };
                is_new |= self.comment(&[&name, &value, &number.to_string()], &text, cx);
            }
        }
        if let (true, Ok(label)) = (is_new, Label::parse(CONFLICT))
            && !self.issue.labels.contains(&label)
        {
            self.issue.labels.push(label);
        }
    }

    /// Adds a comment, unless it was added before; returns whether it did. Its uid follows from the facts that it is
    /// about.
    fn comment(&mut self, facts: &[&str], text: &str, cx: &Context<'_>) -> bool {
        let issue = self.uid().to_string();
        let facts = ["merge", &issue].into_iter().chain(facts.iter().copied());
        let uid = Uid::derived(facts);
        let known: HashSet<Uid> = self.events.iter().filter_map(|event| event.uid).collect();
        let text = Body::parse(text);
        let (false, Ok(text)) = (known.contains(&uid), text) else {
            return false;
        };
        self.events.push(Event {
            at: self.changed_at().max(cx.now),
            project: Some(self.issue.project.clone()),
            issue: Some(self.issue.id.clone()),
            agent: None,
            source: Source::Import,
            change: Change::Commented { text },
            uid: Some(uid),
        });
        true
    }
}

/// A text in parts that fit into comments.
fn parts(mut text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    while text.len() > PART_BYTES {
        let (part, rest) = text.split_at(text.floor_char_boundary(PART_BYTES));
        parts.push(part);
        text = rest;
    }
    parts.push(text);
    parts
}

/// The value of a field as text; `none` for an empty one.
fn shown(issue: &Issue, name: &str) -> String {
    let none = || "none".to_owned();
    match name {
        "title" => issue.title.to_string(),
        DESCRIPTION if issue.description.is_empty() => none(),
        DESCRIPTION => issue.description.to_string(),
        "type" => issue.kind.to_string(),
        "status" => issue.state.to_string(),
        "priority" => issue.priority.map_or_else(none, |value| value.to_string()),
        "parent" => issue.parent.as_ref().map_or_else(none, IssueId::to_string),
        other => unreachable!("`{other}` is no field that both sides can change"),
    }
}
