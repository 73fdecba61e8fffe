//! Old logs go: by age and by the room that all of them take.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::write::LINES;

/// How long logs are kept and how much room they may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Bytes of all logs together.
    pub most_bytes: u64,
    /// How long those of older attempts that went well are kept.
    pub age: Duration,
    /// How long those of failures and of each job's newest attempt are kept.
    pub age_of_kept: Duration,
}

impl Default for Policy {
    /// 2 GiB, a month, half a year.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            most_bytes: 2 * 1024 * 1024 * 1024,
            age: DAY * 30,
            age_of_kept: DAY * 180,
        }
    }
}

/// An attempt whose logs are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its directory.
    pub directory: PathBuf,
    /// When it ended, in milliseconds since 1970; one that runs is never touched.
    pub ended: Option<u64>,
    /// Whether it failed.
    pub failed: bool,
    /// Whether it is the newest of its job.
    pub newest: bool,
    /// What its logs take.
    pub bytes: u64,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Attempts that have no logs any more.
    pub attempts: usize,
    /// Bytes of them.
    pub bytes: u64,
}

impl Kept {
    /// An attempt with what its logs take now.
    ///
    /// # Errors
    /// When its directory cannot be read.
    pub fn of(
        directory: PathBuf,
        ended: Option<u64>,
        failed: bool,
        newest: bool,
    ) -> io::Result<Self> {
        let mut bytes = 0;
        for (_, length) in logs(&directory)? {
            bytes += length;
        }
        Ok(Self {
            directory,
            ended,
            failed,
            newest,
            bytes,
        })
    }

    /// What goes last is the greatest.
    const fn worth(&self) -> (bool, bool, Option<u64>) {
        (self.newest, self.failed, self.ended)
    }
}

/// Which of these attempts lose their logs, by their places: those that are too old, then, until the
/// rest has room, those that are worth least. Older attempts that went well go first, then older
/// failures, then newest ones that went well, newest failures last; of each kind the oldest first.
#[must_use]
pub fn to_remove(all: &[Kept], policy: Policy, now: u64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..all.len())
        .filter(|place| all[*place].ended.is_some() && all[*place].bytes > 0)
        .collect();
    orchestra_sort::sort_by_key(&mut places, |place| all[*place].worth());
    let mut bytes: u64 = all.iter().map(|kept| kept.bytes).sum();
    let is_old = |kept: &Kept| {
        let most = match kept.newest || kept.failed {
            true => policy.age_of_kept,
            false => policy.age,
        };
        let age = kept.ended.map_or(0, |ended| now.saturating_sub(ended));
        u128::from(age) > most.as_millis()
    };
    let (mut gone, rest): (Vec<usize>, Vec<usize>) =
        places.into_iter().partition(|place| is_old(&all[*place]));
    bytes -= gone.iter().map(|place| all[*place].bytes).sum::<u64>();
    for place in rest {
        if bytes <= policy.most_bytes {
            break;
        }
        bytes -= all[place].bytes;
        gone.push(place);
    }
    gone
}

/// Removes the logs of those attempts that are to go. Records of how runs ended stay.
///
/// # Errors
/// When a file is there and cannot be removed; those before it are.
pub fn collect(all: &[Kept], policy: Policy, now: u64) -> io::Result<Collected> {
    let mut collected = Collected::default();
    for place in to_remove(all, policy, now) {
        remove(&all[place].directory)?;
        collected.attempts += 1;
        collected.bytes += all[place].bytes;
    }
    Ok(collected)
}

/// Removes the logs of one attempt.
///
/// # Errors
/// When a file is there and cannot be removed.
pub fn remove(directory: &Path) -> io::Result<()> {
    for (path, _) in logs(directory)? {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The files of the logs of an attempt, with their lengths.
fn logs(directory: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut logs = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let stem = name.trim_end_matches(|char: char| char.is_ascii_digit());
        let stem = stem.strip_suffix('.').unwrap_or(&name);
        if stem == LINES || stem.ends_with(".raw") {
            let length = entry.metadata().map_or(0, |found| found.len());
            logs.push((entry.path(), length));
        }
    }
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(ended: u64, failed: bool, newest: bool) -> Kept {
        Kept {
            directory: PathBuf::new(),
            ended: Some(ended),
            failed,
            newest,
            bytes: 10,
        }
    }

    #[test]
    fn the_newest_and_failures_are_kept_longest() {
        let mut all = vec![
            kept(4, true, true),
            kept(1, false, true),
            kept(2, true, false),
            kept(3, false, false),
            kept(2, false, false),
        ];
        all.push(Kept {
            ended: None,
            ..kept(0, false, false)
        });
        let policy = |most_bytes| Policy {
            most_bytes,
            age: Duration::from_millis(100),
            age_of_kept: Duration::from_millis(200),
        };
        assert_eq!(to_remove(&all, policy(60), 10), [0_usize; 0]);
        assert_eq!(to_remove(&all, policy(40), 10), [4, 3]);
        assert_eq!(to_remove(&all, policy(0), 10), [4, 3, 2, 1, 0]);
        // By age alone.
        assert_eq!(to_remove(&all, policy(60), 103), [4]);
        assert_eq!(to_remove(&all, policy(60), 202), [4, 3, 1]);
    }
}
