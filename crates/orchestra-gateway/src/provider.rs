//! A server as a provider of the hub: the same one, whatever configuration it has now.

mod prefixed;

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use orchestra_hub::{
    BoxFuture, Catalog, ListKind, LogLevel, Notice, Offers, Outcome, PeerReport, Provider,
    ProviderError, ProviderId, Request,
};
use orchestra_mcp::client::{ClientError, ServerCall};
use orchestra_wire::RawJson;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::server::{Follower, Running, Server, follow, report};
use prefixed::Prefix;

/// Notices that wait for the hub.
const NOTICES: usize = 1_024;

/// Calls of one server that run at once at most; its own limits say less.
const AT_ONCE: usize = 4_096;

/// Prefix of the URIs of a server where they are not unique or not absolute.
pub(crate) fn resource_prefix(server: &str) -> String {
    Prefix::of(server).as_str().to_owned()
}

/// A server behind the hub.
pub(crate) struct Downstream {
    id: ProviderId,
    group: String,
    shared: Arc<Shared>,
    receiver: Mutex<Option<mpsc::Receiver<Notice>>>,
}

struct Shared {
    servers: RwLock<Servers>,
    catalog: watch::Sender<Arc<Catalog>>,
    prefix: Prefix,
    is_ready: AtomicBool,
    notices: mpsc::Sender<Notice>,
    wanted: Mutex<Wanted>,
    /// Followers, and servers that end.
    tasks: Mutex<JoinSet<()>>,
    grace: Duration,
}

/// The servers of one provider, each with a configuration of its own.
struct Servers {
    /// The one that is called.
    current: Arc<Server>,
    /// The one that takes its place as soon as it is known what it offers.
    next: Option<Arc<Server>>,
}

/// What callers want to hear of.
#[derive(Default)]
struct Wanted {
    watched: BTreeSet<String>,
    level: Option<LogLevel>,
}

/// Follows one server for as long as its provider is there.
struct Listener {
    shared: Weak<Shared>,
}

impl Downstream {
    /// Offers what is known of the server, and begins to follow it. Must run inside a runtime.
    pub(crate) fn new(id: ProviderId, server: Arc<Server>, grace: Duration) -> Arc<Self> {
        let (notices, receiver) = mpsc::channel(NOTICES);
        let catalog = Arc::clone(&server.offered().catalog);
        let shared = Arc::new(Shared {
            is_ready: AtomicBool::new(server.is_known()),
            catalog: watch::Sender::new(catalog),
            prefix: Prefix::of(server.name()),
            servers: RwLock::new(Servers {
                current: Arc::clone(&server),
                next: None,
            }),
            notices,
            wanted: Mutex::default(),
            tasks: Mutex::default(),
            grace,
        });
        let downstream = Self {
            group: server.name().to_owned(),
            receiver: Mutex::new(Some(receiver)),
            id,
            shared,
        };
        downstream.begin(server);
        Arc::new(downstream)
    }

    /// Puts another configuration in the place of the one of now, as soon as it is known what that
    /// offers. Calls that run go on to their end; one that was still to take its place ends.
    pub(crate) fn replace(&self, server: Arc<Server>) {
        self.shared.expect(&server);
        if server.is_known() {
            self.shared.take_over(&server);
        }
        self.begin(server);
    }

    fn begin(&self, server: Arc<Server>) {
        // One that nobody has ever seen is looked at, however lazy it is.
        if !server.config.lazy || !server.is_known() {
            server.client.start();
        }
        let listener = Listener {
            shared: Arc::downgrade(&self.shared),
        };
        self.shared.tasks().spawn(follow(server, listener));
    }

    /// The one that is called.
    pub(crate) fn server(&self) -> Arc<Server> {
        Arc::clone(&self.shared.servers().current)
    }

    /// The one that is called, and the count of a call of it.
    fn begin_call(&self) -> (Arc<Server>, Running) {
        let mut server = self.server();
        loop {
            let running = server.begin();
            let now = self.server();
            // One that was replaced in between may not wait for calls any more.
            if Arc::ptr_eq(&now, &server) {
                return (server, running);
            }
            server = now;
        }
    }

    /// Asks something on behalf of this program.
    pub(crate) async fn ask(&self, call: ServerCall) -> Result<RawJson, ClientError> {
        let (server, _running) = self.begin_call();
        server.ask(call).await
    }

    /// The one that came last; it may still have to take its place.
    pub(crate) fn newest(&self) -> Arc<Server> {
        Arc::clone(self.shared.servers().newest())
    }

    pub(crate) fn provider_id(&self) -> &ProviderId {
        &self.id
    }

    /// Lets calls go on to their end for a while, and ends the connection; also that of a server
    /// that has not taken its place yet.
    pub(crate) async fn close(&self) {
        let grace = self.shared.grace;
        join_all(self.all().map(|server| server.drain(grace))).await;
        self.left(grace).await;
    }

    /// As [`close`](Self::close), and nothing is left at `deadline`: calls that go on have the first
    /// half of the time, for their server needs the rest to end.
    pub(crate) async fn close_by(&self, deadline: Instant) {
        let time = deadline.saturating_duration_since(Instant::now());
        let grace = self.shared.grace.min(time / 2);
        join_all(self.all().map(|server| server.drain_by(grace, deadline))).await;
        self.left(deadline.saturating_duration_since(Instant::now()))
            .await;
    }

    /// The server that is called, and the one that was to take its place, which does so no more.
    fn all(&self) -> impl Iterator<Item = Arc<Server>> {
        let servers = &mut *self.shared.servers_mut();
        let all = [Some(Arc::clone(&servers.current)), servers.next.take()];
        all.into_iter().flatten()
    }

    /// Waits for what still goes on. Those that drain others are bounded as well; those that follow
    /// end with their clients.
    async fn left(&self, time: Duration) {
        let mut tasks = std::mem::take(&mut *self.shared.tasks());
        let _ = timeout(time, async { while tasks.join_next().await.is_some() {} }).await;
    }
}

impl Servers {
    fn newest(&self) -> &Arc<Server> {
        self.next.as_ref().unwrap_or(&self.current)
    }
}

impl Shared {
    fn servers(&self) -> RwLockReadGuard<'_, Servers> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn servers_mut(&self) -> RwLockWriteGuard<'_, Servers> {
        self.servers.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a server is the one that came last, as which alone it is told.
    fn is_newest(&self, server: &Arc<Server>) -> bool {
        Arc::ptr_eq(self.servers().newest(), server)
    }

    /// Makes a server the next, and lets the one go that was.
    fn expect(&self, server: &Arc<Server>) {
        let superseded = self.servers_mut().next.replace(Arc::clone(server));
        if let Some(superseded) = superseded {
            self.tasks().spawn(superseded.drain(self.grace));
        }
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks
    }

    /// Makes the next server the one that is called, and lets the one before go. Nothing changes
    /// where another one came after it.
    fn take_over(&self, server: &Arc<Server>) {
        {
            let servers = &mut *self.servers_mut();
            let is_next = |next: &mut Arc<Server>| Arc::ptr_eq(next, server);
            let Some(next) = servers.next.take_if(is_next) else {
                return;
            };
            let before = std::mem::replace(&mut servers.current, next);
            self.tasks().spawn(before.drain(self.grace));
        }
        let wanted = self.wanted();
        wanted
            .watched
            .iter()
            .for_each(|uri| server.client.watch(self.prefix.own(uri)));
        server.client.set_log_level(wanted.level);
        drop(wanted);
        if server.is_known() {
            self.publish(server);
        }
    }

    /// What is told of a resource, under each URI by which it is watched here; another server may
    /// have one of the same.
    fn updated(&self, uri: &str) -> Vec<Notice> {
        let wanted = self.wanted();
        let names = |watched: &&String| **watched == uri || self.prefix.own(watched) == uri;
        let watched = wanted.watched.iter().filter(names).cloned();
        watched.map(Notice::ResourceUpdated).collect()
    }

    fn publish(&self, server: &Arc<Server>) {
        self.catalog
            .send_replace(Arc::clone(&server.offered().catalog));
    }

    /// The same where it may be what is known already.
    fn publish_if_other(&self, server: &Arc<Server>) {
        let now = Arc::clone(&server.offered().catalog);
        self.catalog.send_if_modified(|catalog| {
            let is_other = !Arc::ptr_eq(catalog, &now);
            *catalog = now;
            is_other
        });
    }
}

impl Follower for Listener {
    fn settled(&self, server: &Arc<Server>) -> bool {
        let Some(shared) = self.shared.upgrade() else {
            return false;
        };
        if !shared.is_newest(server) {
            // It is called until another one takes its place; one that never was is let go.
            return Arc::ptr_eq(&shared.servers().current, server);
        }
        shared.take_over(server);
        if !shared.is_ready.swap(true, Ordering::AcqRel) {
            // Whoever waits for it is told, also when there is nothing.
            shared.publish(server);
        }
        true
    }

    fn changed(&self, server: &Arc<Server>) {
        if let Some(shared) = self
            .shared
            .upgrade()
            .filter(|shared| shared.is_newest(server))
        {
            shared.take_over(server);
            shared.is_ready.store(true, Ordering::Release);
            shared.publish(server);
        }
    }

    fn told(&self, notice: Notice) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let notices = match notice {
            Notice::ResourceUpdated(uri) => shared.updated(&uri),
            other => vec![other],
        };
        for notice in notices {
            // The hub takes them faster than they come, or is about to end.
            let _ = shared.notices.try_send(notice);
        }
    }
}

impl Provider for Downstream {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.shared.catalog.subscribe()
    }

    fn is_ready(&self) -> bool {
        self.shared.is_ready.load(Ordering::Acquire)
    }

    fn list_wanted(&self) {
        self.server().client.start();
    }

    fn lists_anew(&self) -> bool {
        self.server().is_relay()
    }

    fn relist(&self, kind: ListKind) -> BoxFuture<Result<(), ProviderError>> {
        let (shared, server) = (Arc::clone(&self.shared), self.server());
        Box::pin(async move {
            server.list_now(kind).await?;
            shared.publish_if_other(&server);
            Ok(())
        })
    }

    fn may_offer(&self) -> Offers {
        let server = self.server();
        let is_unknown = server.is_relay() || !server.is_known();
        let said = server.client.server().filter(|_| server.is_relay());
        Offers {
            prompts: is_unknown,
            resources: is_unknown,
            skills_elsewhere: said.is_some_and(|said| said.can.skills),
            ..Offers::default()
        }
    }

    fn may_know(&self, name: &str) -> bool {
        self.server().may_know(name)
    }

    fn peer(&self) -> Option<PeerReport> {
        Some(report(&self.server()))
    }

    fn server(&self) -> Option<&str> {
        Some(&self.group)
    }

    fn concurrency(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(AT_ONCE)
    }

    fn makes_remarks(&self) -> bool {
        true
    }

    fn uri_prefix(&self) -> Option<String> {
        Some(self.shared.prefix.as_str().to_owned())
    }

    fn serve(&self, mut request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        let prefix = &self.shared.prefix;
        let dresses = prefix.strip(&mut request.target).then(|| prefix.clone());
        let (server, running) = self.begin_call();
        let serving = server.serve(request, running);
        match dresses {
            None => Box::pin(serving),
            Some(prefix) => Box::pin(async move { Ok(prefix.dress(serving.await?)) }),
        }
    }

    fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        receiver.take()
    }

    fn can_watch(&self, _uri: &str) -> bool {
        let server = self.server();
        let offered = server.offered();
        let can = offered.facts().map(|facts| facts.subscribe);
        // Whoever it is a way to may be reached later.
        can.unwrap_or(server.is_relay())
    }

    fn watch(&self, uri: &str) {
        let mut wanted = self.shared.wanted();
        wanted.watched.insert(uri.to_owned());
        self.server().client.watch(self.shared.prefix.own(uri));
    }

    fn unwatch(&self, uri: &str) {
        let mut wanted = self.shared.wanted();
        wanted.watched.remove(uri);
        let own = self.shared.prefix.own(uri);
        // It may be watched by its other name as well.
        let mut watched = wanted.watched.iter();
        if !watched.any(|uri| self.shared.prefix.own(uri) == own) {
            self.server().client.unwatch(own);
        }
    }

    fn has_roots_of(&self, client: u64) -> bool {
        self.server().client.has_roots_of(client)
    }

    fn set_roots(&self, client: u64, version: u64, answer: &RawJson) {
        self.server().client.set_roots(client, version, answer);
    }

    fn set_log_level(&self, level: Option<LogLevel>) {
        let mut wanted = self.shared.wanted();
        wanted.level = level;
        self.server().client.set_log_level(level);
    }
}
