//! `orchestra plugin`: plugins are made, listed, looked at and run, through the program.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    plugins::{Up, sample},
    support::{Running, Said, Session, Workspace, said, until},
};

const ENTRY: &str = "[plugins.\"tools.hello\"]\nbinary = \"hello/target/debug/hello\"\n";

fn json(said: &Said) -> Value {
    assert_eq!(said.code, Some(0), "{said:?}");
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

/// A workspace that has the plugin of the tests, approved.
fn with_sample() -> Workspace {
    let workspace = Workspace::board();
    let binary = sample().display().to_string();
    let text = format!("[plugins.\"tools.sample\"]\nbinary = {binary:?}\n");
    workspace.write("orchestra.toml", &text);
    let approved = workspace.run(["mcp", "approve", "--yes", "tools.sample"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    workspace
}

#[test]
fn a_plugin_is_made_with_its_place_and_is_approved() {
    let workspace = Workspace::git();
    let before = "# of the team\ntools = \"lean\" # few\n";
    workspace.write("orchestra.toml", before);
    let made = workspace.run(["plugin", "new", "hello"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(
        made.out
            .contains("\n  cargo build --manifest-path hello/Cargo.toml\n")
            && made
                .out
                .contains("\n  orchestra tool call hello_greet name=World\n"),
        "{made:?}"
    );
    assert_eq!(
        workspace.read("orchestra.toml"),
        format!("{before}\n{ENTRY}")
    );
    let manifest = workspace.read("hello/Cargo.toml");
    assert!(manifest.contains("\n[workspace]\n"), "{manifest}");
    assert!(
        manifest.contains("orchestra-plugin = { path = "),
        "{manifest}"
    );
    // What is built first is built for trying it out, without what only takes time.
    let read: toml::Table = manifest.parse().unwrap();
    let dev = &read["profile"]["dev"];
    assert_eq!(dev["debug"].as_str(), Some("line-tables-only"));
    assert_eq!(dev["package"]["*"]["debug"].as_bool(), Some(false));
    assert!(workspace.read("hello/src/main.rs").lines().count() < 30);
    assert!(
        workspace
            .read("hello/README.md")
            .contains("orchestra plugin run tools.hello")
    );
    assert_eq!(workspace.read("hello/.gitignore"), "/target\n");
    let listed = json(&workspace.run(["plugin", "list", "--json"]));
    let plugin = &listed["plugins"][0];
    assert_eq!(plugin["id"], "tools.hello");
    assert_eq!(plugin["name"], "tools-hello");
    assert_eq!(plugin["state"], "enabled");
    assert_eq!(
        plugin["file"].as_str().unwrap(),
        workspace.join("orchestra.toml").to_str().unwrap()
    );
    // Twice is once.
    let again = workspace.run(["plugin", "new", "hello", "--dir", "other"]);
    assert_eq!(again.code, Some(3), "{again:?}");
    assert!(again.err.contains("already"), "{again:?}");
    assert!(!workspace.join("other").exists());
    let again = workspace.run(["plugin", "new", "hello", "--no-config"]);
    assert_eq!(again.code, Some(3), "{again:?}");
    assert!(again.err.contains("is not empty"), "{again:?}");
}

#[test]
fn call_of_a_plugin_that_waits_for_approval_is_refused_and_names_the_plugin() {
    let workspace = Workspace::git();
    assert_eq!(workspace.run(["plugin", "new", "hello"]).code, Some(0));
    let readme = workspace.read("hello/README.md");
    let approve = readme.find("orchestra mcp approve --yes tools.hello");
    assert!(approve.unwrap() < readme.find("orchestra tool call").unwrap());
    // The build creates the program, which the approval covers.
    workspace.write("hello/target/debug/hello", "#!/bin/sh\nexit 1\n");
    let called = workspace.run(["tool", "call", "hello_greet", "name=World"]);
    assert_eq!(called.code, Some(5), "{called:?}");
    let refusal = "`hello_greet` is not available: tools.hello waits for approval: ";
    assert!(called.err.contains(refusal), "{called:?}");
    let command = "`orchestra mcp approve tools.hello`";
    assert!(called.err.contains(command), "{called:?}");
    let listed = workspace.run(["mcp", "list"]);
    assert!(listed.out.contains("tools.hello"), "{listed:?}");
    // Either name is accepted.
    for name in ["tools-hello", "tools.hello"] {
        let approved = workspace.run(["mcp", "approve", "--yes", name]);
        assert_eq!(approved.code, Some(0), "{approved:?}");
    }
}

#[test]
fn what_is_to_be_typed_is_typed_where_the_plugin_was_made() {
    let workspace = Workspace::git();
    fs::create_dir(workspace.join("sub")).unwrap();
    let made = |arguments: &[&str]| {
        let mut command = workspace.command(["plugin", "new"].iter().chain(arguments));
        command.current_dir(workspace.join("sub"));
        let made = said(command, "");
        assert_eq!(made.code, Some(0), "{made:?}");
        made.out
    };
    let out = made(&["foo"]);
    let build = "\n  cargo build --manifest-path foo/Cargo.toml\n";
    assert!(out.contains(build), "{out}");
    assert!(out.contains("orchestra mcp approve tools.foo"), "{out}");
    let configured = workspace.read("orchestra.toml");
    assert!(
        configured.contains("\"sub/foo/target/debug/foo\""),
        "{configured}"
    );
    let out = made(&["bar", "--language", "python", "--no-config"]);
    assert!(out.contains("python3 -m venv bar/.venv\n"), "{out}");
    let run = "orchestra plugin run --binary bar/.venv/bin/python -- bar/plugin.py\n";
    assert!(out.contains(run), "{out}");
}

/// It is not told to be none: who has it could not be started, or may not be.
#[test]
fn a_tool_of_a_plugin_that_is_not_built_is_told_with_the_plugin() {
    let workspace = Workspace::board();
    let made = workspace.run(["plugin", "new", "foo"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    for command in [&["call", "foo_greet", "name=X"][..], &["show", "foo_greet"]] {
        let said = workspace.run(["tool"].iter().chain(command));
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains("no tool `foo_greet`"), "{said:?}");
        assert!(said.err.contains("tools.foo: "), "{said:?}");
        assert!(said.err.contains("target/debug/foo"), "{said:?}");
    }
    let mut session = Session::start(workspace.command(["stdio"]));
    let params = serde_json::json!({"name": "foo_greet", "arguments": {}});
    let told = until(|| {
        let answer = session.request("tools/call", &params);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let told = answer["error"]["message"].as_str().unwrap().to_owned();
        told.contains("target/debug/foo").then_some(told)
    });
    assert!(
        told.starts_with("unknown tool: foo_greet; a server whose current tools are not known"),
        "{told}"
    );
    assert!(told.contains("may have it: tools-foo is "), "{told}");
    drop(session);
    let revoked = workspace.run(["mcp", "approve", "--revoke", "tools.foo"]);
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    let said = workspace.run(["tool", "call", "foo_greet", "name=X"]);
    assert_eq!(said.code, Some(5), "{said:?}");
    assert!(said.err.contains("orchestra mcp approve"), "{said:?}");
}

#[test]
fn a_plugin_in_python_is_the_example_under_its_own_name() {
    let workspace = Workspace::git();
    let made = workspace.run([
        "plugin",
        "new",
        "counts",
        "--language",
        "python",
        "--dir",
        "p/c",
    ]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(
        made.out.contains("\n  python3 -m venv p/c/.venv\n"),
        "{made:?}"
    );
    assert_eq!(
        workspace.read("orchestra.toml"),
        "[plugins.\"tools.counts\"]\nbinary = \"p/c/.venv/bin/python\"\nargs = [\"p/c/plugin.py\"]\n"
    );
    let program = workspace.read("p/c/plugin.py");
    assert!(program.contains("\"tools.counts\"") && !program.contains("tools.python"));
    for file in [
        "plugin_pb2.py",
        "requirements.txt",
        "README.md",
        ".gitignore",
    ] {
        assert!(workspace.join("p/c").join(file).is_file(), "{file}");
    }
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is_written() {
    let workspace = Workspace::git();
    for (arguments, code, told) in [
        (&["Hello"][..], 2, "a-z, 0-9, `_` and `-`"),
        (&["../x"], 2, "start with a letter"),
        (&["serde"], 2, "choose another name"),
        (
            &["hello", "--kit", "nowhere"],
            2,
            "does not contain the crate orchestra-plugin",
        ),
    ] {
        let refused = workspace.run(["plugin", "new"].iter().chain(arguments));
        assert_eq!(refused.code, Some(code), "{refused:?}");
        assert!(refused.err.contains(told), "{refused:?}");
    }
    let outside = workspace.home().join("outside");
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, workspace.join("link")).unwrap();
    for directory in ["link", "link/hello"] {
        let refused = workspace.run(["plugin", "new", "hello", "--dir", directory]);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.err.contains("symbolic link"), "{refused:?}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    workspace.write("orchestra.toml", "plugins = {}\n");
    let refused = workspace.run(["plugin", "new", "hello"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused.err.contains("orchestra.toml was not changed"),
        "{refused:?}"
    );
    assert_eq!(workspace.read("orchestra.toml"), "plugins = {}\n");
    assert!(!workspace.join("hello").exists());
    let made = workspace.run(["plugin", "new", "hello", "--no-config"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(
        made.out
            .contains("orchestra plugin run --binary hello/target/debug/hello")
    );
    assert_eq!(workspace.read("orchestra.toml"), "plugins = {}\n");
}

#[test]
fn a_plugin_is_inspected_by_its_id_and_by_its_program() {
    let workspace = with_sample();
    let shown = json(&workspace.run(["plugin", "inspect", "tools.sample", "--json"]));
    assert_eq!(shown["id"], "tools.sample");
    assert_eq!(shown["state"], "enabled");
    assert_eq!(shown["manifest"]["language"], "rust");
    assert_eq!(shown["manifest"]["needs_storage"][0], "markdown");
    let tools = shown["tools"].as_array().unwrap();
    let echo = tools.iter().find(|tool| tool["name"] == "echo").unwrap();
    assert_eq!(echo["inputSchema"]["properties"]["text"]["type"], "string");
    assert_eq!(shown["prompts"][0]["name"], "greeting");
    let permitted = shown["permitted"].to_string();
    assert!(
        permitted.contains("to use the storage markdown"),
        "{permitted}"
    );
    let again = workspace.run(["plugin", "inspect", "tools-sample"]);
    assert!(
        again
            .out
            .contains("certificate  tools.sample, as server, until 2"),
        "{again:?}"
    );
    assert!(
        again
            .out
            .contains("tool         echo: Says what it is told"),
        "{again:?}"
    );
    let program = sample().display().to_string();
    let shown = json(&workspace.run(["plugin", "inspect", &program, "--json", "--no-start"]));
    assert_eq!(shown["id"], "tools.sample");
    assert!(shown.get("state").is_none() && shown.get("tools").is_none());
}

#[test]
fn what_is_no_plugin_is_told_so() {
    let workspace = Workspace::board();
    workspace.write(
        ".mcp.json",
        r#"{"mcpServers": {"plain": {"command": "x"}}}"#,
    );
    workspace.write("orchestra.toml", "[plugins.\"tools.a\"]\nbinary = \"a\"\n");
    for command in ["inspect", "run", "logs", "restart"] {
        let refused = workspace.run(["plugin", command, "plain"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(
            refused.err.contains("a server, not a plugin"),
            "{refused:?}"
        );
    }
    for command in ["inspect", "run", "logs", "restart"] {
        let unknown = workspace.run(["plugin", command, "nobody"]);
        assert_eq!(unknown.code, Some(2), "{unknown:?}");
        assert!(unknown.err.contains("no plugin `nobody`"), "{unknown:?}");
        assert!(unknown.err.contains("there are tools.a"), "{unknown:?}");
    }
    let nothing = workspace.run(["plugin", "inspect", "./nothere"]);
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
    assert!(
        nothing.err.contains("no such file: ./nothere"),
        "{nothing:?}"
    );
    // Nothing of a workspace is run that nobody approved.
    for command in ["inspect", "run"] {
        let refused = workspace.run(["plugin", command, "tools.a"]);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(refused.err.contains("orchestra mcp approve"), "{refused:?}");
    }
    let restarted = workspace.run(["plugin", "restart", "tools.a"]);
    assert_eq!(restarted.code, Some(4), "{restarted:?}");
}

/// A program of the shell in a workspace.
fn script(workspace: &Workspace, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    workspace.write(name, &format!("#!/bin/sh\n{text}\n"));
    let path = workspace.join(name);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_program_that_has_no_manifest_is_told_why() {
    let workspace = Workspace::board();
    for (name, text, told) in [
        ("quiet", "exit 0", "is not a valid manifest"),
        (
            "failing",
            "echo no such flag >&2; exit 2",
            "ended with code 2: no such flag",
        ),
        ("talking", "exec yes", "exceeds 1048576 bytes"),
        ("odd", "echo '{\"id\": 1}'", "is not a valid manifest"),
    ] {
        let program = script(&workspace, name, text);
        let refused = workspace.run(["plugin", "inspect", &program]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains(told), "{refused:?}");
    }
}

#[test]
fn a_plugin_runs_in_the_foreground_until_it_is_told_to_stop() {
    let workspace = with_sample();
    let running = Running::start(workspace.command(["plugin", "run", "tools.sample"]));
    let head = running.line().unwrap();
    assert!(head.starts_with("tools.sample runs as process "), "{head}");
    let columns = running.line().unwrap();
    assert!(columns.starts_with("KIND"), "{columns}");
    assert!(running.line().unwrap().contains("tool"));
    running.signal(Signal::INT);
    assert!(running.end().success());
    let logged = workspace.run(["plugin", "logs", "tools.sample"]);
    assert_eq!(logged.code, Some(0), "{logged:?}");
    assert!(logged.out.contains("READY 127.0.0.1:"), "{logged:?}");
}

#[test]
fn a_plugin_that_ends_in_the_foreground_is_told_why() {
    let workspace = Workspace::board();
    let program = sample().display().to_string();
    let mut command = workspace.command(["plugin", "run", "--binary", &program]);
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    let mut head = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut head).unwrap();
    let process = head.split("process ").nth(1).unwrap();
    let process: String = process.chars().take_while(char::is_ascii_digit).collect();
    let process = rustix::process::Pid::from_raw(process.parse().unwrap()).unwrap();
    rustix::process::kill_process(process, Signal::KILL).unwrap();
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(4), "{told}");
    assert!(told.contains("tools.sample: process_crashed: "), "{told}");
    let failing = script(&workspace, "failing", "echo it is broken >&2; exit 3");
    let refused = workspace.run(["plugin", "run", "--binary", &failing, "--id", "tools.b"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.err.contains("it is broken"), "{refused:?}");
    assert!(!refused.err.contains("omit --id"), "{refused:?}");
    let other = workspace.run(["plugin", "run", "--binary", &program, "--id", "tools.b"]);
    assert_eq!(other.code, Some(4), "{other:?}");
    let told = "the manifest of this program has the id tools.sample, not tools.b";
    assert!(other.err.contains(told), "{other:?}");
}

#[test]
fn a_list_tells_how_plugins_are_right_now() {
    let workspace = with_sample();
    let up = Up::start(&workspace).process;
    let seen = until(|| {
        let listed = json(&workspace.run(["plugin", "list", "--json"]));
        let plugin = listed["plugins"][0].clone();
        (plugin["status"] == "ready" && plugin.get("tools").is_some()).then_some(plugin)
    });
    assert_eq!(seen["processes"], 1);
    assert_eq!(seen["restarts"], 0);
    assert!(seen["tools"].as_u64().unwrap() > 10, "{seen}");
    let restarted = workspace.run(["plugin", "restart", "tools.sample"]);
    assert_eq!(restarted.code, Some(0), "{restarted:?}");
    let checked = workspace.run(["plugin", "list", "--check"]);
    assert!(checked.out.contains("1.0.0"), "{checked:?}");
    up.signal(Signal::TERM);
    assert!(up.end().success());
}

/// A list in a directory of its own, with the plugin of the tests.
fn list(workspace: &Workspace, more: &str) -> String {
    let to = workspace.join("lists/bin");
    fs::create_dir_all(&to).unwrap();
    std::os::unix::fs::symlink(sample(), to.join("sample")).unwrap();
    workspace.write(
        "lists/mine.yml",
        &format!(
            "unknown: 1\n{more}\nplugins:\n  - id: tools.sample\n    binary: bin/sample\n    \
             args: [\"--workspace=.\"]\n    unknown: 1\n    enabled: true\n  - id: tools.off\n    \
             binary: bin/sample\n"
        ),
    );
    "lists/mine.yml".to_owned()
}

#[test]
fn a_list_that_is_named_is_there_and_is_one_or_nothing_is_done() {
    let workspace = Workspace::board();
    workspace.write("broken.yml", "plugins: [\n");
    workspace.write("other.yml", "- a\n");
    workspace.write("odd.yml", "plugins: 1\n");
    let commands: [&[&str]; 5] = [
        &["up", "--http", "127.0.0.1:0"],
        &["stdio"],
        &["mcp", "list"],
        &["plugin", "list"],
        &["tool", "list"],
    ];
    for command in commands {
        for (file, told) in [
            ("nowhere.yml", "there is no such file"),
            ("broken.yml", "line "),
            ("other.yml", "must be an object"),
            ("odd.yml", "must be a list of plugins"),
        ] {
            let refused = workspace.run(command.iter().chain(&["--plugins", file]));
            assert_eq!(refused.code, Some(1), "{command:?}: {refused:?}");
            assert!(refused.err.contains(told), "{command:?}: {refused:?}");
        }
    }
    let file = list(&workspace, "");
    let listed = json(&workspace.run(["plugin", "list", "--plugins", &file, "--json"]));
    let plugins = listed["plugins"].as_array().unwrap();
    let states: Vec<_> = plugins
        .iter()
        .map(|plugin| {
            (
                plugin["id"].as_str().unwrap(),
                plugin["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        states,
        [("tools.sample", "enabled"), ("tools.off", "disabled")]
    );
    let called = workspace.run(["tool", "call", "whoami", "--plugins", &file]);
    let called = json(&called);
    // Where the list is, as it was spelled.
    let lists = workspace.join("lists");
    let told = Path::new(called["workspace"].as_str().unwrap());
    assert_eq!(workspace.path().join(told).canonicalize().unwrap(), lists);
}

/// Whoever asks for a plugin that only the running program knows is told so, and it is done.
#[test]
fn a_plugin_of_a_list_that_a_program_runs_is_known_to_other_commands() {
    let workspace = Workspace::board();
    let file = list(&workspace, "");
    let up = Up::start_with(&workspace, &["--plugins", &file]).process;
    let told = "`orchestra up` runs it from a file that is not looked at here";
    let listed = until(|| {
        let listed = workspace.run(["plugin", "list"]);
        listed.err.contains("tools-sample").then_some(listed)
    });
    assert!(listed.err.contains(told), "{listed:?}");
    assert!(listed.err.contains("--plugins"), "{listed:?}");
    until(|| {
        let logged = workspace.run(["plugin", "logs", "tools.sample"]);
        assert_eq!(logged.code, Some(0), "{logged:?}");
        assert!(logged.err.contains(told), "{logged:?}");
        logged.out.contains("READY").then_some(())
    });
    let restarted = workspace.run(["plugin", "restart", "tools.sample"]);
    assert_eq!(restarted.code, Some(0), "{restarted:?}");
    until(|| {
        let logged = workspace.run(["plugin", "logs", "tools.sample"]);
        (logged.out.matches("READY").count() > 1).then_some(())
    });
    let unknown = workspace.run(["plugin", "logs", "tools.none"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(
        unknown.err.contains("no plugin `tools.none`"),
        "{unknown:?}"
    );
    up.signal(Signal::TERM);
    assert!(up.end().success());
}

/// The program under the name of the earlier orchestrator.
fn orchestrator(workspace: &Workspace) -> PathBuf {
    let program = workspace.home().join("orchestrator");
    std::os::unix::fs::symlink(crate::support::program(), &program).unwrap();
    program
}

#[test]
fn called_as_the_orchestrator_it_says_what_launchers_wait_for() {
    let workspace = Workspace::new();
    let program = orchestrator(&workspace);
    let list = list(&workspace, "listen_addr: localhost:0\ncerts_dir: certs");
    let mut command = workspace.command_as(&program, ["-config", &list]);
    command.env("RUST_LOG", "off");
    let mut child = command.spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut lines = Vec::new();
    for line in stderr.lines() {
        lines.push(line.unwrap());
        if lines.last().unwrap().contains("registered and booted") {
            break;
        }
    }
    assert!(
        lines[0].starts_with("orchestrator listening on 127.0.0.1:"),
        "{lines:?}"
    );
    let booted = lines.last().unwrap();
    assert!(
        booted.contains("plugin \"tools.sample\" registered and booted"),
        "{lines:?}"
    );
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(workspace.join("lists/certs/ca.crt").is_file());
    assert!(!workspace.join(".projects").exists());
}

#[test]
fn called_as_the_bridge_it_reaches_the_orchestrator_that_is_named() {
    let workspace = Workspace::new();
    let program = workspace.home().join("transport-stdio");
    std::os::unix::fs::symlink(crate::support::program(), &program).unwrap();
    for flag in ["--listen-addr=localhost:0", "--manifest", "-nope=1"] {
        let refused = said(workspace.command_as(&program, [flag]), "");
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
    let list = list(&workspace, "listen_addr: localhost:0");
    let mut command = workspace.command_as(&orchestrator(&workspace), ["--config", &list]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines.next().unwrap().unwrap();
    let address = address.rsplit(' ').next().unwrap().to_owned();
    assert!(lines.any(|line| line.unwrap().contains("registered and booted")));
    let flags = ["-orchestrator-addr", &address];
    let mut session = Session::start(workspace.command_as(&program, flags));
    let answer = session.tool("echo", &serde_json::json!({"text": "hi"}));
    assert_eq!(answer["content"][0]["text"], "hi", "{answer}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_orchestrator_fails_as_it_did() {
    let workspace = Workspace::new();
    let program = orchestrator(&workspace);
    let run = |arguments: &[&str]| said(workspace.command_as(&program, arguments), "");
    let missing = run(&["--config=nowhere.yaml"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert_eq!(run(&[]).code, Some(1));
    for flag in ["--workspace=.", "-nope"] {
        assert_eq!(run(&[flag]).code, Some(2), "{flag}");
    }
    assert_eq!(run(&["-h"]).code, Some(0));
    let short = run(&["-x"]);
    assert!(short.err.contains("unexpected argument '-x'"), "{short:?}");
}

#[test]
fn the_orchestrator_says_when_its_port_is_another() {
    let workspace = Workspace::new();
    let list = list(&workspace, "certs_dir: certs");
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let flags = ["--config", &list, "--listen-addr", &address];
    let mut child = workspace
        .command_as(&orchestrator(&workspace), flags)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut first = String::new();
    let told = lines.by_ref().map_while(Result::ok).find(|line| {
        if first.is_empty() {
            first = line.clone();
        }
        line.contains("is in use")
    });
    assert!(
        first.starts_with("orchestrator listening on 127.0.0.1:"),
        "{first}"
    );
    assert!(!first.ends_with(&address), "{first}");
    let told = told.unwrap();
    assert!(told.contains(&format!("{address} is in use")), "{told}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}
