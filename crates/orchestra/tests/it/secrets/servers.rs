//! Secrets in the definitions, headers, messages and logs of MCP servers.

use std::fs;

use orchestra_secret::sample::{Sample, samples};
use rustix::process::Signal;
use serde_json::{Map, Value, json};

use super::{
    AT_ONCE, CONTROL, KNOWN, assert_free, assert_masked, bytes_below, remove_plants,
    run_leaky_plan, server, store_event,
};
use crate::{
    dashboard::Stream,
    models::{Fake, Say},
    support::{Running, Workspace, get, post_to, until},
};

/// Workspace whose board has a project and events of hooks with every thirtieth sample, and whose plan printed all of
/// them and failed.
fn workspace_with_board_and_plan(samples: &[Sample]) -> Workspace {
    let workspace = Workspace::board();
    workspace.call("create_project", &json!({"name": "Shop"}));
    let some: Vec<Sample> = samples.iter().step_by(30).cloned().collect();
    for some in some.chunks(10) {
        store_event(&workspace, some, "command");
    }
    run_leaky_plan(&workspace, samples);
    workspace
}

/// Runs `up` with logs at level trace, a recording and a server until the server is ready. Returns it and its address.
fn up(workspace: &Workspace) -> (Running, String) {
    let log = fs::File::create(workspace.home().join("up.log")).unwrap();
    let mut command = workspace.command([
        "--log",
        "trace",
        "up",
        "--http",
        "127.0.0.1:0",
        "--json",
        "--mcp-config",
        "servers.json",
        "--trace-file",
        "traffic.jsonl",
    ]);
    command.env("DB_PASSPHRASE", KNOWN);
    let up = Running::with_stderr(command, log);
    let ready = up.json();
    let address = ready["http"].as_str().unwrap().replace("http://", "");
    until(|| {
        let servers = get(&address, "/api/mcp/servers").json();
        (servers["servers"][0]["status"] == "ready").then_some(())
    });
    (up, address)
}

/// Calls the tool of a server with every sixtieth sample as its argument, and as its name. Returns what the dashboard
/// shows of the messages.
fn call(address: &str, samples: &[Sample]) -> String {
    let mut traffic = Stream::open(address, "/api/traffic");
    let mut shown = String::new();
    for sample in samples.iter().step_by(60) {
        let texts = [sample.text.as_str(), CONTROL];
        let call = json!({"name": "leaky__leak", "arguments": {"texts": texts}});
        post_to(address, "/api/mcp/tools/call", &[], &call.to_string());
        for kind in ["request", "response"] {
            shown += &traffic.next(|told| told["type"] == kind).to_string();
        }
        let unknown = json!({"name": sample.text, "arguments": {}});
        post_to(address, "/api/mcp/tools/call", &[], &unknown.to_string());
    }
    shown
}

/// Asserts that the dashboard, the log, the recording, the audit and the state directory of `up` are masked. The log of
/// the server contains `in_log`.
fn check(workspace: &Workspace, samples: &[Sample], mut up: Running, address: &str, in_log: &str) {
    for (path, control) in [
        ("/api/mcp/servers", "leaky"),
        ("/api/servers/leaky/log", in_log),
        ("/api/servers/leaky/definition", "leaky"),
        ("/api/board", "Shop"),
        ("/api/board/shop", "Shop"),
        ("/api/plans", "leaky"),
        ("/api/plans/leaky/jobs/prints/failure", CONTROL),
        ("/metrics", "leaky"),
    ] {
        let shown = get(address, path);
        assert_eq!(shown.status, 200, "{path}: {shown:?}");
        assert_masked(samples, path, control, shown.body.as_bytes());
    }
    let events = workspace.call("get_hook_events", &json!({"limit": 500}));
    let events = events.to_string();
    assert_masked(
        samples,
        "the events of the board",
        CONTROL,
        events.as_bytes(),
    );
    up.signal(Signal::TERM);
    assert!(up.wait().success());
    let log = fs::read(workspace.home().join("up.log")).unwrap();
    assert_masked(samples, "the log", "leaky", &log);
    let recording = workspace.read("traffic.jsonl");
    assert_masked(samples, "the recording", CONTROL, recording.as_bytes());
    fs::remove_file(workspace.join("servers.json")).unwrap();
    remove_plants(workspace);
    let mut stored = Vec::new();
    bytes_below(&workspace.path(), &mut stored);
    assert_free(samples, "the workspace", &stored);
    stored.clear();
    bytes_below(&workspace.home(), &mut stored);
    assert_masked(samples, "the state directory", "leaky", &stored);
}

#[test]
fn samples_of_a_server_are_masked_in_logs_the_audit_and_the_dashboard() {
    let samples = samples("up");
    let workspace = workspace_with_board_and_plan(&samples);
    let text = super::planted(&samples);
    let result =
        json!({"content": [{"type": "text", "text": text}], "structuredContent": {"env": text}});
    let script = server(&workspace, &samples, "result", &result);
    workspace.write("server.sh", &script);
    let leaky = json!({"command": "sh", "args": ["server.sh"], "env": {"DB_PASSPHRASE": KNOWN}});
    let servers = json!({"mcpServers": {"leaky": leaky}});
    workspace.write("servers.json", &servers.to_string());
    let (up, address) = up(&workspace);
    let traffic = call(&address, &samples);
    assert_masked(&samples, "the traffic", CONTROL, traffic.as_bytes());
    let words = [
        "mcp",
        "--mcp-config",
        "servers.json",
        "logs",
        "leaky",
        "--lines",
        "10000",
    ];
    for flags in [&[][..], &["--json"]] {
        let logged = workspace.run(words.iter().chain(flags));
        assert_masked(&samples, "mcp logs", CONTROL, logged.out.as_bytes());
    }
    check(&workspace, &samples, up, &address, CONTROL);
}

/// Server over HTTP that repeats the headers of a request in its error.
fn remote() -> Fake {
    Fake::start(|asked, _| {
        if !asked.what.starts_with("POST ") {
            return Say::Whole(405, json!({}));
        }
        let tools = json!([{"name": "leak", "inputSchema": {"type": "object"}}]);
        let answer = match asked.body["method"].as_str() {
            Some("initialize") => json!({"result": {"protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}}),
            Some("tools/list") => json!({"result": {"tools": tools}}),
            Some("tools/call") => {
                let message = format!("{CONTROL}: {}", asked.head);
                json!({"error": {"code": -32000, "message": message}})
            }
            _ if asked.body["id"].is_null() => return Say::Whole(202, json!({})),
            _ => json!({"error": {"code": -32601, "message": "no such method"}}),
        };
        let mut message = json!({"jsonrpc": "2.0", "id": asked.body["id"]});
        message
            .as_object_mut()
            .unwrap()
            .extend(answer.as_object().unwrap().clone());
        Say::Whole(200, message)
    })
}

#[test]
fn headers_of_a_server_are_masked_wherever_it_repeats_them() {
    let samples = samples("http");
    let workspace = workspace_with_board_and_plan(&samples);
    let remote = remote();
    // Values that no form of the table matches.
    let headers = json!({"Authorization": "Bearer ${DB_PASSPHRASE}", "X-Shop": KNOWN});
    let leaky = json!({"url": format!("{}/mcp", remote.address), "headers": headers});
    let servers = json!({"mcpServers": {"leaky": leaky}});
    workspace.write("servers.json", &servers.to_string());
    let (up, address) = up(&workspace);
    let traffic = call(&address, &samples);
    let sent = remote
        .asked()
        .into_iter()
        .any(|asked| asked.head.contains(KNOWN));
    assert!(sent, "the header arrives at the server");
    assert_masked(&samples, "the traffic", CONTROL, traffic.as_bytes());
    check(&workspace, &samples, up, &address, "lines");
}

#[test]
fn definitions_of_servers_are_masked_in_lists_and_exports() {
    let workspace = Workspace::new();
    let samples = samples("definition");
    for samples in samples.chunks(AT_ONCE) {
        let servers = samples.iter().enumerate().map(|(number, sample)| {
            let Sample { text, secret } = sample;
            let url = "https://host.example/mcp";
            let definition = match number % 4 {
                0 => json!({"command": "sh", "args": ["-c", text]}),
                1 => json!({"command": "sh", "env": {"API_TOKEN": secret}}),
                2 => json!({"url": url, "headers": {"X-Api-Key": secret}}),
                _ => json!({"url": format!("{url}?access_token={secret}")}),
            };
            (format!("leaky{number}"), definition)
        });
        let servers: Map<String, Value> = servers.collect();
        let file = json!({"mcpServers": servers}).to_string();
        workspace.write("servers.json", &file);
        let assert_shown = |words: &[&str]| {
            let shown = workspace.run(words);
            let place = words.join(" ");
            assert_masked(samples, &place, "leaky", shown.out.as_bytes());
            assert_free(samples, &place, shown.err.as_bytes());
        };
        let mcp = ["mcp", "--mcp-config", "servers.json"];
        for words in [
            &["list"][..],
            &["list", "--json"],
            &["export"],
            &["export", "--shape", "vscode"],
            &["export", "--shape", "toml"],
        ] {
            assert_shown(&[&mcp[..], words].concat());
        }
        let whole = [&mcp[..], &["export", "--shape", "toml", "--with-values"]].concat();
        workspace.write("orchestra.toml", &workspace.run(whole).out);
        assert_shown(&["config", "show"]);
        assert_shown(&["config", "show", "--json"]);
        fs::remove_file(workspace.join("orchestra.toml")).unwrap();
    }
}
