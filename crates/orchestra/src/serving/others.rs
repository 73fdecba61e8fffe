//! The servers of others behind the hub, as they are configured at each moment.

use std::{collections::HashMap, sync::Arc, time::Duration};

use orchestra_gateway::{
    Gateway, GatewayOptions,
    config::ServerConfig,
    connect::Connectors,
    discovery::{Found, Server},
    watch::Watching,
};
use orchestra_hub::Hub;
use orchestra_mcp::client::tap::Tap;
use tokio::{sync::watch, task::JoinHandle};

use crate::{config::Config, exit::Failure, servers, trace};

/// How long calls may go on when their server is removed or replaced.
const GRACE: Duration = Duration::from_secs(10);

/// How long all servers together may take to end.
const ENDING: Duration = Duration::from_secs(15);

/// Servers that run.
pub(super) struct Others {
    gateway: Arc<Gateway>,
    /// Looks after their files for as long as it is there.
    _watching: Watching,
    following: JoinHandle<()>,
    /// Records what is said to them.
    tap: Option<Tap>,
}

impl Others {
    /// Finds and starts the servers of a workspace and its user, and follows their files. Waits for
    /// none of them. Must run inside the runtime.
    ///
    /// # Errors
    /// When what the user decided of them cannot be read.
    pub(super) fn start(hub: &Hub, config: &Config) -> Result<Self, Failure> {
        let places = servers::places(&config.workspace, &config.servers.mcp_config);
        let scope = servers::scope(&config.workspace);
        let connectors = Connectors::new(scope.clone())
            .with_logs(&servers::log_directory(&config.workspace)?)
            .with_tokens(&servers::token_directory()?);
        let tap = config.servers.trace.open()?;
        let connectors = match &tap {
            Some(tap) => connectors.with_tap(tap.clone()),
            None => connectors,
        };
        let options = GatewayOptions {
            state: servers::state_directory()?,
            connect: connectors.connect(),
            grace: GRACE,
        };
        let watching = Watching::start(places, scope, servers::decisions()?)
            .map_err(|error| Failure::from(anyhow::Error::from(error)))?;
        let gateway = Arc::new(Gateway::new(hub.clone(), options));
        let mut found = watching.found();
        let mut restarts = Restarts::default();
        take(&gateway, &found.borrow_and_update(), &mut restarts);
        let following = tokio::spawn(follow(Arc::clone(&gateway), found, restarts));
        Ok(Self {
            gateway,
            _watching: watching,
            following,
            tap,
        })
    }

    /// Ends all of them, within a time.
    pub(super) async fn close(self) {
        self.following.abort();
        self.gateway.close(ENDING).await;
        if let Some(tap) = &self.tap {
            trace::finish(tap);
        }
    }
}

/// How often each server was to be started anew.
type Restarts = HashMap<String, u64>;

async fn follow(
    gateway: Arc<Gateway>,
    mut found: watch::Receiver<Arc<Found>>,
    mut restarts: Restarts,
) {
    while found.changed().await.is_ok() {
        let now = Arc::clone(&found.borrow_and_update());
        take(&gateway, &now, &mut restarts);
    }
}

fn take(gateway: &Gateway, found: &Found, restarts: &mut Restarts) {
    for told in &found.diagnostics {
        tracing::warn!("{told}");
    }
    let configs = found.usable().map(|config| ServerConfig::clone(config));
    gateway.apply(configs.collect());
    let asked = |server: &Server| (server.name.to_string(), server.restarts);
    let now: Restarts = found.servers.iter().map(asked).collect();
    for (name, times) in &now {
        if restarts.get(name).is_some_and(|before| before < times) {
            gateway.restart(name);
        }
    }
    *restarts = now;
}
