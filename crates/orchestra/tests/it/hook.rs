//! `orchestra hook`: events of clients, many at once.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::{Value, json};

use crate::support::{Workspace, program, said};

fn events(workspace: &Workspace) -> Vec<Value> {
    let answer = workspace.call("get_hook_events", &json!({"limit": 500}));
    answer["items"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"))
        .clone()
}

/// W49, W11: no server, no `jq`, and nothing is lost when many come at once.
#[test]
fn fifty_at_once_are_all_stored() {
    let workspace = Workspace::board();
    workspace.call("create_project", &json!({"name": "Warm"}));
    std::thread::scope(|scope| {
        for number in 0..50 {
            let workspace = &workspace;
            scope.spawn(move || {
                let event =
                    json!({"hook_event_name": "PostToolUse", "session_id": format!("s{number}")});
                let said = workspace.run_with_input(["hook"], &event.to_string());
                assert_eq!(
                    (said.code, said.err.as_str(), said.out.as_str()),
                    (Some(0), "", "")
                );
            });
        }
    });
    let mut sessions: Vec<String> = events(&workspace)
        .iter()
        .map(|event| event["session_id"].as_str().unwrap().to_owned())
        .collect();
    sessions.sort_unstable();
    sessions.dedup();
    assert_eq!(sessions.len(), 50);
}

/// W15: what a tool read or wrote is not kept, and secrets in what is kept are masked.
#[test]
fn contents_and_secrets_are_not_kept() {
    let workspace = Workspace::board();
    let event = json!({
        "hook_event_name": "PostToolUse",
        "session_id": "s",
        "tool_name": "Bash",
        "tool_input": {
            "command": "curl -H 'Authorization: Bearer abcdefghijklmnop' https://x --data password=hunter2hunter2",
            "content": "the whole file",
            "url": "https://x/cb?state=in-a-query",
        },
        "tool_response": {"stdout": "ghp_0123456789abcdefghijklmnopqrstuvwxyz"},
        "message": "DB_PASS=in-the-environment, X-Auth: in-a-header, -u me:of-a-user, the password is in-prose",
        "padding": "x".repeat(200_000),
    });
    assert_eq!(
        workspace.run_with_input(["hook"], &event.to_string()).code,
        Some(0)
    );
    let stored = events(&workspace).remove(0).to_string();
    for secret in [
        "abcdefghijklmnop",
        "hunter2hunter2",
        "ghp_0123",
        "the whole file",
        "in-a-query",
        "in-the-environment",
        "in-a-header",
        "of-a-user",
        "in-prose",
        "xxxx",
    ] {
        assert!(!stored.contains(secret), "{secret}: {stored}");
    }
    assert!(
        stored.contains("PostToolUse") && stored.contains("curl"),
        "{stored}"
    );
    assert!(stored.len() < 10_000);
    let file = workspace.join(".projects/.events/hook-events.toon");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let ignored = Command::new("git")
        .args(["check-ignore", "--quiet"])
        .arg(&file)
        .current_dir(workspace.path())
        .status()
        .unwrap();
    assert!(ignored.success());
    let database = workspace.database();
    let bytes = fs::read(&database).unwrap();
    let wal = fs::read(database.with_extension("db-wal")).unwrap_or_default();
    for bytes in [bytes, wal] {
        assert!(!String::from_utf8_lossy(&bytes).contains("hunter2hunter2"));
    }
}

#[test]
fn an_event_is_in_the_readable_file_when_the_hook_has_ended() {
    let workspace = Workspace::board();
    for session in ["first-session", "second-session"] {
        let event = json!({"hook_event_name": "Stop", "session_id": session});
        let said = workspace.run_with_input(["hook"], &event.to_string());
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
        let file = workspace.read(".projects/.events/hook-events.toon");
        assert!(file.contains(session), "{file}");
    }
}

#[test]
fn an_event_without_a_name_is_stored_as_unknown() {
    let workspace = Workspace::board();
    assert_eq!(
        workspace
            .run_with_input(["hook"], "{\"session_id\": \"s\"}")
            .code,
        Some(0)
    );
    assert_eq!(events(&workspace)[0]["event_type"], "unknown");
}

#[test]
fn what_is_no_event_is_said_and_never_fails_the_client() {
    let workspace = Workspace::board();
    for input in ["", "null", "[]", "{", "\u{0}"] {
        let said = workspace.run_with_input(["hook"], input);
        assert_eq!(said.code, Some(0), "{input:?}: {said:?}");
        assert!(said.err.contains("event not stored"), "{input:?}: {said:?}");
    }
    let said = workspace.run_with_input(["hook", "--workspace", "/no/such/place"], "{}");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("no such directory"), "{said:?}");
    workspace.write("file", "");
    let said = workspace.run(["config", "show", "--workspace", "file"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("is a file, not a directory"), "{said:?}");
    assert_eq!(workspace.run(["hook", "--nope"]).code, Some(2));
}

/// The installed script, run as a client runs it, from another directory.
#[test]
fn the_installed_script_stores_events() {
    let workspace = Workspace::board();
    assert_eq!(workspace.run(["init"]).code, Some(0));
    let script = workspace.join(".claude/hooks/orchestra-mcp-hook.sh");
    assert_eq!(
        fs::metadata(&script).unwrap().permissions().mode() & 0o777,
        0o755
    );
    let settings: Value = serde_json::from_str(&workspace.read(".claude/settings.json")).unwrap();
    let command = settings["hooks"]["Stop"][0]["hooks"][0]["command"]
        .as_str()
        .unwrap()
        .to_owned();

    let run = |path: &str| {
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", &command])
            .current_dir(workspace.home())
            .env_clear()
            .env("PATH", path)
            .env("HOME", workspace.home())
            .env("CLAUDE_PROJECT_DIR", workspace.path())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        said(shell, "{\"hook_event_name\": \"Stop\"}")
    };
    let program = program();
    let program = program.parent().unwrap();
    let with = run(&format!("{}:/usr/bin:/bin", program.display()));
    assert_eq!((with.code, with.err.as_str()), (Some(0), ""));
    assert_eq!(events(&workspace)[0]["event_type"], "Stop");
    // Without the program on the path, the client is not disturbed.
    let without = run("/usr/bin:/bin");
    assert_eq!((without.code, without.err.as_str()), (Some(0), ""));
}

/// A hook may be installed for all of a user's directories.
#[test]
fn without_a_board_nothing_is_said_and_nothing_is_made() {
    let workspace = Workspace::git();
    let said = workspace.run_with_input(["hook"], "{\"hook_event_name\": \"Stop\"}");
    assert_eq!(
        (said.code, said.out.as_str(), said.err.as_str()),
        (Some(0), "", "")
    );
    assert!(!workspace.join(".projects").exists());
}
