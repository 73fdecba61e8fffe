//! Names that the tools and prompts of a server must not have, because they belong to another server
//! or to the tools of the toolset `search`.

use std::collections::HashSet;

use crate::{ProviderId, search, slot::Slot};

/// Separator between the name of a server and the name of its tool.
pub(crate) const SEPARATOR: &str = "__";

/// Provider id that is reported as the owner of the search tools.
const BUILT_IN: &str = "builtin";

/// Beginning of the URIs that name their server: `mcp+SERVER:URI`.
const SERVER_SCHEME: &str = "mcp+";

/// Returns whether a URI has the scheme of a server, in any case. Programs that parse URIs ignore spaces before them, and
/// tabs and line breaks anywhere.
pub(crate) fn is_server_uri(uri: &str) -> bool {
    let is_read = |c: &char| !c.is_control() && *c != ' ';
    let mut scheme = uri.chars().filter(is_read);
    let mut expected = SERVER_SCHEME.chars();
    expected.all(|wanted| {
        scheme
            .next()
            .is_some_and(|c| c.eq_ignore_ascii_case(&wanted))
    })
}

/// Reserved names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reserved {
    /// Names of the configured servers, in any state.
    pub(crate) servers: HashSet<String>,
    /// Names of built-in tools, also where no provider has them: no tool of a server is called by one of these without
    /// the prefix of its server.
    pub(crate) tools: HashSet<String>,
}

impl Reserved {
    /// Returns the owner of a name that the server behind a provider must not use.
    pub(crate) fn owner(&self, slot: &Slot, name: &str) -> Option<ProviderId> {
        // A relay shows the names of its one server unchanged.
        let server = slot.server.as_deref().filter(|_| !slot.lists_anew)?;
        if search::TOOLS.contains(&name) {
            return ProviderId::parse(BUILT_IN);
        }
        let (owner, _) = name.split_once(SEPARATOR)?;
        let is_others = owner != server && self.servers.contains(owner);
        is_others.then(|| ProviderId::parse(owner)).flatten()
    }
}

impl Reserved {
    /// Returns whether a tool may be called by this name without the prefix of its server. A name with a separator may
    /// belong to a server that is unavailable or was removed.
    pub(crate) fn permits_bare(&self, name: &str) -> bool {
        !name.contains(SEPARATOR) && !search::TOOLS.contains(&name) && !self.tools.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_of_a_server_is_found_in_each_spelling() {
        for uri in ["mcp+a:x", "MCP+A:x", " mcp+a:x", "m\tcp+a:x", "mcp+"] {
            assert!(is_server_uri(uri), "{uri:?}");
        }
        for uri in ["", "mcp", "mcp:x", "x:mcp+a:x", "ümcp+a:x"] {
            assert!(!is_server_uri(uri), "{uri:?}");
        }
    }
}
