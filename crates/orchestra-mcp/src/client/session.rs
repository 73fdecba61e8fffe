//! One greeted connection: calls go out with what the revision wants around them, and what the
//! server says by itself finds whom it is for.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use orchestra_hub::{BoxFuture, InputRequired, ListKind};
use orchestra_wire::{Era, RawJson, RequestId};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep_until},
};

use super::{
    Answer, ClientConfig, ClientError, Connected, Link, Outgoing, Reply, ServerCall, ServerFacts,
    TransportType,
    events::Events,
    greeting,
    incoming::{self, Asked, OpenCall},
    params::Envelope,
    parking::{Parked, Parking},
    results::{Kind, Told},
};

/// Questions of one call that wait.
const QUESTIONS: usize = 16;

/// A greeted connection.
pub(super) struct Session {
    pub(super) link: Arc<dyn Link>,
    pub(super) transport: TransportType,
    pub(super) config: Arc<ClientConfig>,
    pub(super) events: Events,
    parking: Arc<Parking>,
    facts: OnceLock<Arc<ServerFacts>>,
    ids: AtomicU64,
    calls: Mutex<HashMap<u64, Arc<OpenCall>>>,
    /// Fires when the connection is to be made anew.
    recycle: Notify,
    /// Whether a call brought anything.
    has_answered: AtomicBool,
    /// The link has ended, as a call has learned, or is about to.
    is_over: AtomicBool,
    timeouts: AtomicU32,
    is_probed: AtomicBool,
    /// Calls of others that run.
    busy: AtomicUsize,
    last_used: Mutex<Instant>,
}

/// Why a session was left.
#[derive(Debug, Clone)]
pub(super) enum Left {
    /// The link ended.
    Ended(ClientError),
    /// It did not answer any more, or somebody asked for a restart.
    Recycled,
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
        last_era: Option<Era>,
    ) -> Result<Arc<Self>, ClientError> {
        let Connected { link, incoming } = connected;
        let session = Arc::new(Self {
            link,
            transport,
            config: Arc::clone(config),
            events,
            parking: Arc::clone(parking),
            facts: OnceLock::new(),
            ids: AtomicU64::new(1),
            calls: Mutex::default(),
            recycle: Notify::new(),
            has_answered: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            timeouts: AtomicU32::new(0),
            is_probed: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
        });
        tokio::spawn(incoming::route(Arc::downgrade(&session), incoming));
        let facts = greeting::greet(&session, last_era).await?;
        // Nobody else greets.
        let _ = session.facts.set(Arc::new(facts));
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
        })
    }

    /// Sends a request of our own as the revision wants it.
    pub(super) async fn ask_within(
        self: &Arc<Self>,
        call: &ServerCall,
        within: Duration,
    ) -> Result<RawJson, ClientError> {
        let asked = tokio::time::timeout(within, self.send(call, None));
        match asked.await {
            Ok(answer) => answer?.map_err(ClientError::Rpc),
            Err(_) => Err(ClientError::Timeout { after: within }),
        }
    }

    /// Makes a call, from its beginning or from where it waits for answers.
    ///
    /// # Errors
    /// Those of the link; a JSON-RPC error of the server; a timeout.
    pub(super) async fn call(self: &Arc<Self>, call: &ServerCall) -> Result<Reply, ClientError> {
        let state = call.cx.answers.as_ref().and_then(|a| a.state.as_deref());
        let told = match state.map(super::parking::State::parse) {
            Some(super::parking::State::Task(id)) => {
                return super::tasks::resume(self, call, id).await;
            }
            Some(super::parking::State::Server(state)) => self.begin(call, Some(state)).await?,
            // Who waits here is taken up before a session is looked for.
            Some(super::parking::State::Parked(_)) | None => self.begin(call, None).await?,
        };
        self.take(call, told).await
    }

    async fn begin(
        self: &Arc<Self>,
        call: &ServerCall,
        state: Option<&str>,
    ) -> Result<Told, ClientError> {
        let (number, open, questions) = self.enter(call);
        let response = self.link.request(self.outgoing(number, call, state));
        let waiting = Waiting {
            entered: Entered::new(self, number, Whose::Caller),
            open,
            questions,
            response,
        };
        self.wait(call, waiting).await
    }

    /// Goes on with a call that waited for answers.
    pub(super) async fn go_on(
        self: &Arc<Self>,
        call: &ServerCall,
        waiting: Waiting,
    ) -> Result<Reply, ClientError> {
        waiting.open.renew(&call.cx);
        let told = self.wait(call, waiting).await?;
        self.take(call, told).await
    }

    /// What a result means for its caller.
    async fn take(self: &Arc<Self>, call: &ServerCall, told: Told) -> Result<Reply, ClientError> {
        match told {
            Told::Result(result) => Ok(Reply::Result(result)),
            Told::Input(input) => Ok(Reply::InputRequired(input)),
            Told::Task(task) => super::tasks::follow(self, call, task).await,
        }
    }

    /// Waits for the response, for a question, or until nothing was heard for too long.
    async fn wait(
        self: &Arc<Self>,
        call: &ServerCall,
        mut waiting: Waiting,
    ) -> Result<Told, ClientError> {
        let silence = call.timeout.unwrap_or(self.config.call_timeout);
        let last = call.cx.deadline.map(Instant::from_std);
        let answer = loop {
            let silent_at = waiting.open.heard() + silence;
            let until = last.map_or(silent_at, |last| last.min(silent_at));
            tokio::select! {
                biased;
                answer = &mut waiting.response => break answer,
                Some(question) = waiting.questions.recv() => {
                    return Ok(Told::Input(self.park(call, waiting, question)));
                }
                () = sleep_until(until) => {
                    if Instant::now() < waiting.open.heard() + silence
                        && last.is_none_or(|last| Instant::now() < last) {
                        continue;
                    }
                    let after = waiting.open.began.elapsed();
                    drop(waiting);
                    self.note_timeout();
                    return Err(ClientError::Timeout { after });
                }
            }
        };
        waiting.entered.done();
        self.timeouts.store(0, Ordering::Relaxed);
        let answer = answer.inspect_err(|error| self.note_end(error))?;
        let result = answer.map_err(|error| {
            self.has_answered.store(true, Ordering::Relaxed);
            ClientError::Rpc(error)
        })?;
        self.has_answered.store(true, Ordering::Relaxed);
        Kind::of(self.era(), &result).told(result)
    }

    /// Puts a call aside until its questions are answered.
    fn park(
        self: &Arc<Self>,
        call: &ServerCall,
        mut waiting: Waiting,
        first: Asked,
    ) -> InputRequired {
        let mut asked = vec![first];
        while let Ok(more) = waiting.questions.try_recv() {
            asked.push(more);
        }
        let parked = Parked {
            session: Arc::clone(self),
            waiting,
            asked,
        };
        self.parking
            .park(parked, &call.cx, self.config.answer_timeout)
    }

    /// Sends a request and waits for its answer alone: nothing can be asked meanwhile.
    pub(super) async fn send(
        self: &Arc<Self>,
        call: &ServerCall,
        state: Option<&str>,
    ) -> Result<Answer, ClientError> {
        let (number, ..) = self.enter(call);
        let entered = Entered::new(self, number, Whose::Ours);
        let answer = self.link.request(self.outgoing(number, call, state)).await;
        entered.done();
        answer
    }

    fn outgoing(&self, number: u64, call: &ServerCall, state: Option<&str>) -> Outgoing {
        let id = RequestId::from_number(number);
        let params = match self.facts.get() {
            Some(facts) => Envelope {
                revision: facts.revision,
                info: &self.config.client_info,
                call,
                id: &id,
                state,
            }
            .params(),
            None => call.params.clone(),
        };
        Outgoing {
            id,
            method: call.method.clone().into_owned(),
            params,
            name: call.name.clone(),
            headers: call.headers.clone(),
        }
    }

    fn enter(&self, call: &ServerCall) -> (u64, Arc<OpenCall>, mpsc::Receiver<Asked>) {
        let number = self.next_id();
        let (sender, questions) = mpsc::channel(QUESTIONS);
        let open = Arc::new(OpenCall::new(&call.cx, sender));
        self.calls().insert(number, Arc::clone(&open));
        (number, open, questions)
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
        self.is_over.load(Ordering::Relaxed)
    }

    fn note_end(&self, error: &ClientError) {
        if matches!(error, ClientError::Closed | ClientError::Crashed(_)) {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the connection be made anew.
    pub(super) fn recycle(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.recycle.notify_one();
    }

    /// A call was not answered in time: the server is asked whether it is well, and is started
    /// anew when it does not answer that either, or when three calls in a row were not answered.
    fn note_timeout(self: &Arc<Self>) {
        const IN_A_ROW: u32 = 3;
        if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= IN_A_ROW {
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
                tracing::warn!(server = %session.config.name, reason = %error.explain(), "does not answer any more");
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
        let within = self.config.health_timeout;
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
                () = tokio::time::sleep(pause) => {
                    if !self.is_idle_for(pause) {
                        continue;
                    }
                    if self.config.idle_stop.is_some_and(|idle| self.is_idle_for(idle)) {
                        return Left::Idle;
                    }
                    if self.transport == TransportType::Stdio && self.check_health().await.is_err() {
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
        self.busy.load(Ordering::Relaxed) == 0 && self.last_used().elapsed() >= span
    }

    fn last_used(&self) -> MutexGuard<'_, Instant> {
        self.last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A list of the server differs, or may.
    pub(super) fn list_changed(&self, kind: ListKind) {
        self.events.list_changed(kind);
    }
}

/// A call that was sent and not answered yet.
pub(super) struct Waiting {
    pub(super) entered: Entered,
    pub(super) open: Arc<OpenCall>,
    pub(super) questions: mpsc::Receiver<Asked>,
    pub(super) response: BoxFuture<Result<Answer, ClientError>>,
}

/// Holds the place of a call; when it is dropped before the call is done, the server is told that
/// nobody waits any more.
pub(super) struct Entered {
    session: Weak<Session>,
    number: u64,
    whose: Whose,
    done: AtomicBool,
}

/// On whose behalf a request is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Somebody uses the server.
    Caller,
    /// It is only watched.
    Ours,
}

impl Entered {
    fn new(session: &Arc<Session>, number: u64, whose: Whose) -> Self {
        if whose == Whose::Caller {
            session.busy.fetch_add(1, Ordering::Relaxed);
        }
        Self {
            session: Arc::downgrade(session),
            number,
            whose,
            done: AtomicBool::new(false),
        }
    }

    /// The call was answered.
    pub(super) fn done(&self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(session) = self.session.upgrade() else {
            return;
        };
        session.calls().remove(&self.number);
        if self.whose == Whose::Caller {
            session.busy.fetch_sub(1, Ordering::Relaxed);
            *session.last_used() = Instant::now();
        }
        // Closing the stream of its response says it over stateless HTTP.
        let by_stream = session.transport == TransportType::Http && session.era() == Era::Stateless;
        if self.done.load(Ordering::Relaxed) || by_stream || session.facts().is_none() {
            return;
        }
        let params = format!(
            r#"{{"requestId":{},"reason":"the caller does not wait any more"}}"#,
            self.number
        );
        let params = serde_json::from_str(&params).map(RawJson::from_raw).ok();
        spawn(session.link.notify("notifications/cancelled", params));
    }
}

/// Runs something whose outcome nobody waits for. Outside of a runtime, at its very end, it is
/// left.
pub(super) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(future);
    }
}
