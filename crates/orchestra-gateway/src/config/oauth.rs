//! Sign-ins as MCP has them: by a person, or on behalf of whoever needs none.

use super::Template;

/// How tokens of an authorization server are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OAuth {
    /// The client, where it was registered by hand.
    pub client: Option<OAuthClient>,
    /// On whose behalf.
    pub grant: Grant,
    /// What is asked for; what the server asks for when it is empty.
    pub scopes: Vec<String>,
    /// The port that the browser comes back to; any when it is not said.
    pub redirect_port: Option<u16>,
}

/// A client that an authorization server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthClient {
    /// Its id there.
    pub id: Template,
    /// How it shows who it is.
    pub proof: ClientProof,
}

/// How a client shows who it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClientProof {
    /// Not at all.
    #[default]
    None,
    /// By a secret.
    Secret(Secret),
    /// By signing (`private_key_jwt`, RFC 7523).
    Key {
        /// The key, in PEM.
        key: Secret,
        /// By which algorithm.
        algorithm: &'static str,
    },
}

/// On whose behalf tokens are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Grant {
    /// A person's, who signs in with a browser.
    #[default]
    Person,
    /// The client's own (RFC 6749, section 4.4).
    Client,
    /// The workload's that this runs in (RFC 7523).
    Workload {
        /// What its platform has signed.
        assertion: Secret,
    },
    /// A person's whom an enterprise has signed in (identity assertion authorization grant).
    Enterprise(Box<Enterprise>),
}

/// Whom an enterprise has signed in, and where that is made good for other services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enterprise {
    /// Where its identity provider gives out tokens.
    pub token_endpoint: Template,
    /// Our id there.
    pub client_id: Template,
    /// Our secret there.
    pub client_secret: Option<Secret>,
    /// What the sign-in brought.
    pub id_token: Secret,
}

/// A secret that a configuration names and does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The key of the configuration that names it.
    pub field: &'static str,
    /// Where it is.
    pub source: SecretSource,
}

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// In what a text refers to.
    Text(Template),
    /// In a file that nobody else may read.
    File(Template),
}

impl OAuth {
    /// The word for it in a configuration.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.grant {
            Grant::Person => "oauth",
            Grant::Client => "client_credentials",
            Grant::Workload { .. } => "workload",
            Grant::Enterprise(_) => "enterprise",
        }
    }

    /// The secrets that it names.
    #[must_use]
    pub fn secrets(&self) -> Vec<&Secret> {
        let mut secrets = Vec::new();
        match self.client.as_ref().map(|client| &client.proof) {
            Some(ClientProof::Secret(secret) | ClientProof::Key { key: secret, .. }) => {
                secrets.push(secret);
            }
            Some(ClientProof::None) | None => {}
        }
        match &self.grant {
            Grant::Person | Grant::Client => {}
            Grant::Workload { assertion } => secrets.push(assertion),
            Grant::Enterprise(enterprise) => {
                secrets.extend(&enterprise.client_secret);
                secrets.push(&enterprise.id_token);
            }
        }
        secrets
    }

    /// Every text that may refer to something.
    #[must_use]
    pub fn texts(&self) -> Vec<&Template> {
        let mut texts: Vec<&Template> = self.client.iter().map(|client| &client.id).collect();
        if let Grant::Enterprise(enterprise) = &self.grant {
            texts.extend([&enterprise.token_endpoint, &enterprise.client_id]);
        }
        texts.extend(self.secrets().into_iter().map(|secret| secret.written()));
        texts
    }
}

impl Secret {
    /// What names it: no secret by itself.
    #[must_use]
    pub const fn written(&self) -> &Template {
        let (SecretSource::Text(text) | SecretSource::File(text)) = &self.source;
        text
    }
}
