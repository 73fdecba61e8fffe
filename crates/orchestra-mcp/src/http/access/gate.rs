//! What stands before routes: a request goes on, waits until its token was looked at, or is answered
//! here.

use std::{
    future::ready,
    mem,
    task::{Context, Poll},
};

use axum::{
    body::HttpBody as _,
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Either, Map},
};
use tower_layer::Layer;
use tower_service::Service;

use super::{Access, Admission, Asks, Proof, cors};
use crate::http::Refused;

type Answered<E> = Result<Response, E>;

/// What is done with an answer last.
type Finish<E> = fn(Answered<E>) -> Answered<E>;

/// What stands before a route.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) access: Access,
    pub(super) asks: Asks,
}

/// A route behind its gate.
#[derive(Clone)]
pub(super) struct Gated<S> {
    gate: Gate,
    route: S,
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, route: S) -> Gated<S> {
        let gate = self.clone();
        Gated { gate, route }
    }
}

impl<S> Service<Request> for Gated<S>
where
    S: Service<Request, Response = Response> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    /// Nearly every request is let in and read by no page: only the others cost an allocation.
    type Future = Either<Map<S::Future, Finish<S::Error>>, BoxFuture<'static, Answered<S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.route.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let Gate { access, asks } = &self.gate;
        let has_body = !request.body().is_end_stream();
        let finish: Finish<S::Error> = match has_body {
            true => |answered| answered.map(close_if_unread),
            false => |answered| answered,
        };
        if access.has_admitted(&request, *asks) {
            return Either::Left(self.route.call(request).map(finish));
        }
        match access.admit(&mut request, *asks) {
            Admission::LetIn(None, Proof::Lasting) => {
                Either::Left(self.route.call(request).map(finish))
            }
            Admission::LetIn(page, proof) => {
                let access = access.clone();
                let running = self.route.call(request);
                Either::Right(Box::pin(async move {
                    let mut response = access.bounded(finish(running.await)?, proof, has_body);
                    if let Some(page) = page {
                        cors::allow(response.headers_mut(), page);
                    }
                    Ok(response)
                }))
            }
            Admission::Waits(unseen, page) => {
                let Gate { access, asks } = self.gate.clone();
                // The one that is ready.
                let other = self.route.clone();
                let mut route = mem::replace(&mut self.route, other);
                Either::Right(Box::pin(async move {
                    let mut response = match access.look_at(unseen).await {
                        Ok((identity, proof)) => {
                            access.let_in(&mut request, asks, identity);
                            access.bounded(finish(route.call(request).await)?, proof, has_body)
                        }
                        Err(refused) => last_if(has_body, *refused),
                    };
                    if let Some(page) = page {
                        cors::allow(response.headers_mut(), page);
                    }
                    Ok(response)
                }))
            }
            Admission::Answered(response) => {
                let response = last_if(has_body, *response);
                Either::Right(Box::pin(ready(Ok(response))))
            }
        }
    }
}

/// The answer of a route to a request with a body. Those that routes give before they read it say
/// so, or have one of these statuses.
fn close_if_unread(response: Response) -> Response {
    let unread = response.extensions().get::<Refused>().is_some()
        || matches!(
            response.status(),
            StatusCode::METHOD_NOT_ALLOWED
                | StatusCode::NOT_ACCEPTABLE
                | StatusCode::REQUEST_TIMEOUT
                | StatusCode::PAYLOAD_TOO_LARGE
                | StatusCode::UNSUPPORTED_MEDIA_TYPE
                | StatusCode::SERVICE_UNAVAILABLE
        );
    last_if(unread, response)
}

/// An answer after which the connection ends when the body that came with the request is left
/// unread: what is sent next would have to wait behind it (RFC 9112, section 9.6).
pub(super) fn last_if(has_body: bool, mut response: Response) -> Response {
    if has_body {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}
