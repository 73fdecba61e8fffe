//! Plans, and the changes and output of their jobs.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use orchestra_mcp::http::Identity;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{LogFrom, act, show, sse};
use crate::{
    app::Site,
    asked::{Json, Path, Query},
    refusal::{CallRefusals, Guarded, Reason, Refusal, ThingRefusals},
};

pub(super) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::default()
        .routes(routes!(plans))
        .routes(routes!(plan))
        .routes(routes!(approve))
        .routes(routes!(diff))
}

pub(super) fn streams() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::default().routes(routes!(log))
}

/// Lists the plans.
#[utoipa::path(
    get, path = "/api/plans", tag = "plans",
    responses((status = 200, description = "List of plans.", body = Value), Guarded, ThingRefusals)
)]
async fn plans(State(site): State<Arc<Site>>) -> Result<Response, Refusal> {
    show(&site, |source| source.plans()).await
}

/// Returns a plan with its jobs.
#[utoipa::path(
    get, path = "/api/plans/{plan}", tag = "plans",
    params(
        ("plan" = String, Path, description = "Identifier of the plan.")
    ),
    responses((status = 200, description = "The plan with its jobs.", body = Value), Guarded, ThingRefusals)
)]
async fn plan(
    State(site): State<Arc<Site>>,
    Path(plan): Path<String>,
) -> Result<Response, Refusal> {
    show(&site, |source| source.plan(plan)).await
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Seen {
    /// Fingerprint of the definition of the agent that the user reviewed.
    fingerprint: String,
}

#[derive(Serialize, ToSchema)]
struct Approved {
    /// Name of the agent.
    agent: String,
    /// Confirmation of the action, for display.
    told: String,
}

/// Approves an agent of a plan for this workspace. The approval applies only to the definition that the user reviewed.
#[utoipa::path(
    post, path = "/api/agents/{agent}/approve", tag = "plans",
    params(
        ("agent" = String, Path, description = "Name of the agent.")
    ),
    request_body(content = Seen, description = "Fingerprint of the definition of the agent that the user reviewed."),
    responses((status = 200, description = "Performed action.", body = Approved), CallRefusals)
)]
async fn approve(
    State(site): State<Arc<Site>>,
    Path(agent): Path<String>,
    headers: HeaderMap,
    Json(seen): Json<Seen>,
) -> Result<Response, Refusal> {
    let agreed = site.feed().source().agree(agent.clone(), seen.fingerprint);
    let told = act(&site, &headers, format!("approve agent {agent}"), agreed).await?;
    Ok(axum::Json(Approved { agent, told }).into_response())
}

/// Returns the changes that a job made to the repository.
#[utoipa::path(
    get, path = "/api/plans/{plan}/jobs/{job}/diff", tag = "plans",
    params(
        ("plan" = String, Path, description = "Identifier of the plan."),
        ("job" = String, Path, description = "Identifier of the job.")
    ),
    responses((status = 200, description = "A unified diff.", body = Value), Guarded, ThingRefusals)
)]
async fn diff(
    State(site): State<Arc<Site>>,
    Path((plan, job)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    show(&site, |source| source.diff(plan, job)).await
}

/// Query parameters of a log. Pages also send names without values.
#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    attempt: String,
    #[serde(default)]
    phase: String,
    #[serde(default)]
    after: String,
}

/// Streams the output of a job.
#[utoipa::path(
    get, path = "/api/plans/{plan}/jobs/{job}/log", tag = "plans",
    params(
        ("plan" = String, Path, description = "Identifier of the plan."),
        ("job" = String, Path, description = "Identifier of the job."),
        ("attempt" = Option<u32>, Query, description = "Number of the attempt, starting at 1. Default: the latest attempt."),
        ("phase" = Option<String>, Query, description = "Name of the phase. Default: all phases."),
        ("after" = Option<u64>, Query, description = "Return only lines after this line number.")
    ),
    responses((status = 200, description = "Events, until the job or the client ends.", body = String, content_type = "text/event-stream"), Guarded, ThingRefusals)
)]
async fn log(
    State(site): State<Arc<Site>>,
    Path((plan, job)): Path<(String, String)>,
    Query(asked): Query<Asked>,
    caller: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let share = site.open_stream(caller, &headers)?;
    let seen = headers.get("last-event-id");
    let seen = seen.and_then(|value| value.to_str().ok());
    let from = LogFrom {
        attempt: number("attempt", &asked.attempt)?,
        phase: Some(asked.phase).filter(|phase| !phase.is_empty()),
        after: number("after", seen.unwrap_or(&asked.after))?,
    };
    let telling = site.feed().source().log(plan, job, from).await?;
    Ok(sse::telling(
        telling,
        site.face.options().stop.clone(),
        share,
    ))
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<Option<T>, Refusal> {
    match text {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| Refusal::new(Reason::Malformed, format!("`{name}` must be a number"))),
    }
}
