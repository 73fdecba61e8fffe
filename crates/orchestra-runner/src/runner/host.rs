//! State that the engine and its jobs share: options and the repository.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use orchestra_place::check_answer;
use orchestra_plan::{
    budget::Micros,
    event::{Failure, FailureKind},
    ids::JobId,
    outcome::Policy,
    work::ProfileName,
};
use tokio::sync::{OnceCell, Semaphore};

use crate::{
    agents::{Author, Case, Covered, Denied, Offer, Permit, Profile, Purpose, decide},
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
    pub(crate) async fn permits(&self) -> Permits<'_> {
        let mut permits = Permits {
            options: &self.options,
            agreed: Vec::new(),
            changed: BTreeMap::new(),
        };
        for (name, agreement) in self.agreed().await {
            if let Some(offer) = self.offer(&name) {
                match offer.check(&agreement) {
                    Ok(()) => permits.agreed.push(offer.name),
                    Err(what) => {
                        permits.changed.insert(offer.name, what);
                    }
                }
            }
        }
        permits
    }

    /// Agents that the user agreed to, and what was agreed to.
    async fn agreed(&self) -> BTreeMap<String, String> {
        let Some(agreements) = self.options.agreements.clone() else {
            return BTreeMap::new();
        };
        let agreed = tokio::task::spawn_blocking(move || agreements.agreed()).await;
        agreed.unwrap_or_default()
    }

    /// Description of an agent for a person; `None` where no agent has this name.
    pub(crate) fn offer(&self, name: &str) -> Option<Offer> {
        let name = ProfileName::parse(name).ok()?;
        let profile = self.options.agents.profile(name.as_str())?;
        let covered = self.covered(&name, profile, &self.options.workspace);
        // A workspace that cannot be read has no file that could run.
        Some(self.offer_of(&name, profile, &covered.unwrap_or_default()))
    }

    fn offer_of(&self, name: &ProfileName, profile: &Profile, covered: &Covered) -> Offer {
        let (author, limits) = (self.options.agents.author(name), self.heal_limits());
        Offer::of(name, profile, author, &covered.lines(), &limits)
    }

    /// Files that the command line of an agent names, as they are in a directory. Those of the user's own profiles
    /// and of the built-in ones need no agreement; the author of a profile of the workspace may write them as well.
    fn covered(
        &self,
        name: &ProfileName,
        profile: &Profile,
        directory: &Path,
    ) -> orchestra_fs::Result<Covered> {
        let agents = &self.options.agents;
        match agents.author(name) {
            Author::Workspace => Covered::of(agents.program(name).as_deref(), profile, directory),
            Author::Program | Author::User => Ok(Covered::default()),
        }
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
        let agents = &self.options.agents;
        if agents.author(name) != Author::Workspace {
            return Ok(());
        }
        let agreed = self.agreed().await;
        let covered = self.covered(name, profile, &self.options.workspace);
        let covered = covered.unwrap_or_default();
        let offer = self.offer_of(name, profile, &covered);
        let Some(agreement) = agreed.get(name.as_str()) else {
            return Err(Denied::Defined {
                name: name.clone(),
                user_file: agents.user_file().to_owned(),
            });
        };
        if let Err(what) = offer.check(agreement) {
            return Err(Denied::Changed {
                name: name.clone(),
                what,
            });
        }
        let file = match self.covered(name, profile, directory) {
            Ok(here) => here.difference(&covered),
            Err(_) => Some(".".to_owned()),
        };
        let Some(file) = file else {
            return Ok(());
        };
        Err(Denied::Replaced {
            name: name.clone(),
            file,
            directory: directory.display().to_string(),
        })
    }

    /// Limits of heals: number and cost.
    pub(crate) fn heal_limits(&self) -> String {
        let policy = &self.options.policy;
        format!(
            "at most {} heals per job and {} per plan, up to {} USD per plan where the agent reports its cost",
            policy.heals_max,
            policy.plan_heals_max,
            Micros(policy.heal_cost_max)
        )
    }

    /// Notes whether an agent may heal now, for the next decision. Its program is looked for and not asked.
    pub(crate) async fn look_for_healer(&self) {
        let lacks = self.lacks_healer().await;
        let mut known = self.healer.lock().unwrap_or_else(PoisonError::into_inner);
        *known = lacks;
    }

    async fn lacks_healer(&self) -> Option<String> {
        let permit = match self.permits().await.of(Purpose::Healing, None) {
            Ok(permit) => permit,
            Err(denied) => return Some(format!("not healed: {denied}")),
        };
        let agents = Arc::clone(&self.options.agents);
        let lacks = tokio::task::spawn_blocking(move || agents.lacks(permit.name.as_str()));
        let lacks = lacks.await.ok().flatten()?;
        Some(format!("not healed: {}", chain(&lacks)))
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

/// Permissions of agents: the configuration, and agreements of the user as they were read.
#[derive(Debug)]
pub(crate) struct Permits<'a> {
    options: &'a Options,
    /// The agents that the user agreed to as they are now, in the order of their names.
    agreed: Vec<ProfileName>,
    /// The agents that the user agreed to and that changed since, with what changed.
    changed: BTreeMap<ProfileName, String>,
}

impl Permits<'_> {
    /// Decides which agent may run for a purpose; `job` is the agent that the job names for its work.
    pub(crate) fn of(&self, purpose: Purpose, job: Option<&ProfileName>) -> Result<Permit, Denied> {
        let case = Case {
            purpose,
            job,
            named: &self.options.named,
            agreed: &self.agreed,
            changed: &self.changed,
            user_file: self.options.agents.user_file(),
        };
        decide(&case, |name| self.options.agents.author(name))
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
