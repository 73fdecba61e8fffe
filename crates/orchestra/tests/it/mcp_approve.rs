//! `orchestra mcp approve`: what is shown before something is approved.

use insta::assert_snapshot;

use crate::support::Workspace;

#[test]
fn approval_shows_what_a_server_may_do_beside_what_it_runs() {
    let workspace = Workspace::new();
    let file = serde_json::json!({
        "servers": {
            "wide": {"command": "x", "args": ["${input:i}"], "sandbox": {"read": ["${HOME}"], "write": ["/"]},
                "roots": ["/"], "retry": {"unsafe": true}, "prefix": false,
                "env": {"TOKEN": "s3cret"}, "envFile": ".env"},
            "far": {"url": "http://example.com/mcp", "allowInsecure": true, "caFile": "ca.pem",
                "clientCert": "me.pem", "headers": {"X-Key": "s3cret", "X-Home": "${HOME}"}},
            "tame": {"command": "x", "limits": {"dailyQuota": 10, "addressSpace": "1GiB"},
                "tools": {"deny": ["drop"]},
                "rules": [{"effect": "deny", "tool": "write_*", "arguments": {"path": "/etc/*"}}]},
        },
        "inputs": [{"id": "i", "type": "promptString", "default": "--from-file"}],
    });
    workspace.write(".vscode/mcp.json", &file.to_string());
    let shown = workspace.run(["mcp", "approve"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(!shown.out.contains("s3cret"), "{}", shown.out);
    assert_snapshot!(shown.out.replace(&workspace.path().display().to_string(), "WORKSPACE"), @r#"
    wide: waits
      runs "x" "${input:i}"
      in WORKSPACE
      with TOKEN=…
      with the variables of .env
      gets to know HOME, ORCHESTRA_INPUT_I
      where ${input:i} is "--from-file" when nobody sets it
      in a sandbox: its directory, no network
      that may also read "${HOME}"
      that may also write "/"
      is told the roots "/"
      its tools keep their names, which may look like those of others
      calls that may change something are repeated
    far: waits
      reaches http://example.com/mcp
      sends X-Key=…
      sends X-Home=${HOME}
      trusts the certificates of ca.pem
      signs in with the certificate "me.pem"
      also without encryption
      gets to know HOME
    tame: waits
      runs "x"
      in WORKSPACE
      has at most 1073741824 bytes of address space, 10 calls a day
      does not offer drop
      rule: calls of write_* with path="/etc/*" are denied
    `orchestra mcp approve NAME` approves one
    "#);
}

/// Words of a file stand in the line that they are part of, however they are written.
#[test]
fn a_file_writes_no_lines_of_its_own_into_what_is_shown() {
    let workspace = Workspace::new();
    let untrue = "-\n  in a sandbox: its directory, no network\n";
    let wrapped = format!("-{}in a sandbox: its directory, no network", " ".repeat(80));
    let file = serde_json::json!({"mcpServers": {
        "sly": {"command": "x", "cwd": format!("/{untrue}"), "envFile": untrue,
            "env": {format!("A{untrue}"): "${HOME}\u{202e}"},
            "tools": {"allow": [untrue], "deny": [wrapped, "\u{1b}[2J"]},
            "rules": [{"effect": "deny", "tool": untrue, "arguments": {untrue: "x"}},
                {"effect": "deny", "tool": "y".repeat(10_000)}]},
        "far": {"url": "https://example.com/mcp", "caFile": untrue, "headers": {"X-A": format!("${{HOME}}{untrue}")},
            "auth": {"type": "enterprise", "client_id": "me", "idp_client_id": "me", "id_token_file": untrue,
                "idp_token_endpoint": format!("https://idp.example.com/{untrue}")}},
    }});
    workspace.write(".mcp.json", &file.to_string());
    let shown = workspace.run(["mcp", "approve"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let known = [
        "runs \"x\"",
        "in ",
        "with ",
        "gets to know ",
        "offers of its tools only ",
        "does not offer ",
        "rule: ",
        "reaches ",
        "sends ",
        "trusts the certificates ",
        "signs in ",
        "shows what is in ",
    ];
    for line in shown.out.lines().filter(|line| line.starts_with(' ')) {
        let line = line.trim_start();
        assert!(
            known.iter().any(|start| line.starts_with(start)),
            "{shown:?}"
        );
        assert!(!line.starts_with("in a sandbox"), "{shown:?}");
        assert!(
            line.chars().count() < 2_200 && !line.contains("  "),
            "{line}"
        );
    }
    for told in [
        r"rule: calls of -\n \u{20}in a sandbox",
        r"\u{1b}[2J",
        r"\u{202e}",
        "characters more",
        r"shows what is in -\n",
    ] {
        assert!(shown.out.contains(told), "{told}: {shown:?}");
    }
    assert!(
        !shown.out.contains('\u{1b}') && !shown.out.contains('\u{202e}'),
        "{shown:?}"
    );
    // A program gets all of it.
    let json = workspace.run(["mcp", "approve", "--json"]);
    assert!(json.out.contains(&"y".repeat(10_000)), "{json:?}");
}

#[test]
fn that_rules_of_a_workspace_are_laxer_than_the_user_is_said_and_does_not_count() {
    let workspace = Workspace::new();
    let users = workspace.home().join(".config/orchestra/mcp.json");
    std::fs::create_dir_all(users.parent().unwrap()).unwrap();
    std::fs::write(&users, r#"{"mcp": {"default": "deny"}, "mcpServers": {}}"#).unwrap();
    workspace.write("server.sh", crate::mcp_call::SERVER);
    let server = serde_json::json!({"command": "sh",
        "args": [workspace.join("server.sh"), workspace.join("journal")],
        "rules": [{"effect": "allow", "tool": "*"}]});
    let file = serde_json::json!({"mcpServers": {"lax": server}});
    workspace.write(".mcp.json", &file.to_string());
    let approved = workspace.run(["mcp", "approve", "lax", "--yes"]);
    for told in [
        "rule: calls of * are allowed",
        "your own `default` holds where that is laxer: its calls are denied",
    ] {
        assert!(approved.out.contains(told), "{approved:?}");
    }
    for call in [
        ["mcp", "call", "lax", "add.up"].as_slice(),
        &["tool", "call", "lax__add_up"],
    ] {
        let said = workspace.run(call.iter().chain(&["a=1"]));
        assert_eq!(said.code, Some(5), "{call:?}: {said:?}");
        assert!(
            said.err.contains("their `default` is deny"),
            "{call:?}: {said:?}"
        );
    }
    assert_eq!(crate::mcp_call::journal(&workspace, "called"), 0);
}

#[test]
fn unreadable_approvals_are_logged_in_words() {
    let workspace = Workspace::board();
    workspace.write(".mcp.json", r#"{"mcpServers": {"a": {"command": "cat"}}}"#);
    let state = workspace.home().join(".local/state/orchestra");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("mcp.json"), "{").unwrap();
    let listed = workspace.run(["tool", "list", "--log", "warn"]);
    assert!(
        listed
            .err
            .contains("tools of upstream MCP servers are not listed"),
        "{listed:?}"
    );
    for form in ["Failed(", "Usage(", "source:"] {
        assert!(!listed.err.contains(form), "{form}: {listed:?}");
    }
}
