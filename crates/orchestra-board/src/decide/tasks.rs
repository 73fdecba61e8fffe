//! Decisions that move tasks, and claims.

use super::CLAIM_LEASE_SECONDS;
use super::issues;
use super::next::next_task;
use super::work::{Result, Work};
use crate::{
    AgentName, Body, Cause, Change, Evidence, Issue, IssueRef, Kind, NewIssue, Priority, Refusal,
    Slug, Source, State, Title,
};

pub(super) fn start(work: &mut Work<'_>, target: &IssueRef) -> Result<()> {
    let task = work.target_task(target)?;
    transition(work, &task, State::InProgress, None, None)?;
    if let Some(agent) = work.cx.agent.clone() {
        lease(work, &task, &agent)?;
    }
    work.subject(&task);
    Ok(())
}

pub(super) fn complete(
    work: &mut Work<'_>,
    target: &IssueRef,
    evidence: Option<&Body>,
) -> Result<()> {
    let task = work.target_task(target)?;
    if task.state != State::InProgress {
        let (id, from) = (task.id.clone(), task.state);
        return Err(Refusal::BadMove {
            id,
            from,
            to: State::ReadyForTesting,
        }
        .into());
    }
    transition(work, &task, State::ReadyForTesting, evidence, None)?;
    renew(work, &task)?;
    work.subject(&task);
    Ok(())
}

pub(super) fn advance(
    work: &mut Work<'_>,
    target: &IssueRef,
    evidence: Option<&Body>,
) -> Result<()> {
    let task = work.target_task(target)?;
    let no_next = || Refusal::NoNext {
        id: task.id.clone(),
        state: task.state,
    };
    let to = task.state.next().ok_or_else(no_next)?;
    transition(work, &task, to, evidence, None)?;
    renew(work, &task)?;
    work.subject(&task);
    Ok(())
}

pub(super) fn reject(work: &mut Work<'_>, target: &IssueRef, reason: Option<&Body>) -> Result<()> {
    let task = work.target_task(target)?;
    transition(work, &task, State::Rejected, None, reason)?;
    let mut description = format!("Fixes what was rejected in {}: {}", task.id, task.title);
    if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
        description.push_str("\n\n");
        description.push_str(reason.as_str());
    }
    let cut = |text: String| {
        let end = text.floor_char_boundary(Body::MAX_BYTES);
        Body::parse(&text[..end]).expect("made of a title and a body, and cut to fit")
    };
    let bug = NewIssue {
        kind: Kind::Bug,
        parent: task.parent.clone(),
        epic: None,
        title: Title::cut(&format!("Fix: {}", task.title)).expect("holds a visible word"),
        description: cut(description),
        priority: Some(Priority::High),
        assignees: Vec::new(),
        labels: Vec::new(),
        depends_on: Vec::new(),
    };
    work.subject(&task);
    issues::create_fix(work, &task, &bug)
}

pub(super) fn claim(work: &mut Work<'_>, target: &IssueRef, agent: &AgentName) -> Result<()> {
    let task = work.target_task(target)?;
    if task.state.is_final() {
        return Err(Refusal::NothingToClaim {
            id: task.id.clone(),
            state: task.state,
        }
        .into());
    }
    check_claim(work, &task, Some(agent))?;
    lease(work, &task, agent)?;
    work.subject(&task);
    Ok(())
}

pub(super) fn release(
    work: &mut Work<'_>,
    target: &IssueRef,
    agent: Option<&AgentName>,
) -> Result<()> {
    let task = work.target_task(target)?;
    let Some(claim) = task.claim.clone() else {
        return Err(Refusal::NotClaimed {
            id: task.id.clone(),
        }
        .into());
    };
    check_claim(work, &task, agent)?;
    work.emit(&task, Change::Released { agent: claim.agent })?;
    work.subject(&task);
    Ok(())
}

pub(super) fn claim_next(work: &mut Work<'_>, project: &Slug, agent: &AgentName) -> Result<()> {
    work.project(project)?;
    let next = next_task(work.view, project, Some(agent), work.cx.now)?;
    if let Some(task) = next.task.clone() {
        lease(work, &task, agent)?;
        work.subject(&task);
    }
    work.found(next);
    Ok(())
}

/// Moves a task if the table, the gate and the claim allow it; a file needs none of the three.
pub(super) fn transition(
    work: &mut Work<'_>,
    task: &Issue,
    to: State,
    evidence: Option<&Body>,
    reason: Option<&Body>,
) -> Result<()> {
    let from = task.state;
    let shown = evidence.and_then(Evidence::of);
    if work.cx.source == Source::Tool {
        if !from.can_become(to) {
            return Err(Refusal::BadMove {
                id: task.id.clone(),
                from,
                to,
            }
            .into());
        }
        let agent = work.cx.agent.clone();
        check_claim(work, task, agent.as_ref())?;
        if let Some(gate) = from.gate(to)
            && shown.is_none()
        {
            return Err(Refusal::GateBlocked { gate, from }.into());
        }
    }
    let evidence = shown.map(|evidence| evidence.text().clone());
    let reason = reason.filter(|reason| !reason.is_empty()).cloned();
    work.emit(
        task,
        Change::StateChanged {
            from,
            to,
            cause: Cause::Command,
            evidence,
            reason,
        },
    )
}

fn check_claim(work: &Work<'_>, task: &Issue, agent: Option<&AgentName>) -> Result<()> {
    match task.foreign_claim(agent, work.cx.now) {
        Some(claim) => {
            let (id, holder, until) = (task.id.clone(), claim.agent.clone(), claim.until);
            Err(Refusal::Claimed { id, holder, until }.into())
        }
        None => Ok(()),
    }
}

/// Refuses to remove or move what somebody else has claimed.
pub(super) fn check_own_claim(work: &Work<'_>, task: &Issue) -> Result<()> {
    match work.cx.source {
        Source::Tool => check_claim(work, task, work.cx.agent.as_ref()),
        Source::File | Source::Import => Ok(()),
    }
}

/// Refuses each change by a job in a sandbox of a task that another agent has claimed. People and agents outside of
/// sandboxes may edit such a task.
pub(super) fn check_claim_for_job(work: &Work<'_>, task: &Issue) -> Result<()> {
    match work.cx.agent.as_ref().is_some_and(AgentName::is_of_job) {
        true => check_own_claim(work, task),
        false => Ok(()),
    }
}

fn lease(work: &mut Work<'_>, task: &Issue, agent: &AgentName) -> Result<()> {
    let until = work.cx.now.plus_seconds(CLAIM_LEASE_SECONDS);
    work.emit(
        task,
        Change::Claimed {
            agent: agent.clone(),
            until,
        },
    )
}

/// Renews the claim of whoever changes the task, if it is theirs and the task is not over.
pub(super) fn renew(work: &mut Work<'_>, task: &Issue) -> Result<()> {
    let Some(agent) = work.cx.agent.clone() else {
        return Ok(());
    };
    let now = work.cx.now;
    let held = |issue: &Issue| {
        issue
            .claim
            .as_ref()
            .is_some_and(|claim| claim.agent == agent && claim.is_live(now))
    };
    match work.find(&task.project, &task.id)? {
        Some(issue) if held(&issue) && !issue.state.is_final() => lease(work, task, &agent),
        _ => Ok(()),
    }
}
