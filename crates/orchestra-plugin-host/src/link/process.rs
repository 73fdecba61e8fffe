//! The process of a plugin: how it is started and says where it listens, and how it ends.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use orchestra_mcp::client::{
    ChildConfig, ClientError, Crash, Heard, Masker, Stderr, step_of_ending,
};
use orchestra_plugin::generated::ShutdownRequest;
use orchestra_process::{Child, Exit, Handle, SpawnError};
use tokio::{
    net::unix::pipe,
    sync::watch,
    task::AbortHandle,
    time::{Instant, timeout},
};

use super::line::Line;
use crate::translate::{Question, chain};

/// What a plugin writes to standard error, before its address, when it listens.
const READY: &str = "READY ";

/// How long a process is given to end after its connection, before it counts as one that goes on.
const END_AFTER_CONNECTION: Duration = Duration::from_secs(2);

/// How long a process that was killed may take to be gone. Only the system itself can hold one back.
const GONE: Duration = Duration::from_secs(10);

/// A process that runs. It is killed when this is dropped.
pub(super) struct Process {
    handle: Handle,
    stderr: Stderr,
    config: ChildConfig,
    grace_shutdown: Duration,
    is_stopping: AtomicBool,
    /// Its input ends with us, for those who watch that.
    _input: pipe::Sender,
    draining: AbortHandle,
    ready: watch::Receiver<Option<String>>,
}

impl Process {
    /// Starts it.
    pub(super) async fn start(
        config: ChildConfig,
        grace_shutdown: Duration,
    ) -> Result<Self, ClientError> {
        let child = config.command().spawn().await.map_err(not_started)?;
        let Child {
            stdin,
            mut stdout,
            stderr,
            handle,
        } = child;
        tracing::debug!(
            plugin = config.name,
            process = handle.id(),
            "process started"
        );
        let (said, ready) = watch::channel(None);
        // What it prints is for nobody, and must not hold it up.
        let draining = tokio::spawn(async move {
            let _ = tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await;
        });
        Ok(Self {
            handle,
            stderr: Stderr::follow(
                stderr,
                config.name.clone(),
                config.log.clone(),
                config.masker(),
                Some(listener(said)),
            ),
            config,
            grace_shutdown,
            is_stopping: AtomicBool::new(false),
            _input: stdin,
            draining: draining.abort_handle(),
            ready,
        })
    }

    /// Where it listens, as soon as it says so.
    pub(super) async fn ready(&self) -> Result<SocketAddr, ClientError> {
        let mut ready = self.ready.clone();
        let told = async {
            let told = ready.wait_for(Option::is_some).await;
            told.ok().and_then(|told| told.clone())
        };
        let told = tokio::select! {
            biased;
            told = told => told,
            _ = self.handle.exited() => None,
        };
        match told {
            Some(told) => address(&told),
            None => Err(self.reason().await),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.handle.id()
    }

    /// Masks the secrets that it was given.
    pub(super) fn masker(&self) -> Masker {
        self.config.masker()
    }

    /// The end of what it wrote to standard error.
    pub(super) fn said(&self) -> String {
        self.stderr.so_far()
    }

    pub(super) async fn gone(&self) {
        self.handle.exited().await;
    }

    pub(super) fn is_gone(&self) -> bool {
        self.handle.exit().is_some()
    }

    /// Why it is not to be reached any more.
    pub(super) async fn reason(&self) -> ClientError {
        match timeout(END_AFTER_CONNECTION, self.handle.exited()).await {
            Ok(exit) => self.crash(exit).await,
            Err(_) => {
                let plugin = &self.config.name;
                tracing::warn!(plugin, "the plugin closed its connection but still runs");
                ClientError::Closed
            }
        }
    }

    async fn crash(&self, exit: Exit) -> ClientError {
        let crash = Crash {
            is_plugin: true,
            ..Crash::of(exit, self.stderr.last_words().await, &self.config)
        };
        let plugin = &self.config.name;
        let (code, signal, limit) = (crash.exit, crash.signal, &crash.limit);
        match self.is_stopping.load(Ordering::Relaxed) {
            true => tracing::debug!(plugin, code, signal, "process ended"),
            false => tracing::warn!(plugin, code, signal, limit, "plugin process ended"),
        }
        ClientError::Crashed(Arc::new(crash))
    }

    /// Ends it: asks it over the line, then by SIGTERM, then kills it, each within its time, and by a
    /// deadline if there is one.
    pub(super) async fn stop(&self, line: &Line, deadline: Option<Instant>) {
        self.is_stopping.store(true, Ordering::Relaxed);
        let plugin = &self.config.name;
        if self.handle.exit().is_some() {
            return;
        }
        let grace = step_of_ending(self.grace_shutdown, deadline, 2);
        let seconds = grace.as_secs().max(1);
        let question = Question::new(&ShutdownRequest {
            timeout_seconds: i32::try_from(seconds).unwrap_or(i32::MAX),
        });
        let asked = async {
            let exchange = line.send(&question).await?;
            line.last(exchange).await
        };
        tokio::select! {
            asked = timeout(grace, asked) => {
                if !matches!(asked, Ok(Ok(_))) {
                    tracing::debug!(plugin, "the plugin did not answer the shutdown request");
                }
            }
            _ = self.handle.exited() => return,
        }
        self.handle.terminate();
        let grace = step_of_ending(self.config.grace_term, deadline, 1);
        if timeout(grace, self.handle.exited()).await.is_ok() {
            return;
        }
        tracing::warn!(plugin, "process did not exit when requested; killing it");
        self.handle.kill();
        if timeout(GONE, self.handle.exited()).await.is_err() {
            tracing::error!(plugin, "process was killed but has not exited");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.draining.abort();
    }
}

/// Listens for the one line that says where the plugin listens.
fn listener(said: watch::Sender<Option<String>>) -> Heard {
    Box::new(move |text| {
        if said.borrow().is_some() {
            return;
        }
        if let Some(address) = text.lines().find_map(|line| line.strip_prefix(READY)) {
            said.send_replace(Some(address.trim().to_owned()));
        }
    })
}

/// The address of a plugin, which is on this machine.
fn address(said: &str) -> Result<SocketAddr, ClientError> {
    let port = |text: &str| text.parse().ok().filter(|port| *port != 0);
    let found = match said.strip_prefix("localhost:") {
        Some(text) => port(text).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        None => said.parse().ok(),
    };
    found
        .filter(|address: &SocketAddr| address.ip().is_loopback() && address.port() != 0)
        .ok_or_else(|| ClientError::Handshake {
            what: format!(
                "the plugin reported the address \"{}\"; it must listen on a loopback address, \
                 such as 127.0.0.1, and report that address with its port",
                orchestra_wire::shown(said)
            ),
        })
}

fn not_started(error: SpawnError) -> ClientError {
    let what = chain(&error);
    match error {
        SpawnError::LimitUnsupported { .. }
        | SpawnError::Limit { .. }
        | SpawnError::Sandbox { .. } => ClientError::InvalidConfig { what },
        _ => ClientError::Unreachable { what },
    }
}
