//! `[memory]`: how much a project may remember, and which model finds by meaning.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use orchestra_store::Options;
use serde::Deserialize;

use super::{
    BoardSettings, Entry, Setting,
    file::{ConfigFile, ParseError, within},
    model::{ModelFile, ModelOnDisk, ModelSettings, own_file},
    settle,
};
use crate::exit::Failure;

/// How many memories, and how many sessions, a project may have.
const MAX_ITEMS: RangeInclusive<u64> = 1..=10_000_000;

/// How many bytes either may come to: from a few texts to what one disk holds.
const MAX_BYTES: RangeInclusive<u64> = 65_536..=68_719_476_736;

/// How far a workspace may raise both: its file may be another person's.
const ITEMS_OF_A_WORKSPACE: u64 = 1_000_000;
const BYTES_OF_A_WORKSPACE: u64 = 1_073_741_824;

/// How much a project may remember, and which model finds by meaning.
#[derive(Debug, Clone)]
pub(crate) struct MemorySettings {
    items: Setting<u64>,
    bytes: Setting<u64>,
    /// Which model finds by meaning.
    pub(crate) model: ModelSettings,
    overreach: Vec<String>,
}

/// What a file says of it.
#[derive(Debug, Default)]
pub(super) struct MemoryFile {
    pub(super) items: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) model: ModelFile,
    /// What it may not say: why, and what to do instead.
    overreach: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryOnDisk {
    max_items: Option<u64>,
    max_bytes: Option<u64>,
    model: Option<String>,
    model_url: Option<String>,
    model_key_env: Option<String>,
    model_query_prefix: Option<String>,
    model_text_prefix: Option<String>,
    model_dimensions: Option<u64>,
}

impl MemoryOnDisk {
    /// As it is used.
    ///
    /// # Errors
    /// When a value is not one that it may have.
    pub(super) fn checked(self) -> Result<MemoryFile, ParseError> {
        Ok(MemoryFile {
            items: within("memory.max_items", self.max_items, &MAX_ITEMS)?,
            bytes: within("memory.max_bytes", self.max_bytes, &MAX_BYTES)?,
            model: ModelOnDisk {
                model: self.model,
                model_url: self.model_url,
                model_key_env: self.model_key_env,
                model_query_prefix: self.model_query_prefix,
                model_text_prefix: self.model_text_prefix,
                model_dimensions: self.model_dimensions,
            }
            .checked()?,
            overreach: Vec::new(),
        })
    }
}

impl MemoryFile {
    /// Takes what is not for a workspace to say no further than it may go.
    pub(super) fn bound(&mut self, path: &Path) {
        for (key, value, most) in [
            ("max_items", &mut self.items, ITEMS_OF_A_WORKSPACE),
            ("max_bytes", &mut self.bytes, BYTES_OF_A_WORKSPACE),
        ] {
            if let Some(said) = value.filter(|said| *said > most) {
                *value = Some(most);
                self.overreach.push(format!(
                    "{}: memory.{key} = {said} exceeds the limit for the file of a workspace; {most} is used; set it in [memory] of {} instead",
                    path.display(),
                    own_file()
                ));
            }
        }
    }

    /// Takes paths as relative to the directory of the file.
    pub(super) fn resolve(&mut self, directory: &Path) {
        self.model.resolve(directory);
    }
}

fn items(files: &[(PathBuf, ConfigFile)], overreach: &mut Vec<String>) -> Setting<u64> {
    let usual = Options::default().max_chunks;
    greatest(files, "max_items", |file| file.items, usual, overreach)
}

fn bytes(files: &[(PathBuf, ConfigFile)], overreach: &mut Vec<String>) -> Setting<u64> {
    let usual = Options::default().max_memory_bytes;
    greatest(files, "max_bytes", |file| file.bytes, usual, overreach)
}

/// A limit of the user, else the default, which a workspace's file may raise and not lower: memories are removed at a
/// limit.
fn greatest(
    files: &[(PathBuf, ConfigFile)],
    key: &str,
    pick: impl Fn(&MemoryFile) -> Option<u64>,
    usual: u64,
    overreach: &mut Vec<String>,
) -> Setting<u64> {
    let of = |file: &ConfigFile, is_shared: bool| {
        pick(&file.memory).filter(|_| file.plans.is_shared == is_shared)
    };
    let own = settle(None, files, |file| of(file, false), || usual);
    let shared = settle(None, files, |file| of(file, true), || own.value);
    if shared.value < own.value {
        overreach.push(format!(
            "{}: memory.{key} = {} is below the limit of {}, which is used: memories are removed at a limit, and a \
             workspace may only raise it; set it in [memory] of {} instead",
            shared.origin,
            shared.value,
            own.value,
            own_file()
        ));
    }
    match shared.value > own.value {
        true => shared,
        false => own,
    }
}

impl BoardSettings {
    /// A store with the limits of the workspace.
    ///
    /// # Errors
    /// When a file is wrong or cannot be read.
    pub(crate) fn limit_memory(&self, options: Options) -> Result<Options, &Failure> {
        let files = self.files.as_ref()?;
        Ok(Options {
            max_chunks: items(files, &mut Vec::new()).value,
            max_memory_bytes: bytes(files, &mut Vec::new()).value,
            ..options
        })
    }

    /// A store with the widest limits that a configuration may set: nothing is forgotten for a file
    /// that cannot be read.
    pub(crate) fn hardly_limit_memory(options: Options) -> Options {
        Options {
            max_chunks: *MAX_ITEMS.end(),
            max_memory_bytes: *MAX_BYTES.end(),
            ..options
        }
    }
}

impl MemorySettings {
    /// What the files say, the strongest first, else what is usual.
    pub(super) fn settle(
        workspace: &Path,
        files: &[(PathBuf, ConfigFile)],
    ) -> Result<Self, Failure> {
        let overreach = files.iter().map(|(_, file)| &file.memory.overreach);
        let mut overreach: Vec<String> = overreach.flatten().cloned().collect();
        Ok(Self {
            model: ModelSettings::settle(workspace, None, files)?,
            items: items(files, &mut overreach),
            bytes: bytes(files, &mut overreach),
            overreach,
        })
    }

    /// What the workspace's file says and may not, a line each: why, and what to do instead.
    pub(crate) fn overreach(&self) -> impl Iterator<Item = &str> {
        let limits = self.overreach.iter().map(String::as_str);
        self.model.overreach().into_iter().chain(limits)
    }

    /// A store with these limits.
    pub(crate) fn apply(&self, options: Options) -> Options {
        Options {
            max_chunks: self.items.value,
            max_memory_bytes: self.bytes.value,
            ..options
        }
    }

    /// A store for a sandboxed job, which removes nothing to make room, and leaves a tenth of the room to others.
    pub(crate) fn apply_to_job(&self, options: Options) -> Options {
        let options = self.apply(options);
        Options {
            max_chunks: options.max_chunks - options.max_chunks / 10,
            max_memory_bytes: options.max_memory_bytes - options.max_memory_bytes / 10,
            makes_room: false,
            ..options
        }
    }

    /// Its keys, to be shown.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![
            Entry {
                key: "memory.max_items",
                value: self.items.value.to_string(),
                meaning: "maximum number of memories of a project, and of its sessions, 1 to 10000000 (a workspace's file may only raise it, up to 1000000); at the limit, expired and superseded ones are removed first",
                origin: self.items.origin.clone(),
            },
            Entry {
                key: "memory.max_bytes",
                value: self.bytes.value.to_string(),
                meaning: "maximum total size in bytes of the texts and summaries of a project's memories, and of its sessions, 65536 to 68719476736 (a workspace's file may only raise it, up to 1073741824)",
                origin: self.bytes.origin.clone(),
            },
        ];
        entries.extend(self.model.entries());
        entries
    }
}
