//! An issuer of tokens on this machine, which does what it is told.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use super::RESOURCE;

/// What it answers when it is asked for its keys.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Json(String),
    Status(u16),
    Redirect(String),
    /// Nothing, until it is told to answer something else.
    Stall,
}

pub(crate) struct Issuer {
    address: SocketAddr,
    says: Arc<Says>,
    task: JoinHandle<()>,
}

struct Says {
    answer: watch::Sender<Answer>,
    asked: AtomicUsize,
    /// As OAuth and as `OpenID` Connect have it.
    descriptions: Mutex<[Option<Value>; 2]>,
}

/// A key of its own.
pub(crate) struct Key {
    id: String,
    pair: Pair,
}

enum Pair {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Key {
    pub(crate) fn p256(id: &str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap();
        Self {
            id: id.to_owned(),
            pair: Pair::P256(pair),
        }
    }

    pub(crate) fn ed25519(id: &str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap();
        Self {
            id: id.to_owned(),
            pair: Pair::Ed25519(pair),
        }
    }

    fn public(&self) -> &[u8] {
        match &self.pair {
            Pair::P256(pair) => pair.public_key().as_ref(),
            Pair::Ed25519(pair) => pair.public_key().as_ref(),
        }
    }

    fn published(&self) -> Value {
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let public = self.public();
        match self.pair {
            Pair::P256(_) => json!({
                "kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig",
                "x": encoded(&public[1..33]), "y": encoded(&public[33..])
            }),
            Pair::Ed25519(_) => json!({
                "kty": "OKP", "crv": "Ed25519", "kid": self.id, "alg": "EdDSA",
                "x": encoded(public)
            }),
        }
    }

    const fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::P256(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.pair {
            Pair::P256(pair) => {
                let signed = pair.sign(&SystemRandom::new(), message).unwrap();
                signed.as_ref().to_vec()
            }
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

/// The document with these keys.
pub(crate) fn published(keys: &[Key]) -> Value {
    let keys: Vec<Value> = keys.iter().map(Key::published).collect();
    json!({"keys": keys})
}

/// A part of a token.
pub(crate) fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

impl Issuer {
    pub(crate) async fn new(keys: &[Key]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let says = Arc::new(Says {
            answer: watch::Sender::new(Answer::Json(published(keys).to_string())),
            asked: AtomicUsize::new(0),
            descriptions: Mutex::default(),
        });
        let elsewhere = published(keys).to_string();
        let routes = Router::new()
            .route(
                "/.well-known/oauth-authorization-server/main",
                get(async |State(says): State<Arc<Says>>| description(&says, 0)),
            )
            .route(
                "/main/.well-known/openid-configuration",
                get(async |State(says): State<Arc<Says>>| description(&says, 1)),
            )
            .route("/keys", get(keys_of))
            .route("/elsewhere", get(async || elsewhere))
            .with_state(Arc::clone(&says));
        let task = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        let issuer = Self {
            address,
            says,
            task,
        };
        let description = json!({
            "issuer": issuer.url(),
            "jwks_uri": issuer.keys_url(),
            "response_types_supported": ["code"],
        });
        issuer.describe(Some(description), None);
        issuer
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/main", self.address)
    }

    pub(crate) fn keys_url(&self) -> String {
        format!("http://{}/keys", self.address)
    }

    /// How often it was asked for its keys.
    pub(crate) fn asked(&self) -> usize {
        self.says.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn publish(&self, keys: &[Key]) {
        self.answer(Answer::Json(published(keys).to_string()));
    }

    pub(crate) fn answer(&self, answer: Answer) {
        self.says.answer.send_replace(answer);
    }

    /// What it says of itself, as OAuth and as `OpenID` Connect have it.
    pub(crate) fn describe(&self, oauth: Option<Value>, openid: Option<Value>) {
        *self.says.descriptions.lock().unwrap() = [oauth, openid];
    }

    /// Ends; nobody listens there any more.
    pub(crate) async fn end(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// A token for Ada, with some claims changed; `null` takes one away.
    pub(crate) fn token(&self, key: &Key, changed: Value) -> String {
        self.token_with(key, json!({}), changed)
    }

    /// The same, with members of the header changed as well.
    pub(crate) fn token_with(&self, key: &Key, header: Value, claims: Value) -> String {
        let message = self.message(key, header, claims);
        let signature = URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    /// A token that is signed with a secret which everybody knows.
    pub(crate) fn signed_with_the_public_key(&self, key: &Key) -> String {
        let message = self.message(key, json!({"alg": "HS256"}), json!({}));
        let secret = hmac::Key::new(hmac::HMAC_SHA256, key.public());
        let signature = hmac::sign(&secret, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn message(&self, key: &Key, header: Value, claims: Value) -> String {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = since.unwrap().as_secs();
        let usual = json!({"alg": key.algorithm(), "typ": "at+jwt", "kid": key.id});
        let header = changed(usual, header);
        let usual = json!({
            "iss": self.url(), "sub": "ada", "aud": RESOURCE,
            "iat": now, "exp": now + 600, "scope": "use",
        });
        let claims = changed(usual, claims);
        format!("{}.{}", part(&header), part(&claims))
    }
}

fn changed(mut value: Value, by: Value) -> Value {
    for (name, by) in by.as_object().unwrap() {
        value[name] = by.clone();
    }
    let members = value.as_object_mut().unwrap();
    members.retain(|_, value| !value.is_null());
    value
}

fn description(says: &Says, place: usize) -> Response {
    match &says.descriptions.lock().unwrap()[place] {
        Some(description) => description.to_string().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn keys_of(State(says): State<Arc<Says>>) -> Response {
    says.asked.fetch_add(1, Ordering::SeqCst);
    let mut answers = says.answer.subscribe();
    let is_answer = |answer: &Answer| !matches!(answer, Answer::Stall);
    let answer = answers.wait_for(is_answer).await.unwrap().clone();
    match answer {
        Answer::Json(text) => text.into_response(),
        Answer::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Answer::Redirect(to) => (StatusCode::FOUND, [(header::LOCATION, to)]).into_response(),
        Answer::Stall => unreachable!("it has waited"),
    }
}
