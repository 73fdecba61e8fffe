//! A server that a test plays, at the seam between the client and its transports.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use orchestra_hub::BoxFuture;
use orchestra_mcp::client::{
    Agreed, Answer, ClientError, Connected, Connector, Crash, Incoming, LINK_QUEUE, Link, Outgoing,
    ServerMessage, TransportType,
};
use orchestra_wire::{ErrorCode, RawJson, RequestId, RpcError};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

/// What the client asks.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) params: Value,
    /// How often the server was started, this time included.
    pub(crate) start: u32,
    pub(crate) link: Arc<PlayedLink>,
    pub(crate) id: RequestId,
}

/// What the server does about it.
pub(crate) enum Said {
    Answer(Duration, Answer),
    /// The result, as soon as that is permitted.
    When(watch::Receiver<bool>, Value),
    Never,
    /// The process ends instead.
    Crash,
    Fail(ClientError),
    FailAfter(Duration, ClientError),
}

impl Said {
    pub(crate) fn result(value: Value) -> Self {
        Self::after(Duration::ZERO, value)
    }

    pub(crate) fn after(pause: Duration, value: Value) -> Self {
        Self::Answer(pause, Ok(RawJson::of(&value).unwrap()))
    }

    pub(crate) fn error(code: i64, text: &'static str) -> Self {
        Self::Answer(Duration::ZERO, Err(RpcError::new(ErrorCode(code), text)))
    }

    pub(crate) const fn never() -> Self {
        Self::Never
    }
}

type Script = dyn Fn(&Asked) -> Said + Send + Sync;

/// Which greeting the server knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greets {
    Session,
    Stateless,
    /// The script greets.
    Not,
}

pub(crate) struct Played {
    script: Box<Script>,
    greets: Greets,
    transport: TransportType,
    starts: AtomicU32,
    heard: watch::Sender<Vec<(String, Value)>>,
    answers: watch::Sender<Vec<Value>>,
    link: Mutex<Option<Arc<PlayedLink>>>,
    /// Whether a start fails.
    fails: Mutex<Option<ClientError>>,
    started_at: Mutex<Vec<tokio::time::Instant>>,
    /// How long it takes to end.
    grace: Mutex<Duration>,
}

pub(crate) struct PlayedLink {
    played: std::sync::Weak<Played>,
    incoming: mpsc::Sender<Incoming>,
    ended: watch::Sender<Option<ClientError>>,
    start: u32,
    me: std::sync::Weak<Self>,
}

impl Played {
    pub(crate) fn new(
        greets: Greets,
        transport: TransportType,
        script: impl Fn(&Asked) -> Said + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            script: Box::new(script),
            greets,
            transport,
            starts: AtomicU32::new(0),
            heard: watch::Sender::default(),
            answers: watch::Sender::default(),
            link: Mutex::default(),
            fails: Mutex::default(),
            started_at: Mutex::default(),
            grace: Mutex::default(),
        })
    }

    /// A server of revision 2025-11-25.
    pub(crate) fn session(script: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Arc<Self> {
        Self::new(Greets::Session, TransportType::Stdio, script)
    }

    /// A server of revision 2026-07-28.
    pub(crate) fn stateless(script: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Arc<Self> {
        Self::new(Greets::Stateless, TransportType::Stdio, script)
    }

    /// Makes every start fail from now on, or none.
    pub(crate) fn fail_to_start(&self, error: Option<ClientError>) {
        *self.fails.lock().unwrap() = error;
    }

    /// Makes it take its time when it is ended.
    pub(crate) fn end_within(&self, grace: Duration) {
        *self.grace.lock().unwrap() = grace;
    }

    /// When it was started.
    pub(crate) fn started_at(&self) -> Vec<tokio::time::Instant> {
        self.started_at.lock().unwrap().clone()
    }

    pub(crate) fn starts(&self) -> u32 {
        self.starts.load(Ordering::Relaxed)
    }

    /// How often the client has said `method`.
    pub(crate) fn count(&self, method: &str) -> usize {
        let heard = self.heard.borrow();
        heard.iter().filter(|(said, _)| said == method).count()
    }

    /// The parameters of the last message with `method`.
    pub(crate) fn last(&self, method: &str) -> Value {
        let heard = self.heard.borrow();
        let found = heard.iter().rev().find(|(said, _)| said == method);
        found.unwrap_or_else(|| panic!("no {method}")).1.clone()
    }

    /// Waits until the client has said `method` so often.
    pub(crate) async fn until(&self, method: &str, times: usize) {
        let mut heard = self.heard.subscribe();
        let enough = |heard: &Vec<(String, Value)>| {
            heard.iter().filter(|(said, _)| said == method).count() >= times
        };
        let waited = tokio::time::timeout(Duration::from_secs(600), heard.wait_for(enough));
        waited
            .await
            .unwrap_or_else(|_| panic!("{method} was not said {times} times"))
            .unwrap();
    }

    /// Waits for the client's n-th answer to a question.
    pub(crate) async fn answered(&self, times: usize) -> Value {
        let mut answers = self.answers.subscribe();
        let all = answers.wait_for(|all| all.len() >= times).await.unwrap();
        all[times - 1].clone()
    }

    /// The client's answers to all questions.
    pub(crate) fn answers(&self) -> Vec<Value> {
        self.answers.borrow().clone()
    }

    /// Says something by itself.
    pub(crate) fn say(&self, method: &str, params: Value) {
        self.link().say(method, params, None);
    }

    /// Loses notifications on their way.
    pub(crate) fn lose(&self) {
        let (message, related) = (ServerMessage::Missed, None);
        let lost = Incoming { message, related };
        self.link().incoming.try_send(lost).unwrap();
    }

    /// Asks something that belongs to no call.
    pub(crate) fn ask(&self, id: u64, method: &str, params: Value) {
        self.link().ask(id, method, params, None);
    }

    fn link(&self) -> Arc<PlayedLink> {
        self.link.lock().unwrap().clone().expect("it was started")
    }

    fn hear(&self, method: &str, params: Option<&RawJson>) -> Value {
        let params = params.map_or(Value::Null, |params| params.parse().unwrap());
        let said = (method.to_owned(), params.clone());
        self.heard.send_modify(|heard| heard.push(said));
        params
    }

    fn greeting(&self, method: &str) -> Option<Said> {
        let capabilities = json!({
            "tools": {"listChanged": true}, "logging": {},
            "resources": {"subscribe": true, "listChanged": true},
        });
        match (method, self.greets) {
            (_, Greets::Not) => None,
            ("initialize", Greets::Session) => Some(Said::result(json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "serverInfo": {"name": "played", "version": "1"}, "instructions": "be kind",
            }))),
            ("server/discover", Greets::Stateless) => Some(Said::result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
            }))),
            ("ping", Greets::Session) => Some(Said::result(json!({}))),
            ("initialize" | "server/discover" | "ping", _) => {
                Some(Said::error(-32601, "method not found"))
            }
            _ => None,
        }
    }
}

/// The client is given the `Arc`, so that links can find their server.
pub(crate) struct Handle(pub(crate) Arc<Played>);

impl Connector for Handle {
    fn transport(&self) -> TransportType {
        self.0.transport
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let played = Arc::clone(&self.0);
        Box::pin(async move {
            let start = played.starts.fetch_add(1, Ordering::Relaxed) + 1;
            let now = tokio::time::Instant::now();
            played.started_at.lock().unwrap().push(now);
            if let Some(error) = played.fails.lock().unwrap().clone() {
                return Err(error);
            }
            let (sender, incoming) = mpsc::channel(LINK_QUEUE);
            let link = Arc::new_cyclic(|me| PlayedLink {
                played: Arc::downgrade(&played),
                incoming: sender,
                ended: watch::Sender::new(None),
                start,
                me: me.clone(),
            });
            *played.link.lock().unwrap() = Some(Arc::clone(&link));
            Ok(Connected { link, incoming })
        })
    }
}

impl PlayedLink {
    pub(crate) fn say(&self, method: &str, params: Value, related: Option<RequestId>) {
        let message = ServerMessage::Notification {
            method: method.to_owned(),
            params: Some(RawJson::of(&params).unwrap()),
        };
        self.incoming
            .try_send(Incoming { message, related })
            .unwrap();
    }

    /// Asks the client something.
    pub(crate) fn ask(&self, id: u64, method: &str, params: Value, related: Option<RequestId>) {
        self.ask_as(RequestId::from_number(id), method, params, related);
    }

    /// Asks the client something under an id of any form.
    pub(crate) fn ask_as(
        &self,
        id: RequestId,
        method: &str,
        params: Value,
        related: Option<RequestId>,
    ) {
        let message = ServerMessage::Request {
            id,
            method: method.to_owned(),
            params: Some(RawJson::of(&params).unwrap()),
        };
        self.incoming
            .try_send(Incoming { message, related })
            .unwrap();
    }

    pub(crate) fn crash(&self) {
        let crash = Crash {
            signal: Some(9),
            stderr_tail: "ouch".to_owned(),
            ..Crash::default()
        };
        self.ended
            .send_replace(Some(ClientError::Crashed(Arc::new(crash))));
    }

    fn over(&self) -> impl Future<Output = ClientError> + Send + 'static {
        let mut ended = self.ended.subscribe();
        async move {
            match ended.wait_for(Option::is_some).await {
                Ok(error) => error.clone().unwrap(),
                Err(_) => ClientError::Closed,
            }
        }
    }
}

impl Link for PlayedLink {
    fn request(&self, request: Outgoing) -> BoxFuture<Result<Answer, ClientError>> {
        let played = self.played.upgrade().unwrap();
        if let Some(departure) = &request.departure {
            assert!(departure.leave(), "nobody has given it up");
        }
        let asked = Asked {
            params: played.hear(&request.method, request.params.as_ref()),
            start: self.start,
            link: self.me.upgrade().unwrap(),
            id: request.id,
            method: request.method,
        };
        if let Some(error) = self.ended.borrow().clone() {
            return Box::pin(std::future::ready(Err(error)));
        }
        let said = played
            .greeting(&asked.method)
            .unwrap_or_else(|| (played.script)(&asked));
        let over = self.over();
        if matches!(said, Said::Crash) {
            self.crash();
        }
        Box::pin(async move {
            let answered = async {
                match said {
                    Said::Answer(pause, answer) => {
                        tokio::time::sleep(pause).await;
                        Ok(answer)
                    }
                    Said::When(mut permitted, result) => {
                        let _ = permitted.wait_for(|permitted| *permitted).await;
                        Ok(Ok(RawJson::of(&result).unwrap()))
                    }
                    Said::Fail(error) => Err(error),
                    Said::FailAfter(pause, error) => {
                        tokio::time::sleep(pause).await;
                        Err(error)
                    }
                    Said::Never | Said::Crash => std::future::pending().await,
                }
            };
            tokio::select! {
                answer = answered => answer,
                error = over => Err(error),
            }
        })
    }

    fn notify(&self, method: &str, params: Option<RawJson>) -> BoxFuture<Result<(), ClientError>> {
        if let Some(played) = self.played.upgrade() {
            played.hear(method, params.as_ref());
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn respond(&self, id: RequestId, answer: Answer) -> BoxFuture<Result<(), ClientError>> {
        let answer = match answer {
            Ok(result) => json!({"id": id.as_json(), "result": result.parse::<Value>().unwrap()}),
            Err(error) => json!({"id": id.as_json(), "error": error.message}),
        };
        if let Some(played) = self.played.upgrade() {
            played.answers.send_modify(|answers| answers.push(answer));
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn agreed(&self, _agreed: Agreed) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    fn ended(&self) -> BoxFuture<ClientError> {
        Box::pin(self.over())
    }

    fn close(&self) -> BoxFuture<()> {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            if first {
                *ended = Some(ClientError::Closed);
            }
            first
        });
        let played = self.played.upgrade();
        let grace = played.map_or(Duration::ZERO, |played| *played.grace.lock().unwrap());
        Box::pin(tokio::time::sleep(grace))
    }
}
