//! What a server has offered, kept between runs: shown before it is started, or while it cannot be;
//! and pinned, so that a tool that is told anew is not taken unseen.
//!
//! The first time a tool is seen, it is pinned as it is. When its description, schemas or hints
//! change later, it is hidden until the change is approved. Where it is not known any more what was
//! approved, because the file is damaged, all are hidden until they are approved.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use orchestra_hub::ListKind;
use orchestra_wire::{Era, RawJson, Revision, Rope, write};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::{
    canonical,
    config::{Pins as Mode, ServerConfig, Transport},
    definitions, files,
    names::hex,
};

/// The version of the files; a newer one is left alone.
const VERSION: u32 = 1;

/// Tools that are remembered; the names of those that are gone are forgotten first.
const MAX_PINNED: usize = 20_000;

/// What a model or a program goes by.
const PINNED: [&str; 6] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];

/// The pins of one server, as it is configured: another program under the same name has others.
#[derive(Debug, Clone)]
pub struct PinFile {
    path: PathBuf,
}

/// A tool that is told other than it was approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its name at the server.
    pub tool: String,
    /// Its definition as it was approved; `None` where that is not known any more.
    pub before: Option<RawJson>,
    /// As it is told now.
    pub after: RawJson,
}

/// What a server offers, verbatim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) tools: Vec<RawJson>,
    pub(crate) prompts: Vec<RawJson>,
    pub(crate) resources: Vec<RawJson>,
    pub(crate) templates: Vec<RawJson>,
    pub(crate) facts: Facts,
}

/// What a server says of itself, as far as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Facts {
    pub(crate) instructions: Option<String>,
    /// Its name and version, as JSON.
    pub(crate) info: String,
    pub(crate) resources: bool,
    pub(crate) subscribe: bool,
    pub(crate) completions: bool,
    pub(crate) tasks: bool,
    /// The revision of MCP that was agreed upon; empty when it is to be asked for anew.
    pub(crate) revision: String,
}

impl Facts {
    /// The era in which the server is greeted first: that of the last time.
    pub(crate) fn era(&self) -> Option<Era> {
        Revision::parse(&self.revision).map(Revision::era)
    }
}

/// What is known of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) lists: Lists,
    /// By name of the tool: its definition as it was approved.
    pinned: BTreeMap<String, RawJson>,
    /// What was approved before is not known any more: a tool that is not pinned was not approved.
    is_lost: bool,
}

#[derive(Serialize, Deserialize, Default)]
struct OnDisk {
    version: u32,
    #[serde(default)]
    server: String,
    #[serde(default)]
    facts: Facts,
    #[serde(default)]
    tools: Vec<Box<RawValue>>,
    #[serde(default)]
    prompts: Vec<Box<RawValue>>,
    #[serde(default)]
    resources: Vec<Box<RawValue>>,
    #[serde(default)]
    templates: Vec<Box<RawValue>>,
    pinned: BTreeMap<String, Box<RawValue>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
}

impl files::Kept for OnDisk {
    fn lost() -> Self {
        Self {
            lost: true,
            ..Self::default()
        }
    }
}

impl PinFile {
    /// The pins of a server in a state directory.
    #[must_use]
    pub fn new(state: &Path, config: &ServerConfig) -> Self {
        let file = format!("{}-{}.json", config.name, identity(config));
        Self {
            path: state.join("mcp").join("known").join(file),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the server has changed and nobody has approved. Reads a file.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let known = self.load().ok().flatten();
        known.map(|known| known.changes()).unwrap_or_default()
    }

    /// Why it is not known any more what was approved, when that is so. Reads a file.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        let path = self.path.display();
        match self.load() {
            Err(error) => Some(format!("{path} cannot be read: {error}")),
            Ok(known) => known.filter(Known::is_lost).map(|_| {
                let aside = files::aside(&self.path);
                format!("{path} was damaged, and is kept as {}", aside.display())
            }),
        }
    }

    /// Approves changes: of these tools, or of all when none are named. Answers which. Writes a
    /// file; programs that run see it within a few seconds.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn approve(&self, tools: &[&str]) -> io::Result<Vec<String>> {
        self.change(|known| {
            let changes = known.changes().into_iter();
            let chosen =
                changes.filter(|change| tools.is_empty() || tools.contains(&change.tool.as_str()));
            let chosen: Vec<Change> = chosen.collect();
            let names = chosen.into_iter().map(|change| {
                known.pinned.insert(change.tool.clone(), change.after);
                change.tool
            });
            let names: Vec<String> = names.collect();
            // All that it has are approved: what comes now is seen for the first time.
            known.is_lost &= names.is_empty() || !known.changes().is_empty();
            names
        })
    }

    /// What of these tools, as the server tells them now, nobody has approved. Those are kept to
    /// be shown and approved later; a server that was never seen has changed nothing.
    #[must_use]
    pub fn notice(&self, tools: &[RawJson], mode: Mode) -> Vec<Change> {
        if mode != Mode::Ask {
            return Vec::new();
        }
        let mut known = match self.load() {
            Ok(None) => return Vec::new(),
            Ok(Some(known)) => known,
            Err(_) => Known {
                is_lost: true,
                ..Known::default()
            },
        };
        let before = known.changes();
        known.lists.tools = tools.to_vec();
        let changes = known.changes();
        if changes.iter().any(|change| !before.contains(change)) {
            let kept = self.change(|known| known.lists.tools = tools.to_vec());
            if let Err(error) = kept {
                tracing::warn!(path = %self.path.display(), %error, "what a server changed cannot be kept");
            }
        }
        changes
    }

    /// What is known; `None` when the server was never seen.
    ///
    /// # Errors
    /// When it was seen, and what is known of it cannot be read.
    pub(crate) fn load(&self) -> io::Result<Option<Known>> {
        let kept: Option<OnDisk> = files::read(&self.path)?;
        match kept {
            Some(kept) if kept.version > VERSION => Err(newer()),
            kept => Ok(kept.map(Known::from)),
        }
    }

    /// Takes in what the server offers now. Where the file cannot be written, that is told, and
    /// what was known before counts.
    pub(crate) fn learn(&self, lists: Lists, mode: Mode, before: Option<&Known>) -> Known {
        let learnt = self.change(|known| {
            // What was read while it could be is as good.
            if let Some(before) = before.filter(|before| known.is_lost && !before.is_lost) {
                known.clone_from(before);
            }
            known.learn(lists.clone(), mode);
            known.clone()
        });
        learnt.unwrap_or_else(|error| {
            tracing::warn!(path = %self.path.display(), %error, "what a server offers cannot be kept");
            let mut known = match (before, self.load()) {
                (_, Ok(Some(kept))) => kept,
                (Some(before), _) => before.clone(),
                (None, Ok(None)) => Known::default(),
                (None, Err(_)) => Known {
                    is_lost: true,
                    ..Known::default()
                },
            };
            known.learn(lists, mode);
            known
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut Known) -> R) -> io::Result<R> {
        let name = self.path.file_stem().unwrap_or_default().to_string_lossy();
        files::change(&self.path, |kept: &mut OnDisk| {
            if kept.version > VERSION {
                return Err(newer());
            }
            let mut known = Known::from(std::mem::take(kept));
            let answer = change(&mut known);
            *kept = known.to_disk(&name);
            Ok(answer)
        })
    }
}

fn newer() -> io::Error {
    io::Error::other("it is of a newer version of this program")
}

impl Known {
    /// Whether a tool is as it was approved.
    pub(crate) fn approves(&self, name: &str, definition: &RawJson) -> bool {
        let pinned = self.pinned.get(name);
        pinned.map_or(!self.is_lost, |pinned| {
            pinned == definition || hash(pinned) == hash(definition)
        })
    }

    /// Whether it is not known any more what was approved before.
    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// How many tools are pinned.
    pub(crate) fn pinned(&self) -> usize {
        self.pinned.len()
    }

    fn changes(&self) -> Vec<Change> {
        let tools = self.lists.tools.iter();
        let changes = tools.filter_map(|definition| {
            let name = definitions::named(definition, "name").ok()?;
            let is_approved = self.approves(&name, definition);
            (!is_approved).then(|| Change {
                before: self.pinned.get(&name).cloned(),
                after: definition.clone(),
                tool: name,
            })
        });
        changes.collect()
    }

    fn learn(&mut self, lists: Lists, mode: Mode) {
        self.is_lost &= mode == Mode::Ask;
        for definition in &lists.tools {
            let Ok(name) = definitions::named(definition, "name") else {
                continue;
            };
            let is_new = !self.is_lost && !self.pinned.contains_key(&name);
            if mode == Mode::Follow || is_new {
                self.pinned.insert(name, definition.clone());
            }
        }
        self.lists = lists;
        if self.pinned.len() > MAX_PINNED {
            let tools = self.lists.tools.iter();
            let names = tools.filter_map(|tool| definitions::named(tool, "name").ok());
            let listed: std::collections::BTreeSet<String> = names.collect();
            self.pinned.retain(|name, _| listed.contains(name));
        }
    }

    fn to_disk(&self, server: &str) -> OnDisk {
        let boxed = |items: &[RawJson]| items.iter().filter_map(|item| item.parse().ok()).collect();
        let Lists {
            tools,
            prompts,
            resources,
            templates,
            facts,
        } = &self.lists;
        let pinned = self.pinned.iter();
        OnDisk {
            version: VERSION,
            server: server.to_owned(),
            facts: facts.clone(),
            tools: boxed(tools),
            prompts: boxed(prompts),
            resources: boxed(resources),
            templates: boxed(templates),
            pinned: pinned
                .filter_map(|(name, raw)| Some((name.clone(), raw.parse().ok()?)))
                .collect(),
            lost: self.is_lost,
        }
    }
}

impl From<OnDisk> for Known {
    fn from(kept: OnDisk) -> Self {
        let raw = |items: Vec<Box<RawValue>>| {
            let items = items.iter().map(|item| RawJson::from_raw(item));
            items.collect()
        };
        let pinned = kept.pinned.iter();
        Self {
            pinned: pinned
                .map(|(name, item)| (name.clone(), RawJson::from_raw(item)))
                .collect(),
            is_lost: kept.lost,
            lists: Lists {
                tools: raw(kept.tools),
                prompts: raw(kept.prompts),
                resources: raw(kept.resources),
                templates: raw(kept.templates),
                facts: kept.facts,
            },
        }
    }
}

impl Lists {
    pub(crate) const fn of_mut(&mut self, kind: ListKind) -> &mut Vec<RawJson> {
        match kind {
            ListKind::Tools => &mut self.tools,
            ListKind::Prompts => &mut self.prompts,
            ListKind::Resources => &mut self.resources,
            ListKind::Templates => &mut self.templates,
        }
    }
}

/// The hash of what is pinned of a definition.
fn hash(definition: &RawJson) -> String {
    let mut rope = Rope::new();
    let mut separator = b'{';
    let members = definition.members().into_iter().flatten();
    for member in members.filter(|member| PINNED.contains(&&*member.key)) {
        rope.push_byte(std::mem::replace(&mut separator, b','));
        write::string(&mut rope, &member.key);
        rope.push_byte(b':');
        write::raw(&mut rope, &member.value);
    }
    rope.push(if separator == b'{' { b"{}" } else { b"}" });
    canonical::hash(&definitions::raw(rope))
}

/// Tells servers of one name apart by how they are reached. Texts go in as they were written: what
/// they refer to may be a secret, and may change without the server being another.
pub(crate) fn identity(config: &ServerConfig) -> String {
    let mut digest = Sha256::new();
    let mut put = |text: &str| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text.as_bytes());
    };
    put(config.transport.as_str());
    match &config.transport {
        Transport::Stdio(stdio) => {
            put(stdio.command.written());
            stdio.args.iter().for_each(|arg| put(arg.written()));
            put(&config.origin.directory.to_string_lossy());
        }
        Transport::Http(http) => put(http.url.written()),
    }
    hex(&digest.finalize()[..8])
}

#[cfg(test)]
mod tests;
