//! What is reached by the plugin protocol, which is spoken by whoever runs a gateway and not by us.

use std::{collections::BTreeMap, fmt, sync::Arc};

use orchestra_mcp::client::{ClientError, Connector};

use super::{Connectors, invalid};
use crate::{
    config::{ServerConfig, Transport},
    expand::{ExpandError, Orchestrator},
};

/// Finds how a plugin or an orchestrator elsewhere is reached, or says why it cannot be. It is given
/// configurations whose transport is one of these two, and how their texts are understood: by
/// [`Connectors::child`], [`Connectors::boot`] and [`Connectors::orchestrator`], at each start anew.
pub type Quic = Arc<
    dyn Fn(&Connectors, &ServerConfig) -> Result<Arc<dyn Connector>, ClientError> + Send + Sync,
>;

/// Who reaches plugins and orchestrators, where somebody does.
#[derive(Clone, Default)]
pub(super) struct ByQuic(Option<Quic>);

impl fmt::Debug for ByQuic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByQuic").field(&self.0.is_some()).finish()
    }
}

impl Connectors {
    /// Reaches plugins and orchestrators elsewhere as `quic` finds. Without it they are shown, and
    /// cannot be used.
    #[must_use]
    pub fn with_quic(mut self, quic: Quic) -> Self {
        self.quic = ByQuic(Some(quic));
        self
    }

    pub(super) fn by_quic(&self, config: &ServerConfig) -> Result<Arc<dyn Connector>, ClientError> {
        match &self.quic.0 {
            Some(quic) => quic(self, config),
            None => Err(ClientError::InvalidConfig {
                what:
                    "plugins and orchestrators elsewhere are reached by a program that speaks the \
                       plugin protocol, and this one was not given it (`Connectors::with_quic`)"
                        .into(),
            }),
        }
    }

    /// What a plugin is told when it is booted. Holds secrets.
    ///
    /// # Errors
    /// When the server is no plugin, or refers to what is not there.
    pub fn boot(&self, config: &ServerConfig) -> Result<BTreeMap<String, String>, ClientError> {
        match &config.transport {
            Transport::Plugin(plugin) => self.scope.boot(plugin, config).map_err(invalid),
            _ => Err(invalid(ExpandError::Unusable("the server is not a plugin"))),
        }
    }

    /// An orchestrator elsewhere, ready to be reached.
    ///
    /// # Errors
    /// When the server is none, or refers to what is not there.
    pub fn orchestrator(&self, config: &ServerConfig) -> Result<Orchestrator, ClientError> {
        match &config.transport {
            Transport::Orchestrator(there) => {
                self.scope.orchestrator(there, config).map_err(invalid)
            }
            _ => Err(invalid(ExpandError::Unusable(
                "the server is not an orchestrator",
            ))),
        }
    }
}
