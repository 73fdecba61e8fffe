//! Who somebody is, by the name in its certificate.

use orchestra_plugin::ids::{CertName, PluginId};

use super::failure::Failure;

/// The bridges, by their ids.
const BRIDGES: [&str; 2] = ["transport.stdio", "transport.quic-bridge"];

/// Names that orchestrators have.
const OURS: &str = "orchestrator";

/// The names in the certificates of bridges, each of which many share.
pub fn bridges() -> impl Iterator<Item = CertName> {
    let ids = BRIDGES.iter().filter_map(|id| id.parse::<PluginId>().ok());
    ids.map(|id| id.client_name())
}

/// Somebody who may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Who {
    /// A plugin.
    Plugin(PluginId),
    /// A bridge, which speaks for its clients.
    Bridge(PluginId),
}

impl Who {
    /// Whose certificate has this name.
    pub(super) fn of(name: &CertName) -> Result<Self, Failure> {
        let id = name.plugin_client().filter(|_| !is_ours(name));
        match id {
            Some(id) if BRIDGES.contains(&id.as_str()) => Ok(Self::Bridge(id)),
            Some(id) => Ok(Self::Plugin(id)),
            None => Err(Failure::new(
                "unknown_peer",
                format!(
                    "the certificate names {:?}, which may not call here: plugins show the \
                     certificate <id>-client",
                    name.as_str()
                ),
            )),
        }
    }

    pub(super) fn id(&self) -> &PluginId {
        match self {
            Self::Plugin(id) | Self::Bridge(id) => id,
        }
    }

    pub(super) fn plugin(&self) -> Option<&PluginId> {
        match self {
            Self::Plugin(id) => Some(id),
            Self::Bridge(_) => None,
        }
    }
}

fn is_ours(name: &CertName) -> bool {
    let rest = name.as_str().strip_prefix(OURS);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bridge_has_a_name() {
        let all: Vec<_> = bridges().collect();
        assert_eq!(all.len(), BRIDGES.len());
        for name in all {
            assert!(matches!(Who::of(&name), Ok(Who::Bridge(_))), "{name}");
        }
    }

    #[test]
    fn only_clients_may_call() {
        let of = |name: &str| Who::of(&name.parse().unwrap());
        let id = |id: &str| id.parse::<PluginId>().unwrap();
        assert_eq!(of("a.b-client").unwrap(), Who::Plugin(id("a.b")));
        for bridge in BRIDGES {
            let name = format!("{bridge}-client");
            assert_eq!(of(&name).unwrap(), Who::Bridge(id(bridge)));
        }
        for name in [
            "a.b",
            "transport.stdio",
            "orchestrator",
            "orchestrator-client",
            "orchestrator-to-a.b",
            "orchestrator-to-a-client",
            "quic-bridge-server",
            "-client",
        ] {
            let refused = of(name).unwrap_err();
            assert!(refused.message.contains(name), "{name}");
        }
    }
}
