//! Looking at plans: which there are, how they stand, what they wait for, and what changes.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use orchestra_plan::{
    event::{Created, What},
    ids::{Branch, JobId, PlanId},
    plan::{Job, Plan},
    schedule::{Scheduler, Waiting, waiting},
    status::JobStatus,
};

use super::{
    Folded, Placed, Placement, Plans, PlansError, Standing, Unreadable, former, key_of, now, read,
};
use crate::{
    holder::{Role, Slots},
    journal::DATABASE,
    runner,
};

/// How many plans a message names.
const NAMED_MAX: usize = 10;

/// How long one wait for changes takes before it is renewed.
const WAIT: Duration = Duration::from_secs(30);

/// How long it may take until it is noticed that what plans are kept in is being removed.
const REMOVAL: Duration = Duration::from_secs(5);

/// How often the first plan of a workspace is looked for.
const LOOK: Duration = Duration::from_secs(1);

/// How often a process that only looks reads the place of the last event.
const LOOK_CLOSELY: Duration = Duration::from_millis(100);

impl Plans {
    /// Returns whether a branch exists and contains the merged results of a plan.
    ///
    /// # Errors
    /// When the repository cannot be read, or no longer contains a result.
    pub async fn is_result_on(&self, branch: &Branch, plan: &Plan) -> Result<bool, PlansError> {
        let repository = self.0.host.repository().await?;
        let Some(tip) = repository.tip(branch).await? else {
            return Ok(false);
        };
        for merged in plan.jobs().iter().filter_map(Job::merged) {
            if !repository.is_ancestor(merged, &tip).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All plans that can be read, in the order in which they were created. Those of the earlier system that
    /// lie where ours are kept come first, as archived.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(&self) -> Result<Vec<Arc<Plan>>, PlansError> {
        let (earlier, former) = (Arc::clone(&self.0.earlier), self.0.former.clone());
        let read = move |folded: &Folded| {
            // In this order: a plan that is moved meanwhile is in one of them.
            let mut former = former::plans(former.as_ref());
            let known = folded.known()?;
            let mut ours = folded.all()?;
            let moved: HashSet<PlanId> = ours.iter().map(|plan| *plan.id()).collect();
            former.retain(|plan| !known.contains(plan.id()) && !moved.contains(plan.id()));
            ours.extend(former);
            orchestra_sort::sort_by_key(&mut ours, |plan| (plan.created_at(), *plan.id()));
            let mut plans = earlier.all(&known);
            plans.extend(ours);
            Ok(plans)
        };
        self.folded(read).await
    }

    /// The plans that this program cannot read, as those that a newer one has changed.
    ///
    /// # Errors
    /// When nothing can be read.
    pub async fn unreadable(&self) -> Result<Vec<Unreadable>, PlansError> {
        let former = self.former_unreadable().await.unwrap_or_default();
        let read = |folded: &Folded| Ok(folded.all_kept()?.unreadable);
        let mut all = self.folded(read).await?;
        for unreadable in former {
            // It may have been moved meanwhile.
            if all.iter().all(|other| other.plan != unreadable.plan) {
                all.push(unreadable);
            }
        }
        Ok(all)
    }

    /// The plans in the working tree that this program cannot read and that were not moved yet.
    ///
    /// # Errors
    /// When their database cannot be read.
    pub async fn former_unreadable(&self) -> Result<Vec<Unreadable>, PlansError> {
        let Some(former) = self.0.former.clone() else {
            return Ok(Vec::new());
        };
        self.folded(move |folded| {
            let mut all = former::unreadable(&former)?;
            let known = folded.known().unwrap_or_default();
            all.retain(|unreadable| !known.contains(&unreadable.plan));
            Ok(all)
        })
        .await
    }

    /// A plan of the earlier system.
    async fn earlier(&self, plan: PlanId) -> Option<Arc<Plan>> {
        let earlier = Arc::clone(&self.0.earlier);
        let read = move |folded: &Folded| Ok(earlier.all(&folded.known()?));
        let plans = self.folded(read).await.unwrap_or_default();
        plans.into_iter().find(|found| *found.id() == plan)
    }

    /// Whether the earlier system made a plan.
    pub(super) async fn is_earlier(&self, plan: PlanId) -> bool {
        self.earlier(plan).await.is_some()
    }

    /// A plan that was not moved into the storage root yet.
    async fn former(&self, plan: PlanId) -> Option<Arc<Plan>> {
        let former = self.0.former.clone()?;
        let read = move |folded: &Folded| {
            let mut plans = former::plans(Some(&former)).into_iter();
            let found = plans.find(|found| *found.id() == plan);
            let known = folded.known()?;
            Ok(found.filter(|_| !known.contains(&plan)))
        };
        self.folded(read).await.ok()?
    }

    /// Reason that a plan does not change which was not moved yet; `None` for any other plan.
    pub async fn former_refusal(&self, plan: PlanId) -> Option<PlansError> {
        self.former(plan).await?;
        let (options, former) = (Arc::clone(&self.0.host.options), self.0.former.clone()?);
        let refusal = self.folded(move |_| Ok(former::refusal(&options, &former)));
        refusal.await.ok()
    }

    /// A plan.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub async fn plan(&self, plan: PlanId) -> Result<Arc<Plan>, PlansError> {
        if let Some(found) = self.folded(move |folded| folded.one(plan)).await? {
            return Ok(found);
        }
        if let Some(found) = self.former(plan).await {
            return Ok(found);
        }
        // It may have been moved meanwhile.
        if self.0.former.is_some()
            && let Some(found) = self.folded(move |folded| folded.one(plan)).await?
        {
            return Ok(found);
        }
        match self.earlier(plan).await {
            Some(found) => Ok(found),
            None => Err(self.unknown(&plan.to_string()).await),
        }
    }

    /// What a plan was made of, whatever it has become since; `None` for one that is not among ours.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn made_of(&self, plan: PlanId) -> Result<Option<Created>, PlansError> {
        self.folded(move |folded| {
            let page = folded.reader().events(&key_of(plan)?, 0, 1)?;
            let first = page.events.first().map(read::event_of).transpose()?;
            Ok(first.and_then(|event| match event.what {
                What::PlanCreated(created) => Some(*created),
                _ => None,
            }))
        })
        .await
    }

    /// The plan that a person means: by its id, the beginning of its id (eight digits at least), or a name
    /// that no other plan has.
    ///
    /// # Errors
    /// When none or several are meant, or they cannot be read.
    pub async fn find(&self, asked: &str) -> Result<Arc<Plan>, PlansError> {
        const SHORT_MIN: usize = 8;
        if let Ok(id) = PlanId::parse(asked) {
            return self.plan(id).await;
        }
        let wanted = asked.trim().to_lowercase();
        let plans = self.list().await?;
        let is_short = wanted.len() >= SHORT_MIN;
        let mut meant = plans.into_iter().filter(|plan| {
            plan.name().to_lowercase() == wanted
                || (is_short && plan.id().to_string().starts_with(&wanted))
        });
        match (meant.next(), meant.next()) {
            (Some(plan), None) => Ok(plan),
            (Some(first), Some(second)) => {
                let all = [first, second].into_iter().chain(meant);
                let ids = all.take(NAMED_MAX).map(|plan| plan.id().to_string());
                Err(PlansError::AmbiguousPlan {
                    asked: shortened(asked),
                    candidates: ids.collect::<Vec<_>>().join(", "),
                })
            }
            (None, _) => Err(self.unknown(asked).await),
        }
    }

    async fn unknown(&self, asked: &str) -> PlansError {
        for (checkout, plans) in self.elsewhere().await {
            let is_asked = |plan: &Arc<Plan>| {
                plan.id().to_string() == asked || plan.name().eq_ignore_ascii_case(asked.trim())
            };
            if plans.iter().any(is_asked) {
                return PlansError::Refused {
                    code: "plan-of-another-checkout".to_owned(),
                    message: format!(
                        "plan `{}` belongs to the checkout {} and runs there alone: use it in that directory",
                        shortened(asked),
                        checkout.display()
                    ),
                };
            }
        }
        let plans = self.list().await.unwrap_or_default();
        let named = plans.iter().rev().take(NAMED_MAX);
        let named: Vec<String> = named
            .map(|plan| format!("{} ({})", plan.name(), plan.id()))
            .collect();
        PlansError::UnknownPlan {
            asked: shortened(asked),
            known: match named.is_empty() {
                true => "none".to_owned(),
                false => named.join(", "),
            },
        }
    }

    /// Plans of the other checkouts of the repository, with the top of each. They run there alone; what cannot be read
    /// is skipped.
    pub async fn elsewhere(&self) -> Vec<(PathBuf, Vec<Arc<Plan>>)> {
        let Placement::Place(place) = self.options().placement.clone() else {
            return Vec::new();
        };
        let read = move |_: &Folded| {
            let plans = place.other_checkouts().into_iter().filter_map(|checkout| {
                let storage = checkout.own.join(Placement::NAME);
                let plans = Folded::new(&storage).all().ok()?;
                (!plans.is_empty()).then_some((checkout.top, plans))
            });
            Ok(plans.collect())
        };
        self.folded(read).await.unwrap_or_default()
    }

    /// What each job of a plan waits for, within the limits of this process.
    ///
    /// # Errors
    /// When the plans cannot be read.
    pub async fn waiting(&self, plan: &Plan) -> Result<Vec<(JobId, Waiting)>, PlansError> {
        let all = self.list().await?;
        let mut scheduler = Scheduler::new();
        for other in all
            .iter()
            .filter(|other| other.is_live() && other.id() != plan.id())
        {
            scheduler.load(other);
        }
        scheduler.load(plan);
        let settings = self.0.host.known_settings();
        let (mut limits, now) = (settings.limits, now());
        let waits = |job: &Job| job.status() == JobStatus::Ready;
        if let Some(machine) = self
            .options()
            .machine
            .clone()
            .filter(|_| plan.jobs().iter().any(waits))
        {
            limits.machine = number(machine.slots);
            let free = move || Slots::free(&machine.directory, runner::SLOTS, machine.slots);
            // What is not known keeps nobody waiting.
            limits.machine_free = tokio::task::spawn_blocking(free).await.ok().map(number);
        }
        let of = |job: &Job| (*job.id(), waiting(plan, job, &scheduler, &limits, now));
        Ok(plan.jobs().iter().map(of).collect())
    }

    /// The place of the last event of all plans; 0 where there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn last(&self) -> Result<u64, PlansError> {
        let last = self.folded(|folded| Ok(folded.reader().last()?)).await?;
        self.0.seen.fetch_max(last, Ordering::Relaxed);
        Ok(last)
    }

    /// The events of all plans after a place, in their order, at most `limit` and at most 1 000. Each comes
    /// once to who asks on from the last one that it got.
    ///
    /// # Errors
    /// When they cannot be read, or the first of them is damaged.
    pub async fn events(&self, after: u64, limit: u32) -> Result<Vec<Placed>, PlansError> {
        self.folded(move |folded| {
            let page = folded.reader().all_events(after, limit)?;
            match page.damage {
                Some(damage) if page.events.is_empty() => Err(damage.into()),
                _ => Ok(page.events.iter().filter_map(read::placed).collect()),
            }
        })
        .await
    }

    /// The place of the last event of all plans, as soon as it is after one, or after a while. Takes part
    /// where there are plans, since otherwise nothing may ever change. Where there are none, none may run, or this
    /// process only looks, the place is read now and then.
    ///
    /// # Errors
    /// When they cannot be read, nobody runs them, or what they are kept in was removed meanwhile.
    pub async fn changes(&self, after: u64, wait: Duration) -> Result<u64, PlansError> {
        let last = self.last().await?;
        // No place is used again: this is another database, or none.
        if last < after || last < self.0.seen.load(Ordering::Relaxed) {
            self.0.seen.store(last, Ordering::Relaxed);
            return Err(self.gone().await);
        }
        if last > after {
            return Ok(last);
        }
        if self.standing() == Standing::Apart {
            let every = match self.options().only_looks {
                true => Some(LOOK_CLOSELY),
                false if last == 0 || self.check_trust().await.is_err() => Some(LOOK),
                false => None,
            };
            if let Some(every) = every {
                tokio::time::sleep(wait.min(every)).await;
                return self.last().await;
            }
        }
        let seat = match last {
            0 => self.seat()?,
            _ => self.new_seat()?,
        };
        let changed = seat.changes(after, wait).await;
        self.or_gone(changed).await
    }

    /// Waits until a plan has ended, or is paused and nothing of it is at work.
    ///
    /// # Errors
    /// When there is no such plan, it cannot be read, nobody runs it, or what it is kept in was removed
    /// meanwhile.
    pub async fn wait(&self, plan: PlanId) -> Result<Arc<Plan>, PlansError> {
        let mut last = self.last().await?;
        loop {
            let found = match self.plan(plan).await {
                Err(PlansError::UnknownPlan { .. }) if self.is_removed().await => {
                    return Err(self.gone().await);
                }
                found => found?,
            };
            let rests = found.paused().is_some() && found.counts().active() == 0;
            if found.status().is_ended() || rests {
                return Ok(found);
            }
            // Whoever folds on what nobody else holds does not copy it.
            drop(found);
            last = self.changes(last, WAIT).await?;
        }
    }

    /// Whether this process had a part where a plan is not there since all of it is being removed.
    async fn is_removed(&self) -> bool {
        let seat = self.lock().clone();
        let Some(seat) = seat.filter(|_| !self.options().storage.join(DATABASE).exists()) else {
            return false;
        };
        let gone = seat.until(|role| matches!(role, Role::Gone));
        tokio::time::timeout(REMOVAL, gone).await.is_ok()
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn shortened(text: &str) -> String {
    text.chars()
        .filter(|char| !char.is_control())
        .take(100)
        .collect()
}
