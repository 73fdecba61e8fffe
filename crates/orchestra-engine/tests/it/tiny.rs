//! Models that are small enough to be made in a test.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use orchestra_engine::model::{self, Embedder};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};

/// The words that the tiny models know; the first stands for all others.
pub(crate) const WORDS: &[&str] = &["[UNK]", "lock", "mutex", "apple", "pear", "the"];

/// What each of them means: locks, fruit, nothing.
pub(crate) const MEANINGS: &[[f32; 3]] = &[
    [9.0, 9.0, 9.0],
    [1.0, 0.0, 0.0],
    [0.9, 0.1, 0.0],
    [0.0, 1.0, 0.0],
    [0.0, 0.9, 0.1],
    [0.0, 0.0, 0.01],
];

/// A tokenizer that knows these words.
pub(crate) fn tokenizer(words: &[&str]) -> Value {
    let places = words.iter().enumerate();
    let vocabulary: BTreeMap<&str, usize> = places.map(|(place, word)| (*word, place)).collect();
    json!({
        "version": "1.0",
        "truncation": { "max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right" },
        "padding": null,
        "added_tokens": [],
        "normalizer": { "type": "Lowercase" },
        "pre_tokenizer": { "type": "Whitespace" },
        "post_processor": null,
        "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]" },
    })
}

/// A tensor of 32-bit numbers.
pub(crate) fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// A file of tensors: name, kind, shape, bytes.
pub(crate) fn tensors(all: &[(&str, Dtype, &[usize], &[u8])]) -> Vec<u8> {
    let views = all.iter().map(|(name, kind, shape, bytes)| {
        let view = TensorView::new(*kind, shape.to_vec(), bytes).expect("a tensor");
        (*name, view)
    });
    safetensors::serialize(views, None).expect("a file")
}

/// The table of [`MEANINGS`].
pub(crate) fn table() -> Vec<u8> {
    let numbers = floats(&MEANINGS.concat());
    tensors(&[("embeddings", Dtype::F32, &[WORDS.len(), 3], &numbers)])
}

/// Writes a model.
pub(crate) fn write(directory: &Path, tokenizer: &Value, table: &[u8]) {
    fs::write(directory.join("tokenizer.json"), tokenizer.to_string()).expect("it is written");
    fs::write(directory.join("model.safetensors"), table).expect("it is written");
}

/// The model of [`WORDS`] and [`MEANINGS`].
pub(crate) fn model() -> Arc<dyn Embedder> {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), &tokenizer(WORDS), &table());
    model::open(directory.path()).expect("a model")
}
