//! Whether the program lives, and whether it can be asked. Nobody has to show who they are for that.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use orchestra_hub::{Hub, PeerReport, PeerStatus, ProviderId};
use orchestra_mcp::PartLook;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{app::Site, refusal::Refusals};

/// The routes with their descriptions.
pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::default()
        .routes(routes!(health))
        .routes(routes!(ready))
}

/// That the program lives.
#[derive(Serialize, ToSchema)]
struct Health {
    /// `ok`.
    status: &'static str,
    /// Providers that can be called now: built-in ones, and plugins and upstream servers that run.
    plugins: usize,
    /// The version of the program.
    version: String,
    /// For how long it has been up, in seconds.
    uptime_s: u64,
    /// The revisions of MCP that are served, oldest first.
    mcp_revisions: Vec<&'static str>,
    /// Servers of others that cannot be used now, and should be. Why not, `/api/mcp/servers` tells.
    failed: Vec<Failed>,
    /// Files of servers of others that cannot be read or understood now. What they said before holds.
    unread_files: Vec<String>,
    /// What is served beside MCP and has a life of its own, such as the plans.
    parts: Vec<Part>,
}

/// What has a life of its own.
#[derive(Serialize, ToSchema)]
struct Part {
    name: &'static str,
    /// `connected`, `available`, `stopped` or `error`. Why it is an error, the log tells.
    status: &'static str,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// A server of others that cannot be used now.
#[derive(Serialize, ToSchema)]
struct Failed {
    name: String,
    /// `restarting`, `offline`, `needs_auth` or `invalid`.
    status: &'static str,
}

fn failed(hub: &Hub) -> Vec<Failed> {
    let failed = |(id, report): (ProviderId, PeerReport)| {
        report.status.is_failed().then(|| Failed {
            name: id.to_string(),
            status: report.status.as_str(),
        })
    };
    hub.peers().into_iter().filter_map(failed).collect()
}

/// Number of providers that can be called now.
fn alive(hub: &Hub) -> usize {
    let peers: HashMap<ProviderId, PeerReport> = hub.peers().into_iter().collect();
    let runs = |id: &ProviderId| {
        let status = peers.get(id).map(|report| report.status);
        status.is_none_or(|status| matches!(status, PeerStatus::Ready | PeerStatus::Degraded))
    };
    let providers = hub.providers().into_iter();
    providers.filter(|(id, _)| runs(id)).count()
}

/// Whether the program can be asked.
#[derive(Serialize, ToSchema)]
struct Readiness {
    status: Stage,
    /// Providers that do not know yet what they offer.
    waiting_for: Vec<String>,
    /// Servers of others that cannot be used now, and should be. Nobody waits for them.
    failed: Vec<Failed>,
    /// Files of servers of others that cannot be read or understood now. What they said before holds.
    unread_files: Vec<String>,
}

/// Where the program stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// Nobody is registered, or somebody does not know yet what they offer.
    Starting,
    /// It can be asked.
    Ready,
    /// It is about to end.
    Stopping,
}

/// Whether the program lives.
#[utoipa::path(
    get, path = "/health", tag = "service",
    responses((status = 200, description = "It lives.", body = Health), Refusals)
)]
async fn health(State(site): State<Arc<Site>>) -> Response {
    let server = site.face.server();
    let parts = site.face.options().parts.iter().map(PartLook::look);
    let parts = parts.map(|part| Part {
        name: part.name,
        status: part.status.as_str(),
        reason: part.reason,
    });
    let health = Health {
        status: "ok",
        plugins: alive(server.hub()),
        version: server.version().to_owned(),
        uptime_s: site.began.elapsed().as_secs(),
        mcp_revisions: site.face.options().eras.revisions().collect(),
        failed: failed(server.hub()),
        unread_files: server.hub().unread_files(),
        parts: parts.collect(),
    };
    Json(health).into_response()
}

/// Whether the program can be asked: every provider that is registered knows what it offers.
#[utoipa::path(
    get, path = "/ready", tag = "service",
    responses(
        (status = 200, description = "The server is ready.", body = Readiness),
        (status = 503, description = "The server is starting or stopping.", body = Readiness),
        Refusals
    )
)]
async fn ready(State(site): State<Arc<Site>>) -> Response {
    let providers = site.face.server().hub().providers();
    let is_known = !providers.is_empty();
    let waiting_for: Vec<String> = providers
        .into_iter()
        .filter(|(_, is_ready)| !is_ready)
        .map(|(id, _)| id.to_string())
        .collect();
    let stop = site.face.options().stop.as_ref();
    let stage = if stop.is_some_and(|stop| *stop.borrow()) {
        Stage::Stopping
    } else if is_known && waiting_for.is_empty() {
        Stage::Ready
    } else {
        Stage::Starting
    };
    let status = match stage {
        Stage::Ready => StatusCode::OK,
        Stage::Starting | Stage::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    };
    let readiness = Readiness {
        status: stage,
        waiting_for,
        failed: failed(site.face.server().hub()),
        unread_files: site.face.server().hub().unread_files(),
    };
    (status, Json(readiness)).into_response()
}
