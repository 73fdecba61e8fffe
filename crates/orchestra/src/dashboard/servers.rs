//! Servers of others, as the dashboard shows them and decides of them: what `orchestra mcp` does.

use std::{sync::Arc, time::Duration};

use futures_util::stream;
use orchestra_gateway::{connect, discovery::ServerState};
use orchestra_hub::BoxFuture;
use orchestra_mcp::client::tap::TapWatch;
use orchestra_web::dashboard::{Act, NotDone, NotShown, Servers, Shown, Telling};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::{
    commands::mcp::{Here, Log, Pending, switch_all},
    config::Config,
    exit::Failure,
    output, servers,
};

/// How often is looked for more of a log.
const AGAIN: Duration = Duration::from_millis(250);

/// The servers of a workspace.
pub(super) struct Others {
    config: Arc<Config>,
    traffic: TapWatch,
}

/// What a server would run, and what of it waits to be approved.
#[derive(Serialize)]
struct Definition<'a> {
    name: &'a str,
    /// `enabled`, `disabled`, `needs_approval` or `invalid`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The file, and where in it.
    origin: String,
    /// What it would do and may do, in lines. No secret is in them.
    does: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Waits>,
}

#[derive(Serialize)]
struct Waits {
    /// Tells this from anything else that may wait later.
    fingerprint: String,
    /// The same for people, in lines: arguments as they would run.
    shows: Vec<String>,
    /// Tools that are hidden since they are other than they were approved.
    tools: Vec<Tool>,
}

#[derive(Serialize)]
struct Tool {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<Value>,
    now: Value,
}

impl Waits {
    fn of(pending: &Pending<'_>) -> Self {
        let shows = lines(&pending.shown());
        let json = |text: &str| serde_json::from_str(text).unwrap_or_default();
        let tools = pending.changes().iter().map(|change| Tool {
            name: change.tool.clone(),
            was: change.before.as_ref().map(|before| json(before.as_str())),
            now: json(change.after.as_str()),
        });
        Self {
            fingerprint: pending.fingerprint(),
            tools: tools.collect(),
            shows,
        }
    }
}

/// A line of a log.
#[derive(Serialize)]
struct Line<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct Lines {
    lines: Vec<String>,
}

impl Others {
    pub(super) const fn new(config: Arc<Config>, traffic: TapWatch) -> Self {
        Self { config, traffic }
    }

    /// Does what reads files and decides, where it may take a while.
    fn with_here<T: Send + 'static>(
        &self,
        does: impl FnOnce(&Here) -> Result<T, Failure> + Send + 'static,
    ) -> BoxFuture<Result<T, Failure>> {
        let config = Arc::clone(&self.config);
        let work = move || does(&Here::of(&config, &config.servers)?);
        Box::pin(async move {
            match tokio::task::spawn_blocking(work).await {
                Ok(done) => done,
                Err(ended) => std::panic::resume_unwind(ended.into_panic()),
            }
        })
    }

    /// The log of a server, read up to its end, and its last lines.
    fn log_of(&self, name: String, lines: usize) -> BoxFuture<Result<(Log, String), Failure>> {
        let workspace = self.config.workspace.clone();
        self.with_here(move |here| {
            let name = here.server(&name)?.name.clone();
            let directory = servers::log_directory(&workspace)?;
            let mut log = Log::new(connect::log_file(&directory, name.as_str()));
            let text = log.end(lines)?.unwrap_or_default();
            Ok((log, text))
        })
    }
}

impl Servers for Others {
    fn act(&self, name: String, act: Act) -> BoxFuture<Result<String, NotDone>> {
        let done = self.with_here(move |here| decided(here, &name, &act));
        Box::pin(async move { done.await.map_err(not_done) })
    }

    fn definition(&self, name: String) -> BoxFuture<Shown> {
        let defined = self.with_here(move |here| definition(here, &name));
        Box::pin(async move { defined.await.map_err(not_shown) })
    }

    fn log(&self, name: String, lines: usize) -> BoxFuture<Shown> {
        let log = self.log_of(name, lines);
        Box::pin(async move {
            let (_, text) = log.await.map_err(not_shown)?;
            let lines = text.lines().map(printable).collect();
            Ok(json(&Lines { lines }))
        })
    }

    fn follow_log(&self, name: String) -> BoxFuture<Result<Telling, NotShown>> {
        let log = self.log_of(name, 1);
        Box::pin(async move {
            let (log, _) = log.await.map_err(not_shown)?;
            let pages = stream::unfold(log, async |log| {
                let (log, text) = more(log).await?;
                let lines = text.lines().map(|line| {
                    let text = &printable(line);
                    ("line", json(&Line { text }))
                });
                Some((stream::iter(lines.collect::<Vec<_>>()), log))
            });
            Ok(Box::pin(futures_util::StreamExt::flatten(pages)) as Telling)
        })
    }

    fn traffic(&self) -> Telling {
        Box::pin(stream::unfold(self.traffic.look(), passed))
    }
}

/// The next lines of a log, once there are some; nothing when it cannot be read any more.
async fn more(mut log: Log) -> Option<(Log, String)> {
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let text = log.more();
            (log, text)
        });
        let (same, text) = read.await.ok()?;
        log = same;
        match text {
            Ok(text) if text.is_empty() => tokio::time::sleep(AGAIN).await,
            Ok(text) => return Some((log, text)),
            Err(_) => return None,
        }
    }
}

/// The next message that passes.
async fn passed(
    mut looking: Receiver<Arc<str>>,
) -> Option<((&'static str, String), Receiver<Arc<str>>)> {
    let told = match looking.recv().await {
        Ok(told) if told.starts_with(r#"{"dropped""#) => ("dropped", told.to_string()),
        Ok(told) => ("message", told.to_string()),
        Err(RecvError::Lagged(missed)) => ("dropped", format!(r#"{{"dropped":{missed}}}"#)),
        Err(RecvError::Closed) => return None,
    };
    Some((told, looking))
}

fn decided(here: &Here, name: &str, act: &Act) -> Result<String, Failure> {
    let server = here.server(name)?;
    let name = &server.name;
    match act {
        Act::Restart => {
            if let ServerState::NeedsApproval { .. } = server.state {
                return Err(Failure::denied(format!(
                    "server {name} is not restarted: it waits for approval"
                )));
            }
            let workspace = &here.places().workspace;
            here.decide(|decisions| decisions.restart(workspace, name))?;
            Ok(format!("server {name} restarted"))
        }
        Act::Enable => {
            switch_all(here, &[server], true)?;
            Ok(match server.state {
                ServerState::NeedsApproval { .. } => {
                    format!("server {name} is enabled, but still waits for approval")
                }
                _ => format!("server {name} is enabled"),
            })
        }
        Act::Disable => {
            switch_all(here, &[server], false)?;
            Ok(format!("server {name} is disabled"))
        }
        Act::Approve { seen } => {
            let Some(pending) = Pending::of(server)? else {
                return Err(Failure::denied(format!(
                    "server {name} has nothing to approve"
                )));
            };
            if pending.fingerprint() != *seen {
                return Err(Failure::denied(format!(
                    "the definition of server {name} changed since it was shown; review it again"
                )));
            }
            match pending.approve(here, server)? {
                true => Ok(format!("server {name} is approved")),
                false => Err(Failure::denied(format!(
                    "server {name} has no tools to approve before its first start"
                ))),
            }
        }
    }
}

fn definition(here: &Here, name: &str) -> Result<String, Failure> {
    let server = here.server(name)?;
    let pending = Pending::of(server)?;
    let reason = match &server.state {
        ServerState::Invalid { reason } => Some(reason.as_str()),
        _ => None,
    };
    Ok(json(&Definition {
        name: server.name.as_str(),
        state: server.state.as_str(),
        reason,
        origin: server.origin.to_string(),
        does: server
            .config()
            .map(|config| lines(&crate::commands::mcp::masked(config, &server.covered)))
            .unwrap_or_default(),
        waits: pending.as_ref().map(Waits::of),
    }))
}

/// Lines of which each remains one line, whatever a file has in it.
fn lines(shown: &[String]) -> Vec<String> {
    let lines = shown.iter().map(|line| output::in_a_line(line));
    lines.collect()
}

fn printable(line: &str) -> String {
    output::printable(line).into_owned()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is shown has a JSON form")
}

/// A name that nobody has is the only wrong use that there may be.
fn not_shown(failure: Failure) -> NotShown {
    match failure {
        Failure::Usage(_) => NotShown::Unknown(failure.text()),
        failure => NotShown::Unreadable(failure.text()),
    }
}

fn not_done(failure: Failure) -> NotDone {
    match failure {
        Failure::Usage(_) => NotDone::Unknown(failure.text()),
        Failure::Denied(_) | Failure::Refused(_) => NotDone::Refused(failure.text()),
        failure => NotDone::Broke(failure.text()),
    }
}
