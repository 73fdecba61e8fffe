//! What is looked up in the repository before a plan is made: that it can start, and from where.

use std::{collections::BTreeMap, sync::Arc};

use orchestra_plan::{command::NewPlan, ids::Branch, spec::JobSpec};

use super::host::Host;
use crate::{
    git::{GitError, Repository, TargetChoice},
    holder::Refused,
    plans::{git_words, refused},
};

/// What is wrong with the agents that the configuration names, looked for in all of the path.
pub(crate) async fn misnamed(host: &Arc<Host>) -> Vec<String> {
    let host = Arc::clone(host);
    let misnamed = tokio::task::spawn_blocking(move || host.misnamed()).await;
    misnamed.unwrap_or_default()
}

/// Says what making a plan would say of the repository and of the agents that the configuration names.
pub(crate) async fn looked(host: &Arc<Host>, mut new: NewPlan) -> Result<Vec<String>, Refused> {
    let mut warnings = match host.repository().await {
        Ok(_) => of_new(host, &mut new).await?,
        // It may be looked at elsewhere than where it is to be made.
        Err(error) => vec![format!(
            "no plan can be made here, and no branch was looked for: {}",
            git_words(&error)
        )],
    };
    warnings.extend(misnamed(host).await);
    Ok(warnings)
}

/// Settles the branch that a plan starts from, and gives what should be known of it.
pub(super) async fn of_new(host: &Host, new: &mut NewPlan) -> Result<Vec<String>, Refused> {
    let refusal = |error: GitError| refused(error.code(), &git_words(&error));
    let repository = host.repository().await.map_err(refusal)?;
    // A check contacts no remote that the repository names.
    let repository = repository.without_lazy_fetches();
    settled(&repository, host, new).await.map_err(refusal)
}

async fn settled(
    repository: &Repository,
    host: &Host,
    new: &mut NewPlan,
) -> Result<Vec<String>, GitError> {
    let prefix = host.known_settings().branch_prefix.clone();
    let settings = &mut new.settings;
    let asked = settings.base_branch.as_ref().map(Branch::as_str);
    let base = repository.choose_base(asked).await?;
    let head = repository.head().await?;
    let asked = settings.target_branch.as_ref().map(Branch::as_str);
    if asked.is_some() {
        let choice = TargetChoice {
            asked,
            plan: settings.name.as_str(),
            prefix: &prefix,
            taken: &[],
        };
        repository.choose_target(choice).await?;
    }
    if settings.base_branch.is_none() {
        // A commit that no branch is at is named as such, and no commit by the branch that will have it.
        settings.base_branch = match (base.branch, base.made) {
            (Some(branch), _) => Some(branch),
            (None, true) => head.branch.clone(),
            (None, false) => Branch::parse(base.commit.as_str()).ok(),
        };
    }
    let mut warnings = unknown_bases(repository, &new.jobs).await?;
    let prefix = Some(prefix.as_str()).filter(|_| settings.target_branch.is_none());
    for (branch, prefix, instead) in repository.prefixes_in_the_way(prefix).await? {
        warnings.push(format!(
            "git cannot create branches below `{prefix}` while the branch `{branch}` exists: this plan uses a branch \
             that begins with `{instead}`"
        ));
    }
    if base.made {
        warnings.push(
            "the repository has no commits: the target branch begins a history of its own; `git switch` and `git \
             merge` can use it until something else is committed"
                .to_owned(),
        );
    }
    let target = settings.target_branch.as_ref();
    let follows = target.filter(|target| head.branch.as_ref() == Some(*target));
    // Of a plan that starts elsewhere nobody expects them.
    let starts_here = head.commit.is_none_or(|commit| commit == base.commit);
    if follows.is_none() && !starts_here {
        return Ok(warnings);
    }
    let found = match repository.uncommitted().await {
        Err(error) if error.lacks_objects() => {
            warnings.push(
                "uncommitted changes were not looked for: the partial clone lacks objects of the current commit"
                    .to_owned(),
            );
            return Ok(warnings);
        }
        found => found?,
    };
    let count = |many: usize| match many {
        1 => "1 uncommitted change".to_owned(),
        many => format!("{many} uncommitted changes"),
    };
    let all = found.changed - found.board + found.other;
    if starts_here && all > 0 {
        let (count, are) = (count(all), if all == 1 { "is" } else { "are" });
        warnings.push(format!(
            "{count} {are} not part of it: jobs see what is committed"
        ));
    }
    if let Some(target) = follows.filter(|_| found.changed > 0) {
        warnings.push(format!(
            "its target `{target}` is checked out here with {}: commit or stash before it ends, or its result \
             cannot be merged",
            count(found.changed)
        ));
    }
    Ok(warnings)
}

/// Says which jobs begin from what is not there: it may be by then.
async fn unknown_bases(repository: &Repository, jobs: &[JobSpec]) -> Result<Vec<String>, GitError> {
    let mut known: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let mut warnings = Vec::new();
    // What depends on others begins from them.
    for job in jobs.iter().filter(|job| job.dependencies.is_empty()) {
        let Some(base) = job.base_branch.as_ref().map(Branch::as_str) else {
            continue;
        };
        if !known.contains_key(base) {
            let wrong = match repository.choose_base(Some(base)).await {
                Ok(_) => None,
                Err(error @ GitError::Unknown { .. }) => Some(git_words(&error)),
                Err(error) => return Err(error),
            };
            known.insert(base, wrong);
        }
        if let Some(Some(wrong)) = known.get(base) {
            let job = &job.producer_id;
            warnings.push(format!(
                "job `{job}`, baseBranch: {wrong}; it fails unless there is one when it begins"
            ));
        }
    }
    Ok(warnings)
}
