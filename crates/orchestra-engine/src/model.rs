//! What makes vectors of texts: the trait, and the models that are read from files or asked for over
//! HTTP.
//!
//! [`open`] takes a directory as it was downloaded and finds out what it is: a table of vectors
//! ([`StaticModel`]) or a network in ONNX form ([`OnnxModel`]). [`RemoteModel`] asks a server.
//! Everything that is read is bounded and checked before it is used, and a wrong file is an error
//! that says what was expected.

mod choice;
mod error;
mod hub;
mod layout;
mod network;
mod remote;
mod table;
mod tokens;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use orchestra_memory::model::{
    Api, Choice, MAX_DIMENSIONS, ModelId, ModelKind, RemoteOptions, Wish, Wishes,
};

pub use choice::open_choice;
pub(crate) use choice::{Stamp, stamp};
pub use error::{EmbedError, ModelError};
pub use hub::{HUB, Hub, HubName};
pub use network::OnnxModel;
pub use remote::RemoteModel;
pub use table::StaticModel;

/// What a text is embedded for: some models are told so by a word before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It is looked for.
    Query,
    /// It is to be found.
    Text,
}

/// Makes vectors of texts.
///
/// Calls may come from several threads at once, and block: for microseconds (a static model) up to
/// the time limit of a server.
pub trait Embedder: fmt::Debug + Send + Sync {
    /// The fingerprint of all that a vector depends on: vectors of equal ids can be compared, and
    /// others not.
    fn id(&self) -> &ModelId;

    /// What sort of model it is.
    fn kind(&self) -> ModelKind;

    /// How many numbers a vector has.
    fn dimensions(&self) -> usize;

    /// One vector for each text, in their order, of length 1; or of length 0, where the model knows
    /// nothing of the text.
    ///
    /// A text may be of any length; what the model cannot take is cut off at its end.
    ///
    /// # Errors
    /// When the model fails, or its server does. None of the texts has a vector then.
    fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// A text that no model refuses, to try one with.
pub(crate) const TRIAL: &str = "What is remembered can be found.";

/// Reads the model in a directory, whatever of the known kinds it is of.
///
/// Known are a table with its tokenizer (`model.safetensors`, `tokenizer.json`, as model2vec and
/// sentence-transformers write them, and as the package wordllama holds them) and a network with its
/// tokenizer (`model.onnx`, `tokenizer.json`). Where both are there, the network is taken unless it
/// takes something else than a text's tokens, as a table does that was written in ONNX form too.
///
/// # Errors
/// When the directory holds none of them, or a file of it is too large, damaged or of another sort.
pub fn open(directory: &Path) -> Result<Arc<dyn Embedder>, ModelError> {
    let mut files = layout::Files::find(directory)?;
    if let layout::Weights::Table(_) = files.weights {
        return Ok(Arc::new(StaticModel::read(&files)?));
    }
    match (OnnxModel::read(&files), files.beside.take()) {
        (Ok(network), _) => Ok(Arc::new(network)),
        (Err(other @ ModelError::OtherNetwork { .. }), Some(table)) => {
            files.weights = layout::Weights::Table(table);
            match StaticModel::read(&files) {
                Ok(table) => Ok(Arc::new(table)),
                // What lies there are a network's weights in another form.
                Err(_) => Err(other),
            }
        }
        (Err(error), _) => Err(error),
    }
}

/// Makes a vector's length 1, where it has one that is finite.
fn normalise(vector: &mut [f32]) {
    let square: f32 = vector.iter().map(|x| x * x).sum();
    let length = square.sqrt();
    if length.is_finite() && length > f32::MIN_POSITIVE {
        vector.iter_mut().for_each(|x| *x /= length);
    } else {
        vector.fill(0.0);
    }
}
