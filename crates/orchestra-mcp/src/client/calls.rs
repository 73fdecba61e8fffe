//! A client: one server, called through whatever connections it has now.

mod attempt;
mod lane;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use orchestra_hub::{ListKind, LogLevel};
use orchestra_wire::RawJson;
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, sleep, timeout_at},
};

use super::{
    Backoff, ClientConfig, ClientError, ClientStats, ClientStatus, Connector, Growth, Reply,
    ServerCall, ServerFacts, TransportMetadata, TransportType,
    breaker::Breaker,
    events::{ClientEvents, Events},
    lists,
    member::{Patience, Shared},
    roots::{ClientRoots, Roots},
    session::{Session, spawn},
    watching::Watching,
};
use attempt::{Turn, again, list_again, tell_status};
use lane::{Beside, Lane, Listed};

/// How long a call may take whose caller sets no deadline.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Pauses before a list is fetched again that failed and may succeed a moment later.
const LIST_PAUSES: Backoff = Backoff {
    first: Duration::from_millis(100),
    growth: Growth::Exponential(2.0),
    cap: Duration::from_secs(1),
    jitter: 0.2,
};

/// Lists of roots whose lists of the server are retained. Clients beyond them see what is listed without
/// roots, until they make a call.
const MOST_LISTED: usize = 2 * lane::MOST_ROOTS;

/// One server of others. Clones are the same client; when the last one is dropped, what it has
/// started is ended.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    lane: Arc<Lane>,
    beside: Beside,
    telling: AbortHandle,
    receiver: Mutex<Option<ClientEvents>>,
    status: watch::Sender<ClientStatus>,
    /// When an exchange succeeded last.
    succeeded: Mutex<Option<Instant>>,
    /// Lists of sessions with the roots of clients, as they were fetched last.
    of_roots: Mutex<HashMap<Roots, Listed>>,
}

/// Lists of a server that only some of its clients see: those with the roots of the session.
#[derive(Debug, Clone)]
pub struct ClientLists {
    /// Numbers of the clients ([`Cx::connection`](orchestra_hub::Cx::connection)).
    pub clients: Vec<u64>,
    /// The lists, in the order of [`ListKind::ALL`]; `None` where one could not be fetched.
    pub lists: [Option<Vec<RawJson>>; ListKind::ALL.len()],
}

impl Client {
    /// A client of one server. Nothing is started before [`start`](Self::start) or the first call.
    /// Must be called inside a tokio runtime.
    #[must_use]
    pub fn new(connector: Arc<dyn Connector>, config: ClientConfig) -> Self {
        let (events, receiver) = Events::new();
        let circuit = config.circuit;
        let client_roots = Arc::new(ClientRoots::new(events.clone()));
        let shared = Arc::new(Shared {
            connector,
            config: Arc::new(config),
            events,
            parking: Arc::default(),
            meter: Arc::default(),
            watching: Arc::new(Watching::new()),
            breaker: Arc::new(Breaker::new(circuit)),
            client_roots,
            profile: None,
        });
        let lane = Arc::new(Lane::new(Arc::clone(&shared)));
        let status = watch::Sender::new(ClientStatus::Idle);
        let telling = tell_status(Arc::clone(lane.first()), shared, status.clone());
        Self(Arc::new(Inner {
            lane,
            beside: Beside::default(),
            telling: tokio::spawn(telling).abort_handle(),
            receiver: Mutex::new(Some(receiver)),
            status,
            succeeded: Mutex::default(),
            of_roots: Mutex::default(),
        }))
    }

    /// Begins to start or reach the server, if that has not begun.
    pub fn start(&self) {
        self.0.lane.first().want();
    }

    /// Waits until the server can be called, and starts it for that, until a deadline or until a
    /// start has failed.
    ///
    /// # Errors
    /// Why it cannot be called, as a call would be told.
    pub async fn reach(&self, deadline: Instant) -> Result<(), ClientError> {
        let member = self.0.lane.first();
        member.session(deadline, Patience::OneTry).await.map(drop)
    }

    /// For how long a call waits for a server that cannot be called: as
    /// [`ClientConfig::patience`] says, or else a whole start, or as long as it would wait for an
    /// answer.
    #[must_use]
    pub fn start_wait(&self) -> Duration {
        let config = &self.0.lane.shared.config;
        let leeway = self.0.lane.shared.connector.leeway();
        let start = config.start_timeout.saturating_add(leeway);
        let start = start.saturating_add(config.clients_wait);
        let usual = config.call_timeout.max(start);
        config.patience.unwrap_or(usual)
    }

    /// Makes a call. It waits for a server that is being started, for [`start_wait`](Self::start_wait)
    /// or until a start has failed that a call should know of, and is tried again where that is
    /// harmless, within its deadline.
    ///
    /// # Errors
    /// What went wrong the last time; [`ClientError::sent`] says whether it may have run.
    pub async fn call(&self, call: ServerCall) -> Result<Reply, ClientError> {
        let deadline = call.cx.deadline.map(Instant::from_std);
        let deadline = deadline.unwrap_or_else(|| Instant::now() + LONGEST);
        let retry = &self.0.lane.shared.config.retry;
        // Who goes away takes the connection along, which is made anew before the next call.
        let is_bound = self.0.lane.shared.connector.transport() != TransportType::Http;
        let mut turn = Turn::begin(&self.0.lane.shared.breaker, &call)?;
        let (mut attempt, mut waits, mut was_gone) = (0, None, false);
        loop {
            let error = match self.attempt(&call, deadline, &mut waits, &mut turn).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let cause = error.cause();
            if cause.is_session_denied() && std::mem::replace(&mut was_gone, true) {
                // A server that forgets a session with each call may well have run the call.
                return Err(error.maybe_run());
            }
            // It was not sent: whoever may not simply call again is told now.
            if waits.is_some() && is_bound && !call.safe {
                return Err(error);
            }
            attempt += 1;
            let pause = again(&error, call.safe, retry.unsafe_calls)
                .filter(|_| attempt < retry.attempts.max(1));
            let Some(least) = pause else {
                return Err(error);
            };
            let pause = match cause {
                // The start itself is spaced already.
                ClientError::Closed | ClientError::Crashed(_) => least,
                cause if cause.is_session_gone() => least,
                _ => retry.backoff.next(attempt - 1).max(least),
            };
            if Instant::now() + pause >= waits.unwrap_or(deadline) {
                return Err(error);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.0.lane.first().back() => {}
            }
        }
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn notify(&self, method: &str, params: Option<RawJson>) -> Result<(), ClientError> {
        let until = Instant::now() + self.0.lane.shared.config.call_timeout;
        let session = self
            .0
            .lane
            .first()
            .session(until, Patience::Deadline)
            .await?;
        session.link.notify(method, params).await
    }

    /// A list of the server, whole and verbatim: as its first connection has it, and after that the
    /// items that connections with another greeting alone list. What only clients with certain roots see
    /// is in [`lists_of_clients`](Self::lists_of_clients).
    ///
    /// # Errors
    /// When the first connection cannot be asked. A server that does not offer it has an empty one.
    pub async fn list(&self, kind: ListKind) -> Result<Vec<RawJson>, ClientError> {
        let until = Instant::now() + self.0.lane.shared.config.start_timeout;
        let first = self.0.lane.first();
        let session = first.session(until, Patience::Deadline).await?;
        let beside = self.0.beside.open();
        let shared = beside.iter().filter(|lane| !lane.has_client_roots());
        let others = join_all(shared.map(|lane| lane.list(kind)));
        let (items, others) = tokio::join!(self.list_first(&session, kind, until), others);
        let mut items = items?;
        for others in others {
            lists::add(&mut items, others, kind);
        }
        Ok(items)
    }

    /// As [`list`](Self::list), and fetched again for at most `within` after an error that may pass. Pauses
    /// grow, and are never shorter than the `Retry-After` of the server.
    ///
    /// # Errors
    /// As [`list`](Self::list), of the last attempt.
    pub async fn list_within(
        &self,
        kind: ListKind,
        within: Duration,
    ) -> Result<Vec<RawJson>, ClientError> {
        let until = Instant::now() + within;
        let mut attempt = 0;
        loop {
            let error = match self.list(kind).await {
                Ok(items) => return Ok(items),
                Err(error) => error,
            };
            let Some(least) = list_again(&error) else {
                return Err(error);
            };
            let pause = LIST_PAUSES.next(attempt).max(least);
            if Instant::now() + pause >= until {
                return Err(error);
            }
            attempt += 1;
            // The first failure is common while a server loads its tools.
            if attempt == 2 {
                let server = &self.0.lane.shared.config.name;
                let error = error.explain();
                tracing::warn!(%server, ?kind, error, "cannot fetch a list of the server; trying again");
            }
            sleep(pause).await;
        }
    }

    /// A list of the first connection. Where that has the roots of a client, the list is as it was before,
    /// or that of a session without roots.
    async fn list_first(
        &self,
        first: &Arc<Session>,
        kind: ListKind,
        until: Instant,
    ) -> Result<Vec<RawJson>, ClientError> {
        let lane = &self.0.lane;
        if first.client_roots().is_none() {
            let items = lists::fetch(first, kind).await?;
            // It may have got the roots of a client meanwhile.
            if first.client_roots().is_none() {
                lane.listed()[kind as usize] = Some(items.clone());
                return Ok(items);
            }
        }
        if let Some(items) = lane.listed()[kind as usize].clone() {
            return Ok(items);
        }
        let rootless = self.rootless(first.era())?;
        let session = rootless.first().session(until, Patience::OneTry).await?;
        lists::fetch(&session, kind).await
    }

    /// Fetches lists of sessions that have the roots of clients. Lists that cannot be fetched soon, and
    /// those of other kinds, are as they were fetched last.
    pub async fn lists_of_clients(&self, kinds: &[ListKind]) -> Vec<ClientLists> {
        let lanes = self.0.lanes();
        let ready = lanes.iter().flat_map(|lane| &lane.members);
        let ready = ready.filter_map(|member| member.ready());
        let fetches = ready.filter_map(|session| {
            let roots = session.client_roots()?;
            let stale: Vec<ListKind> = {
                let of_roots = self.0.of_roots();
                let listed = of_roots.get(&roots);
                let is_known =
                    |kind: ListKind| listed.is_some_and(|of| of[kind as usize].is_some());
                let is_stale = |kind: &ListKind| kinds.contains(kind) || !is_known(*kind);
                ListKind::ALL.into_iter().filter(is_stale).collect()
            };
            Some(async move {
                let fetched = lane::fetch_soon(&session, &stale).await;
                let is_theirs = session.client_roots().as_ref() == Some(&roots);
                is_theirs.then_some((roots, fetched))
            })
        });
        let fetched = join_all(fetches).await;
        let known = &self.0.lane.shared.client_roots;
        let mut of_roots = self.0.of_roots();
        for (roots, fetched) in fetched.into_iter().flatten() {
            let listed = of_roots.entry(roots).or_default();
            for (kind, items) in fetched {
                listed[kind as usize] = Some(items);
            }
        }
        let mut all: Vec<ClientLists> = Vec::new();
        of_roots.retain(|roots, listed| {
            let clients = known.clients(roots);
            let is_used = !clients.is_empty() && all.len() < MOST_LISTED;
            if is_used {
                let lists = listed.clone();
                all.push(ClientLists { clients, lists });
            }
            is_used
        });
        orchestra_sort::sort_by(&mut all, |one, other| one.clients.cmp(&other.clients));
        all
    }

    /// Returns whether the roots of a client ([`Cx::connection`](orchestra_hub::Cx::connection)) are known.
    #[must_use]
    pub fn has_roots_of(&self, client: u64) -> bool {
        self.0.lane.shared.client_roots.knows(client)
    }

    /// Takes the roots of a client after a change: the answer to `roots/list`, and the number of changes
    /// ([`Cx::roots_version`](orchestra_hub::Cx::roots_version)). A session that the client alone uses has the new
    /// roots from now on, and its server is notified.
    pub fn set_roots(&self, client: u64, version: u64, answer: &RawJson) {
        let roots = Roots::of_answer(answer);
        self.0.beside.change_roots(client, &roots);
        let first = self.0.lane.members.iter();
        for session in first.filter_map(|member| member.ready()) {
            session.change_roots(client, &roots);
        }
        self.0.lane.shared.client_roots.set(client, version, &roots);
    }

    /// Its events; `Some` once.
    pub fn take_events(&self) -> Option<ClientEvents> {
        self.0
            .receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// How the server is, now and after each change.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<ClientStatus> {
        self.0.status.subscribe()
    }

    /// What the server has said of itself, once it was greeted.
    #[must_use]
    pub fn server(&self) -> Option<Arc<ServerFacts>> {
        let session = self.0.lane.first().ready()?;
        session.facts().cloned()
    }

    /// The process of the server, if it is one of ours and runs.
    #[must_use]
    pub fn process_ids(&self) -> Vec<u32> {
        let lanes = self.0.lanes();
        let members = lanes.iter().flat_map(|lane| &lane.members);
        let ready = members.filter_map(|member| member.ready());
        ready
            .filter_map(|session| session.link.process_id())
            .collect()
    }

    /// Has changes of a resource told, until [`unwatch`](Self::unwatch).
    pub fn watch(&self, uri: &str) {
        self.0.lane.shared.watching.watch(uri);
    }

    /// Ends [`watch`](Self::watch).
    pub fn unwatch(&self, uri: &str) {
        self.0.lane.shared.watching.unwatch(uri);
    }

    /// What of its log the server sends by itself, in the session era.
    pub fn set_log_level(&self, level: Option<LogLevel>) {
        self.0.lane.shared.watching.set_level(level);
    }

    /// Asks whether the server is well (seed 002, `HealthCheck`). Starts nothing that does not run,
    /// and changes nothing at the server.
    ///
    /// # Errors
    /// When it is not, or does not run.
    pub async fn health_check(&self) -> Result<(), ClientError> {
        let session = self.ready()?;
        session.check_health().await
    }

    fn ready(&self) -> Result<Arc<Session>, ClientError> {
        self.0.lane.first().ready().ok_or(ClientError::Unreachable {
            what: "the server does not run now".to_owned(),
        })
    }

    /// Starts the server anew, whatever it is now; forgets earlier failures. Calls that run may go on
    /// to their end first, for as long as [`ClientConfig::drain`](super::ClientConfig::drain) says;
    /// those that come meanwhile wait for the next start.
    pub fn restart(&self) {
        let lane = &self.0.lane;
        lane.shared.breaker.reset();
        let used = lane.used.load(Ordering::Relaxed);
        lane.members[..used]
            .iter()
            .for_each(|member| member.restart());
        for beside in self.0.beside.take() {
            spawn(async move { beside.close(None).await });
        }
    }

    /// Ends what was started, in good order (seed 002, `Close`). Calls that run fail with
    /// [`ClientError::Closed`], and so do later ones. Idempotent.
    pub async fn close(&self) {
        self.end(None).await;
    }

    /// As [`close`](Self::close), and nothing is left at `deadline`: processes get less time than
    /// their configuration says where that is too long.
    pub async fn close_by(&self, deadline: Instant) {
        // What takes longer is dropped, which kills a process.
        let _ = timeout_at(deadline, self.end(Some(deadline))).await;
        self.0.abort();
        self.0.status.send_replace(ClientStatus::Closed);
    }

    async fn end(&self, deadline: Option<Instant>) {
        let lanes = self.0.lanes();
        join_all(lanes.iter().map(|lane| lane.close(deadline))).await;
        self.0.abort();
        self.0.status.send_replace(ClientStatus::Closed);
    }

    /// Diagnostics (seed 002, `Metadata`). Never waits.
    #[must_use]
    pub fn metadata(&self) -> TransportMetadata {
        let transport = self.0.lane.shared.connector.transport();
        let facts = self.server();
        let lately = || {
            let succeeded = *self
                .0
                .succeeded
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let interval = self.0.lane.shared.config.health_interval;
            succeeded.is_some_and(|at| at.elapsed() <= interval)
        };
        TransportMetadata {
            transport,
            protocol_version: facts.as_ref().map_or("", |facts| facts.revision.as_str()),
            latency: self.0.lane.shared.meter.mean(),
            is_connected: match transport {
                TransportType::Stdio | TransportType::Quic => facts.is_some(),
                TransportType::Http => facts.is_some() && lately(),
            },
        }
    }

    /// Counters and latencies.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        self.0.lane.shared.meter.stats()
    }

    /// Events that were dropped because nobody took them.
    #[must_use]
    pub fn dropped_events(&self) -> u64 {
        self.0.lane.shared.events.dropped()
    }
}

impl Inner {
    fn of_roots(&self) -> MutexGuard<'_, HashMap<Roots, Listed>> {
        self.of_roots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All connections: the first ones, and those beside them.
    fn lanes(&self) -> Vec<Arc<Lane>> {
        let mut lanes = self.beside.open();
        lanes.insert(0, Arc::clone(&self.lane));
        lanes
    }

    fn abort(&self) {
        self.telling.abort();
        self.lanes().iter().for_each(|lane| lane.abort());
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.abort();
    }
}
