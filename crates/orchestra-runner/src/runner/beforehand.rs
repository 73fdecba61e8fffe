//! What is looked up in the repository before a plan is made: that it can start, and from where.

use orchestra_plan::{command::NewPlan, ids::Branch};

use super::host::Host;
use crate::{
    git::{GitError, Repository, TargetChoice},
    holder::Refused,
    plans::{git_words, refused},
};

/// Settles the branch that a plan starts from, and gives what should be known of it.
pub(super) async fn of_new(host: &Host, new: &mut NewPlan) -> Result<Vec<String>, Refused> {
    let refusal = |error: GitError| refused(error.code(), &git_words(&error));
    let repository = host.repository().await.map_err(refusal)?;
    settled(repository, host, new).await.map_err(refusal)
}

async fn settled(
    repository: &Repository,
    host: &Host,
    new: &mut NewPlan,
) -> Result<Vec<String>, GitError> {
    let settings = &mut new.settings;
    let asked = settings.base_branch.as_ref().map(Branch::as_str);
    let base = repository.choose_base(asked).await?;
    let head = repository.head().await?;
    let asked = settings.target_branch.as_ref().map(Branch::as_str);
    if asked.is_some() {
        let choice = TargetChoice {
            asked,
            plan: settings.name.as_str(),
            prefix: &host.options.branch_prefix,
            taken: &[],
        };
        repository.choose_target(choice).await?;
    }
    if settings.base_branch.is_none() {
        // A commit that no branch is at is named as such, and no commit by the branch that will have it.
        settings.base_branch = match (base.branch, base.made) {
            (Some(branch), _) => Some(branch),
            (None, true) => head.branch,
            (None, false) => Branch::parse(base.commit.as_str()).ok(),
        };
    }
    // Of a plan that starts elsewhere nobody expects them.
    if head.commit.is_some_and(|commit| commit != base.commit) {
        return Ok(Vec::new());
    }
    Ok(match repository.uncommitted().await? {
        0 => Vec::new(),
        1 => vec!["1 uncommitted change is not part of it: jobs see what is committed".to_owned()],
        many => vec![format!(
            "{many} uncommitted changes are not part of it: jobs see what is committed"
        )],
    })
}
