//! OAuth 2.1 as a resource server: lets in whoever shows an access token that a trusted issuer gave
//! out for this resource, and tells others where to get one (MCP 2026-07-28, authorization; RFC
//! 6750, RFC 9728).
//!
//! A token is a JSON Web Token. It is taken apart (`jwt`), looked at with the keys of its issuer
//! (`keys`, `issuer`, `fetch`), and remembered until it ends (`verified`). Neither tokens nor what
//! they say is ever shown or logged.

mod fetch;
mod issuer;
mod jwt;
mod keys;
mod names;
mod verified;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use super::retry_after;
use crate::http::refuse;
pub use fetch::ClientError;
use issuer::Issuer;
pub use issuer::KeyTimes;
use jwt::Jwt;
pub use names::{KeysUrl, OAuthNameError, Scope, ServiceUrl};
use verified::{TokenDigest, Tokens, Verified};

/// Where a resource says who gives out tokens for it (RFC 9728, section 3).
const PROTECTED_RESOURCE: &str = "oauth-protected-resource";

/// How far the clock of an issuer may differ from ours.
const LEEWAY: Duration = Duration::from_secs(60);

/// How often the token of an open stream is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What an [`OAuth`] is made of.
#[derive(Debug, Clone)]
pub struct OAuthRules {
    /// The URL under which clients reach MCP here, which tokens must name as their audience.
    pub resource: ServiceUrl,
    /// What else issuers may call it in that place.
    pub audiences: Vec<String>,
    /// Whose tokens are trusted.
    pub issuers: Vec<TrustedIssuer>,
    /// What a token must be good for, all of it.
    pub scopes: Vec<Scope>,
    /// How far the clock of an issuer may differ from ours.
    pub leeway: Duration,
    /// When issuers are asked for their keys.
    pub times: KeyTimes,
}

/// Whose tokens are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// Its name, as it stands in its tokens to the letter.
    pub url: ServiceUrl,
    /// Where its keys are, if not where it says itself.
    pub keys: Option<KeysUrl>,
}

/// Why there is no [`OAuth`] of some rules.
#[derive(Debug, thiserror::Error)]
pub enum OAuthError {
    /// The path of the resource has segments that routes cannot have.
    #[error("a part of the path of {0} begins with `:` or `*`; use a path without such parts")]
    Path(Box<ServiceUrl>),
    /// Nobody is trusted.
    #[error("no trusted issuer is configured")]
    NoIssuer,
    /// An issuer is named twice.
    #[error("the issuer {0} is named twice")]
    Twice(Box<ServiceUrl>),
    /// Nobody can be asked for keys.
    #[error("cannot fetch the keys of issuer {issuer}")]
    Client {
        /// Who would be asked.
        issuer: Box<ServiceUrl>,
        /// Why not.
        source: ClientError,
    },
}

/// Lets in whoever shows an access token for this resource. Clones share what they know.
#[derive(Clone)]
pub struct OAuth(Arc<Inner>);

struct Inner {
    expected: Expected,
    issuers: Vec<Issuer>,
    tokens: Tokens,
    metadata: Bytes,
    metadata_url: String,
}

/// What a token must say.
#[derive(Debug)]
struct Expected {
    resource: ServiceUrl,
    audiences: Vec<String>,
    scopes: Vec<Scope>,
    leeway: Duration,
}

/// Somebody of an issuer, by the program that they use. Only what tells them apart is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Who it is.
    user: [u8; 16],
    /// By which program.
    client: [u8; 16],
}

/// Why a token lets nobody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Denied {
    #[error("this token is not valid")]
    Malformed,
    #[error("the signature algorithm of this token is not accepted")]
    Algorithm,
    #[error("token has an unsupported critical header parameter")]
    Critical,
    #[error("this token is not an access token")]
    Type,
    #[error("this token is bound to a key (`cnf`), which is not supported")]
    Bound,
    #[error("the subject of this token is empty")]
    Subject,
    #[error("the issuer of this token is not trusted")]
    Issuer,
    #[error("the audience of this token is another resource")]
    Audience,
    #[error("this token has expired")]
    Expired,
    #[error("this token is not valid yet")]
    Early,
    #[error("this token is signed with a key that its issuer does not publish")]
    Key,
    #[error("the signature of this token is invalid")]
    Signature,
    #[error("this token lacks a required scope")]
    Scope,
    #[error("the keys of this token's issuer cannot be fetched; try again in a moment")]
    Unreachable(Duration),
}

impl OAuthRules {
    /// Rules for a resource and its issuer, which says where its keys are; no scope is asked for.
    #[must_use]
    pub fn new(resource: ServiceUrl, issuer: ServiceUrl) -> Self {
        Self {
            resource,
            audiences: Vec::new(),
            issuers: vec![TrustedIssuer {
                url: issuer,
                keys: None,
            }],
            scopes: Vec::new(),
            leeway: LEEWAY,
            times: KeyTimes::default(),
        }
    }
}

impl OAuth {
    /// What lets in whom the rules say. Issuers are asked for their keys when somebody comes with a
    /// token of theirs.
    ///
    /// # Errors
    /// When nobody is trusted, somebody is twice, the resource has a path that cannot be served, or this machine knows no certificates by which an
    /// issuer could be known.
    pub fn new(rules: OAuthRules) -> Result<Self, OAuthError> {
        let mut issuers = Vec::new();
        for (place, trusted) in rules.issuers.iter().enumerate() {
            let others = &rules.issuers[..place];
            if others.iter().any(|other| other.url == trusted.url) {
                return Err(OAuthError::Twice(trusted.url.clone().into()));
            }
            let issuer = Issuer::new(trusted.clone(), rules.times);
            issuers.push(issuer.map_err(|source| OAuthError::Client {
                issuer: trusted.url.clone().into(),
                source,
            })?);
        }
        if issuers.is_empty() {
            return Err(OAuthError::NoIssuer);
        }
        if !rules.resource.can_be_routed() {
            return Err(OAuthError::Path(rules.resource.clone().into()));
        }
        Ok(Self(Arc::new(Inner {
            metadata: metadata(&rules).into(),
            metadata_url: rules.resource.well_known(PROTECTED_RESOURCE).into(),
            expected: Expected {
                resource: rules.resource,
                audiences: rules.audiences,
                scopes: rules.scopes,
                leeway: rules.leeway,
            },
            issuers,
            tokens: Tokens::default(),
        })))
    }

    /// Who shows a token, if it was verified a moment ago.
    pub(super) fn known(&self, token: &[u8]) -> Option<Subject> {
        let verified = self
            .0
            .tokens
            .find(TokenDigest::of(token), SystemTime::now())?;
        // Asks for new keys when these are old: an issuer may have taken one back.
        let held = self.0.issuers[verified.issuer].held(Instant::now())?;
        (held.edition == verified.edition).then_some(verified.subject)
    }

    /// Who shows a token, or the answer that refuses it.
    pub(super) async fn verify(&self, token: &[u8]) -> Result<Subject, Box<Response>> {
        let verified = self.look_at(token).await;
        verified.map_err(|denied| {
            tracing::debug!(%denied, "token refused");
            Box::new(self.refusal(denied))
        })
    }

    /// Completes when a token that was verified admits nobody any more: it has expired, or its issuer
    /// no longer publishes the key. May be cancelled.
    pub(super) async fn ended(&self, token: &[u8]) {
        loop {
            let now = SystemTime::now();
            let verified = self.0.tokens.find(TokenDigest::of(token), now);
            let left = verified.and_then(|verified| verified.end.duration_since(now).ok());
            let is_known = left.is_some() && self.known(token).is_some();
            if !is_known {
                match self.look_at(token).await {
                    // It cannot be known that the token has ended.
                    Ok(_) | Err(Denied::Unreachable(_)) => {}
                    Err(denied) => return tracing::debug!(%denied, "token has ended"),
                }
            }
            sleep(left.unwrap_or(LOOK).min(LOOK)).await;
        }
    }

    async fn look_at(&self, token: &[u8]) -> Result<Subject, Denied> {
        let expected = &self.0.expected;
        let parsed = Jwt::parse(token)?;
        let claims = parsed.claims();
        let issuer = self.0.issuers.iter().position(|one| one.is(&claims.iss));
        let issuer = issuer.ok_or(Denied::Issuer)?;
        // Whatever is of no use anyway makes us ask nobody.
        claims.check(expected, SystemTime::now())?;
        let held = self.0.issuers[issuer].keys_for(&parsed).await?;
        if !parsed.is_signed_by(&held.keys) {
            return Err(Denied::Signature);
        }
        claims.check_scopes(expected)?;
        let subject = Subject::of(&claims.iss, &claims.sub, claims.client());
        if let Some(end) = claims.end(expected.leeway) {
            let verified = Verified {
                subject,
                issuer,
                edition: held.edition,
                end,
            };
            let digest = TokenDigest::of(token);
            self.0.tokens.keep(digest, verified, SystemTime::now());
        }
        Ok(subject)
    }

    /// The answer to whoever has shown no token.
    pub(super) fn ask(&self, text: &str) -> Response {
        self.challenge(StatusCode::UNAUTHORIZED, text, None)
    }

    fn refusal(&self, denied: Denied) -> Response {
        let text = denied.to_string();
        match denied {
            Denied::Unreachable(wait) => {
                let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, &text);
                retry_after(&mut response, wait);
                response
            }
            Denied::Scope => {
                self.challenge(StatusCode::FORBIDDEN, &text, Some("insufficient_scope"))
            }
            _ => self.challenge(StatusCode::UNAUTHORIZED, &text, Some("invalid_token")),
        }
    }

    /// A refusal that says where to get a token, and of what kind (RFC 6750, section 3; RFC 9728,
    /// section 5.1).
    fn challenge(&self, status: StatusCode, text: &str, error: Option<&str>) -> Response {
        let mut challenge = "Bearer realm=\"orchestra\"".to_owned();
        let mut say = |name: &str, value: &str| {
            challenge.push_str(&format!(", {name}=\"{value}\""));
        };
        if let Some(error) = error {
            say("error", error);
            say("error_description", text);
        }
        say("resource_metadata", &self.0.metadata_url);
        if !self.0.expected.scopes.is_empty() {
            say("scope", &joined(&self.0.expected.scopes));
        }
        let mut response = refuse(status, text);
        let challenge = HeaderValue::try_from(challenge).expect("names and texts are plain ASCII");
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, challenge);
        response
    }

    /// The document that says who gives out tokens.
    pub(super) fn metadata(&self) -> Bytes {
        self.0.metadata.clone()
    }

    /// The paths of the document: behind the name of what is well known the path of the resource,
    /// and without it for clients that do not know that path.
    pub(super) fn metadata_paths(&self) -> Vec<String> {
        let root = format!("/.well-known/{PROTECTED_RESOURCE}");
        let own = format!("{root}{}", self.0.expected.resource.path());
        let mut paths = vec![root, own];
        paths.dedup();
        paths
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OAuth").field(&self.0.expected).finish()
    }
}

impl Expected {
    fn is_for_us(&self, name: &str) -> bool {
        self.audiences.iter().any(|audience| audience == name) || self.resource.is(name)
    }
}

impl Subject {
    pub(super) fn of(issuer: &str, subject: &str, client: Option<&str>) -> Self {
        // Each part with its length, so that no two people are written alike.
        let digest = |parts: &[&str]| {
            let mut digest = Sha256::new();
            for part in parts {
                digest.update(part.len().to_be_bytes());
                digest.update(part);
            }
            let digest: [u8; 32] = digest.finalize().into();
            let (half, _) = digest.split_first_chunk().expect("it has 32 bytes");
            *half
        };
        Self {
            user: digest(&[issuer, subject]),
            client: digest(client.as_slice()),
        }
    }

    /// Who it is, by whichever program.
    pub(super) const fn user(self) -> [u8; 16] {
        self.user
    }

    /// The same user, by no program in particular.
    pub(super) const fn by_any_program(self) -> Self {
        Self {
            user: self.user,
            client: [0; 16],
        }
    }

    /// What tells it from all others.
    pub(crate) fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.user);
        bytes[16..].copy_from_slice(&self.client);
        bytes
    }
}

/// What a resource says of itself (RFC 9728, section 2).
fn metadata(rules: &OAuthRules) -> String {
    let issuers: Vec<&str> = rules.issuers.iter().map(|one| one.url.as_str()).collect();
    let mut metadata = json!({
        "resource": rules.resource.as_str(),
        "authorization_servers": issuers,
        "bearer_methods_supported": ["header"],
        "resource_name": "Orchestra",
    });
    if !rules.scopes.is_empty() {
        let scopes: Vec<&str> = rules.scopes.iter().map(Scope::as_str).collect();
        metadata["scopes_supported"] = json!(scopes);
    }
    metadata.to_string()
}

fn joined(scopes: &[Scope]) -> String {
    let scopes: Vec<&str> = scopes.iter().map(Scope::as_str).collect();
    scopes.join(" ")
}
