//! Tests of manifests and settings beside and above a server, and of the members that it names.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::*;

/// Text of the file with which build tools mark a cache.
const CACHE_TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# A cache.\n";

#[test]
fn manifests_of_a_deep_directory_are_covered_once() {
    let workspace = Workspace::new();
    let deep = "d/".repeat(40);
    let mut words = Vec::new();
    for number in 0..40 {
        let word = format!("{deep}{number}/x.js");
        workspace.write(&word, "x");
        words.push(word);
    }
    workspace.write("package.json", "{}");
    workspace.write("d/d/package.json", "{}");
    let files = workspace.files(&json!({"command": "sh", "args": words}));
    let covered = workspace.covered(&json!({"command": "sh", "args": words}));
    assert_eq!(covered.gap(), None);
    let manifests = files.iter().filter(|file| file.ends_with("package.json"));
    assert_eq!(
        Vec::from_iter(manifests),
        ["d/d/package.json", "package.json"]
    );
}

/// Checks that a file changes the approval of a server when it appears, and when it changes, and that the approval does
/// not report unknown files.
fn check_appears(server: &serde_json::Value, files: &[(&str, &str)], new: &str) {
    let workspace = Workspace::new();
    for (path, text) in files {
        workspace.write(path, text);
    }
    let changes = [("1", "is new"), ("2", "changed")].map(|(text, change)| {
        let before = workspace.fingerprint(server);
        workspace.write(new, text);
        let changes = before.changes(&workspace.fingerprint(server));
        (changes, [format!("the file {new} {change}")])
    });
    for (changes, expected) in changes {
        assert_eq!(changes, expected, "{server}");
    }
    assert!(!workspace.covered(server).is_unclear(), "{server}");
}

#[test]
fn configuration_in_each_directory_above_is_covered_when_it_appears() {
    let files = [
        ("a/b/Cargo.toml", "[package]\nname = \"x\"\n"),
        ("a/b/package.json", "{}"),
        ("a/b/.cargo/config.toml", ""),
    ];
    for (program, new) in [
        ("cargo", ".cargo/config"),
        ("cargo", ".cargo/config.toml"),
        ("cargo", "a/.cargo/config"),
        ("cargo", "a/.cargo/config.toml"),
        ("cargo", "a/b/.cargo/config"),
        ("cargo", "Cargo.toml"),
        ("cargo", "rust-toolchain"),
        ("npm", "package.json"),
        ("yarn", ".yarnrc"),
        ("yarn", "a/.yarnrc.yml"),
        ("mix", "a/b/mix.exs"),
        ("nix", "flake.nix"),
        ("swift", "Package.swift"),
        ("clj", "deps.edn"),
        ("dart", "pubspec.yaml"),
        ("zig", "build.zig"),
        ("gradle", "settings.gradle.kts"),
        ("gradle", "gradle/wrapper/gradle-wrapper.properties"),
        ("mise", "mise.toml"),
        ("direnv", ".envrc"),
        ("nox", "noxfile.py"),
        ("pm2", "ecosystem.config.js"),
        ("dotnet", "a/b/server.csproj"),
        ("dotnet", "a/Directory.Build.props"),
    ] {
        let server = json!({"command": program, "args": ["run"], "cwd": "a/b"});
        check_appears(&server, &files, new);
    }
}

#[test]
fn manifests_of_the_member_that_a_command_line_names_are_covered() {
    let files = [
        ("package.json", r#"{"workspaces": ["packages/*"]}"#),
        ("packages/one/package.json", r#"{"name": "@a/server"}"#),
        ("packages/two/package.json", r#"{"name": "other"}"#),
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
        ("crates/one/Cargo.toml", "[package]\nname = \"server\"\n"),
        ("py/one/pyproject.toml", "[project]\nname = \"My_Server\"\n"),
    ];
    for (line, new) in [
        ("npm start -w @a/server", "packages/one/package-lock.json"),
        ("npm start -w packages/two", "packages/two/.npmrc"),
        (
            "npm start --workspace=./packages/two/",
            "packages/two/.npmrc",
        ),
        ("pnpm --filter @a/server... start", "packages/one/.npmrc"),
        ("yarn workspace other start", "packages/two/.yarnrc"),
        ("cargo run -q -p server", "crates/one/build.rs"),
        ("uv run --package my-server serve", "py/one/setup.py"),
        (
            "sh -c exec#cargo#run#--package=server",
            "crates/one/build.rs",
        ),
    ] {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('#', " ")).collect();
        let server = json!({"command": words[0], "args": words[1..]});
        check_appears(&server, &files, new);
    }
}

#[test]
fn member_that_is_not_found_is_unclear() {
    let workspace = Workspace::new();
    workspace.write("packages/one/package.json", r#"{"name": "server"}"#);
    let is_unclear = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let server = json!({"command": words[0], "args": words[1..]});
        workspace.covered(&server).is_unclear()
    };
    for line in [
        "npm start -w absent",
        "npm start -w packages",
        "npm start --workspaces",
        "pnpm --filter ./packages/* start",
        "cargo run -p server",
        "uv run --package server serve",
    ] {
        assert!(is_unclear(line), "{line}");
    }
    assert!(!is_unclear("npm start -w server"));
    workspace.write("packages/broken/package.json", "{");
    assert!(is_unclear("npm start -w server"));
}

#[test]
fn output_of_build_tools_is_not_searched_for_members() {
    let workspace = Workspace::new();
    workspace.write("one/Cargo.toml", "[package]\nname = \"server\"\n");
    for output in ["target", ".venv"] {
        workspace.write(&format!("{output}/CACHEDIR.TAG"), CACHE_TAG);
        workspace.write(&format!("{output}/package/one/Cargo.toml"), "[");
    }
    let server = json!({"command": "cargo", "args": ["run", "-p", "server"]});
    assert!(!workspace.covered(&server).is_unclear());
}

#[test]
fn directory_that_is_no_output_of_build_tools_is_searched_for_members() {
    let cargo = json!({"command": "cargo", "args": ["run", "-p", "server"]});
    let uv = json!({"command": "uv", "args": ["run", "--package", "server", "x"]});
    let rust = ("Cargo.toml", "[package]\nname = \"server\"\n", "build.rs");
    let python = (
        "pyproject.toml",
        "[project]\nname = \"server\"\n",
        "setup.py",
    );
    for (directory, tag) in [
        ("crates", CACHE_TAG),
        ("crates", ""),
        ("target", ""),
        ("node_modules", ""),
    ] {
        for (server, (manifest, text, new)) in [(&cargo, rust), (&uv, python)] {
            let files = [
                (&*format!("{directory}/CACHEDIR.TAG"), tag),
                (&*format!("{directory}/one/{manifest}"), text),
            ];
            check_appears(server, &files, &format!("{directory}/one/{new}"));
        }
    }
}

#[test]
fn search_for_members_during_a_build_is_complete() {
    let workspace = Workspace::new();
    workspace.write("one/Cargo.toml", "[package]\nname = \"server\"\n");
    let server = json!({"command": "cargo", "args": ["run", "-p", "server"]});
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                let out = format!("out{round}");
                for number in 0..50 {
                    workspace.write(&format!("{out}/{number}/Cargo.toml"), "");
                }
                fs::remove_dir_all(workspace.0.path().join(out)).unwrap();
            }
        });
        let is_unclear = (0..200).any(|_| workspace.covered(&server).is_unclear());
        is_done.store(true, Ordering::Relaxed);
        assert!(!is_unclear);
    });
}
