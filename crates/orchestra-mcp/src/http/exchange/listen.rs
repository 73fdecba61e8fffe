//! `subscriptions/listen` over HTTP: a stream of notices.

use axum::{body::Bytes, response::Response};
use futures_util::stream;
use tokio::{select, time::timeout};

use super::stateless_json;
use crate::{
    http::{
        App, Endless, Identity,
        shares::StreamShare,
        sse::{self, ALIVE, KEEP_ALIVE},
        stopped,
    },
    stream::Listening,
};

/// Takes a `subscriptions/listen`.
pub(super) fn listen(app: &App, caller: Identity, body: &Bytes) -> Listening {
    Listening::begin(&app.server, "http", caller, body.clone(), &app.budget)
}

/// Answers it: with a stream of notices, for as long as the client reads it, or with what is wrong
/// with it.
pub(super) async fn tell(app: &App, mut listening: Listening, share: StreamShare) -> Response {
    let first = listening.next().await;
    if let Some(refusal) = first.as_ref().filter(|_| listening.is_over()) {
        return stateless_json(refusal.clone());
    }
    let state = (first, listening, app.options.stop.clone());
    let events = stream::unfold(state, |(mut first, mut listening, mut stop)| async move {
        if let Some(first) = first.take() {
            return Some((sse::event(first), (None, listening, stop)));
        }
        let event = loop {
            select! {
                next = timeout(KEEP_ALIVE, listening.next()) => break match next {
                    Ok(message) => sse::event(message?),
                    Err(_) => vec![Bytes::from_static(ALIVE)],
                },
                () = stopped(&mut stop) => {
                    listening.end().await;
                    stop = None;
                }
            }
        };
        Some((event, (None, listening, stop)))
    });
    let mut response = sse::stream_of(sse::holding(events, share));
    response.extensions_mut().insert(Endless);
    response
}
