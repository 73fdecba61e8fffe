//! What the engine and its jobs share: how plans are run, and the repository.

use std::{sync::Arc, time::Duration};

use orchestra_plan::{
    event::{Failure, FailureKind},
    ids::JobId,
    outcome,
};
use tokio::sync::{OnceCell, Semaphore};

use crate::{
    cause::chain,
    git::{Git, GitError, GitTimes, Repository},
    plans::{Options, git_words},
};

/// What the engine and its jobs share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) options: Arc<Options>,
    repository: OnceCell<Repository>,
    /// Who removes a worktree has one of these: many jobs may have ended at once.
    pub(crate) removals: Semaphore,
}

/// How long is waited for another git that holds a lock, at first and at last.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LAST_WAIT: Duration = Duration::from_secs(4);

/// How many worktrees are removed at a time.
const REMOVALS: usize = 2;

impl Host {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            repository: OnceCell::new(),
            removals: Semaphore::new(REMOVALS),
        }
    }

    /// The repository of the workspace, opened when it is first needed.
    pub(crate) async fn repository(&self) -> Result<&Repository, GitError> {
        let open = async || {
            let git = Git::find(self.options.git.clone()).await?;
            Repository::open(&git, &self.options.workspace).await
        };
        self.repository.get_or_try_init(open).await
    }

    /// Waits until nothing is being brought onto a branch any more.
    pub(crate) async fn landed(&self) {
        if let Some(repository) = self.repository.get() {
            repository.landed().await;
        }
    }

    /// How many git processes were started and how long they took, once there was one.
    pub(crate) fn git_times(&self) -> Option<GitTimes> {
        self.repository.get().map(|found| found.git().times())
    }

    /// Why there is no agent to heal with; `None` where there is one. Its program is looked for and not
    /// asked, which takes long.
    pub(crate) fn lacks_healer(&self) -> Option<String> {
        let agents = &self.options.agents;
        match &self.options.healer {
            Some(name) => agents.lacks(name).map(|error| {
                format!(
                    "plans.healer cannot heal it, and no other agent is asked: {}",
                    chain(&error)
                )
            }),
            None if agents.installed().is_empty() => Some(outcome::NO_HEALER.to_owned()),
            None => None,
        }
    }

    /// What is wrong with the agents that the configuration names.
    pub(crate) fn misnamed(&self) -> Vec<String> {
        let agents = &self.options.agents;
        let usual = agents.usual_name().map(ToString::to_string);
        let named = [
            ("plans.agent", usual.as_ref()),
            ("plans.healer", self.options.healer.as_ref()),
        ];
        let lacking = named.into_iter().filter_map(|(key, name)| {
            let error = agents.lacks(name?)?;
            Some(format!("{key}: {}", chain(&error)))
        });
        lacking.collect()
    }
}

/// Patience with other gits: the user is at work in their repository too.
#[derive(Debug)]
pub(crate) struct Patience(Duration);

impl Default for Patience {
    fn default() -> Self {
        Self(FIRST_WAIT)
    }
}

impl Patience {
    /// Whether to try again, after a while, since another git or a signal was in the way.
    pub(crate) async fn tries_again(&mut self, error: &GitError) -> bool {
        let is_in_the_way = matches!(error, GitError::Locked { .. } | GitError::Busy { .. });
        if !(is_in_the_way || error.is_interrupted()) || self.0 > LAST_WAIT {
            return false;
        }
        tokio::time::sleep(self.0).await;
        self.0 *= 2;
        true
    }
}

/// What went wrong with git, as a failure of an act.
pub(crate) fn git_failure(error: &GitError) -> Failure {
    let kind = match error {
        GitError::Full { .. } => FailureKind::Storage,
        GitError::Locked { .. } | GitError::Busy { .. } | GitError::TimedOut { .. } => {
            FailureKind::Transient
        }
        error if error.is_interrupted() => FailureKind::Transient,
        GitError::NotOurs { .. } => FailureKind::Worktree,
        _ => FailureKind::Git,
    };
    Failure::new(kind, git_words(error))
}

/// A fault of ours, as a failure of an act.
pub(crate) fn internal(error: &dyn std::error::Error) -> Failure {
    Failure::new(FailureKind::Internal, chain(error))
}

/// An id of a job. Without randomness there is none, and no plan is made with it.
pub(crate) fn new_job_id() -> JobId {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::error!(%error, "the system has no randomness");
        // The time is what is left to tell ids apart by; ids that are there twice are refused.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        bytes = now.map_or(0, |now| now.as_nanos()).to_be_bytes();
    }
    JobId::of_random(bytes)
}
