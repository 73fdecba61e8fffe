//! Tools that are not shown because another provider has a tool of the same name, for commands that
//! look at servers without a hub. A hub finds them in the same order: built-in tools first, then
//! servers as they are configured.

use std::collections::HashMap;

use serde::Serialize;

use crate::{config::ServerConfig, names, policy::Policy};

/// A tool that is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NameCollision {
    /// The server whose tool it is.
    #[serde(skip)]
    pub server: String,
    /// Its name at the server.
    pub tool: String,
    /// The name by which it would be shown.
    pub name: String,
    /// The server that has that name; `None` where it is the name of a built-in tool.
    pub owner: Option<String>,
}

impl NameCollision {
    /// The collisions among the tools that servers list, by their own names. `is_server` returns
    /// whether a server of this name is configured, in any state.
    pub fn among<'c>(
        servers: impl IntoIterator<Item = (&'c ServerConfig, Vec<String>)>,
        is_built_in: impl Fn(&str) -> bool,
        is_server: impl Fn(&str) -> bool,
    ) -> Vec<Self> {
        let mut owners: HashMap<String, String> = HashMap::new();
        let mut found = Vec::new();
        for (config, tools) in servers {
            let policy = Policy::new(config, None);
            let tools: Vec<&str> = tools
                .iter()
                .map(String::as_str)
                .filter(|tool| policy.offers(tool))
                .collect();
            let shown = names::shown(&config.name, config.prefix, tools.iter().copied());
            for (tool, name) in tools.iter().zip(shown) {
                let Some(name) = name else { continue };
                let prefix = name.split_once("__").map(|(server, _)| server);
                let prefix = prefix.filter(|prefix| *prefix != config.name.as_str());
                let reserved = prefix.filter(|prefix| is_server(prefix)).map(str::to_owned);
                let owner = reserved.or_else(|| owners.get(&name).cloned());
                if owner.is_some() || is_built_in(&name) {
                    found.push(Self {
                        server: config.name.to_string(),
                        tool: (*tool).to_owned(),
                        name,
                        owner,
                    });
                } else {
                    owners.insert(name, config.name.to_string());
                }
            }
        }
        found
    }

    /// In words.
    #[must_use]
    pub fn words(&self) -> String {
        let (tool, name) = (&self.tool, &self.name);
        let owner = match &self.owner {
            Some(owner) => format!("the server {owner}"),
            None => "a built-in tool".to_owned(),
        };
        format!(
            "its tool {tool} is not shown: {owner} has the name {name}; another name of the server, \
             or `\"prefix\": true`, shows both"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{
        InheritEnv, Origin, Place, Source, StdioConfig, Template, Transport, Trust,
    };

    fn server(name: &str, prefix: bool) -> ServerConfig {
        let origin = Origin {
            file: Path::new("mcp.json").into(),
            place: Place::START,
            source: Source::User,
            trust: Trust::Trusted,
            directory: ".".into(),
        };
        let transport = Transport::Stdio(StdioConfig {
            command: Template::new("true"),
            args: Vec::new(),
            cwd: None,
            env: std::collections::BTreeMap::new(),
            env_file: None,
            inherit_env: InheritEnv::Default,
        });
        let mut config = ServerConfig::new(name.parse().unwrap(), origin, transport);
        config.prefix = prefix;
        config
    }

    #[test]
    fn later_tools_of_a_taken_name_collide_with_the_first() {
        let (plain, other, prefixed) = (server("a", false), server("b", false), server("c", true));
        let tools = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let servers = [
            (
                &plain,
                tools(&["get", "list_projects", "c__put", "off__get", "a__x", "d__x"]),
            ),
            (&other, tools(&["get", "own"])),
            (&prefixed, tools(&["get", "put"])),
        ];
        let is_server = |name: &str| matches!(name, "a" | "b" | "c" | "off");
        let found = NameCollision::among(servers, |name| name == "list_projects", is_server);
        let found: Vec<_> = found
            .iter()
            .map(|one| (&*one.server, &*one.tool, &*one.name, one.owner.as_deref()))
            .collect();
        assert_eq!(
            found,
            [
                ("a", "list_projects", "list_projects", None),
                ("a", "c__put", "c__put", Some("c")),
                ("a", "off__get", "off__get", Some("off")),
                ("b", "get", "get", Some("a")),
            ]
        );
    }
}
