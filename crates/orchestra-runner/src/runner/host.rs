//! State that the engine and its jobs share: options and the repository.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use orchestra_place::check_answer;
use orchestra_plan::{
    event::{Failure, FailureKind},
    ids::JobId,
    outcome::Policy,
    work::ProfileName,
};
use tokio::{
    sync::{OnceCell, Semaphore},
    task::JoinError,
};

use super::permits::{self, Permits};
use crate::{
    agents::{Author, Denied, Offer, Profile, Purpose},
    cause::chain,
    git::{Git, GitError, GitTimes, Repository},
    plans::{Options, git_words},
};

/// State that the engine and its jobs share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) options: Arc<Options>,
    repository: OnceCell<Repository>,
    /// Who removes a worktree has one of these: many jobs may have ended at once.
    pub(crate) removals: Semaphore,
    /// Reason that no agent may heal, as of the last look.
    healer: Mutex<Option<String>>,
}

/// First and last wait for another git that holds a lock.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LAST_WAIT: Duration = Duration::from_secs(4);

/// Maximum number of worktrees that are removed at a time.
const REMOVALS: usize = 2;

impl Host {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            repository: OnceCell::new(),
            removals: Semaphore::new(REMOVALS),
            healer: Mutex::default(),
        }
    }

    /// The repository of the workspace, opened when it is first needed. Nothing is changed in one that does not lead
    /// back to the workspace.
    pub(crate) async fn repository(&self) -> Result<&Repository, GitError> {
        let open = async || {
            let git = Git::find(self.options.git.clone()).await?;
            let Options {
                workspace, safety, ..
            } = &*self.options;
            let found = Repository::open(&git, workspace).await?;
            check_answer(workspace, *safety, found.toplevel(), found.directory())?;
            Ok(found)
        };
        self.repository.get_or_try_init(open).await
    }

    /// Waits until nothing is being brought onto a branch any more.
    pub(crate) async fn landed(&self) {
        if let Some(repository) = self.repository.get() {
            repository.landed().await;
        }
    }

    /// Number and duration of the git processes that were started, if there were any.
    pub(crate) fn git_times(&self) -> Option<GitTimes> {
        self.repository.get().map(|found| found.git().times())
    }

    /// Permissions of agents now; reads the agreements of the user.
    pub(crate) async fn permits(&self) -> Permits {
        let permits = self.blocking(Permits::read).await;
        let none = |_| Permits::without_agreements(Arc::clone(&self.options));
        permits.unwrap_or_else(none)
    }

    /// Description of an agent for a person; `None` where no agent has this name. Reads files, and may block.
    pub(crate) fn offer(&self, name: &str) -> Option<Offer> {
        permits::offer(&self.options, name)
    }

    /// Checks, directly before an agent starts in a directory, that its command line runs there what the user agreed
    /// to: a job or a branch may have brought other files.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) async fn check_start(
        &self,
        name: &ProfileName,
        profile: &Profile,
        directory: &Path,
    ) -> Result<(), Denied> {
        if self.options.agents.author(name) != Author::Workspace {
            return Ok(());
        }
        let (agent, profile, place) = (name.clone(), profile.clone(), directory.to_owned());
        let check =
            move |options: Arc<Options>| permits::check_start(&options, &agent, &profile, &place);
        let checked = self.blocking(check).await;
        checked.unwrap_or_else(|error| {
            Err(Denied::Replaced {
                name: name.clone(),
                what: error.to_string(),
                directory: directory.display().to_string(),
            })
        })
    }

    /// Runs work that reads files on a thread that may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Options>) -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let options = Arc::clone(&self.options);
        tokio::task::spawn_blocking(move || work(options)).await
    }

    /// Limits of heals: number and cost.
    pub(crate) fn heal_limits(&self) -> String {
        permits::heal_limits(&self.options)
    }

    /// Notes whether an agent may heal now, for the next decision. Its program is looked for and not asked.
    pub(crate) async fn look_for_healer(&self) {
        let lacks = self.lacks_healer().await;
        let mut known = self.healer.lock().unwrap_or_else(PoisonError::into_inner);
        *known = lacks;
    }

    async fn lacks_healer(&self) -> Option<String> {
        let lacks = self.blocking(|options| {
            let agents = Arc::clone(&options.agents);
            match Permits::read(options).of(Purpose::Healing, None) {
                Ok(permit) => agents
                    .lacks(permit.name.as_str())
                    .map(|lacks| chain(&lacks)),
                Err(denied) => Some(denied.to_string()),
            }
        });
        let why = lacks
            .await
            .unwrap_or_else(|error| Some(error.to_string()))?;
        Some(format!("not healed: {why}"))
    }

    /// Puts into a policy whether an agent may heal.
    pub(crate) fn settle_healer(&self, policy: &mut Policy) {
        let known = self.healer.lock().unwrap_or_else(PoisonError::into_inner);
        let configured = &self.options.policy;
        policy.has_healer = configured.has_healer && known.is_none();
        policy.no_healer = match &*known {
            Some(why) if configured.has_healer => why.clone(),
            _ => configured.no_healer.clone(),
        };
    }

    /// Faults of the agents that the configuration names.
    pub(crate) fn misnamed(&self) -> Vec<String> {
        let (agents, named) = (&self.options.agents, &self.options.named);
        let named = [
            ("plans.agent", &named.agent),
            ("plans.healer", &named.healer),
        ];
        let named = named
            .into_iter()
            .flat_map(|(key, namings)| namings.iter().map(move |naming| (key, naming)));
        let lacking = named.filter_map(|(key, naming)| {
            let error = agents.lacks(naming.name.as_str())?;
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

/// An error of git as the failure of an act.
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
        tracing::error!(%error, "cannot read random bytes from the system");
        // The time is what is left to tell ids apart by; ids that are there twice are refused.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        bytes = now.map_or(0, |now| now.as_nanos()).to_be_bytes();
    }
    JobId::of_random(bytes)
}
