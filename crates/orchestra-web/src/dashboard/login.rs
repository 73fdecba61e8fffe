//! A cookie for browsers, whose event streams cannot show a token.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::Site,
    asked::Json,
    refusal::{CallRefusals, Reason, Refusal, Refusals},
};

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::default()
        .routes(routes!(login))
        .routes(routes!(logout))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Login {
    /// One of those that the program was started with.
    token: String,
}

/// Gives a browser a cookie for a token.
#[utoipa::path(
    post, path = "/api/login", tag = "login",
    request_body(content = Login, description = "The token."),
    responses((status = 204, description = "A cookie that stands for the token."), CallRefusals)
)]
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

/// Ends the cookie.
#[utoipa::path(
    post, path = "/api/logout", tag = "login",
    responses((status = 204, description = "The cookie is over."), Refusals)
)]
async fn logout(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(cookie) = site.face.options().access.no_cookie(&headers) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
