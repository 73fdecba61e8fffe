//! Exchange of the board with a remote of its repository: fetch, merge in the program, commit, push, and again where
//! another clone was faster.
//!
//! The local reference names the newest commit of the board. What is newer on the board is committed by the next exchange,
//! or before it while the board is served.

mod attempt;
mod record;

use orchestra_plan::ids::{Branch, Commit};
use orchestra_runner::git::{
    BoardEntry, BoardReference, Git, GitError, GitSettings, Occasion, Pushed, Repository,
    shown_remote,
};
use orchestra_store::{
    ActionError, BoardFiles, Effect, ExchangeError, Exchanged, Home, Options, PageRequest,
    ReadError, Store, changes_between, files_to_parse,
};
use std::{path::Path, time::Duration};

use crate::{
    board,
    config::{self, Config},
    exit::Failure,
    workspace::{self, WorkspaceError},
};

pub(crate) use attempt::{Attempt, Work};
pub(crate) use record::CommitOutcome;
use record::message;

/// Number of times that other clones may be faster.
const ATTEMPTS: u32 = 10;
/// Most bytes that git may print: the files of a board with their headers.
const OUTPUT: usize = 512 << 20;
/// Longest time of a call of git, as a fetch or push over a slow network.
const PATIENCE: Duration = Duration::from_secs(600);
/// Longest time for edits of the readable files to become part of the board.
const CATCHING_UP: Duration = Duration::from_secs(30);
/// Most files whose changes are merged without the rest of the board.
const FEW_FILES: usize = 1_000;

/// The repository of a workspace, as far as its board is exchanged.
pub(crate) struct Exchange {
    repository: Repository,
    local: BoardReference,
}

/// A remote, and the reference of the board in it.
pub(crate) struct Remote {
    name: String,
    reference: BoardReference,
    occasion: Occasion,
}

/// Result of an exchange.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Changes that came from other clones.
    pub(crate) received: Vec<String>,
    /// Changes of this clone that the remote did not have.
    pub(crate) sent: Vec<String>,
    /// Commit of the board; `None` where there is none, as after a preview.
    pub(crate) commit: Option<Commit>,
    /// The board of this clone has no project.
    pub(crate) is_empty: bool,
}

/// Reason why a board is not exchanged. The board stays as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The remote rejects the reference of the board, which is no branch.
    #[error(transparent)]
    Rejected(GitError),
    /// The workspace is in no repository, or its repository has no working tree.
    #[error(
        "cannot sync the board: {0} is not in a git working tree; run `git init` there, or name another workspace with --workspace"
    )]
    NoRepository(String),
    /// A commit does not have a board that can be merged.
    #[error("the board in commit {commit} ({place}) is not merged: {reason}")]
    Refused {
        /// The commit.
        commit: String,
        /// The remote, or the local reference.
        place: String,
        /// The part of it that is wrong.
        reason: String,
    },
    /// Neither side has a board.
    #[error(transparent)]
    NoBoard(#[from] WorkspaceError),
    /// The board cannot be opened or written.
    #[error("{}", .0.text())]
    Board(Failure),
    /// The board cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store failed.
    #[error(transparent)]
    Exchange(ExchangeError),
    /// The board cannot be written.
    #[error(transparent)]
    Write(#[from] ActionError),
    /// Other clones were faster each time.
    #[error(
        "cannot push the board, because other clones pushed first {ATTEMPTS} times in a row; try again"
    )]
    Raced,
}

impl SyncError {
    /// The failure of the command, with its exit code.
    fn failure(self) -> Failure {
        match self {
            Self::Board(failure) => failure,
            Self::Refused { .. } | Self::NoRepository(_) | Self::NoBoard(_) => {
                Failure::refused(self.to_string())
            }
            Self::Git(error) => {
                let hint = error.hint();
                let kind = match error {
                    GitError::Starts { .. } | GitError::Diverts { .. } => Failure::Denied,
                    GitError::Name { .. } => Failure::Usage,
                    _ => Failure::Failed,
                };
                kind(anyhow::anyhow!("{:#}; {hint}", anyhow::Error::from(error)))
            }
            Self::Rejected(error) => Failure::Failed(anyhow::anyhow!(
                "{:#}; if the remote accepts only branches, run `orchestra sync --branch NAME`",
                anyhow::Error::from(error)
            )),
            error => Failure::Failed(error.into()),
        }
    }

    /// The error of a push that the remote, or git, refused.
    fn of_push(error: GitError, reference: &BoardReference) -> Self {
        let is_rejected = matches!(
            &error,
            GitError::Failed { stderr, .. } if stderr.contains("[remote rejected]")
        );
        match is_rejected && !reference.as_str().starts_with("refs/heads/") {
            true => Self::Rejected(error),
            false => Self::Git(error),
        }
    }
}

fn failure(error: impl Into<SyncError>) -> Failure {
    error.into().failure()
}

impl Exchange {
    /// Finds the repository of a workspace, and the reference of its board.
    ///
    /// # Errors
    /// When there is none, or the board is in the checkout and travels with its commits.
    pub(crate) async fn open(workspace: &Path) -> Result<Self, Failure> {
        if matches!(board::home(workspace)?, Home::Checkout) {
            return Err(Failure::refused(
                "the files of this board are in the checkout (mode `checkout`) and travel with its commits: commit and \
                 push them, or run `orchestra board convert` first",
            ));
        }
        let settings = GitSettings {
            timeout: PATIENCE,
            output: OUTPUT,
            // An object that is missing could be asked of a remote that the configuration of the repository names.
            environment: vec![("GIT_NO_LAZY_FETCH".into(), "1".into())],
            ..GitSettings::default()
        };
        let git = Git::find(settings).await.map_err(failure)?;
        let repository = Repository::open(&git, workspace).await;
        let repository = repository.map_err(|error| {
            let error = match error {
                GitError::NotARepository { path } | GitError::Bare { path } => {
                    SyncError::NoRepository(path.display().to_string())
                }
                error => SyncError::Git(error),
            };
            error.failure()
        })?;
        // A file in a repository of another user can name the git directory of another repository.
        let (top, own) = (repository.toplevel(), repository.directory());
        orchestra_place::check_answer(workspace, config::safety(workspace), top, own)
            .map_err(|error| failure(GitError::from(error)))?;
        // Every clone has the workspace at the same path below the top.
        let whole = workspace.canonicalize()?;
        let below = whole.strip_prefix(repository.toplevel()).unwrap_or(&whole);
        let local = BoardReference::of_workspace(&below.to_string_lossy());
        Ok(Self { repository, local })
    }

    /// The remote with this name or URL, else `origin`, else the only one of the repository. With a branch, the board is
    /// in that branch of the remote.
    ///
    /// # Errors
    /// When the repository has no remote, or several and none is called `origin`, or the name is no branch's.
    pub(crate) async fn remote(
        &self,
        name: Option<String>,
        branch: Option<&str>,
    ) -> Result<Remote, Failure> {
        let reference = match branch {
            None => self.local.clone(),
            Some(branch) => {
                let branch = Branch::parse(branch);
                let branch =
                    branch.map_err(|error| Failure::usage_text(format!("--branch: {error}")))?;
                BoardReference::of_branch(&branch)
            }
        };
        if let Some(name) = name {
            return Ok(Remote::new(name, reference));
        }
        let known = self.repository.remotes().await.map_err(failure)?;
        let origin = known.iter().find(|name| *name == "origin");
        let name = match (origin, known.as_slice()) {
            (Some(name), _) | (None, [name]) => name.clone(),
            (None, []) => {
                return Err(Failure::refused(
                    "this repository has no remote: add one by `git remote add origin URL`, or name it: `orchestra sync \
                     URL`",
                ));
            }
            (None, known) => {
                return Err(Failure::refused(format!(
                    "this repository has several remotes and none is called `origin`: name one of {}",
                    known.join(", ")
                )));
            }
        };
        Ok(Remote::new(name, reference))
    }

    /// Exchanges the board with a remote. A workspace without a board gets that of the remote.
    ///
    /// # Errors
    /// When the remote cannot be reached, or has no board that can be merged.
    pub(crate) async fn run(
        &self,
        config: &Config,
        remote: &Remote,
        effect: Effect,
    ) -> Result<Outcome, Failure> {
        let _lock = self.repository.lock_board().await.map_err(failure)?;
        let mut round = Round::new(self, config, remote, effect);
        if workspace::has_board(&config.workspace) {
            round.open_board().map_err(failure)?;
        }
        let run = round.run().await;
        if let Some(store) = round.store.take() {
            let projects = store.read(|reader| reader.projects(&PageRequest::first(1)));
            round.outcome.is_empty = projects.is_ok_and(|projects| projects.total == 0);
            crate::serving::close(&store);
        }
        // Commits can be possible again, also where the remote refuses them.
        if effect == Effect::Apply {
            Attempt::end_failures(config, Work::Commit);
        }
        let outcome = run.map(|()| round.outcome).map_err(failure)?;
        if effect == Effect::Apply {
            Attempt::end_failures(config, Work::Exchange);
        }
        Ok(outcome)
    }

    /// Exchanges an open board with a remote, as [`run`](Self::run) does.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn run_in(
        &self,
        config: &Config,
        store: &Store,
        remote: &Remote,
    ) -> Result<Outcome, Failure> {
        let _lock = self.repository.lock_board().await.map_err(failure)?;
        let mut round = Round::new(self, config, remote, Effect::Apply);
        round.store = Some(store.clone());
        let run = round.run().await;
        Attempt::end_failures(config, Work::Commit);
        run.map_err(failure)?;
        let outcome = round.outcome;
        Ok(outcome)
    }

    /// Returns whether a text is a name, not a URL or path, and none of a remote of the repository.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) async fn lacks(&self, name: &str) -> Result<bool, Failure> {
        let known = self.repository.remotes().await.map_err(failure)?;
        Ok(!name.contains(['/', '\\', ':']) && !known.iter().any(|remote| remote == name))
    }

    /// The newest commits of the board.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) async fn log(
        &self,
        issue: Option<&str>,
        most: u32,
    ) -> Result<Option<Vec<BoardEntry>>, Failure> {
        let commit = self.repository.board(&self.local).await.map_err(failure)?;
        let Some(commit) = commit else {
            return Ok(None);
        };
        let entries = self.repository.board_log(&commit, issue, most).await;
        entries.map(Some).map_err(failure)
    }

    /// Reads the files of a commit that a remote or the local reference names.
    async fn files(&self, commit: &Commit, place: &str) -> Result<BoardFiles, SyncError> {
        let tree = self.repository.board_tree(commit).await?;
        match tree {
            Ok(files) => Ok(BoardFiles::new(files)),
            Err(refusal) => Err(refused(commit, place, &refusal)),
        }
    }
}

fn refused(commit: &Commit, place: &str, reason: &dyn std::fmt::Display) -> SyncError {
    SyncError::Refused {
        commit: commit.to_string(),
        place: place.to_owned(),
        reason: reason.to_string(),
    }
}

fn unmerged(commit: &Commit, place: &str, error: ExchangeError) -> SyncError {
    match error {
        ExchangeError::Fault(_) => SyncError::Exchange(error),
        reason => refused(commit, place, &reason),
    }
}

impl Remote {
    const fn new(name: String, reference: BoardReference) -> Self {
        Self {
            name,
            reference,
            occasion: Occasion::Command,
        }
    }

    /// The same remote for an exchange that no command of the user has asked for.
    pub(crate) fn in_background(self) -> Self {
        Self {
            occasion: Occasion::Background,
            ..self
        }
    }

    /// Its name for people, without a password.
    pub(crate) fn shown(&self) -> String {
        shown_remote(&self.name)
    }

    /// Name of the reference in it.
    pub(crate) fn reference(&self) -> &str {
        self.reference.as_str()
    }
}

/// An exchange that is under way.
struct Round<'a> {
    exchange: &'a Exchange,
    config: &'a Config,
    remote: &'a Remote,
    effect: Effect,
    /// The board, where the workspace has one.
    store: Option<Store>,
    outcome: Outcome,
}

impl<'a> Round<'a> {
    fn new(exchange: &'a Exchange, config: &'a Config, remote: &'a Remote, effect: Effect) -> Self {
        Self {
            exchange,
            config,
            remote,
            effect,
            store: None,
            outcome: Outcome::default(),
        }
    }
}

impl Round<'_> {
    /// Fetches, merges and pushes until the remote has the board.
    async fn run(&mut self) -> Result<(), SyncError> {
        let Exchange { repository, local } = self.exchange;
        let Remote {
            name,
            reference,
            occasion,
        } = self.remote;
        let mut pushed: Option<(Option<Commit>, GitError)> = None;
        // Reading the readable files takes as long as asking a near remote.
        let store = self.store.clone();
        let mut caught_up =
            store.map(|store| tokio::task::spawn_blocking(move || catch_up(&store)));
        for _ in 0..ATTEMPTS {
            let found = repository.fetch_board(name, reference, *occasion).await;
            if let Some(caught_up) = caught_up.take()
                && let Err(error) = caught_up.await
            {
                tracing::warn!(%error, "edits of the readable files may not be part of the board yet");
            }
            let found = found?;
            if let Some((expected, error)) = pushed.take()
                && expected == found
                && !matches!(error, GitError::Locked { .. })
            {
                // No other clone was faster: it is refused for another reason.
                return Err(SyncError::of_push(error, reference));
            }
            let tip = repository.board(local).await?;
            let commit = match self.effect {
                Effect::Preview => return self.preview(found.as_ref(), tip.as_ref()).await,
                Effect::Apply => self.combine(found.as_ref(), tip).await?,
            };
            if found.as_ref() != Some(&commit) {
                let remote = (name.as_str(), reference);
                let push = repository.push_board(remote, &commit, found.as_ref(), *occasion);
                if let Pushed::Refused(error) = push.await? {
                    pushed = Some((found, error));
                    continue;
                }
            }
            self.outcome.commit = Some(commit);
            return Ok(());
        }
        Err(SyncError::Raced)
    }

    /// Merges what the board lacks, and commits what is new on it. Returns the commit of the board.
    async fn combine(
        &mut self,
        found: Option<&Commit>,
        mut tip: Option<Commit>,
    ) -> Result<Commit, SyncError> {
        let place = self.exchange.local.as_str().to_owned();
        let mut is_merged = false;
        // A board that was built from its readable files lacks what the local reference has.
        if let Some(head) = tip.clone()
            && !self.has(&head).await?
        {
            tip = Some(self.merge(&head, &place, tip.as_ref()).await?);
            is_merged = true;
        }
        if let Some(head) = found {
            if !self.has(head).await? {
                let place = self.remote.shown();
                let merged = match &tip {
                    Some(tip) => self.merge_changes(head, tip).await?,
                    None => None,
                };
                tip = match merged {
                    Some(commit) => Some(commit),
                    None => Some(self.merge(head, &place, tip.as_ref()).await?),
                };
                is_merged = true;
            } else if self.is_behind(tip.as_ref(), head).await? {
                // A commit on an earlier one would take the later ones from the remote.
                let Exchange { repository, local } = self.exchange;
                repository.move_board(local, head, tip.as_ref()).await?;
                tip = Some(head.clone());
            }
        }
        match tip {
            Some(tip) if is_merged => Ok(tip),
            tip => self.record(found, tip.as_ref()).await,
        }
    }

    /// Returns whether the local reference was deleted, or set back to an earlier commit than another one.
    async fn is_behind(&self, tip: Option<&Commit>, head: &Commit) -> Result<bool, SyncError> {
        let repository = &self.exchange.repository;
        Ok(match tip {
            Some(tip) if tip == head => false,
            Some(tip) => repository.is_ancestor(tip, head).await?,
            None => true,
        })
    }

    /// Computes the changes in both directions.
    async fn preview(
        &mut self,
        found: Option<&Commit>,
        tip: Option<&Commit>,
    ) -> Result<(), SyncError> {
        let place = self.remote.shown();
        let head = found.or(tip);
        let published = match head {
            Some(head) => self.exchange.files(head, &place).await?,
            None => BoardFiles::default(),
        };
        let mut after = self.files_of_board()?;
        if let Some(head) = head
            && !self.has(head).await?
        {
            let base = self.base(head).await?;
            let merged = match &self.store {
                Some(store) => {
                    let merged = self.apply(store, head, &place, &published, base.as_ref());
                    merged.await?.after.files
                }
                None => {
                    let checked = published.check();
                    checked.map_err(|error| unmerged(head, &place, error))?;
                    published.clone()
                }
            };
            self.receive(&after, &merged);
            after = merged;
        } else if self.store.is_none() {
            let checked = workspace::check_board(&self.config.workspace);
            checked.map_err(|error| match error {
                WorkspaceError::NoBoardInClone(path) => WorkspaceError::NoBoardAtRemote(path),
                error => error,
            })?;
        }
        let known = match found {
            Some(_) => published,
            None => BoardFiles::default(),
        };
        self.outcome.sent = changes_between(&known, &after);
        Ok(())
    }

    /// Commits what is new on the board, which has everything that the remote and the local reference have.
    async fn record(
        &mut self,
        found: Option<&Commit>,
        tip: Option<&Commit>,
    ) -> Result<Commit, SyncError> {
        let store = opened(self.store.as_ref(), self.config)?;
        let (commit, changes) = self.exchange.commit_board(store, tip).await?;
        self.outcome.sent = match found == tip {
            true => changes,
            false => self.exchange.changes(found, &commit).await?,
        };
        Ok(commit)
    }

    /// Merges a commit into the board where both have changed little since the commit that they come from, and commits
    /// the result. Only files that can have changed are read. Returns `None` where whole boards have to be merged.
    async fn merge_changes(
        &mut self,
        head: &Commit,
        tip: &Commit,
    ) -> Result<Option<Commit>, SyncError> {
        let Exchange { repository, local } = self.exchange;
        let store = opened(self.store.as_ref(), self.config)?;
        let last = store.last_exchange()?;
        let Some(last) = last.filter(|last| last.commit == tip.as_str()) else {
            return Ok(None);
        };
        let Some(base) = repository.base_of_boards(tip, head).await? else {
            return Ok(None);
        };
        // A tree that is not a board's is refused by the merge of whole boards.
        let (Ok(base_files), Ok(head_files)) =
            tokio::try_join!(repository.list_board(&base), repository.list_board(head))?
        else {
            return Ok(None);
        };
        let own_files = match base == *tip {
            true => None,
            false => Some(repository.list_board(tip).await?),
        };
        let (Ok(own_files), Some(own)) = (own_files.transpose(), store.board_changes(&last)?)
        else {
            return Ok(None);
        };
        let tip_files = own_files.as_ref().unwrap_or(&base_files);
        let published = base_files.differing(&head_files);
        let committed = base_files.differing(tip_files);
        let is_gone = published.iter().any(|path| !head_files.contains(path))
            || committed.iter().any(|path| !tip_files.contains(path));
        if is_gone || published.len().max(committed.len()) > FEW_FILES {
            return Ok(None);
        }
        let mut changed: Vec<String> = published.iter().chain(&committed).cloned().collect();
        changed.extend(own.files().files().keys().cloned());
        // Also the earlier files of moved issues.
        let earlier = tip_files.paths().filter(|path| own.concerns(path));
        changed.extend(earlier.cloned());
        let Some(wanted) = files_to_parse(&changed) else {
            return Ok(None);
        };
        let is_wanted = |path: &str| wanted.contains(path);
        let (Ok(before), Ok(published)) = tokio::try_join!(
            repository.read_board(&base_files, is_wanted),
            repository.read_board(&head_files, is_wanted)
        )?
        else {
            return Ok(None);
        };
        let (before, published) = (BoardFiles::new(before), BoardFiles::new(published));
        let origin = self.origin().await?;
        let merged = store.exchange_changes(&changed, (&published, &before), &last, &origin);
        if !merged.map_err(SyncError::Exchange)? {
            return Ok(None);
        }
        let Some(changes) = store.board_changes(&last)? else {
            return Ok(None);
        };
        // Files that this clone has committed, and that the merge has not changed.
        let is_committed = |path: &str| committed.contains(path) && !changes.concerns(path);
        let is_changed = |path: &str| committed.contains(path) || changes.concerns(path);
        let (after, files) = tokio::try_join!(
            repository.read_board(tip_files, is_committed),
            repository.read_board(&head_files, is_changed)
        )?;
        let mut after = after.map_err(|refusal| refused(tip, local.as_str(), &refusal))?;
        after.extend(changes.files().files().clone());
        let files = files.map_err(|refusal| refused(head, local.as_str(), &refusal))?;
        let (files, after) = (BoardFiles::new(files), BoardFiles::new(after));
        let changed = after.since(&files);
        let sent = changes_between(&files, &after);
        let commit = if changed.is_empty() && base == *tip {
            repository.move_board(local, head, Some(tip)).await?;
            head.clone()
        } else {
            let other = Some(tip).filter(|tip| **tip != base);
            let parents: Vec<&Commit> = std::iter::once(head).chain(other).collect();
            let message = message(&sent);
            let commit = repository.commit_board(local, &parents, &changed, &message);
            commit.await?
        };
        store.note_exchange(commit.as_str(), changes.version())?;
        self.receive(&before, &published);
        self.outcome.sent = sent;
        Ok(Some(commit))
    }

    /// Merges a commit into the board, and commits the result. Without a board, one is created.
    async fn merge(
        &mut self,
        head: &Commit,
        place: &str,
        tip: Option<&Commit>,
    ) -> Result<Commit, SyncError> {
        let Exchange { repository, local } = self.exchange;
        let published = self.exchange.files(head, place).await?;
        let base = self.base(head).await?;
        if self.store.is_none() {
            // A board is created only for files that can be merged.
            let checked = published.check();
            checked.map_err(|error| unmerged(head, place, error))?;
            workspace::check_narrow(&self.config.workspace)?;
            self.open_board()?;
            catch_up(opened(self.store.as_ref(), self.config)?);
        }
        let merged = self.apply(
            opened(self.store.as_ref(), self.config)?,
            head,
            place,
            &published,
            base.as_ref(),
        );
        let merged = merged.await?;
        let (before, merged) = (merged.before, merged.after);
        let after = merged.files;
        self.receive(&before, &after);
        self.outcome.sent = changes_between(&published, &after);
        // A tip that the head comes from is no second parent.
        let other = match tip {
            Some(tip) if !repository.is_ancestor(tip, head).await? => Some(tip),
            _ => None,
        };
        let changed = after.since(&published);
        let commit = if changed.is_empty() && other.is_none() {
            repository.move_board(local, head, tip).await?;
            head.clone()
        } else {
            let parents: Vec<&Commit> = std::iter::once(head).chain(other).collect();
            let message = message(&self.outcome.sent);
            let commit = repository.commit_board(local, &parents, &changed, &message);
            commit.await?
        };
        opened(self.store.as_ref(), self.config)?.note_exchange(commit.as_str(), merged.version)?;
        Ok(commit)
    }

    /// The commit that the board, or its original, was last exchanged as, where the repository still has it.
    async fn last(&self) -> Result<Option<Commit>, SyncError> {
        let Some(store) = &self.store else {
            return Ok(None);
        };
        match store.exchanged_ancestor()? {
            Some(commit) => Ok(self.exchange.repository.find(&commit).await?),
            None => Ok(None),
        }
    }

    /// Returns whether the board has everything of a commit.
    async fn has(&self, commit: &Commit) -> Result<bool, SyncError> {
        match self.last().await? {
            Some(last) => Ok(self.exchange.repository.is_ancestor(commit, &last).await?),
            None => Ok(false),
        }
    }

    /// Files that the board and a commit come from. Without any, nothing that one side lacks was deleted there.
    async fn base(&self, commit: &Commit) -> Result<Option<BoardFiles>, SyncError> {
        let Some(last) = self.last().await? else {
            return Ok(None);
        };
        let base = self
            .exchange
            .repository
            .base_of_boards(&last, commit)
            .await?;
        match base {
            Some(base) => {
                let place = self.exchange.local.as_str();
                Ok(Some(self.exchange.files(&base, place).await?))
            }
            None => Ok(None),
        }
    }

    fn files_of_board(&self) -> Result<BoardFiles, SyncError> {
        Ok(match &self.store {
            Some(store) => store.board_files()?.files,
            None => BoardFiles::default(),
        })
    }

    /// Merges the files of a commit into the board.
    async fn apply(
        &self,
        store: &Store,
        commit: &Commit,
        place: &str,
        files: &BoardFiles,
        base: Option<&BoardFiles>,
    ) -> Result<Exchanged, SyncError> {
        let origin = self.origin().await?;
        let exchanged = store.exchange(files, base, &origin, self.effect);
        exchanged.map_err(|error| unmerged(commit, place, error))
    }

    /// Description of this board for other clones.
    async fn origin(&self) -> Result<String, SyncError> {
        let author = self.exchange.repository.author().await?;
        Ok(format!("the board of {author}"))
    }

    fn receive(&mut self, before: &BoardFiles, after: &BoardFiles) {
        self.outcome.received.extend(changes_between(before, after));
    }

    /// Opens the board, or creates it.
    fn open_board(&mut self) -> Result<(), SyncError> {
        let open = || -> Result<Store, Failure> {
            let options = self.config.memory.apply(Options {
                watch: false,
                ..Options::default()
            });
            let options = board::options(self.config, options)?;
            let store = Store::open(&self.config.workspace, options)?;
            match store.read_only() {
                Some(fault) => Err(Failure::denied(fault.to_string())),
                None => Ok(store),
            }
        };
        self.store = Some(open().map_err(SyncError::Board)?);
        Ok(())
    }
}

/// Waits until edits of the readable files are part of the board.
fn catch_up(store: &Store) {
    if let Err(error) = store.settle(CATCHING_UP) {
        tracing::warn!(%error, "edits of the readable files may not be part of the board yet");
    }
}

/// The board that was opened for a workspace. Without one, the remote had none to create it from.
fn opened<'a>(store: Option<&'a Store>, config: &Config) -> Result<&'a Store, SyncError> {
    let missing = || WorkspaceError::NoBoardAtRemote(config.workspace.clone());
    Ok(store.ok_or_else(missing)?)
}
