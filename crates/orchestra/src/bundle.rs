//! The bundled resources: skills, agents, guides and the hook script that `init` puts into a
//! workspace. Few, and neutral about language and product; a project adds its own.

use std::path::{Path, PathBuf};

/// One bundled file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resource {
    /// What it is.
    pub(crate) kind: Kind,
    /// Its name: of a skill its directory, of an agent the file's stem, else the file's name.
    pub(crate) name: &'static str,
    /// Its text.
    pub(crate) text: &'static str,
}

/// The kinds of bundled files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A skill, in a directory of its own.
    Skill,
    /// A sub-agent.
    Agent,
    /// A guide at the top of the workspace.
    Guide,
    /// The script that clients run on events.
    Hook,
}

/// What a hook script of ours runs.
pub(crate) const HOOK_COMMAND: &str = "orchestra hook";

/// The hook script's name.
pub(crate) const HOOK_SCRIPT: &str = "orchestra-mcp-hook.sh";

/// Everything that is bundled, in the order in which it is installed.
pub(crate) const RESOURCES: [Resource; 11] = [
    skill(
        "board-workflow",
        include_str!("../resources/skills/board-workflow/SKILL.md"),
    ),
    skill(
        "writing-evidence",
        include_str!("../resources/skills/writing-evidence/SKILL.md"),
    ),
    skill(
        "sprint-planning",
        include_str!("../resources/skills/sprint-planning/SKILL.md"),
    ),
    skill(
        "project-memory",
        include_str!("../resources/skills/project-memory/SKILL.md"),
    ),
    agent("planner", include_str!("../resources/agents/planner.md")),
    agent(
        "implementer",
        include_str!("../resources/agents/implementer.md"),
    ),
    agent("reviewer", include_str!("../resources/agents/reviewer.md")),
    guide("CLAUDE.md", include_str!("../resources/docs/CLAUDE.md")),
    guide("AGENTS.md", include_str!("../resources/docs/AGENTS.md")),
    guide("CONTEXT.md", include_str!("../resources/docs/CONTEXT.md")),
    Resource {
        kind: Kind::Hook,
        name: HOOK_SCRIPT,
        text: include_str!("../resources/hooks/orchestra-mcp-hook.sh"),
    },
];

const fn skill(name: &'static str, text: &'static str) -> Resource {
    Resource {
        kind: Kind::Skill,
        name,
        text,
    }
}

const fn agent(name: &'static str, text: &'static str) -> Resource {
    Resource {
        kind: Kind::Agent,
        name,
        text,
    }
}

const fn guide(name: &'static str, text: &'static str) -> Resource {
    Resource {
        kind: Kind::Guide,
        name,
        text,
    }
}

impl Resource {
    /// Where it belongs, relative to the workspace.
    pub(crate) fn path(&self) -> PathBuf {
        match self.kind {
            Kind::Skill => Path::new(".claude/skills").join(self.name).join("SKILL.md"),
            Kind::Agent => Path::new(".claude/agents").join(format!("{}.md", self.name)),
            Kind::Guide => PathBuf::from(self.name),
            Kind::Hook => Path::new(".claude/hooks").join(self.name),
        }
    }
}

/// The bundled files of one kind.
pub(crate) fn of_kind(kind: Kind) -> impl Iterator<Item = &'static Resource> {
    RESOURCES
        .iter()
        .filter(move |resource| resource.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skills_and_agents_open_with_their_name_and_a_description() {
        for resource in of_kind(Kind::Skill).chain(of_kind(Kind::Agent)) {
            let front = resource
                .text
                .strip_prefix("---\n")
                .unwrap()
                .split_once("\n---\n")
                .unwrap()
                .0;
            let mut lines = front.lines();
            assert_eq!(
                lines.next(),
                Some(format!("name: {}", resource.name).as_str())
            );
            let description = lines.next().unwrap().strip_prefix("description: ").unwrap();
            assert!(
                !description.contains(": ") && description.len() > 40,
                "{}",
                resource.name
            );
            assert_eq!(lines.next(), None);
        }
    }

    #[test]
    fn guides_and_the_skill_of_the_board_tell_of_plans() {
        for name in ["CLAUDE.md", "AGENTS.md", "board-workflow"] {
            let found = RESOURCES.iter().find(|resource| resource.name == name);
            let text = found.unwrap().text;
            assert!(text.contains("create_copilot_plan"), "{name}");
        }
    }

    #[test]
    fn every_file_of_the_resource_directory_is_bundled() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("resources");
        let mut waiting = vec![directory];
        let mut found = 0;
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    waiting.push(entry.path());
                } else {
                    found += 1;
                }
            }
        }
        assert_eq!(found, RESOURCES.len());
    }

    #[test]
    fn no_text_counts_tools() {
        for resource in RESOURCES {
            let words: Vec<&str> = resource.text.split_whitespace().collect();
            let counted = words.windows(2).any(|pair| {
                pair[0].chars().all(|c| c.is_ascii_digit()) && pair[1].starts_with("tool")
            });
            assert!(!counted, "{}", resource.name);
        }
    }
}
