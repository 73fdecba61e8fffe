//! A plan as lines: one for each change.

use std::borrow::Cow;

use orchestra_plan::{
    event::{Event, What},
    ids::Millis,
    plan::{Changes, Plan},
    status::JobStatus,
    view::error_of,
};
use serde::Serialize;

use super::super::{hints, look};
use crate::{
    exit::Failure,
    output::{self, Format},
};

pub(super) struct Lines {
    format: Format,
    /// How wide the names of jobs are.
    width: usize,
    /// When the watching began: times are told from there.
    since: Millis,
}

/// A line, as JSON tells it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    event: &'static str,
    at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a str>,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'a, str>>,
}

impl Lines {
    pub(super) fn new(plan: &Plan, format: Format) -> Result<Self, Failure> {
        let names = plan.jobs().iter().map(|job| job.producer().as_str().len());
        let lines = Self {
            format,
            width: names.max().unwrap_or_default(),
            since: look::now(),
        };
        lines.plan(plan, lines.since)?;
        for job in plan.jobs() {
            // The rest is as it always begins.
            if !job.attempts().is_empty() || job.status().is_terminal() {
                lines.job(job, job.status(), lines.since)?;
            }
        }
        Ok(lines)
    }

    /// Says what an event has changed.
    pub(super) fn changed(
        &self,
        plan: &Plan,
        event: &Event,
        changes: &Changes,
    ) -> Result<(), Failure> {
        for change in &changes.moves {
            // What is between these is over before anybody could read it.
            let is_told = !matches!(
                change.to,
                JobStatus::Pending | JobStatus::Ready | JobStatus::Scheduled
            );
            if let Some(job) = plan.job(&change.job).filter(|_| is_told) {
                self.job(job, change.to, event.at)?;
            }
        }
        if let What::ActBegan { job, .. } = &event.what
            && let Some(job) = plan.job(job)
        {
            self.job(job, job.status(), event.at)?;
        }
        if changes.status.is_some() {
            self.plan(plan, event.at)?;
        }
        Ok(())
    }

    fn plan(&self, plan: &Plan, at: Millis) -> Result<(), Failure> {
        self.print(
            &Line {
                event: "plan",
                at,
                job: None,
                status: plan.status().name(),
                phase: None,
                attempt: None,
                error: None,
            },
            at.since(self.since),
        )
    }

    fn job(
        &self,
        job: &orchestra_plan::plan::Job,
        status: JobStatus,
        at: Millis,
    ) -> Result<(), Failure> {
        let under_way = job.running().and_then(|attempt| attempt.under_way());
        let phase = under_way.map(|act| match act.heal {
            true => format!("{} is healed", act.phase),
            false => act.phase.to_string(),
        });
        let number = job.attempts().len();
        self.print(
            &Line {
                event: "job",
                at,
                job: Some(job.producer().as_str()),
                status: status.name(),
                phase: phase.as_deref(),
                attempt: (number > 0).then_some(number),
                error: error_of(job).filter(|_| status == JobStatus::Failed),
            },
            at.since(self.since),
        )
    }

    fn print(&self, line: &Line<'_>, since: std::time::Duration) -> Result<(), Failure> {
        if self.format == Format::Json {
            return output::json(line);
        }
        let width = self.width;
        let mut text = format!(
            "{:>7.1}s  {:width$}  {}",
            since.as_secs_f64(),
            line.job.unwrap_or("plan"),
            line.status
        );
        if let Some(phase) = line.phase {
            text.push_str(&format!("  {phase}"));
        }
        if let Some(attempt) = line.attempt.filter(|attempt| *attempt > 1) {
            text.push_str(&format!("  (attempt {attempt})"));
        }
        if let Some(error) = &line.error {
            let (error, _) = hints::parts_of(error);
            text.push_str(&format!("  {}", output::in_a_line(error)));
        }
        output::lines(&text)
    }
}
