//! The two routes of revision 2024-11-05: `GET /sse` opens a stream of events, whose first names
//! where messages are posted to; every answer comes on the stream.

use std::sync::Arc;

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{OriginalUri, RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use futures_util::{StreamExt as _, stream};
use orchestra_wire::parse_value;

use super::{
    App, Eras, Identity, MESSAGES_PATH, SSE_PATH, exchange, refuse,
    sessions::{SessionId, Sessions},
    sse::{self, Telling},
};
use crate::connection::Received;

/// Ends the session with its stream, for it has no other.
struct EndWithStream {
    sessions: Arc<Sessions>,
    id: SessionId,
}

impl Drop for EndWithStream {
    fn drop(&mut self) {
        self.sessions.end(self.id);
    }
}

/// `GET /sse`.
pub(super) async fn open(
    State(app): State<Arc<App>>,
    OriginalUri(uri): OriginalUri,
    caller: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Response {
    if !app.options.eras.contains(Eras::Session) {
        return refuse(StatusCode::NOT_FOUND, "there is nothing here");
    }
    let caller = super::identity(caller);
    let share = match app.shares.take(caller, &headers) {
        Ok(share) => share,
        Err(error) => return super::too_many_streams(error),
    };
    let Some(session) = app.sessions.begin(caller) else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "no session can be begun");
    };
    session.streams.join();
    let id = session.id;
    let reader = session.streams.listen();
    if !app.sessions.keep(session) {
        let text = "busy: too many sessions are open; end one or come back later";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    let ends = EndWithStream {
        sessions: Arc::clone(&app.sessions),
        id,
    };
    let Ok(reader) = reader else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the stream cannot be read");
    };
    // Wherever the routes are nested, messages are posted to the neighbour of this one.
    let path = uri.path().trim_end_matches('/');
    let above = path.strip_suffix(SSE_PATH).unwrap_or_default();
    let first = format!(
        "event: endpoint\ndata: {above}{MESSAGES_PATH}?sessionId={}\n\n",
        ends.id
    );
    let telling = Telling {
        primed: false,
        ends_after: None,
        retry: app.options.retry,
    };
    let rest = sse::holding(sse::events(reader, telling), share).map(move |event| {
        let _lives = &ends;
        event
    });
    let first = stream::iter([vec![Bytes::from(first)]]);
    sse::stream_of(first.chain(rest))
}

/// `POST /messages?sessionId=…`.
pub(super) async fn message(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Identity>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let query = query.unwrap_or_default();
    let id = query
        .split('&')
        .find_map(|part| part.strip_prefix("sessionId="));
    let Some(id) = id else {
        let text = "the query must name the session: ?sessionId=…";
        return refuse(StatusCode::BAD_REQUEST, text);
    };
    let id = SessionId::parse(id);
    let session = id.and_then(|id| app.sessions.find(id, super::identity(caller)));
    // Answers to one that /mcp has begun would find no stream.
    let session = session.filter(|session| session.streams.is_joined());
    let Some(session) = session else {
        return refuse(
            StatusCode::NOT_FOUND,
            "there is no such session; open /sse again",
        );
    };
    app.sessions.relieve();
    if session.streams.is_full() {
        let text = "busy: too many answers wait on the stream; read them first";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    let (body, _room) = match app.read(&headers, body).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    if let Err(error) = parse_value(&body) {
        return refuse(StatusCode::BAD_REQUEST, &error.message);
    }
    let received = Received::of(&body);
    if exchange::names_revision(&app, &received.inbound) {
        let text = "a request that names its revision in _meta is posted to /mcp";
        return refuse(StatusCode::BAD_REQUEST, text);
    }
    let out = session.take(&received);
    crate::session::Outbox::send(&*session.streams, out);
    StatusCode::ACCEPTED.into_response()
}
