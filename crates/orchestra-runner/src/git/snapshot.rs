//! The snapshot branch of a plan: it keeps what was merged so far from being collected.

use orchestra_plan::ids::{Branch, PlanId};

use super::{
    GitError, Repository, WorktreeEntry,
    call::{Answer, Call},
    kept::FoundSnapshot,
    names,
    unlock::unlocked,
};

/// What goes before a plan's id: the second where a branch leaves no room for the first.
pub(super) const PREFIXES: [&str; 2] = ["orchestrator/snapshot/", "orchestrator-snapshot-"];

/// What goes before a plan's id in the whole name of its snapshot branch.
pub(super) const REFERENCES: [&str; 2] = [
    "refs/heads/orchestrator/snapshot/",
    "refs/heads/orchestrator-snapshot-",
];

/// Patterns for the whole names of the snapshot branches of all plans.
pub(super) const ALL: [&str; 2] = [REFERENCES[0], "refs/heads/orchestrator-snapshot-*"];

impl Repository {
    /// The name of a plan's snapshot branch, and the one that it has where a branch leaves no room for that.
    pub(super) fn snapshot_names(plan: PlanId) -> Result<(Branch, Branch), GitError> {
        let [first, second] = PREFIXES.map(|prefix| names::branch(&format!("{prefix}{plan}")));
        Ok((first?, second?))
    }

    /// What came of making a snapshot branch, with the branch that is in its way named.
    pub(super) fn snapshot_made(
        branch: &Branch,
        made: Result<Answer, GitError>,
    ) -> Result<(), GitError> {
        match made {
            Err(GitError::Failed { stderr, .. }) if stderr.contains("cannot create") => {
                Err(GitError::InTheWay {
                    branch: branch.to_string(),
                    other: in_the_way(&stderr),
                })
            }
            other => other.map(drop),
        }
    }

    /// The snapshot branches of all plans.
    pub async fn snapshot_branches(&self) -> Result<Vec<String>, GitError> {
        let arguments = ["for-each-ref", "--format=%(refname:short)"];
        let listed = self.call("list the snapshot branches", arguments);
        let listed = ALL.into_iter().fold(listed, Call::arg).run().await?;
        Ok(listed.text().lines().map(str::to_owned).collect())
    }

    /// Deletes the snapshot branch, unless the user has it checked out or has made something of it; that
    /// there is none is fine.
    pub async fn remove_snapshot(&self, plan: PlanId) -> Result<(), GitError> {
        let found = self.find_snapshot(plan).await?;
        let branch = found.branch.clone();
        let Some(tip) = &found.tip else {
            return Ok(());
        };
        let why = match &found.base {
            None => Some("its last position is not known"),
            Some(_) => self.why_kept(&branch, &found).await?,
        };
        if let Some(why) = why {
            tracing::warn!(%branch, why, "the snapshot branch of a plan is not deleted");
            return Ok(());
        }
        let call = || {
            self.call("delete the snapshot branch", ["update-ref", "-d"])
                .arg(names::reference(&branch))
                .arg(tip.as_str())
                .on(&branch)
        };
        unlocked(self.common_directory(), call).await.map(drop)
    }

    /// Why a snapshot branch that is there is not moved or deleted, where it is not.
    pub(super) async fn why_kept(
        &self,
        branch: &Branch,
        found: &FoundSnapshot,
    ) -> Result<Option<&'static str>, GitError> {
        if found.base.is_some() && found.tip != found.base {
            return Ok(Some("it was moved by another program"));
        }
        let entries = self.worktrees().await?;
        let has_it =
            |entry: &WorktreeEntry| entry.branch.as_ref() == Some(branch) && entry.path.exists();
        let is_in_use = entries.iter().any(has_it);
        Ok(is_in_use.then_some("it is checked out elsewhere"))
    }
}

/// The branch that git names as the reason why another cannot be made.
pub(super) fn in_the_way(said: &str) -> String {
    let named = said
        .split_once("' exists; cannot create")
        .map(|(before, _)| before);
    let name = named.and_then(|before| before.rsplit_once("'refs/heads/"));
    name.map_or("?", |(_, name)| name).to_owned()
}

/// The plan of a snapshot branch, by its whole name.
pub(super) fn plan_of_snapshot(name: &str) -> Option<&str> {
    let mut prefixes = REFERENCES.iter();
    prefixes.find_map(|prefix| name.strip_prefix(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_in_the_way_is_the_one_that_exists() {
        let said = "fatal: update_ref failed for ref 'refs/heads/a/b': cannot lock ref 'refs/heads/a/b': \
            'refs/heads/a' exists; cannot create 'refs/heads/a/b'";
        assert_eq!(in_the_way(said), "a");
        assert_eq!(in_the_way("something else"), "?");
    }
}
