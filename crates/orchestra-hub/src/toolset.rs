//! Toolsets keep a model's context small: which of the hub's tools a caller sees.

use std::collections::BTreeSet;

use crate::{Hub, ToolDescriptor};

/// The tools of a working day.
const LEAN: [&str; 21] = [
    "list_projects",
    "create_project",
    "get_project_status",
    "create_epic",
    "create_story",
    "create_task",
    "list_tasks",
    "get_task",
    "update_task",
    "get_next_task",
    "claim_task",
    "set_current_task",
    "advance_task",
    "release_task",
    "reject_task",
    "search",
    "get_workflow_status",
    "save_memory",
    "search_memory",
    "get_context",
    "report_bug",
];

/// What stands for them in a list.
const LEAN_NAME: &str = "lean";

/// What stands for every built-in tool in a list.
const ALL_NAME: &str = "all";

/// What stands before the name of a server in a list.
const SERVER_MARK: &str = "server:";

/// A choice of tools. It is about the built-in tools: those of other servers are shown beside them,
/// unless a list names some of these servers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Toolset {
    /// Every tool.
    #[default]
    All,
    /// The tools of a working day, without the arguments that are seldom needed, and the
    /// tools of other servers.
    Lean,
    /// `find_tools` and `call_tool`, which reach every tool.
    Search,
    /// What a list names.
    Listed {
        /// The groups of built-in tools; `lean` among them stands for the tools of a working day, `all` for every
        /// one.
        groups: BTreeSet<String>,
        /// The servers whose tools are shown; `None` for all.
        servers: Option<BTreeSet<String>>,
    },
}

/// Why a text names no toolset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolsetError {
    /// A part of the list is empty.
    #[error(
        "the toolset is empty; use all, lean, search, or a comma-separated list of groups and server:NAME"
    )]
    Empty,
    /// `search` is one of several.
    #[error(
        "search reaches every tool, so it cannot be combined with groups or servers; use search alone"
    )]
    SearchInList,
    /// No tool belongs to the group.
    #[error(
        "unknown tool group {group}; use all, lean, search, or some of {}. To select an upstream server, use \
         server:NAME",
        known.join(", ")
    )]
    UnknownGroup {
        /// The group asked for.
        group: String,
        /// The groups there are.
        known: Vec<String>,
    },
    /// There is no such server.
    #[error("unknown server {server}: {}", told(known))]
    UnknownServer {
        /// The server asked for.
        server: String,
        /// The servers there are.
        known: Vec<String>,
    },
}

fn told(known: &[String]) -> String {
    match known {
        [] => "no upstream servers are configured".to_owned(),
        known => format!("the servers are {}", known.join(", ")),
    }
}

impl Toolset {
    /// Parses `all`, `lean`, `search` or a comma-separated list of groups and `server:NAME`. Whether
    /// these exist is checked by [`Hub::toolset`](crate::Hub::toolset), or by
    /// [`check_groups`](Self::check_groups) and [`check_servers`](Self::check_servers).
    ///
    /// # Errors
    /// When a part of the list is empty, or `search` is one of several.
    pub fn parse(text: &str) -> Result<Self, ToolsetError> {
        match text.trim() {
            ALL_NAME => return Ok(Self::All),
            LEAN_NAME => return Ok(Self::Lean),
            "search" => return Ok(Self::Search),
            _ => {}
        }
        let (mut groups, mut servers) = (BTreeSet::new(), None);
        for part in text.split(',').map(str::trim) {
            match part.strip_prefix(SERVER_MARK).map(str::trim) {
                Some("") => return Err(ToolsetError::Empty),
                Some(server) => {
                    let servers: &mut BTreeSet<String> = servers.get_or_insert_default();
                    servers.insert(server.to_owned());
                }
                None if part.is_empty() => return Err(ToolsetError::Empty),
                None if part == "search" => return Err(ToolsetError::SearchInList),
                None => drop(groups.insert(part.to_owned())),
            }
        }
        Ok(Self::Listed { groups, servers })
    }

    /// Checks that each group is one of `known`.
    ///
    /// # Errors
    /// Which one is not.
    pub fn check_groups<'a>(
        &self,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ToolsetError> {
        let Self::Listed { groups, .. } = self else {
            return Ok(());
        };
        let known: BTreeSet<&str> = known.into_iter().collect();
        let is_known =
            |group: &str| [LEAN_NAME, ALL_NAME].contains(&group) || known.contains(group);
        match groups.iter().find(|group| !is_known(group)) {
            None => Ok(()),
            Some(group) => Err(ToolsetError::UnknownGroup {
                group: group.clone(),
                known: known.into_iter().map(str::to_owned).collect(),
            }),
        }
    }

    /// Checks that each server is one of `known`.
    ///
    /// # Errors
    /// Which one is not.
    pub fn check_servers<'a>(
        &self,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ToolsetError> {
        let Self::Listed {
            servers: Some(servers),
            ..
        } = self
        else {
            return Ok(());
        };
        let known: BTreeSet<&str> = known.into_iter().collect();
        match servers
            .iter()
            .find(|server| !known.contains(server.as_str()))
        {
            None => Ok(()),
            Some(server) => Err(ToolsetError::UnknownServer {
                server: server.clone(),
                known: known.into_iter().map(str::to_owned).collect(),
            }),
        }
    }

    /// Whether `tool` is shown.
    #[must_use]
    pub fn shows(&self, tool: &ToolDescriptor) -> bool {
        match tool.server() {
            Some(server) => self.shows_server(server),
            None => match self {
                Self::All => true,
                Self::Lean => is_lean(tool),
                Self::Search => false,
                Self::Listed { groups, .. } => {
                    groups.contains(&*tool.group)
                        || groups.contains(ALL_NAME)
                        || (groups.contains(LEAN_NAME) && is_lean(tool))
                }
            },
        }
    }

    /// Returns whether a tool that is shown is shown in short: it is lean, and neither its group nor all tools are
    /// selected.
    pub(crate) fn shortens(&self, tool: &ToolDescriptor) -> bool {
        match self {
            Self::All | Self::Search => false,
            Self::Lean => true,
            Self::Listed { groups, .. } => {
                groups.contains(LEAN_NAME)
                    && !groups.contains(ALL_NAME)
                    && !groups.contains(&*tool.group)
            }
        }
    }

    /// Whether a server of others is of any use: its tools are shown, or reached through others.
    #[must_use]
    pub fn reaches_server(&self, server: &str) -> bool {
        *self == Self::Search || self.shows_server(server)
    }

    /// Whether the tools of a server of others are shown.
    #[must_use]
    pub fn shows_server(&self, server: &str) -> bool {
        match self {
            Self::All | Self::Lean => true,
            Self::Search => false,
            Self::Listed { servers, .. } => servers
                .as_ref()
                .is_none_or(|servers| servers.contains(server)),
        }
    }
}

impl Hub {
    /// Parses a toolset and checks that its groups and servers exist now.
    ///
    /// # Errors
    /// When the text is no toolset, or names a group that no built-in tool belongs to, or a server
    /// that nobody speaks for.
    pub fn toolset(&self, text: &str) -> Result<Toolset, ToolsetError> {
        let toolset = Toolset::parse(text)?;
        let merged = self.0.merged();
        let tools = merged.catalogs().flat_map(|catalog| &catalog.tools);
        let ours = tools.filter(|tool| tool.server().is_none());
        toolset.check_groups(ours.map(|tool| &*tool.group))?;
        toolset.check_servers(merged.slots().filter_map(|slot| slot.provider.server()))?;
        Ok(toolset)
    }

    /// The tools that a toolset shows, as it shows them, in the order in which they are listed.
    #[must_use]
    pub fn tools(&self, toolset: &Toolset) -> Vec<ToolDescriptor> {
        self.0.view(toolset, 0).tools()
    }
}

/// Returns whether a tool is one of the toolset `lean`.
fn is_lean(tool: &ToolDescriptor) -> bool {
    LEAN.contains(&tool.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn names_and_lists_are_parsed() {
        assert_eq!(Toolset::parse("all"), Ok(Toolset::All));
        assert_eq!(Toolset::parse(" lean "), Ok(Toolset::Lean));
        let listed = |groups: &[&str], servers: Option<&[&str]>| {
            Ok(Toolset::Listed {
                groups: set(groups),
                servers: servers.map(set),
            })
        };
        assert_eq!(
            Toolset::parse("task, memory"),
            listed(&["memory", "task"], None)
        );
        assert_eq!(
            Toolset::parse("server:b, all,server: a"),
            listed(&["all"], Some(&["a", "b"]))
        );
        for text in ["", ",", "task,", "server:", "task,server: "] {
            assert_eq!(Toolset::parse(text), Err(ToolsetError::Empty), "{text:?}");
        }
        assert_eq!(
            Toolset::parse("task,search"),
            Err(ToolsetError::SearchInList)
        );
    }

    #[test]
    fn what_is_unknown_is_answered_with_what_there_is() {
        let toolset = Toolset::parse("task,nope").unwrap();
        let error = toolset.check_groups(["task", "memory"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown tool group nope; use all, lean, search, or some of memory, task. To select an upstream server, \
             use server:NAME"
        );
        let toolset = Toolset::parse("task,lean,server:fiels").unwrap();
        assert_eq!(toolset.check_groups(["task"]), Ok(()));
        let error = |known: &[&str]| {
            let checked = toolset.check_servers(known.iter().copied());
            checked.unwrap_err().to_string()
        };
        assert_eq!(
            error(&["web", "files"]),
            "unknown server fiels: the servers are files, web"
        );
        assert_eq!(
            error(&[]),
            "unknown server fiels: no upstream servers are configured"
        );
        assert_eq!(toolset.check_servers(["fiels"]), Ok(()));
    }

    /// Neither the length of a list nor a group that is called as a server hides or shows the tools
    /// of that.
    #[test]
    fn a_list_is_about_the_built_in_tools_unless_it_names_servers() {
        let tool = |group: &'static str, name: &str, is_theirs: bool| ToolDescriptor {
            name: name.into(),
            title: None,
            description: None,
            input_schema: orchestra_wire::RawJson::empty_object(),
            lean_schema: None,
            output_schema: None,
            annotations: crate::Annotations::default(),
            group: group.into(),
            cost: crate::Cost::Quick,
            long: crate::LongWork::Never,
            definition: is_theirs.then(orchestra_wire::RawJson::empty_object),
        };
        let tools = [
            tool("project", "search", false),
            tool("memory", "forget", false),
            tool("memory", "search", true),
            tool("web", "get", true),
        ];
        for (toolset, expected) in [
            ("all", [true, true, true, true]),
            ("lean", [true, false, true, true]),
            ("search", [false, false, false, false]),
            ("memory", [false, true, true, true]),
            ("project", [true, false, true, true]),
            ("lean,memory", [true, true, true, true]),
            ("memory,server:web", [false, true, false, true]),
            ("lean,server:memory", [true, false, true, false]),
            ("all,server:web", [true, true, false, true]),
            ("server:memory,server:web", [false, false, true, true]),
        ] {
            let toolset = Toolset::parse(toolset).unwrap();
            let shown = tools.each_ref().map(|tool| toolset.shows(tool));
            assert_eq!(shown, expected, "{toolset:?}");
        }
    }
}
