//! Gets tokens: by renewal, by a sign-in, or by what we can show already.

use std::sync::Arc;

use reqwest::Url;
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::{
    ClientProof, Enterprise, Grant, OAuth, State, Wish,
    ask::{encoded, refused},
    challenge::Challenge,
    discovery::{self, Found},
    keys::{self, ProofKey},
    login::{Callback, Expected},
    record::{Record, Registered, Token},
    tokens::{self, Desk, NoToken},
};
use crate::client::{
    ClientError,
    http::{config::same_origin, template},
};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

impl OAuth {
    /// Gets a token that serves a wish.
    pub(super) async fn acquire(
        &self,
        state: &mut State,
        challenge: &Challenge,
        wish: Wish,
    ) -> Result<(), ClientError> {
        let metadata = challenge.resource_metadata.as_deref();
        if let Some(sign_in) = &self.config.sign_in
            && let Some(url) = metadata.and_then(|named| self.asks.place(named))
            && !same_origin(&url, &self.server)
        {
            sign_in.show_metadata(&url);
        }
        let found = discovery::find(&self.asks, &self.server, challenge).await?;
        // What one issuer gave out is nothing to another.
        let known = state.record.take_if(|record| record.issuer != found.issuer);
        if known.is_some() {
            tracing::info!(server = %self.name, issuer = %found.issuer, "the server names another OAuth issuer");
            self.use_record(None);
        }
        if wish == Wish::Good {
            match self.renew(state).await {
                Ok(()) => return Ok(()),
                Err(NoToken::Spent(_)) => self.use_record(None),
                Err(NoToken::Other(error)) => return Err(error),
            }
        }
        let asked = state.record.as_ref().map(|record| record.scopes.clone());
        let asked = asked.unwrap_or_default();
        let scopes = self.scopes(&found, challenge, &asked);
        let has_more = scopes.iter().any(|scope| !asked.contains(scope));
        if wish == Wish::More && !has_more {
            return Err(ClientError::NeedsAuth {
                what: format!(
                    "it wants rights that its authorization server did not give: {}",
                    orchestra_wire::shown(&scopes.join(" "))
                ),
            });
        }
        let record = match &self.config.grant {
            Grant::Person => self.sign_in(state, &found, scopes).await?,
            _ => self.exchange(&found, scopes).await?,
        };
        self.keep(state, record).await
    }

    /// The rights to ask for (MCP, scope selection): those of the configuration, else those that
    /// the refusal names, else those that the resource knows; with those asked for before.
    fn scopes(&self, found: &Found, challenge: &Challenge, asked: &[String]) -> Vec<String> {
        let mut scopes = asked.to_vec();
        let named = challenge.scopes();
        let wanted = match (&self.config.scopes, &named, asked) {
            (configured, named, _) if !configured.is_empty() => [&**configured, named].concat(),
            (_, named, _) if !named.is_empty() => named.clone(),
            (_, _, []) => found.resource_scopes.clone(),
            _ => Vec::new(),
        };
        for scope in wanted {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        let offline = "offline_access".to_owned();
        let is_person = matches!(self.config.grant, Grant::Person);
        if is_person
            && !scopes.is_empty()
            && found.scopes.contains(&offline)
            && !scopes.contains(&offline)
        {
            scopes.push(offline);
        }
        scopes
    }

    /// Renews what lapses or was refused.
    ///
    /// # Errors
    /// [`NoToken::Spent`] when there is nothing to renew it by.
    pub(super) async fn renew(&self, state: &mut State) -> Result<(), NoToken> {
        let nothing = || NoToken::Spent(self.needs_sign_in(&[]));
        let Some(mut record) = state.record.clone() else {
            return Err(nothing());
        };
        // Other programs of this user may renew it as well; one at a time does.
        let (store, server) = (Arc::clone(&self.config.store), self.kept_under.clone());
        let lock = spawn_blocking(move || store.lock(&server)).await;
        let _lock = self.stored(lock)?;
        let access = |record: &Record| record.token.as_ref().map(|token| token.access.clone());
        if let Some(kept) = self.kept().await?
            && kept.issuer == record.issuer
            && access(&kept).is_some()
            && access(&kept) != access(&record)
        {
            let lapses = kept.token.as_ref().is_some_and(Token::lapses);
            record = kept;
            if !lapses {
                self.use_record(Some(&record));
                state.record = Some(record);
                return Ok(());
            }
        }
        let Some(refresh) = record
            .token
            .as_ref()
            .and_then(|token| token.refresh.clone())
        else {
            return Err(nothing());
        };
        let url = record.token_endpoint.parse().map_err(|_| nothing())?;
        let key = record.key.as_deref().and_then(ProofKey::from_text);
        let proof = self.client_proof();
        let desk = Desk {
            asks: &self.asks,
            url: &url,
            issuer: &record.issuer,
            methods: record.methods.as_deref(),
            client: &record.client,
            proof: &proof,
            secrets: &*self.secrets,
            key: key.as_ref(),
        };
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", &refresh),
            ("resource", &record.resource),
        ];
        let mut token = desk.token(&fields).await?;
        // A server that sends no other wants this one again (RFC 6749, section 6).
        token.refresh.get_or_insert(refresh);
        record.token = Some(token);
        Ok(self.keep(state, record).await?)
    }

    pub(super) fn client_proof(&self) -> ClientProof {
        let client = self.config.client.as_ref();
        client
            .map(|client| client.proof.clone())
            .unwrap_or_default()
    }

    /// The key that tokens are to be bound to, where that is possible.
    fn key_for(found: &Found) -> Result<Option<ProofKey>, ClientError> {
        if !found.binds_tokens {
            return Ok(None);
        }
        let key = ProofKey::draw().map_err(|error| tokens::unsigned(&error))?;
        Ok(Some(key))
    }

    fn desk<'a>(
        &'a self,
        found: &'a Found,
        client: &'a Registered,
        proof: &'a ClientProof,
        key: Option<&'a ProofKey>,
    ) -> Desk<'a> {
        Desk {
            asks: &self.asks,
            url: &found.token,
            issuer: &found.issuer,
            methods: found.methods.as_deref(),
            client,
            proof,
            secrets: &*self.secrets,
            key,
        }
    }

    fn record(
        &self,
        found: &Found,
        client: Registered,
        scopes: Vec<String>,
        token: Token,
        key: Option<&ProofKey>,
    ) -> Record {
        let mut record = Record::new(found, client, &self.config.grant);
        record.scopes = scopes;
        record.key = key.map(ProofKey::to_text);
        record.token = Some(token);
        record
    }

    /// Sends a person to sign in, and takes what they come back with.
    async fn sign_in(
        &self,
        state: &State,
        found: &Found,
        scopes: Vec<String>,
    ) -> Result<Record, ClientError> {
        let Some(show) = &self.config.sign_in else {
            return Err(self.needs_sign_in(&scopes));
        };
        if !found.protects {
            return Err(ClientError::NeedsAuth {
                what: format!(
                    "the authorization server {} does not say that it protects sign-ins by PKCE \
                     with S256; none is begun there",
                    found.issuer
                ),
            });
        }
        let callback = Callback::open(self.config.callback_port).await?;
        let known = state.record.as_ref().map(|record| record.client.clone());
        let client = match known {
            // One that we registered is good for the place it was registered with.
            Some(client) if !client.by_us || client.callback.as_ref() == Some(&callback.url) => {
                client
            }
            _ => tokens::register(&self.asks, &self.config, found, &callback.url, &scopes).await?,
        };
        let unsigned = |error| tokens::unsigned(&error);
        let verifier = keys::random_text().map_err(unsigned)?;
        let secret = keys::random_text().map_err(unsigned)?;
        show.show(&sign_in_url(
            found,
            &client.id,
            &callback.url,
            &scopes,
            &secret,
            &verifier,
        ));
        let expected = Expected {
            state: &secret,
            issuer: &found.issuer,
            names_itself: found.names_itself,
        };
        let code = callback.code(&expected).await?;
        let key = Self::key_for(found)?;
        let proof = self.client_proof();
        let desk = self.desk(found, &client, &proof, key.as_ref());
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &callback.url),
            ("code_verifier", &verifier),
            ("resource", &found.resource),
        ];
        let token = desk.token(&fields).await?;
        Ok(self.record(found, client, scopes, token, key.as_ref()))
    }

    /// Gets a token by what we can show already.
    async fn exchange(&self, found: &Found, scopes: Vec<String>) -> Result<Record, ClientError> {
        let Some(client) = &self.config.client else {
            return Err(ClientError::InvalidConfig {
                what: "auth: this grant needs the id of a client".to_owned(),
            });
        };
        let client = Registered {
            id: client.id.clone(),
            secret: None,
            method: None,
            callback: None,
            by_us: false,
        };
        let assertion = match &self.config.grant {
            Grant::Workload { assertion } => {
                let text = assertion.expand(&*self.secrets);
                Some(text.map_err(|error| template::invalid("auth: the assertion", &error))?)
            }
            Grant::Enterprise(enterprise) => {
                Some(self.assertion(enterprise, found, &scopes).await?)
            }
            Grant::Person | Grant::Client => None,
        };
        let scope = scopes.join(" ");
        let mut fields = match &assertion {
            Some(assertion) => vec![("grant_type", JWT_BEARER), ("assertion", assertion)],
            None => vec![("grant_type", "client_credentials")],
        };
        fields.push(("resource", &found.resource));
        if !scope.is_empty() {
            fields.push(("scope", &scope));
        }
        let key = Self::key_for(found)?;
        let proof = self.client_proof();
        let desk = self.desk(found, &client, &proof, key.as_ref());
        let mut token = desk.token(&fields).await?;
        // Such a token is asked for again and not renewed.
        token.refresh = None;
        Ok(self.record(found, client, scopes, token, key.as_ref()))
    }

    /// What an enterprise says of whom it has signed in, for one authorization server (identity
    /// assertion authorization grant; RFC 8693).
    async fn assertion(
        &self,
        enterprise: &Enterprise,
        found: &Found,
        scopes: &[String],
    ) -> Result<String, ClientError> {
        #[derive(Deserialize)]
        struct Given {
            access_token: String,
            issued_token_type: String,
        }
        let id_token = enterprise
            .id_token
            .expand(&*self.secrets)
            .map_err(|error| template::invalid("auth: the identity token", &error))?;
        let client = Registered {
            id: enterprise.client_id.clone(),
            secret: None,
            method: None,
            callback: None,
            by_us: false,
        };
        let proof = match &enterprise.client_secret {
            Some(secret) => ClientProof::Secret(secret.clone()),
            None => ClientProof::None,
        };
        let url = &enterprise.token_endpoint;
        let desk = Desk {
            asks: &self.asks,
            url,
            issuer: url.as_str(),
            methods: None,
            client: &client,
            proof: &proof,
            secrets: &*self.secrets,
            key: None,
        };
        let scope = scopes.join(" ");
        let mut fields = vec![
            ("grant_type", TOKEN_EXCHANGE),
            ("requested_token_type", ID_JAG),
            ("audience", &found.issuer),
            ("resource", &found.resource),
            ("subject_token", &id_token),
            ("subject_token_type", ID_TOKEN),
        ];
        if !scope.is_empty() {
            fields.push(("scope", &scope));
        }
        let told = desk.ask(&fields).await?;
        let given: Given = told.parse(url)?;
        if given.issued_token_type != ID_JAG {
            return Err(refused(url, "it gives out another kind of token"));
        }
        Ok(given.access_token)
    }
}

/// Where a person signs in.
fn sign_in_url(
    found: &Found,
    client: &str,
    callback: &str,
    scopes: &[String],
    state: &str,
    verifier: &str,
) -> Url {
    let challenge = keys::hash(verifier);
    let scope = scopes.join(" ");
    let mut fields = vec![
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", callback),
        ("state", state),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("resource", &found.resource),
    ];
    if !scope.is_empty() {
        fields.push(("scope", &scope));
    }
    // OpenID Connect, offline access: it is given only to whom the person consents.
    if scopes.iter().any(|scope| scope == "offline_access") {
        fields.push(("prompt", "consent"));
    }
    let mut url = found.authorization.clone();
    let query = encoded(&fields);
    url.set_query(Some(&match url.query() {
        Some(before) if !before.is_empty() => format!("{before}&{query}"),
        _ => query,
    }));
    url
}
