//! How a model is named.

use std::path::{Path, PathBuf};

use orchestra_memory::model::Api;

use crate::models;

/// What says that there is no model.
pub(crate) const NONE: &str = "none";
/// What a model may be named by.
pub(super) const NAMES: &str = "the name of an installed model, a directory (./model), ollama:NAME, openai:NAME or \
                     none";
/// The longest name, path or address.
const MAX_NAME_BYTES: usize = 4_096;

/// A model, as it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    Nothing,
    /// One that was installed.
    Installed(String),
    /// One in a directory.
    At(PathBuf),
    /// One that a server has.
    Server(Api, String),
}

impl Named {
    /// With a path as relative to a directory.
    pub(super) fn within(self, directory: &Path) -> Self {
        match self {
            Self::At(path) => Self::At(directory.join(path)),
            named => named,
        }
    }
}

/// What a text names.
pub(super) fn named(text: &str) -> Option<Named> {
    if text.len() > MAX_NAME_BYTES || text.chars().any(char::is_control) {
        return None;
    }
    if text == NONE {
        return Some(Named::Nothing);
    }
    for (prefix, api) in [("ollama:", Api::Ollama), ("openai:", Api::OpenAi)] {
        if let Some(model) = text.strip_prefix(prefix) {
            return (!model.is_empty()).then(|| Named::Server(api, model.to_owned()));
        }
    }
    if text.contains(['/', '\\']) {
        return Some(Named::At(text.into()));
    }
    models::is_name(text).then(|| Named::Installed(text.to_owned()))
}

/// Whether a text may be the name of an environment variable, and is no key by mistake.
pub(in super::super) fn is_variable(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    begins && text.len() <= 128 && text.chars().all(fits)
}
