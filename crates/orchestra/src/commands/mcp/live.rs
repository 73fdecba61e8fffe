//! Servers that are reached for one command: started, asked, and ended.

use std::{sync::Arc, time::Duration};

use orchestra_gateway::{
    PinFile,
    config::{ServerConfig, ServerName, Transport, Trust},
    connect::Connectors,
    discovery::{Server, ServerState},
    review,
};
use orchestra_hub::ListKind;
use orchestra_mcp::client::{Client, ClientError, ClientStatus, ServerFacts};
use orchestra_wire::RawJson;
use serde::Serialize;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::Here;
use crate::{
    exit::{Exit, Failure},
    orchestrator, output, servers,
    trace::{self, TraceFlags},
};

/// How long a server may take to end, after what its own times say.
const CLOSING: Duration = Duration::from_secs(5);

/// Time in which a list that failed is fetched again.
const LISTING: Duration = Duration::from_secs(2);

/// How much later than a client its start is given up.
const SLACK: Duration = Duration::from_secs(1);

/// Time that a command gives a start.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) struct Within {
    pub(in crate::commands) time: Duration,
    /// The flag that sets it.
    pub(in crate::commands) flag: &'static str,
}

/// A server that answers.
pub(in crate::commands) struct Live {
    pub(in crate::commands) config: Arc<ServerConfig>,
    pub(in crate::commands) client: Client,
    pub(in crate::commands) facts: Arc<ServerFacts>,
    /// From the start to the end of the handshake.
    pub(in crate::commands) started_in: Duration,
    /// What its sandbox closes that it is likely to need.
    pub(in crate::commands) hints: Vec<String>,
}

/// What went wrong with a server, as JSON tells it.
#[derive(Debug, Clone, Serialize)]
pub(in crate::commands) struct Trouble {
    pub(in crate::commands) server: String,
    pub(in crate::commands) code: &'static str,
    pub(in crate::commands) message: String,
    /// What may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) hint: Option<String>,
    /// Whether a call that it is about may have run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) may_have_run: Option<bool>,
    /// Whether a call that may have run can be repeated without harm.
    #[serde(skip)]
    pub(in crate::commands) is_repeatable: bool,
    #[serde(skip)]
    pub(in crate::commands) exit: Exit,
}

impl Trouble {
    /// What a client says.
    pub(in crate::commands) fn of(name: &ServerName, error: &ClientError) -> Self {
        let message = match error {
            ClientError::NeedsAuth { what } if !what.contains("orchestra mcp login") => {
                format!("{}; `orchestra mcp login {name}` signs in", error.explain())
            }
            _ if error.wrote_more() => format!(
                "{}\n`orchestra mcp logs {name}` shows more of it",
                error.explain()
            ),
            _ => error.explain(),
        };
        Self {
            server: name.to_string(),
            code: error.code(),
            message,
            hint: None,
            may_have_run: None,
            is_repeatable: false,
            exit: exit_of(error),
        }
    }

    /// The same of a server as the user knows it: a plugin by its id.
    pub(in crate::commands) fn of_server(config: &ServerConfig, error: &ClientError) -> Self {
        let mut trouble = Self::of(&config.name, error);
        if let Transport::Plugin(plugin) = &config.transport {
            let id = plugin.id.as_str();
            let logs = |command: &str, name: &str| format!("`orchestra {command} logs {name}`");
            let message = trouble.message;
            trouble.message = message
                .replacen("cannot reach the server", "cannot reach the plugin", 1)
                .replace(&logs("mcp", config.name.as_str()), &logs("plugin", id));
            id.clone_into(&mut trouble.server);
        }
        trouble
    }

    /// In lines.
    pub(in crate::commands) fn words(&self) -> String {
        // A line that the server wrote must not look like the first line about another server.
        let message = self.message.replace('\n', "\n    ");
        let mut text = format!("{}: {}: {message}", self.server, self.code);
        if let Some(hint) = &self.hint {
            text.push_str("\n  hint: ");
            text.push_str(hint);
        }
        text.push_str(match self.may_have_run {
            Some(false) if self.is_repeatable => "\nThe call can be repeated without harm.",
            None => "",
            Some(false) => "\nThe call did not run.",
            Some(true) => {
                "\nThe call may have run: look at what it was to change before you repeat it."
            }
        });
        text
    }

    /// A call that it is about, and whether that may have run.
    pub(in crate::commands) fn of_call(self, may_have_run: bool) -> Self {
        Self {
            may_have_run: Some(may_have_run),
            ..self
        }
    }

    /// Says it on stderr; in JSON on stdout, as everything else is then.
    pub(in crate::commands) fn say(&self, json: bool) -> Result<Exit, Failure> {
        match json {
            true => output::json(&json!({ "error": self }))?,
            false => self.complain(),
        }
        Ok(self.exit)
    }

    /// Says it on stderr.
    pub(in crate::commands) fn complain(&self) {
        output::complain(&output::printable(&self.words()));
    }
}

/// How to exit after an error of a client.
fn exit_of(error: &ClientError) -> Exit {
    match error {
        ClientError::Unreachable { .. }
        | ClientError::NotYet { .. }
        | ClientError::Crashed(_)
        | ClientError::Closed
        | ClientError::Timeout { .. }
        | ClientError::SlowStart { .. }
        | ClientError::CircuitOpen { .. } => Exit::Problems,
        ClientError::Http(failure) if failure.status == 0 || failure.status >= 500 => {
            Exit::Problems
        }
        ClientError::NeedsAuth { .. } => Exit::Denied,
        ClientError::Http(failure) if matches!(failure.status, 401 | 403) => Exit::Denied,
        ClientError::InvalidConfig { .. } => Exit::Refused,
        _ => Exit::Failed,
    }
}

/// Returns the configuration of a server that a command may start by its name. A disabled server may start too, unless
/// it needs an approval.
pub(in crate::commands) fn startable(server: &Server) -> Result<Arc<ServerConfig>, Trouble> {
    // Discovery does not check the approval of a disabled server.
    let needs_approval = server.origin.trust == Trust::Ask && server.trusted_by.is_none();
    let (code, message, exit) = match &server.state {
        ServerState::Disabled { .. } if needs_approval => ("disabled", None, Exit::Denied),
        ServerState::Usable(config) | ServerState::Disabled { config, .. } => {
            return Ok(Arc::clone(config));
        }
        ServerState::NeedsApproval { .. } => ("needs_approval", None, Exit::Denied),
        ServerState::Invalid { .. } => ("invalid_config", None, Exit::Refused),
        ServerState::Own => ("own", None::<String>, Exit::Usage),
    };
    let message = message.or_else(|| super::words::reason(server));
    Err(Trouble {
        server: match server.config().map(|config| &config.transport) {
            Some(Transport::Plugin(plugin)) => plugin.id.to_string(),
            _ => server.name.to_string(),
        },
        code,
        message: message.unwrap_or_default(),
        hint: None,
        may_have_run: None,
        is_repeatable: false,
        exit,
    })
}

/// The servers of these names, else all that are used.
pub(in crate::commands) fn chosen<'a>(
    here: &'a Here,
    names: &[String],
) -> Result<Vec<&'a Server>, Failure> {
    if names.is_empty() {
        let used = |server: &&Server| matches!(server.state, ServerState::Usable(_));
        return Ok(here.found.servers.iter().filter(used).collect());
    }
    names.iter().map(|name| here.server(name)).collect()
}

/// How servers are reached, with what sign-ins have brought. What they write to standard error is
/// kept.
pub(in crate::commands) fn connectors(here: &Here) -> Result<Connectors, Failure> {
    let workspace = &here.places.workspace;
    let connectors = Connectors::new(servers::scope(workspace));
    Ok(connectors
        .with_quic(orchestrator::quic(here.certs.clone()))
        .with_tokens(&servers::token_directory()?)
        .with_logs(&servers::log_directory(workspace)?))
}

/// Starts or reaches a server, once.
pub(in crate::commands) async fn open(
    connectors: &Connectors,
    config: Arc<ServerConfig>,
    within: Option<Within>,
) -> Result<Live, Trouble> {
    let begin = Instant::now();
    let hints = connectors.hints(&config);
    let hints = match within.filter(|within| within.time != config.start_timeout) {
        Some(within) => hints.within(within.flag, within.time),
        None => hints,
    };
    let trouble = |error: &ClientError| Trouble {
        hint: hints.about_start(error),
        ..Trouble::of_server(&config, error)
    };
    let within = within.map_or(config.start_timeout, |within| within.time);
    let once = {
        let mut once = ServerConfig::clone(&config);
        once.start_timeout = within;
        once.health.interval = None;
        once
    };
    let client = connectors.client(&once).map_err(|error| trouble(&error))?;
    client.start();
    // The client gives up by itself, and knows what the server said.
    match timeout(within + SLACK, ready(&client)).await {
        Ok(Ok(facts)) => Ok(Live {
            config,
            client,
            facts,
            started_in: begin.elapsed(),
            hints: hints.sandbox().to_vec(),
        }),
        Ok(Err(error)) => {
            close(&client).await;
            Err(trouble(&error))
        }
        Err(_) => {
            close(&client).await;
            Err(trouble(&ClientError::Timeout { after: within }))
        }
    }
}

/// Ends a server.
pub(in crate::commands) async fn close(client: &Client) {
    // What does not end in time is ended with us.
    let _ = timeout(CLOSING, client.close()).await;
}

/// Waits until it answers, or has failed for the first time.
async fn ready(client: &Client) -> Result<Arc<ServerFacts>, ClientError> {
    let mut status = client.status();
    loop {
        let now = status.borrow_and_update().clone();
        match now {
            ClientStatus::Ready | ClientStatus::Degraded(_) => {
                if let Some(facts) = client.server() {
                    return Ok(facts);
                }
            }
            ClientStatus::Restarting { reason, .. } | ClientStatus::Offline { reason, .. } => {
                return Err(ClientError::clone(&reason));
            }
            ClientStatus::NeedsAuth(what) => return Err(ClientError::NeedsAuth { what }),
            ClientStatus::Invalid(what) => return Err(ClientError::InvalidConfig { what }),
            ClientStatus::Closed => return Err(ClientError::Closed),
            ClientStatus::Idle | ClientStatus::Starting => {}
        }
        if status.changed().await.is_err() {
            return Err(ClientError::Closed);
        }
    }
}

/// Everything of one kind that a server lists; nothing where it has none of that kind.
pub(in crate::commands) async fn list(
    live: &Live,
    kind: ListKind,
) -> Result<Vec<RawJson>, Trouble> {
    list_within(live, kind, LISTING).await
}

/// As [`list`], and fetched again for at most `within` after an error that may pass.
pub(in crate::commands) async fn list_within(
    live: &Live,
    kind: ListKind,
    within: Duration,
) -> Result<Vec<RawJson>, Trouble> {
    let can = &live.facts.can;
    let has = match kind {
        ListKind::Tools => can.tools.is_some(),
        ListKind::Prompts => can.prompts.is_some(),
        ListKind::Resources | ListKind::Templates => can.resources.is_some(),
    };
    if !has {
        return Ok(Vec::new());
    }
    let listed = live.client.list_within(kind, within).await;
    listed.map_err(|error| Trouble::of(&live.config.name, &error))
}

/// The tools that are hidden because they changed since they were approved, out of what was listed
/// now.
pub(in crate::commands) fn hidden(live: &Live, tools: &[RawJson]) -> Vec<String> {
    let Ok(state) = servers::state_directory() else {
        return Vec::new();
    };
    let tools = review(&live.config, ListKind::Tools, tools).items;
    let tools: Vec<RawJson> = tools.into_iter().cloned().collect();
    let changes = PinFile::new(&state, &live.config).notice(&tools, live.config.pins);
    changes.into_iter().map(|change| change.tool).collect()
}

/// How hidden tools are told; nothing when there are none.
pub(in crate::commands) fn told_hidden(name: &str, hidden: &[String]) -> Option<String> {
    let count = match hidden.len() {
        0 => return None,
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    };
    Some(format!("{count} hidden: `orchestra mcp approve {name}`"))
}

/// Does something with servers, all at once, and ends them. Results come in the order of the
/// servers. Traffic is recorded where `trace` wants that.
pub(in crate::commands) async fn each<T, W, F>(
    trace: Option<&TraceFlags>,
    connectors: Connectors,
    servers: &[&Server],
    within: Option<Within>,
    work: W,
) -> Result<Vec<Result<T, Trouble>>, Failure>
where
    T: Send + 'static,
    W: Fn(Arc<Live>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<T, Trouble>> + Send + 'static,
{
    let tap = match trace {
        Some(trace) => trace.open(None)?,
        None => None,
    };
    let connectors = match &tap {
        Some(tap) => connectors.with_tap(tap.clone()),
        None => connectors,
    };
    let mut tasks = JoinSet::new();
    let mut results: Vec<Option<Result<T, Trouble>>> = Vec::new();
    for (place, server) in servers.iter().enumerate() {
        results.push(None);
        let config = match startable(server) {
            Ok(config) => config,
            Err(trouble) => {
                results[place] = Some(Err(trouble));
                continue;
            }
        };
        let (connectors, work) = (connectors.clone(), work.clone());
        tasks.spawn(async move {
            let worked = match open(&connectors, config, within).await {
                Ok(live) => {
                    let live = Arc::new(live);
                    let worked = work(Arc::clone(&live)).await;
                    close(&live.client).await;
                    worked
                }
                Err(trouble) => Err(trouble),
            };
            (place, worked)
        });
    }
    let mut failed = None;
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok((place, worked)) => results[place] = Some(worked),
            Err(error) => failed = Some(error),
        }
    }
    if let Some(tap) = &tap {
        trace::finish(tap);
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    Ok(results.into_iter().flatten().collect())
}
