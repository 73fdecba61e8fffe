//! Plans of the earlier system that lie where ours are kept: they are shown as archived, and can be copied.
//! They are never written, and nothing runs them; whoever runs plans does not know of them.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use orchestra_plan::{
    command::{Command, Cx, NewPlan, Request},
    decide::{cloned, create, decide},
    ids::{Branch, JobId, Millis, PlanId, ProducerId},
    outcome::Policy,
    plan::Plan,
    spec::{Dependencies, JobSpec, MaxParallel, Name, PlanSettings, Task},
    work::WorkSpec,
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Options, PlansError};
use crate::hex::hex;
use crate::journal::{Original, OriginalJob, OriginalPlan, candidates, is_original, read_original};

/// Who made them.
const BY: &str = "the earlier system";

/// What a copy does where the work of a job cannot be read: it fails, and says why.
const UNREADABLE: &str = "echo 'the work of this job could not be imported' >&2; exit 1";

/// What a file was read as, and when it had been written.
type Read = (Option<SystemTime>, Option<Arc<Plan>>);

/// The plans of the earlier system below a root, as they were read last.
#[derive(Debug)]
pub(super) struct Earlier {
    root: PathBuf,
    read: Mutex<BTreeMap<PathBuf, Read>>,
}

impl Earlier {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            read: Mutex::default(),
        }
    }

    /// All but those that have the id of one of ours, oldest first. Reads files that have changed.
    pub(super) fn all(&self, ours: &HashSet<PlanId>) -> Vec<Arc<Plan>> {
        let Ok(found) = candidates(&self.root) else {
            return Vec::new();
        };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut plans = Vec::new();
        for original in found {
            let Ok(id) = PlanId::parse(original.plan.as_str()) else {
                continue;
            };
            if ours.contains(&id) {
                continue;
            }
            let data = fs::metadata(&original.path);
            let written = data.and_then(|data| data.modified()).ok();
            let known = read.get(&original.path);
            let plan = match known.filter(|(at, _)| *at == written) {
                Some((_, plan)) => plan.clone(),
                None => {
                    let plan = shown(id, &original).map(Arc::new);
                    read.insert(original.path, (written, plan.clone()));
                    plan
                }
            };
            plans.extend(plan);
        }
        orchestra_sort::sort_by_key(&mut plans, |plan| plan.created_at());
        plans
    }

    /// Checks that the user accepted the plans. A clone or an archive can bring their files along.
    ///
    /// # Errors
    /// [`PlansError::Refused`] with the code `plans-untrusted`.
    pub(super) fn check(&self, options: &Options) -> Result<(), PlansError> {
        match self.digest(&options.workspace)? {
            Some(digest) => options.trust.check_files(&self.root, &digest),
            None => Ok(()),
        }
    }

    /// Accepts the plans as they are now, in this workspace.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub(super) fn accept(&self, options: &Options) -> Result<(), PlansError> {
        match self.digest(&options.workspace)? {
            Some(digest) => options.trust.record_files(digest),
            None => Ok(()),
        }
    }

    /// Digest of all that copies of the plans are made of; `None` where there are no plans.
    fn digest(&self, workspace: &Path) -> Result<Option<String>, PlansError> {
        let mut plans = self.all(&HashSet::new());
        orchestra_sort::sort_by_key(&mut plans, |plan| *plan.id());
        if plans.is_empty() {
            return Ok(None);
        }
        let mut hash = Sha256::new();
        hash.update(workspace.as_os_str().as_encoded_bytes());
        for plan in plans {
            let name = plan.settings().name.clone();
            // A plan that cannot be copied runs nothing.
            let Ok(new) = cloned(&plan, *plan.id(), Some(name), None) else {
                continue;
            };
            let text = serde_json::to_vec(&(new.id, &new.settings, &new.jobs))
                .map_err(|error| PlansError::Internal(error.to_string()))?;
            hash.update([0]);
            hash.update(&text);
        }
        Ok(Some(hex(&hash.finalize())))
    }
}

/// A plan of the earlier system as one of ours, which is archived.
fn shown(id: PlanId, original: &Original) -> Option<Plan> {
    if !is_original(&original.path) {
        return None;
    }
    let read = match read_original(original) {
        Ok(read) if read.is_deleted => return None,
        Ok(read) => read,
        Err(error) => {
            tracing::debug!(%error, "cannot show a plan of the earlier system");
            return None;
        }
    };
    for note in &read.notes {
        tracing::debug!(%id, note, "omitted a part of a plan of the earlier system");
    }
    let made = made(id, &read);
    if made.is_none() {
        tracing::debug!(%id, "a plan of the earlier system is not shown: it is not a graph of jobs");
    }
    made
}

fn made(id: PlanId, read: &OriginalPlan) -> Option<Plan> {
    let mut job_ids = read.jobs.iter().map(|job| JobId::parse(&job.id).ok());
    let mut count = 0_u64;
    let mut next_id = || {
        count += 1;
        let given = job_ids.next().flatten();
        given.unwrap_or_else(|| made_up(&id, count))
    };
    let policy = Policy::default();
    let others = |_: &PlanId| None;
    let mut cx = Cx {
        now: Millis::new(read.created_at.unwrap_or_default()),
        policy: &policy,
        ids: &mut next_id,
        others: &others,
    };
    let new = NewPlan {
        id,
        settings: settings(id, read)?,
        jobs: read.jobs.iter().map(job).collect::<Option<_>>()?,
        scaffolding: false,
        source: None,
        mark: None,
        sandboxed: false,
    };
    let event = create(new, Some(BY.to_owned()), &mut cx).ok()?;
    let mut plan = Plan::start(&event).ok()?;
    cx.now = Millis::new(read.ended_at.or(read.created_at).unwrap_or_default());
    let reason = Some(format!("made by {BY}: it is shown, and can be cloned"));
    for command in [Command::Cancel { reason }, Command::Archive { force: true }] {
        let decision = decide(&plan, Request::of(command), &mut cx).ok()?;
        for event in &decision.events {
            if plan.apply(event).refused.is_some() {
                return None;
            }
        }
    }
    Some(plan)
}

fn settings(id: PlanId, read: &OriginalPlan) -> Option<PlanSettings> {
    let name = Name::parse(&read.name).or_else(|_| Name::parse(&id.to_string()));
    let branch = |name: &Option<String>| name.as_ref().and_then(|name| Branch::parse(name).ok());
    let usual = PlanSettings::of(name.ok()?);
    let limit = read.max_parallel.map(Value::from);
    let limit = limit.and_then(|limit| serde_json::from_value::<MaxParallel>(limit).ok());
    Some(PlanSettings {
        base_branch: branch(&read.base_branch),
        target_branch: branch(&read.target_branch),
        max_parallel: limit.unwrap_or(usual.max_parallel),
        ..usual
    })
}

fn job(job: &OriginalJob) -> Option<JobSpec> {
    let spec =
        |value: &Option<Value>| -> Option<WorkSpec> { serde_json::from_value(value.clone()?).ok() };
    let work = match spec(&job.work) {
        Some(work) => work,
        None => WorkSpec::parse(UNREADABLE).ok()?,
    };
    let dependencies = job.dependencies.iter().map(|name| producer(name));
    let task = Task::parse(&job.task).or_else(|_| Task::parse(&job.name));
    let producer = producer(&job.producer_id)?;
    let group = job.group.as_ref().map(|group| Value::from(group.as_str()));
    Some(JobSpec {
        name: Name::parse(&job.name).ok(),
        dependencies: Dependencies::new(dependencies.collect::<Option<_>>()?)?,
        prechecks: spec(&job.prechecks),
        postchecks: spec(&job.postchecks),
        group: group.and_then(|group| serde_json::from_value(group).ok()),
        auto_heal: job.auto_heal,
        expects_no_changes: job.expects_no_changes,
        ..JobSpec::of(producer, task.ok()?, work)
    })
}

/// The name of a job, in the letters that ours have.
fn producer(name: &str) -> Option<ProducerId> {
    if let Ok(name) = ProducerId::parse(name) {
        return Some(name);
    }
    let fits = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let letters = name.chars().map(|char| char.to_ascii_lowercase());
    let letters = letters.map(|char| if fits(char) { char } else { '-' });
    let name: String = letters.take(64).collect();
    ProducerId::parse(&format!("{name:-<3}")).ok()
}

/// The id of a job that has none of our form: the same whenever it is read.
fn made_up(plan: &PlanId, place: u64) -> JobId {
    let mut hasher = DefaultHasher::new();
    (plan.to_string(), place).hash(&mut hasher);
    let id = u128::from(hasher.finish()) << 64 | u128::from(place);
    JobId::of_random(id.to_be_bytes())
}
