//! Messages of a session, and its own stream: how they are answered on `/mcp`.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use orchestra_wire::{RequestId, Revision, Rope, RpcError};
use tokio::time::timeout;

use super::{Accepts, Taken, json, rpc_error};
use crate::{
    connection::Received,
    http::{
        App, Eras, Identity, batch,
        headers::{LAST_EVENT, PROTOCOL_VERSION, SESSION},
        identity, not_allowed, refuse,
        sessions::{HttpSession, SessionId},
        sse::{self, Telling},
        streams::{Beginning, OWN, StreamReader, Unopened, Unreadable},
        too_many_streams,
    },
    post::line,
    session::Outbox as _,
};

/// How long an answer may take before the client is told that there will be one, on a stream.
const PATIENCE: Duration = Duration::from_secs(1);

/// A new session.
pub(super) fn initialize(app: &App, caller: Identity, received: &Received<'_>) -> Response {
    let Some(session) = app.sessions.begin(caller) else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "no session can be begun");
    };
    let reply = app.budget.hold(line(session.take(received)));
    if session.revision().is_none() {
        return json(reply);
    }
    let secret = HeaderValue::from_str(&session.id.to_string()).expect("hexadecimal digits");
    if !app.sessions.keep(session) {
        let text = "busy: too many sessions are open; end one or come back later";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    let mut response = json(reply);
    response.headers_mut().insert(SESSION, secret);
    response
}

/// Takes the requests of one message of a session, and opens the stream of what is said in answer to it.
pub(super) fn open(session: Arc<HttpSession>, ids: &[RequestId], received: &Received<'_>) -> Taken {
    match session.streams.open(ids) {
        Ok(reader) => {
            let out = session.take(received);
            session.streams.send(out);
            Taken::OfSession(session, reader)
        }
        Err(Unopened::Closed) => no_session().into(),
        Err(Unopened::Taken) => {
            let text = "invalid request: a request with this id is still open";
            let id = ids.first().filter(|_| ids.len() == 1);
            rpc_error(id, &RpcError::invalid_request(text)).into()
        }
    }
}

/// Answers with what comes on a stream: in JSON where that is the answer alone and comes soon.
pub(super) async fn answer(
    app: &App,
    session: &HttpSession,
    mut reader: StreamReader,
    accepts: Accepts,
) -> Response {
    if !accepts.stream {
        return last_of(reader).await;
    }
    match timeout(PATIENCE, reader.begins()).await {
        Ok(Beginning::Whole(message)) if accepts.json => {
            reader.forget();
            json(message)
        }
        Ok(Beginning::Nothing) => unanswered(&reader),
        Ok(Beginning::Whole(_) | Beginning::Part) | Err(_) => {
            sse::tell(reader, telling(app, session))
        }
    }
}

/// How a stream of a call is told.
fn telling(app: &App, session: &HttpSession) -> Telling {
    let revision = session.revision();
    let primed = revision.is_some_and(|revision| revision >= Revision::V2025_11_25);
    Telling {
        primed,
        // Only who has an event to come back with is sent away.
        ends_after: app.options.poll_after.filter(|_| primed),
        retry: app.options.retry,
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
    unanswered(&reader)
}

/// The end of a stream without an answer: its request was cancelled, or its session is over.
fn unanswered(reader: &StreamReader) -> Response {
    match reader.is_closed() {
        true => no_session(),
        false => StatusCode::ACCEPTED.into_response(),
    }
}

/// A message of a session that asks for nothing: a notice, or an answer to a question of ours.
pub(super) fn take(session: &HttpSession, received: &Received<'_>) -> Response {
    session.streams.send(session.take(received));
    StatusCode::ACCEPTED.into_response()
}

/// A batch of a session that asks for nothing (notices and answers to us), or is refused.
pub(super) fn take_batch(session: &HttpSession, received: &Received<'_>) -> Response {
    let out = Bytes::from(session.take(received).into_vec());
    let (mut refused, mut others) = (None, Rope::new());
    for message in batch::lines(&out) {
        // Answers to others than this batch go their own ways, a refusal is answered here.
        let is_ours = match message.starts_with(b"[") {
            true => batch::answered(&message).is_empty(),
            false => message.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":null"),
        };
        if is_ours {
            refused = Some(message);
        } else {
            others.push(&message);
            others.push_byte(b'\n');
        }
    }
    session.streams.send(others);
    let Some(refused) = refused else {
        return StatusCode::ACCEPTED.into_response();
    };
    let mut response = json(refused);
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

/// `GET /mcp`: the session's own stream, or what is left of one that broke.
pub(in crate::http) async fn get(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Response {
    let caller = identity(caller);
    let session = match of_session(&app, caller, &headers) {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    if !Accepts::of(&headers).only_stream {
        let text = "the Accept header must allow text/event-stream";
        return refuse(StatusCode::NOT_ACCEPTABLE, text);
    }
    let share = match app.shares.take(caller, &headers) {
        Ok(share) => share,
        Err(error) => return too_many_streams(error),
    };
    let (reader, is_back) = match headers.get(LAST_EVENT) {
        None => (session.streams.listen(), false),
        Some(last) => match last.to_str().ok().and_then(sse::place) {
            Some((key, after)) => (session.streams.resume(key, after), true),
            None => (Err(Unreadable::Unknown), true),
        },
    };
    let reader = match reader {
        Ok(reader) => reader,
        Err(Unreadable::Closed) => return no_session(),
        // Not 404, which would say that the session is gone.
        Err(Unreadable::Unknown) => {
            let text = "there is no such event any more; call again, or leave Last-Event-ID out \
                        for the session's own stream";
            return refuse(StatusCode::BAD_REQUEST, text);
        }
    };
    let telling = telling(&app, &session);
    let telling = Telling {
        primed: telling.primed && !is_back,
        ends_after: telling.ends_after.filter(|_| reader.key() != OWN),
        ..telling
    };
    sse::stream_of(sse::holding(sse::events(reader, telling), share))
}

/// `DELETE /mcp`: ends a session.
pub(in crate::http) async fn delete(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Response {
    match of_session(&app, identity(caller), &headers) {
        Ok(session) => {
            app.sessions.end(session.id);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(refused) => *refused,
    }
}

/// The session that a GET or DELETE names.
fn of_session(
    app: &App,
    caller: Identity,
    headers: &HeaderMap,
) -> Result<Arc<HttpSession>, Box<Response>> {
    let eras = app.options.eras;
    if !eras.contains(Eras::Session) || super::is_stateless(headers) {
        return Err(not_allowed(Eras::Stateless).into());
    }
    let Some(session) = headers.get(SESSION) else {
        let text = "the Mcp-Session-Id header is missing; begin a session with initialize";
        return Err(refuse(StatusCode::BAD_REQUEST, text).into());
    };
    if let Some(refused) = check_version(headers, eras) {
        return Err(refused.into());
    }
    find(app, session, caller).ok_or_else(|| no_session().into())
}

/// The caller's session.
pub(super) fn find(app: &App, id: &HeaderValue, caller: Identity) -> Option<Arc<HttpSession>> {
    let id = id.to_str().ok().and_then(SessionId::parse)?;
    app.sessions.find(id, caller)
}

pub(super) fn no_session() -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        "there is no such session; begin another with initialize",
    )
}

/// Refuses a session-era request that names a revision that is not served.
pub(super) fn check_version(headers: &HeaderMap, eras: Eras) -> Option<Response> {
    let named = headers.get(PROTOCOL_VERSION)?.to_str().unwrap_or_default();
    if eras.revisions().any(|served| served == named) {
        return None;
    }
    let all: Vec<&str> = eras.revisions().collect();
    let all = all.join(", ");
    let text = format!("the MCP-Protocol-Version header must name one of {all}");
    Some(refuse(StatusCode::BAD_REQUEST, &text))
}
