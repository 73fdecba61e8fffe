//! Plans as resources of REST. Each route is a tool by another name, with the same checks, answers and
//! records; a tool that refuses answers 409 here.

use std::sync::Arc;

use axum::{
    body::{Body, HttpBody as _},
    extract::{Path, Query, State},
    http::{HeaderMap, header},
};
use orchestra_wire::Method;
use serde_json::{Map, Value};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::Site,
    refusal::{CallRefusals, Reason, Refusal, ToolRefusals},
    rest::Answer,
};

/// The most members that a query may have.
const MOST_ASKED: usize = 32;

/// The members of a query in their order.
type Pairs = Vec<(String, String)>;

pub(super) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::default()
        .routes(routes!(create))
        .routes(routes!(update, delete))
        .routes(routes!(act))
        .routes(routes!(graph))
        .routes(routes!(summary))
        .routes(routes!(jobs, add_job))
        .routes(routes!(job, update_job))
        .routes(routes!(attempts))
        .routes(routes!(failure))
        .routes(routes!(logs))
        .routes(routes!(act_on_job))
}

/// Creates a plan with the tool `create_copilot_plan`.
#[utoipa::path(
    post, path = "/api/plans", tag = "plans",
    request_body(content = Map<String, Value>, description = "Arguments of the tool."),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn create(State(site): State<Arc<Site>>, headers: HeaderMap, body: Body) -> Answer {
    changed(&site, "create_copilot_plan", [], &headers, body).await
}

/// Changes a plan with the tool `update_copilot_plan`.
#[utoipa::path(
    patch, path = "/api/plans/{plan}", tag = "plans",
    params(("plan" = String, Path, description = "Identifier of the plan.")),
    request_body(content = Map<String, Value>, description = "Tool arguments, without the plan."),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn update(
    State(site): State<Arc<Site>>,
    Path(plan): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    changed(
        &site,
        "update_copilot_plan",
        [("planId", plan)],
        &headers,
        body,
    )
    .await
}

/// Deletes a plan with the tool `delete_copilot_plan`.
#[utoipa::path(
    delete, path = "/api/plans/{plan}", tag = "plans",
    params(("plan" = String, Path, description = "Identifier of the plan.")),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn delete(
    State(site): State<Arc<Site>>,
    Path(plan): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let said = of_path([("planId", plan)]);
    called(&site, "delete_copilot_plan", said, &headers).await
}

/// Performs an action on a plan: `pause`, `resume`, `cancel`, `retry`, `finalize`, `archive`, `recover`, `clone` or
/// `reshape`. For example, the action `pause` calls the tool `pause_copilot_plan`.
#[utoipa::path(
    post, path = "/api/plans/{plan}/{verb}", tag = "plans",
    params(
        ("plan" = String, Path, description = "Identifier of the plan."),
        ("verb" = String, Path, description = "Action to perform.")
    ),
    request_body(content = Option<Map<String, Value>>, description = "Tool arguments, without the plan."),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn act(
    State(site): State<Arc<Site>>,
    Path((plan, verb)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let tool = match verb.as_str() {
        "pause" => "pause_copilot_plan",
        "resume" => "resume_copilot_plan",
        "cancel" => "cancel_copilot_plan",
        "retry" => "retry_copilot_plan",
        "finalize" => "finalize_copilot_plan",
        "archive" => "archive_copilot_plan",
        "recover" => "recover_copilot_plan",
        "clone" => "clone_copilot_plan",
        "reshape" => "reshape_copilot_plan",
        _ => {
            return Err(unknown(
                "a plan is paused, resumed, cancelled, retried, finalized, archived, recovered, \
                 cloned or reshaped: the last part of the path is `pause`, `resume`, `cancel`, \
                 `retry`, `finalize`, `archive`, `recover`, `clone` or `reshape`",
            ));
        }
    };
    let named = if verb == "clone" {
        "sourcePlanId"
    } else {
        "planId"
    };
    changed(&site, tool, [(named, plan)], &headers, body).await
}

/// Returns the dependency graph of the jobs of a plan, like the tool `get_copilot_plan_graph`.
#[utoipa::path(
    get, path = "/api/plans/{plan}/graph", tag = "plans",
    params(("plan" = String, Path, description = "Identifier of the plan.")),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn graph(
    State(site): State<Arc<Site>>,
    Path(plan): Path<String>,
    Query(query): Query<Pairs>,
    headers: HeaderMap,
) -> Answer {
    asked(
        &site,
        "get_copilot_plan_graph",
        [("planId", plan)],
        query,
        &headers,
    )
    .await
}

/// Returns the progress of a plan, like the tool `get_copilot_plan_status`.
#[utoipa::path(
    get, path = "/api/plans/{plan}/summary", tag = "plans",
    params(("plan" = String, Path, description = "Identifier of the plan.")),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn summary(
    State(site): State<Arc<Site>>,
    Path(plan): Path<String>,
    Query(query): Query<Pairs>,
    headers: HeaderMap,
) -> Answer {
    asked(
        &site,
        "get_copilot_plan_status",
        [("planId", plan)],
        query,
        &headers,
    )
    .await
}

/// Lists the jobs of a plan, like the tool `list_copilot_jobs`. Query parameters are passed as arguments of the tool.
#[utoipa::path(
    get, path = "/api/plans/{plan}/jobs", tag = "plans",
    params(("plan" = String, Path, description = "Identifier of the plan.")),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn jobs(
    State(site): State<Arc<Site>>,
    Path(plan): Path<String>,
    Query(query): Query<Pairs>,
    headers: HeaderMap,
) -> Answer {
    asked(
        &site,
        "list_copilot_jobs",
        [("planId", plan)],
        query,
        &headers,
    )
    .await
}

/// Adds a job to a plan with the tool `add_copilot_plan_job`.
#[utoipa::path(
    post, path = "/api/plans/{plan}/jobs", tag = "plans",
    params(("plan" = String, Path, description = "Identifier of the plan.")),
    request_body(content = Map<String, Value>, description = "Tool arguments, without the plan."),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn add_job(
    State(site): State<Arc<Site>>,
    Path(plan): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    changed(
        &site,
        "add_copilot_plan_job",
        [("planId", plan)],
        &headers,
        body,
    )
    .await
}

/// Returns a job, like the tool `get_copilot_job`.
#[utoipa::path(
    get, path = "/api/plans/{plan}/jobs/{job}", tag = "plans",
    params(
        ("plan" = String, Path, description = "Identifier of the plan."),
        ("job" = String, Path, description = "Identifier of the job.")
    ),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn job(
    State(site): State<Arc<Site>>,
    Path(path): Path<(String, String)>,
    Query(query): Query<Pairs>,
    headers: HeaderMap,
) -> Answer {
    asked(&site, "get_copilot_job", of_job(path), query, &headers).await
}

/// Changes a job with the tool `update_copilot_plan_job`.
#[utoipa::path(
    patch, path = "/api/plans/{plan}/jobs/{job}", tag = "plans",
    params(
        ("plan" = String, Path, description = "Identifier of the plan."),
        ("job" = String, Path, description = "Identifier of the job.")
    ),
    request_body(content = Map<String, Value>, description = "Tool arguments, without the plan and the job."),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn update_job(
    State(site): State<Arc<Site>>,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    changed(
        &site,
        "update_copilot_plan_job",
        of_job(path),
        &headers,
        body,
    )
    .await
}

/// Lists the attempts of a job, like the tool `get_copilot_job_attempts`.
#[utoipa::path(
    get, path = "/api/plans/{plan}/jobs/{job}/attempts", tag = "plans",
    params(
        ("plan" = String, Path, description = "Identifier of the plan."),
        ("job" = String, Path, description = "Identifier of the job.")
    ),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn attempts(
    State(site): State<Arc<Site>>,
    Path(path): Path<(String, String)>,
    Query(query): Query<Pairs>,
    headers: HeaderMap,
) -> Answer {
    asked(
        &site,
        "get_copilot_job_attempts",
        of_job(path),
        query,
        &headers,
    )
    .await
}

/// Returns the cause of a job's failure, like the tool `get_copilot_job_failure_context`.
#[utoipa::path(
    get, path = "/api/plans/{plan}/jobs/{job}/failure", tag = "plans",
    params(
        ("plan" = String, Path, description = "Identifier of the plan."),
        ("job" = String, Path, description = "Identifier of the job.")
    ),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn failure(
    State(site): State<Arc<Site>>,
    Path(path): Path<(String, String)>,
    Query(query): Query<Pairs>,
    headers: HeaderMap,
) -> Answer {
    asked(
        &site,
        "get_copilot_job_failure_context",
        of_job(path),
        query,
        &headers,
    )
    .await
}

/// Returns the output of a job, like the tool `get_copilot_job_logs`. Query parameters are passed as arguments of the
/// tool.
#[utoipa::path(
    get, path = "/api/plans/{plan}/jobs/{job}/logs", tag = "plans",
    params(
        ("plan" = String, Path, description = "Identifier of the plan."),
        ("job" = String, Path, description = "Identifier of the job.")
    ),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn logs(
    State(site): State<Arc<Site>>,
    Path(path): Path<(String, String)>,
    Query(query): Query<Pairs>,
    headers: HeaderMap,
) -> Answer {
    asked(&site, "get_copilot_job_logs", of_job(path), query, &headers).await
}

/// Performs an action on a job. The action `retry` calls the tool `retry_copilot_job`, and the action `force-fail`
/// calls the tool `force_fail_copilot_job`.
#[utoipa::path(
    post, path = "/api/plans/{plan}/jobs/{job}/{verb}", tag = "plans",
    params(
        ("plan" = String, Path, description = "Identifier of the plan."),
        ("job" = String, Path, description = "Identifier of the job."),
        ("verb" = String, Path, description = "Action to perform.")
    ),
    request_body(content = Option<Map<String, Value>>, description = "Tool arguments, without the plan and the job."),
    responses((status = 200, description = "Result of the tool.", body = Value), CallRefusals, ToolRefusals)
)]
async fn act_on_job(
    State(site): State<Arc<Site>>,
    Path((plan, job, verb)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let tool = match verb.as_str() {
        "retry" => "retry_copilot_job",
        "force-fail" => "force_fail_copilot_job",
        _ => {
            let text = "a job is tried again or declared failed: the last part of the path is \
                        `retry` or `force-fail`";
            return Err(unknown(text));
        }
    };
    changed(&site, tool, of_job((plan, job)), &headers, body).await
}

fn of_job((plan, job): (String, String)) -> [(&'static str, String); 2] {
    [("planId", plan), ("jobId", job)]
}

fn of_path<const N: usize>(path: [(&'static str, String); N]) -> Map<String, Value> {
    let said = path.map(|(name, value)| (name.to_owned(), Value::String(value)));
    said.into_iter().collect()
}

fn unknown(text: &str) -> Refusal {
    Refusal::new(Reason::Unknown, text.to_owned())
}

/// Calls a tool with the parameters of the path and the query.
async fn asked<const N: usize>(
    site: &Site,
    tool: &str,
    path: [(&'static str, String); N],
    query: Pairs,
    headers: &HeaderMap,
) -> Answer {
    let mut said = of_path(path);
    if query.len() > MOST_ASKED {
        let text = format!("a query can have at most {MOST_ASKED} parameters");
        return Err(Refusal::new(Reason::Malformed, text));
    }
    for (name, text) in query.into_iter().filter(|(_, text)| !text.is_empty()) {
        // A number is one wherever the tool wants one; where it wants text, it says so.
        let value = text
            .parse::<i64>()
            .map_or_else(|_| text.into(), Value::from);
        add(&mut said, name, value)?;
    }
    called(site, tool, said, headers).await
}

/// Calls a tool with the parameters of the path and the members of the body. The body may be empty.
async fn changed<const N: usize>(
    site: &Site,
    tool: &str,
    path: [(&'static str, String); N],
    headers: &HeaderMap,
    body: Body,
) -> Answer {
    let mut said = of_path(path);
    let is_empty = body.is_end_stream() && !headers.contains_key(header::CONTENT_TYPE);
    let (body, _room) = match is_empty {
        true => Default::default(),
        false => {
            let (body, room) = site.face.intake().read(headers, body).await?;
            (body, Some(room))
        }
    };
    if !body.is_empty() {
        let members: Map<String, Value> = serde_json::from_slice(&body).map_err(|error| {
            let text = format!("the request body must be a JSON object: {error}");
            Refusal::new(Reason::Malformed, text)
        })?;
        for (name, value) in members {
            add(&mut said, name, value)?;
        }
    }
    called(site, tool, said, headers).await
}

/// Adds an argument that is not there yet.
fn add(said: &mut Map<String, Value>, name: String, value: Value) -> Result<(), Refusal> {
    if said.contains_key(&name) {
        let text = format!("`{name}` is given twice, or is already part of the path");
        return Err(Refusal::new(Reason::Malformed, text));
    }
    said.insert(name, value);
    Ok(())
}

/// Calls a tool, and answers what it answers.
async fn called(
    site: &Site,
    tool: &str,
    arguments: Map<String, Value>,
    headers: &HeaderMap,
) -> Answer {
    let call = serde_json::json!({"name": tool, "arguments": arguments});
    let caller = crate::rest::caller(headers);
    let result = site
        .direct
        .call(Method::ToolsCall, &call.to_string().into(), caller)
        .await?;
    let broke = |_| {
        Refusal::new(
            Reason::Broke,
            format!("the tool {tool} returned a result that is not JSON"),
        )
    };
    let result: Value = serde_json::from_slice(&result).map_err(broke)?;
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    if result["isError"] == true {
        return Err(Refusal::new(Reason::Refused, fault(text)));
    }
    site.answer(match &result["structuredContent"] {
        Value::Null => Value::from(text).to_string(),
        structured => structured.to_string(),
    })
}

/// What is wrong, where a tool says more than that of it.
fn fault(text: &str) -> String {
    let told: Result<Value, _> = serde_json::from_str(text);
    let fault = told
        .ok()
        .and_then(|told| Some(told["error"].as_str()?.to_owned()));
    fault.unwrap_or_else(|| text.to_owned())
}
