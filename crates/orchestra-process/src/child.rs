//! A child that runs, as we see it.

use std::{ffi::OsStr, io, path::Path, path::PathBuf, sync::Arc, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    net::{
        UnixStream,
        unix::{
            OwnedReadHalf, OwnedWriteHalf,
            pipe::{Receiver, Sender},
        },
    },
    process,
    sync::watch,
    time::timeout,
};

use crate::{
    Exit, Limit, Limits, Process, SpawnError,
    command::{Begun, NO_ANSWER},
    message::{Failure, KILL, Report, Step, TERMINATE},
    orphans,
};

/// How long guard and stage may take; some milliseconds on a machine that is not stuck.
const START: Duration = Duration::from_secs(30);

/// How long a guard may take to end its child when nobody is there for it any more.
const ABANDON: Duration = Duration::from_secs(6);

/// A child that runs. When it and every [`Handle`] of it are dropped, whatever is left of the child
/// is killed.
#[derive(Debug)]
pub struct Child {
    /// Its standard input.
    pub stdin: Sender,
    /// Its standard output.
    pub stdout: Receiver,
    /// Its standard error.
    pub stderr: Receiver,
    /// Everything but its pipes.
    pub handle: Handle,
}

/// A child without its pipes. Clones are the same child.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: Pid,
    without_mounts: Option<String>,
    guard: Option<Process>,
    /// The guard kills the child when this ends.
    control: OwnedWriteHalf,
    exit: watch::Receiver<Option<Exit>>,
}

type Reports = Lines<BufReader<OwnedReadHalf>>;

impl Child {
    /// Waits until a guard says that its child runs.
    pub(crate) async fn await_start(
        begun: Begun,
        program: &OsStr,
        directory: Option<&Path>,
        limits: &Limits,
    ) -> Result<Self, SpawnError> {
        let no_guard = |what: String| SpawnError::Guard {
            program: begun.launcher.clone(),
            what,
        };
        let wrap = |error: io::Error| no_guard(error.to_string());
        let control = UnixStream::from_std(begun.control).map_err(wrap)?;
        let (read, write) = control.into_split();
        let mut reports = BufReader::new(read).lines();
        let report = timeout(START, report(&mut reports)).await.ok().flatten();
        let mut why = None;
        let id = match report {
            Some(Report::Started { id, without_mounts }) => {
                why = without_mounts;
                Pid::from_raw(id)
            }
            Some(Report::Failed(failure)) if failure.step == Step::Guard => {
                return Err(no_guard(failure.what));
            }
            Some(Report::Failed(failure)) => return Err(failed(failure, program, directory)),
            _ => None,
        };
        let Some(id) = id else {
            let error = no_guard(NO_ANSWER.to_owned());
            drop((reports, write));
            abandon(begun.guard).await;
            return Err(error);
        };
        let guard = begun
            .guard
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()));
        let guard = guard.map(Process::of);
        let (told, exit) = watch::channel(None);
        let limits = limits.clone();
        tokio::spawn(supervise(reports, begun.guard, id, limits, told));
        Ok(Self {
            stdin: Sender::from_owned_fd(begun.input).map_err(wrap)?,
            stdout: Receiver::from_owned_fd(begun.output).map_err(wrap)?,
            stderr: Receiver::from_owned_fd(begun.error).map_err(wrap)?,
            handle: Handle(Arc::new(Inner {
                id,
                without_mounts: why,
                guard,
                control: write,
                exit,
            })),
        })
    }
}

impl Handle {
    /// Its process id, which is also that of its group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id.as_raw_pid().unsigned_abs()
    }

    /// It, as a process that can be found again.
    #[must_use]
    pub fn process(&self) -> Process {
        Process::of(self.0.id)
    }

    /// Its guard, below which is all that descends from it.
    #[must_use]
    pub fn guard(&self) -> Option<Process> {
        self.0.guard
    }

    /// Reason why the protected paths of its sandbox are no read-only mounts, if they are none.
    #[must_use]
    pub fn without_mounts(&self) -> Option<&str> {
        self.0.without_mounts.as_deref()
    }

    /// How it ended, once it has.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.0.exit.borrow().clone()
    }

    /// Resolves when it has ended and nothing is left of it, with how it ended. Keeps nothing
    /// alive; any number may wait.
    pub fn exited(&self) -> impl Future<Output = Exit> + Send + 'static {
        let mut exit = self.0.exit.clone();
        async move {
            let ended = exit.wait_for(Option::is_some).await;
            // With the runtime everything ends.
            ended.ok().and_then(|exit| exit.clone()).unwrap_or_default()
        }
    }

    /// Asks it to end: SIGTERM to its group.
    pub fn terminate(&self) {
        self.tell(TERMINATE);
    }

    /// Kills it and whatever descends from it.
    pub fn kill(&self) {
        self.tell(KILL);
    }

    fn tell(&self, order: u8) {
        // Whoever cannot be told is gone, and the child with it.
        let _ = self.0.control.try_write(&[order]);
    }
}

async fn report(reports: &mut Reports) -> Option<Report> {
    let line = reports.next_line().await.ok()??;
    serde_json::from_str(&line).ok()
}

/// Waits for the end of a child and of its guard.
async fn supervise(
    mut reports: Reports,
    mut guard: process::Child,
    id: Pid,
    limits: Limits,
    told: watch::Sender<Option<Exit>>,
) {
    let exit = match report(&mut reports).await {
        Some(Report::Ended(ended)) => Exit::of(&ended, &limits),
        _ => {
            tracing::warn!(
                child = id.as_raw_pid(),
                "a guard process was killed; its child ends too"
            );
            // The child dies with its guard; the rest is up to us.
            let _ = kill_process_group(id, Signal::KILL);
            wait(&mut guard).await;
            orphans::kill_adopted().await;
            Exit::default()
        }
    };
    told.send_replace(Some(exit));
    wait(&mut guard).await;
}

/// Sees to the end of a guard that has not said whether its child runs: it may have been killed after it had
/// begun one, which ends as well.
async fn abandon(mut guard: process::Child) {
    // It has heard that nobody is there for it, unless it is stuck.
    if timeout(ABANDON, guard.wait()).await.is_err() {
        // Whoever is gone already is gone.
        let _ = guard.start_kill();
        wait(&mut guard).await;
    }
    orphans::kill_adopted().await;
}

async fn wait(guard: &mut process::Child) {
    if let Err(error) = guard.wait().await {
        tracing::debug!(%error, "cannot wait for a guard process");
    }
}

fn failed(failure: Failure, program: &OsStr, directory: Option<&Path>) -> SpawnError {
    let source = failure.io();
    match failure.step {
        Step::Directory => SpawnError::Directory {
            directory: directory.map(PathBuf::from).unwrap_or_default(),
            source,
        },
        Step::Limit(Limit::Processes) => SpawnError::LimitUnsupported {
            limit: Limit::Processes,
        },
        Step::Limit(limit) => SpawnError::Limit { limit, source },
        Step::Sandbox | Step::Mounts => SpawnError::Sandbox { what: failure.what },
        Step::Program | Step::Guard => SpawnError::NotRunnable {
            program: program.into(),
            source,
        },
    }
}
