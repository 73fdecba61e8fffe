//! The end of a session is no warning, and neither is that of what it used. The end of a server that crashes is one, as
//! what it is.

use std::{fs, fs::File, path::Path, process::Command};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    plugins::{example, workspace},
    support::{Running, Session, Workspace, post},
};

const BOTH: (&str, &str) = ("Accept", "application/json, text/event-stream");

/// How a client ends its session.
#[derive(Clone, Copy, Debug)]
enum End {
    Input,
    Signal,
    Kill,
}

/// A workspace with a plugin and a server.
fn with_both() -> Workspace {
    let workspace = workspace("");
    let servers = json!({"mcpServers": {"e": {"command": example("everything")}}});
    workspace.write("servers.json", &servers.to_string());
    workspace
}

/// A process that writes standard error to a file.
fn started(mut command: Command, log: &Path) -> Running {
    command.args(["--mcp-config", "servers.json"]);
    Running::with_stderr(command, File::create(log).unwrap())
}

/// Uses the plugin and the server, then ends.
fn used(process: Running, end: End) {
    let mut session = Session::over(process, "test");
    let echoed = session.tool("echo", &json!({"text": "hi"}));
    assert_eq!(echoed["content"][0]["text"], "hi", "{echoed}");
    let text = session.tool("e__test_simple_text", &json!({}));
    assert_ne!(text["isError"], true, "{text}");
    match end {
        End::Input => drop(session.process.stdin.take()),
        End::Signal => session.process.signal(Signal::TERM),
        End::Kill => return session.process.kill(),
    }
    assert!(session.process.wait().success(), "{end:?}");
}

/// Checks that a log has no warning.
fn is_silent(log: &Path, when: &str) {
    let text = fs::read_to_string(log).unwrap();
    let loud = |line: &&str| {
        ["WARN", "ERROR", "panicked"]
            .iter()
            .any(|word| line.contains(word))
    };
    let lines: Vec<&str> = text.lines().filter(loud).collect();
    assert!(lines.is_empty(), "{when}: {lines:#?}");
}

#[test]
fn session_over_stdio_that_ends_leaves_no_warning() {
    let workspace = with_both();
    for end in [End::Input, End::Signal] {
        let log = workspace.home().join("stdio.log");
        used(started(workspace.command(["stdio"]), &log), end);
        is_silent(&log, &format!("stdio, {end:?}"));
    }
}

#[test]
fn sessions_with_up_that_end_leave_no_warning() {
    let workspace = with_both();
    let log = workspace.home().join("up.log");
    let flags = [
        "up",
        "--http",
        "127.0.0.1:0",
        "--quic",
        "127.0.0.1:0",
        "--json",
    ];
    let up = started(workspace.command(flags), &log);
    let ready: Value = up.json();
    let quic = ready["quic"].as_str().unwrap();
    for end in [End::Input, End::Signal, End::Kill] {
        let own = workspace.home().join("bridge.log");
        let bridge = workspace.command(["stdio", "--orchestrator-addr", quic]);
        used(
            Running::with_stderr(bridge, File::create(&own).unwrap()),
            end,
        );
        is_silent(&own, &format!("bridge, {end:?}"));
    }
    let address = ready["http"].as_str().unwrap().replace("http://", "");
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}});
    let hello = post(&address, &[BOTH], &hello.to_string());
    let session = hello
        .header("mcp-session-id")
        .expect("a session")
        .to_owned();
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "e__test_simple_text", "arguments": {}}});
    let answer = post(
        &address,
        &[BOTH, ("Mcp-Session-Id", &session)],
        &call.to_string(),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    up.signal(Signal::TERM);
    assert!(up.end().success());
    is_silent(&log, "up");
}

#[test]
fn server_that_crashes_during_a_call_is_logged_as_ended_and_not_as_a_failed_start() {
    let workspace = Workspace::new();
    let servers =
        json!({"mcpServers": {"faulty": {"command": example("faulty"), "health": false}}});
    workspace.write("servers.json", &servers.to_string());
    // The first call, and one after another that was answered.
    for before in [0, 1] {
        let log = workspace.home().join("crash.log");
        let mut session = Session::over(started(workspace.command(["stdio"]), &log), "test");
        for _ in 0..before {
            session.tool("faulty__echo", &json!({"text": "hi"}));
        }
        let params = json!({"name": "faulty__crash", "arguments": {}});
        session.request("tools/call", &params);
        drop(session.process.stdin.take());
        assert!(session.process.wait().success());
        let text = fs::read_to_string(&log).unwrap();
        assert!(text.contains("server process ended"), "{before}: {text}");
        assert!(
            !text.contains("cannot start the server"),
            "{before}: {text}"
        );
    }
}
