//! Whether whoever started the plugin is still there.
//!
//! Two signs are watched: the parent process, which changes when it dies, and the other end of
//! stdin where that is a pipe or a socket. A terminal or `/dev/null` says nothing.

use std::{io::Read as _, time::Duration};

use rustix::{
    fs::{FileType, fstat},
    process::{Pid, getppid},
};
use tokio::sync::oneshot;

/// How often the parent is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Whoever started the plugin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parent(Option<Pid>);

impl Parent {
    /// Who it is now. To be asked before the plugin is ready: who waits for that may be gone right
    /// after.
    pub(super) fn now() -> Self {
        Self(getppid())
    }

    /// Waits until it is gone, and says what showed it.
    pub(super) async fn gone(self) -> &'static str {
        let died = async {
            while getppid() == self.0 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            () = died => "the parent process has ended",
            () = stdin_ended() => "stdin has ended",
        }
    }
}

/// Waits for the end of stdin, where that says something.
async fn stdin_ended() {
    let stdin = std::io::stdin();
    let kind = fstat(&stdin).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if !matches!(kind, Ok(FileType::Fifo | FileType::Socket)) {
        return std::future::pending().await;
    }
    let (sender, ended) = oneshot::channel::<()>();
    // A read cannot be given up, so the thread is left to itself when the plugin ends.
    std::thread::spawn(move || {
        let mut waste = [0; 4096];
        let mut stdin = stdin.lock();
        while !matches!(stdin.read(&mut waste), Ok(0) | Err(_)) {}
        drop(sender);
    });
    // It is never sent, only dropped.
    let _ = ended.await;
}
