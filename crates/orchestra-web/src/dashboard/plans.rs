//! Plans, and what one of their jobs changed and prints.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, Query, State},
    http::HeaderMap,
    response::Response,
    routing::get,
};
use serde::Deserialize;

use super::{LogFrom, show, sse};
use crate::{
    app::Site,
    refusal::{Reason, Refusal},
};

pub(super) fn routes() -> Router<Arc<Site>> {
    Router::new()
        .route("/api/plans", get(plans))
        .route("/api/plans/{plan}", get(plan))
        .route("/api/plans/{plan}/jobs/{job}/diff", get(diff))
}

pub(super) fn streams() -> Router<Arc<Site>> {
    Router::new().route("/api/plans/{plan}/jobs/{job}/log", get(log))
}

async fn plans(State(site): State<Arc<Site>>) -> Result<Response, Refusal> {
    show(&site, |source| source.plans()).await
}

async fn plan(
    State(site): State<Arc<Site>>,
    Path(plan): Path<String>,
) -> Result<Response, Refusal> {
    show(&site, |source| source.plan(plan)).await
}

async fn diff(
    State(site): State<Arc<Site>>,
    Path((plan, job)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    show(&site, |source| source.diff(plan, job)).await
}

/// What is asked of a log. Pages send names without values, too.
#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    attempt: String,
    #[serde(default)]
    phase: String,
    #[serde(default)]
    after: String,
}

async fn log(
    State(site): State<Arc<Site>>,
    Path((plan, job)): Path<(String, String)>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let seen = headers.get("last-event-id");
    let seen = seen.and_then(|value| value.to_str().ok());
    let from = LogFrom {
        attempt: number("attempt", &asked.attempt)?,
        phase: Some(asked.phase).filter(|phase| !phase.is_empty()),
        after: number("after", seen.unwrap_or(&asked.after))?,
    };
    let telling = site.feed().source().log(plan, job, from).await?;
    Ok(sse::telling(telling, site.face.options().stop.clone()))
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<Option<T>, Refusal> {
    match text {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| Refusal::new(Reason::Malformed, format!("`{name}` has to be a number"))),
    }
}
