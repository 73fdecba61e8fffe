//! Who may start next, over all plans, within the limits.
//!
//! A [`Scheduler`] holds of each plan the jobs that are ready, in the order in which they should
//! start, and counts those that hold a slot. It is told of every change ([`Scheduler::observe`])
//! and looks at the changed jobs alone, so its work grows with what happens and not with what there
//! is. A job counts against the limits from the moment that [`Scheduler::next`] names it until it
//! ends.
//!
//! Between plans the one with the fewest jobs at work comes first, then the one that was served
//! longest ago. Within a plan further attempts come first, then jobs with more dependents, then
//! names. A plan or a class that is at its limit never holds up another. Jobs of a plan that an agent heals
//! start one after the other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;

use crate::ids::{JobId, Millis, PlanId};
use crate::plan::{Changes, Job, Plan};
use crate::status::JobStatus;
use crate::work::AdmissionClass as Class;

mod waiting;

pub use waiting::{Waiting, waiting};

/// How many jobs may hold a slot at once; 0 sets no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Over all plans and classes.
    pub total: u32,
    /// Jobs of the class agent.
    pub agents: u32,
    /// Jobs of the class shell.
    pub shells: u32,
    /// Jobs of the class process.
    pub processes: u32,
    /// How many more the machine has room for, where programs of other workspaces take part; absent
    /// where that is not asked.
    pub machine_free: Option<u32>,
    /// How many jobs the machine has room for in all, where that is asked.
    pub machine: u32,
}

impl Limits {
    /// The limit of a class.
    #[must_use]
    pub const fn of(&self, class: Class) -> u32 {
        match class {
            Class::Agent => self.agents,
            Class::Shell => self.shells,
            Class::Process => self.processes,
        }
    }
}

const CLASSES: [Class; 3] = [Class::Agent, Class::Shell, Class::Process];

const fn class_index(class: Class) -> usize {
    match class {
        Class::Agent => 0,
        Class::Shell => 1,
        Class::Process => 2,
    }
}

const fn has_room(used: u32, limit: u32) -> bool {
    limit == 0 || used < limit
}

/// A job that is to be scheduled and started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its plan.
    pub plan: PlanId,
    /// The job.
    pub job: JobId,
    /// What it counts as.
    pub class: Class,
}

/// The order within a plan: smaller starts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    first_attempt: bool,
    dependents: Reverse<u32>,
    name: Arc<str>,
    job: JobId,
    /// Whether an agent heals something in it: such jobs of a plan start one after the other, so that what one
    /// costs is known before the next.
    heals: bool,
}

impl Rank {
    fn of(job: &Job) -> Self {
        Self {
            first_attempt: job.attempts().is_empty(),
            dependents: Reverse(job.dependent_count()),
            name: Arc::from(job.name()),
            job: *job.id(),
            heals: job.has_heal(),
        }
    }
}

/// What the scheduler knows of a job that it holds.
#[derive(Clone, Debug)]
enum Entry {
    /// It may start when there is room.
    Queued(Class, Rank),
    /// It may be queued at a time.
    Delayed(Millis, Class, Rank),
    /// It holds a slot; whether an agent heals something in it.
    Active(Class, bool),
}

#[derive(Debug, Default)]
struct Lane {
    /// Whether the plan lets anything start.
    open: bool,
    limit: u32,
    active: u32,
    /// Number of active jobs that an agent heals.
    healing: u32,
    served: u64,
    entries: HashMap<JobId, Entry>,
    queues: [BTreeSet<Rank>; 3],
    delayed: BTreeSet<(Millis, JobId)>,
}

impl Lane {
    fn queued(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// The best queued job of the classes that have room; none that is healed while another is.
    fn best(&self, room: [bool; 3]) -> Option<(Class, &Rank)> {
        CLASSES
            .into_iter()
            .filter(|class| room[class_index(*class)])
            .filter_map(|class| {
                let mut queue = self.queues[class_index(class)].iter();
                let best = queue.find(|rank| !(rank.heals && self.healing > 0));
                Some((class, best?))
            })
            .min_by(|(_, left), (_, right)| left.cmp(right))
    }
}

/// Decides over many plans which jobs start; see the module's documentation.
#[derive(Debug, Default)]
pub struct Scheduler {
    lanes: BTreeMap<PlanId, Lane>,
    active: u32,
    by_class: [u32; 3],
    turn: u64,
    /// What time it was when it was asked last.
    now: Millis,
}

impl Scheduler {
    /// A scheduler that knows of no plan.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a plan whole, or anew: at start, and after its graph has changed.
    pub fn load(&mut self, plan: &Plan) {
        self.remove(plan.id());
        self.lanes.insert(*plan.id(), Lane::default());
        self.gate(plan);
        if plan.is_scaffolding() {
            // Nothing of it starts, and jobs are added to it one after the other.
            return;
        }
        for job in plan.jobs() {
            if job.status() == JobStatus::Ready || job.status().is_active() {
                self.refresh(plan, job.id());
            }
        }
    }

    /// Forgets a plan and the slots of its jobs.
    pub fn remove(&mut self, plan: &PlanId) {
        let Some(lane) = self.lanes.remove(plan) else {
            return;
        };
        for entry in lane.entries.values() {
            if let Entry::Active(class, _) = *entry {
                self.active = self.active.saturating_sub(1);
                let used = &mut self.by_class[class_index(class)];
                *used = used.saturating_sub(1);
            }
        }
    }

    /// Takes in what an event has changed in a plan; a plan not known yet is taken in whole.
    pub fn observe(&mut self, plan: &Plan, changes: &Changes) {
        if changes.relinked || !self.lanes.contains_key(plan.id()) {
            self.load(plan);
            return;
        }
        self.gate(plan);
        let moved = changes.moves.iter().map(|moved| &moved.job);
        for job in moved.chain(&changes.edited) {
            self.refresh(plan, job);
        }
    }

    /// Looks again at one job: also when a start that was named is not made after all.
    pub fn refresh(&mut self, plan: &Plan, job: &JobId) {
        let Some(lane) = self.lanes.get_mut(plan.id()) else {
            return;
        };
        match lane.entries.remove(job) {
            Some(Entry::Queued(class, rank)) => {
                lane.queues[class_index(class)].remove(&rank);
            }
            Some(Entry::Delayed(at, ..)) => {
                lane.delayed.remove(&(at, *job));
            }
            Some(Entry::Active(class, heals)) => {
                lane.active = lane.active.saturating_sub(1);
                lane.healing = lane.healing.saturating_sub(u32::from(heals));
                self.active = self.active.saturating_sub(1);
                let used = &mut self.by_class[class_index(class)];
                *used = used.saturating_sub(1);
            }
            None => {}
        }
        let Some(found) = plan.job(job) else {
            return;
        };
        let entry = if found.status().is_active() {
            let (class, heals) = (plan.class(found), found.has_heal());
            lane.active += 1;
            lane.healing += u32::from(heals);
            self.active += 1;
            self.by_class[class_index(class)] += 1;
            Entry::Active(class, heals)
        } else if found.status() != JobStatus::Ready || found.intent().is_some() {
            return;
        } else if let Some(at) = found.not_before().filter(|at| *at > self.now) {
            lane.delayed.insert((at, *job));
            Entry::Delayed(at, plan.class(found), Rank::of(found))
        } else {
            let (class, rank) = (plan.class(found), Rank::of(found));
            lane.queues[class_index(class)].insert(rank.clone());
            Entry::Queued(class, rank)
        };
        lane.entries.insert(*job, entry);
    }

    /// The jobs to start now, best first. Each holds a slot from here on: record it as scheduled
    /// and [`observe`](Self::observe) that, or [`refresh`](Self::refresh) it when it was refused.
    pub fn next(&mut self, limits: &Limits, now: Millis) -> Vec<Start> {
        self.now = now;
        let mut starts = Vec::new();
        let mut machine = limits.machine_free.unwrap_or(u32::MAX);
        for lane in self.lanes.values_mut() {
            wake(lane, now);
        }
        let mut heap: BinaryHeap<Reverse<(u32, u64, PlanId)>> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.open && lane.queued())
            .map(|(id, lane)| Reverse((lane.active, lane.served, *id)))
            .collect();
        while let Some(Reverse((_, _, id))) = heap.pop() {
            if machine == 0 || !has_room(self.active, limits.total) {
                break;
            }
            let room =
                CLASSES.map(|class| has_room(self.by_class[class_index(class)], limits.of(class)));
            let Some(lane) = self.lanes.get_mut(&id) else {
                continue;
            };
            if !has_room(lane.active, lane.limit) {
                continue;
            }
            let Some((class, rank)) = lane.best(room).map(|(class, rank)| (class, rank.clone()))
            else {
                continue;
            };
            lane.queues[class_index(class)].remove(&rank);
            lane.entries
                .insert(rank.job, Entry::Active(class, rank.heals));
            lane.active += 1;
            lane.healing += u32::from(rank.heals);
            self.active += 1;
            self.by_class[class_index(class)] += 1;
            machine = machine.saturating_sub(1);
            self.turn += 1;
            lane.served = self.turn;
            if lane.queued() {
                heap.push(Reverse((lane.active, lane.served, id)));
            }
            starts.push(Start {
                plan: id,
                job: rank.job,
                class,
            });
        }
        starts
    }

    /// When [`next`](Self::next) should be asked again although nothing has happened: the end of
    /// the shortest delay.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        self.lanes
            .values()
            .filter_map(|lane| lane.delayed.first().map(|(at, _)| *at))
            .min()
    }

    /// How many jobs hold a slot, over all plans.
    #[must_use]
    pub const fn active(&self) -> u32 {
        self.active
    }

    /// How many jobs of a class hold a slot.
    #[must_use]
    pub const fn active_of(&self, class: Class) -> u32 {
        self.by_class[class_index(class)]
    }

    /// How many jobs of a plan hold a slot.
    #[must_use]
    pub fn active_in(&self, plan: &PlanId) -> u32 {
        self.lanes.get(plan).map_or(0, |lane| lane.active)
    }

    fn gate(&mut self, plan: &Plan) {
        if let Some(lane) = self.lanes.get_mut(plan.id()) {
            lane.open = plan.is_open();
            lane.limit = plan.max_parallel();
        }
    }
}

/// Queues the delayed jobs whose time has come.
fn wake(lane: &mut Lane, now: Millis) {
    while let Some((at, job)) = lane.delayed.first().copied() {
        if at > now {
            return;
        }
        lane.delayed.pop_first();
        if let Some(Entry::Delayed(_, class, rank)) = lane.entries.remove(&job) {
            lane.queues[class_index(class)].insert(rank.clone());
            lane.entries.insert(job, Entry::Queued(class, rank));
        }
    }
}
