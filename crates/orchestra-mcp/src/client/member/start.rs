//! One start: the server is reached and greeted, or says why not.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use orchestra_wire::Era;
use tokio::time::timeout;

use super::Shared;
use crate::client::{ClientError, session::Session};

/// Reaches a server and greets it.
pub(super) async fn start(
    shared: &Arc<Shared>,
    last_era: Option<Era>,
) -> Result<Arc<Session>, ClientError> {
    let config = &shared.config;
    let reached = OnceLock::new();
    let began = async {
        let connected = shared.connector.connect().await?;
        let link = Arc::clone(&connected.link);
        let _first = reached.set(Arc::clone(&link));
        if let Some(counters) = link.counters() {
            shared.meter.opened(counters);
        }
        let opened = Session::open(
            connected,
            shared.connector.transport(),
            config,
            shared.events.clone(),
            &shared.parking,
            last_era,
        );
        // A process that ends while it is greeted says why.
        let session = tokio::select! {
            biased;
            opened = opened => opened,
            error = link.ended() => Err(error),
        };
        match session {
            Ok(session) => Ok(session),
            Err(error) => {
                let why = match error {
                    // The pipe breaks before the end of the process is known.
                    ClientError::Closed => timeout(Duration::from_secs(1), link.ended())
                        .await
                        .unwrap_or(ClientError::Closed),
                    error => error,
                };
                link.close().await;
                Err(why)
            }
        }
    };
    let after = config.start_timeout;
    let bound = after.saturating_add(shared.connector.leeway());
    timeout(bound, began).await.unwrap_or_else(|_| {
        let tail = reached.get().map(|link| link.stderr_tail());
        let said = tail.filter(|tail| !tail.trim().is_empty());
        Err(match said {
            Some(stderr_tail) => ClientError::SlowStart { after, stderr_tail },
            None => ClientError::Timeout { after },
        })
    })
}
