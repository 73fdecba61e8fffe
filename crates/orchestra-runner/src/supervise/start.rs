//! The runner's side: starting a supervisor, waiting for it, ending it, looking at it.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orchestra_fs::{Access, Directory};
use orchestra_process::{Detached, Launcher, Process, Usage};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{ChildStdin, ChildStdout},
    time::timeout,
};

use super::{
    Ending, Found, Order, RunId,
    job::JOB_COMMAND,
    order::{MAX_ORDER_BYTES, WireOrder, absolute},
    record::Record,
};
use crate::logs::{Bounds, Line, last_line, now, raw_length};

/// How long a supervisor may take to start its command; some milliseconds on a machine that is not
/// stuck, and as long as the run before it takes to end.
const START: Duration = Duration::from_secs(60);

/// How long a supervisor that was told to kill all may take, which takes as long as a guard does.
const KILL: Duration = Duration::from_secs(6);

/// Longest answer of a supervisor.
const MAX_REPLY_BYTES: u64 = 64 * 1024;

/// A run that goes on, or has ended meanwhile. Clones are the same run; dropping them leaves it
/// running.
#[derive(Debug, Clone)]
pub struct Supervised(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    record: Record,
    id: RunId,
    supervisor: Process,
    raw: Bounds,
}

/// Why a run was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The command cannot be run: that is how this run ended, and is written down as such.
    #[error("{reason}")]
    NotStarted {
        /// Reason, with the next step.
        reason: String,
    },
    /// Somebody has started it before, or it was found never to begin.
    #[error("run {run} was started before; look up its result")]
    AlreadyStarted {
        /// Its name.
        run: String,
    },
    /// Another run of the attempt goes on.
    #[error("another run of this attempt is in progress; wait for it, or end it")]
    Busy,
    /// The order is too long.
    #[error(
        "the input and environment of a job have {bytes} bytes, more than the limit of {MAX_ORDER_BYTES}; shorten them"
    )]
    TooLong {
        /// How long.
        bytes: usize,
    },
    /// A file of the attempt cannot be written.
    #[error("cannot write to `{}`", .path.display())]
    Files {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The supervisor did not start, or did not do its work.
    #[error("cannot start the supervisor of a job: {what}")]
    Supervisor {
        /// What happened.
        what: String,
    },
}

/// What a supervisor answers to its order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Begun,
    NotStarted(String),
    AlreadyStarted,
    Busy,
    Failed(String),
}

/// How far a run is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that it has printed.
    pub bytes: u64,
    /// The last line of it.
    pub last_line: Option<Line>,
    /// What its command and all that descends from it use.
    pub usage: Usage,
}

impl Supervised {
    pub(crate) fn new(record: Record, id: RunId, supervisor: Process, raw: Bounds) -> Self {
        Self(Arc::new(Inner {
            record,
            id,
            supervisor,
            raw,
        }))
    }

    /// Starts a run, once: whoever else starts the same run, before or at the same moment, in whatever
    /// process, is refused or refuses this one. Resolves when the command runs. Must run inside a
    /// runtime; when it is cancelled, [`Self::find`] tells what became of the run. The directory of the
    /// attempt is made where the one above it is there.
    ///
    /// # Errors
    /// When the command cannot be run, the run was started before, another run of the attempt goes on,
    /// or files or processes cannot be made.
    pub async fn start(order: &Order) -> Result<Self, StartError> {
        let wire =
            serde_json::to_vec(&WireOrder::of(order)).map_err(|error| no_supervisor(&error))?;
        if wire.len() > MAX_ORDER_BYTES {
            return Err(StartError::TooLong { bytes: wire.len() });
        }
        let launcher = match &order.launcher {
            Some(launcher) => launcher.clone(),
            None => {
                Launcher::this_program_with([JOB_COMMAND]).map_err(|error| no_supervisor(&error))?
            }
        };
        let title = format!("orchestra: supervisor of {}", order.id.name());
        let attempt = absolute(&order.attempt);
        let record = Record::new(&attempt, &order.id);
        let slot = order.slot.clone();
        let begin = move || begin(&launcher, &title, &attempt, slot.as_deref());
        let begun = tokio::task::spawn_blocking(begin);
        let (supervisor, input, output) = begun.await.map_err(|error| no_supervisor(&error))??;
        let process = supervisor.process();
        supervisor.release();
        let reply = match timeout(START, converse(input, output, &wire)).await {
            Ok(reply) => reply.map_err(|error| no_supervisor(&error))?,
            Err(_) => {
                process.kill();
                return Err(no_supervisor(&"it took too long"));
            }
        };
        match reply {
            Reply::Begun => Ok(Self::new(record, order.id.clone(), process, order.logs.raw)),
            Reply::NotStarted(reason) => Err(StartError::NotStarted { reason }),
            Reply::AlreadyStarted => Err(StartError::AlreadyStarted {
                run: order.id.name(),
            }),
            Reply::Busy => Err(StartError::Busy),
            Reply::Failed(what) => Err(StartError::Supervisor { what }),
        }
    }

    /// Which run it is.
    #[must_use]
    pub fn id(&self) -> &RunId {
        &self.0.id
    }

    /// Its supervisor.
    #[must_use]
    pub fn supervisor(&self) -> Process {
        self.0.supervisor
    }

    /// Waits for its end and gives how it ended; nothing of it is left then. Where the system tells of
    /// the ends of processes nothing is looked at in between. May be cancelled, and called again.
    ///
    /// # Errors
    /// When the files of the run cannot be read.
    pub async fn wait(&self) -> io::Result<Ending> {
        loop {
            self.0.supervisor.gone().await;
            if let Some(ending) = self.0.record.ending()? {
                return Ok(ending);
            }
            match Self::find(self.0.record.directory(), &self.0.id).await? {
                Found::Ended(ending) => return Ok(ending),
                Found::Lost | Found::NeverBegan => return Ok(Ending::lost(now())),
                Found::Running(_) => {}
            }
        }
    }

    /// Ends it: SIGTERM to its command's group, and after `grace`, or after the grace of its order when
    /// that is shorter, SIGKILL to all of it. Gives how it ended. When this is cancelled, it ends all
    /// the same, within the grace of its order.
    ///
    /// # Errors
    /// When the files of the run cannot be read.
    pub async fn end(&self, grace: Duration) -> io::Result<Ending> {
        let supervisor = self.0.supervisor;
        supervisor.terminate();
        if let Ok(ended) = timeout(grace, self.wait()).await {
            return ended;
        }
        supervisor.interrupt();
        if let Ok(ended) = timeout(KILL, self.wait()).await {
            return ended;
        }
        // It is stuck, or was stopped; its guard sees to the rest.
        supervisor.kill();
        self.wait().await
    }

    /// How far it is.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub async fn progress(&self) -> io::Result<Progress> {
        let inner = Arc::clone(&self.0);
        let looked = tokio::task::spawn_blocking(move || {
            let Inner {
                record,
                id,
                supervisor,
                raw,
            } = &*inner;
            let directory = record.directory();
            let mut usage = supervisor.usage_below();
            // The guard is no part of the job.
            usage.processes = usage.processes.saturating_sub(1);
            Ok(Progress {
                bytes: raw_length(directory, &id.stem(), *raw),
                last_line: last_line(directory, id.phase(), id.run())?,
                usage,
            })
        });
        looked.await.map_err(io::Error::other)?
    }
}

fn no_supervisor(error: &dyn std::fmt::Display) -> StartError {
    StartError::Supervisor {
        what: error.to_string(),
    }
}

/// Starts the supervisor.
fn begin(
    launcher: &Launcher,
    title: &str,
    attempt: &Path,
    slot: Option<&File>,
) -> Result<(Detached, ChildStdin, ChildStdout), StartError> {
    // Not with all above it: storage that was removed meanwhile is not made again.
    let (above, name) = (attempt.parent(), attempt.file_name());
    let made = Directory::open(above.unwrap_or(attempt))
        .and_then(|above| above.make_below(name.unwrap_or_default().as_ref(), Access::Private));
    made.map_err(|error| StartError::Files {
        path: attempt.to_owned(),
        source: error.into_cause(),
    })?;
    let slot = slot.map(File::try_clone).transpose();
    let slot = slot.map_err(|error| no_supervisor(&error))?;
    Detached::converse(launcher, title, attempt, slot).map_err(|error| no_supervisor(&error))
}

/// Gives the order and hears the answer.
async fn converse(mut input: ChildStdin, output: ChildStdout, order: &[u8]) -> io::Result<Reply> {
    let given = async {
        input.write_all(order).await?;
        input.shutdown().await
    };
    // One that ends early has said why, or has not.
    let given = given.await;
    drop(input);
    let mut reply = Vec::new();
    let mut output = BufReader::new(output.take(MAX_REPLY_BYTES));
    output.read_until(b'\n', &mut reply).await?;
    match (serde_json::from_slice(&reply), given) {
        (Ok(reply), _) => Ok(reply),
        (Err(_), Err(error)) => Err(error),
        (Err(_), Ok(())) => Err(io::Error::other(
            "it ended without a word; the program must come to `job_main`, and what it has to say is in `supervisor.log`",
        )),
    }
}
