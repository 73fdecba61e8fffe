//! How a server is, as the hub tells it.

use orchestra_hub::{ListKind, PeerCalls, PeerLatency, PeerReport, PeerStatus};
use orchestra_mcp::client::{ClientStats, ClientStatus, quoted};
use tokio::time::Instant;

use super::Server;

/// Names of tools that a reason tells.
const MAX_NAMED: usize = 10;

/// What is known of a server.
pub(crate) fn report(server: &Server) -> PeerReport {
    let client = &server.client;
    let (metadata, stats) = (client.metadata(), client.stats());
    let offered = server.offered();
    let told = client.status().borrow().clone();
    let mut own_cause = own_cause(server.name(), &told);
    let (status, why) = match (said(server.name(), &told), stats.failing.clone()) {
        // It is not well before it was seen to be.
        ((PeerStatus::Starting, None), Some(why)) => {
            own_cause = Some(with_logs(server.name(), "its last start failed"));
            (PeerStatus::Restarting, Some(why))
        }
        (said, _) => said,
    };
    let failed = ListKind::ALL.into_iter().zip(server.failed_lists().clone());
    let failed = failed.filter_map(|(kind, error)| Some((kind, error?)));
    let failed: Vec<(ListKind, String)> = failed.collect();
    // A connection that is lost is the cause of its failed lists.
    let unlisted: Vec<(String, &String)> = failed
        .iter()
        .filter(|_| !status.is_failed())
        .map(|(kind, error)| {
            let what = match kind {
                ListKind::Tools => "tools",
                ListKind::Prompts => "prompts",
                ListKind::Resources => "resources",
                ListKind::Templates => "resource templates",
            };
            (format!("its {what} cannot be listed"), error)
        })
        .collect();
    let own_reasons: Vec<String> = own_cause
        .into_iter()
        .chain(unlisted.iter().map(|(what, _)| what.clone()))
        .collect();
    let unlisted = unlisted
        .iter()
        .map(|(what, error)| format!("{what}: {error}"));
    let reasons: Vec<String> = why
        .into_iter()
        .chain(unlisted)
        .chain(printed(server.name(), &stats))
        .chain(hidden(&offered.all_hidden()))
        .chain(offered.surplus.iter().cloned())
        .collect();
    let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
    let own_reason = (!own_reasons.is_empty()).then(|| own_reasons.join("; "));
    PeerReport {
        transport: server.config.transport.carried_by().as_str(),
        protocol: Some(metadata.protocol_version).filter(|version| !version.is_empty()),
        status,
        is_known: server.is_known(),
        unlisted: failed.iter().map(|(kind, _)| *kind).collect(),
        reason,
        own_reason,
        calls: PeerCalls {
            answered: stats.answered,
            refused: stats.refused,
            failed: stats.failed,
            aside: stats.aside,
        },
        in_flight: stats.in_flight,
        restarts: stats.restarts,
        failed_starts: stats.failed_starts,
        junk_lines: stats.junk_lines,
        fingerprint: Some(server.fingerprint.as_str().to_owned()),
        bytes_out: stats.bytes_out,
        bytes_in: stats.bytes_in,
        latency: PeerLatency {
            mean: stats.mean,
            p50: stats.p50,
            p90: stats.p90,
            p99: stats.p99,
            queue: stats.queue,
        },
        recent: stats.recent,
        last_error: stats.last_error,
        uptime: stats.ready_since.map(|since| since.elapsed()),
        processes: client.process_ids(),
    }
}

/// What it printed that is no message.
fn printed(server: &str, stats: &ClientStats) -> Option<String> {
    let first = stats.junk.as_deref()?;
    let lines = match stats.junk_lines {
        1 => "1 line that is not a message".to_owned(),
        count => format!("{count} lines that are not messages"),
    };
    Some(format!(
        "it printed {lines}: {} (`orchestra mcp logs {server}`)",
        quoted(first)
    ))
}

/// What of its tools is not shown.
fn hidden(tools: &[&str]) -> Option<String> {
    let named: Vec<String> = tools
        .iter()
        .take(MAX_NAMED)
        .map(|tool| quoted(tool))
        .collect();
    let dots = if named.len() < tools.len() {
        " …"
    } else {
        ""
    };
    (!tools.is_empty()).then(|| {
        format!(
            "tools hidden until `orchestra mcp approve` takes them: {}{dots}",
            named.join(", ")
        )
    })
}

pub(super) fn said(server: &str, status: &ClientStatus) -> (PeerStatus, Option<String>) {
    match status {
        ClientStatus::Idle => (PeerStatus::Idle, None),
        ClientStatus::Starting => (PeerStatus::Starting, None),
        ClientStatus::Ready => (PeerStatus::Ready, None),
        ClientStatus::Degraded(why) => (PeerStatus::Degraded, Some(why.clone())),
        ClientStatus::Restarting { reason, .. } => {
            (PeerStatus::Restarting, Some(reason.in_short()))
        }
        ClientStatus::Offline { next_at, reason } => {
            let wait = next_at.saturating_duration_since(Instant::now());
            let why = format!(
                "{}; the next try is in {} s, or at once with `orchestra mcp restart {server}`",
                reason.in_short(),
                wait.as_secs_f64().ceil()
            );
            (PeerStatus::Offline, Some(why))
        }
        ClientStatus::NeedsAuth(what) => (PeerStatus::NeedsAuth, Some(what.clone())),
        ClientStatus::Invalid(what) => (PeerStatus::Invalid, Some(what.clone())),
        ClientStatus::Closed => (PeerStatus::Closed, None),
    }
}

/// Returns the reason for a status, without text of the server.
fn own_cause(server: &str, status: &ClientStatus) -> Option<String> {
    match status {
        ClientStatus::Restarting { reason, .. } | ClientStatus::Offline { reason, .. } => {
            Some(with_logs(server, &reason.own_cause()))
        }
        ClientStatus::NeedsAuth(_) => Some(format!("`orchestra mcp login {server}` signs in")),
        ClientStatus::Invalid(what) => Some(what.clone()),
        _ => None,
    }
}

fn with_logs(server: &str, cause: &str) -> String {
    format!("{cause}; `orchestra mcp logs {server}` shows its output")
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use orchestra_mcp::client::{ClientError, Crash};

    use super::*;

    #[test]
    fn own_cause_has_no_text_of_the_server() {
        let crash = Crash {
            exit: Some(1),
            stderr_tail: "ok); good has moved".to_owned(),
            ..Crash::default()
        };
        let offline = ClientStatus::Offline {
            next_at: Instant::now(),
            reason: Arc::new(ClientError::Crashed(Arc::new(crash))),
        };
        let expected =
            "the process ended with exit code 1; `orchestra mcp logs evil` shows its output";
        assert_eq!(own_cause("evil", &offline).as_deref(), Some(expected));
    }

    #[test]
    fn whoever_is_left_alone_is_said_to_be_offline_and_until_when() {
        let offline = ClientStatus::Offline {
            next_at: Instant::now() + Duration::from_secs(60),
            reason: Arc::new(ClientError::Closed),
        };
        let (status, why) = said("files", &offline);
        assert_eq!(status, PeerStatus::Offline);
        let expected = "transport: connection closed; the next try is in 60 s, or at once with \
                        `orchestra mcp restart files`";
        assert_eq!(why.as_deref(), Some(expected));
    }
}
