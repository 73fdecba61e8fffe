//! Boards in references of their own: commits whose trees have the readable files of a board.
//!
//! They are written by `git fast-import`, which touches neither index, `HEAD` nor working tree, and are read with bounds,
//! since a tree can come from anywhere. Remotes are asked without prompts, and their settings are checked before.

use std::collections::{BTreeMap, BTreeSet};

use orchestra_plan::ids::{Branch, Commit};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use super::{
    GitError, Occasion, Repository, RepositoryLock, call::Call, error::classify, lock, names,
};
use crate::hex::hex;

/// References of boards begin so.
const PREFIX: &str = "refs/orchestra/";
/// Most files of a board.
const MAX_FILES: usize = 400_000;
/// Most bytes of one file, and of all files of a board.
const MAX_FILE_BYTES: usize = 32 << 20;
const MAX_BYTES: usize = 256 << 20;
/// Most bytes of a path, and most names in it.
const MAX_PATH_BYTES: usize = 4096;
const MAX_DEPTH: usize = 32;
/// Most bytes of the list of files and directories. Directories without files are listed as well, so that it ends.
const MAX_LISTING: usize = 128 << 20;
/// Most bytes that git adds to each file when it prints it: object name, type, size and line ends.
const HEADER_BYTES: usize = 128;
/// Most bytes of the message of a commit.
const MAX_MESSAGE: usize = 64 << 10;
/// Program that receives a push in a repository of this machine. It runs nothing that the repository names: the
/// repository can come from an archive. Git passes its own settings of this kind only to remotes elsewhere.
const RECEIVER: &str = "--receive-pack=git -c core.hooksPath=/dev/null -c core.alternateRefsCommand=: \
                        -c core.fsmonitor=false -c receive.autogc=false -c receive.denyCurrentBranch=refuse receive-pack";
/// Mode of a regular file.
const REGULAR: &str = "100644";

/// Files of a board by their paths.
pub type BoardTree = BTreeMap<String, Vec<u8>>;

/// Objects of the files of a board by their paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardListing(BTreeMap<String, String>);

impl BoardListing {
    /// Paths of files that differ in another listing, or that one of both does not have.
    pub fn differing(&self, other: &Self) -> BTreeSet<String> {
        let (one, two): (BTreeSet<_>, BTreeSet<_>) =
            (self.0.iter().collect(), other.0.iter().collect());
        let differing = one.symmetric_difference(&two);
        differing.map(|(path, _)| (*path).clone()).collect()
    }

    /// Paths of its files.
    pub fn paths(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Returns whether it has a file with this path.
    pub fn contains(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }
}

/// A reference that has a board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardReference(String);

/// Reason why a tree is not read as a board.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeRefusal {
    /// It has too many files or directories.
    #[error("the board has more than {MAX_FILES} files, or a list of files and directories of more than {} MiB", MAX_LISTING >> 20)]
    TooManyFiles,
    /// A file, or all files together, are too large.
    #[error("a file of the board has more than {} MiB, or all files of the board have more than {} MiB together", MAX_FILE_BYTES >> 20, MAX_BYTES >> 20)]
    TooLarge,
    /// An entry is no regular file.
    #[error("`{path}` is {what}, not a regular file")]
    NotAFile {
        /// Its path.
        path: String,
        /// Its type.
        what: &'static str,
    },
    /// A path cannot be one of a board.
    #[error("`{0}` cannot be the path of a file of a board")]
    Path(String),
    /// An object is missing.
    #[error("the repository lacks the content of `{0}`")]
    Missing(String),
}

/// Outcome of a push.
#[derive(Debug)]
pub enum Pushed {
    /// The remote has the commit.
    Accepted,
    /// The remote, or git, refused it.
    Refused(GitError),
}

/// A commit of a board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardEntry {
    /// Its name.
    pub commit: String,
    /// Name of its author.
    pub author: String,
    /// Time of the commit in seconds since the Unix epoch.
    pub at: i64,
    /// Its message.
    pub message: String,
}

impl BoardReference {
    /// The reference for the board of a workspace at this path below the top of the repository.
    pub fn of_workspace(path: &str) -> Self {
        match path {
            "" => Self(format!("{PREFIX}board")),
            path => Self(format!("{PREFIX}boards/{}", encoded(path))),
        }
    }

    /// A branch that has a board, for servers that refuse other references.
    pub fn of_branch(branch: &Branch) -> Self {
        Self(names::reference(branch))
    }

    /// The reference for the state of this one in a remote, as far as it is known.
    fn tracking(&self, remote: &str) -> Self {
        let is_name = remote
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        // A URL may have a password.
        let remote = match is_name {
            true => remote.to_owned(),
            false => format!("%{}", digest(remote)),
        };
        let name = encoded(&self.0);
        Self(format!("{PREFIX}remotes/{remote}/{name}"))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The beginning of the digest of a text, in hexadecimal digits.
fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes())[..16])
}

/// The name or URL of a remote without user name and password.
pub fn shown_remote(remote: &str) -> String {
    names::shortened(&names::without_passwords(remote, |letter| letter == '/'))
}

/// Bytes that are escaped in a part of the name of a reference.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// A name as one part of that of a reference. Different names have different parts.
fn encoded(name: &str) -> String {
    utf8_percent_encode(name, ESCAPED).to_string()
}

impl Repository {
    /// Waits for the lock under which boards are exchanged.
    ///
    /// # Errors
    /// [`GitError::Busy`] when another program holds it for long, or when it cannot be opened.
    pub async fn lock_board(&self) -> Result<RepositoryLock, GitError> {
        let (common, patience) = (self.common_directory(), self.git().timeout());
        lock::lock(common, lock::BOARD, &self.0.exchanges, patience).await
    }

    /// The commit of a board that a reference names, if there is one.
    ///
    /// # Errors
    /// When git fails.
    pub async fn board(&self, reference: &BoardReference) -> Result<Option<Commit>, GitError> {
        self.find(reference.as_str()).await
    }

    /// Fetches a reference of a remote. Returns its commit; `None` when the remote has no such reference.
    ///
    /// # Errors
    /// When the remote cannot be reached, refuses, or names something other than a commit.
    pub async fn fetch_board(
        &self,
        remote: &str,
        reference: &BoardReference,
        occasion: Occasion,
    ) -> Result<Option<Commit>, GitError> {
        const OPERATION: &str = "fetch the board";
        let remote = remote_name(remote)?;
        let tracking = reference.tracking(remote);
        let (name, known) = (reference.as_str(), tracking.as_str());
        let asked = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-filter",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            // Those of a mirror would move the reference of this board.
            "--refmap=",
            "--",
            remote,
            &format!("+{name}:{known}"),
        ];
        let call = self
            .call(OPERATION, asked)
            .option("-c")
            .option("fetch.fsckObjects=true")
            .on(shown_remote(remote))
            .accept(&[0, 1, 128]);
        let answer = self.unattended(call, occasion).await?.run().await?;
        if answer.code != 0 {
            let asked = ["ls-remote", "--exit-code", "--", remote, name];
            let call = self.call(OPERATION, asked);
            let call = call.on(shown_remote(remote)).accept(&[0, 2]);
            if self.unattended(call, occasion).await?.run().await?.code == 2 {
                return Ok(None);
            }
            let status = format!("exit status: {}", answer.code);
            let remote = shown_remote(remote);
            return Err(classify(OPERATION, remote, status, answer.said));
        }
        match self.board(&tracking).await? {
            Some(commit) => Ok(Some(commit)),
            None => Err(Call::unreadable(
                OPERATION,
                &shown_remote(remote),
                &format!("{name} names no commit"),
            )),
        }
    }

    /// Pushes a commit to a reference of a remote, if that still names `expected`, or nothing.
    ///
    /// # Errors
    /// When git cannot be started.
    pub async fn push_board(
        &self,
        (remote, reference): (&str, &BoardReference),
        commit: &Commit,
        expected: Option<&Commit>,
        occasion: Occasion,
    ) -> Result<Pushed, GitError> {
        let remote = remote_name(remote)?;
        let name = reference.as_str();
        let expected = expected.map_or("", Commit::as_str);
        let lease = format!("--force-with-lease={name}:{expected}");
        let update = format!("{commit}:{name}");
        let mut asked = vec![
            "push",
            "--quiet",
            "--no-verify",
            "--no-follow-tags",
            // A signature can ask for a passphrase.
            "--no-signed",
            "--recurse-submodules=no",
            &lease,
        ];
        if self.may_push_to_this_machine(remote).await? {
            asked.push(RECEIVER);
        }
        asked.extend(["--", remote, &update]);
        let call = self.call("push the board", asked).on(shown_remote(remote));
        let call = self.unattended(call, occasion).await?;
        match call.run().await {
            Ok(_) => Ok(Pushed::Accepted),
            Err(error @ (GitError::Failed { .. } | GitError::Locked { .. })) => {
                Ok(Pushed::Refused(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether a push to the name or URL of a remote may go to a repository of this machine.
    async fn may_push_to_this_machine(&self, remote: &str) -> Result<bool, GitError> {
        const OPERATION: &str = "look for the address of a push";
        let asked = ["remote", "get-url", "--push", "--all", remote];
        let call = self.call(OPERATION, asked).accept(&[0, 2, 128]);
        let answer = call.run().await?;
        if answer.code == 0 {
            return Ok(answer.text().lines().any(is_of_this_machine));
        }
        let asked = ["ls-remote", "--get-url", "--", remote];
        let answer = self.call(OPERATION, asked).run().await?;
        let asked = [
            "config",
            "-z",
            "--name-only",
            "--get-regexp",
            r"^url\..*\.pushinsteadof$",
        ];
        let call = self.call(OPERATION, asked).accept(&[0, 1]);
        let rewritten = call.run().await?.text();
        let bases = rewritten.split('\0').filter_map(|key| {
            let (base, _) = key.strip_prefix("url.")?.rsplit_once('.')?;
            Some(base)
        });
        Ok(is_of_this_machine(answer.text().trim_end())
            || bases.into_iter().any(is_of_this_machine))
    }

    /// Names of the remotes of the repository.
    ///
    /// # Errors
    /// When git fails.
    pub async fn remotes(&self) -> Result<Vec<String>, GitError> {
        let answer = self.call("list the remotes", ["remote"]).run().await?;
        Ok(answer.text().lines().map(str::to_owned).collect())
    }

    /// The commit that two boards come from, if they have one in common.
    ///
    /// # Errors
    /// When git fails.
    pub async fn base_of_boards(
        &self,
        one: &Commit,
        other: &Commit,
    ) -> Result<Option<Commit>, GitError> {
        let asked = ["merge-base", one.as_str(), other.as_str()];
        let call = self.call("compare two boards", asked);
        let answer = call
            .on(format!("{one} and {other}"))
            .accept(&[0, 1])
            .run()
            .await?;
        match answer.code {
            0 => names::commit(answer.text().trim()).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads the files of a commit.
    ///
    /// # Errors
    /// The outer error is git's. The inner one says why the tree is not read as a board.
    pub async fn board_tree(
        &self,
        commit: &Commit,
    ) -> Result<Result<BoardTree, TreeRefusal>, GitError> {
        self.files_of_board(commit, |_| true).await
    }

    /// Reads those files of a commit whose paths are wanted.
    ///
    /// # Errors
    /// As [`board_tree`](Self::board_tree).
    pub async fn files_of_board(
        &self,
        commit: &Commit,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Result<BoardTree, TreeRefusal>, GitError> {
        match self.list_board(commit).await? {
            Ok(listing) => self.read_board(&listing, is_wanted).await,
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Lists the files of a commit. The list ends at a bound, however many files a tree has.
    ///
    /// # Errors
    /// As [`board_tree`](Self::board_tree).
    pub async fn list_board(
        &self,
        commit: &Commit,
    ) -> Result<Result<BoardListing, TreeRefusal>, GitError> {
        // `git diff-tree` collects all differences before it prints the first one, and has no bound.
        let asked = ["ls-tree", "-r", "-t", "-z", "--full-tree", commit.as_str()];
        let call = self.call("list the files of a board", asked);
        let answer = call.on(commit).first_bytes(MAX_LISTING).run().await?;
        if answer.output.len() > MAX_LISTING {
            return Ok(Err(TreeRefusal::TooManyFiles));
        }
        Ok(listing(answer.fields()))
    }

    /// Reads those listed files whose paths are wanted.
    ///
    /// # Errors
    /// As [`board_tree`](Self::board_tree).
    pub async fn read_board(
        &self,
        listing: &BoardListing,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Result<BoardTree, TreeRefusal>, GitError> {
        let listed = listing.0.iter().filter(|(path, _)| is_wanted(path));
        let listed: Vec<(&String, &String)> = listed.collect();
        let mut tree = BoardTree::new();
        if listed.is_empty() {
            return Ok(Ok(tree));
        }
        let mut asked = String::new();
        for (_, object) in &listed {
            asked.push_str(object);
            asked.push('\n');
        }
        let headers = listed.len().saturating_mul(HEADER_BYTES);
        let most = MAX_BYTES.saturating_add(headers);
        let call = self.call("read the files of a board", ["cat-file", "--batch"]);
        let answer = call.input(asked).first_bytes(most).run().await?;
        if answer.output.len() > most {
            return Ok(Err(TreeRefusal::TooLarge));
        }
        let mut rest = answer.output.as_slice();
        for (path, name) in listed {
            let Some(content) = object(&mut rest, name) else {
                return Ok(Err(TreeRefusal::Missing(names::shortened(path))));
            };
            if content.len() > MAX_FILE_BYTES {
                return Ok(Err(TreeRefusal::TooLarge));
            }
            tree.insert(path.clone(), content.to_vec());
        }
        Ok(Ok(tree))
    }

    /// Commits changed files of a board, on top of the first of the parents, and moves a reference that names one of
    /// the parents to the commit. A file without content is removed.
    ///
    /// # Errors
    /// When the reference names another commit, or git fails. The reference stays as it is then.
    pub async fn commit_board(
        &self,
        reference: &BoardReference,
        parents: &[&Commit],
        changed: &BTreeMap<String, Option<Vec<u8>>>,
        message: &str,
    ) -> Result<Commit, GitError> {
        const OPERATION: &str = "commit the board";
        let (author, committer) = self.signatures().await?;
        let name = reference.as_str();
        let mut input = Vec::new();
        if parents.is_empty() {
            // Without a parent, a reference that another program has made would be one.
            input.extend_from_slice(format!("reset {name}\n\n").as_bytes());
        }
        let head =
            format!("commit {name}\nmark :1\nauthor {author} now\ncommitter {committer} now\n");
        input.extend_from_slice(head.as_bytes());
        data(&mut input, tidy(message).as_bytes());
        for (parent, order) in parents
            .iter()
            .zip(["from"].into_iter().chain(std::iter::repeat("merge")))
        {
            input.extend_from_slice(format!("{order} {parent}\n").as_bytes());
        }
        // A file that is gone may be in the way of a directory.
        for (path, content) in changed {
            if content.is_none() {
                input.extend_from_slice(format!("D {}\n", quoted(path)).as_bytes());
            }
        }
        for (path, content) in changed {
            if let Some(content) = content {
                let order = format!("M {REGULAR} inline {}\n", quoted(path));
                input.extend_from_slice(order.as_bytes());
                data(&mut input, content);
            }
        }
        input.extend_from_slice(b"\nget-mark :1\ndone\n");
        let asked = ["fast-import", "--quiet", "--done", "--date-format=now"];
        let answer = self
            .call(OPERATION, asked)
            .on(name)
            .input(input)
            .run()
            .await?;
        names::commit(answer.text().trim())
    }

    /// Moves a reference to a commit, if it still names `expected`, or nothing.
    ///
    /// # Errors
    /// When it names another commit, or git fails.
    pub async fn move_board(
        &self,
        reference: &BoardReference,
        commit: &Commit,
        expected: Option<&Commit>,
    ) -> Result<(), GitError> {
        let expected = expected.map_or(self.format().none(), Commit::as_str);
        let name = reference.as_str();
        let asked = [
            "update-ref",
            "-m",
            "orchestra: sync",
            name,
            commit.as_str(),
            expected,
        ];
        let call = self.call("move the reference of the board", asked);
        call.on(name).run().await.map(drop)
    }

    /// The newest commits of a board, newest first. With a name, those that changed the history of the issue.
    ///
    /// # Errors
    /// When git fails.
    pub async fn board_log(
        &self,
        commit: &Commit,
        issue: Option<&str>,
        most: u32,
    ) -> Result<Vec<BoardEntry>, GitError> {
        const OPERATION: &str = "read the log of the board";
        let most = format!("--max-count={most}");
        let asked = [
            "log",
            "-z",
            "--no-color",
            "--no-show-signature",
            "--format=%H%n%an%n%ct%n%B",
        ];
        let mut call = self
            .call(OPERATION, asked)
            .arg(most)
            .arg(commit.as_str())
            .arg("--");
        if let Some(issue) = issue {
            call = call.arg(format!(":(top,glob)**/{issue}.history.jsonl"));
        }
        let answer = call.on(commit).run().await?;
        let entries = answer.fields().map(|field| {
            let text = String::from_utf8_lossy(field);
            let mut lines = text.splitn(4, '\n');
            let mut next = || lines.next().map(str::to_owned);
            Some(BoardEntry {
                commit: next()?,
                author: next()?,
                at: next()?.parse().ok()?,
                message: next()?,
            })
        });
        let unreadable = || {
            Call::unreadable(
                OPERATION,
                commit.as_str(),
                "a commit without author or time",
            )
        };
        entries.map(|entry| entry.ok_or_else(unreadable)).collect()
    }
}

/// Reads the answer of `git ls-tree -r -t -z`.
fn listing<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Result<BoardListing, TreeRefusal> {
    let mut listed = BTreeMap::new();
    for field in fields {
        if listed.len() >= MAX_FILES {
            return Err(TreeRefusal::TooManyFiles);
        }
        let shown = || names::shortened(&String::from_utf8_lossy(field));
        let entry = std::str::from_utf8(field).ok();
        let Some((facts, path)) = entry.and_then(|entry| entry.split_once('\t')) else {
            return Err(TreeRefusal::Path(shown()));
        };
        let is_odd = |name: &str| matches!(name, "" | "." | "..");
        if path.len() > MAX_PATH_BYTES
            || path.chars().any(char::is_control)
            || path.split('/').count() > MAX_DEPTH
            || path.split('/').any(is_odd)
        {
            return Err(TreeRefusal::Path(names::shortened(path)));
        }
        let facts: Vec<&str> = facts.split_ascii_whitespace().collect();
        let &[mode, kind, object] = facts.as_slice() else {
            return Err(TreeRefusal::Path(shown()));
        };
        if kind == "tree" {
            continue;
        }
        if mode != REGULAR || kind != "blob" {
            let what = match mode {
                "120000" => "a symbolic link",
                "160000" => "a submodule",
                _ => "an executable or special file",
            };
            let path = names::shortened(path);
            return Err(TreeRefusal::NotAFile { path, what });
        }
        if listed.insert(path.to_owned(), object.to_owned()).is_some() {
            return Err(TreeRefusal::Path(names::shortened(path)));
        }
    }
    Ok(BoardListing(listed))
}

/// Takes the content of a file off the answer of `git cat-file --batch`.
fn object<'a>(rest: &mut &'a [u8], name: &str) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let header = std::str::from_utf8(&rest[..end]).ok()?;
    let size = header.strip_prefix(name)?.strip_prefix(" blob ")?;
    let size: usize = size.parse().ok()?;
    let (content, after) = rest.get(end + 1..)?.split_at_checked(size)?;
    *rest = after.strip_prefix(b"\n")?;
    Some(content)
}

/// Checks the name or URL of a remote.
fn remote_name(remote: &str) -> Result<&str, GitError> {
    let why = if remote.is_empty() {
        "it is empty"
    } else if remote.starts_with('-') {
        "it begins like an option"
    } else if remote.len() > 4096 || remote.chars().any(char::is_control) {
        "it is too long, or has control characters"
    } else {
        return Ok(remote);
    };
    Err(GitError::Name {
        what: "remote",
        name: shown_remote(remote),
        why,
    })
}

/// Returns whether git finds a repository by its path, as opposed to `URL`s and `host:path` of ssh.
fn is_of_this_machine(address: &str) -> bool {
    let is_file = |scheme: &str| scheme.eq_ignore_ascii_case("file");
    match address.split_once("://") {
        Some((scheme, _)) if !scheme.contains('/') => is_file(scheme),
        _ => match (address.find(':'), address.find('/')) {
            (Some(colon), slash) => slash.is_some_and(|slash| slash < colon),
            (None, _) => true,
        },
    }
}

/// A path as `git fast-import` reads it.
fn quoted(path: &str) -> String {
    let mut text = String::from("\"");
    for letter in path.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            letter => text.push(letter),
        }
    }
    text.push('"');
    text
}

fn data(input: &mut Vec<u8>, content: &[u8]) {
    input.extend_from_slice(format!("data {}\n", content.len()).as_bytes());
    input.extend_from_slice(content);
    input.push(b'\n');
}

/// A message that git takes.
fn tidy(message: &str) -> String {
    let mut text: String = message.chars().filter(|letter| *letter != '\0').collect();
    text.truncate(text.floor_char_boundary(MAX_MESSAGE));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_recognized() {
        for address in [
            "/a/b",
            "./a",
            "a",
            "a/b:c",
            "file:///a",
            "FILE:///a",
            "/a://b",
        ] {
            assert!(is_of_this_machine(address), "{address}");
        }
        for address in [
            "host:a",
            "me@host:a/b",
            "https://h/a",
            "ssh://h/a",
            "ext::sh -c x",
            "[::1]:a",
        ] {
            assert!(!is_of_this_machine(address), "{address}");
        }
    }

    fn check(fields: &[&str]) -> Result<Vec<String>, String> {
        let fields = fields.iter().map(|field| field.as_bytes());
        let listed = listing(fields).map_err(|refusal| refusal.to_string())?;
        Ok(listed.0.into_keys().collect())
    }

    #[test]
    fn regular_files_are_listed() {
        let listed = check(&[
            "040000 tree 3333\ta",
            "100644 blob 1111\ta/b.toon",
            "100644 blob 2222\tc.md",
        ]);
        assert_eq!(listed, Ok(vec!["a/b.toon".to_owned(), "c.md".to_owned()]));
    }

    #[test]
    fn hostile_entries_are_refused() {
        let deep = format!("100644 blob 1111\t{}x", "a/".repeat(MAX_DEPTH));
        for (field, part) in [
            ("120000 blob 1111\ta", "a symbolic link"),
            ("160000 commit 1111\ta", "a submodule"),
            ("100755 blob 1111\ta", "an executable"),
            ("100644 blob 1111\ta/../b", "cannot be the path"),
            ("100644 blob 1111\ta\nb", "cannot be the path"),
            ("100644 blob\ta", "cannot be the path"),
            (deep.as_str(), "cannot be the path"),
        ] {
            let refusal = check(&[field]).unwrap_err();
            assert!(refusal.contains(part), "{field:?}: {refusal}");
        }
        let twice = "100644 blob 1111\ta";
        assert!(check(&[twice, twice]).is_err());
    }

    #[test]
    fn files_that_are_new_gone_or_changed_differ() {
        let read = |fields: &[&str]| listing(fields.iter().map(|field| field.as_bytes())).unwrap();
        let before = read(&[
            "100644 blob 11\ta",
            "100644 blob 11\tb",
            "100644 blob 11\tc",
        ]);
        let after = read(&[
            "100644 blob 11\ta",
            "100644 blob 22\tb",
            "100644 blob 11\td",
        ]);
        for (one, other) in [(&before, &after), (&after, &before)] {
            let differing: Vec<String> = one.differing(other).into_iter().collect();
            assert_eq!(differing, ["b", "c", "d"]);
        }
        assert!(before.differing(&before).is_empty());
    }

    #[test]
    fn parts_of_references_are_distinct() {
        assert_eq!(encoded("origin"), "origin");
        assert_eq!(encoded("../a b"), "%2E%2E%2Fa%20b");
        assert_ne!(encoded("a%2Fb"), encoded("a/b"));
        assert_eq!(
            BoardReference::of_workspace("").as_str(),
            "refs/orchestra/board"
        );
    }

    #[test]
    fn remotes_are_shown_without_passwords() {
        assert_eq!(
            shown_remote("https://ada:secret@example.org/a@b"),
            "https://example.org/a@b"
        );
        assert_eq!(
            shown_remote("git@example.org:a.git"),
            "git@example.org:a.git"
        );
        assert_eq!(shown_remote("../a"), "../a");
    }

    #[test]
    fn answers_with_other_objects_are_refused() {
        let mut rest = b"11 blob 3\nabc\n22 missing\n".as_slice();
        assert_eq!(object(&mut rest, "11"), Some(b"abc".as_slice()));
        assert_eq!(object(&mut rest, "22"), None);
        for mut wrong in [
            b"11 blob 3\nab".as_slice(),
            b"11 blob 99999999999999999999\nab\n",
            b"11 tree 2\nab\n",
            b"12 blob 2\nab\n",
        ] {
            assert_eq!(object(&mut wrong, "11"), None);
        }
    }
}
