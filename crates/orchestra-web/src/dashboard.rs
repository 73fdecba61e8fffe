//! The dashboard: pages that show the workspace and what changes of it as it changes.
//!
//! | route | does |
//! |---|---|
//! | `GET /` and the page `/board` with all below it | the page; what it shows it asks for |
//! | `GET /assets/{version}/{file}` | its scripts, styles and pictures |
//! | `POST /api/login`, `POST /api/logout` | a cookie for whoever shows a token, and its end |
//! | `GET /api/events` | what happens, as events |
//! | `GET /api/board`, `GET /api/board/{project}` | the projects; one with all of its issues |
//! | `GET /api/plans`, `GET /api/plans/{plan}` | the plans; one with all of its jobs |
//! | `POST /api/agents/{agent}/approve` | an agent that a plan asks for approved, as it was shown |
//! | `GET /api/plans/{plan}/jobs/{job}/diff` | what a job changed |
//! | `GET /api/plans/{plan}/jobs/{job}/log` | what it prints, as events |
//! | all else below `/api/plans` | the tools of plans by other names |
//! | `GET /api/usage?from=&to=` | what models cost, by day |
//! | `POST /api/servers/{name}/{act}` | a server of others restarted, enabled, disabled, approved |
//! | `GET /api/servers/{name}/definition` | what it would run, and what waits to be approved |
//! | `GET /api/servers/{name}/log`, `…/log/follow` | what it writes to standard error; the same as events |
//! | `GET /api/traffic` | what is said to servers and what they say, as events |
//!
//! What changes something of the board, of memory or of plans is a call of a tool like any other, so that
//! nothing can be done here that cannot be done, refused and recorded everywhere else. An
//! action on an upstream server or an agent is what `orchestra mcp` and `orchestra plan agents` do, and is recorded in
//! the audit log as an action.

mod assets;
mod events;
mod feed;
mod login;
mod page;
mod plans;
mod servers;
mod sse;
mod verbs;

use std::{pin::Pin, sync::Arc, time::Instant};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use futures_util::Stream;
use orchestra_hub::{Action, BoxFuture, CallEnd, Caller, Hub};
use orchestra_mcp::DirectCaller;
use serde::Deserialize;
use tower_http::{CompressionLevel, compression::CompressionLayer};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::{FACE, Site},
    asked::{Path, Query},
    refusal::{Guarded, Reason, Refusal, ThingRefusals},
    rest,
};
pub(crate) use feed::Feed;
pub(crate) use login::routes as login_routes;
pub(crate) use page::nowhere;
pub use servers::{Act, NotDone, Servers};

/// Takes what is told: the kind of an event, which is one word, and its data, which is one line of
/// JSON.
pub type Tell = Arc<dyn Fn(&'static str, String) + Send + Sync>;

/// Why something cannot be shown.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotShown {
    /// There is no such thing.
    #[error("{0}")]
    Unknown(String),
    /// It is there, and cannot be read now.
    #[error("{0}")]
    Unreadable(String),
}

/// An object of JSON as text.
pub type Shown = Result<String, NotShown>;

/// What is told of one thing as it happens: kinds of events and their data, as for [`Tell`].
pub type Telling = Pin<Box<dyn Stream<Item = (&'static str, String)> + Send>>;

/// Which lines of the log of a job.
#[derive(Debug, Clone, Default)]
pub struct LogFrom {
    /// Of which attempt, counted from 1; of the latest unless said.
    pub attempt: Option<u32>,
    /// Of which phase; of all unless said.
    pub phase: Option<String>,
    /// Those behind this one.
    pub after: Option<u64>,
}

/// What a dashboard shows. Each answer is an object of JSON.
pub trait Source: Send + Sync + 'static {
    /// The workspace, by which people tell one dashboard from another.
    fn workspace(&self) -> String;

    /// The projects.
    fn projects(&self) -> BoxFuture<Shown>;

    /// A project with all of its issues.
    fn board(&self, project: String) -> BoxFuture<Shown>;

    /// The plans.
    fn plans(&self) -> BoxFuture<Shown>;

    /// A plan with all of its jobs.
    fn plan(&self, plan: String) -> BoxFuture<Shown>;

    /// Stores that the user agreed to an agent that a plan asks for, and returns a sentence that confirms it; `seen` is the
    /// fingerprint of what they were shown.
    fn agree(&self, agent: String, seen: String) -> BoxFuture<Result<String, NotDone>>;

    /// What a job of a plan changed, as `{"text": …, "truncated": …}`, a unified diff.
    fn diff(&self, plan: String, job: String) -> BoxFuture<Shown>;

    /// What a job prints, as it does.
    fn log(&self, plan: String, job: String, from: LogFrom)
    -> BoxFuture<Result<Telling, NotShown>>;

    /// What models cost from one day to another, both included, as `2026-02-14`.
    fn usage(&self, from: Option<String>, to: Option<String>) -> BoxFuture<Shown>;

    /// The servers of others.
    fn servers(&self) -> Arc<dyn Servers>;

    /// Tells what changes, from the return of this call on, until what it returned is dropped.
    fn follow(&self, tell: Tell) -> BoxFuture<()>;
}

/// The routes that everybody may ask for: nothing of the workspace is in what they answer.
pub(crate) fn public_routes() -> Router<Arc<Site>> {
    page::routes().merge(assets::routes()).layer(compression())
}

/// The routes of what is shown.
pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    let shown = OpenApiRouter::default()
        .routes(routes!(projects))
        .routes(routes!(board))
        .routes(routes!(usage))
        .merge(plans::routes())
        .merge(verbs::routes())
        .merge(servers::routes())
        .layer(compression());
    shown
        .merge(plans::streams())
        .merge(servers::streams())
        .merge(events::routes())
}

/// Whoever waits for an answer waits for its compression, too.
fn compression() -> CompressionLayer {
    CompressionLayer::new().quality(CompressionLevel::Fastest)
}

/// Lists the projects.
#[utoipa::path(
    get, path = "/api/board", tag = "board",
    responses((status = 200, description = "List of projects.", body = Value), Guarded, ThingRefusals)
)]
async fn projects(State(site): State<Arc<Site>>) -> Result<Response, Refusal> {
    show(&site, |source| source.projects()).await
}

/// Returns a project with its issues.
#[utoipa::path(
    get, path = "/api/board/{project}", tag = "board",
    params(
        ("project" = String, Path, description = "Identifier of the project.")
    ),
    responses((status = 200, description = "The project with its issues.", body = Value), Guarded, ThingRefusals)
)]
async fn board(
    State(site): State<Arc<Site>>,
    Path(project): Path<String>,
) -> Result<Response, Refusal> {
    show(&site, |source| source.board(project)).await
}

/// Range of days.
#[derive(Deserialize)]
struct Days {
    from: Option<String>,
    to: Option<String>,
}

/// Returns the cost of language models for each day of a period.
#[utoipa::path(
    get, path = "/api/usage", tag = "usage",
    params(
        ("from" = Option<String>, Query, description = "First day, for example 2026-02-14."),
        ("to" = Option<String>, Query, description = "Last day, for example 2026-02-28.")
    ),
    responses((status = 200, description = "Cost of models per day.", body = Value), Guarded, ThingRefusals)
)]
async fn usage(
    State(site): State<Arc<Site>>,
    Query(days): Query<Days>,
) -> Result<Response, Refusal> {
    let said = |day: Option<String>| day.filter(|day| !day.is_empty());
    show(&site, |source| source.usage(said(days.from), said(days.to))).await
}

/// Performs an action that is not a call of a tool, and records it in the audit log. `name` is the action and its
/// object.
async fn act(
    site: &Site,
    headers: &HeaderMap,
    name: String,
    action: BoxFuture<Result<String, NotDone>>,
) -> Result<String, Refusal> {
    let DirectCaller { client, trace, .. } = rest::caller(headers);
    let mut recorded = Recorded {
        hub: &site.hub,
        action: Action {
            caller: Caller { face: FACE, client },
            name,
            end: CallEnd::Cancelled,
            began: Instant::now(),
            trace,
        },
    };
    let done = action.await;
    recorded.action.end = match &done {
        Ok(_) => CallEnd::Answered,
        Err(NotDone::Unknown(_)) => CallEnd::Unknown,
        Err(NotDone::Refused(_)) => CallEnd::Denied,
        Err(NotDone::Broke(_)) => CallEnd::Refused,
    };
    done.map_err(Refusal::from)
}

/// Records an action when it ends, also if its client goes away.
struct Recorded<'h> {
    hub: &'h Hub,
    action: Action,
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        if let Some(audit) = self.hub.audit() {
            audit.record_action(self.action.clone());
        }
    }
}

/// Answers what the source shows, with the number of the last event that it may hold the effect of:
/// what was told up to there, it has.
async fn show(
    site: &Site,
    ask: impl FnOnce(&dyn Source) -> BoxFuture<Shown>,
) -> Result<Response, Refusal> {
    let feed = site.feed();
    let at = feed.last();
    let shown = ask(feed.source()).await?;
    let rest = shown.strip_prefix('{').unwrap_or_default();
    let body = site.face.hold(format!("{{\"at\":{at},{rest}").into())?;
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}

impl From<NotDone> for Refusal {
    fn from(error: NotDone) -> Self {
        let reason = match error {
            NotDone::Unknown(_) => Reason::Unknown,
            NotDone::Refused(_) => Reason::Denied,
            NotDone::Broke(_) => Reason::Broke,
        };
        Self::new(reason, error.to_string())
    }
}

impl From<NotShown> for Refusal {
    fn from(error: NotShown) -> Self {
        let reason = match error {
            NotShown::Unknown(_) => Reason::Unknown,
            NotShown::Unreadable(_) => Reason::Broke,
        };
        Self::new(reason, error.to_string())
    }
}
