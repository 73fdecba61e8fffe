//! `[audit]`: how long and how many records of calls are kept, and when they are on the disk.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_hub::{AuditConfig, Fsync};
use serde::Deserialize;

use super::{
    Entry, Origin, Setting,
    file::{ConfigFile, ParseError, within, wrong},
    settle,
};

/// How old records may become where nothing is said.
const DEFAULT_AGE: Duration = Duration::from_secs(7 * DAY);

/// After how many days records may be put aside: up to ten years.
const KEEP_DAYS: RangeInclusive<u64> = 1..=3_650;

/// How large a file may become: from some hundred records to what is still read in a moment.
const MAX_BYTES: RangeInclusive<u64> = 65_536..=1_073_741_824;

/// How large it may become where nothing is said.
const DEFAULT_BYTES: u64 = 4 * 1024 * 1024;

/// How many older files may be kept, and how many are where nothing is said.
const KEEP_FILES: RangeInclusive<u64> = 0..=1_000;
const DEFAULT_FILES: usize = 2;

/// How much all files together may hold where only the file of a workspace asks for that much: who
/// takes a repository of others gives it so much of the disk, and not a terabyte. The user's own file
/// may ask for more.
const WORKSPACE_BYTES: u64 = 256 * 1024 * 1024;

const DAY: u64 = 86_400;

/// When records are on the disk; what is certain later comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
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

/// How records of calls are kept.
#[derive(Debug, Clone)]
pub(crate) struct AuditSettings {
    /// How old they may become before they are put aside, and after that before they are removed.
    age: Setting<Duration>,
    /// How large a file may become.
    bytes: Setting<u64>,
    /// How many older files are kept.
    files: Setting<usize>,
    /// When they are on the disk.
    fsync: Setting<FsyncChoice>,
}

/// What a file says of it.
#[derive(Debug, Default)]
pub(super) struct AuditFile {
    pub(super) age: Option<Duration>,
    pub(super) bytes: Option<u64>,
    pub(super) files: Option<usize>,
    pub(super) fsync: Option<FsyncChoice>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditOnDisk {
    keep_days: Option<u64>,
    max_bytes: Option<u64>,
    keep_files: Option<u64>,
    fsync: Option<String>,
}

impl AuditOnDisk {
    /// As it is used.
    ///
    /// # Errors
    /// When a value is not one that it may have.
    pub(super) fn checked(self) -> Result<AuditFile, ParseError> {
        let days = within("audit.keep_days", self.keep_days, &KEEP_DAYS)?;
        let bytes = within("audit.max_bytes", self.max_bytes, &MAX_BYTES)?;
        let files = within("audit.keep_files", self.keep_files, &KEEP_FILES)?;
        let fsync = self.fsync.map(|found| {
            let mut all = FsyncChoice::ALL.into_iter();
            let choice = all.find(|choice| choice.name() == found);
            choice.ok_or_else(|| wrong("audit.fsync", "never, interval or always", found))
        });
        Ok(AuditFile {
            age: days.map(|days| Duration::from_secs(days * DAY)),
            bytes,
            files: files.map(|files| usize::try_from(files).expect("the range fits every usize")),
            fsync: fsync.transpose()?,
        })
    }
}

/// What the user's file says, or what is usual; and the same, unless the workspace's file asks for
/// more: whoever shares a workspace does not make less of what is known of calls.
fn at_least<T: Ord + Clone>(
    near: &Path,
    files: &[(PathBuf, ConfigFile)],
    pick: impl Fn(&ConfigFile) -> Option<T>,
    usual: impl FnOnce() -> T,
) -> (Setting<T>, Setting<T>) {
    let (asked, users) = match files.split_first() {
        Some(((path, file), users)) if path == near => (pick(file), users),
        _ => (None, files),
    };
    let least = settle(None, users, pick, usual);
    let settled = match asked {
        Some(value) if value > least.value => Setting {
            value,
            origin: Origin::File(near.to_owned()),
        },
        _ => least.clone(),
    };
    (least, settled)
}

/// Cuts what a workspace asks for to what it may have: first fewer files, then smaller ones, and of
/// neither less than the user says.
fn bound(
    (least_bytes, bytes): (Setting<u64>, Setting<u64>),
    (least_files, files): (Setting<usize>, Setting<usize>),
) -> (Setting<u64>, Setting<usize>) {
    let count = |files: usize| u64::try_from(files).unwrap_or(u64::MAX).saturating_add(1);
    let total = |bytes: u64, files: usize| bytes.saturating_mul(count(files));
    let most = total(least_bytes.value, least_files.value).max(WORKSPACE_BYTES);
    let (mut bytes, mut files) = (bytes, files);
    if total(bytes.value, files.value) > most {
        let room = (most / bytes.value).saturating_sub(1);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        if room <= least_files.value {
            files = least_files;
        } else {
            files.value = files.value.min(room);
        }
    }
    if total(bytes.value, files.value) > most {
        bytes.value = most / count(files.value);
    }
    (bytes, files)
}

impl AuditSettings {
    /// What the files say, the strongest first, else what is usual. `near` is the workspace's.
    pub(super) fn settle(near: &Path, files: &[(PathBuf, ConfigFile)]) -> Self {
        let fsync = FsyncChoice::default;
        let (bytes, kept) = bound(
            at_least(near, files, |file| file.audit.bytes, || DEFAULT_BYTES),
            at_least(near, files, |file| file.audit.files, || DEFAULT_FILES),
        );
        Self {
            age: at_least(near, files, |file| file.audit.age, || DEFAULT_AGE).1,
            bytes,
            files: kept,
            fsync: at_least(near, files, |file| file.audit.fsync, fsync).1,
        }
    }

    /// For the file at this path.
    pub(crate) fn of(&self, path: PathBuf) -> AuditConfig {
        AuditConfig {
            path,
            max_bytes: self.bytes.value,
            keep: self.files.value,
            max_age: Some(self.age.value),
            fsync: self.fsync.value.into(),
        }
    }

    /// Its keys, to be shown.
    pub(super) fn entries(&self) -> [Entry; 4] {
        let name = self.fsync.value.name();
        [
            Entry {
                key: "audit.keep_days",
                value: (self.age.value.as_secs() / DAY).to_string(),
                meaning: "days after which a file of call records is rotated, and days after its last record until it is removed; max_bytes and keep_files may remove it sooner; 1 to 3650",
                origin: self.age.origin.clone(),
            },
            Entry {
                key: "audit.max_bytes",
                value: self.bytes.value.to_string(),
                meaning: "size in bytes at which a file of call records is rotated, 65536 to \
                          1073741824",
                origin: self.bytes.origin.clone(),
            },
            Entry {
                key: "audit.keep_files",
                value: self.files.value.to_string(),
                meaning: "maximum number of rotated files, 0 to 1000; older ones are removed; if a workspace's file sets more, all files together have at most 256 MiB or the size that the user's file allows",
                origin: self.files.origin.clone(),
            },
            Entry {
                key: "audit.fsync",
                value: toml::Value::from(name).to_string(),
                meaning: "time at which records of calls are synced to the disk: never, interval (every 5 seconds) or always",
                origin: self.fsync.origin.clone(),
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;

    #[test]
    fn what_a_workspace_alone_may_ask_for_is_bounded() {
        const MIB: u64 = 1024 * 1024;
        let file = |path: &str, (bytes, files): (u64, usize)| {
            let text = format!("[audit]\nmax_bytes = {bytes}\nkeep_files = {files}\n");
            (PathBuf::from(path), file::parse(&text).unwrap())
        };
        let (gib, usual) = (1024 * MIB, (4 * MIB, 2));
        for (near, users, expected) in [
            // What fits is had.
            ((8 * MIB, 31), usual, (8 * MIB, 31)),
            ((gib, 1_000), usual, (256 * MIB / 3, 2)),
            ((MIB, 1_000), usual, (4 * MIB, 63)),
            ((16 * MIB, 1_000), usual, (16 * MIB, 15)),
            // What the user says is never less.
            ((gib, 1_000), (4 * MIB, 99), (4 * MIB, 99)),
            ((gib, 1_000), (gib, 2), (gib, 2)),
            ((gib, 1_000), (gib, 1_000), (gib, 1_000)),
        ] {
            let files = [file("near", near), file("far", users)];
            let settled = AuditSettings::settle(Path::new("near"), &files);
            let got = (settled.bytes.value, settled.files.value);
            assert_eq!(got, expected, "{near:?} {users:?}");
            let alone = AuditSettings::settle(Path::new("near"), &files[1..]);
            assert_eq!((alone.bytes.value, alone.files.value), users);
        }
    }

    #[test]
    fn a_workspace_asks_for_more_and_not_for_less() {
        let file = |path: &str, days: Option<u64>| {
            let text = days.map_or_else(String::new, |days| format!("keep_days = {days}"));
            let text = format!("[audit]\n{text}\n");
            (PathBuf::from(path), file::parse(&text).unwrap())
        };
        for (near, users, expected, from) in [
            (Some(1), None, 7, Origin::Default),
            (Some(30), None, 30, Origin::File("near".into())),
            (Some(29), Some(30), 30, Origin::File("far".into())),
            (Some(31), Some(30), 31, Origin::File("near".into())),
            (Some(2), Some(1), 2, Origin::File("near".into())),
            (None, Some(1), 1, Origin::File("far".into())),
        ] {
            let files = [file("near", near), file("far", users)];
            let age = AuditSettings::settle(Path::new("near"), &files).age;
            let days = age.value.as_secs() / DAY;
            assert_eq!((days, age.origin), (expected, from), "{near:?} {users:?}");
            // The user's file alone is no workspace's.
            let alone = AuditSettings::settle(Path::new("near"), &files[1..]).age;
            assert_eq!(alone.value.as_secs() / DAY, users.unwrap_or(7));
        }
        assert!(FsyncChoice::Never < FsyncChoice::Interval);
        assert!(FsyncChoice::Interval < FsyncChoice::Always);
    }
}
