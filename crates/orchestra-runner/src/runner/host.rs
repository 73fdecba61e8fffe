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
};
use tokio::{
    sync::{OnceCell, Semaphore},
    task::JoinError,
};

use super::permits::{self, Permits};
use crate::{
    agents::{Author, Chosen, Denied, Offer, Purpose},
    cause::chain,
    git::{Git, GitError, GitTimes, Repository},
    plans::{Options, git_words},
};

/// State that the engine and its jobs share.
#[derive(Debug)]
pub(crate) struct Host {
    /// Options of the process as it began: its directories, its environment, its programs. The settings of the user are
    /// in [`Self::settings`].
    pub(crate) options: Arc<Options>,
    /// The same with the settings as they were read last.
    settings: Mutex<Arc<Options>>,
    /// Held while the settings are read, so that no earlier ones replace later ones.
    reading: tokio::sync::Mutex<()>,
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
            settings: Mutex::new(Arc::clone(&options)),
            reading: tokio::sync::Mutex::default(),
            options,
            repository: OnceCell::new(),
            removals: Semaphore::new(REMOVALS),
            healer: Mutex::default(),
        }
    }

    /// Options with the settings that the user has now. Programs of jobs start with these.
    ///
    /// # Errors
    /// The reason in words, when the configuration cannot be read. No program starts then, because its limits and its
    /// sandbox are not known.
    pub(crate) async fn settings(&self) -> Result<Arc<Options>, String> {
        let Some(read) = self.options.read_settings.clone() else {
            return Ok(self.known_settings());
        };
        // single-flight: a later read may not be replaced by an earlier one.
        let _reading = self.reading.lock().await;
        let before = self.known_settings();
        let read = tokio::task::spawn_blocking(move || read(&before)).await;
        let read = read.unwrap_or_else(|error| Err(error.to_string()));
        let read = read.map_err(|why| format!("the settings of plans cannot be read: {why}"))?;
        let read = Arc::new(read);
        *self.lock_settings() = Arc::clone(&read);
        Ok(read)
    }

    /// Options with the settings as they were read last.
    pub(crate) fn known_settings(&self) -> Arc<Options> {
        Arc::clone(&self.lock_settings())
    }

    /// The settings as they are now, or the last ones that could be read: for what starts no program.
    pub(crate) async fn latest_settings(&self) -> Arc<Options> {
        self.settings()
            .await
            .unwrap_or_else(|_| self.known_settings())
    }

    fn lock_settings(&self) -> std::sync::MutexGuard<'_, Arc<Options>> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
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
        let none = |_| Permits::without_agreements(self.known_settings());
        permits.unwrap_or_else(none)
    }

    /// Description of an agent for a person; `None` where no agent has this name. Reads files, and may block.
    pub(crate) fn offer(&self, name: &str) -> Option<Offer> {
        permits::offer(&self.known_settings(), name)
    }

    /// Checks, directly before an agent starts in a directory, that its command line runs there what the user agreed
    /// to: a job or a branch may have brought other files.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) async fn check_start(
        &self,
        chosen: &Chosen,
        directory: &Path,
    ) -> Result<(), Denied> {
        if chosen.author != Author::Workspace {
            return Ok(());
        }
        let (name, place) = (&chosen.name, directory.to_owned());
        let (agent, profile) = (name.clone(), chosen.profile.clone());
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

    /// Runs work that reads files on a thread that may block, with the latest settings.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Options>) -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let options = self.latest_settings().await;
        tokio::task::spawn_blocking(move || work(options)).await
    }

    /// Limits of heals: number and cost.
    pub(crate) fn heal_limits(&self) -> String {
        permits::heal_limits(&self.known_settings())
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

    /// The policy of the settings, with whether an agent may heal.
    pub(crate) fn policy(&self) -> Policy {
        let mut policy = self.known_settings().policy.clone();
        let known = self.healer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = known.as_ref().filter(|_| policy.has_healer) {
            policy.has_healer = false;
            policy.no_healer.clone_from(why);
        }
        policy
    }

    /// Faults of the agents that the configuration names.
    pub(crate) fn misnamed(&self) -> Vec<String> {
        let settings = self.known_settings();
        let (agents, named) = (&settings.agents, &settings.named);
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
