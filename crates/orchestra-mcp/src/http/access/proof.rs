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
    /// The connection, or the own token: valid for as long as the program runs.
    Lasting,
    /// The token at this place.
    Token(usize),
    /// The login of a browser with the token at this place.
    Login(LastingLogin, usize),
    /// A token of an issuer.
    Issued(Vec<u8>),
}

impl Proof {
    pub(super) const fn is_lasting(&self) -> bool {
        matches!(self, Self::Lasting)
    }
}

impl Access {
    /// Has a stream in an answer end with the proof of its request. The answer to a request with a body has an end of its
    /// own, and outlasts a token that expires: its client was allowed to begin the call, and may have another token by now.
    pub(super) fn bounded(&self, response: Response, proof: Proof, has_body: bool) -> Response {
        let is_stream = response.body().size_hint().exact().is_none();
        let is_endless = !has_body || response.extensions().get::<Endless>().is_some();
        let outlasts = !is_endless && matches!(proof, Proof::Issued(_));
        if !is_stream || outlasts || proof.is_lasting() {
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
            (Proof::Token(holder), _) => self.removed(holder).await,
            (Proof::Login(login, holder), _) => tokio::select! {
                () = self.0.logins.ended(&login) => {}
                () = self.removed(holder) => {}
            },
            (Proof::Issued(token), Some(oauth)) => oauth.ended(&token).await,
            (Proof::Lasting | Proof::Issued(_), _) => pending().await,
        }
        tracing::debug!("an event stream ended with the login or the token of its client");
    }

    /// Completes when the token at a place admits its caller no longer.
    async fn removed(&self, holder: usize) {
        let mut holders = self.0.holders.subscribe();
        // The sender of the list is not dropped before this access.
        let _ = holders.wait_for(|holders| !holders.admits(holder)).await;
    }
}
