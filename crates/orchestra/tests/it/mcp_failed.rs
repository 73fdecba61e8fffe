//! What is wrong with a server is told wherever it is asked how servers are.

use std::fs::{self, File};

use serde_json::{Value, json};

use crate::{
    others::SERVER,
    support::{Running, Workspace, get, post_to, until},
};

/// Fails to start the first time, and hangs at the second.
const FAILS_AND_HANGS: &str = r#"if [ -e failed ]; then touch hangs; cat > /dev/null; fi
touch failed
echo "first words" >&2
echo "boom: no such database, token=sk-abcdefabcdefabcdef1234567890" >&2
exit 3
"#;

fn up(workspace: &Workspace, file: &str) -> (Running, String) {
    let up = workspace.command([
        "up",
        "--http",
        "127.0.0.1:0",
        "--json",
        "--mcp-config",
        file,
    ]);
    let up = Running::start(up);
    let ready = up.json();
    let address = ready["http"].as_str().unwrap().strip_prefix("http://");
    let address = address.unwrap().to_owned();
    (up, address)
}

fn servers(address: &str) -> Value {
    get(address, "/api/mcp/servers").json()
}

#[test]
fn program_that_returns_its_input_is_reported_as_no_mcp_server() {
    let workspace = Workspace::new();
    let added = workspace.run(["mcp", "add", "other", "--", "cat"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let tested = workspace.run(["mcp", "test", "other"]);
    assert_eq!(tested.code, Some(1), "{tested:?}");
    let reason = "returned the request `initialize` to its sender, so it is no MCP server";
    assert!(tested.out.contains(reason), "{tested:?}");
}

#[test]
fn a_server_that_fails_says_why_and_is_failed_until_it_has_started() {
    let workspace = Workspace::new();
    workspace.write("gone.sh", FAILS_AND_HANGS);
    let servers_file = json!({"mcpServers": {
        "gone": {"command": "sh", "args": [workspace.join("gone.sh")], "cwd": workspace.path()},
        "unset": {"command": "cat", "args": ["${input:nobody-told}"]},
    }});
    workspace.write("s.json", &servers_file.to_string());
    let approved = r#"{"mcpServers": {"waits": {"command": "cat"}}}"#;
    workspace.write(".mcp.json", approved);
    let (up, address) = up(&workspace, "s.json");
    until(|| workspace.join("hangs").exists().then_some(()));
    let told = servers(&address);
    let of = |name: &str| {
        let all = told["servers"].as_array().unwrap();
        all.iter().find(|server| server["name"] == name).unwrap()
    };
    let gone = of("gone");
    assert_eq!(gone["status"], "restarting", "while it is tried: {told}");
    let reason = gone["reason"].as_str().unwrap();
    let expected = "the process ended with exit code 3; the end of its stderr: \"boom: no such \
                    database, token=sk-***\"";
    assert_eq!(reason, expected);
    assert_eq!(gone["failed_starts"], 1, "{told}");
    assert_eq!(of("unset")["status"], "invalid", "{told}");
    assert_eq!(of("waits")["status"], "needs_approval", "{told}");
    let failed = json!([
        {"name": "gone", "status": "restarting"},
        {"name": "unset", "status": "invalid"},
    ]);
    for path in ["/health", "/ready"] {
        assert_eq!(get(&address, path).json()["failed"], failed, "{path}");
    }
    let listed = workspace.run(["mcp", "--mcp-config", "s.json", "list"]);
    let gone = listed.out.lines().find(|line| line.starts_with("gone"));
    let gone = gone.unwrap();
    assert!(gone.contains("boom: no such database"), "{listed:?}");
    let words: Vec<&str> = gone.split_whitespace().collect();
    assert_eq!(
        words[2..7],
        ["restarting", "-", "0", "0", "1"],
        "{listed:?}"
    );
    let figures = get(&address, "/metrics").body;
    let line = "orchestra_server_failed_starts_total{server=\"gone\"} 1";
    assert!(figures.lines().any(|told| told == line), "{figures}");
    up.signal(rustix::process::Signal::TERM);
    assert!(up.end().success());
}

#[test]
fn who_calls_a_server_between_two_starts_is_told_when_the_next_is() {
    let workspace = Workspace::new();
    let bad = json!({"mcpServers": {"bad": {"command": "sh", "args": ["-c", "exit 3"],
        "restart": {"backoff": "constant", "initial": "20s"}}}});
    workspace.write("s.json", &bad.to_string());
    let (up, address) = up(&workspace, "s.json");
    until(|| (servers(&address)["servers"][0]["status"] == "restarting").then_some(()));
    let call = json!({"name": "bad__x"}).to_string();
    let result = post_to(&address, "/api/mcp/tools/call", &[], &call).json();
    let text = result.to_string();
    let again = &result["_meta"]["orchestra/error"]["retryAfterMs"];
    let again = again.as_u64().unwrap_or_else(|| panic!("{text}"));
    // As long as the pause is, which is not the same each time.
    assert!((5_000..=40_000).contains(&again), "{text}");
    let words = format!("Try again in {} s", again.div_ceil(1_000));
    assert!(text.contains(&words), "{text}");
    up.signal(rustix::process::Signal::TERM);
    assert!(up.end().success());
}

#[test]
fn what_runs_of_a_file_that_was_broken_since_is_still_known() {
    let workspace = Workspace::new();
    workspace.write("server.sh", &format!("echo hello >&2\n{SERVER}"));
    let file = workspace.home().join(".config/orchestra/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let safe = json!({"command": "sh", "args": [workspace.join("server.sh")]});
    let servers_file = json!({"mcpServers": {"safe": safe}}).to_string();
    fs::write(&file, &servers_file).unwrap();
    let up = Running::start(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    let ready = up.json();
    let address = ready["http"].as_str().unwrap().replace("http://", "");
    until(|| (servers(&address)["servers"][0]["status"] == "ready").then_some(()));
    assert_eq!(get(&address, "/health").json()["unread_files"], json!([]));
    fs::write(&file, "{\"mcpServers\": {").unwrap();
    let unread = json!(["~/.config/orchestra/mcp.json"]);
    until(|| (get(&address, "/health").json()["unread_files"] == unread).then_some(()));
    assert_eq!(get(&address, "/ready").json()["unread_files"], unread);

    let listed = workspace.run(["mcp", "list"]);
    let line = listed.out.lines().find(|line| line.starts_with("safe"));
    let line = line.unwrap_or_else(|| panic!("{listed:?}"));
    let told = "its file cannot be read now; the running program continues";
    assert!(line.contains("ready") && line.contains(told), "{listed:?}");
    let listed = workspace.run(["mcp", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let row = &listed["servers"][0];
    assert_eq!(
        (&row["name"], &row["state"]),
        (&json!("safe"), &json!("kept"))
    );
    assert_eq!(row["running"]["status"], "ready", "{listed}");
    let logs = workspace.run(["mcp", "logs", "safe"]);
    assert_eq!(
        (logs.code, logs.out.contains("hello")),
        (Some(0), true),
        "{logs:?}"
    );
    let restarted = workspace.run(["mcp", "restart", "safe"]);
    assert_eq!(restarted.code, Some(0), "{restarted:?}");
    assert!(restarted.err.contains(told), "{restarted:?}");
    until(|| (servers(&address)["servers"][0]["restarts"].as_u64() > Some(0)).then_some(()));
    for verb in ["restart", "logs"] {
        let said = workspace.run(["mcp", verb, "nobody"]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains("mcp.json cannot be read now"), "{said:?}");
    }
    fs::write(&file, servers_file).unwrap();
    until(|| (get(&address, "/health").json()["unread_files"] == json!([])).then_some(()));
    let listed = workspace.run(["mcp", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed["servers"][0]["state"], "enabled", "{listed}");
    up.signal(rustix::process::Signal::TERM);
    assert!(up.end().success());
}

#[test]
fn what_a_server_prints_beside_its_messages_is_seen() {
    let workspace = Workspace::new();
    let greeting = "echo 'INFO listening'\necho 'INFO warm'\n";
    workspace.write("loud.sh", &format!("{greeting}{SERVER}"));
    let loud =
        json!({"mcpServers": {"loud": {"command": "sh", "args": [workspace.join("loud.sh")]}}});
    workspace.write("s.json", &loud.to_string());
    let mcp = |words: &[&str]| workspace.run([&["mcp", "--mcp-config", "s.json"], words].concat());
    let test = mcp(&["test", "loud"]);
    assert_eq!(test.code, Some(0), "{test:?}");
    let warning = "warning: printed 2 lines that are not messages: 'INFO listening'";
    assert!(test.out.contains(warning), "{test:?}");
    let (up, address) = up(&workspace, "s.json");
    let loud = until(|| {
        let told = servers(&address)["servers"][0].clone();
        (told["status"] == "ready").then_some(told)
    });
    assert_eq!(loud["junk_lines"], 2, "{loud}");
    let listed = mcp(&["list"]);
    let note = "it printed 2 lines that are not messages: \"INFO listening\"";
    assert!(listed.out.contains(note), "{listed:?}");
    let logs = until(|| {
        let logs = mcp(&["logs", "loud"]);
        (logs.out.matches("stdout: INFO").count() == 4).then_some(logs)
    });
    assert!(logs.out.contains("stdout: INFO warm"), "{logs:?}");
    up.signal(rustix::process::Signal::TERM);
    assert!(up.end().success());
}

#[test]
fn a_list_tells_nothing_of_the_server_before_of_one_that_was_changed() {
    let workspace = Workspace::new();
    workspace.write("server.sh", SERVER);
    workspace.write("slow.sh", &format!("touch begun\nsleep 60\n{SERVER}"));
    let define = |script: &str| {
        let server =
            json!({"command": "sh", "args": [workspace.join(script)], "cwd": workspace.path()});
        workspace.write(
            "s.json",
            &json!({"mcpServers": {"one": server}}).to_string(),
        );
    };
    define("server.sh");
    let list = || workspace.run(["mcp", "--mcp-config", "s.json", "list"]);
    let state = || {
        let listed = list();
        let line = listed.out.lines().nth(1).unwrap_or_default().to_owned();
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        (words, listed)
    };
    let (up, _) = up(&workspace, "s.json");
    until(|| (state().0[2] == "ready").then_some(()));
    define("slow.sh");
    let (words, listed) = state();
    assert_eq!(words[2..7], ["-", "-", "-", "-", "-"], "{listed:?}");
    assert!(
        listed.out.contains("the one before still serves"),
        "{listed:?}"
    );
    // It is so as well while the new one is being started.
    until(|| workspace.join("begun").exists().then_some(()));
    assert_eq!(state().0[2], "-");
    up.signal(rustix::process::Signal::TERM);
    assert!(up.end().success());
}

/// Text that begins a line of its own, and controls a terminal.
const FORGED: &str =
    "\u{1b}[31m\u{202e}\u{200b}\u{9b}\r\n1999-01-01T00:00:00.000000Z  WARN forged: all is well";

/// Answers every request with the members in the file of its first argument.
const ANSWERS: &str = r#"while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  if [ -n "$id" ]; then printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$(cat "$1")"; fi
done
"#;

/// Returns whether a text has a line of [`FORGED`], or a character that controls a terminal.
fn is_forged(text: &str) -> bool {
    let is_unsafe = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{202e}' | '\u{200b}')
    };
    text.contains(is_unsafe) || text.lines().any(|line| line.starts_with("1999-"))
}

#[test]
fn hostile_text_of_servers_forges_no_line_of_the_log() {
    let workspace = Workspace::new();
    workspace.write("answers.sh", ANSWERS);
    let version = json!({"protocolVersion": FORGED, "capabilities": {}});
    let error = json!({"code": -32600, "message": FORGED});
    workspace.write("version", &format!("\"result\":{version}"));
    workspace.write("error", &format!("\"error\":{error}"));
    workspace.write("words", &format!("{FORGED}\n{FORGED}\n"));
    let answers = |file: &str| json!({"command": "sh", "args": [workspace.join("answers.sh"), workspace.join(file)]});
    let servers_file = json!({"mcpServers": {
        "version": answers("version"),
        "error": answers("error"),
        "words": {"command": "sh", "args": ["-c", "cat \"$0\" >&2; exit 3", workspace.join("words")]},
        "command": {"command": format!("no-such-program {FORGED}")},
    }});
    workspace.write("s.json", &servers_file.to_string());
    let log = workspace.home().join("up.log");
    let up = workspace.command(["up", "--http", "127.0.0.1:0", "--mcp-config", "s.json"]);
    let up = Running::with_stderr(up, File::create(&log).unwrap());
    let is_logged = |text: &str, server: &str| {
        let server = format!("server={server} ");
        let mut lines = text.lines();
        lines.any(|line| line.contains("cannot start the server") && line.contains(&server))
    };
    let text = until(|| {
        let text = fs::read_to_string(&log).unwrap();
        let servers = ["version", "error", "words"];
        let all = servers.iter().all(|server| is_logged(&text, server));
        all.then_some(text)
    });
    assert!(text.contains("forged: all is well"), "{text}");
    assert!(!is_forged(&text), "{text}");
    up.signal(rustix::process::Signal::TERM);
    assert!(up.end().success());
    for server in ["version", "error", "words"] {
        let tested = workspace.run(["mcp", "--mcp-config", "s.json", "test", server]);
        let text = format!("{}{}", tested.out, tested.err);
        assert!(text.contains("forged: all is well"), "{tested:?}");
        assert!(!is_forged(&text), "{tested:?}");
    }
}

#[test]
fn hostile_names_of_a_server_forge_no_line_of_a_command() {
    let workspace = Workspace::new();
    // `printf` of the shell leaves one backslash of two.
    let forged = r"x\\nbank: well\\u2028\\u200b\\u00ad\\u180e";
    let server = SERVER
        .replace(r#""sh""#, &format!("\"{forged}\""))
        .replace(r#""version":"1""#, &format!("\"version\":\"{forged}\""))
        .replace("say.hello", forged);
    workspace.write("server.sh", &server);
    let evil =
        json!({"mcpServers": {"evil": {"command": "sh", "args": [workspace.join("server.sh")]}}});
    workspace.write("s.json", &evil.to_string());
    let mcp = |words: &[&str]| workspace.run([&["mcp", "--mcp-config", "s.json"], words].concat());
    let (test, tools) = (mcp(&["test", "evil"]), mcp(&["tools", "evil"]));
    let unknown = mcp(&["call", "evil", "nosuch"]);
    let shown = r"x\nbank: well\u{2028}\u{200b}\u{ad}\u{180e}";
    assert!(unknown.err.contains(shown), "{unknown:?}");
    let line = format!("evil: well: {shown} {shown} over stdio");
    assert!(test.out.contains(&line), "{test:?}");
    let is_warned = |line: &str| line.starts_with("  warning: ") && line.contains(shown);
    assert!(test.out.lines().any(is_warned), "{test:?}");
    // The message of an error of a call.
    let result = r#""result":{"content":[{"type":"text","text":"hello"}],"x-more":true}"#;
    let error = format!(r#""error":{{"code":-32000,"message":"{forged}"}}"#);
    workspace.write("server.sh", &SERVER.replace(result, &error));
    let words = ["tool", "--mcp-config", "s.json", "call", "evil__say_hello"];
    let (failed, called) = (workspace.run(words), mcp(&["call", "evil", "say.hello"]));
    for said in [test, tools, unknown, failed, called] {
        let text = format!("{}{}", said.out, said.err);
        let invisible = ['\u{2028}', '\u{200b}', '\u{ad}', '\u{180e}'];
        assert!(!text.contains(invisible), "{text:?}");
        let is_forged = text.lines().any(|line| line.starts_with("bank"));
        assert!(!is_forged, "{text:?}");
    }
}

/// Refuses every request with a variable of its environment in the error.
const REPEATS: &str = r#"while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no: %s"}}\n' "$id" "$SHOP_PASSWORD"
done
"#;

#[test]
fn secret_that_a_server_repeats_in_an_error_is_masked_in_every_output() {
    const SECRET: &str = "pwvalue5544332211";
    let workspace = Workspace::new();
    workspace.write("repeats.sh", REPEATS);
    let servers_file = json!({"mcpServers": {"leak": {
        "command": "sh", "args": [workspace.join("repeats.sh")], "cwd": workspace.path(),
        "env": {"SHOP_PASSWORD": SECRET},
    }}});
    workspace.write("s.json", &servers_file.to_string());
    let tested = workspace.run(["mcp", "--mcp-config", "s.json", "test", "leak"]);
    let tested = format!("{tested:?}");
    assert!(
        tested.contains("no: ***") && !tested.contains(SECRET),
        "{tested}"
    );
    let (up, address) = up(&workspace, "s.json");
    let told = until(|| {
        let told = servers(&address).to_string();
        told.contains("no: ***").then_some(told)
    });
    assert!(!told.contains(SECRET), "{told}");
    let listed = workspace.run(["mcp", "--mcp-config", "s.json", "list"]);
    let listed = format!("{listed:?}");
    assert!(!listed.contains(SECRET), "{listed}");
    let called = workspace.run(["tool", "--mcp-config", "s.json", "call", "leak__x"]);
    let called = format!("{called:?}");
    assert!(!called.contains(SECRET), "{called}");
    up.signal(rustix::process::Signal::TERM);
    assert!(up.end().success());
}
