//! Puts the routes together.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use axum::{
    Extension, Router,
    extract::{MatchedPath, OriginalUri, Request, State},
    http::{HeaderMap, Method, StatusCode, header, request::Parts},
    middleware,
    response::{IntoResponse as _, Response},
};
use orchestra_hub::Hub;
use orchestra_mcp::{
    Direct, Server,
    http::{HttpFace, HttpOptions, Identity, Refused, StreamShare, TooManyStreams},
};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    dashboard::{self, Feed, Source},
    health,
    openapi::{self, Tokens},
    refusal, rest, servers,
};

/// The name of the face in the audit.
pub(crate) const FACE: &str = "rest";

/// What the routes need.
pub(crate) struct Site {
    pub(crate) face: HttpFace,
    pub(crate) direct: Direct,
    pub(crate) hub: Hub,
    pub(crate) began: Instant,
    /// The OpenAPI document; it is there once the routes are.
    pub(crate) document: OnceLock<Value>,
    /// What the dashboard shows, if there is one.
    feed: Option<Arc<Feed>>,
}

impl Site {
    /// What the dashboard shows; only its routes ask for it, which are there with it.
    pub(crate) fn feed(&self) -> &Arc<Feed> {
        self.feed.as_ref().expect("the routes of a dashboard")
    }

    /// Takes the share of an event stream.
    ///
    /// # Errors
    /// When too many are open.
    pub(crate) fn open_stream(
        &self,
        caller: Option<Extension<Identity>>,
        headers: &HeaderMap,
    ) -> Result<StreamShare, TooManyStreams> {
        let caller = caller.map(|Extension(caller)| caller);
        self.face.open_stream(caller, headers)
    }
}

/// All routes over one server, to serve or to nest. Nested below a path, they all move there.
///
/// It must be called inside a tokio runtime.
pub fn app(server: &Server, options: HttpOptions) -> Router {
    routes(server, options, None)
}

/// As [`app`], with a dashboard of what `source` shows, whose pages begin at `/`.
///
/// It must be called inside a tokio runtime.
pub fn app_with_dashboard(
    server: &Server,
    options: HttpOptions,
    source: Arc<dyn Source>,
) -> Router {
    routes(server, options, Some(source))
}

fn routes(server: &Server, options: HttpOptions, source: Option<Arc<dyn Source>>) -> Router {
    let feed = source.map(|source| Feed::new(source, server.hub().clone()));
    let face = HttpFace::new(server, options);
    let site = Arc::new(Site {
        direct: Direct::new(server, FACE),
        hub: server.hub().clone(),
        began: Instant::now(),
        document: OnceLock::new(),
        feed,
        face: face.clone(),
    });
    let has_dashboard = site.feed.is_some();
    let (rest, health) = (rest::routes().merge(servers::routes()), health::routes());
    let (rest, login) = match has_dashboard {
        true => (rest.merge(dashboard::routes()), dashboard::login_routes()),
        false => (rest, OpenApiRouter::default()),
    };
    let (rest, document) = openapi::described(rest);
    let (health, document) = openapi::with_public(document, health);
    let (login, document) = openapi::with_public(document, login);
    let tokens = if face.options().access.asks_who_calls() {
        Tokens::Needed
    } else {
        Tokens::Unset
    };
    let document = openapi::finished(document, server.version(), tokens);
    // Set once, here.
    let _ = site.document.set(document);
    let api = rest
        .method_not_allowed_fallback(not_allowed)
        .with_state(Arc::clone(&site))
        .merge(face.pair_below(rest::PATH));
    let access = &face.options().access;
    let api = access
        .guard(api)
        .layer(middleware::map_response(refusal::told));
    let open = |routes: Router<Arc<Site>>| -> Router {
        let routes = routes.method_not_allowed_fallback(not_allowed);
        routes.with_state(Arc::clone(&site))
    };
    let health = access.guard_health(open(health));
    let login = access.guard_public(open(login));
    let public = health
        .merge(login)
        .layer(middleware::map_response(refusal::told));
    let shown = has_dashboard.then(|| Arc::clone(&site));
    let nowhere = move |OriginalUri(whole): OriginalUri, request: Request| {
        let (head, _) = request.into_parts();
        std::future::ready(match &shown {
            Some(site) if wants_page(&head) => dashboard::nowhere(site, &whole, &head),
            _ => nothing(),
        })
    };
    let mcp = access.guard(face.routes().fallback(nowhere));
    let metadata = access.metadata_routes();
    let whole = mcp.merge(api).merge(public).merge(metadata);
    if !has_dashboard {
        return whole;
    }
    let pages = dashboard::public_routes().with_state(site);
    whole.merge(access.guard_public(pages))
}

/// Whether it is a browser that asks, to show somebody a page (RFC 9110, section 12.5.1), and not for
/// what only programs ask for.
fn wants_page(head: &Parts) -> bool {
    let first = head.uri.path().split('/').nth(1);
    if head.method != Method::GET || matches!(first, Some("api" | "mcp" | "assets")) {
        return false;
    }
    let accepted = head.headers.get(header::ACCEPT);
    let accepted = accepted.and_then(|types| types.to_str().ok());
    accepted.is_some_and(|types| types.contains("text/html"))
}

fn nothing() -> Response {
    let text = "not found; MCP is at /mcp, and /api/openapi.json describes the REST API";
    (
        Extension(Refused(text.into())),
        refusal::error(StatusCode::NOT_FOUND, text),
    )
        .into_response()
}

/// Tells the methods that the document has for the path, wherever the routes are nested.
async fn not_allowed(State(site): State<Arc<Site>>, route: MatchedPath) -> Response {
    let paths = site
        .document
        .get()
        .and_then(|document| document["paths"].as_object());
    let mut paths = paths.into_iter().flatten();
    let methods = paths.find(|(path, _)| route.as_str().ends_with(path.as_str()));
    let methods = methods.and_then(|(_, methods)| methods.as_object());
    let methods: Vec<String> = methods
        .into_iter()
        .flatten()
        .map(|(method, _)| method.to_ascii_uppercase())
        .collect();
    let text = format!("method not allowed; use {}", methods.join(" or "));
    refusal::error(StatusCode::METHOD_NOT_ALLOWED, &text)
}
