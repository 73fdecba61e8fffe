//! Decisions that make, change, move and delete issues.

use std::collections::HashSet;

use super::tasks::{check_claim_for_job, check_own_claim, renew, transition};
use super::work::{Result, Work};
use crate::{
    Body, Cause, Change, Edit, Issue, IssueId, IssuePatch, IssueRef, Kind, NewIssue, OwnState,
    Refusal, Slug, Source, State, Version,
};

/// The most issues one issue may wait for.
const MAX_DEPENDENCIES: usize = 64;
/// The most assignees of an issue.
const MAX_ASSIGNEES: usize = 16;
/// The most labels of an issue.
const MAX_LABELS: usize = 32;
/// The most issues that are looked at for a circle of dependencies.
const MAX_CIRCLE_SEARCH: usize = 100_000;

pub(super) fn create(work: &mut Work<'_>, project: &Slug, new: &NewIssue) -> Result<()> {
    add(work, project, new, State::Backlog, None, |key, project| {
        IssueId::of_project(key, project.next_issue)
    })
}

pub(super) fn report_bug(work: &mut Work<'_>, project: &Slug, new: &NewIssue) -> Result<()> {
    add(work, project, new, State::Todo, None, |_, project| {
        IssueId::bug(project.next_bug)
    })
}

pub(super) fn create_fix(work: &mut Work<'_>, rejected: &Issue, bug: &NewIssue) -> Result<()> {
    let fixes = Some(rejected.id.clone());
    add(
        work,
        &rejected.project,
        bug,
        State::Backlog,
        fixes,
        |key, project| IssueId::of_project(key, project.next_issue),
    )
}

fn add(
    work: &mut Work<'_>,
    slug: &Slug,
    new: &NewIssue,
    state: State,
    fixes: Option<IssueId>,
    id: impl Fn(&crate::Key, &crate::Project) -> IssueId,
) -> Result<()> {
    let project = work.project(slug)?;
    let parent = check_parent(work, slug, new)?;
    check_counts(Some(&new.assignees), Some(&new.labels))?;
    let mut depends_on = Vec::new();
    for on in &new.depends_on {
        let other = work
            .find(slug, on)?
            .ok_or_else(|| Refusal::no_issue("issue", slug, on))?;
        depends_on.push(other.id);
    }
    depends_on.sort();
    depends_on.dedup();
    check_dependency_count(depends_on.len())?;
    let issue = Issue {
        project: slug.clone(),
        id: id(&project.key, &project),
        uid: None,
        kind: new.kind,
        parent,
        title: new.title.clone(),
        description: new.description.clone(),
        priority: new.priority,
        state,
        own: OwnState::Backlog,
        cancelled_with: None,
        fixes,
        assignees: new.assignees.clone(),
        labels: new.labels.clone(),
        depends_on,
        claim: None,
        created_at: work.cx.now,
        updated_at: None,
    };
    work.emit(&issue, Change::IssueCreated(Box::new(issue.clone())))?;
    work.subject(&issue);
    Ok(())
}

fn check_parent(work: &mut Work<'_>, slug: &Slug, new: &NewIssue) -> Result<Option<IssueId>> {
    let (Some(expected), Some(id)) = (new.kind.parent_kind(), &new.parent) else {
        return Ok(None);
    };
    let what = expected.as_str();
    let parent = work
        .find(slug, id)?
        .ok_or_else(|| Refusal::no_issue(what, slug, id))?;
    if parent.kind != expected {
        return Err(Refusal::wrong_kind(&parent, what).into());
    }
    if expected == Kind::Story {
        let epic = parent.parent.clone();
        work.check_ancestor(&parent, "epic", new.epic.as_ref(), epic.as_ref())?;
    }
    Ok(Some(parent.id))
}

fn check_counts(
    assignees: Option<&Vec<crate::AgentName>>,
    labels: Option<&Vec<crate::Label>>,
) -> Result<()> {
    if assignees.is_some_and(|list| list.len() > MAX_ASSIGNEES) {
        return Err(Refusal::TooMany {
            what: "assignees",
            limit: MAX_ASSIGNEES,
        }
        .into());
    }
    if labels.is_some_and(|list| list.len() > MAX_LABELS) {
        return Err(Refusal::TooMany {
            what: "labels",
            limit: MAX_LABELS,
        }
        .into());
    }
    Ok(())
}

fn check_dependency_count(count: usize) -> Result<()> {
    if count > MAX_DEPENDENCIES {
        return Err(Refusal::TooMany {
            what: "dependencies",
            limit: MAX_DEPENDENCIES,
        }
        .into());
    }
    Ok(())
}

pub(super) fn update(
    work: &mut Work<'_>,
    target: &IssueRef,
    patch: &IssuePatch,
    evidence: Option<&Body>,
    version: Option<Version>,
) -> Result<()> {
    let issue = work.target(target)?;
    if *patch == IssuePatch::default() {
        return Err(Refusal::NothingToChange.into());
    }
    if let Some(given) = version
        && issue.version() != given
    {
        let actual = issue.version();
        return Err(Refusal::VersionMismatch {
            id: issue.id.clone(),
            given,
            actual,
        }
        .into());
    }
    check_claim_for_job(work, &issue)?;
    check_counts(patch.assignees.as_ref(), patch.labels.as_ref())?;
    for edit in edits(&issue, patch) {
        work.emit(&issue, Change::Edited(edit))?;
    }
    if let Some(to) = patch.state {
        if issue.kind.is_leaf() {
            transition(work, &issue, to, evidence, None)?;
        } else {
            move_parent(work, &issue, to)?;
        }
    }
    if issue.kind.is_leaf() {
        renew(work, &issue)?;
    }
    work.subject(&issue);
    Ok(())
}

/// The edits that make `issue` what `patch` says; none for what is so already.
fn edits(issue: &Issue, patch: &IssuePatch) -> Vec<Edit> {
    let IssuePatch {
        title,
        description,
        priority,
        state: _,
        assignees,
        labels,
    } = patch.clone();
    [
        title.filter(|title| *title != issue.title).map(Edit::Title),
        description
            .filter(|description| *description != issue.description)
            .map(Edit::Description),
        priority
            .filter(|priority| *priority != issue.priority)
            .map(Edit::Priority),
        assignees
            .filter(|assignees| *assignees != issue.assignees)
            .map(Edit::Assignees),
        labels
            .filter(|labels| *labels != issue.labels)
            .map(Edit::Labels),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Moves an epic or story by hand: to cancelled, back from there, or between backlog and todo
/// while nothing below it has started.
fn move_parent(work: &mut Work<'_>, parent: &Issue, to: State) -> Result<()> {
    let follows = || Refusal::FollowsChildren {
        id: parent.id.clone(),
        state: parent.state,
    };
    let planned = |state| matches!(state, State::Backlog | State::Todo);
    work.asked_for(parent);
    match (parent.state, to) {
        (from, State::Cancelled) if !from.is_final() => {
            check_own_claims(work, parent)?;
            cancel_below(work, parent, &parent.id)?;
            if work.tally(&parent.project, &parent.id)?.total() == 0 {
                work.set_own(parent, OwnState::Cancelled, Cause::Command)?;
            }
            Ok(())
        }
        (State::Cancelled, State::Backlog) => {
            if work.tally(&parent.project, &parent.id)?.total() == 0 {
                return work.set_own(parent, OwnState::Backlog, Cause::Command);
            }
            if restore_below(work, parent, &parent.id)? {
                Ok(())
            } else {
                Err(follows().into())
            }
        }
        (from, to) if planned(from) && planned(to) && from != to => {
            let own = OwnState::of_state(to).expect("backlog and todo are own states");
            work.set_own(parent, own, Cause::Command)
        }
        _ => Err(follows().into()),
    }
}

fn cancel_below(work: &mut Work<'_>, parent: &Issue, ancestor: &IssueId) -> Result<()> {
    for id in work.view.children(&parent.project, &parent.id)? {
        let Some(child) = work.find(&parent.project, &id)? else {
            continue;
        };
        if child.state.is_final() {
            continue;
        }
        let cause = Cause::CancelledWith(ancestor.clone());
        if child.kind.is_leaf() {
            work.set_state(&child, State::Cancelled, cause)?;
        } else if work.tally(&child.project, &child.id)?.total() == 0 {
            work.set_own(&child, OwnState::Cancelled, cause)?;
        } else {
            cancel_below(work, &child, ancestor)?;
        }
    }
    Ok(())
}

/// Reopens what the cancellation of `ancestor` took along; says whether there was anything.
fn restore_below(work: &mut Work<'_>, parent: &Issue, ancestor: &IssueId) -> Result<bool> {
    let mut any = false;
    for id in work.view.children(&parent.project, &parent.id)? {
        let Some(child) = work.find(&parent.project, &id)? else {
            continue;
        };
        if child.cancelled_with.as_ref() == Some(ancestor) {
            any = true;
            if child.kind.is_leaf() {
                work.set_state(&child, State::Backlog, Cause::Restored)?;
                continue;
            }
            work.set_own(&child, OwnState::Backlog, Cause::Restored)?;
        }
        if !child.kind.is_leaf() {
            any |= restore_below(work, &child, ancestor)?;
        }
    }
    Ok(any)
}

pub(super) fn move_to(work: &mut Work<'_>, target: &IssueRef, to: &IssueId) -> Result<()> {
    let issue = work.target(target)?;
    check_claim_for_job(work, &issue)?;
    let Some(expected) = issue.kind.parent_kind() else {
        return Err(Refusal::wrong_kind(&issue, "story or task").into());
    };
    let what = expected.as_str();
    let slug = issue.project.clone();
    let parent = work
        .find(&slug, to)?
        .ok_or_else(|| Refusal::no_issue(what, &slug, to))?;
    if parent.kind != expected {
        return Err(Refusal::wrong_kind(&parent, what).into());
    }
    if issue.parent.as_ref() == Some(&parent.id) {
        return Err(Refusal::NothingToChange.into());
    }
    work.emit(&issue, Change::Moved { to: parent.id })?;
    work.subject(&issue);
    Ok(())
}

pub(super) fn delete(work: &mut Work<'_>, target: &IssueRef, expected: Kind) -> Result<()> {
    let issue = work.target(target)?;
    let fits = issue.kind == expected || (expected == Kind::Task && issue.kind.is_leaf());
    if !fits {
        return Err(Refusal::wrong_kind(&issue, expected.as_str()).into());
    }
    check_own_claims(work, &issue)?;
    work.emit(&issue, Change::IssueDeleted)
}

/// Refuses to remove or cancel what somebody else has claimed, or has claimed anything below of.
fn check_own_claims(work: &mut Work<'_>, issue: &Issue) -> Result<()> {
    check_own_claim(work, issue)?;
    if issue.kind.is_leaf() {
        return Ok(());
    }
    for id in work.view.children(&issue.project, &issue.id)? {
        if let Some(child) = work.find(&issue.project, &id)? {
            check_own_claims(work, &child)?;
        }
    }
    Ok(())
}

pub(super) fn add_dependency(work: &mut Work<'_>, target: &IssueRef, on: &IssueId) -> Result<()> {
    let issue = work.target(target)?;
    check_claim_for_job(work, &issue)?;
    let slug = issue.project.clone();
    let other = work
        .find(&slug, on)?
        .ok_or_else(|| Refusal::no_issue("issue", &slug, on))?;
    work.subject(&issue);
    if issue.depends_on.contains(&other.id) {
        return Ok(());
    }
    check_dependency_count(issue.depends_on.len() + 1)?;
    if let Some(path) = path_between(work, &other, &issue.id)? {
        let (id, on) = (issue.id.clone(), other.id);
        return Err(Refusal::Circle { id, on, path }.into());
    }
    work.emit(&issue, Change::DependencyAdded { on: other.id })
}

/// The chain of dependencies from `start` to `goal`, with `goal` in front of it as well.
fn path_between(
    work: &mut Work<'_>,
    start: &Issue,
    goal: &IssueId,
) -> Result<Option<Vec<IssueId>>> {
    let mut seen = HashSet::from([start.id.clone()]);
    let mut paths = vec![vec![goal.clone(), start.id.clone()]];
    while let Some(path) = paths.pop() {
        let last = path.last().expect("a path begins with two ids");
        if last == goal {
            return Ok(Some(path));
        }
        let next = work
            .find(&start.project, last)?
            .map(|issue| issue.depends_on)
            .unwrap_or_default();
        for id in next {
            if id == *goal || (seen.len() < MAX_CIRCLE_SEARCH && seen.insert(id.clone())) {
                let mut longer = path.clone();
                longer.push(id);
                paths.push(longer);
            }
        }
    }
    Ok(None)
}

pub(super) fn remove_dependency(
    work: &mut Work<'_>,
    target: &IssueRef,
    on: &IssueId,
) -> Result<()> {
    let issue = work.target(target)?;
    check_claim_for_job(work, &issue)?;
    if !issue.depends_on.contains(on) {
        return Err(Refusal::NoDependency {
            id: issue.id.clone(),
            on: on.clone(),
        }
        .into());
    }
    work.emit(&issue, Change::DependencyRemoved { on: on.clone() })?;
    work.subject(&issue);
    Ok(())
}

pub(super) fn comment(work: &mut Work<'_>, target: &IssueRef, text: &Body) -> Result<()> {
    let issue = work.target(target)?;
    if text.as_str().trim().is_empty() {
        return Err(Refusal::NothingToChange.into());
    }
    work.emit(&issue, Change::Commented { text: text.clone() })?;
    work.subject(&issue);
    Ok(())
}

/// Makes the issue that a file describes, or makes it what the file says. A parent's state in a
/// file counts only as far as a hand may set it; the rest follows from the children.
pub(super) fn put(work: &mut Work<'_>, wanted: &Issue) -> Result<()> {
    work.project(&wanted.project)?;
    if let Some(expected) = wanted.kind.parent_kind() {
        let id = wanted
            .parent
            .as_ref()
            .ok_or_else(|| Refusal::ImpossibleParent {
                id: wanted.id.clone(),
            })?;
        let missing = || Refusal::no_issue(expected.as_str(), &wanted.project, id);
        let parent = work.find(&wanted.project, id)?.ok_or_else(missing)?;
        if parent.kind != expected {
            return Err(Refusal::wrong_kind(&parent, expected.as_str()).into());
        }
    }
    let Some(stored) = work.find(&wanted.project, &wanted.id)? else {
        let mut issue = wanted.clone();
        if !issue.kind.is_leaf() {
            issue.own = OwnState::of_state(wanted.state).unwrap_or(wanted.own);
            issue.state = issue.own.as_state();
        }
        work.emit(&issue, Change::IssueCreated(Box::new(issue.clone())))?;
        work.subject(&issue);
        return Ok(());
    };
    if stored.kind != wanted.kind {
        return Err(Refusal::wrong_kind(&stored, wanted.kind.as_str()).into());
    }
    if let Some(parent) = wanted
        .parent
        .clone()
        .filter(|parent| Some(parent) != stored.parent.as_ref())
    {
        work.emit(&stored, Change::Moved { to: parent })?;
    }
    let patch = IssuePatch {
        title: Some(wanted.title.clone()),
        description: Some(wanted.description.clone()),
        priority: Some(wanted.priority),
        state: None,
        assignees: Some(wanted.assignees.clone()),
        labels: Some(wanted.labels.clone()),
    };
    for edit in edits(&stored, &patch) {
        work.emit(&stored, Change::Edited(edit))?;
    }
    for on in wanted
        .depends_on
        .iter()
        .filter(|on| !stored.depends_on.contains(on))
    {
        work.emit(&stored, Change::DependencyAdded { on: on.clone() })?;
    }
    for on in stored
        .depends_on
        .iter()
        .filter(|on| !wanted.depends_on.contains(on))
    {
        work.emit(&stored, Change::DependencyRemoved { on: on.clone() })?;
    }
    if wanted.state != stored.state {
        if stored.kind.is_leaf() {
            transition(work, &stored, wanted.state, None, None)?;
        } else if work.cx.source != Source::Tool {
            // A refusal here means that the children decide, which is no error of the file.
            match move_parent(work, &stored, wanted.state) {
                Ok(()) | Err(crate::DecideError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    work.subject(&stored);
    Ok(())
}
