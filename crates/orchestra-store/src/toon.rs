//! The readable files' text: what each kind of file says, and how it is read back.
//!
//! Files are TOON as the public specification has it, with one line end behind the last line, as
//! editors and diffs expect. Every file begins with `schema` and ends with `end: true`, because a
//! truncated TOON file still parses. Reading is exact: an error names file, line and field, and a
//! field nobody knows is an error, and so is a comment, for they would be lost when the file is next
//! written.

mod counts;
mod document;
mod error;
mod flat;
pub(crate) mod history;
pub(crate) mod issue;
pub(crate) mod plan;
pub(crate) mod project;
pub(crate) mod records;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use document::{Document, check_merge_marks, line_of};
pub use error::{FileError, FileFault};
pub(crate) use issue::IssuePlace;
