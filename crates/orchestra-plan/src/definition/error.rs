//! What can be wrong with a graph of jobs.

use std::fmt;

use super::Definition;
use crate::ids::{JobId, ProducerId};

/// One thing that is wrong with a graph of jobs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is no job at all.
    #[error("a plan needs at least one job")]
    Empty,
    /// More jobs than a plan may have.
    #[error(
        "a plan can have at most {} jobs; create several plans and chain them with resumeAfterPlan",
        Definition::MAX_JOBS
    )]
    TooManyJobs,
    /// A name that is there twice.
    #[error("two jobs have the producerId `{producer_id}`; each job needs its own")]
    DuplicateProducerId {
        /// The name.
        producer_id: ProducerId,
    },
    /// An id that is there twice.
    #[error("two jobs have the id {id}")]
    DuplicateId {
        /// The id.
        id: JobId,
    },
    /// A job that a caller may not define.
    #[error(
        "the producerId `{}` is reserved for the validation job of every plan; choose another",
        ProducerId::SNAPSHOT_VALIDATION
    )]
    ReservedProducerId,
    /// A dependency that is no job.
    #[error("job `{job}` depends on `{dependency}`, which is not a job of this plan")]
    UnknownDependency {
        /// The job.
        job: ProducerId,
        /// What it depends on.
        dependency: ProducerId,
    },
    /// A job that waits for itself.
    #[error("job `{job}` depends on itself")]
    SelfDependency {
        /// The job.
        job: ProducerId,
    },
    /// A job that waits for more jobs than a caller may name.
    #[error(
        "job `{job}` depends on more than {max} jobs; add an intermediate job that combines some of them", max = crate::spec::MAX_DEPENDENCIES
    )]
    TooManyDependencies {
        /// The job.
        job: ProducerId,
    },
    /// Jobs that wait for each other.
    #[error("the dependencies form a cycle: {}", round(.jobs))]
    Cycle {
        /// The jobs: each depends on the next, and the last on the first.
        jobs: Vec<ProducerId>,
    },
    /// A job that is to be changed and is not there.
    #[error("the plan has no job with the id {id}")]
    UnknownJob {
        /// The id.
        id: JobId,
    },
}

impl Problem {
    /// What programs tell this problem by.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "plan-empty",
            Self::TooManyJobs => "plan-too-large",
            Self::DuplicateProducerId { .. } => "duplicate-producer-id",
            Self::DuplicateId { .. } => "duplicate-job-id",
            Self::ReservedProducerId => "reserved-producer-id",
            Self::UnknownDependency { .. } => "unknown-dependency",
            Self::SelfDependency { .. } => "self-dependency",
            Self::TooManyDependencies { .. } => "too-many-dependencies",
            Self::Cycle { .. } => "dependency-cycle",
            Self::UnknownJob { .. } => "job-unknown",
        }
    }
}

/// Writes `a → b → a`, without the middle of a long way round.
fn round(jobs: &[ProducerId]) -> String {
    const ENDS: usize = 8;
    let quoted = |jobs: &[ProducerId]| {
        let quoted: Vec<String> = jobs.iter().map(|job| format!("`{job}`")).collect();
        quoted.join(" → ")
    };
    let first = quoted(jobs.get(..1).unwrap_or_default());
    if jobs.len() <= 2 * ENDS {
        return format!("{} → {first}", quoted(jobs));
    }
    let (front, back) = (&jobs[..ENDS], &jobs[jobs.len() - ENDS..]);
    let between = jobs.len() - 2 * ENDS;
    format!(
        "{} → … {between} more … → {} → {first}",
        quoted(front),
        quoted(back)
    )
}

/// All that is wrong with a graph of jobs, as far as it could be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionError {
    problems: Vec<Problem>,
    more: usize,
    known: Vec<ProducerId>,
    more_known: usize,
}

impl DefinitionError {
    /// How many problems are kept; of others only the number is told.
    pub const MAX_PROBLEMS: usize = 20;
    /// How many of the plan's jobs are named where a dependency is unknown.
    const MAX_KNOWN: usize = 30;

    /// The problems, if there are any. Where a dependency is unknown, those that would do are told.
    pub(super) fn of<'a>(
        mut problems: Vec<Problem>,
        jobs: impl ExactSizeIterator<Item = &'a ProducerId>,
    ) -> Result<(), Self> {
        if problems.is_empty() {
            return Ok(());
        }
        let more = problems.len().saturating_sub(Self::MAX_PROBLEMS);
        problems.truncate(Self::MAX_PROBLEMS);
        let unknown = |problem: &Problem| matches!(problem, Problem::UnknownDependency { .. });
        let (known, more_known) = match problems.iter().any(unknown) {
            true => {
                let more = jobs.len().saturating_sub(Self::MAX_KNOWN);
                (jobs.take(Self::MAX_KNOWN).cloned().collect(), more)
            }
            false => (Vec::new(), 0),
        };
        Err(Self {
            problems,
            more,
            known,
            more_known,
        })
    }

    /// The problems, at least one and at most [`Self::MAX_PROBLEMS`].
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// What programs tell the first problem by.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.problems.first().map_or("plan-invalid", Problem::code)
    }
}

impl From<Problem> for DefinitionError {
    fn from(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
            more: 0,
            known: Vec::new(),
            more_known: 0,
        }
    }
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            let gap = if at == 0 { "" } else { "; " };
            write!(f, "{gap}{problem}")?;
        }
        if self.more > 0 {
            write!(f, "; and {} more", self.more)?;
        }
        if !self.known.is_empty() {
            let known: Vec<&str> = self.known.iter().map(ProducerId::as_str).collect();
            write!(f, "; the plan's jobs: {}", known.join(", "))?;
        }
        if self.more_known > 0 {
            write!(f, " and {} more", self.more_known)?;
        }
        Ok(())
    }
}

impl std::error::Error for DefinitionError {}
