//! The one page that all pages of the dashboard are.

use std::sync::Arc;

use askama::Template;
use axum::{
    Router,
    extract::{OriginalUri, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse as _, Redirect, Response},
    routing::get,
};

use super::assets;
use crate::app::Site;

/// The first parts of the paths that show the page.
const PAGES: [&str; 5] = ["board", "plans", "memory", "servers", "usage"];

/// What the page may do: nothing but what is of the same origin, and no script that stands in it
/// (Content Security Policy, level 3).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'";

pub(super) fn routes() -> Router<Arc<Site>> {
    let routes = Router::new().route("/", get(home));
    PAGES.into_iter().fold(routes, |routes, page| {
        routes
            .route(&format!("/{page}"), get(shell))
            .route(&format!("/{page}/{{*rest}}"), get(shell))
    })
}

#[derive(Template)]
#[template(path = "shell.html")]
struct Shell<'a> {
    /// What stands before all paths.
    base: &'a str,
    assets: &'a str,
    /// Whether there is a login that can be ended.
    logout: bool,
}

async fn home(OriginalUri(whole): OriginalUri) -> Redirect {
    Redirect::temporary(&format!("{}/board", whole.path().trim_end_matches('/')))
}

async fn shell(
    State(site): State<Arc<Site>>,
    OriginalUri(whole): OriginalUri,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    page(&site, &whole, &uri, &headers)
}

/// Tells a person, who does not read JSON, that an address leads nowhere.
pub(crate) fn nowhere(site: &Site, whole: &Uri, uri: &Uri, headers: &HeaderMap) -> Response {
    (StatusCode::NOT_FOUND, page(site, whole, uri, headers)).into_response()
}

fn page(site: &Site, whole: &Uri, uri: &Uri, headers: &HeaderMap) -> Response {
    let access = &site.face.options().access;
    let shell = Shell {
        base: whole.path().strip_suffix(uri.path()).unwrap_or_default(),
        assets: assets::version(),
        logout: access.asks_who_calls() || access.has_cookie(headers),
    };
    let page = shell.render().expect("the page is made of text alone");
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, page).into_response()
}
