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
    ".yarnrc",
    ".yarnrc.yml",
    ".npmrc",
    "bun.lock",
    "bun.lockb",
    "bunfig.toml",
    "deno.json",
    "deno.jsonc",
    "deno.lock",
    "ecosystem.config.cjs",
    "ecosystem.config.js",
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
    "noxfile.py",
    "tox.ini",
];

const RUST: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    ".cargo/config",
    ".cargo/config.toml",
    "rust-toolchain",
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
    "settings.gradle",
    "settings.gradle.kts",
    "gradle.properties",
    "gradle/wrapper/gradle-wrapper.jar",
    "gradle/wrapper/gradle-wrapper.properties",
    "mix.exs",
    "mix.lock",
    "flake.nix",
    "flake.lock",
    "Package.swift",
    "Package.resolved",
    "deps.edn",
    "pubspec.yaml",
    "pubspec.lock",
    "build.zig",
    "build.zig.zon",
    "mise.toml",
    ".mise.toml",
    ".tool-versions",
    ".envrc",
];

/// Files that belong to projects of .NET, beside those with one of [`PROJECT_ENDS`].
const PROJECT_FILES: [&str; 5] = [
    "Directory.Build.props",
    "Directory.Build.targets",
    "Directory.Packages.props",
    "global.json",
    "nuget.config",
];

/// Ends of the names of projects of .NET.
const PROJECT_ENDS: [&str; 5] = ["csproj", "fsproj", "sln", "slnx", "vbproj"];

/// Returns whether a file belongs to projects of .NET, by its name.
pub(super) fn is_project(name: &Path) -> bool {
    let has_end = name
        .extension()
        .is_some_and(|end| PROJECT_ENDS.iter().any(|one| end.eq_ignore_ascii_case(one)));
    has_end
        || PROJECT_FILES
            .iter()
            .any(|one| name.as_os_str().eq_ignore_ascii_case(one))
}

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
