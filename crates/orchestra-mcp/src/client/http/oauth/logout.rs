//! Signing out: tokens are taken back by whoever gave them out, where that is possible (RFC 7009),
//! and forgotten here whatever comes of that.

use std::{io, sync::Arc};

use tokio::task::spawn_blocking;

use super::{
    OAuth, OAuthConfig, TokenStore, discovery, kept_under,
    keys::ProofKey,
    record::Record,
    tokens::{Desk, NoToken},
};
use crate::client::{
    ClientError,
    http::config::{Auth, HttpConfig},
};

/// What became of a sign-in that was forgotten.
#[derive(Debug)]
pub enum SignedOut {
    /// Nothing was kept of one.
    Nothing,
    /// Its authorization server has taken its tokens back.
    Revoked,
    /// Its authorization server takes no tokens back: they are good until they lapse.
    NotRevocable,
    /// Its tokens could not be taken back, and are good until they lapse.
    NotRevoked(ClientError),
}

/// Has the tokens of a sign-in taken back, and forgets them. `config.auth` says who we are there; any
/// other way than OAuth counts as [`OAuthConfig::new`] with `store`.
///
/// # Errors
/// When what is kept cannot be removed. That tokens could not be taken back is no error: they are
/// forgotten all the same.
pub async fn logout(mut config: HttpConfig, store: Arc<dyn TokenStore>) -> io::Result<SignedOut> {
    let server = kept_under(&config);
    let oauth = match std::mem::take(&mut config.auth) {
        Auth::OAuth(oauth) => *oauth,
        _ => OAuthConfig::new(Arc::clone(&store)),
    };
    // Nobody renews meanwhile what is taken back here.
    let (locks, name) = (Arc::clone(&store), server.clone());
    let _lock = off_thread(move || locks.lock(&name)).await?;
    let (loads, name) = (Arc::clone(&store), server.clone());
    let kept = off_thread(move || loads.load(&name)).await?;
    let ended = match kept {
        None => SignedOut::Nothing,
        Some(text) => match Record::parse(&text) {
            None => SignedOut::NotRevocable,
            Some(record) => match revoke(&config, oauth, record).await {
                Ok(true) => SignedOut::Revoked,
                Ok(false) => SignedOut::NotRevocable,
                Err(error) => SignedOut::NotRevoked(error),
            },
        },
    };
    off_thread(move || store.forget(&server)).await?;
    Ok(ended)
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Has the tokens of a record taken back; whether that is possible at all.
async fn revoke(
    config: &HttpConfig,
    oauth: OAuthConfig,
    record: Record,
) -> Result<bool, ClientError> {
    let Some(token) = &record.token else {
        return Ok(false);
    };
    let oauth = OAuth::new(config, oauth)?;
    let Some(place) = discovery::revocation(&oauth.asks, &record.issuer).await? else {
        return Ok(false);
    };
    let key = record.key.as_deref().and_then(ProofKey::from_text);
    let proof = oauth.client_proof();
    let desk = Desk {
        asks: &oauth.asks,
        url: &place.url,
        issuer: &record.issuer,
        // Where it does not say, as where tokens are given out.
        methods: place.methods.as_deref().or(record.methods.as_deref()),
        client: &record.client,
        proof: &proof,
        secrets: &*oauth.secrets,
        key: key.as_ref(),
    };
    if let Some(refresh) = &token.refresh {
        take_back(&desk, refresh, "refresh_token").await?;
    }
    match take_back(&desk, &token.access, "access_token").await {
        // Without the other it lapses soon, and not every server can take it back (RFC 7009,
        // section 2).
        Err(_) if token.refresh.is_some() => {}
        done => done?,
    }
    Ok(true)
}

async fn take_back(desk: &Desk<'_>, token: &str, kind: &str) -> Result<(), ClientError> {
    let fields = [("token", token), ("token_type_hint", kind)];
    match desk.ask(&fields).await {
        Ok(_) => Ok(()),
        Err(NoToken::Spent(error) | NoToken::Other(error)) => Err(error),
    }
}
