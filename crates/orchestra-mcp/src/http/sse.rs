//! Server-sent events: messages as an event stream in the body of a reply.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use futures_util::{Stream, stream};
use tokio::time::{Instant, timeout};

use super::streams::StreamReader;

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
pub(super) fn event(message: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(message.len() + 32);
    text.extend_from_slice(b"event: message\ndata: ");
    text.extend_from_slice(message);
    text.extend_from_slice(b"\n\n");
    Bytes::from(text)
}

fn numbered(key: u64, number: u64, message: &[u8]) -> Bytes {
    let mut text = format!("id: {key}-{number}\n").into_bytes();
    text.extend_from_slice(&event(message));
    Bytes::from(text)
}

/// The stream and the number in an event's id.
pub(super) fn place(id: &str) -> Option<(u64, u64)> {
    let (key, number) = id.split_once('-')?;
    Some((key.parse().ok()?, number.parse().ok()?))
}

/// A reply whose body is an event stream.
pub(super) fn response(body: Body) -> Response {
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

/// What is left of a stream, as an event stream.
pub(super) fn tell(reader: StreamReader, telling: Telling) -> Response {
    response(Body::from_stream(events(reader, telling)))
}

/// What is left of a stream, as text.
pub(super) fn events(
    reader: StreamReader,
    telling: Telling,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    struct State {
        reader: StreamReader,
        first: Option<Bytes>,
        ends: Option<Instant>,
        retry: Duration,
        is_over: bool,
    }
    let retry = format!("retry: {}\n", telling.retry.as_millis());
    let prime = format!("id: {}-0\n{retry}data: \n\n", reader.key());
    let state = State {
        first: telling.primed.then(|| Bytes::from(prime)),
        ends: telling.ends_after.map(|after| Instant::now() + after),
        retry: telling.retry,
        is_over: false,
        reader,
    };
    stream::unfold(state, |mut state| async move {
        if let Some(first) = state.first.take() {
            return Some((Ok::<_, Infallible>(first), state));
        }
        if state.is_over {
            return None;
        }
        let now = Instant::now();
        let left = state.ends.map(|ends| ends.saturating_duration_since(now));
        if left.is_some_and(|left| left.is_zero()) {
            state.is_over = true;
            let retry = format!("retry: {}\n\n", state.retry.as_millis());
            return Some((Ok(Bytes::from(retry)), state));
        }
        let pause = left.map_or(KEEP_ALIVE, |left| left.min(KEEP_ALIVE));
        match timeout(pause, state.reader.wait()).await {
            Ok(Some((number, message))) => {
                let event = numbered(state.reader.key(), number, &message);
                Some((Ok(event), state))
            }
            Ok(None) => None,
            Err(_) => Some((Ok(Bytes::from_static(ALIVE)), state)),
        }
    })
}
