//! The servers of others behind the hub, as they are configured at each moment.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use orchestra_fs::Lock;
use orchestra_gateway::{
    Gateway, GatewayOptions,
    config::{ServerConfig, ServerName, Transport},
    connect::Connectors,
    discovery::{Found, Server, ServerState},
    watch::Watching,
};
use orchestra_hub::{Hub, PeerReport, PeerStatus, ProviderId, Toolset};
use orchestra_mcp::client::tap::{Tap, TapWatch};
use serde::Serialize;
use tokio::{sync::watch, task::JoinHandle, time::Instant};

use crate::{
    commands::mcp::words, config::Config, exit::Failure, orchestrator::Orchestrator, servers, trace,
};

/// How long calls may go on when their server is removed or replaced.
const GRACE: Duration = Duration::from_secs(10);

/// Servers that run.
pub(super) struct Others {
    gateway: Arc<Gateway>,
    /// The servers as they were applied last.
    pub(super) applied: Option<watch::Receiver<Arc<Found>>>,
    /// What became of each when they were found.
    pub(super) states: Vec<Shown>,
    /// Looks after their files for as long as it is there.
    _watching: Option<Watching>,
    following: Option<JoinHandle<()>>,
    /// Tells those who ask for restarts that somebody runs them.
    _served: Option<Lock>,
    /// Records what is said to them.
    tap: Option<Tap>,
}

impl Others {
    /// Finds and starts the servers of a workspace and its user that a toolset reaches, and follows
    /// their files from the moment that `begun` turns true. Waits for none of them. `watch` is for those
    /// who look at what is said to them. Servers are greeted when a client has come, or after
    /// `clients_wait`. Must run inside the runtime.
    ///
    /// # Errors
    /// When what the user decided of them cannot be read.
    pub(super) fn start(
        hub: &Hub,
        config: &Config,
        toolset: Toolset,
        orchestrator: Orchestrator,
        watch: Option<TapWatch>,
        begun: watch::Receiver<bool>,
        clients_wait: Duration,
    ) -> Result<Self, Failure> {
        let places = servers::places(config, &config.servers);
        let scope = servers::scope(&config.workspace);
        let connectors = Connectors::new(scope.clone())
            .with_logs(&servers::log_directory(&config.workspace)?)
            .with_tokens(&servers::token_directory()?)
            .with_quic(orchestrator.quic());
        let tap = config.servers.trace.open(watch)?;
        let connectors = match &tap {
            Some(tap) => connectors.with_tap(tap.clone()),
            None => connectors,
        };
        let options = GatewayOptions {
            state: servers::state_directory()?,
            connect: connectors.connect(),
            grace: GRACE,
            once: false,
            relay: false,
        };
        let watching = Watching::start(places, scope, servers::decisions()?, begun)
            .map_err(|error| Failure::from(anyhow::Error::from(error)))?;
        let gateway = Gateway::new(hub.clone(), options).with_clients_wait(clients_wait);
        let gateway = Arc::new(gateway);
        orchestrator.ask_through(&gateway);
        let mut found = watching.found();
        let applied = watch::Sender::new(Arc::clone(&found.borrow()));
        let followed = applied.subscribe();
        let mut following = Following {
            hub: hub.clone(),
            gateway: Arc::clone(&gateway),
            toolset,
            orchestrator,
            restarts: HashMap::new(),
            waiting: HashSet::new(),
            applied,
        };
        let states = {
            let now = found.borrow_and_update();
            following.take(&now);
            let shown = |server| Shown::of(server, &following.toolset);
            now.servers.iter().filter_map(shown).collect()
        };
        let following = tokio::spawn(following.run(found));
        Ok(Self {
            gateway,
            applied: Some(followed),
            states,
            _watching: Some(watching),
            following: Some(following),
            _served: servers::serves(&config.workspace),
            // What nobody looked at is missed by nobody.
            tap: tap.filter(|_| config.servers.trace.is_given()),
        })
    }

    /// Starts one server that no file names. Waits for nothing. Must run inside the runtime.
    ///
    /// # Errors
    /// When the user has no home.
    pub(super) fn alone(hub: &Hub, config: &Config, server: ServerConfig) -> Result<Self, Failure> {
        let tap = config.servers.trace.open(None)?;
        let connectors = Connectors::new(servers::scope(&config.workspace))
            .with_logs(&servers::log_directory(&config.workspace)?)
            .with_tokens(&servers::token_directory()?);
        let connectors = match &tap {
            Some(tap) => connectors.with_tap(tap.clone()),
            None => connectors,
        };
        let options = GatewayOptions {
            state: servers::state_directory()?,
            connect: connectors.connect(),
            grace: GRACE,
            once: false,
            relay: false,
        };
        let gateway = Arc::new(Gateway::new(hub.clone(), options));
        let shown = Shown {
            name: server.name.to_string(),
            display_name: server.shown_name.clone(),
            state: "starting",
            trust: server.trust,
            is_sandboxed: is_sandboxed(&server),
            wait: servers::wait_for(&server, None),
        };
        gateway.apply(vec![server]);
        Ok(Self {
            gateway,
            applied: None,
            states: vec![shown],
            _watching: None,
            following: None,
            _served: None,
            tap,
        })
    }

    /// Ends all of them, by a deadline.
    pub(super) async fn close(self, deadline: Instant) {
        if let Some(following) = self.following {
            following.abort();
        }
        let within = deadline.saturating_duration_since(Instant::now());
        self.gateway.close(within).await;
        if let Some(tap) = &self.tap {
            trace::finish(tap);
        }
    }
}

/// A server as it is told when the program starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Shown {
    /// Its name.
    pub(crate) name: String,
    /// Its name in messages.
    #[serde(skip)]
    pub(crate) display_name: String,
    /// What becomes of it.
    pub(crate) state: &'static str,
    /// Whether what it says of its own tools is believed.
    #[serde(skip)]
    pub(crate) trust: bool,
    /// Whether its program runs in a sandbox; `None` where none is started here.
    #[serde(skip)]
    pub(crate) is_sandboxed: Option<bool>,
    /// How long a command waits for it that was given its name.
    #[serde(skip)]
    pub(crate) wait: Duration,
}

fn is_sandboxed(config: &ServerConfig) -> Option<bool> {
    matches!(config.transport, Transport::Stdio(_)).then(|| config.sandbox.is_some())
}

impl Shown {
    /// `None` for the program itself, which is none of the others.
    fn of(server: &Server, toolset: &Toolset) -> Option<Self> {
        let state = match &server.state {
            ServerState::Own => return None,
            _ if !toolset.reaches_server(server.name.as_str()) => "left_out",
            ServerState::Usable(config) if config.lazy => "lazy",
            ServerState::Usable(_) => "starting",
            other => other.as_str(),
        };
        Some(Self {
            name: server.name.to_string(),
            display_name: server.display_name().to_owned(),
            state,
            trust: server.config().is_some_and(|config| config.trust),
            is_sandboxed: match &server.state {
                ServerState::Usable(config) => is_sandboxed(config),
                _ => None,
            },
            wait: server
                .config()
                .map_or(servers::WAIT, |config| servers::wait_for(config, None)),
        })
    }

    /// Its state in words.
    pub(crate) fn words(&self) -> String {
        let name = &self.display_name;
        match self.state {
            "needs_approval" => {
                format!("waits for approval: orchestra mcp approve {name}")
            }
            "disabled" => format!("disabled: orchestra mcp enable {name}"),
            "invalid" => "invalid: orchestra mcp list".to_owned(),
            "lazy" => "starts with its first call".to_owned(),
            "left_out" => "excluded by --tools".to_owned(),
            other => other.to_owned(),
        }
    }
}

/// Follows the files of servers.
struct Following {
    hub: Hub,
    gateway: Arc<Gateway>,
    /// What it does not reach is not started.
    toolset: Toolset,
    orchestrator: Orchestrator,
    /// How often each was to be started anew.
    restarts: HashMap<String, u64>,
    /// Those that waited for approval.
    waiting: HashSet<String>,
    /// Reports the servers that are applied.
    applied: watch::Sender<Arc<Found>>,
}

/// How a server is that is configured and that nobody may start.
fn unused(server: &Server) -> Option<(ProviderId, PeerReport)> {
    let (status, reason) = match &server.state {
        ServerState::Invalid { reason } => (PeerStatus::Invalid, reason.clone()),
        ServerState::NeedsApproval { .. } => (
            PeerStatus::NeedsApproval,
            words::reason(server).unwrap_or_default(),
        ),
        ServerState::Disabled { by_hand, .. } => {
            let by = if *by_hand { "by hand" } else { "by its file" };
            let enable = format!(
                "disabled {by}; `orchestra mcp enable {}` enables it",
                server.name
            );
            (PeerStatus::Disabled, enable)
        }
        ServerState::Usable(_) | ServerState::Own => return None,
    };
    let transport = server.config().map(|config| config.transport.as_str());
    let report = PeerReport {
        transport: transport.unwrap_or_default(),
        status,
        reason: Some(reason),
        ..PeerReport::default()
    };
    Some((ProviderId::parse(server.name.as_str())?, report))
}

impl Following {
    async fn run(mut self, mut found: watch::Receiver<Arc<Found>>) {
        while found.changed().await.is_ok() {
            let now = Arc::clone(&found.borrow_and_update());
            self.take(&now);
            self.applied.send_replace(now);
        }
    }

    fn take(&mut self, found: &Found) {
        for told in &found.diagnostics {
            tracing::warn!("{told}");
        }
        let is_reached = |name: &ServerName| self.toolset.reaches_server(name.as_str());
        let waits = |server: &&Server| {
            matches!(server.state, ServerState::NeedsApproval { .. }) && is_reached(&server.name)
        };
        let waiting = found.servers.iter().filter(waits);
        let waiting: HashSet<String> = waiting
            .map(|server| server.display_name().to_owned())
            .collect();
        for name in waiting.difference(&self.waiting) {
            tracing::warn!("{name} waits for approval: orchestra mcp approve {name}");
        }
        let configs = found.usable().filter(|config| is_reached(&config.name));
        let configs = configs.map(|config| ServerConfig::clone(config)).collect();
        let reached = found
            .servers
            .iter()
            .filter(|server| is_reached(&server.name));
        let unused_peers = reached.filter_map(unused).collect();
        self.waiting = waiting;
        // Those that depend on each other are known before the first is started.
        self.orchestrator.take(found, is_reached);
        self.hub.reserve_servers(found.names());
        self.gateway.apply(configs);
        self.hub.tell_unused_peers(unused_peers);
        self.hub
            .tell_unread_files(found.broken().map(servers::short).collect());
        let asked = |server: &Server| (server.name.to_string(), server.restarts);
        let now: HashMap<String, u64> = found.servers.iter().map(asked).collect();
        for (name, times) in &now {
            if self.restarts.get(name).is_some_and(|before| before < times) {
                self.gateway.restart(name);
            }
        }
        self.restarts = now;
    }
}
