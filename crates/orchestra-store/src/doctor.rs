//! Compares the database and the readable files, and mends either side.

/// What to do about what is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fix {
    /// Only tell.
    #[default]
    Nothing,
    /// Mend what can be mended without losing anything.
    Mend,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// What is wrong, each with what to do or what was done.
    pub findings: Vec<String>,
}

/// Why the comparison could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] crate::Fault),
}
