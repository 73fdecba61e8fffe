//! How callers name jobs: by id, by producer id, or by a name that only one job has.

use super::{Definition, JobIx};
use crate::ids::{JobId, ProducerId, shown};

/// No job, or not one job, is what a text names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// No job has that id, producer id or name.
    #[error("the plan has no job `{asked}`; its jobs: {known}")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// The jobs that there are, or the first of them.
        known: String,
    },
    /// Several jobs have that name.
    #[error("several jobs are named `{asked}`; pass the producer id of one: {candidates}")]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// The producer ids of these jobs, or of the first of them.
        candidates: String,
    },
}

impl NotFound {
    /// What programs tell this error by.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "job-unknown",
            Self::Ambiguous { .. } => "job-ambiguous",
        }
    }
}

impl Definition {
    /// The job that a text names: by its id, its producer id, or a name that only one has, whatever
    /// the case of its letters.
    ///
    /// # Errors
    /// When the text names no job, or several; the error says which there are.
    pub fn find(&self, asked: &str) -> Result<JobIx, NotFound> {
        let by_id = JobId::parse(asked).ok().and_then(|id| self.by_id(id));
        let by_producer = || {
            let id = ProducerId::parse(asked).ok()?;
            self.by_producer(&id)
        };
        if let Some(job) = by_id.or_else(by_producer) {
            return Ok(job);
        }
        let wanted = asked.trim().to_lowercase();
        let named: Vec<JobIx> = self
            .all()
            .filter(|job| self.job(*job).name.as_str().to_lowercase() == wanted)
            .collect();
        match named.as_slice() {
            [job] => Ok(*job),
            [] => Err(NotFound::Unknown {
                asked: shown(asked),
                known: self.some(self.all()),
            }),
            several => Err(NotFound::Ambiguous {
                asked: shown(asked),
                candidates: self.some(several.iter().copied()),
            }),
        }
    }

    /// The producer ids of jobs, not more than fit in a message.
    pub(super) fn some(&self, jobs: impl ExactSizeIterator<Item = JobIx>) -> String {
        const MANY: usize = 30;
        let more = jobs.len().saturating_sub(MANY);
        let names: Vec<&str> = jobs
            .take(MANY)
            .map(|job| self.job(job).producer_id.as_str())
            .collect();
        let names = names.join(", ");
        match more {
            0 => names,
            _ => format!("{names} and {more} more"),
        }
    }
}
