//! Which files of a directory make a model, and how they are read: whole, and bounded.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::ModelError;

/// The largest tokenizer: the largest vocabularies that are in use take 35 MB.
const MAX_TOKENIZER: u64 = 64 << 20;
/// The largest table or network.
const MAX_WEIGHTS: u64 = 2 << 30;
/// The most entries of a directory that are looked at.
const MAX_ENTRIES: usize = 256;

/// Where the parts of a package lie below its directory, in the order in which they are looked for.
const TABLES: &[&str] = &["", "0_StaticEmbedding", "weights"];
const NETWORKS: &[&str] = &["", "onnx"];
const TOKENIZERS: &[&str] = &["", "0_StaticEmbedding", "tokenizers"];

/// The files of a model.
#[derive(Debug)]
pub(super) struct Files {
    /// What text is cut with.
    pub(super) tokenizer: PathBuf,
    /// The rest.
    pub(super) weights: Weights,
    /// A table that lies beside a network: some packages have the table as a network as well, in a form
    /// of its own.
    pub(super) beside: Option<PathBuf>,
}

/// What makes vectors of tokens.
#[derive(Debug)]
pub(super) enum Weights {
    Table(PathBuf),
    Network(PathBuf),
}

impl Files {
    /// Finds them. Where a directory has both a network and a table, the network comes first.
    pub(super) fn find(directory: &Path) -> Result<Self, ModelError> {
        let entries = |below: &str| names(&directory.join(below));
        // What cannot be read at the top is told; below it, it is just not there.
        entries("")?;
        let missing = |found: String| ModelError::NoModel {
            directory: directory.to_path_buf(),
            found,
        };
        let pick = |places: &[&str], usual: &str, fits: fn(&str) -> bool| {
            for place in places {
                let names = entries(place).unwrap_or_default();
                let path = |name: &str| directory.join(place).join(name);
                if names.iter().any(|name| name == usual) {
                    return Ok(Some(path(usual)));
                }
                let mut fitting = names.iter().filter(|name| fits(name));
                match (fitting.next(), fitting.next()) {
                    (Some(one), None) => return Ok(Some(path(one))),
                    (Some(one), Some(other)) => {
                        return Err(missing(format!(
                            "{one} and {other} are both there; remove one"
                        )));
                    }
                    (None, _) => {}
                }
            }
            Ok(None)
        };
        let network = pick(NETWORKS, "model.onnx", |name| name.ends_with(".onnx"))?;
        let table = pick(TABLES, "model.safetensors", |name| {
            name.ends_with(".safetensors")
        })?;
        let (weights, beside) = match (network, table) {
            (Some(network), table) => (Weights::Network(network), table),
            (None, Some(table)) => (Weights::Table(table), None),
            (None, None) => {
                return Err(missing(
                    "model.safetensors or model.onnx is missing".to_owned(),
                ));
            }
        };
        let tokenizer = pick(TOKENIZERS, "tokenizer.json", |name| {
            // The packages of wordllama and sentence-transformers have both of these endings; the
            // settings that transformers keeps beside a tokenizer are not one.
            name.ends_with("tokenizer_config.json") && name != "tokenizer_config.json"
        })?;
        let tokenizer = tokenizer.ok_or_else(|| missing("tokenizer.json is missing".to_owned()))?;
        Ok(Self {
            tokenizer,
            weights,
            beside,
        })
    }

    pub(super) fn read_tokenizer(&self) -> Result<Vec<u8>, ModelError> {
        read(&self.tokenizer, MAX_TOKENIZER)
    }
}

/// Reads a table or a network.
pub(super) fn read_weights(path: &Path) -> Result<Vec<u8>, ModelError> {
    read(path, MAX_WEIGHTS)
}

/// The names in a directory, in order.
fn names(directory: &Path) -> Result<Vec<String>, ModelError> {
    let failed = |source| ModelError::Read {
        path: directory.to_path_buf(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)?.take(MAX_ENTRIES) {
        let entry = entry.map_err(failed)?;
        if let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, ModelError> {
    let failed = |source| ModelError::Read {
        path: path.to_path_buf(),
        source,
    };
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(ModelError::Unfit {
            path: path.to_path_buf(),
            fault: "it is no file".to_owned(),
        });
    }
    let too_large = |bytes| ModelError::TooLarge {
        path: path.to_path_buf(),
        bytes,
        most,
    };
    if metadata.len() > most {
        return Err(too_large(metadata.len()));
    }
    let mut content = Vec::new();
    // It may grow meanwhile.
    let file = File::open(path).map_err(failed)?;
    file.take(most + 1)
        .read_to_end(&mut content)
        .map_err(failed)?;
    if content.len() as u64 > most {
        return Err(too_large(content.len() as u64));
    }
    Ok(content)
}
