//! Along the happy path, gate by gate, or back with a bug to fix.

use orchestra_board::{AgentName, Body, Cause, Change, Command, IssueId, Slug, State};
use orchestra_store::Receipt;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::Arg;
use crate::failure::Failure;
use crate::services::{Services, target};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{Brief, Word};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "advance_task",
            "Advance task",
            Effect::Move,
            "Move a task one step towards done; leaving in-progress, in-testing, in-docs or in-review needs evidence.",
            advance,
        ),
        Tool::new(
            "reject_task",
            "Reject task",
            Effect::Move,
            "Reject a task in review and create a bug to fix it.",
            reject,
        ),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct AdvanceTask {
    project: Arg<Slug>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    epic_id: Option<Arg<IssueId>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    story_id: Option<Arg<IssueId>>,
    task_id: Arg<IssueId>,
    evidence: Option<Arg<Body>>,
    agent: Option<Arg<AgentName>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Advanced {
    task: Brief,
    from: Word<State>,
    to: Word<State>,
    /// The evidence that was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<String>,
    /// What to do in the new state.
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<&'static str>,
}

fn advance(_: &Services, args: AdvanceTask) -> Result<Step<Advanced>, Failure> {
    let target = target(args.project, args.epic_id, args.story_id, args.task_id);
    let command = Command::AdvanceTask {
        target,
        evidence: args.evidence.map(|text| text.0),
    };
    Ok(Step::command(args.agent, command, |services, receipt| {
        let (from, to, evidence) = step_taken(&receipt).ok_or_else(gone)?;
        let task = receipt.issues.first().ok_or_else(gone)?;
        Ok(Advanced {
            task: Brief::moved(task, services.now()),
            from: Word(from),
            to: Word(to),
            evidence,
            gate: to.advice(),
        })
    }))
}

fn step_taken(receipt: &Receipt) -> Option<(State, State, Option<String>)> {
    receipt.events.iter().find_map(|event| match &event.change {
        Change::StateChanged {
            from,
            to,
            cause: Cause::Command,
            evidence,
            ..
        } => Some((*from, *to, evidence.as_ref().map(ToString::to_string))),
        _ => None,
    })
}

fn gone() -> Failure {
    Failure::text("the task was deleted by another change at the same time")
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct RejectTask {
    project: Arg<Slug>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    epic_id: Option<Arg<IssueId>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    story_id: Option<Arg<IssueId>>,
    task_id: Arg<IssueId>,
    reason: Option<Arg<Body>>,
    agent: Option<Arg<AgentName>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Rejected {
    rejected: Brief,
    bug_created: Brief,
}

fn reject(_: &Services, args: RejectTask) -> Result<Step<Rejected>, Failure> {
    let target = target(args.project, args.epic_id, args.story_id, args.task_id);
    let command = Command::RejectTask {
        target,
        reason: args.reason.map(|text| text.0),
    };
    Ok(Step::command(args.agent, command, |services, receipt| {
        let now = services.now();
        match receipt.issues.as_slice() {
            [rejected, bug, ..] => Ok(Rejected {
                rejected: Brief::new(rejected, now),
                bug_created: Brief::new(bug, now),
            }),
            _ => Err(gone()),
        }
    }))
}
