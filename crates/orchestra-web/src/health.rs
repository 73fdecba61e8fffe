//! Health and readiness of the program. Both are served without authentication.

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

/// Health of the program.
#[derive(Serialize, ToSchema)]
struct Health {
    /// Always `ok`.
    status: &'static str,
    /// Number of available providers: built-in providers, running plugins and running upstream servers.
    plugins: usize,
    /// Version of the program.
    version: String,
    /// Time since the start of the program, in seconds.
    uptime_s: u64,
    /// Supported revisions of MCP, oldest first.
    mcp_revisions: Vec<&'static str>,
    /// Enabled upstream servers that are unavailable. `/api/mcp/servers` lists the reasons.
    failed: Vec<Failed>,
    /// Unreadable or invalid configuration files of upstream servers. Their last valid content remains in effect.
    unread_files: Vec<String>,
    /// State of the plan runner and of the board synchronization.
    parts: Vec<Part>,
}

/// State of a component of this program.
#[derive(Serialize, ToSchema)]
struct Part {
    /// Name of the component.
    name: &'static str,
    /// `connected`, `available`, `stopped` or `error`. The log contains the cause of an error.
    status: &'static str,
    /// Condition that the component waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// An enabled upstream server that is unavailable.
#[derive(Serialize, ToSchema)]
struct Failed {
    /// Name of the server.
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

/// Number of available providers.
fn alive(hub: &Hub) -> usize {
    let peers: HashMap<ProviderId, PeerReport> = hub.peers().into_iter().collect();
    let runs = |id: &ProviderId| {
        let status = peers.get(id).map(|report| report.status);
        status.is_none_or(|status| matches!(status, PeerStatus::Ready | PeerStatus::Degraded))
    };
    let providers = hub.providers().into_iter();
    providers.filter(|(id, _)| runs(id)).count()
}

/// Readiness of this program for requests.
#[derive(Serialize, ToSchema)]
struct Readiness {
    /// Current phase.
    status: Stage,
    /// Providers that have not reported their catalog yet.
    waiting_for: Vec<String>,
    /// Enabled upstream servers that are unavailable. They do not delay readiness.
    failed: Vec<Failed>,
    /// Unreadable or invalid configuration files of upstream servers. Their last valid content remains in effect.
    unread_files: Vec<String>,
}

/// Phase of this program: it is starting, ready or stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// No provider is registered, or a provider has not reported its catalog yet.
    Starting,
    /// The program accepts requests.
    Ready,
    /// The program is shutting down.
    Stopping,
}

/// Reports the health of this program.
#[utoipa::path(
    get, path = "/health", tag = "service",
    responses((status = 200, description = "The program is running.", body = Health), Refusals)
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

/// Reports whether this program is ready. The program is ready when each of its providers has reported its tools,
/// prompts and resources.
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
