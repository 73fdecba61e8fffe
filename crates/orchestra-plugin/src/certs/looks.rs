//! When a directory of certificates is looked at anew: every so often, and within a second when
//! somebody has put other files into it.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::dir::{CA, PREVIOUS};
use crate::ids::CertName;

/// How often it is asked whether files are others than before, which costs a few system calls. After
/// a rotation at once a program lets nobody in until it knows of it.
const STEP: Duration = Duration::from_secs(1);

/// Moments to look at a directory of certificates.
#[derive(Debug)]
pub struct Looks {
    files: Vec<PathBuf>,
    every: Duration,
    step: Duration,
    due: Instant,
    seen: Vec<Option<Stamp>>,
}

/// What tells a file from the one that was there before, and from itself before it was written.
type Stamp = (u64, u64, i64, i64);

impl Looks {
    /// Looks at a directory for the sake of some leaves, at least as often as is said.
    pub fn new(directory: &Path, leaves: &[CertName], every: Duration) -> Self {
        let names = leaves.iter().map(CertName::as_str).chain([CA, PREVIOUS]);
        Self {
            files: names
                .map(|name| directory.join(format!("{name}.crt")))
                .collect(),
            every,
            step: STEP.min(every),
            due: Instant::now() + every,
            seen: Vec::new(),
        }
    }

    /// Waits until the directory is to be looked at: the first time soon, because it may have been
    /// changed since it was read. May be cancelled.
    pub async fn next(&mut self) {
        loop {
            sleep(self.step).await;
            let files = self.files.clone();
            let stamps = move || files.iter().map(|file| stamp(file)).collect();
            // Without an answer the program ends.
            let now = tokio::task::spawn_blocking(stamps).await;
            let now = now.unwrap_or_else(|_| self.seen.clone());
            if now != self.seen || Instant::now() >= self.due {
                self.seen = now;
                self.due = Instant::now() + self.every;
                return;
            }
        }
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    let of = |data: Metadata| (data.dev(), data.ino(), data.ctime(), data.ctime_nsec());
    fs::metadata(file).ok().map(of)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn what_is_replaced_is_looked_at_soon_and_nothing_else_before_its_time() {
        let home = TempDir::new().unwrap();
        let leaf: CertName = "tools.a".parse().unwrap();
        let mut looks = Looks::new(home.path(), &[leaf], LONG);
        looks.step = Duration::from_millis(10);
        let soon = Duration::from_secs(30);
        timeout(soon, looks.next()).await.unwrap();
        for file in ["ca.crt", "tools.a.crt"] {
            fs::write(home.path().join(file), "one").unwrap();
            timeout(soon, looks.next()).await.unwrap();
            let next = home.path().join("next");
            fs::write(&next, "two").unwrap();
            fs::rename(next, home.path().join(file)).unwrap();
            timeout(soon, looks.next()).await.unwrap();
        }
        fs::write(home.path().join("tools.b.crt"), "another's").unwrap();
        timeout(looks.step * 20, looks.next()).await.unwrap_err();
    }

    #[tokio::test]
    async fn it_is_looked_at_every_so_often_all_the_same() {
        let mut looks = Looks::new(Path::new("/nowhere"), &[], Duration::from_millis(5));
        for _ in 0..3 {
            let next = timeout(Duration::from_secs(30), looks.next());
            next.await.unwrap();
        }
    }
}
