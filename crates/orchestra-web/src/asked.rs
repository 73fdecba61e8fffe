//! What a request asks: its path, its query and its body, refused in the form of REST where they
//! cannot be understood.

use axum::{
    extract::{self, FromRequest, FromRequestParts, Request, rejection::JsonRejection},
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;

use crate::refusal::{Reason, Refusal};

/// What stands in the path.
pub(crate) struct Path<T>(pub(crate) T);

/// What stands in the query.
pub(crate) struct Query<T>(pub(crate) T);

/// A short body of JSON.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match extract::Path::from_request_parts(parts, state).await {
            Ok(extract::Path(path)) => Ok(Self(path)),
            Err(error) => Err(Refusal::new(Reason::Malformed, error.body_text())),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match extract::Query::from_request_parts(parts, state).await {
            Ok(extract::Query(query)) => Ok(Self(query)),
            Err(error) => Err(Refusal::new(Reason::Malformed, error.body_text())),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        match extract::Json::from_request(request, state).await {
            Ok(extract::Json(body)) => Ok(Self(body)),
            Err(error) => Err(Refusal::new(reason(&error), error.body_text())),
        }
    }
}

fn reason(error: &JsonRejection) -> Reason {
    match error {
        JsonRejection::MissingJsonContentType(_) => Reason::NotJson,
        error if error.status() == StatusCode::PAYLOAD_TOO_LARGE => Reason::Large,
        _ => Reason::Malformed,
    }
}
