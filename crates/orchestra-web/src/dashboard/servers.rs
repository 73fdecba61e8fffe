//! Servers of others: what may be done with them, what they write, and what is said to them.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, Query, State, rejection::JsonRejection},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use orchestra_hub::{BoxFuture, Hub};
use serde::{Deserialize, Serialize};

use super::{NotShown, Shown, Tell, Telling, show, sse};
use crate::{
    app::Site,
    refusal::{Reason, Refusal},
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

pub(super) fn routes() -> Router<Arc<Site>> {
    Router::new()
        .route("/api/servers/{name}/definition", get(definition))
        .route("/api/servers/{name}/log", get(log))
        .route("/api/servers/{name}/{act}", post(act))
}

pub(super) fn streams() -> Router<Arc<Site>> {
    Router::new()
        .route("/api/servers/{name}/log/follow", get(follow_log))
        .route("/api/traffic", get(traffic))
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

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Given {
    fingerprint: Option<String>,
}

#[derive(Serialize)]
struct Done {
    name: String,
    verb: String,
    told: String,
}

async fn act(
    State(site): State<Arc<Site>>,
    Path((name, verb)): Path<(String, String)>,
    given: Result<Json<Given>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(given) = given.map_err(|error| {
        let kind = matches!(error, JsonRejection::MissingJsonContentType(_));
        let reason = if kind {
            Reason::NotJson
        } else {
            Reason::Malformed
        };
        Refusal::new(reason, error.body_text())
    })?;
    let act = match (verb.as_str(), given.fingerprint) {
        ("restart", None) => Act::Restart,
        ("enable", None) => Act::Enable,
        ("disable", None) => Act::Disable,
        ("approve", Some(seen)) => Act::Approve { seen },
        ("approve", None) => {
            let text = "`fingerprint` has to say which definition was looked at";
            return Err(Refusal::new(Reason::Malformed, text.to_owned()));
        }
        ("restart" | "enable" | "disable", Some(_)) => {
            let text = "`fingerprint` is for approvals alone";
            return Err(Refusal::new(Reason::Malformed, text.to_owned()));
        }
        _ => {
            let text = "a server is restarted, enabled, disabled or approved";
            return Err(Refusal::new(Reason::Unknown, text.to_owned()));
        }
    };
    let servers = site.feed().source().servers();
    let told = servers.act(name.clone(), act).await.map_err(|error| {
        let reason = match error {
            NotDone::Unknown(_) => Reason::Unknown,
            NotDone::Refused(_) => Reason::Denied,
            NotDone::Broke(_) => Reason::Broke,
        };
        Refusal::new(reason, error.to_string())
    })?;
    Ok(Json(Done { name, verb, told }).into_response())
}

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

async fn log(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
    Query(asked): Query<Lines>,
) -> Result<Response, Refusal> {
    let lines = asked.lines.unwrap_or(USUAL_LINES).clamp(1, MOST_LINES);
    show(&site, |source| source.servers().log(name, lines)).await
}

async fn follow_log(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
) -> Result<Response, Refusal> {
    let telling = site.feed().source().servers().follow_log(name).await?;
    Ok(sse::telling(telling, site.face.options().stop.clone()))
}

async fn traffic(State(site): State<Arc<Site>>) -> Response {
    let telling = site.feed().source().servers().traffic();
    sse::telling(telling, site.face.options().stop.clone())
}
