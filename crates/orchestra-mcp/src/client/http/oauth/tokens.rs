//! Asks an authorization server for tokens, and to be known to it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::{
    Method, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    ClientProof, OAuthConfig,
    ask::{Asks, Told, encoded_value, excerpt, refused, shown},
    discovery::Found,
    keys::{KeyError, ProofKey, SigningKey},
    record::{Registered, Token},
};
use crate::client::{
    ClientError,
    http::template::{self, Secrets},
};

/// The proof that a request comes from whoever holds the key.
pub(super) const PROOF: HeaderName = HeaderName::from_static("dpop");
/// What the next proof is to hold.
pub(super) const NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// One place that gives out tokens, and who we are there.
pub(super) struct Desk<'a> {
    pub(super) asks: &'a Asks,
    pub(super) url: &'a Url,
    pub(super) issuer: &'a str,
    pub(super) methods: Option<&'a [String]>,
    pub(super) client: &'a Registered,
    pub(super) proof: &'a ClientProof,
    pub(super) secrets: &'a dyn Secrets,
    /// The key that tokens are to be bound to.
    pub(super) key: Option<&'a ProofKey>,
}

/// Fields of a form.
type Fields = Vec<(&'static str, String)>;

/// Why there is no token.
pub(super) enum NoToken {
    /// What it was asked by is good no more.
    Spent(ClientError),
    Other(ClientError),
}

impl From<ClientError> for NoToken {
    fn from(error: ClientError) -> Self {
        Self::Other(error)
    }
}

impl From<NoToken> for ClientError {
    fn from(none: NoToken) -> Self {
        match none {
            NoToken::Spent(error) | NoToken::Other(error) => error,
        }
    }
}

/// What a token request brings.
#[derive(Deserialize)]
struct Given {
    access_token: String,
    #[serde(default)]
    token_type: String,
    expires_in: Option<f64>,
    refresh_token: Option<String>,
}

/// What a token request brings that is refused.
#[derive(Deserialize)]
struct NotGiven {
    error: String,
    #[serde(default)]
    error_description: String,
}

impl Desk<'_> {
    /// Asks for a token.
    pub(super) async fn token(&self, fields: &[(&str, &str)]) -> Result<Token, NoToken> {
        let told = self.ask(fields).await?;
        let given: Given = told.parse(self.url)?;
        if given.access_token.is_empty() {
            return Err(refused(self.url, "the token is empty").into());
        }
        let bound = given.token_type.eq_ignore_ascii_case("DPoP");
        if bound && self.key.is_none() {
            return Err(
                refused(self.url, "the token is bound to a key that we did not show").into(),
            );
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is clamped to some years"
        )]
        let seconds = |seconds: f64| seconds.clamp(0.0, 1e9) as u64;
        Ok(Token {
            access: given.access_token,
            bound,
            refresh: given.refresh_token,
            renew_at: given.expires_in.map(|after| Token::renewal(seconds(after))),
        })
    }

    /// Asks once, and once more with the nonce that is wanted (RFC 9449, section 8).
    pub(super) async fn ask(&self, fields: &[(&str, &str)]) -> Result<Told, NoToken> {
        let mut nonce = None;
        loop {
            let (mut headers, own) = self.who_we_are()?;
            if let Some(key) = self.key {
                let proof = key.proof(&Method::POST, self.url, nonce.as_deref(), None);
                let proof = proof.map_err(|error| unsigned(&error))?;
                let proof = HeaderValue::try_from(proof).expect("a token is visible characters");
                headers.insert(PROOF, proof);
            }
            let own = own.iter().map(|(name, value)| (*name, value.as_str()));
            let all: Vec<_> = fields.iter().copied().chain(own).collect();
            let told = self.asks.post_form(self.url, headers, &all).await?;
            if told.is_good() {
                return Ok(told);
            }
            let why: Option<NotGiven> = serde_json::from_slice(&told.body).ok();
            let error = why.as_ref().map_or("", |why| why.error.as_str());
            let wanted = told
                .headers
                .get(NONCE)
                .and_then(|value| value.to_str().ok());
            if let (None, "use_dpop_nonce", Some(wanted)) = (&nonce, error, wanted) {
                nonce = Some(wanted.to_owned());
                continue;
            }
            return Err(self.not_given(&told, why));
        }
    }

    fn not_given(&self, told: &Told, why: Option<NotGiven>) -> NoToken {
        if matches!(told.status, 429 | 500..=599) {
            let what = format!("{}: {}", shown(self.url), excerpt(told));
            return NoToken::Other(ClientError::Unreachable { what });
        }
        let Some(why) = why else {
            return NoToken::Other(refused(self.url, &excerpt(told)));
        };
        let text = format!("{}: {}", why.error, why.error_description);
        let text = orchestra_wire::shown(text.trim_end_matches([':', ' '])).into_owned();
        let error = refused(self.url, &text);
        match why.error.as_str() {
            "invalid_grant" | "invalid_client" | "unauthorized_client" => NoToken::Spent(error),
            _ => NoToken::Other(error),
        }
    }

    /// Headers and fields that say who we are.
    fn who_we_are(&self) -> Result<(HeaderMap, Fields), ClientError> {
        let mut headers = HeaderMap::new();
        let id = self.client.id.clone();
        if let ClientProof::Key { pem, algorithm } = self.proof {
            let pem = pem
                .expand(self.secrets)
                .map_err(|error| template::invalid("the key of the OAuth client", &error))?;
            let key = SigningKey::from_pem(&pem, algorithm).map_err(|error| unsigned(&error))?;
            let assertion = key.assertion(&id, self.issuer);
            let fields = vec![
                (
                    "client_assertion_type",
                    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer".to_owned(),
                ),
                (
                    "client_assertion",
                    assertion.map_err(|error| unsigned(&error))?,
                ),
                ("client_id", id),
            ];
            return Ok((headers, fields));
        }
        let secret = match self.proof {
            ClientProof::Secret(template) => Some(
                template
                    .expand(self.secrets)
                    .map_err(|error| template::invalid("the secret of the OAuth client", &error))?,
            ),
            _ => self.client.secret.clone(),
        };
        let Some(secret) = secret else {
            return Ok((headers, vec![("client_id", id)]));
        };
        match self.method() {
            "client_secret_basic" => {
                let pair = format!("{}:{}", encoded_value(&id), encoded_value(&secret));
                let value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)));
                let mut value = value.expect("Base64 is visible characters");
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
                Ok((headers, Vec::new()))
            }
            "client_secret_post" => {
                Ok((headers, vec![("client_id", id), ("client_secret", secret)]))
            }
            _ => Ok((headers, vec![("client_id", id)])),
        }
    }

    /// How a secret is shown: as it was agreed, or as is possible, best first.
    fn method(&self) -> &str {
        if let Some(method) = &self.client.method {
            return method;
        }
        let Some(methods) = self.methods else {
            return "client_secret_basic";
        };
        ["client_secret_basic", "client_secret_post", "none"]
            .into_iter()
            .find(|known| methods.iter().any(|method| method == known))
            .unwrap_or("client_secret_basic")
    }
}

/// A key that cannot be used.
pub(super) fn unsigned(error: &KeyError) -> ClientError {
    ClientError::InvalidConfig {
        what: format!("the key of the OAuth client: {error}"),
    }
}

/// Becomes known to an authorization server: as it was configured, by the URL of our description,
/// or by registering (MCP 2026-07-28, client registration; RFC 7591).
///
/// # Errors
/// When none of these is possible.
pub(super) async fn register(
    asks: &Asks,
    config: &OAuthConfig,
    found: &Found,
    callback: &str,
    scopes: &[String],
) -> Result<Registered, ClientError> {
    let named = |id: &str| Registered {
        id: id.to_owned(),
        secret: None,
        method: None,
        callback: None,
        by_us: false,
    };
    if let Some(client) = &config.client {
        return Ok(named(&client.id));
    }
    if let Some(document) = config
        .client_document
        .as_deref()
        .filter(|_| found.takes_documents)
    {
        return Ok(named(document));
    }
    let Some(place) = &found.registration else {
        return Err(ClientError::NeedsAuth {
            what: format!(
                "the authorization server {} registers nobody by itself; register a client there \
                 and set its id in `auth`",
                found.issuer
            ),
        });
    };
    let method = match &found.methods {
        Some(methods) if !methods.iter().any(|method| method == "none") => methods
            .iter()
            .find(|method| method.starts_with("client_secret_"))
            .map_or("client_secret_basic", String::as_str),
        _ => "none",
    };
    let mut wish = json!({
        "client_name": "Orchestra",
        "redirect_uris": [callback],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native",
    });
    if !scopes.is_empty() {
        wish["scope"] = json!(scopes.join(" "));
    }
    let told = asks.post_json(place, wish.to_string()).await?;
    if !told.is_good() {
        return Err(refused(
            place,
            &format!("it does not register us: {}", excerpt(&told)),
        ));
    }
    #[derive(Deserialize)]
    struct Answer {
        client_id: String,
        client_secret: Option<String>,
        token_endpoint_auth_method: Option<String>,
    }
    let answer: Answer = told.parse(place)?;
    Ok(Registered {
        id: answer.client_id,
        secret: answer.client_secret.filter(|secret| !secret.is_empty()),
        method: answer.token_endpoint_auth_method,
        callback: Some(callback.to_owned()),
        by_us: true,
    })
}
