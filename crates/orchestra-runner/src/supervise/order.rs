//! What a supervisor is to do, as the runner says it and as it crosses to the supervisor.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orchestra_process::{Launcher, Limits, Sandbox, memory_there};
use serde::{Deserialize, Serialize};

use super::{BoardServer, RunId, identity::RUN_VARIABLE};
use crate::logs::Bounds;

/// Longest order.
pub(crate) const MAX_ORDER_BYTES: usize = 32 * 1024 * 1024;

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shell {
    /// `/bin/sh`.
    Sh,
    /// Bash.
    Bash,
    /// PowerShell of today.
    Pwsh,
    /// PowerShell of Windows.
    PowerShell,
    /// The command prompt of Windows.
    Cmd,
}

/// What PowerShell does about an error that ends nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorAction {
    /// It goes on.
    Continue,
    /// It ends.
    Stop,
    /// It goes on and says nothing.
    SilentlyContinue,
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A command line for a shell.
    Shell {
        /// Which.
        shell: Shell,
        /// The command line.
        line: String,
        /// For PowerShell.
        error_action: Option<ErrorAction>,
    },
    /// A program with its arguments, without a shell; also the command lines of agents.
    Process {
        /// Its path, or its name on `PATH`.
        executable: OsString,
        /// Its arguments.
        arguments: Vec<OsString>,
    },
}

/// What a run may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobLimits {
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// For how long it may be silent, also when it has closed its output.
    pub idle: Option<Duration>,
    /// How much it may print.
    pub output_bytes: Option<u64>,
    /// How much memory it and all that descends from it may have at once; they are looked at ten
    /// times a second. Linux only.
    pub memory_bytes: Option<u64>,
    /// What the system holds it to.
    pub system: Limits,
    /// How long it has to end after SIGTERM, before it is killed.
    pub grace: Duration,
}

/// How many processes a run may have at once, unless said.
const PROCESSES: u64 = 1024;

impl Default for JobLimits {
    /// An hour, 1 GiB of output, ten seconds to end; three quarters of the memory that there is and 1024
    /// processes, where the system lets them be counted.
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(60 * 60)),
            idle: None,
            output_bytes: Some(1024 * 1024 * 1024),
            memory_bytes: memory_there().map(|bytes| bytes / 4 * 3),
            system: Limits {
                processes: Limits::can_count_processes().then_some(PROCESSES),
                ..Limits::default()
            },
            grace: Duration::from_secs(10),
        }
    }
}

/// How much of what a run prints is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBounds {
    /// Of its bytes.
    pub raw: Bounds,
    /// Of the lines of the attempt.
    pub lines: Bounds,
}

impl Default for LogBounds {
    fn default() -> Self {
        Self {
            raw: Bounds::RAW,
            lines: Bounds::LINES,
        }
    }
}

/// What a supervisor is to do.
#[derive(Clone)]
pub struct Order {
    /// The directory of the attempt, which is made when it is not there.
    pub attempt: PathBuf,
    /// Which run this is.
    pub id: RunId,
    /// What is run.
    pub program: Program,
    /// Where.
    pub directory: PathBuf,
    /// Its whole environment; [`RUN_VARIABLE`] is put to it.
    pub environment: BTreeMap<OsString, OsString>,
    /// What it may take.
    pub limits: JobLimits,
    /// What it may reach.
    pub sandbox: Sandbox,
    /// What serves the board to it, if anything does.
    pub board: Option<BoardServer>,
    /// What it reads from standard input, which ends then.
    pub input: Option<String>,
    /// What is to be on no log.
    pub secrets: Vec<String>,
    /// The file of the slot that it has on this machine. Its supervisor has it open for as long as it runs,
    /// so that the slot is the job's also when the runner is killed.
    pub slot: Option<Arc<File>>,
    /// How much of what it prints is kept.
    pub logs: LogBounds,
    /// Which program supervises: one that comes to [`job_main`](super::job_main) by it, and to
    /// `orchestra_process::child_main` by that crate's word. This program unless said.
    pub launcher: Option<Launcher>,
}

impl std::fmt::Debug for Order {
    /// Without values of the environment, input and secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order")
            .field("attempt", &self.attempt)
            .field("id", &self.id)
            .field("directory", &self.directory)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// The program and its arguments.
    fn words(&self) -> (OsString, Vec<OsString>) {
        let (shell, line, error_action) = match self {
            Self::Process {
                executable,
                arguments,
            } => return (executable.clone(), arguments.clone()),
            Self::Shell {
                shell,
                line,
                error_action,
            } => (*shell, line, *error_action),
        };
        let (program, options): (&str, &[&str]) = match shell {
            Shell::Sh => ("/bin/sh", &["-c"]),
            Shell::Bash => ("bash", &["-c"]),
            Shell::Pwsh => ("pwsh", &["-NoProfile", "-NonInteractive", "-Command"]),
            Shell::PowerShell => ("powershell", &["-NoProfile", "-NonInteractive", "-Command"]),
            Shell::Cmd => ("cmd", &["/d", "/s", "/c"]),
        };
        let line = match shell {
            Shell::Pwsh | Shell::PowerShell => power_shell(line, error_action),
            _ => line.clone(),
        };
        let arguments = options.iter().map(OsString::from).chain([line.into()]);
        (program.into(), arguments.collect())
    }
}

/// A command line whose exit code is that of the last program in it, as in other shells.
fn power_shell(line: &str, error_action: Option<ErrorAction>) -> String {
    let action = match error_action {
        None => "",
        Some(ErrorAction::Continue) => "$ErrorActionPreference = 'Continue'\n",
        Some(ErrorAction::Stop) => "$ErrorActionPreference = 'Stop'\n",
        Some(ErrorAction::SilentlyContinue) => "$ErrorActionPreference = 'SilentlyContinue'\n",
    };
    format!("{action}{line}\nif ($null -ne $LASTEXITCODE) {{ exit $LASTEXITCODE }}")
}

/// An order as it crosses to the supervisor. Both are the same program, so the form is theirs alone.
#[derive(Serialize, Deserialize)]
pub(crate) struct WireOrder {
    pub(crate) attempt: PathBuf,
    pub(crate) id: RunId,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: PathBuf,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) output_bytes: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) system: Limits,
    pub(crate) grace: Duration,
    pub(crate) sandbox: Option<WireSandbox>,
    #[serde(default)]
    pub(crate) board: Option<BoardServer>,
    pub(crate) input: Option<String>,
    pub(crate) secrets: Vec<String>,
    /// Head and tail of bytes, then of lines.
    pub(crate) logs: [u64; 4],
}

/// A sandbox that there is.
#[derive(Serialize, Deserialize)]
pub(crate) struct WireSandbox {
    paths: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    #[serde(default)]
    protected: Vec<PathBuf>,
}

/// A path that stays the same in another directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    // Only an empty path has none; it is refused by whoever uses it.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl WireOrder {
    pub(crate) fn of(order: &Order) -> Self {
        let (program, arguments) = order.program.words();
        let mut environment = order.environment.clone();
        environment.insert(RUN_VARIABLE.into(), order.id.name().into());
        let limits = order.limits.clone();
        let sandbox = match &order.sandbox {
            Sandbox::None => None,
            Sandbox::Workspace {
                paths,
                read_only,
                protected,
            } => Some(WireSandbox {
                paths: paths.clone(),
                read_only: read_only.clone(),
                protected: protected.clone(),
            }),
        };
        let LogBounds { raw, lines } = order.logs;
        Self {
            attempt: absolute(&order.attempt),
            id: order.id.clone(),
            program,
            arguments,
            directory: absolute(&order.directory),
            environment: environment.into_iter().collect(),
            timeout: limits.timeout,
            idle: limits.idle,
            output_bytes: limits.output_bytes,
            memory_bytes: limits.memory_bytes,
            system: limits.system,
            grace: limits.grace,
            sandbox,
            board: order.board.clone(),
            input: order.input.clone(),
            secrets: order.secrets.clone(),
            logs: [raw.head, raw.tail, lines.head, lines.tail],
        }
    }

    pub(crate) fn sandbox(&self) -> Sandbox {
        match &self.sandbox {
            None => Sandbox::None,
            Some(WireSandbox {
                paths,
                read_only,
                protected,
            }) => Sandbox::Workspace {
                paths: paths.clone(),
                read_only: read_only.clone(),
                protected: protected.clone(),
            },
        }
    }

    pub(crate) const fn log_bounds(&self) -> LogBounds {
        let [raw_head, raw_tail, head, tail] = self.logs;
        LogBounds {
            raw: Bounds {
                head: raw_head,
                tail: raw_tail,
            },
            lines: Bounds { head, tail },
        }
    }
}
