//! The task that owns the plans: events in, decisions made durable, effects set in motion.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use orchestra_plan::{
    command::{Cx, Decision, Other, Refusal, Request},
    decide::decide,
    event::Event as PlanEvent,
    ids::{AttemptNumber, JobId, PlanId},
    outcome::Policy,
    plan::Plan,
    schedule::Scheduler,
    status::PlanStatus,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{Id, JoinSet},
    time::{Instant, sleep_until, timeout},
};

use self::resolve::Resolved;
use super::{
    branches::Prepared,
    clean::Cleaned,
    host::{Host, new_job_id},
    recover,
    teller::Told,
    turn::{AnswerTo, Turn},
};
use crate::{
    holder::{Refused, Slot, SlotError, Slots},
    journal::{Journal, Once, OnceKey},
    plans::{Folded, Order, now, refused},
};

mod answered;
mod asked;
mod effects;
mod fetch;
mod finish;
mod helpers;
mod jobs;
mod resolve;
mod retry;
mod shelf;
mod timing;

use answered::Answered;
pub(crate) use helpers::Help;
pub(crate) use retry::Again;
use retry::Retries;
use shelf::{Found, Shelf};

/// Events that wait; who has more to tell waits.
const QUEUE: usize = 1_024;

/// The most events of one turn.
const TURN: usize = 256;

/// How long what was begun may take to end when this process stops running the plans.
const ENDING: Duration = Duration::from_secs(2);

/// What comes to the engine.
#[derive(Debug)]
pub(crate) enum Event {
    /// Somebody asks for something.
    Asked {
        order: Box<Order>,
        once: Option<OnceKey>,
        answer: AnswerTo,
    },
    /// A job's task tells what came of its act.
    Told(Told),
    /// The branches of a plan are prepared, or cannot be.
    Prepared(Box<Prepared>),
    /// Worktrees were removed.
    Cleaned(Cleaned),
    /// Nothing of the attempts of a plan that are over is at work any more.
    Rested(PlanId),
    /// Worktrees that nobody needs were removed, these plans' among them.
    Swept(Vec<PlanId>),
    /// A plan was read that somebody asks for.
    Found(Box<Found>),
    /// It is known what became of a target, or cannot be.
    Resolved(Box<Resolved>),
    /// Remotes were fetched, as far as they could be.
    Fetched,
    /// A slot of the machine is free.
    Slot(Result<Slot, SlotError>),
    /// This process is to stop running the plans.
    End(oneshot::Sender<()>),
}

/// A job's task.
pub(crate) struct Running {
    pub(crate) plan: PlanId,
    pub(crate) attempt: AttemptNumber,
    pub(crate) stop: watch::Sender<bool>,
    /// It is had for as long as the task runs.
    pub(crate) _slot: Option<Slot>,
}

/// The owner of the plans.
pub(crate) struct Engine {
    pub(crate) host: Arc<Host>,
    pub(crate) journal: Journal,
    pub(crate) folded: Folded,
    pub(crate) plans: BTreeMap<PlanId, Plan>,
    /// Plans that are archived, and not in memory.
    shelf: Shelf,
    pub(crate) scheduler: Scheduler,
    pub(crate) policy: Policy,
    pub(crate) jobs: HashMap<JobId, Running>,
    pub(crate) tasks: JoinSet<()>,
    pub(crate) by_task: HashMap<Id, JobId>,
    helpers: JoinSet<()>,
    by_helper: HashMap<Id, Help>,
    /// Jobs of which it is being found out whether they moved the target.
    pub(crate) resolving: HashSet<JobId>,
    pub(crate) events: mpsc::Sender<Event>,
    queue: mpsc::Receiver<Event>,
    pub(crate) live: watch::Sender<bool>,
    /// What failed for good, in words.
    pub(crate) given_up: watch::Sender<Option<String>>,
    pub(crate) preparing: Option<PlanId>,
    /// Plans whose worktrees are being removed.
    pub(crate) cleaning: HashSet<PlanId>,
    /// Plans of which something that is over may still be at work, and how many look after that.
    pub(crate) resting: HashMap<PlanId, usize>,
    /// Jobs whose worktrees are being removed, and their plans.
    pub(crate) removing: HashMap<JobId, PlanId>,
    /// Plans of which nothing is left in the repository, and whether they keep no commits either.
    pub(crate) cleaned: HashMap<PlanId, bool>,
    /// What failed and is tried again.
    pub(crate) retries: Retries,
    /// Plans that wait for remotes to be fetched.
    fetching: BTreeSet<PlanId>,
    is_fetching: bool,
    /// All plans that ever were, until worktrees that none of them needs are removed.
    pub(crate) to_sweep: Option<HashSet<PlanId>>,
    /// Plans of which something could not be kept, and that may have jobs which nobody attends.
    unsettled: BTreeSet<PlanId>,
    answered: Answered,
    pub(crate) slots: Option<Slots>,
    pub(crate) slot: Option<Slot>,
    pub(crate) asks_for_slot: bool,
    /// When old logs are looked for.
    pub(crate) collect_at: Option<Instant>,
    again_at: Option<Instant>,
    is_lost: bool,
}

impl Engine {
    pub(crate) fn new(
        host: Arc<Host>,
        journal: Journal,
        folded: Folded,
        policy: Policy,
        slots: Option<Slots>,
    ) -> Self {
        let (events, queue) = mpsc::channel(QUEUE);
        let retries = Retries::new(&host.options.tried_again);
        Self {
            host,
            journal,
            folded,
            plans: BTreeMap::new(),
            shelf: Shelf::new(),
            scheduler: Scheduler::new(),
            policy,
            jobs: HashMap::new(),
            tasks: JoinSet::new(),
            by_task: HashMap::new(),
            helpers: JoinSet::new(),
            by_helper: HashMap::new(),
            resolving: HashSet::new(),
            events,
            queue,
            live: watch::Sender::new(false),
            given_up: watch::Sender::new(None),
            preparing: None,
            cleaning: HashSet::new(),
            resting: HashMap::new(),
            removing: HashMap::new(),
            cleaned: HashMap::new(),
            retries,
            fetching: BTreeSet::new(),
            is_fetching: false,
            to_sweep: None,
            unsettled: BTreeSet::new(),
            answered: Answered::default(),
            slots,
            slot: None,
            asks_for_slot: false,
            collect_at: None,
            again_at: None,
            is_lost: false,
        }
    }

    /// Runs the plans until it is told to end, or does not hold any more. `first` is the turn of recovery.
    pub(crate) async fn run(mut self, first: Turn) {
        let end = self.turns(first).await;
        // Whoever holds next must not meet what was begun here.
        let ended = async {
            self.tasks.shutdown().await;
            self.helpers.shutdown().await;
            self.host.landed().await;
        };
        if timeout(ENDING, ended).await.is_err() {
            tracing::warn!("a background task of the plans does not end");
        }
        // Who waits for it may be gone. Where nobody does, the end of `live` tells the seat.
        let _ = end.map(|end| end.send(()));
    }

    /// One turn after the other; the end is who waits for it, if anybody does.
    async fn turns(&mut self, first: Turn) -> Option<oneshot::Sender<()>> {
        let mut turn = first;
        loop {
            self.decide_rest(&mut turn);
            self.finish(turn).await;
            if self.is_lost {
                return None;
            }
            turn = Turn::default();
            let wake = self.wake_at();
            let end = tokio::select! {
                event = self.queue.recv() => self.take_some(event?, &mut turn),
                Some(ended) = self.tasks.join_next_with_id() => {
                    self.task_ended(&ended, &mut turn);
                    None
                }
                Some(ended) = self.helpers.join_next_with_id() => {
                    self.helper_ended(&ended, &mut turn);
                    None
                }
                () = until(wake) => {
                    self.again_at = None;
                    self.clock(&mut turn);
                    None
                }
            };
            if end.is_some() {
                // What was decided with it is kept before.
                self.finish(turn).await;
                return end;
            }
        }
    }

    /// Takes an event and what waits behind it.
    fn take_some(&mut self, first: Event, turn: &mut Turn) -> Option<oneshot::Sender<()>> {
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(event) = next {
            match event {
                Event::End(end) => return Some(end),
                Event::Asked {
                    order,
                    once,
                    answer,
                } => self.asked(*order, once, answer, turn),
                Event::Told(told) => self.told(told, turn),
                Event::Prepared(prepared) => self.prepared(*prepared, turn),
                Event::Cleaned(cleaned) => self.cleaned(cleaned, turn),
                Event::Rested(plan) => self.rested(plan, turn),
                Event::Swept(plans) => self.swept(plans, turn),
                Event::Found(found) => self.found(*found, turn),
                Event::Resolved(resolved) => self.resolved(*resolved, turn),
                Event::Fetched => self.fetched(turn),
                Event::Slot(slot) => {
                    self.asks_for_slot = false;
                    match slot {
                        Ok(slot) => self.slot = Some(slot),
                        Err(error) => tracing::warn!(%error, "cannot get a slot of the machine"),
                    }
                }
            }
            taken += 1;
            next = match taken < TURN {
                true => self.queue.try_recv().ok(),
                false => None,
            };
        }
        None
    }

    /// Decides what follows from what was decided: plans that waited for others, jobs that may start.
    fn decide_rest(&mut self, turn: &mut Turn) {
        for id in std::mem::take(&mut self.unsettled) {
            recover::settle(self, id, turn);
        }
        self.tell_waiting(turn);
        self.schedule(turn);
    }

    /// Decides a request about a plan and takes the events in; they are kept with the turn.
    pub(crate) fn change(
        &mut self,
        id: PlanId,
        request: Request,
        turn: &mut Turn,
    ) -> Result<Decision, Refusal> {
        let decision = self.decide(id, request)?;
        if let Err(error) = self.take_in(id, &decision.events, None, turn) {
            // Without it nothing of the plan may go on here.
            tracing::error!(%id, error = error.message, "cannot write an event of a plan");
            self.is_lost = true;
        }
        Ok(decision)
    }

    /// Decides a request about a plan; nothing is changed yet.
    fn decide(&self, id: PlanId, request: Request) -> Result<Decision, Refusal> {
        let plan = self.plans.get(&id).ok_or_else(|| unknown_plan(&id))?;
        let others = |id: &PlanId| self.other(id);
        let mut cx = Cx {
            now: now(),
            policy: &self.policy,
            ids: &mut new_job_id,
            others: &others,
        };
        decide(plan, request, &mut cx)
    }

    fn other(&self, id: &PlanId) -> Option<Other> {
        if let Some(shelved) = self.shelf.get(id) {
            return Some(Other {
                status: PlanStatus::Archived,
                after: shelved.after,
            });
        }
        let plan = self.plans.get(id).filter(|plan| !plan.is_deleted())?;
        Some(Other {
            status: plan.status(),
            after: plan.settings().resume_after_plan,
        })
    }

    /// Takes events of a plan in.
    ///
    /// # Errors
    /// When one cannot be written, and then none is taken in; or one does not fit, and then nothing of the turn
    /// is kept.
    fn take_in(
        &mut self,
        id: PlanId,
        events: &[PlanEvent],
        once: Option<Once>,
        turn: &mut Turn,
    ) -> Result<(), Refused> {
        let Some(plan) = self.plans.get_mut(&id) else {
            return Ok(());
        };
        let expected = plan.version();
        turn.keep(id, expected, events, once)?;
        for event in events {
            let changes = plan.apply(event);
            if let Some(misfit) = changes.refused {
                // Nobody could read the plan any more: nothing of the turn is kept.
                self.is_lost = true;
                let what = format!("an event does not fit plan {id}: {misfit}");
                return Err(refused("internal", &what));
            }
            self.scheduler.observe(plan, &changes);
            turn.note(id, &changes);
        }
        if plan.is_deleted() {
            // Whoever waits for it hears that it is gone, whether or not it had ended before.
            turn.moved.insert(id);
        }
        Ok(())
    }
}

fn unknown_plan(id: &PlanId) -> Refusal {
    let words = format!("plan {id} no longer exists");
    Refusal::new(orchestra_plan::command::Code::UnknownPlan, words)
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
