//! Who is let in.

use std::sync::Arc;

use tonic::{Request, Status, service::Interceptor};

use super::{door::Visitor, endpoint::Token};

/// Lets in who shows the token.
#[derive(Debug, Clone)]
pub(crate) struct Guard(Option<Token>);

impl Guard {
    /// Lets everybody in where there is no token.
    pub(crate) const fn new(token: Option<Token>) -> Self {
        Self(token)
    }
}

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let visitor = request.extensions().get::<Arc<Visitor>>();
        let is_let_in = || visitor.map_or((), |visitor| visitor.is_let_in());
        let Some(token) = &self.0 else {
            is_let_in();
            return Ok(request);
        };
        let shown = request.metadata().get("authorization");
        match shown {
            Some(value) if token.is_shown_by(value.as_bytes()) => {
                is_let_in();
                Ok(request)
            }
            Some(_) => Err(Status::unauthenticated(
                "the token is not that of this engine; `orchestra token --engine` prints it in its \
                 workspace, and another one after each start",
            )),
            None => Err(Status::unauthenticated(
                "no token: send the metadata `authorization: Bearer TOKEN` with the token that \
                 `orchestra token --engine` prints in the workspace, or start the engine with --no-token",
            )),
        }
    }
}
