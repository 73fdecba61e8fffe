//! Merging commits without checking anything out, for the worktree of a job that depends on several.

use std::{ffi::OsStr, fmt, os::unix::ffi::OsStrExt, path::PathBuf};

use orchestra_plan::ids::Commit;

use super::{
    GitError, Repository,
    call::{Answer, Call},
    drivers, names,
};

/// How many commits are merged for one job.
const MOST_COMMITS: usize = 10_000;

/// A path that two commits changed so that git cannot merge it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictPath {
    /// The path below the root of the working tree.
    pub path: PathBuf,
    /// What is the matter, in git's stable words: `contents`, `modify/delete`, `binary`, …
    pub kind: String,
}

/// Two commits that git cannot merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// What was merged so far: where a worktree begins in which the conflict is to be solved.
    pub onto: Commit,
    /// The commit that does not go with it.
    pub with: Commit,
    /// Its place among those that were to be merged.
    pub index: usize,
    /// Where they are at odds.
    pub paths: Vec<ConflictPath>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMED: usize = 10;
        write!(
            formatter,
            "{} does not merge onto {}:",
            self.with.short(),
            self.onto.short()
        )?;
        for conflict in self.paths.iter().take(NAMED) {
            write!(
                formatter,
                " {} ({})",
                conflict.path.display(),
                conflict.kind
            )?;
        }
        match self.paths.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(formatter, " and {more} more"),
        }
    }
}

/// Several commits made one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forward {
    /// The commit that has all of them; one of them, when it has the others already.
    Merged(Commit),
    /// Two of them do not go together.
    Conflict(Conflict),
}

/// A merge of two commits as git computes it.
pub(super) enum MergedTree {
    Clean(String),
    Conflicts(Vec<ConflictPath>),
}

impl Repository {
    /// Merges commits in their order, each onto what came of those before it. Nothing is checked out and no
    /// reference is moved.
    ///
    /// # Errors
    /// [`GitError::Unrelated`] when two have no history in common.
    pub async fn merge(&self, commits: &[Commit], message: &str) -> Result<Forward, GitError> {
        let mut order: Vec<(usize, &Commit)> = Vec::new();
        for (index, commit) in commits.iter().enumerate() {
            if !order.iter().any(|(_, other)| *other == commit) {
                order.push((index, commit));
            }
        }
        if order.len() > MOST_COMMITS {
            return Err(GitError::Name {
                what: "list of commits",
                name: order.len().to_string(),
                why: "there are too many to merge",
            });
        }
        if order.len() > 1 {
            let heads = self.independent(&order).await?;
            order.retain(|(_, commit)| heads.contains(commit));
        }
        let mut rest = order.into_iter();
        let Some((_, first)) = rest.next() else {
            return Err(GitError::Unknown {
                name: "none of no commits".to_owned(),
            });
        };
        let mut merged = first.clone();
        for (index, commit) in rest {
            match self.merge_tree(&merged, commit).await? {
                MergedTree::Clean(tree) => {
                    merged = self.commit_tree(&tree, &[&merged, commit], message).await?;
                }
                MergedTree::Conflicts(paths) => {
                    let with = commit.clone();
                    return Ok(Forward::Conflict(Conflict {
                        onto: merged,
                        with,
                        index,
                        paths,
                    }));
                }
            }
        }
        Ok(Forward::Merged(merged))
    }

    /// Whether a commit was made from all of the others, or is one of them.
    pub(super) async fn contains(
        &self,
        commit: &Commit,
        others: &[Commit],
    ) -> Result<bool, GitError> {
        for other in others {
            if !self.is_ancestor(other, commit).await? {
                return Ok(false);
            }
        }
        Ok(!others.is_empty())
    }

    /// Those of the commits that no other one was made from.
    async fn independent(&self, commits: &[(usize, &Commit)]) -> Result<Vec<Commit>, GitError> {
        // More do not fit a command line well; merging one that is contained already changes nothing.
        const AT_ONCE: usize = 500;
        if commits.len() > AT_ONCE {
            return Ok(commits
                .iter()
                .map(|(_, commit)| (*commit).clone())
                .collect());
        }
        let mut call = self.call("compare commits", ["merge-base", "--independent"]);
        for (_, commit) in commits {
            call = call.arg(commit.as_str());
        }
        call.run()
            .await?
            .text()
            .lines()
            .map(names::commit)
            .collect()
    }

    /// Computes the merge of two commits.
    pub(super) async fn merge_tree(
        &self,
        ours: &Commit,
        theirs: &Commit,
    ) -> Result<MergedTree, GitError> {
        let answer = match self.run_merge_tree(ours, theirs, &[]).await {
            Err(GitError::Failed { stderr, .. }) if stderr.contains("unrelated histories") => {
                let root = self.empty_root().await?;
                let from_nothing =
                    self.is_ancestor(&root, ours).await? || self.is_ancestor(&root, theirs).await?;
                if !from_nothing {
                    let (ours, theirs) = (ours.to_string(), theirs.to_string());
                    return Err(GitError::Unrelated { ours, theirs });
                }
                self.run_merge_tree(ours, theirs, &["--allow-unrelated-histories"])
                    .await?
            }
            other => other?,
        };
        parse(&answer)
    }

    async fn run_merge_tree(
        &self,
        ours: &Commit,
        theirs: &Commit,
        options: &[&str],
    ) -> Result<Answer, GitError> {
        let mut call = self
            .call(
                "merge two commits",
                ["merge-tree", "--write-tree", "-z", "--messages"],
            )
            .on(format!("{ours} and {theirs}"))
            .accept(&[0, 1]);
        if self.git().reads_attributes_of_a_tree() {
            // Attributes in the user's working tree, perhaps of another branch, have no say.
            call = call.option(format!("--attr-source={ours}"));
        }
        for option in options {
            call = call.arg(option);
        }
        let ask = |operation, arguments| self.call(operation, arguments);
        let labels = [ours.as_str(), theirs.as_str()];
        let call = drivers::of_user(ask, call, labels).await?;
        call.arg(ours.as_str()).arg(theirs.as_str()).run().await
    }
}

/// Reads the tree and, where there are conflicts, their paths and kinds.
fn parse(answer: &Answer) -> Result<MergedTree, GitError> {
    let unreadable = || Call::unreadable("merge two commits", "", &answer.text());
    let mut fields = answer.fields();
    let tree = String::from_utf8_lossy(fields.next().unwrap_or_default())
        .trim()
        .to_owned();
    names::commit(&tree).map_err(|_| unreadable())?;
    if answer.code == 0 {
        return Ok(MergedTree::Clean(tree));
    }
    let mut conflicts: Vec<ConflictPath> = Vec::new();
    let mut add = |path: &[u8], kind: &str| {
        let path = PathBuf::from(OsStr::from_bytes(path));
        match conflicts.iter_mut().find(|conflict| conflict.path == path) {
            Some(known) if known.kind.is_empty() => known.kind = kind.to_owned(),
            Some(_) => {}
            None => conflicts.push(ConflictPath {
                path,
                kind: kind.to_owned(),
            }),
        }
    };
    for field in fields.by_ref().take_while(|field| !field.is_empty()) {
        if let Some(at) = field.iter().position(|byte| *byte == b'\t') {
            add(&field[at + 1..], "");
        }
    }
    while let Some(count) = fields.next() {
        let count: usize = String::from_utf8_lossy(count)
            .parse()
            .map_err(|_| unreadable())?;
        let paths: Vec<&[u8]> = fields.by_ref().take(count).collect();
        let kind = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
        let _message = fields.next();
        let Some(kind) = kind
            .strip_prefix("CONFLICT (")
            .and_then(|kind| kind.strip_suffix(')'))
        else {
            continue;
        };
        for path in paths {
            add(path, kind);
        }
    }
    Ok(MergedTree::Conflicts(conflicts))
}
