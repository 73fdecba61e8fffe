//! Server-sent events: messages as an event stream in the body of a reply.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::{Instant, timeout};

use super::{budget::SHORT, shares::StreamShare, streams::StreamReader};

/// How often a stream that has nothing to say shows that it is alive.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A line that clients ignore; it fails where nobody listens any more.
pub(super) const ALIVE: &[u8] = b":\n\n";

/// How an event stream is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Telling {
    /// Whether it begins with an event without data, so that a client can come back before there
    /// was any other.
    pub(super) primed: bool,
    /// After which time the connection ends although the stream goes on.
    pub(super) ends_after: Option<Duration>,
    /// After which time a client is to come back then.
    pub(super) retry: Duration,
}

/// One event without an id.
pub(super) fn event(message: Bytes) -> Pieces {
    pieces("event: message\ndata: ", message)
}

/// An event, or some of what comes before and after events.
pub(super) type Pieces = Vec<Bytes>;

/// One event; a message that is long is not copied.
fn pieces(head: &str, message: Bytes) -> Pieces {
    if message.len() >= SHORT {
        let head = Bytes::copy_from_slice(head.as_bytes());
        return vec![head, message, Bytes::from_static(b"\n\n")];
    }
    vec![Bytes::from([head.as_bytes(), &message, b"\n\n"].concat())]
}

/// A reply whose body is events.
pub(super) fn stream_of(events: impl Stream<Item = Pieces> + Send + 'static) -> Response {
    let pieces = events.flat_map(|pieces| stream::iter(pieces).map(Ok::<_, Infallible>));
    response(Body::from_stream(pieces))
}

/// The stream and the number in an event's id.
pub(super) fn place(id: &str) -> Option<(u64, u64)> {
    let (key, number) = id.split_once('-')?;
    Some((key.parse().ok()?, number.parse().ok()?))
}

/// A reply whose body is an event stream.
fn response(body: Body) -> Response {
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        (
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-cache, no-transform"),
        ),
        (
            header::HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    (headers, body).into_response()
}

/// Events of a stream, which has its share until they end.
pub(super) fn holding<T>(
    events: impl Stream<Item = T> + Send + 'static,
    share: StreamShare,
) -> impl Stream<Item = T> + Send + 'static {
    events.map(move |event| {
        let _held = &share;
        event
    })
}

/// What is left of a stream, as an event stream.
pub(super) fn tell(reader: StreamReader, telling: Telling) -> Response {
    stream_of(events(reader, telling))
}

/// What is left of a stream, as text.
pub(super) fn events(reader: StreamReader, telling: Telling) -> impl Stream<Item = Pieces> {
    struct State {
        reader: StreamReader,
        first: Option<Bytes>,
        ends: Option<Instant>,
        retry: Duration,
        is_over: bool,
    }
    let retry = format!("retry: {}\n", telling.retry.as_millis());
    let prime = format!("id: {}-{}\n{retry}data: \n\n", reader.key(), reader.place());
    let state = State {
        first: telling.primed.then(|| Bytes::from(prime)),
        ends: telling.ends_after.map(|after| Instant::now() + after),
        retry: telling.retry,
        is_over: false,
        reader,
    };
    stream::unfold(state, |mut state| async move {
        if let Some(first) = state.first.take() {
            return Some((vec![first], state));
        }
        if state.is_over {
            return None;
        }
        let now = Instant::now();
        let left = state.ends.map(|ends| ends.saturating_duration_since(now));
        if left.is_some_and(|left| left.is_zero()) {
            state.is_over = true;
            let retry = format!("retry: {}\n\n", state.retry.as_millis());
            return Some((vec![Bytes::from(retry)], state));
        }
        let pause = left.map_or(KEEP_ALIVE, |left| left.min(KEEP_ALIVE));
        match timeout(pause, state.reader.wait()).await {
            Ok(Some((number, message))) => {
                let head = format!(
                    "id: {}-{number}\nevent: message\ndata: ",
                    state.reader.key()
                );
                Some((pieces(&head, message), state))
            }
            Ok(None) => None,
            Err(_) => Some((vec![Bytes::from_static(ALIVE)], state)),
        }
    })
}
