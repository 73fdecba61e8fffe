//! A bridge to an orchestrator of ours, `orchestra up --quic`: nothing that MCP can say is lost on
//! the way.

use std::{
    fs::File,
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, Session, Workspace, free_address, said, until};

/// The server of the tests, which does all that MCP knows.
fn everything() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap();
    let program = program.join("examples/everything");
    assert!(
        program.is_file(),
        "{} is built by `cargo build --workspace --examples`",
        program.display()
    );
    program
}

/// `orchestra up` with that server, and where it listens.
struct Up {
    workspace: Workspace,
    process: Running,
    address: String,
}

impl Up {
    fn start() -> Self {
        Self::of(Workspace::board(), &["--quic", &free_address()])
    }

    /// As [`start`](Self::start), with the server of the tests behind it.
    fn with_everything() -> Self {
        Self::with_server(&json!({"command": everything(), "args": []}))
    }

    fn with_server(server: &Value) -> Self {
        let workspace = Workspace::board();
        let servers = json!({"mcpServers": {"e": server}});
        workspace.write("servers.json", &servers.to_string());
        let file = workspace.join("servers.json").display().to_string();
        let quic = free_address();
        Self::of(workspace, &["--quic", &quic, "--mcp-config", &file])
    }

    fn of(workspace: Workspace, flags: &[&str]) -> Self {
        let (process, address) = launch(&workspace, flags);
        Self {
            workspace,
            process,
            address,
        }
    }

    fn bridge(&self) -> std::process::Command {
        let flags = ["stdio", "--orchestrator-addr", &self.address];
        self.workspace.command(flags)
    }

    /// A session with a bridge that logs why a connection ended.
    fn logged_session(&self) -> Session {
        let log = File::create(self.workspace.home().join("log")).unwrap();
        let mut bridge = self.bridge();
        bridge.args(["--log", "orchestra_plugin=debug"]);
        Session::over(Running::with_stderr(bridge, log), "test")
    }

    /// Waits until the bridge of [`logged_session`](Self::logged_session) has logged why its first
    /// connection ended.
    fn end_of_connection(&self) -> String {
        until(|| {
            let log = std::fs::read_to_string(self.workspace.home().join("log")).unwrap();
            let mut lines = log
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            lines
                .find(|line| line.contains("cannot connect"))
                .map(str::to_owned)
        })
    }

    /// Checks that the bridge learned from the port that its orchestrator was killed.
    fn port_was_found_unused(&self) {
        let end = self.end_of_connection();
        let expected = format!("no process listens at {}", self.address);
        assert!(end.contains(&expected), "{end}");
    }
}

fn launch(workspace: &Workspace, flags: &[&str]) -> (Running, String) {
    let all = [&["up", "--http", "127.0.0.1:0", "--json"], flags].concat();
    let process = Running::start(workspace.command(all));
    let ready = process.json();
    let address = ready["quic"].as_str().expect("an address").to_owned();
    (process, address)
}

/// A session whose client can be asked, with what it can.
fn session(command: std::process::Command, capabilities: &Value) -> Session {
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "1"},
    });
    Session::greeting(command, &hello)
}

/// Calls a tool of the server as soon as it is there.
fn call(session: &mut Session, tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": format!("e__{tool}"), "arguments": arguments});
    let answer = session.request("tools/call", &params);
    assert!(answer.get("result").is_some(), "{tool}: {answer}");
    answer["result"].clone()
}

fn stateless(mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}

/// Programs that run are not restarted for it: who comes is let in by what counts now.
#[test]
fn a_bridge_that_comes_after_a_rotation_at_once_is_let_in() {
    let up = Up::start();
    Session::start(up.bridge()).tool("list_projects", &json!({}));
    let rotated = up.workspace.run(["certs", "rotate", "--now"]);
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    let began = Instant::now();
    let mut session = Session::start(up.bridge());
    let call = json!({"name": "list_projects", "arguments": {}});
    loop {
        let answer = session.request("tools/call", &call);
        if answer.get("result").is_some() {
            break;
        }
        // Sooner than certificates are read again by themselves.
        assert!(began.elapsed() < Duration::from_secs(45), "{answer}");
    }
}

#[test]
fn open_connection_of_a_copied_certificate_ends_with_a_rotation_at_once() {
    let up = Up::start();
    let copy = up.workspace.home().join("copy").display().to_string();
    let issued = ["certs", "issue", "transport.stdio-client", "--out", &copy];
    let issued = up.workspace.run(issued);
    assert_eq!(issued.code, Some(0), "{issued:?}");
    let mut thief = up.bridge();
    thief.args(["--certs-dir", &copy]);
    let mut thief = Session::start(thief);
    let call = json!({"name": "list_projects", "arguments": {}});
    thief.tool("list_projects", &json!({}));
    let rotated = up.workspace.run(["certs", "rotate", "--now"]);
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    let began = Instant::now();
    while thief.request("tools/call", &call).get("result").is_some() {
        assert!(began.elapsed() < Duration::from_secs(10), "never closed");
    }
    // Nor does it come back.
    for _ in 0..3 {
        let answer = thief.request("tools/call", &call);
        assert!(answer.get("error").is_some(), "{answer}");
    }
}

/// What is listed, and what is answered to questions about it, is what `orchestra stdio` answers in
/// the same workspace, in every revision.
#[test]
fn a_bridge_answers_what_stdio_answers_in_every_revision() {
    let up = Up::start();
    let mut session = Session::start(up.bridge());
    session.tool("create_project", &json!({"name": "My App"}));
    // Who is asked when it is listed sees it, whoever that is.
    let end = Instant::now() + PATIENCE;
    while !session
        .request("resources/list", &json!({}))
        .to_string()
        .contains("my-app")
    {
        assert!(Instant::now() < end, "never listed");
    }
    drop(session);
    let questions = [
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("tools/call", json!({"name": "list_projects"})),
        (
            "tools/call",
            json!({"name": "create_epic", "arguments": {"project": 7}}),
        ),
        ("tools/call", json!({"name": "no_such_tool"})),
        ("prompts/get", json!({"name": "no_such_prompt"})),
        ("resources/read", json!({"uri": "orchestra://no/such"})),
        (
            "completion/complete",
            json!({
                "ref": {"type": "ref/prompt", "name": "no_such_prompt"},
                "argument": {"name": "a", "value": ""},
            }),
        ),
        ("no/such", json!({})),
    ];
    for revision in [
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "2026-07-28",
    ] {
        let mut input = String::new();
        let mut say = |id: usize, method: &str, params: &Value| {
            let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            input.push_str(&format!("{line}\n"));
        };
        let is_session = revision != "2026-07-28";
        if is_session {
            say(
                0,
                "initialize",
                &json!({"protocolVersion": revision, "capabilities": {}}),
            );
        }
        for (id, (method, params)) in questions.iter().enumerate() {
            let params = match is_session {
                true => params.clone(),
                false => stateless(params.clone(), &json!({})),
            };
            say(id + 1, method, &params);
        }
        let answers = |command| {
            let said = said(command, &input);
            assert_eq!(said.code, Some(0), "{said:?}");
            let lines = said.out.lines();
            let mut answers: Vec<Value> = lines
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            answers.retain(|answer| answer.get("id").is_some());
            answers.sort_by_key(|answer| answer["id"].as_u64());
            answers
        };
        let mut wanted = answers(up.workspace.command(["stdio"]));
        // The orchestrator is asked in the newest revision, whose answers say themselves that they take
        // longer, and whose lists do not.
        for answer in &mut wanted {
            let tools = answer.pointer_mut("/result/tools");
            for tool in tools.and_then(Value::as_array_mut).into_iter().flatten() {
                if tool.pointer("/_meta/orchestra~1longWork").is_some() {
                    tool.as_object_mut().unwrap().remove("_meta");
                }
            }
        }
        let found = answers(up.bridge());
        assert!(wanted.len() >= questions.len(), "{wanted:?}");
        assert_eq!(found.len(), wanted.len());
        for (wanted, found) in wanted.iter().zip(&found) {
            assert_eq!(found, wanted, "{revision}");
        }
    }
}

/// Who knows no tasks waits for a call that must become one, and the orchestrator's refusal is not theirs.
#[test]
fn a_session_at_a_bridge_waits_for_what_must_be_a_task() {
    let up = Up::with_server(&json!({"command": everything(), "protocol": "2025-11-25"}));
    let mut session = session(up.bridge(), &json!({}));
    let called = call(&mut session, "failing_job", &json!({}));
    let text = called["content"][0]["text"].as_str();
    assert_eq!(text, Some("The job failed, as it always does."), "{called}");
}

/// The orchestrator is asked in the newest revision; a session of an older one is not told so, whoever
/// stands behind the orchestrator.
#[test]
fn a_session_at_a_bridge_is_told_nothing_of_a_newer_revision() {
    let up = Up::with_everything();
    let mut session = session(up.bridge(), &json!({}));
    let keys = |answer: &Value| {
        let result = answer.as_object().unwrap_or_else(|| panic!("{answer}"));
        result.keys().cloned().collect::<Vec<_>>()
    };
    let called = call(&mut session, "test_simple_text", &json!({}));
    assert_eq!(keys(&called), ["content"]);
    let prompt = json!({"name": "e__test_simple_prompt"});
    let prompt = session.request("prompts/get", &prompt);
    assert_eq!(keys(&prompt["result"]), ["messages"]);
    let read = json!({"uri": "test://static-text"});
    let read = session.request("resources/read", &read);
    assert_eq!(keys(&read["result"]), ["contents"]);
}

#[test]
fn progress_comes_before_the_answer_that_it_belongs_to() {
    let up = Up::with_everything();
    let mut session = session(up.bridge(), &json!({}));
    session.send(
        &json!({"jsonrpc": "2.0", "id": 50, "method": "tools/call", "params": {
            "name": "e__test_tool_with_progress",
            "arguments": {},
            "_meta": {"progressToken": "mine"},
        }}),
    );
    let mut progress = Vec::new();
    loop {
        let message = session.process.json();
        if message["id"] == 50 {
            assert!(message["result"].is_object(), "{message}");
            break;
        }
        if message["method"] == "notifications/progress" {
            assert_eq!(message["params"]["progressToken"], "mine");
            progress.push(message["params"]["progress"].as_f64().unwrap());
        }
    }
    assert_eq!(progress.len(), 3, "{progress:?}");
    assert!(progress.is_sorted());
}

/// The question of a server behind the orchestrator comes to the client of the bridge, as its era
/// has it, and the answer goes back.
#[test]
fn questions_come_to_the_client_and_answers_go_back() {
    let up = Up::with_everything();
    let mut session = session(up.bridge(), &json!({"elicitation": {}}));
    session.send(
        &json!({"jsonrpc": "2.0", "id": 60, "method": "tools/call", "params": {
            "name": "e__test_input_required_result_elicitation", "arguments": {},
        }}),
    );
    let asked = session.process.json();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    session.send(&json!({"jsonrpc": "2.0", "id": asked["id"],
        "result": {"action": "accept", "content": {"name": "Ann"}}}));
    let answer = session.process.json();
    assert_eq!(answer["id"], 60, "{answer}");
    assert!(answer["result"].to_string().contains("Ann"), "{answer}");
    // Without a session it is a result, and the call is made again with the answers.
    let features = json!({"elicitation": {}});
    let params = |more: Value| {
        let mut params = json!({
            "name": "e__test_input_required_result_elicitation", "arguments": {},
        });
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        stateless(params, &features)
    };
    let first = session.request("tools/call", &params(json!({})));
    let first = &first["result"];
    assert_eq!(first["resultType"], "input_required", "{first}");
    let keys: Vec<_> = first["inputRequests"].as_object().unwrap().keys().collect();
    let mut responses = json!({});
    responses[keys[0]] = json!({"action": "accept", "content": {"name": "Bob"}});
    let mut more = json!({"inputResponses": responses});
    if let Some(state) = first.get("requestState") {
        more["requestState"] = state.clone();
    }
    let second = session.request("tools/call", &params(more));
    assert!(second["result"].to_string().contains("Bob"), "{second}");
}

/// What a client may ask of skills is told at its beginning, and answered.
#[test]
fn skills_of_the_orchestrator_are_announced_and_served() {
    const SKILLS: &str = "io.modelcontextprotocol/skills";
    let up = Up::start();
    let mut session = Session::start(up.bridge());
    let settings = json!({"directoryRead": true});
    let told = session.request("server/discover", &stateless(json!({}), &json!({})));
    let capabilities = &told["result"]["capabilities"];
    assert_eq!(capabilities["extensions"][SKILLS], settings, "{told}");
    let listed = session.request("skills/list", &stateless(json!({}), &json!({})));
    let skills = listed["result"]["skills"].as_array().expect("skills");
    assert!(!skills.is_empty(), "{listed}");
}

/// The orchestrator records who calls, and not who passes the call on.
#[test]
fn the_client_of_a_bridge_is_known_to_the_orchestrator() {
    let up = Up::start();
    let mut session = session(up.bridge(), &json!({}));
    session.tool("create_project", &json!({"name": "My App"}));
    let records = up.workspace.run_directory().join("audit.jsonl");
    let recorded = || {
        let records = std::fs::read_to_string(&records).unwrap_or_default();
        let mut lines = records.lines().map(str::to_owned);
        lines.find(|line| line.contains("\"create_project\""))
    };
    let record: Value = serde_json::from_str(&until(recorded)).unwrap();
    assert_eq!(record["client"], "test", "{record}");
}

/// A call that lasts is a task of the orchestrator, and is looked after through the bridge.
#[test]
fn a_call_that_lasts_is_a_task() {
    let up = Up::with_everything();
    let mut session = Session::start(up.bridge());
    // The list says which calls may last, once the server has started.
    until(|| {
        let listed = session.request("tools/list", &json!({}));
        listed.to_string().contains("e__slow_compute").then_some(())
    });
    let features = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let arguments = json!({"seconds": 1, "label": "it"});
    let params = json!({"name": "e__slow_compute", "arguments": arguments});
    let begun = session.request("tools/call", &stateless(params, &features));
    let begun = &begun["result"];
    assert_eq!(begun["resultType"], "task", "{begun}");
    let id = begun["taskId"].as_str().unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        let look = session.request("tasks/get", &stateless(json!({"taskId": id}), &features));
        let look = &look["result"];
        if look["status"] == "completed" {
            assert!(look.to_string().contains("computed it"), "{look}");
            break;
        }
        assert_eq!(look["status"], "working", "{look}");
        assert!(Instant::now() < end, "{look}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_changes_and_what_is_logged_is_told() {
    const CHANGED: &str = "notifications/tools/list_changed";
    let up = Up::with_everything();
    let mut session = session(up.bridge(), &json!({}));
    let tools = |session: &mut Session| session.request("tools/list", &json!({})).to_string();
    // The tools of the server may come after those of the orchestrator.
    while !tools(&mut session).contains("\"e__test_trigger_tool_change\"") {
        session.notified(CHANGED);
    }
    session.was_notified(CHANGED);
    call(&mut session, "test_trigger_tool_change", &json!({}));
    session.notified(CHANGED);
    while !tools(&mut session).contains("\"e__test_added_") {
        session.notified(CHANGED);
    }
    session.request("logging/setLevel", &json!({"level": "info"}));
    let end = Instant::now() + PATIENCE;
    // The server is told the level while the session goes on.
    loop {
        call(&mut session, "test_tool_with_logging", &json!({}));
        if session.was_notified("notifications/message") {
            break;
        }
        assert!(Instant::now() < end, "never told");
    }
    session.request("resources/list", &json!({}));
    let uri = json!({"uri": "test://watched-resource"});
    let watched = session.request("resources/subscribe", &uri);
    assert_eq!(watched["result"], json!({}), "{watched}");
    let end = Instant::now() + PATIENCE;
    // The orchestrator is asked to watch it while it is watched here already.
    loop {
        call(&mut session, "test_update_resource", &uri);
        if session.was_notified("notifications/resources/updated") {
            break;
        }
        assert!(Instant::now() < end, "never told");
    }
}

#[test]
fn a_call_that_is_cancelled_ends_at_the_server_behind_the_orchestrator() {
    let up = Up::with_everything();
    let mut session = session(up.bridge(), &json!({}));
    session.send(
        &json!({"jsonrpc": "2.0", "id": 70, "method": "tools/call", "params": {
            "name": "e__test_slow", "arguments": {"milliseconds": 600_000},
        }}),
    );
    session.send(&json!({"jsonrpc": "2.0", "id": 71, "method": "ping"}));
    assert_eq!(session.process.json()["id"], 71);
    session.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 70}}),
    );
    // It is recorded when it has ended, and only then.
    let end = Instant::now() + PATIENCE;
    while cancelled(&up, "e__test_slow") != 1 {
        assert!(Instant::now() < end, "never recorded");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pong = session.request("ping", &json!({}));
    assert_eq!(pong["result"], json!({}));
}

/// Number of calls of a tool that were recorded as cancelled.
fn cancelled(up: &Up, tool: &str) -> usize {
    let records = std::fs::read_to_string(up.workspace.run_directory().join("audit.jsonl"));
    let records = records.unwrap_or_default();
    let records = records
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ended = records.filter(|record| record["name"] == tool && record["outcome"] == "cancelled");
    ended.count()
}

/// A bridge with calls in flight that do not end.
fn with_calls(up: &Up) -> Session {
    let mut session = up.logged_session();
    session.request("tools/list", &json!({}));
    for id in 100..108 {
        session.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
                "name": "e__test_slow", "arguments": {"milliseconds": 600_000},
            }}),
        );
    }
    session.send(&json!({"jsonrpc": "2.0", "id": 99, "method": "ping"}));
    assert_eq!(session.process.json()["id"], 99);
    session
}

/// Receives the errors of those calls.
fn fail(session: &mut Session) {
    let mut failed = 0;
    while failed < 8 {
        let answer = session.process.json();
        if answer.get("method").is_none() {
            failed_at_orchestrator(&answer);
            failed += 1;
        }
    }
}

fn failed_at_orchestrator(answer: &Value) {
    let error = &answer["error"];
    assert_eq!(error["code"], -32603, "{answer}");
    let told = error["message"].as_str().unwrap();
    assert!(
        told.starts_with("orchestrator tool_call failed: "),
        "{told}"
    );
}

/// The orchestrator is killed while calls are in flight, and stays away.
#[test]
fn killed_orchestrator_fails_running_and_later_calls() {
    let mut up = Up::with_everything();
    let mut session = with_calls(&up);
    up.process.kill();
    fail(&mut session);
    up.port_was_found_unused();
    for _ in 0..3 {
        let params = json!({"name": "list_projects", "arguments": {}});
        failed_at_orchestrator(&session.request("tools/call", &params));
    }
}

/// The orchestrator is killed while no call is in flight.
#[test]
fn call_after_the_orchestrator_was_killed_fails() {
    let mut up = Up::start();
    let mut session = up.logged_session();
    session.request("tools/list", &json!({}));
    up.process.kill();
    let params = json!({"name": "list_projects", "arguments": {}});
    failed_at_orchestrator(&session.request("tools/call", &params));
    up.port_was_found_unused();
}

/// The orchestrator is killed while calls are in flight, and comes back at the same port.
#[test]
fn killed_orchestrator_is_used_again_when_it_is_back() {
    let mut up = Up::with_everything();
    let mut session = with_calls(&up);
    up.process.kill();
    let file = up.workspace.join("servers.json").display().to_string();
    let flags = ["--quic", &up.address, "--mcp-config", &file];
    let (process, address) = launch(&up.workspace, &flags);
    assert_eq!(address, up.address);
    up.process = process;
    fail(&mut session);
    // Its port was free for a moment, and the program that has it now knows no such connection.
    let end = up.end_of_connection();
    let reasons = ["no process listens at", "reset by peer"];
    assert!(reasons.iter().any(|reason| end.contains(reason)), "{end}");
    let end = Instant::now() + PATIENCE;
    loop {
        let params = json!({"name": "create_project", "arguments": {"name": "My App"}});
        let answer = session.request("tools/call", &params);
        if answer.get("result").is_some() {
            break;
        }
        assert!(Instant::now() < end, "{answer}");
    }
    let listed = session.request("tools/list", &json!({}));
    assert!(listed["result"]["tools"].is_array(), "{listed}");
}
