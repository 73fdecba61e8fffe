//! Following a log while it is written.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Page, Query, read};

/// How often a log is looked at where the system does not tell of changes.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Gives the lines of an attempt as they come.
#[derive(Debug)]
pub struct Follower {
    directory: PathBuf,
    query: Query,
    #[cfg(target_os = "linux")]
    watch: Option<watch::Watch>,
}

impl Follower {
    /// Follows the log of the attempt whose directory this is, which need not have one yet. `query`
    /// says which lines, and where to begin; `tail` and `limit` are for each page. Must run inside a
    /// runtime.
    #[must_use]
    pub fn new(directory: &Path, query: Query) -> Self {
        Self {
            directory: directory.to_owned(),
            query,
            #[cfg(target_os = "linux")]
            watch: watch::Watch::begin(directory).ok(),
        }
    }

    /// Waits until there are more lines, and gives them; the first time those that are there. Where
    /// the system tells of changes nothing is looked at in between. May be cancelled: no line is lost.
    ///
    /// # Errors
    /// When the log is there and cannot be read.
    pub async fn next(&mut self) -> io::Result<Page> {
        loop {
            // A page may be megabytes.
            let (directory, query) = (self.directory.clone(), self.query.clone());
            let read = tokio::task::spawn_blocking(move || read(&directory, &query));
            let page = read.await.map_err(io::Error::other)??;
            if let Some(page) = self.taken(page) {
                return Ok(page);
            }
            self.changed().await;
        }
    }

    /// What has come since, without waiting.
    ///
    /// # Errors
    /// When the log is there and cannot be read.
    pub fn now(&mut self) -> io::Result<Option<Page>> {
        let page = read(&self.directory, &self.query)?;
        Ok(self.taken(page))
    }

    /// A page as it is given, if it has lines; the next one comes after it.
    fn taken(&mut self, page: Page) -> Option<Page> {
        self.query.after = Some(page.next);
        self.query.tail = false;
        (!page.lines.is_empty()).then_some(page)
    }

    async fn changed(&mut self) {
        #[cfg(target_os = "linux")]
        {
            if self.watch.is_none() {
                // The directory may have come meanwhile.
                self.watch = watch::Watch::begin(&self.directory).ok();
                if self.watch.is_some() {
                    return;
                }
            }
            if let Some(watch) = &self.watch
                && watch.changed().await.is_ok()
            {
                return;
            }
            self.watch = None;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(target_os = "linux")]
mod watch {
    //! What the system tells of a directory.

    use std::{io, mem::MaybeUninit, os::fd::OwnedFd, path::Path};

    use rustix::fs::inotify;
    use tokio::io::{Interest, unix::AsyncFd};

    #[derive(Debug)]
    pub(super) struct Watch(AsyncFd<OwnedFd>);

    impl Watch {
        pub(super) fn begin(directory: &Path) -> io::Result<Self> {
            let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
            let notices = inotify::init(flags)?;
            let changes = inotify::WatchFlags::CREATE
                | inotify::WatchFlags::MODIFY
                | inotify::WatchFlags::MOVED_TO;
            inotify::add_watch(&notices, directory, changes)?;
            #[expect(
                deprecated,
                reason = "an owned descriptor stays what it is, which its unsafe successor asks for"
            )]
            let notices = AsyncFd::with_interest(notices, Interest::READABLE)?;
            Ok(Self(notices))
        }

        /// Resolves when something in the directory has changed since it was asked last.
        pub(super) async fn changed(&self) -> io::Result<()> {
            let mut ready = self.0.readable().await?;
            let mut space = [MaybeUninit::uninit(); 4_096];
            // Only that there is something counts: what it is, is read from the files.
            let read = ready.try_io(|notices| {
                let read = rustix::io::read(notices.get_ref(), &mut space);
                Ok(read.map(|_| ())?)
            });
            match read {
                Ok(read) => read,
                // It was told before.
                Err(_) => Ok(()),
            }
        }
    }
}
