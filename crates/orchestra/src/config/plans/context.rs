//! Agents that run out of context: whether anybody looks, and what follows.

use std::{ops::RangeInclusive, path::PathBuf};

use orchestra_plan::pressure::Splits;
use serde::Deserialize;

use crate::config::{
    Entry, Setting,
    file::{ConfigFile, ParseError, within},
    settle,
};

/// From how many percent on a context is rather full, and nearly full.
const ELEVATED: RangeInclusive<u64> = 20..=90;
const CRITICAL: RangeInclusive<u64> = 40..=95;

/// How deep parts of parts go, and how many parts a job has.
const DEPTH: RangeInclusive<u64> = 1..=5;
const JOBS: RangeInclusive<u64> = 2..=20;

/// What a file says of it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ContextFile {
    enabled: Option<bool>,
    elevated: Option<u64>,
    critical: Option<u64>,
    depth: Option<u64>,
    jobs: Option<u64>,
}

/// The same as it is written: `[plans.context_pressure]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContextOnDisk {
    enabled: Option<bool>,
    elevated_percent: Option<u64>,
    critical_percent: Option<u64>,
    max_depth: Option<u64>,
    max_jobs: Option<u64>,
}

impl ContextOnDisk {
    /// As it is used.
    ///
    /// # Errors
    /// When a value is not one that it may have.
    pub(super) fn checked(self) -> Result<ContextFile, ParseError> {
        let key = "plans.context_pressure.elevated_percent";
        let elevated = within(key, self.elevated_percent, &ELEVATED)?;
        let key = "plans.context_pressure.critical_percent";
        let critical = within(key, self.critical_percent, &CRITICAL)?;
        Ok(ContextFile {
            enabled: self.enabled,
            elevated,
            critical,
            depth: within("plans.context_pressure.max_depth", self.max_depth, &DEPTH)?,
            jobs: within("plans.context_pressure.max_jobs", self.max_jobs, &JOBS)?,
        })
    }
}

/// Whether contexts are looked at, and what follows.
#[derive(Debug, Clone)]
pub(super) struct ContextConfig {
    enabled: Setting<bool>,
    elevated: Setting<u64>,
    critical: Setting<u64>,
    depth: Setting<u64>,
    jobs: Setting<u64>,
}

impl ContextConfig {
    /// What the files say, the strongest first, else what is usual.
    pub(super) fn settle(files: &[(PathBuf, ConfigFile)]) -> Self {
        let usual = Splits::default();
        let number = |pick: fn(&ContextFile) -> Option<u64>, default: u64| {
            settle(None, files, |file| pick(&file.plans.context), || default)
        };
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Self {
            enabled: settle(
                None,
                files,
                |file| file.plans.context.enabled,
                || usual.enabled,
            ),
            elevated: number(|file| file.elevated, u64::from(usual.elevated_percent)),
            critical: number(|file| file.critical, u64::from(usual.critical_percent)),
            depth: number(|file| file.depth, count(usual.depth_max)),
            jobs: number(|file| file.jobs, count(usual.parts_max)),
        }
    }

    /// As plans are run by it.
    pub(super) fn splits(&self) -> Splits {
        let percent = |setting: &Setting<u64>| u8::try_from(setting.value).unwrap_or(100);
        let count = |setting: &Setting<u64>| usize::try_from(setting.value).unwrap_or(usize::MAX);
        Splits {
            enabled: self.enabled.value,
            elevated_percent: percent(&self.elevated),
            critical_percent: percent(&self.critical),
            depth_max: count(&self.depth),
            parts_max: count(&self.jobs),
        }
    }

    /// Its keys, to be shown.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let number = |key, setting: &Setting<u64>, meaning| Entry {
            key,
            value: setting.value.to_string(),
            meaning,
            origin: setting.origin.clone(),
        };
        vec![
            Entry {
                key: "plans.context_pressure.enabled",
                value: self.enabled.value.to_string(),
                meaning: "whether an agent whose context is nearly full is asked to hand over the rest of its work to further jobs",
                origin: self.enabled.origin.clone(),
            },
            number(
                "plans.context_pressure.elevated_percent",
                &self.elevated,
                "percentage from which a context is shown as elevated, 20 to 90",
            ),
            number(
                "plans.context_pressure.critical_percent",
                &self.critical,
                "percentage from which an agent is asked, 40 to 95",
            ),
            number(
                "plans.context_pressure.max_depth",
                &self.depth,
                "maximum number of times that work is handed over again, 1 to 5",
            ),
            number(
                "plans.context_pressure.max_jobs",
                &self.jobs,
                "maximum number of jobs among which the rest of a job is divided, 2 to 20",
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ContextFile, ParseError> {
        let found: ContextOnDisk = toml::from_str(text).unwrap();
        found.checked()
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let whole = "enabled = true\nelevated_percent = 20\ncritical_percent = 95\nmax_depth = 5\nmax_jobs = 2";
        let file = read(whole).unwrap();
        assert_eq!((file.enabled, file.jobs), (Some(true), Some(2)));
        for wrong in [
            "elevated_percent = 19",
            "critical_percent = 96",
            "max_depth = 0",
            "max_jobs = 21",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(toml::from_str::<ContextOnDisk>("on = true").is_err());
    }
}
