//! Proofs of who makes a request, and when they end: a stream of the answer ends with the proof.

use std::future::pending;

use axum::{
    body::{Body, HttpBody as _},
    response::Response,
};
use futures_util::StreamExt as _;

use super::{Access, cookie::LastingLogin};
use crate::http::Endless;

/// Proof of who makes a request.
#[derive(Debug, Clone)]
pub(super) enum Proof {
    /// The connection, or a token of the rules: valid for as long as the program runs.
    Lasting,
    /// The login of a browser.
    Login(LastingLogin),
    /// A token of an issuer.
    Issued(Vec<u8>),
}

impl Proof {
    pub(super) const fn is_lasting(&self) -> bool {
        matches!(self, Self::Lasting)
    }
}

impl Access {
    /// Has a stream in an answer that has no end of its own end with the proof of its request. The answer to a request
    /// with a body ends with the call that it began, which its client was allowed to begin.
    pub(super) fn bounded(&self, response: Response, proof: Proof, has_body: bool) -> Response {
        let is_stream = response.body().size_hint().exact().is_none();
        let is_endless = !has_body || response.extensions().get::<Endless>().is_some();
        if !(is_stream && is_endless) || proof.is_lasting() {
            return response;
        }
        let access = self.clone();
        response.map(|body| {
            let ended = Box::pin(async move { access.ended(proof).await });
            Body::from_stream(body.into_data_stream().take_until(ended))
        })
    }

    /// Completes when a proof no longer admits a request.
    async fn ended(&self, proof: Proof) {
        match (proof, &self.0.rules.oauth) {
            (Proof::Login(login), _) => self.0.logins.ended(&login).await,
            (Proof::Issued(token), Some(oauth)) => oauth.ended(&token).await,
            (Proof::Lasting | Proof::Issued(_), _) => pending().await,
        }
        tracing::debug!("an event stream ended with the login or the token of its client");
    }
}
