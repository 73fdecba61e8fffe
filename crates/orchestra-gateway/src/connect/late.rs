//! Texts and files whose contents are put in when a request is sent, so that nothing here holds a
//! secret.

use std::sync::Arc;

use orchestra_mcp::client::{ClientError, http as client_http};

use crate::{
    config::{Secret, ServerConfig, Template},
    expand::{ExpandError, Scope},
};

/// Texts that are expanded when they are sent: each stands in for itself as a variable.
#[derive(Default)]
pub(super) struct Late(Vec<Named>);

/// What a variable of ours stands for.
enum Named {
    Text(Template),
    Secret(Secret),
}

/// How these variables begin; no variable of an environment does.
const LATE: &str = "text.";

impl Late {
    pub(super) fn text(&mut self, text: &Template) -> Result<client_http::Template, ClientError> {
        self.named(Named::Text(text.clone()))
    }

    pub(super) fn secret(&mut self, secret: &Secret) -> Result<client_http::Template, ClientError> {
        self.named(Named::Secret(secret.clone()))
    }

    fn named(&mut self, named: Named) -> Result<client_http::Template, ClientError> {
        let variable = format!("${{{LATE}{}}}", self.0.len());
        self.0.push(named);
        client_http::Template::parse(&variable).map_err(|error| ClientError::InvalidConfig {
            what: error.to_string(),
        })
    }

    pub(super) fn secrets(
        self,
        scope: Scope,
        config: ServerConfig,
    ) -> Arc<dyn client_http::Secrets> {
        Arc::new(Secrets {
            named: self.0,
            scope,
            config,
        })
    }
}

/// Puts in what they stand for.
struct Secrets {
    named: Vec<Named>,
    scope: Scope,
    config: ServerConfig,
}

impl Secrets {
    fn find(&self, name: &str) -> Option<Result<String, ExpandError>> {
        let Some(place) = name.strip_prefix(LATE) else {
            return Some(self.scope.variable(name));
        };
        Some(match self.named.get(place.parse::<usize>().ok()?)? {
            Named::Text(text) => self.scope.expand(text, &self.config),
            Named::Secret(secret) => self.scope.secret(secret, &self.config),
        })
    }
}

impl client_http::Secrets for Secrets {
    fn value(&self, name: &str) -> Option<String> {
        self.find(name)?.ok()
    }

    fn why_missing(&self, name: &str) -> Option<String> {
        Some(self.find(name)?.err()?.to_string())
    }
}
