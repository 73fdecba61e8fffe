//! What children say on standard error, kept in files that are bounded.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use orchestra_fs::{Access, Directory};
use tokio::task::spawn_blocking;

/// How long a file may get; the one before it is kept as well.
const FILE_BYTES: u64 = 512 * 1024;

/// A file that is appended to.
pub(super) struct LogFile {
    path: PathBuf,
    open: Option<(fs::File, u64)>,
}

impl LogFile {
    /// Opens nothing yet.
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// Appends to the file. `None`, and a word in the log, when that cannot be done: what a server
    /// says is not worth its end.
    pub(super) async fn append(mut self, said: &[u8], server: &str) -> Option<Self> {
        let said = said.to_vec();
        let appended = spawn_blocking(move || self.write(&said).map(|()| self)).await;
        let error = match appended {
            Ok(Ok(this)) => return Some(this),
            Ok(Err(error)) => error,
            Err(error) => io::Error::other(error),
        };
        tracing::warn!(server, %error, "cannot store the server's standard error");
        None
    }

    fn write(&mut self, said: &[u8]) -> io::Result<()> {
        let (mut file, length) = match self.open.take() {
            Some((_, length)) if length >= FILE_BYTES => {
                let mut before = self.path.clone().into_os_string();
                before.push(".1");
                fs::rename(&self.path, before)?;
                self.begin()?
            }
            Some(open) => open,
            None => self.begin()?,
        };
        file.write_all(said)?;
        self.open = Some((file, length + said.len() as u64));
        Ok(())
    }

    fn begin(&self) -> io::Result<(fs::File, u64)> {
        if let Some(directory) = self.path.parent() {
            Directory::private(directory)?;
        }
        let file = orchestra_fs::append(&self.path, Access::Private)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_kept_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("servers/a.log");
        let mut log = LogFile::new(path.clone());
        for _ in 0..40 {
            log = log.append(&[b'x'; 64 * 1024], "a").await.unwrap();
        }
        let length = |path: &std::path::Path| fs::metadata(path).unwrap().len();
        assert!(length(&path) <= FILE_BYTES + 64 * 1024);
        assert!(length(&directory.path().join("servers/a.log.1")) <= FILE_BYTES + 64 * 1024);
        assert_eq!(
            fs::read_dir(directory.path().join("servers"))
                .unwrap()
                .count(),
            2
        );
    }

    #[tokio::test]
    async fn a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = directory.path().join("elsewhere");
        fs::write(&elsewhere, "kept").unwrap();
        let path = directory.path().join("a.log");
        for target in [&elsewhere, &directory.path().join("missing")] {
            std::os::unix::fs::symlink(target, &path).unwrap();
            let log = LogFile::new(path.clone());
            assert!(log.append(b"said", "a").await.is_none());
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "kept");
        assert!(!directory.path().join("missing").exists());
        let log = LogFile::new(path.clone());
        assert!(log.append(b"said", "a").await.is_some());
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_ends_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let log = LogFile::new(directory.path().to_owned());
        assert!(log.append(b"x", "a").await.is_none());
    }
}
