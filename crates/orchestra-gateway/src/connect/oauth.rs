//! How tokens are asked for, out of configurations.

use orchestra_mcp::client::{
    ClientError,
    http::{
        self as client_http, Url,
        oauth::{ClientProof, Enterprise, Grant, KnownClient, OAuthConfig},
    },
};

use super::{Connectors, invalid, late::Late};
use crate::config::{
    ClientProof as Proof, Enterprise as Idp, Grant as Behalf, OAuth, OAuthClient, ServerConfig,
    Template,
};

impl Connectors {
    /// How tokens are asked for. A server of which nothing is said gets those of an earlier sign-in.
    pub(super) fn oauth(
        &self,
        wanted: Option<&OAuth>,
        config: &ServerConfig,
        late: &mut Late,
    ) -> Result<client_http::Auth, ClientError> {
        let mut oauth = OAuthConfig::new(self.store());
        if let Some(wanted) = wanted {
            oauth.scopes.clone_from(&wanted.scopes);
            oauth.callback_port = wanted.redirect_port.unwrap_or(0);
            let client = wanted.client.as_ref();
            oauth.client = client
                .map(|client| self.known_client(client, config, late))
                .transpose()?;
            oauth.grant = match &wanted.grant {
                Behalf::Person => Grant::Person,
                Behalf::Client => Grant::Client,
                Behalf::Workload { assertion } => Grant::Workload {
                    assertion: late.secret(assertion)?,
                },
                Behalf::Enterprise(idp) => Grant::Enterprise(self.enterprise(idp, config, late)?),
            };
        }
        Ok(client_http::Auth::OAuth(Box::new(oauth)))
    }

    fn known_client(
        &self,
        client: &OAuthClient,
        config: &ServerConfig,
        late: &mut Late,
    ) -> Result<KnownClient, ClientError> {
        let proof = match &client.proof {
            Proof::None => ClientProof::None,
            Proof::Secret(secret) => ClientProof::Secret(late.secret(secret)?),
            Proof::Key { key, algorithm } => ClientProof::Key {
                pem: late.secret(key)?,
                algorithm: (*algorithm).to_owned(),
            },
        };
        let id = self.put_in(&client.id, config)?;
        Ok(KnownClient { id, proof })
    }

    fn enterprise(
        &self,
        idp: &Idp,
        config: &ServerConfig,
        late: &mut Late,
    ) -> Result<Enterprise, ClientError> {
        let unusable = |why: &str| ClientError::InvalidConfig {
            what: format!("auth.idp_token_endpoint: {why}"),
        };
        let token_endpoint = self.put_in(&idp.token_endpoint, config)?;
        let token_endpoint: Url = token_endpoint
            .parse()
            .map_err(|_| unusable("it is no URL"))?;
        if !client_http::is_private(&token_endpoint) {
            return Err(unusable(
                "what is sent there must be encrypted: it must begin with https://",
            ));
        }
        Ok(Enterprise {
            token_endpoint,
            client_id: self.put_in(&idp.client_id, config)?,
            client_secret: idp
                .client_secret
                .as_ref()
                .map(|secret| late.secret(secret))
                .transpose()?,
            id_token: late.secret(&idp.id_token)?,
        })
    }

    fn put_in(&self, text: &Template, config: &ServerConfig) -> Result<String, ClientError> {
        self.scope.expand(text, config).map_err(invalid)
    }
}
