//! A cookie for browsers, whose event streams cannot show a token.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{Extensions, HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use orchestra_mcp::http::LoginError;
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
    /// A token that the program accepts.
    token: String,
}

/// Logs in a browser: the response to a valid token sets a session cookie.
#[utoipa::path(
    post, path = "/api/login", tag = "login",
    request_body(content = Login, description = "The token."),
    responses((status = 204, description = "Login succeeded. The response sets a session cookie."), CallRefusals)
)]
async fn login(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    extensions: Extensions,
    Json(Login { token }): Json<Login>,
) -> Result<Response, Refusal> {
    let access = &site.face.options().access;
    let reason = match access.log_in(&headers, &extensions, &token) {
        Ok(Some(cookie)) => {
            let head = [(header::SET_COOKIE, cookie)];
            return Ok((StatusCode::NO_CONTENT, head).into_response());
        }
        Ok(None) => {
            let text = "cannot create a login: the system returned no random bytes";
            return Err(Refusal::new(Reason::Busy, text.to_owned()));
        }
        Err(error @ LoginError::Wrong) => Refusal::new(Reason::Stranger, error.to_string()),
        Err(error @ LoginError::TooMany { wait }) => {
            Refusal::new(Reason::Greedy, error.to_string()).after(wait)
        }
    };
    Err(reason)
}

/// Logs out a browser: its session ends, and the cookie becomes invalid.
#[utoipa::path(
    post, path = "/api/logout", tag = "login",
    responses((status = 204, description = "The session ended."), Refusals)
)]
async fn logout(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    extensions: Extensions,
) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let access = &site.face.options().access;
    if let Some(cookie) = access.log_out(&headers, &extensions) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
