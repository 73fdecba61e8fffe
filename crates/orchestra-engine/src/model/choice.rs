//! Opening the model that the configuration names.

use std::fs;
use std::sync::Arc;
use std::time::SystemTime;

use super::{Choice, Embedder, ModelError, RemoteModel, open};

/// Sizes and modification times of a model's files, which change when the model does.
pub(crate) type Stamp = Vec<Option<(u64, SystemTime)>>;

/// Opens a chosen model: reads its files, or asks its server for one vector. Blocks until then.
///
/// # Errors
/// As [`open`] and [`RemoteModel::connect`].
pub fn open_choice(choice: &Choice) -> Result<Arc<dyn Embedder>, ModelError> {
    match choice {
        Choice::Directory { path, .. } => open(path),
        Choice::Server(options) => {
            let model = RemoteModel::connect(options.as_ref().clone())?;
            Ok(Arc::new(model))
        }
    }
}

/// Returns the stamp of a chosen model; empty for one of a server.
pub(crate) fn stamp(choice: &Choice) -> Stamp {
    let Choice::Directory { path, .. } = choice else {
        return Vec::new();
    };
    let files = ["", "tokenizer.json", "model.safetensors", "model.onnx"];
    let stamp = |file: &&str| {
        let there = fs::metadata(path.join(file)).ok()?;
        Some((there.len(), there.modified().ok()?))
    };
    files.iter().map(stamp).collect()
}
