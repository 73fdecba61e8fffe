//! One server as it runs: its connection, its rules, and what it offers now.

mod ask;
mod calls;
mod follow;
mod offered;
mod params;
mod relay;
mod relist;
mod report;
mod results;
mod standing;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use orchestra_hub::{ClientFeatures, Clients, ListKind};
use orchestra_mcp::client::{
    Backoff as ClientBackoff, Circuit as ClientCircuit, Client, ClientConfig, ClientError,
    Connector, Growth, ProtocolChoice, Retry as ClientRetry, Root,
};
use orchestra_wire::Era;
use tokio::{
    sync::{Semaphore, watch},
    task::spawn_blocking,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    approval::Fingerprint,
    cache::Cache,
    config::{Backoff, Protocol, ServerConfig, Transport},
    hints::Hints,
    pins::{Known, PinFile},
    policy::{Policy, Quota},
    spill::Spill,
};
pub(crate) use ask::agreed;
pub(crate) use calls::call_of;
pub(crate) use follow::{Follower, follow};
pub(crate) use offered::{OfClients, Offered};
use relay::Relay;
use relist::Relisting;
pub(crate) use report::report;

/// Places for calls that run.
const MAX_CALLS: usize = 1 << 20;

/// A server with one configuration. When that changes, another one takes its place.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    /// Of that configuration.
    fingerprint: Fingerprint,
    pub(crate) client: Client,
    pub(crate) pins: PinFile,
    policy: Policy,
    /// Questions of rules that were asked, and consents that were not used.
    consents: ask::Open,
    hints: Hints,
    cache: Option<Cache>,
    spill: Option<Spill>,
    /// The program ends with the call that it makes.
    once: bool,
    /// The program is nothing but a way to this server.
    relay: Option<Relay>,
    offered: watch::Sender<Arc<Offered>>,
    /// Why its tools could not be listed the last time, as long as none were ever seen.
    unlisted: watch::Sender<Option<ClientError>>,
    /// Error of the last request for each list, in the order of [`ListKind::ALL`].
    failed_lists: Mutex<[Option<String>; ListKind::ALL.len()]>,
    /// Whether a repair of a result was logged that is not a tool's.
    is_repaired: AtomicBool,
    relisting: Relisting,
    /// How many calls run.
    running: watch::Sender<usize>,
}

/// What a server is made of.
pub(crate) struct Parts {
    pub(crate) config: ServerConfig,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) roots: Vec<Root>,
    pub(crate) hints: Hints,
    pub(crate) state: std::path::PathBuf,
    pub(crate) spill: Option<Spill>,
    pub(crate) once: bool,
    pub(crate) relay: bool,
    pub(crate) clients: watch::Receiver<Clients>,
    pub(crate) clients_wait: Duration,
    /// Places for processes that start at once.
    pub(crate) starts: Arc<Semaphore>,
}

/// Counts a call while it runs.
pub(crate) struct Running(Arc<Server>);

impl Server {
    /// Reads what is known of it; starts nothing. Blocks for as long as reading a file takes.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            config,
            connector,
            roots,
            hints,
            state,
            spill,
            once,
            relay,
            clients,
            clients_wait,
            starts,
        } = parts;
        let relay = relay.then(Relay::default);
        let pins = PinFile::new(&state, &config);
        let policy = Policy::new(&config, Quota::of(&config, &state));
        let load = || {
            if relay.is_some() {
                Ok(None)
            } else {
                pins.load()
            }
        };
        let known = load().unwrap_or_else(|error| {
            let (server, path) = (&config.name, pins.path().display());
            tracing::error!(
                %server, %path, %error,
                "cannot read which tools of the server were approved; all are hidden until `orchestra mcp approve`"
            );
            None
        });
        let offered = match relay {
            Some(_) => Offered::of_relay(),
            None => {
                let offered = Offered::of(&config, &policy, known);
                offered.log_repairs(config.name.as_str(), &Offered::default());
                offered
            }
        };
        let is_orchestrator = matches!(config.transport, Transport::Orchestrator(_));
        let speaks_mcp = matches!(config.transport, Transport::Stdio(_) | Transport::Http(_));
        let client = ClientConfig {
            // A plugin has one connection, and an orchestrator is told with each call who makes it and
            // what that caller can be asked for.
            clients: (relay.is_none() && speaks_mcp).then_some(clients),
            clients_wait,
            starts: matches!(config.transport, Transport::Stdio(_)).then_some(starts),
            names_callers: is_orchestrator,
            patience: relay.as_ref().map(|_| relay::PATIENCE),
            // The orchestrator has checked its own requests.
            secrets: config.features.secrets || relay.is_some(),
            ..client_config(&config, roots)
        };
        Self {
            client: Client::new(connector, client),
            cache: config.cache_ttl.map(Cache::new),
            spill: spill.filter(|_| config.limits.budget.result_bytes.is_some()),
            offered: watch::Sender::new(Arc::new(offered)),
            unlisted: watch::Sender::new(None),
            failed_lists: Mutex::default(),
            is_repaired: AtomicBool::new(false),
            relisting: Relisting::default(),
            running: watch::Sender::new(0),
            consents: ask::Open::default(),
            pins,
            hints,
            once,
            relay,
            policy,
            fingerprint: Fingerprint::of_definition(&config),
            config,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.config.name.as_str()
    }

    pub(crate) fn offered(&self) -> Arc<Offered> {
        Arc::clone(&self.offered.borrow())
    }

    /// What it offers, once that is known: a server that is not started yet is started for it.
    ///
    /// # Errors
    /// Why it is not known, when that is known first, or the time is over. Nothing was called.
    async fn seen(
        &self,
        deadline: Option<std::time::Instant>,
    ) -> Result<Arc<Offered>, ClientError> {
        let now = self.offered();
        if now.known.is_some() {
            return Ok(now);
        }
        let waits = Instant::now() + self.client.start_wait();
        let deadline = deadline.map_or(waits, |deadline| waits.min(Instant::from_std(deadline)));
        let (mut offered, mut unlisted) = (self.offered.subscribe(), self.unlisted.subscribe());
        loop {
            {
                let now = offered.borrow_and_update();
                if now.known.is_some() {
                    return Ok(Arc::clone(&now));
                }
            }
            if let Some(error) = unlisted.borrow_and_update().clone() {
                return Err(error);
            }
            self.client.reach(deadline).await?;
            let changed = async {
                tokio::select! {
                    _ = offered.changed() => {}
                    _ = unlisted.changed() => {}
                }
            };
            if timeout_at(deadline, changed).await.is_err() {
                let what = "it did not list its tools before the time limit of the call";
                return Err(ClientError::Unreachable { what: what.into() });
            }
        }
    }

    /// Whether a tool or prompt that is not shown under this name may be one of its own: nobody
    /// knows yet what it offers, the hub is about to be told, or the tool is hidden.
    pub(crate) fn may_know(&self, name: &str) -> bool {
        if self.is_relay() {
            return true;
        }
        let offered = self.offered();
        if offered.known.is_some() {
            let is_there = offered.tool(name).is_some() || offered.prompt(name).is_some();
            return is_there || offered.hides(name);
        }
        let rest = name.strip_prefix(self.name());
        let is_ours = rest.is_some_and(|rest| rest.starts_with("__"));
        is_ours && self.config.prefix
    }

    /// Whether it was ever seen.
    pub(crate) fn is_known(&self) -> bool {
        self.offered().known.is_some()
    }

    fn failed_lists(&self) -> MutexGuard<'_, [Option<String>; ListKind::ALL.len()]> {
        let failed = self.failed_lists.lock();
        failed.unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`offer`](Self::offer), with the definitions read on a thread for blocking work: they may be large.
    async fn offer_apart(self: &Arc<Self>, known: Known, of_clients: Vec<OfClients>) -> bool {
        let before = self.offered();
        if before.known.as_ref() == Some(&known) && before.of_clients() == of_clients {
            return false;
        }
        let server = Arc::clone(self);
        let read = move || Offered::with_clients(&server.config, &server.policy, known, of_clients);
        // The caller reports the change without waiting in between.
        spawn_blocking(read)
            .await
            .is_ok_and(|after| self.replace(after))
    }

    /// Offers what is known now; whether that differs from before.
    fn offer(&self, known: Option<Known>) -> bool {
        if self.offered().known == known {
            return false;
        }
        self.replace(Offered::of(&self.config, &self.policy, known))
    }

    /// Replaces what is offered, and returns whether clients see a difference.
    fn replace(&self, after: Offered) -> bool {
        let before = self.offered();
        after.log_repairs(self.name(), &before);
        if let Some(cache) = &self.cache {
            cache.clear();
        }
        let differs = !after.shows_the_same(&before);
        self.offered.send_replace(Arc::new(after));
        differs
    }

    /// Counts a call that begins.
    pub(crate) fn begin(self: &Arc<Self>) -> Running {
        self.running
            .send_modify(|running| *running = (*running + 1).min(MAX_CALLS));
        Running(Arc::clone(self))
    }

    /// Lets calls that run go on to their end for at most `grace`, and ends the connection.
    pub(crate) async fn drain(self: Arc<Self>, grace: Duration) {
        self.finish(grace).await;
        self.client.close().await;
    }

    /// As [`drain`](Self::drain), and nothing is left of it at `deadline`.
    pub(crate) async fn drain_by(self: Arc<Self>, grace: Duration, deadline: Instant) {
        self.finish(grace).await;
        self.client.close_by(deadline).await;
    }

    async fn finish(&self, grace: Duration) {
        let mut running = self.running.subscribe();
        let _ = timeout(grace, running.wait_for(|running| *running == 0)).await;
        self.give_back().await;
    }

    /// Gives back what is left of the quota of the day, when nobody has called for a while.
    pub(crate) async fn give_back_when_quiet(&self) {
        if self
            .policy
            .quota
            .as_ref()
            .is_some_and(|quota| quota.is_quiet())
        {
            self.give_back().await;
        }
    }

    async fn give_back(&self) {
        let Some(quota) = self.policy.quota.clone() else {
            return;
        };
        let given = spawn_blocking(move || quota.give_back()).await;
        if let Ok(Err(error)) = given {
            tracing::warn!(server = self.name(), %error, "cannot correct the count of today's calls: calls that were not made stay counted");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0
            .running
            .send_modify(|running| *running = running.saturating_sub(1));
    }
}

pub(crate) fn client_config(config: &ServerConfig, roots: Vec<Root>) -> ClientConfig {
    let (retry, restart, circuit) = (&config.retry, &config.restart, &config.circuit);
    let features = config.features;
    let defaults = ClientConfig::default();
    ClientConfig {
        name: config.name.to_string(),
        protocol: match config.protocol {
            Protocol::Auto => ProtocolChoice::Auto,
            Protocol::Modern => ProtocolChoice::Era(Era::Stateless),
            Protocol::Legacy => ProtocolChoice::Era(Era::Session),
            Protocol::Revision(revision) => ProtocolChoice::Only(revision),
        },
        call_timeout: config.timeout,
        start_timeout: config.start_timeout,
        health_timeout: config.health.timeout,
        max_timeouts: config.health.max_timeouts,
        // Never, as far as anybody lives to see.
        health_interval: config
            .health
            .interval
            .unwrap_or(Duration::from_secs(1 << 32)),
        outstanding: config.pool.outstanding.max(1) as usize,
        pool: match config.pool.stateless {
            true => config.pool.max.max(1) as usize,
            false => 1,
        },
        retry: ClientRetry {
            attempts: retry.attempts,
            backoff: pauses(retry.backoff, retry.initial, retry.max),
            unsafe_calls: retry.repeat_unsafe,
        },
        backoff: pauses(restart.backoff, restart.initial, restart.max),
        circuit: ClientCircuit {
            failures: circuit.failures,
            pause: circuit.pause,
            successes: circuit.successes,
        },
        probe_timeout: config.probe_timeout,
        features: ClientFeatures {
            elicitation: features.elicitation,
            elicitation_url: features.elicitation,
            sampling: features.sampling,
            sampling_tools: features.sampling,
            roots: features.roots,
        },
        roots,
        idle_stop: config.idle_stop,
        lazy: config.lazy,
        ..defaults
    }
}

fn pauses(backoff: Backoff, first: Duration, cap: Duration) -> ClientBackoff {
    let growth = match backoff {
        Backoff::Exponential => Growth::Exponential(2.0),
        Backoff::Linear => Growth::Linear,
        Backoff::Constant => Growth::Constant,
    };
    ClientBackoff {
        first,
        growth,
        cap,
        ..ClientBackoff::default()
    }
}
