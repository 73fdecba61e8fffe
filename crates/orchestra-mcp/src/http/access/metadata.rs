//! Where a resource server says who gives out tokens for it. Whoever reaches us may read that, and
//! so may every page, for it is what one reads before one has a token.

use axum::{
    Router,
    body::HttpBody as _,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::any,
};

use super::{Access, gate, names, oauth::OAuth, peer::Peer, rate};
use crate::http::refuse;

/// The document changes with the configuration alone.
const CACHED: HeaderValue = HeaderValue::from_static("max-age=3600");

const ANY: HeaderValue = HeaderValue::from_static("*");

/// The routes of the document; none without OAuth.
pub(super) fn routes(access: &Access) -> Router {
    let Some(oauth) = &access.0.rules.oauth else {
        return Router::new();
    };
    let paths = oauth.metadata_paths();
    paths.into_iter().fold(Router::new(), |routes, path| {
        let (access, oauth) = (access.clone(), oauth.clone());
        let answer = async move |request: Request| {
            let has_body = !request.body().is_end_stream();
            gate::last_if(has_body, answer(&access, &oauth, &request))
        };
        routes.route(&path, any(answer))
    })
}

fn answer(access: &Access, oauth: &OAuth, request: &Request) -> Response {
    let rules = &access.0.rules;
    if let Err(reason) = names::check_host(request.headers(), request.uri(), rules) {
        return refuse(StatusCode::FORBIDDEN, reason);
    }
    let peer = Peer::of(request.extensions());
    if let Err(refused) = access.charge(rate::Key::of_peer(peer)) {
        return *refused;
    }
    let mut response = match *request.method() {
        Method::GET | Method::HEAD => {
            let json = HeaderValue::from_static("application/json");
            let head = [
                (header::CONTENT_TYPE, json),
                (header::CACHE_CONTROL, CACHED),
            ];
            (head, oauth.metadata()).into_response()
        }
        // A page asks first, for it sends the revision along.
        Method::OPTIONS => {
            let methods = HeaderValue::from_static("GET");
            let head = [
                (header::ACCESS_CONTROL_ALLOW_METHODS, methods),
                (header::ACCESS_CONTROL_ALLOW_HEADERS, ANY),
            ];
            (StatusCode::NO_CONTENT, head).into_response()
        }
        _ => super::super::only("GET"),
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    response
}
