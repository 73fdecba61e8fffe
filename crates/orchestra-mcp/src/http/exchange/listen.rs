//! `subscriptions/listen` over HTTP: a stream of notices.

use axum::{body::Bytes, response::Response};
use futures_util::stream;
use tokio::{select, time::timeout};

use crate::{
    http::{
        App, Identity,
        sse::{self, ALIVE, KEEP_ALIVE},
        stopped,
    },
    stream::Listening,
};

/// `subscriptions/listen`: a stream of notices, for as long as the client reads it.
pub(super) fn listen(app: &App, caller: Identity, body: &Bytes) -> Response {
    let listening = Listening::begin(&app.server, "http", caller, body.clone(), &app.budget);
    let state = (listening, app.options.stop.clone());
    let events = stream::unfold(state, |(mut listening, mut stop)| async move {
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
        Some((event, (listening, stop)))
    });
    sse::stream_of(events)
}
