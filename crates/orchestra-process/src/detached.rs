//! Programs of ours that several of us use: one of us starts it, and it may outlive that one.
//!
//! This is the exception from what the rest of the crate is for, and only for programs that end by
//! themselves when nobody needs them any more.

use std::{
    ffi::OsString,
    fs::File,
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::tree;

/// How often a process that was told to end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Those that this program has started, which are no orphans although they have a session of their
/// own.
static STARTED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn started() -> MutexGuard<'static, Vec<Pid>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Those of `processes` that were not started to outlive us.
pub(crate) fn without_detached(mut processes: Vec<Pid>) -> Vec<Pid> {
    let started = started();
    processes.retain(|process| !started.contains(process));
    processes
}

/// Leaves the session and the terminal of whoever started this program, if it is still in them.
pub fn leave_session() {
    // It fails for who leads a group, and so has been taken out of those already.
    let _ = rustix::process::setsid();
}

/// A program that was started to outlive us if need be. Dropping this leaves it running.
#[derive(Debug)]
pub struct Detached {
    child: Child,
    process: Process,
}

impl Detached {
    /// Starts `program` with our environment, in `directory`. What it says goes to `log`: a pipe of
    /// ours would tell whoever waits for its end that we go on. Must run inside a runtime.
    ///
    /// The program calls [`leave_session`] itself.
    ///
    /// # Errors
    /// When the system cannot start it.
    pub fn start<I>(program: &Path, arguments: I, directory: &Path, log: File) -> io::Result<Self>
    where
        I: IntoIterator<Item: Into<OsString>>,
    {
        let mut started = started();
        // direct: it is to outlive us, and is our own program.
        let child = Command::new(program)
            .args(arguments.into_iter().map(Into::into))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::from(log))
            .spawn()?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let id = id.ok_or_else(|| io::Error::other("it has ended already"))?;
        started.push(id);
        Ok(Self {
            child,
            process: Process::of(id),
        })
    }

    /// Which process it is.
    #[must_use]
    pub const fn process(&self) -> Process {
        self.process
    }

    /// Waits for its end. May be cancelled.
    ///
    /// # Errors
    /// When the system does not tell.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        started().retain(|process| *process != self.process.id);
        Ok(status)
    }
}

/// A process of this user, which may be nobody's child here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    id: Pid,
    /// When it began, in the system's own measure; an id is given to another process some day. Linux;
    /// elsewhere nobody is told.
    began: Option<u64>,
}

impl Process {
    /// This process.
    #[must_use]
    pub fn this() -> Self {
        Self::of(getpid())
    }

    fn of(id: Pid) -> Self {
        Self {
            id,
            began: tree::began(id),
        }
    }

    /// The process with this id, if it is the one that began then.
    #[must_use]
    pub fn find(id: u32, began: Option<u64>) -> Option<Self> {
        let id = Pid::from_raw(id.cast_signed())?;
        let found = Self::of(id);
        (found.began == began && !id.is_init()).then_some(found)
    }

    /// Its id.
    #[must_use]
    pub const fn id(self) -> u32 {
        self.id.as_raw_pid().cast_unsigned()
    }

    /// When it began, in a measure that only compares.
    #[must_use]
    pub const fn began(self) -> Option<u64> {
        self.began
    }

    /// Whether it is still there, and not only waits for its parent to hear of its end.
    #[must_use]
    pub fn is_there(self) -> bool {
        match self.began {
            Some(_) => tree::began(self.id) == self.began && !tree::has_ended(self.id),
            None => rustix::process::test_kill_process(self.id).is_ok(),
        }
    }

    /// Asks it to end with SIGTERM, kills it after `patience`, and waits for that as long again.
    pub async fn end(self, patience: Duration) {
        for signal in [Signal::TERM, Signal::KILL] {
            self.signal(signal);
            let end = Instant::now() + patience;
            while self.is_there() && Instant::now() < end {
                sleep(LOOK_EVERY).await;
            }
        }
    }

    /// Sends a signal, to this process and to none that has its id by now.
    fn signal(self, signal: Signal) {
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
            match pidfd_open(self.id, PidfdFlags::empty()) {
                Ok(process) => {
                    if self.is_there() {
                        // Whoever is gone already is gone.
                        let _ = pidfd_send_signal(process, signal);
                    }
                    return;
                }
                // Sandboxes refuse the call.
                Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {}
                Err(_) => return,
            }
        }
        if self.is_there() {
            let _ = kill_process(self.id, signal);
        }
    }
}
