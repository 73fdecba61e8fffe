//! Where tokens are kept: one file for each server, which nobody else can read.
//!
//! A keyring of the system would need its daemon and a session bus, which servers, containers and
//! editors over SSH do not have; the file is the same everywhere.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use orchestra_fs::{Access, Directory, Lock};
use sha2::{Digest as _, Sha256};

use crate::hex::hex;

/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Keeps what is secret, under the names of servers. Called off the runtime's threads: it may
/// block.
pub trait TokenStore: Send + Sync + 'static {
    /// What is kept for a server.
    ///
    /// # Errors
    /// When it cannot be read.
    fn load(&self, server: &str) -> io::Result<Option<String>>;

    /// Keeps it, in place of what was.
    ///
    /// # Errors
    /// When it cannot be written.
    fn save(&self, server: &str, record: &str) -> io::Result<()>;

    /// Forgets it; also when there is nothing.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn forget(&self, server: &str) -> io::Result<()>;

    /// Waits until nobody else changes what is kept for a server; dropping the answer lets others
    /// go on.
    ///
    /// # Errors
    /// When it cannot be had.
    fn lock(&self, server: &str) -> io::Result<Box<dyn Send>>;
}

/// Files in a directory of the user, mode 0600.
#[derive(Debug, Clone)]
pub struct FileStore {
    directory: PathBuf,
}

impl FileStore {
    /// Keeps its files in a directory, which is made when it is first needed.
    #[must_use]
    pub const fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// A name that no server's name leads out of the directory by.
    fn path(&self, server: &str, ending: &str) -> PathBuf {
        let name = hex(&Sha256::digest(server.as_bytes())[..16]);
        self.directory.join(format!("{name}.{ending}"))
    }
}

impl TokenStore for FileStore {
    fn load(&self, server: &str) -> io::Result<Option<String>> {
        let text = orchestra_fs::read(&self.path(server, "json"), MAX_FILE_BYTES)?;
        let text = text.map(String::from_utf8).transpose();
        text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn save(&self, server: &str, record: &str) -> io::Result<()> {
        Directory::private(&self.directory)?;
        let path = self.path(server, "json");
        Ok(orchestra_fs::write(
            &path,
            record.as_bytes(),
            Access::Private,
        )?)
    }

    fn forget(&self, server: &str) -> io::Result<()> {
        orchestra_fs::remove(&self.path(server, "json"))?;
        Ok(())
    }

    fn lock(&self, server: &str) -> io::Result<Box<dyn Send>> {
        Directory::private(&self.directory)?;
        Ok(Box::new(Lock::wait(&self.path(server, "lock"))?))
    }
}

/// Keeps it for as long as the program runs.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<HashMap<String, String>>);

impl MemoryStore {
    fn records(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenStore for MemoryStore {
    fn load(&self, server: &str) -> io::Result<Option<String>> {
        Ok(self.records().get(server).cloned())
    }

    fn save(&self, server: &str, record: &str) -> io::Result<()> {
        self.records().insert(server.to_owned(), record.to_owned());
        Ok(())
    }

    fn forget(&self, server: &str) -> io::Result<()> {
        self.records().remove(server);
        Ok(())
    }

    fn lock(&self, _server: &str) -> io::Result<Box<dyn Send>> {
        Ok(Box::new(()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_nobodys_but_their_owners() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let store = FileStore::new(directory.path().join("deep/tokens"));
        let server = "../../evil https://x";
        assert_eq!(store.load(server).unwrap(), None);
        store.save(server, "one").unwrap();
        store.save(server, "two").unwrap();
        drop(store.lock(server).unwrap());
        assert_eq!(store.load(server).unwrap().as_deref(), Some("two"));
        let kept = directory.path().join("deep/tokens");
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&kept), 0o700);
        let files: Vec<_> = fs::read_dir(&kept)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(files.len(), 2, "{files:?}");
        assert!(files.iter().all(|path| mode(path) == 0o600));
        store.forget(server).unwrap();
        store.forget(server).unwrap();
        assert_eq!(store.load(server).unwrap(), None);
    }
}
