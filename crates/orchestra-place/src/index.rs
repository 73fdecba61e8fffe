//! Whether git tracks a directory, read from the index file alone.
//!
//! Only the paths of the entries are looked at. An index that is not understood tracks nothing.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crate::repository::{Repository, Safety};

/// Largest size of an index that is read: millions of files.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Bytes of an entry before its object id.
const STAT: usize = 40;
/// Lengths of object ids: SHA-1 and SHA-256.
const IDS: [usize; 2] = [20, 32];
/// Names that are longer have this length in the flags.
const LONG_NAME: usize = 0xfff;
/// Flag of an entry with two more bytes of flags.
const EXTENDED: u16 = 0x4000;

/// Returns whether git tracks a file below a directory, which need not exist.
#[must_use]
pub fn is_tracked(directory: &Path) -> bool {
    let start = directory.ancestors().skip(1).find(|above| above.is_dir());
    let Some(Ok(Some(repository))) = start.map(Repository::locate) else {
        return false;
    };
    let Ok(below) = directory.strip_prefix(&repository.top) else {
        return false;
    };
    let mut prefix = below.as_os_str().as_bytes().to_vec();
    prefix.push(b'/');
    let mut indexes = vec![repository.own.join("index")];
    // A split index has most entries in another file.
    indexes.extend(shared_indexes(&repository.own));
    indexes.iter().any(|index| {
        let text = orchestra_fs::read(index, MAX_BYTES);
        let text = text.ok().flatten().unwrap_or_default();
        IDS.iter()
            .any(|id| has_prefix(&text, *id, &prefix).unwrap_or_default())
    })
}

/// Returns the git directory of all checkouts of the repository of a workspace, and the path of the workspace below
/// the top of its checkout; `None` outside of repositories, and where the git directory does not lead back.
#[must_use]
pub fn repository(workspace: &Path, safety: Safety) -> Option<(PathBuf, PathBuf)> {
    let repository = Repository::locate(workspace).ok().flatten()?;
    repository.check_back(safety).ok()?;
    let below = workspace.strip_prefix(&repository.top).ok()?.to_owned();
    Some((repository.common?, below))
}

fn shared_indexes(own: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(own).into_iter().flatten().flatten();
    let is_shared = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name.starts_with(b"sharedindex.")
    };
    entries
        .map(|entry| entry.path())
        .filter(is_shared)
        .collect()
}

/// Returns whether an entry of an index has a path with a prefix; `None` for what is not an index with object ids of
/// this length.
fn has_prefix(text: &[u8], id: usize, prefix: &[u8]) -> Option<bool> {
    let header = text.strip_prefix(b"DIRC")?;
    let version = number(header.get(..4)?);
    let entries = number(header.get(4..8)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut at = 12;
    let mut name = Vec::new();
    for _ in 0..entries {
        let begin = at;
        at += STAT + id;
        let flags = u16::from_be_bytes(text.get(at..at + 2)?.try_into().ok()?);
        at += 2;
        if flags & EXTENDED != 0 {
            at += 2;
        }
        if version == 4 {
            let strip = varint(text, &mut at)?;
            name.truncate(name.len().checked_sub(strip)?);
        } else {
            name.clear();
        }
        let rest = text.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&rest[..end]);
        at += end + 1;
        let length = usize::from(flags) & LONG_NAME;
        if length != name.len() && length != LONG_NAME {
            return None;
        }
        if version != 4 {
            // Padded with zero bytes to a multiple of eight, at least one.
            at = begin + (at - begin).next_multiple_of(8);
        }
        if name.starts_with(prefix) {
            return Some(true);
        }
    }
    Some(false)
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |all, byte| all << 8 | u32::from(*byte))
}

/// Reads a number as in the offsets of pack files.
fn varint(text: &[u8], at: &mut usize) -> Option<usize> {
    let mut value = 0_usize;
    loop {
        let byte = *text.get(*at)?;
        *at += 1;
        value = value
            .checked_mul(128)?
            .checked_add(usize::from(byte & 127))?;
        if byte & 128 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?;
    }
}
