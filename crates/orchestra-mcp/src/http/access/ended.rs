//! Logins of browsers that were ended before their time.

use std::{
    collections::HashSet,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use orchestra_fs::Access;
use tokio::sync::{Notify, futures::Notified};

/// Largest file that is read, and the size from which lines of the past are removed.
const MOST_BYTES: u64 = 1024 * 1024;
const LONG_BYTES: u64 = 64 * 1024;

/// How often streams look for logins that other programs have ended.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// Ids of logins that were ended. With a file they stay ended when the program is started again, and
/// logins that other programs end are known as well.
#[derive(Debug)]
pub(super) struct EndedLogins {
    file: Option<PathBuf>,
    known: Mutex<Known>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Known {
    ids: HashSet<String>,
    /// Length of the file when it was read.
    length: u64,
}

impl EndedLogins {
    /// The logins in `file`, one a line: the id, a blank, and the second of the Unix epoch in which the
    /// login would end by itself.
    pub(super) fn new(file: Option<PathBuf>, now: u64) -> Self {
        if let Some(file) = &file
            && let Err(error) = remove_past(file, now)
        {
            tracing::warn!(%error, "cannot remove expired sign-outs from `{}`", file.display());
        }
        Self {
            file,
            known: Mutex::default(),
            added: Notify::new(),
        }
    }

    /// Returns whether a login was ended. Where that cannot be read, every login is.
    pub(super) fn has(&self, id: &str) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &self.file
            && let Err(error) = known.catch_up(file)
        {
            tracing::warn!(%error, "cannot read `{}`; all logins are refused", file.display());
            return true;
        }
        known.ids.contains(id)
    }

    /// Completes when this program ends a login.
    pub(super) fn added(&self) -> Notified<'_> {
        self.added.notified()
    }

    /// Ends a login that would end by itself at `ends`.
    pub(super) fn add(&self, id: &str, ends: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.ids.insert(id.to_owned());
        drop(known);
        self.added.notify_waiters();
        if let Some(file) = &self.file
            && let Err(error) = append(file, &format!("{id} {ends}\n"))
        {
            tracing::warn!(%error, "cannot store a sign-out: the login is valid again after a restart");
        }
    }
}

impl Known {
    /// Reads the file if it has changed.
    fn catch_up(&mut self, file: &Path) -> io::Result<()> {
        let length = match fs::metadata(file) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        if length == self.length {
            return Ok(());
        }
        let text = read(file)?;
        self.ids.extend(lines(&text).map(|(id, _)| id.to_owned()));
        self.length = length;
        Ok(())
    }
}

fn read(file: &Path) -> io::Result<String> {
    let content = orchestra_fs::read(file, MOST_BYTES)?.unwrap_or_default();
    String::from_utf8(content).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(' '))
}

fn append(file: &Path, line: &str) -> io::Result<()> {
    // One write: lines of several programs do not mix.
    orchestra_fs::append(file, Access::Private)?.write_all(line.as_bytes())
}

/// Removes the lines of logins that have ended by themselves from a file that is long.
fn remove_past(file: &Path, now: u64) -> io::Result<()> {
    let length = match fs::metadata(file) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if length < LONG_BYTES {
        return Ok(());
    }
    let text = read(file)?;
    let is_ahead = |ends: &str| ends.parse::<u64>().is_ok_and(|ends| ends > now);
    let ahead = lines(&text).filter(|(_, ends)| is_ahead(ends));
    let ahead: String = ahead.map(|(id, ends)| format!("{id} {ends}\n")).collect();
    Ok(orchestra_fs::write(
        file,
        ahead.as_bytes(),
        Access::Private,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_login_stays_ended_for_every_program() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ended");
        let (first, second) = (
            EndedLogins::new(Some(file.clone()), 0),
            EndedLogins::new(Some(file.clone()), 0),
        );
        assert!(!first.has("a") && !second.has("a"));
        first.add("a", 9);
        assert!(first.has("a") && second.has("a") && !second.has("b"));
        assert!(EndedLogins::new(Some(file.clone()), 0).has("a"));
        fs::write(&file, [0xff]).unwrap();
        assert!(second.has("b"), "what cannot be read admits none");
        let alone = EndedLogins::new(None, 0);
        alone.add("a", 9);
        assert!(alone.has("a") && !alone.has("b"));
    }

    #[test]
    fn past_logins_are_removed_from_a_long_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ended");
        let past: String = (0..20_000).map(|id| format!("{id} 5\n")).collect();
        fs::write(&file, format!("{past}ahead 7\n")).unwrap();
        let ended = EndedLogins::new(Some(file.clone()), 6);
        assert!(ended.has("ahead") && !ended.has("1"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "ahead 7\n");
    }
}
