//! What an engine knows beside the store, once a model is configured.

use std::fmt;

use orchestra_board::Slug;

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
    /// The model does not answer, or is still being made ready: what to do.
    #[error("{0}")]
    NotNow(String),
}

/// Finds by meaning. The methods may block: they are called on threads of their own.
pub trait Meaning: Send + Sync + fmt::Debug {
    /// The model, as people are told of it.
    fn model(&self) -> String;

    /// The rows of a project that are nearest to a text, at most `limit`, the nearest first.
    ///
    /// # Errors
    /// When it cannot be said now.
    fn near(&self, project: &Slug, query: &str, limit: usize)
    -> Result<Vec<NearHit>, MeaningError>;

    /// How many rows of a project have a vector.
    fn vectors(&self, project: &Slug) -> u64;
}
