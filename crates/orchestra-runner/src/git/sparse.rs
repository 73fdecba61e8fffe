//! Worktrees of jobs hold every file of their commit, however sparse the user's checkout is.

use std::path::Path;

use super::{GitError, files};

/// Patterns of a sparse checkout that has every file, with and without `core.sparseCheckoutCone`.
const EVERYTHING: &[u8] = b"/*\n";

/// Options with which git checks files out again that a sparse checkout left out. Of an index that is sparse it does
/// not with patterns of cones.
pub(super) const APPLIED: [&str; 6] = [
    "-c",
    "core.sparseCheckout=true",
    "-c",
    "core.sparseCheckoutCone=false",
    "-c",
    "index.sparse=false",
];

/// Includes every file in the next checkout of a worktree with that git directory. Git copies the patterns of the
/// user's checkout there, and a job can set others. Returns whether there are patterns, so that they have to be
/// [applied](APPLIED). Those of the user's checkout are in another git directory.
pub(super) fn include_all(admin: &Path) -> Result<bool, GitError> {
    let patterns = admin.join("info/sparse-checkout");
    if std::fs::symlink_metadata(&patterns).is_err() {
        return Ok(false);
    }
    let most = EVERYTHING.len() as u64;
    let is_complete =
        files::read(&patterns, most).is_ok_and(|content| content.as_deref() == Some(EVERYTHING));
    if !is_complete {
        files::replace(&patterns, EVERYTHING)?;
    }
    Ok(true)
}
