//! Whose plans are kept in a place outside of the workspace: those of one workspace, and of no other.

use std::{
    io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use orchestra_fs::Access;

use super::PlansError;

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
    let failed = |error: orchestra_fs::Error| PlansError::Refused {
        code: "storage-unusable".to_owned(),
        message: io::Error::from(error).to_string(),
    };
    let owner = loop {
        if let Some(found) = orchestra_fs::read_own(&file, LONGEST).map_err(failed)? {
            break PathBuf::from(std::ffi::OsString::from_vec(found));
        }
        if !takes {
            return Ok(());
        }
        orchestra_fs::make_private(storage).map_err(failed)?;
        match note(&file, &workspace) {
            Ok(true) => return Ok(()),
            // Another has been faster.
            Ok(false) => {}
            Err(error) => return Err(failed(error)),
        }
    };
    match owner == workspace {
        true => Ok(()),
        false => Err(PlansError::Refused {
            code: "storage-of-another".to_owned(),
            message: format!(
                "{} contains the plans of {}, but this workspace is {}; set ORCHESTRATOR_STORAGE to another directory here, or remove {} if the workspace was moved",
                storage.display(),
                owner.display(),
                workspace.display(),
                file.display()
            ),
        }),
    }
}

/// Notes whose plans these are; false where that was noted already.
fn note(file: &Path, workspace: &Path) -> orchestra_fs::Result<bool> {
    let mut staged = orchestra_fs::stage(file, Access::Private)?;
    staged.fill(workspace.as_os_str().as_bytes())?;
    staged.publish_new(HOME)
}

fn real(path: &Path) -> PathBuf {
    let absolute = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.canonicalize().unwrap_or_else(|_| absolute())
}
