//! What follows from the end of an act: the next phase, a heal, a rerun, integration anew, or the
//! end.
//!
//! Everything that depends on configuration comes in with a [`Policy`], and what is decided goes
//! into the log, so that a log means the same whatever the configuration says later.
//!
//! The rules, in this order (sections 9 to 11 and 13 of the plan runner's specification):
//!
//! 1. The target moved while the result was validated: back to integration, a bounded number of
//!    times.
//! 2. A failure that passes by itself: the same phase again after a while, a bounded number of
//!    times. Where it interrupts a heal, the rerun is another heal and counts as one.
//! 3. An agent crashed: the same work again, with its session taken up.
//! 4. The failed work says from where to go on: again from there, without an agent.
//! 5. An agent heals it in the same worktree, and then the failed check itself is done again.
//! 6. The job fails.
//!
//! 3 to 5 share the attempts of a job ([`Policy::heals_max`]); the fifth is bounded for each plan as
//! well, in number and in cost. `autoHeal: false` turns all three off, `noAutoHeal` the fifth alone.

use std::time::Duration;

use crate::budget::{Micros, exceeded};
use crate::event::{Act, AttemptEnd, Failure, FailureKind, Next, Trigger};
use crate::ids::Millis;
use crate::phase::Phase;
use crate::plan::{Attempt, Job, Plan};
use crate::pressure::Splits;
use crate::work::WorkSpec;

mod resume;

pub(crate) use resume::held;
pub use resume::{after_gone, retry};
use resume::{is_healed, may_be_mended, resume_of};

/// Configuration of failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Maximum number of automatic attempts of a job: heals and reruns of all its phases together.
    pub heals_max: u32,
    /// Maximum number of heals by agents in a plan.
    pub plan_heals_max: u32,
    /// Maximum cost of all heals of a plan in millionths, as far as agents report it.
    pub heal_cost_max: u64,
    /// True if an agent may heal, besides the agents that jobs name for their work.
    pub has_healer: bool,
    /// Reason and next step added to a failure that an agent would heal if one were named.
    pub no_healer: String,
    /// Treatment of a job whose process or runner is gone.
    pub restart: Restart,
    /// Maximum number of losses of a job in a row before it fails.
    pub losses_max: u32,
    /// Maximum number of further integrations because the target moved.
    pub integrations_max: u32,
    /// Waits before each retry of a transient failure; the length is the number of retries.
    pub transient_waits: Vec<Duration>,
    /// Treatment of jobs whose agents run out of context.
    pub splits: Splits,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            heals_max: 2,
            plan_heals_max: 6,
            heal_cost_max: 2_000_000,
            has_healer: true,
            no_healer: NO_HEALER.to_owned(),
            restart: Restart::Resume,
            losses_max: 5,
            integrations_max: 10,
            transient_waits: [30, 60, 120].map(Duration::from_secs).to_vec(),
            splits: Splits::default(),
        }
    }
}

/// Treatment of a job whose process or runner is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Continues from the lost phase.
    Resume,
    /// The same, but once only.
    RetryOnce,
    /// It fails, and a person decides.
    Manual,
}

/// Acts of the next attempt of a job, in order.
#[must_use]
pub fn acts(plan: &Plan, job: &Job) -> Vec<Act> {
    let next = job.upcoming();
    let mut phases = Phase::ALL;
    if job.is_validation() {
        // What was mended is committed before it is verified: what is verified is what is merged,
        // and what the check leaves behind is not.
        phases.swap(
            crate::plan::index(Phase::Work),
            crate::plan::index(Phase::Commit),
        );
    }
    let mut acts: Vec<Act> = phases
        .into_iter()
        .filter(|phase| applies(plan, job, *phase))
        .map(Act::of)
        .collect();
    if let Some(phase) = next.heal {
        // Conflicts are healed before the merge is looked at again; all else in a worktree that is
        // whole.
        let place = usize::from(phase != Phase::MergeFi);
        acts.insert(place.min(acts.len()), Act::heal(phase));
    }
    acts
}

fn applies(plan: &Plan, job: &Job, phase: Phase) -> bool {
    let comes = phase >= job.upcoming().from;
    match phase {
        Phase::MergeFi => true,
        Phase::Setup => {
            let init = !plan.settings().worktree_init.is_empty();
            (init || job.sets_up) && (comes || !job.set_up)
        }
        // What brings the parts of a split job together is checked in its place.
        Phase::Postchecks if job.split => false,
        Phase::Prechecks | Phase::Work | Phase::Postchecks => comes && job.spec(phase).is_some(),
        // What validates leaves nothing behind to be merged, except what was mended there.
        Phase::Commit => match job.is_validation() {
            true => may_be_mended(job),
            false => comes,
        },
        Phase::MergeRi => job.is_validation(),
        Phase::Cleanup => false,
    }
}

/// Whether an agent that heals a phase does the job's work itself, because that is an agent's work
/// and is not done again after it.
#[must_use]
pub fn is_instead(job: &Job, phase: Phase) -> bool {
    phase == Phase::Work
        && !job.is_validation()
        && job.spec(phase).is_some_and(|spec| spec.agent().is_some())
}

/// Decides what follows a failure.
#[must_use]
pub fn after_failure(
    plan: &Plan,
    job: &Job,
    act: Act,
    failure: Failure,
    policy: &Policy,
    now: Millis,
) -> AttemptEnd {
    let failure = with_message(plan, job, act, failure.bounded());
    match follow_up(plan, job, act, &failure, policy, now) {
        Some((mut next, counted)) => {
            next.despite = next.despite.or(resume::allowed(job));
            AttemptEnd::Again {
                act,
                failure,
                next,
                counted,
            }
        }
        None => {
            let failure = match left_alone(plan, job, act, &failure, policy, now) {
                Some(why) => {
                    let message = format!("{}; {why}", failure.message);
                    Failure { message, ..failure }.bounded()
                }
                None => failure,
            };
            AttemptEnd::Failed { act, failure }
        }
    }
}

/// Reason and next step added to a failure where no agent is named to heal it.
pub const NO_HEALER: &str = "not healed: no agent is named for it; name one as `healer` of [plans] in your own \
                             orchestra.toml";

/// Reason against a further automatic attempt after a failure.
fn left_alone(
    plan: &Plan,
    job: &Job,
    act: Act,
    failure: &Failure,
    policy: &Policy,
    now: Millis,
) -> Option<String> {
    let unbounded = Policy {
        heals_max: u32::MAX,
        plan_heals_max: u32::MAX,
        heal_cost_max: u64::MAX,
        has_healer: true,
        ..policy.clone()
    };
    if policy.heals_max == 0 {
        // Off for all jobs.
        return None;
    }
    follow_up(plan, job, act, failure, &unbounded, now)?;
    exhausted(plan, job, policy)
}

/// The limit that is reached, so that no further heal of a job may begin.
fn exhausted(plan: &Plan, job: &Job, policy: &Policy) -> Option<String> {
    match job.tries() >= policy.heals_max {
        true => Some(format!(
            "not retried: the job has used its {} automatic attempts (`plans.heal_attempts`)",
            policy.heals_max
        )),
        false => unhealed(plan, job, policy),
    }
}

/// Reason that no agent may heal a job now.
fn unhealed(plan: &Plan, job: &Job, policy: &Policy) -> Option<String> {
    // An agent that the job names for its work may repair it.
    let own = job
        .spec(Phase::Work)
        .and_then(WorkSpec::agent)
        .is_some_and(|work| work.agent.is_some());
    if !(policy.has_healer || own) {
        return Some(policy.no_healer.clone());
    }
    if plan.heals() >= policy.plan_heals_max {
        return Some(format!(
            "not healed: the plan has used its {} heals (`plans.plan_heal_attempts`)",
            policy.plan_heals_max
        ));
    }
    (plan.heal_cost() >= policy.heal_cost_max).then(|| dear(plan.heal_cost(), policy))
}

/// States that heals have cost as much as they may.
fn dear(cost: u64, policy: &Policy) -> String {
    format!(
        "not healed again: heals of the plan have cost {} of {} USD (`plans.heal_cost_usd`)",
        Micros(cost),
        Micros(policy.heal_cost_max)
    )
}

/// The end of a heal, before it begins or while it runs, where heals of the plan have cost as much as they may.
pub(crate) fn too_dear(act: Act, cost: u64, policy: &Policy) -> AttemptEnd {
    let failure = Failure::new(FailureKind::BudgetExceeded, dear(cost, policy));
    AttemptEnd::Failed { act, failure }
}

/// The work that failed in a phase, where the job or its plan defines it.
pub(crate) fn failed_spec<'a>(
    plan: &'a Plan,
    job: &'a Job,
    phase: Phase,
    failure: &Failure,
) -> Option<&'a WorkSpec> {
    match phase {
        Phase::Setup => {
            let part = usize::try_from(failure.part?).ok()?;
            plan.settings().worktree_init.get(part)
        }
        other => job.spec(other),
    }
}

fn with_message(plan: &Plan, job: &Job, act: Act, failure: Failure) -> Failure {
    let told = failed_spec(plan, job, act.phase, &failure)
        .and_then(|spec| spec.on_failure.message.as_ref());
    match told.filter(|_| !act.heal) {
        Some(told) => {
            let message = format!("{}: {}", told.as_str(), failure.message);
            Failure { message, ..failure }.bounded()
        }
        None => failure,
    }
}

fn follow_up(
    plan: &Plan,
    job: &Job,
    act: Act,
    failure: &Failure,
    policy: &Policy,
    now: Millis,
) -> Option<(Next, bool)> {
    let phase = act.phase;
    if failure.kind == FailureKind::TargetMoved {
        let next = Next::whole(Trigger::PostchecksRevalidation);
        return (job.integrations < policy.integrations_max).then_some((next, false));
    }
    // A repeated heal is another heal, after any failure.
    let is_unhealed = || unhealed(plan, job, policy).is_some();
    let is_tried = job.tries() >= policy.heals_max;
    if failure.kind == FailureKind::Transient {
        if act.heal && (is_tried || is_unhealed()) {
            return None;
        }
        let wait = policy
            .transient_waits
            .get(usize::try_from(job.transients).ok()?)?;
        let mut next = again(job, act, Trigger::Transient);
        next.not_before = Some(now.after(*wait));
        return Some((next, act.heal));
    }
    if !job.definition().auto_heal || is_tried || over_budget(plan, job, now) {
        return None;
    }
    let spec = failed_spec(plan, job, phase, failure);
    let agent = act.heal || spec.is_some_and(|spec| spec.agent().is_some());
    if failure.kind == FailureKind::Signal && agent {
        if act.heal && is_unhealed() {
            return None;
        }
        return Some((again(job, act, Trigger::AutoHeal), true));
    }
    if !failure.kind.is_healable() {
        return None;
    }
    if let Some(from) = spec.and_then(|spec| spec.on_failure.resume_from_phase) {
        // Later than what failed would leave out what failed.
        let next = Next::resuming(Trigger::AutoHeal, from.get().min(phase));
        return Some((next, true));
    }
    let refused = spec.is_some_and(|spec| spec.on_failure.no_auto_heal);
    if refused || !phase.may_be_healed() || is_unhealed() {
        return None;
    }
    Some((heal(job, phase), true))
}

/// The same act again, with the agent's session taken up; a heal that was asked for and not done
/// stays.
fn again(job: &Job, act: Act, trigger: Trigger) -> Next {
    let before = job.upcoming();
    let mut next = match before.heal {
        Some(phase) if !is_healed(job, phase) => Next {
            heal: Some(phase),
            ..Next::resuming(trigger, before.from)
        },
        _ => Next::resuming(trigger, resume_of(job, act.phase, None)),
    };
    next.resume_session = true;
    next.despite = before.despite;
    // A requested new worktree is still requested, unless it was created.
    next.clear_worktree = before.clear_worktree && act.phase == Phase::MergeFi;
    next
}

fn heal(job: &Job, phase: Phase) -> Next {
    let from = match phase {
        Phase::Postchecks => Phase::Commit,
        Phase::Work if is_instead(job, phase) => Phase::Commit,
        // Changes of the agent are committed before they are checked.
        other => resume_of(job, other, None).min(Phase::Commit),
    };
    Next {
        heal: Some(phase),
        ..Next::resuming(Trigger::AutoHeal, from)
    }
}

fn over_budget(plan: &Plan, job: &Job, now: Millis) -> bool {
    let own = &job.definition().budget;
    let plan_ms = plan.wall_ms(now);
    exceeded(own, job.usage(), job.wall_ms(now)).is_some()
        || exceeded(&plan.settings().budget, plan.usage(), plan_ms).is_some()
}

/// Decides what follows when the process of an act, or its runner, is gone without a result. A heal that had begun
/// may have cost as much as a whole one, so its repetition counts as another heal.
#[must_use]
pub fn after_loss(plan: &Plan, job: &Job, act: Act, message: &str, policy: &Policy) -> AttemptEnd {
    let failure = Failure::new(FailureKind::Lost, message);
    let most = match policy.restart {
        Restart::Manual => 0,
        Restart::RetryOnce => 1,
        Restart::Resume => policy.losses_max,
    };
    if job.losses >= most {
        return AttemptEnd::Failed { act, failure };
    }
    let under_way = job.running().and_then(Attempt::under_way);
    let counted = act.heal && under_way == Some(act);
    if counted && let Some(why) = exhausted(plan, job, policy) {
        let message = format!("{}; {why}", failure.message);
        let failure = Failure { message, ..failure }.bounded();
        return AttemptEnd::Failed { act, failure };
    }
    let next = again(job, act, Trigger::Recovery);
    AttemptEnd::Again {
        act,
        failure,
        next,
        counted,
    }
}
