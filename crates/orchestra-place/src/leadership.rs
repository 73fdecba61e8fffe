//! Leader election: of the processes that use a directory one leads, and the others follow it.
//!
//! The leader holds the lock of a file for as long as it leads; the system releases the lock of a process that ends,
//! however it ends. Meanwhile the leader publishes an endpoint file, by which its followers reach it. An endpoint file
//! whose lock is free is stale: a leader that was killed left it.
//!
//! The content of the files is up to the users of this module, and so is the reaction to a lost leadership.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use orchestra_fs::{Access, Directory, Error, Lock, Result, is_locked};
use serde::{Serialize, de::DeserializeOwned};

/// Maximum size of a file of an election, in bytes. Most have a few hundred.
const MAX_BYTES: u64 = 1024 * 1024;

/// Maximum time for which looks at the lock delay a candidate. Each look holds the lock for a moment.
const LOOKS: Duration = Duration::from_secs(2);

/// Interval of the attempts of a candidate meanwhile.
const PAUSE: Duration = Duration::from_millis(1);

/// Names of the files of an election in its directory.
#[derive(Debug, Clone, Copy)]
pub struct Election {
    lock: &'static str,
    endpoint: Option<&'static str>,
}

/// Leader of an election, as other processes see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader<T> {
    /// No process leads.
    None,
    /// A process leads, and has published no endpoint.
    Silent,
    /// A process leads, and has published this endpoint.
    Published(T),
}

impl Election {
    /// An election whose leader publishes an endpoint.
    #[must_use]
    pub const fn new(lock: &'static str, endpoint: &'static str) -> Self {
        Self {
            lock,
            endpoint: Some(endpoint),
        }
    }

    /// An election whose leader publishes nothing.
    #[must_use]
    pub const fn without_endpoint(lock: &'static str) -> Self {
        Self {
            lock,
            endpoint: None,
        }
    }

    /// Makes this process the leader; `None` while another process leads. Removes a stale endpoint file.
    ///
    /// # Errors
    /// When the lock file is a symbolic link or not a regular file, or a file cannot be locked or removed.
    pub fn lead(self, directory: &Directory) -> Result<Option<Leadership>> {
        let path = directory.path().join(self.lock);
        let start = Instant::now();
        let lock = loop {
            match Lock::attempt(&path)? {
                Some(lock) => break lock,
                None if is_locked(&path)? || start.elapsed() >= LOOKS => return Ok(None),
                None => thread::sleep(PAUSE),
            }
        };
        if let Some(endpoint) = self.endpoint {
            directory.remove(endpoint)?;
        }
        let endpoint = self.endpoint.map(|name| directory.path().join(name));
        Ok(Some(Leadership { lock, endpoint }))
    }

    /// Returns whether a process leads. Creates and changes nothing.
    ///
    /// # Errors
    /// When the lock file is a symbolic link or not a regular file, or cannot be opened.
    pub fn is_led(self, directory: &Directory) -> Result<bool> {
        is_locked(&directory.path().join(self.lock))
    }

    /// Returns the leader. An endpoint that cannot be parsed is not published.
    ///
    /// # Errors
    /// Those of [`Election::is_led`], and when the endpoint file is a symbolic link, or another user could have
    /// written it.
    pub fn leader<T: DeserializeOwned>(self, directory: &Directory) -> Result<Leader<T>> {
        if !self.is_led(directory)? {
            return Ok(Leader::None);
        }
        let endpoint = self.endpoint.map(|name| parse(directory, name));
        let endpoint = endpoint.transpose()?.flatten();
        Ok(endpoint.map_or(Leader::Silent, Leader::Published))
    }

    /// Returns what the last leader wrote about itself into the lock file, by its own account.
    ///
    /// # Errors
    /// When the lock file is a symbolic link, or another user could have written it.
    pub fn identity<T: DeserializeOwned>(self, directory: &Directory) -> Result<Option<T>> {
        parse(directory, self.lock)
    }
}

fn parse<T: DeserializeOwned>(directory: &Directory, name: &str) -> Result<Option<T>> {
    let text = directory.read_own(name, MAX_BYTES)?;
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
}

/// Leadership of this process, which ends when it is dropped or the process ends.
#[derive(Debug)]
pub struct Leadership {
    lock: Lock,
    endpoint: Option<PathBuf>,
}

impl Leadership {
    /// Writes into the lock file which process leads.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn identify(&mut self, process: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec(process);
        let text = text.map_err(|error| Error::system("write", self.lock.path(), error))?;
        self.lock.write(&text)
    }

    /// Publishes the endpoint for programs of this user alone: replaces the endpoint file, or creates it, in one step and
    /// durably. Does nothing in an election without an endpoint, and after a loss: the file then belongs to another leader.
    ///
    /// # Errors
    /// When the endpoint file is a symbolic link or not a regular file, or cannot be written. Programs then see the
    /// endpoint that was published before. Only when its directory cannot be synced may they see the new one.
    pub fn publish(&self, endpoint: &impl Serialize) -> Result<()> {
        let Some(path) = self.endpoint.as_ref().filter(|_| self.is_current()) else {
            return Ok(());
        };
        let text = serde_json::to_vec(endpoint);
        let text = text.map_err(|error| Error::system("write", path, error))?;
        orchestra_fs::write(path, &text, Access::Private)
    }

    /// Returns whether other processes see this leadership. They do not after the lock file was removed or replaced.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.lock.is_current()
    }

    /// Removes the endpoint file. After a loss it belongs to another leader, and stays. The lock stays held.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn withdraw(&self) -> Result<()> {
        match &self.endpoint {
            Some(path) if self.is_current() => orchestra_fs::remove(path).map(drop),
            _ => Ok(()),
        }
    }
}
