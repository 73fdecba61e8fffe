//! What is not wrong with a plan, and yet should be known before it runs.

use super::{Definition, JobIx};
use crate::{
    complexity::{Advice, Complexity},
    ids::ProducerId,
};

/// Something that should be known before a plan runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// Jobs whose result nothing checks.
    #[error("no postchecks verify the results of these jobs: {names}")]
    NoPostchecks {
        /// Their producer ids, or the first of them.
        names: String,
        /// How many they are.
        count: usize,
    },
    /// A job that may be too much for one agent.
    #[error("job `{job}`: {advice}")]
    Complex {
        /// The job.
        job: ProducerId,
        /// What should be done about it.
        advice: Advice,
    },
}

impl Warning {
    /// What programs tell this warning by.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoPostchecks { .. } => "no-postchecks",
            Self::Complex { .. } => "complex",
        }
    }
}

impl Definition {
    /// What should be known before this plan runs.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let unchecked: Vec<JobIx> = self
            .all()
            .filter(|job| {
                let job = self.job(*job);
                job.postchecks.is_none() && !job.is_snapshot_validation()
            })
            .collect();
        let mut warnings = Vec::new();
        if !unchecked.is_empty() {
            warnings.push(Warning::NoPostchecks {
                names: self.some(unchecked.iter().copied()),
                count: unchecked.len(),
            });
        }
        warnings.extend(self.jobs.iter().filter_map(|job| {
            Some(Warning::Complex {
                job: job.producer_id.clone(),
                advice: Complexity::of_job(job)?.advice()?,
            })
        }));
        warnings
    }
}
