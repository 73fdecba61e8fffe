//! Which commit a plan starts from, and which branch it ends on.

use orchestra_plan::ids::{Branch, Commit};

use super::{GitError, Repository, names, snapshot};

/// Longest part of a branch's name that is made of a plan's name.
const LONGEST_SLUG: usize = 48;

/// How many names are tried before we give up on one that is free.
const TRIED: u32 = 10_000;

/// The commit that a plan starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The branch that it was read from, when it was one; or the one that is checked out and has no commit.
    pub branch: Option<Branch>,
    /// The commit.
    pub commit: Commit,
    /// Whether the repository has no commits, so that we have made one that no reference names.
    pub made: bool,
}

/// What is asked of the branch that a plan ends on.
#[derive(Debug, Clone, Copy)]
pub struct TargetChoice<'a> {
    /// The name that was given.
    pub asked: Option<&'a str>,
    /// The name of the plan, of which one is made when none was given.
    pub plan: &'a str,
    /// What goes before it, as in `orchestra/`.
    pub prefix: &'a str,
    /// Branches that other plans will end on, made or not.
    pub taken: &'a [Branch],
}

/// The branch that a plan ends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub branch: Branch,
    /// Its tip, when there is such a branch: the plan starts there.
    pub tip: Option<Commit>,
    /// Whether we have made the name up.
    pub made_up: bool,
}

impl Repository {
    /// Chooses the commit that a plan starts from: what was asked for, else the branch that is checked out,
    /// else the commit that is, else `main`; in a repository without commits one without files.
    ///
    /// # Errors
    /// [`GitError::Unknown`] when what was asked for is no commit.
    pub async fn choose_base(&self, asked: Option<&str>) -> Result<Base, GitError> {
        if let Some(asked) = asked {
            return self.named_base(asked).await;
        }
        let head = self.head().await?;
        if let Some(commit) = head.commit {
            return Ok(Base {
                branch: head.branch,
                commit,
                made: false,
            });
        }
        let main = names::branch("main")?;
        if let Some(commit) = self.tip(&main).await? {
            return Ok(Base {
                branch: Some(main),
                commit,
                made: false,
            });
        }
        let commit = self.empty_root().await?;
        Ok(Base {
            branch: head.branch,
            commit,
            made: true,
        })
    }

    async fn named_base(&self, asked: &str) -> Result<Base, GitError> {
        if let Ok(branch) = names::branch(asked)
            && let Some(commit) = self.tip(&branch).await?
        {
            return Ok(Base {
                branch: Some(branch),
                commit,
                made: false,
            });
        }
        if let Some(commit) = self.find(asked).await? {
            return Ok(Base {
                branch: None,
                commit,
                made: false,
            });
        }
        // The branch that is checked out may be named before it has a commit.
        let head = self.head().await?;
        let unborn = head.commit.is_none() && head.branch.is_some_and(|it| it.as_str() == asked);
        if unborn {
            let commit = self.empty_root().await?;
            return Ok(Base {
                branch: None,
                commit,
                made: true,
            });
        }
        Err(GitError::Unknown {
            name: names::shortened(asked),
        })
    }

    /// Chooses the branch that a plan ends on. One that is named and exists is where the plan starts; it is
    /// never moved but forward. One that is not named is made up of the plan's name, and is no branch's nor
    /// any other plan's. Nothing is made yet.
    ///
    /// # Errors
    /// [`GitError::Name`], and [`GitError::InTheWay`] when a branch that exists leaves no room for it.
    pub async fn choose_target(&self, choice: TargetChoice<'_>) -> Result<Target, GitError> {
        let taken = self.branches().await?;
        if let Some(asked) = choice.asked {
            let branch = names::branch(asked)?;
            if let Some(tip) = self.tip(&branch).await? {
                return Ok(Target {
                    branch,
                    tip: Some(tip),
                    made_up: false,
                });
            }
            return match taken
                .iter()
                .find(|other| names::collide(branch.as_str(), other))
            {
                Some(other) => Err(GitError::InTheWay {
                    branch: branch.to_string(),
                    other: other.clone(),
                }),
                None => Ok(Target {
                    branch,
                    tip: None,
                    made_up: false,
                }),
            };
        }
        let free = |branch: &Branch| {
            let others = choice.taken.iter().map(Branch::as_str);
            !taken
                .iter()
                .map(String::as_str)
                .chain(others)
                .any(|other| names::collide(branch.as_str(), other))
        };
        let branch = made_up(choice.prefix, choice.plan, free)?;
        Ok(Target {
            branch,
            tip: None,
            made_up: true,
        })
    }

    /// Branches beside which no branch of a plan can have its usual name, each with the prefix that it leaves no
    /// room for and the one that is used instead: of targets that have no name, and of snapshot branches.
    pub async fn prefixes_in_the_way(
        &self,
        prefix: Option<&str>,
    ) -> Result<Vec<(String, String, String)>, GitError> {
        let mut prefixes: Vec<String> = prefix.into_iter().map(str::to_owned).collect();
        prefixes.push(snapshot::PREFIXES[0].to_owned());
        let mut found = Vec::new();
        for other in self.branches().await? {
            for prefix in &prefixes {
                let prefix = prefix.trim_matches('/');
                let is_in_the_way =
                    !prefix.is_empty() && names::is_below(&format!("{prefix}/x"), &other);
                if is_in_the_way {
                    let is_above = names::is_below(prefix, &other);
                    let instead = match is_above {
                        true => prefix.replace('/', "-"),
                        false => prefix.to_owned(),
                    };
                    let instead = match prefix == snapshot::PREFIXES[0].trim_matches('/') {
                        true => snapshot::PREFIXES[1].to_owned(),
                        false => format!("{instead}-"),
                    };
                    found.push((other.clone(), format!("{prefix}/"), instead));
                }
            }
        }
        Ok(found)
    }

    /// The names of all branches.
    async fn branches(&self) -> Result<Vec<String>, GitError> {
        let arguments = ["for-each-ref", "--format=%(refname)", "refs/heads/"];
        let answer = self.call("list the branches", arguments).run().await?;
        let name = |line: &str| line.strip_prefix("refs/heads/").map(str::to_owned);
        Ok(answer.text().lines().filter_map(name).collect())
    }
}

/// The first name made of a plan's that is free.
fn made_up(prefix: &str, plan: &str, free: impl Fn(&Branch) -> bool) -> Result<Branch, GitError> {
    let prefix = prefix.trim_matches('/');
    let slug = slug(plan);
    // Where a branch is called like the prefix alone, no name below it can be made, and none below a part of it
    // where one is called like that.
    let stems = match prefix.is_empty() {
        true => vec![String::new()],
        false => vec![
            format!("{prefix}/"),
            format!("{prefix}-"),
            format!("{}-", prefix.replace('/', "-")),
        ],
    };
    for stem in stems {
        for number in 1..=TRIED {
            let suffix = if number == 1 {
                String::new()
            } else {
                format!("-{number}")
            };
            let branch = names::branch(&format!("{stem}{slug}{suffix}"))?;
            if free(&branch) {
                return Ok(branch);
            }
            let below = names::branch(&format!("{stem}{slug}-{TRIED}-"))?;
            if !free(&below) {
                break;
            }
        }
    }
    Err(GitError::InTheWay {
        branch: format!("{prefix}/{slug}"),
        other: prefix.to_owned(),
    })
}

/// A plan's name as part of a branch's.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for letter in name.chars().flat_map(char::to_lowercase) {
        if slug.len() + letter.len_utf8() > LONGEST_SLUG {
            break;
        }
        if letter.is_alphanumeric() {
            slug.push(letter);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() {
        "plan".to_owned()
    } else {
        slug.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_of_a_plan_makes_a_branch() {
        for (name, expected) in [
            ("Add dark mode!", "add-dark-mode"),
            ("  ../../etc  ", "etc"),
            ("--force", "force"),
            ("🎉🎉", "plan"),
            ("Größe", "größe"),
            ("a.lock", "a-lock"),
        ] {
            assert_eq!(slug(name), expected, "{name}");
        }
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let taken = |names: &'static [&str]| {
            move |it: &Branch| !names.iter().any(|other| names::collide(it.as_str(), other))
        };
        let named = |names| made_up("orchestra", "A", taken(names)).unwrap().to_string();
        assert_eq!(named(&[]), "orchestra/a");
        assert_eq!(named(&["orchestra/a", "Orchestra/A-2"]), "orchestra/a-3");
        assert_eq!(named(&["orchestra/a/b"]), "orchestra/a-2");
        assert_eq!(named(&["orchestra"]), "orchestra-a");
        assert_eq!(named(&["orchestra", "orchestra-a"]), "orchestra-a-2");
        let below = |names| made_up("team/x/", "A", taken(names)).unwrap().to_string();
        assert_eq!(below(&["team/x"]), "team/x-a");
        assert_eq!(below(&["team"]), "team-x-a");
    }
}
