//! Whose plans are kept in a place outside of the workspace: those of one workspace, and of no other.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use super::PlansError;
use crate::private;

/// Where it is noted whose plans these are.
const HOME: &str = "workspace";
/// Longer than any path.
const LONGEST: u64 = 64 * 1024;

/// Sees to it that plans that are kept outside of the workspace are this workspace's. The first one that keeps
/// some there is noted where `takes` says so; until then it is nobody's. Blocks for a moment.
///
/// # Errors
/// [`PlansError::Refused`] with the code `storage-of-another` where another workspace's plans are kept there.
pub(crate) fn check(storage: &Path, workspace: &Path, takes: bool) -> Result<(), PlansError> {
    let workspace = real(workspace);
    // With the workspace it moves and goes.
    let takes = takes && !real(storage).starts_with(&workspace);
    let file = storage.join(HOME);
    let failed = |error: io::Error| PlansError::Refused {
        code: "storage-unusable".to_owned(),
        message: format!("{} cannot be used: {error}", file.display()),
    };
    let owner = loop {
        if let Some(found) = private::read(&file, LONGEST).map_err(failed)? {
            break PathBuf::from(std::ffi::OsString::from_vec(found));
        }
        if !takes {
            return Ok(());
        }
        private::make_directory(storage).map_err(failed)?;
        match note(&file, &workspace) {
            Ok(()) => return Ok(()),
            // Another has been faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    };
    match owner == workspace {
        true => Ok(()),
        false => Err(PlansError::Refused {
            code: "storage-of-another".to_owned(),
            message: format!(
                "{} keeps the plans of {}, and this is {}; set ORCHESTRATOR_STORAGE to another directory here, \
                 or remove {} if the one has become the other",
                storage.display(),
                owner.display(),
                workspace.display(),
                file.display()
            ),
        }),
    }
}

/// Written beside it first, so that nobody reads half of it.
fn note(file: &Path, workspace: &Path) -> io::Result<()> {
    let beside = file.with_extension(format!("{}-tmp", std::process::id()));
    let _ = std::fs::remove_file(&beside);
    let mut options = OpenOptions::new();
    let written = private::open(&beside, options.write(true).create_new(true));
    let written = written.and_then(|mut written| {
        written.write_all(workspace.as_os_str().as_bytes())?;
        written.sync_all()?;
        std::fs::hard_link(&beside, file)
    });
    let _ = std::fs::remove_file(&beside);
    written?;
    file.parent().map_or(Ok(()), private::sync_directory)
}

fn real(path: &Path) -> PathBuf {
    let absolute = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.canonicalize().unwrap_or_else(|_| absolute())
}
