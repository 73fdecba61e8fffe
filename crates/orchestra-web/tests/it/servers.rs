//! How the servers of others are, and the figures of the program.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use orchestra_hub::{PeerCalls, PeerLatency, PeerReport, PeerStatus};
use serde_json::{Value, json};

use crate::{site::Site, toys::visitor};

fn report() -> PeerReport {
    PeerReport {
        transport: "stdio",
        protocol: Some("2025-11-25"),
        status: PeerStatus::Restarting,
        is_known: true,
        unlisted: Vec::new(),
        reason: Some("it crashed".into()),
        own_reason: None,
        calls: PeerCalls {
            answered: 40,
            refused: 2,
            failed: 3,
            aside: 1,
        },
        in_flight: 5,
        restarts: 6,
        failed_starts: 4,
        junk_lines: 3,
        fingerprint: Some("f00d".into()),
        bytes_out: 700,
        bytes_in: 800,
        latency: PeerLatency {
            mean: Duration::from_micros(1_500),
            p50: Duration::from_millis(1),
            p90: Duration::from_millis(2),
            p99: Duration::from_millis(250),
            queue: Duration::from_micros(30),
        },
        recent: vec![Duration::from_millis(1), Duration::from_micros(2_500)],
        last_error: Some((UNIX_EPOCH + Duration::from_millis(9), "it crashed".into())),
        uptime: Some(Duration::from_secs(61)),
        processes: vec![4_711],
    }
}

async fn site_with_a_server() -> Site {
    let site = Site::new().await;
    let server = visitor("files", "visit");
    *server.peer.lock().unwrap() = Some(report());
    site.hub.register(Arc::clone(&server) as _).unwrap();
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_others_are_told_as_they_are() {
    let site = site_with_a_server().await;
    let (status, told) = site.rest("GET /api/mcp/servers", &Value::Null).await;
    assert_eq!(status, 200);
    let expected = json!({"count": 1, "servers": [{
        "name": "files",
        "transport": "stdio",
        "protocol": "2025-11-25",
        "status": "restarting",
        "reason": "it crashed",
        "calls": {"answered": 40, "refused": 2, "failed": 3, "aside": 1, "in_flight": 5},
        "restarts": 6,
        "failed_starts": 4,
        "junk_lines": 3,
        "fingerprint": "f00d",
        "processes": 1,
        "bytes_out": 700,
        "bytes_in": 800,
        "latency_ms": {"mean": 1.5, "p50": 1.0, "p90": 2.0, "p99": 250.0, "queue": 0.03, "recent": [1.0, 2.5]},
        "last_error": {"unix_ms": 9, "text": "it crashed"},
        "uptime_s": 61,
    }]});
    assert_eq!(told, expected);
    // Whoever speaks for nobody is no server.
    let (_, none) = Site::new()
        .await
        .rest("GET /api/mcp/servers", &Value::Null)
        .await;
    assert_eq!(none, json!({"servers": [], "count": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_told_as_prometheus_reads_them() {
    let site = site_with_a_server().await;
    let call = json!({"name": "echo", "arguments": {"text": "hello"}});
    let (status, _) = site.rest("POST /api/mcp/tools/call", &call).await;
    assert_eq!(status, 200);
    let answer = site.send("GET /metrics", &[], "").await;
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"));
    let text = String::from_utf8(answer.body).unwrap();
    for line in [
        "orchestra_calls_total{end=\"answered\"} 1",
        "orchestra_calls_waiting 0",
        "orchestra_call_seconds_count 1",
        "orchestra_call_seconds_bucket{le=\"+Inf\"} 1",
        "orchestra_tool_calls_total{tool=\"echo\"} 1",
        "orchestra_tool_failures_total{tool=\"echo\"} 0",
        "orchestra_server_status{server=\"files\",status=\"restarting\"} 1",
        "orchestra_server_status{server=\"files\",status=\"ready\"} 0",
        "orchestra_server_processes{server=\"files\"} 1",
        "orchestra_server_in_flight{server=\"files\"} 5",
        "orchestra_server_uptime_seconds{server=\"files\"} 61.0",
        "orchestra_server_calls_total{server=\"files\",end=\"failed\"} 3",
        "orchestra_server_restarts_total{server=\"files\"} 6",
        "orchestra_server_failed_starts_total{server=\"files\"} 4",
        "orchestra_server_junk_lines_total{server=\"files\"} 3",
        "orchestra_server_sent_bytes_total{server=\"files\"} 700",
        "orchestra_server_received_bytes_total{server=\"files\"} 800",
        "orchestra_server_latency_seconds{server=\"files\",quantile=\"0.99\"} 0.25",
        "orchestra_server_latency_mean_seconds{server=\"files\"} 0.0015",
        "orchestra_server_queue_mean_seconds{server=\"files\"} 0.00003",
        "# EOF",
    ] {
        assert!(
            text.lines().any(|said| said == line),
            "{line} is not in\n{text}"
        );
    }
}
