//! Which model makes the vectors of texts: its kind, and the choice that the configuration makes.
//!
//! The models themselves, which read files or ask servers, are in the crate `orchestra-engine`.

mod id;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use orchestra_remote::{is_local_address, shown};

pub use id::{ModelId, ModelIdError};

/// Kind of a model, which decides how far its vectors are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelKind {
    /// A table of one vector per token, which are added up: quick, and blind to word order.
    Static,
    /// A network on this machine that reads the whole text.
    Network,
    /// A model of a server.
    Remote,
}

/// Largest number of dimensions accepted from any model.
pub const MAX_DIMENSIONS: usize = 8_192;

/// A model that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// A model that is read from files.
    Directory {
        /// Name shown to users.
        name: String,
        /// Directory of the files.
        path: PathBuf,
    },
    /// A model of a server.
    Server(Box<RemoteOptions>),
}

/// Model that the configuration asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// None: words alone.
    Nothing,
    /// This one.
    Model(Choice),
    /// One that must not be used: the reason, and what to do.
    Refused(String),
    /// The configuration cannot be read now; the current model stays in use.
    Unknown(String),
}

/// Reads the configuration: called each time the wanted model may have changed.
pub type Wishes = Arc<dyn Fn() -> Wish + Send + Sync>;

impl Choice {
    /// Name shown to users.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Directory { name, .. } => name.clone(),
            Self::Server(options) => format!("{}:{}", options.api.name(), options.model),
        }
    }
}

/// Protocol of a server of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `POST /api/embed` below the address.
    Ollama,
    /// `POST /embeddings` below the address, which usually ends with `/v1`.
    OpenAi,
}

/// Which model of which server, and how it is asked.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Protocol of the server.
    pub api: Api,
    /// Address: `http://127.0.0.1:11434` for Ollama, `https://…/v1` for others.
    pub url: String,
    /// The name of the model there.
    pub model: String,
    /// The key, if one is asked for. It is never shown.
    pub key: Option<String>,
    /// How many numbers are asked for, where the server can shorten its vectors.
    pub dimensions: Option<usize>,
    /// What is put before a query, for models that want it.
    pub query_prefix: String,
    /// What is put before a text that is to be found.
    pub text_prefix: String,
    /// How long a query may take.
    pub query_time: Duration,
    /// How long a batch of texts may take.
    pub batch_time: Duration,
}

impl Api {
    /// Name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ollama => "ollama",
            Self::OpenAi => "openai",
        }
    }
}

impl RemoteOptions {
    /// The usual ones.
    #[must_use]
    pub fn new(api: Api, url: &str, model: &str) -> Self {
        Self {
            api,
            url: url.to_owned(),
            model: model.to_owned(),
            key: None,
            dimensions: None,
            query_prefix: String::new(),
            text_prefix: String::new(),
            query_time: Duration::from_secs(5),
            // A model that has to be loaded first takes its time.
            batch_time: Duration::from_secs(60),
        }
    }

    /// Whether the server is on this machine, by how it is named.
    #[must_use]
    pub fn is_local(&self) -> bool {
        is_local_address(&self.url)
    }
}

impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteOptions")
            .field("api", &self.api)
            .field("url", &shown(&self.url))
            .field("model", &self.model)
            .field("key", &self.key.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}
