//! Where the last holder stopped: every plan is folded anew, and every job that was at work is taken up.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestra_plan::{
    command::{Command, Request},
    event::FailureKind,
    ids::{JobId, Millis, PlanId},
    plan::{AttemptStatus, Job, Plan, Step},
    status::{JobStatus, PlanStatus},
};
use tokio::{task::JoinSet, time::Instant};

use super::{
    act::{RunName, halt},
    attempt_directory,
    clean::{is_forgotten, owner_of},
    engine::{Engine, Event, Help},
    host::Host,
    job,
    turn::{Starting, Turn},
};
use crate::{
    cause::chain,
    git::Owner,
    logs::{self, Kept},
    plans::now,
};

/// Takes up what was left. What is decided for that is the first turn of the engine.
pub(super) async fn take_up(engine: &mut Engine) -> Result<Turn, String> {
    let folded = engine.folded.clone();
    let read = tokio::task::spawn_blocking(move || {
        let all = folded.all_kept()?;
        // The engine has them from now on.
        folded.forget_all();
        Ok::<_, crate::plans::PlansError>((all, folded.known()?))
    });
    let (all, mut known) = read
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| chain(&error))?;
    let mut unreadable = HashSet::new();
    for other in all.unreadable {
        tracing::error!("{}; it stays unchanged", other.what);
        // What it has in the repository is treated as another workspace's.
        known.remove(&other.plan);
        unreadable.insert(other.plan);
    }
    for plan in all.plans {
        engine.scheduler.load(&plan);
        engine.plans.insert(*plan.id(), Arc::unwrap_or_clone(plan));
    }
    let mut turn = Turn::default();
    let ids: Vec<PlanId> = engine.plans.keys().copied().collect();
    for id in ids {
        reconcile(engine, id, &mut turn);
    }
    let waits_for_none = |plan: &Plan| {
        let other = plan.settings().resume_after_plan?;
        let is_there = engine.plans.contains_key(&other) || unreadable.contains(&other);
        (!is_there && !plan.is_deleted()).then_some((*plan.id(), other))
    };
    let waiting: Vec<(PlanId, PlanId)> = engine.plans.values().filter_map(waits_for_none).collect();
    for (id, other) in waiting {
        engine.tell_of_end(id, other, None, &mut turn);
    }
    if !known.is_empty() && has_worktrees(&engine.host.options.workspace) {
        engine.to_sweep = Some(known);
    }
    collect(engine);
    Ok(turn)
}

/// Takes up a plan that another holder has left.
fn reconcile(engine: &mut Engine, id: PlanId, turn: &mut Turn) {
    let Some(plan) = engine.plans.get(&id) else {
        return;
    };
    if is_over(plan) && plan.jobs().iter().all(|job| job.worktree().is_none()) {
        // It was put away before; what was not told of it is swept with the rest.
        engine.cleaned.insert(id, is_forgotten(plan));
    }
    let over: Vec<JobId> = plan.jobs().iter().map(|job| *job.id()).collect();
    rest(engine, id, &over);
    settle(engine, id, turn);
}

/// Sees to it that everything of a plan goes on which the log says is under way, whatever is known of it
/// here: at the start, and after a turn that could not be kept.
pub(super) fn settle(engine: &mut Engine, id: PlanId, turn: &mut Turn) {
    let Some(plan) = engine.plans.get(&id) else {
        return;
    };
    turn.touched.insert(id);
    if plan.status().is_ended() || plan.is_deleted() {
        // Whoever waits for it may not have been told.
        turn.moved.insert(id);
    }
    turn.removable
        .extend(removable(plan).map(|job| (id, *job.id())));
    let active = plan.active().map(|job| (*job.id(), job.status()));
    let active: Vec<(JobId, JobStatus)> = active
        .filter(|(job, _)| !engine.jobs.contains_key(job))
        .collect();
    for (job, status) in active {
        if status == JobStatus::Scheduled {
            let command = Command::Return {
                job,
                reason: "the runner that had scheduled it is gone".to_owned(),
            };
            if let Err(refusal) = engine.change(id, Request::of(command), turn) {
                tracing::warn!(plan = %id, %job, %refusal, "cannot recover a job; it stays unchanged");
            }
            continue;
        }
        engine.advance(id, job, turn);
        let is_under_way = engine.plans.get(&id).is_some_and(|plan| {
            let found = plan.job(&job);
            found.is_some_and(|job| matches!(plan.next(job), Step::UnderWay(_)))
        });
        if is_under_way {
            turn.starting.push(Starting {
                plan: id,
                job,
                slot: None,
                found: true,
            });
        }
    }
}

/// Jobs whose worktrees nobody needs any more.
fn removable(plan: &Plan) -> impl Iterator<Item = &Job> {
    let may = plan.settings().clean_up_successful_work && !plan.is_deleted();
    let jobs = plan.jobs().iter();
    jobs.filter(move |job| may && job.removable())
}

/// What may be left of an attempt by who was killed between deciding its end and bringing it about.
struct Left {
    owner: Owner,
    directory: PathBuf,
    /// Runs that may go on.
    names: Vec<RunName>,
    /// Whether what is in the worktree is to be noted as the job's, unless it is.
    seals: bool,
}

impl Left {
    fn of(plan: &Plan, job: &Job, storage: &Path) -> Option<Self> {
        let attempt = job.attempt().filter(|_| !job.status().is_active())?;
        job.worktree()?;
        let own = attempt.failure.as_ref().map(|(_, failure)| failure);
        let kind = own.or(job.failure()).map(|failure| failure.kind);
        let may_run_on = attempt.status == AttemptStatus::Canceled
            || matches!(
                kind,
                Some(
                    FailureKind::Canceled
                        | FailureKind::Forced
                        | FailureKind::BudgetExceeded
                        | FailureKind::Lost
                        | FailureKind::Storage
                        | FailureKind::Internal
                )
            );
        let act = attempt.spans.last().filter(|_| may_run_on);
        let names = act.map(|span| RunName::all(*job.id(), attempt.number, span.act));
        let names = names.unwrap_or_default();
        let seals = job.status() != JobStatus::Succeeded || job.definition().postchecks.is_some();
        (seals || !names.is_empty()).then(|| Self {
            owner: owner_of(plan, job),
            directory: attempt_directory(storage, *plan.id(), *job.id(), attempt.number),
            names,
            seals,
        })
    }

    async fn rest(self, host: &Host) {
        for name in self.names {
            if name.was_begun(&self.directory) {
                halt(&self.directory, &name.id(), host.options.job.grace).await;
            }
        }
        if self.seals {
            job::seal(host, self.owner).await;
        }
    }
}

/// Ends what may be left of the attempts of jobs that are over, and notes what they left in their worktrees;
/// until that is done nothing of the plan begins, and nothing of it is removed.
pub(super) fn rest(engine: &mut Engine, id: PlanId, jobs: &[JobId]) {
    let Some(plan) = engine.plans.get(&id) else {
        return;
    };
    let storage = &engine.host.options.storage;
    let found = jobs.iter().filter_map(|job| plan.job(job));
    let left: Vec<Left> = found
        .filter_map(|job| Left::of(plan, job, storage))
        .collect();
    if left.is_empty() {
        return;
    }
    *engine.resting.entry(id).or_default() += 1;
    let (host, events) = (Arc::clone(&engine.host), engine.events.clone());
    engine.help(Help::Rest(id), async move {
        let mut tasks = JoinSet::new();
        for left in left {
            let host = Arc::clone(&host);
            tasks.spawn(async move { left.rest(&host).await });
        }
        // One that panicked has left what it was to end as it is.
        while tasks.join_next().await.is_some() {}
        // Who comes next does it again.
        let _ = events.send(Event::Rested(id)).await;
    });
}

/// Whether nothing of a plan is needed any more.
fn is_over(plan: &Plan) -> bool {
    plan.is_deleted() || matches!(plan.status(), PlanStatus::Canceled | PlanStatus::Archived)
}

impl Engine {
    /// Takes in that what was left of a plan has come to rest.
    pub(super) fn rested(&mut self, id: PlanId, turn: &mut Turn) {
        if let Some(count) = self.resting.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.resting.remove(&id);
            }
        }
        turn.touched.insert(id);
        if let Some(plan) = self.plans.get(&id) {
            turn.removable
                .extend(removable(plan).map(|job| (id, *job.id())));
        }
    }

    /// Takes in that worktrees were looked at which nobody needs.
    pub(super) fn swept(&mut self, plans: Vec<PlanId>, turn: &mut Turn) {
        for id in plans {
            self.cleaning.remove(&id);
            turn.touched.insert(id);
        }
    }

    /// Removes worktrees of plans that this workspace had and that need them no more, once after the start,
    /// when all that was left has come to rest. Plans that are over cannot be brought back meanwhile.
    pub(super) fn sweep(&mut self) {
        if !self.resting.is_empty() {
            return;
        }
        let Some(known) = self.to_sweep.take() else {
            return;
        };
        let (mut needed, mut over) = (HashSet::new(), Vec::new());
        let mut keeps = HashSet::new();
        for plan in self.plans.values() {
            let id = *plan.id();
            if !is_forgotten(plan) {
                keeps.insert(id);
            }
            if is_over(plan) && !self.cleaning.contains(&id) && !self.is_at_work(&id) {
                over.push(id);
                continue;
            }
            needed.insert(Owner::Snapshot(id));
            let jobs = plan.jobs().iter();
            needed.extend(jobs.map(|job| Owner::Job(id, *job.id())));
        }
        self.cleaning.extend(&over);
        let (host, events) = (Arc::clone(&self.host), self.events.clone());
        self.help(Help::Sweep(over.clone()), async move {
            // Those of plans that are not known belong to another workspace of the same repository.
            let keep = |owner: &Owner| needed.contains(owner) || !known.contains(&owner.plan());
            let swept = async {
                let repository = host.repository().await?;
                let forgotten = |plan: &PlanId| known.contains(plan) && !keeps.contains(plan);
                repository.forget_plans(forgotten).await?;
                repository.sweep(keep).await
            };
            match swept.await {
                Ok(swept) => {
                    let (removed, kept) = (swept.removed.len(), swept.kept.len());
                    tracing::debug!(removed, kept, "removed unused worktrees");
                }
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(%error, "cannot remove unused worktrees");
                }
            }
            // Who comes next sweeps again.
            let _ = events.send(Event::Swept(over)).await;
        });
    }
}

/// Removes old logs in the background, now and from time to time.
pub(super) fn collect(engine: &mut Engine) {
    let every = engine.host.options.collected_every;
    engine.collect_at = Instant::now().checked_add(every);
    let (host, folded) = (engine.host.clone(), engine.folded.clone());
    let storage = host.options.storage.clone();
    let plans = engine.plans.values();
    let mut attempts: Vec<Logged> = plans.flat_map(|plan| logged(plan, &storage)).collect();
    let shelved = engine.on_shelf();
    let policy = host.options.kept;
    engine.help(Help::Other, async move {
        let collected = tokio::task::spawn_blocking(move || {
            for id in shelved {
                // One that was deleted meanwhile has none, and of one that cannot be read they stay.
                if let Ok(Some(plan)) = folded.kept(id) {
                    attempts.extend(logged(&plan, &storage));
                }
                folded.forget(&id);
            }
            let kept = attempts
                .into_iter()
                .map(|(directory, ended, failed, newest)| {
                    Kept::of(directory, ended.map(Millis::get), failed, newest)
                });
            let kept = kept.collect::<io::Result<Vec<Kept>>>()?;
            logs::collect(&kept, policy, now().get())
        });
        match collected.await {
            Ok(Ok(collected)) => tracing::debug!(?collected, "removed old logs"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot remove old logs"),
            Err(_) => {}
        }
    });
}

/// Where an attempt has its logs, when it ended, and whether it failed and is the newest of its job.
type Logged = (PathBuf, Option<Millis>, bool, bool);

/// All attempts of a plan.
fn logged(plan: &Plan, storage: &Path) -> Vec<Logged> {
    let mut attempts = Vec::new();
    for job in plan.jobs() {
        let newest = job.attempt().map(|attempt| attempt.number);
        attempts.extend(job.attempts().iter().map(|attempt| {
            let directory = attempt_directory(storage, *plan.id(), *job.id(), attempt.number);
            let failed = attempt.status == AttemptStatus::Failed;
            let is_newest = newest == Some(attempt.number);
            (directory, attempt.ended_at, failed, is_newest)
        }));
    }
    attempts
}

fn has_worktrees(workspace: &Path) -> bool {
    let mut above = workspace.ancestors();
    above.any(|directory| directory.join(crate::git::WORKTREES).is_dir())
}
