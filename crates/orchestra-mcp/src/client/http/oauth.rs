//! Signs in at a server as MCP describes it (authorization, all revisions).
//!
//! What a server's refusal says leads to its description and to its authorization server; there a
//! token is asked for, on behalf of a person, of this program, of the workload it runs in, or of
//! whoever an enterprise has signed in already. Tokens are kept in a [`TokenStore`], renewed before
//! they lapse, bound to a key where that is possible (RFC 9449), and belong to the issuer that gave
//! them out: another issuer means another registration and another sign-in.
//!
//! Everything that others name is checked before it is used: places to be encrypted and not on this
//! machine unless the server is, issuers and resources to be those that were asked for, answers to
//! be small.

mod ask;
mod challenge;
mod config;
mod discovery;
mod grant;
mod keys;
mod login;
mod logout;
mod record;
mod store;
mod tokens;

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use orchestra_hub::BoxFuture;
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    task::spawn_blocking,
    time::Instant,
};

use self::{
    ask::Asks,
    challenge::Challenge,
    keys::ProofKey,
    record::Record,
    tokens::{NONCE, NoToken, PROOF},
};
use super::{
    auth::{AuthHeaders, AuthRequest, Authorizer, Refusal},
    config::{HttpConfig, sensitive},
    reach,
    template::Secrets,
};
use crate::client::ClientError;

pub use self::{
    config::{ClientProof, Enterprise, Grant, KnownClient, OAuthConfig, SignIn},
    login::{SignedIn, login},
    logout::{SignedOut, logout},
    store::{FileStore, MemoryStore, TokenStore},
};

/// How often one request may lead to another sign-in for more rights.
const MAX_STEP_UPS: u32 = 2;

/// For how long a sign-in that failed is not tried again: many requests may be waiting for it.
const FAILED_PAUSE: Duration = Duration::from_secs(10);

/// The name that a server's tokens are kept under.
fn kept_under(config: &HttpConfig) -> String {
    format!("{} {}", config.name, config.url)
}

/// What is wanted when a token is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Any that is good, by renewal if that suffices.
    Good,
    /// One with more rights.
    More,
    /// A new sign-in, whatever there is.
    Anew,
}

/// Says who we are by tokens.
pub(super) struct OAuth {
    name: String,
    server: Url,
    kept_under: String,
    config: OAuthConfig,
    secrets: Arc<dyn Secrets>,
    asks: Asks,
    /// One at a time asks for tokens; the others wait for what it gets.
    state: Arc<Mutex<State>>,
    /// What is shown now.
    current: RwLock<Option<Arc<Current>>>,
    /// What the next proof for the server is to hold.
    nonce: RwLock<Option<String>>,
}

#[derive(Default)]
struct State {
    loaded: bool,
    record: Option<Record>,
    failed: Option<(Instant, ClientError)>,
}

/// A token as it is shown.
struct Current {
    access: String,
    header: HeaderValue,
    renew_at: Option<u64>,
    key: Option<ProofKey>,
}

impl OAuth {
    pub(super) fn new(http: &HttpConfig, config: OAuthConfig) -> Result<Self, ClientError> {
        let client = reach::client(http)?;
        Ok(Self {
            name: http.name.clone(),
            server: http.endpoint()?,
            kept_under: kept_under(http),
            secrets: Arc::clone(&http.secrets),
            asks: Asks::new(client, &http.url),
            config,
            state: Arc::default(),
            current: RwLock::default(),
            nonce: RwLock::default(),
        })
    }

    fn current(&self) -> Option<Arc<Current>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    /// Shows from now on what the record holds.
    fn use_record(&self, record: Option<&Record>) {
        let current = record.and_then(|record| {
            let token = record.token.as_ref()?;
            let scheme = if token.bound { "DPoP" } else { "Bearer" };
            let key = record.key.as_deref().and_then(ProofKey::from_text);
            let key = key.filter(|_| token.bound);
            if token.bound && key.is_none() {
                return None;
            }
            Some(Arc::new(Current {
                header: sensitive(&format!("{scheme} {}", token.access))?,
                access: token.access.clone(),
                renew_at: token.renew_at,
                key,
            }))
        });
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// Reads what is kept, once.
    async fn load(&self, state: &mut State) -> Result<(), ClientError> {
        if !state.loaded {
            state.record = self.kept().await?;
            state.loaded = true;
            self.use_record(state.record.as_ref());
        }
        Ok(())
    }

    /// What is kept now, unless it was got in another way than is configured: by another grant, or for
    /// another client.
    async fn kept(&self) -> Result<Option<Record>, ClientError> {
        let (store, server) = (Arc::clone(&self.config.store), self.kept_under.clone());
        let loaded = spawn_blocking(move || store.load(&server)).await;
        let text = self.stored(loaded)?;
        let record = text.as_deref().and_then(Record::parse);
        Ok(record.filter(|record| record.is_of(&self.config)))
    }

    /// Keeps a record, and shows what it holds.
    async fn keep(&self, state: &mut State, record: Record) -> Result<(), ClientError> {
        let (store, server) = (Arc::clone(&self.config.store), self.kept_under.clone());
        let text = record.to_text();
        self.use_record(Some(&record));
        state.record = Some(record);
        let saved = spawn_blocking(move || store.save(&server, &text)).await;
        self.stored(saved)
    }

    fn stored<T>(
        &self,
        done: Result<std::io::Result<T>, tokio::task::JoinError>,
    ) -> Result<T, ClientError> {
        let done = done.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        done.map_err(|error| ClientError::NeedsAuth {
            what: format!(
                "the tokens of {} cannot be kept or read: {error}",
                self.name
            ),
        })
    }

    /// The headers of a request, with the token that is current.
    fn shown(&self, request: &AuthRequest) -> Result<AuthHeaders, ClientError> {
        let Some(current) = self.current() else {
            return Ok(Vec::new());
        };
        let mut headers = vec![(AUTHORIZATION, current.header.clone())];
        if let Some(key) = &current.key {
            let nonce = self
                .nonce
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let proof = key
                .proof(
                    &request.method,
                    &request.url,
                    nonce.as_deref(),
                    Some(&current.access),
                )
                .map_err(|error| tokens::unsigned(&error))?;
            let proof = HeaderValue::try_from(proof).expect("a token is visible characters");
            headers.push((PROOF, proof));
        }
        Ok(headers)
    }

    async fn headers_of(self: Arc<Self>, request: AuthRequest) -> Result<AuthHeaders, ClientError> {
        let lapses = |current: &Current| current.renew_at.is_some_and(|at| at <= keys::now());
        if self.current().is_some_and(|current| !lapses(&current)) {
            return self.shown(&request);
        }
        // single-flight: one renews, and the others find what it got.
        let mut state = Arc::clone(&self.state).lock_owned().await;
        self.load(&mut state).await?;
        let token = state
            .record
            .as_ref()
            .and_then(|record| record.token.as_ref());
        if token.is_some_and(|token| token.lapses() && token.refresh.is_some()) {
            let oauth = Arc::clone(&self);
            to_its_end(async move { oauth.renew_ahead(state).await }).await?;
        }
        self.shown(&request)
    }

    /// Renews what lapses before it is shown.
    async fn renew_ahead(&self, mut state: OwnedMutexGuard<State>) -> Result<(), ClientError> {
        match self.renew(&mut state).await {
            Ok(()) => Ok(()),
            // The server says what is to be done instead.
            Err(NoToken::Spent(_)) => {
                self.use_record(None);
                Ok(())
            }
            Err(NoToken::Other(error)) => Err(error),
        }
    }

    /// What becomes of a request that was refused.
    async fn answer(self: Arc<Self>, refusal: Refusal) -> Result<bool, ClientError> {
        let challenge = Challenge::of(&refusal.challenges);
        let error = challenge.error.as_deref().unwrap_or_default();
        if error == "use_dpop_nonce" {
            return Ok(refusal.headers.contains_key(NONCE));
        }
        let wish = match refusal.status {
            401 => Wish::Good,
            _ if error == "insufficient_scope" && refusal.before < MAX_STEP_UPS => Wish::More,
            _ => return Ok(false),
        };
        // single-flight: one signs in, and the others find what it got.
        let mut state = Arc::clone(&self.state).lock_owned().await;
        self.load(&mut state).await?;
        // Another request may have had the same trouble, and be over it.
        if self.current().map(|current| current.header.clone()) != refusal.shown {
            return Ok(true);
        }
        if let Some((at, failed)) = &state.failed
            && at.elapsed() < FAILED_PAUSE
        {
            return Err(failed.clone());
        }
        if wish == Wish::Good && refusal.shown.is_some() && refusal.before > 1 {
            return Ok(false);
        }
        if self.awaits_sign_in(&state) {
            return Err(self.needs_sign_in(&challenge.scopes()));
        }
        let oauth = Arc::clone(&self);
        to_its_end(async move { oauth.acquire_anew(state, challenge, wish).await }).await?;
        Ok(true)
    }

    /// Whether a person has to sign in by command before anything is requested: the answer of a server alone
    /// sends no request to another address.
    fn awaits_sign_in(&self, state: &State) -> bool {
        let is_person = matches!(self.config.grant, Grant::Person);
        let token = state
            .record
            .as_ref()
            .and_then(|record| record.token.as_ref());
        is_person && self.config.sign_in.is_none() && token.is_none()
    }

    /// Gets a token, and remembers when that fails.
    async fn acquire_anew(
        &self,
        mut state: OwnedMutexGuard<State>,
        challenge: Challenge,
        wish: Wish,
    ) -> Result<(), ClientError> {
        let acquired = self.acquire(&mut state, &challenge, wish).await;
        let failed = acquired.as_ref().err();
        state.failed = failed.map(|error| (Instant::now(), error.clone()));
        acquired
    }

    /// Somebody has to sign in.
    fn needs_sign_in(&self, scopes: &[String]) -> ClientError {
        let name = &self.name;
        let what = match scopes {
            [] => format!("run `orchestra mcp login {name}`"),
            _ => format!(
                "run `orchestra mcp login {name}`; these rights are needed: {}",
                orchestra_wire::shown(&scopes.join(" "))
            ),
        };
        ClientError::NeedsAuth { what }
    }
}

/// Asks for a token in a task of its own, which goes on when nobody waits for it any more: what an
/// issuer answers may be all that is good from then on, for it spends what it was asked by. Such a
/// task ends by itself, because each of its steps has its time.
async fn to_its_end(
    work: impl Future<Output = Result<(), ClientError>> + Send + 'static,
) -> Result<(), ClientError> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The program ends.
            Err(_) => Err(ClientError::Closed),
        },
    }
}

/// The token of a configuration, as something that says who we are.
pub(super) struct Tokens(pub(super) Arc<OAuth>);

impl Authorizer for Tokens {
    fn headers(&self, request: AuthRequest) -> BoxFuture<Result<AuthHeaders, ClientError>> {
        let oauth = Arc::clone(&self.0);
        Box::pin(async move { oauth.headers_of(request).await })
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<Result<bool, ClientError>> {
        let oauth = Arc::clone(&self.0);
        Box::pin(async move { oauth.answer(refusal).await })
    }

    fn observe(&self, headers: &HeaderMap) {
        let Some(nonce) = headers.get(NONCE).and_then(|value| value.to_str().ok()) else {
            return;
        };
        let mut current = self.0.nonce.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_deref() != Some(nonce) {
            *current = Some(nonce.to_owned());
        }
    }
}
