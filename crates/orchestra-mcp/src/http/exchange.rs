//! `/mcp` of Streamable HTTP: which kind of message came, and how it is answered where it belongs
//! to no session.

mod listen;
mod session;

use std::{borrow::Cow, sync::Arc};

use axum::{
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use orchestra_wire::{
    ErrorCode, Inbound, Malformed, Message, MetaFields, Method, RequestId, RequestRef, Revision,
    Rope, RpcError, text_of, write,
};
use tokio::time::timeout;

use super::{
    App, Eras, Identity, batch, caller,
    headers::{self, PROTOCOL_VERSION, SESSION},
    refuse,
    sessions::HttpSession,
    shares::StreamShare,
    sse::{self, ALIVE, KEEP_ALIVE, Pieces},
    streams::StreamReader,
    too_many_streams,
};
use crate::{
    connection::{Lifetime, Received},
    post::Answering,
    stream::Listening,
};
use listen::{listen, tell};
use session::{answer, check_version, find, initialize, no_session, open, take, take_batch};
pub(super) use session::{delete, get};

/// What kinds of answers a client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Accepts {
    json: bool,
    /// A stream as the answer to a message.
    stream: bool,
    /// A stream where nothing else can be sent.
    only_stream: bool,
}

/// The most specific kind of media range that names a media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Range {
    Exact,
    Group,
    Any,
}

impl Accepts {
    fn of(headers: &HeaderMap) -> Self {
        let mut ranges = Vec::new();
        for value in headers.get_all(header::ACCEPT) {
            let text = value.to_str().unwrap_or_default().to_ascii_lowercase();
            for range in text.split(',').filter(|range| !range.trim().is_empty()) {
                let mut parts = range.split(';').map(str::trim);
                let essence = parts.next().unwrap_or_default();
                let quality = parts.find_map(|part| part.strip_prefix("q="));
                let quality = quality.and_then(|quality| quality.trim().parse::<f32>().ok());
                ranges.push((essence.to_owned(), quality != Some(0.0)));
            }
        }
        // A request without the header takes anything.
        if ranges.is_empty() {
            ranges.push(("*/*".to_owned(), true));
        }
        let json = Range::of(&ranges, ["application/json", "application/*"]).is_some();
        let stream = Range::of(&ranges, ["text/event-stream", "text/*"]);
        Self {
            json,
            // A client that takes anything does not expect a stream.
            stream: stream.is_some_and(|range| range != Range::Any || !json),
            only_stream: stream.is_some(),
        }
    }
}

impl Range {
    /// Returns the range that decides about a media type, if the type is accepted. The most specific range
    /// takes precedence (RFC 9110, section 12.5.1).
    fn of(ranges: &[(String, bool)], [exact, group]: [&str; 2]) -> Option<Self> {
        let kinds = [
            (exact, Self::Exact),
            (group, Self::Group),
            ("*/*", Self::Any),
        ];
        for (name, kind) in kinds {
            let mut named = ranges.iter().filter(|(range, _)| range == name).peekable();
            if named.peek().is_some() {
                return named.any(|(_, is_wanted)| *is_wanted).then_some(kind);
            }
        }
        None
    }
}

/// What a message is, as far as it decides who answers it.
enum Kind<'m> {
    /// A request that names its revision.
    Stateless {
        id: &'m RequestId,
        version: Cow<'m, str>,
        checked: Result<(), RpcError>,
        listens: bool,
    },
    /// `initialize`.
    Initialize(&'m RequestId),
    /// Another request.
    Request(&'m RequestId),
    /// Nothing that is answered.
    Other,
    Batch,
    Malformed(&'m Malformed),
}

/// How far the answer is once a message was taken.
enum Taken {
    Answered(Response),
    /// A call that stands for itself goes on.
    Alone(Box<Answering>),
    /// A call of a session.
    OfSession(Arc<HttpSession>, StreamReader),
    /// A stream of notices begins, or is refused.
    Listens(Listening, StreamShare),
}

impl From<Response> for Taken {
    fn from(response: Response) -> Self {
        Self::Answered(response)
    }
}

/// `POST /mcp`.
pub(super) async fn post(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    app.sessions.relieve();
    let accepts = Accepts::of(&head.headers);
    if !accepts.json && !accepts.stream {
        let text = "the Accept header must list application/json and text/event-stream";
        return refuse(StatusCode::NOT_ACCEPTABLE, text);
    }
    let (body, _room) = match app.read(&head.headers, body).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    let taken = receive(&app, &head, &body, accepts);
    drop((head, body));
    match taken {
        Taken::Answered(response) => response,
        Taken::Alone(answering) => go_on(*answering, accepts).await,
        Taken::OfSession(session, reader) => answer(&app, &session, reader, accepts).await,
        Taken::Listens(listening, share) => tell(&app, listening, share).await,
    }
}

/// Takes a message, up to the point where its answer has to be waited for.
fn receive(app: &App, head: &Parts, body: &Bytes, accepts: Accepts) -> Taken {
    let (caller, headers) = (caller(head), &head.headers);
    let received = Received::of(body);
    let kind = kind(app, headers, &received.inbound);
    match kind {
        Kind::Malformed(malformed) => rpc_error(malformed.id.as_ref(), &malformed.error).into(),
        Kind::Stateless {
            id,
            version,
            checked,
            listens,
        } => match checked_for(app.options.eras, &version, checked) {
            Err(error) => rpc_error(Some(id), &error).into(),
            Ok(()) if listens => match app.shares.take(caller, headers) {
                Ok(share) => Taken::Listens(listen(app, caller, body), share),
                Err(error) => too_many_streams(error).into(),
            },
            Ok(()) => alone(app, caller, &received, accepts),
        },
        Kind::Other if is_stateless(headers) && app.options.eras.contains(Eras::Stateless) => {
            alone(app, caller, &received, accepts)
        }
        Kind::Batch if is_stateless(headers) => {
            rpc_error(None, &RpcError::invalid_request(LONE_BATCH)).into()
        }
        _ if !app.options.eras.contains(Eras::Session) => {
            let version = headers.get(PROTOCOL_VERSION);
            let version = version
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default();
            let id = match kind {
                Kind::Initialize(id) | Kind::Request(id) => Some(id),
                _ => None,
            };
            rpc_error(id, &super::unsupported(version, app.options.eras)).into()
        }
        Kind::Initialize(_) => initialize(app, caller, &received).into(),
        kind => {
            if let Some(refused) = check_version(headers, app.options.eras) {
                return refused.into();
            }
            let Some(session) = headers.get(SESSION) else {
                if matches!(kind, Kind::Batch) {
                    return rpc_error(None, &RpcError::invalid_request(LONE_BATCH)).into();
                }
                return alone(app, caller, &received, accepts);
            };
            let Some(session) = find(app, session, caller) else {
                return no_session().into();
            };
            match kind {
                Kind::Request(id) => open(session, std::slice::from_ref(id), &received),
                Kind::Batch
                    if session
                        .revision()
                        .is_some_and(|revision| !revision.batches()) =>
                {
                    rpc_error(None, &RpcError::invalid_request(NO_BATCHES)).into()
                }
                Kind::Batch => match asked_by(&session, &received.inbound) {
                    ids if ids.is_empty() => take_batch(&session, &received).into(),
                    ids => open(session, &ids, &received),
                },
                _ => take(&session, &received).into(),
            }
        }
    }
}

/// What is wrong with a request that names its revision, first of all that this is not served.
fn checked_for(eras: Eras, version: &str, checked: Result<(), RpcError>) -> Result<(), RpcError> {
    let is_unserved = !eras.contains(Eras::Stateless) && Revision::parse(version).is_some();
    match checked {
        Err(error) if error.code != ErrorCode::UNSUPPORTED_REVISION && !is_unserved => Err(error),
        Ok(()) if !is_unserved => Ok(()),
        _ => Err(super::unsupported(version, eras)),
    }
}

const LONE_BATCH: &str = "invalid request: a batch needs a session of revision 2025-03-26, which \
                          initialize begins; send each message for itself";

/// One answer for a whole batch, because a request over HTTP has one.
const NO_BATCHES: &str = "invalid request: batches are not part of this revision; send the messages \
                          one by one";

/// The requests in a batch of a session whose revision has batches.
fn asked_by(session: &HttpSession, inbound: &Result<Inbound<'_>, Malformed>) -> Vec<RequestId> {
    match (session.revision(), inbound) {
        (Some(revision), Ok(Inbound::Batch(items))) if revision.batches() => batch::requests(items),
        _ => Vec::new(),
    }
}

fn kind<'m>(
    app: &App,
    headers: &HeaderMap,
    inbound: &'m Result<Inbound<'_>, Malformed>,
) -> Kind<'m> {
    let message = match inbound {
        Ok(Inbound::One(message)) => message,
        Ok(Inbound::Batch(_) | Inbound::BatchTooLong) => return Kind::Batch,
        Err(malformed) => return Kind::Malformed(malformed),
    };
    let Message::Request(request) = message else {
        return Kind::Other;
    };
    let id = &request.id;
    match version(app, request) {
        Some((version, meta)) => Kind::Stateless {
            checked: headers::check(headers, request, &version, meta, app.post.attachment()),
            listens: request.method == Method::SubscriptionsListen.name(),
            version,
            id,
        },
        None if is_stateless(headers) => Kind::Stateless {
            checked: Err(RpcError::invalid_params(
                "_meta lacks io.modelcontextprotocol/protocolVersion, which the headers name",
            )),
            version: Cow::default(),
            listens: false,
            id,
        },
        None if request.method == Method::Initialize.name() => Kind::Initialize(id),
        None => Kind::Request(id),
    }
}

/// The revision that a request's `_meta` names, and whether all of it is understood.
fn version<'m>(
    app: &App,
    request: &RequestRef<'m>,
) -> Option<(Cow<'m, str>, Result<(), RpcError>)> {
    let meta = request.params.fields().ok()?.meta?;
    match app.post.meta(meta) {
        Ok(understood) => {
            let revision = understood.stateless?.revision;
            Some((Cow::Borrowed(revision.as_str()), Ok(())))
        }
        Err(error) => {
            let meta = MetaFields::find(Some(meta), "_meta").ok()?;
            let version = meta.protocol_version?;
            Some((text_of(version).unwrap_or_default(), Err(error)))
        }
    }
}

/// Whether a message is a request that names its revision.
pub(super) fn names_revision(app: &App, inbound: &Result<Inbound<'_>, Malformed>) -> bool {
    match inbound {
        Ok(Inbound::One(Message::Request(request))) => version(app, request).is_some(),
        _ => false,
    }
}

/// Refuses a plain request of an era that is not served.
pub(super) fn refused_era(app: &App, inbound: &Result<Inbound<'_>, Malformed>) -> Option<Response> {
    let eras = app.options.eras;
    let Ok(Inbound::One(Message::Request(request))) = inbound else {
        return None;
    };
    if eras == Eras::Both {
        return None;
    }
    let version = version(app, request);
    let (of, version) = match &version {
        None => (Eras::Session, ""),
        Some((version, _)) => (Eras::Stateless, &**version),
    };
    // What is no text is refused by the call itself.
    let is_known = version.is_empty() || Revision::parse(version).is_some();
    if eras.contains(of) && is_known {
        return None;
    }
    let mut out = Rope::new();
    let error = super::unsupported(version, eras);
    write::error(&mut out, Some(&request.id), &error);
    Some(json(Bytes::from(out.into_vec())))
}

fn is_stateless(headers: &HeaderMap) -> bool {
    let version = headers.get(PROTOCOL_VERSION);
    let version = version.and_then(|value| value.to_str().ok());
    version
        .and_then(Revision::parse)
        .is_some_and(|revision| revision.era() == orchestra_wire::Era::Stateless)
}

/// Takes a message that stands for itself: a stateless request, or one outside of any session.
/// Whoever goes away cancels it, whatever the revision: its answer could not be had any more.
fn alone(app: &App, caller: Identity, received: &Received<'_>, accepts: Accepts) -> Taken {
    let mut answering = Answering::begin(&app.post, caller, received, Lifetime::Posted);
    match answering.at_once() {
        Some(answer) => last(answer, accepts).into(),
        None => Taken::Alone(Box::new(answering)),
    }
}

/// Answers a message that stands for itself, once there is something to say.
async fn go_on(mut answering: Answering, accepts: Accepts) -> Response {
    let mut message = answering.next().await;
    while !accepts.stream && message.is_some() && !answering.is_over() {
        message = answering.next().await;
    }
    match message {
        Some(message) if !answering.is_over() => {
            sse::stream_of(rest(sse::event(message), answering))
        }
        answer => last(answer, accepts),
    }
}

/// An answer before which nothing was said.
fn last(answer: Option<Bytes>, accepts: Accepts) -> Response {
    match answer {
        // An error whose kind has a status of its own is told by that, whatever is preferred.
        Some(answer) if accepts.json || status_of(&answer) != StatusCode::OK => {
            stateless_json(answer)
        }
        Some(answer) => sse::stream_of(stream::iter([sse::event(answer)])),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// The rest of an answer as events. Dropping it cancels the call (MCP 2026-07-28, cancellation).
fn rest(first: Pieces, answering: Answering) -> impl futures_util::Stream<Item = Pieces> {
    let state = (Some(first), answering);
    stream::unfold(state, |(mut first, mut answering)| async move {
        let event = match first.take() {
            Some(first) => first,
            None => match timeout(KEEP_ALIVE, answering.next()).await {
                Ok(message) => sse::event(message?),
                Err(_) => vec![Bytes::from_static(ALIVE)],
            },
        };
        Some((event, (None, answering)))
    })
}

/// A reply in JSON.
fn json(message: Bytes) -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], message).into_response()
}

/// A stateless reply in JSON.
fn stateless_json(message: Bytes) -> Response {
    let status = status_of(&message);
    let mut response = json(message);
    *response.status_mut() = status;
    response
}

/// The status of a stateless reply: that of its error, if that is one of the protocol.
fn status_of(message: &[u8]) -> StatusCode {
    match write::answered(message).and_then(|(_, code)| code) {
        Some(ErrorCode::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(
            ErrorCode::HEADER_MISMATCH
            | ErrorCode::MISSING_CLIENT_CAPABILITY
            | ErrorCode::UNSUPPORTED_REVISION
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::PARSE_ERROR,
        ) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn rpc_error(id: Option<&RequestId>, error: &RpcError) -> Response {
    let mut out = Rope::new();
    write::error(&mut out, id, error);
    let mut response = json(Bytes::from(out.into_vec()));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}
