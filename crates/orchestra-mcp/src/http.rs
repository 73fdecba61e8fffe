//! MCP over HTTP.
//!
//! | route | does |
//! |---|---|
//! | `POST /mcp` | one message: a stateless request (2026-07-28), or one of a session that `initialize` begins (2025-03-26 to 2025-11-25); answered in JSON, or as events when there is more to say than the answer |
//! | `GET /mcp` | the session's own stream of events, or the rest of one that broke off (`Last-Event-ID`) |
//! | `DELETE /mcp` | ends the session |
//! | `GET /sse`, `POST /messages` | the same for clients of 2024-11-05 |
//! | `POST /rpc` | one message, answered in JSON; 202 when nothing is to be answered |
//!
//! An [`Access`] stands before all of them and says who is let in: unless it is told otherwise,
//! requests that name this machine as their host and, if they come from a page, as their origin,
//! for a page of somebody else in a browser here must not reach the server.

mod access;
mod exchange;
mod headers;
mod old;
mod serve;
mod sessions;
mod sse;
mod streams;

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::{Body, Bytes, HttpBody as _, to_bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use orchestra_wire::{Era, ErrorCode, RawJson, Revision, RpcError, shown};
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};

use crate::{post::Post, server::Server};
pub use access::{
    Access, AccessRules, HostName, Identity, NameError, Rate, Token, TokenError, UnguardedAddress,
    WebOrigin,
};
pub use serve::{Limits, serve};
use sessions::Sessions;

/// The path of MCP.
pub const MCP_PATH: &str = "/mcp";

/// The path of the event stream of 2024-11-05.
pub const SSE_PATH: &str = "/sse";

/// The path that messages are posted to in 2024-11-05.
pub const MESSAGES_PATH: &str = "/messages";

/// The path of plain JSON-RPC.
pub const RPC_PATH: &str = "/rpc";

/// Bodies that are read at once; what is more than that is a fault of the caller.
const READS: usize = 512;

/// Bodies that are held at once, in bytes, however many messages they are; one message of the
/// largest size is always taken.
const HELD_BYTES: usize = 64 * 1024 * 1024;

/// What the bytes of bodies are counted in.
const HELD_UNIT: usize = 1024;

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

    fn revisions(self) -> impl Iterator<Item = &'static str> {
        let fits = move |revision: &Revision| match revision.era() {
            Era::Session => self.contains(Self::Session),
            Era::Stateless => self.contains(Self::Stateless),
        };
        Revision::ALL.into_iter().filter(fits).map(Revision::as_str)
    }
}

/// How HTTP is served.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Which eras are served.
    pub eras: Eras,
    /// The largest body that is read.
    pub body_bytes: usize,
    /// Sessions that are open at once.
    pub sessions: usize,
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
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            eras: Eras::Both,
            body_bytes: orchestra_wire::MAX_LINE_BYTES,
            sessions: 16_384,
            idle: Duration::from_secs(30 * 60),
            poll_after: None,
            retry: Duration::from_secs(1),
            body_time: Duration::from_secs(30),
            access: Access::default(),
            stop: None,
        }
    }
}

/// What the routes need.
#[derive(Clone)]
struct App {
    server: Server,
    post: Arc<Post>,
    sessions: Arc<Sessions>,
    options: Arc<HttpOptions>,
    /// Bodies that are read at once.
    reads: Arc<Semaphore>,
    /// Room for bodies, in [`HELD_UNIT`]s.
    room: Arc<Semaphore>,
}

/// The routes, over one server, behind the guard of [`HttpOptions::access`]. The same [`Access`]
/// may guard other routes as well, or all together from outside.
pub fn router(server: &Server, options: HttpOptions) -> Router {
    let mcp = post(exchange::post)
        .get(exchange::get)
        .delete(exchange::delete)
        .fallback(async || not_allowed());
    let app = App {
        server: server.clone(),
        post: Arc::new(Post::new(server, "http")),
        sessions: Sessions::new(server.clone(), &options),
        reads: Arc::new(Semaphore::new(READS)),
        room: Arc::new(Semaphore::new(units(HELD_BYTES.max(options.body_bytes)))),
        options: Arc::new(options),
    };
    let access = app.options.access.clone();
    let routes = Router::new()
        .route(MCP_PATH, mcp)
        .route(SSE_PATH, get(old::open).fallback(async || only("GET")))
        .route(
            MESSAGES_PATH,
            post(old::message).fallback(async || only("POST")),
        )
        .route(RPC_PATH, post(rpc).fallback(async || only("POST")))
        .route("/", get(nothing))
        .fallback(nothing)
        .with_state(app);
    access.guard(routes)
}

/// `POST /rpc`.
async fn rpc(State(app): State<App>, headers: HeaderMap, body: Body) -> Response {
    let (body, _room) = match app.read(&headers, body).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    match app.post.handle(&body).await {
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
    ) -> Result<(Bytes, OwnedSemaphorePermit), Response> {
        if !is_json(headers.get(header::CONTENT_TYPE)) {
            let text = "the content type must be application/json";
            return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        let most = self.options.body_bytes;
        // A body of a length that is not told may be of any.
        let length = body
            .size_hint()
            .upper()
            .map_or(most, |upper| usize::try_from(upper).unwrap_or(usize::MAX));
        if length > most {
            return Err(too_large(most));
        }
        let room = u32::try_from(units(length)).unwrap_or(u32::MAX);
        let (Ok(_read), Ok(room)) = (
            self.reads.try_acquire(),
            Arc::clone(&self.room).try_acquire_many_owned(room),
        ) else {
            let text = "busy; try again in a moment";
            return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, text));
        };
        match timeout(self.options.body_time, to_bytes(body, most)).await {
            Ok(Ok(body)) => Ok((body, room)),
            Ok(Err(_)) => Err(too_large(most)),
            Err(_) => Err(refuse(
                StatusCode::REQUEST_TIMEOUT,
                "the body took too long",
            )),
        }
    }
}

/// Who makes a request; the guard has told.
fn identity(caller: Option<Extension<Identity>>) -> Identity {
    caller.map_or(Identity::Anyone, |Extension(caller)| caller)
}

/// Completes when the server is to stop.
async fn stopped(stop: &mut Option<watch::Receiver<bool>>) {
    match stop {
        // An error means that whoever could stop it is gone, which ends it as well.
        Some(stop) => drop(stop.wait_for(|stopped| *stopped).await),
        None => std::future::pending().await,
    }
}

/// The room that bytes take.
const fn units(bytes: usize) -> usize {
    bytes.div_ceil(HELD_UNIT)
}

fn too_large(most: usize) -> Response {
    let text = format!("the body must be whole and at most {most} bytes");
    refuse(StatusCode::PAYLOAD_TOO_LARGE, &text)
}

async fn nothing() -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        "there is nothing here; MCP is at /mcp",
    )
}

fn not_allowed() -> Response {
    only("GET, POST, DELETE")
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

fn is_json(content_type: Option<&HeaderValue>) -> bool {
    let text = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// The error for a revision that is not served.
fn unsupported(requested: &str, eras: Eras) -> RpcError {
    let supported: Vec<&str> = eras.revisions().collect();
    let text = format!("revision {} is not served", shown(requested));
    let data = json!({"supported": supported, "requested": shown(requested)});
    let data = RawJson::of(&data).expect("a JSON object has a JSON form");
    RpcError::new(ErrorCode::UNSUPPORTED_REVISION, text).with_data(data)
}

/// A refusal in the form that MCP clients read: a JSON-RPC error without id.
fn refuse(status: StatusCode, message: &str) -> Response {
    let error = json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": {"code": -32600, "message": message},
    });
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], error.to_string()).into_response()
}
