//! Where a connection is on its way, and what others are told of that.

use std::sync::Arc;

use tokio::time::Instant;

use crate::client::{ClientError, ClientStatus, session::Session};

/// Where a connection is.
#[derive(Clone)]
pub(in crate::client) enum Phase {
    Idle,
    Starting,
    Ready(Arc<Session>),
    /// It is started again at that time.
    Waiting {
        attempt: u32,
        next_at: Instant,
        reason: Arc<ClientError>,
    },
    /// As `Waiting`, after so many failures that calls do not wait for it.
    Open {
        next_at: Instant,
        reason: Arc<ClientError>,
    },
    /// No start can help until somebody has done something.
    Refused(Arc<ClientError>),
    Closed,
}

pub(super) fn left_alone(next_at: Instant, reason: &Arc<ClientError>) -> ClientError {
    ClientError::CircuitOpen {
        retry_in: next_at.saturating_duration_since(Instant::now()),
        last: Some(Arc::clone(reason)),
    }
}

pub(super) fn not_yet(next_at: Instant, reason: &Arc<ClientError>) -> ClientError {
    ClientError::NotYet {
        next_at: Some(next_at),
        last: Arc::clone(reason),
    }
}

impl Phase {
    /// How the server is, as others are told.
    pub(in crate::client) fn status(&self, trouble: Option<String>) -> ClientStatus {
        match self {
            Self::Idle => ClientStatus::Idle,
            Self::Starting => ClientStatus::Starting,
            Self::Ready(_) => trouble.map_or(ClientStatus::Ready, ClientStatus::Degraded),
            Self::Waiting {
                attempt,
                next_at,
                reason,
            } => ClientStatus::Restarting {
                attempt: *attempt,
                next_at: *next_at,
                reason: Arc::clone(reason),
            },
            Self::Open { next_at, reason } => ClientStatus::Offline {
                next_at: *next_at,
                reason: Arc::clone(reason),
            },
            Self::Refused(error) => match &**error {
                ClientError::NeedsAuth { what } => ClientStatus::NeedsAuth(what.clone()),
                error => ClientStatus::Invalid(error.explain()),
            },
            Self::Closed => ClientStatus::Closed,
        }
    }
}
