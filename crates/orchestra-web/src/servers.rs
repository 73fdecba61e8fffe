//! The servers of others, and the figures of the program, for people and for what watches over it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use orchestra_hub::{Hub, PeerReport, PeerStatus, ProviderId};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::Site,
    figures,
    refusal::{Guarded, Refusal},
    rest::Answer,
};

/// The routes with their descriptions.
pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::default()
        .routes(routes!(servers))
        .routes(routes!(metrics))
}

/// The servers.
#[derive(Serialize, ToSchema)]
struct Servers {
    servers: Vec<Server>,
    /// How many there are.
    count: usize,
}

/// How one server is. Counters begin with its provider.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
struct Server {
    name: String,
    /// `stdio`, `http` or `quic`, unless its definition cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    transport: Option<&'static str>,
    /// The revision of MCP that it speaks, once it was greeted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    protocol: Option<&'static str>,
    /// `idle`, `starting`, `ready`, `degraded`, `restarting`, `offline`, `needs_auth`, `invalid`,
    /// `needs_approval`, `disabled` or `closed`.
    status: &'static str,
    /// Why, where that is not as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    calls: Calls,
    /// Starts after the first.
    restarts: u64,
    /// Starts that failed, the tries to reach it over a network included.
    failed_starts: u64,
    /// Lines that it printed on standard output and that are no messages.
    junk_lines: u64,
    /// Another one when its definition is another: of the definition by which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    fingerprint: Option<String>,
    /// Processes that run for it.
    processes: usize,
    /// Bytes of parameters sent.
    bytes_out: u64,
    /// Bytes of results received.
    bytes_in: u64,
    latency_ms: Latency,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    last_error: Option<LastError>,
    /// For how long it has been ready without a break, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    uptime_s: Option<u64>,
}

/// Calls by their end.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
struct Calls {
    /// They brought a result.
    answered: u64,
    /// They brought an error.
    refused: u64,
    /// They failed.
    failed: u64,
    /// They were not sent, or cancelled.
    aside: u64,
    /// They run.
    in_flight: usize,
}

/// Milliseconds that calls took.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
struct Latency {
    /// Mean of the last 100.
    mean: f64,
    /// Half of the last 1 024 took at most this long.
    p50: f64,
    /// Nine of ten did.
    p90: f64,
    /// 99 of 100 did.
    p99: f64,
    /// The mean wait of the last 100 before they were sent.
    queue: f64,
    /// Each of the last 60, oldest first.
    recent: Vec<f64>,
}

/// What failed last.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
struct LastError {
    /// Milliseconds since 1970.
    unix_ms: u64,
    text: String,
}

/// The servers of others: how each is, what it did, how long its calls took.
#[utoipa::path(
    get, path = "/api/mcp/servers", tag = "service",
    responses((status = 200, description = "Servers in configured order.", body = Servers), Guarded)
)]
async fn servers(State(site): State<Arc<Site>>) -> Answer {
    let servers = now(site.face.server().hub());
    site.answer(serde_json::to_vec(&servers).expect("the report has a JSON form"))
}

/// The servers as they are now.
fn now(hub: &Hub) -> Servers {
    let peers = hub.peers().into_iter();
    let servers: Vec<Server> = peers.map(|(id, report)| shown(&id, report)).collect();
    Servers {
        count: servers.len(),
        servers,
    }
}

/// The servers as they are told to those who watch, who count the time themselves: two are the same
/// unless something has happened.
#[derive(Serialize)]
pub(crate) struct Told(Servers);

impl PartialEq for Told {
    fn eq(&self, other: &Self) -> bool {
        let timeless = |told: &Self| {
            let servers = told.0.servers.iter().cloned();
            let timeless = servers.map(|server| Server {
                uptime_s: server.uptime_s.map(|_| 0),
                // When the next try is, counts down.
                reason: server
                    .reason
                    .filter(|_| server.status != PeerStatus::Offline.as_str()),
                ..server
            });
            timeless.collect::<Vec<_>>()
        };
        timeless(self) == timeless(other)
    }
}

/// The servers for those who watch.
pub(crate) fn told(hub: &Hub) -> Told {
    Told(now(hub))
}

/// The figures of the program, in the format of OpenMetrics, which Prometheus reads.
#[utoipa::path(
    get, path = "/metrics", tag = "service",
    responses(
        (status = 200, description = "The figures.", body = String,
            content_type = "application/openmetrics-text"),
        Guarded
    )
)]
async fn metrics(State(site): State<Arc<Site>>) -> Result<Response, Refusal> {
    let text = figures::text(site.face.server().hub());
    let body = site.face.hold(text.into())?;
    let kind = HeaderValue::from_static(figures::MEDIA_TYPE);
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

fn shown(id: &ProviderId, report: PeerReport) -> Server {
    let (calls, latency) = (report.calls, report.latency);
    let millis = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    Server {
        name: id.to_string(),
        transport: Some(report.transport).filter(|transport| !transport.is_empty()),
        protocol: report.protocol,
        status: report.status.as_str(),
        reason: report.reason,
        calls: Calls {
            answered: calls.answered,
            refused: calls.refused,
            failed: calls.failed,
            aside: calls.aside,
            in_flight: report.in_flight,
        },
        restarts: report.restarts,
        failed_starts: report.failed_starts,
        junk_lines: report.junk_lines,
        fingerprint: report.fingerprint,
        processes: report.processes.len(),
        bytes_out: report.bytes_out,
        bytes_in: report.bytes_in,
        latency_ms: Latency {
            mean: millis(latency.mean),
            p50: millis(latency.p50),
            p90: millis(latency.p90),
            p99: millis(latency.p99),
            queue: millis(latency.queue),
            recent: report.recent.into_iter().map(millis).collect(),
        },
        last_error: report.last_error.map(|(at, text)| LastError {
            unix_ms: unix_millis(at),
            text,
        }),
        uptime_s: report.uptime.map(|uptime| uptime.as_secs()),
    }
}

fn unix_millis(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
