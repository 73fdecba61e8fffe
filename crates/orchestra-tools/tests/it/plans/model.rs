//! Plans that a model keeps: what the pure crate decides, at once and in memory. Its jobs do nothing; a
//! test says which of their phases fail.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use orchestra_hub::BoxFuture;
use orchestra_plan::command::{Command, Cx, Decision, NewPlan, Other, Refusal, Report, Request};
use orchestra_plan::decide::{cloned, create, decide, repeats};
use orchestra_plan::event::{Branches, Event, Failure, FailureKind, MergeIntent};
use orchestra_plan::ids::{AttemptNumber, Branch, Commit, JobId, Millis, PlanId};
use orchestra_plan::outcome::Policy;
use orchestra_plan::phase::Phase;
use orchestra_plan::plan::{Plan, Step, Task, Work};
use orchestra_plan::schedule::{Limits, Scheduler, waiting};
use orchestra_plan::spec::Name;
use orchestra_plan::view::{PlanView, plan as view};
use orchestra_runner::logs::{Line, Page, Query, Stream};
use orchestra_tools::{Asking, Done, DoneItem, Make, PlanFault, PlanService, PutAway};
use tokio::sync::watch;

/// Plans of a model. Clones are the same.
#[derive(Clone)]
pub(crate) struct Model(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    plans: BTreeMap<PlanId, Plan>,
    logs: BTreeMap<(JobId, u32), Vec<Line>>,
    archived: Vec<(PlanId, bool, bool)>,
    warnings: Vec<String>,
    now: u64,
    ids: u64,
    /// The producer ids and phases that fail.
    failing: Vec<(String, Phase)>,
}

impl State {
    fn with_cx<T>(&mut self, act: impl FnOnce(&mut BTreeMap<PlanId, Plan>, &mut Cx<'_>) -> T) -> T {
        self.now += 1;
        let policy = Policy {
            has_healer: false,
            ..Policy::default()
        };
        let others: BTreeMap<PlanId, Other> = self
            .plans
            .values()
            .map(|plan| {
                let (status, after) = (plan.status(), plan.settings().resume_after_plan);
                (*plan.id(), Other { status, after })
            })
            .collect();
        let mut ids = || {
            self.ids += 1;
            JobId::of_random(u128::from(self.ids).to_be_bytes())
        };
        let mut cx = Cx {
            now: Millis::new(1_771_077_345_000 + self.now),
            policy: &policy,
            ids: &mut ids,
            others: &|id| others.get(id).copied(),
        };
        act(&mut self.plans, &mut cx)
    }

    fn ask(&mut self, id: PlanId, request: Request) -> Result<Decision, Refusal> {
        self.with_cx(|plans, cx| {
            let plan = plans.get_mut(&id).unwrap();
            let decision = decide(plan, request, cx)?;
            for event in &decision.events {
                let changes = plan.apply(event);
                assert_eq!(changes.refused, None, "{event:?}");
            }
            Ok(decision)
        })
    }

    fn command(&mut self, id: PlanId, command: Command) -> Decision {
        self.ask(id, Request::of(command)).unwrap()
    }

    fn plan(&self, id: &PlanId) -> &Plan {
        &self.plans[id]
    }

    fn make(
        &mut self,
        new: impl FnOnce(PlanId) -> NewPlan,
        by: Option<String>,
    ) -> Result<PlanId, Refusal> {
        self.ids += 1;
        let id = PlanId::of_random(u128::from(self.ids).to_be_bytes());
        let new = new(id);
        self.with_cx(|plans, cx| {
            let event: Event = create(new, by, cx)?;
            plans.insert(id, Plan::start(&event).unwrap());
            Ok(id)
        })
    }

    /// Makes a plan, unless the same was made under its key before.
    fn make_once(&mut self, mut new: NewPlan, asking: Asking) -> Result<Done, PlanFault> {
        new.take_mark();
        if let Some(id) = self.with_key(&asking) {
            repeats(self.plan(&id), &new)?;
            return Ok(self.done(id, Vec::new(), true));
        }
        let made = self.make(|id| NewPlan { id, ..new }, asking.by)?;
        Ok(self.done(made, Vec::new(), false))
    }

    fn with_key(&self, asking: &Asking) -> Option<PlanId> {
        let key = asking.key.as_deref()?;
        let mut plans = self.plans.values();
        plans
            .find(|plan| plan.seen(key) == Some(1))
            .map(|plan| *plan.id())
    }

    fn done(&self, id: PlanId, items: Vec<DoneItem>, repeated: bool) -> Done {
        let plan = self.plan(&id);
        Done {
            plan: id,
            version: plan.version(),
            status: plan.status(),
            items,
            repeated,
            agents: Vec::new(),
            warnings: self.warnings.clone(),
        }
    }

    fn report(&mut self, id: PlanId, task: (JobId, AttemptNumber), report: Report) {
        let (job, attempt) = task;
        self.command(
            id,
            Command::Report {
                job,
                attempt,
                report,
            },
        );
    }

    /// Takes each job that can do something one step on.
    fn step(&mut self, id: PlanId) -> bool {
        if self.plan(&id).wants_branches() {
            self.command(id, Command::BranchesReady(branches()));
        }
        let plan = self.plan(&id).clone();
        if plan.is_open() {
            for job in plan.ready() {
                self.command(id, Command::Schedule { job: *job.id() });
            }
        }
        let active: Vec<JobId> = self.plan(&id).active().map(|job| *job.id()).collect();
        for job in &active {
            let plan = self.plan(&id).clone();
            match plan.next(plan.job(job).unwrap()) {
                Step::Begin { .. } => drop(self.command(id, Command::Begin { job: *job })),
                Step::Do(task) => {
                    let at = (*job, task.attempt.number);
                    self.report(id, at, Report::ActBegan(task.act));
                }
                Step::UnderWay(task) => self.finish(id, &task),
                step => panic!("{step:?}"),
            }
        }
        !active.is_empty()
    }

    fn finish(&mut self, id: PlanId, task: &Task<'_>) {
        let (job, act) = (*task.job.id(), task.act);
        let at = (job, task.attempt.number);
        let number = task.attempt.number.get();
        let phase = act.phase.as_str();
        self.print(
            job,
            number,
            phase,
            Stream::Out,
            &format!("{phase} of {}", task.job.producer()),
        );
        let name = task.job.producer().as_str();
        let usage = orchestra_plan::budget::Usage::default();
        if self
            .failing
            .iter()
            .any(|(job, phase)| job == name && *phase == act.phase)
        {
            self.print(job, number, phase, Stream::Err, "it went wrong");
            let failure = Failure::new(FailureKind::ExitCode, "exit code 1");
            return self.report(
                id,
                at,
                Report::ActFailed {
                    act,
                    failure,
                    usage,
                    ended: None,
                },
            );
        }
        let commit = commit(self.now);
        let reached = match &task.work {
            Work::Integrate { .. } => {
                let path = format!("/worktrees/{job}");
                let base = commit.clone();
                self.report(
                    id,
                    at,
                    Report::WorktreeReady {
                        path,
                        base,
                        fresh: true,
                        sets_up: false,
                    },
                );
                Some(commit)
            }
            Work::Commit { .. } => Some(commit),
            Work::Merge { .. } => {
                let target = Branch::parse("orchestra/x").unwrap();
                let new = task.attempt.commit.clone().unwrap();
                let intent = MergeIntent {
                    target,
                    old: None,
                    new: new.clone(),
                };
                self.report(id, at, Report::MergeIntended(intent));
                // That ends its act as well.
                return self.report(id, at, Report::Merged(new));
            }
            _ => None,
        };
        let (commit, summary) = (reached, None);
        self.report(
            id,
            at,
            Report::ActSucceeded {
                act,
                commit,
                summary,
                usage,
                ended: None,
            },
        );
    }

    fn print(&mut self, job: JobId, attempt: u32, phase: &str, stream: Stream, text: &str) {
        let lines = self.logs.entry((job, attempt)).or_default();
        lines.push(Line {
            ts: self.now,
            seq: lines.len() as u64 + 1,
            attempt,
            phase: phase.to_owned(),
            run: 1,
            stream,
            text: text.to_owned(),
            more: false,
        });
    }
}

fn commit(number: u64) -> Commit {
    Commit::parse(&format!("{number:040x}")).unwrap()
}

fn branches() -> Branches {
    Branches {
        base: Branch::parse("main").unwrap(),
        base_commit: commit(1),
        target: Branch::parse("orchestra/x").unwrap(),
        target_made: true,
        snapshot: Branch::parse("orchestrator/snapshot/x").unwrap(),
    }
}

impl Model {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            state: Mutex::default(),
            changes: watch::Sender::new(0),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    fn changed(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    /// From now on this is to be known of whatever is done.
    pub(crate) fn warn(&self, warning: &str) {
        self.lock().warnings = vec![warning.to_owned()];
    }

    /// From now on these phases of these jobs fail.
    pub(crate) fn fail(&self, failing: &[(&str, Phase)]) {
        let all = failing
            .iter()
            .map(|(job, phase)| ((*job).to_owned(), *phase));
        self.lock().failing = all.collect();
    }

    /// Takes a plan one step on; `false` when nothing of it can go on.
    pub(crate) fn step(&self, id: &str) -> bool {
        let goes_on = self.lock().step(PlanId::parse(id).unwrap());
        self.changed();
        goes_on
    }

    /// Runs a plan until nothing of it can go on.
    pub(crate) fn run(&self, id: &str) {
        while self.step(id) {}
    }

    /// A plan as it is.
    pub(crate) fn of(&self, id: &str) -> Plan {
        self.lock().plan(&PlanId::parse(id).unwrap()).clone()
    }

    /// Prints lines into the log of the latest attempt of a job, with so much behind each.
    pub(crate) fn print(&self, id: &str, job: &str, count: usize, length: usize) {
        let plan = self.of(id);
        let job = plan.find(job).unwrap();
        let attempt = job.attempt().unwrap().number.get();
        let mut state = self.lock();
        for number in 1..=count {
            state.print(
                *job.id(),
                attempt,
                "work",
                Stream::Out,
                &match length {
                    0 => format!("line {number}"),
                    _ => format!("line {number} {}", "x".repeat(length)),
                },
            );
        }
    }

    /// What was put away, and how.
    pub(crate) fn put_away(&self) -> Vec<(PlanId, bool, bool)> {
        self.lock().archived.clone()
    }

    fn ready<T: Send + 'static>(value: Result<T, PlanFault>) -> BoxFuture<Result<T, PlanFault>> {
        Box::pin(async move {
            // Whoever keeps plans for real is waited for.
            tokio::task::yield_now().await;
            value
        })
    }
}

impl PlanService for Model {
    fn plans(&self) -> BoxFuture<Result<Vec<Arc<Plan>>, PlanFault>> {
        let state = self.lock();
        let plans = state.plans.values().filter(|plan| !plan.is_deleted());
        Self::ready(Ok(plans.cloned().map(Arc::new).collect()))
    }

    fn plan(&self, asked: &str) -> BoxFuture<Result<Arc<Plan>, PlanFault>> {
        let state = self.lock();
        let found = PlanId::parse(asked)
            .ok()
            .and_then(|id| state.plans.get(&id));
        let found = found.filter(|plan| !plan.is_deleted()).cloned();
        let unknown = || PlanFault::new("plan-unknown", format!("no plan is named `{asked:.100}`"));
        Self::ready(found.map(Arc::new).ok_or_else(unknown))
    }

    fn view(&self, plan: Arc<Plan>) -> BoxFuture<Result<PlanView, PlanFault>> {
        let mut scheduler = Scheduler::new();
        scheduler.load(&plan);
        let now = Millis::new(self.lock().now);
        let waits = |job: &_| waiting(&plan, job, &scheduler, &Limits::default(), now);
        Self::ready(Ok(view(&plan, &waits)))
    }

    fn create(&self, make: Make, asking: Asking) -> BoxFuture<Result<Done, PlanFault>> {
        let Make {
            settings,
            jobs,
            scaffolding,
        } = make;
        let new = NewPlan {
            id: PlanId::of_random([0; 16]),
            settings,
            jobs,
            scaffolding,
            source: None,
            mark: None,
            sandboxed: false,
        };
        Self::ready(self.lock().make_once(new, asking))
    }

    fn copy(
        &self,
        source: PlanId,
        name: Option<Name>,
        target: Option<Branch>,
        asking: Asking,
    ) -> BoxFuture<Result<Done, PlanFault>> {
        let mut state = self.lock();
        let mut new = cloned(state.plan(&source), source, name, target).unwrap();
        let key = asking.key.as_deref().map(|key| key.parse().unwrap());
        new.settings.idempotency_key = key;
        Self::ready(state.make_once(new, asking))
    }

    fn change(
        &self,
        plan: PlanId,
        command: Command,
        asking: Asking,
    ) -> BoxFuture<Result<Done, PlanFault>> {
        let mut state = self.lock();
        let request = Request {
            command,
            expected_version: asking.expected_version,
            key: asking.key,
            by: asking.by,
        };
        let decision = match state.ask(plan, request) {
            Ok(decision) => decision,
            Err(refusal) => return Self::ready(Err(refusal.into())),
        };
        let items = decision.items.into_iter().map(|item| DoneItem {
            asked: item.asked,
            job: item.job,
            refused: item.refused.map(Into::into),
        });
        let done = state.done(plan, items.collect(), decision.repeated);
        drop(state);
        self.changed();
        Self::ready(Ok(done))
    }

    fn archive(
        &self,
        plan: PlanId,
        force: bool,
        remote: bool,
        asking: Asking,
    ) -> BoxFuture<Result<PutAway, PlanFault>> {
        let before = self.lock().plan(&plan).clone();
        let changed = self.change(plan, Command::Archive { force }, asking);
        self.lock().archived.push((plan, force, remote));
        let worktrees = before
            .jobs()
            .iter()
            .filter_map(|job| job.worktree().map(str::to_owned));
        let mut branches = vec!["orchestrator/snapshot/x".to_owned()];
        branches.extend(remote.then(|| "origin/orchestra/x".to_owned()));
        let away = PutAway {
            worktrees: worktrees.collect(),
            branches,
            note: None,
            repeated: false,
        };
        Box::pin(async move {
            let repeated = changed.await?.repeated;
            Ok(PutAway { repeated, ..away })
        })
    }

    fn changed(&self, plan: PlanId, seen: u64) -> BoxFuture<Result<Arc<Plan>, PlanFault>> {
        let model = self.clone();
        let mut changes = self.0.changes.subscribe();
        Box::pin(async move {
            loop {
                let now = model.lock().plan(&plan).clone();
                if now.version() != seen {
                    return Ok(Arc::new(now));
                }
                changes.changed().await.unwrap();
            }
        })
    }

    fn log(
        &self,
        _: Arc<Plan>,
        job: JobId,
        attempt: Option<AttemptNumber>,
        query: Query,
    ) -> BoxFuture<Result<Option<Page>, PlanFault>> {
        let state = self.lock();
        let lines = attempt.and_then(|attempt| state.logs.get(&(job, attempt.get())));
        let Some(lines) = lines else {
            return Self::ready(Ok(None));
        };
        let after = query.after.unwrap_or(0);
        let is_wanted = |line: &&Line| {
            query
                .phase
                .as_ref()
                .is_none_or(|phase| *phase == line.phase)
        };
        let mut found: Vec<Line> = lines.iter().filter(is_wanted).cloned().collect();
        found.retain(|line| line.seq > after);
        if let Some(text) = query.contains.as_ref().map(|text| text.to_lowercase()) {
            found.retain(|line| line.text.to_lowercase().contains(&text));
        }
        let limit = query
            .limit
            .unwrap_or(usize::MAX)
            .min(orchestra_runner::logs::MAX_PAGE);
        let over = found.len().saturating_sub(limit);
        let more = !query.tail && over > 0;
        match query.tail {
            true => drop(found.drain(..over)),
            false => found.truncate(limit),
        }
        let next = found.last().map_or(after, |line| line.seq);
        Self::ready(Ok(Some(Page {
            lines: found,
            next,
            more,
            omitted: 0,
        })))
    }

    fn specs_directory(&self, plan: PlanId) -> PathBuf {
        PathBuf::from(format!("/plans/{plan}/specs"))
    }
}
