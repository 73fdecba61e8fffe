//! What is wrong with a readable file, and where.

use std::fmt;

/// A readable file that cannot be taken as it is. It is never overwritten; the rest of the board
/// goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file, below `.projects/`.
    pub file: String,
    /// The line, from 1; 0 when the file as a whole is meant.
    pub line: u64,
    /// The field, as a path such as `sessions[2].summary`; empty when none is meant.
    pub field: String,
    /// What is wrong.
    pub fault: FileFault,
}

/// What is wrong with a readable file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    /// The text is not TOON (or not JSON, where that is meant).
    #[error("{0}")]
    Syntax(String),
    /// A merge was not finished.
    #[error("contains conflict markers of an unfinished merge; choose a side and remove them")]
    MergeMarks,
    /// The last line is missing.
    #[error(
        "ends too early: the last line must be `end: true`; the file was cut off or is being written"
    )]
    Truncated,
    /// A later version of the program wrote it.
    #[error(
        "has schema {found}, but this program supports schemas up to {known}; use a newer version of the program"
    )]
    NewerSchema {
        /// What the file says.
        found: u64,
        /// The newest this program knows.
        known: u64,
    },
    /// A field has a value it cannot have, is missing, or is not known.
    #[error("{0}")]
    Field(String),
    /// The text is not UTF-8.
    #[error("is not UTF-8 text")]
    NotText,
    /// Larger than any file of its kind can be.
    #[error("is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It cannot be read or written.
    #[error("{0}")]
    Io(String),
    /// It stands where it cannot belong.
    #[error("{0}")]
    Place(String),
}

impl FileError {
    /// An error about a whole file.
    pub(crate) fn whole(file: &str, fault: FileFault) -> Self {
        Self {
            file: file.to_owned(),
            line: 0,
            field: String::new(),
            fault,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        f.write_str(": ")?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}", self.fault)
    }
}

impl std::error::Error for FileError {}
