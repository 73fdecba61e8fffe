//! `[memory]`: how much a project may remember.

use std::{ops::RangeInclusive, path::PathBuf};

use orchestra_store::Options;
use serde::Deserialize;

use super::{
    Entry, Setting,
    file::{ConfigFile, ParseError, within},
    settle,
};

/// How many memories, and how many sessions, a project may have.
const MAX_ITEMS: RangeInclusive<u64> = 1..=10_000_000;

/// How many bytes either may come to: from a few texts to what one disk holds.
const MAX_BYTES: RangeInclusive<u64> = 65_536..=68_719_476_736;

/// How much a project may remember.
#[derive(Debug, Clone)]
pub(crate) struct MemorySettings {
    items: Setting<u64>,
    bytes: Setting<u64>,
}

/// What a file says of it.
#[derive(Debug, Default)]
pub(super) struct MemoryFile {
    pub(super) items: Option<u64>,
    pub(super) bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryOnDisk {
    max_items: Option<u64>,
    max_bytes: Option<u64>,
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
        })
    }
}

impl MemorySettings {
    /// What the files say, the strongest first, else what is usual.
    pub(super) fn settle(files: &[(PathBuf, ConfigFile)]) -> Self {
        let usual = Options::default();
        Self {
            items: settle(None, files, |file| file.memory.items, || usual.max_chunks),
            bytes: settle(
                None,
                files,
                |file| file.memory.bytes,
                || usual.max_memory_bytes,
            ),
        }
    }

    /// A store with these limits.
    pub(crate) fn apply(&self, options: Options) -> Options {
        Options {
            max_chunks: self.items.value,
            max_memory_bytes: self.bytes.value,
            ..options
        }
    }

    /// Its keys, to be shown.
    pub(super) fn entries(&self) -> [Entry; 2] {
        [
            Entry {
                key: "memory.max_items",
                value: self.items.value.to_string(),
                meaning: "how many memories a project may have, and how many sessions, 1 to 10000000; \
                          what has expired or is superseded goes first when it is full",
                origin: self.items.origin.clone(),
            },
            Entry {
                key: "memory.max_bytes",
                value: self.bytes.value.to_string(),
                meaning: "how many bytes the memories of a project may come to, and its sessions, \
                          65536 to 68719476736",
                origin: self.bytes.origin.clone(),
            },
        ]
    }
}
