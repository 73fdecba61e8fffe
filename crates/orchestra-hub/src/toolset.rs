//! Toolsets keep a model's context small: which of the hub's tools a caller sees.

use std::collections::BTreeSet;

use crate::{Catalog, ToolDescriptor};

/// The tools of a working day.
const LEAN: [&str; 20] = [
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
    "reject_task",
    "search",
    "get_workflow_status",
    "save_memory",
    "search_memory",
    "get_context",
    "report_bug",
];

/// What stands for them in a choice.
const LEAN_NAME: &str = "lean";

/// A choice of tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Toolset {
    /// Every tool.
    #[default]
    All,
    /// The twenty tools of a working day; none of another server.
    Lean,
    /// `find_tools` and `call_tool`, which reach every tool.
    Search,
    /// The tools of these groups; `lean` among them stands for the twenty.
    Groups(BTreeSet<String>),
}

/// Why a text names no toolset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolsetError {
    /// A part of the list is empty.
    #[error("empty toolset: use all, lean, search or a comma-separated list of groups")]
    Empty,
    /// No tool belongs to the group.
    #[error("unknown tool group {group}: use all, lean, search or some of {}", known.join(", "))]
    UnknownGroup {
        /// The group asked for.
        group: String,
        /// The groups there are.
        known: Vec<String>,
    },
}

impl Toolset {
    /// Parses `all`, `lean`, `search` or a comma-separated list of groups. Whether the groups
    /// exist is checked by [`Hub::toolset`](crate::Hub::toolset).
    ///
    /// # Errors
    /// When a part of the list is empty.
    pub fn parse(text: &str) -> Result<Self, ToolsetError> {
        match text.trim() {
            "all" => return Ok(Self::All),
            LEAN_NAME => return Ok(Self::Lean),
            "search" => return Ok(Self::Search),
            _ => {}
        }
        let groups: BTreeSet<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
        if groups.contains("") {
            Err(ToolsetError::Empty)
        } else {
            Ok(Self::Groups(groups))
        }
    }

    /// Checks that each group has a tool in one of `catalogs`, or may come to have one.
    pub(crate) fn check<'a>(
        &self,
        catalogs: impl Iterator<Item = &'a Catalog>,
        promised: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ToolsetError> {
        let Self::Groups(groups) = self else {
            return Ok(());
        };
        let known: BTreeSet<&str> = catalogs
            .flat_map(|catalog| &catalog.tools)
            .map(|tool| &*tool.group)
            .chain(promised)
            .collect();
        let is_known = |group: &str| group == LEAN_NAME || known.contains(group);
        match groups.iter().find(|group| !is_known(group)) {
            None => Ok(()),
            Some(group) => Err(ToolsetError::UnknownGroup {
                group: group.clone(),
                known: known.into_iter().map(str::to_owned).collect(),
            }),
        }
    }

    /// Whether `tool` is shown.
    #[must_use]
    pub fn shows(&self, tool: &ToolDescriptor) -> bool {
        match self {
            Self::All => true,
            Self::Lean => is_lean(tool),
            Self::Search => false,
            Self::Groups(groups) => {
                groups.contains(&*tool.group) || (groups.contains(LEAN_NAME) && is_lean(tool))
            }
        }
    }
}

/// Whether it is one of the twenty; those of other servers carry their definition.
fn is_lean(tool: &ToolDescriptor) -> bool {
    tool.definition.is_none() && LEAN.contains(&tool.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_lists_are_parsed() {
        assert_eq!(Toolset::parse("all"), Ok(Toolset::All));
        assert_eq!(Toolset::parse(" lean "), Ok(Toolset::Lean));
        let groups = ["memory", "task"].map(str::to_owned).into();
        assert_eq!(Toolset::parse("task, memory"), Ok(Toolset::Groups(groups)));
        for text in ["", ",", "task,"] {
            assert_eq!(Toolset::parse(text), Err(ToolsetError::Empty), "{text:?}");
        }
    }

    #[test]
    fn an_unknown_group_is_answered_with_the_groups_there_are() {
        let tool = |group| ToolDescriptor {
            name: "t".into(),
            title: None,
            description: None,
            input_schema: orchestra_wire::RawJson::empty_object(),
            output_schema: None,
            annotations: crate::Annotations::default(),
            group: std::borrow::Cow::Borrowed(group),
            cost: crate::Cost::Quick,
            long: crate::LongWork::Never,
            definition: None,
        };
        let catalog = Catalog {
            tools: vec![tool("task"), tool("memory")],
            ..Catalog::default()
        };
        let error = Toolset::parse("task,nope")
            .unwrap()
            .check([&catalog].into_iter(), ["files"]);
        assert_eq!(
            error.unwrap_err().to_string(),
            "unknown tool group nope: use all, lean, search or some of files, memory, task"
        );
    }

    #[test]
    fn the_twenty_are_never_those_of_another_server() {
        let tool = |definition| ToolDescriptor {
            name: "search".into(),
            title: None,
            description: None,
            input_schema: orchestra_wire::RawJson::empty_object(),
            output_schema: None,
            annotations: crate::Annotations::default(),
            group: if definition {
                "web".into()
            } else {
                "project".into()
            },
            cost: crate::Cost::Quick,
            long: crate::LongWork::Never,
            definition: definition.then(orchestra_wire::RawJson::empty_object),
        };
        for (toolset, ours, theirs) in [
            ("all", true, true),
            ("lean", true, false),
            ("lean,web", true, true),
            ("web", false, true),
            ("search", false, false),
        ] {
            let toolset = Toolset::parse(toolset).unwrap();
            let shown = (toolset.shows(&tool(false)), toolset.shows(&tool(true)));
            assert_eq!(shown, (ours, theirs), "{toolset:?}");
        }
    }
}
