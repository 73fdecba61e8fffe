//! Removing worktrees that nobody needs any more.

use std::time::Duration;

use orchestra_plan::{
    command::{Command, Request},
    event::{Event as PlanEvent, What},
    ids::{Commit, JobId, PlanId},
    plan::{Job, Plan},
    status::PlanStatus,
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    engine::{Again, Engine, Event, Help},
    host::{Host, Patience},
    turn::Turn,
};
use crate::{
    cause::chain,
    git::{GitError, Owner, Removal, Swept},
    journal::{AppendError, Fresh, Journal},
    plans::{key_of, now},
};

/// How long after something could not be removed it is tried again at once, whatever was in the way.
const AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// What was removed.
#[derive(Debug)]
pub(crate) struct Cleaned {
    plan: PlanId,
    /// Jobs whose worktrees are gone.
    jobs: Vec<JobId>,
    /// The job whose worktree was to be removed; everything of the plan where there is none.
    one: Option<JobId>,
    /// Something could not be removed that nobody holds.
    failed: bool,
    /// Whether the commits of the plan are not kept any more.
    is_forgotten: bool,
}

impl Cleaned {
    /// All was to be removed, and nothing is known to be.
    pub(crate) const fn nothing(plan: PlanId) -> Self {
        Self {
            plan,
            jobs: Vec::new(),
            one: None,
            failed: true,
            is_forgotten: false,
        }
    }
}

/// A plan that is put away.
#[derive(Debug)]
pub(crate) struct Whole {
    plan: PlanId,
    /// Whose worktrees git may know.
    owners: Vec<Owner>,
    /// The worktrees that its jobs are known to have.
    worktrees: Vec<(Owner, JobId)>,
    known: Vec<Commit>,
    /// It is never brought back: its commits are not kept any more.
    is_forgotten: bool,
    /// It never had anything in the repository.
    is_untouched: bool,
}

/// The commits that a plan has made or begun from: nobody else's are lost with them.
pub(crate) fn known_of(plan: &Plan) -> impl Iterator<Item = Commit> {
    plan.jobs().iter().flat_map(|job| {
        let attempts = job.attempts().iter();
        let commits = attempts.flat_map(|attempt| [&attempt.commit, &attempt.base]);
        commits.flatten().cloned()
    })
}

impl Whole {
    pub(crate) fn of(plan: &Plan) -> Self {
        let known = known_of(plan);
        let worktrees = plan.jobs().iter().filter(|job| job.worktree().is_some());
        let is_untouched = plan.branches().is_none() && plan.started_at().is_none();
        Self {
            plan: *plan.id(),
            owners: plan.jobs().iter().map(|job| owner_of(plan, job)).collect(),
            worktrees: worktrees
                .map(|job| (owner_of(plan, job), *job.id()))
                .collect(),
            known: known.collect(),
            is_forgotten: is_forgotten(plan),
            is_untouched,
        }
    }
}

/// Whether a plan is put away for good, so that its commits are not kept any more.
pub(crate) fn is_forgotten(plan: &Plan) -> bool {
    plan.is_deleted() || plan.status() == PlanStatus::Archived
}

/// Whose the worktree of a job is.
pub(crate) fn owner_of(plan: &Plan, job: &Job) -> Owner {
    match job.is_validation() {
        true => Owner::Snapshot(*plan.id()),
        false => Owner::Job(*plan.id(), *job.id()),
    }
}

/// Removes all that a plan has in the repository, but for what others have put there, and its target.
pub(crate) async fn whole(host: &Host, whole: Whole, events: &mpsc::Sender<Event>) {
    let (mut jobs, mut failed) = (Vec::new(), false);
    if !whole.is_untouched {
        match removed(host, &whole).await {
            Ok(swept) => {
                for (owner, held) in &swept.kept {
                    // Who puts a plan away is told, and so is who asks the doctor.
                    tracing::info!(
                        plan = %owner.plan(),
                        worktree = %owner.directory(),
                        %held,
                        "worktree not removed: it contains files that Orchestra did not create"
                    );
                }
            }
            Err(error) => {
                failed = true;
                tracing::warn!(plan = %whole.plan, error, "cannot remove all worktrees of a plan");
            }
        }
        // Whoever has removed them: those that are gone.
        if let Ok(repository) = host.repository().await {
            let is_gone = |owner: Owner| matches!(repository.worktree(owner), Ok(None));
            let gone = whole.worktrees.iter().filter(|(owner, _)| is_gone(*owner));
            jobs.extend(gone.map(|(_, job)| *job));
        }
    }
    let cleaned = Cleaned {
        plan: whole.plan,
        jobs,
        one: None,
        failed,
        is_forgotten: whole.is_forgotten,
    };
    // Who comes next cleans again.
    let _ = events.send(Event::Cleaned(cleaned)).await;
}

async fn removed(host: &Host, whole: &Whole) -> Result<Swept, String> {
    let repository = host.repository().await.map_err(|error| chain(&error))?;
    let (mut patience, mut more) = (Patience::default(), AGAIN.iter());
    loop {
        let removed = async {
            let removed = repository.remove_plan(whole.plan, &whole.owners, &whole.known);
            let swept = removed.await?;
            if whole.is_forgotten {
                repository.forget_plan(whole.plan).await?;
            }
            Ok(swept)
        };
        match removed.await {
            Err(error) if patience.tries_again(&error).await => {}
            done => match (done, more.next()) {
                (Err(error), Some(pause)) if !matches!(error, GitError::Pipe { .. }) => {
                    tokio::time::sleep(*pause).await
                }
                (done, _) => return done.map_err(|error| chain(&error)),
            },
        }
    }
}

/// Removes a worktree, and with that of the snapshot its branch; `false` where it holds something.
async fn gone(host: &Host, owner: Owner, known: &[Commit]) -> Result<bool, GitError> {
    let repository = host.repository().await?;
    let is_gone = match repository.worktree(owner)? {
        None => {
            repository.forget_gone(owner).await?;
            true
        }
        Some(worktree) => match worktree.remove(known).await? {
            Removal::Removed => true,
            Removal::Kept(held) => {
                tracing::info!(?owner, ?held, "worktree not removed");
                false
            }
        },
    };
    if let (true, Owner::Snapshot(plan)) = (is_gone, owner) {
        repository.remove_snapshot(plan).await?;
    }
    Ok(is_gone)
}

/// Removes the worktree of a job whose work others have taken up.
async fn one(
    host: &Host,
    owner: Owner,
    job: JobId,
    known: &[Commit],
    events: &mpsc::Sender<Event>,
) {
    // It is never closed.
    let _turn = host.removals.acquire().await;
    let (mut patience, mut more) = (Patience::default(), AGAIN.iter());
    let is_gone = loop {
        match gone(host, owner, known).await {
            Err(error) if patience.tries_again(&error).await => {}
            done => match (done, more.next()) {
                (Err(error), Some(pause)) if !matches!(error, GitError::Pipe { .. }) => {
                    tokio::time::sleep(*pause).await
                }
                (done, _) => break done,
            },
        }
    };
    let failed = is_gone.is_err();
    let jobs = match is_gone {
        Ok(true) => vec![job],
        Ok(false) => Vec::new(),
        Err(error) => {
            tracing::warn!(%job, error = %chain(&error), "cannot remove a worktree");
            Vec::new()
        }
    };
    let cleaned = Cleaned {
        plan: owner.plan(),
        jobs,
        one: Some(job),
        failed,
        is_forgotten: false,
    };
    // Who comes next cleans again.
    let _ = events.send(Event::Cleaned(cleaned)).await;
}

/// Removes the data of a deleted plan.
async fn erase(journal: &Journal, plan: PlanId, version: u64) {
    let farewell = PlanEvent::new(now(), What::PlanDeleted {});
    let fresh = Fresh::new(farewell.at.get(), &farewell);
    let (Ok(key), Ok(fresh)) = (key_of(plan), fresh) else {
        return;
    };
    match journal.delete(key, version, fresh, None).await {
        Ok(_) | Err(AppendError::Deleted(_)) => {}
        Err(error) => {
            tracing::warn!(%plan, %error, "cannot remove the data of a deleted plan yet")
        }
    }
}

impl Engine {
    /// Removes the worktree of a job in the background.
    pub(super) fn clean_job(&mut self, id: PlanId, job: JobId) {
        let Some(plan) = self.plans.get(&id) else {
            return;
        };
        let Some(found) = plan.job(&job).filter(|found| found.removable()) else {
            return;
        };
        let owner = owner_of(plan, found);
        let known: Vec<Commit> = found.completed_commit().into_iter().cloned().collect();
        let waits = self.removing.contains_key(&job) || self.retries.waits(Again::Remove(id, job));
        if waits || self.is_put_away(&id) {
            return;
        }
        self.removing.insert(job, id);
        let (host, events) = (self.host.clone(), self.events.clone());
        self.help(Help::Remove(job), async move {
            one(&host, owner, job, &known, &events).await;
        });
    }

    /// Takes in which worktrees are gone.
    pub(super) fn cleaned(&mut self, cleaned: Cleaned, turn: &mut Turn) {
        let id = cleaned.plan;
        turn.touched.insert(id);
        for job in cleaned.jobs {
            let command = Command::WorktreeRemoved { job };
            if let Err(refusal) = self.change(id, Request::of(command), turn) {
                tracing::debug!(plan = %id, %job, %refusal, "cannot record that a worktree was removed");
            }
        }
        if let Some(job) = cleaned.one {
            self.removing.remove(&job);
            match cleaned.failed {
                true => drop(self.retries.failed(Again::Remove(id, job), Instant::now())),
                false => self.retries.done(Again::Remove(id, job)),
            }
            return;
        }
        self.cleaning.remove(&id);
        match cleaned.failed {
            true if self.retries.failed(Again::Clean(id), Instant::now()) => return,
            true => {}
            false => self.retries.removed(id),
        }
        self.cleaned.insert(id, cleaned.is_forgotten);
        let is_deleted = self.plans.get(&id).is_some_and(Plan::is_deleted);
        // It may have been deleted while it was put away less thoroughly: what it keeps goes first.
        if !is_deleted || !(cleaned.is_forgotten || cleaned.failed) {
            return;
        }
        if let Some(plan) = self.plans.remove(&id) {
            self.scheduler.remove(&id);
            self.retries.forget(id);
            turn.erased.push((id, plan.version()));
        }
    }

    /// Removes the data of a deleted plan in the background.
    pub(super) fn erase(&mut self, id: PlanId, version: u64) {
        let journal = self.journal.clone();
        self.help(Help::Erase, async move {
            erase(&journal, id, version).await;
        });
    }
}
