//! What all of a connection share: what it sends with each request, what was agreed upon, who
//! listens, and its end.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use orchestra_wire::{ErrorCode, Message, RawJson, RequestId, Revision, Rope, RpcError, write};
use reqwest::{
    Client, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tokio::sync::{mpsc, watch};

use super::{
    auth::Authorization,
    chores::Chore,
    config::{Flavour, HttpConfig, header_value},
    names::{PROTOCOL_VERSION, SESSION},
    old::OldPair,
    template::Template,
};
use crate::client::{Answer, ClientError, Incoming, IncomingSender, LINK_QUEUE, ServerMessage};

/// One connection, without the tasks that belong to it.
pub(super) struct Core {
    pub(super) config: HttpConfig,
    /// Where messages go, or the old stream is.
    pub(super) endpoint: Url,
    pub(super) client: Client,
    pub(super) authorization: Arc<Authorization>,
    /// Headers whose values may change.
    variable: Vec<(HeaderName, Template)>,
    state: RwLock<State>,
    incoming: Mutex<Option<IncomingSender>>,
    ended: watch::Sender<Option<ClientError>>,
    /// Nobody wants it any more, nor what is on its way.
    closed: watch::Sender<bool>,
    /// It ended because the server knows the session no more.
    pub(super) forgotten: AtomicBool,
    /// Whether a request of the session was answered.
    pub(super) answered: AtomicBool,
    /// The old pair, where that is what the server knows.
    pub(super) old: OnceLock<OldPair>,
    chores: mpsc::Sender<Chore>,
    /// Values of `Authorization` that were sent last, each once.
    shown: Mutex<VecDeque<HeaderValue>>,
    /// Notifications that nobody took in time, and messages that belong to nobody.
    dropped: AtomicU64,
}

/// What was agreed upon.
#[derive(Clone)]
struct State {
    revision: Option<Revision>,
    session: Option<HeaderValue>,
    /// The headers that are the same in each request.
    headers: Arc<HeaderMap>,
}

/// What a request is sent with, as far as it is the same for all.
pub(super) struct Common {
    pub(super) revision: Option<Revision>,
    pub(super) has_session: bool,
    pub(super) headers: Arc<HeaderMap>,
}

/// A connection and the ends of its queues.
pub(super) struct Opened {
    pub(super) core: Arc<Core>,
    pub(super) incoming: mpsc::Receiver<Incoming>,
    pub(super) chores: mpsc::Receiver<Chore>,
}

impl Core {
    /// Prepares a connection; nothing is sent.
    ///
    /// # Errors
    /// When the configuration cannot be used.
    pub(super) fn open(
        config: HttpConfig,
        client: Client,
        authorization: Arc<Authorization>,
    ) -> Result<Opened, ClientError> {
        let split = config.split_headers()?;
        let mut headers = HeaderMap::new();
        let accept = match config.flavour {
            Flavour::Rpc => "application/json",
            _ => "application/json, text/event-stream",
        };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in split.fixed {
            headers.append(name, value);
        }
        let (incoming, received) = IncomingSender::new();
        let (chores, todo) = mpsc::channel(LINK_QUEUE);
        let core = Self {
            endpoint: config.endpoint()?,
            authorization,
            client,
            variable: split.variable,
            state: RwLock::new(State {
                revision: None,
                session: None,
                headers: Arc::new(headers),
            }),
            incoming: Mutex::new(Some(incoming)),
            ended: watch::channel(None).0,
            closed: watch::Sender::new(false),
            forgotten: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            old: OnceLock::new(),
            chores,
            shown: Mutex::default(),
            dropped: AtomicU64::new(0),
            config,
        };
        Ok(Opened {
            core: Arc::new(core),
            incoming: received,
            chores: todo,
        })
    }

    /// Whether MCP's own headers and streams are used, not plain JSON-RPC.
    pub(super) fn is_mcp(&self) -> bool {
        self.config.flavour != Flavour::Rpc
    }

    /// What requests are sent with now.
    pub(super) fn common(&self) -> Common {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        Common {
            revision: state.revision,
            has_session: state.session.is_some(),
            headers: Arc::clone(&state.headers),
        }
    }

    /// Adds the headers that may be others in each request.
    pub(super) fn add_variable(&self, headers: &mut HeaderMap) -> Result<(), ClientError> {
        for (name, template) in &self.variable {
            let value = header_value(name.as_str(), template, &*self.config.secrets)?;
            headers.insert(name.clone(), value);
        }
        Ok(())
    }

    /// Notes a value of `Authorization` that is sent.
    pub(super) fn note_shown(&self, value: &HeaderValue) {
        /// Number of values that are kept: requests on their way may have older tokens.
        const KEPT: usize = 4;
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if !shown.contains(value) {
            if shown.len() >= KEPT {
                shown.pop_front();
            }
            shown.push_back(value.clone());
        }
    }

    /// Values of `Authorization` that were sent last.
    pub(super) fn last_shown(&self) -> Vec<HeaderValue> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.iter().cloned().collect()
    }

    /// From now on requests say which revision is spoken.
    pub(super) fn agree(&self, revision: Revision) {
        self.change(|state| {
            state.revision = Some(revision);
            if self.is_mcp() {
                let value = HeaderValue::from_static(revision.as_str());
                Arc::make_mut(&mut state.headers).insert(PROTOCOL_VERSION, value);
            }
        });
    }

    /// From now on requests belong to a session.
    pub(super) fn begin_session(&self, session: &HeaderValue) {
        let mut session = session.clone();
        session.set_sensitive(true);
        self.change(|state| {
            Arc::make_mut(&mut state.headers).insert(SESSION, session.clone());
            state.session = Some(session);
        });
    }

    /// Forgets the session; answers whether there was one.
    pub(super) fn leave_session(&self) -> Option<HeaderValue> {
        let mut left = None;
        self.change(|state| left = state.session.take());
        left
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends the connection, if it has not ended.
    pub(super) fn end(&self, error: ClientError) {
        self.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert(error);
            is_first
        });
        self.listener().take();
    }

    /// Ends the connection with all that is on its way.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
        self.end(ClientError::Closed);
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Does something unless the connection ends before it is done. Where it ends because the server
    /// has forgotten the session, what is on its way is answered for itself, until somebody closes
    /// the connection: that it did not run, or as a call that was taken before.
    pub(super) async fn while_open<T>(
        &self,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let mut ended = self.ended.subscribe();
        let mut work = std::pin::pin!(work);
        let error = tokio::select! {
            biased;
            done = &mut work => return done,
            error = reason(&mut ended) => error,
        };
        if !self.forgotten.load(Ordering::Acquire) {
            return Err(error);
        }
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            done = &mut work => done,
            // The sender is this connection's own.
            _ = closed.wait_for(|closed| *closed) => Err(ClientError::Closed),
        }
    }

    /// Waits for the end.
    pub(super) fn ending(&self) -> impl Future<Output = ClientError> + Send + use<> {
        let mut ended = self.ended.subscribe();
        async move { reason(&mut ended).await }
    }

    /// Why it has ended, if it has.
    pub(super) fn has_ended(&self) -> Option<ClientError> {
        self.ended.borrow().clone()
    }

    /// Passes on what the server says by itself; `related` is the request it came with. Never
    /// waits.
    pub(super) fn hear(&self, message: &Message<'_>, related: Option<&RequestId>) {
        let raw = |params: Option<&serde_json::value::RawValue>| params.map(RawJson::from_raw);
        let message = match message {
            Message::Request(request) => ServerMessage::Request {
                id: request.id.clone(),
                method: request.method.clone().into_owned(),
                params: raw(request.raw_params()),
            },
            Message::Notification(notification) => ServerMessage::Notification {
                method: notification.method.clone().into_owned(),
                params: raw(notification.raw_params()),
            },
            Message::Response(_) => {
                return self.count_dropped("a response without a waiting request");
            }
        };
        let incoming = Incoming {
            message,
            related: related.cloned(),
        };
        let left = match &*self.listener() {
            Some(listener) => listener.send(incoming),
            None => return,
        };
        if let Some(missed) = left {
            self.count_dropped("a message: the queue was full");
            if let ServerMessage::Request { id, .. } = missed.message {
                let error = RpcError::new(ErrorCode::INTERNAL_ERROR, "busy: try again later");
                self.later(Chore::Respond(response(&id, &Err(error))));
            }
        }
    }

    /// Reports that notifications of the server were lost, or may have been.
    pub(super) fn miss(&self) {
        if let Some(listener) = &*self.listener() {
            listener.miss();
        }
    }

    /// Counts a message that belongs to nobody.
    pub(super) fn count_dropped(&self, what: &str) {
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::debug!(server = %self.config.name, dropped, "dropped {what}");
    }

    /// Leaves something to do to the task of the connection; where that is busy it is not done.
    pub(super) fn later(&self, chore: Chore) {
        drop(self.chores.try_send(chore));
    }

    fn listener(&self) -> std::sync::MutexGuard<'_, Option<IncomingSender>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn reason(ended: &mut watch::Receiver<Option<ClientError>>) -> ClientError {
    match ended.wait_for(Option::is_some).await {
        Ok(error) => error.clone().unwrap_or(ClientError::Closed),
        Err(_) => ClientError::Closed,
    }
}

/// A response to a request of the server, as it is sent.
pub(super) fn response(id: &RequestId, answer: &Answer) -> Vec<u8> {
    let mut rope = Rope::new();
    match answer {
        Ok(result) => {
            write::result_head(&mut rope, id);
            write::raw(&mut rope, result);
            write::close(&mut rope);
        }
        Err(error) => write::error(&mut rope, Some(id), error),
    }
    rope.into_vec()
}

/// A notification, as it is sent.
pub(super) fn notification(method: &str, params: Option<&RawJson>) -> Vec<u8> {
    let mut rope = Rope::new();
    rope.push(b"{\"jsonrpc\":\"2.0\",\"method\":");
    write::string(&mut rope, method);
    if let Some(params) = params {
        rope.push(b",\"params\":");
        write::raw(&mut rope, params);
    }
    write::close(&mut rope);
    rope.into_vec()
}
