//! Tells clients that take log messages when a server goes away, and when it is back.

use std::time::Duration;

use orchestra_hub::{LogLevel, Notice, PeerStatus};
use orchestra_mcp::client::ClientStatus;
use orchestra_wire::RawJson;
use tokio::time::{Instant, sleep_until};

use super::report::said;

/// Between two such messages about one server.
const BETWEEN: Duration = Duration::from_secs(5);

/// Maximum length of a reason.
const MAX_REASON_BYTES: usize = 256;

/// Where a server stands, and what was told of it.
#[derive(Debug)]
pub(super) struct Standing {
    server: String,
    /// Why it is away, where it is.
    away: Option<String>,
    /// Whether the last message said that it is.
    is_told_away: bool,
    told_at: Option<Instant>,
}

impl Standing {
    /// A server of which nothing was told, which is as if it were there.
    pub(super) fn new(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            away: None,
            is_told_away: false,
            told_at: None,
        }
    }

    /// It stands somewhere else now.
    pub(super) fn is_now(&mut self, status: &ClientStatus) {
        let (status, why) = said(&self.server, status);
        match status {
            PeerStatus::Ready | PeerStatus::Degraded => self.away = None,
            status if status.is_failed() => {
                let why = why
                    .map(|why| format!(" ({})", orchestra_secret::excerpt(&why, MAX_REASON_BYTES)));
                let why = why.unwrap_or_default();
                self.away = Some(format!("{}{why}", status.as_str()));
            }
            // On its way from one to the other.
            _ => {}
        }
    }

    /// Waits until something is to be told; forever where nothing is.
    pub(super) async fn due(&self) {
        if self.away.is_some() == self.is_told_away {
            return std::future::pending().await;
        }
        if let Some(told_at) = self.told_at {
            sleep_until(told_at + BETWEEN).await;
        }
    }

    /// What is to be told.
    pub(super) fn tell(&mut self) -> Notice {
        self.is_told_away = self.away.is_some();
        self.told_at = Some(Instant::now());
        let server = &self.server;
        let text = match &self.away {
            Some(away) => format!("the server {server} is away: {away}"),
            None => format!("the server {server} is back"),
        };
        let data = RawJson::of(&text).unwrap_or_else(|_| RawJson::empty_object());
        Notice::Log {
            level: LogLevel::Warning,
            logger: Some(server.clone()),
            data,
        }
    }
}
