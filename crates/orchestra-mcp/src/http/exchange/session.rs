//! Messages of a session, and its own stream: how they are answered on `/mcp`.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use orchestra_wire::{RequestId, Revision, RpcError};
use tokio::time::timeout;

use super::{Accepts, json};
use crate::{
    connection::Received,
    http::{
        App, Eras, Identity,
        headers::{LAST_EVENT, PROTOCOL_VERSION, SESSION},
        identity, not_allowed, refuse,
        sessions::HttpSession,
        sse::{self, Telling},
        streams::{OWN, StreamReader, Unreadable},
    },
    post::line,
};

/// How long an answer may take before the client is told that there will be one, on a stream.
const PATIENCE: Duration = Duration::from_secs(1);

/// A new session.
pub(super) fn initialize(app: &App, caller: Identity, received: &Received<'_>) -> Response {
    let Some(session) = app.sessions.begin(caller) else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "no session can be begun");
    };
    let reply = line(session.take(received));
    if session.revision().is_none() {
        return json(reply);
    }
    let secret = HeaderValue::from_str(&session.id).expect("hexadecimal digits");
    if !app.sessions.keep(session) {
        let text = "busy: too many sessions are open; end one or come back later";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    let mut response = json(reply);
    response.headers_mut().insert(SESSION, secret);
    response
}

/// Takes a request of a session, and opens the stream of what is said in answer to it.
pub(super) fn open(
    session: &HttpSession,
    id: &RequestId,
    received: &Received<'_>,
) -> Result<StreamReader, RpcError> {
    let Some(reader) = session.streams.open(id) else {
        let text = "invalid request: a request with this id is still open";
        return Err(RpcError::invalid_request(text));
    };
    let out = session.take(received);
    if !out.is_empty() {
        crate::session::Outbox::send(&*session.streams, out);
    }
    Ok(reader)
}

/// Answers a request of a session.
pub(super) async fn answer(
    app: &App,
    session: &HttpSession,
    mut reader: StreamReader,
    accepts: Accepts,
) -> Response {
    let telling = Telling {
        primed: session
            .revision()
            .is_some_and(|revision| revision >= Revision::V2025_11_25),
        ends_after: app.options.poll_after,
        retry: app.options.retry,
    };
    if !accepts.stream {
        return last_of(reader).await;
    }
    match timeout(PATIENCE, reader.wait()).await {
        Ok(Some((_, message))) if accepts.json && reader.is_at_end() => {
            reader.forget();
            json(message)
        }
        Ok(Some(_)) => {
            reader.step_back();
            sse::tell(reader, telling)
        }
        Ok(None) => StatusCode::ACCEPTED.into_response(),
        Err(_) => sse::tell(reader, telling),
    }
}

/// The answer alone, for a client that takes no stream; what comes before it is left out.
async fn last_of(mut reader: StreamReader) -> Response {
    while let Some((_, message)) = reader.wait().await {
        if reader.is_at_end() {
            reader.forget();
            return json(message);
        }
    }
    StatusCode::ACCEPTED.into_response()
}

/// A message of a session that is no request.
pub(super) fn take(session: &HttpSession, received: &Received<'_>) -> Response {
    let out = session.take(received);
    // Answers to others than this message go their own ways, a refused batch is answered here.
    let head = out.pieces().next().unwrap_or_default();
    if head.starts_with(b"[") || head.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":null") {
        return json(line(out));
    }
    crate::session::Outbox::send(&*session.streams, out);
    StatusCode::ACCEPTED.into_response()
}

/// `GET /mcp`: the session's own stream, or what is left of one that broke.
pub(in crate::http) async fn get(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Response {
    let Some(session) = headers.get(SESSION) else {
        return not_allowed();
    };
    if !app.options.eras.contains(Eras::Session) {
        return not_allowed();
    }
    if !Accepts::of(&headers).stream {
        let text = "the Accept header must list text/event-stream";
        return refuse(StatusCode::NOT_ACCEPTABLE, text);
    }
    if let Some(refused) = check_version(&headers) {
        return refused;
    }
    let Some(session) = find(&app, session, identity(caller)) else {
        return no_session();
    };
    let place = match headers.get(LAST_EVENT) {
        None => Some((OWN, session.streams.own_place())),
        Some(last) => last.to_str().ok().and_then(sse::place),
    };
    let Some((key, after)) = place else {
        let text = "Last-Event-ID is none of ours; call again";
        return refuse(StatusCode::BAD_REQUEST, text);
    };
    let telling = Telling {
        primed: false,
        ends_after: app.options.poll_after.filter(|_| key != OWN),
        retry: app.options.retry,
    };
    match session.streams.read(key, after) {
        Ok(reader) => sse::tell(reader, telling),
        Err(Unreadable::Taken) => {
            refuse(StatusCode::CONFLICT, "the session's stream is read already")
        }
        Err(Unreadable::Gone) => refuse(StatusCode::NOT_FOUND, "the stream is gone; call again"),
    }
}

/// `DELETE /mcp`: ends a session.
pub(in crate::http) async fn delete(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Response {
    if !app.options.eras.contains(Eras::Session) {
        return not_allowed();
    }
    let Some(session) = headers.get(SESSION) else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "the Mcp-Session-Id header is missing",
        );
    };
    let Some(session) = find(&app, session, identity(caller)) else {
        return no_session();
    };
    app.sessions.end(&session.id);
    StatusCode::NO_CONTENT.into_response()
}

/// The caller's session.
pub(super) fn find(app: &App, id: &HeaderValue, caller: Identity) -> Option<Arc<HttpSession>> {
    id.to_str()
        .ok()
        .and_then(|id| app.sessions.find(id, caller))
}

pub(super) fn no_session() -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        "there is no such session; begin another with initialize",
    )
}

/// Refuses a session-era request that names a revision we do not know.
pub(super) fn check_version(headers: &HeaderMap) -> Option<Response> {
    let named = headers.get(PROTOCOL_VERSION)?;
    let known = named.to_str().ok().and_then(Revision::parse);
    if known.is_some() {
        return None;
    }
    let all = Revision::ALL.map(Revision::as_str).join(", ");
    let text = format!("the MCP-Protocol-Version header must name one of {all}");
    Some(refuse(StatusCode::BAD_REQUEST, &text))
}
