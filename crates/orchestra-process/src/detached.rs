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
use serde::{Deserialize, Serialize};
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};
use tokio::{
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{Instant, sleep},
};

use crate::{Launcher, Usage, tree};

/// How often a process that was told to end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// By this in its environment a program is known that was started to outlive others, also by another
/// one of us than the one that it has come to since.
const MARK: (&str, &str) = ("ORCHESTRA_DETACHED", "1");

/// Those that this program has started, which are no orphans although they have a session of their
/// own.
static STARTED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn started() -> MutexGuard<'static, Vec<Pid>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Those of `processes` that were not started to outlive us.
pub(crate) fn without_detached(mut processes: Vec<Pid>) -> Vec<Pid> {
    let started = started();
    let mark = format!("{}={}", MARK.0, MARK.1);
    processes.retain(|process| {
        !started.contains(process) && !tree::has_variable(*process, mark.as_bytes())
    });
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
            .env(MARK.0, MARK.1)
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

    /// Starts our own program without anything of our environment, in `directory`, called `title` in lists of
    /// processes, and gives our ends of its standard input and output. What else it says is lost, or goes to
    /// `kept`, a file that it has open for as long as it runs, so that a lock on it is its own as well.
    /// Whoever starts it closes the input when all is said; what it answers it says at once,
    /// so that neither waits for the other's end. Must run inside a runtime.
    ///
    /// The program calls [`leave_session`] itself.
    ///
    /// # Errors
    /// When the system cannot start it.
    pub fn converse(
        launcher: &Launcher,
        title: &str,
        directory: &Path,
        kept: Option<File>,
    ) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        let mut started = started();
        // direct: it is to outlive us, and is our own program.
        let mut child = Command::new(&launcher.program)
            .arg0(title)
            .args(&launcher.arguments)
            .current_dir(directory)
            .env_clear()
            .env(MARK.0, MARK.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(kept.map_or_else(Stdio::null, Stdio::from))
            .spawn()?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (Some(id), Some(input), Some(output)) = (id, child.stdin.take(), child.stdout.take())
        else {
            return Err(io::Error::other("it has ended already"));
        };
        started.push(id);
        let process = Process::of(id);
        Ok((Self { child, process }, input, output))
    }

    /// Leaves it to itself: its end is heard of in the background, for as long as the runtime runs.
    pub fn release(mut self) {
        tokio::spawn(async move {
            if let Err(error) = self.wait().await {
                tracing::debug!(%error, "cannot wait for a detached process");
            }
        });
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

/// What the ids of processes, and when they began, count in: this start of the system, and the namespace
/// that we are in. A process that was noted under another numbering is not there, whatever has its id now.
/// Linux; elsewhere nobody is told, and ids are all that there is.
#[must_use]
pub fn numbering() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), space.display()))
}

/// For how long the machine has been up, with the time that it slept. Linux; elsewhere nobody is told.
#[must_use]
pub fn uptime() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    {
        use rustix::time::{ClockId, clock_gettime};
        let up = clock_gettime(ClockId::Boottime);
        Duration::try_from(up).ok()
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// A process of this user, which may be nobody's child here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    id: Pid,
    /// When it began, in the system's own measure; an id is given to another process some day. Linux;
    /// elsewhere nobody is told.
    began: Option<u64>,
}

/// A process as files name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Its id.
    pub pid: u32,
    /// Its [beginning](Process::began).
    pub began: Option<u64>,
}

impl ProcessRecord {
    /// This process.
    #[must_use]
    pub fn this() -> Self {
        let this = Process::this();
        Self {
            pid: this.id(),
            began: this.began(),
        }
    }

    /// Returns the process, where the system tells it from all others that had or will have its id.
    #[must_use]
    pub fn find(&self) -> Option<Process> {
        self.began?;
        Process::find(self.pid, self.began)
    }
}

impl Process {
    /// This process.
    #[must_use]
    pub fn this() -> Self {
        Self::of(getpid())
    }

    pub(crate) fn of(id: Pid) -> Self {
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

    /// A process by its id and when it began, whether or not it is there any more.
    #[must_use]
    pub fn known(id: u32, began: Option<u64>) -> Option<Self> {
        let id = Pid::from_raw(id.cast_signed())?;
        (!id.is_init()).then_some(Self { id, began })
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

    /// Whether the system has given its id to another process since.
    pub(crate) fn is_replaced(self) -> bool {
        let now = tree::began(self.id);
        now.is_some() && now != self.began
    }

    /// Resolves when it is there no more, or only its parent has still to hear of its end. Whoever it
    /// belongs to; may be cancelled. The system tells (Linux), or is asked every few milliseconds.
    pub async fn gone(self) {
        #[cfg(target_os = "linux")]
        if let Some(told) = self.told_gone().await {
            return told;
        }
        while self.is_there() {
            sleep(LOOK_EVERY).await;
        }
    }

    /// As [`Self::gone`], where the system offers a descriptor that tells.
    #[cfg(target_os = "linux")]
    async fn told_gone(self) -> Option<()> {
        use rustix::process::{PidfdFlags, pidfd_open};
        let process = match pidfd_open(self.id, PidfdFlags::NONBLOCK) {
            Ok(process) => process,
            Err(rustix::io::Errno::SRCH) => return Some(()),
            Err(_) => return None,
        };
        if !self.is_there() {
            return Some(());
        }
        #[expect(
            deprecated,
            reason = "an owned descriptor stays what it is, which its unsafe successor asks for"
        )]
        let process = AsyncFd::with_interest(process, Interest::READABLE).ok()?;
        process.readable().await.ok().map(|_| ())
    }

    /// What all that descends from it uses now, and has computed, its own part left out.
    #[must_use]
    pub fn usage_below(self) -> Usage {
        match self.is_there() {
            true => tree::usage_below(self.id),
            false => Usage::default(),
        }
    }

    /// Asks it to end with SIGTERM.
    pub fn terminate(self) {
        self.signal(Signal::TERM);
    }

    /// Asks it to end with SIGINT, which programs may take for something else than SIGTERM.
    pub fn interrupt(self) {
        self.signal(Signal::INT);
    }

    /// Kills it, and nothing that descends from it.
    pub fn kill(self) {
        self.signal(Signal::KILL);
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
