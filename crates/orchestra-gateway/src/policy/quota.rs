//! So many calls a day, counted over restarts and over all programs of the user.
//!
//! The count is in a file that they share. A program takes calls from it a few at a time, under its
//! lock, and gives back what it has not made when it is quiet or ends: together they never make more.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::{config::ServerConfig, files, pins::identity};

const DAY: u64 = 24 * 60 * 60;

/// At most this part of a day's calls is taken at once.
const PART: u64 = 10;

/// Calls that are left are given back when none was made for so long.
const QUIET: Duration = Duration::from_secs(5);

/// When nothing was left, others may have given some back after this.
const REST: Duration = Duration::from_secs(1);

/// Calls of a day (UTC).
#[derive(Debug)]
pub(crate) struct Quota {
    most: u64,
    path: PathBuf,
    state: Mutex<State>,
    /// Held while the file is asked, so that one asks for all.
    asking: tokio::sync::Mutex<()>,
}

/// Why a call cannot be made today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spent {
    /// What is used up.
    pub(crate) what: String,
    /// When to try again.
    pub(crate) again: Duration,
}

#[derive(Debug, Default)]
struct State {
    day: u64,
    /// Calls that were taken from the file and not made.
    left: u64,
    /// When the last one was made.
    used: Option<Instant>,
    /// When the file had none, and what is said of it.
    spent: Option<(Instant, Spent)>,
}

#[derive(Serialize, Deserialize, Default)]
struct OnDisk {
    day: u64,
    used: u64,
    /// The count of this day is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
}

impl files::Kept for OnDisk {
    /// Nobody knows how many calls were made: no more of them today.
    fn lost() -> Self {
        Self {
            day: now() / DAY,
            used: u64::MAX,
            lost: true,
        }
    }
}

impl Quota {
    /// The calls of a day of a server, counted below the user's state directory; `None` where it has
    /// no such bound.
    pub(crate) fn of(config: &ServerConfig, state: &Path) -> Option<Arc<Self>> {
        let most = config.limits.budget.daily_quota?;
        let file = format!("{}-{}.json", config.name, identity(config));
        Some(Self::new(most, state.join("mcp").join("quota").join(file)))
    }

    /// Counts in the file at `path`.
    pub(crate) fn new(most: u64, path: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            most,
            path,
            state: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    /// Takes one, or says when there are some again.
    pub(crate) async fn take(self: &Arc<Self>) -> Result<(), Spent> {
        loop {
            if let Some(answer) = self.take_left(now()) {
                return answer;
            }
            // single-flight: one asks the file, and the others take of what it got.
            let _alone = self.asking.lock().await;
            if let Some(answer) = self.take_left(now()) {
                return answer;
            }
            let quota = Arc::clone(self);
            // What is taken for a caller who is gone is there for the next.
            let asked = spawn_blocking(move || quota.ask(now())).await;
            if let Err(error) = asked {
                return Err(self.unreadable(&error.into()));
            }
        }
    }

    /// Takes one of those that are left. `None` when the file is to be asked.
    fn take_left(&self, seconds: u64) -> Option<Result<(), Spent>> {
        let mut state = self.state();
        state.turn(seconds / DAY);
        if state.left > 0 {
            state.left -= 1;
            state.used = Some(Instant::now());
            return Some(Ok(()));
        }
        let (at, spent) = state.spent.as_ref()?;
        (at.elapsed() < REST).then(|| Err(spent.clone()))
    }

    /// Takes some from the file. Blocks.
    fn ask(&self, seconds: u64) {
        let day = seconds / DAY;
        let asked = files::change(&self.path, |kept: &mut OnDisk| {
            // A clock that was set back does not give a day twice.
            if kept.day < day {
                *kept = OnDisk {
                    day,
                    ..OnDisk::default()
                };
            }
            let most = (self.most / PART).max(1);
            let taken = self.most.saturating_sub(kept.used).min(most);
            kept.used = kept.used.saturating_add(taken);
            Ok((kept.day, taken, kept.lost))
        });
        let mut state = self.state();
        match asked {
            Ok((kept_day, taken, _)) if taken > 0 => {
                if state.day != kept_day {
                    *state = State::default();
                }
                state.day = kept_day;
                state.left += taken;
                state.spent = None;
            }
            Ok((_, _, is_lost)) => {
                let what = match is_lost {
                    true => format!(
                        "the number of today's calls is not known, because {} was damaged; the daily limit counts as reached until 00:00 UTC",
                        self.path.display()
                    ),
                    false => format!(
                        "the server's daily limit of {} calls, over all programs of the user, is reached; the next day starts at 00:00 UTC",
                        self.most
                    ),
                };
                let again = Duration::from_secs(DAY - seconds % DAY);
                state.spent = Some((Instant::now(), Spent { what, again }));
            }
            Err(error) => {
                let spent = self.unreadable(&error);
                state.spent = Some((Instant::now(), spent));
            }
        }
    }

    fn unreadable(&self, error: &io::Error) -> Spent {
        let path = self.path.display();
        tracing::warn!(%path, %error, "cannot count the calls of today");
        Spent {
            what: format!("cannot count today's calls of the server in {path}: {error}"),
            again: REST,
        }
    }

    /// Whether calls are left that nobody has made for a while.
    pub(crate) fn is_quiet(&self) -> bool {
        let state = self.state();
        state.left > 0 && state.used.is_none_or(|used| used.elapsed() >= QUIET)
    }

    /// Gives back what is left. Blocks.
    ///
    /// # Errors
    /// When the file cannot be written; it is tried again then.
    pub(crate) fn give_back(&self) -> io::Result<()> {
        let (day, left) = {
            let mut state = self.state();
            (state.day, std::mem::take(&mut state.left))
        };
        if left == 0 {
            return Ok(());
        }
        let given = files::change(&self.path, |kept: &mut OnDisk| {
            if kept.day == day && !kept.lost {
                kept.used = kept.used.saturating_sub(left);
            }
            Ok(())
        });
        if given.is_err() {
            let mut state = self.state();
            if state.day == day {
                state.left += left;
            }
        }
        given
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What was taken for another day is none for this one.
    fn turn(&mut self, day: u64) {
        if day > self.day {
            *self = Self {
                day,
                ..Self::default()
            };
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 100 * DAY + DAY / 2;

    fn take(quota: &Quota, seconds: u64) -> Result<(), Spent> {
        quota.take_left(seconds).unwrap_or_else(|| {
            quota.ask(seconds);
            quota.take_left(seconds).unwrap()
        })
    }

    /// Takes all that there are; how many.
    fn drain(quota: &Quota, seconds: u64) -> usize {
        (0..).take_while(|_| take(quota, seconds).is_ok()).count()
    }

    #[test]
    fn a_day_has_so_many_calls_over_all_programs_and_restarts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quota/s.json");
        let programs: Vec<_> = (0..4).map(|_| Quota::new(10, path.clone())).collect();
        let mut calls = 0;
        for round in 0..40 {
            calls += usize::from(take(&programs[round % 4], NOON).is_ok());
        }
        assert_eq!(calls, 10, "however they take turns");
        let spent = take(&programs[0], NOON).unwrap_err();
        assert_eq!(spent.again, Duration::from_secs(DAY / 2));
        let again = Quota::new(10, path);
        assert!(take(&again, NOON).is_err());
        assert_eq!(drain(&again, NOON + DAY), 10);
    }

    #[test]
    fn what_was_not_called_is_given_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.json");
        let (one, two) = (Quota::new(100, path.clone()), Quota::new(100, path.clone()));
        take(&one, NOON).unwrap();
        assert!(!one.is_quiet(), "it may call again");
        assert_eq!(drain(&two, NOON), 90, "one has ten of them");
        one.give_back().unwrap();
        let three = Quota::new(100, path.clone());
        assert_eq!(drain(&three, NOON), 9);
        // What was taken before midnight is no call of the next day, and is not given back to it.
        let four = Quota::new(100, path);
        take(&four, NOON + DAY).unwrap();
        four.give_back().unwrap();
        three.give_back().unwrap();
        assert_eq!(drain(&four, NOON + DAY), 99);
    }

    #[test]
    fn a_count_that_is_damaged_is_used_up_for_the_day() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.json");
        let (quota, seconds) = (Quota::new(10, path.clone()), now());
        take(&quota, seconds).unwrap();
        std::fs::write(&path, "{\"day\":").unwrap();
        let spent = take(&quota, seconds).unwrap_err();
        assert!(spent.what.contains("was damaged"), "{spent:?}");
        let aside = std::fs::read_to_string(path.with_extension("damaged")).unwrap();
        assert_eq!(aside, "{\"day\":");
        assert!(take(&Quota::new(10, path.clone()), seconds).is_err());
        assert_eq!(drain(&Quota::new(10, path), seconds + DAY), 10);
    }
}
