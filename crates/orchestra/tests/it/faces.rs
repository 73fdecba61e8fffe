//! One tool, called through any face, gives the same answer, the same error and the same record.

use std::{collections::BTreeSet, fs, time::SystemTime};

use orchestra_plugin::{
    certs::CertDir,
    envelope::{Request, Response},
    generated::{ToolRequest, ToolResponse},
    quic::{Connection, Endpoint, Pace, Target},
};
use rustix::process::Signal;
use serde_json::{Value, json};

use tokio::runtime::Runtime;

use crate::support::{PATIENCE, Running, Session, Workspace, http, post};

/// What a call came to, through whatever face.
#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Done(Value),
    /// The tool refused; what it told the model.
    Refused(String),
    /// There is no such tool; what the caller was told.
    Unknown(String),
}

/// A way to call tools.
enum Face {
    Stdio(Session),
    /// Streamable HTTP in a session.
    Http {
        up: Up,
        session: String,
    },
    /// Streamable HTTP without one.
    Stateless(Up),
    Rest(Up),
    /// The plugin protocol, as peers of ours speak it.
    Quic {
        up: Up,
        runtime: Runtime,
        connection: Connection,
    },
    /// `orchestra stdio --orchestrator-addr`.
    Bridge {
        up: Up,
        session: Session,
    },
    Shell,
}

/// `orchestra up`, and where it listens.
struct Up {
    process: Running,
    address: String,
    quic: String,
}

impl Up {
    fn start(workspace: &Workspace) -> Self {
        let flags = ["--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json"];
        let process = Running::start(workspace.command([&["up"], &flags[..]].concat()));
        let ready = process.json();
        Self {
            process,
            address: ready["http"].as_str().unwrap().replace("http://", ""),
            quic: ready["quic"].as_str().unwrap().to_owned(),
        }
    }
}

const FACES: [&str; 7] = [
    "stdio",
    "http",
    "stateless http",
    "rest",
    "shell",
    "quic",
    "bridge",
];

/// A tool that there is not.
const UNKNOWN: &str = "banana";

const BOTH: (&str, &str) = ("Accept", "application/json, text/event-stream");

impl Face {
    fn open(name: &str, workspace: &Workspace) -> Self {
        match name {
            "stdio" => Self::Stdio(Session::start(workspace.command(["stdio"]))),
            "http" => {
                let up = Up::start(workspace);
                let params = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "test", "version": "1"},
                });
                let hello = post(&up.address, &[BOTH], &request("initialize", &params));
                let session = hello
                    .header("mcp-session-id")
                    .expect("a session")
                    .to_owned();
                Self::Http { up, session }
            }
            "stateless http" => Self::Stateless(Up::start(workspace)),
            "rest" => Self::Rest(Up::start(workspace)),
            "quic" => {
                let up = Up::start(workspace);
                let runtime = Runtime::new().unwrap();
                let connection = runtime.block_on(connect(workspace, &up));
                Self::Quic {
                    up,
                    runtime,
                    connection,
                }
            }
            "bridge" => {
                let up = Up::start(workspace);
                let flags = ["stdio", "--orchestrator-addr", &up.quic];
                let session = Session::start(workspace.command(flags));
                Self::Bridge { up, session }
            }
            _ => Self::Shell,
        }
    }

    /// Ends the process behind it, which writes the records that wait.
    fn leave(self) {
        let process = match self {
            Self::Stdio(session) => session.process,
            Self::Bridge { up, session } => {
                assert!(session.process.end().success());
                up.process.signal(Signal::TERM);
                up.process
            }
            Self::Http { up, .. }
            | Self::Stateless(up)
            | Self::Rest(up)
            | Self::Quic { up, .. } => {
                up.process.signal(Signal::TERM);
                up.process
            }
            Self::Shell => return,
        };
        assert!(process.end().success());
    }

    fn call(&mut self, workspace: &Workspace, tool: &str, arguments: &Value) -> Outcome {
        let mut params = json!({"name": tool, "arguments": arguments});
        match self {
            Self::Stdio(session) | Self::Bridge { session, .. } => {
                of_response(&session.request("tools/call", &params))
            }
            Self::Quic {
                runtime,
                connection,
                ..
            } => {
                params["_meta"] = stateless();
                runtime.block_on(ask(connection, tool, &params))
            }
            Self::Http { up, session } => {
                let headers = [BOTH, ("Mcp-Session-Id", session.as_str())];
                of_response(&post(&up.address, &headers, &request("tools/call", &params)).json())
            }
            Self::Stateless(up) => {
                params["_meta"] = stateless();
                let headers = [
                    BOTH,
                    ("MCP-Protocol-Version", "2026-07-28"),
                    ("Mcp-Method", "tools/call"),
                    ("Mcp-Name", tool),
                ];
                of_response(&post(&up.address, &headers, &request("tools/call", &params)).json())
            }
            Self::Rest(up) => {
                let body = params.to_string();
                let request = format!(
                    "POST /api/mcp/tools/call HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
                     Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    up.address,
                    body.len()
                );
                let answer = http(&up.address, request.as_bytes());
                match answer.status {
                    200 => of_result(&answer.json()),
                    404 => Outcome::Unknown(answer.json()["error"].as_str().unwrap().to_owned()),
                    _ => panic!("{tool} {arguments}: {answer:?}"),
                }
            }
            Self::Shell => {
                let said = workspace.run(["tool", "call", tool, "--args", &arguments.to_string()]);
                let complaint = said.err.trim().trim_start_matches("error: ").to_owned();
                match said.code {
                    Some(0) => Outcome::Done(plain(said.out.trim_end())),
                    // It says the same for people at a shell.
                    _ if complaint.starts_with("no tool `") => {
                        Outcome::Unknown(format!("unknown tool: {tool}"))
                    }
                    _ => Outcome::Refused(complaint),
                }
            }
        }
    }
}

/// What a request without a session says of itself.
fn stateless() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Comes with the certificate of a bridge.
async fn connect(workspace: &Workspace, up: &Up) -> Connection {
    let certs = CertDir::open(workspace.home().join(".orchestra/certs")).unwrap();
    let name = "transport.stdio-client".parse().unwrap();
    let identity = certs.identity(&name, SystemTime::now()).unwrap();
    let address = up.quic.parse().unwrap();
    let endpoint = Endpoint::outgoing(address, &identity, Pace::default()).unwrap();
    let target = Target::named(address, "orchestrator".parse().unwrap());
    endpoint.connect(&target).await.unwrap()
}

async fn ask(connection: &Connection, tool: &str, params: &Value) -> Outcome {
    let call = ToolRequest {
        tool_name: tool.to_owned(),
        mcp_params: params.to_string().into(),
        revision: "2026-07-28".to_owned(),
        ..ToolRequest::default()
    };
    let request = Request::new("1", &call).encode();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let answer = connection.call(request, deadline).await.unwrap();
    let answer: ToolResponse = Response::decode(&answer).unwrap().message().unwrap();
    match serde_json::from_slice::<Value>(&answer.mcp_error) {
        Ok(error) => of_response(&json!({ "error": error })),
        Err(_) => of_result(&serde_json::from_slice(&answer.mcp_result).unwrap()),
    }
}

fn request(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

fn of_response(response: &Value) -> Outcome {
    match response["error"]["message"].as_str() {
        Some(message) => Outcome::Unknown(message.to_owned()),
        None => of_result(&response["result"]),
    }
}

fn of_result(result: &Value) -> Outcome {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    if result["isError"] == true {
        return Outcome::Refused(text.to_owned());
    }
    let done = plain(text);
    if let Some(structured) = result.get("structuredContent") {
        assert_eq!(*structured, done, "the text says what the structure says");
    }
    Outcome::Done(done)
}

/// A text that is JSON as what it says.
fn plain(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Every tool, in an order in which each can do what it is for. `$memory` is the id of what was
/// remembered.
fn script() -> Vec<(&'static str, Value)> {
    let p = |more: Value| {
        let mut arguments = json!({"project": "my-app"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    let task = |id: &str| p(json!({"task_id": id}));
    let evidence = "ran it by hand: as expected";
    let answer = || {
        let arguments = json!({"answer": "Signing in", "overwrite": true});
        ("answer_prd_question", p(arguments))
    };
    let mut script = vec![
        ("create_project", json!({"name": "My App"})),
        ("list_projects", json!({})),
        ("rename_project", p(json!({"name": "My Other App"}))),
        ("get_project_status", p(json!({}))),
        ("write_prd", p(json!({"content": "# What it is for\n"}))),
        ("read_prd", p(json!({}))),
        ("create_epic", p(json!({"title": "Users"}))),
        ("list_epics", p(json!({}))),
        ("get_epic", p(json!({"epic_id": "MA-1"}))),
        (
            "update_epic",
            p(json!({"epic_id": "MA-1", "priority": "high"})),
        ),
        (
            "create_story",
            p(json!({"epic_id": "MA-1", "title": "Sign in", "user_story": "As a user I sign in"})),
        ),
        ("list_stories", p(json!({}))),
        ("get_story", p(json!({"story_id": "MA-2"}))),
        (
            "update_story",
            p(json!({"story_id": "MA-2", "labels": ["web"]})),
        ),
        (
            "create_task",
            p(json!({"story_id": "MA-2", "title": "Form", "type": "task"})),
        ),
        (
            "create_task",
            p(json!({"story_id": "MA-2", "title": "Check", "type": "task"})),
        ),
        ("list_tasks", p(json!({"limit": 1}))),
        ("get_task", task("MA-3")),
        (
            "update_task",
            p(json!({"task_id": "MA-3", "description": "Two fields"})),
        ),
        (
            "add_dependency",
            p(json!({"issue_id": "MA-4", "depends_on": "MA-3"})),
        ),
        (
            "remove_dependency",
            p(json!({"issue_id": "MA-4", "depends_on": "MA-3"})),
        ),
        (
            "add_comment",
            p(json!({"issue_id": "MA-3", "text": "Ask first", "agent": "ann"})),
        ),
        ("claim_task", p(json!({"task_id": "MA-3", "agent": "ann"}))),
        (
            "release_task",
            p(json!({"task_id": "MA-3", "agent": "ann"})),
        ),
        ("get_next_task", p(json!({}))),
        (
            "update_task",
            p(json!({"task_id": "MA-3", "status": "todo"})),
        ),
        ("set_current_task", task("MA-3")),
        (
            "complete_task",
            p(json!({"task_id": "MA-3", "evidence": evidence})),
        ),
        ("advance_task", task("MA-3")),
        (
            "advance_task",
            p(json!({"task_id": "MA-3", "evidence": evidence})),
        ),
        ("advance_task", task("MA-3")),
        (
            "advance_task",
            p(json!({"task_id": "MA-3", "evidence": evidence})),
        ),
        ("advance_task", task("MA-3")),
        (
            "reject_task",
            p(json!({"task_id": "MA-3", "reason": "The button is missing"})),
        ),
        ("get_history", p(json!({"issue_id": "MA-3"}))),
        ("search", p(json!({"query": "form"}))),
        ("get_workflow_status", p(json!({}))),
        ("create_epic", p(json!({"title": "Admin"}))),
        (
            "move_issue",
            p(json!({"issue_id": "MA-2", "parent_id": "MA-6"})),
        ),
        (
            "report_bug",
            p(json!({"story_id": "MA-2", "title": "Slow", "severity": "low"})),
        ),
        (
            "log_request",
            p(json!({"type": "feature", "description": "Dark mode"})),
        ),
        ("list_requests", p(json!({}))),
        ("start_prd_session", p(json!({}))),
    ];
    script.extend(std::iter::repeat_with(answer).take(4));
    script.push(("skip_prd_question", p(json!({}))));
    script.push(("back_prd_question", p(json!({}))));
    script.extend(std::iter::repeat_with(answer).take(8));
    script.extend([
        ("get_prd_session", p(json!({}))),
        ("preview_prd", p(json!({}))),
        ("split_prd", p(json!({"phases": ["Sign in", "Sign out"]}))),
        ("list_prd_phases", p(json!({}))),
        ("abandon_prd_session", p(json!({}))),
        (
            "save_memory",
            p(json!({"content": "Tokens last an hour", "summary": "Tokens"})),
        ),
        ("search_memory", p(json!({"query": "tokens"}))),
        ("get_context", p(json!({"query": "tokens"}))),
        ("list_memory", p(json!({}))),
        ("get_memory", p(json!({"memory_id": "$memory"}))),
        (
            "update_memory",
            p(json!({"memory_id": "$memory", "tags": ["auth"]})),
        ),
        ("forget_memory", p(json!({"memory_id": "$memory"}))),
        (
            "save_session",
            p(json!({"session_id": "s-1", "summary": "Signed in"})),
        ),
        ("list_sessions", p(json!({}))),
        ("get_session", p(json!({"session_id": "s-1"}))),
        ("forget_session", p(json!({"session_id": "s-1"}))),
        (
            "record_usage",
            json!({"input_tokens": 10, "output_tokens": 2, "cost": 0.5, "model": "m"}),
        ),
        ("get_usage", json!({})),
        ("reset_session_usage", json!({})),
        (
            "save_plan",
            p(json!({"title": "First steps", "content": "1. Form\n"})),
        ),
        ("list_plans", p(json!({}))),
        ("read_plan", p(json!({"file": "first-steps.md"}))),
        ("install_skills", json!({})),
        ("install_agents", json!({})),
        ("install_docs", json!({})),
        ("list_skills", json!({})),
        ("list_agents", json!({})),
        (
            "receive_hook_event",
            json!({"event_type": "Stop", "session_id": "s-1"}),
        ),
        ("get_hook_events", json!({})),
        ("regenerate_readme", p(json!({}))),
    ]);
    script.extend(plans());
    script.extend([
        ("delete_task", task("MA-4")),
        ("delete_story", p(json!({"story_id": "MA-2"}))),
        ("delete_epic", p(json!({"epic_id": "MA-6"}))),
        ("delete_project", p(json!({}))),
    ]);
    script
}

/// Every tool of plans. Nothing of them runs, for how far that is cannot be told beforehand, but for the
/// work of the last, which is canceled.
fn plans() -> Vec<(&'static str, Value)> {
    let p = |more: Value| {
        let mut arguments = json!({"planId": "Paused"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    let job = |name: &str| json!({"producerId": name, "task": "Work", "work": "sleep 600"});
    let one = || p(json!({"jobId": "one"}));
    let add = json!([{"type": "add_node", "spec": job("three")}]);
    let of = |plan: &str| json!({"planId": plan});
    vec![
        (
            "create_copilot_plan",
            json!({"name": "Paused", "jobs": [job("one"), job("two")]}),
        ),
        ("list_copilot_plans", json!({})),
        ("get_copilot_plan_status", p(json!({}))),
        ("get_copilot_plan_graph", p(json!({}))),
        ("list_copilot_jobs", p(json!({}))),
        ("get_copilot_job", one()),
        ("get_copilot_job_logs", one()),
        ("get_copilot_job_attempts", one()),
        ("update_copilot_plan", p(json!({"maxParallel": 2}))),
        (
            "update_copilot_plan_job",
            p(json!({"jobId": "one", "work": "sleep 60"})),
        ),
        (
            "bulk_update_copilot_plan_jobs",
            p(json!({"updates": {"maxTurns": 3}})),
        ),
        ("reshape_copilot_plan", p(json!({"operations": add}))),
        ("pause_copilot_plan", p(json!({}))),
        ("force_fail_copilot_job", one()),
        ("get_copilot_job_failure_context", one()),
        ("retry_copilot_job", one()),
        ("force_fail_copilot_job", one()),
        ("retry_copilot_plan", p(json!({}))),
        (
            "clone_copilot_plan",
            json!({"sourcePlanId": "Paused", "name": "Copy"}),
        ),
        ("cancel_copilot_plan", p(json!({}))),
        ("recover_copilot_plan", p(json!({}))),
        ("cancel_copilot_plan", p(json!({}))),
        ("archive_copilot_plan", p(json!({}))),
        ("delete_copilot_plan", p(json!({}))),
        ("run_copilot_integration_test", json!({})),
        ("scaffold_copilot_plan", json!({"name": "Piecemeal"})),
        (
            "add_copilot_plan_jobs",
            json!({"planId": "Piecemeal", "jobs": [job("one")]}),
        ),
        (
            "add_copilot_plan_job",
            json!({"planId": "Piecemeal", "producerId": "two", "task": "Work", "work": "sleep 600"}),
        ),
        ("finalize_copilot_plan", of("Piecemeal")),
        ("resume_copilot_plan", of("Piecemeal")),
        ("cancel_copilot_plan", of("Piecemeal")),
        ("delete_copilot_plan", of("Piecemeal")),
    ]
}

/// What is of the moment or of the place stands as the same word everywhere.
fn level(outcome: Outcome, workspace: &Workspace, memory: &str) -> Outcome {
    let level = |text: &str| {
        let place = workspace.path().display().to_string();
        let mut text = text.replace(&place, "WORKSPACE");
        if !memory.is_empty() {
            text = text.replace(memory, "MEMORY");
        }
        without_plans(&without_times(&text))
    };
    match outcome {
        Outcome::Done(value) => Outcome::Done(plain(&level(&value.to_string()))),
        Outcome::Refused(text) => Outcome::Refused(level(&text)),
        Outcome::Unknown(text) => Outcome::Unknown(level(&text)),
    }
}

fn without_times(text: &str) -> String {
    const FORM: &[u8] = b"0000-00-00T00:00:00Z";
    let mut bytes = text.as_bytes().to_vec();
    for start in 0..bytes.len().saturating_sub(FORM.len() - 1) {
        let there = &mut bytes[start..start + FORM.len()];
        let is_time = FORM.iter().zip(&*there).all(|(form, byte)| match form {
            b'0' => byte.is_ascii_digit(),
            form => form == byte,
        });
        if is_time {
            there.copy_from_slice(FORM);
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Without the ids of plans and jobs, the milliseconds at which something was, and how many events a plan
/// has, which differ for those that have run.
fn without_plans(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let is_of_a_word = |c: char| c.is_ascii_hexdigit() || c == '-';
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_of_a_word(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        let is_id = word.len() == 36 && word.matches('-').count() == 4;
        let is_time = word.len() == 13 && word.bytes().all(|byte| byte.is_ascii_digit());
        shown.push_str(before);
        let is_version = shown.ends_with("\"stateVersion\":");
        // A face may have files of its own in the workspace.
        let is_dirt = after.starts_with(" uncommitted changes");
        shown.push_str(match is_id || is_time || is_version || is_dirt {
            true => "0",
            false => word,
        });
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// What the audit file says of each call, but for the moment, the face and who came through it.
fn records(workspace: &Workspace) -> Vec<Value> {
    let text = fs::read_to_string(workspace.run_directory().join("audit.jsonl")).unwrap();
    let lines = text.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let members = record.as_object_mut().unwrap();
        let of_the_moment = ["unix_ms", "micros", "face", "prev"];
        for member in of_the_moment {
            assert!(members.remove(member).is_some(), "{line}");
        }
        members.remove("client");
        // How many events a plan has that has run takes one digit or two.
        if record["name"].as_str().unwrap().contains("_copilot_") {
            record.as_object_mut().unwrap().remove("result_bytes");
        }
        record
    });
    lines.collect()
}

/// Plays the script, and after it each tool with arguments that are wrong. What came of each call,
/// and what was recorded of it.
fn play(name: &str) -> Vec<(String, Outcome, Value)> {
    let workspace = Workspace::git();
    let mut face = Face::open(name, &workspace);
    let mut outcomes = Vec::new();
    let mut memory = String::new();
    let script = script();
    for (tool, arguments) in &script {
        let told = arguments.to_string();
        let arguments: Value = serde_json::from_str(&told.replace("$memory", &memory)).unwrap();
        let outcome = face.call(&workspace, tool, &arguments);
        if let ("save_memory", Outcome::Done(value)) = (*tool, &outcome) {
            value["id"].as_str().expect("an id").clone_into(&mut memory);
        }
        outcomes.push((
            format!("{tool} {told}"),
            level(outcome, &workspace, &memory),
        ));
    }
    let tools: BTreeSet<&str> = script.iter().map(|(tool, _)| *tool).collect();
    for tool in tools.into_iter().chain([UNKNOWN]) {
        for wrong in [json!({}), json!({"project": 7, "banana": 1})] {
            let outcome = face.call(&workspace, tool, &wrong);
            outcomes.push((
                format!("{tool} {wrong}"),
                level(outcome, &workspace, &memory),
            ));
        }
    }
    face.leave();
    let records = records(&workspace);
    assert_eq!(
        records.len(),
        outcomes.len(),
        "each call through {name} is recorded once"
    );
    let both = outcomes.into_iter().zip(records);
    both.map(|((call, outcome), record)| (call, outcome, record))
        .collect()
}

#[test]
fn every_tool_answers_alike_and_is_recorded_alike_through_every_face() {
    let [first, others @ ..] = FACES;
    let wanted = play(first);
    let refused: Vec<_> = wanted[..script().len()]
        .iter()
        .filter(|(_, outcome, _)| !matches!(outcome, Outcome::Done(_)))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    for (call, outcome, record) in &wanted {
        let end = match outcome {
            Outcome::Done(_) => "answered",
            Outcome::Refused(_) => "tool_error",
            Outcome::Unknown(_) => "unknown",
        };
        let name = call.split(' ').next().unwrap();
        assert_eq!(
            (&record["kind"], &record["name"], &record["outcome"]),
            (&json!("tool"), &json!(name), &json!(end)),
            "{call}: {record}"
        );
    }
    for face in others {
        let found = play(face);
        assert_eq!(found.len(), wanted.len());
        let both = wanted.iter().zip(&found);
        let differ: Vec<_> = both.filter(|(wanted, found)| wanted != found).collect();
        assert!(
            differ.is_empty(),
            "through {first}, and through {face}: {differ:#?}"
        );
    }
}

/// The script leaves no tool out.
#[test]
fn the_script_of_all_faces_calls_every_tool() {
    let workspace = Workspace::board();
    let mut session = Session::start(workspace.command(["stdio"]));
    let listed = session.request("tools/list", &json!({}));
    let listed = listed["result"]["tools"].as_array().unwrap().clone();
    let listed: BTreeSet<&str> = listed
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    let called: BTreeSet<&str> = script().iter().map(|(tool, _)| *tool).collect();
    assert_eq!(listed, called);
}
