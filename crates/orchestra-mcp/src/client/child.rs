//! Servers that are our children: their messages go over standard input and output, what they
//! have to say for themselves over standard error.

mod log;
mod stderr;

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use orchestra_hub::BoxFuture;
use orchestra_process::SpawnError;
use orchestra_process::{
    Child, Command, Environment, Exit, Handle, Launcher, Limits, NestedNames, Sandbox,
};
use orchestra_secret::Masker;
use tokio::time::{Instant, timeout};

pub use self::stderr::{Heard, Stderr};
use super::{
    ClientError, Connected, Connector, Crash, MAX_MESSAGE_BYTES, TransportType,
    lines::{LinesConfig, LinesLink, MAX_JUNK_LINES, Peer},
    link::step_of_ending,
};

/// How long a child whose output has ended is given to end before it counts as one that has only
/// closed its output.
const END_AFTER_OUTPUT: Duration = Duration::from_secs(2);

/// How long a child that was killed may take to be gone. Only the system itself can hold one back.
const GONE: Duration = Duration::from_secs(10);

/// How a server is started and bounded.
#[derive(Debug, Clone)]
pub struct ChildConfig {
    /// The server's name, for logs.
    pub name: String,
    /// The program, looked up on `PATH` unless it is a path. No shell.
    pub command: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its working directory; ours when nothing is said.
    pub cwd: Option<PathBuf>,
    /// What it inherits of our environment.
    pub environment: Environment,
    /// Variables of its own.
    pub variables: Vec<(OsString, OsString)>,
    /// What it may take.
    pub limits: Limits,
    /// What it may reach.
    pub sandbox: Sandbox,
    /// Directories that are closed to it below what its sandbox opens.
    pub hidden: Vec<PathBuf>,
    /// Limits of the names that its sandbox protects deeper in a directory.
    pub nested: Vec<NestedNames>,
    /// File that its sandbox opens as its program, where that was checked before.
    pub program_file: Option<PathBuf>,
    /// Which program guards it; this one when nothing is said.
    pub launcher: Option<Launcher>,
    /// How long it may take to end when its input has ended.
    pub grace_stdin: Duration,
    /// And then, when it was asked to by SIGTERM.
    pub grace_term: Duration,
    /// Longest message; a longer one is skipped.
    pub max_message_bytes: usize,
    /// Lines in a row that are no messages after which the connection counts as in trouble.
    pub max_junk_lines: u32,
    /// A file that standard error is kept in as well, and lines on standard output that are no
    /// messages, marked as such; a larger one is begun anew, and the one before
    /// is kept beside it as `NAME.1`. For the owner alone; a symbolic link is not followed.
    pub log: Option<PathBuf>,
    /// What is masked in all that it says there, beside its variables whose names say that they are
    /// secrets and what looks like a token.
    pub secrets: Masker,
}

impl ChildConfig {
    /// A server by its name and program, everything else as usual: 2 s and 3 s of grace, messages
    /// of 10 MiB, 20 lines.
    pub fn new(name: impl Into<String>, command: impl Into<OsString>) -> Self {
        Self {
            name: name.into(),
            command: command.into(),
            args: Vec::new(),
            cwd: None,
            environment: Environment::Default,
            variables: Vec::new(),
            limits: Limits::default(),
            sandbox: Sandbox::None,
            hidden: Vec::new(),
            nested: Vec::new(),
            program_file: None,
            launcher: None,
            grace_stdin: Duration::from_secs(2),
            grace_term: Duration::from_secs(3),
            max_message_bytes: MAX_MESSAGE_BYTES,
            max_junk_lines: MAX_JUNK_LINES,
            log: None,
            secrets: Masker::default(),
        }
    }

    /// What must not be told of what it says.
    #[must_use]
    pub fn masker(&self) -> Masker {
        let variables = self.variables.iter().filter_map(|(name, value)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        });
        self.secrets.clone().environment(variables)
    }

    /// How it is started.
    #[must_use]
    pub fn command(&self) -> Command {
        // direct: it is the command of a guarded child.
        let mut command = Command::new(&self.command)
            .args(&self.args)
            .environment(self.environment)
            .variables(self.variables.iter().cloned())
            .name(&self.name)
            .limits(self.limits.clone())
            .sandbox(self.sandbox.clone())
            .hidden(self.hidden.clone())
            .nested(self.nested.clone());
        if let Some(directory) = &self.cwd {
            command = command.directory(directory);
        }
        if let Some(file) = &self.program_file {
            command = command.program_file(file);
        }
        match &self.launcher {
            Some(launcher) => command.launcher(launcher.clone()),
            None => command,
        }
    }
}

/// Starts a server as our child, anew for each connection. The child ends with its connection, and
/// with us, however we end.
pub struct ChildConnector(Arc<ChildConfig>);

impl ChildConnector {
    /// Starts nothing yet.
    #[must_use]
    pub fn new(config: ChildConfig) -> Self {
        Self(Arc::new(config))
    }

    /// Starts the server; as [`Connector::connect`], but the link can be asked for its counters.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start(&self) -> Result<(Arc<LinesLink>, Connected), ClientError> {
        let config = Arc::clone(&self.0);
        let child = config.command().spawn().await.map_err(not_started)?;
        let Child {
            stdin,
            stdout,
            stderr,
            handle,
        } = child;
        tracing::debug!(
            server = config.name,
            process = handle.id(),
            "process started"
        );
        if let Some(reason) = handle.without_mounts() {
            tracing::warn!(
                server = config.name,
                "sandbox runs without a mount namespace ({reason}): the server can change settings in subdirectories"
            );
        }
        let lines = LinesConfig {
            name: config.name.clone(),
            max_message_bytes: config.max_message_bytes,
            max_junk_lines: config.max_junk_lines,
        };
        let masker = config.masker();
        let peer = Arc::new(Process {
            stderr: Stderr::follow(
                stderr,
                config.name.clone(),
                config.log.clone(),
                masker.clone(),
                None,
            ),
            masker,
            handle,
            config,
            is_stopping: AtomicBool::new(false),
        });
        Ok(LinesLink::with_peer(stdout, stdin, lines, Some(peer)))
    }
}

impl Connector for ChildConnector {
    fn transport(&self) -> TransportType {
        TransportType::Stdio
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let connector = Self(Arc::clone(&self.0));
        Box::pin(async move { Ok(connector.start().await?.1) })
    }
}

fn not_started(error: SpawnError) -> ClientError {
    let is_setting = matches!(
        error,
        SpawnError::LimitUnsupported { .. } | SpawnError::Limit { .. } | SpawnError::Sandbox { .. }
    );
    let what = match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    match is_setting {
        true => ClientError::InvalidConfig { what },
        false => ClientError::Unreachable { what },
    }
}

/// The process at the other end. It is killed when this is dropped.
struct Process {
    handle: Handle,
    stderr: Stderr,
    masker: Masker,
    config: Arc<ChildConfig>,
    /// It ends because we want it to.
    is_stopping: AtomicBool,
}

impl Process {
    /// What is known of its end, with its last words.
    async fn crash(&self, exit: Exit) -> ClientError {
        let crash = Crash::of(exit, self.stderr.last_words().await, &self.config);
        let server = &self.config.name;
        let (code, signal, limit) = (crash.exit, crash.signal, &crash.limit);
        match self.is_stopping.load(Ordering::Relaxed) {
            true => tracing::debug!(server, code, signal, "process ended"),
            false => tracing::warn!(server, code, signal, limit, "server process ended"),
        }
        ClientError::Crashed(Arc::new(crash))
    }
}

impl Peer for Process {
    fn process_id(&self) -> u32 {
        self.handle.id()
    }

    fn gone(&self) -> BoxFuture<()> {
        let exited = self.handle.exited();
        Box::pin(async move {
            exited.await;
        })
    }

    fn stderr_tail(&self) -> String {
        self.stderr.so_far()
    }

    fn printed(&self, line: &[u8]) {
        self.stderr.beside(line);
    }

    fn masker(&self) -> &Masker {
        &self.masker
    }

    fn reason(self: Arc<Self>) -> BoxFuture<ClientError> {
        Box::pin(async move {
            match timeout(END_AFTER_OUTPUT, self.handle.exited()).await {
                Ok(exit) => self.crash(exit).await,
                Err(_) => {
                    let server = &self.config.name;
                    tracing::warn!(
                        server,
                        "the server closed its input or output but still runs"
                    );
                    ClientError::Closed
                }
            }
        })
    }

    fn stop(self: Arc<Self>, deadline: Option<Instant>) -> BoxFuture<()> {
        self.is_stopping.store(true, Ordering::Relaxed);
        Box::pin(async move {
            let server = &self.config.name;
            let grace = step_of_ending(self.config.grace_stdin, deadline, 2);
            if timeout(grace, self.handle.exited()).await.is_ok() {
                return;
            }
            tracing::debug!(
                server,
                "the server did not exit after its input was closed; sending SIGTERM"
            );
            self.handle.terminate();
            let grace = step_of_ending(self.config.grace_term, deadline, 1);
            if timeout(grace, self.handle.exited()).await.is_ok() {
                return;
            }
            tracing::warn!(server, "process did not exit when requested; killing it");
            self.handle.kill();
            if timeout(GONE, self.handle.exited()).await.is_err() {
                tracing::error!(server, "process was killed but has not exited");
            }
        })
    }
}
