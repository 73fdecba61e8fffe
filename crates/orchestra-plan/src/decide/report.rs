//! What whoever runs a job tells, and what follows from it.

use crate::budget::{Exceeded, Usage, exceeded};
use crate::command::{Code, Cx, Refusal, Report};
use crate::event::{Act, AttemptEnd, Failure, What};
use crate::ids::{AttemptNumber, JobId, Millis};
use crate::outcome;
use crate::phase::Phase;
use crate::plan::{Attempt, Job, Plan};
use crate::pressure;

/// The longest name of a session that is kept, in bytes.
const SESSION_MAX: usize = 500;
/// The longest path of a worktree, in bytes.
const PATH_MAX: usize = 4096;

pub(super) fn report(
    plan: &Plan,
    job: JobId,
    attempt: AttemptNumber,
    report: Report,
    cx: &mut Cx<'_>,
) -> Result<Vec<What>, Refusal> {
    let unknown = || {
        Refusal::new(
            Code::UnknownJob,
            format!("the plan has no job with the id {job}"),
        )
    };
    let found = plan.job(&job).ok_or_else(unknown)?;
    let stale = || {
        let words = format!("attempt {attempt} of job `{}` is over", found.producer());
        Refusal::new(Code::StaleAttempt, words)
    };
    let intended = found.intent().is_some_and(|(by, _)| by == attempt);
    if let Some(whats) = intended.then(|| landed(plan, found, &report, cx)).flatten() {
        return Ok(whats);
    }
    let running = found
        .running()
        .filter(|running| running.number == attempt)
        .ok_or_else(stale)?;
    match report {
        Report::WorktreeReady {
            path,
            base,
            fresh,
            sets_up,
        } => {
            if running.under_way() != Some(Act::of(Phase::MergeFi)) {
                return Err(unexpected(running, "a worktree"));
            }
            if path.len() > PATH_MAX {
                return Err(unexpected(running, "a path of this length"));
            }
            let ready = What::WorktreeReady {
                job,
                attempt,
                path,
                base,
                fresh,
                sets_up,
            };
            let gone = fresh.then(|| outcome::after_gone(found, running, cx.policy));
            let end = gone.flatten().map(|end| ended(job, attempt, end));
            Ok(std::iter::once(ready).chain(end).collect())
        }
        Report::ActBegan(act) => {
            if running.upcoming() != Some(act) {
                return Err(unexpected(running, &format!("the start of {act}")));
            }
            let cost = plan.heal_cost();
            // An earlier heal may have cost all of it since this one was decided.
            if act.heal && cost >= cx.policy.heal_cost_max {
                let end = outcome::too_dear(act, cost, cx.policy);
                return Ok(vec![ended(job, attempt, end)]);
            }
            Ok(vec![What::ActBegan { job, attempt, act }])
        }
        Report::ProcessStarted(process) => {
            under_way(running, "a process")?;
            Ok(vec![What::ProcessStarted {
                job,
                attempt,
                process,
            }])
        }
        // A part of a session's name is the name of none.
        Report::SessionKnown(session) if session.len() > SESSION_MAX => Ok(Vec::new()),
        Report::SessionKnown(session) => Ok(vec![What::SessionKnown {
            job,
            attempt,
            session,
        }]),
        Report::Filled(filled) => {
            under_way(running, "a report that the context fills up")?;
            Ok(pressure::fills(job, running, filled))
        }
        Report::Used(usage) => Ok(used(plan, found, running, usage, cx)),
        Report::ActSucceeded {
            act,
            commit,
            summary,
            usage,
            ended,
        } => {
            ending(running, act)?;
            owed(running, act, commit.is_some())?;
            let last = running.done + 1 == running.acts.len();
            let done = What::ActSucceeded {
                job,
                attempt,
                act,
                commit,
                summary,
                usage,
                ended_at: ended,
            };
            Ok(after_success(
                plan, found, attempt, done, usage, last, cx.now,
            ))
        }
        Report::ActFailed {
            act,
            failure,
            usage,
            ended,
        } => {
            ending(running, act)?;
            Ok(after_failure(
                plan,
                found,
                (attempt, ended),
                (act, failure),
                usage,
                cx,
            ))
        }
        Report::Split(parts) => {
            let act = under_way(running, "a split")?;
            if act.phase != Phase::Work {
                return Err(unexpected(running, "a split"));
            }
            pressure::split(plan, found, attempt, parts, cx)
        }
        Report::Lost { message } => {
            let act = running
                .under_way()
                .or(running.upcoming())
                .unwrap_or(Act::of(Phase::MergeFi));
            let end = outcome::after_loss(plan, found, act, &message, cx.policy);
            Ok(vec![ended(job, attempt, end)])
        }
        Report::MergeIntended(intent) => {
            if running.under_way() != Some(Act::of(Phase::MergeRi)) || found.intent().is_some() {
                return Err(unexpected(running, "a merge"));
            }
            Ok(vec![What::MergeIntended {
                job,
                attempt,
                intent,
            }])
        }
        Report::MergeVoided | Report::Merged(_) => {
            Err(unexpected(running, "a merge without an announced intent"))
        }
    }
}

/// What became of the target: told also when the attempt that was to move it is over. A merge that
/// is done ends its act and its job at once, so that nothing can come between.
fn landed(plan: &Plan, job: &Job, report: &Report, cx: &Cx<'_>) -> Option<Vec<What>> {
    let (attempt, _) = job.intent()?;
    let id = *job.id();
    let commit = match report {
        Report::MergeVoided => return Some(vec![What::MergeVoided { job: id, attempt }]),
        Report::Merged(commit) => commit.clone(),
        _ => return None,
    };
    let mut whats = vec![What::Merged {
        job: id,
        attempt,
        commit: commit.clone(),
    }];
    let act = Act::of(Phase::MergeRi);
    let running = job.running().filter(|running| running.number == attempt);
    if let Some(running) = running.filter(|running| running.under_way() == Some(act)) {
        let last = running.done + 1 == running.acts.len();
        let usage = Usage::default();
        let done = What::ActSucceeded {
            job: id,
            attempt,
            act,
            commit: Some(commit),
            summary: None,
            usage,
            ended_at: None,
        };
        whats.extend(after_success(plan, job, attempt, done, usage, last, cx.now));
    }
    Some(whats)
}

/// The end of an attempt, without any further usage.
fn ended(job: JobId, attempt: AttemptNumber, end: AttemptEnd) -> What {
    What::AttemptEnded {
        job,
        attempt,
        end: Box::new(end),
        usage: Usage::default(),
        ended_at: None,
    }
}

fn under_way(running: &Attempt, what: &str) -> Result<Act, Refusal> {
    running.under_way().ok_or_else(|| unexpected(running, what))
}

fn ending(running: &Attempt, act: Act) -> Result<(), Refusal> {
    if running.under_way() == Some(act) {
        return Ok(());
    }
    Err(unexpected(running, &format!("the end of {act}")))
}

/// Holds the end of an act to what others build on.
fn owed(running: &Attempt, act: Act, commit: bool) -> Result<(), Refusal> {
    let missing = match act.phase {
        _ if act.heal => None,
        Phase::MergeFi if running.worktree.is_none() => Some("a worktree"),
        Phase::MergeFi | Phase::Commit if !commit => Some("a commit"),
        // The report of the merge ends it.
        Phase::MergeRi => Some("a merge"),
        _ => None,
    };
    match missing {
        Some(what) => Err(unexpected(
            running,
            &format!("the end of {act} without {what}"),
        )),
        None => Ok(()),
    }
}

fn unexpected(running: &Attempt, what: &str) -> Refusal {
    let now = match (running.under_way(), running.upcoming()) {
        (Some(act), _) => format!("{act} is running"),
        (None, Some(act)) => format!("{act} starts next"),
        (None, None) => "it has no steps left".to_owned(),
    };
    Refusal::new(
        Code::UnexpectedReport,
        format!("attempt {} did not expect {what}: {now}", running.number),
    )
}

fn used(plan: &Plan, job: &Job, running: &Attempt, usage: Usage, cx: &Cx<'_>) -> Vec<What> {
    let attempt = running.number;
    let mut whats = vec![What::UsageAdded {
        job: *job.id(),
        attempt,
        usage,
    }];
    let over = over(plan, job, &usage, cx.now);
    let cost = plan.heal_cost().saturating_add(usage.cost_micros);
    let heal = running.under_way().filter(|act| act.heal);
    if let Some(act) = heal
        && over.is_empty()
        && cost > cx.policy.heal_cost_max
    {
        let end = outcome::too_dear(act, cost, cx.policy);
        whats.push(ended(*job.id(), attempt, end));
    }
    whats.extend(over);
    whats
}

/// The budgets that are used up with what is added now.
fn over(plan: &Plan, job: &Job, more: &Usage, now: Millis) -> Vec<What> {
    let own = exceeded(
        &job.definition().budget,
        &job.usage().plus(more),
        job.wall_ms(now),
    );
    let all = exceeded(
        &plan.settings().budget,
        &plan.usage().plus(more),
        plan.wall_ms(now),
    );
    let event = |job: Option<JobId>, exceeded: Exceeded| What::BudgetExceeded { job, exceeded };
    let own = own.map(|used| event(Some(*job.id()), used));
    own.into_iter()
        .chain(all.map(|used| event(None, used)))
        .collect()
}

fn after_success(
    plan: &Plan,
    job: &Job,
    attempt: AttemptNumber,
    done: What,
    usage: Usage,
    last: bool,
    now: Millis,
) -> Vec<What> {
    let ended_at = match &done {
        What::ActSucceeded { ended_at, .. } => *ended_at,
        _ => None,
    };
    let mut whats = vec![done];
    if last {
        // What is done is done: only what is still to come is stopped by a budget.
        let end = Box::new(AttemptEnd::Succeeded {});
        whats.push(What::AttemptEnded {
            job: *job.id(),
            attempt,
            end,
            usage: Usage::default(),
            ended_at,
        });
        let all = exceeded(
            &plan.settings().budget,
            &plan.usage().plus(&usage),
            plan.wall_ms(now),
        );
        let open = plan.counts().terminal() + 1 < plan.counts().total();
        whats.extend(all.filter(|_| open).map(|exceeded| What::BudgetExceeded {
            job: None,
            exceeded,
        }));
    } else {
        whats.extend(over(plan, job, &usage, now));
    }
    whats
}

fn after_failure(
    plan: &Plan,
    job: &Job,
    (attempt, ended_at): (AttemptNumber, Option<Millis>),
    (act, failure): (Act, Failure),
    usage: Usage,
    cx: &Cx<'_>,
) -> Vec<What> {
    let over = over(plan, job, &usage, cx.now);
    let end = if over.is_empty() {
        outcome::after_failure(plan, job, act, failure, cx.policy, cx.now)
    } else {
        // There is nothing left to try again with.
        AttemptEnd::Failed {
            act,
            failure: failure.bounded(),
        }
    };
    let mut whats = vec![What::AttemptEnded {
        job: *job.id(),
        attempt,
        end: Box::new(end),
        usage,
        ended_at,
    }];
    let of_plan = |what: &What| matches!(what, What::BudgetExceeded { job: None, .. });
    whats.extend(over.into_iter().filter(of_plan));
    whats
}

/// Budgets of wall time that are used up by now.
pub(super) fn clock(plan: &Plan, now: Millis) -> Vec<What> {
    let jobs = plan.active().filter_map(|job| {
        let used = exceeded(&job.definition().budget, job.usage(), job.wall_ms(now))?;
        Some(What::BudgetExceeded {
            job: Some(*job.id()),
            exceeded: used,
        })
    });
    let open = !plan.status().is_ended() && plan.started_at().is_some();
    let all = exceeded(&plan.settings().budget, plan.usage(), plan.wall_ms(now)).filter(|_| open);
    jobs.chain(all.map(|exceeded| What::BudgetExceeded {
        job: None,
        exceeded,
    }))
    .collect()
}
