//! Servers without a sandbox whose code a server in a sandbox could exchange during a start.

use std::fs;

use orchestra_gateway::discovery::ServerState;
use serde_json::{Value, json};

use crate::support::World;

/// Directories without files.
const EMPTY: [&str; 16] = [
    ".cargo",
    ".mvn",
    "bin",
    "build/classes/com",
    "buildSrc",
    "data",
    "docs",
    "hooks",
    "lib",
    "node_modules/.bin",
    "node_modules/.cache",
    "sub/out",
    "tools/__pycache__",
    "web/dist",
    "web/node_modules",
    "work",
];

/// State of the approved server `b`, with the reason for it, beside an approved server `a`.
fn state(a: &Value, b: &Value) -> (String, String) {
    let world = World::new();
    for directory in EMPTY {
        fs::create_dir_all(world.path().join("workspace").join(directory)).unwrap();
    }
    state_in(&world, a, b)
}

/// The same in a workspace that may have further directories.
fn state_in(world: &World, a: &Value, b: &Value) -> (String, String) {
    for file in [
        "tools/b.py",
        "tools/inner/c.py",
        "other/b.py",
        ".vscode/b.py",
        "web/server.js",
        "app/own.py",
        "jobs/own",
        "server.py",
        "server/notes",
    ] {
        world.write(&format!("workspace/{file}"), "");
    }
    let linked = world.path().join("workspace/tools/linked.py");
    std::os::unix::fs::symlink("../other/b.py", linked).unwrap();
    for (file, name) in [("app/own.py", "other/second"), ("jobs/own", "other/third")] {
        let at = |path: &str| world.path().join("workspace").join(path);
        fs::hard_link(at(file), at(name)).unwrap();
    }
    let file = json!({"mcpServers": {"a": a, "b": b}}).to_string();
    world.write("workspace/.mcp.json", &file);
    world.approve("b");
    let waiting = world.find();
    let before = waiting.server("b").unwrap().state.as_str();
    assert_eq!(
        before, "enabled",
        "a server that does not run writes nothing"
    );
    world.approve("a");
    let found = world.find();
    let server = found.server("b").unwrap();
    let reason = match &server.state {
        ServerState::Invalid { reason } => reason.clone(),
        _ => String::new(),
    };
    let told = found.diagnostics.iter().map(|told| told.message.as_str());
    assert_eq!(
        told.filter(|told| *told == reason).count(),
        usize::from(!reason.is_empty())
    );
    (server.state.as_str().to_owned(), reason)
}

fn python(file: &str) -> Value {
    json!({"command": "python3", "args": [file]})
}

fn confined(cwd: &str, write: &[&str]) -> Value {
    let sandbox = json!({"mode": "workspace", "write": write});
    json!({"command": "python3", "args": ["-V"], "cwd": cwd, "sandbox": sandbox})
}

#[test]
fn server_whose_code_a_sandboxed_server_may_write_is_not_started() {
    for (a, b, path) in [
        (confined("tools", &[]), python("tools/b.py"), "tools/b.py"),
        (
            confined("other", &["tools"]),
            python("tools/b.py"),
            "tools/b.py",
        ),
        (
            confined("other", &["tools/b.py"]),
            python("tools/b.py"),
            "tools/b.py",
        ),
        (confined(".", &[]), python("tools/b.py"), "tools/b.py"),
        // The link is exchanged instead of the file.
        (
            confined("tools", &[]),
            python("tools/linked.py"),
            "tools/linked.py",
        ),
        (
            confined("other", &[]),
            python("tools/linked.py"),
            "other/b.py",
        ),
    ] {
        let (state, reason) = state(&a, &b);
        assert_eq!(state, "invalid", "{a} {b}");
        let expected = format!("the server `a` may write `{path}` from its sandbox");
        assert!(reason.contains(&expected), "{reason}");
        assert!(reason.contains("narrow `write`"), "{reason}");
    }
}

#[test]
fn server_whose_code_no_sandboxed_server_may_write_is_started() {
    let mut sandboxed = python("tools/b.py");
    sandboxed["sandbox"] = json!({"mode": "workspace"});
    for (a, b) in [
        (confined("other", &[]), python("tools/b.py")),
        (confined("tools/inner", &[]), python("tools/b.py")),
        (confined(".", &[]), python(".vscode/b.py")),
        (confined("tools", &[]), sandboxed),
        (python("tools/inner/c.py"), python("tools/b.py")),
    ] {
        assert_eq!(state(&a, &b).0, "enabled", "{a} {b}");
    }
}

/// A server with the words of a line as its command line.
fn line(line: &str) -> Value {
    let mut words = line.split(' ');
    json!({"command": words.next(), "args": words.collect::<Vec<_>>()})
}

fn with(mut server: Value, name: &str, value: &str) -> Value {
    server["env"] = json!({name: value});
    server
}

#[test]
fn server_whose_new_code_a_sandboxed_server_may_write_is_not_started() {
    let shell = |line: &str| json!({"command": "sh", "args": ["-c", line]});
    for (writable, b, path) in [
        (
            "build/classes",
            line("java -cp build/classes Main"),
            "build/classes",
        ),
        (
            "build/classes/com",
            line("java -cp build/classes Main"),
            "build/classes",
        ),
        ("sub/out", shell("cd sub && java -cp out Main"), "sub/out"),
        (".cargo", line("cargo run"), ".cargo"),
        (".mvn", line("mvn exec:java"), ".mvn"),
        ("buildSrc", line("gradle run"), "buildSrc"),
        ("node_modules", line("npm start"), "node_modules"),
        (
            "node_modules",
            line("node -r srv /opt/x.js"),
            "node_modules",
        ),
        (
            "node_modules",
            with(line("node /opt/x.js"), "NODE_OPTIONS", "--require=srv"),
            "node_modules",
        ),
        ("node_modules/.bin", line("npm start"), "node_modules/.bin"),
        (".", line("node --run start"), "."),
        ("node_modules", line("node --run start"), "node_modules"),
        (
            "node_modules/.bin",
            line("node --run start"),
            "node_modules/.bin",
        ),
        ("node_modules", line("deno task start"), "node_modules"),
        (
            "web/node_modules",
            line("node web/server.js"),
            "web/node_modules",
        ),
        ("web/dist", line("node web/dist"), "web/dist"),
        ("server", line("python3 -m server"), "server"),
        (
            "tools/__pycache__",
            line("python3 -I tools/b.py"),
            "tools/__pycache__",
        ),
        (
            "lib",
            with(line("python3 -c pass"), "PYTHONPATH", "lib"),
            "lib",
        ),
        (
            "lib",
            with(line("node web/server.js"), "NODE_PATH", "/x:lib"),
            "lib",
        ),
        ("lib", with(line("server"), "LD_LIBRARY_PATH", "lib"), "lib"),
        ("bin", with(line("server"), "PATH", "bin:/usr/bin"), "bin"),
        ("hooks", line("run-parts hooks"), "hooks"),
        ("hooks", line("make -Chooks serve"), "hooks"),
        ("hooks", line("gradle -p hooks run"), "hooks"),
        ("hooks", line("dotnet run --project hooks"), "hooks"),
        ("hooks", line("sh hooks/new.sh"), "hooks/new.sh"),
        ("hooks", line("hooks/new"), "hooks/new"),
        (".", line("python3 -m installed"), "installed"),
        (".", line("python3-dbg -m installed"), "installed"),
        (".", line("python3.12d -m installed"), "installed"),
        (".", line("pypy3-c -m installed"), "installed"),
    ] {
        let (state, reason) = state(&confined(writable, &[]), &b);
        assert_eq!(state, "invalid", "{writable} {b}");
        let expected = format!("the server `a` may write `{path}` from its sandbox");
        assert!(reason.contains(&expected), "{reason}");
    }
}

#[test]
fn server_with_a_word_for_a_path_that_a_sandboxed_server_may_write_is_not_started() {
    let shell = |line: &str| json!({"command": "sh", "args": ["-c", line]});
    for (writable, b, path) in [
        ("lib", line("git --exec-path=lib/bin x"), "lib/bin"),
        ("lib", line("git --git-dir=lib/g x"), "lib/g"),
        ("lib", line("git -C lib/g x"), "lib/g"),
        ("lib", line("git -c alias.x=!./lib/ev?l.sh x"), "lib/ev"),
        ("lib", line("gcc -Blib/g/ x.c"), "lib/g"),
        ("lib", line("gdb --data-directory=lib/g x"), "lib/g"),
        ("lib", line("make -Ilib/i"), "lib/i"),
        ("lib", line("make -C lib/later"), "lib/later"),
        ("lib", line("gradle -p lib/later run"), "lib/later"),
        ("lib", line("lib/later/x"), "lib/later/x"),
        ("lib", shell("cd lib/later && ./x"), "lib/later"),
        ("lib", shell("cd sub && ../lib/later"), "lib/later"),
        (
            "lib",
            with(line("npx foo"), "npm_config_prefix", "lib/p"),
            "lib/p",
        ),
        ("lib", with(line("server"), "LISTED", "a,lib/p:b"), "lib/p"),
        ("data", line("node web/server.js data"), "data"),
        ("data", line("java -cp build/classes Main data"), "data"),
        ("build/classes", line("gcc -Bbuild/ x.c"), "build"),
        (".", line("git --exec-path=bin x"), "bin"),
        (".", line("git --exec-path=sub/bin x"), "sub/bin"),
    ] {
        let (state, reason) = state(&confined(writable, &[]), &b);
        assert_eq!(state, "invalid", "{writable} {b}");
        let expected = format!("the server `a` may write `{path}` from its sandbox");
        assert!(reason.contains(&expected), "{reason}");
    }
}

#[test]
fn server_with_a_link_to_a_path_that_a_sandboxed_server_may_write_is_not_started() {
    for (b, path) in [
        (line("node -r linked web/server.js"), "node_modules/linked"),
        (line("node web/server.js"), "node_modules/linked"),
        (line("npx foo"), "node_modules/linked"),
        (line("make -C current"), "current"),
        (line("sh current/x"), "current/x"),
    ] {
        let world = World::new();
        let at = |path: &str| world.path().join("workspace").join(path);
        for directory in ["docs", "node_modules"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        // The target of the second link does not exist.
        for (target, link) in [("../docs", "node_modules/linked"), ("docs/new", "current")] {
            std::os::unix::fs::symlink(target, at(link)).unwrap();
        }
        let (state, reason) = state_in(&world, &confined("docs", &[]), &b);
        assert_eq!(state, "invalid", "{b}");
        let expected = format!("the server `a` may write `{path}` from its sandbox");
        assert!(reason.contains(&expected), "{reason}");
    }
}

#[test]
fn package_runner_whose_packages_a_sandboxed_server_may_write_is_not_started() {
    for runner in ["npx", "pnpx", "bunx", "npm exec", "yarn"] {
        let mut below = line(&format!("{runner} foo"));
        below["cwd"] = json!("lib/sub");
        let (in_directory, reason) = state(&confined("lib", &[]), &below);
        assert_eq!(in_directory, "invalid", "{runner}");
        assert!(reason.contains("may write `lib"), "{reason}");
    }
    let runner = line("npx -y thing");
    let (beside_packages, reason) = state(&confined(".", &[]), &runner);
    assert_eq!(beside_packages, "invalid");
    assert!(reason.contains("may write `node_modules`"), "{reason}");
    // A server in a sandbox cannot create entries at the top.
    let (without_packages, reason) = state_in(&World::new(), &confined(".", &[]), &runner);
    assert_eq!(without_packages, "enabled", "{reason}");
}

#[test]
fn server_whose_data_a_sandboxed_server_may_write_is_started() {
    for (writable, b) in [
        ("data", line("python3 tools/b.py --data data")),
        ("data", line("node web/server.js --data data")),
        (
            "data",
            line("java -cp build/classes Main --db-path=data/db"),
        ),
        ("data", line("/opt/server --language go --data data")),
        ("data", with(python("tools/b.py"), "DATA_PATH", "data")),
        ("server", python("server.py")),
        ("node_modules/.cache", line("node web/server.js")),
        ("work", line("npm start")),
        ("lib", line("server . ${workspaceFolder} / .. lib2/x")),
        (".", line("uvx thing --data data")),
        (".", line("uvx --python=3.12 @scope/thing")),
        (".", line("git --exec-path=absent/bin x")),
        (".", line("docker run -i thing")),
        (".", line("/opt/server --data data")),
        (".", line("node /opt/server.js")),
        ("work", line("node --run start")),
        (".", line("python3 -I -m installed")),
        (".", line("python3 -Pm installed")),
        (".", line("python-language-server installed")),
        (".", line("docker run -i python:3.12 installed")),
    ] {
        let (state, reason) = state(&confined(writable, &[]), &b);
        assert_eq!(state, "enabled", "{writable} {b}: {reason}");
    }
}

#[test]
fn server_whose_code_has_another_name_is_not_started_beside_a_sandboxed_server() {
    for (b, path) in [
        (python("app/own.py"), "app/own.py"),
        (line("run-parts jobs"), "jobs/own"),
    ] {
        let (in_sandbox, reason) = state(&confined("other", &[]), &b);
        assert_eq!(in_sandbox, "invalid", "{b}");
        let expected = format!("`{path}` has another name (a hard link)");
        assert!(reason.contains(&expected), "{reason}");
        assert!(reason.contains("the server `a`"), "{reason}");
        for a in [confined("data", &[]), python("tools/b.py")] {
            let (without, reason) = state(&a, &b);
            assert_eq!(without, "enabled", "{b}: {reason}");
        }
    }
}
