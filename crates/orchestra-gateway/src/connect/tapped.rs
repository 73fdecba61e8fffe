//! Servers whose messages are recorded: by us, or by whoever stands between them and their clients.

use std::sync::Arc;

use orchestra_mcp::client::{
    ChildConfig, ClientError, Connector,
    tap::{Tap, TapConnector},
};
use orchestra_secret::{Masker, is_secret_name};

use super::Connectors;
use crate::config::{Auth, ServerConfig, Transport};

impl Connectors {
    /// Records what goes over connections, what each server's configuration holds in secret masked.
    #[must_use]
    pub fn with_tap(mut self, tap: Tap) -> Self {
        self.tap = Some(tap);
        self
    }

    pub(super) fn tapped(
        &self,
        connector: Arc<dyn Connector>,
        config: &ServerConfig,
    ) -> Arc<dyn Connector> {
        match &self.tap {
            Some(tap) => {
                let masks = self.masker(config, tap.masker().clone());
                let tapped = TapConnector::new(connector, tap.clone(), config.name.as_str());
                Arc::new(tapped.masking(masks))
            }
            None => connector,
        }
    }

    /// How the process of a server is started, for whoever passes its bytes on; or that of a plugin,
    /// but for the arguments that every plugin is given behind its own.
    ///
    /// # Errors
    /// When the server is no process, its configuration refers to what is not there, or a file changed that its
    /// approval covers.
    pub fn child(&self, config: &ServerConfig) -> Result<ChildConfig, ClientError> {
        self.late_child(config).child()
    }

    /// Masks, beside what `masker` does, what the configuration of a server holds in secret:
    /// variables and headers with secret names, headers with variables in their values, and its token.
    #[must_use]
    pub fn masker(&self, config: &ServerConfig, masker: Masker) -> Masker {
        let expand = |text| self.scope.expand(text, config).ok();
        match &config.transport {
            Transport::Stdio(stdio) => match self.scope.process(stdio, config) {
                Ok(process) => masker.environment(process.env),
                // It is not started then, and says nothing.
                Err(_) => masker,
            },
            Transport::Http(http) => {
                let headers = http.headers.iter();
                let secret = headers
                    .filter(|(name, value)| is_secret_name(name) || value.written().contains("${"));
                let tokens: Vec<String> = match &http.auth {
                    Some(Auth::Bearer(token)) => expand(token).into_iter().collect(),
                    Some(Auth::Env(variable)) => {
                        self.scope.variable(variable).into_iter().collect()
                    }
                    Some(Auth::OAuth(oauth)) => {
                        let secrets = oauth.secrets().into_iter();
                        let known = secrets.map(|secret| self.scope.secret(secret, config));
                        known.flatten().collect()
                    }
                    Some(Auth::Command { .. }) | None => Vec::new(),
                };
                let values = secret.filter_map(|(_, value)| expand(value)).chain(tokens);
                let values: Vec<String> = values.collect();
                // Behind its scheme, where it has one.
                let bare = values.iter().filter_map(|value| value.rsplit(' ').next());
                masker.values(values.iter().map(String::as_str).chain(bare))
            }
            Transport::Plugin(plugin) => {
                let process = self.scope.plugin(plugin, config);
                let env = process.map(|process| process.env).unwrap_or_default();
                let told = self.scope.boot(plugin, config).unwrap_or_default();
                masker.environment(env.into_iter().chain(told))
            }
            Transport::Orchestrator(_) => masker,
        }
    }
}
