//! The bundled resources: skills, agents, guides and the hook script that `init` installs in a
//! workspace. They are neutral about language and product; a project adds its own.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

/// One bundled file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resource {
    /// What it is.
    pub(crate) kind: Kind,
    /// Its name: of a skill its directory, of an agent the file's stem, else the file's name.
    pub(crate) name: &'static str,
    /// Whether `init` installs it unless another [`Selection`] is given.
    pub(crate) is_default: bool,
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

/// The hook script's name.
pub(crate) const HOOK_SCRIPT: &str = "orchestra-mcp-hook.sh";

/// Heading of the part of a guide that names agents.
const ROLES: &str = "## Roles";

/// For each guide a word of its text, and the line with which a guide of the user that lacks this word leads to the board.
const LINES: [(&str, &str, &str); 3] = [
    ("CLAUDE.md", "AGENTS.md", "@AGENTS.md"),
    (
        "AGENTS.md",
        "list_projects",
        "The work is tracked on the board of the MCP server `orchestra`: start with its tool `list_projects`.",
    ),
    (
        "CONTEXT.md",
        "get_context",
        "At the start of a session, call `get_context` of the MCP server `orchestra`.",
    ),
];

/// Bundled skills and agents that a choice of users installs.
#[derive(
    Debug,
    Default,
    Clone,
    Copy,
    PartialEq,
    Eq,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Selection {
    /// No files
    None,
    /// A few files for daily work
    #[default]
    Default,
    /// All files that come with Orchestra
    All,
}

/// Lists the bundled files in the order of their installation, each skill and agent with its part of the choice.
macro_rules! resources {
    (
        skills { default: $($daily_skill:literal)*, more: $($skill:literal)* }
        agents { default: $($daily_agent:literal)*, more: $($agent:literal)* }
        guides { $($guide:literal)* }
        hook { $hook:expr, $hook_file:literal }
    ) => {
        &[
            $(resources!(@skill $daily_skill, true),)*
            $(resources!(@skill $skill, false),)*
            $(resources!(@agent $daily_agent, true),)*
            $(resources!(@agent $agent, false),)*
            $(resources!(@file Kind::Guide, $guide, true, concat!("docs/", $guide)),)*
            resources!(@file Kind::Hook, $hook, true, concat!("hooks/", $hook_file)),
        ]
    };
    (@skill $name:literal, $is_default:literal) => {
        resources!(@file Kind::Skill, $name, $is_default, concat!("skills/", $name, "/SKILL.md"))
    };
    (@agent $name:literal, $is_default:literal) => {
        resources!(@file Kind::Agent, $name, $is_default, concat!("agents/", $name, ".md"))
    };
    (@file $kind:expr, $name:expr, $is_default:literal, concat!($($path:tt)*)) => {
        Resource {
            kind: $kind,
            name: $name,
            is_default: $is_default,
            text: include_str!(concat!("../resources/", $($path)*)),
        }
    };
}

/// All bundled files in the order of their installation.
pub(crate) const RESOURCES: &[Resource] = resources! {
    skills {
        default:
            "board-workflow"
            "writing-evidence"
            "sprint-planning"
            "project-memory",
        more:
            "project-setup"
            "prd-interview"
            "backlog-structure"
            "task-claims"
            "task-testing"
            "task-documentation"
            "task-review"
            "bug-triage"
            "running-plans"
            "plan-recovery"
            "plan-changes"
            "usage-tracking"
            "upstream-servers"
            "plugin-setup"
            "board-import"
            "release-management"
            "retrospective"
    }
    agents {
        default:
            "planner"
            "implementer"
            "reviewer",
        more:
            "product-manager"
            "architect"
            "triager"
            "bug-fixer"
            "tester"
            "technical-writer"
            "coordinator"
            "plan-operator"
            "plan-repairer"
            "memory-curator"
            "integrator"
            "release-manager"
            "facilitator"
    }
    guides { "CLAUDE.md" "AGENTS.md" "CONTEXT.md" }
    hook { HOOK_SCRIPT, "orchestra-mcp-hook.sh" }
};

impl Selection {
    /// Returns whether it is the default, which a manifest does not record.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::Default
    }

    /// Returns whether it includes a skill or an agent.
    pub(crate) const fn includes(self, resource: &Resource) -> bool {
        match self {
            Self::None => false,
            Self::Default => resource.is_default,
            Self::All => true,
        }
    }
}

impl Resource {
    /// Returns the text to install. A guide has no lines about skills or roles of agents if none of them are installed.
    pub(crate) fn text_with(&self, skills: Selection, agents: Selection) -> Cow<'static, str> {
        let (has_skills, has_agents) = (skills != Selection::None, agents != Selection::None);
        if self.kind != Kind::Guide || (has_skills && has_agents) {
            return Cow::Borrowed(self.text);
        }
        let (mut text, mut is_of_roles) = (String::new(), false);
        for line in self.text.split_inclusive('\n') {
            if line.starts_with("## ") {
                is_of_roles = line.trim_end() == ROLES;
            }
            let is_of_skills = line.to_lowercase().contains("skill");
            if (has_agents || !is_of_roles) && (has_skills || !is_of_skills) {
                text.push_str(line);
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        Cow::Owned(text)
    }

    /// Returns the line that a file of the user needs in the place of this guide.
    pub(crate) fn missing_line(&self, text: &str) -> Option<&'static str> {
        let (_, word, line) = LINES
            .into_iter()
            .find(|(name, ..)| self.kind == Kind::Guide && *name == self.name)?;
        (!text.contains(word)).then_some(line)
    }

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

    /// Most lines of a skill or agent: a client loads the whole file into the context of its model.
    const MAX_LINES: usize = 200;

    /// Names of skills and agents in the format of Claude Code, Codex and Copilot.
    fn is_name(name: &str) -> bool {
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
        name.len() <= 64 && name.split('-').all(is_part)
    }

    #[test]
    fn skills_and_agents_open_with_their_name_and_a_description() {
        for resource in of_kind(Kind::Skill).chain(of_kind(Kind::Agent)) {
            let Resource { name, text, .. } = *resource;
            let front = text
                .strip_prefix("---\n")
                .unwrap()
                .split_once("\n---\n")
                .unwrap()
                .0;
            let mut lines = front.lines();
            assert!(is_name(name), "{name}");
            assert_eq!(lines.next(), Some(format!("name: {name}").as_str()));
            let description = lines.next().unwrap().strip_prefix("description: ").unwrap();
            // An unquoted scalar of YAML, at most as long as the clients accept.
            assert!(
                !description.contains(": ") && !description.contains(" #"),
                "{name}"
            );
            assert!((40..=1024).contains(&description.len()), "{name}");
            assert!(description.contains(" Use "), "{name}: no occasion");
            assert_eq!(lines.next(), None, "{name}");
        }
    }

    #[test]
    fn skills_and_agents_are_as_many_as_documented_and_short() {
        assert_eq!(of_kind(Kind::Skill).count(), 21);
        assert_eq!(of_kind(Kind::Agent).count(), 16);
        let default = |kind| of_kind(kind).filter(|one| one.is_default).count();
        assert_eq!((default(Kind::Skill), default(Kind::Agent)), (4, 3));
        for resource in RESOURCES {
            let lines = resource.text.lines().count();
            assert!(lines <= MAX_LINES, "{}: {lines} lines", resource.name);
        }
    }

    #[test]
    fn skills_and_agents_that_are_named_exist() {
        let names: Vec<&str> = of_kind(Kind::Skill)
            .chain(of_kind(Kind::Agent))
            .map(|resource| resource.name)
            .collect();
        for resource in RESOURCES {
            // `skill NAME` and `agent NAME` with a backticked name.
            for opener in ["skill `", "agent `"] {
                for part in resource.text.split(opener).skip(1) {
                    let name = part.split('`').next().unwrap();
                    assert!(names.contains(&name), "{}: {opener}{name}", resource.name);
                }
            }
        }
    }

    /// A clone sees the mirror of the board as ignored files, so that an instruction to commit it cannot be followed.
    #[test]
    fn no_text_asks_for_a_commit_of_the_mirror() {
        for resource in RESOURCES {
            for line in resource
                .text
                .lines()
                .filter(|line| line.contains(".projects"))
            {
                assert!(
                    !line.to_lowercase().contains("commit")
                        || line.contains("board = \"checkout\""),
                    "{}: {line}",
                    resource.name
                );
            }
        }
    }

    #[test]
    fn commands_that_are_named_exist_with_their_flags() {
        let program = crate::cli::description();
        let mut found = 0;
        for resource in RESOURCES {
            for line in commands(resource.text) {
                let words = line.split_whitespace().skip(1);
                if let Err(problem) = check(&program, words) {
                    panic!("{}: `{line}`: {problem}", resource.name);
                }
                found += 1;
            }
        }
        assert!(found > 40, "{found}");
    }

    /// Command lines of the program: code spans and lines of shell blocks that begin with its name.
    fn commands(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        let mut is_code = false;
        for line in text.lines() {
            if line.starts_with("```") {
                is_code = !is_code;
            } else if is_code {
                found.extend(line.starts_with("orchestra ").then_some(line));
            } else {
                let spans = line.split('`').skip(1).step_by(2);
                found.extend(spans.filter(|span| span.starts_with("orchestra ")));
            }
        }
        found
    }

    /// Checks the subcommands and flags of a command line. Values are not checked.
    fn check<'a>(
        program: &clap::Command,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<(), String> {
        let mut command = program;
        let mut inherited: Vec<&clap::Arg> = Vec::new();
        for word in words.take_while(|word| !["--", "#", "|", ">"].contains(word)) {
            if let Some(flag) = word.strip_prefix('-') {
                let long = flag.strip_prefix('-').map(|name| name.split('=').next());
                let is_it = |argument: &&clap::Arg| match long {
                    Some(name) => argument.get_long() == name,
                    None => argument.get_short().map(String::from).as_deref() == Some(flag),
                };
                let mut known = command.get_arguments().chain(inherited.iter().copied());
                if !known.any(|argument| is_it(&argument)) {
                    return Err(format!("no option {word}"));
                }
            } else if let Some(next) = command.find_subcommand(word) {
                let global = command.get_arguments().filter(|one| one.is_global_set());
                inherited.extend(global);
                command = next;
            } else if command.has_subcommands() {
                return Err(format!("no subcommand {word}"));
            }
        }
        Ok(())
    }

    #[test]
    fn guides_and_the_skill_of_the_board_name_plans() {
        for name in ["CLAUDE.md", "AGENTS.md", "board-workflow"] {
            let found = RESOURCES.iter().find(|resource| resource.name == name);
            let text = found.unwrap().text;
            assert!(text.contains("create_copilot_plan"), "{name}");
        }
    }

    #[test]
    fn guides_name_skills_and_agents_only_where_they_are_installed() {
        for guide in of_kind(Kind::Guide) {
            let all = guide.text_with(Selection::All, Selection::Default);
            assert_eq!(all, guide.text);
            let bare = guide.text_with(Selection::None, Selection::None);
            for name in ["skill", "Skill", "planner", ".claude/", "\n\n\n"] {
                assert!(!bare.contains(name), "{}: {name}: {bare}", guide.name);
            }
            assert!(bare.ends_with('\n') && !bare.ends_with("\n\n"));
        }
        let guide = RESOURCES.iter().find(|one| one.name == "AGENTS.md");
        let without_agents = guide.unwrap().text_with(Selection::All, Selection::None);
        assert!(
            without_agents.contains("install_skills"),
            "{without_agents}"
        );
        assert!(!without_agents.contains(ROLES), "{without_agents}");
    }

    #[test]
    fn guide_of_the_user_lacks_a_line_unless_it_has_the_word_of_the_bundled_one() {
        for guide in of_kind(Kind::Guide) {
            assert_eq!(guide.missing_line(guide.text), None, "{}", guide.name);
            let line = guide.missing_line("# Mine\n").unwrap();
            assert_eq!(guide.missing_line(line), None, "{line}");
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
