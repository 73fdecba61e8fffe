//! Paths of a workspace that a sandboxed server cannot change, present or absent.
//!
//! One rule decides: a program that the user starts for another purpose (git, an editor, an agent, a shell, a package
//! manager) reads the path as its configuration without a question, and finds programs to run, credentials or the
//! addresses to which credentials go in it. What a person builds or runs on purpose is source and stays writable:
//! scripts, `Makefile`, `package.json`, `Cargo.toml`, `pyproject.toml` and the like.

use std::path::{Path, PathBuf};

/// Reasons, each with its paths. `docs/servers-sandbox.md` has the same table.
static SETTINGS: [(&str, &[&str]); 9] = [
    (
        "repositories: hooks, filters, addresses of remotes and submodules",
        &[
            ".git",
            ".gitattributes",
            ".gitmodules",
            ".hg",
            ".jj",
            ".lfsconfig",
        ],
    ),
    (
        "state of Orchestra and the places where servers are looked for",
        &[
            ".cursor",
            ".mcp.json",
            ".orchestra",
            ".orchestrator",
            ".projects",
            ".sdek",
            ".vscode",
            ".worktrees",
            "mcp.json",
            "orchestra.toml",
            "plugins.yaml",
        ],
    ),
    (
        "agents: hooks, servers, permissions",
        &[
            ".aider.conf.yml",
            ".amazonq",
            ".claude",
            ".cline",
            ".clinerules",
            ".codex",
            ".continue",
            ".copilot",
            ".crush.json",
            ".gemini",
            ".kiro",
            ".opencode",
            ".qwen",
            ".roo",
            ".windsurf",
            "crush.json",
            "opencode.json",
            "opencode.jsonc",
        ],
    ),
    (
        "editors and debuggers: tasks, language servers, start files",
        &[
            ".devcontainer",
            ".devcontainer.json",
            ".dir-locals.el",
            ".exrc",
            ".gdbinit",
            ".helix",
            ".idea",
            ".lldbinit",
            ".nvim.lua",
            ".nvimrc",
            ".vs",
            ".zed",
        ],
    ),
    (
        "hooks of commits",
        &[
            ".githooks",
            ".husky",
            ".lefthook",
            ".lefthook.yml",
            ".overcommit.yml",
            ".pre-commit-config.yaml",
            "lefthook.yml",
        ],
    ),
    (
        "workflows of hosting services, which run with their secrets",
        &[
            ".circleci",
            ".forgejo",
            ".gitea",
            ".github",
            ".gitlab-ci.yml",
            ".gitpod.yml",
            ".travis.yml",
            ".woodpecker",
        ],
    ),
    (
        "environment of shells and of programs that load it by themselves",
        &[
            ".config",
            ".env",
            ".env.local",
            ".envrc",
            ".mise",
            ".mise.toml",
            "mise.toml",
        ],
    ),
    (
        "package managers: registries, credentials, programs in their place",
        &[
            ".bundle",
            ".cargo",
            ".mvn",
            ".npmrc",
            ".pnpmfile.cjs",
            ".pypirc",
            ".yarn",
            ".yarnrc",
            ".yarnrc.yml",
            "bunfig.toml",
            "pip.conf",
            "rust-toolchain",
            "rust-toolchain.toml",
            "uv.toml",
        ],
    ),
    (
        "interactive interpreters: start files",
        &[".irbrc", ".pryrc"],
    ),
];

/// Returns the protected paths of a workspace.
pub(crate) fn protected(workspace: &Path) -> impl Iterator<Item = PathBuf> {
    let names = SETTINGS.iter().flat_map(|(_, names)| *names);
    names.map(|name| workspace.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::FileKind,
        discovery::places::{CONFIG_FILE, OWN_DIRECTORY, WORKSPACE_FILES},
    };

    #[test]
    fn every_place_of_servers_is_protected() {
        let tops = WORKSPACE_FILES.map(|file| file.split_once('/').map_or(file, |(top, _)| top));
        let places = [CONFIG_FILE, FileKind::LIST, OWN_DIRECTORY];
        let all: Vec<PathBuf> = protected(Path::new("")).collect();
        for place in places.into_iter().chain(tops) {
            assert!(all.contains(&place.into()), "{place}");
        }
    }

    #[test]
    fn documentation_has_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/servers-sandbox.md");
        let page = std::fs::read_to_string(page).unwrap();
        for (reason, names) in SETTINGS {
            let names = names.iter().map(|name| format!("`{name}`"));
            let names = names.collect::<Vec<_>>().join(", ");
            let row = format!("| {reason} | {names} |\n");
            assert!(page.contains(&row), "{row}");
        }
    }
}
