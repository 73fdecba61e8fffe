//! What a job's task is given to do: an act, and all that it takes, apart from the plan.

use std::sync::Arc;

use orchestra_plan::{
    budget::Usage,
    definition::JobDefinition,
    event::{Act, Branches, Failure, FailureKind, MergeIntent},
    ids::{AttemptNumber, Branch, Commit, Millis, PlanId},
    phase::Phase,
    plan::{Job, Plan, Task, Work},
    pressure::Splits,
    spec::PlanSettings,
    work::WorkSpec,
};

use crate::git::Owner;

/// An act of an attempt, and all that it takes.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub(crate) plan: PlanId,
    pub(crate) settings: PlanSettings,
    /// Whether its programs run in a sandbox, also if the settings ask for none.
    pub(crate) sandboxed: bool,
    pub(crate) branches: Option<Branches>,
    pub(crate) job: Arc<JobDefinition>,
    pub(crate) attempt: AttemptNumber,
    pub(crate) acts: Vec<Act>,
    pub(crate) act: Act,
    pub(crate) todo: Todo,
    /// The commit that the job started from.
    pub(crate) base: Option<Commit>,
    /// Where the worktree stands, as far as this attempt has told.
    pub(crate) commit: Option<Commit>,
    /// Commits that the plan keeps already: what it started from, and what the job depends on.
    pub(crate) kept: Vec<Commit>,
    /// What jobs of the plan that are to be brought together have made, and what these are called.
    pub(crate) made: Vec<(Commit, String)>,
    /// The move of the target that was intended.
    pub(crate) intent: Option<MergeIntent>,
    /// Where the target stood when the job had merged before.
    pub(crate) merged: Option<Commit>,
    /// The failure that a person has asked to pass over.
    pub(crate) despite: Option<FailureKind>,
    /// The attempt before, where it failed, and why.
    pub(crate) before: Option<(AttemptNumber, Act, Failure)>,
    /// What the act has told of its use.
    pub(crate) told: Usage,
    /// Whether its agent may leave parts of the work to jobs of their own.
    pub(crate) may_split: bool,
    /// When it was begun, if that was by a runner that is gone: parts of it may be done or under way.
    pub(crate) found: Option<Millis>,
}

/// What an act takes.
#[derive(Debug, Clone)]
pub(crate) enum Todo {
    Integrate {
        commits: Vec<Commit>,
        base_branch: Option<Branch>,
        /// The commit with the work that the attempt builds on.
        holds: Option<Commit>,
        clear: bool,
        /// Thrown away, unless it holds something of somebody's.
        anew: bool,
        with_target: bool,
    },
    Setup {
        specs: Vec<WorkSpec>,
    },
    Run {
        spec: Box<WorkSpec>,
        session: Option<String>,
    },
    Heal {
        failed: AttemptNumber,
        failure: Failure,
        spec: Option<Box<WorkSpec>>,
        instead: bool,
    },
    Commit {
        expects_no_changes: bool,
    },
    Merge,
}

impl Assignment {
    pub(crate) fn of(plan: &Plan, task: &Task<'_>, splits: &Splits, found: bool) -> Self {
        let Task {
            job, attempt, act, ..
        } = task;
        let before = attempt.number.get().checked_sub(2);
        let before = before.and_then(|at| job.attempts().get(usize::try_from(at).ok()?));
        let before = before.and_then(|before| {
            let (act, failure) = before.failure.clone()?;
            Some((before.number, act, failure))
        });
        Self {
            plan: *plan.id(),
            settings: plan.settings().clone(),
            sandboxed: plan.is_sandboxed(),
            branches: plan.branches().cloned(),
            job: Arc::clone(job.definition()),
            attempt: attempt.number,
            acts: attempt.acts.clone(),
            act: *act,
            todo: Todo::of(&task.work),
            base: attempt.base.clone().or_else(|| job.base_commit().cloned()),
            commit: attempt.commit.clone(),
            kept: match task.work {
                Work::Commit { .. } => kept(plan, job),
                _ => Vec::new(),
            },
            made: match task.work {
                Work::Integrate { .. } => made(plan),
                _ => Vec::new(),
            },
            intent: job
                .intent()
                .filter(|(by, _)| *by == attempt.number)
                .map(|(_, intent)| intent.clone()),
            merged: job.merged().cloned(),
            despite: job.upcoming().despite,
            before,
            told: attempt.usage_of_act(),
            may_split: splits.allow(plan, job),
            found: attempt
                .spans
                .last()
                .filter(|_| found)
                .map(|span| span.started_at),
        }
    }

    /// Whose worktree it is.
    pub(crate) fn owner(&self) -> Owner {
        match self.job.is_snapshot_validation() {
            true => Owner::Snapshot(self.plan),
            false => Owner::Job(self.plan, self.job.id),
        }
    }

    /// Whether a program runs for the act.
    pub(crate) const fn runs(&self) -> bool {
        matches!(
            self.todo,
            Todo::Setup { .. } | Todo::Run { .. } | Todo::Heal { .. }
        )
    }

    /// Whether an agent has tried to solve the conflicts of a merge in this attempt.
    pub(crate) fn solves_conflicts(&self) -> bool {
        self.acts.contains(&Act::heal(Phase::MergeFi))
    }

    /// The message of commits of the job.
    pub(crate) fn message(&self) -> String {
        format!("[Plan] {}", self.job.task.as_str())
    }
}

fn kept(plan: &Plan, job: &Job) -> Vec<Commit> {
    let base = plan.branches().map(|branches| branches.base_commit.clone());
    base.into_iter()
        .chain(plan.dependency_commits(job))
        .collect()
}

fn made(plan: &Plan) -> Vec<(Commit, String)> {
    let made = |job: &Job| {
        let commit = job.completed_commit()?.clone();
        Some((commit, job.producer().to_string()))
    };
    plan.jobs().iter().filter_map(made).collect()
}

impl Todo {
    fn of(work: &Work<'_>) -> Self {
        match work {
            Work::Integrate {
                commits,
                base_branch,
                holds,
                clear,
                anew,
                with_target,
                ..
            } => Self::Integrate {
                commits: commits.clone(),
                base_branch: base_branch.cloned(),
                holds: holds.cloned(),
                clear: *clear,
                anew: *anew,
                with_target: *with_target,
            },
            Work::Setup { specs } => Self::Setup {
                specs: specs.to_vec(),
            },
            Work::Run { spec, session } => Self::Run {
                spec: Box::new((*spec).clone()),
                session: session.map(str::to_owned),
            },
            Work::Heal {
                failed,
                failure,
                spec,
                instead,
            } => Self::Heal {
                failed: failed.number,
                failure: (*failure).clone(),
                spec: spec.map(|spec| Box::new(spec.clone())),
                instead: *instead,
            },
            Work::Commit { expects_no_changes } => Self::Commit {
                expects_no_changes: *expects_no_changes,
            },
            Work::Merge { .. } => Self::Merge,
        }
    }
}
