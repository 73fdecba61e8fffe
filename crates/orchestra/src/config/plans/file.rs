//! What a configuration file says of plans and agents, and what a workspace's may not say.

use std::{collections::BTreeMap, ops::RangeInclusive, path::Path};

use anyhow::Context as _;
use orchestra_plan::{outcome::Restart, work::ProfileName};
use orchestra_runner::agents::{Profile, ready};
use serde::Deserialize;

use super::{
    Configured, RESTARTS,
    bounds::BoundsFile,
    context::{ContextFile, ContextOnDisk},
};
use crate::{
    config::{
        Origin,
        file::{ParseError, within, wrong},
        model::own_file,
    },
    exit::Failure,
    output,
};

/// How many jobs of a kind may be at work at once; 0 sets no limit.
const JOBS: RangeInclusive<u64> = 0..=1_024;

/// Maximum number of heals of a job, and of all jobs of a plan.
const HEALS: RangeInclusive<u64> = 0..=20;
const PLAN_HEALS: RangeInclusive<u64> = 0..=1_000;

/// Maximum cost of the heals of a plan, in USD.
const HEAL_COST: RangeInclusive<f64> = 0.01..=10_000.0;

/// How long a job may take or be silent, in seconds: up to a week. 0 sets no limit.
const SECONDS: RangeInclusive<u64> = 0..=604_800;

/// How much of what a job prints is kept.
const LOG_BYTES: RangeInclusive<u64> = 65_536..=1_073_741_824;

/// The longest beginning of branches.
const MAX_PREFIX: usize = 50;

/// What a file says of it.
#[derive(Debug, Default)]
pub(in crate::config) struct PlansFile {
    pub(super) jobs: Option<u64>,
    pub(super) agent_jobs: Option<u64>,
    pub(super) shell_jobs: Option<u64>,
    pub(super) process_jobs: Option<u64>,
    pub(super) machine_jobs: Option<u64>,
    pub(super) heal_attempts: Option<u64>,
    pub(super) plan_heal_attempts: Option<u64>,
    /// In millionths.
    pub(super) heal_cost: Option<u64>,
    pub(super) restart: Option<Restart>,
    pub(super) timeout: Option<u64>,
    pub(super) idle_timeout: Option<u64>,
    pub(super) log_bytes: Option<u64>,
    pub(super) branch_prefix: Option<String>,
    pub(super) agent: Option<ProfileName>,
    pub(super) healer: Option<ProfileName>,
    pub(super) bounds: BoundsFile,
    pub(super) context: ContextFile,
    pub(super) agents: toml::Table,
    /// Whether it is the workspace's, which other people may have written.
    pub(in crate::config) is_shared: bool,
    /// What it may not say: why, and what to do instead.
    pub(super) overreach: Vec<String>,
    /// Agents whose profiles are wrong, each with the file and the reason.
    pub(super) unusable: BTreeMap<ProfileName, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct PlansOnDisk {
    max_jobs: Option<u64>,
    max_agents: Option<u64>,
    max_shells: Option<u64>,
    max_processes: Option<u64>,
    machine_jobs: Option<u64>,
    heal_attempts: Option<u64>,
    plan_heal_attempts: Option<u64>,
    heal_cost_usd: Option<f64>,
    restart: Option<String>,
    timeout_seconds: Option<u64>,
    idle_timeout_seconds: Option<u64>,
    log_bytes: Option<u64>,
    memory_bytes: Option<u64>,
    pids_limit: Option<u64>,
    cpu_seconds: Option<u64>,
    output_bytes: Option<u64>,
    sandbox: Option<String>,
    branch_prefix: Option<String>,
    agent: Option<String>,
    healer: Option<String>,
    #[serde(default)]
    context_pressure: ContextOnDisk,
}

impl PlansOnDisk {
    /// As it is used.
    ///
    /// # Errors
    /// When a value is not one that it may have.
    pub(in crate::config) fn checked(self, agents: toml::Table) -> Result<PlansFile, ParseError> {
        let restart = self.restart.map(|found| {
            restart_named(&found)
                .ok_or_else(|| wrong("plans.restart", "resume, retry-once or manual", found))
        });
        let prefix = self.branch_prefix.map(|found| match is_prefix(&found) {
            true => Ok(found),
            false => Err(wrong(
                "plans.branch_prefix",
                "1 to 50 letters, digits and -_./ such as `orchestra/`",
                found,
            )),
        });
        let numbers = [
            self.memory_bytes,
            self.pids_limit,
            self.cpu_seconds,
            self.output_bytes,
        ];
        Ok(PlansFile {
            bounds: BoundsFile::checked(numbers, self.sandbox)?,
            jobs: within("plans.max_jobs", self.max_jobs, &JOBS)?,
            agent_jobs: within("plans.max_agents", self.max_agents, &JOBS)?,
            shell_jobs: within("plans.max_shells", self.max_shells, &JOBS)?,
            process_jobs: within("plans.max_processes", self.max_processes, &JOBS)?,
            machine_jobs: within("plans.machine_jobs", self.machine_jobs, &JOBS)?,
            heal_attempts: within("plans.heal_attempts", self.heal_attempts, &HEALS)?,
            plan_heal_attempts: within(
                "plans.plan_heal_attempts",
                self.plan_heal_attempts,
                &PLAN_HEALS,
            )?,
            heal_cost: micros("plans.heal_cost_usd", self.heal_cost_usd)?,
            restart: restart.transpose()?,
            timeout: within("plans.timeout_seconds", self.timeout_seconds, &SECONDS)?,
            idle_timeout: within(
                "plans.idle_timeout_seconds",
                self.idle_timeout_seconds,
                &SECONDS,
            )?,
            log_bytes: within("plans.log_bytes", self.log_bytes, &LOG_BYTES)?,
            branch_prefix: prefix.transpose()?,
            agent: agent("plans.agent", self.agent)?,
            healer: agent("plans.healer", self.healer)?,
            context: self.context_pressure.checked()?,
            agents,
            is_shared: false,
            overreach: Vec::new(),
            unusable: BTreeMap::new(),
        })
    }
}

impl PlansFile {
    /// Adds a line about what a workspace's file may not set.
    pub(in crate::config) fn report(&mut self, line: String) {
        self.overreach.push(line);
    }

    /// Leaves out what is not for a workspace to say.
    pub(in crate::config) fn bound(&mut self, path: &Path) {
        let own = own_file();
        self.is_shared = true;
        // An agent of the workspace runs once the user has agreed to it as it is shown, and takes no name of another agent.
        let parsed = |name: &str, table: &toml::Value| {
            let _: ProfileName = ProfileName::parse(name).map_err(|error| error.to_string())?;
            let profile: Result<Profile, _> = table.clone().try_into();
            // The text of an error of TOML has several lines and ends in a line break.
            let in_a_line = |error: toml::de::Error| {
                let text = error.to_string();
                text.trim_end().replace('\n', ", ")
            };
            profile.map(drop).map_err(in_a_line)
        };
        let (overreach, unusable) = (&mut self.overreach, &mut self.unusable);
        self.agents.retain(|name, table| {
            make_absolute(table, path);
            let why = match parsed(name, table) {
                _ if ready::is_ready(name) => {
                    format!("the name is that of a built-in agent; write it into {own} instead")
                }
                Err(error) => error,
                Ok(()) => return true,
            };
            let line = format!(
                "{}: [agents.{}] is not used: {}",
                path.display(),
                output::in_a_line(name),
                output::in_a_line(&why)
            );
            overreach.push(line.clone());
            if let Ok(name) = ProfileName::parse(name)
                && !ready::is_ready(name.as_str())
            {
                unusable.insert(name, line);
            }
            false
        });
        if self.machine_jobs.take().is_some() {
            self.overreach.push(format!(
                "{}: plans.machine_jobs is ignored: it applies to the machine; set it in {own}",
                path.display()
            ));
        }
        if self.bounds.bound() {
            self.overreach.push(format!(
                "{}: plans.sandbox = \"none\" is not used: a workspace may close a sandbox, and only {own} \
                 may open it",
                path.display()
            ));
        }
    }

    /// The profiles of the file.
    ///
    /// # Errors
    /// When one does not hold together.
    pub(super) fn profiles(
        &self,
        path: &Path,
    ) -> Result<BTreeMap<ProfileName, Configured>, Failure> {
        let profile = |(name, table): (&String, &toml::Value)| {
            let shown = output::in_a_line(name);
            let key = || format!("configuration file {}: agents.{shown}", path.display());
            let parsed = ProfileName::parse(name).with_context(key)?;
            let profile: Result<Profile, _> = table.clone().try_into();
            let profile = profile.map_err(|error| ParseError::toml(&error));
            let profile = profile.with_context(key)?;
            Ok((parsed, (profile, Origin::File(path.to_owned()))))
        };
        let profiles = self.agents.iter().map(profile);
        profiles
            .collect::<anyhow::Result<_>>()
            .map_err(Failure::Usage)
    }
}

/// Makes a relative path of a profile's program absolute: it is relative to the directory of its file.
fn make_absolute(profile: &mut toml::Value, file: &Path) {
    let Some(toml::Value::String(program)) = profile.get_mut("program") else {
        return;
    };
    let is_relative = program.contains('/') && !program.starts_with('/');
    let near = file.parent().filter(|_| is_relative);
    let absolute = near.and_then(|near| std::path::absolute(near.join(&*program)).ok());
    if let Some(absolute) = absolute.as_deref().and_then(Path::to_str) {
        absolute.clone_into(program);
    }
}

/// The name of an agent; nothing is what `config show` writes where nothing is set.
fn agent(key: &'static str, found: Option<String>) -> Result<Option<ProfileName>, ParseError> {
    let parse = |text: String| {
        let expected = "the name of an agent: lower-case letters, digits and hyphens";
        ProfileName::parse(&text).map_err(|_| wrong(key, expected, text))
    };
    found.filter(|text| !text.is_empty()).map(parse).transpose()
}

/// An amount of money in millionths.
fn micros(key: &'static str, found: Option<f64>) -> Result<Option<u64>, ParseError> {
    match found {
        Some(found) if !HEAL_COST.contains(&found) => {
            let expected = format!("{} to {}", HEAL_COST.start(), HEAL_COST.end());
            Err(wrong(key, &expected, found.to_string()))
        }
        // Within these bounds nothing is lost but fractions of a millionth.
        Some(found) => Ok(Some((found * 1e6).round() as u64)),
        None => Ok(None),
    }
}

fn is_prefix(text: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "-_./".contains(char);
    (1..=MAX_PREFIX).contains(&text.len())
        && text.chars().all(is_part)
        && !text.starts_with(['-', '/', '.'])
        && !["..", "//", "/.", ".lock/"]
            .iter()
            .any(|bad| text.contains(bad))
}

fn restart_named(text: &str) -> Option<Restart> {
    let found = RESTARTS.iter().find(|(_, name)| *name == text);
    found.map(|(restart, _)| *restart)
}
