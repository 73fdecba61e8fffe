//! Refuses what stands where it cannot be that issue, or below one that it is not of.

use crate::files::intake::{Found, Trouble};
use crate::files::place::{Part, Place};
use crate::files::render;
use crate::reader::Reader;
use crate::toon::{FileError, FileFault, IssuePlace};

/// What is told of a file of an issue that there is twice.
pub(super) fn twin(found: &Found, place: &IssuePlace, what: &str) -> FileError {
    let what = format!(
        "{} {what}; `orchestra doctor --fix` gives the younger another id",
        place.id
    );
    FileError::whole(&found.path, FileFault::Place(what))
}

/// What is told of a file below a parent that the board has elsewhere, `there`.
pub(in crate::files) fn below_another(there: &IssuePlace) -> String {
    format!(
        "stands below another {} than the board has, which is in {}; `orchestra doctor --fix` tells two of one id apart",
        there.id,
        Place::Issue(there.clone(), Part::Fields).path()
    )
}

/// Refuses what stands below a parent that the board has elsewhere: the directory may be that of
/// another issue with the same id.
pub(super) fn check_parent(
    reader: &Reader<'_>,
    path: &str,
    place: &IssuePlace,
) -> Result<(), Trouble> {
    let Some(parent) = place.parent() else {
        return Ok(());
    };
    let known = render::issue(reader, &place.project, parent)?;
    let Some(there) = known.map(|record| render::place_of(&record)) else {
        return Ok(());
    };
    if place.story.is_none() || there.epic == place.epic {
        return Ok(());
    }
    let what = below_another(&there);
    Err(FileError::whole(path, FileFault::Place(what)).into())
}
