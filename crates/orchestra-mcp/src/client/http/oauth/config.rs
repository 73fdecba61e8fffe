//! How tokens are asked for, and on whose behalf.

use std::sync::Arc;

use reqwest::Url;

use super::TokenStore;
use crate::client::http::Template;

/// How tokens are asked for.
#[derive(Clone)]
pub struct OAuthConfig {
    /// A client that the authorization server knows.
    pub client: Option<KnownClient>,
    /// The URL of a description of this client (client id metadata document).
    pub client_document: Option<String>,
    /// On whose behalf.
    pub grant: Grant,
    /// The rights to ask for; empty for those that the server names.
    pub scopes: Vec<String>,
    /// The port of this machine that people come back to; 0 for any.
    pub callback_port: u16,
    /// Where tokens are kept.
    pub store: Arc<dyn TokenStore>,
    /// Shows a person where to sign in, as soon as that is needed. Without it whoever calls is told
    /// that somebody has to.
    pub sign_in: Option<Arc<dyn SignIn>>,
}

impl OAuthConfig {
    /// A person signs in when asked to, by a client that registers itself.
    #[must_use]
    pub fn new(store: Arc<dyn TokenStore>) -> Self {
        Self {
            client: None,
            client_document: None,
            grant: Grant::Person,
            scopes: Vec::new(),
            callback_port: 0,
            store,
            sign_in: None,
        }
    }
}

/// A client that an authorization server knows.
#[derive(Clone)]
pub struct KnownClient {
    /// Its id there.
    pub id: String,
    /// How it shows who it is.
    pub proof: ClientProof,
}

/// How a client shows who it is.
#[derive(Clone, Default)]
pub enum ClientProof {
    /// Not at all.
    #[default]
    None,
    /// By a secret.
    Secret(Template),
    /// By signing (`private_key_jwt`, RFC 7523).
    Key {
        /// The key, in PEM.
        pem: Template,
        /// `ES256`, `ES384`, `RS256` or `EdDSA`.
        algorithm: String,
    },
}

/// On whose behalf tokens are asked for.
#[derive(Clone)]
pub enum Grant {
    /// A person's, who signs in with a browser.
    Person,
    /// The client's own (RFC 6749, section 4.4).
    Client,
    /// The workload's that this runs in, whose platform has signed who it is (RFC 7523).
    Workload {
        /// What the platform has signed.
        assertion: Template,
    },
    /// A person's whom an enterprise has signed in (identity assertion authorization grant).
    Enterprise(Enterprise),
}

/// Whom an enterprise has signed in, and where that is made good for other services.
#[derive(Clone)]
pub struct Enterprise {
    /// The token endpoint of the enterprise's identity provider.
    pub token_endpoint: Url,
    /// Our id there.
    pub client_id: String,
    /// Our secret there.
    pub client_secret: Option<Template>,
    /// The identity token that the sign-in brought.
    pub id_token: Template,
}

/// Shows a person where to sign in.
pub trait SignIn: Send + Sync + 'static {
    /// Shows a URL: opens a browser, or prints it. Returns at once; what the person does comes back
    /// to this machine by itself.
    fn show(&self, url: &Url);

    /// Shows the URL of the server's metadata before it is read, if the server names one of another origin.
    fn show_metadata(&self, _url: &Url) {}
}

impl<F: Fn(&Url) + Send + Sync + 'static> SignIn for F {
    fn show(&self, url: &Url) {
        self(url);
    }
}
