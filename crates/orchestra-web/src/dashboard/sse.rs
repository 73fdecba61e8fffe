//! Streams of server-sent events (HTML, section 9.2).

use std::{convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use futures_util::{Stream, StreamExt as _, stream};
use orchestra_mcp::http::StreamShare;
use tokio::{sync::watch, time::timeout};

use super::Telling;

/// How often a stream that has nothing to say shows that it is alive.
pub(super) const ALIVE: Duration = Duration::from_secs(15);

/// What shows it: a comment.
pub(super) const SIGN_OF_LIFE: Bytes = Bytes::from_static(b":\n\n");

/// Frames as they are sent, for as long as which the stream has its share.
pub(super) fn response(
    frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
    share: StreamShare,
) -> Response {
    let frames = frames.map(move |frame| {
        let _held = &share;
        frame
    });
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
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

/// An event in its form. A line break in what is told would end it.
pub(super) fn frame(kind: &str, data: &str) -> Bytes {
    let data = data.replace(['\r', '\n'], " ");
    format!("event: {kind}\ndata: {data}\n\n").into()
}

/// Sends what is told, until that ends, the program stops or the client leaves.
pub(super) fn telling(
    telling: Telling,
    stop: Option<watch::Receiver<bool>>,
    share: StreamShare,
) -> Response {
    // Whoever has connected is told so, though nothing may happen for a while.
    let first = stream::once(async { Ok(SIGN_OF_LIFE) });
    let rest = stream::unfold((telling, stop), async |(mut telling, mut stop)| {
        let next = tokio::select! {
            next = timeout(ALIVE, telling.next()) => next,
            () = stopped(&mut stop) => return None,
        };
        let frame = match next {
            Err(_) => SIGN_OF_LIFE,
            Ok(Some((kind, data))) => frame(kind, &data),
            Ok(None) => return None,
        };
        Some((Ok(frame), (telling, stop)))
    });
    response(first.chain(rest), share)
}

/// Comes when the program is told to stop.
pub(super) async fn stopped(stop: &mut Option<watch::Receiver<bool>>) {
    let told = match stop {
        Some(stop) => stop.wait_for(|stop| *stop).await.is_ok(),
        None => false,
    };
    if !told {
        std::future::pending().await
    }
}
