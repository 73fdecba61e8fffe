//! Why a job is not at work, in words for people.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::event::PauseReason;
use crate::ids::{Millis, PlanId, ProducerId};
use crate::plan::{Job, Plan};
use crate::schedule::{Limits, Scheduler, has_room};
use crate::status::JobStatus;
use crate::work::AdmissionClass;

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "for", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Waiting {
    /// Nothing: it is at work.
    AtWork,
    /// Nothing: it has ended.
    Ended {
        /// How.
        status: JobStatus,
    },
    /// The plan to be completed.
    Finalize,
    /// Other jobs to succeed.
    Dependencies {
        /// How many.
        count: usize,
        /// Some of them.
        jobs: Vec<ProducerId>,
    },
    /// The plan to be resumed.
    Resume {
        /// Why it is paused.
        reason: PauseReason,
        /// The plan whose success resumes it.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<PlanId>,
    },
    /// The branches of the plan to be prepared.
    Branches,
    /// A time to come: what failed is expected to pass by itself.
    Delay {
        /// When it is tried again.
        until: Millis,
    },
    /// A job of the same plan to end.
    PlanLimit {
        /// How many are at work.
        running: u32,
        /// How many may be.
        limit: u32,
    },
    /// A job of the same class to end, in any plan.
    ClassLimit {
        /// The class.
        class: AdmissionClass,
        /// How many are at work.
        running: u32,
        /// How many may be.
        limit: u32,
    },
    /// A job of any plan to end.
    GlobalLimit {
        /// How many are at work.
        running: u32,
        /// How many may be.
        limit: u32,
    },
    /// A slot of the machine, which jobs of other workspaces take up.
    MachineLimit {
        /// How many slots there are; all are taken.
        limit: u32,
    },
    /// Nothing more: it starts at once.
    Turn,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtWork => f.write_str("at work"),
            Self::Ended { status } => write!(f, "{status}"),
            Self::Finalize => f.write_str("waiting for: the plan to be finalized"),
            Self::Dependencies { count, jobs } => {
                let named: Vec<&str> = jobs.iter().map(ProducerId::as_str).collect();
                write!(f, "waiting for: {}", named.join(", "))?;
                match count.saturating_sub(jobs.len()) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::Resume {
                after: Some(plan), ..
            } => write!(f, "waiting for: plan {plan} to succeed"),
            Self::Resume {
                reason: PauseReason::Branches { error },
                ..
            } => {
                write!(
                    f,
                    "waiting for: the plan to be resumed (its branches failed: {error})"
                )
            }
            Self::Resume {
                reason: PauseReason::Variables { error },
                ..
            } => write!(f, "waiting for: the plan to be resumed ({error})"),
            Self::Resume { .. } => f.write_str("waiting for: the plan to be resumed"),
            Self::Branches => f.write_str("waiting for: the branches of the plan"),
            Self::Delay { until } => write!(f, "waiting for: another try at {until}"),
            Self::PlanLimit { running, .. } => {
                write!(f, "waiting for: plan limit ({running} running)")
            }
            Self::ClassLimit { class, running, .. } => {
                write!(f, "waiting for: {class} limit ({running} running)")
            }
            Self::GlobalLimit { running, .. } => {
                write!(f, "waiting for: global limit ({running} running)")
            }
            Self::MachineLimit { limit } => write!(
                f,
                "waiting for: a slot of this machine ({limit} of {limit} are taken; machine_jobs)"
            ),
            Self::Turn => f.write_str("waiting for: its turn"),
        }
    }
}

/// How many jobs a reason names.
const NAMED_MAX: usize = 5;

/// What a job waits for now; the first thing that keeps it from starting.
#[must_use]
pub fn waiting(
    plan: &Plan,
    job: &Job,
    scheduler: &Scheduler,
    limits: &Limits,
    now: Millis,
) -> Waiting {
    if job.status().is_terminal() {
        return Waiting::Ended {
            status: job.status(),
        };
    }
    if matches!(job.status(), JobStatus::Scheduled | JobStatus::Running) {
        return Waiting::AtWork;
    }
    if plan.is_scaffolding() {
        return Waiting::Finalize;
    }
    if job.status() != JobStatus::Ready {
        let open = || {
            plan.dependencies(job)
                .filter(|other| other.status() != JobStatus::Succeeded)
        };
        let jobs = open()
            .take(NAMED_MAX)
            .map(|other| other.producer().clone())
            .collect();
        return Waiting::Dependencies {
            count: open().count(),
            jobs,
        };
    }
    if let Some(reason) = plan.paused() {
        let chained = *reason == PauseReason::ResumeAfterPlan;
        let after = plan.settings().resume_after_plan.filter(|_| chained);
        return Waiting::Resume {
            reason: reason.clone(),
            after,
        };
    }
    if plan.branches().is_none() {
        return Waiting::Branches;
    }
    if let Some(until) = job.not_before().filter(|until| *until > now) {
        return Waiting::Delay { until };
    }
    limit(plan, job, scheduler, limits)
}

fn limit(plan: &Plan, job: &Job, scheduler: &Scheduler, limits: &Limits) -> Waiting {
    let running = scheduler.active_in(plan.id());
    if !has_room(running, plan.max_parallel()) {
        return Waiting::PlanLimit {
            running,
            limit: plan.max_parallel(),
        };
    }
    let class = plan.class(job);
    let running = scheduler.active_of(class);
    if !has_room(running, limits.of(class)) {
        return Waiting::ClassLimit {
            class,
            running,
            limit: limits.of(class),
        };
    }
    if !has_room(scheduler.active(), limits.total) {
        return Waiting::GlobalLimit {
            running: scheduler.active(),
            limit: limits.total,
        };
    }
    if limits.machine_free == Some(0) {
        return Waiting::MachineLimit {
            limit: limits.machine,
        };
    }
    Waiting::Turn
}
