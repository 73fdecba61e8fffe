//! What a plugin of a workspace says that it needs, kept between runs: pinned when it says so for the
//! first time, so that one that was approved once cannot take more later, unseen.
//!
//! What it needs beyond that waits until it is approved; what it needs within that, it has. Where it
//! is not known any more what was approved, because the file is damaged, nothing is until it is
//! approved anew.

use std::{
    io,
    path::{Path, PathBuf},
};

use orchestra_hub::NamePattern;
use serde::{Deserialize, Serialize};

use crate::{
    config::ServerConfig,
    files::{self, Kept},
    pins,
};

/// The version of the files; a newer one is left alone.
const VERSION: u32 = 1;

/// The most names of one kind that are kept.
const MAX_NAMES: usize = 1_024;

/// The longest name that is kept, in bytes.
const MAX_NAME_BYTES: usize = 1_024;

/// What a plugin needs, by the names that its manifest has: `*` in them stands for any text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Needs {
    /// The tools that it calls.
    pub tools: Vec<String>,
    /// The types of storage that it uses.
    pub storage: Vec<String>,
    /// The AI providers that it calls.
    pub ai: Vec<String>,
    /// The topics that it hears.
    pub events: Vec<String>,
}

/// What is kept of the needs of one plugin, as it is configured: another program under the same name
/// has others.
#[derive(Debug, Clone)]
pub struct NeedsFile {
    path: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct OnDisk {
    version: u32,
    /// Nothing before the plugin has said for the first time what it needs.
    approved: Option<Needs>,
    /// What it said last.
    announced: Needs,
}

impl Kept for OnDisk {
    fn lost() -> Self {
        Self {
            approved: Some(Needs::default()),
            ..Self::default()
        }
    }
}

impl Needs {
    /// All of them, each kind with the name that the manifest has for it.
    #[must_use]
    pub fn by_kind(&self) -> [(&'static str, &[String]); 4] {
        [
            ("needs_tools", &self.tools),
            ("needs_storage", &self.storage),
            ("needs_ai", &self.ai),
            ("needs_events", &self.events),
        ]
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_kind().iter().all(|(_, names)| names.is_empty())
    }

    /// What of these is not among others.
    #[must_use]
    pub fn beyond(&self, others: &Self) -> Self {
        let beyond = |names: &[String], others: &[String]| {
            let names = names.iter().filter(|name| !is_among(name, others));
            names.cloned().collect()
        };
        Self {
            tools: beyond(&self.tools, &others.tools),
            storage: beyond(&self.storage, &others.storage),
            ai: beyond(&self.ai, &others.ai),
            events: beyond(&self.events, &others.events),
        }
    }

    fn check(&self) -> io::Result<()> {
        let fits = |names: &[String]| {
            names.len() <= MAX_NAMES && names.iter().all(|name| name.len() <= MAX_NAME_BYTES)
        };
        match self.by_kind().iter().all(|(_, names)| fits(names)) {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "a manifest names at most {MAX_NAMES} needs of a kind, each of at most \
                 {MAX_NAME_BYTES} bytes: use patterns, such as `get_*`"
            ))),
        }
    }
}

/// Whether a name, or all that a pattern stands for as far as that can be told from it, is among
/// others.
fn is_among(name: &str, others: &[String]) -> bool {
    others.iter().any(|other| {
        other == name || (!name.contains('*') && NamePattern::new(other).matches(name))
    })
}

impl NeedsFile {
    /// The needs of a plugin in a state directory.
    #[must_use]
    pub fn new(state: &Path, config: &ServerConfig) -> Self {
        let file = format!("{}-{}.json", config.name, pins::identity(config));
        Self {
            path: state.join("mcp").join("needs").join(file),
        }
    }

    /// Takes what a plugin says that it needs, and tells what of its needs is approved: all, when it
    /// says so for the first time. Reads and writes a small file.
    ///
    /// # Errors
    /// When the file cannot be read or written, or there is too much to be kept.
    pub fn announce(&self, needs: &Needs) -> io::Result<Needs> {
        needs.check()?;
        let known: Option<OnDisk> = match files::read(&self.path) {
            Ok(known) => known,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
            Err(error) => return Err(error),
        };
        // Nothing is written where nothing is new.
        if let Some(OnDisk {
            version: VERSION,
            approved: Some(approved),
            announced,
        }) = known
            && announced == *needs
        {
            return Ok(approved);
        }
        self.change(|known| {
            needs.clone_into(&mut known.announced);
            known.approved.get_or_insert_with(|| needs.clone()).clone()
        })
    }

    /// What the plugin needs beyond what is approved; nothing when it was never seen. Reads a file.
    ///
    /// # Errors
    /// When the file cannot be read. A damaged one is put aside when the plugin starts again.
    pub fn waiting(&self) -> io::Result<Needs> {
        let known: Option<OnDisk> = files::read(&self.path)?;
        let known = known.unwrap_or_default();
        let waiting = known
            .approved
            .map(|approved| known.announced.beyond(&approved));
        Ok(waiting.unwrap_or_default())
    }

    /// Approves needs beyond those that are approved. Writes a file; the plugin has them when it
    /// registers again.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn approve(&self, more: &Needs) -> io::Result<()> {
        self.change(|known| {
            let approved = known.approved.get_or_insert_default();
            let more = more.beyond(approved);
            approved.tools.extend(more.tools);
            approved.storage.extend(more.storage);
            approved.ai.extend(more.ai);
            approved.events.extend(more.events);
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut OnDisk) -> R) -> io::Result<R> {
        files::change(&self.path, |known: &mut OnDisk| {
            if known.version > VERSION {
                let path = self.path.display();
                return Err(io::Error::other(format!(
                    "{path} is of a newer version of this program"
                )));
            }
            let answer = change(known);
            known.version = VERSION;
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(names: &[&str]) -> Needs {
        Needs {
            tools: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Needs::default()
        }
    }

    fn file(directory: &Path) -> NeedsFile {
        NeedsFile {
            path: directory.join("a.json"),
        }
    }

    #[test]
    fn what_is_needed_later_waits_until_it_is_approved() {
        let directory = tempfile::tempdir().unwrap();
        let file = file(directory.path());
        assert!(file.waiting().unwrap().is_empty());
        let first = tools(&["get_*"]);
        assert_eq!(file.announce(&first).unwrap(), first);
        assert!(file.waiting().unwrap().is_empty());
        // Less, or what is within, is nothing new.
        assert_eq!(file.announce(&tools(&["get_task"])).unwrap(), first);
        assert!(file.waiting().unwrap().is_empty());
        let more = tools(&["get_*", "delete_*"]);
        assert_eq!(file.announce(&more).unwrap(), first);
        assert_eq!(file.waiting().unwrap(), tools(&["delete_*"]));
        file.approve(&tools(&["delete_*"])).unwrap();
        assert!(file.waiting().unwrap().is_empty());
        assert_eq!(file.announce(&more).unwrap(), more);
        // A wider pattern is more, also where it has a part of another.
        assert_eq!(file.announce(&tools(&["get_*_all*"])).unwrap(), more);
        assert_eq!(file.waiting().unwrap(), tools(&["get_*_all*"]));
    }

    #[test]
    fn nothing_is_approved_where_that_is_not_known_any_more() {
        let directory = tempfile::tempdir().unwrap();
        let file = file(directory.path());
        let needs = tools(&["a"]);
        file.announce(&needs).unwrap();
        std::fs::write(&file.path, "{").unwrap();
        assert_eq!(file.announce(&needs).unwrap(), Needs::default());
        assert_eq!(file.waiting().unwrap(), needs);
        file.approve(&needs).unwrap();
        assert_eq!(file.announce(&needs).unwrap(), needs);
        let newer = r#"{"version":2,"approved":null,"announced":{}}"#;
        std::fs::write(&file.path, newer).unwrap();
        assert!(file.announce(&needs).is_err());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let file = file(directory.path());
        let many: Vec<String> = (0..=MAX_NAMES).map(|number| number.to_string()).collect();
        let many = Needs {
            events: many,
            ..Needs::default()
        };
        assert!(file.announce(&many).is_err());
        assert!(file.announce(&tools(&[&"x".repeat(1_025)])).is_err());
        assert!(!file.path.exists());
    }
}
