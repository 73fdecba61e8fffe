//! Reports of readable files that cannot be taken in, in the log: one line for each look at the files.

use std::path::Path;
use std::sync::Arc;

use super::place::PRIVATE;
use crate::io::FileIo;
use crate::toon::FileError;

/// Reports the files that were found together. Those of projects of the earlier program are left out: the program that
/// serves the board names the command that imports them.
pub(super) fn report_all(io: &Arc<dyn FileIo>, root: &Path, errors: &[FileError]) {
    if errors.is_empty() {
        return;
    }
    let earlier = crate::import::earlier(io, root).unwrap_or_default();
    let is_earlier = |error: &FileError| {
        let first = error.file.split('/').next().unwrap_or_default();
        let is_shared = !earlier.is_empty() && error.file.starts_with(PRIVATE);
        is_shared || earlier.iter().any(|project| project == first)
    };
    let errors: Vec<_> = errors.iter().filter(|error| !is_earlier(error)).collect();
    match errors[..] {
        [] => {}
        [error] => report(error),
        [first, ..] => tracing::warn!(
            "cannot import {} readable files; `orchestra doctor` lists them. The first: {first}",
            errors.len()
        ),
    }
}

/// Reports files that have an earlier text again, which is no edit in mode `repository`. It may be one that a person took
/// back.
pub(super) fn report_restored(paths: &[String]) {
    let Some(first) = paths.first() else {
        return;
    };
    tracing::warn!(
        file = %first,
        files = paths.len(),
        "a readable file has an earlier text again, and is written again with the newest one; to return to the earlier \
         text, save it together with another change, or pass it to a tool"
    );
}

/// Reports one file.
pub(super) fn report(error: &FileError) {
    tracing::warn!(file = %error.file, line = error.line, "cannot import a readable file: {error}");
}
