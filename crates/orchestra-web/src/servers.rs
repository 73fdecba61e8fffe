//! State of the upstream servers, and metrics of the program.

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

/// List of upstream servers.
#[derive(Serialize, ToSchema)]
struct Servers {
    servers: Vec<Server>,
    /// Number of servers.
    count: usize,
}

/// State of an upstream server, and counters of its calls. The counters start at zero when the server is registered.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
struct Server {
    /// Name of the server.
    name: String,
    /// `stdio`, `http` or `quic`. Absent if the definition is unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    transport: Option<&'static str>,
    /// Negotiated revision of MCP. Absent before the first connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    protocol: Option<&'static str>,
    /// `idle`, `starting`, `ready`, `degraded`, `restarting`, `offline`, `needs_auth`, `invalid`,
    /// `needs_approval`, `disabled` or `closed`.
    status: &'static str,
    /// Reason for the status. Absent if the server works as configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    calls: Calls,
    /// Number of starts after the first start.
    restarts: u64,
    /// Number of failed starts and failed attempts to connect.
    failed_starts: u64,
    /// Number of lines on standard output that are not messages.
    junk_lines: u64,
    /// Fingerprint of the definition in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    fingerprint: Option<String>,
    /// Number of running processes of the server.
    processes: usize,
    /// Number of bytes of parameters sent to the server.
    bytes_out: u64,
    /// Number of bytes of results received from the server.
    bytes_in: u64,
    latency_ms: Latency,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    last_error: Option<LastError>,
    /// Time since the server last became ready, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    uptime_s: Option<u64>,
}

/// Number of calls of a server by outcome.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
struct Calls {
    /// Calls that returned a result.
    answered: u64,
    /// Calls that returned a JSON-RPC error.
    refused: u64,
    /// Calls without a valid response, for example because of a timeout or a lost connection.
    failed: u64,
    /// Calls that were cancelled or not sent.
    aside: u64,
    /// Calls in progress.
    in_flight: usize,
}

/// Duration of calls, in milliseconds.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
struct Latency {
    /// Mean of the last 100 calls.
    mean: f64,
    /// Median of the last 1 024 calls.
    p50: f64,
    /// 90th percentile of the last 1 024 calls.
    p90: f64,
    /// 99th percentile of the last 1 024 calls.
    p99: f64,
    /// Mean wait of the last 100 calls before they were sent.
    queue: f64,
    /// Duration of each of the last 60 calls, oldest first.
    recent: Vec<f64>,
}

/// Last error of a server.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
struct LastError {
    /// Time of the error, in milliseconds since 1970-01-01 UTC.
    unix_ms: u64,
    /// Text of the error.
    text: String,
}

/// Lists the upstream servers with their state, and the number and duration of their calls.
#[utoipa::path(
    get, path = "/api/mcp/servers", tag = "service",
    responses((status = 200, description = "Servers in configured order.", body = Servers), Guarded)
)]
async fn servers(State(site): State<Arc<Site>>) -> Answer {
    let servers = now(site.face.server().hub());
    site.answer(serde_json::to_vec(&servers).expect("the report has a JSON form"))
}

/// Current state of the servers.
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

/// Returns the metrics of the program in the OpenMetrics format, for example for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "service",
    responses(
        (status = 200, description = "Metrics in the OpenMetrics format.", body = String,
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
