//! Who is let in, under which names, from which pages, and how much each caller may ask.
//!
//! One [`Access`] can stand in front of several routes: [`Access::guard`] wraps a router, and a
//! request that one guard of an `Access` let in passes its other guards without being counted
//! again. The order of the checks is: the peer's address, the `Host` header, the `Sec-Fetch-Site` and
//! the `Origin` header (a preflight is answered here), the peer's user or the token, the rate. A token
//! is one of those that were told to us, or one that an issuer of OAuth gave out.

mod cookie;
mod cors;
mod ended;
mod gate;
mod metadata;
mod names;
mod oauth;
mod peer;
mod proof;
mod rate;
mod token;

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::Request,
    http::{Extensions, HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use tokio::sync::watch;

use super::{refuse, serve::Guest};
pub(super) use cookie::login_of;
use cookie::{Login, Logins};
use gate::Gate;
pub use names::{HostName, NameError, WebOrigin};
pub use oauth::{
    ClientError, KeyTimes, KeysUrl, OAuth, OAuthError, OAuthNameError, OAuthRules, Scope,
    ServiceUrl, Subject, TrustedIssuer,
};
use peer::{Peer, PeerSession};
use proof::Proof;
use rate::Buckets;
pub use rate::Rate;
use token::Holders;
pub use token::{Token, TokenError};

/// Rules of an [`Access`]. By default requests of the user who runs this program are admitted, from
/// this machine, under its own names, from programs and from pages of its own origins.
#[derive(Debug, Clone, Default)]
pub struct AccessRules {
    /// Tokens of callers (RFC 6750). With one, or with [`Self::oauth`], every caller must show a
    /// token. Without either, the user who runs this program needs none on this machine.
    /// [`Access::list_tokens`] replaces them.
    pub tokens: Vec<Token>,
    /// Issuers whose tokens are admitted as well.
    pub oauth: Option<OAuth>,
    /// Token of the user who runs this program, where neither of the above is set: for connections
    /// whose user the system does not name, for requests that a proxy forwards, and for other
    /// programs of this machine to which the user gives it.
    pub own_token: Option<Token>,
    /// File of the logins of browsers that were ended, so that they stay ended when the program is
    /// started again.
    pub ended_logins: Option<PathBuf>,
    /// Names under which requests reach us, besides `localhost` and the loopback addresses.
    pub hosts: Vec<HostName>,
    /// True if another program may listen on an address of `localhost` at our port
    /// ([`Listeners::foreign_localhost`](super::Listeners::foreign_localhost)). The name `localhost` is then refused
    /// unless [`Self::hosts`] lists it.
    pub is_localhost_foreign: bool,
    /// Origins whose pages may call, and read the answers (CORS).
    pub origins: Vec<WebOrigin>,
    /// How much each caller may ask: who shows a token, as its holder or as the subject that its
    /// issuer names; anyone else, whoever shows a wrong one, and whoever shows one of an issuer
    /// for the first time, as the address that the request comes from.
    pub rate: Option<Rate>,
}

/// Lets requests in, or refuses them. Clones share what they count.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    rules: AccessRules,
    buckets: Option<Buckets>,
    failures: Buckets,
    logins: Logins,
    /// The tokens that callers may show.
    holders: watch::Sender<Holders>,
}

/// Reason that a browser is not logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The token is none that is admitted.
    #[error("the token is not accepted")]
    Wrong,
    /// Too many attempts failed.
    #[error("too many failed logins; try again in {} s", whole_seconds(*wait))]
    TooMany {
        /// The time after which another attempt is allowed.
        wait: Duration,
    },
}

/// Who makes a request, as far as it was proven. Guarded handlers find it among the extensions of
/// the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The user who runs this program where no tokens are set, or anybody on a route that asks for
    /// no token.
    Anyone,
    /// The holder of the token at this place of [`AccessRules::tokens`]. Tokens that are listed later have the places
    /// after these.
    Token(usize),
    /// Whom an issuer named.
    Subject(Subject),
}

impl Identity {
    /// Whom a face has proven to have this name, by a certificate for one.
    #[must_use]
    pub fn proven(name: &str) -> Self {
        // Issuers of tokens are URLs, so that none of them names the same.
        Self::Subject(Subject::of("certificate", name, None))
    }

    /// The same, with all programs of a user of an issuer as one.
    pub(crate) fn user(self) -> Self {
        match self {
            Self::Subject(subject) => Self::Subject(subject.by_any_program()),
            other => other,
        }
    }

    /// Bytes that tell it from every other one.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Anyone => b"anyone".to_vec(),
            Self::Token(place) => place.to_be_bytes().to_vec(),
            Self::Subject(subject) => subject.to_bytes().to_vec(),
        }
    }
}

/// An address that others can reach although nothing asks them who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} can be reached from other machines without authentication; set a token or a token issuer, or use a loopback address such as 127.0.0.1"
)]
pub struct UnguardedAddress(pub SocketAddr);

/// What a guard asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Token,
    Nothing,
    /// As [`Self::Nothing`], without a limit on the number of requests.
    NothingEver,
}

impl Asks {
    const fn is_public(self) -> bool {
        matches!(self, Self::Nothing | Self::NothingEver)
    }
}

/// What becomes of a request at a gate.
enum Admission {
    /// It goes on; a page of this origin, if there is one, may read the answer. A stream in the
    /// answer ends with the proof.
    LetIn(Option<HeaderValue>, Proof),
    /// It goes on if its token is good, which is still to be seen.
    Waits(Unseen, Option<HeaderValue>),
    Answered(Box<Response>),
}

/// A token of an issuer that was not looked at yet.
struct Unseen {
    token: Vec<u8>,
    oauth: OAuth,
}

/// Why it is not known who makes a request.
enum Unproven {
    Unseen(Unseen),
    Refused(Box<Response>),
}

impl From<Box<Response>> for Unproven {
    fn from(refused: Box<Response>) -> Self {
        Self::Refused(refused)
    }
}

/// Which access has let a request in.
#[derive(Clone)]
struct Admitted {
    by: Access,
    asked: Asks,
}

impl Access {
    /// What lets in whom the rules say.
    #[must_use]
    pub fn new(rules: AccessRules) -> Self {
        let holders = match asks_who_calls(&rules) {
            true => rules.tokens.clone(),
            false => rules.own_token.iter().cloned().collect(),
        };
        Self(Arc::new(Inner {
            holders: watch::Sender::new(Holders::new(holders)),
            buckets: rules.rate.map(Buckets::new),
            failures: Buckets::of_failures(),
            logins: Logins::new(rules.ended_logins.clone()),
            rules,
        }))
    }

    /// Puts a guard before all routes. It answers what it refuses with 403 (host, origin, a scope
    /// that is missing, or a caller from elsewhere although no token is set), 401 (token), 429
    /// (rate) or 503 (the keys of a token's issuer cannot be had), in the form of a JSON-RPC error
    /// without id.
    ///
    /// The peer is taken from extensions of the request, which [`serve`](super::serve) sets:
    /// its address from [`ConnectInfo`](axum::extract::ConnectInfo) and its user from
    /// [`PeerUser`](super::PeerUser). Without an address, all callers without a token count as one;
    /// without a user, a token is needed. [`OverTls`](super::OverTls) marks requests that came over
    /// TLS: cookies are then `Secure`, and pages of `https` are the own ones, in place of `http`.
    ///
    /// A body of unknown length, such as an event stream, ends when the login or the token ends that
    /// admitted its request.
    pub fn guard<S>(&self, routes: Router<S>) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        self.layered(routes, Asks::Token)
    }

    /// As [`Self::guard`], for routes that everybody may call who reaches them: no token is asked
    /// for, and a link on a page of another site may lead there.
    pub fn guard_public<S>(&self, routes: Router<S>) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        self.layered(routes, Asks::Nothing)
    }

    /// As [`Self::guard_public`], for routes that report whether the program works: the number of
    /// requests is not limited, since a monitor must not depend on other programs of its user.
    pub fn guard_health<S>(&self, routes: Router<S>) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        self.layered(routes, Asks::NothingEver)
    }

    /// Where OAuth is asked for, the routes that say who gives out tokens (RFC 9728). No guard may
    /// cover them. [`router`](super::router) has them; whoever nests that below a path puts these
    /// at the root beside it.
    pub fn metadata_routes(&self) -> Router {
        metadata::routes(self)
    }

    /// Refuses an address that other machines can reach, unless callers must show a token.
    ///
    /// # Errors
    /// When it is one.
    pub fn check_address(&self, address: SocketAddr) -> Result<(), UnguardedAddress> {
        if address.ip().is_loopback() || self.asks_who_calls() {
            return Ok(());
        }
        Err(UnguardedAddress(address))
    }

    /// Whether callers must show a token, of whatever kind.
    #[must_use]
    pub fn asks_who_calls(&self) -> bool {
        asks_who_calls(&self.0.rules)
    }

    /// Admits the holders of these tokens from now on, and no longer those of other [`AccessRules::tokens`]. Event
    /// streams of the other holders end. Nothing changes where the rules have no tokens.
    pub fn list_tokens(&self, tokens: Vec<Token>) {
        if !self.0.rules.tokens.is_empty() {
            self.0
                .holders
                .send_if_modified(|holders| holders.list(tokens));
        }
    }

    /// Logs a browser in that shows this token, one of [`AccessRules::tokens`] or
    /// [`AccessRules::own_token`]: the value of `Set-Cookie`. Requests with the cookie are let in as
    /// those with the token are, for 30 days, until [`Self::log_out`], or until the token is no longer
    /// one. A cookie is valid only for the user of the peer that logged in,
    /// and either behind a proxy or not, as its login was. `None` when the system has no secret to give.
    ///
    /// # Errors
    /// When it is another token, or the peer of the request has tried too many.
    pub fn log_in(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
        token: &str,
    ) -> Result<Option<HeaderValue>, LoginError> {
        let failures = &self.0.failures;
        let peer = Peer::of(extensions);
        let key = rate::Key::of_peer(peer);
        if let Some(wait) = failures.wait(key) {
            return Err(LoginError::TooMany { wait });
        }
        let holders = self.0.holders.borrow();
        match holders.find(token.trim().as_bytes()) {
            Some(holder) => Ok(Logins::begin(
                headers,
                peer.session(headers),
                &holders.tokens()[holder],
            )),
            None => {
                // The next attempt has to wait.
                let _ = failures.charge(key);
                Err(LoginError::Wrong)
            }
        }
    }

    /// Returns whether a request has a cookie that is let in.
    #[must_use]
    pub fn has_cookie(&self, headers: &HeaderMap, extensions: &Extensions) -> bool {
        let session = Peer::of(extensions).session(headers);
        self.login(headers, session).is_some()
    }

    /// Ends the login of a browser: its cookie is let in no longer. The value of `Set-Cookie` that
    /// removes the cookie.
    #[must_use]
    pub fn log_out(&self, headers: &HeaderMap, extensions: &Extensions) -> Option<HeaderValue> {
        let session = Peer::of(extensions).session(headers);
        let holders = self.0.holders.borrow();
        self.0.logins.end(headers, session, holders.tokens())
    }

    /// The login that the cookie of a request proves.
    fn login<'a>(&self, headers: &'a HeaderMap, session: PeerSession) -> Option<Login<'a>> {
        let holders = self.0.holders.borrow();
        let login = self.0.logins.find(headers, session, holders.tokens());
        login.filter(|login| holders.admits(login.holder))
    }

    fn layered<S>(&self, routes: Router<S>, asks: Asks) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        let access = self.clone();
        routes.layer(Gate { access, asks })
    }

    fn has_admitted(&self, request: &Request, asks: Asks) -> bool {
        let admitted = request.extensions().get::<Admitted>();
        admitted.is_some_and(|admitted| {
            Arc::ptr_eq(&admitted.by.0, &self.0) && (admitted.asked == asks || asks.is_public())
        })
    }

    /// Lets a request in, for the page that may read the answer, if one is named, or answers it.
    fn admit(&self, request: &mut Request, asks: Asks) -> Admission {
        let rules = &self.0.rules;
        let peer = Peer::of(request.extensions());
        if peer.is_foreign() && !self.asks_who_calls() && asks == Asks::Token {
            let text = "callers from other machines must show a token, and none is set here";
            return Admission::refused(text);
        }
        if let Err(reason) = names::check_host(request.headers(), request.uri(), rules) {
            let host = request.headers().get(header::HOST);
            tracing::debug!(?host, target = %request.uri(), "request refused: its Host header names another host");
            return Admission::refused(reason);
        }
        let (method, headers) = (request.method(), request.headers());
        let checked = names::check_site(method, headers, asks.is_public())
            .and_then(|()| names::check_origin(headers, request.uri(), peer, rules));
        let page = match checked {
            Ok(page) => page,
            Err(reason) => {
                let origin = request.headers().get(header::ORIGIN);
                tracing::debug!(?origin, "request refused: its Origin is not allowed");
                return Admission::refused(reason);
            }
        };
        if let Some(page) = &page
            && cors::is_preflight(request.method(), request.headers())
        {
            return Admission::Answered(Box::new(cors::preflight(page, request.headers())));
        }
        match self.identify_within_share(request, peer, asks) {
            Err(Unproven::Refused(mut refused)) => {
                if let Some(page) = page {
                    cors::allow(refused.headers_mut(), page);
                }
                Admission::Answered(refused)
            }
            Err(Unproven::Unseen(unseen)) => Admission::Waits(unseen, page),
            Ok((identity, proof)) => {
                self.let_in(request, asks, identity);
                Admission::LetIn(page, proof)
            }
        }
    }

    fn let_in(&self, request: &mut Request, asked: Asks, identity: Identity) {
        let by = self.clone();
        let extensions = request.extensions_mut();
        if asked == Asks::Token
            && let Some(guest) = extensions.get::<Guest>()
        {
            guest.prove();
        }
        extensions.insert(identity);
        extensions.insert(Admitted { by, asked });
    }

    /// As [`Self::identify`]. A request of a caller that is not the user who runs this program, and has shown no
    /// token yet, is refused when too many such requests are being answered.
    fn identify_within_share(
        &self,
        request: &Request,
        peer: Peer,
        asks: Asks,
    ) -> Result<(Identity, Proof), Unproven> {
        let headers = request.headers();
        let identified = self.identify(headers, peer, asks);
        let is_guest = match &identified {
            Ok(_) if asks == Asks::Nothing => {
                !peer.is_own_user(headers) && self.login(headers, peer.session(headers)).is_none()
            }
            Err(Unproven::Unseen(_)) => true,
            Ok(_) | Err(Unproven::Refused(_)) => false,
        };
        let guest = request.extensions().get::<Guest>();
        if is_guest && guest.is_some_and(|guest| !guest.take_share()) {
            return Err(Box::new(crowded()).into());
        }
        identified
    }

    /// Who makes the request, or why that is not known.
    fn identify(
        &self,
        headers: &HeaderMap,
        peer: Peer,
        asks: Asks,
    ) -> Result<(Identity, Proof), Unproven> {
        let rules = &self.0.rules;
        let asks_who_calls = self.asks_who_calls();
        if asks == Asks::NothingEver {
            return Ok((Identity::Anyone, Proof::Lasting));
        }
        if asks == Asks::Nothing || !asks_who_calls && peer.is_own_user(headers) {
            self.charge(rate::Key::of_peer(peer))?;
            return Ok((Identity::Anyone, Proof::Lasting));
        }
        let shown = token::shown(headers);
        let proven = match shown {
            Some(shown) => {
                let holder = self.0.holders.borrow().find(shown);
                holder.map(|holder| match asks_who_calls {
                    true => (holder, Proof::Token(holder)),
                    false => (holder, Proof::Lasting),
                })
            }
            None => {
                let login = self.login(headers, peer.session(headers));
                login.map(|login| (login.holder, Proof::Login(login.lasting(), login.holder)))
            }
        };
        if let Some((holder, proof)) = proven {
            self.charge(rate::Key::Holder(holder))?;
            let identity = match asks_who_calls {
                true => Identity::Token(holder),
                false => Identity::Anyone,
            };
            return Ok((identity, proof));
        }
        let (Some(oauth), Some(shown)) = (&rules.oauth, shown) else {
            let peer = rate::Key::of_peer(peer);
            self.charge(peer)?;
            if shown.is_some() {
                let charged = self.0.failures.charge(peer);
                charged.map_err(|wait| Box::new(too_many(wait)))?;
            }
            let refused = match &rules.oauth {
                Some(oauth) => oauth.ask(ASKS_ISSUER),
                None if shown.is_some() => unauthorized(WRONG_TOKEN, INVALID),
                None if asks_who_calls => unauthorized(ASKS_TOKEN, NO_TOKEN),
                None => unauthorized(ASKS_OWN_TOKEN, NO_TOKEN),
            };
            return Err(Box::new(refused).into());
        };
        if let Some(subject) = oauth.known(shown) {
            return Ok((self.count(subject)?, Proof::Issued(shown.to_vec())));
        }
        // Looking at a token costs something, whoever made it.
        self.charge(rate::Key::of_peer(peer))?;
        Err(Unproven::Unseen(Unseen {
            token: shown.to_vec(),
            oauth: oauth.clone(),
        }))
    }

    /// Who shows a token that was not seen before, or the answer that refuses it.
    async fn look_at(&self, unseen: Unseen) -> Result<(Identity, Proof), Box<Response>> {
        let identity = self.count(unseen.oauth.verify(&unseen.token).await?)?;
        Ok((identity, Proof::Issued(unseen.token)))
    }

    fn count(&self, subject: Subject) -> Result<Identity, Box<Response>> {
        self.charge(rate::Key::User(subject.user()))?;
        Ok(Identity::Subject(subject))
    }

    fn charge(&self, key: rate::Key) -> Result<(), Box<Response>> {
        let Some(buckets) = &self.0.buckets else {
            return Ok(());
        };
        buckets.charge(key).map_err(|wait| Box::new(too_many(wait)))
    }
}

/// Returns whether these rules ask every caller for a token.
const fn asks_who_calls(rules: &AccessRules) -> bool {
    !rules.tokens.is_empty() || rules.oauth.is_some()
}

impl Admission {
    fn refused(reason: &str) -> Self {
        Self::Answered(Box::new(refuse(StatusCode::FORBIDDEN, reason)))
    }
}

impl Default for Access {
    fn default() -> Self {
        Self::new(AccessRules::default())
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Access").field(&self.0.rules).finish()
    }
}

const ASKS_ISSUER: &str = "a token is needed: get one from the issuer that resource_metadata names";

const ASKS_TOKEN: &str = "a token is needed: send the header Authorization: Bearer TOKEN";

const ASKS_OWN_TOKEN: &str = "a token is needed: this program admits a caller without one only where the \
    system shows a direct connection of the user who runs it. That user prints the token with `orchestra \
    token` and sends the header Authorization: Bearer TOKEN. Every other user asks that user for the token, \
    or runs `orchestra up` in a workspace of their own: what their `orchestra token` prints is not valid here";

const WRONG_TOKEN: &str = "this token is not valid";

/// Challenges. An error is named only to callers that have shown something (RFC 6750, section 3).
const NO_TOKEN: HeaderValue = HeaderValue::from_static("Bearer realm=\"orchestra\"");
const INVALID: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"orchestra\", error=\"invalid_token\"");

fn unauthorized(text: &str, challenge: HeaderValue) -> Response {
    let mut response = refuse(StatusCode::UNAUTHORIZED, text);
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn too_many(wait: Duration) -> Response {
    let seconds = whole_seconds(wait);
    let text = format!("too many requests; try again in {seconds} s");
    let mut response = refuse(StatusCode::TOO_MANY_REQUESTS, &text);
    retry_after(&mut response, wait);
    response
}

fn crowded() -> Response {
    let text = "busy: too many requests of callers without a token; try again later";
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, text);
    retry_after(&mut response, Duration::from_secs(1));
    response
}

/// Says when to try again.
fn retry_after(response: &mut Response, wait: Duration) {
    let seconds = HeaderValue::from(whole_seconds(wait));
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
}

/// A wait in seconds, never too few.
fn whole_seconds(wait: Duration) -> u64 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    seconds.max(1)
}

#[cfg(test)]
mod tests;
