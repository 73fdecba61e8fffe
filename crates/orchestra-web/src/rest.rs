//! REST over tools, resources and prompts: what MCP has, as plain requests and answers.

mod members;
mod shapes;

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{OriginalUri, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use orchestra_hub::ListKind;
use orchestra_mcp::DirectCaller;
use orchestra_wire::Method;
use serde_json::Value;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::Site,
    refusal::{CallRefusals, Guarded, MessageRefusals, Refusal, StreamRefusals},
};
use shapes::{
    Prompt, PromptAnswer, PromptList, ResourceAnswer, ResourceList, ResourceRead, ToolAnswer,
    ToolCall, ToolList,
};

/// What all paths here begin with.
pub(crate) const PATH: &str = "/api/mcp";

/// Where the document is, below the root of the routes.
const DOCUMENT_PATH: &str = "/api/openapi.json";

/// W3C trace context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The most that is kept of what a client says about itself.
const MAX_SAID_BYTES: usize = 256;

pub(crate) type Answer = Result<Response, Refusal>;

/// The routes with their descriptions.
pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    // The two routes of 2024-11-05 are those of MCP; only their descriptions are from here.
    OpenApiRouter::with_openapi(Pair::openapi())
        .routes(routes!(list_tools))
        .routes(routes!(call_tool))
        .routes(routes!(list_resources))
        .routes(routes!(read_resource))
        .routes(routes!(list_prompts))
        .routes(routes!(get_prompt))
        .routes(routes!(document))
}

/// Lists all tools.
#[utoipa::path(
    get, path = "/api/mcp/tools", tag = "tools",
    responses((status = 200, description = "Tools in catalog order.", body = ToolList), Guarded)
)]
async fn list_tools(State(site): State<Arc<Site>>) -> Answer {
    site.list("tools", ListKind::Tools).await
}

/// Calls a tool. If the tool itself fails, the HTTP status is 200 and the result contains `isError`.
#[utoipa::path(
    post, path = "/api/mcp/tools/call", tag = "tools",
    request_body(content = ToolCall, description = "Name of the tool and its arguments."),
    responses(
        (status = 200, description = "Result of the tool.", body = ToolAnswer),
        CallRefusals
    )
)]
async fn call_tool(State(site): State<Arc<Site>>, headers: HeaderMap, body: Body) -> Answer {
    site.call(Method::ToolsCall, &headers, body).await
}

/// Lists all resources and resource templates.
#[utoipa::path(
    get, path = "/api/mcp/resources", tag = "resources",
    responses(
        (status = 200, description = "Resources in catalog order.", body = ResourceList),
        Guarded
    )
)]
async fn list_resources(State(site): State<Arc<Site>>) -> Answer {
    let templates = site.items(ListKind::Templates).await.0;
    let more = [b",\"resourceTemplates\":[", &templates[..], b"]"].concat();
    site.list_and("resources", ListKind::Resources, &more).await
}

/// Reads a resource.
#[utoipa::path(
    post, path = "/api/mcp/resources/read", tag = "resources",
    request_body(content = ResourceRead, description = "URI of the resource."),
    responses((status = 200, description = "Contents of the resource.", body = ResourceAnswer), CallRefusals)
)]
async fn read_resource(State(site): State<Arc<Site>>, headers: HeaderMap, body: Body) -> Answer {
    site.call(Method::ResourcesRead, &headers, body).await
}

/// Lists all prompts.
#[utoipa::path(
    get, path = "/api/mcp/prompts", tag = "prompts",
    responses((status = 200, description = "Prompts in catalog order.", body = PromptList), Guarded)
)]
async fn list_prompts(State(site): State<Arc<Site>>) -> Answer {
    site.list("prompts", ListKind::Prompts).await
}

/// Returns the messages of an MCP prompt for the given arguments.
#[utoipa::path(
    post, path = "/api/mcp/prompts/get", tag = "prompts",
    request_body(content = Prompt, description = "Name of the prompt and its arguments."),
    responses((status = 200, description = "Messages of the prompt.", body = PromptAnswer), CallRefusals)
)]
async fn get_prompt(State(site): State<Arc<Site>>, headers: HeaderMap, body: Body) -> Answer {
    site.call(Method::PromptsGet, &headers, body).await
}

/// Returns this OpenAPI document.
#[utoipa::path(
    get, path = "/api/openapi.json", tag = "service",
    responses((status = 200, description = "An OpenAPI 3.1 document.", body = Value), Guarded)
)]
async fn document(State(site): State<Arc<Site>>, OriginalUri(uri): OriginalUri) -> Answer {
    let mut document = site.document.get().cloned().unwrap_or_default();
    // Wherever the routes are nested, the paths of the document begin there.
    let above = uri.path().strip_suffix(DOCUMENT_PATH).unwrap_or_default();
    let url = if above.is_empty() { "/" } else { above };
    document["servers"] = serde_json::json!([{"url": url}]);
    // What there is to name, so that whoever tries the document out gets somewhere.
    for (schema, member, kind) in [
        ("ToolCall", "name", ListKind::Tools),
        ("ResourceRead", "uri", ListKind::Resources),
        ("Prompt", "name", ListKind::Prompts),
    ] {
        let member_of = &mut document["components"]["schemas"][schema]["properties"][member];
        member_of["examples"] = site.members(kind, member).await;
    }
    site.answer(document.to_string())
}

#[derive(OpenApi)]
#[openapi(paths(open_stream, post_message))]
struct Pair;

/// Opens an event stream for a client (MCP 2024-11-05). The first event, `endpoint`, contains the URL to which the
/// client sends its messages. Each response is an event with the name `message`.
#[utoipa::path(
    get, path = "/api/mcp/sse", tag = "MCP 2024-11-05",
    responses(
        (status = 200, description = "Events, until the client leaves.",
            body = String, content_type = "text/event-stream"),
        StreamRefusals
    )
)]
#[expect(dead_code, reason = "describes a route of MCP")]
fn open_stream() {}

/// Accepts a JSON-RPC message from a client (MCP 2024-11-05). The response is sent on the event stream of the client.
#[utoipa::path(
    post, path = "/api/mcp/messages", tag = "MCP 2024-11-05",
    params(("sessionId" = String, Query, description = "Session id from the first event of the stream.")),
    request_body(content = Value, description = "A JSON-RPC message."),
    responses((status = 202, description = "The message was accepted."), MessageRefusals)
)]
#[expect(dead_code, reason = "describes a route of MCP")]
fn post_message() {}

impl Site {
    /// The items of a list as JSON, separated by commas, and how many they are. Waits, not for
    /// long, for providers that do not know yet.
    async fn items(&self, kind: ListKind) -> (Bytes, usize) {
        self.direct.attachment().settled().await;
        let listing = self.direct.attachment().list(kind, self.direct.form());
        (listing.page(0, usize::MAX).0, listing.len())
    }

    /// One member of each item of a list.
    async fn members(&self, kind: ListKind, name: &str) -> Value {
        let items = [b"[", &self.items(kind).await.0[..], b"]"].concat();
        let items: Vec<Value> = serde_json::from_slice(&items).unwrap_or_default();
        items
            .into_iter()
            .map(|mut item| item[name].take())
            .collect()
    }

    async fn list(&self, name: &str, kind: ListKind) -> Answer {
        self.list_and(name, kind, b"").await
    }

    /// A list, with further members of the answer as JSON.
    async fn list_and(&self, name: &str, kind: ListKind, more: &[u8]) -> Answer {
        let (items, count) = self.items(kind).await;
        let head = format!("{{\"{name}\":[");
        let tail = format!(",\"count\":{count}}}");
        self.answer([head.as_bytes(), &items[..], b"]", more, tail.as_bytes()].concat())
    }

    /// Makes the call that the body asks for.
    async fn call(&self, method: Method, headers: &HeaderMap, body: Body) -> Answer {
        let (body, _room) = self.face.intake().read(headers, body).await?;
        let known: &[&str] = match method {
            Method::ResourcesRead => &["uri"],
            _ => &["name", "arguments"],
        };
        members::check(&body, known)?;
        self.answer(self.direct.call(method, &body, caller(headers)).await?)
    }

    /// An answer, which counts until its client has read it.
    pub(crate) fn answer(&self, body: impl Into<Bytes>) -> Answer {
        let body = self.face.hold(body.into())?;
        let json = HeaderValue::from_static("application/json");
        Ok(([(header::CONTENT_TYPE, json)], body).into_response())
    }
}

/// Who calls, as the headers say.
pub(crate) fn caller(headers: &HeaderMap) -> DirectCaller {
    DirectCaller {
        client: said(headers, &header::USER_AGENT).map(Into::into),
        trace: said(headers, &TRACEPARENT).map(Into::into),
        ..DirectCaller::default()
    }
}

/// What a client says about itself, if it is short.
fn said<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let text = headers.get(name)?.to_str().ok()?;
    (text.len() <= MAX_SAID_BYTES).then_some(text)
}
