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

/// A choice of tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Toolset {
    /// Every tool.
    #[default]
    All,
    /// The twenty tools of a working day.
    Lean,
    /// `find_tools` and `call_tool`, which reach every tool.
    Search,
    /// The tools of these groups.
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
            "lean" => return Ok(Self::Lean),
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

    /// Checks that each group has a tool in one of `catalogs`.
    pub(crate) fn check<'a>(
        &self,
        catalogs: impl Iterator<Item = &'a Catalog>,
    ) -> Result<(), ToolsetError> {
        let Self::Groups(groups) = self else {
            return Ok(());
        };
        let known: BTreeSet<&str> = catalogs
            .flat_map(|catalog| &catalog.tools)
            .map(|tool| tool.group)
            .collect();
        match groups.iter().find(|group| !known.contains(group.as_str())) {
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
            Self::Lean => LEAN.contains(&tool.name.as_str()),
            Self::Search => false,
            Self::Groups(groups) => groups.contains(tool.group),
        }
    }
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
            group,
            cost: crate::Cost::Quick,
            long: crate::LongWork::Never,
        };
        let catalog = Catalog {
            tools: vec![tool("task"), tool("memory")],
            ..Catalog::default()
        };
        let error = Toolset::parse("task,nope")
            .unwrap()
            .check([&catalog].into_iter());
        assert_eq!(
            error.unwrap_err().to_string(),
            "unknown tool group nope: use all, lean, search or some of memory, task"
        );
    }
}
