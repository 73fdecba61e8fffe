//! `orchestra mcp test`, `tools`, `call` and `login`: servers that are started, and what keeps them from
//! it.

use std::fs;

use crate::{
    mcp::json,
    support::{Workspace, program},
};

/// A file with a server that works (a board in another directory), one whose program is not there,
/// and one that is no server.
fn with_servers(workspace: &Workspace) -> String {
    let other = workspace.home().join("other");
    fs::create_dir_all(&other).unwrap();
    let file = serde_json::json!({"mcpServers": {
        "board": {"command": program(), "args": ["stdio", "--workspace", other],
            "tools": {"deny": ["delete_*"]},
            "rules": [{"effect": "deny", "tool": "create_project", "arguments": {"name": "Evil*"}}]},
        "missing": {"command": "/no/such/program"},
        "silent": {"command": "cat", "startTimeout": "1s"},
        "gone": {"command": "false"},
    }});
    workspace.write("servers.json", &file.to_string());
    workspace.join("servers.json").display().to_string()
}

#[test]
fn servers_are_tested_and_one_bad_one_hides_no_other() {
    let workspace = Workspace::new();
    let file = with_servers(&workspace);
    let mcp = |arguments: &[&str]| {
        let words = ["mcp", "--mcp-config", &file].into_iter();
        workspace.run(words.chain(arguments.iter().copied()))
    };
    let said = mcp(&["test", "board", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let report = &json(&said)[0];
    assert_eq!(report["ok"], true);
    assert_eq!(report["protocol"], "2026-07-28");
    assert_eq!(report["info"]["name"], "orchestra");
    assert!(report["tools"].as_u64().unwrap() > 20, "{report}");
    let said = mcp(&["test", "missing"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.out.contains("missing: unreachable:"), "{said:?}");
    let said = mcp(&["test", "gone", "--json"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert_eq!(json(&said)[0]["error"]["code"], "process_crashed");
    // It sends back what it is sent, which is no answer.
    let said = mcp(&["test", "silent", "--json"]);
    assert_ne!(said.code, Some(0), "{said:?}");

    let said = mcp(&["tools", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let listing = json(&said);
    assert_eq!(listing["servers"].as_array().unwrap().len(), 1);
    assert_eq!(listing["errors"].as_array().unwrap().len(), 3);
    // Whoever names one means it; the others are shown all the same.
    for command in ["tools", "resources", "prompts"] {
        for words in [
            &[command, "missing", "board"][..],
            &[command, "board", "--server", "missing", "--json"],
        ] {
            let said = mcp(words);
            assert_eq!(said.code, Some(4), "{words:?}: {said:?}");
            assert!(
                said.out.contains("\"board\"") || said.err.contains("missing: unreachable"),
                "{words:?}: {said:?}"
            );
        }
    }
    let said = mcp(&["tools", "board"]);
    assert!(said.out.contains("create_project"), "{}", said.out);
    assert_eq!(mcp(&["prompts", "board"]).code, Some(0));
    assert_eq!(mcp(&["resources", "board"]).code, Some(0));
    let listing = json(&mcp(&["list", "--check", "--json"]));
    assert_eq!(listing["servers"][0]["state"], "ready");
    assert_eq!(listing["servers"][1]["state"], "offline");
}

#[test]
fn tools_of_servers_are_called_under_their_rules() {
    let workspace = Workspace::new();
    let file = with_servers(&workspace);
    let call = |arguments: &[&str], input: &str| {
        let words = ["mcp", "--mcp-config", &file, "call", "board"].into_iter();
        workspace.run_with_input(words.chain(arguments.iter().copied()), input)
    };
    let said = call(&["create_project", "--arg", "name=My App"], "");
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = call(&["list_projects", "--json"], "");
    assert!(
        json(&said)["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("My App"),
        "{said:?}"
    );
    let said = call(&["create_project", "--args", "-"], r#"{"name": "Another"}"#);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        call(&["create_project", "--arg", "name=Evil One"], "").code,
        Some(5)
    );
    assert_eq!(
        call(&["delete_project", "--arg", "project=my-app"], "").code,
        Some(5)
    );
    assert_eq!(call(&["no_such_tool"], "").code, Some(2));
    assert_eq!(call(&["create_project", "--arg", "name"], "").code, Some(2));
    assert_eq!(
        call(&["get_project_status", "--arg", "project=nope"], "").code,
        Some(3)
    );
    // What is not approved is not started.
    workspace.write(
        ".mcp.json",
        r#"{"mcpServers": {"theirs": {"command": "touch", "args": ["started"]}}}"#,
    );
    let said = workspace.run(["mcp", "call", "theirs", "x"]);
    assert_eq!(said.code, Some(5), "{said:?}");
    assert!(!workspace.join("started").exists());
}

#[test]
fn only_servers_on_the_network_are_signed_in_to() {
    let workspace = Workspace::new();
    let file = serde_json::json!({"mcpServers": {
        "process": {"command": "cat"},
        // Nobody listens on the discard port.
        "far": {"url": "http://127.0.0.1:9/mcp"},
    }});
    workspace.write("servers.json", &file.to_string());
    let file = workspace.join("servers.json").display().to_string();
    let mcp =
        |command: &str, name: &str| workspace.run(["mcp", "--mcp-config", &file, command, name]);
    let said = mcp("login", "process");
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.err.contains("is a process, and needs no sign-in"),
        "{said:?}"
    );
    assert_eq!(mcp("logout", "far").code, Some(0));
    let said = mcp("login", "far");
    assert_ne!(said.code, Some(0), "{said:?}");
    assert_eq!(mcp("test", "far").code, Some(4));
}
