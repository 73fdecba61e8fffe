//! Takes in the file of a document, with the version that an earlier program kept beside it.

use super::{Candidate, Known, Taken, Trouble};
use crate::DocumentPath;
use crate::document::{DocumentBody, front};
use crate::files::fields::{Fields, Side};
use crate::files::intake::Found;
use crate::files::{Owner, Work, ledger, render};
use crate::reader::Reader;
use crate::toon::{FileError, FileFault};

/// The most bytes of the file that holds a version.
const MAX_SIDE_BYTES: usize = 64;
/// Versions are doubles to some programs, which hold every integer up to this.
const MAX_SIDE: i64 = 1 << 53;

pub(super) fn take_in(
    work: &mut dyn Work,
    candidate: &Candidate,
    bytes: &[u8],
    (path, owner): (&DocumentPath, &Owner),
    known: &Known,
) -> Result<Taken, Trouble> {
    let file = read(path.as_str(), bytes)?;
    let side = candidate.files.get(1);
    let file_fields = Fields::whole(front::write(&file));
    let rendered = render::render(&Reader::new(work.connection()), owner)?;
    let board_fields = rendered.into_iter().next().map(|file| file.fields);
    let board_exists = board_fields.is_some();
    let board_fields = board_fields.unwrap_or_default();
    let sides = known.sides(&board_fields, &file_fields);
    match sides.of("text") {
        Side::Board => {}
        _ if known.is_restored && board_exists => {}
        Side::File => {
            let start = side.and_then(Found::bytes).and_then(side_version);
            work.load_document(path, &file, start)?;
        }
        Side::Both => {
            return Ok(Taken {
                base: sides.agreed(),
                both: vec!["this".to_owned()],
            });
        }
    }
    // The version is in the database from now on: what stands beside the file would soon be wrong,
    // and goes as a file of this document's that is not wanted any more.
    if let Some((side, seen)) = side.and_then(|side| Some((side, side.seen(Fields::default())?))) {
        ledger::record(work.connection(), &side.path, owner, &seen)?;
    }
    Ok(Taken {
        base: file_fields,
        both: Vec::new(),
    })
}

/// Reads the file of a document.
pub(crate) fn read(path: &str, bytes: &[u8]) -> Result<DocumentBody, FileError> {
    let file = front::read(bytes).map_err(|error| FileError {
        file: path.to_owned(),
        line: u64::try_from(error.line).unwrap_or(u64::MAX),
        field: String::new(),
        fault: FileFault::Syntax(error.what),
    })?;
    if file.bytes() > crate::NewDocument::MAX_BYTES {
        let limit = u64::try_from(crate::NewDocument::MAX_BYTES).unwrap_or(u64::MAX);
        return Err(FileError::whole(path, FileFault::TooLarge { limit }));
    }
    Ok(file)
}

/// The version in a file beside a document; one that is none counts for nothing.
pub(in crate::files) fn side_version(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(bytes.get(..bytes.len().min(MAX_SIDE_BYTES))?).ok()?;
    let version: i64 = text.trim().parse().ok()?;
    (1..=MAX_SIDE).contains(&version).then_some(version)
}
