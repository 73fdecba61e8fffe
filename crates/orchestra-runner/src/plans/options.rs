//! How the plans of a workspace are run: where, by which programs, within which limits.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orchestra_place::{Place, Safety};
use orchestra_plan::{ids::Millis, outcome::Policy, schedule::Limits};
use orchestra_process::{Launcher, Sandbox, uptime};
use rustix::fs::{Access, access};

use super::{PlansError, Trust, home, now};
use crate::{
    agents::{Agents, Agreements, Named, Prober},
    cause::chain,
    git::{DESTROYED_BELOW_PERCENT, GitSettings},
    journal, logs,
    supervise::{BoardServer, JobLimits, LogBounds},
};

/// What a background runner waits for before it ends: that nobody has needed it for so long.
const QUIET: Duration = Duration::from_secs(2);

/// How often logs that are not to be kept any more are looked for.
const COLLECTED_EVERY: Duration = Duration::from_secs(60 * 60);

/// How long after each failure in the repository it is tried again.
const TRIED_AGAIN: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(120),
];

/// Reads the settings of the user again: the same options with the values that the configuration has now, or the reason
/// that it cannot be read. It may block.
pub type ReadSettings = Arc<dyn Fn(&Options) -> Result<Options, String> + Send + Sync>;

/// Returns whether the board of a workspace is not part of commits, or the error of the configuration that decides.
pub type IsBoardShared = fn(&Path) -> Result<bool, String>;

/// How the plans of a workspace are run.
#[derive(Clone)]
pub struct Options {
    /// A directory in the working tree of the repository.
    pub workspace: PathBuf,
    /// Where plans are kept.
    pub storage: PathBuf,
    /// Reads the settings again before a job runs a program. Unless set, jobs run with the settings that the process
    /// began with.
    pub read_settings: Option<ReadSettings>,
    /// Which directory that is, or why there is none.
    pub placement: Placement,
    /// Whether the user lists the workspace as safe.
    pub safety: Safety,
    /// Directory that earlier versions kept the plans in, from which they are moved.
    pub former: Option<PathBuf>,
    /// Whether this process takes part only to pass on a command, and otherwise looks at what is there.
    pub only_looks: bool,
    /// What this process calls itself where others of the workspace see it.
    pub name: String,
    /// How many jobs are at work at once.
    pub limits: Limits,
    /// How many jobs are at work at once on this machine, whatever their workspace; absent where that
    /// is not asked.
    pub machine: Option<Machine>,
    /// What follows failures.
    pub policy: Policy,
    /// The agents that there are.
    pub agents: Arc<Agents>,
    /// The agents that the configuration names: no other starts unless a job names it or a person agreed.
    pub named: Named,
    /// Where agreements of the user to agents are stored; no user can be asked unless it is set.
    pub agreements: Option<Arc<dyn Agreements>>,
    /// The databases whose plans may run; no plan runs unless set.
    pub trust: Trust,
    /// How git is called.
    pub git: GitSettings,
    /// What a run of a job may take, unless its work says otherwise.
    pub job: JobLimits,
    /// What shell lines and programs without a shell may reach besides what each may in a sandbox: its
    /// worktree, a directory of its own, and what the repository has, to read. Agents are in none.
    pub sandbox: Sandbox,
    /// Directories of private state. No directory that is linked for a job in a sandbox may contain one.
    pub closed: Vec<PathBuf>,
    /// What serves the board to jobs in a sandbox; its arguments lack the name of the job. They reach no board unless set.
    pub board: Option<BoardServer>,
    /// Returns whether the board of the workspace is in the git directory, or the reason that this is not known. Its
    /// readable files are then no part of a commit; they are unless set.
    pub is_board_shared: Option<IsBoardShared>,
    /// Variables that shell lines and programs outside a sandbox have, unless the plan sets them.
    pub unconfined: BTreeMap<OsString, OsString>,
    /// How much of what a run prints is kept.
    pub logs: LogBounds,
    /// How long logs are kept, and how much room they may take.
    pub kept: logs::Policy,
    /// How often logs that are not to be kept any more are looked for.
    pub collected_every: Duration,
    /// The environment that jobs take their variables from.
    pub environment: BTreeMap<OsString, OsString>,
    /// What stands before the names of branches that are made up, as in `orchestra/`.
    pub branch_prefix: String,
    /// Of a merge that leaves less than so many percent of the files nothing is kept; 0 for none.
    pub destroyed_below_percent: u64,
    /// Which program supervises runs; this one unless said.
    pub supervisor: Option<Launcher>,
    /// Which program runs the plans on when this process leaves; nothing is handed over unless said.
    pub background: Option<Background>,
    /// How large the database of the plans may grow; as large as that of others unless said.
    pub max_bytes: Option<u64>,
    /// How long after each failure in the repository what failed is tried again. What has failed more often is
    /// left to the next process that runs the plans.
    pub tried_again: Vec<Duration>,
    /// For how long nobody may need a background runner before it ends.
    pub quiet: Duration,
    /// Since when the machine is up. What runs had begun before, and left no trace, is taken to be lost.
    pub up_since: Option<Millis>,
}

/// Directory of the plans of a workspace.
#[derive(Debug, Clone)]
pub enum Placement {
    /// One that the user named.
    Named,
    /// The directory [`Placement::NAME`] of this checkout's own state.
    Place(Place),
    /// None, for this reason.
    Nowhere(String),
}

impl Placement {
    /// Name of the directory in a place.
    pub const NAME: &'static str = "plans";
}

/// A program that runs plans in the background: it calls [`crate::runner::background`].
#[derive(Debug, Clone)]
pub struct Background {
    /// Its file.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// How many jobs are at work at once on this machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Where the slots are: the same for all programs that are to share them.
    pub directory: PathBuf,
    /// How many there are.
    pub slots: usize,
}

impl Options {
    /// The usual ones, with the agents that come along.
    #[must_use]
    pub fn new(workspace: &Path, storage: &Path) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("orchestra"));
        let agents = Agents::new(BTreeMap::new(), Prober::new(path, own));
        Self::with_agents(workspace, storage, agents)
    }

    /// The usual ones, with these agents.
    #[must_use]
    pub fn with_agents(workspace: &Path, storage: &Path, agents: Agents) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let total = u32::try_from(cores.saturating_mul(2)).unwrap_or(u32::MAX);
        Self {
            workspace: workspace.to_owned(),
            storage: storage.to_owned(),
            read_settings: None,
            placement: Placement::Named,
            safety: Safety::Unlisted,
            former: None,
            only_looks: false,
            name: "orchestra".to_owned(),
            limits: Limits {
                total: total.clamp(4, 64),
                agents: 16,
                ..Limits::default()
            },
            machine: None,
            policy: Policy::default(),
            agents: Arc::new(agents),
            named: Named::default(),
            agreements: None,
            trust: Trust::default(),
            git: GitSettings::default(),
            job: JobLimits::default(),
            sandbox: Sandbox::None,
            closed: Vec::new(),
            board: None,
            is_board_shared: None,
            unconfined: BTreeMap::new(),
            logs: LogBounds::default(),
            kept: logs::Policy::default(),
            collected_every: COLLECTED_EVERY,
            environment: std::env::vars_os().collect(),
            branch_prefix: "orchestra/".to_owned(),
            destroyed_below_percent: DESTROYED_BELOW_PERCENT,
            supervisor: None,
            background: None,
            max_bytes: None,
            tried_again: TRIED_AGAIN.to_vec(),
            quiet: QUIET,
            up_since: uptime().map(|up| now().before(up)),
        }
    }

    /// Checks that the storage root can be used, and creates it where `takes` is set. Blocks for a moment.
    ///
    /// # Errors
    /// [`PlansError::Refused`] with the code `storage-unusable`, or `storage-of-another` where another workspace's
    /// plans are kept there.
    pub(crate) fn check_storage(&self, takes: bool) -> Result<(), PlansError> {
        let unusable = |message: String| PlansError::Refused {
            code: "storage-unusable".to_owned(),
            message,
        };
        match &self.placement {
            Placement::Named => home::check(&self.storage, &self.workspace, takes),
            Placement::Place(place) => {
                let opened = match takes {
                    true => place.make_own(Placement::NAME).map(Some),
                    false => place.open_own(Placement::NAME),
                };
                let opened = opened.map_err(|error| unusable(chain(&error)))?;
                match opened.filter(|_| takes) {
                    Some(directory) => check_writable(directory.path()).map_err(unusable),
                    None => Ok(()),
                }
            }
            Placement::Nowhere(why) => Err(unusable(why.clone())),
        }
    }

    pub(crate) fn journal(&self) -> journal::Options {
        let mut options = journal::Options::default();
        if let Some(most) = self.max_bytes {
            options.max_bytes = most;
        }
        options
    }
}

/// Checks that files can be created in the directory of plans. Returns the reason and the next step.
fn check_writable(directory: &Path) -> Result<(), String> {
    access(directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        format!(
            "the plans cannot be written: {}: {error}; make the directory writable, or set `place` in your own \
             orchestra.toml",
            directory.display()
        )
    })
}

impl std::fmt::Debug for Options {
    /// Without the environment.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("workspace", &self.workspace)
            .field("storage", &self.storage)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
