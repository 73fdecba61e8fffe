//! All servers of a configuration: started together, changed while others call, ended in good order.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::available_parallelism,
    time::Duration,
};

use futures_util::future::join_all;
use orchestra_hub::{BoxFuture, Hub, ProviderId};
use orchestra_mcp::client::{ClientError, Connected, Connector, Root, ServerCall, TransportType};
use orchestra_wire::RawJson;
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, timeout_at},
};

use crate::{
    config::{Place, PluginId, ServerConfig, ServerName, Transport, order::Order},
    hints::Hints,
    provider::Downstream,
    server::{Parts, Server},
    spill::Spill,
};

/// How a server is reached.
pub struct Reach {
    /// Opens connections.
    pub connector: Arc<dyn Connector>,
    /// Roots that it gets where its caller has none.
    pub roots: Vec<Root>,
    /// What may be behind a start that fails.
    pub hints: Hints,
}

/// Finds how a server is reached, or says why it cannot be.
pub type Connect = Arc<dyn Fn(&ServerConfig) -> Result<Reach, ClientError> + Send + Sync>;

/// What a gateway needs.
#[derive(Clone)]
pub struct GatewayOptions {
    /// The user's state directory: what servers offered, which changes were approved, counts of
    /// the day and large results are kept below it.
    pub state: PathBuf,
    /// How servers are reached.
    pub connect: Connect,
    /// How long calls may go on when a server is removed or replaced.
    pub grace: Duration,
    /// Whether the program ends with the call that it makes: nobody is told when a server is tried
    /// again, for nobody will.
    pub once: bool,
    /// Whether the program is nothing but a way to one server. What is asked goes there as it came,
    /// without a look at schemas, rules and pins; lists are asked for anew each time; that the server
    /// cannot be reached is an error of JSON-RPC, whatever was asked; and nothing is kept.
    pub relay: bool,
}

/// The servers of a configuration behind a hub.
pub struct Gateway {
    hub: Hub,
    options: GatewayOptions,
    spill: Option<Spill>,
    clients_wait: Duration,
    starts: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    servers: BTreeMap<ServerName, Arc<Downstream>>,
    /// Those that were removed and end.
    ending: JoinSet<()>,
    is_spill_registered: bool,
}

/// Stands for a server whose configuration cannot be used: it is shown as it was, and says why it
/// does not answer.
struct Unusable(TransportType, ClientError);

impl Connector for Unusable {
    fn transport(&self) -> TransportType {
        self.0
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let error = self.1.clone();
        Box::pin(async { Err(error) })
    }
}

impl Gateway {
    /// A gateway without servers.
    #[must_use]
    pub fn new(hub: Hub, options: GatewayOptions) -> Self {
        let open = || {
            let spill = Spill::open(&options.state).map_err(|error| {
                tracing::warn!(%error, "cannot store large results; returning them in full");
            });
            spill.ok()
        };
        let spill = if options.relay { None } else { open() };
        Self {
            hub,
            options,
            spill,
            clients_wait: Duration::ZERO,
            starts: Arc::new(Semaphore::new(starts_at_once())),
            state: Mutex::default(),
        }
    }

    /// Has servers greeted when the first client has come, or after `wait`: it says in which era it
    /// speaks, and whether it has roots.
    #[must_use]
    pub const fn with_clients_wait(mut self, wait: Duration) -> Self {
        self.clients_wait = wait;
        self
    }

    /// Makes these the servers: new ones are added and started, those that are gone or disabled end,
    /// those that changed are replaced as soon as it is known what they offer now, and the others
    /// go on. Must run inside a tokio runtime; waits for no server.
    pub fn apply(&self, configs: Vec<ServerConfig>) {
        let mut state = self.state();
        while state.ending.try_join_next().is_some() {}
        let configs = configs.into_iter().filter(|config| !config.disabled);
        let configs: Vec<ServerConfig> = configs.collect();
        let names: BTreeSet<ServerName> =
            configs.iter().map(|config| config.name.clone()).collect();
        let gone: BTreeSet<ServerName> = state
            .servers
            .keys()
            .filter(|name| !names.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(downstream) = state.servers.remove(&name) {
                self.hub.remove(downstream.provider_id());
                state.ending.spawn(async move { downstream.close().await });
            }
        }
        // In the configured order: the first server that offers a tool or resource under a name has the name.
        let order: Vec<ServerName> = configs.iter().map(|config| config.name.clone()).collect();
        for config in configs {
            let name = config.name.clone();
            match state.servers.get(&name) {
                Some(downstream) if same(&downstream.newest().config, &config) => {}
                Some(downstream) => downstream.replace(self.server(config)),
                None => self.add(&mut state, name, config),
            }
        }
        let order = order.iter().filter_map(|name| state.servers.get(name));
        let order: Vec<_> = order
            .map(|downstream| downstream.provider_id().clone())
            .collect();
        self.hub.arrange(&order);
        self.register_spill(&mut state);
        // Rules of a server cover no other methods. An orchestrator applies its own.
        let relayed = state.servers.values().next();
        let relayed = relayed.filter(|_| self.options.relay);
        let relayed = relayed.map(|server| server.provider_id().clone());
        self.hub.forward_unknown_methods_to(relayed);
    }

    fn add(&self, state: &mut State, name: ServerName, config: ServerConfig) {
        // One of ours may be called the same.
        let ids = [name.to_string(), format!("mcp_{name}")];
        let taken = self.hub.providers();
        let is_free = |id: &ProviderId| !taken.iter().any(|(other, _)| other == id);
        let id = ids
            .iter()
            .filter_map(|id| ProviderId::parse(id))
            .find(is_free);
        let Some(id) = id else {
            tracing::error!(server = %name, "server ignored: its name is already taken; give it another name");
            return;
        };
        let downstream = Downstream::new(id, self.server(config), self.options.grace);
        match self.hub.register_beside(downstream.clone()) {
            Ok(_) => {
                state.servers.insert(name, downstream);
            }
            Err(error) => tracing::error!(server = %name, %error, "server ignored"),
        }
    }

    fn server(&self, config: ServerConfig) -> Arc<Server> {
        let transport = config.transport.carried_by();
        let Reach {
            connector,
            roots,
            hints,
        } = (self.options.connect)(&config).unwrap_or_else(|error| Reach {
            connector: Arc::new(Unusable(transport, error)),
            roots: Vec::new(),
            hints: Hints::default(),
        });
        Arc::new(Server::new(Parts {
            config,
            connector,
            roots,
            hints,
            state: self.options.state.clone(),
            spill: self.spill.clone(),
            once: self.options.once,
            relay: self.options.relay,
            clients: self.hub.clients(),
            clients_wait: self.clients_wait,
            starts: Arc::clone(&self.starts),
        }))
    }

    /// Large results are offered as soon as a server may have them.
    fn register_spill(&self, state: &mut State) {
        let mut servers = state.servers.values();
        let is_wanted =
            servers.any(|server| server.newest().config.limits.budget.result_bytes.is_some());
        let Some(spill) = self
            .spill
            .clone()
            .filter(|_| is_wanted && !state.is_spill_registered)
        else {
            return;
        };
        match self.hub.register_beside(Arc::new(spill)) {
            Ok(_) => state.is_spill_registered = true,
            Err(error) => tracing::error!(%error, "cannot offer large results as resources"),
        }
    }

    /// Starts a server anew, whatever it is now, after the calls that run. False when there is none of this name.
    pub fn restart(&self, name: &str) -> bool {
        let found = self.state().servers.get(name).cloned();
        if let Some(downstream) = &found {
            downstream.server().client.restart();
        }
        found.is_some()
    }

    /// Asks a server something on behalf of this program, that no caller can ask for: under a method
    /// that begins with [`INTERNAL`](orchestra_wire::INTERNAL). The server is started for it, and it counts as a call of a tool
    /// does, against the limits of the server and for leaving it alone.
    ///
    /// # Errors
    /// Why there is no answer; [`ClientError::sent`] tells whether it may have run.
    pub async fn ask(&self, name: &str, call: ServerCall) -> Result<RawJson, ClientError> {
        let found = self.state().servers.get(name).cloned();
        let server = found.ok_or_else(|| ClientError::Unreachable {
            what: format!("there is no server {name} now"),
        })?;
        server.ask(call).await
    }

    /// Ends all servers, within a time, whatever they do: a plugin before those that it depends on,
    /// which are there for it until it has ended, and everything else at once. Calls that run may go
    /// on to their end for as long as [`GatewayOptions::grace`] says, and at most for half of the time.
    pub async fn close(&self, within: Duration) {
        let deadline = Instant::now() + within;
        let (servers, mut ending) = {
            let mut state = self.state();
            let servers: Vec<_> = state.servers.values().cloned().collect();
            (servers, std::mem::take(&mut state.ending))
        };
        let mut levels = levels(servers);
        while let Some(level) = levels.pop() {
            let left = deadline.saturating_duration_since(Instant::now());
            // Each has the same share of what those before it have left.
            let shares = u32::try_from(levels.len() + 1).unwrap_or(u32::MAX);
            let until = Instant::now() + left / shares;
            let is_of_level =
                |other: &Arc<Downstream>| level.iter().any(|one| Arc::ptr_eq(one, other));
            self.state().servers.retain(|_, other| !is_of_level(other));
            let ends = level.iter().map(|downstream| {
                self.hub.remove(downstream.provider_id());
                downstream.close_by(until)
            });
            // Whatever is left of one that takes longer is dropped.
            if timeout_at(until, join_all(ends)).await.is_err() {
                tracing::warn!("servers were still running when their shutdown time ended");
            }
        }
        let removed = async { while ending.join_next().await.is_some() {} };
        if timeout_at(deadline, removed).await.is_err() {
            tracing::warn!("removed servers were still running at shutdown");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of processes that start at once: one more than there are processors, since a start also waits
/// for files. With more of them none is ready before all nearly are.
fn starts_at_once() -> usize {
    available_parallelism().map_or(2, |processors| processors.get() + 1)
}

/// Servers by the order in which they started: plugins after those that they depend on, everything
/// else with those that depend on nothing.
fn levels(servers: Vec<Arc<Downstream>>) -> Vec<Vec<Arc<Downstream>>> {
    let plugins: Vec<(PluginId, Vec<PluginId>)> = servers
        .iter()
        .filter_map(|server| match &server.newest().config.transport {
            Transport::Plugin(plugin) => Some((plugin.id.clone(), plugin.depends_on.clone())),
            _ => None,
        })
        .collect();
    let order = Order::of(&plugins);
    let mut levels = Vec::new();
    levels.resize_with(order.levels.len().max(1), Vec::new);
    for server in servers {
        let level = match &server.newest().config.transport {
            Transport::Plugin(plugin) => {
                let mut all = order.levels.iter();
                all.position(|level| level.contains(&plugin.id))
            }
            _ => None,
        };
        levels[level.unwrap_or(0)].push(server);
    }
    levels
}

/// Whether two configurations make the same server. Their places in the file, and the servers beside them, do not count.
fn same(before: &ServerConfig, after: &ServerConfig) -> bool {
    let moved = |config: &ServerConfig| {
        let mut config = config.clone();
        config.origin.place = Place::START;
        config.writers = Arc::default();
        config
    };
    moved(before) == moved(after)
}
