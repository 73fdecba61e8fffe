//! Upstream servers: actions, logs and message traffic.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use orchestra_hub::{BoxFuture, Hub};
use orchestra_mcp::http::Identity;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{NotShown, Shown, Tell, Telling, show, sse};
use crate::{
    app::Site,
    asked::{Json, Path, Query},
    refusal::{CallRefusals, Guarded, Reason, Refusal, ThingRefusals},
    servers,
};

/// Maximum number of lines of a log in one response.
const MOST_LINES: usize = 5_000;
/// Default number of lines.
const USUAL_LINES: usize = 200;

/// Interval between two comparisons of the servers with their last reported state.
const LOOK: Duration = Duration::from_millis(500);

/// Action on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Restart the server.
    Restart,
    /// Enable the server.
    Enable,
    /// Disable the server.
    Disable,
    /// Approve the definition that waits for approval.
    Approve {
        /// Fingerprint of the reviewed definition.
        seen: String,
    },
}

/// Reason why an action failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotDone {
    /// There is no such server.
    #[error("{0}")]
    Unknown(String),
    /// The action is not possible for this server or in its current state.
    #[error("{0}")]
    Refused(String),
    /// An internal error occurred.
    #[error("{0}")]
    Broke(String),
}

/// Upstream servers that the dashboard shows.
pub trait Servers: Send + Sync + 'static {
    /// Performs an action on a server. Returns a sentence that confirms it.
    fn act(&self, name: String, act: Act) -> BoxFuture<Result<String, NotDone>>;

    /// Definition of a server and the changes that wait for approval, as a JSON object.
    fn definition(&self, name: String) -> BoxFuture<Shown>;

    /// The last lines that a server wrote to standard error, as `{"lines": […]}`.
    fn log(&self, name: String, lines: usize) -> BoxFuture<Shown>;

    /// New lines on standard error, as events `line` `{text}`.
    fn follow_log(&self, name: String) -> BoxFuture<Result<Telling, NotShown>>;

    /// New messages between the program and the servers, as events `message` and `dropped`.
    fn traffic(&self) -> Telling;
}

pub(super) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::default()
        .routes(routes!(definition))
        .routes(routes!(log))
        .routes(routes!(act))
}

pub(super) fn streams() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::default()
        .routes(routes!(follow_log))
        .routes(routes!(traffic))
}

/// Reports the state of the servers after each change, until the future is dropped.
pub(super) async fn follow(hub: Hub, tell: Tell) {
    let mut told = servers::told(&hub);
    loop {
        tokio::time::sleep(LOOK).await;
        let now = servers::told(&hub);
        if now != told {
            let text = serde_json::to_string(&now).expect("the report has a JSON form");
            tell("servers", text);
            told = now;
        }
    }
}

#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
struct Given {
    /// Fingerprint of the reviewed definition. Required for `approve`, not allowed for other actions.
    fingerprint: Option<String>,
}

#[derive(Serialize, ToSchema)]
struct Done {
    /// Name of the server.
    name: String,
    /// Performed action.
    verb: String,
    /// Confirmation of the action, for display.
    told: String,
}

/// Performs an action on an upstream server: `restart`, `enable`, `disable` or `approve`.
#[utoipa::path(
    post, path = "/api/servers/{name}/{act}", tag = "servers",
    params(
        ("name" = String, Path, description = "Name of the server."),
        ("act" = String, Path, description = "Action to perform.")
    ),
    request_body(content = Given, description = "Fingerprint of the definition to approve. Only for approvals."),
    responses((status = 200, description = "Performed action.", body = Done), CallRefusals)
)]
async fn act(
    State(site): State<Arc<Site>>,
    Path((name, verb)): Path<(String, String)>,
    headers: HeaderMap,
    Json(given): Json<Given>,
) -> Result<Response, Refusal> {
    let act = match (verb.as_str(), given.fingerprint) {
        ("restart", None) => Act::Restart,
        ("enable", None) => Act::Enable,
        ("disable", None) => Act::Disable,
        ("approve", Some(seen)) => Act::Approve { seen },
        ("approve", None) => {
            let text = "`fingerprint` is required: it names the definition that you approve";
            return Err(Refusal::new(Reason::Malformed, text.to_owned()));
        }
        ("restart" | "enable" | "disable", Some(_)) => {
            let text = "`fingerprint` is allowed only for approvals";
            return Err(Refusal::new(Reason::Malformed, text.to_owned()));
        }
        _ => {
            let text = "unknown action; allowed are `restart`, `enable`, `disable` and `approve`";
            return Err(Refusal::new(Reason::Unknown, text.to_owned()));
        }
    };
    let servers = site.feed().source().servers();
    let action = format!("{verb} server {name}");
    let told = super::act(&site, &headers, action, servers.act(name.clone(), act)).await?;
    Ok(axum::Json(Done { name, verb, told }).into_response())
}

/// Returns the definition of an upstream server, and the changes that wait for approval.
#[utoipa::path(
    get, path = "/api/servers/{name}/definition", tag = "servers",
    params(
        ("name" = String, Path, description = "Name of the server.")
    ),
    responses((status = 200, description = "Command or address of the server, and the changes that wait for approval.", body = Value), Guarded, ThingRefusals)
)]
async fn definition(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
) -> Result<Response, Refusal> {
    show(&site, |source| source.servers().definition(name)).await
}

#[derive(Deserialize)]
struct Lines {
    lines: Option<usize>,
}

/// Returns the last lines of an upstream server's standard error.
#[utoipa::path(
    get, path = "/api/servers/{name}/log", tag = "servers",
    params(
        ("name" = String, Path, description = "Name of the server."),
        ("lines" = Option<usize>, Query, description = "Maximum number of lines.")
    ),
    responses((status = 200, description = "Last lines of the log.", body = Value), Guarded, ThingRefusals)
)]
async fn log(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
    Query(asked): Query<Lines>,
) -> Result<Response, Refusal> {
    let lines = asked.lines.unwrap_or(USUAL_LINES).clamp(1, MOST_LINES);
    show(&site, |source| source.servers().log(name, lines)).await
}

/// Streams new lines of an upstream server's standard error.
#[utoipa::path(
    get, path = "/api/servers/{name}/log/follow", tag = "servers",
    params(
        ("name" = String, Path, description = "Name of the server.")
    ),
    responses((status = 200, description = "Events `line`.", body = String, content_type = "text/event-stream"), Guarded, ThingRefusals)
)]
async fn follow_log(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
    caller: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let share = site.open_stream(caller, &headers)?;
    let telling = site.feed().source().servers().follow_log(name).await?;
    let stop = site.face.options().stop.clone();
    Ok(sse::telling(telling, stop, share))
}

/// Streams the messages between this program and the upstream servers.
#[utoipa::path(
    get, path = "/api/traffic", tag = "servers",
    responses((status = 200, description = "Events `message` and `dropped`.", body = String, content_type = "text/event-stream"), Guarded)
)]
async fn traffic(
    State(site): State<Arc<Site>>,
    caller: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let share = site.open_stream(caller, &headers)?;
    let telling = site.feed().source().servers().traffic();
    let stop = site.face.options().stop.clone();
    Ok(sse::telling(telling, stop, share))
}
