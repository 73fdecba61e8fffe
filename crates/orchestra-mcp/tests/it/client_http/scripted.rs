//! A server that answers as a test says, over real sockets.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::Response,
};
use orchestra_mcp::client::{
    Answer, ClientError, Connected, Connector as _, Link, Outgoing,
    http::{HttpConfig, HttpConnector},
};
use orchestra_wire::{RawJson, RequestId};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    time::timeout,
};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    /// The body as it came.
    pub(crate) text: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn rpc(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// A response to it.
    pub(crate) fn result(&self, result: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result})
    }
}

/// A server, the connections it has taken and all it was asked.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    seen: watch::Sender<Vec<Seen>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

type Script = Arc<dyn Fn(Seen) -> futures_util::future::BoxFuture<'static, Response> + Send + Sync>;

#[derive(Clone)]
struct Stage {
    script: Script,
    seen: watch::Sender<Vec<Seen>>,
}

impl Scripted {
    pub(crate) async fn new<F, A>(script: F) -> Self
    where
        F: Fn(Seen) -> A + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        let seen = watch::Sender::default();
        let stage = Stage {
            script: Arc::new(move |seen| Box::pin(script(seen))),
            seen: seen.clone(),
        };
        let app = Router::new().fallback(play).with_state(stage);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::<AtomicUsize>::default();
        let counted = axum::serve::ListenerExt::tap_io(listener, {
            let connections = Arc::clone(&connections);
            move |_| {
                connections.fetch_add(1, Ordering::SeqCst);
            }
        });
        let serving = tokio::spawn(async move { axum::serve(counted, app).await.unwrap() });
        Self {
            address,
            connections,
            seen,
            serving,
        }
    }

    /// What it was asked up to now.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    /// Waits until it was asked something.
    pub(crate) async fn saw(&self, what: impl Fn(&Seen) -> bool) -> Seen {
        let mut all = self.seen.subscribe();
        let looking = all.wait_for(|all| all.iter().any(&what));
        let all = timeout(PATIENCE, looking).await.expect("it is asked that");
        all.unwrap().iter().find(|seen| what(seen)).unwrap().clone()
    }

    pub(crate) fn config(&self, path: &str) -> HttpConfig {
        let url = format!("http://{}{path}", self.address);
        HttpConfig::new("there", url.parse().unwrap())
    }
}

async fn play(State(stage): State<Stage>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let seen = Seen {
        method: head.method,
        path: head.uri.path().to_owned(),
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        text: String::from_utf8_lossy(&body).into_owned(),
    };
    stage.seen.send_modify(|all| all.push(seen.clone()));
    (stage.script)(seen).await
}

pub(crate) fn json_of(status: u16, body: &Value) -> Response {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json; charset=utf-8")
        .body(Body::from(body.to_string()))
        .unwrap()
}

pub(crate) fn empty(status: u16) -> Response {
    with(status, &[], "")
}

pub(crate) fn with(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
    let mut response = Response::new(Body::from(body.to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in headers {
        let name = header::HeaderName::try_from(*name).unwrap();
        response.headers_mut().append(name, value.parse().unwrap());
    }
    response
}

/// An event stream and what writes to it; dropped, the stream ends.
pub(crate) fn events() -> (Response, mpsc::UnboundedSender<String>) {
    let (sender, receiver) = mpsc::unbounded_channel::<String>();
    let pieces = futures_util::stream::unfold(receiver, |mut receiver| async {
        let piece = receiver.recv().await?;
        Some((Ok::<_, std::io::Error>(Bytes::from(piece)), receiver))
    });
    let response = Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .body(Body::from_stream(pieces))
        .unwrap();
    (response, sender)
}

/// An event stream that says this and ends.
pub(crate) fn said(text: &str) -> Response {
    with(200, &[("content-type", "text/event-stream")], text)
}

pub(crate) fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

pub(crate) async fn connected(config: HttpConfig) -> Connected {
    let connector = HttpConnector::new(config).unwrap();
    let opened = timeout(PATIENCE, connector.connect()).await;
    opened.expect("connected in time").unwrap()
}

pub(crate) fn outgoing(id: u64, method: &str, params: &Value) -> Outgoing {
    Outgoing {
        along: Default::default(),
        departure: None,
        id: RequestId::from_number(id),
        method: method.to_owned(),
        params: Some(RawJson::of(params).unwrap()),
        name: params["name"].as_str().map(str::to_owned),
        headers: Vec::new(),
    }
}

/// Sends a request, within patience.
pub(crate) async fn ask(
    link: &dyn Link,
    id: u64,
    method: &str,
    params: &Value,
) -> Result<Answer, ClientError> {
    let asked = timeout(PATIENCE, link.request(outgoing(id, method, params)));
    asked.await.expect("answered in time")
}

/// The same, of which a result is expected.
pub(crate) async fn result(link: &dyn Link, id: u64, method: &str, params: &Value) -> Value {
    let answer = ask(link, id, method, params).await.unwrap().unwrap();
    serde_json::from_slice(answer.as_bytes()).unwrap()
}
