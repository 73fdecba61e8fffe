//! Who commits, and the commits that we make of trees.

use orchestra_plan::ids::Commit;

use super::{GitError, Repository, call::Call, names};

/// Author and committer where neither the environment nor the configuration names one.
const NAME: &str = "Orchestra";
const ADDRESS: &str = "orchestra@localhost";

/// What the commit says from which plans start in a repository without commits.
const ROOT_MESSAGE: &str = "Begin with nothing\n";

/// Who commits.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    author: (String, String),
    committer: (String, String),
}

impl Repository {
    /// The commit without files from which plans start in a repository that has none. No reference names
    /// it; it is the same commit whenever it is made.
    pub async fn empty_root(&self) -> Result<Commit, GitError> {
        const OPERATION: &str = "make a commit without files";
        let tree = self
            .call(OPERATION, ["hash-object", "-t", "tree", "-w", "/dev/null"])
            .run()
            .await?
            .text();
        let answer = self
            .call(OPERATION, ["commit-tree", tree.trim(), "-F", "-"])
            .env("GIT_AUTHOR_NAME", NAME)
            .env("GIT_AUTHOR_EMAIL", ADDRESS)
            .env("GIT_AUTHOR_DATE", "@0 +0000")
            .env("GIT_COMMITTER_NAME", NAME)
            .env("GIT_COMMITTER_EMAIL", ADDRESS)
            .env("GIT_COMMITTER_DATE", "@0 +0000")
            .input(ROOT_MESSAGE)
            .run()
            .await?;
        names::commit(answer.text().trim())
    }

    /// Makes a commit of a tree; no reference names it yet.
    pub(super) async fn commit_tree(
        &self,
        tree: &str,
        parents: &[&Commit],
        message: &str,
    ) -> Result<Commit, GitError> {
        let mut call = self.call("make a commit", ["commit-tree", tree]).on(tree);
        for parent in parents {
            call = call.arg("-p").arg(parent.as_str());
        }
        let call = self.signed(call.arg("-F").arg("-")).await?;
        let answer = call.input(tidy_message(message)).run().await?;
        names::commit(answer.text().trim())
    }

    /// Name of the author of commits that are made here.
    ///
    /// # Errors
    /// When the configuration cannot be read.
    pub async fn author(&self) -> Result<&str, GitError> {
        Ok(&self.identity().await?.author.0)
    }

    /// Author and committer, each as `NAME <EMAIL>`.
    pub(super) async fn signatures(&self) -> Result<(String, String), GitError> {
        let plain = |text: &str| -> String {
            let is_plain = |letter: &char| !matches!(letter, '<' | '>') && !letter.is_control();
            text.chars().filter(is_plain).collect()
        };
        let line = |(name, email): &(String, String)| format!("{} <{}>", plain(name), plain(email));
        let identity = self.identity().await?;
        Ok((line(&identity.author), line(&identity.committer)))
    }

    async fn identity(&self) -> Result<&Identity, GitError> {
        let identity = &self.0.identity;
        identity.get_or_try_init(|| self.read_identity()).await
    }

    /// A call that commits with the author and the committer that the environment or the configuration names.
    pub(super) async fn signed(&self, call: Call) -> Result<Call, GitError> {
        let identity = self.identity().await?;
        Ok(call
            .env("GIT_AUTHOR_NAME", &identity.author.0)
            .env("GIT_AUTHOR_EMAIL", &identity.author.1)
            .env("GIT_COMMITTER_NAME", &identity.committer.0)
            .env("GIT_COMMITTER_EMAIL", &identity.committer.1))
    }

    async fn read_identity(&self) -> Result<Identity, GitError> {
        let asked = [
            "config",
            "-z",
            "--get-regexp",
            "^(user|author|committer)\\.(name|email)$",
        ];
        let answer = self
            .call("find who commits", asked)
            .accept(&[0, 1])
            .run()
            .await?;
        let mut found = std::collections::BTreeMap::new();
        for field in answer.fields() {
            let field = String::from_utf8_lossy(field).into_owned();
            if let Some((key, value)) = field.split_once('\n')
                && value.chars().any(char::is_alphanumeric)
            {
                found.insert(key.to_owned(), value.to_owned());
            }
        }
        let inner = &self.git().0;
        let look = |who: &str, what: &str, otherwise: &str| {
            let variable = format!("git_{who}_{what}").to_uppercase();
            let set = inner.variable(&variable).and_then(|value| value.to_str());
            let set = set.filter(|value| value.chars().any(char::is_alphanumeric));
            let own = || found.get(&format!("{who}.{what}")).map(String::as_str);
            let all = || found.get(&format!("user.{what}")).map(String::as_str);
            set.or_else(own)
                .or_else(all)
                .unwrap_or(otherwise)
                .to_owned()
        };
        let who = |who| (look(who, "name", NAME), look(who, "email", ADDRESS));
        Ok(Identity {
            author: who("author"),
            committer: who("committer"),
        })
    }
}

/// A message that git takes: bounded, without zero bytes, not empty.
fn tidy_message(message: &str) -> String {
    const LONGEST: usize = 64 << 10;
    let mut text: String = message.chars().filter(|letter| *letter != '\0').collect();
    text.truncate(text.floor_char_boundary(LONGEST));
    if text.trim().is_empty() {
        text = "Work of a plan".to_owned();
    }
    text.push('\n');
    text
}
