//! `orchestra mcp approve`: what is shown before something is approved.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    mcp::{json as parsed, state},
    mcp_call::{SERVER, at_a_terminal},
    others,
    support::{Session, Workspace},
};

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
      receives the values of HOME, ORCHESTRA_INPUT_I
      where ${input:i} is "--from-file" by default
      in a sandbox: its directory, no network
      that may also read "${HOME}"
      that may also write "/"
      receives the roots "/"
      its tools have no prefix, so their names may resemble those of other servers
      calls that may change something are repeated
    far: waits
      reaches http://example.com/mcp
      sends X-Key=…
      sends X-Home=${HOME}
      trusts the certificates of ca.pem
      signs in with the certificate "me.pem"
      also connects without encryption
      receives the values of HOME
    tame: waits
      runs "x"
      in WORKSPACE
      has at most 1073741824 bytes of address space, 10 calls a day
      does not offer the tools drop
      rule: calls of write_* with path="/etc/*" are denied
    `orchestra mcp approve NAME` approves one
    "#);
}

#[test]
fn disabled_server_of_a_workspace_is_started_by_no_command() {
    let workspace = Workspace::new();
    let script = "touch started; cat";
    let server = json!({"command": "sh", "args": ["-c", script], "disabled": true});
    workspace.write(
        ".mcp.json",
        &json!({"mcpServers": {"off": server}}).to_string(),
    );
    for words in [["mcp", "test", "off"], ["mcp", "tap", "off"]] {
        let said = workspace.run(words);
        assert_ne!(said.code, Some(0), "{said:?}");
        let text = format!("{}{}", said.out, said.err);
        assert!(text.contains("orchestra mcp enable off"), "{said:?}");
        assert!(!workspace.path().join("started").exists(), "{words:?}");
    }
    workspace.run(["mcp", "enable", "off"]);
    let said = workspace.run(["mcp", "test", "off"]);
    let text = format!("{}{}", said.out, said.err);
    assert!(text.contains("orchestra mcp approve off"), "{said:?}");
    assert!(!workspace.path().join("started").exists());
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
        "receives the values of ",
        "offers only the tools ",
        "does not offer the tools ",
        "rule: ",
        "reaches ",
        "sends ",
        "trusts the certificates ",
        "signs in ",
        "sends the secret in ",
        "Orchestra cannot tell which files ",
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
        r"sends the secret in -\n",
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
    workspace.write("server.sh", SERVER);
    let server = serde_json::json!({"command": "sh",
        "args": [workspace.join("server.sh"), workspace.join("../journal")],
        "rules": [{"effect": "allow", "tool": "*"}]});
    let file = serde_json::json!({"mcpServers": {"lax": server}});
    workspace.write(".mcp.json", &file.to_string());
    let approved = workspace.run(["mcp", "approve", "lax", "--yes"]);
    for told in [
        "rule: calls of * are allowed",
        "your own `default` applies where it is stricter: calls are then denied",
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
    assert_eq!(calls(&workspace), 0);
}

/// A workspace that brings the server `theirs`, a script with a manifest beside it.
fn with_script(env: &Value) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("server.sh", SERVER);
    workspace.write("package.json", "{}");
    write_script(&workspace, env);
    workspace
}

fn write_script(workspace: &Workspace, env: &Value) {
    let server = json!({"command": "sh", "args": ["server.sh", "../journal"], "env": env});
    let file = json!({"mcpServers": {"theirs": server}});
    workspace.write(".mcp.json", &file.to_string());
}

#[test]
fn approval_without_a_terminal_is_refused_after_the_server_is_shown() {
    let workspace = Workspace::new();
    write_script(&workspace, &json!({}));
    let refused = workspace.run(["mcp", "approve", "theirs"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    for part in [
        "runs \"sh\" \"server.sh\"",
        "no terminal to ask on; --yes approves what is shown",
    ] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
}

#[test]
fn changed_tools_of_a_workspace_server_are_taken_after_approve_with_follow() {
    // The description changes with each line of the journal.
    let changing = r#""name":"paint","description":"Line '"$(wc -l < "$1")"'.","#;
    let workspace = with_script(&json!({}));
    workspace.write("server.sh", &SERVER.replace(r#""name":"paint","#, changing));
    let follow = || workspace.run(["mcp", "approve", "theirs", "--follow"]);
    let refused = follow();
    assert_eq!(refused.code, Some(5), "{refused:?}");
    approve(&workspace);
    let listed = workspace.run(["tool", "list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let call = || workspace.run(["mcp", "call", "theirs", "paint"]);
    let refused = call();
    assert_eq!(refused.code, Some(5), "{refused:?}");
    let hint = "`orchestra mcp approve theirs --follow`";
    assert!(refused.err.contains(hint), "{refused:?}");
    let followed = follow();
    assert_eq!(followed.code, Some(0), "{followed:?}");
    for _ in 0..2 {
        let called = call();
        assert_eq!(called.code, Some(0), "{called:?}");
    }
    // Another definition of the server is another decision.
    workspace.write("package.json", "{\"a\": 1}");
    approve(&workspace);
    assert_eq!(call().code, Some(5));
}

/// Number of calls that the server wrote down.
fn calls(workspace: &Workspace) -> usize {
    let journal = fs::read_to_string(workspace.join("../journal")).unwrap_or_default();
    journal.lines().filter(|line| *line == "called").count()
}

fn approve(workspace: &Workspace) {
    let approved = workspace.run(["mcp", "approve", "theirs", "--yes"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert_eq!(state(workspace, "theirs"), "enabled");
}

/// What waits, as JSON has it.
fn waiting(workspace: &Workspace) -> Value {
    let shown = workspace.run(["mcp", "approve", "--json"]);
    let mut waiting = parsed(&shown);
    waiting[0].take()
}

#[test]
fn value_of_a_variable_is_shown_unless_its_name_means_a_secret() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let workspace = Workspace::new();
    workspace.write(".env", "BASH_ENV=./hook\nDB_PASSWORD=hunter2hunter2\n");
    let env = json!({
        "API_TOKEN": "s3cret", "FALLBACK_TOKEN": "${NOWHERE:-s3cret}", "GIT_TOKEN": "--upload-pack=./x",
        "LD_PRELOAD": "./x.so", "NODE_OPTIONS": "--require ./token=abcdefghijkl.js", "PLAIN": "a\u{1b}[2J\nb",
        "SSH_ASKPASS": "./ask",
        "EVAL_TOKEN": "./token=abcdefghijkl", "RUN_TOKEN": "sh ./run", "MORE": format!("a {token}"),
    });
    let server =
        json!({"command": "sh", "args": ["-c", "eval $EVAL_TOKEN"], "env": env, "envFile": ".env"});
    let file = json!({"mcpServers": {"theirs": server}});
    workspace.write(".mcp.json", &file.to_string());
    let in_text = workspace.run(["mcp", "approve"]).out;
    let waiting = waiting(&workspace);
    let lines = waiting["shows"].as_array().unwrap().iter();
    let lines: Vec<&str> = lines.map(|line| line.as_str().unwrap()).collect();
    for line in [
        "with API_TOKEN=…",
        "with FALLBACK_TOKEN=${NOWHERE:-…}",
        r#"with GIT_TOKEN="--upload-pack=./x""#,
        r#"with LD_PRELOAD="./x.so""#,
        r#"with NODE_OPTIONS="--require ./token=abcdefghijkl.js""#,
        r#"with SSH_ASKPASS="./ask""#,
        r#"with EVAL_TOKEN="./token=abcdefghijkl""#,
        r#"with RUN_TOKEN="sh ./run""#,
        r#"with PLAIN="a\u{1b}[2J\nb""#,
        r#"with BASH_ENV="./hook" of its file of variables"#,
        "with DB_PASSWORD=… of its file of variables",
        "needs a new approval when one of these files changes: .env",
    ] {
        assert!(lines.contains(&line), "{line}: {lines:#?}");
        assert!(in_text.contains(line), "{line}: {in_text}");
    }
    let more = r#"with MORE="a ghp_"#;
    assert!(in_text.contains(more), "{in_text}");
    for secret in [token.as_str(), "s3cret", "hunter2", "\u{1b}"] {
        assert!(!in_text.contains(secret), "{secret}: {in_text}");
        assert!(!waiting.to_string().contains(secret), "{secret}: {waiting}");
    }
}

#[test]
fn value_with_a_secret_name_that_may_run_is_shown() {
    let workspace = Workspace::new();
    workspace.write("run", "x");
    let shown = json!({
        "GOAUTH": "s3cret", "CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS": "x", "CARGO_CREDENTIAL_ALIAS_TOKEN": "x",
        "A_TOKEN": "sh -c id", "B_TOKEN": "`id`", "C_TOKEN": "$(id)", "D_TOKEN": "id;id", "E_TOKEN": "/bin/x",
        "F_TOKEN": "run", "G_TOKEN": "./none", "H_TOKEN": "sh$IFS./x",
        "AA_TOKEN": "--x=/path/to/script", "AB_TOKEN": "-r./none", "AC_TOKEN": "--verbose ./none", "AD_TOKEN": "one run",
        "AE_TOKEN": "--x=run", "AF_TOKEN": "A=1 sh -c id", "AG_TOKEN": "X=./none",
        "AH_TOKEN": "/a/long/path/that/does/not/exist/to/a/script.sh", "AI_TOKEN": "${workspaceFolder}/none",
        "AJ_TOKEN": "${NOWHERE:-sh -c id}", "AK_TOKEN": "${NOWHERE:-./none}",
    });
    let hidden = json!({
        "M_SECRET": "abc/def+ghi==", "N_PASSPHRASE": "correct horse battery staple", "O_SECRET": "key=abc",
        "I_TOKEN": "pa$$word", "J_PASSWORD": "x!#%^*_-+={}[]?,:@", "K_SECRET": "a/b+c/d=",
        "L_SECRET": "/abcdefghijklmnopqrstuvwxyzabcdefghijklmnop",
    });
    let mut env = shown.clone();
    for (name, value) in hidden.as_object().unwrap() {
        env[name] = value.clone();
    }
    let server = json!({"command": "sh", "env": env});
    let file = json!({"mcpServers": {"theirs": server}});
    workspace.write(".mcp.json", &file.to_string());
    let out = workspace.run(["mcp", "approve"]).out;
    for (name, value) in shown.as_object().unwrap() {
        let line = format!("with {name}={value}");
        assert!(out.contains(&line), "{line}: {out}");
    }
    for (name, value) in hidden.as_object().unwrap() {
        assert!(out.contains(&format!("with {name}=…")), "{name}: {out}");
        assert!(!out.contains(value.as_str().unwrap()), "{name}: {out}");
    }
}

#[test]
fn default_of_a_secret_input_is_shown_where_it_may_run() {
    let workspace = Workspace::new();
    let input = |id: &str, default: &str| json!({"id": id, "type": "promptString", "password": true, "default": default});
    let file = json!({
        "servers": {"theirs": {"command": "sh", "args": ["-c", "${input:line}"],
            "env": {"NODE_OPTIONS": "${input:code}", "A": "${input:path}", "B": "${input:secret}"}}},
        "inputs": [input("line", "exit"), input("code", "-v"), input("path", "./none"), input("secret", "s3cret")],
    });
    workspace.write(".vscode/mcp.json", &file.to_string());
    let out = workspace.run(["mcp", "approve"]).out;
    for (id, shown) in [
        ("line", r#""exit""#),
        ("code", r#""-v""#),
        ("path", r#""./none""#),
        ("secret", "…"),
    ] {
        let line = format!("where ${{input:{id}}} is {shown} by default");
        assert!(out.contains(&line), "{line}: {out}");
    }
    assert!(!out.contains("s3cret"), "{out}");
}

/// A workspace that brings the server `theirs`, whose command line and options end with these texts.
fn with_long_definition(length: usize) -> Workspace {
    let workspace = Workspace::new();
    let long = |end: &str| format!("{}{end}", "x".repeat(length));
    let server = json!({"command": "sh", "args": [long("first")], "env": {"NODE_OPTIONS": long("second")},
        "sandbox": {"write": [long("third")]}});
    let file = json!({"mcpServers": {"theirs": server}});
    workspace.write(".mcp.json", &file.to_string());
    workspace
}

#[test]
fn question_at_a_terminal_has_the_whole_definition() {
    let workspace = with_long_definition(2_100);
    let approve = || workspace.command(["mcp", "approve", "theirs"]);
    let (code, _, shown) = at_a_terminal(approve(), "n\n");
    assert_eq!(code, Some(5), "{shown}");
    for end in ["xfirst", "xsecond", "xthird", "[y/N]"] {
        assert!(shown.contains(end), "{end}: {shown}");
    }
    let (code, _, shown) = at_a_terminal(approve(), "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(state(&workspace, "theirs"), "enabled");
}

#[test]
fn definition_that_is_too_long_to_be_shown_is_approved_by_its_fingerprint_alone() {
    let workspace = with_long_definition(8_000);
    let command = workspace.command(["mcp", "approve", "theirs"]);
    let (code, _, shown) = at_a_terminal(command, "y\n");
    assert_eq!(code, Some(5), "{shown}");
    assert!(!shown.contains("[y/N]"), "{shown}");
    for hint in [
        "shorten the definition",
        "approve theirs --json",
        "--fingerprint",
    ] {
        assert!(shown.contains(hint), "{hint}: {shown}");
    }
    assert_eq!(state(&workspace, "theirs"), "needs_approval");
    let json = workspace.run(["mcp", "approve", "theirs", "--json"]);
    assert_eq!(json.code, Some(5), "{json:?}");
    for end in ["xfirst", "xsecond", "xthird"] {
        assert!(json.out.contains(end), "{end}: {json:?}");
    }
    let fingerprint = parsed(&json)[0]["fingerprint"].clone();
    let fingerprint = fingerprint.as_str().unwrap();
    let approved = workspace.run(["mcp", "approve", "theirs", "--fingerprint", fingerprint]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert_eq!(state(&workspace, "theirs"), "enabled");
}

#[test]
fn letters_that_look_like_blanks_are_escaped() {
    let workspace = Workspace::new();
    let blanks = "\u{115f}\u{1160}\u{2800}\u{3164}\u{ffa0}";
    let server = json!({"command": "sh", "args": [blanks]});
    let file = json!({"mcpServers": {"theirs": server}});
    workspace.write(".mcp.json", &file.to_string());
    let shown = workspace.run(["mcp", "approve"]);
    let escaped = r"\u{115f}\u{1160}\u{2800}\u{3164}\u{ffa0}";
    assert!(shown.out.contains(escaped), "{shown:?}");
}

#[test]
fn server_is_asked_for_again_when_a_file_of_its_command_line_changes() {
    let workspace = with_script(&json!({}));
    approve(&workspace);
    let call = || workspace.run(["mcp", "call", "theirs", "add.up", "a=1"]);
    let called = call();
    assert_eq!(called.code, Some(0), "{called:?}");
    assert_eq!(calls(&workspace), 1);
    // The server wrote its journal outside of the workspace.
    assert_eq!(state(&workspace, "theirs"), "enabled");
    for (path, text, why) in [
        ("server.sh", "touch ran\n", "the file server.sh changed"),
        (
            "package.json",
            "{\"a\": 1}",
            "the file package.json changed",
        ),
        ("yarn.lock", "", "the file yarn.lock is new"),
    ] {
        workspace.write(path, text);
        let refused = call();
        assert_eq!(refused.code, Some(5), "{path}: {refused:?}");
        assert!(refused.err.contains(why), "{path}: {refused:?}");
        let listed = workspace.run(["mcp", "list"]);
        assert!(listed.out.contains(why), "{path}: {listed:?}");
        let shown = waiting(&workspace)["shows"].to_string();
        assert!(shown.contains(why), "{path}: {shown}");
        approve(&workspace);
    }
    assert!(!workspace.join("ran").exists());
    fs::remove_file(workspace.join("yarn.lock")).unwrap();
    let listed = workspace.run(["mcp", "list"]);
    let why = "the file yarn.lock is gone";
    assert!(listed.out.contains(why), "{listed:?}");
}

#[test]
fn shell_line_whose_files_cannot_be_told_is_reported() {
    let workspace = Workspace::new();
    let unclear = "Orchestra cannot tell which files this command runs";
    for (line, is_reported) in [("exec ./$RUN.sh", true), ("exec ./run.sh", false)] {
        let server = json!({"command": "sh", "args": ["-c", line]});
        let file = json!({"mcpServers": {"theirs": server}});
        workspace.write(".mcp.json", &file.to_string());
        let shown = workspace.run(["mcp", "approve"]);
        assert_eq!(
            shown.out.contains(unclear),
            is_reported,
            "{line}: {shown:?}"
        );
    }
}

#[test]
fn command_line_or_variable_that_is_not_plain_is_reported() {
    let workspace = Workspace::new();
    let notice = "Orchestra cannot tell which files this command runs";
    for server in [
        json!({"command": "node", "args": ["--import", "data:text/javascript,x", "server.js"]}),
        json!({"command": "awk", "args": ["BEGIN{system(\"./a\" \"b\")}"]}),
        json!({"command": "sed", "args": ["1e ./a?b", "/etc/hostname"]}),
        json!({"command": "make", "args": ["X=$$(shell ./a?b)"]}),
        json!({"command": "sh", "args": ["-c", "echo Li9h|base64 -d|sh"]}),
        json!({"command": "git", "args": ["x"], "env": {"GIT_SSH_COMMAND": "./a?b"}}),
        json!({"command": "python3", "args": ["-X", "pycache_prefix=later", "-m", "server"]}),
    ] {
        let file = json!({"mcpServers": {"theirs": server}});
        workspace.write(".mcp.json", &file.to_string());
        let shown = workspace.run(["mcp", "approve"]);
        assert!(shown.out.contains(notice), "{shown:?}");
    }
}

#[test]
fn approval_without_the_notice_about_files_does_not_hold_when_the_notice_applies() {
    let workspace = Workspace::new();
    let server = json!({"command": "cat", "args": ["--plugins=later"]});
    let file = json!({"mcpServers": {"theirs": server}});
    workspace.write(".mcp.json", &file.to_string());
    let appear = || fs::create_dir(workspace.join("later")).unwrap();
    let vanish = || fs::remove_dir(workspace.join("later")).unwrap();
    approve(&workspace);
    appear();
    assert_eq!(state(&workspace, "theirs"), "needs_approval");
    let listed = workspace.run(["mcp", "list"]);
    let why = "the notice that Orchestra cannot tell which files this command runs is new";
    assert!(listed.out.contains(why), "{listed:?}");
    vanish();
    assert_eq!(state(&workspace, "theirs"), "enabled");
    appear();
    approve(&workspace);
    vanish();
    assert_eq!(state(&workspace, "theirs"), "enabled");
    appear();
    assert_eq!(state(&workspace, "theirs"), "enabled");
}

#[test]
fn server_that_restarts_after_a_covered_file_changed_does_not_run_it() {
    let workspace = Workspace::new();
    let call = r#"*'"method":"tools/call"'*)"#;
    // It replaces its own script and crashes.
    let crash = format!("{call} mv next.sh server.sh; exit 1 ;;\n    *'\"never\"'*)");
    workspace.write("server.sh", &others::SERVER.replace(call, &crash));
    workspace.write("next.sh", &format!("touch ran\n{}", others::SERVER));
    let file = json!({"mcpServers": {"theirs": {"command": "sh", "args": ["server.sh"]}}});
    workspace.write(".mcp.json", &file.to_string());
    approve(&workspace);
    let mut session = Session::start(workspace.command(["stdio"]));
    let is_offered = |session: &mut Session| {
        let names = others::names(session);
        names.iter().any(|name| name == "theirs__say_hello")
    };
    while !is_offered(&mut session) {
        session.notified("notifications/tools/list_changed");
    }
    let params = json!({"name": "theirs__say_hello", "arguments": {}});
    let answer = session.request("tools/call", &params);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    // The server is removed once the change is found; until then it is restarted, and refused.
    while is_offered(&mut session) {
        session.notified("notifications/tools/list_changed");
    }
    assert_eq!(state(&workspace, "theirs"), "needs_approval");
    assert!(!workspace.join("ran").exists());
}

#[test]
fn approval_of_what_was_shown_is_refused_after_a_change() {
    let workspace = with_script(&json!({"API_TOKEN": "first"}));
    let seen = waiting(&workspace);
    let seen = seen["fingerprint"].as_str().unwrap();
    write_script(&workspace, &json!({"API_TOKEN": "second"}));
    let approve_seen =
        |seen: &str| workspace.run(["mcp", "approve", "theirs", "--fingerprint", seen]);
    let refused = approve_seen(seen);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert_eq!(state(&workspace, "theirs"), "needs_approval");
    let now = waiting(&workspace);
    // The value is a secret: the same lines stand for both.
    let now = now["fingerprint"].as_str().unwrap();
    assert_ne!(now, seen);
    let approved = approve_seen(now);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert_eq!(state(&workspace, "theirs"), "enabled");
    write_script(&workspace, &json!({"API_TOKEN": "third"}));
    let listed = workspace.run(["mcp", "list"]);
    let why = "the variable API_TOKEN changed";
    assert!(listed.out.contains(why), "{listed:?}");
    let state = workspace.home().join(".local/state/orchestra/mcp.json");
    let stored = fs::read_to_string(state).unwrap();
    assert!(
        !stored.contains("first") && !stored.contains("second"),
        "{stored}"
    );
}

#[test]
fn approval_of_an_earlier_version_is_asked_for_once_more() {
    let workspace = with_script(&json!({}));
    let path = workspace.path().display().to_string();
    let of = json!({"approved": {"theirs": "0".repeat(64)}, "enabled": {}, "restarts": {}});
    let older = json!({"version": 1, "workspaces": {path: of}});
    let file = workspace.home().join(".local/state/orchestra/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, older.to_string()).unwrap();
    let listed = workspace.run(["mcp", "list"]);
    let why = "it was approved by a version that did not cover files of the workspace";
    assert!(listed.out.contains(why), "{listed:?}");
    approve(&workspace);
}

#[test]
fn approval_is_asked_for_again_in_another_directory_at_the_same_path() {
    let workspace = with_script(&json!({}));
    approve(&workspace);
    let path = workspace.path();
    fs::rename(&path, path.with_extension("old")).unwrap();
    fs::create_dir(&path).unwrap();
    for name in ["server.sh", "package.json", ".mcp.json"] {
        fs::copy(path.with_extension("old").join(name), path.join(name)).unwrap();
    }
    let listed = workspace.run(["mcp", "list"]);
    let why = "it was approved for another directory at this path";
    assert!(listed.out.contains(why), "{listed:?}");
    approve(&workspace);
}

#[test]
fn server_that_names_more_directories_than_an_approval_covers_is_refused() {
    let workspace = Workspace::new();
    let directories: Vec<String> = (0..20).map(|number| format!("d{number}")).collect();
    for directory in &directories {
        workspace.write(&format!("{directory}/module.py"), "");
    }
    let env = json!({"PYTHONPATH": directories.join(":")});
    let server = json!({"command": "python3", "args": ["-m", "module"], "env": env});
    let file = json!({"mcpServers": {"theirs": server}});
    workspace.write(".mcp.json", &file.to_string());
    let refused = workspace.run(["mcp", "approve", "theirs", "--yes"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let why = "no approval can cover it: the command line and environment of the server name more than 16 directories of the workspace";
    assert!(refused.out.contains(why), "{refused:?}");
    assert_eq!(state(&workspace, "theirs"), "invalid");
}

#[test]
fn server_of_a_trusted_directory_needs_no_approval() {
    let workspace = with_script(&json!({}));
    let own = workspace.home().join(".config/orchestra/orchestra.toml");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    let parent = workspace.path().parent().unwrap().display().to_string();
    let trusting = |path: &str| format!("trusted_directories = [{path:?}]\n");
    fs::write(&own, trusting(&parent)).unwrap();
    let listed = workspace.run(["mcp", "list"]);
    let told = format!("needs no approval: your `trusted_directories` has {parent}");
    assert!(listed.out.contains(&told), "{listed:?}");
    let listing = parsed(&workspace.run(["mcp", "list", "--json"]));
    assert_eq!(listing["servers"][0]["trusted_by"], parent.as_str());
    let called = workspace.run(["mcp", "call", "theirs", "add.up", "a=1"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    // Another directory is not meant, and a relative one is none.
    fs::write(&own, trusting(&format!("{parent}/other"))).unwrap();
    assert_eq!(state(&workspace, "theirs"), "needs_approval");
    fs::write(&own, trusting("work")).unwrap();
    let refused = workspace.run(["mcp", "list"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("absolute paths"), "{refused:?}");
    // A workspace does not trust itself.
    fs::remove_file(&own).unwrap();
    workspace.write("orchestra.toml", &trusting(&parent));
    let refused = workspace.run(["mcp", "list"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let told = "trusted_directories is only for orchestra/orchestra.toml of your own";
    assert!(refused.err.contains(told), "{refused:?}");
}

#[test]
fn unreadable_approvals_are_reported_in_words_and_approve_nothing() {
    let workspace = Workspace::board();
    workspace.write(".mcp.json", r#"{"mcpServers": {"a": {"command": "cat"}}}"#);
    let state = workspace.home().join(".local/state/orchestra");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("mcp.json"), "{").unwrap();
    let listed = workspace.run(["tool", "list"]);
    assert!(
        listed
            .err
            .contains("tools of upstream MCP servers are not listed"),
        "{listed:?}"
    );
    for form in ["Failed(", "Usage(", "source:"] {
        assert!(!listed.err.contains(form), "{form}: {listed:?}");
    }
    for words in [
        &["mcp", "list"][..],
        &["mcp", "approve", "a", "--yes"][..],
        &["mcp", "call", "a", "x"][..],
        &["tool", "call", "a__x"][..],
    ] {
        let refused = workspace.run(words.iter().copied());
        assert_eq!(refused.code, Some(3), "{words:?}: {refused:?}");
        let told = "is not a valid file of approvals";
        assert!(refused.err.contains(told), "{words:?}: {refused:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn link_in_the_place_of_a_directory_of_a_sandbox_is_asked_for_and_never_leads_out() {
    let workspace = Workspace::new();
    let outside = workspace.home().join("outside");
    fs::create_dir_all(&outside).unwrap();
    let script = format!("echo x > '{}/written'; exit 1", outside.display());
    let server = |more: Value| {
        let mut server = json!({"command": "sh", "args": ["-c", script]});
        let more = more.as_object().unwrap().clone();
        server.as_object_mut().unwrap().extend(more);
        server
    };
    let write = server(json!({"sandbox": {"mode": "workspace", "write": ["data"]}}));
    let cwd = server(json!({"sandbox": "workspace", "cwd": "data"}));
    let file = json!({"mcpServers": {"write": write, "cwd": cwd}}).to_string();
    for name in ["write", "cwd"] {
        fs::create_dir(workspace.join("data")).unwrap();
        workspace.write(".mcp.json", &file);
        let approved = workspace.run(["mcp", "approve", name, "--yes"]);
        assert_eq!(approved.code, Some(0), "{approved:?}");
        fs::remove_dir(workspace.join("data")).unwrap();
        std::os::unix::fs::symlink(&outside, workspace.join("data")).unwrap();
        let tested = workspace.run(["mcp", "test", name]);
        assert_ne!(tested.code, Some(0), "{tested:?}");
        assert!(format!("{tested:?}").contains("approve"), "{tested:?}");
        let shown = workspace.run(["mcp", "approve"]);
        assert!(shown.out.contains("is a link to"), "{shown:?}");
        // Approved, or of a file of the user, it is not followed either.
        workspace.run(["mcp", "approve", name, "--yes"]);
        let approved = workspace.run(["mcp", "test", name]);
        let named = workspace.run(["mcp", "--mcp-config", ".mcp.json", "test", name]);
        for tested in [approved, named] {
            assert!(
                tested
                    .out
                    .contains("through a symbolic link out of the workspace"),
                "{tested:?}"
            );
        }
        assert!(!outside.join("written").exists());
        fs::remove_file(workspace.join("data")).unwrap();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn state_and_configuration_of_orchestra_are_no_paths_of_a_sandbox() {
    let workspace = Workspace::new();
    let home = workspace.home();
    let named = |place: &str| json!({"command": "true", "sandbox": {"mode": "workspace", "write": [home.join(place)]}});
    let places = [".local/state/orchestra", ".config/orchestra"];
    for place in places {
        fs::create_dir_all(home.join(place)).unwrap();
    }
    let file = json!({"mcpServers": {"state": named(places[0]), "config": named(places[1])}});
    workspace.write("servers.json", &file.to_string());
    for name in ["state", "config"] {
        let tested = workspace.run(["mcp", "--mcp-config", "servers.json", "test", name]);
        assert!(
            tested.out.contains("Orchestra's state or configuration"),
            "{tested:?}"
        );
    }
}

#[test]
fn server_of_the_user_that_is_replaced_is_shown_with_its_rules() {
    let workspace = Workspace::new();
    let directory = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&directory).unwrap();
    let own = "[servers.theirs]\ncommand = \"cat\"\nrules = [{ effect = \"deny\", tool = \"*\" }]\n\
               limits = { dailyQuota = 5 }\n[servers.other]\ncommand = \"cat\"\n";
    fs::write(directory.join("orchestra.toml"), own).unwrap();
    let file = json!({"mcpServers": {"theirs": {"command": "cat"}, "other": {"command": "cat"}, "new": {"command": "cat"}}});
    workspace.write(".mcp.json", &file.to_string());
    let shown = workspace.run(["mcp", "approve"]).out;
    let own = directory.join("orchestra.toml").display().to_string();
    let line = format!("  replaces your server theirs in {own} with its 1 rule, limits\n");
    assert!(shown.contains(&line), "{shown}");
    let line = format!("  replaces your server other in {own}\n");
    assert!(shown.contains(&line), "{shown}");
    assert_eq!(shown.matches("replaces your server").count(), 2, "{shown}");
    let approved = workspace.run(["mcp", "approve", "theirs", "--yes"]);
    assert!(
        approved.out.contains("replaces your server theirs"),
        "{approved:?}"
    );
}
