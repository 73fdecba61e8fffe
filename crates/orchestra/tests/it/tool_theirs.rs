//! `orchestra tool`, of the tools of configured servers.

use serde_json::{Value, json};

use crate::{
    mcp_call::{journal, workspace},
    support::Workspace,
};

#[test]
fn tools_of_servers_are_listed_described_and_called_beside_those_of_the_board() {
    let workspace = workspace(json!({}));
    let listed = workspace.run(["tool", "list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    for name in ["create_project ", "shell__add_up ", "shell__paint"] {
        let is_there = listed.out.lines().any(|line| line.starts_with(name));
        assert!(is_there, "{name}: {}", listed.out);
    }
    assert_eq!(journal(&workspace, "started"), 1);
    let again = workspace.run(["tool", "list", "--json"]);
    let again: Value = serde_json::from_str(&again.out).unwrap();
    let items = again["items"].as_array().unwrap().iter();
    let theirs = items.filter(|tool| tool["group"] == "shell");
    assert_eq!(theirs.count(), 2, "{again}");
    assert_eq!(journal(&workspace, "started"), 1, "it is known by now");
    for command in ["show", "describe"] {
        let shown = workspace.run(["tool", command, "shell__add_up"]);
        assert!(
            shown.out.starts_with(
                "Adds.\n\nUsage: orchestra tool call shell__add_up a=A [KEY=VALUE]..."
            ),
            "{shown:?}"
        );
    }
    let call = |words: &[&str]| workspace.run(["tool", "call"].iter().chain(words));
    let said = call(&["shell__add_up", "a=2", "note=7"]);
    assert_eq!(said.out.trim(), r#"{"a":2,"note":"7"}"#, "{said:?}");
    let whole = call(&["shell__add_up", r#"{"a": 1}"#, "--json"]);
    let whole: Value = serde_json::from_str(&whole.out).unwrap();
    assert_eq!(whole["x-more"], true, "{whole}");
    let painted = call(&["shell__paint"]);
    assert!(painted.out.contains("[image/png, 12.3 KiB]"), "{painted:?}");
    assert_eq!(call(&["shell__add_up", "a=x"]).code, Some(2));
    assert_eq!(
        call(&["shell__add_up", "--args", r#"{"a": "x"}"#]).code,
        Some(2)
    );
    assert_eq!(call(&["shell__nothing"]).code, Some(2));
    for command in ["call", "show"] {
        let missed = workspace.run(["tool", command, "shell__ad_up"]);
        assert_eq!(missed.code, Some(2), "{missed:?}");
        assert!(
            missed.err.contains("did you mean `shell__add_up`?"),
            "{missed:?}"
        );
    }
    for command in ["call", "show"] {
        let missed = workspace.run(["tool", command, "shel__add_up"]);
        assert_eq!(missed.code, Some(2), "{missed:?}");
        let told = "no server `shel`; did you mean `shell`? there are shell";
        assert!(missed.err.contains(told), "{missed:?}");
    }
    assert!(
        !workspace.join(".projects").exists(),
        "no board is made for it"
    );
}

#[test]
fn tools_of_the_board_start_no_server() {
    let workspace = workspace(json!({}));
    for words in [
        &["call", "create_project", "name=My App"][..],
        &["call", "list_projects"],
        &["show", "create_task"],
        &["call", "find_tools", "query=task"],
        &["call", "nope"],
    ] {
        workspace.run(["tool"].iter().chain(words));
    }
    assert_eq!(journal(&workspace, "started"), 0);
}

#[test]
fn rules_and_approval_hold_for_tools_of_servers() {
    let rules =
        json!({"rules": [{"effect": "ask", "tool": "add*"}, {"effect": "deny", "tool": "paint"}]});
    let workspace = workspace(rules);
    let call = |words: &[&str]| workspace.run(["tool", "call"].iter().chain(words));
    let asked = call(&["shell__add_up", "a=1"]);
    assert_eq!(asked.code, Some(5), "{asked:?}");
    for told in ["rule 1: ask add*", "--yes"] {
        assert!(asked.err.contains(told), "{asked:?}");
    }
    assert_eq!(journal(&workspace, "called"), 0);
    assert_eq!(call(&["shell__add_up", "a=1", "--yes"]).code, Some(0));
    let denied = call(&["shell__paint"]);
    assert_eq!(denied.code, Some(5), "{denied:?}");
    assert!(denied.err.contains("rule 2: deny paint"), "{denied:?}");
    // What nobody approved is not started.
    workspace.write(
        ".mcp.json",
        r#"{"mcpServers": {"theirs": {"command": "touch", "args": ["started"]}}}"#,
    );
    let refused = call(&["theirs__x"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(
        refused.err.contains("orchestra mcp approve theirs"),
        "{refused:?}"
    );
    let listed = workspace.run(["tool", "list"]);
    assert!(
        listed.err.contains("orchestra mcp approve theirs"),
        "{listed:?}"
    );
    assert!(!workspace.join("started").exists());
}

#[test]
fn a_server_that_cannot_be_reached_is_told_and_hides_no_tool() {
    let workspace = Workspace::new();
    let servers = json!({"mcpServers": {
        "gone": {"command": "/no/such/program"},
        "bad": {"command": "sh", "args": ["-c", "exit 3"]},
    }});
    workspace.write("servers.json", &servers.to_string());
    let tool = |words: &[&str]| {
        let with = ["tool", "--mcp-config", "servers.json"].iter();
        workspace.run(with.chain(words))
    };
    let listed = tool(&["list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.out.contains("create_project"), "{listed:?}");
    assert!(listed.err.contains("gone: "), "{listed:?}");
    let called = tool(&["call", "gone__x"]);
    assert_eq!(called.code, Some(4), "{called:?}");
    assert!(called.err.contains("/no/such/program"), "{called:?}");
    for words in [&["call", "bad__x"][..], &["call", "bad__x", "--json"]] {
        let called = tool(words);
        assert_eq!(called.code, Some(4), "{called:?}");
        let told = format!("{}{}", called.out, called.err);
        for word in ["exit code 3", "The call did not run"] {
            assert!(told.contains(word), "{called:?}");
        }
        // Nobody will.
        for word in ["ry again", "next try", "retryAfterMs"] {
            assert!(!told.contains(word), "{called:?}");
        }
    }
}

#[test]
fn a_list_waits_for_no_server_that_never_says_what_it_offers() {
    let workspace = Workspace::new();
    let servers = json!({"mcpServers": {"never": {"command": "sleep", "args": ["600"]}}});
    workspace.write("servers.json", &servers.to_string());
    let listed = workspace.run(["tool", "--mcp-config", "servers.json", "list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.out.contains("create_project"), "{listed:?}");
    let missing = "never: its tools are missing: no list of tools within 2 s";
    assert!(listed.err.contains(missing), "{listed:?}");
}

#[test]
fn call_of_a_listed_tool_waits_for_no_other_server() {
    let workspace = workspace(json!({"prefix": false}));
    let file = workspace.home().join(".config/orchestra/mcp.json");
    let mut servers: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    servers["mcpServers"]["never"] = json!({"command": "sleep", "args": ["600"], "prefix": false});
    std::fs::write(&file, servers.to_string()).unwrap();
    for words in [
        &["call", "add.up", "a=2", "--wait", "3"][..],
        &["show", "add.up"],
    ] {
        let said = workspace.run(["tool"].iter().chain(words));
        assert_eq!(said.code, Some(0), "{words:?}: {said:?}");
        assert!(!said.err.contains("never"), "{words:?}: {said:?}");
    }
}

/// Answers each call with the file `answer` beside its script.
const ANSWERS: &str = r#"while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"odd","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(cat "$1")" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn printed_json_is_json_whatever_characters_it_holds() {
    let workspace = workspace(json!({}));
    workspace.write("server.sh", ANSWERS);
    let odd = [
        "\u{7f}",
        "\u{9b}2J",
        "\u{85}",
        "\u{2028}\u{2029}",
        "\u{202e}\u{2066}",
        "\u{1}\u{1f}\\\"",
        "🦀\u{10ffff}",
    ];
    for odd in odd {
        // The text is JSON by itself, as that of most tools.
        let text = json!({"odd": odd}).to_string();
        let answer =
            json!({"content": [{"type": "text", "text": text}], "structuredContent": {"odd": odd}});
        workspace.write("journal", &answer.to_string());
        for arguments in [
            &["tool", "call", "shell__odd"][..],
            &["mcp", "call", "shell", "odd"],
        ] {
            let printed = workspace.run(arguments);
            let value: Value = serde_json::from_str(&printed.out).expect(&printed.out);
            assert_eq!(value, json!({"odd": odd}), "{arguments:?}");
            let whole = workspace.run(arguments.iter().chain(&["--json"]));
            let value: Value = serde_json::from_str(&whole.out).expect(&whole.out);
            assert_eq!(value, answer, "{arguments:?}");
            for out in [&printed.out, &whole.out] {
                let shown = out.trim_end_matches('\n');
                assert!(!shown.contains(char::is_control), "{shown:?}");
                assert!(
                    !shown.contains(['\u{2028}', '\u{202e}', '\u{2066}']),
                    "{shown:?}"
                );
            }
        }
    }
    // Half of a surrogate pair, as an escape.
    workspace.write(
        "journal",
        r#"{"content":[{"type":"text","text":"a\ud800b"}],"x":"\udc00"}"#,
    );
    for arguments in [
        &["tool", "call", "shell__odd"][..],
        &["mcp", "call", "shell", "odd"],
    ] {
        let whole = workspace.run(arguments.iter().chain(&["--json"]));
        let value: Value = serde_json::from_str(&whole.out).expect(&whole.err);
        assert_eq!(value["content"][0]["text"], "a\u{fffd}b", "{arguments:?}");
        assert_eq!(value["x"], "\u{fffd}", "{arguments:?}");
        assert_eq!(workspace.run(arguments).out, "a\u{fffd}b\n");
    }
}

#[test]
fn commands_that_name_a_server_fail_when_it_does_not_say_what_it_offers() {
    let workspace = Workspace::new();
    let servers = json!({"mcpServers": {"never": {"command": "sleep", "args": ["600"]}}});
    let file = workspace.home().join(".config/orchestra/mcp.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, servers.to_string()).unwrap();
    for (words, code) in [
        (&["tool", "call", "never__get", "--wait", "1"][..], 4),
        (&["mcp", "call", "never", "get", "--wait", "1"], 4),
        (
            &[
                "chat",
                "--server",
                "never",
                "--wait",
                "1",
                "--query",
                "x",
                "--host",
                "127.0.0.1:1",
                "--model",
                "tiny",
            ],
            1,
        ),
    ] {
        let said = workspace.run(words);
        assert_eq!(said.code, Some(code), "{words:?}: {said:?}");
        let told = format!("{}{}", said.out, said.err);
        assert!(told.contains("never"), "{words:?}: {told}");
        assert!(told.contains("within 1"), "{words:?}: {told}");
        assert!(!told.contains("start_timeout"), "{words:?}: {told}");
    }
    let called = workspace.run(["mcp", "call", "never", "get", "--wait", "1"]);
    let hint = "`--wait` gives it more time (now 1 s)";
    assert!(called.err.contains(hint), "{called:?}");
    let tested = workspace.run(["mcp", "test", "never", "--timeout", "1"]);
    let hint = "`--timeout` gives it more time (now 1 s)";
    assert!(tested.out.contains(hint), "{tested:?}");
}

#[test]
fn tools_whose_names_others_have_are_reported_by_each_command_that_looks_at_servers() {
    let workspace = workspace(json!({"prefix": false}));
    let file = workspace.home().join(".config/orchestra/mcp.json");
    let mut servers: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    servers["mcpServers"]["twin"] = servers["mcpServers"]["shell"].clone();
    std::fs::write(&file, servers.to_string()).unwrap();
    let listed = workspace.run(["tool", "list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let hidden = "twin: its tool paint is not shown: shell has the name";
    assert!(listed.err.contains(hidden), "{listed:?}");
    let hidden = "its tool paint is not shown: the server shell has the name paint";
    let tested = workspace.run(["mcp", "test"]);
    assert!(tested.out.contains(hidden), "{tested:?}");
    let listed = workspace.run(["mcp", "list"]);
    assert!(listed.out.contains(hidden), "{listed:?}");
    let listed = workspace.run(["mcp", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let servers = listed["servers"].as_array().unwrap().iter();
    let twin = servers
        .clone()
        .find(|server| server["name"] == "twin")
        .unwrap();
    let names = twin["collisions"].as_array().unwrap().iter();
    let names: Vec<&Value> = names.map(|collision| &collision["tool"]).collect();
    assert_eq!(names, ["add.up", "paint"], "{twin}");
    let shell = servers
        .clone()
        .find(|server| server["name"] == "shell")
        .unwrap();
    assert!(shell.get("collisions").is_none(), "{shell}");
}

#[test]
fn tool_named_like_one_of_another_server_is_reported_and_not_called() {
    let workspace = workspace(json!({"prefix": false}));
    let imitating = crate::mcp_call::SERVER.replace(r#""name":"paint""#, r#""name":"off__get""#);
    workspace.write("server.sh", &imitating);
    let file = workspace.home().join(".config/orchestra/mcp.json");
    let mut servers: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    servers["mcpServers"]["off"] = json!({"command": "true", "disabled": true});
    std::fs::write(&file, servers.to_string()).unwrap();
    let listed = workspace.run(["tool", "list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.out.contains("add.up"), "{listed:?}");
    assert!(!listed.out.contains("off__get"), "{listed:?}");
    let hidden = "shell: its tool off__get is not shown: off has the name";
    assert!(listed.err.contains(hidden), "{listed:?}");
    let listed = workspace.run(["mcp", "list"]);
    let hidden = "its tool off__get is not shown: the server off has the name off__get";
    assert!(listed.out.contains(hidden), "{listed:?}");
    let called = workspace.run(["tool", "call", "off__get"]);
    assert_ne!(called.code, Some(0), "{called:?}");
}

#[test]
fn server_whose_descriptions_change_is_taken_as_it_is_where_the_user_wants_that() {
    let workspace = workspace(json!({}));
    let called = |code: i32| {
        let said = workspace.run(["mcp", "call", "shell", "paint"]);
        assert_eq!(said.code, Some(code), "{said:?}");
        said
    };
    let listed = workspace.run(["tool", "list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let script = |text: &str| crate::mcp_call::SERVER.replace(r#""name":"paint","#, text);
    let anew = |count: u32| {
        let description = format!(r#""name":"paint","description":"Start {count}.","#);
        workspace.write("server.sh", &script(&description));
    };
    anew(1);
    let refused = called(5);
    let file = workspace.home().join(".config/orchestra/mcp.json");
    for word in [r#""pins": "follow""#, &file.display().to_string()] {
        assert!(refused.err.contains(word), "{word}: {refused:?}");
    }
    let shown = workspace.run(["mcp", "approve"]);
    for word in [
        r#""pins": "follow""#,
        "orchestra mcp approve shell --follow",
    ] {
        assert!(shown.out.contains(word), "{word}: {shown:?}");
    }
    let paint = || workspace.run(["tool", "call", "shell__paint"]);
    // Listed, and hidden since.
    let hidden = paint();
    assert_ne!(hidden.code, Some(0), "{hidden:?}");
    let followed = workspace.run(["mcp", "approve", "shell", "--follow"]);
    assert_eq!(followed.code, Some(0), "{followed:?}");
    let released = paint();
    assert_eq!(released.code, Some(0), "{released:?}");
    let servers: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(servers["mcpServers"]["shell"]["pins"], "follow");
    for count in 2..4 {
        anew(count);
        called(0);
    }
}
