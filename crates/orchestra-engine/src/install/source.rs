//! Where a model is installed from: a directory, an archive, or a hub.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use orchestra::engine::{Failure, is_name, model_hub};

use super::{
    archive::{self, Packing},
    parts::{Parts, Role},
};
use orchestra_engine::model::{HUB, Hub, HubName};

/// How deep a directory is looked through, and how many of its entries are looked at.
const MAX_DEPTH: usize = 4;
const MAX_ENTRIES: usize = 10_000;
/// The largest files of each sort that a hub may send.
const MAX_TEXT: u64 = 64 << 20;
const MAX_WEIGHTS: u64 = 2 << 30;

/// Where a hub has the parts of a model, the likeliest first.
const TOKENIZERS: [&str; 2] = ["tokenizer.json", "0_StaticEmbedding/tokenizer.json"];
const TABLES: [&str; 2] = ["model.safetensors", "0_StaticEmbedding/model.safetensors"];
const OTHERS: [&str; 4] = [
    "onnx/model.onnx",
    "model.onnx",
    "0_StaticEmbedding/model.safetensors",
    "model.safetensors",
];

/// Where a model is installed from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Directory(PathBuf),
    Archive(PathBuf, Archive),
    Hub(HubName),
}

/// How an archive is packed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Archive(Packing);

/// Is told what is read, how much of it was, and of how much, where that is known.
pub(super) type Watch<'a> = dyn FnMut(&str, u64, Option<u64>) + 'a;

impl Source {
    /// What a text names: what is there by that name, else a model of a hub.
    ///
    /// # Errors
    /// When it is neither.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let path = Path::new(text);
        if path.is_dir() {
            return Ok(Self::Directory(path.to_owned()));
        }
        if path.is_file() {
            let packing = Packing::of(path).ok_or_else(|| {
                Failure::usage_text(format!(
                    "{text}: a model is a directory or an archive: .zip, .whl, .tar, .tar.gz or .tgz"
                ))
            })?;
            return Ok(Self::Archive(path.to_owned(), Archive(packing)));
        }
        HubName::parse(text).map(Self::Hub).ok_or_else(|| {
            Failure::usage_text(format!(
                "{text}: not an existing directory or archive, and not the name of a model on a hub (OWNER/NAME, as in minishlab/potion-base-8M)"
            ))
        })
    }

    /// What a model from here is called unless it is named.
    pub(super) fn usual_name(&self) -> Option<String> {
        let name = match self {
            Self::Hub(name) => name.name().to_owned(),
            Self::Directory(path) => {
                let path = path.canonicalize().ok()?;
                path.file_name()?.to_str()?.to_owned()
            }
            Self::Archive(path, _) => {
                let name = path.file_name()?.to_str()?;
                // Of a package of Python, what stands before its version.
                let end = if name.ends_with(".whl") { '-' } else { '.' };
                name.split(end).next()?.to_owned()
            }
        };
        is_name(&name).then_some(name)
    }

    /// As people read it: of files only how they are called.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Hub(name) => name.to_string(),
            Self::Directory(path) | Self::Archive(path, _) => path.display().to_string(),
        }
    }

    /// Takes what is here of a model.
    pub(super) fn take(&self, parts: &mut Parts, watch: &mut Watch<'_>) -> Result<(), Failure> {
        match self {
            Self::Directory(path) => {
                let mut left = MAX_ENTRIES;
                walk(path, "", MAX_DEPTH, &mut left, parts)
            }
            Self::Archive(path, Archive(packing)) => {
                watch(&self.shown(), 0, None);
                archive::take(path, *packing, parts)
            }
            Self::Hub(name) => fetch(name, parts, watch),
        }
    }
}

/// Takes what a directory has, and those below it.
fn walk(
    directory: &Path,
    below: &str,
    depth: usize,
    left: &mut usize,
    parts: &mut Parts,
) -> Result<(), Failure> {
    let reading = || format!("read {}", directory.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).with_context(reading)? {
        *left = left.checked_sub(1).ok_or_else(|| {
            Failure::refused(format!(
                "there are more than {MAX_ENTRIES} files; name the directory of the model itself"
            ))
        })?;
        let name = entry.with_context(reading)?.file_name();
        names.extend(
            name.into_string()
                .ok()
                .filter(|name| !name.starts_with('.')),
        );
    }
    names.sort();
    for name in names {
        let (here, path) = (directory.join(&name), format!("{below}{name}"));
        // Caches of models are full of links, and these are the user's own.
        let Ok(found) = fs::metadata(&here) else {
            continue;
        };
        if found.is_dir() && depth > 0 {
            walk(&here, &format!("{path}/"), depth - 1, left, parts)?;
        } else if found.is_file() && Role::of(&path).is_some() {
            parts.take(&path, File::open(&here).with_context(reading)?)?;
        }
    }
    Ok(())
}

/// Takes what a hub has: the tokenizer, and of the weights those that fit the sort of the model.
fn fetch(name: &HubName, parts: &mut Parts, watch: &mut Watch<'_>) -> Result<(), Failure> {
    let address = model_hub()?;
    let hub = Hub::at(address.as_deref().unwrap_or(HUB))?;
    let mut any = |files: &[&str], parts: &mut Parts| {
        for file in files {
            if fetch_one(&hub, name, file, parts, watch)? {
                return Ok::<_, Failure>(true);
            }
        }
        Ok(false)
    };
    any(&["config.json"], parts)?;
    if !any(&TOKENIZERS, parts)? {
        return Err(Failure::refused(format!(
            "{name} has no tokenizer.json: it is of a sort that is not known here"
        )));
    }
    let weights: &[&str] = if parts.is_of_a_table() {
        &TABLES
    } else {
        &OTHERS
    };
    any(weights, parts)?;
    Ok(())
}

/// Takes one file; whether it is there.
fn fetch_one(
    hub: &Hub,
    name: &HubName,
    file: &str,
    parts: &mut Parts,
    watch: &mut Watch<'_>,
) -> Result<bool, Failure> {
    let Some(role) = Role::of(file) else {
        return Ok(false);
    };
    let most = match role {
        Role::Network | Role::Table => MAX_WEIGHTS,
        Role::Tokenizer | Role::Config => MAX_TEXT,
    };
    // Only what is there becomes a part.
    let mut temporary = tempfile::tempfile_in(parts.directory()).context("write the model")?;
    let mut told = |bytes, length| watch(file, bytes, length);
    let fetched = hub.fetch(name, file, most, &mut temporary, &mut told)?;
    if fetched.is_none() {
        return Ok(false);
    }
    temporary.flush().context("write the model")?;
    std::io::Seek::rewind(&mut temporary).context("write the model")?;
    parts.take(file, temporary)?;
    Ok(true)
}
