//! How a server is, as the hub tells it.

use orchestra_hub::{PeerCalls, PeerLatency, PeerReport, PeerStatus};
use orchestra_mcp::client::ClientStatus;

use super::Server;

/// What is known of a server.
pub(crate) fn report(server: &Server) -> PeerReport {
    let client = &server.client;
    let (metadata, stats) = (client.metadata(), client.stats());
    let (status, reason) = said(&client.status().borrow());
    PeerReport {
        transport: metadata.transport.as_str(),
        protocol: Some(metadata.protocol_version).filter(|version| !version.is_empty()),
        status,
        is_known: server.is_known(),
        reason,
        calls: PeerCalls {
            answered: stats.answered,
            refused: stats.refused,
            failed: stats.failed,
            aside: stats.aside,
        },
        in_flight: stats.in_flight,
        restarts: stats.restarts,
        bytes_out: stats.bytes_out,
        bytes_in: stats.bytes_in,
        latency: PeerLatency {
            mean: stats.mean,
            p50: stats.p50,
            p90: stats.p90,
            p99: stats.p99,
            queue: stats.queue,
        },
        last_error: stats.last_error,
        uptime: stats.ready_since.map(|since| since.elapsed()),
        processes: client.process_ids().len(),
    }
}

fn said(status: &ClientStatus) -> (PeerStatus, Option<String>) {
    match status {
        ClientStatus::Idle => (PeerStatus::Idle, None),
        ClientStatus::Starting => (PeerStatus::Starting, None),
        ClientStatus::Ready => (PeerStatus::Ready, None),
        ClientStatus::Degraded(why) => (PeerStatus::Degraded, Some(why.clone())),
        ClientStatus::Restarting { reason, .. } => {
            (PeerStatus::Restarting, Some(reason.to_string()))
        }
        ClientStatus::Offline { reason, .. } => (PeerStatus::Offline, Some(reason.to_string())),
        ClientStatus::NeedsAuth(what) => (PeerStatus::NeedsAuth, Some(what.clone())),
        ClientStatus::Invalid(what) => (PeerStatus::Invalid, Some(what.clone())),
        ClientStatus::Closed => (PeerStatus::Closed, None),
    }
}
