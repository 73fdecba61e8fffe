//! What an engine knows beside the store, once a model is configured.

use std::fmt;

use orchestra_board::Slug;
use orchestra_store::Store;

use super::generated;
use crate::model::ModelKind;

/// What is said to be done while a model is read.
pub const OPENING: &str = "opening";

/// What is near a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NearHit {
    /// The row of a remembered text or session: the project in the upper 32 bits.
    pub row: i64,
    /// The cosine of the angle between the two.
    pub similarity: f32,
}

/// Why nothing is found by meaning now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeaningError {
    /// There is no such project.
    #[error("project `{0}` not found; list_projects shows the projects")]
    NoProject(Slug),
    /// The model does not answer: what to do.
    #[error("{0}")]
    NotNow(String),
}

/// How a model and its vectors are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// The model, as people are told of it; empty where none is configured.
    pub model: String,
    /// What sort of model it is; `None` until it is open.
    pub kind: Option<ModelKind>,
    /// How many texts and sessions have a vector of it.
    pub vectors: u64,
    /// How many will.
    pub wanted: u64,
    /// The model that answers once it has seen all, and how much it has seen.
    pub next: Option<(String, u64)>,
    /// What is being done: `opening`, `filling`, `ready` or `failing`.
    pub phase: String,
    /// Why nothing is found by meaning, or not all, and what to do.
    pub trouble: Option<String>,
}

/// Finds by meaning. The methods may block: they are called on threads of their own.
pub trait Meaning: Send + Sync + fmt::Debug {
    /// The model, as people are told of it; empty where none is configured.
    fn model(&self) -> String;

    /// The rows of a project that are nearest to a text, at most `limit`, the nearest first; none
    /// while the model is being made ready.
    ///
    /// # Errors
    /// When it cannot be said now.
    fn near(&self, project: &Slug, query: &str, limit: usize)
    -> Result<Vec<NearHit>, MeaningError>;

    /// How many rows of a project have a vector.
    fn vectors(&self, project: &Slug) -> u64;

    /// How the model and its vectors are. Does not block.
    fn standing(&self) -> Standing {
        Standing {
            model: self.model(),
            ..Standing::default()
        }
    }

    /// Begins to follow a store, once; nobody waits for it.
    fn begin(&self, _store: &Store) {}

    /// Makes all vectors anew, in the background; whether there is a model to make them with.
    fn rebuild(&self) -> bool {
        false
    }

    /// Ends what [`Meaning::begin`] began.
    fn end(&self) {}
}

impl Standing {
    pub(super) fn of_stats(stats: generated::StatsResponse) -> Self {
        let some = |text: String| (!text.is_empty()).then_some(text);
        Self {
            kind: kind_of(stats.kind),
            model: stats.model,
            vectors: stats.all_vectors,
            wanted: stats.wanted,
            next: some(stats.next_model).map(|model| (model, stats.next_vectors)),
            phase: stats.phase,
            trouble: some(stats.trouble),
        }
    }

    pub(super) fn fill(self, stats: &mut generated::StatsResponse) {
        let (next_model, next_vectors) = self.next.unwrap_or_default();
        stats.kind = number_of(self.kind);
        stats.model = self.model;
        stats.all_vectors = self.vectors;
        stats.wanted = self.wanted;
        stats.next_model = next_model;
        stats.next_vectors = next_vectors;
        stats.phase = self.phase;
        stats.trouble = self.trouble.unwrap_or_default();
    }
}

/// What a number on the wire stands for.
pub(super) fn kind_of(number: i32) -> Option<ModelKind> {
    match generated::ModelKind::try_from(number).ok()? {
        generated::ModelKind::Unspecified => None,
        generated::ModelKind::Static => Some(ModelKind::Static),
        generated::ModelKind::Network => Some(ModelKind::Network),
        generated::ModelKind::Remote => Some(ModelKind::Remote),
    }
}

/// The number on the wire.
pub(super) fn number_of(kind: Option<ModelKind>) -> i32 {
    let kind = match kind {
        None => generated::ModelKind::Unspecified,
        Some(ModelKind::Static) => generated::ModelKind::Static,
        Some(ModelKind::Network) => generated::ModelKind::Network,
        Some(ModelKind::Remote) => generated::ModelKind::Remote,
    };
    kind.into()
}
