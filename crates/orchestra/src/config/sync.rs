//! `[sync]`: exchange of the board with other clones in the background.
//!
//! It contacts a network address without being asked. A workspace's file can be another person's, and counts only in a
//! directory that the user trusts.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_plan::ids::Branch;
use orchestra_runner::git::shown_remote;
use serde::Deserialize;

use super::{
    Entry, FILE, Origin, Setting,
    file::{ConfigFile, ParseError, within, wrong},
    model::own_file,
    settle,
};

/// Time between two exchanges, in seconds: a minute to a day.
const INTERVAL_SECONDS: RangeInclusive<u64> = 60..=86_400;

const DEFAULT_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Longest name or URL of a remote, in bytes.
const MAX_REMOTE_BYTES: usize = 4_096;

/// Settings of the exchange of the board.
#[derive(Debug, Clone)]
pub(crate) struct SyncSettings {
    remote: Setting<Option<String>>,
    branch: Setting<Option<String>>,
    interval: Setting<Duration>,
    overreach: Vec<String>,
}

/// The part of a configuration file about it.
#[derive(Debug, Default)]
pub(super) struct SyncFile {
    remote: Option<String>,
    branch: Option<String>,
    interval: Option<Duration>,
    /// Keys that are not used: why, and what to do instead.
    overreach: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SyncOnDisk {
    remote: Option<String>,
    branch: Option<String>,
    interval: Option<toml::Value>,
}

impl SyncOnDisk {
    /// Parses the values.
    ///
    /// # Errors
    /// When one of them is not allowed.
    pub(super) fn checked(self) -> Result<SyncFile, ParseError> {
        // `config show` writes an empty text where nothing is set.
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let remote = some(self.remote);
        let is_odd = |remote: &&String| {
            remote.starts_with('-')
                || remote.len() > MAX_REMOTE_BYTES
                || remote.chars().any(char::is_control)
        };
        if let Some(odd) = remote.as_ref().filter(is_odd) {
            let expected = "the name or URL of a git remote";
            return Err(wrong("sync.remote", expected, shown_remote(odd)));
        }
        let branch = some(self.branch);
        if let Some(odd) = branch.as_ref().filter(|name| Branch::parse(name).is_err()) {
            let expected = "the name of a git branch";
            return Err(wrong("sync.branch", expected, odd.clone()));
        }
        let interval = self.interval.as_ref().map(seconds).transpose()?;
        let interval = within("sync.interval", interval, &INTERVAL_SECONDS)?;
        Ok(SyncFile {
            remote,
            branch,
            interval: interval.map(Duration::from_secs),
            overreach: None,
        })
    }
}

/// Reads a number of seconds, or a number with one of the units `s`, `m` and `h`.
fn seconds(found: &toml::Value) -> Result<u64, ParseError> {
    let of_text = |text: &str| {
        let (number, factor) = match text.char_indices().next_back()? {
            (end, 's') => (&text[..end], 1),
            (end, 'm') => (&text[..end], 60),
            (end, 'h') => (&text[..end], 3_600),
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(factor)
    };
    let seconds = match found {
        toml::Value::Integer(number) => u64::try_from(*number).ok(),
        toml::Value::String(text) => of_text(text),
        _ => None,
    };
    seconds.ok_or_else(|| {
        let expected = "a number of seconds, 60 to 86400, or a text such as \"5m\"";
        wrong("sync.interval", expected, found.to_string())
    })
}

impl SyncFile {
    /// Drops the values of a workspace's file, unless the user trusts the directory of the workspace.
    pub(super) fn bound(&mut self, path: &Path, is_trusted: bool) {
        let is_set = self.remote.is_some() || self.branch.is_some() || self.interval.is_some();
        if is_trusted || !is_set {
            return;
        }
        *self = Self {
            overreach: Some(format!(
                "{}: [sync] is not used, since it would contact an address that another person can have written: set \
                 it in {}, or list the workspace in trusted_directories there",
                path.display(),
                own_file()
            )),
            ..Self::default()
        };
    }
}

impl SyncSettings {
    /// Settles the values of the files, strongest first.
    pub(super) fn settle(files: &[(PathBuf, ConfigFile)]) -> Self {
        let some = |pick: fn(&SyncFile) -> Option<&String>| {
            settle(
                None,
                files,
                |file| pick(&file.sync).cloned().map(Some),
                || None,
            )
        };
        let overreach = files
            .iter()
            .filter_map(|(_, file)| file.sync.overreach.clone());
        Self {
            remote: some(|file| file.remote.as_ref()),
            branch: some(|file| file.branch.as_ref()),
            interval: settle(None, files, |file| file.sync.interval, || DEFAULT_INTERVAL),
            overreach: overreach.collect(),
        }
    }

    /// Name or URL of the remote; `None` where nothing is exchanged in the background.
    pub(crate) fn remote(&self) -> Option<&str> {
        self.remote.value.as_deref()
    }

    /// Returns whether the user's own file names the remote, which is then meant for every workspace that has it.
    pub(crate) fn is_for_all(&self, workspace: &Path) -> bool {
        matches!(&self.remote.origin, Origin::File(file) if *file != workspace.join(FILE))
    }

    /// Branch of the remote that has the board, unless it is on the reference of its own.
    pub(crate) fn branch(&self) -> Option<&str> {
        self.branch.value.as_deref()
    }

    /// Time between two exchanges.
    pub(crate) const fn interval(&self) -> Duration {
        self.interval.value
    }

    /// A line for each file whose `[sync]` is not used: why, and what to do instead.
    pub(crate) fn overreach(&self) -> impl Iterator<Item = &str> {
        self.overreach.iter().map(String::as_str)
    }

    /// Its keys, to be shown.
    pub(super) fn entries(&self) -> [Entry; 3] {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        // A URL may have a password.
        let remote = self.remote().map(shown_remote).unwrap_or_default();
        [
            Entry {
                key: "sync.remote",
                value: quoted(&remote),
                meaning: "name or URL of the git remote with which `up` and `stdio` exchange the board in the \
                          background, and `orchestra sync` if it names none; empty for no background exchange; for \
                          your own file, or a workspace in trusted_directories, to set",
                origin: self.remote.origin.clone(),
            },
            Entry {
                key: "sync.branch",
                value: quoted(self.branch().unwrap_or_default()),
                meaning: "branch on the remote in which to store the board, for git servers that accept no references other than branches",
                origin: self.branch.origin.clone(),
            },
            Entry {
                key: "sync.interval",
                value: self.interval().as_secs().to_string(),
                meaning: "time between two exchanges in the background, 60 to 86400 seconds, or a text such as \"5m\"; \
                          longer after failures",
                origin: self.interval.origin.clone(),
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;

    fn parsed(text: &str) -> Result<SyncFile, String> {
        let parsed = file::parse(&format!("[sync]\n{text}\n"));
        parsed
            .map(|file| file.sync)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn interval_is_a_number_of_seconds_or_has_a_unit() {
        for (text, seconds) in [
            ("60", 60),
            ("\"90s\"", 90),
            ("\"5m\"", 300),
            ("\"24h\"", 86_400),
        ] {
            let file = parsed(&format!("interval = {text}")).unwrap();
            assert_eq!(file.interval, Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "59", "\"0m\"", "-1", "86401", "\"5\"", "\"m\"", "1.5", "\"é\"",
        ] {
            let error = parsed(&format!("interval = {text}")).unwrap_err();
            assert!(error.starts_with("sync.interval: "), "{text}: {error}");
        }
    }

    #[test]
    fn remotes_and_branches_that_git_could_misread_are_refused() {
        for text in [
            "remote = \"--upload-pack=x\"",
            "remote = \"a\\nb\"",
            "branch = \"-d\"",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
        let error = parsed("remote = \"-x://ada:secret@example.org\"").unwrap_err();
        assert!(!error.contains("secret"), "{error}");
        assert_eq!(parsed("remote = \"\"").unwrap().remote, None);
    }

    #[test]
    fn file_of_an_untrusted_workspace_exchanges_nothing() {
        let settled = |is_trusted| {
            let mut file = file::parse("[sync]\nremote = \"origin\"\n").unwrap();
            file.sync.bound(Path::new("near"), is_trusted);
            SyncSettings::settle(&[(PathBuf::from("near"), file)])
        };
        assert_eq!(settled(true).remote(), Some("origin"));
        assert_eq!(settled(false).remote(), None);
        assert_eq!(settled(false).overreach().count(), 1);
        assert_eq!(settled(false).interval(), DEFAULT_INTERVAL);
    }
}
