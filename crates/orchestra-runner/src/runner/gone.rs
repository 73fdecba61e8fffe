//! What is left where what plans are kept in was removed while they ran, as `git clean -x` does.

use super::host::Host;
use crate::{git::WORKTREES, plans::PlansError};

/// How many of a kind a message names.
const NAMED_MAX: usize = 10;

/// Says what happened and what is left.
pub(crate) async fn gone(host: &Host) -> PlansError {
    let mut left = Vec::new();
    // What cannot be listed is not there, or is told of by git.
    if let Ok(repository) = host.repository().await {
        for entry in repository.worktrees().await.unwrap_or_default() {
            if entry.marker.is_some() {
                left.push(format!("worktree {}", entry.path.display()));
            }
        }
        let branches = repository.snapshot_branches().await.unwrap_or_default();
        left.extend(branches.iter().map(|name| format!("branch {name}")));
    }
    let more = left.len().saturating_sub(NAMED_MAX);
    left.truncate(NAMED_MAX);
    if more > 0 {
        left.push(format!("{more} more below {WORKTREES}"));
    }
    PlansError::Gone {
        storage: host.options.storage.clone(),
        left,
    }
}
