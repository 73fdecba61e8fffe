//! Finding jobs: the one that a person means, and those that may start or be put away.

use std::sync::Arc;

use crate::definition::{JobDefinition, NotFound};
use crate::ids::{JobId, ProducerId, shown};
use crate::plan::{Job, Plan};
use crate::status::JobStatus;
use crate::work::{AdmissionClass, WorkSpec};

/// How many jobs a message names.
const NAMED_MAX: usize = 20;

impl Plan {
    /// What a job counts as: an agent where its next or running attempt may start one by what the plan says,
    /// be it to make its worktree ready, else a shell where there is one. Instructions for worktrees that the
    /// repository brings are found out when the job has begun, and count for nothing.
    #[must_use]
    pub fn class(&self, job: &Job) -> AdmissionClass {
        if job.has_heal() {
            return AdmissionClass::Agent;
        }
        let specs = || {
            let all = self.settings.worktree_init.iter().chain(job.specs());
            all.map(WorkSpec::class)
        };
        [AdmissionClass::Agent, AdmissionClass::Shell]
            .into_iter()
            .find(|class| specs().any(|spec| spec == *class))
            .unwrap_or(AdmissionClass::Process)
    }

    /// The jobs whose worktrees nobody needs any longer, where those are to be removed.
    pub fn removable(&self) -> impl Iterator<Item = &Job> {
        let wanted = self.settings.clean_up_successful_work;
        self.jobs
            .iter()
            .filter(move |job| wanted && job.removable())
    }

    /// Whether a job may be started right now: asked again directly before a process is spawned.
    #[must_use]
    pub fn may_start(&self, job: &JobId) -> bool {
        self.is_open()
            && self
                .job(job)
                .is_some_and(|job| job.status() == JobStatus::Scheduled)
    }

    /// The definitions of its jobs without the validating one, as they would be written down again.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<JobDefinition>> {
        self.jobs
            .iter()
            .filter(|job| !job.is_validation())
            .map(Job::definition)
    }

    /// Finds a job by its id, its producer id, or its name if no other has that, whatever its case.
    ///
    /// # Errors
    /// When no job or more than one is meant.
    pub fn find(&self, asked: &str) -> Result<&Job, NotFound> {
        let by_id = JobId::parse(asked).ok().and_then(|id| self.job(&id));
        let by_producer = || {
            ProducerId::parse(asked)
                .ok()
                .and_then(|name| self.job_of(&name))
        };
        if let Some(job) = by_id.or_else(by_producer) {
            return Ok(job);
        }
        let wanted = asked.trim().to_lowercase();
        let named: Vec<&Job> = self
            .jobs()
            .iter()
            .filter(|job| job.name().to_lowercase() == wanted)
            .collect();
        let asked = shown(asked);
        match named.as_slice() {
            [job] => Ok(job),
            [] => Err(NotFound::Unknown {
                asked,
                known: names(self.jobs().iter()),
            }),
            several => Err(NotFound::Ambiguous {
                asked,
                candidates: names(several.iter().copied()),
            }),
        }
    }
}

/// Producer ids, at most a few.
pub(crate) fn names<'a>(jobs: impl Iterator<Item = &'a Job>) -> String {
    let mut all = jobs.map(|job| job.producer().as_str());
    let mut text = all.by_ref().take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    match all.count() {
        0 if text.is_empty() => "none".to_owned(),
        0 => text,
        more => {
            text.push_str(&format!(" and {more} more"));
            text
        }
    }
}
