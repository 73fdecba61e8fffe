//! The one page that all pages of the dashboard are.

use std::sync::Arc;

use axum::{
    Router,
    extract::{OriginalUri, Request, State},
    http::{HeaderValue, StatusCode, Uri, header, request::Parts},
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

/// Template of the page, with placeholders in double braces.
const SHELL: &str = include_str!("../../templates/shell.html");

/// Button that ends the login.
const LOGOUT: &str = r#"<button class="plain" id="logout" type="button">Log out</button>"#;

/// Fills in the template for paths that begin with `base`.
fn filled(base: &str, assets: &str, has_logout: bool) -> String {
    let page = SHELL.replace("{{ assets }}", assets);
    let page = page.replace("{{ logout }}", if has_logout { LOGOUT } else { "" });
    // Last: the path comes from the client, and a placeholder in it must not be replaced.
    page.replace("{{ base }}", &escaped(base))
}

/// Escapes text for HTML, attributes included.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}

async fn home(OriginalUri(whole): OriginalUri) -> Redirect {
    Redirect::temporary(&format!("{}/board", whole.path().trim_end_matches('/')))
}

async fn shell(
    State(site): State<Arc<Site>>,
    OriginalUri(whole): OriginalUri,
    request: Request,
) -> Response {
    page(&site, &whole, &request.into_parts().0)
}

/// Tells a person, who does not read JSON, that an address leads nowhere.
pub(crate) fn nowhere(site: &Site, whole: &Uri, head: &Parts) -> Response {
    (StatusCode::NOT_FOUND, page(site, whole, head)).into_response()
}

fn page(site: &Site, whole: &Uri, head: &Parts) -> Response {
    let base = whole.path().strip_suffix(head.uri.path());
    let base = base.unwrap_or_default();
    let access = &site.face.options().access;
    let has_logout = access.asks_who_calls() || access.has_cookie(&head.headers, &head.extensions);
    let page = filled(base, assets::version(), has_logout);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_no_placeholder_and_escapes_its_base() {
        let page = filled("/a\"><script>", "0123", true);
        assert!(
            page.contains(r#"data-base="/a&quot;&gt;&lt;script&gt;""#),
            "{page}"
        );
        assert!(
            page.contains("/assets/0123/app.js") && page.contains("Log out"),
            "{page}"
        );
        assert!(!page.contains("{{") && !filled("", "", false).contains("Log out"));
    }
}
