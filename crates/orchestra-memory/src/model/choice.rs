//! Which model is meant, before it is opened.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use super::{Embedder, ModelError, RemoteModel, RemoteOptions, open};

/// A model that somebody chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// One that is read from files.
    Directory {
        /// What people call it.
        name: String,
        /// Where it is.
        path: PathBuf,
    },
    /// One that a server has.
    Server(Box<RemoteOptions>),
}

/// What somebody wants of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// None: words alone.
    Nothing,
    /// This one.
    Model(Choice),
    /// One that is not to be used: why, and what to do.
    Refused(String),
    /// What is wanted cannot be told now; whatever is used goes on.
    Unknown(String),
}

/// By what the same place is told to hold another model than before.
pub(crate) type Stamp = Vec<Option<(u64, SystemTime)>>;

impl Choice {
    /// What people call it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Directory { name, .. } => name.clone(),
            Self::Server(options) => format!("{}:{}", options.api.name(), options.model),
        }
    }

    /// Opens it: reads its files, or asks its server for one vector. Blocks for as long as that takes.
    ///
    /// # Errors
    /// As [`open`] and [`RemoteModel::connect`].
    pub fn open(&self) -> Result<Arc<dyn Embedder>, ModelError> {
        match self {
            Self::Directory { path, .. } => open(path),
            Self::Server(options) => {
                let model = RemoteModel::connect(options.as_ref().clone())?;
                Ok(Arc::new(model))
            }
        }
    }

    /// Changes when the files of the model do.
    pub(crate) fn stamp(&self) -> Stamp {
        let Self::Directory { path, .. } = self else {
            return Vec::new();
        };
        let files = ["", "tokenizer.json", "model.safetensors", "model.onnx"];
        let stamp = |file: &&str| {
            let there = fs::metadata(path.join(file)).ok()?;
            Some((there.len(), there.modified().ok()?))
        };
        files.iter().map(stamp).collect()
    }
}
