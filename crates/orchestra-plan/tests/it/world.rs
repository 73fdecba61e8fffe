//! A machine with plans, a scheduler, a clock and a git that are all simulated.
//!
//! What a commit holds is a set of names: of the jobs whose work is in it, and of every other change
//! that somebody made, by hand or in a heal. So it can be told whether each job's work was done,
//! whether what was checked is what was committed, and what was verified what was merged. People
//! change worktrees by hand and remove them, targets move by themselves, the user checks out other
//! branches, and what a heal that failed has changed stays.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use orchestra_plan::command::{Command, Cx, Decision, NewPlan, Other, Refusal, Report, Request};
use orchestra_plan::decide::{create, decide};
use orchestra_plan::event::{Act, Branches, Event, Failure, FailureKind, MergeIntent};
use orchestra_plan::ids::{Branch, Commit, JobId, Millis, PlanId};
use orchestra_plan::outcome::Policy;
use orchestra_plan::phase::Phase;
use orchestra_plan::plan::{Plan, Step, Task, Work};
use orchestra_plan::pressure::Part;
use orchestra_plan::schedule::{Limits, Scheduler};
use orchestra_plan::status::JobStatus;

use crate::laws;
use crate::make::{Dice, job_id, work};
use crate::tree::{Target, Tree};

/// A plan that runs in a world.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) log: Vec<Event>,
    /// How often it ended, and how often it could have: once, and once more for each time it was
    /// asked again.
    pub(crate) ended: u32,
    pub(crate) merges: u32,
}

pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) now: u64,
    pub(crate) runs: Vec<Run>,
    pub(crate) scheduler: Scheduler,
    pub(crate) limits: Limits,
    pub(crate) policy: Policy,
    /// How many of a hundred acts fail.
    pub(crate) failures: usize,
    /// Whether the repository says itself how worktrees are made ready.
    pub(crate) sets_up: bool,
    ids: u64,
    commits: HashMap<Commit, BTreeSet<JobId>>,
    trees: HashMap<JobId, Tree>,
    targets: HashMap<PlanId, Target>,
    pub(crate) tally: BTreeMap<&'static str, u64>,
}

/// What the attempts of a job did, for a test that fails.
fn told(job: &orchestra_plan::plan::Job) -> String {
    let attempts = job.attempts().iter().map(|one| {
        let acts: Vec<String> = one.acts.iter().map(ToString::to_string).collect();
        let failure = one
            .failure
            .as_ref()
            .map(|(act, why)| (act.to_string(), why.kind));
        let (trigger, fresh) = (one.trigger, one.fresh);
        format!(
            "\n{trigger:?} {acts:?} done {} fresh {fresh} {failure:?}",
            one.done
        )
    });
    attempts.collect()
}

/// Whether a job changes anything itself, besides bringing together what others did. One that was split
/// may have left all of it to its parts.
fn does(plan: &Plan, job: &orchestra_plan::plan::Job) -> bool {
    let part = |other: &orchestra_plan::plan::Job| {
        other.definition().split_of.as_ref() == Some(job.producer())
    };
    !job.is_validation() && job.spec(Phase::Work).is_some() && !plan.jobs().iter().any(part)
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            now: 1000,
            runs: Vec::new(),
            scheduler: Scheduler::new(),
            limits: Limits::default(),
            policy: Policy::default(),
            failures: 20,
            sets_up: seed % 4 == 3,
            ids: 0,
            commits: HashMap::new(),
            trees: HashMap::new(),
            targets: HashMap::new(),
            tally: BTreeMap::new(),
        }
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn with_cx<T>(&mut self, act: impl FnOnce(&[Run], &mut Cx<'_>) -> T) -> T {
        let mut ids = self.ids;
        let mut next = || {
            ids += 1;
            job_id(ids)
        };
        let others: HashMap<PlanId, Other> = self
            .runs
            .iter()
            .filter(|run| !run.plan.is_deleted())
            .map(|run| {
                let after = run.plan.settings().resume_after_plan;
                (
                    *run.plan.id(),
                    Other {
                        status: run.plan.status(),
                        after,
                    },
                )
            })
            .collect();
        let mut cx = Cx {
            now: Millis::new(self.now),
            policy: &self.policy,
            ids: &mut next,
            others: &|id| others.get(id).copied(),
        };
        let done = act(&self.runs, &mut cx);
        self.ids = ids;
        done
    }

    pub(crate) fn create(&mut self, new: NewPlan) -> Result<usize, Refusal> {
        let event = self.with_cx(|_, cx| create(new, None, cx))?;
        let plan = Plan::start(&event).unwrap();
        laws::check(&plan);
        self.scheduler.load(&plan);
        self.runs.push(Run {
            plan,
            log: vec![event],
            ended: 0,
            merges: 0,
        });
        Ok(self.runs.len() - 1)
    }

    pub(crate) fn ask(&mut self, at: usize, request: Request) -> Result<Decision, Refusal> {
        let decision = self.with_cx(|runs, cx| decide(&runs[at].plan, request, cx))?;
        for event in &decision.events {
            self.apply(at, event);
        }
        Ok(decision)
    }

    pub(crate) fn command(&mut self, at: usize, command: Command) -> Result<Decision, Refusal> {
        let name = command.name();
        let result = self.ask(at, Request::of(command));
        if result.is_ok() {
            self.count(name);
        }
        result
    }

    fn apply(&mut self, at: usize, event: &Event) {
        let run = &mut self.runs[at];
        let changes = run.plan.apply(event);
        assert_eq!(changes.refused, None, "{event:?}");
        laws::check(&run.plan);
        run.log.push(event.clone());
        self.scheduler.observe(&run.plan, &changes);
        let id = *run.plan.id();
        if run.plan.is_deleted() {
            self.scheduler.remove(&id);
        }
        if changes.ended {
            run.ended += 1;
            self.count("plans ended");
        }
        let gone = self.runs[at].plan.is_deleted();
        if changes.ended || gone {
            let status = (!gone).then(|| self.runs[at].plan.status());
            for other in 0..self.runs.len() {
                let told = Command::OtherEnded { plan: id, status };
                if other != at && !self.runs[other].plan.is_deleted() {
                    self.command(other, told).unwrap();
                }
            }
        }
    }

    /// A change that no job made.
    fn change(&mut self) -> JobId {
        self.ids += 1;
        job_id(self.ids)
    }

    /// Somebody changes a worktree by hand or removes it, or the target moves.
    pub(crate) fn meddle(&mut self) {
        let at = self.dice.below(self.runs.len());
        let plan = &self.runs[at].plan;
        let (id, count) = (*plan.id(), plan.jobs().len());
        let place = self.dice.below(count);
        let job = &self.runs[at].plan.jobs()[place];
        let (own, busy) = (*job.id(), job.status().is_active());
        let failed = job.status() == JobStatus::Failed;
        let change = self.change();
        match self.dice.below(4) {
            0 => {
                self.count("targets moved");
                self.targets.entry(id).or_default().holds.insert(change);
            }
            1 if !busy && self.trees.remove(&own).is_some() => self.count("worktrees removed"),
            2 | 3 if failed => {
                if let Some(tree) = self.trees.get_mut(&own) {
                    tree.dirty.insert(change);
                    self.count("changes by hand");
                }
            }
            _ => {}
        }
    }

    /// Somebody removes the worktree of a job of the first plan.
    pub(crate) fn remove_worktree(&mut self, name: &str) {
        let job = self.runs[0].plan.find(name).unwrap();
        self.trees.remove(job.id()).unwrap();
    }

    /// Finds out what became of targets that were about to move when an attempt ended.
    fn resolve(&mut self) {
        for at in 0..self.runs.len() {
            let plan = &self.runs[at].plan;
            if plan.is_deleted() {
                continue;
            }
            let open: Vec<_> = plan
                .jobs()
                .iter()
                .filter_map(|job| match plan.next(job) {
                    Step::Resolve { attempt, intent } => Some((*job.id(), attempt, intent.clone())),
                    _ => None,
                })
                .collect();
            let moved = self
                .targets
                .get(plan.id())
                .is_some_and(|target| target.moved);
            for (job, attempt, intent) in open {
                let report = match moved {
                    true => Report::Merged(intent.new),
                    false => Report::MergeVoided,
                };
                self.count("moves resolved");
                self.command(
                    at,
                    Command::Report {
                        job,
                        attempt,
                        report,
                    },
                )
                .unwrap();
            }
        }
    }

    /// Prepares the branches of plans that want them.
    pub(crate) fn prepare(&mut self) {
        self.resolve();
        for at in 0..self.runs.len() {
            if !self.runs[at].plan.wants_branches() {
                continue;
            }
            if self.dice.percent(self.failures / 4) {
                let error = "the base is gone: create it".to_owned();
                self.command(at, Command::BranchesFailed { error }).unwrap();
                continue;
            }
            // The user is on another branch each time.
            let base = self.change();
            let branches = Branches {
                base: Branch::parse(&format!("branch-{base}")).unwrap(),
                base_commit: self.commit(BTreeSet::from([base])),
                target: Branch::parse(&format!("orchestra/{base}")).unwrap(),
                target_made: true,
                snapshot: Branch::parse("orchestrator/snapshot/x").unwrap(),
            };
            let target = self.targets.entry(*self.runs[at].plan.id()).or_default();
            target.base.get_or_insert(base);
            target.holds.insert(target.base.unwrap());
            self.command(at, Command::BranchesReady(branches)).unwrap();
            let used = &self.runs[at].plan.branches().unwrap().base_commit;
            let first = self.targets[self.runs[at].plan.id()].base.unwrap();
            assert!(
                self.commits[used].contains(&first),
                "the plan goes on from another base"
            );
        }
    }

    fn commit(&mut self, holds: BTreeSet<JobId>) -> Commit {
        let commit = Commit::parse(&format!("{:040x}", self.commits.len() + 1)).unwrap();
        self.commits.insert(commit.clone(), holds);
        commit
    }

    /// Gives slots to jobs.
    pub(crate) fn schedule(&mut self) -> usize {
        let starts = self.scheduler.next(&self.limits, Millis::new(self.now));
        let count = starts.len();
        for start in starts {
            let at = self.place(&start.plan);
            let done = self.command(at, Command::Schedule { job: start.job });
            done.unwrap();
            laws::within_limits(&self.scheduler, &self.limits, &self.runs[at].plan);
        }
        count
    }

    fn place(&self, plan: &PlanId) -> usize {
        self.runs
            .iter()
            .position(|run| run.plan.id() == plan)
            .unwrap()
    }

    /// All jobs that hold a slot.
    pub(crate) fn active(&self) -> Vec<(usize, JobId)> {
        let runs = self.runs.iter().enumerate();
        runs.flat_map(|(at, run)| run.plan.active().map(move |job| (at, *job.id())))
            .collect()
    }

    /// Takes one job one step on.
    pub(crate) fn advance(&mut self, at: usize, id: JobId) {
        let plan = self.runs[at].plan.clone();
        let job = plan.job(&id).unwrap();
        match plan.next(job) {
            Step::Begin { .. } if !plan.may_start(&id) => {
                let reason = "the plan is paused".to_owned();
                self.command(at, Command::Return { job: id, reason })
                    .unwrap();
            }
            Step::Begin { .. } => {
                self.command(at, Command::Begin { job: id }).unwrap();
            }
            Step::Do(task) => self.report(at, &task, Report::ActBegan(task.act)),
            Step::UnderWay(task) => self.finish(at, &plan, &task),
            Step::Resolve { .. } => self.resolve(),
            step => panic!("{step:?} of an active job"),
        }
    }

    fn report(&mut self, at: usize, task: &Task<'_>, report: Report) {
        let (job, attempt) = (*task.job.id(), task.attempt.number);
        self.command(
            at,
            Command::Report {
                job,
                attempt,
                report,
            },
        )
        .unwrap();
    }

    fn finish(&mut self, at: usize, plan: &Plan, task: &Task<'_>) {
        if task.act == Act::of(Phase::Work) && self.dice.percent(self.failures / 7) {
            self.split(at, task);
        }
        if self.dice.percent(self.failures) {
            self.fail(at, task);
        } else {
            self.succeed(at, plan, task);
        }
    }

    /// The agent hands on parts of its work; a job that was split before cannot be.
    fn split(&mut self, at: usize, task: &Task<'_>) {
        let part = Part {
            task: orchestra_plan::spec::Task::parse("the rest").unwrap(),
            work: work("@agent go on"),
        };
        let (job, attempt) = (*task.job.id(), task.attempt.number);
        let report = Report::Split(vec![part; 1 + self.dice.below(3)]);
        let done = self.command(
            at,
            Command::Report {
                job,
                attempt,
                report,
            },
        );
        self.count(if done.is_ok() {
            "splits"
        } else {
            "refused splits"
        });
    }

    fn usage(&mut self) -> orchestra_plan::budget::Usage {
        let tokens = if self.failures > 0 && self.dice.percent(30) {
            self.dice.below(100)
        } else {
            0
        };
        let input_tokens = u64::try_from(tokens).unwrap();
        orchestra_plan::budget::Usage {
            input_tokens,
            ..Default::default()
        }
    }

    fn fail(&mut self, at: usize, task: &Task<'_>) {
        let act = task.act;
        if self.dice.percent(15) {
            self.count("lost");
            return self.report(
                at,
                task,
                Report::Lost {
                    message: "it is gone".to_owned(),
                },
            );
        }
        let kind = match act.phase {
            Phase::MergeRi => self
                .dice
                .pick(&[FailureKind::TargetMoved, FailureKind::TargetDirty]),
            Phase::MergeFi => self.dice.pick(&[FailureKind::Conflict, FailureKind::Git]),
            Phase::Commit => FailureKind::NothingChanged,
            _ => self.dice.pick(&FailureKind::ALL),
        };
        if kind == FailureKind::TargetMoved && act.phase == Phase::MergeRi && self.dice.percent(50)
        {
            let intent = self.intent(at, task);
            self.report(at, task, Report::MergeIntended(intent));
            if self.dice.percent(50) {
                return self.cut(at, task);
            }
            self.report(at, task, Report::MergeVoided);
        }
        if act.heal {
            // What it has changed so far stays.
            let change = self.change();
            if let Some(tree) = self.trees.get_mut(task.job.id()) {
                tree.dirty.insert(change);
            }
        }
        if kind == FailureKind::Conflict && act == Act::of(Phase::MergeFi) {
            // There is a worktree, with the merge half done.
            if !self.bring_together(at, task) {
                return;
            }
        }
        self.count("failures");
        let usage = self.usage();
        let failure = Failure::new(kind, "it went wrong");
        self.report(
            at,
            task,
            Report::ActFailed {
                act,
                failure,
                usage,
                ended: None,
            },
        );
    }

    /// The attempt ends, one way or another, before it is told what became of the target.
    fn cut(&mut self, at: usize, task: &Task<'_>) {
        self.count("merges cut short");
        let command = match self.dice.below(3) {
            0 => Command::Cancel { reason: None },
            1 => Command::ForceFail {
                job: task.job.id().to_string(),
                reason: None,
            },
            _ => {
                let message = "it is gone".to_owned();
                return self.report(at, task, Report::Lost { message });
            }
        };
        self.command(at, command).unwrap();
    }

    fn intent(&mut self, at: usize, task: &Task<'_>) -> MergeIntent {
        let plan = &self.runs[at].plan;
        self.targets.get_mut(plan.id()).unwrap().moved = false;
        let target = plan.branches().unwrap().target.clone();
        let new = task.attempt.commit.clone().unwrap();
        MergeIntent {
            target,
            old: None,
            new,
        }
    }

    fn succeed(&mut self, at: usize, plan: &Plan, task: &Task<'_>) {
        let (id, act) = (*task.job.id(), task.act);
        let mut commit = None;
        match &task.work {
            Work::Integrate { .. } => {
                if !self.bring_together(at, task) {
                    return;
                }
                let head = self.trees[&id].committed.clone();
                commit = Some(self.commit(head));
            }
            Work::Heal { instead, .. } => {
                let change = self.change();
                let Some(tree) = self.trees.get_mut(&id) else {
                    // No agent works where nothing is, and none makes a worktree.
                    let failure = Failure::new(FailureKind::Worktree, "it is gone");
                    return self.failed(at, task, failure);
                };
                tree.dirty.insert(change);
                tree.dirty.extend(instead.then_some(id));
            }
            Work::Run { .. } | Work::Setup { .. } => self.ran(plan, task),
            Work::Commit { .. } => {
                commit = Some(self.commit_of(id));
            }
            Work::Merge { commit: tip, .. } => {
                let tip = tip.unwrap().clone();
                return self.merge(at, plan, task, &tip);
            }
        }
        let usage = self.usage();
        let summary = None;
        self.report(
            at,
            task,
            Report::ActSucceeded {
                act,
                commit,
                summary,
                usage,
                ended: None,
            },
        );
        self.check_done(at, id, act);
    }

    /// A check, the work, or what makes a worktree ready.
    fn ran(&mut self, plan: &Plan, task: &Task<'_>) {
        let tree = self.trees.get_mut(task.job.id()).unwrap();
        let sets_up = self.sets_up || !plan.settings().worktree_init.is_empty();
        assert!(
            tree.set_up || !sets_up || task.act.phase == Phase::Setup,
            "{} of {} in a worktree that was not made ready",
            task.act,
            task.job.producer()
        );
        match task.act.phase {
            Phase::Setup => tree.set_up = true,
            Phase::Work if task.job.is_validation() => tree.checked = Some(tree.seen()),
            Phase::Work => {
                tree.dirty.insert(*task.job.id());
            }
            Phase::Postchecks => tree.checked = Some(tree.seen()),
            _ => {}
        }
    }

    /// An act fails that has used nothing.
    fn failed(&mut self, at: usize, task: &Task<'_>, failure: Failure) {
        let (act, usage) = (task.act, Default::default());
        let failed = Report::ActFailed {
            act,
            failure,
            usage,
            ended: None,
        };
        self.report(at, task, failed);
    }

    fn merge(&mut self, at: usize, plan: &Plan, task: &Task<'_>, tip: &Commit) {
        let holds = self.commits[tip].clone();
        for job in plan.jobs().iter().filter(|job| does(plan, job)) {
            assert!(holds.contains(job.id()), "{} is not merged", job.producer());
        }
        let target = self.targets.entry(*plan.id()).or_default();
        if !target.holds.is_subset(&holds) {
            let failure = Failure::new(FailureKind::TargetMoved, "it has moved");
            return self.failed(at, task, failure);
        }
        if task.job.spec(Phase::Work).is_some() {
            let checked = self.trees[task.job.id()].checked.as_ref();
            assert_eq!(checked, Some(&holds), "what is merged was not verified");
        }
        let intent = self.intent(at, task);
        self.report(at, task, Report::MergeIntended(intent.clone()));
        let target = self.targets.get_mut(plan.id()).unwrap();
        target.moved = true;
        target.holds = holds;
        self.runs[at].merges += 1;
        if self.dice.percent(self.failures) {
            return self.cut(at, task);
        }
        self.report(at, task, Report::Merged(intent.new));
        let job = self.runs[at].plan.job(task.job.id()).unwrap();
        assert_eq!(job.status(), JobStatus::Succeeded);
    }

    /// Makes a worktree or finds it, and brings into it what the job builds on. Tells whether the
    /// attempt goes on.
    fn bring_together(&mut self, at: usize, task: &Task<'_>) -> bool {
        let Work::Integrate {
            commits,
            reuse,
            holds,
            clear,
            anew,
            with_target,
            ..
        } = &task.work
        else {
            panic!("{:?}", task.work)
        };
        let id = *task.job.id();
        let plan = &self.runs[at].plan;
        assert_eq!(commits.len(), plan.dependencies(task.job).count());
        let base = plan.branches().unwrap().base_commit.clone();
        let plan = *plan.id();
        let kept = self.trees.remove(&id);
        let kept = kept.filter(|_| reuse.is_some() && !clear && !anew);
        let fresh = kept.is_none();
        let mut tree = kept.unwrap_or_default();
        for commit in holds.iter().filter(|_| fresh) {
            tree.committed.extend(&self.commits[*commit]);
        }
        for commit in commits.iter().chain([&base]) {
            tree.committed.extend(&self.commits[commit]);
        }
        if *with_target {
            tree.committed.extend(&self.targets[&plan].holds);
        }
        let base = self.commit(tree.committed.clone());
        self.trees.insert(id, tree);
        let path = format!("/w/{id}");
        let sets_up = self.sets_up;
        let ready = Report::WorktreeReady {
            path,
            base,
            fresh,
            sets_up,
        };
        self.report(at, task, ready);
        let job = self.runs[at].plan.job(&id).unwrap();
        let goes_on = job.running().map(|one| one.number) == Some(task.attempt.number);
        if !goes_on {
            self.count("work that was gone");
        }
        goes_on
    }

    /// A commit of what is in a job's worktree.
    pub(crate) fn commit_of(&mut self, id: JobId) -> Commit {
        let tree = self.trees.get_mut(&id).unwrap();
        let dirty = std::mem::take(&mut tree.dirty);
        tree.committed.extend(dirty);
        let holds = tree.committed.clone();
        self.commit(holds)
    }

    /// What a job that has just succeeded must have done.
    fn check_done(&self, at: usize, id: JobId, last: Act) {
        let Some(job) = self.runs[at].plan.job(&id) else {
            return;
        };
        if job.status() != JobStatus::Succeeded || job.is_validation() {
            return;
        }
        let held = &self.commits[job.completed_commit().unwrap()];
        assert!(
            held.contains(&id) || !does(&self.runs[at].plan, job),
            "{} succeeded without its work, at {last}: {}",
            job.producer(),
            told(job)
        );
        let tree = &self.trees[&id];
        let split = job
            .history()
            .any(|change| change.to == JobStatus::CompletedSplit);
        if job.spec(Phase::Postchecks).is_some() && !split {
            let checked = tree.checked.as_ref();
            assert_eq!(
                checked,
                Some(held),
                "what {} has done is not what was checked: {}",
                job.producer(),
                told(job)
            );
        }
    }

    /// The program is killed and starts again: everything is read from the logs.
    pub(crate) fn crash(&mut self) {
        self.count("crashes");
        self.scheduler = Scheduler::new();
        for at in 0..self.runs.len() {
            let run = &mut self.runs[at];
            let read: Vec<Event> = run
                .log
                .iter()
                .map(|event| serde_json::from_str(&serde_json::to_string(event).unwrap()).unwrap())
                .collect();
            assert_eq!(read, run.log);
            let again = Plan::replay(&read).unwrap();
            assert_eq!(again, run.plan);
            run.plan = again;
            if !run.plan.is_deleted() {
                self.scheduler.load(&run.plan);
            }
        }
        for (at, id) in self.active() {
            let plan = self.runs[at].plan.clone();
            let found = plan.job(&id);
            match found.map(|job| plan.next(job)) {
                Some(Step::Begin { .. }) => {
                    let reason = "the runner is gone".to_owned();
                    self.command(at, Command::Return { job: id, reason })
                        .unwrap();
                }
                Some(Step::UnderWay(task) | Step::Do(task)) if self.dice.percent(50) => {
                    self.report(
                        at,
                        &task,
                        Report::Lost {
                            message: "crashed".to_owned(),
                        },
                    );
                }
                _ => {}
            }
        }
    }

    /// Time goes on, and what depends on it happens.
    pub(crate) fn tick(&mut self, by: u64) {
        self.now += by;
        for at in 0..self.runs.len() {
            let due = self.runs[at]
                .plan
                .deadline()
                .is_some_and(|at| at.get() <= self.now);
            if due {
                self.command(at, Command::Clock).unwrap();
            }
        }
    }

    /// Lets everything run to its end.
    pub(crate) fn drain(&mut self) {
        self.failures = 0;
        for _ in 0..200_000 {
            self.prepare();
            let started = self.schedule();
            let active = self.active();
            for (at, id) in &active {
                let still = self.runs[*at]
                    .plan
                    .job(id)
                    .is_some_and(|job| job.status().is_active());
                if still {
                    self.advance(*at, *id);
                }
            }
            self.tick(1);
            if started == 0 && active.is_empty() && self.active().is_empty() {
                match self.scheduler.wake_at() {
                    Some(at) => self.now = self.now.max(at.get()),
                    _ if self.runs.iter().any(|run| run.plan.wants_branches()) => {}
                    _ => return,
                }
            }
        }
        panic!("it goes on and on");
    }
}
