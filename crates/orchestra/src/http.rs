//! MCP over plain HTTP: one message in the body of a POST, its answer in the body of the reply.
//!
//! | route | does |
//! |---|---|
//! | `POST /mcp` | one JSON-RPC message, or a batch where the revision has them; 202 when nothing is to be answered |
//!
//! Requests must name this machine as their host and, if they come from a page, as their origin:
//! a page of somebody else in a browser here must not reach the board.

mod guard;
mod serve;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, HttpBody as _, to_bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware,
    response::{IntoResponse as _, Response},
    routing::post,
};
use orchestra_mcp::{Server, post::Post};
use serde_json::json;
use tokio::{sync::Semaphore, time::timeout};

pub(crate) use serve::{Limits, serve};

/// The path that MCP is served at.
pub(crate) const MCP_PATH: &str = "/mcp";

/// Messages that are read and answered at once; what is more than that is a fault of the caller.
const TURNS: usize = 256;

/// Bodies that are held at once, in bytes, however many messages they are; one message of the
/// largest size is always taken.
const HELD_BYTES: usize = 64 * 1024 * 1024;

/// What the bytes of bodies are counted in.
const HELD_UNIT: usize = 1024;

/// How long the body of a message may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Text that is no address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no address to listen on; write 127.0.0.1:7420, [::1]:7420, localhost:7420, or the port alone"
)]
pub(crate) struct AddressError;

/// Understands an address to listen on: a socket address, `localhost` and a port, or a port alone,
/// which is one of the loopback address as well.
///
/// # Errors
/// When it is none of these.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, AddressError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = match text.rsplit_once(':') {
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => port,
        Some(_) => return Err(AddressError),
        None => text,
    };
    // A number alone: `parse` would take a sign as well.
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AddressError);
    }
    let port: u16 = port.parse().map_err(|_| AddressError)?;
    Ok((Ipv4Addr::LOCALHOST, port).into())
}

/// Refuses an address that other machines can reach.
///
/// # Errors
/// When it is one.
pub(crate) fn check_address(address: SocketAddr) -> anyhow::Result<()> {
    anyhow::ensure!(
        address.ip().is_loopback(),
        "{address} can be reached from other machines, and nothing asks them who they are; \
         use a loopback address such as 127.0.0.1:{}",
        address.port()
    );
    Ok(())
}

/// What the routes need.
#[derive(Clone)]
struct App {
    post: Arc<Post>,
    /// The largest body that is read.
    body_bytes: usize,
    /// Messages that are read and answered at once.
    turns: Arc<Semaphore>,
    /// Room for bodies, in [`HELD_UNIT`]s.
    room: Arc<Semaphore>,
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
            room: Arc::new(Semaphore::new(units(HELD_BYTES.max(body_bytes)))),
        })
}

/// Answers one message.
async fn message(State(app): State<App>, headers: HeaderMap, body: Body) -> Response {
    if !is_json(headers.get(header::CONTENT_TYPE)) {
        let text = "the content type must be application/json";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
    }
    // A body of a length that is not told may be of any.
    let length = body.size_hint().upper().map_or(app.body_bytes, |upper| {
        usize::try_from(upper).unwrap_or(usize::MAX)
    });
    if length > app.body_bytes {
        return too_large(app.body_bytes);
    }
    let room = u32::try_from(units(length)).unwrap_or(u32::MAX);
    let (Ok(_turn), Ok(_room)) = (app.turns.try_acquire(), app.room.try_acquire_many(room)) else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy; try again in a moment",
        );
    };
    let body = match timeout(BODY_TIME, to_bytes(body, app.body_bytes)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return too_large(app.body_bytes),
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

/// The room that bytes take.
const fn units(bytes: usize) -> usize {
    bytes.div_ceil(HELD_UNIT)
}

fn too_large(most: usize) -> Response {
    let text = format!("the body must be whole and at most {most} bytes");
    refuse(StatusCode::PAYLOAD_TOO_LARGE, &text)
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

#[cfg(test)]
mod tests {
    use super::check_address;

    #[test]
    fn only_loopback_is_served() {
        for address in ["127.0.0.1:0", "[::1]:7420", "127.9.9.9:1"] {
            assert!(check_address(address.parse().unwrap()).is_ok());
        }
        for address in ["0.0.0.0:7420", "[::]:7420", "192.168.0.1:80"] {
            assert!(check_address(address.parse().unwrap()).is_err());
        }
    }
}
