//! Asks an issuer for its keys, over HTTP and within bounds.

use std::{sync::Arc, time::Duration};

use reqwest::{Client, StatusCode, Url, header, redirect};
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde::Deserialize;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, crypto::ring};

use super::{
    TrustedIssuer,
    keys::{Keys, KeysError},
    names::{KeysUrl, is_local},
};

/// The most bytes of a document: the keys of real issuers have some thousand.
const MOST_BYTES: usize = 256 * 1024;

/// How long one answer may take, from the connection to its last byte.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Where issuers say what they are (RFC 8414, section 3).
const AUTHORIZATION_SERVER: &str = "oauth-authorization-server";

/// The same of `OpenID` Connect.
const OPENID: &str = "openid-configuration";

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("cannot send a request to {url}")]
    Ask {
        url: Url,
        #[source]
        source: reqwest::Error,
    },
    #[error("{url} returned status {status}")]
    Status { url: Url, status: StatusCode },
    #[error("the response of {0} exceeds {MOST_BYTES} bytes")]
    Long(Url),
    #[error("the response of {url} is not the metadata of an authorization server (RFC 8414)")]
    Description {
        url: Url,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "the metadata at {0} names another issuer than the configured one; correct the configured issuer"
    )]
    Other(Url),
    #[error("the metadata at {0} has no `jwks_uri` with https")]
    Place(Url),
    #[error("the keys at {url} cannot be used")]
    Keys {
        url: Url,
        #[source]
        source: KeysError,
    },
    #[error("the request timed out")]
    Slow,
}

/// What an issuer says of itself.
#[derive(Deserialize)]
struct Description {
    issuer: String,
    jwks_uri: Option<String>,
}

/// What asks an issuer.
///
/// # Errors
/// When this machine knows no certificates to trust, although the issuer has to show one.
pub(super) fn client(issuer: &TrustedIssuer) -> Result<Client, ClientError> {
    let url = issuer.keys.as_ref().map_or(issuer.url.url(), KeysUrl::url);
    let config = || {
        let provider = Arc::new(ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(ClientError::Tls)
    };
    let trusting = match config()?.with_platform_verifier() {
        Ok(trusting) => trusting,
        Err(_) if url.scheme() == "http" => {
            config()?.with_root_certificates(RootCertStore::empty())
        }
        Err(error) => return Err(ClientError::Tls(error)),
    };
    let mut client = Client::builder()
        .tls_backend_preconfigured(trusting.with_no_client_auth())
        .timeout(ANSWER_TIME)
        // Who is asked is who was named.
        .redirect(redirect::Policy::none())
        .user_agent(concat!("orchestra/", env!("CARGO_PKG_VERSION")));
    if is_local(url) {
        // No proxy leads to this machine.
        client = client.no_proxy();
    }
    client.build().map_err(ClientError::Client)
}

/// Why nobody can be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// TLS cannot be set up.
    #[error("the system has no root certificates to verify issuers")]
    Tls(#[source] rustls::Error),
    /// The client cannot be made.
    #[error("cannot create an HTTP client")]
    Client(#[source] reqwest::Error),
}

/// The keys of an issuer, from where it says that they are, or where the configuration does.
pub(super) async fn keys(client: &Client, issuer: &TrustedIssuer) -> Result<Keys, FetchError> {
    let url = match &issuer.keys {
        Some(place) => place.url().clone(),
        None => place(client, issuer).await?,
    };
    let document = document(client, &url).await?;
    Keys::parse(&document).map_err(|source| FetchError::Keys { url, source })
}

/// Where the issuer says that its keys are. The places where it may say so are tried in turn.
async fn place(client: &Client, issuer: &TrustedIssuer) -> Result<Url, FetchError> {
    let named = issuer.url.without_last_slash();
    let mut places = vec![
        named.well_known(AUTHORIZATION_SERVER),
        named.well_known(OPENID),
        named.well_known_behind(OPENID),
    ];
    places.dedup();
    let mut first = None;
    for url in places {
        match described(client, issuer, url).await {
            Ok(place) => return Ok(place),
            // Whoever cannot be reached at one place cannot at the next.
            Err(error @ FetchError::Ask { .. }) => return Err(error),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.expect("there is at least one place"))
}

async fn described(client: &Client, issuer: &TrustedIssuer, url: Url) -> Result<Url, FetchError> {
    let document = document(client, &url).await?;
    let description: Description = match serde_json::from_slice(&document) {
        Ok(description) => description,
        Err(source) => return Err(FetchError::Description { url, source }),
    };
    // To the letter (RFC 8414, section 3.3).
    if description.issuer != issuer.url.as_str() {
        return Err(FetchError::Other(url));
    }
    let place = description.jwks_uri.and_then(|place| place.parse().ok());
    // Others do not make us ask this machine.
    let may_be_local = is_local(issuer.url.url());
    let place = place.filter(|place: &KeysUrl| may_be_local || !is_local(place.url()));
    place
        .map(|place| place.url().clone())
        .ok_or(FetchError::Place(url))
}

/// A document, as far as it is within the bounds.
async fn document(client: &Client, url: &Url) -> Result<Vec<u8>, FetchError> {
    let failed = |source| FetchError::Ask {
        url: url.clone(),
        source,
    };
    let request = client
        .get(url.clone())
        .header(header::ACCEPT, "application/json, application/jwk-set+json");
    let mut response = request.send().await.map_err(failed)?;
    let status = response.status();
    if status != StatusCode::OK {
        let url = url.clone();
        return Err(FetchError::Status { url, status });
    }
    let mut document = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if document.len() + chunk.len() > MOST_BYTES {
            return Err(FetchError::Long(url.clone()));
        }
        document.extend_from_slice(&chunk);
    }
    Ok(document)
}
