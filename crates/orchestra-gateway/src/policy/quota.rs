//! So many calls a day, counted over restarts and over all programs of the user.

use std::{
    io,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::files;

const DAY: u64 = 24 * 60 * 60;

/// Calls of a day (UTC).
#[derive(Debug)]
pub(crate) struct Quota {
    most: u64,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    day: u64,
    /// Of all programs, as far as is known.
    used: u64,
    /// Of ours, which the others do not know of.
    unsaved: u64,
}

#[derive(Serialize, Deserialize, Default)]
struct OnDisk {
    day: u64,
    used: u64,
}

impl Quota {
    /// Counts in the file at `path`, which is read.
    pub(crate) fn open(most: u64, path: PathBuf) -> Self {
        let kept: OnDisk = files::read(&path).unwrap_or_default();
        let state = Mutex::new(State {
            day: kept.day,
            used: kept.used,
            unsaved: 0,
        });
        Self { most, path, state }
    }

    pub(crate) const fn most(&self) -> u64 {
        self.most
    }

    /// Takes one, or says when there are some again.
    pub(crate) fn take(&self) -> Result<(), Duration> {
        self.take_at(now())
    }

    fn take_at(&self, seconds: u64) -> Result<(), Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.turn(seconds / DAY);
        if state.used >= self.most {
            return Err(Duration::from_secs(DAY - seconds % DAY));
        }
        state.used += 1;
        state.unsaved += 1;
        Ok(())
    }

    /// Whether [`save`](Self::save) has something to do.
    pub(crate) fn is_unsaved(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.unsaved > 0
    }

    /// Adds what was used to what others have used. Blocks.
    ///
    /// # Errors
    /// When the file cannot be written; it is tried again then.
    pub(crate) fn save(&self) -> io::Result<()> {
        let (day, unsaved) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.day, std::mem::take(&mut state.unsaved))
        };
        let saved = files::change(&self.path, |kept: &mut OnDisk| {
            if kept.day < day {
                *kept = OnDisk { day, used: 0 };
            }
            if kept.day == day {
                kept.used += unsaved;
            }
            (kept.day, kept.used)
        });
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match saved {
            Ok((kept_day, used)) if kept_day == state.day => state.used = used + state.unsaved,
            Ok(_) => {}
            Err(error) => {
                if state.day == day {
                    state.unsaved += unsaved;
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

impl State {
    fn turn(&mut self, day: u64) {
        // A clock that was set back does not give a day twice.
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

    #[test]
    fn a_day_has_so_many_calls_over_all_programs_and_restarts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quota/s.json");
        let noon = 100 * DAY + DAY / 2;
        let (one, two) = (Quota::open(3, path.clone()), Quota::open(3, path.clone()));
        one.take_at(noon).unwrap();
        one.save().unwrap();
        two.take_at(noon).unwrap();
        assert!(two.is_unsaved());
        two.save().unwrap();
        assert!(!two.is_unsaved());
        two.take_at(noon).unwrap();
        assert_eq!(two.take_at(noon), Err(Duration::from_secs(DAY / 2)));
        two.save().unwrap();
        let again = Quota::open(3, path);
        assert!(again.take_at(noon).is_err());
        again.take_at(noon + DAY).unwrap();
    }
}
