//! The runner of a workspace as the one who runs plans.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orchestra_hub::BoxFuture;
use orchestra_plan::{
    command::Command,
    ids::{AttemptNumber, Branch, JobId, PlanId},
    plan::{Job, Plan},
    spec::Name,
    status::PlanStatus,
    view::PlanView,
};
use orchestra_runner::{
    agents::Offer,
    logs::{Page, Query},
    plans::{Answer, Caller, Plans, PlansError},
};
use tokio::time::Instant;

use super::{Asking, Done, DoneItem, Make, PlanFault, PlanService, PutAway};

/// How long one wait for a change takes before it is renewed.
const WAIT: Duration = Duration::from_secs(30);
/// How long is waited for worktrees to be removed before those that are gone are told.
const REMOVAL: Duration = Duration::from_secs(10);

impl From<PlansError> for PlanFault {
    fn from(error: PlansError) -> Self {
        Self::new(error.code(), error.whole())
    }
}

impl From<Asking> for Caller {
    fn from(asking: Asking) -> Self {
        Self {
            by: asking.by,
            key: asking.key,
            expected_version: asking.expected_version,
        }
    }
}

impl From<Answer> for Done {
    fn from(answer: Answer) -> Self {
        let items = answer.items.into_iter().map(|item| DoneItem {
            asked: item.asked,
            job: item.job,
            refused: item
                .refused
                .map(|refused| PlanFault::new(refused.code, refused.message)),
        });
        Self {
            plan: answer.plan,
            version: answer.version,
            status: answer.status,
            items: items.collect(),
            repeated: answer.repeated,
            warnings: answer.warnings,
            agents: answer.agents,
        }
    }
}

impl PlanService for Plans {
    fn plans(&self) -> BoxFuture<Result<Vec<Arc<Plan>>, PlanFault>> {
        let plans = self.clone();
        Box::pin(async move { Ok(plans.list().await?) })
    }

    fn waiting_for_trust(&self) -> BoxFuture<Result<HashSet<PlanId>, PlanFault>> {
        let plans = self.clone();
        Box::pin(async move { Ok(plans.waiting_for_trust().await?) })
    }

    fn unreadable(&self) -> BoxFuture<Result<Vec<String>, PlanFault>> {
        let plans = self.clone();
        Box::pin(async move {
            let all = plans.unreadable().await?;
            Ok(all.into_iter().map(|unreadable| unreadable.what).collect())
        })
    }

    fn plan(&self, asked: &str) -> BoxFuture<Result<Arc<Plan>, PlanFault>> {
        let (plans, asked) = (self.clone(), asked.to_owned());
        Box::pin(async move { Ok(plans.find(&asked).await?) })
    }

    fn view(&self, plan: Arc<Plan>) -> BoxFuture<Result<PlanView, PlanFault>> {
        let plans = self.clone();
        Box::pin(async move { Ok(plans.view(&plan).await?) })
    }

    fn offers(&self, make: Make) -> BoxFuture<Vec<Offer>> {
        let plans = self.clone();
        Box::pin(async move { plans.roster(&make.settings, &make.jobs).await.offers })
    }

    fn offers_of(&self, plan: Arc<Plan>) -> BoxFuture<Vec<Offer>> {
        let plans = self.clone();
        Box::pin(async move { plans.roster_of(&plan).await.offers })
    }

    fn agree(&self, offer: Offer) -> BoxFuture<Result<(), PlanFault>> {
        let plans = self.clone();
        Box::pin(async move { Ok(plans.agree(offer).await?) })
    }

    fn create(&self, make: Make, asking: Asking) -> BoxFuture<Result<Done, PlanFault>> {
        let plans = self.clone();
        Box::pin(async move {
            let Make {
                settings,
                jobs,
                scaffolding,
            } = make;
            let caller = asking.into();
            let made = plans.create(settings, jobs, scaffolding, &caller).await?;
            Ok(made.into())
        })
    }

    fn copy(
        &self,
        source: PlanId,
        name: Option<Name>,
        target: Option<Branch>,
        asking: Asking,
    ) -> BoxFuture<Result<Done, PlanFault>> {
        let plans = self.clone();
        Box::pin(async move {
            Ok(plans
                .copy(source, name, target, &asking.into())
                .await?
                .into())
        })
    }

    fn change(
        &self,
        plan: PlanId,
        command: Command,
        asking: Asking,
    ) -> BoxFuture<Result<Done, PlanFault>> {
        let plans = self.clone();
        Box::pin(async move { Ok(plans.command(plan, command, &asking.into()).await?.into()) })
    }

    fn archive(
        &self,
        plan: PlanId,
        force: bool,
        remote: bool,
        asking: Asking,
    ) -> BoxFuture<Result<PutAway, PlanFault>> {
        let plans = self.clone();
        Box::pin(async move { archived(&plans, plan, force, remote, asking).await })
    }

    fn kept_worktrees(&self, before: Arc<Plan>) -> BoxFuture<Vec<String>> {
        let plans = self.clone();
        Box::pin(async move { kept(&plans, &before).await })
    }

    fn changed(&self, plan: PlanId, seen: u64) -> BoxFuture<Result<Arc<Plan>, PlanFault>> {
        let plans = self.clone();
        Box::pin(async move {
            loop {
                // What happens between the two is told by the wait.
                let last = plans.last().await?;
                let now = plans.plan(plan).await?;
                if now.version() != seen {
                    return Ok(now);
                }
                plans.changes(last, WAIT).await?;
            }
        })
    }

    fn log(
        &self,
        plan: Arc<Plan>,
        job: JobId,
        attempt: Option<AttemptNumber>,
        query: Query,
    ) -> BoxFuture<Result<Option<Page>, PlanFault>> {
        let plans = self.clone();
        Box::pin(async move {
            match plans.log_of(&plan, &job.to_string(), attempt)? {
                None => Ok(None),
                Some(log) => Ok(Some(plans.read_log(&log, query).await?)),
            }
        })
    }

    fn specs_directory(&self, plan: PlanId) -> PathBuf {
        let storage = &self.options().storage;
        storage.join(plan.to_string()).join("specs")
    }
}

/// Puts a plan away and waits until what nobody needs of it is removed.
async fn archived(
    plans: &Plans,
    id: PlanId,
    force: bool,
    remote: bool,
    asking: Asking,
) -> Result<PutAway, PlanFault> {
    let before = plans.plan(id).await?;
    let (archive, caller) = (Command::Archive { force }, asking.into());
    let repeated = plans.command(id, archive, &caller).await?.repeated;
    let end = Instant::now() + REMOVAL;
    let had = |plan: &Plan| plan.jobs().iter().any(|job| job.worktree().is_some());
    let mut after = plans.plan(id).await?;
    while had(&after) && Instant::now() < end {
        let last = plans.last().await?;
        after = plans.plan(id).await?;
        if had(&after) {
            plans
                .changes(last, end.saturating_duration_since(Instant::now()))
                .await?;
        }
    }
    let is_gone = |job: &&Job| {
        after
            .job(job.id())
            .is_none_or(|job| job.worktree().is_none())
    };
    let gone = before.jobs().iter().filter(is_gone);
    let still = after.jobs().iter().filter(|job| job.worktree().is_some());
    let still = still.count();
    let mut notes = Vec::new();
    if still > 0 {
        let kept = kept(plans, &before).await;
        if kept.is_empty() {
            notes.push(format!(
                "{still} of its worktrees still exist and are being removed."
            ));
        }
        notes.extend(kept);
    }
    let target = before.branches().map(|branches| branches.target.clone());
    notes.extend(target.filter(|_| remote).map(|target| {
        format!(
            "Plans never push. If you pushed `{target}`, remove it with `git push REMOTE --delete {}`.",
            orchestra_fs::quoted(target.as_str())
        )
    }));
    let worktrees = gone.filter_map(|job| job.worktree().map(str::to_owned));
    let snapshot = snapshot_of(&before).filter(|_| still == 0);
    Ok(PutAway {
        worktrees: worktrees.collect(),
        branches: snapshot.into_iter().collect(),
        note: (!notes.is_empty()).then(|| notes.join(" ")),
        repeated,
    })
}

/// Which worktrees of a plan stay that had ended before it was put away: what a job that is only just ended
/// leaves is not told from what somebody else has put there.
async fn kept(plans: &Plans, before: &Plan) -> Vec<String> {
    if !before.status().is_ended() {
        return Vec::new();
    }
    // Without a repository there are none.
    let kept = plans.kept_worktrees_of(before).await.unwrap_or_default();
    kept.iter().map(|kept| format!("Note: {kept}.")).collect()
}

/// The branch that a plan keeps for itself, as long as it has it: that goes with the worktree of the job that
/// validates it, and with what is put away.
fn snapshot_of(plan: &Plan) -> Option<String> {
    let is_put_away = plan.archived_at().is_some() || plan.status() == PlanStatus::Canceled;
    let validation = plan.validation().filter(|job| !job.attempts().is_empty());
    let is_cleaned = validation.is_some_and(|job| job.worktree().is_none());
    let branches = plan.branches().filter(|_| !is_put_away && !is_cleaned);
    branches.map(|branches| branches.snapshot.to_string())
}
