//! What a run of a job may take of the machine, and what it may reach.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use orchestra_process::Sandbox;
use orchestra_runner::{plans::Options, supervise::JobLimits};

use crate::config::{
    Entry, Setting,
    file::{ConfigFile, ParseError, within, wrong},
    least, settle,
};

/// How many bytes, processes and seconds may be asked for; 0 sets no limit.
const BYTES: RangeInclusive<u64> = 0..=1 << 50;
const PIDS: RangeInclusive<u64> = 0..=1_000_000;
const CPU_SECONDS: RangeInclusive<u64> = 0..=100_000_000;

/// What a sandbox is called.
const NONE: &str = "none";
const WORKSPACE: &str = "workspace";

/// What a file says of it.
#[derive(Debug, Default)]
pub(super) struct BoundsFile {
    memory: Option<u64>,
    pids: Option<u64>,
    cpu: Option<u64>,
    output: Option<u64>,
    sandbox: Option<bool>,
}

impl BoundsFile {
    /// What a file says of memory, processes, computing, output and the sandbox.
    ///
    /// # Errors
    /// When a value is not one that it may have.
    pub(super) fn checked(
        [memory, pids, cpu, output]: [Option<u64>; 4],
        sandbox: Option<String>,
    ) -> Result<Self, ParseError> {
        let sandbox = sandbox.map(|found| match found.as_str() {
            NONE => Ok(false),
            WORKSPACE => Ok(true),
            _ => Err(wrong("plans.sandbox", "none or workspace", found)),
        });
        Ok(Self {
            memory: within("plans.memory_bytes", memory, &BYTES)?,
            pids: within("plans.pids_limit", pids, &PIDS)?,
            cpu: within("plans.cpu_seconds", cpu, &CPU_SECONDS)?,
            output: within("plans.output_bytes", output, &BYTES)?,
            sandbox: sandbox.transpose()?,
        })
    }

    /// Leaves out that there is no sandbox; whether that was said.
    pub(super) fn bound(&mut self) -> bool {
        let opens = self.sandbox == Some(false);
        if opens {
            self.sandbox = None;
        }
        opens
    }
}

/// What runs of jobs may take and reach.
#[derive(Debug, Clone)]
pub(super) struct BoundsConfig {
    memory: Setting<u64>,
    pids: Setting<u64>,
    cpu: Setting<u64>,
    output: Setting<u64>,
    sandbox: Setting<bool>,
}

impl BoundsConfig {
    /// The limits of the user or the defaults, as far as the workspace's file does not lower them. Adds a line to
    /// `overreach` for each limit that the file would raise.
    pub(super) fn settle(files: &[(PathBuf, ConfigFile)], overreach: &mut Vec<String>) -> Self {
        let usual = JobLimits::default();
        let mut number = |key, pick: fn(&BoundsFile) -> Option<u64>, default: Option<u64>| {
            let pick = |file: &ConfigFile| pick(&file.plans.bounds);
            let default = default.unwrap_or(0);
            least(files, key, pick, default, unlimited_at_zero, overreach)
        };
        let cpu = usual.system.cpu_time.map(|time| time.as_secs());
        Self {
            memory: number("plans.memory_bytes", |file| file.memory, usual.memory_bytes),
            pids: number("plans.pids_limit", |file| file.pids, usual.system.processes),
            cpu: number("plans.cpu_seconds", |file| file.cpu, cpu),
            output: number("plans.output_bytes", |file| file.output, usual.output_bytes),
            sandbox: settle(None, files, |file| file.plans.bounds.sandbox, || false),
        }
    }

    /// Options with that.
    pub(super) fn apply(&self, options: &mut Options) {
        let some = |setting: &Setting<u64>| (setting.value > 0).then_some(setting.value);
        options.job.memory_bytes = some(&self.memory);
        options.job.output_bytes = some(&self.output);
        options.job.system.processes = some(&self.pids);
        options.job.system.cpu_time = some(&self.cpu).map(Duration::from_secs);
        options.sandbox = match self.sandbox.value {
            true => Sandbox::Workspace {
                paths: Vec::new(),
                read_only: Vec::new(),
                // Its worktree is its own: what it changes there is in the diff of its commit.
                protected: Vec::new(),
            },
            false => Sandbox::None,
        };
    }

    /// Its keys, to be shown.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let number = |key, setting: &Setting<u64>, meaning| Entry {
            key,
            value: setting.value.to_string(),
            meaning,
            origin: setting.origin.clone(),
        };
        let sandbox = if self.sandbox.value { WORKSPACE } else { NONE };
        vec![
            number(
                "plans.memory_bytes",
                &self.memory,
                "maximum memory of a run of a job with all its processes, in bytes; 0 sets no limit. A workspace's file may lower it",
            ),
            number(
                "plans.pids_limit",
                &self.pids,
                "maximum number of its processes, 0 to 1000000; 0 sets no limit. A workspace's file may lower it",
            ),
            number(
                "plans.cpu_seconds",
                &self.cpu,
                "maximum CPU time of each of its processes, 0 to 100000000 seconds; 0 sets no limit. A workspace's file may lower it",
            ),
            number(
                "plans.output_bytes",
                &self.output,
                "maximum size of its output, in bytes; 0 sets no limit. A workspace's file may lower it",
            ),
            Entry {
                key: "plans.sandbox",
                value: toml::Value::from(sandbox).to_string(),
                meaning: "sandbox of shell lines and programs: none, or workspace (access to their worktree, no network; Linux)",
                origin: self.sandbox.origin.clone(),
            },
        ]
    }
}

/// Returns a limit as a number to compare: 0 sets no limit.
const fn unlimited_at_zero(limit: u64) -> u64 {
    match limit {
        0 => u64::MAX,
        limit => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let checked = |numbers, sandbox: Option<&str>| {
            BoundsFile::checked(numbers, sandbox.map(ToOwned::to_owned))
        };
        let file = checked([Some(0), Some(1), Some(2), Some(3)], Some("workspace")).unwrap();
        assert_eq!((file.memory, file.sandbox), (Some(0), Some(true)));
        for place in 0..4 {
            let mut numbers = [None; 4];
            numbers[place] = Some(u64::MAX);
            assert!(checked(numbers, None).is_err(), "{place}");
        }
        assert!(checked([None; 4], Some("docker")).is_err());
    }

    #[test]
    fn a_workspace_may_close_a_sandbox_and_not_open_one() {
        for (said, kept) in [(NONE, None), (WORKSPACE, Some(true))] {
            let mut file = BoundsFile::checked([None; 4], Some(said.to_owned())).unwrap();
            assert_eq!(file.bound(), said == NONE);
            assert_eq!(file.sandbox, kept);
        }
    }
}
