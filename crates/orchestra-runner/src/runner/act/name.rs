//! The names of runs, by which whoever comes later finds them again.

use std::{path::Path, time::Duration};

use orchestra_plan::{
    event::{Act, Failure, FailureKind},
    ids::{AttemptNumber, JobId},
    phase::Phase,
};

use crate::{
    runner::host::internal,
    supervise::{Found, RunId, Supervised},
};

/// How many runs of one part of an act there may be: one, unless a runner was killed as it began it.
const RUNS: u32 = 19;

/// How many parts an act has at most: preparations are up to ten.
const PARTS: u32 = 10;

/// The part of an agent that heals.
pub(super) const HEALER: u32 = PARTS;

/// The part of an agent that makes a worktree ready as the repository says.
pub(super) const READIER: u32 = PARTS + 1;

/// The name of a run of a part of an act.
pub(in crate::runner) struct RunName(RunId);

impl RunName {
    /// The run with this number of a part.
    ///
    /// # Errors
    /// When there are no more.
    pub(super) fn of(
        job: JobId,
        attempt: AttemptNumber,
        act: Act,
        part: u32,
        run: u32,
    ) -> Result<Self, Failure> {
        if run > RUNS {
            let words = "it was begun too often by runners that were killed";
            return Err(Failure::new(FailureKind::Lost, words));
        }
        let number = part * (RUNS + 1) + run;
        let id = RunId::new(&job.to_string(), attempt.get(), act.phase.as_str(), number);
        id.map(Self).map_err(|error| internal(&error))
    }

    /// All that an act may have.
    pub(in crate::runner) fn all(job: JobId, attempt: AttemptNumber, act: Act) -> Vec<Self> {
        let parts: Vec<u32> = match (act.heal, act.phase) {
            (true, _) => vec![HEALER],
            (false, Phase::Setup) => (0..PARTS).chain([READIER]).collect(),
            (false, _) => vec![0],
        };
        let parts = parts.into_iter();
        let runs = parts.flat_map(|part| (1..=RUNS).map(move |run| (part, run)));
        runs.filter_map(|(part, run)| Self::of(job, attempt, act, part, run).ok())
            .collect()
    }

    pub(in crate::runner) fn id(self) -> RunId {
        self.0
    }

    /// Whether a run of this name was ever begun.
    pub(in crate::runner) fn was_begun(&self, directory: &Path) -> bool {
        let file = format!("{}.{}.run", self.0.phase(), self.0.run());
        directory.join(file).exists()
    }
}

/// Ends a run, whoever began it; it never begins if it has not.
pub(in crate::runner) async fn halt(directory: &Path, run: &RunId, grace: Duration) {
    let ended = match Supervised::find(directory, run).await {
        Ok(Found::Running(run)) => run.end(grace).await.map(drop),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        tracing::warn!(%error, "cannot end a run gracefully; killing it");
        run.kill_left().await;
    }
}
