//! Logs of jobs, and what became of a plan's changes in files.

use std::{path::PathBuf, sync::Arc};

use orchestra_plan::{
    command::Refusal,
    ids::{AttemptNumber, JobId, PlanId},
    plan::Plan,
    view::{FailureContext, failure_context},
};

use super::{Plans, PlansError};
use crate::{
    git::Patch,
    logs::{Follower, Line, Page, Query, read},
};

/// How many lines are shown of a failure.
const FAILURE_LINES: usize = 100;

/// Whose log it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOf {
    /// The plan.
    pub plan: PlanId,
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: AttemptNumber,
    /// Where it lies.
    pub directory: PathBuf,
}

impl Plans {
    /// Finds the log of an attempt: the one asked for, or the latest. `None` where the job has not begun.
    ///
    /// # Errors
    /// When there is no such job or attempt.
    pub fn log_of(
        &self,
        plan: &Plan,
        job: &str,
        attempt: Option<AttemptNumber>,
    ) -> Result<Option<LogOf>, PlansError> {
        let job = plan.find(job).map_err(Refusal::from)?;
        let last = job.attempt().map(|attempt| attempt.number);
        if let Some(asked) = attempt
            && last.is_none_or(|last| asked > last)
        {
            let had = last.map_or(0, AttemptNumber::get);
            return Err(PlansError::Refused {
                code: "attempt-unknown".to_owned(),
                message: format!(
                    "job `{}` has had {had} attempts, not {asked}",
                    job.producer()
                ),
            });
        }
        let of = |attempt| LogOf {
            plan: *plan.id(),
            job: *job.id(),
            attempt,
            directory: self.attempt_directory(*plan.id(), *job.id(), attempt),
        };
        Ok(attempt.or(last).map(of))
    }

    /// Lines of a log: a page after a number, the last ones, or those that contain something.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn read_log(&self, log: &LogOf, query: Query) -> Result<Page, PlansError> {
        let directory = log.directory.clone();
        let read = tokio::task::spawn_blocking(move || read(&directory, &query)).await;
        let read = read.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        read.map_err(|source| PlansError::Log {
            job: log.job.to_string(),
            source,
        })
    }

    /// Follows a log as it is written, from what the query says on. Must run inside a runtime.
    #[must_use]
    pub fn follow_log(&self, log: &LogOf, query: Query) -> Follower {
        Follower::new(&log.directory, query)
    }

    /// What the commit of a job changed against where it began, line by line: its first `most` bytes. Empty
    /// where it has made none.
    ///
    /// # Errors
    /// When there is no such job, or the repository cannot be read.
    pub async fn patch(&self, plan: &Plan, job: &str, most: usize) -> Result<Patch, PlansError> {
        let job = plan.find(job).map_err(Refusal::from)?;
        let (Some(from), Some(to)) = (job.base_commit(), job.completed_commit()) else {
            return Ok(Patch::default());
        };
        let repository = self.0.host.repository().await?;
        Ok(repository.patch(from, to, most).await?)
    }

    /// Why a job failed, with the last lines of its log.
    ///
    /// # Errors
    /// When it has not failed, or its log cannot be read.
    pub async fn failure(
        &self,
        plan: &Arc<Plan>,
        job: &str,
    ) -> Result<(FailureContext, Vec<Line>), PlansError> {
        let found = plan.find(job).map_err(Refusal::from)?;
        let context = failure_context(plan, found)?;
        let Some(log) = self.log_of(plan, job, None)? else {
            return Ok((context, Vec::new()));
        };
        let query = Query {
            tail: true,
            limit: Some(FAILURE_LINES),
            ..Query::default()
        };
        let page = self.read_log(&log, query).await?;
        Ok((context, page.lines))
    }
}

/// The texts of lines, as people read them.
pub(crate) fn texts(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut before = None;
    for line in lines {
        if let Some(separator) = line.separator(before) {
            text.push_str(separator);
            text.push_str(line.stream.prefix(&line.text, "[orchestra] "));
        }
        text.push_str(&line.text);
        if !line.more {
            text.push('\n');
        }
        before = Some(line);
    }
    text
}
