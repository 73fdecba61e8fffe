//! Names of package manifests, lock files and files of build tools.

use std::path::Path;

const NODE: &[&str] = &[
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    ".pnpmfile.cjs",
    "yarn.lock",
    ".yarnrc.yml",
    ".npmrc",
    "bun.lock",
    "bun.lockb",
    "bunfig.toml",
    "deno.json",
    "deno.jsonc",
    "deno.lock",
];

const PYTHON: &[&str] = &[
    "pyproject.toml",
    "uv.lock",
    "uv.toml",
    "requirements.txt",
    "poetry.lock",
    "pdm.lock",
    "Pipfile",
    "Pipfile.lock",
    "setup.py",
    "setup.cfg",
];

const RUST: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    ".cargo/config.toml",
    "rust-toolchain.toml",
];

const GO: &[&str] = &["go.mod", "go.sum", "go.work", "go.work.sum"];

const OTHER: &[&str] = &[
    "Gemfile",
    "Gemfile.lock",
    "composer.json",
    "composer.lock",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    ".justfile",
    "Rakefile",
    "Taskfile.yml",
    "Taskfile.yaml",
    "Dockerfile",
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
];

/// Names of the files that belong to a program: those of its language where it is known, else all.
pub(super) fn of(program: &str) -> impl Iterator<Item = &'static str> + use<> {
    let name = Path::new(program).file_name();
    let name = name.and_then(|name| name.to_str()).unwrap_or_default();
    let lists: &'static [&'static [&'static str]] = match name {
        "node" | "npm" | "npx" | "pnpm" | "pnpx" | "yarn" | "bun" | "bunx" | "deno" | "tsx"
        | "ts-node" => &[NODE],
        "uv" | "uvx" | "pipx" | "poetry" | "pdm" | "python" | "python3" => &[PYTHON],
        "cargo" => &[RUST],
        "go" => &[GO],
        _ => &[NODE, PYTHON, RUST, GO, OTHER],
    };
    lists.iter().copied().flatten().copied()
}
