//! What agents are told, put together from the plan and the logs.

use std::path::{Path, PathBuf};

use orchestra_plan::{
    event::Failure,
    ids::AttemptNumber,
    phase::Phase,
    work::{Action, WorkSpec},
};

use super::{Cx, agent};
use crate::{
    agents::{
        ConflictBrief, HealBrief, JobBrief, ReadyBrief, RetryBrief, conflict_prompt, heal_prompt,
        job_prompt, ready_prompt, retry_prompt,
    },
    logs::{Query, read},
    plans::log_texts,
    runner::attempt_directory,
};

/// How many lines of a log are shown to an agent at most; their bytes are bounded as well.
const LINES: usize = 200;

/// What is healed.
pub(super) struct Healed<'a> {
    pub(super) failed: AttemptNumber,
    pub(super) failure: &'a Failure,
    /// What failed, where the job says that itself.
    pub(super) spec: Option<&'a WorkSpec>,
    /// Whether the job's own work is done with it.
    pub(super) instead: bool,
}

/// What an agent is told that does a job.
pub(super) async fn job(
    cx: &Cx<'_>,
    worktree: &Path,
    text: &str,
    folders: &[PathBuf],
    pieces: usize,
    resumes: bool,
) -> String {
    let (job, plan) = (&cx.assignment.job, &cx.assignment.settings);
    if resumes && let Some((number, act, failure)) = &cx.assignment.before {
        let log = log_of(cx, *number);
        let tail = tail(&log, act.phase).await;
        return retry_prompt(&RetryBrief {
            phase: act.phase.as_str(),
            error: &failure.message,
            log: &log.join("lines.jsonl"),
            tail: &tail,
            task: text,
            worktree,
        });
    }
    let checks: Vec<String> = match cx.assignment.act.phase {
        Phase::Work => job.postchecks.iter().map(shown).collect(),
        _ => Vec::new(),
    };
    job_prompt(&JobBrief {
        plan: plan.name.as_str(),
        job: &job.id.to_string(),
        task: text,
        instructions: job.instructions.as_ref().map(|text| text.as_str()),
        worktree,
        folders,
        checks: &checks,
        pieces,
    })
}

/// What an agent is told that makes a worktree ready.
pub(super) fn ready(cx: &Cx<'_>, worktree: &Path, text: &str) -> String {
    ready_prompt(&ReadyBrief {
        plan: cx.assignment.settings.name.as_str(),
        instructions: text,
        worktree,
    })
}

/// What an agent is told that mends a job.
pub(super) async fn heal(cx: &Cx<'_>, worktree: &Path, healed: &Healed<'_>) -> String {
    let (job, plan) = (&cx.assignment.job, &cx.assignment.settings);
    let phase = cx.assignment.act.phase;
    if agent::is_merge(phase) && !healed.failure.files.is_empty() {
        return conflict_prompt(&ConflictBrief {
            plan: plan.name.as_str(),
            job_name: job.name.as_str(),
            task: job.task.as_str(),
            ours: "the work of some of them",
            theirs: "the work of another",
            files: &healed.failure.files,
            worktree,
        });
    }
    let log = log_of(cx, healed.failed);
    let tail = tail(&log, phase).await;
    let work = job.work.as_ref().map(shown).unwrap_or_default();
    let check = healed.spec.filter(|_| !healed.instead).map(shown);
    let mut prompt = heal_prompt(&HealBrief {
        plan: plan.name.as_str(),
        job_name: job.name.as_str(),
        phase: phase.as_str(),
        error: &healed.failure.message,
        log: &log.join("lines.jsonl"),
        tail: &tail,
        task: job.task.as_str(),
        work: &work,
        check: check.as_deref(),
        instructions: job.instructions.as_ref().map(|text| text.as_str()),
        worktree,
    });
    if healed.instead {
        prompt.push_str(
            "\nThe work itself is not done again after you: do what is left of it as well.\n",
        );
    }
    prompt
}

fn log_of(cx: &Cx<'_>, attempt: AttemptNumber) -> PathBuf {
    let assignment = cx.assignment;
    let storage = &cx.host.options.storage;
    attempt_directory(storage, assignment.plan, assignment.job.id, attempt)
}

/// The last lines of a phase.
async fn tail(directory: &Path, phase: Phase) -> String {
    let directory = directory.to_owned();
    let query = Query {
        tail: true,
        limit: Some(LINES),
        phase: Some(phase.as_str().to_owned()),
        ..Query::default()
    };
    let page = tokio::task::spawn_blocking(move || read(&directory, &query)).await;
    match page {
        Ok(Ok(page)) => log_texts(&page.lines),
        // The agent finds out by itself.
        _ => String::new(),
    }
}

/// What work does, for somebody who reads it.
fn shown(spec: &WorkSpec) -> String {
    match &spec.action {
        Action::Shell(work) => work.command().as_str().to_owned(),
        Action::Process(work) => {
            let words = std::iter::once(work.executable.as_str());
            let words = words.chain(work.args.iter().map(|argument| argument.as_str()));
            words.collect::<Vec<_>>().join(" ")
        }
        Action::Agent(work) => match &work.brief {
            orchestra_plan::work::Brief::Text(text) => text.as_str().to_owned(),
            orchestra_plan::work::Brief::File(file) => format!("(what {} says)", file.as_str()),
        },
    }
}
