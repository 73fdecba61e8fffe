//! Servers without a sandbox whose code a server in a sandbox could exchange during a start.

use orchestra_gateway::discovery::ServerState;
use serde_json::{Value, json};

use crate::support::World;

/// State of the approved server `b`, with the reason for it, beside an approved server `a`.
fn state(a: &Value, b: &Value) -> (String, String) {
    let world = World::new();
    for file in [
        "tools/b.py",
        "tools/inner/c.py",
        "other/b.py",
        ".vscode/b.py",
    ] {
        world.write(&format!("workspace/{file}"), "");
    }
    let linked = world.path().join("workspace/tools/linked.py");
    std::os::unix::fs::symlink("../other/b.py", linked).unwrap();
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
