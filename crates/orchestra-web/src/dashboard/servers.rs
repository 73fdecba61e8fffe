//! Servers of others: what may be done with them, what they write, and what is said to them.

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

/// The most lines of a log that are shown at once.
const MOST_LINES: usize = 5_000;
/// How many are shown unless said.
const USUAL_LINES: usize = 200;

/// How often it is looked, while somebody watches, whether a server is other than it was told to be.
const LOOK: Duration = Duration::from_millis(500);

/// What is done with a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Whoever runs it starts it anew.
    Restart,
    /// It is switched on.
    Enable,
    /// It is switched off.
    Disable,
    /// What waits to be approved of it is.
    Approve {
        /// Tells what was looked at from anything else, as the definition said it.
        seen: String,
    },
}

/// Why something was not done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotDone {
    /// There is no such server.
    #[error("{0}")]
    Unknown(String),
    /// It cannot be done with this one, or not now.
    #[error("{0}")]
    Refused(String),
    /// Something broke.
    #[error("{0}")]
    Broke(String),
}

/// The servers of others that a dashboard shows.
pub trait Servers: Send + Sync + 'static {
    /// Does something with a server, and says in a sentence what.
    fn act(&self, name: String, act: Act) -> BoxFuture<Result<String, NotDone>>;

    /// What a server would run and what of it waits to be approved, as an object of JSON.
    fn definition(&self, name: String) -> BoxFuture<Shown>;

    /// The last lines that a server wrote to standard error, as `{"lines": […]}`.
    fn log(&self, name: String, lines: usize) -> BoxFuture<Shown>;

    /// What it writes there from now on, as events `line` `{text}`.
    fn follow_log(&self, name: String) -> BoxFuture<Result<Telling, NotShown>>;

    /// What is said to servers and what they say, from now on, as events `message` and `dropped`.
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

/// Tells how the servers are whenever one is other, until it is dropped.
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
    /// For an approval: which definition was looked at, as it says itself.
    fingerprint: Option<String>,
}

#[derive(Serialize, ToSchema)]
struct Done {
    name: String,
    verb: String,
    /// What was done, for people.
    told: String,
}

/// Does something with a server of others: `restart`, `enable`, `disable` or `approve`.
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
    let told = servers.act(name.clone(), act).await.map_err(not_done)?;
    Ok(axum::Json(Done { name, verb, told }).into_response())
}

/// The refusal of something that was not done.
pub(super) fn not_done(error: NotDone) -> Refusal {
    let reason = match error {
        NotDone::Unknown(_) => Reason::Unknown,
        NotDone::Refused(_) => Reason::Denied,
        NotDone::Broke(_) => Reason::Broke,
    };
    Refusal::new(reason, error.to_string())
}

/// What a server of others would run, and what waits to be approved.
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

/// The last lines that a server of others wrote to standard error.
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

/// What a server of others writes to standard error from now on, as events.
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

/// What is said to servers of others and what they say, as events.
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
