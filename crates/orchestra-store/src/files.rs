//! Keeps the readable files and the database in step.

/// Why the readable files could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] crate::Fault),
    /// It took too long.
    #[error("the readable files are not up to date yet; the database is")]
    Timeout,
}
