//! Why something is not taken in.

use orchestra_board::Slug;

use crate::reader::Reader;
use crate::toon::{FileError, FileFault};
use crate::{ActionError, Fault};

/// Why a unit is not taken in.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Something is wrong with a file.
    File(FileError),
    /// The board refuses it, or the store failed.
    Board(ActionError),
}

impl From<FileError> for Trouble {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl<E: Into<ActionError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Board(error.into())
    }
}

/// What an error says of the file that was being taken in.
///
/// # Errors
/// Gives back one that is no file's fault.
pub(in crate::files) fn fault_of_file(error: ActionError) -> Result<FileFault, ActionError> {
    use rusqlite::ErrorCode::{ConstraintViolation, TooBig, TypeMismatch};

    let is_of_value = |error: &rusqlite::Error| {
        matches!(error, rusqlite::Error::ToSqlConversionFailure(_))
            || matches!(
                error.sqlite_error_code(),
                Some(ConstraintViolation | TooBig | TypeMismatch)
            )
    };
    Ok(FileFault::Field(match error {
        ActionError::Refused(refusal) => refusal.to_string(),
        ActionError::Invalid(what) => what,
        ActionError::Document(refusal) => refusal.to_string(),
        ActionError::Fault(Fault::Unknown { what }) => format!("the {what} cannot be found"),
        ActionError::Fault(Fault::Panicked) => {
            "an internal error stopped the import of this file; please report it with the file"
                .to_owned()
        }
        ActionError::Fault(Fault::Database(error)) if is_of_value(&error) => {
            format!("the database cannot store its content: {error}")
        }
        other => return Err(other),
    }))
}

/// Refuses what stands in a project that the board does not have.
pub(super) fn check_project(reader: &Reader<'_>, path: &str, slug: &Slug) -> Result<(), Trouble> {
    if reader.find_project(slug)?.is_some() {
        return Ok(());
    }
    let what = format!("project {slug} has no project-status.toon that can be read");
    Err(FileError::whole(path, FileFault::Place(what)).into())
}
