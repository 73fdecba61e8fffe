//! What can be wrong with a model.

use std::io;
use std::path::PathBuf;

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file or directory cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no model in the directory.
    #[error(
        "{} contains no model: {found}. A model needs tokenizer.json, and either model.safetensors (a table from model2vec) or model.onnx (a network)",
        directory.display()
    )]
    NoModel {
        /// Where it was looked for.
        directory: PathBuf,
        /// What is missing or too much.
        found: String,
    },
    /// A file is larger than any of its sort.
    #[error("{} has {bytes} bytes, more than the limit of {most}", path.display())]
    TooLarge {
        /// Which one.
        path: PathBuf,
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        most: u64,
    },
    /// A file is not what it should be.
    #[error("{} cannot be used: {fault}", path.display())]
    Unfit {
        /// Which one.
        path: PathBuf,
        /// What is wrong, and what was expected.
        fault: String,
    },
    /// A network is whole, and none that reads texts.
    #[error("{} cannot be used: {fault}", path.display())]
    OtherNetwork {
        /// Which one.
        path: PathBuf,
        /// What it takes, and what was expected.
        fault: String,
    },
    /// A hub has not given a model.
    #[error("the model cannot be fetched: {0}")]
    Hub(String),
    /// What was configured for a server cannot be used.
    #[error("cannot use the embedding server: {0}")]
    Remote(String),
}

/// Why texts got no vectors.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The model failed on a text.
    #[error("the embedding model failed: {0}")]
    Model(String),
    /// The server could not be reached, or gave no answer in time.
    #[error("cannot query {server}: {fault}")]
    Unreachable {
        /// Which one, without any secret.
        server: String,
        /// What happened.
        fault: String,
    },
    /// The server refused.
    #[error("{server} answered {status}: {said}")]
    Refused {
        /// Which one, without any secret.
        server: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of what it said.
        said: String,
    },
    /// The server's answer is no list of vectors.
    #[error("{server} returned an invalid response: {fault}")]
    Answer {
        /// Which one, without any secret.
        server: String,
        /// What was expected.
        fault: String,
    },
}

impl EmbedError {
    /// Whether asking again later may help without anything being changed by hand.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => {
                matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
            }
            Self::Model(_) | Self::Answer { .. } => false,
        }
    }
}
