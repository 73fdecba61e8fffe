//! `orchestra stdio --orchestrator-addr`: document 000 sentence by sentence, before an orchestrator
//! of others that knows nothing of MCP.

use std::{fs, io::Write as _, path::PathBuf, process::Command};

use orchestra_plugin::envelope::RequestKind;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    foreign::Foreign,
    support::{Running, Said, Session, Workspace, said},
};

/// The longest line that is read, its line break left aside (10 MiB, document 000).
const LINE_BYTES: usize = 10 * 1024 * 1024;

/// A directory that is no workspace, and the certificates in its home.
struct Bench(Workspace);

impl Bench {
    fn new() -> Self {
        Self(Workspace::new())
    }

    /// Where certificates are when nobody says.
    fn certs(&self) -> PathBuf {
        self.0.home().join(".orchestra/certs")
    }

    fn orchestrator(&self) -> Foreign {
        Foreign::start(&self.certs())
    }

    fn bridge(&self, address: &str) -> Command {
        self.0.command(["stdio", "--orchestrator-addr", address])
    }

    /// All that a bridge says to an input that ends.
    fn answers(&self, orchestrator: &Foreign, input: &str) -> Vec<String> {
        let said = said(self.bridge(&orchestrator.address()), input);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out.lines().map(str::to_owned).collect()
    }

    /// What it answers to each line of an input, by the ids of the lines, which are 1, 2, …
    fn by_id(&self, orchestrator: &Foreign, lines: &[&str]) -> Vec<Value> {
        let answers = self.answers(orchestrator, &format!("{}\n", lines.join("\n")));
        let mut answers: Vec<Value> = answers
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        answers.sort_by_key(|answer| answer["id"].as_u64());
        answers
    }
}

fn call(id: u64, tool: &str, arguments: &Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

fn say(running: &mut Running, line: &str) {
    let stdin = running.stdin.as_mut().unwrap();
    stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The code and message of an error.
fn error(answer: &Value) -> (i64, &str) {
    let error = &answer["error"];
    let code = error["code"].as_i64();
    (
        code.unwrap_or_else(|| panic!("no error: {answer}")),
        error["message"].as_str().unwrap(),
    )
}

/// The messages that document 000 shows, and what they are in the plugin protocol.
#[test]
fn the_messages_of_document_000_are_translated() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    let arguments = json!({"project_id": "my-app", "title": "Add login page"});
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        &call(3, "create_feature", &arguments),
        r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"some/unknown"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/whatever","params":{"a":1}}"#,
    ];
    let answers = bench.by_id(&orchestrator, &lines);
    assert_eq!(answers.len(), 5, "{answers:?}");
    let hello = &answers[0]["result"];
    assert_eq!(hello["protocolVersion"], "2024-11-05");
    assert!(hello["capabilities"]["tools"].is_object(), "{hello}");
    let who = json!({"name": "orchestra", "version": "1.0.0"});
    assert_eq!(hello["serverInfo"], who);
    let schema = json!({
        "type": "object",
        "properties": {"project_id": {"type": "string", "minLength": 1}},
        "required": ["project_id"],
    });
    assert_eq!(
        answers[1]["result"],
        json!({"tools": [
            {"name": "create_feature", "description": "Create a feature", "inputSchema": schema},
            {"name": "echo", "inputSchema": {"type": "object"}},
            {"name": "wait", "inputSchema": {"type": "object"}},
        ]})
    );
    let text = json!([{"type": "text", "text": "Created FEAT-ABC: Add login page"}]);
    assert_eq!(answers[2]["result"], json!({ "content": text }));
    assert_eq!(answers[3], json!({"jsonrpc": "2.0", "id": 4, "result": {}}));
    assert_eq!(
        error(&answers[4]),
        (-32601, "method not found: some/unknown")
    );
    let seen = orchestrator.last();
    assert_eq!(seen.peer, "transport.stdio-client");
    assert_eq!(seen.tool, "create_feature");
    assert_eq!(seen.arguments, Some(arguments));
    assert_eq!(seen.caller, "transport.stdio");
    assert_eq!(seen.session.len(), 36);
    assert_eq!((&*seen.provider, seen.unknown), ("", 0));
    assert!(!seen.id.is_empty());
}

/// Nothing is opened and nothing made: neither a board nor a file of servers.
#[test]
fn a_bridge_leaves_nothing_behind_but_its_certificate() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    bench.by_id(&orchestrator, &[&call(1, "echo", &json!({}))]);
    assert_eq!(fs::read_dir(bench.0.path()).unwrap().count(), 0);
    let home = fs::read_dir(bench.0.home()).unwrap();
    let home: Vec<_> = home.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(home, [".orchestra"]);
    for file in ["transport.stdio-client.crt", "transport.stdio-client.key"] {
        assert!(bench.certs().join(file).is_file(), "{file}");
    }
}

#[test]
fn arguments_that_are_absent_are_told_from_empty_ones() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    let mut session = Session::start(bench.bridge(&orchestrator.address()));
    for (params, expected) in [
        (json!({"name": "echo"}), None),
        (json!({"name": "echo", "arguments": null}), None),
        (json!({"name": "echo", "arguments": {}}), Some(json!({}))),
        (
            json!({"name": "echo", "arguments": {"n": 90_000, "_meta": {"x": 1.5}}}),
            Some(json!({"n": 90_000, "_meta": {"x": 1.5}})),
        ),
    ] {
        session.request("tools/call", &params);
        assert_eq!(orchestrator.last().arguments, expected, "{params}");
    }
    // All of them, and all others, are of one session; ids are nobody's business but the hop's.
    let seen = orchestrator.seen();
    assert!(seen.iter().all(|call| call.session == seen[0].session));
    let others = Session::start(bench.bridge(&orchestrator.address()))
        .request("tools/call", &json!({"name": "echo"}));
    assert!(others["result"].is_object(), "{others}");
    assert_ne!(orchestrator.last().session, seen[0].session);
}

/// The text is that of the result's `text`, else the whole result; there always is one.
#[test]
fn results_become_text_and_failures_too() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    let mut session = Session::start(bench.bridge(&orchestrator.address()));
    let none = json!({});
    for (tool, arguments, text, is_error) in [
        (
            "create_feature",
            &none,
            "Created FEAT-ABC: Add login page",
            false,
        ),
        (
            "odd",
            &none,
            r#"{"b":[1,2.5,true,null,{"k":"v"}],"h":"\u003cx\u003e"}"#,
            false,
        ),
        (
            "echo",
            &json!({"text": 5, "a": 1}),
            r#"{"a":1,"text":5}"#,
            false,
        ),
        ("nothing", &none, "", false),
        ("silent", &none, "", false),
        ("invalid", &none, "tool error: validation_error", true),
        ("broken", &none, "the file is not there", true),
        ("nope", &none, r#"no plugin provides tool "nope""#, true),
    ] {
        let result = session.tool(tool, arguments);
        let mut expected = json!({"content": [{"type": "text", "text": text}]});
        if is_error {
            expected["isError"] = true.into();
        }
        assert_eq!(result, expected, "{tool}");
    }
}

#[test]
fn prompts_and_documents_are_there_as_well() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    let mut session = Session::start(bench.bridge(&orchestrator.address()));
    let listed = session.request("prompts/list", &json!({}));
    let arguments = json!([{"name": "whom", "required": true}]);
    assert_eq!(
        listed["result"],
        json!({"prompts": [{"name": "greet", "description": "Greets", "arguments": arguments}]})
    );
    let asked = json!({"name": "greet", "arguments": {"whom": "you"}});
    let gotten = session.request("prompts/get", &asked);
    let content = json!({"type": "text", "text": "Hello you"});
    assert_eq!(
        gotten["result"]["messages"],
        json!([{"role": "user", "content": content}])
    );
    let wrong = session.request(
        "prompts/get",
        &json!({"name": "greet", "arguments": {"whom": 1}}),
    );
    assert_eq!(error(&wrong).0, -32602);
    let uri = "orchestra://app/features/FEAT-ABC";
    let listed = session.request("resources/list", &json!({}));
    let listed = listed["result"]["resources"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["uri"], uri);
    let read = session.request("resources/read", &json!({ "uri": uri }));
    assert_eq!(read["result"]["contents"][0]["text"], "# Login\n");
    let read = session.request("resources/read", &json!({"uri": "orchestra://docs/none"}));
    assert_eq!(error(&read).0, -32002);
    let templates = session.request("resources/templates/list", &json!({}));
    let templates = templates["result"]["resourceTemplates"].as_array().unwrap();
    assert_eq!(templates.len(), 6);
    let level = session.request("logging/setLevel", &json!({"level": "debug"}));
    assert_eq!(level["result"], json!({}));
}

/// An orchestrator of others tells nobody that its tools change, so each list is asked for.
#[test]
fn each_list_is_as_it_is_now() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    let mut session = Session::start(bench.bridge(&orchestrator.address()));
    let mut names = || {
        let listed = session.request("tools/list", &json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap().clone();
        let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["create_feature", "echo", "wait"]);
    orchestrator.learn("later");
    assert_eq!(names(), ["create_feature", "echo", "later", "wait"]);
    assert!(orchestrator.asked(RequestKind::ListTools) >= 2);
}

/// Faults have the codes of document 000, and whoever can be named is.
#[test]
fn faults_have_their_codes() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    for (line, id, code) in [
        ("{bad json", json!(null), -32700),
        (r#"{"id":1}"#, json!(1), -32600),
        ("5", json!(null), -32600),
        (
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}"#,
            json!(2),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":[1]}}"#,
            json!(3),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":""}}"#,
            json!(4),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":5,"method":"no/such"}"#,
            json!(5),
            -32601,
        ),
    ] {
        let answers = bench.answers(&orchestrator, &format!("{line}\n"));
        assert_eq!(answers.len(), 1, "{line}: {answers:?}");
        let answer: Value = serde_json::from_str(&answers[0]).unwrap();
        assert!(answer.as_object().unwrap().contains_key("id"), "{answer}");
        assert_eq!((&answer["id"], error(&answer).0), (&id, code), "{line}");
    }
    assert_eq!(orchestrator.seen(), []);
    // Large numbers and texts as they were sent.
    for id in ["9007199254740993", r#""a b""#, "\"\\u0041\""] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"nothing"}}}}"#
        );
        let answers = bench.answers(&orchestrator, &format!("{line}\n"));
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
        assert!(answers[0].starts_with(&head), "{answers:?}");
    }
}

#[test]
fn batches_are_taken_by_the_revisions_that_have_them() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    for (revision, works) in [("2025-03-26", true), ("2025-06-18", false)] {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": revision, "capabilities": {}}});
        let batch = format!(
            "[{},{}]",
            call(1, "nothing", &json!({})),
            call(2, "silent", &json!({}))
        );
        let answers = bench.answers(&orchestrator, &format!("{hello}\n{batch}\n"));
        let last: Value = serde_json::from_str(answers.last().unwrap()).unwrap();
        match works {
            true => assert_eq!(last.as_array().unwrap().len(), 2, "{last}"),
            false => assert_eq!((&last["id"], error(&last).0), (&json!(2), -32600)),
        }
    }
}

/// A line of exactly 10 MiB is taken; a longer one is refused, and the next is read.
#[test]
fn lines_of_10_mib_pass_and_longer_ones_are_refused() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    let mut line = call(1, "echo", &json!({"text": ""}));
    let more = LINE_BYTES - line.len();
    let at = line.find(r#""text":""#).unwrap() + r#""text":""#.len();
    line.insert_str(at, &"x".repeat(more));
    assert_eq!(line.len(), LINE_BYTES);
    let longer = line.replacen("xx", "xxx", 1);
    let next = call(2, "nothing", &json!({}));
    let answers = bench.answers(&orchestrator, &format!("{longer}\n{line}\n{next}\n"));
    assert_eq!(answers.len(), 3);
    let mut answers: Vec<Value> = answers
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(
        (&answers[0]["id"], error(&answers[0]).0),
        (&json!(null), -32600)
    );
    let text = answers[1]["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text.len(), more);
    assert!(answers[2]["result"].is_object());
}

/// Calls overlap: all of them are there before one is answered.
#[test]
fn calls_run_beside_each_other() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    let mut running = Running::start(bench.bridge(&orchestrator.address()));
    for id in 1..=60 {
        say(
            &mut running,
            &call(id, "gate", &json!({"text": id.to_string()})),
        );
    }
    orchestrator.has_seen(60);
    // A list and a ping do not wait behind them.
    for (id, method) in [(61, "ping"), (62, "tools/list")] {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method});
        say(&mut running, &line.to_string());
        assert_eq!(running.json()["id"], id);
    }
    orchestrator.open_gate();
    let mut ids: Vec<u64> = (0..60)
        .map(|_| {
            let answer = running.json();
            let id = answer["id"].as_u64().unwrap();
            assert_eq!(answer["result"]["content"][0]["text"], id.to_string());
            id
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=60).collect::<Vec<_>>());
    assert!(running.end().success());
}

#[test]
fn a_hundred_and_fifty_calls_at_once_are_all_answered() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    let lines: Vec<String> = (1..=150)
        .map(|id| call(id, "echo", &json!({"text": format!("{id}")})))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let answers = bench.by_id(&orchestrator, &lines);
    assert_eq!(answers.len(), 150);
    for (at, answer) in answers.iter().enumerate() {
        let text = &answer["result"]["content"][0]["text"];
        assert_eq!(*text, (at + 1).to_string(), "{answer}");
    }
    assert_eq!(orchestrator.seen().len(), 150);
}

/// What a client gives up is given up at the orchestrator, and is not answered.
#[test]
fn a_call_that_is_cancelled_ends_where_it_runs() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    let mut session = Session::start(bench.bridge(&orchestrator.address()));
    session.send(&serde_json::from_str(&call(70, "wait", &json!({}))).unwrap());
    orchestrator.waits(1);
    session.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 70, "reason": "enough"}}),
    );
    orchestrator.waits(0);
    orchestrator.gave_up(1);
    // Nothing came in between.
    let pong = session.request("ping", &json!({}));
    assert_eq!(pong["result"], json!({}));
}

/// At the end of input, what is answered soon is; what is not is given up, and nothing is left.
#[test]
fn the_end_of_input_gives_up_what_still_runs_after_a_while() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    let mut running = Running::start(bench.bridge(&orchestrator.address()));
    say(&mut running, &call(1, "wait", &json!({})));
    say(&mut running, &call(2, "gate", &json!({"text": "soon"})));
    orchestrator.has_seen(2);
    orchestrator.waits(1);
    drop(running.stdin.take());
    orchestrator.open_gate();
    assert_eq!(running.json()["result"]["content"][0]["text"], "soon");
    orchestrator.gave_up(1);
    assert!(running.end().success());
}

/// A signal ends it at once, though nothing comes on stdin.
#[test]
fn signals_end_it_while_it_waits_for_input() {
    for signal in [Signal::TERM, Signal::INT] {
        let bench = Bench::new();
        let orchestrator = bench.orchestrator();
        let mut session = Session::start(bench.bridge(&orchestrator.address()));
        session.tool("nothing", &json!({}));
        let stdin = session.process.stdin.take();
        session.process.signal(signal);
        assert!(session.process.end().success(), "{signal:?}");
        drop(stdin);
    }
}

/// Whatever is logged, it is said on stderr, in these words, that it is connected.
#[test]
fn that_it_is_connected_is_said_on_stderr() {
    let bench = Bench::new();
    let orchestrator = bench.orchestrator();
    let address = orchestrator.address();
    let mut command = bench.bridge(&address);
    command.args(["--log", "off"]);
    let said: Said = said(command, &format!("{}\n", call(1, "nothing", &json!({}))));
    let expected = format!("transport.stdio: connected to orchestrator at {address}\n");
    assert_eq!((said.code, said.err), (Some(0), expected));
}
