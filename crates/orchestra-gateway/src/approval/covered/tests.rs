//! Tests of the files that an approval covers.

mod loaded;

#[cfg(target_os = "linux")]
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::json;

use super::*;
use crate::{
    approval::{Fingerprint, fingerprint::differences},
    config::{File, FileKind, Source},
};

/// Text of the file with which build tools mark a cache.
const CACHE_TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# A cache.\n";

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
fn shell_line_with_a_variable_in_a_path_is_unclear() {
    let workspace = Workspace::new();
    for (line, is_unclear) in [
        ("exec ./$X.sh", true),
        ("ln -sfn sub l; sh l/x.sh", true),
        ("cp -r sub l; sh l/x.sh", true),
        ("exec ./x.sh", false),
    ] {
        let server = json!({"command": "sh", "args": ["-c", line]});
        assert_eq!(
            workspace.covered(&server).is_unclear(),
            is_unclear,
            "{line}"
        );
    }
}

#[test]
fn directory_whose_code_is_not_told_is_unclear() {
    let workspace = Workspace::new();
    workspace.write("classes/x.class", "x");
    workspace.write("options", "-cp classes");
    workspace.write("tool/package.json", "{\"main\": \"x.js\",");
    for number in 0..=4_096 {
        workspace.write(&format!("many/{number}.class"), "");
    }
    for (words, is_unclear) in [
        (&["java", "-cp", "classes", "x"][..], false),
        (&["java", "-cp", "many", "x"], true),
        (&["java", "@options", "x"], true),
        (&["node", "tool"], true),
    ] {
        let server = json!({"command": words[0], "args": words[1..]});
        let covered = workspace.covered(&server);
        assert_eq!(covered.is_unclear(), is_unclear, "{words:?}");
    }
}

#[test]
fn directory_that_exceeds_a_limit_after_the_approval_changes_the_server() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.0.path().join("many")).unwrap();
    let servers = [
        (
            json!({"command": "java", "args": ["-cp", "many", "x"]}),
            "many",
        ),
        (json!({"command": "run-parts", "args": ["many"]}), "many/**"),
        (
            json!({"command": "dotnet", "args": ["run"], "cwd": "many"}),
            "many",
        ),
    ];
    let before = servers
        .each_ref()
        .map(|(server, _)| workspace.fingerprint(server));
    for number in 0..=4_096 {
        workspace.write(&format!("many/{number}.class"), "");
    }
    for ((server, name), before) in servers.iter().zip(before) {
        let changes = before.changes(&workspace.fingerprint(server));
        assert_eq!(changes, [format!("the file {name} is new")], "{server}");
    }
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
fn code_behind_too_much_code_of_a_server_is_unclear() {
    let workspace = Workspace::new();
    for directory in ["a", "b"] {
        workspace.write(&format!("{directory}/x.class"), "x");
    }
    let config = workspace.config(&json!({"command": "java", "args": ["-cp", "a:b", "x"]}));
    let scope = Scope::new(workspace.0.path(), None, |_| None);
    for (effort, is_unclear) in [(MAX_CODE_EFFORT, false), (MAX_CODE_EFFORT + 1, true)] {
        let mut shared = SharedWork::default();
        let directory = (Loads::Code, "a".into());
        let read = ReadCode {
            code: Code::None,
            effort,
            has_process_link: false,
            shared: BTreeSet::new(),
        };
        shared.code.insert(directory, read);
        let covered = Covered::of_one(&config, &scope, &mut shared);
        assert_eq!(covered.is_unclear(), is_unclear, "{effort}");
    }
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
fn more_words_than_are_looked_at_are_reported() {
    let workspace = Workspace::new();
    let few = json!({"command": "sh", "args": ["-c", "a b c"]});
    assert_eq!(workspace.covered(&few).gap(), None);
    let words: Vec<String> = (0..=MAX_WORDS).map(|word| word.to_string()).collect();
    let many = json!({"command": "sh", "args": words});
    assert_eq!(workspace.covered(&many).gap(), Some(Gap::Words));
}

#[test]
fn empty_words_count_as_words() {
    let workspace = Workspace::new();
    let variables = (0..=MAX_WORDS).map(|number| (format!("V{number}"), json!("")));
    let env = serde_json::Map::from_iter(variables);
    let server = json!({"command": "sh", "env": env});
    assert_eq!(workspace.covered(&server).gap(), Some(Gap::Words));
    let paths = vec!["."; MAX_WORDS + 1];
    let server = json!({"command": "sh", "sandbox": {"mode": "workspace", "read": paths}});
    assert_eq!(workspace.covered(&server).gap(), Some(Gap::Words));
}

#[test]
fn word_that_is_too_long_is_reported() {
    let workspace = Workspace::new();
    for (length, gap) in [(60_000, None), (70_000, Some(Gap::Length))] {
        for server in [
            json!({"command": "sh", "args": ["x".repeat(length)]}),
            json!({"command": "sh", "env": {"A": "x".repeat(length)}}),
        ] {
            assert_eq!(workspace.covered(&server).gap(), gap, "{length}");
        }
    }
    let text = json!({"command": "sh", "args": ["${LONG}".repeat(1_000_000 / 7)]});
    let scope = Scope::new(workspace.0.path(), None, |_| Some("x".repeat(100_000)));
    let covered = Covered::of(&workspace.config(&text), &scope);
    assert_eq!(covered.gap(), None, "such a server cannot be started");
}

#[test]
fn more_paths_than_are_looked_up_are_reported() {
    let workspace = Workspace::new();
    let mut words = Vec::new();
    for number in 0..100 {
        words.push(format!("w{number}"));
        words.push(format!("-m{number}.a.b"));
    }
    for directory in 0..MAX_DIRECTORIES - 1 {
        workspace.write(&format!("d{directory}/x"), "x");
    }
    let server = |directories: usize, words: &[String]| {
        let directories = (0..directories).map(|number| format!("d{number}"));
        let path = directories.collect::<Vec<_>>().join(":");
        json!({"command": "sh", "args": words, "env": {"PYTHONPATH": path}})
    };
    let many = server(MAX_DIRECTORIES - 1, &words);
    assert_eq!(workspace.covered(&many).gap(), Some(Gap::Paths));
    let few = server(4, &words[..10]);
    assert_eq!(workspace.covered(&few).gap(), None);
    let manifest = format!(r#"{{"exports": {:?}}}"#, vec!["./x"; 128]);
    workspace.write("package.json", &manifest);
    let dots = Vec::from_iter((1..100).map(|dots| "./".repeat(dots)));
    let manifests = json!({"command": "node", "args": dots});
    assert_eq!(workspace.covered(&manifests).gap(), Some(Gap::Paths));
}

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
fn more_directories_and_files_than_are_covered_are_reported() {
    let workspace = Workspace::new();
    let mut directories = Vec::new();
    for directory in 0..MAX_DIRECTORIES {
        let directory = format!("d{directory}");
        workspace.write(&format!("{directory}/x"), "x");
        directories.push(directory);
    }
    let server = json!({"command": "sh", "env": {"PYTHONPATH": directories.join(":")}});
    let gap = workspace.covered(&server).gap();
    assert_eq!(gap, Some(Gap::Directories));
    let mut words = Vec::new();
    for word in 0..=MAX_FILES / 2 {
        let word = format!("w{word}");
        workspace.write(&format!("{word}.js"), "x");
        workspace.write(&format!("{word}.py"), "x");
        words.push(word);
    }
    let server = json!({"command": "sh", "args": words});
    assert_eq!(workspace.covered(&server).gap(), Some(Gap::Files));
}

#[test]
#[cfg(target_os = "linux")]
fn path_through_a_link_that_differs_by_process_is_reported() {
    let workspace = Workspace::new();
    workspace.write("sub/x.sh", "x");
    let link = |name: &str, target: &str| {
        std::os::unix::fs::symlink(target, workspace.0.path().join(name)).unwrap();
    };
    link("sub/link.sh", "/proc/self/cwd/x.sh");
    link("sub/root", "/proc/self/root");
    for server in [
        json!({"command": "sh", "args": ["/proc/self/cwd/x.sh"], "cwd": "sub"}),
        json!({"command": "sh", "args": ["/dev/fd/../cwd/x.sh"]}),
        json!({"command": "sh", "args": ["-c", "cd sub; exec sh /proc/thread-self/cwd/x.sh"]}),
        json!({"command": "sh", "args": ["link.sh"], "cwd": "sub"}),
        json!({"command": "sh", "args": ["sub/root/etc/passwd"]}),
        json!({"command": "sh", "cwd": "/proc/self/cwd"}),
    ] {
        let gap = workspace.covered(&server).gap();
        assert_eq!(gap, Some(Gap::Process), "{server}");
    }
    for word in ["/dev/stderr", "/dev/fd/2", "/proc", "/proc/self/status"] {
        let server = json!({"command": "sh", "args": ["x.sh", word], "cwd": "sub"});
        assert_eq!(workspace.covered(&server).gap(), None, "{word}");
    }
}

#[test]
fn workspace_that_cannot_be_read_is_reported() {
    let workspace = Workspace::new();
    let server = json!({"command": "sh"});
    let config = workspace.config(&server);
    let scope = Scope::new(&workspace.0.path().join("absent"), None, |_| None);
    assert_eq!(Covered::of(&config, &scope).gap(), Some(Gap::Workspace));
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
