//! Stream of changes. A client that reconnects receives the events that it missed.

use std::{convert::Infallible, sync::Arc};

use axum::{Extension, body::Bytes, extract::State, http::HeaderMap, response::Response};
use futures_util::stream;
use orchestra_mcp::http::Identity;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    time::timeout,
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    assets,
    feed::Viewer,
    sse::{self, ALIVE, SIGN_OF_LIFE, stopped},
};
use crate::{
    app::Site,
    asked::Query,
    refusal::{Guarded, Refusal, ThingRefusals},
};

pub(super) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::default().routes(routes!(events))
}

#[derive(Deserialize)]
struct From {
    /// Id of the last received event, for clients that cannot send it as a header.
    after: Option<String>,
}

/// First event of each connection.
#[derive(Serialize)]
struct Hello<'a> {
    boot: &'a str,
    /// Whether missed events are no longer available, so that the client must reload its data.
    missed: bool,
    /// Version of the page that this program serves.
    assets: &'a str,
    version: &'a str,
    workspace: String,
}

/// Streams changes of the board, the plans and the servers as events. After an interruption, a client can continue
/// after the last event that it received.
#[utoipa::path(
    get, path = "/api/events", tag = "events",
    params(
        ("after" = Option<String>, Query, description = "Id of the last received event, for clients that cannot send the `Last-Event-ID` header.")
    ),
    responses((status = 200, description = "Events, until the client leaves.", body = String, content_type = "text/event-stream"), Guarded, ThingRefusals)
)]
async fn events(
    State(site): State<Arc<Site>>,
    Query(from): Query<From>,
    caller: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let share = site.open_stream(caller, &headers)?;
    let header = headers.get("last-event-id");
    let header = header.and_then(|value| value.to_str().ok());
    let seen = header.or(from.after.as_deref());
    let viewer = site.feed().join(seen);
    let hello = Hello {
        boot: viewer.feed().boot(),
        missed: viewer.lost,
        assets: assets::version(),
        version: site.face.server().version(),
        workspace: viewer.feed().source().workspace(),
    };
    let hello = serde_json::to_string(&hello).expect("a greeting has a JSON form");
    // Its id is that of what was seen already, so that what follows comes again where it is lost.
    let seen = seen.filter(|_| !viewer.lost).map(str::to_owned);
    let id = seen.unwrap_or_else(|| viewer.feed().id(viewer.last));
    let hello = format!("retry: 1000\nid: {id}\nevent: hello\ndata: {hello}\n\n");
    let stop = site.face.options().stop.clone();
    Ok(sse::response(frames(hello.into(), viewer, stop), share))
}

/// What is sent, until the program stops or the client leaves.
fn frames(
    hello: Bytes,
    viewer: Viewer,
    stop: Option<watch::Receiver<bool>>,
) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> {
    let mut viewer = viewer;
    let missed = std::mem::take(&mut viewer.missed).into_iter();
    let first = std::iter::once(hello).chain(missed.map(|event| event.frame.clone()));
    stream::unfold(
        (first, viewer, stop),
        async |(mut first, mut viewer, mut stop)| {
            if let Some(frame) = first.next() {
                return Some((Ok(frame), (first, viewer, stop)));
            }
            let next = tokio::select! {
                next = timeout(ALIVE, viewer.events.recv()) => next,
                () = stopped(&mut stop) => return None,
            };
            let frame = match next {
                Err(_) => SIGN_OF_LIFE,
                Ok(Ok(event)) => event.frame.clone(),
                Ok(Err(RecvError::Lagged(_))) => {
                    // What waits is skipped as well: it is all asked for anew.
                    viewer.events = viewer.events.resubscribe();
                    Bytes::from_static(b"event: reset\ndata: {}\n\n")
                }
                Ok(Err(RecvError::Closed)) => return None,
            };
            Some((Ok(frame), (first, viewer, stop)))
        },
    )
}
