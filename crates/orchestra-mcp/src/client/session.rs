//! One greeted connection: calls go out with what the revision wants around them, and what the
//! server says by itself finds whom it is for.

mod claim;
mod exchange;
mod presence;
mod roots;
mod tools;

use std::{
    collections::{BTreeSet, HashMap},
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use orchestra_hub::{Along, BoxFuture, ClientFeatures, ListKind};
use orchestra_wire::{Era, RawJson, RequestId};
use tokio::{sync::Notify, time::Instant};

use super::{
    Answer, ClientConfig, ClientError, Connected, Link, Outgoing, ProtocolChoice, ServerCall,
    ServerFacts, TransportType,
    background::Background,
    events::{Events, Kinds},
    greeting,
    incoming::{self, Mailbox},
    open::OpenCall,
    parking::Parking,
    profile::Profile,
    roots::{ClientRoots, RootsNeeded, RootsOffer, SessionRoots},
    watching::Logged,
};

pub(super) use claim::Claim;
pub(super) use exchange::{Place, Waiting};

/// A greeted connection.
pub(super) struct Session {
    pub(super) link: Arc<dyn Link>,
    pub(super) transport: TransportType,
    pub(super) config: Arc<ClientConfig>,
    pub(super) events: Events,
    parking: Arc<Parking>,
    mailbox: Arc<Mailbox>,
    facts: OnceLock<Arc<ServerFacts>>,
    ids: AtomicU64,
    calls: Mutex<HashMap<u64, Arc<OpenCall>>>,
    pub(super) background: Background,
    claims: claim::Claims,
    presence: presence::Presence,
    pub(super) logged: Logged,
    /// Lists that were fetched over this connection.
    pub(super) fetched: Kinds,
    /// Tools as the server lists them over this connection.
    tools: tools::ListedTools,
    /// Resources whose changes the server reports over this connection.
    covered: Mutex<BTreeSet<String>>,
    /// Fires when the server reports that its resources have changed: it may accept subscriptions that
    /// it refused before.
    pub(super) resources_changed: Notify,
    /// Era in which the server was greeted first, and the roots that it is offered if it begins a
    /// session.
    greeted: Profile,
    /// Roots of the clients of the server.
    client_roots: Arc<ClientRoots>,
    /// Roots that the session has.
    given: SessionRoots,
    /// Number of changes of the roots.
    roots_changes: AtomicU64,
    /// Number of changes of which the server was notified. Held while it is notified of another.
    roots_turn: tokio::sync::Mutex<u64>,
    /// Profile of the connection that replaces this one, where it is [`OUTGROWN`].
    successor: OnceLock<Profile>,
    /// [`UNUSED`], [`USED`] or [`OUTGROWN`].
    use_state: AtomicU8,
    /// Fires when the connection is to be made anew.
    recycle: Notify,
    /// Whether a call brought anything.
    has_answered: AtomicBool,
    /// The link has ended, as a call has learned, or is about to.
    is_over: AtomicBool,
    timeouts: AtomicU32,
    is_probed: AtomicBool,
    /// A question of the server was repaired, and that is logged.
    pub(super) has_odd_questions: AtomicBool,
    /// Calls of others that run.
    busy: AtomicUsize,
    last_used: Mutex<Instant>,
}

/// No call of a caller was made on it.
const UNUSED: u8 = 0;
const USED: u8 = 1;
/// It is left for another that is greeted otherwise.
const OUTGROWN: u8 = 2;

/// Why a session was left.
#[derive(Debug, Clone)]
pub(super) enum Left {
    /// The link ended.
    Ended(ClientError),
    /// Nobody is there any more, though the link has no end.
    Away(ClientError),
    /// Nobody was there for so long that the link is good for nothing.
    GivenUp(ClientError),
    /// It did not answer any more.
    Recycled,
    /// Somebody asked for a restart.
    Unwanted,
    /// Nobody used it.
    Idle,
}

impl Session {
    /// Greets a server.
    ///
    /// # Errors
    /// When it ends, or speaks nothing that is known here.
    pub(super) async fn open(
        connected: Connected,
        transport: TransportType,
        config: &Arc<ClientConfig>,
        events: Events,
        parking: &Arc<Parking>,
        client_roots: &Arc<ClientRoots>,
        greeted: Profile,
    ) -> Result<Arc<Self>, ClientError> {
        let era = greeted.era;
        let roots = match &greeted.roots {
            RootsOffer::Of(roots) => Some(roots.clone()),
            RootsOffer::Nothing | RootsOffer::Unasked => None,
        };
        let Connected { link, incoming } = connected;
        let mailbox = Arc::new(Mailbox::new(incoming));
        let session = Arc::new(Self {
            link,
            transport,
            config: Arc::clone(config),
            events,
            parking: Arc::clone(parking),
            mailbox: Arc::clone(&mailbox),
            facts: OnceLock::new(),
            ids: AtomicU64::new(1),
            calls: Mutex::default(),
            background: Background::default(),
            claims: claim::Claims::default(),
            presence: presence::Presence::new(),
            logged: Logged::default(),
            fetched: Kinds::default(),
            tools: tools::ListedTools::default(),
            covered: Mutex::default(),
            resources_changed: Notify::new(),
            greeted,
            client_roots: Arc::clone(client_roots),
            given: SessionRoots::new(roots),
            roots_changes: AtomicU64::new(0),
            roots_turn: tokio::sync::Mutex::default(),
            successor: OnceLock::new(),
            use_state: AtomicU8::new(UNUSED),
            recycle: Notify::new(),
            has_answered: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            timeouts: AtomicU32::new(0),
            is_probed: AtomicBool::new(false),
            has_odd_questions: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
        });
        tokio::spawn(incoming::route(mailbox, Arc::downgrade(&session)));
        let facts = greeting::greet(&session, era).await?;
        // Nobody else greets.
        let _ = session.facts.set(Arc::new(facts));
        if session.era() == Era::Session && session.features().roots {
            session.settle_roots().await;
        }
        Ok(session)
    }

    /// What the server has said of itself.
    pub(super) fn facts(&self) -> Option<&Arc<ServerFacts>> {
        self.facts.get()
    }

    /// Sends a request of our own, with nothing around it.
    pub(super) fn ask(
        &self,
        method: &str,
        params: Option<RawJson>,
    ) -> BoxFuture<Result<Answer, ClientError>> {
        self.link.request(Outgoing {
            id: RequestId::from_number(self.next_id()),
            method: method.to_owned(),
            params,
            name: None,
            headers: Vec::new(),
            along: Along::default(),
            departure: None,
        })
    }

    /// Sends a request of our own as the revision wants it.
    pub(super) async fn ask_within(
        self: &Arc<Self>,
        call: &ServerCall,
        within: Duration,
    ) -> Result<RawJson, ClientError> {
        let mut waiting = self.open_call(call);
        match tokio::time::timeout(within, waiting.ended()).await {
            Ok(answer) => answer?.map_err(ClientError::Rpc),
            Err(_) => Err(ClientError::Timeout { after: within }),
        }
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, HashMap<u64, Arc<OpenCall>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The era that is spoken; that of sessions until it is known.
    pub(super) fn era(&self) -> Era {
        self.facts
            .get()
            .map_or(Era::Session, |facts| facts.revision.era())
    }

    /// Whether a call has brought anything, so that the start was a good one.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Whether no call is to begin here any more.
    pub(super) fn is_over(&self) -> bool {
        let is_outgrown = self.use_state.load(Ordering::Acquire) == OUTGROWN;
        is_outgrown || self.is_over.load(Ordering::Relaxed) || self.presence.is_away()
    }

    /// Whether the server may speak the other era as well: it was not refused to it.
    pub(super) fn may_speak_both(&self) -> bool {
        self.config.protocol == ProtocolChoice::Auto && self.greeted.era == self.era()
    }

    /// Features that the server is offered.
    pub(super) fn features(&self) -> ClientFeatures {
        let roots = self.greeted.roots != RootsOffer::Nothing;
        ClientFeatures {
            roots,
            ..self.config.features
        }
    }

    /// The profile that a call needs, where this connection has another. Calls of no client need none,
    /// unless the connection has the roots of a client.
    ///
    /// # Errors
    /// When the client must be asked for its roots first.
    pub(super) fn other_profile(&self, call: &ServerCall) -> Result<Option<Profile>, RootsNeeded> {
        if self.config.clients.is_none() {
            return Ok(None);
        }
        let era = match call.cx.era {
            Some(asked) if self.may_speak_both() => asked,
            Some(_) => self.era(),
            None if self.given.is_taken() => self.era(),
            None => return Ok(None),
        };
        self.other_profile_of(call, era)
    }

    /// The same of connections that speak `era`.
    ///
    /// # Errors
    /// When the client must be asked for its roots first.
    pub(super) fn other_profile_of(
        &self,
        call: &ServerCall,
        era: Era,
    ) -> Result<Option<Profile>, RootsNeeded> {
        let roots = self.wanted_roots(call, era)?;
        let wanted = Profile { era, roots };
        Ok((!self.fits(&wanted, &call.cx)).then_some(wanted))
    }

    fn profile(&self) -> Profile {
        let roots = match self.given.roots() {
            Some(roots) => RootsOffer::Of(roots),
            None => self.greeted.roots.clone(),
        };
        let era = self.era();
        Profile { era, roots }
    }

    /// Profile of the connection after this one: the same where a caller has made a call on it, the one
    /// for which it was left, and `None` where the clients that have come decide.
    pub(super) fn next_profile(&self, last_used: Option<Profile>) -> Option<Profile> {
        match self.use_state.load(Ordering::Acquire) {
            USED => Some(self.profile()),
            OUTGROWN => self.successor.get().cloned(),
            _ => last_used,
        }
    }

    /// Returns whether the connection is replaced by one that is greeted as the clients need it that
    /// have come since. A connection on which a caller has made a call stays.
    ///
    /// # Errors
    /// When the client must be asked for its roots first.
    pub(super) fn is_outgrown(&self, call: &ServerCall) -> Result<bool, RootsNeeded> {
        if let Some(wanted) = self.other_profile(call)? {
            let first = self.config.first_profile();
            // One for the roots of another client stays: clients that come at once do not take turns.
            let is_for_roots = wanted.era == first.era && wanted.has_own_roots();
            let helps = wanted == first || is_for_roots && !self.given.is_taken();
            if helps && self.moves_to(OUTGROWN) {
                // Requests of the stateless era have roots of their own.
                let successor = if wanted == first { first } else { wanted };
                let _ = self.successor.set(successor);
                self.recycle();
            }
        }
        Ok(self.use_state.load(Ordering::Acquire) == OUTGROWN)
    }

    /// Returns whether no call uses the connection now.
    pub(super) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0
    }

    /// Marks the connection as used by a caller. Returns false when another one is made in its place.
    pub(super) fn begin_use(&self) -> bool {
        self.moves_to(USED) || self.use_state.load(Ordering::Acquire) == USED
    }

    fn moves_to(&self, state: u8) -> bool {
        let (new, old) = (Ordering::AcqRel, Ordering::Acquire);
        let moved = self.use_state.compare_exchange(UNUSED, state, new, old);
        moved.is_ok()
    }

    fn note_end(&self, error: &ClientError) {
        let has_ended = matches!(error, ClientError::Closed | ClientError::Crashed(_));
        if has_ended || error.is_session_gone() {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the connection be made anew.
    pub(super) fn recycle(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.recycle.notify_one();
    }

    /// A call was not answered in time: the server is asked whether it is well, and is started
    /// anew when it does not answer that either, or when several calls in a row were not answered.
    fn note_timeout(self: &Arc<Self>) {
        if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= self.config.max_timeouts.max(1) {
            self.timeouts.store(0, Ordering::Relaxed);
            self.recycle();
            return;
        }
        if self.is_probed.swap(true, Ordering::AcqRel) {
            return;
        }
        let session = Arc::downgrade(self);
        tokio::spawn(async move {
            let Some(session) = session.upgrade() else {
                return;
            };
            if let Err(error) = session.check_health().await {
                tracing::warn!(server = %session.config.name, reason = %error.explain(), "server no longer answers");
                session.recycle();
            }
            session.is_probed.store(false, Ordering::Release);
        });
    }

    /// Asks whether the server is well: by `ping`, else the shortest list, in the session era; by
    /// `server/discover` in the stateless one. Changes nothing at the server.
    ///
    /// # Errors
    /// When it does not answer in time.
    pub(super) async fn check_health(self: &Arc<Self>) -> Result<(), ClientError> {
        self.check_health_within(self.config.health_timeout).await
    }

    async fn check_health_within(self: &Arc<Self>, within: Duration) -> Result<(), ClientError> {
        let method = match self.era() {
            Era::Session => "ping",
            Era::Stateless => "server/discover",
        };
        let ask =
            |method: &'static str| ServerCall::new(method, None, orchestra_hub::Cx::default());
        match self.ask_within(&ask(method), within).await {
            Err(ClientError::Rpc(error)) if error.code.0 == -32601 && method == "ping" => {
                match self.ask_within(&ask("tools/list"), within).await {
                    Ok(_) | Err(ClientError::Rpc(_)) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            Ok(_) | Err(ClientError::Rpc(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Runs until the connection is to be left: it ended, it is to be made anew, or nobody has
    /// used it for too long. Meanwhile an idle server is asked now and then whether it is well.
    pub(super) async fn live(self: &Arc<Self>) -> Left {
        let mut ended = self.link.ended();
        loop {
            let pause = self.pause();
            tokio::select! {
                error = &mut ended => return Left::Ended(error),
                () = self.recycle.notified() => return Left::Recycled,
                reason = self.presence.lost() => return Left::Away(reason),
                () = tokio::time::sleep(pause) => {
                    if !self.is_idle_for(pause) {
                        continue;
                    }
                    if self.config.idle_stop.is_some_and(|idle| self.is_idle_for(idle)) {
                        return Left::Idle;
                    }
                    if self.transport != TransportType::Http && self.check_health().await.is_err() {
                        return Left::Recycled;
                    }
                }
            }
        }
    }

    /// Until the next look, a little more or less so that servers are not all asked at once.
    fn pause(&self) -> Duration {
        let jittered = super::Backoff {
            first: self.config.health_interval,
            growth: super::Growth::Constant,
            cap: self.config.health_interval,
            jitter: 0.1,
        };
        let health = jittered.next(0);
        match self.config.idle_stop {
            Some(idle) => health.min(idle),
            None => health,
        }
    }

    fn is_idle_for(&self, span: Duration) -> bool {
        self.is_idle() && self.last_used().elapsed() >= span
    }

    fn last_used(&self) -> MutexGuard<'_, Instant> {
        self.last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Resources whose changes the server reports.
    pub(super) fn covered(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.covered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports everything as changed whose changes the server may have reported in vain.
    pub(super) fn missed(&self) {
        let fetched = self.fetched.all();
        fetched.for_each(|kind| self.list_changed(kind));
        let covered = self.covered();
        covered
            .iter()
            .for_each(|uri| self.events.updated(uri.clone()));
    }

    /// A list of the server differs, or may.
    pub(super) fn list_changed(&self, kind: ListKind) {
        if kind == ListKind::Tools {
            self.tools.note_change();
        }
        self.events.list_changed(kind);
    }
}

/// Runs something whose outcome nobody waits for. Outside of a runtime, at its very end, it is
/// left.
pub(super) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(future);
    }
}
