//! `[audit]`: how long records of calls are kept, and when they are on the disk.

use std::{ops::RangeInclusive, time::Duration};

use orchestra_hub::Fsync;
use serde::Deserialize;

use super::{
    Entry, Setting,
    file::{ParseError, within, wrong},
};

/// How old records may become where nothing is said.
pub(super) const DEFAULT_AGE: Duration = Duration::from_secs(7 * DAY);

/// For how many days records may be kept: up to ten years.
const KEEP_DAYS: RangeInclusive<u64> = 1..=3_650;

const DAY: u64 = 86_400;

/// When records are on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FsyncChoice {
    Never,
    #[default]
    Interval,
    Always,
}

impl FsyncChoice {
    const ALL: [Self; 3] = [Self::Never, Self::Interval, Self::Always];

    /// Its name.
    const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Interval => "interval",
            Self::Always => "always",
        }
    }
}

impl From<FsyncChoice> for Fsync {
    fn from(choice: FsyncChoice) -> Self {
        match choice {
            FsyncChoice::Never => Self::Never,
            FsyncChoice::Interval => Self::Interval,
            FsyncChoice::Always => Self::Always,
        }
    }
}

/// What a file says of it.
#[derive(Debug, Default)]
pub(super) struct AuditFile {
    pub(super) age: Option<Duration>,
    pub(super) fsync: Option<FsyncChoice>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditOnDisk {
    keep_days: Option<u64>,
    fsync: Option<String>,
}

impl AuditOnDisk {
    /// As it is used.
    ///
    /// # Errors
    /// When a value is not one that it may have.
    pub(super) fn checked(self) -> Result<AuditFile, ParseError> {
        let days = within("audit.keep_days", self.keep_days, &KEEP_DAYS)?;
        let fsync = self.fsync.map(|found| {
            let mut all = FsyncChoice::ALL.into_iter();
            let choice = all.find(|choice| choice.name() == found);
            choice.ok_or_else(|| wrong("audit.fsync", "never, interval or always", found))
        });
        Ok(AuditFile {
            age: days.map(|days| Duration::from_secs(days * DAY)),
            fsync: fsync.transpose()?,
        })
    }
}

/// Its keys, to be shown.
pub(super) fn entries(age: &Setting<Duration>, fsync: &Setting<FsyncChoice>) -> [Entry; 2] {
    let name = fsync.value.name();
    [
        Entry {
            key: "audit.keep_days",
            value: (age.value.as_secs() / DAY).to_string(),
            meaning: "for how many days records of calls are kept, 1 to 3650",
            origin: age.origin.clone(),
        },
        Entry {
            key: "audit.fsync",
            value: toml::Value::from(name).to_string(),
            meaning: "when records of calls are synced to the disk: never, interval (every 5 \
                      seconds) or always",
            origin: fsync.origin.clone(),
        },
    ]
}
