//! Agents that run out of context: how much is used up, and the split of a job into parts.
//!
//! An agent that is told that its context is nearly full commits what it has and names what is
//! left. The job then ends with what it has done, its parts follow it as jobs of their own, and one
//! more job brings them together: what waited for the job waits for that one. The graph is right at
//! every moment, because the parts are added while the job still runs. Whether any of this is done
//! is configuration; by default it is not.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command::{Code, Cx, Refusal};
use crate::decide::{checked, draft_of, wrong_job};
use crate::definition::{Draft, JobDefinition};
use crate::event::{Rewired, What};
use crate::ids::{AttemptNumber, JobId, ProducerId};
use crate::plan::{Attempt, Job, Plan};
use crate::spec::{Dependencies, JobSpec, Task};
use crate::status::JobStatus;
use crate::work::WorkSpec;

/// How deep parts of parts go, whatever is configured.
pub const DEPTH_MAX: usize = 5;
/// How many parts a job is split into at most, whatever is configured.
pub const PARTS_MAX: usize = 20;
/// What stands between the name of a job and the number of a part.
const PART: &str = "-sub-";
/// What the name of the job ends with that brings the parts together.
const FAN_IN: &str = "-fan-in";

/// How full the context of an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Pressure {
    /// There is room.
    Normal,
    /// Much of it is used: half, unless configured.
    Elevated,
    /// Nearly all of it is used, three quarters unless configured: the agent is told to commit and
    /// to name what is left.
    Critical,
}

/// How full the context of an agent was when that was last told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Filled {
    /// What that means.
    pub level: Pressure,
    /// How many tokens it held.
    pub used: u64,
    /// How many it can hold.
    pub limit: u64,
}

/// What configuration says about contexts that fill up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splits {
    /// Whether anybody looks at them at all.
    pub enabled: bool,
    /// From how many percent on a context is rather full.
    pub elevated_percent: u8,
    /// From how many percent on its agent is asked to stop.
    pub critical_percent: u8,
    /// How deep parts of parts may go, up to [`DEPTH_MAX`].
    pub depth_max: usize,
    /// How many parts a job may be split into, up to [`PARTS_MAX`].
    pub parts_max: usize,
}

impl Default for Splits {
    fn default() -> Self {
        Self {
            enabled: false,
            elevated_percent: 50,
            critical_percent: 75,
            depth_max: 3,
            parts_max: 8,
        }
    }
}

impl Splits {
    /// How full a context of `limit` tokens is with `used`; one whose size is not known has room.
    #[must_use]
    pub fn pressure(&self, used: u64, limit: u64) -> Pressure {
        let reaches = |percent: u8| {
            u128::from(used) * 100 >= u128::from(limit) * u128::from(percent.clamp(1, 100))
        };
        if limit == 0 || !reaches(self.elevated_percent.min(self.critical_percent)) {
            Pressure::Normal
        } else if reaches(self.critical_percent) {
            Pressure::Critical
        } else {
            Pressure::Elevated
        }
    }

    /// Whether the agent of a job may be asked to leave parts of its work to others.
    #[must_use]
    pub fn allow(&self, plan: &Plan, job: &Job) -> bool {
        self.enabled
            && !job.split
            && !job.is_validation()
            && depth(plan, job) < self.depth_max.min(DEPTH_MAX)
            && named(job, &format!("{PART}{}", self.parts_max)).is_ok()
            && named(job, FAN_IN).is_ok()
    }
}

/// What tells that the context of an agent has filled up further.
pub(crate) fn fills(job: JobId, running: &Attempt, filled: Filled) -> Vec<What> {
    let before = running
        .filled
        .map_or(Pressure::Normal, |filled| filled.level);
    if filled.level <= before {
        return Vec::new();
    }
    vec![What::ContextFilled {
        job,
        attempt: running.number,
        filled,
    }]
}

/// A part of a job that its agent has left to others.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What it is for.
    pub task: Task,
    /// What it does.
    pub work: WorkSpec,
}

/// What splits a job whose attempt is under way.
pub(crate) fn split(
    plan: &Plan,
    job: &Job,
    attempt: AttemptNumber,
    parts: Vec<Part>,
    cx: &mut Cx<'_>,
) -> Result<Vec<What>, Refusal> {
    may_split(plan, job, &parts, &cx.policy.splits)?;
    let mut draft = draft_of(plan)?;
    let mut names = Vec::with_capacity(parts.len());
    let mut ids = Vec::with_capacity(parts.len() + 1);
    for (place, part) in parts.into_iter().enumerate() {
        let name = named(job, &format!("{PART}{}", place + 1))?;
        let mut spec = JobSpec::of(name.clone(), part.task, part.work);
        spec.dependencies = Dependencies::new(vec![job.producer().clone()]).unwrap_or_default();
        ids.push(like(&mut draft, job, spec, cx)?);
        names.push(name);
    }
    let fan_in = named(job, FAN_IN)?;
    ids.push(add_fan_in(&mut draft, job, &fan_in, &names, cx)?);
    let mut rewired = Vec::new();
    // None of them can have begun, whatever has become of it meanwhile: the job has not succeeded yet.
    for other in plan.dependents(job).filter(|job| !job.is_validation()) {
        let own = other.definition().dependencies.iter();
        let dependencies: Vec<ProducerId> = own
            .map(|name| {
                if name == job.producer() {
                    &fan_in
                } else {
                    name
                }
            })
            .cloned()
            .collect();
        draft.set_dependencies(*other.id(), dependencies.clone())?;
        rewired.push(Rewired {
            job: *other.id(),
            dependencies,
        });
    }
    checked(plan, &draft, cx)?;
    let mut whats = vec![What::JobSplit {
        job: *job.id(),
        attempt,
        parts: names,
    }];
    let added = ids.iter().filter_map(|id| draft.by_id(*id));
    whats.extend(added.map(|job| What::JobAdded {
        job: Box::new(JobDefinition::clone(job)),
    }));
    if !rewired.is_empty() {
        whats.push(What::DependenciesChanged { jobs: rewired });
    }
    Ok(whats)
}

fn may_split(plan: &Plan, job: &Job, parts: &[Part], splits: &Splits) -> Result<(), Refusal> {
    let parts_max = splits.parts_max.min(PARTS_MAX);
    let depth_max = splits.depth_max.min(DEPTH_MAX);
    if job.status() != JobStatus::Running || job.is_validation() {
        return Err(wrong_job(format!(
            "job `{}` cannot be split",
            job.producer()
        )));
    }
    if parts.is_empty() || parts.len() > parts_max {
        let words = format!(
            "a job can be split into 1 to {parts_max} parts, not {}",
            parts.len()
        );
        return Err(Refusal::new(Code::BadSplit, words));
    }
    if depth(plan, job) >= depth_max {
        let words = format!(
            "job `{}` cannot be split again: parts can be nested {depth_max} levels deep",
            job.producer()
        );
        return Err(Refusal::new(Code::BadSplit, words));
    }
    Ok(())
}

/// How many jobs a job is a part of: what it is a part of, what that is a part of, and so on.
fn depth(plan: &Plan, job: &Job) -> usize {
    let parent = |job: &&Job| {
        let split = job.definition().split_of.as_ref();
        split.and_then(|name| plan.job_of(name))
    };
    std::iter::successors(Some(job), parent)
        .take(DEPTH_MAX + 1)
        .count()
        - 1
}

fn named(job: &Job, end: &str) -> Result<ProducerId, Refusal> {
    let name = format!("{}{end}", job.producer());
    ProducerId::of_caller(&name).map_err(|error| Refusal::new(Code::BadSplit, error.to_string()))
}

/// Adds a job that is shown, healed and equipped as another one is.
fn like(draft: &mut Draft, job: &Job, spec: JobSpec, cx: &mut Cx<'_>) -> Result<JobId, Refusal> {
    let (id, own) = ((cx.ids)(), job.definition());
    draft.add(
        id,
        JobSpec {
            group: own.group.clone(),
            auto_heal: own.auto_heal,
            env: own.env.clone(),
            instructions: own.instructions.clone(),
            ..spec
        },
    )?;
    draft.change(id, |part| part.split_of = Some(own.producer_id.clone()))?;
    Ok(id)
}

/// The job that brings the parts together does nothing but merge, and is checked as the whole would
/// be.
fn add_fan_in(
    draft: &mut Draft,
    job: &Job,
    name: &ProducerId,
    parts: &[ProducerId],
    cx: &mut Cx<'_>,
) -> Result<JobId, Refusal> {
    let own = job.definition();
    let Some(work) = own.work.clone() else {
        return Err(wrong_job(format!(
            "job `{}` has no work to split",
            job.producer()
        )));
    };
    let id = like(
        draft,
        job,
        JobSpec::of(name.clone(), own.task.clone(), work),
        cx,
    )?;
    draft.change(id, |fan_in| {
        fan_in.work = None;
        fan_in.postchecks.clone_from(&own.postchecks);
        fan_in.expects_no_changes = true;
    })?;
    draft.set_dependencies(id, parts.to_vec())?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::{Pressure, Splits};

    #[test]
    fn pressure_rises_at_half_and_at_three_quarters() {
        let splits = Splits::default();
        let of = |used: u64| splits.pressure(used, 200);
        assert_eq!((of(99), of(100)), (Pressure::Normal, Pressure::Elevated));
        assert_eq!((of(149), of(150)), (Pressure::Elevated, Pressure::Critical));
        assert_eq!(splits.pressure(u64::MAX, 0), Pressure::Normal);
        assert_eq!(splits.pressure(u64::MAX, u64::MAX), Pressure::Critical);
    }

    #[test]
    fn pressure_rises_where_it_is_configured() {
        let splits = Splits {
            elevated_percent: 20,
            critical_percent: 40,
            ..Splits::default()
        };
        let of = |used: u64| splits.pressure(used, 1_000);
        assert_eq!((of(199), of(200)), (Pressure::Normal, Pressure::Elevated));
        assert_eq!((of(399), of(400)), (Pressure::Elevated, Pressure::Critical));
    }
}
