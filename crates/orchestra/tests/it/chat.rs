//! `orchestra chat` as document 004 has it: a weather server, a model, two rounds of tools, an answer; and its
//! usage examples.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    models::{Asked, Fake, Ollama, Say},
    support::{Said, Workspace, said},
};

/// The question of the document.
pub(crate) const QUESTION: &str = "Any weather alerts in California?";

const SHAPES: Ollama = Ollama("0.12.6");

/// The weather server of `examples/weather`.
pub(crate) fn weather() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("weather");
    assert!(
        path.exists(),
        "{} is built by `cargo build -p weather`",
        path.display()
    );
    path
}

/// A National Weather Service that answers as it was recorded.
pub(crate) fn service() -> Fake {
    let address = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let known = std::sync::Arc::clone(&address);
    let fake = Fake::start(move |asked: &Asked, _| {
        let name = match asked.what.as_str() {
            "GET /alerts/active?area=CA" => "alerts",
            what if what.starts_with("GET /alerts/") => "alerts-none",
            what if what.starts_with("GET /points/") => "points",
            what if what.starts_with("GET /gridpoints/") => "forecast",
            _ => return Say::Whole(404, json!({"title": "Not Found"})),
        };
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weather/tests/recorded");
        let text = std::fs::read_to_string(root.join(format!("{name}.json"))).unwrap();
        let text = text.replace("BASE", known.get().map_or("", String::as_str));
        Say::Whole(200, serde_json::from_str(&text).unwrap())
    });
    address.set(fake.address.clone()).unwrap();
    fake
}

/// What the model of the document says.
pub(crate) fn says() -> Vec<Say> {
    vec![
        Say::Stream(SHAPES.calls("Let me look.", &[("get-alerts", json!({"state": "CA"}))])),
        Say::Stream(SHAPES.calls(
            "",
            &[(
                "get-forecast",
                json!({"latitude": 38.5816, "longitude": -121.4944}),
            )],
        )),
        Say::Stream(SHAPES.words(&["There is a ", "**Heat Advisory** ", "in California."])),
    ]
}

/// A command of the program that knows the weather service and the model.
pub(crate) fn command(
    workspace: &Workspace,
    service: &Fake,
    model: &Fake,
    words: &[&str],
) -> Command {
    let mut command = workspace.command(["chat", "--host", &model.address, "--model", "tiny"]);
    command
        .args(["--env", "WEATHER_API_BASE"])
        .args(words)
        .env("WEATHER_API_BASE", &service.address);
    command
}

/// The lines of JSON that were printed.
pub(crate) fn lines(said: &Said) -> Vec<Value> {
    let lines = said
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect(line));
    lines.collect()
}

#[test]
fn the_session_of_document_004_works_as_it_is_written_there() {
    let (workspace, service, model) = (Workspace::new(), service(), Fake::ollama("0.12.6", says()));
    let weather = weather();
    let mut command = command(
        &workspace,
        &service,
        &model,
        &["--trace", weather.to_str().unwrap()],
    );
    command.env("RUST_BACKTRACE", "0");
    let said = said(command, QUESTION);
    assert_eq!(said.code, Some(0), "{said:?}");
    let answered = &lines(&said)[0];
    assert_eq!(answered["query"], QUESTION);
    assert_eq!(
        answered["answer"],
        "There is a **Heat Advisory** in California."
    );
    assert_eq!(
        (answered["turns"].as_u64(), answered["error"].as_str()),
        (Some(3), None)
    );
    let calls = answered["tool_calls"].as_array().unwrap();
    assert_eq!(
        (calls[0]["tool"].as_str(), &calls[0]["args"]),
        (Some("get-alerts"), &json!({"state": "CA"}))
    );
    assert_eq!(
        (calls[1]["tool"].as_str(), calls[1]["is_error"].as_bool()),
        (Some("get-forecast"), Some(false))
    );
    assert!(
        calls
            .iter()
            .all(|call| call["server"] == "weather" && call["ms"].as_f64().unwrap() > 0.0)
    );
    // The messages of the document, as they went over the pipe.
    let sent = |method: &str| {
        let mark = format!("\"method\":\"{method}\"");
        let line = said
            .err
            .lines()
            .find(|line| line.starts_with("SENT: {") && line.contains(&mark));
        let line = line.unwrap_or_else(|| panic!("{method}: {}", said.err));
        serde_json::from_str::<Value>(line.trim_start_matches("SENT: ")).unwrap()
    };
    let call = sent("tools/call");
    let params = &call["params"];
    assert_eq!(
        (&params["name"], &params["arguments"]),
        (&json!("get-alerts"), &json!({"state": "CA"}))
    );
    assert_eq!(sent("tools/list")["jsonrpc"], "2.0");
    let received = said
        .err
        .lines()
        .filter(|line| line.starts_with("RECEIVED: {"));
    let received: Vec<Value> = received
        .map(|line| serde_json::from_str(line.trim_start_matches("RECEIVED: ")).unwrap())
        .collect();
    let answer = received
        .iter()
        .find(|message| message["id"] == call["id"])
        .unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("Active alerts for CA:\n\nEvent: Heat Advisory\n"),
        "{text}"
    );
    // The model was shown what the server offers, and given what it answered.
    let chats = model.chats();
    assert_eq!(
        chats[0].body["messages"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()["content"],
        QUESTION
    );
    let tools = chats[0].body["tools"].as_array().unwrap();
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["get-alerts", "get-forecast"]);
    let told = chats[1].body["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(
        (told["role"].as_str(), told["tool_name"].as_str()),
        (Some("tool"), Some("get-alerts"))
    );
    assert!(
        told["content"]
            .as_str()
            .unwrap()
            .contains("Event: Heat Advisory")
    );
}

/// A server in a language of its own, which answers what it was started with.
pub(crate) const SERVER: &str = r#"
import json, sys
TOOL = {"name": "arguments", "description": "Tells how it was started.", "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, result = message["method"], {}
    if method == "initialize":
        result = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": json.dumps(sys.argv[1:])}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

/// The same in JavaScript.
pub(crate) const SCRIPT: &str = r#"
const tool = {name: "arguments", description: "Tells how it was started.", inputSchema: {type: "object"},
  annotations: {readOnlyHint: true}};
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const {id, method} = JSON.parse(line);
  if (id === undefined) return;
  const result = {
    initialize: {protocolVersion: "2024-11-05", capabilities: {tools: {}}, serverInfo: {name: "s", version: "1"}},
    "tools/list": {tools: [tool]},
    "tools/call": {content: [{type: "text", text: JSON.stringify(process.argv.slice(2))}]},
  }[method] ?? {};
  process.stdout.write(JSON.stringify({jsonrpc: "2.0", id, result}) + "\n");
});
"#;

/// A model that asks how the server was started, and says so.
fn curious(times: usize) -> Fake {
    let says = (0..times).flat_map(|_| {
        [
            Say::Stream(SHAPES.calls("", &[("arguments", json!({}))])),
            Say::Stream(SHAPES.words(&["That is how."])),
        ]
    });
    Fake::ollama("0.12.6", says.collect())
}

/// What the server told of its start, in each conversation.
fn started(model: &Fake) -> Vec<Value> {
    let told = model.chats().into_iter().filter_map(|asked| {
        let last = asked.body["messages"].as_array()?.last()?.clone();
        let text = last["content"].as_str()?.lines().last()?.to_owned();
        (last["role"] == "tool").then(|| serde_json::from_str(&text).unwrap())
    });
    told.collect()
}

/// What runs scripts, as a directory for the path.
pub(crate) fn runtimes(workspace: &Workspace) -> Option<PathBuf> {
    let (node, python) = (
        crate::runtimes::node(&workspace.home())?,
        crate::runtimes::python(&workspace.home())?,
    );
    let bin = workspace.join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(node.path, bin.join("node")).unwrap();
    std::os::unix::fs::symlink(python.path, bin.join("python3")).unwrap();
    Some(bin)
}

/// A command with a directory before all others of its path.
fn with_path(mut command: Command, first: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap();
    let all = std::iter::once(first.to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(all).unwrap());
    command
}

#[test]
fn a_script_is_run_by_its_extension_and_its_arguments_are_its_own() {
    let workspace = Workspace::new();
    let Some(bin) = runtimes(&workspace) else {
        return;
    };
    workspace.write("server.py", SERVER);
    workspace.write("server.js", SCRIPT);
    workspace.write("server", &format!("#!/usr/bin/env python3\n{SERVER}"));
    make_executable(&workspace.join("server"));
    for script in ["server.js", "server.py", "./server", "server"] {
        let model = curious(1);
        let words = [
            "chat",
            "--host",
            &model.address,
            "--model",
            "tiny",
            script,
            "--config",
            "config.json",
            "--yes",
            "-x",
        ];
        let command = with_path(workspace.command(words), &bin);
        let said = said(command, "{\"query\": \"How were you started?\"}");
        assert_eq!(said.code, Some(0), "{script}: {said:?}");
        assert_eq!(lines(&said)[0]["answer"], "That is how.");
        // All that stands behind the script is the script's.
        assert_eq!(
            started(&model),
            [json!(["--config", "config.json", "--yes", "-x"])],
            "{script}"
        );
        let hint = "--yes is passed to the server";
        assert!(said.err.contains(hint), "{script}: {said:?}");
    }
}

pub(crate) fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_list_of_queries_becomes_one_answer_per_query_in_order() {
    let workspace = Workspace::new();
    let Some(bin) = runtimes(&workspace) else {
        return;
    };
    workspace.write("server.py", SERVER);
    workspace.write(
        "test_queries.json",
        r#"[{"query": "one"}, "two", {"query": "three", "id": "t"}]"#,
    );
    let model = curious(3);
    // `orchestra chat server.py < test_queries.json > results.json`
    let words = [
        "chat",
        "--host",
        &model.address,
        "--model",
        "tiny",
        "server.py",
    ];
    let mut command = with_path(workspace.command(words), &bin);
    let results = workspace.join("results.json");
    command
        .stdin(std::fs::File::open(workspace.join("test_queries.json")).unwrap())
        .stdout(std::fs::File::create(&results).unwrap());
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(results).unwrap();
    let results: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let queries: Vec<&str> = results
        .iter()
        .map(|result| result["query"].as_str().unwrap())
        .collect();
    assert_eq!(queries, ["one", "two", "three"]);
    assert!(
        results
            .iter()
            .all(|result| result["answer"] == "That is how.")
    );
    assert_eq!(results[2]["id"], "t");
}

#[test]
fn a_server_is_reached_by_a_command_or_an_address_as_well() {
    let (workspace, service) = (Workspace::new(), service());
    let weather = weather();
    let quoted = format!("'{}'", weather.display());
    let model = Fake::ollama("0.12.6", says());
    let said = said(
        command(&workspace, &service, &model, &["--stdio", &quoted]),
        QUESTION,
    );
    assert_eq!(
        (
            said.code,
            lines(&said)[0]["tool_calls"].as_array().unwrap().len()
        ),
        (Some(0), 2),
        "{said:?}"
    );
    // Over HTTP.
    let mut server = Command::new(&weather)
        .args(["--http", "127.0.0.1:0"])
        .env("WEATHER_API_BASE", &service.address)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    let mut told = std::io::BufReader::new(server.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut told, &mut url).unwrap();
    let model = Fake::ollama("0.12.6", says());
    let words = [
        "chat",
        "--host",
        &model.address,
        "--model",
        "tiny",
        "--url",
        url.trim(),
    ];
    let said = workspace.run_with_input(words, QUESTION);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(
        (
            said.code,
            lines(&said)[0]["tool_calls"].as_array().unwrap().len()
        ),
        (Some(0), 2),
        "{said:?}"
    );
}

#[test]
fn what_goes_wrong_with_the_command_line_says_what_to_do() {
    let workspace = Workspace::new();
    for (words, part) in [
        (vec!["--modle", "x"], "unexpected argument `--modle`"),
        (vec!["nowhere.py"], "there is no file `nowhere.py`"),
        (
            vec!["--stdio", "a", "--url", "http://127.0.0.1:1"],
            "cannot be used with",
        ),
        (vec!["--stdio", "a", "script.py"], "cannot be combined"),
        (vec!["--stdio", "'a"], "is a quote missing?"),
        (vec!["--backend", "scripted"], "--script FILE"),
        (vec!["--ask"], "--ask asks in a conversation at a terminal"),
        (
            vec!["--host", "ftp://x", "--model", "m", "--query", "a"],
            "not an http or https URL",
        ),
        (vec!["--context", "5"], "2048 tokens or more"),
        (vec!["--max-cost", "5"], "needs prices"),
        (vec!["--env", "X"], "--env is for a server"),
        (
            vec!["--server", "nowhere"],
            "--server (command line): unknown server nowhere",
        ),
        (vec!["--resume"], "no conversation of this workspace"),
        (
            vec!["--remember", "shop", "-q", "a", "--model", "m"],
            "--remember shop: there is no board",
        ),
        (vec!["replay", "x"], "no conversation `x`"),
    ] {
        let said = workspace.run([&["chat"][..], &words].concat());
        assert!(said.err.contains(part), "{words:?}: {said:?}");
        assert_ne!(said.code, Some(0), "{words:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn script_runs_in_the_sandbox_and_limits_of_a_configured_server() {
    let workspace = Workspace::git();
    let reach = "#!/bin/sh\necho x > .envrc\nchmod 777 .git/config\nulimit -n > limits.txt\n";
    workspace.write("server.sh", reach);
    workspace.write("limits.txt", "");
    make_executable(&workspace.join("server.sh"));
    let mode = || {
        std::fs::metadata(workspace.join(".git/config"))
            .unwrap()
            .permissions()
    };
    let before = mode();
    let run = |words: &[&str]| {
        let first = [
            "chat",
            "--backend",
            "scripted",
            "--script",
            "script.json",
            "--query",
            "a",
        ];
        workspace.run([&first[..], words].concat())
    };
    workspace.write("script.json", r#"[{"text": "Done.", "always": true}]"#);
    let said = run(&[
        "--sandbox",
        "workspace",
        "--limit",
        "files=99",
        "./server.sh",
    ]);
    assert_eq!(workspace.read("limits.txt"), "99\n", "{said:?}");
    assert!(!workspace.join(".envrc").exists(), "{said:?}");
    assert_eq!(mode(), before);
    // The same in a file, which a flag overrides. A workspace may close the sandbox alone.
    workspace.write(
        "orchestra.toml",
        "[chat]\nsandbox = \"workspace\"\nlimits = {files = 88}\n",
    );
    let said = run(&["./server.sh"]);
    assert!(said.err.contains("limits in [chat]"), "{said:?}");
    assert_ne!(workspace.read("limits.txt"), "88\n");
    assert!(!workspace.join(".envrc").exists(), "{said:?}");
    let said = run(&["--sandbox", "none", "--limit", "files=77", "./server.sh"]);
    assert_eq!(workspace.read("limits.txt"), "77\n", "{said:?}");
    assert!(workspace.join(".envrc").exists(), "{said:?}");
    for (words, part) in [
        (&["--limit", "files=1", "./server.sh"][..], "limits.files"),
        (&["--limit", "files", "./server.sh"], "NAME=VALUE"),
        (
            &["--sandbox", "workspace"],
            "a configured server has its own",
        ),
    ] {
        let said = run(words);
        assert!(said.err.contains(part), "{said:?}");
        assert_ne!(said.code, Some(0), "{said:?}");
    }
}
