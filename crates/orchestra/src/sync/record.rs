//! Commits of the board to the local reference, which reach no other clone by themselves.

use std::time::Duration;

use orchestra_plan::ids::Commit;
use orchestra_runner::git::TreeRefusal;
use orchestra_store::{BoardFiles, BoardVersion, Store, changes_between};

use super::{Attempt, Exchange, SyncError, Work, failure, refused};
use crate::{config::Config, exit::Failure};

/// Most characters of the subject of a commit.
const SUBJECT: usize = 72;
/// Most changes that the message of a commit lists.
const LISTED: usize = 500;

/// Result of a commit without an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitOutcome {
    /// The local reference has the board.
    Done,
    /// Another program has committed the board, or tried to, within the interval.
    NotDue,
    /// The local reference is gone, or names another commit than that of the last exchange. Only an exchange merges both.
    NeedsExchange,
}

impl Exchange {
    /// Commits changes of a board since its last commit, unless another program did so within the interval.
    ///
    /// # Errors
    /// When git or the store fails.
    pub(crate) async fn commit_changes(
        &self,
        config: &Config,
        store: &Store,
        interval: Duration,
    ) -> Result<CommitOutcome, Failure> {
        let _lock = self.repository.lock_board().await.map_err(failure)?;
        if !Attempt::last(config, Work::Commit)
            .pause(interval)
            .is_zero()
        {
            return Ok(CommitOutcome::NotDue);
        }
        let last = store.last_exchange().map_err(failure)?;
        let tip = self.repository.board(&self.local).await.map_err(failure)?;
        match (last, tip) {
            (Some(last), Some(tip)) if last.commit == tip.as_str() => {
                let commit = self.commit_board(store, Some(&tip)).await;
                commit.map(|_| CommitOutcome::Done).map_err(failure)
            }
            _ => Ok(CommitOutcome::NeedsExchange),
        }
    }

    /// Commits what a board has and `tip` does not, and records that the board has everything of the commit. Returns the
    /// changes as well. Where `tip` is the commit of the last exchange, only files that can have changed are read.
    pub(super) async fn commit_board(
        &self,
        store: &Store,
        tip: Option<&Commit>,
    ) -> Result<(Commit, Vec<String>), SyncError> {
        if let (Some(tip), Some(last)) = (tip, store.last_exchange()?)
            && last.commit == tip.as_str()
        {
            if last.is_current {
                return Ok((tip.clone(), Vec::new()));
            }
            if let Some(changes) = store.board_changes(&last)? {
                let is_wanted = |path: &str| changes.concerns(path);
                let files = self.repository.files_of_board(tip, is_wanted).await?;
                let files = files.map_err(|refusal| refused(tip, self.local.as_str(), &refusal))?;
                let (before, after) = (BoardFiles::new(files), changes.files());
                return self
                    .commit(store, Some(tip), (&before, after), changes.version())
                    .await;
            }
        }
        let board = store.board_files()?;
        let before = match tip {
            Some(tip) => self.files(tip, self.local.as_str()).await?,
            None => BoardFiles::default(),
        };
        self.commit(store, tip, (&before, &board.files), board.version)
            .await
    }

    /// Commits the files that differ, if there are any, and records the exchange.
    async fn commit(
        &self,
        store: &Store,
        tip: Option<&Commit>,
        (before, after): (&BoardFiles, &BoardFiles),
        version: BoardVersion,
    ) -> Result<(Commit, Vec<String>), SyncError> {
        let changed = after.since(before);
        let changes = changes_between(before, after);
        let commit = match tip {
            Some(tip) if changed.is_empty() => tip.clone(),
            tip => {
                let message = message(&changes);
                let parents: Vec<&Commit> = tip.into_iter().collect();
                let commit =
                    self.repository
                        .commit_board(&self.local, &parents, &changed, &message);
                commit.await?
            }
        };
        store.note_exchange(commit.as_str(), version)?;
        Ok((commit, changes))
    }

    /// Describes the changes from one commit of the board to another; without the first, all of the board is new.
    pub(super) async fn changes(
        &self,
        from: Option<&Commit>,
        to: &Commit,
    ) -> Result<Vec<String>, SyncError> {
        let place = self.local.as_str();
        let (before, after) = match from {
            Some(from) if from == to => return Ok(Vec::new()),
            Some(from) => {
                let read = |refusal: TreeRefusal| refused(to, place, &refusal);
                let repository = &self.repository;
                let old = repository.list_board(from).await?.map_err(read)?;
                let new = repository.list_board(to).await?.map_err(read)?;
                let differing = old.differing(&new);
                let differs = |path: &str| differing.contains(path);
                let before = repository.read_board(&old, differs).await?.map_err(read)?;
                let after = repository.read_board(&new, differs).await?.map_err(read)?;
                (BoardFiles::new(before), BoardFiles::new(after))
            }
            None => (BoardFiles::default(), self.files(to, place).await?),
        };
        Ok(changes_between(&before, &after))
    }
}

/// Message of a commit with these changes.
pub(super) fn message(changes: &[String]) -> String {
    let Some(first) = changes.first() else {
        return "Update the board\n".to_owned();
    };
    let more = match changes.len() {
        1 => String::new(),
        all => format!(" and {} more", all - 1),
    };
    let room = SUBJECT.saturating_sub(more.chars().count());
    let subject = match first.chars().count() <= room {
        true => first.clone(),
        false => {
            let short: String = first.chars().take(room.saturating_sub(1)).collect();
            format!("{}…", short.trim_end())
        }
    };
    let mut text = format!("{subject}{more}\n");
    if changes.len() > 1 || subject != *first {
        text.push('\n');
        for change in changes.iter().take(LISTED) {
            text.push_str(change);
            text.push('\n');
        }
        if changes.len() > LISTED {
            text.push_str(&format!("and {} more\n", changes.len() - LISTED));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn subject_names_the_first_change_and_the_body_all() {
        let one = ["P-3 in-progress → ready-for-testing".to_owned()];
        assert_eq!(message(&one), "P-3 in-progress → ready-for-testing\n");
        let two = ["P-3 created: A".to_owned(), "P-4 created: B".to_owned()];
        assert_eq!(
            message(&two),
            "P-3 created: A and 1 more\n\nP-3 created: A\nP-4 created: B\n"
        );
        let long = [format!("P-3 created: {}", "x".repeat(200))];
        let text = message(&long);
        assert_eq!(
            text.lines().next().map(|line| line.chars().count()),
            Some(72)
        );
        assert!(text.contains(&long[0]), "{text}");
    }
}
