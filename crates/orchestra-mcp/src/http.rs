//! MCP over HTTP.
//!
//! | route | does |
//! |---|---|
//! | `POST /mcp` | one message: a stateless request (2026-07-28), or one of a session that `initialize` begins (2025-03-26 to 2025-11-25), or a batch of a session (2025-03-26); answered in JSON, or as events when there is more to say than the answer |
//! | `GET /mcp` | the session's own stream of events, or the rest of one that broke off (`Last-Event-ID`); an earlier connection with the same stream ends |
//! | `DELETE /mcp` | ends the session |
//! | `GET /sse`, `POST /messages` | the same for clients of 2024-11-05 |
//! | `POST /rpc` | one message, answered in JSON; 202 when nothing is to be answered |
//! | `/mcp/`, `/sse/`, `/messages/`, `/rpc/` | the same as without the slash |
//! | `GET /.well-known/oauth-protected-resource`, and with the path of the resource behind it | where OAuth is asked for: who gives out tokens |
//!
//! An [`Access`] guards all of them. By default it admits requests over connections of the user who
//! runs the program, which name this machine as their host and, if they come from a page, as their
//! origin: a page of another site in a browser of that user must not reach the server.

mod access;
mod batch;
pub(crate) mod budget;
mod exchange;
mod headers;
mod intake;
mod old;
mod serve;
mod sessions;
mod shares;
mod sse;
mod streams;

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get, post},
};
use orchestra_wire::{Era, ErrorCode, RawJson, Revision, RpcError, shown};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::{PartLook, connection::Received, post::Post, server::Server};
pub use access::{
    Access, AccessRules, ClientError, HostName, Identity, KeyTimes, KeysUrl, LoginError, NameError,
    OAuth, OAuthError, OAuthNameError, OAuthRules, Rate, Scope, ServiceUrl, Subject, Token,
    TokenError, TrustedIssuer, UnguardedAddress, WebOrigin,
};
use budget::Budget;
pub use intake::{BodyError, Intake};
pub use orchestra_process::PeerUser;
pub use serve::{Limits, Listeners, OverTls, Tls, TlsError, serve, serve_tls};
use sessions::Sessions;
use shares::Shares;
pub use shares::{StreamLimits, StreamShare, TooManyStreams};

/// The path of MCP.
pub const MCP_PATH: &str = "/mcp";

/// The path of the event stream of 2024-11-05.
pub const SSE_PATH: &str = "/sse";

/// The path that messages are posted to in 2024-11-05.
pub const MESSAGES_PATH: &str = "/messages";

/// The path of plain JSON-RPC.
pub const RPC_PATH: &str = "/rpc";

/// Which eras are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eras {
    /// The revisions with sessions.
    Session,
    /// The revisions without.
    Stateless,
    /// All.
    #[default]
    Both,
}

impl Eras {
    fn contains(self, era: Self) -> bool {
        self == Self::Both || self == era
    }

    /// Whether an era is served.
    pub(crate) fn speaks(self, era: Era) -> bool {
        self.contains(match era {
            Era::Session => Self::Session,
            Era::Stateless => Self::Stateless,
        })
    }

    /// The revisions that are served, oldest first.
    pub fn revisions(self) -> impl DoubleEndedIterator<Item = &'static str> {
        let fits = move |revision: &Revision| self.speaks(revision.era());
        Revision::ALL.into_iter().filter(fits).map(Revision::as_str)
    }

    /// As clients are told: a server of both eras lists all it supports (MCP 2026-07-28,
    /// basic/versioning, whose example of the error names 2025-11-25), and a client that picks one
    /// of these opens it as that revision says.
    pub(crate) fn newest_first(self) -> impl Iterator<Item = &'static str> {
        self.revisions().rev()
    }
}

/// How HTTP is served.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Which eras are served.
    pub eras: Eras,
    /// The largest body that is read.
    pub body_bytes: usize,
    /// Replies that wait for clients to read them, in bytes, those of all clients together; an
    /// answer beyond becomes an error. One is always taken, however large.
    pub reply_bytes: usize,
    /// Sessions that are open at once.
    pub sessions: usize,
    /// Event streams that are open at once.
    pub streams: StreamLimits,
    /// After which time without use a session ends.
    pub idle: Duration,
    /// After which time the connection of a call's events ends although the call goes on: the
    /// client comes back for the rest. `None`: never.
    pub poll_after: Option<Duration>,
    /// After which time it is to come back.
    pub retry: Duration,
    /// How long the body of a message may take to arrive.
    pub body_time: Duration,
    /// Who is let in.
    pub access: Access,
    /// Turns true when the server is to stop: streams that have no end by themselves end then.
    pub stop: Option<watch::Receiver<bool>>,
    /// What is served beside it, which is told of its health.
    pub parts: Vec<PartLook>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            eras: Eras::Both,
            body_bytes: orchestra_wire::MAX_LINE_BYTES,
            reply_bytes: 256 * 1024 * 1024,
            sessions: 16_384,
            streams: StreamLimits::of(Limits::default().connections),
            idle: Duration::from_secs(30 * 60),
            poll_after: None,
            retry: Duration::from_secs(1),
            body_time: Duration::from_secs(30),
            access: Access::default(),
            stop: None,
            parts: Vec::new(),
        }
    }
}

/// What a refusal says, among the extensions of its response: for whoever tells it in another form
/// than that of JSON-RPC.
#[derive(Debug, Clone)]
pub struct Refused(pub Arc<str>);

/// Mark among the extensions of an answer whose stream has no end of its own, such as a subscription.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endless;

/// Too many replies wait for clients that do not read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("busy: too many replies wait until their clients read them; try again later")]
pub struct RepliesWait;

/// MCP over HTTP of one server: its routes, and what other routes beside them need. Clones are the
/// same face.
#[derive(Clone)]
pub struct HttpFace {
    app: Arc<App>,
}

/// What the routes need.
struct App {
    server: Server,
    post: Arc<Post>,
    sessions: Arc<Sessions>,
    shares: Shares,
    budget: Budget,
    options: HttpOptions,
    intake: Intake,
}

impl HttpFace {
    /// The face of `server`.
    #[must_use]
    pub fn new(server: &Server, options: HttpOptions) -> Self {
        let budget = Budget::new(options.reply_bytes);
        let post = Post::new(server, "http");
        let app = Arc::new(App {
            server: server.clone(),
            post: Arc::new(
                post.until(options.stop.clone())
                    .serving(options.eras)
                    .within(budget.clone()),
            ),
            sessions: Sessions::new(server.clone(), &options, budget.clone()),
            shares: Shares::new(options.streams),
            budget,
            intake: Intake::new(&options),
            options,
        });
        Self { app }
    }

    /// The routes of MCP, which an [`Access`] must guard.
    pub fn routes(&self) -> Router {
        let eras = self.app.options.eras;
        let mcp = post(exchange::post)
            .get(exchange::get)
            // It would take the stream from whoever reads it.
            .head(async move || not_allowed(eras))
            .delete(exchange::delete)
            .fallback(async move || not_allowed(eras));
        let rpc = post(rpc).fallback(async || only("POST"));
        let routes = both(Router::new(), MCP_PATH, mcp);
        both(routes, RPC_PATH, rpc)
            .with_state(Arc::clone(&self.app))
            .merge(self.pair_below(""))
    }

    /// The two routes of 2024-11-05 below a path. An [`Access`] must guard them.
    pub fn pair_below(&self, path: &str) -> Router {
        let sse = get(old::open)
            .head(async || only("GET"))
            .fallback(async || only("GET"));
        let messages = post(old::message).fallback(async || only("POST"));
        let routes = both(Router::new(), &format!("{path}{SSE_PATH}"), sse);
        both(routes, &format!("{path}{MESSAGES_PATH}"), messages).with_state(Arc::clone(&self.app))
    }

    /// Takes bodies in, within the bounds of the face.
    #[must_use]
    pub fn intake(&self) -> &Intake {
        &self.app.intake
    }

    /// Counts a reply of another route among those that wait for clients to read them, for as long
    /// as anybody holds it.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn hold(&self, reply: Bytes) -> Result<Bytes, RepliesWait> {
        self.app.sessions.relieve();
        self.app.budget.try_hold(reply).map_err(|_| RepliesWait)
    }

    /// Takes the share of an event stream of another route, which a request with these headers opens.
    /// It is held for as long as the stream is open.
    ///
    /// # Errors
    /// When too many are open.
    pub fn open_stream(
        &self,
        caller: Option<Identity>,
        headers: &HeaderMap,
    ) -> Result<StreamShare, TooManyStreams> {
        let caller = caller.unwrap_or(Identity::Anyone);
        self.app.shares.take(caller, headers)
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.app.server
    }

    /// How it is served.
    #[must_use]
    pub fn options(&self) -> &HttpOptions {
        &self.app.options
    }
}

/// The routes, over one server, behind the guard of [`HttpOptions::access`]. The same [`Access`]
/// may guard other routes as well, or all together from outside.
pub fn router(server: &Server, options: HttpOptions) -> Router {
    let face = HttpFace::new(server, options);
    let routes = face.routes().route("/", get(nothing)).fallback(nothing);
    let access = &face.options().access;
    access.guard(routes).merge(access.metadata_routes())
}

/// Adds a route, with and without a slash at its end: programs that join a base and a path leave one.
fn both(routes: Router<Arc<App>>, path: &str, methods: MethodRouter<Arc<App>>) -> Router<Arc<App>> {
    let routes = routes.route(path, methods.clone());
    routes.route(&format!("{path}/"), methods)
}

/// `POST /rpc`.
async fn rpc(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let (body, _room) = match app.read(&head.headers, body).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    app.sessions.relieve();
    let received = Received::of(&body);
    if let Some(refused) = exchange::refused_era(&app, &received.inbound) {
        return refused;
    }
    match app.post.answer(caller(&head), &received).await {
        Some(reply) => {
            let json = HeaderValue::from_static("application/json");
            ([(header::CONTENT_TYPE, json)], reply).into_response()
        }
        None => StatusCode::ACCEPTED.into_response(),
    }
}

impl App {
    /// Reads a body, and has room for it until the permit is dropped.
    async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Response> {
        let read = self.intake.read(headers, body).await;
        read.map_err(|error| {
            let mut response = refuse(error.status(), &error.to_string());
            if let Some(codings) = error.accepted_codings() {
                let headers = response.headers_mut();
                headers.insert(header::ACCEPT_ENCODING, codings);
            }
            response
        })
    }
}

/// Who makes a request; the guard has told.
fn identity(caller: Option<Extension<Identity>>) -> Identity {
    caller.map_or(Identity::Anyone, |Extension(caller)| caller)
}

/// Who makes a request that is taken whole.
fn caller(head: &Parts) -> Identity {
    identity(head.extensions.get().copied().map(Extension))
}

/// Completes when the server is to stop.
pub(crate) async fn stopped(stop: &mut Option<watch::Receiver<bool>>) {
    match stop {
        // An error means that whoever could stop it is gone, which ends it as well.
        Some(stop) => drop(stop.wait_for(|stopped| *stopped).await),
        None => std::future::pending().await,
    }
}

/// Refuses an event stream.
fn too_many_streams(error: TooManyStreams) -> Response {
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, &error.to_string());
    let wait = HeaderValue::from_static("5");
    response.headers_mut().insert(header::RETRY_AFTER, wait);
    response
}

async fn nothing() -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        "there is nothing here; MCP is at /mcp",
    )
}

fn not_allowed(eras: Eras) -> Response {
    match eras.contains(Eras::Session) {
        true => only("GET, POST, DELETE"),
        false => only("POST"),
    }
}

fn only(methods: &'static str) -> Response {
    let mut response = refuse(
        StatusCode::METHOD_NOT_ALLOWED,
        "this method has no use here",
    );
    let methods = HeaderValue::from_static(methods);
    response.headers_mut().insert(header::ALLOW, methods);
    response
}

const HOW_TO_NAME_IT: &str = "name one in _meta as io.modelcontextprotocol/protocolVersion";

/// The error for a revision that is not served.
pub(crate) fn unsupported(requested: &str, eras: Eras) -> RpcError {
    // One that begins with `initialize` is not had by naming it in `_meta`: whoever tried that is
    // not told to try it again.
    let supported = eras.newest_first().filter(|served| *served != requested);
    let supported: Vec<&str> = supported.collect();
    let text = match requested {
        "" => format!("a request that names no revision is not served; {HOW_TO_NAME_IT}"),
        _ => format!("revision {} is not served", shown(requested)),
    };
    let data = json!({"supported": supported, "requested": shown(requested)});
    let data = RawJson::of(&data).expect("a JSON object has a JSON form");
    RpcError::new(ErrorCode::UNSUPPORTED_REVISION, text).with_data(data)
}

/// A refusal in the form that MCP clients read: a JSON-RPC error without id.
fn refuse(status: StatusCode, message: &str) -> Response {
    let error = json!({
        "jsonrpc": "2.0",
        "error": {"code": -32600, "message": message},
    });
    let json = HeaderValue::from_static("application/json");
    let said = Extension(Refused(message.into()));
    let head = [(header::CONTENT_TYPE, json)];
    (status, head, said, error.to_string()).into_response()
}
