//! What is answered without asking the peer, which knows nothing of it.

use orchestra_wire::{Era, RawJson, Revision, RpcError};

use super::{Peer, Terms, text};

/// Severities of log messages in MCP.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

impl Terms {
    /// The answer to `initialize`: a peer of the session era, in the revision that is asked for if
    /// there is such a one.
    pub(super) fn initialized(&self, params: Option<&RawJson>) -> RawJson {
        let asked = params.and_then(|params| text::text_member(params, "protocolVersion"));
        let asked = asked.and_then(|text| Revision::parse(&text));
        let revision = asked.filter(|revision| revision.era() == Era::Session);
        let revision = revision.unwrap_or(Revision::NEWEST_SESSION).as_str();
        let (name, capabilities) = match &self.peer {
            Peer::Plugin(id) => (id.as_str(), self.capabilities()),
            Peer::Orchestrator => (
                "orchestra",
                serde_json::json!({"tools": {}, "prompts": {}, "logging": {}, "resources": {}}),
            ),
        };
        let result = serde_json::json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "serverInfo": {"name": name, "version": self.version.as_deref().unwrap_or("unknown")},
        });
        RawJson::of(&result).unwrap_or_else(|_| RawJson::empty_object())
    }
}

impl Terms {
    fn capabilities(&self) -> serde_json::Value {
        let mut capabilities = serde_json::json!({"tools": {}, "prompts": {}, "logging": {}});
        if self.offers.resources {
            capabilities["resources"] = serde_json::json!({});
        }
        if self.offers.completions {
            capabilities["completions"] = serde_json::json!({});
        }
        capabilities
    }
}

/// The answer to `logging/setLevel`: such a peer logs nothing to its callers.
pub(super) fn level(params: Option<&RawJson>) -> Result<RawJson, RpcError> {
    let level = params.and_then(|params| text::text_member(params, "level"));
    let level = level.unwrap_or_default();
    match LEVELS.contains(&level.as_str()) {
        true => Ok(RawJson::empty_object()),
        false => Err(RpcError::invalid_params(format!(
            "invalid log level: \"{}\"",
            orchestra_wire::shown(&level)
        ))),
    }
}
