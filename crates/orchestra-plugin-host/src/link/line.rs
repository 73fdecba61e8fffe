//! One connection over which requests go out and answers come back, and what failures on it mean.

use std::{
    path::Path,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use orchestra_mcp::client::{ClientError, Incoming, IncomingSender};
use orchestra_plugin::{
    envelope::{Request, Response, ResponseKind},
    generated::McpMessage,
    quic::{self, Answers, CallError, Caller, CallerOptions, Endpoint, Target, WireError},
};
use orchestra_wire::RequestId;
use tokio::{
    select,
    sync::{mpsc, watch},
    time::{Instant, timeout},
};

use super::unreached::unreached;
use crate::translate::{Question, chain, parse_message};

/// How long a request may take to leave. After that it counts as not sent, which it is.
const SEND_TIME: Duration = Duration::from_secs(20);

/// How long a call whose connection was lost waits to learn why.
const REASON_TIME: Duration = Duration::from_secs(3);

/// A connection, kept up until it is lost for the first time.
pub(super) struct Line {
    /// Whom it leads to, for errors: `plugin "id"` or `orchestrator`.
    who: String,
    endpoint: Endpoint,
    open: Mutex<Open>,
    ids: AtomicU64,
    ended: watch::Sender<Option<ClientError>>,
}

struct Open {
    caller: Option<Arc<Caller>>,
    incoming: Option<IncomingSender>,
    left_out: u64,
}

impl Line {
    /// Connects once, with what was read in `certs`; whoever wants another attempt asks for another
    /// line.
    pub(super) async fn connect(
        who: String,
        endpoint: Endpoint,
        target: Target,
        certs: &Path,
    ) -> Result<(Arc<Self>, mpsc::Receiver<Incoming>), ClientError> {
        let caller = Caller::start(endpoint.clone(), target, CallerOptions::default());
        let mut link = caller.link();
        loop {
            match &*link.borrow_and_update() {
                quic::Link::Up(_) => break,
                quic::Link::Dialing { .. } => {}
                quic::Link::Waiting { error, .. } => {
                    return Err(ClientError::Unreachable {
                        what: format!("{who} dial failed: {}", unreached(error, certs)),
                    });
                }
                quic::Link::Closed => return Err(ClientError::Closed),
            }
            if link.changed().await.is_err() {
                return Err(ClientError::Closed);
            }
        }
        let (incoming, receiver) = IncomingSender::new();
        let line = Arc::new(Self {
            who,
            endpoint,
            open: Mutex::new(Open {
                caller: Some(Arc::new(caller)),
                incoming: Some(incoming),
                left_out: 0,
            }),
            ids: AtomicU64::new(1),
            ended: watch::Sender::new(None),
        });
        Ok((line, receiver))
    }

    /// Whom it leads to, for errors.
    pub(super) fn who(&self) -> &str {
        &self.who
    }

    /// Waits until the connection is lost. One that takes the place of another that is wedged is
    /// the same connection.
    pub(super) async fn lost(&self) {
        let link = self.caller().map(|caller| caller.link());
        if let Some(mut link) = link {
            // Nobody keeps it up any more, which is the end as well.
            let _ = link
                .wait_for(|link| !matches!(link, quic::Link::Up(_)))
                .await;
        }
    }

    /// The first reason counts. Calls that are going on fail with it.
    pub(super) fn end(&self, reason: ClientError) {
        self.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            if is_first {
                *ended = Some(reason);
            }
            is_first
        });
        self.open().incoming = None;
    }

    /// Gives the connection up, so that the other side learns of it.
    pub(super) fn hang_up(&self) {
        let caller = self.open().caller.take();
        if let Some(caller) = caller {
            caller.hang_up();
        }
    }

    /// Closes the socket, after what is to be said was said.
    pub(super) async fn close(&self) {
        self.hang_up();
        // It was said, or nobody is there to hear it.
        let _ = timeout(Duration::from_millis(500), self.endpoint.close()).await;
    }

    /// Resolves when it has ended, with the reason.
    pub(super) async fn ended(&self) -> ClientError {
        let mut ended = self.ended.subscribe();
        let reason = ended.wait_for(Option::is_some).await;
        let reason = reason.ok().and_then(|reason| reason.clone());
        reason.unwrap_or(ClientError::Closed)
    }

    fn why_ended(&self) -> Option<ClientError> {
        self.ended.borrow().clone()
    }

    /// Asks, and waits for the one answer. What comes before it on behalf of `about` is handed on.
    /// Dropping the future cancels the request.
    pub(super) async fn ask(
        &self,
        question: &Question,
        about: Option<&RequestId>,
    ) -> Result<Response, ClientError> {
        let mut exchange = self.begin(question).await?;
        let response = self.next(&mut exchange, about).await?;
        exchange.answers.done().await;
        Ok(response)
    }

    /// Sends a request. Dropping what is given back cancels it.
    pub(super) async fn begin(&self, question: &Question) -> Result<Exchange, ClientError> {
        let operation = operation(question);
        if let Some(reason) = self.why_ended() {
            return Err(not_sent(&self.who, operation, &reason.in_short()));
        }
        self.send(question).await
    }

    /// As [`Self::begin`], also when the line has ended for all others.
    pub(super) async fn send(&self, question: &Question) -> Result<Exchange, ClientError> {
        let operation = operation(question);
        let Some(caller) = self.caller() else {
            return Err(not_sent(&self.who, operation, "there is no connection"));
        };
        let id = format!("orchestra-{}", self.ids.fetch_add(1, Ordering::Relaxed));
        let request = Request::raw(id.clone(), question.kind, question.payload.clone());
        let sending = caller.stream(&request, Instant::now() + SEND_TIME);
        match sending.await {
            Ok(answers) => Ok(Exchange {
                id,
                operation,
                answers,
            }),
            Err(error) => Err(self.failed(operation, error).await),
        }
    }

    /// The next answer that is no message of its own.
    pub(super) async fn next(
        &self,
        exchange: &mut Exchange,
        about: Option<&RequestId>,
    ) -> Result<Response, ClientError> {
        loop {
            let next = {
                let mut ended = pin!(self.ended());
                select! {
                    biased;
                    next = exchange.answers.next() => next,
                    reason = &mut ended => return Err(reason),
                }
            };
            let response = self.understood(exchange, next).await?;
            match response.kind() {
                Some(ResponseKind::McpMessage) => self.hand_on(&response, about),
                _ => return Ok(response),
            }
        }
    }

    /// As [`Self::next`], also when the line has ended for all others.
    pub(super) async fn last(&self, mut exchange: Exchange) -> Result<Response, ClientError> {
        let next = exchange.answers.next().await;
        let response = self.understood(&exchange, next).await?;
        exchange.answers.done().await;
        Ok(response)
    }

    async fn understood(
        &self,
        exchange: &Exchange,
        next: Result<Option<bytes::Bytes>, CallError>,
    ) -> Result<Response, ClientError> {
        let operation = exchange.operation;
        let frame = match next {
            Ok(Some(frame)) => frame,
            Ok(None) => return Err(self.failed(operation, CallError::NoAnswer).await),
            Err(error) => return Err(self.failed(operation, error).await),
        };
        let response =
            Response::decode(&frame).map_err(|error| self.invalid(operation, &chain(&error)))?;
        if response.request_id() != exchange.id {
            let other = orchestra_wire::shown(response.request_id());
            let cause = format!("it answers another request: \"{other}\"");
            return Err(self.invalid(operation, &cause));
        }
        Ok(response)
    }

    /// What a peer says on behalf of a call. It never waits for who listens.
    fn hand_on(&self, response: &Response, about: Option<&RequestId>) {
        let message = response.message::<McpMessage>().ok();
        let Some(message) = message.and_then(|message| parse_message(&message.json)) else {
            tracing::debug!(peer = %self.who, "ignored an invalid message during a call");
            return;
        };
        self.tell(Incoming {
            message,
            related: about.cloned(),
        });
    }

    /// Hands something on to who listens. Where too much waits there already, it is reported as missed.
    pub(super) fn tell(&self, incoming: Incoming) {
        let mut open = self.open();
        let Some(sender) = &open.incoming else { return };
        if sender.send(incoming).is_some() {
            open.left_out += 1;
            if open.left_out.is_power_of_two() {
                tracing::warn!(peer = %self.who, left_out = open.left_out, "too many messages from the peer; ignored some");
            }
        }
    }

    /// What a failed call means, and above all whether it may have run.
    async fn failed(&self, operation: &str, error: CallError) -> ClientError {
        let cause = chain(&error);
        match error {
            CallError::RequestTooLarge { .. } => ClientError::TooLarge {
                what: format!("{} {operation} failed: {cause}", self.who),
            },
            CallError::Unreachable(_) | CallError::NoConnection | CallError::LostBefore(_) => {
                not_sent(&self.who, operation, &cause)
            }
            CallError::NotTaken | CallError::LateBefore | CallError::Busy => ClientError::Busy {
                what: format!("{} {operation} failed: {cause}", self.who),
            },
            // Why it was lost is known soon: a process ends a moment after its connection.
            CallError::Lost(_) => timeout(REASON_TIME, self.ended())
                .await
                .unwrap_or(ClientError::Closed),
            CallError::Late => ClientError::Timeout { after: SEND_TIME },
            CallError::Answer(WireError::TooLarge { .. }) => ClientError::AnswerTooLarge {
                what: format!("{} {operation} failed: {cause}", self.who),
            },
            CallError::NoAnswer => ClientError::NoAnswer {
                what: format!("{} {operation} failed: {cause}; {UNANSWERED}", self.who),
            },
            CallError::Answer(_) => self.invalid(operation, &cause),
        }
    }

    fn invalid(&self, operation: &str, cause: &str) -> ClientError {
        ClientError::InvalidMessage {
            what: format!("{} {operation} failed: {cause}", self.who),
        }
    }

    fn caller(&self) -> Option<Arc<Caller>> {
        self.open().caller.clone()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a call without an answer mostly means: kits of the first orchestrators write nothing where an answer
/// does not fit.
const UNANSWERED: &str = "some plugins do so when an answer does not fit into a frame of 16 MiB";

/// A request that was sent.
pub(super) struct Exchange {
    id: String,
    operation: &'static str,
    answers: Answers,
}

impl Exchange {
    /// Its last answer was taken.
    pub(super) async fn done(self) {
        self.answers.done().await;
    }
}

fn operation(question: &Question) -> &'static str {
    orchestra_plugin::envelope::Kind::name(question.kind)
}

fn not_sent(who: &str, operation: &str, cause: &str) -> ClientError {
    ClientError::Unreachable {
        what: format!("{who} {operation} failed: {cause}"),
    }
}
