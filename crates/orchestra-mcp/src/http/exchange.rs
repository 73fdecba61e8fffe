//! `/mcp` of Streamable HTTP: which kind of message came, and how it is answered where it belongs
//! to no session.

mod listen;
mod session;

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use orchestra_wire::{
    ErrorCode, Inbound, Line, Malformed, Message, MetaFields, Method, RequestId, RequestRef,
    Revision, Rope, RpcError, parse, text_of, write,
};
use tokio::time::timeout;

use super::{
    App, Eras, Identity,
    budget::Budget,
    headers::{self, PROTOCOL_VERSION, SESSION},
    refuse,
    sse::{self, ALIVE, KEEP_ALIVE, Pieces},
};
use crate::post::Answering;
use listen::listen;
use session::{check_version, find, initialize, no_session, request, take};
pub(super) use session::{delete, get};

/// What kinds of answers a client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Accepts {
    json: bool,
    stream: bool,
}

impl Accepts {
    fn of(headers: &HeaderMap) -> Self {
        let mut accepts = Self {
            json: false,
            stream: false,
        };
        let mut any = false;
        for value in headers.get_all(header::ACCEPT) {
            let text = value.to_str().unwrap_or_default();
            for range in text.split(',') {
                any = true;
                match range.split(';').next().unwrap_or_default().trim() {
                    "application/json" | "application/*" => accepts.json = true,
                    "text/event-stream" | "text/*" => accepts.stream = true,
                    // Who takes anything does not expect a stream.
                    "*/*" => accepts.json = true,
                    _ => {}
                }
            }
        }
        accepts.json |= !any;
        accepts
    }
}

/// What a message is, as far as it decides who answers it.
enum Kind<'m> {
    /// A request that names its revision.
    Stateless {
        id: RequestId,
        version: String,
        checked: Result<(), RpcError>,
        listens: bool,
    },
    /// `initialize`.
    Initialize(RequestId),
    /// Another request.
    Request(RequestId),
    /// Nothing that is answered.
    Other,
    Batch,
    Malformed(&'m Malformed),
}

/// `POST /mcp`.
pub(super) async fn post(
    State(app): State<App>,
    caller: Option<Extension<Identity>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let caller = super::identity(caller);
    app.sessions.relieve();
    let accepts = Accepts::of(&headers);
    if !accepts.json && !accepts.stream {
        let text = "the Accept header must list application/json and text/event-stream";
        return refuse(StatusCode::NOT_ACCEPTABLE, text);
    }
    let (body, _room) = match app.read(&headers, body).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    let parsed = parse(&body);
    let kind = kind(&app, &headers, &parsed);
    match kind {
        Kind::Malformed(malformed) => rpc_error(malformed.id.as_ref(), &malformed.error),
        Kind::Stateless {
            id,
            version,
            checked,
            listens,
        } => {
            if !app.options.eras.contains(Eras::Stateless) && Revision::parse(&version).is_some() {
                return rpc_error(Some(&id), &super::unsupported(&version, app.options.eras));
            }
            if let Err(error) = checked {
                return rpc_error(Some(&id), &error);
            }
            if listens {
                return listen(&app, caller, &body);
            }
            drop(parsed);
            stateless(&app, caller, body, accepts).await
        }
        _ if !app.options.eras.contains(Eras::Session) => {
            let version = headers.get(PROTOCOL_VERSION);
            let version = version
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default();
            let id = match &kind {
                Kind::Initialize(id) | Kind::Request(id) => Some(id),
                _ => None,
            };
            rpc_error(id, &super::unsupported(version, app.options.eras))
        }
        Kind::Initialize(_) => initialize(&app, caller, &body),
        kind => {
            if let Some(refused) = check_version(&headers) {
                return refused;
            }
            let Some(session) = headers.get(SESSION) else {
                drop(parsed);
                return stateless(&app, caller, body, accepts).await;
            };
            let Some(session) = find(&app, session, caller) else {
                return no_session();
            };
            match kind {
                Kind::Request(id) => {
                    drop(parsed);
                    request(&app, session, &id, body, accepts).await
                }
                _ => take(&session, &body),
            }
        }
    }
}

fn kind<'m>(
    app: &App,
    headers: &HeaderMap,
    parsed: &'m Result<Inbound<'_>, Malformed>,
) -> Kind<'m> {
    let message = match parsed {
        Ok(Inbound::One(message)) => message,
        Ok(Inbound::Batch(_) | Inbound::BatchTooLong) => return Kind::Batch,
        Err(malformed) => return Kind::Malformed(malformed),
    };
    let Message::Request(request) = message else {
        return Kind::Other;
    };
    let id = request.id.clone();
    match version(request) {
        Some(version) => Kind::Stateless {
            checked: headers::check(headers, request, &version, app.post.attachment()),
            listens: request.method == Method::SubscriptionsListen.name(),
            version,
            id,
        },
        None if is_stateless(headers) => Kind::Stateless {
            checked: Err(RpcError::invalid_params(
                "_meta lacks io.modelcontextprotocol/protocolVersion, which the headers name",
            )),
            version: String::new(),
            listens: false,
            id,
        },
        None if request.method == Method::Initialize.name() => Kind::Initialize(id),
        None => Kind::Request(id),
    }
}

/// The revision that a request's `_meta` names.
fn version(request: &RequestRef<'_>) -> Option<String> {
    let meta = request.params.fields().ok()?.meta?;
    let meta = MetaFields::find(Some(meta), "_meta").ok()?;
    meta.protocol_version
        .map(|version| text_of(version).map(Into::into).unwrap_or_default())
}

fn is_stateless(headers: &HeaderMap) -> bool {
    let version = headers.get(PROTOCOL_VERSION);
    let version = version.and_then(|value| value.to_str().ok());
    version
        .and_then(Revision::parse)
        .is_some_and(|revision| revision.era() == orchestra_wire::Era::Stateless)
}

/// One message that stands for itself: a stateless request, or one outside of any session.
async fn stateless(app: &App, caller: Identity, body: Bytes, accepts: Accepts) -> Response {
    let mut answering = Answering::begin(&app.post, caller, &Line::Shared(body));
    let mut message = answering.next().await;
    while !accepts.stream && message.is_some() && !answering.is_over() {
        message = answering.next().await;
    }
    match message {
        Some(message) if !answering.is_over() => {
            sse::stream_of(rest(sse::event(message), answering, app.budget.clone()))
        }
        Some(message) if accepts.json => stateless_json(app.budget.hold(message)),
        Some(message) => {
            let event = sse::event(app.budget.hold(message));
            sse::stream_of(stream::iter([event]))
        }
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// The rest of an answer as events. Dropping it cancels the call (MCP 2026-07-28, cancellation).
fn rest(
    first: Pieces,
    answering: Answering,
    budget: Budget,
) -> impl futures_util::Stream<Item = Pieces> {
    let state = (Some(first), answering, budget);
    stream::unfold(state, |(mut first, mut answering, budget)| async move {
        let event = match first.take() {
            Some(first) => first,
            None => match timeout(KEEP_ALIVE, answering.next()).await {
                Ok(message) => sse::event(budget.hold(message?)),
                Err(_) => vec![Bytes::from_static(ALIVE)],
            },
        };
        Some((event, (None, answering, budget)))
    })
}

/// A reply in JSON.
fn json(message: Bytes) -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], message).into_response()
}

/// A stateless reply in JSON. The status of an error of the protocol is that of its kind.
fn stateless_json(message: Bytes) -> Response {
    let code = write::answered(&message).and_then(|(_, code)| code);
    let status = match code {
        Some(ErrorCode::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(
            ErrorCode::HEADER_MISMATCH
            | ErrorCode::MISSING_CLIENT_CAPABILITY
            | ErrorCode::UNSUPPORTED_REVISION
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::PARSE_ERROR,
        ) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let mut response = json(message);
    *response.status_mut() = status;
    response
}

fn rpc_error(id: Option<&RequestId>, error: &RpcError) -> Response {
    let mut out = Rope::new();
    write::error(&mut out, id, error);
    let mut response = json(Bytes::from(out.into_vec()));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}
