//! `orchestra mcp call`: what is sent, what stands against it, and what is printed of the answer.

use std::{
    fs,
    io::{Read as _, Write as _},
    process::Command,
};

use rustix::{
    fs::{Mode, OFlags},
    pty::{self, OpenptFlags},
};
use serde_json::{Value, json};

use crate::support::{Said, Workspace};

/// A server of the session era, whose start and calls are lines of the file that it is told: `add`
/// says which arguments it got, `paint` answers with what is no text.
pub(crate) const SERVER: &str = r#"echo started >> "$1"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"add.up","description":"Adds.","inputSchema":{"type":"object","properties":{"a":{"type":"integer","minimum":1},"note":{"type":"string"},"some":{"type":"array"}},"required":["a"]}},{"name":"paint","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*'"paint"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"here"},{"type":"image","mimeType":"image/png","data":"%s"},{"type":"audio","mimeType":"audio/wav","data":"AAEC"}]}}\n' "$id" "$(head -c 12595 /dev/zero | base64 -w 0)" ;;
    *'"method":"tools/call"'*)
      echo called >> "$1"
      arguments=$(printf '%s' "$line" | sed -n 's/.*"arguments":\({[^}]*}\).*/\1/p' | sed 's/"/\\"/g')
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}],"x-more":true}}\n' "$id" "$arguments" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

/// A workspace whose user has the server `shell`, with more set of it.
pub(crate) fn workspace(more: Value) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("server.sh", SERVER);
    let mut server = json!({"command": "sh",
        "args": [workspace.join("server.sh"), workspace.join("journal")]});
    let more = more.as_object().unwrap().clone();
    server.as_object_mut().unwrap().extend(more);
    let file = workspace.home().join(".config/orchestra/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let servers = json!({"mcpServers": {"shell": server}});
    fs::write(file, servers.to_string()).unwrap();
    workspace
}

/// How often a server wrote a word down.
pub(crate) fn journal(workspace: &Workspace, word: &str) -> usize {
    let journal = fs::read_to_string(workspace.join("journal")).unwrap_or_default();
    journal.lines().filter(|line| *line == word).count()
}

fn call(workspace: &Workspace, words: &[&str]) -> Said {
    workspace.run(["mcp", "call", "shell"].iter().chain(words))
}

#[test]
fn arguments_are_words_or_one_object_and_names_have_a_prefix_or_none() {
    let workspace = workspace(json!({}));
    for (words, expected) in [
        (
            &["add.up", "a=2", "note=7"][..],
            json!({"a": 2, "note": "7"}),
        ),
        (
            &["add.up", "a=2", "some=x, y"],
            json!({"a": 2, "some": ["x", "y"]}),
        ),
        (&["add.up", r#"{"a": 3}"#], json!({"a": 3})),
        (
            &["add.up", "--arg", "a=4", "note=x"],
            json!({"a": 4, "note": "x"}),
        ),
        (&["add.up", "--args", r#"{"a": 5}"#], json!({"a": 5})),
        (&["shell__add.up", "a=6"], json!({"a": 6})),
        (&["shell__add_up", "a=7"], json!({"a": 7})),
    ] {
        let said = call(&workspace, words);
        assert_eq!(said.code, Some(0), "{words:?}: {said:?}");
        let got: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(got, expected, "{words:?}");
    }
    assert_eq!(call(&workspace, &["other__add_up", "a=1"]).code, Some(2));
}

#[test]
fn what_a_schema_does_not_permit_is_not_sent() {
    let workspace = workspace(json!({}));
    for (words, told) in [
        (&["add.up", "a=x"][..], "`a` takes integer as JSON"),
        (
            &["add.up", "a=1", "b=1"],
            "no argument `b`; it has a, note, some",
        ),
        (&["add.up", r#"{"a": "x"}"#], "`a`: "),
        (&["add.up", "a=0"], "`a`: 0 is less than the minimum of 1"),
        (&["add.up"], "\"a\" is a required property"),
    ] {
        let said = call(&workspace, words);
        assert_eq!(said.code, Some(2), "{words:?}: {said:?}");
        assert!(said.err.contains(told), "{words:?}: {said:?}");
    }
    assert_eq!(journal(&workspace, "called"), 0);
}

#[test]
fn a_rule_that_asks_needs_a_yes() {
    let rules = json!({"rules": [{"effect": "ask", "tool": "add*"}]});
    let workspace = workspace(rules);
    let refused = call(&workspace, &["add.up", "a=1"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    for told in ["rule 1: ask add*", "--yes"] {
        assert!(refused.err.contains(told), "{refused:?}");
    }
    assert_eq!(journal(&workspace, "called"), 0);
    let agreed = call(&workspace, &["add.up", "a=1", "--yes"]);
    assert_eq!(agreed.code, Some(0), "{agreed:?}");
    assert_eq!(journal(&workspace, "called"), 1);
}

/// Runs a command at a terminal where somebody has typed a line: how it exits, what it says, and what
/// the terminal shows.
pub(crate) fn at_a_terminal(mut command: Command, line: &str) -> (Option<i32>, String, String) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let master = pty::openpt(flags).unwrap();
    pty::grantpt(&master).unwrap();
    pty::unlockpt(&master).unwrap();
    let name = pty::ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let terminal = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    fs::File::from(master.try_clone().unwrap())
        .write_all(line.as_bytes())
        .unwrap();
    command.stdin(terminal.try_clone().unwrap());
    command.stderr(terminal);
    let output = command.output().unwrap();
    drop(command);
    let mut shown = Vec::new();
    // A terminal that nobody has open any more ends with an error.
    let _ = fs::File::from(master).read_to_end(&mut shown);
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(shown).unwrap(),
    )
}

#[test]
fn a_person_at_a_terminal_is_asked() {
    let workspace = workspace(json!({"rules": [{"effect": "ask", "tool": "add*"}]}));
    let calls = [
        ["mcp", "call", "shell", "add.up"].as_slice(),
        &["tool", "call", "shell__add_up"],
    ];
    for (at, call) in calls.into_iter().enumerate() {
        let command = || workspace.command(call.iter().chain(&["a=1"]));
        let (code, out, _) = at_a_terminal(command(), "n\n");
        assert_eq!((code, out), (Some(5), String::new()));
        assert_eq!(journal(&workspace, "called"), at);
        let (code, out, _) = at_a_terminal(command(), "y\n");
        assert_eq!((code, out.trim()), (Some(0), r#"{"a":1}"#));
        assert_eq!(journal(&workspace, "called"), at + 1);
    }
}

#[test]
fn a_person_is_shown_all_that_they_agree_to() {
    let workspace = workspace(json!({"rules": [{"effect": "ask", "tool": "add*"}]}));
    let note = format!("note={}\u{1b}[2J\u{202e}the end", "x".repeat(1_500));
    for call in [
        ["mcp", "call", "shell", "add.up"].as_slice(),
        &["tool", "call", "shell__add_up"],
    ] {
        let command = workspace.command(call.iter().chain(&["a=1", &note]));
        let (code, _, shown) = at_a_terminal(command, "n\n");
        assert_eq!(code, Some(5), "{shown}");
        for told in [&*"x".repeat(1_500), r"\u001b[2J\u{202e}the end", "[y/N]"] {
            assert!(shown.contains(told), "{call:?}: {shown}");
        }
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'));
    }
}

/// What is recorded of calls that a command makes, which end with these codes.
fn records(workspace: &Workspace, command: &[&str], calls: &[(&[&str], i32)]) -> Vec<[Value; 6]> {
    let file = workspace.run_directory().join("audit.jsonl");
    let text = || fs::read_to_string(&file).unwrap_or_default();
    let before = text().lines().count();
    for (words, code) in calls {
        let said = workspace.run(command.iter().chain(*words));
        assert_eq!(said.code, Some(*code), "{command:?} {words:?}: {said:?}");
    }
    let records = text();
    let records = records.lines().skip(before).map(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        let keys = [
            "face",
            "kind",
            "name",
            "outcome",
            "remark",
            "argument_bytes",
        ];
        keys.map(|key| record[key].clone())
    });
    records.collect()
}

/// Records as [`records`] tells them, of calls from the command line.
fn recorded(expected: &[(&str, &str, Option<&str>, usize)]) -> Vec<[Value; 6]> {
    let expected = expected.iter();
    let records = expected.map(|(name, outcome, remark, bytes)| {
        let texts = ["cli", "tool", name, outcome].map(Value::from);
        let [face, kind, name, outcome] = texts;
        [face, kind, name, outcome, json!(remark), json!(bytes)]
    });
    records.collect()
}

const COMMANDS: [&[&str]; 2] = [&["mcp", "call", "shell"], &["tool", "call"]];

#[test]
fn a_call_is_recorded_whichever_command_makes_it() {
    let more = json!({"rules": [{"effect": "deny", "tool": "paint"}], "limits": {"dailyQuota": 2}});
    let workspace = workspace(more);
    fs::create_dir(workspace.join(".projects")).unwrap();
    for command in COMMANDS {
        let made = records(
            &workspace,
            command,
            &[
                (&["shell__add_up", "a=1"], 0),
                (&["shell__paint", r#"{"b":22}"#], 5),
                (&["shell__add_up", "a=0", "note=x"], 2),
                (&["shell__nope", "b=1"], 2),
                // Words that are no arguments make no call.
                (&["shell__add_up", "a=x"], 2),
            ],
        );
        let allowed = "default: allow";
        let expected = recorded(&[
            ("shell__add_up", "answered", Some(allowed), 7),
            (
                "shell__paint",
                "denied",
                Some("rule 1: deny paint; permission_denied"),
                8,
            ),
            (
                "shell__add_up",
                "invalid_params",
                Some("default: allow; invalid_arguments"),
                18,
            ),
            ("shell__nope", "unknown", None, 7),
        ]);
        assert_eq!(made, expected, "{command:?}");
    }
    for command in COMMANDS {
        let made = records(&workspace, command, &[(&["shell__add_up", "a=1"], 5)]);
        let spent = Some("default: allow; daily_quota_exceeded");
        let expected = recorded(&[("shell__add_up", "denied", spent, 7)]);
        assert_eq!(made, expected, "{command:?}");
    }
    let verified = workspace.run(["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn a_call_is_recorded_where_there_is_a_board_and_makes_none() {
    let workspace = workspace(json!({}));
    assert_eq!(call(&workspace, &["add.up", "a=1"]).code, Some(0));
    assert!(!workspace.join(".projects").exists());
    // One that was not reached is recorded as well.
    fs::create_dir(workspace.join(".projects")).unwrap();
    workspace.write("server.sh", "exit 3");
    assert_eq!(call(&workspace, &["add.up", "a=1"]).code, Some(4));
    let file = workspace.run_directory().join("audit.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    let told = ["provider", "name", "outcome"].map(|key| &record[key]);
    assert_eq!(told, ["shell", "shell__add.up", "unreachable"]);
}

/// Calls that come no further than the rules or the decisions of the user.
#[test]
fn a_refusal_is_recorded_alike_whichever_command_meets_it() {
    let board = |workspace: &Workspace| fs::create_dir(workspace.join(".projects")).unwrap();
    for (more, tool, outcome, remark) in [
        (
            json!({"default": "deny"}),
            "add_up",
            "denied",
            Some("default: deny; permission_denied"),
        ),
        (
            json!({"default": "ask"}),
            "add_up",
            "denied",
            Some("default: ask; permission_denied"),
        ),
    ] {
        let workspace = workspace(more);
        board(&workspace);
        let name = format!("shell__{tool}");
        for command in COMMANDS {
            let made = records(&workspace, command, &[(&[&name, "a=1"], 5)]);
            let expected = recorded(&[(&name, outcome, remark, 7)]);
            assert_eq!(made, expected, "{command:?}");
        }
    }
    let workspace = workspace(json!({}));
    board(&workspace);
    let file = json!({"mcpServers": {"theirs": {"command": "cat"}, "bad": {"command": "cat", "timeout": "x"}}});
    workspace.write(".mcp.json", &file.to_string());
    let switched = workspace.run(["mcp", "disable", "shell"]);
    assert_eq!(switched.code, Some(0), "{switched:?}");
    for (server, remark, codes) in [
        ("shell", "disabled", [5, 5]),
        ("theirs", "needs_approval", [5, 5]),
        ("bad", "invalid_config", [3, 5]),
    ] {
        let name = format!("{server}__x");
        for (command, code) in [&["mcp", "call", server][..], &["tool", "call"]]
            .into_iter()
            .zip(codes)
        {
            let made = records(&workspace, command, &[(&[&name, "a=1"], code)]);
            let expected = recorded(&[(&name, "denied", Some(remark), 7)]);
            assert_eq!(made, expected, "{command:?}");
        }
    }
}

#[test]
fn who_is_asked_about_all_that_no_rule_is_about_is_not_about_what_only_reads() {
    let reading = SERVER.replace(
        r#""name":"paint","#,
        r#""name":"paint","annotations":{"readOnlyHint":true},"#,
    );
    for (trust, painted) in [(true, 0), (false, 5)] {
        let workspace = workspace(json!({"default": "ask", "trust": trust}));
        workspace.write("server.sh", &reading);
        let calls = [["mcp", "call", "shell"].as_slice(), &["tool", "call"]];
        for call in calls {
            let run =
                |tool: &str, words: &[&str]| workspace.run(call.iter().chain(&[tool]).chain(words));
            let said = run("shell__paint", &[]);
            assert_eq!(said.code, Some(painted), "{call:?}: {said:?}");
            let asked = run("shell__add_up", &["a=1"]);
            assert_eq!(asked.code, Some(5), "{call:?}: {asked:?}");
            assert!(asked.err.contains("default: ask"), "{asked:?}");
        }
    }
}

/// What the user wrote to forbid calls forbids them in whatever shape, and half written as well.
#[test]
fn a_default_of_the_user_is_not_lost_by_its_file() {
    let workspace = workspace(json!({}));
    let users = workspace.home().join(".config/orchestra");
    // The servers stand in the stronger file, which says nothing of calls.
    let servers = fs::read_to_string(users.join("mcp.json")).unwrap();
    let servers: Value = serde_json::from_str(&servers).unwrap();
    let servers = json!({"mcp": {"servers": servers["mcpServers"]}});
    fs::write(
        users.join("orchestra.toml"),
        toml::to_string(&servers).unwrap(),
    )
    .unwrap();
    for (text, words) in [
        (
            r#"{"mcp":{"default":"deny","servers":{}}"#,
            &["mcp.json", "repair that file"][..],
        ),
        (
            r#"{"mcp":{"default":"deny"},"mcpServers":{}}"#,
            &["`default` is deny"],
        ),
        (
            r#"{"mcpServers":{},"default":"deny"}"#,
            &["`default` is deny"],
        ),
    ] {
        fs::write(users.join("mcp.json"), text).unwrap();
        for command in ["mcp call shell", "tool call"] {
            let words_of = command.split(' ').chain(["shell__add_up", "a=1"]);
            let said = workspace.run(words_of);
            assert_ne!(said.code, Some(0), "{command} {text}: {said:?}");
            for word in words {
                assert!(said.err.contains(word), "{command} {text}: {said:?}");
            }
        }
    }
    assert_eq!(journal(&workspace, "called"), 0);
}

#[test]
fn the_calls_of_a_day_are_counted_with_those_of_others() {
    let workspace = workspace(json!({"limits": {"dailyQuota": 2}}));
    for _ in 0..2 {
        assert_eq!(call(&workspace, &["add.up", "a=1"]).code, Some(0));
    }
    let refused = call(&workspace, &["add.up", "a=1"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    for told in [
        "daily limit of 2 calls",
        "all programs of the user",
        "00:00 UTC",
    ] {
        assert!(refused.err.contains(told), "{refused:?}");
    }
    assert_eq!(journal(&workspace, "called"), 2);
    let through_the_hub = workspace.run(["tool", "call", "shell__add_up", "a=1"]);
    assert_eq!(through_the_hub.code, Some(5), "{through_the_hub:?}");
    assert_eq!(journal(&workspace, "called"), 2);
}

#[test]
fn what_is_no_text_is_told_by_its_kind_or_saved() {
    let workspace = workspace(json!({}));
    let said = call(&workspace, &["paint"]);
    assert_eq!(said.out, "here\n[image/png, 12.3 KiB]\n[audio/wav, 3 B]\n");
    assert!(said.err.contains("--output DIR"), "{said:?}");
    // None is written over another.
    workspace.write("out/paint-1.png", "mine");
    let saved = call(&workspace, &["paint", "--output", "out"]);
    assert_eq!(
        saved.out,
        "here\n[image/png, 12.3 KiB: out/paint-2.png]\n[audio/wav, 3 B: out/paint-3.wav]\n",
        "{saved:?}"
    );
    assert_eq!(workspace.read("out/paint-1.png"), "mine");
    let image = fs::read(workspace.join("out/paint-2.png")).unwrap();
    assert_eq!(image, vec![0; 12_595]);
    assert_eq!(
        fs::read(workspace.join("out/paint-3.wav")).unwrap(),
        [0, 1, 2]
    );
    let json: Value = serde_json::from_str(&call(&workspace, &["paint", "--json"]).out).unwrap();
    assert_eq!(json["content"][2]["data"], "AAEC");
}

#[test]
fn files_of_a_result_are_saved_through_no_link_of_the_workspace() {
    let workspace = workspace(json!({}));
    let outside = workspace.home().join("outside");
    fs::create_dir_all(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, workspace.join("out")).unwrap();
    let absolute = workspace.join("out").display().to_string();
    for directory in ["out", "./out", "out/below", &absolute] {
        let said = call(&workspace, &["paint", "--output", directory]);
        assert_ne!(said.code, Some(0), "{directory}: {said:?}");
        assert!(said.err.contains("symbolic link"), "{directory}: {said:?}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    for directory in ["./real/below", "."] {
        let said = call(&workspace, &["paint", "--output", directory]);
        assert_eq!(said.code, Some(0), "{directory}: {said:?}");
    }
    assert!(workspace.join("real/below/paint-1.png").exists());
}

#[test]
fn whether_a_call_may_have_run_is_told_whichever_command_makes_it() {
    let silent = SERVER.replace(
        "*'\"method\":\"tools/call\"'*)\n",
        "*'\"method\":\"tools/call\"'*)\n      exec sleep 60\n",
    );
    assert_ne!(silent, SERVER);
    let slow = workspace(json!({"timeout": "1s"}));
    slow.write("server.sh", &silent);
    let gone = workspace(json!({}));
    gone.write("server.sh", "exit 3");
    for (workspace, told, may_have_run, code) in [
        (
            slow,
            "The call may have run: look at what it was to change",
            true,
            "timeout",
        ),
        (gone, "The call did not run", false, "process_crashed"),
    ] {
        for command in [["mcp", "call", "shell"].as_slice(), &["tool", "call"]] {
            let words = command.iter().chain(&["shell__add_up", "a=1"]);
            let said = workspace.run(words);
            assert_eq!(said.code, Some(4), "{command:?}: {said:?}");
            assert!(said.err.contains(told), "{command:?}: {said:?}");
        }
        let said = call(&workspace, &["add.up", "a=1", "--json"]);
        assert_eq!(said.code, Some(4), "{said:?}");
        let error = serde_json::from_str::<Value>(&said.out).unwrap()["error"].clone();
        let got = ["server", "code", "may_have_run"].map(|key| error[key].clone());
        assert_eq!(
            got,
            [json!("shell"), json!(code), json!(may_have_run)],
            "{said:?}"
        );
    }
}

#[test]
fn result_without_blocks_is_shown_as_far_as_it_can_be_understood() {
    for (answer, shown) in [
        (r#"{"content":"oops"}"#, "oops"),
        (r#"{"structuredContent":{"a":1}}"#, r#"{"a":1}"#),
    ] {
        let workspace = workspace(json!({}));
        let server = SERVER.replace(
            r#"{"content":[{"type":"text","text":"%s"}],"x-more":true}"#,
            answer,
        );
        workspace.write("server.sh", &server);
        for call in [["mcp", "call", "shell"].as_slice(), &["tool", "call"]] {
            let words = call.iter().copied().chain(["shell__add_up", "a=1"]);
            let said = workspace.run(words);
            assert_eq!(said.code, Some(0), "{call:?} {answer}: {said:?}");
            assert_eq!(said.out, format!("{shown}\n"), "{call:?} {answer}");
        }
    }
}

#[test]
fn the_last_words_of_a_server_are_told_once_and_not_without_end() {
    let workspace = Workspace::new();
    let words = "for i in $(seq 1 40); do echo \"complaint $i\" >&2; done; \
                 head -c 5000 /dev/zero | tr '\\0' x >&2; exit 3";
    let servers = json!({"mcpServers": {"bad": {"command": "sh", "args": ["-c", words]}}});
    workspace.write("servers.json", &servers.to_string());
    let with = ["mcp", "--mcp-config", "servers.json"];
    for command in [&["call", "bad", "x"][..], &["tools", "bad"]] {
        let said = workspace.run(with.iter().chain(command));
        assert_eq!(said.code, Some(4), "{said:?}");
        assert!(!said.err.contains("WARN"), "{said:?}");
        assert_eq!(said.err.matches("complaint 40").count(), 1, "{said:?}");
        assert!(!said.err.contains("complaint 30\n"), "{said:?}");
        assert!(
            said.err.contains(&format!("\n    {}…\n", "x".repeat(300))),
            "{said:?}"
        );
        assert!(!said.err.contains(&"x".repeat(301)), "{said:?}");
        assert!(said.err.contains("orchestra mcp logs bad"), "{said:?}");
    }
    let logs = workspace.run(with.iter().chain(&["logs", "bad", "-n", "500"]));
    assert!(logs.out.contains("complaint 1\n"), "{logs:?}");
}

#[test]
fn what_is_asked_for_elsewhere_is_told_when_it_is_handed_out() {
    let workspace = Workspace::new();
    let file = json!({
        "servers": {"a": {"command": "x", "args": ["${input:api-key}"]}, "b": {"command": "y"}},
        "inputs": [{"id": "api-key", "type": "promptString", "description": "The key", "password": true}],
    });
    workspace.write(".vscode/mcp.json", &file.to_string());
    let export = |words: &[&str]| workspace.run(["mcp", "export"].iter().chain(words));
    let said = export(&["a", "b", "--shape", "vscode"]);
    assert!(
        said.err.contains("VS Code will ask for ${input:api-key}"),
        "{said:?}"
    );
    let out: Value = serde_json::from_str(&said.out).unwrap();
    let expected = json!([{"id": "api-key", "type": "promptString", "description": "The key", "password": true}]);
    assert_eq!(out["inputs"], expected);
    let said = export(&["a", "b"]);
    assert!(
        said.err.contains("cannot ask for ${input:api-key}"),
        "{said:?}"
    );
    let said = export(&["a", "b", "--shape", "toml"]);
    assert!(said.err.contains("set ORCHESTRA_INPUT_API_KEY"), "{said:?}");
    assert_eq!(export(&["b"]).err, "");
}

#[test]
fn what_is_taken_back_or_was_never_there_is_said_and_no_error() {
    let workspace = workspace(json!({}));
    workspace.write(
        ".mcp.json",
        r#"{"mcpServers": {"theirs": {"command": "cat"}}}"#,
    );
    assert_eq!(
        workspace.run(["mcp", "approve", "theirs", "--yes"]).code,
        Some(0)
    );
    for result in ["approval taken back", "was not approved"] {
        let said = workspace.run(["mcp", "approve", "theirs", "--revoke", "--json"]);
        let out: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(
            out,
            json!([{"name": "theirs", "result": result}]),
            "{said:?}"
        );
    }
    let out = workspace.run(["mcp", "logout", "shell"]);
    assert_eq!(out.code, Some(0), "{out:?}");
    assert!(out.out.contains("no sign-in was stored"), "{out:?}");
}

/// A server that ends at a call while the file that it is told is not there, and makes that file before
/// unless it is told `always`.
const CRASHES: &str = r#"while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"write","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*)
      [ -e "$1" ] || { [ "$2" = always ] || touch "$1"; exit 1; }
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}\n' "$id" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn call_of_a_tool_that_only_reads_is_repeated_after_a_crash_whichever_command_makes_it() {
    for command in [&["mcp", "call", "shell"][..], &["tool", "call"]] {
        let workspace = workspace(json!({"trust": true}));
        workspace.write("server.sh", CRASHES);
        let call = |tool: &str| {
            let tool = match command[0] {
                "tool" => format!("shell__{tool}"),
                _ => tool.to_owned(),
            };
            workspace.run(command.iter().copied().chain([tool.as_str()]))
        };
        let read = call("read");
        assert_eq!(read.code, Some(0), "{command:?}: {read:?}");
        assert_eq!(read.out.trim(), "done", "{command:?}");
        fs::remove_file(workspace.join("journal")).unwrap();
        let write = call("write");
        assert_eq!(write.code, Some(4), "{command:?}: {write:?}");
        let told = format!("{}{}", write.out, write.err);
        assert!(told.contains("may have run"), "{command:?}: {told}");
    }
}

/// A server that creates the file of its first argument, and fails the list before that.
const LISTS_LATE: &str = r#"while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*)
      [ -e "$1" ] || { touch "$1"; printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"not yet"}}\n' "$id"; continue; }
      printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"read","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}\n' "$id" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn call_waits_for_a_list_of_tools_that_fails_at_first_whichever_command_makes_it() {
    for words in [
        &["mcp", "call", "shell", "read"][..],
        &["tool", "call", "shell__read"],
    ] {
        let workspace = workspace(json!({}));
        workspace.write("server.sh", LISTS_LATE);
        let said = workspace.run(words);
        assert_eq!(said.code, Some(0), "{words:?}: {said:?}");
        assert_eq!(said.out.trim(), "done", "{words:?}");
    }
}

#[test]
fn call_of_a_tool_that_only_reads_is_not_said_to_have_run() {
    let path = |workspace: &Workspace, name: &str| workspace.join(name).display().to_string();
    let workspace = workspace(json!({"trust": true, "retry": {"attempts": 1}}));
    workspace.write("server.sh", CRASHES);
    let file = workspace.home().join(".config/orchestra/mcp.json");
    let mut servers: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    servers["mcpServers"]["shell"]["args"] = json!([
        path(&workspace, "server.sh"),
        path(&workspace, "journal"),
        "always"
    ]);
    fs::write(&file, servers.to_string()).unwrap();
    let said = call(&workspace, &["read"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(!said.err.contains("may have run"), "{said:?}");
    assert!(said.err.contains("can be repeated"), "{said:?}");
    let said = workspace.run(["tool", "call", "shell__read"]);
    let told = format!("{}{}", said.out, said.err);
    assert!(!told.contains("may have run"), "{told}");
}
