//! One start: the server is reached and greeted, or says why not.

use std::{
    convert::Infallible,
    future::pending,
    sync::{Arc, OnceLock},
    time::Duration,
};

use orchestra_hub::Clients;
use orchestra_wire::Era;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::Shared;
use crate::client::{
    ClientError,
    masked::{MaskedLink, error_of},
    profile::Profile,
    session::Session,
};

/// How long a start keeps its place among those that go on at once.
const CROWDING: Duration = Duration::from_secs(3);

/// Reaches a server and greets it.
pub(super) async fn start(
    shared: &Arc<Shared>,
    last_era: Option<Era>,
    last_used: Option<Profile>,
) -> Result<Arc<Session>, ClientError> {
    let config = &shared.config;
    let place = match &config.starts {
        Some(starts) => Arc::clone(starts).acquire_owned().await.ok(),
        None => None,
    };
    // A start that takes longer waits for something else than a processor.
    let crowding = async {
        sleep(CROWDING).await;
        drop(place);
        pending::<Infallible>().await
    };
    let clients = config.clients.clone().filter(|_| !shared.is_beside());
    // The wait for the first client is not the server's.
    let clients_wait = clients
        .as_ref()
        .map_or(Duration::ZERO, |_| config.clients_wait);
    let reached = OnceLock::new();
    let began = async {
        let mut connected = shared.connector.connect().await?;
        connected.link = MaskedLink::of(connected.link);
        let link = Arc::clone(&connected.link);
        let _first = reached.set(Arc::clone(&link));
        if let Some(counters) = link.counters() {
            shared.meter.opened(counters);
        }
        if let Some(clients) = clients {
            first_of(clients, config.clients_wait).await;
        }
        let beside = shared.profile().map(|profile| profile.clone());
        let profile = beside.or(last_used);
        let mut profile = profile.unwrap_or_else(|| config.first_profile());
        profile.era = last_era.unwrap_or(profile.era);
        let opened = Session::open(
            connected,
            shared.connector.transport(),
            config,
            shared.events.clone(),
            &shared.parking,
            &shared.client_roots,
            profile,
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
                // The greeting has more errors than its link.
                Err(error_of(&*link, why))
            }
        }
    };
    let after = config.start_timeout;
    let bound = after
        .saturating_add(shared.connector.leeway())
        .saturating_add(clients_wait);
    let began = async {
        tokio::select! {
            biased;
            begun = began => begun,
            never = crowding => match never {},
        }
    };
    timeout(bound, began).await.unwrap_or_else(|_| {
        let tail = reached.get().map(|link| link.stderr_tail());
        let said = tail.filter(|tail| !tail.trim().is_empty());
        Err(match said {
            Some(stderr_tail) => ClientError::SlowStart { after, stderr_tail },
            None => ClientError::Timeout { after },
        })
    })
}

/// Waits for the first client, but not for long: it says how the server is to be greeted.
async fn first_of(mut clients: watch::Receiver<Clients>, within: Duration) {
    let come = clients.wait_for(|clients| clients.first.is_some());
    // Where none comes, nobody needs anything.
    let _ = timeout(within, come).await;
}
