//! `[plans]` and `[agents]`: where plans are kept, how they are run, and which agents there are.
//!
//! An agent is a program that is started with the rights of the user and costs money. One that only a file of
//! the workspace names or defines, which other people may have written, runs once the user has agreed to it; and such
//! a file lowers limits of healing, and raises none.

mod bounds;
mod context;
mod file;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use orchestra_place::{Choice, Place, Safety};
use orchestra_plan::{
    budget::Micros,
    outcome::{Policy, Restart},
    work::ProfileName,
};
use orchestra_runner::{
    agents::{Author, Named, Naming, Profile},
    journal::DATABASE,
    logs::Bounds,
    plans::{Options, Placement},
    supervise::{JobLimits, LogBounds},
};

use super::{
    Config, Entry, Origin, Setting, file::ConfigFile, least, model::own_file, safety_of, settle,
};
use crate::{env::Variable, exit::Failure, servers};
use bounds::BoundsConfig;
use context::ContextConfig;
pub(super) use file::{PlansFile, PlansOnDisk};

/// The key of where plans are kept, which no file sets: it would lead out of the workspace.
pub(super) const STORAGE: &str = "plans.storage";

/// Directory of plans of earlier versions, below the workspace.
const FORMER: &str = ".orchestrator/plans";

/// Storage root of a workspace that has none: a path that cannot be created.
const NOWHERE: &str = "/dev/null/plans";

/// What branches begin with that are made up.
const PREFIX: &str = "orchestra/";

/// How many jobs are at work at once on a machine of any size.
const MACHINE: u64 = 64;

/// How many agents are at work at once, unless said.
const AGENTS: u64 = 16;

/// Where plans are kept, and how they are run.
#[derive(Debug, Clone)]
pub(crate) struct PlansConfig {
    /// Where they are kept, absolute.
    pub(crate) storage: Setting<PathBuf>,
    /// Which directory that is, or why there is none.
    placement: Placement,
    /// Whether the user lists the workspace as safe.
    safety: Safety,
    /// Directory of earlier versions, unless the user names one.
    former: Option<PathBuf>,
    jobs: Setting<u64>,
    agent_jobs: Setting<u64>,
    shell_jobs: Setting<u64>,
    process_jobs: Setting<u64>,
    machine_jobs: Setting<u64>,
    heal_attempts: Setting<u64>,
    plan_heal_attempts: Setting<u64>,
    heal_cost: Setting<u64>,
    restart: Setting<Restart>,
    timeout: Setting<u64>,
    idle_timeout: Setting<u64>,
    log_bytes: Setting<u64>,
    branch_prefix: Setting<String>,
    agent: Setting<Option<ProfileName>>,
    healer: Setting<Option<ProfileName>>,
    named: Named,
    bounds: BoundsConfig,
    context: ContextConfig,
    profiles: BTreeMap<ProfileName, Configured>,
    shared_profiles: BTreeMap<ProfileName, Configured>,
    overreach: Vec<String>,
}

/// A profile, and where it stands.
type Configured = (Profile, Origin);

impl PlansConfig {
    /// What the environment and the files say, the strongest first, else what is usual.
    ///
    /// # Errors
    /// When a profile of an agent does not hold together, or the directory of the environment cannot be
    /// made absolute.
    pub(super) fn settle(
        workspace: &Path,
        files: &[(PathBuf, ConfigFile)],
        place: Result<Place, Failure>,
    ) -> Result<Self, Failure> {
        let (policy, job, logs) = (
            Policy::default(),
            JobLimits::default(),
            LogBounds::default(),
        );
        let seconds = |time: Option<Duration>| time.map_or(0, |time| time.as_secs());
        let number = |pick: fn(&PlansFile) -> Option<u64>, default: u64| {
            settle(None, files, |file| pick(&file.plans), || default)
        };
        let named = |pick: fn(&PlansFile) -> Option<&ProfileName>| {
            let namings = files.iter().filter_map(|(_, file)| {
                let by = match file.plans.is_shared {
                    true => Author::Workspace,
                    false => Author::User,
                };
                let name = pick(&file.plans)?.clone();
                Some(Naming { name, by })
            });
            let strongest = settle(
                None,
                files,
                |file| pick(&file.plans).cloned().map(Some),
                || None,
            );
            (strongest, namings.collect::<Vec<Naming>>())
        };
        let (agent, agents) = named(|file| file.agent.as_ref());
        let (healer, healers) = named(|file| file.healer.as_ref());
        let machine = machine_jobs();
        let (mut profiles, mut shared_profiles) = (BTreeMap::new(), BTreeMap::new());
        for (path, file) in files.iter().rev() {
            let of = match file.plans.is_shared {
                true => &mut shared_profiles,
                false => &mut profiles,
            };
            of.extend(file.plans.profiles(path)?);
        }
        let all = files.iter().flat_map(|(_, file)| &file.plans.overreach);
        let mut overreach: Vec<String> = all.cloned().collect();
        shared_profiles.retain(|name, (_, origin): &mut Configured| {
            let is_taken = profiles.contains_key(name);
            if is_taken {
                let line =
                    format!("{origin}: [agents.{name}] is not used: the name is that of your own");
                overreach.push(line);
            }
            !is_taken
        });
        let unusable = files.iter().flat_map(|(_, file)| &file.plans.unusable);
        let unusable = unusable
            .filter(|(name, _)| {
                !profiles.contains_key(*name) && !shared_profiles.contains_key(*name)
            })
            .map(|(name, why)| (name.clone(), why.clone()))
            .collect();
        let mut bounded = |key: &str, pick: fn(&PlansFile) -> Option<u64>, default: u64| {
            let pick = |file: &ConfigFile| pick(&file.plans);
            least(files, key, pick, default, |limit| limit, &mut overreach)
        };
        let heal_attempts = bounded(
            "plans.heal_attempts",
            |file| file.heal_attempts,
            u64::from(policy.heals_max),
        );
        let plan_heal_attempts = bounded(
            "plans.plan_heal_attempts",
            |file| file.plan_heal_attempts,
            u64::from(policy.plan_heals_max),
        );
        let heal_cost = bounded(
            "plans.heal_cost_usd",
            |file| file.heal_cost,
            policy.heal_cost_max,
        );
        let (storage, placement) = storage(workspace, place)?;
        let is_named = matches!(placement, Placement::Named);
        Ok(Self {
            storage,
            placement,
            safety: safety_of(files.iter().any(|(_, file)| file.is_safe(workspace))),
            former: former(workspace).filter(|_| !is_named),
            jobs: number(|file| file.jobs, machine),
            agent_jobs: number(|file| file.agent_jobs, AGENTS),
            shell_jobs: number(|file| file.shell_jobs, 0),
            process_jobs: number(|file| file.process_jobs, 0),
            machine_jobs: number(|file| file.machine_jobs, machine),
            heal_attempts,
            plan_heal_attempts,
            heal_cost,
            restart: settle(None, files, |file| file.plans.restart, || policy.restart),
            timeout: number(|file| file.timeout, seconds(job.timeout)),
            idle_timeout: number(|file| file.idle_timeout, seconds(job.idle)),
            log_bytes: number(|file| file.log_bytes, logs.raw.head + logs.raw.tail),
            branch_prefix: settle(
                None,
                files,
                |file| file.plans.branch_prefix.clone(),
                || PREFIX.to_owned(),
            ),
            agent,
            healer,
            named: Named {
                agent: agents,
                healer: healers,
                unusable,
            },
            bounds: BoundsConfig::settle(files, &mut overreach),
            context: ContextConfig::settle(files),
            profiles,
            shared_profiles,
            overreach,
        })
    }

    /// Returns whether there may be plans, here or where earlier versions kept them. What cannot be looked at may be.
    pub(crate) fn may_exist(&self) -> bool {
        let may_exist = |path: &PathBuf| !matches!(path.try_exists(), Ok(false));
        let is_unusable = match &self.placement {
            Placement::Place(place) => place.open_own(Placement::NAME).is_err(),
            Placement::Named => false,
            Placement::Nowhere(_) => true,
        };
        is_unusable
            || self
                .former
                .iter()
                .chain([&self.storage.value])
                .any(may_exist)
    }

    /// Reports plans of the workspace in the place that `place` does not choose; `None` where there are none.
    pub(crate) fn unused_place(&self, config: &Config) -> Option<String> {
        let (used, other, name) = match config.place.value {
            Choice::Repository => ("repository", Choice::State, "state"),
            Choice::State => ("state", Choice::Repository, "repository"),
        };
        if matches!(self.placement, Placement::Named) {
            return None;
        }
        let state = servers::state_directory().ok();
        let place = Place::find_as(&config.workspace, state.as_deref(), other, self.safety).ok()?;
        let storage = place.own().join(Placement::NAME);
        let is_unused = storage != self.storage.value && storage.join(DATABASE).exists();
        is_unused.then(|| {
            format!(
                "the plans in {} are not used, since `place` is \"{used}\": set `place = \"{name}\"` in {} to use \
                 them, or remove that directory",
                storage.display(),
                own_file()
            )
        })
    }

    /// What the workspace's file says and may not, a line each: why, and what to do instead.
    pub(crate) fn overreach(&self) -> impl Iterator<Item = &str> {
        self.overreach.iter().map(String::as_str)
    }

    /// The agents of the configuration: their names, their programs, and where that stands.
    pub(crate) fn agents(&self) -> impl Iterator<Item = (&str, &str, &Origin)> {
        let named = self.profiles.iter().chain(&self.shared_profiles);
        named.map(|(name, (profile, origin))| {
            (name.as_str(), profile.text().program.as_str(), origin)
        })
    }

    /// The profiles of the user's own file.
    pub(crate) fn profiles(&self) -> BTreeMap<ProfileName, Profile> {
        plain(&self.profiles)
    }

    /// The profiles of the workspace's file.
    pub(crate) fn shared_profiles(&self) -> BTreeMap<ProfileName, Profile> {
        plain(&self.shared_profiles)
    }

    /// How many jobs are at work at once on this machine; `None` where that is not limited.
    pub(crate) fn machine_jobs(&self) -> Option<usize> {
        let jobs = usize::try_from(self.machine_jobs.value).unwrap_or(usize::MAX);
        (jobs > 0).then_some(jobs)
    }

    /// Options with what is configured; agents and programs are for the caller to add.
    pub(crate) fn apply(&self, mut options: Options) -> Options {
        options.placement.clone_from(&self.placement);
        options.safety = self.safety;
        options.former.clone_from(&self.former);
        self.apply_to_jobs(&mut options);
        options
    }

    /// Options of a process that already runs, with the settings that this configuration has for its next jobs. Where
    /// plans are stored, and how many jobs run on the machine, stays as it was.
    pub(crate) fn renew(&self, before: &Options) -> Options {
        let mut options = before.clone();
        self.apply_to_jobs(&mut options);
        let (own, shared) = (self.profiles(), self.shared_profiles());
        options.agents = before.agents.with_profiles(own, shared);
        options
    }

    fn apply_to_jobs(&self, options: &mut Options) {
        let jobs = |setting: &Setting<u64>| u32::try_from(setting.value).unwrap_or(u32::MAX);
        let time = |setting: &Setting<u64>| {
            (setting.value > 0).then(|| Duration::from_secs(setting.value))
        };
        options.limits.total = jobs(&self.jobs);
        options.limits.agents = jobs(&self.agent_jobs);
        options.limits.shells = jobs(&self.shell_jobs);
        options.limits.processes = jobs(&self.process_jobs);
        options.policy.heals_max = jobs(&self.heal_attempts);
        options.policy.plan_heals_max = jobs(&self.plan_heal_attempts);
        options.policy.heal_cost_max = self.heal_cost.value;
        options.policy.restart = self.restart.value;
        options.policy.splits = self.context.splits();
        options.job.timeout = time(&self.timeout);
        options.job.idle = time(&self.idle_timeout);
        self.bounds.apply(options);
        // The end tells more than the beginning: it has two parts of three.
        let head = self.log_bytes.value / 3;
        options.logs.raw = Bounds {
            head,
            tail: self.log_bytes.value - head,
        };
        options.branch_prefix.clone_from(&self.branch_prefix.value);
        options.named = self.named.clone();
    }

    /// Its keys, to be shown.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let number = |key, setting: &Setting<u64>, meaning| Entry {
            key,
            value: setting.value.to_string(),
            meaning,
            origin: setting.origin.clone(),
        };
        let text = |key, value: &str, origin: &Origin, meaning| Entry {
            key,
            value: toml::Value::from(value).to_string(),
            meaning,
            origin: origin.clone(),
        };
        let name = |setting: &Setting<Option<ProfileName>>| {
            let name = setting.value.as_ref();
            name.map_or_else(String::new, ProfileName::to_string)
        };
        let storage = self.storage.value.display().to_string();
        let mut entries = vec![
            text(
                STORAGE,
                &storage,
                &self.storage.origin,
                "directory of plans: inside `place`, unless ORCHESTRATOR_STORAGE names a directory; not set in a file",
            ),
            number(
                "plans.max_jobs",
                &self.jobs,
                "maximum number of concurrent jobs of all plans of the workspace, 0 to 1024; 0 sets no limit, here and below",
            ),
            number(
                "plans.max_agents",
                &self.agent_jobs,
                "maximum number of them that run agents",
            ),
            number(
                "plans.max_shells",
                &self.shell_jobs,
                "maximum number of them that run shell lines",
            ),
            number(
                "plans.max_processes",
                &self.process_jobs,
                "maximum number of them that run programs without a shell",
            ),
            number(
                "plans.machine_jobs",
                &self.machine_jobs,
                "maximum number of concurrent jobs of all your workspaces on this machine; not in a workspace's file",
            ),
            number(
                "plans.heal_attempts",
                &self.heal_attempts,
                "maximum number of automatic attempts of a job, heals and reruns together, 0 to 20; 0 turns \
                 them off. A workspace's file may lower it",
            ),
            number(
                "plans.plan_heal_attempts",
                &self.plan_heal_attempts,
                "maximum number of heals by agents in a plan, 0 to 1000. A workspace's file may lower it",
            ),
            Entry {
                key: "plans.heal_cost_usd",
                value: dollars(self.heal_cost.value),
                meaning: "maximum cost of all heals of a plan in USD, where the agent reports its cost, 0.01 to \
                          10000. A workspace's file may lower it",
                origin: self.heal_cost.origin.clone(),
            },
            text(
                "plans.restart",
                restart_name(self.restart.value),
                &self.restart.origin,
                "handling of a job whose process is lost: resume continues it, retry-once continues it once, manual fails it",
            ),
            number(
                "plans.timeout_seconds",
                &self.timeout,
                "time limit of the work of a job, unless the job sets its own, 0 to 604800 seconds; 0 sets no limit",
            ),
            number(
                "plans.idle_timeout_seconds",
                &self.idle_timeout,
                "maximum time without output, 0 to 604800 seconds; 0 sets no limit",
            ),
            number(
                "plans.log_bytes",
                &self.log_bytes,
                "maximum size of its stored output, of which the beginning and the end are stored, 65536 to 1073741824 bytes",
            ),
            text(
                "plans.branch_prefix",
                &self.branch_prefix.value,
                &self.branch_prefix.origin,
                "prefix of generated names of plan branches",
            ),
            text(
                "plans.agent",
                &name(&self.agent),
                &self.agent.origin,
                "agent of jobs that name none; empty starts none. An agent that a workspace's file names runs after you agree to it (orchestra plan agents); until then, the one of your own file runs",
            ),
            text(
                "plans.healer",
                &name(&self.healer),
                &self.healer.origin,
                "agent that heals failed jobs; if it is empty, plans.agent; without either, no job is healed",
            ),
        ];
        entries.extend(self.bounds.entries());
        entries.extend(self.context.entries());
        entries
    }
}

fn plain(profiles: &BTreeMap<ProfileName, Configured>) -> BTreeMap<ProfileName, Profile> {
    let named = profiles.iter();
    named
        .map(|(name, (profile, _))| (name.clone(), profile.clone()))
        .collect()
}

/// Millionths as a number of TOML.
fn dollars(micros: u64) -> String {
    let text = Micros(micros).to_string();
    match text.contains('.') {
        true => text,
        false => format!("{text}.0"),
    }
}

/// Directory of plans of earlier versions; `None` where a symbolic link is in its place, which a clone can bring.
fn former(workspace: &Path) -> Option<PathBuf> {
    let path = workspace.join(FORMER);
    let is_link = |path: &Path| {
        path.symlink_metadata()
            .is_ok_and(|found| found.is_symlink())
    };
    let mut below_workspace = path.ancestors().take_while(|above| *above != workspace);
    let has_link = below_workspace.any(is_link);
    (!has_link).then_some(path)
}

fn storage(
    workspace: &Path,
    place: Result<Place, Failure>,
) -> Result<(Setting<PathBuf>, Placement), Failure> {
    if let Some(named) = Variable::Storage.read() {
        // The same from wherever in the workspace.
        let absolute = std::path::absolute(workspace.join(named))
            .with_context(|| Variable::Storage.to_string());
        let value = absolute.map_err(Failure::Usage)?;
        let origin = Origin::Environment(Variable::Storage);
        return Ok((Setting { value, origin }, Placement::Named));
    }
    let origin = Origin::Default;
    Ok(match place {
        Ok(place) => {
            let value = place.own().join(Placement::NAME);
            (Setting { value, origin }, Placement::Place(place))
        }
        Err(failure) => {
            let value = PathBuf::from(NOWHERE);
            (
                Setting { value, origin },
                Placement::Nowhere(failure.text()),
            )
        }
    })
}

/// So many jobs of all workspaces keep a machine busy without making it slow.
fn machine_jobs() -> u64 {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    u64::try_from(cores).map_or(MACHINE, |cores| (cores * 2).clamp(4, MACHINE))
}

const RESTARTS: [(Restart, &str); 3] = [
    (Restart::Resume, "resume"),
    (Restart::RetryOnce, "retry-once"),
    (Restart::Manual, "manual"),
];

fn restart_name(restart: Restart) -> &'static str {
    let found = RESTARTS.iter().find(|(other, _)| *other == restart);
    found.map_or("resume", |(_, name)| name)
}
