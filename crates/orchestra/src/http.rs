//! MCP over plain HTTP: one message in the body of a POST, its answer in the body of the reply.
//!
//! | route | does |
//! |---|---|
//! | `POST /mcp` | one JSON-RPC message, or a batch where the revision has them; 202 when nothing is to be answered |
//!
//! Requests must name this machine as their host and, if they come from a page, as their origin:
//! a page of somebody else in a browser here must not reach the board.

mod guard;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware,
    response::{IntoResponse as _, Response},
    routing::post,
};
use orchestra_mcp::{Server, post::Post};
use serde_json::json;
use tokio::{sync::Semaphore, time::timeout};

/// The path that MCP is served at.
pub(crate) const MCP_PATH: &str = "/mcp";

/// Messages that are read and answered at once; what is more than that is a fault of the caller.
const TURNS: usize = 256;

/// How long the body of a message may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// What the routes need.
#[derive(Clone)]
struct App {
    post: Arc<Post>,
    /// The largest body that is read.
    body_bytes: usize,
    /// Messages that are read and answered at once.
    turns: Arc<Semaphore>,
}

/// The routes, over one server.
pub(crate) fn app(server: &Server, body_bytes: usize) -> Router {
    Router::new()
        .route(MCP_PATH, post(message).fallback(other_method))
        .fallback(async || {
            refuse(
                StatusCode::NOT_FOUND,
                "there is nothing here; MCP is at /mcp",
            )
        })
        .layer(middleware::from_fn(guard::local_only))
        .with_state(App {
            post: Arc::new(Post::new(server, "http")),
            body_bytes,
            turns: Arc::new(Semaphore::new(TURNS)),
        })
}

/// Answers one message.
async fn message(State(app): State<App>, headers: HeaderMap, body: Body) -> Response {
    if !is_json(headers.get(header::CONTENT_TYPE)) {
        let text = "the content type must be application/json";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
    }
    let Ok(_turn) = app.turns.try_acquire() else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy; try again in a moment",
        );
    };
    let body = match timeout(BODY_TIME, to_bytes(body, app.body_bytes)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let text = format!(
                "the body must be whole and at most {} bytes",
                app.body_bytes
            );
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, &text);
        }
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
    };
    match app.post.handle(&body).await {
        Some(reply) => {
            let json = HeaderValue::from_static("application/json");
            ([(header::CONTENT_TYPE, json)], reply).into_response()
        }
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// The only method is POST: there is no stream to read and no session to end.
async fn other_method() -> Response {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "use POST");
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

fn is_json(content_type: Option<&HeaderValue>) -> bool {
    let text = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
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
