//! The files that a model is made of, taken from wherever they lie, under names of ours.
//!
//! Nothing is written to a path that a source names: an archive cannot lead anywhere.

use std::{
    fs::{self, File},
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use orchestra::engine::{Failure, in_a_line};

use orchestra_engine::model::{self, ModelKind};

/// The most files of models that one source may have: a table, and networks of several precisions.
const MAX_PARTS: usize = 32;
/// The largest file, and the most bytes of all.
const MAX_PART_BYTES: u64 = 2 << 30;
const MAX_BYTES: u64 = 4 << 30;
/// How many files of weights are tried, one after the other.
const MAX_TRIED: usize = 4;

/// What a file is in a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Network,
    Table,
    Tokenizer,
    /// Says what sort of model it is.
    Config,
}

/// A file that was taken.
#[derive(Debug)]
struct Part {
    role: Role,
    /// Where it lay, with slashes.
    path: String,
    here: PathBuf,
}

/// Files that were taken.
#[derive(Debug)]
pub(super) struct Parts {
    directory: PathBuf,
    all: Vec<Part>,
    bytes: u64,
}

/// A model that was opened.
#[derive(Debug)]
pub(super) struct Sound {
    pub(super) kind: ModelKind,
    pub(super) dimensions: usize,
    pub(super) bytes: u64,
}

impl Role {
    /// What a file is, by its path; `None` where it is no part of a model.
    pub(super) fn of(path: &str) -> Option<Self> {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        if name.starts_with('.') || path.starts_with("__MACOSX") {
            return None;
        }
        // Packages put the name of the model before it; the settings that some keep beside a tokenizer
        // are none.
        let is_tokenizer = name == "tokenizer.json"
            || name.ends_with("tokenizer_config.json") && name != "tokenizer_config.json";
        if is_tokenizer {
            Some(Self::Tokenizer)
        } else if name.ends_with(".onnx") {
            Some(Self::Network)
        } else if name.ends_with(".safetensors") {
            Some(Self::Table)
        } else {
            (name == "config.json").then_some(Self::Config)
        }
    }

    /// The name that it has in a model.
    const fn name(self) -> &'static str {
        match self {
            Self::Network => "model.onnx",
            Self::Table => "model.safetensors",
            Self::Tokenizer => "tokenizer.json",
            Self::Config => "config.json",
        }
    }
}

impl Parts {
    /// None yet; they are kept below `directory`, which is there and empty.
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            all: Vec::new(),
            bytes: 0,
        }
    }

    /// Where they are kept.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes a file, if it is part of a model.
    ///
    /// # Errors
    /// When there are too many, it is too large, or it cannot be read or written.
    pub(super) fn take(&mut self, path: &str, content: impl Read) -> Result<(), Failure> {
        let Some(role) = Role::of(path) else {
            return Ok(());
        };
        if self.all.len() >= MAX_PARTS {
            return Err(Failure::refused(format!(
                "there are more than {MAX_PARTS} files of models; name a directory that holds one model"
            )));
        }
        let here = self.directory.join(format!("part-{}", self.all.len()));
        let mut file = File::create_new(&here).context("write the model")?;
        let most = MAX_PART_BYTES.min(MAX_BYTES - self.bytes);
        let copied = io::copy(&mut content.take(most + 1), &mut file)
            .with_context(|| format!("read {}", shown(path)))?;
        if copied > most {
            return Err(Failure::refused(format!(
                "{} is too large: a file of a model has at most {MAX_PART_BYTES} bytes, and all that \
                 are looked at {MAX_BYTES}",
                shown(path)
            )));
        }
        file.flush().context("write the model")?;
        self.bytes += copied;
        self.all.push(Part {
            role,
            path: path.replace('\\', "/"),
            here,
        });
        Ok(())
    }

    /// Whether the source says that it is a table.
    pub(super) fn is_of_a_table(&self) -> bool {
        let mut configs = self.all.iter().filter(|part| part.role == Role::Config);
        configs.any(|part| {
            let text = fs::read_to_string(&part.here).unwrap_or_default();
            let config: Result<serde_json::Value, _> = serde_json::from_str(&text);
            config.is_ok_and(|config| config["model_type"] == "model2vec")
        })
    }

    /// Makes a model of the parts in `place`: of those that fit each other the first that can be
    /// opened. They are `from` there.
    ///
    /// # Errors
    /// When there is none; it says what is wrong with the first.
    pub(super) fn assemble(&self, place: &Path, from: &str) -> Result<Sound, Failure> {
        let mut first = None;
        for weights in self.weights().into_iter().take(MAX_TRIED) {
            let Some(tokenizer) = self.tokenizer_of(weights) else {
                break;
            };
            match try_out(weights, tokenizer, place, from) {
                Ok(sound) => return Ok(sound),
                Err(why) => first = first.or(Some(why)),
            }
        }
        let has = |role| self.all.iter().any(|part| part.role == role);
        Err(first.unwrap_or_else(|| {
            let missing = match has(Role::Tokenizer) {
                true => "model.safetensors or model.onnx is missing",
                false => {
                    "tokenizer.json is missing; pass a second SOURCE if another package contains it"
                }
            };
            Failure::refused(format!(
                "{from}: there is no model: {missing}. A model needs tokenizer.json, and either model.safetensors (a table from model2vec) or model.onnx (a network)"
            ))
        }))
    }

    /// What may be the weights, the likeliest first.
    fn weights(&self) -> Vec<&Part> {
        let is_weights = |part: &&Part| matches!(part.role, Role::Network | Role::Table);
        let mut weights: Vec<&Part> = self.all.iter().filter(is_weights).collect();
        let is_table = self.is_of_a_table();
        weights.sort_by_key(|part| {
            let is_first = (part.role == Role::Table) == is_table;
            let name = part.path.rsplit('/').next().unwrap_or_default();
            let depth = part.path.matches('/').count();
            (
                !is_first,
                name != part.role.name(),
                depth,
                part.path.clone(),
            )
        });
        weights
    }

    /// The tokenizer that lies nearest to some weights.
    fn tokenizer_of(&self, weights: &Part) -> Option<&Part> {
        let common = |part: &&Part| {
            let ours = weights.path.split('/').zip(part.path.split('/'));
            let same = ours.take_while(|(a, b)| a == b).count();
            (same, std::cmp::Reverse(part.path.matches('/').count()))
        };
        let tokenizers = self.all.iter().filter(|part| part.role == Role::Tokenizer);
        tokenizers.max_by_key(common)
    }
}

/// Opens a model of two files; they are put back where it is none.
fn try_out(weights: &Part, tokenizer: &Part, place: &Path, from: &str) -> Result<Sound, Failure> {
    fs::create_dir(place).context("write the model")?;
    let mut bytes = 0;
    for part in [weights, tokenizer] {
        let target = place.join(part.role.name());
        fs::rename(&part.here, &target).context("write the model")?;
        let file = File::open(&target).context("write the model")?;
        file.sync_all().context("write the model")?;
        bytes += file.metadata().context("write the model")?.len();
    }
    match model::open(place) {
        Ok(model) => Ok(Sound {
            kind: model.kind(),
            dimensions: model.dimensions(),
            bytes,
        }),
        Err(error) => {
            for part in [weights, tokenizer] {
                fs::rename(place.join(part.role.name()), &part.here).context("write the model")?;
            }
            fs::remove_dir(place).context("write the model")?;
            // Told as they are called in the source, and not where they were put to be tried.
            let mut why = format!("{:#}", anyhow::Error::new(error));
            for part in [weights, tokenizer] {
                let here = place.join(part.role.name()).display().to_string();
                why = why.replace(&here, &shown(&part.path));
            }
            why = why.replace(&place.display().to_string(), from);
            Err(Failure::refused(format!(
                "{from}: {} is not a usable model: {why}",
                shown(&weights.path)
            )))
        }
    }
}

fn shown(path: &str) -> String {
    in_a_line(path)
}
