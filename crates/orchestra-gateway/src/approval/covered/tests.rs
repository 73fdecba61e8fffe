//! Tests of the files that an approval covers.

mod gaps;
mod loaded;
mod manifests;

#[cfg(target_os = "linux")]
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use super::*;
use crate::{
    approval::{Fingerprint, fingerprint::differences},
    config::{File, FileKind, Source},
};

struct Workspace(tempfile::TempDir);

impl Workspace {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn config(&self, server: &serde_json::Value) -> ServerConfig {
        let file = File {
            path: self.0.path().join(".mcp.json").into(),
            source: Source::Workspace,
            trust: Source::Workspace.trust(),
            directory: self.0.path().to_owned(),
            kind: FileKind::Servers,
            owners: None,
        };
        let text = json!({"mcpServers": {"a": server}}).to_string();
        let config = file.understand(&text).servers.remove(0).config;
        ServerConfig::clone(&config.unwrap())
    }

    fn covered(&self, server: &serde_json::Value) -> Covered {
        let scope = Scope::new(self.0.path(), None, |_| None);
        Covered::of(&self.config(server), &scope)
    }

    fn files(&self, server: &serde_json::Value) -> Vec<String> {
        let covered = self.covered(server);
        let files = covered.files();
        files.map(|(path, _)| path.display().to_string()).collect()
    }

    fn fingerprint(&self, server: &serde_json::Value) -> Fingerprint {
        Fingerprint::of(&self.config(server), &self.covered(server))
    }
}

#[test]
fn files_of_the_command_line_and_their_manifests_are_covered() {
    let workspace = Workspace::new();
    for path in [
        "server.js",
        "package.json",
        "sub/package.json",
        "sub/lib.mjs",
        "sub/main.py",
        "uv.lock",
        "start",
        "hook.js",
        "unrelated.js",
    ] {
        workspace.write(path, "x");
    }
    for (server, files) in [
        (
            json!({"command": "node", "args": ["server.js"]}),
            vec!["package.json", "server.js"],
        ),
        // Without the extension, as an option with its value, in a directory of its own.
        (
            json!({"command": "node", "args": ["--import=./sub/lib", "${workspaceFolder}/server"]}),
            vec![
                "package.json",
                "server.js",
                "sub/lib.mjs",
                "sub/package.json",
            ],
        ),
        (
            json!({"command": "npx", "args": ["-y", "thing"], "cwd": "sub"}),
            vec!["package.json", "sub/package.json"],
        ),
        (
            json!({"command": "uv", "args": ["--directory", "sub", "run", "main.py"]}),
            vec!["sub/main.py", "uv.lock"],
        ),
        (
            json!({"command": "sh", "args": ["-c", "cd sub && exec python3 ./main.py"]}),
            vec!["package.json", "sub/main.py", "sub/package.json", "uv.lock"],
        ),
        (
            json!({"command": "./start"}),
            vec!["package.json", "start", "uv.lock"],
        ),
        (
            json!({"command": "uvx", "args": ["thing"], "env": {"NODE_OPTIONS": "--require ./hook.js"}}),
            vec!["hook.js", "uv.lock"],
        ),
        (json!({"url": "https://example.com/mcp"}), vec![]),
    ] {
        assert_eq!(workspace.files(&server), files, "{server}");
    }
}

#[test]
fn files_of_a_command_line_are_covered_whatever_their_names() {
    let workspace = Workspace::new();
    for path in [
        "run.txt",
        "index.md",
        "x.log",
        "reqs.txt",
        "srv.py",
        ".env.txt",
        "server.py",
        "lib/Evil.pm",
        "lib/Foo/Bar.pm",
        "mod.lua",
        "prog.awk",
        "x.rb",
        "tools/Makefile",
        "main.sh",
        "x.js",
        "payload",
        "mod.ts",
        "x.txt",
        "data.db",
        "pkg/__init__.py",
        "pkg/sub/__init__.py",
        "pkg/sub/__main__.py",
        "pkg.py",
        "config.json",
    ] {
        workspace.write(path, "x");
    }
    for (words, files) in [
        ("sh run.txt", vec!["run.txt"]),
        ("node index.md", vec!["index.md"]),
        ("tclsh x.log", vec!["x.log"]),
        ("sqlite data.db", vec!["data.db"]),
        (
            "uv run --with-requirements reqs.txt srv.py",
            vec!["reqs.txt", "srv.py"],
        ),
        ("node --env-file=.env.txt", vec![".env.txt"]),
        ("python3 -mserver", vec!["server.py"]),
        ("python3 -Bmserver", vec!["server.py"]),
        (
            "perl -Ilib -MEvil -MFoo::Bar",
            vec!["lib/Evil.pm", "lib/Foo/Bar.pm"],
        ),
        ("lua -lmod", vec!["mod.lua"]),
        ("awk -fprog.awk", vec!["prog.awk"]),
        ("ruby -r./x", vec!["x.rb"]),
        ("make -Ctools", vec!["tools/Makefile"]),
        ("make -fmain.sh", vec!["main.sh"]),
        ("node --require=./x.js ./payload", vec!["payload", "x.js"]),
        ("sh main.sh payload", vec!["main.sh", "payload"]),
        ("python3 -m pkg", vec!["pkg.py", "pkg/__init__.py"]),
        (
            "python3 -m pkg.sub",
            vec![
                "pkg/__init__.py",
                "pkg/sub/__init__.py",
                "pkg/sub/__main__.py",
            ],
        ),
        ("git -c alias.x=!./x.txt x", vec!["x.txt"]),
        ("deno run mod.ts?x=1", vec!["mod.ts"]),
    ] {
        let mut words = words.split(' ');
        let program = words.next().unwrap();
        let server = json!({"command": program, "args": words.collect::<Vec<_>>()});
        let found = workspace.files(&server);
        for file in files {
            assert!(
                found.iter().any(|found| found == file),
                "{file}: {server}: {found:?}"
            );
        }
    }
    let redirected =
        json!({"command": "sh", "args": ["-c", "exec python3 server.py 2>> config.json"]});
    assert_eq!(workspace.files(&redirected), ["server.py"]);
}

#[test]
fn data_that_a_variable_names_is_not_covered_and_programs_are() {
    let workspace = Workspace::new();
    for path in ["data.db", "journal", "config.json"] {
        workspace.write(path, "x");
    }
    workspace.write("tool.log", "#!/bin/sh\n");
    let env = json!({"A": "./data.db", "B": "journal", "C": "config.json", "D": "tool.log"});
    let server = json!({"command": "true", "env": env});
    assert_eq!(workspace.files(&server), ["config.json", "tool.log"]);
    // What a loader reads is code in any form.
    let server = json!({"command": "true", "env": {"LD_PRELOAD": "./data.db"}});
    assert_eq!(workspace.files(&server), ["data.db"]);
}

#[test]
fn shared_code_is_read_once_and_covers_the_same() {
    let workspace = Workspace::new();
    for number in 0..100 {
        workspace.write(&format!("classes/{number}.class"), "x");
    }
    let config = workspace.config(&json!({"command": "java", "args": ["-cp", "classes", "x"]}));
    let scope = Scope::new(workspace.0.path(), None, |_| None);
    let mut shared = SharedWork::default();
    let mut of_one = || {
        let before = shared.effort;
        let covered = Covered::of_one(&config, &scope, &mut shared);
        assert_eq!(covered, Covered::of(&config, &scope));
        shared.effort - before
    };
    let (first, second) = (of_one(), of_one());
    assert!(second + 100 <= first, "{first} {second}");
}

#[test]
fn file_of_variables_is_covered_and_its_variables_are_known() {
    let workspace = Workspace::new();
    workspace.write(".env", "NODE_OPTIONS=--require ./hook.js\n");
    workspace.write("hook.js", "x");
    let server = json!({"command": "npx", "args": ["thing"], "envFile": ".env"});
    let covered = workspace.covered(&server);
    assert_eq!(workspace.files(&server), [".env", "hook.js"]);
    let variable = ("NODE_OPTIONS".to_owned(), "--require ./hook.js".to_owned());
    assert_eq!(covered.variables(), [variable]);
}

#[test]
fn file_outside_the_workspace_is_not_read() {
    let workspace = Workspace::new();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.js");
    fs::write(&secret, "x").unwrap();
    symlink(&secret, workspace.0.path().join("server.js")).unwrap();
    let by_path = json!({"command": "node", "args": [secret]});
    assert_eq!(workspace.files(&by_path), [""; 0]);
    let by_link = json!({"command": "node", "args": ["server.js"]});
    let covered = workspace.covered(&by_link);
    let contents: Vec<_> = covered.files().map(|(_, content)| content).collect();
    assert!(
        matches!(&contents[..], [Content::Outside(_)]),
        "{covered:?}"
    );
    let before = workspace.fingerprint(&by_link);
    fs::write(&secret, "y").unwrap();
    assert_eq!(workspace.fingerprint(&by_link), before);
}

#[test]
fn module_in_the_last_of_several_directories_is_covered() {
    let workspace = Workspace::new();
    for path in ["d1/x", "d2/x", "d3/x", "d4/x", "d5/module.py"] {
        workspace.write(path, "x");
    }
    let server = json!({"command": "python", "args": ["-m", "module"],
        "env": {"PYTHONPATH": "d1:d2:d3:d4:d5"}});
    assert_eq!(workspace.files(&server), ["d5/module.py"]);
    assert_eq!(workspace.covered(&server).gap(), None);
}

#[test]
#[cfg(target_os = "linux")]
fn files_below_directories_whose_names_are_not_utf_8_are_covered() {
    let prefix = OsStr::from_bytes(b"\xff");
    let directory = tempfile::Builder::new().prefix(prefix).tempdir().unwrap();
    let workspace = Workspace(directory);
    workspace.write(".env", "A=1\n");
    workspace.write("package.json", "{}");
    let server = json!({"command": "npx", "args": ["thing"], "envFile": ".env"});
    assert_eq!(workspace.files(&server), [".env", "package.json"]);
    let below = workspace.0.path().join(prefix);
    fs::create_dir(&below).unwrap();
    fs::write(below.join("index.js"), "x").unwrap();
    symlink(&below, workspace.0.path().join("link")).unwrap();
    let server = json!({"command": "node", "args": ["link"]});
    assert_eq!(
        workspace.files(&server),
        ["package.json", "\u{fffd}/index.js"]
    );
    // The names of the parts of a fingerprint are stored.
    let fingerprint = workspace.fingerprint(&server);
    let name = r"the file not-utf-8://\xff/index.js";
    assert!(fingerprint.parts().contains_key(name), "{fingerprint:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn link_to_another_path_that_is_not_utf_8_changes_the_fingerprint() {
    let workspace = Workspace::new();
    let outside = tempfile::tempdir().unwrap();
    let link = workspace.0.path().join("server.js");
    let server = json!({"command": "node", "args": ["server.js"]});
    let fingerprints = [b"\xfe", b"\xff"].map(|name| {
        let target = outside.path().join(OsStr::from_bytes(name));
        fs::write(&target, "x").unwrap();
        let _ = fs::remove_file(&link);
        symlink(&target, &link).unwrap();
        workspace.fingerprint(&server)
    });
    assert_ne!(fingerprints[0].as_str(), fingerprints[1].as_str());
}

#[test]
fn change_of_a_fingerprint_names_what_changed_and_no_value() {
    let workspace = Workspace::new();
    workspace.write("server.js", "1");
    workspace.write("package.json", "{}");
    let server = json!({"command": "node", "args": ["server.js", "x"], "cwd": ".",
        "env": {"A": "1", "API_TOKEN": "s3cret"}});
    let before = workspace.fingerprint(&server);
    assert_eq!(workspace.fingerprint(&server), before);
    workspace.write("server.js", "2");
    workspace.write("package-lock.json", "{}");
    let other = json!({"command": "bun", "args": ["server.js"], "cwd": ".",
        "env": {"B": "1", "API_TOKEN": "hunter2"}});
    let after = workspace.fingerprint(&other);
    assert_ne!(after.as_str(), before.as_str());
    assert_eq!(
        differences(before.parts(), after.parts()),
        [
            "argument 2 is gone",
            "the variable A is gone",
            "the file package-lock.json is new",
            "the file server.js changed",
            "the program changed",
            "the variable API_TOKEN changed",
            "the variable B is new",
        ]
    );
}

#[test]
fn each_part_of_a_server_is_in_its_fingerprint() {
    let workspace = Workspace::new();
    let process = json!({"command": "x", "args": ["1"], "env": {"A": "1"}, "cwd": "."});
    let there = json!({"url": "https://example.com", "headers": {"A": "1"}});
    for (server, key, value) in [
        (&process, "command", json!("y")),
        (&process, "args", json!(["2"])),
        (&process, "args", json!(["1", "1"])),
        (&process, "env", json!({"A": "2"})),
        (&process, "env", json!({"B": "1"})),
        (&process, "cwd", json!("/")),
        (&there, "url", json!("https://example.org")),
        (&there, "headers", json!({"A": "2"})),
    ] {
        let mut other = server.clone();
        other[key] = value;
        let (before, after) = (workspace.fingerprint(server), workspace.fingerprint(&other));
        assert_ne!(before.as_str(), after.as_str(), "{other}");
    }
}

#[test]
fn link_that_changes_what_a_sandbox_reaches_changes_the_fingerprint() {
    let workspace = Workspace::new();
    let server = json!({
        "command": "x", "cwd": "work", "sandbox": {"mode": "workspace", "read": ["in"], "write": ["out"]},
    });
    let at = |name: &str| workspace.0.path().join(name);
    for name in ["work", "in", "out", "other"] {
        fs::create_dir(at(name)).unwrap();
    }
    let approved = workspace.fingerprint(&server);
    for name in ["work", "in", "out"] {
        fs::remove_dir(at(name)).unwrap();
        std::os::unix::fs::symlink("other", at(name)).unwrap();
        let changes = approved.changes(&workspace.fingerprint(&server));
        let expected = format!("the target of {} is new", at(name).display());
        assert_eq!(changes, [expected]);
        fs::remove_file(at(name)).unwrap();
        fs::create_dir(at(name)).unwrap();
    }
    assert_eq!(workspace.fingerprint(&server), approved);
}
