//! A cookie for browsers, whose event streams cannot show a token.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde::Deserialize;

use crate::{
    app::Site,
    refusal::{Reason, Refusal},
};

pub(crate) fn routes() -> Router<Arc<Site>> {
    Router::new()
        .route("/api/login", post(login))
        .route("/api/logout", post(logout))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

async fn login(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    Json(Login { token }): Json<Login>,
) -> Result<Response, Refusal> {
    let access = &site.face.options().access;
    match access.cookie(&headers, &token) {
        Some(cookie) => {
            Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
        }
        None => Err(Refusal::new(
            Reason::Stranger,
            "this is not one of the tokens that the program was started with".to_owned(),
        )),
    }
}

async fn logout(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(cookie) = site.face.options().access.no_cookie(&headers) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
