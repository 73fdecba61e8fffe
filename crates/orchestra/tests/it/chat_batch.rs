//! `orchestra chat` in pipes and in CI: queries in, lines out, exit codes, and servers of tools that fail in
//! mid-conversation.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    sync::Barrier,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    chat::{lines, weather},
    models::{Fake, Ollama, OpenAi, Say},
    runtimes::faulty,
    support::{Running, Workspace},
};

const SHAPES: Ollama = Ollama("0.12.6");

fn words(text: &str) -> Say {
    Say::Stream(SHAPES.words(&[text]))
}

fn call(tool: &str, arguments: Value) -> Say {
    Say::Stream(SHAPES.calls("", &[(tool, arguments)]))
}

fn chat<'w>(model: &'w Fake, words: &[&'w str]) -> Vec<&'w str> {
    [
        &["chat", "--host", &model.address, "--model", "tiny"][..],
        words,
    ]
    .concat()
}

#[test]
fn every_form_of_queries_is_answered_a_line_each() {
    let workspace = Workspace::board();
    for (input, queries) in [
        ("{\"query\": \"one\"}", vec!["one"]),
        (
            "{\"query\": \"one\"}\n{\"query\": \"two\"}\n",
            vec!["one", "two"],
        ),
        (
            "[\n  \"one\",\n  {\"query\": \"two\"}\n]",
            vec!["one", "two"],
        ),
        ("one\ntwo\n", vec!["one", "two"]),
    ] {
        let model = Fake::ollama("0.12.6", vec![words("A."), words("B.")]);
        let said = workspace.run_with_input(chat(&model, &[]), input);
        assert_eq!(said.code, Some(0), "{input}: {said:?}");
        let lines = lines(&said);
        let found: Vec<&str> = lines
            .iter()
            .map(|line| line["query"].as_str().unwrap())
            .collect();
        assert_eq!(found, queries, "{input}");
        assert_eq!(lines[0]["answer"], "A.");
        for key in ["tool_calls", "turns", "tokens", "ms", "error"] {
            assert!(lines[0].get(key).is_some(), "{key}");
        }
        assert_eq!(lines[0]["tokens"], json!({"input": 169, "output": 15}));
    }
}

#[test]
fn a_query_that_fails_is_told_in_its_place_and_in_the_exit_code() {
    let workspace = Workspace::board();
    let gone = json!({"error": "model 'tiny' not found"});
    let model = Fake::ollama(
        "0.12.6",
        vec![words("A."), Say::Whole(404, gone), words("C.")],
    );
    let input = "{\"query\": \"one\"}\n{\"query\": \"two\"}\n{broken}\n{\"query\": \"three\"}\n";
    let said = workspace.run_with_input(chat(&model, &[]), input);
    assert_eq!(said.code, Some(1), "{said:?}");
    let lines = lines(&said);
    assert_eq!(lines.len(), 4);
    assert_eq!(
        (lines[0]["answer"].as_str(), lines[3]["answer"].as_str()),
        (Some("A."), Some("C."))
    );
    assert_eq!(
        lines[1]["error"],
        "there is no model `tiny`; `ollama pull tiny` fetches it"
    );
    assert!(
        lines[2]["error"]
            .as_str()
            .unwrap()
            .starts_with("not valid JSON")
            && lines[2]["query"].is_null()
    );
}

#[test]
fn a_server_that_is_down_is_told_for_each_query() {
    let workspace = Workspace::board();
    let words = ["chat", "--host", "127.0.0.1:1", "--model", "tiny"];
    let said = workspace.run_with_input(words, "one\ntwo\n");
    assert_eq!(said.code, Some(1), "{said:?}");
    let lines = lines(&said);
    assert_eq!(lines.len(), 2);
    assert!(
        lines[1]["error"]
            .as_str()
            .unwrap()
            .contains("`ollama serve` starts it")
    );
    let missing = Fake::ollama("0.12.6", vec![]);
    let words = ["chat", "--host", &missing.address, "--model", "missing"];
    let said = workspace.run_with_input(words, "one\n");
    assert!(
        said.out.contains("`ollama pull missing` fetches it"),
        "{said:?}"
    );
    // Where no model is named, the first that takes tools is taken.
    let model = Fake::ollama("0.12.6", vec![self::words("A.")]);
    let said = workspace.run_with_input(["chat", "--host", &model.address], "one\n");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(model.chats()[0].body["model"], "tiny:latest");
}

#[test]
fn several_are_worked_on_at_once_and_the_order_stays() {
    let workspace = Workspace::board();
    // None is answered before all are asked.
    let all = Barrier::new(8);
    let model = Fake::start(move |asked, _| match asked.what.as_str() {
        "POST /api/chat" => {
            let said =
                asked.body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
            let said = said.as_str().unwrap().to_owned();
            all.wait();
            let pause = Duration::from_millis(if said == "0" { 300 } else { 0 });
            Say::Slowly(pause, SHAPES.words(&[&said])[..].to_vec())
        }
        _ => SHAPES.about(&asked.what, &asked.body),
    });
    let input: String = (0..8).map(|at| format!("{at}\n")).collect();
    let said = workspace.run_with_input(chat(&model, &["--parallel", "8"]), &input);
    assert_eq!(said.code, Some(0), "{said:?}");
    let answers: Vec<String> = lines(&said)
        .iter()
        .map(|line| line["answer"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(answers, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn lines_are_answered_as_they_come() {
    let workspace = Workspace::board();
    let model = Fake::ollama("0.12.6", vec![words("A."), words("B.")]);
    let mut running = Running::start(workspace.command(chat(&model, &[])));
    for (query, answer) in [("one", "A."), ("two", "B.")] {
        let mut stdin = running.stdin.take().unwrap();
        std::io::Write::write_all(
            &mut stdin,
            format!("{{\"query\": \"{query}\"}}\n").as_bytes(),
        )
        .unwrap();
        running.stdin = Some(stdin);
        assert_eq!(running.json()["answer"], answer);
    }
    assert_eq!(running.end().code(), Some(0));
}

#[test]
fn what_changes_something_is_refused_where_nobody_is_there_to_ask_and_agreed_to_with_yes() {
    let workspace = Workspace::board();
    let says = || {
        vec![
            call("create_project", json!({"name": "Shop"})),
            words("Done."),
        ]
    };
    let model = Fake::ollama("0.12.6", says());
    let said = workspace.run_with_input(chat(&model, &[]), "Make a project.");
    assert_eq!(said.code, Some(3), "{said:?}");
    let line = &lines(&said)[0];
    assert_eq!(line["answer"], "Done.");
    assert!(line["error"].as_str().unwrap().contains("--yes"), "{line}");
    assert_eq!(line["tool_calls"][0]["is_error"], true);
    assert!(line["tool_calls"][0]["ms"].is_null(), "it was not made");
    let told = model.chats()[1].body["messages"][3]["content"].clone();
    assert!(
        told.as_str().unwrap().contains("nobody is here to agree"),
        "{told}"
    );
    let model = Fake::ollama("0.12.6", says());
    let said = workspace.run_with_input(chat(&model, &["--yes"]), "Make a project.");
    assert_eq!(
        lines(&said)[0]["tool_calls"][0]["is_error"],
        false,
        "{said:?}"
    );
    let projects = workspace.call("list_projects", &json!({}));
    assert_eq!(projects["total"], 1);
    // The usage is counted.
    let usage = workspace.call("get_usage", &json!({}));
    assert_eq!(usage["totals"]["total_input"], 4 * 169, "{usage}");
    assert_eq!(usage["recent_sessions"][0]["model"], "tiny");
}

#[test]
fn queries_whose_calls_were_all_refused_exit_3_and_name_the_flag_in_every_mode() {
    let workspace = Workspace::board();
    let create = || call("create_project", json!({"name": "Shop"}));
    let query = ["--query", "Make a project."];
    for flags in [&query[..], &["--json", "--query", "Make a project."]] {
        let model = Fake::ollama("0.12.6", vec![create(), words("Done.")]);
        let said = workspace.run(chat(&model, flags));
        assert_eq!(said.code, Some(3), "{said:?}");
        let all = said.out + &said.err;
        assert!(
            all.contains("create_project") && all.contains("--yes"),
            "{all}"
        );
    }
    // A model that does not give up.
    let model = Fake::ollama("0.12.6", vec![create(), create(), create()]);
    let said = workspace.run(chat(&model, &query));
    assert_eq!(said.code, Some(3), "{said:?}");
    // One call of several was made.
    let list = || call("list_projects", json!({}));
    let model = Fake::ollama("0.12.6", vec![list(), create(), words("Done.")]);
    let said = workspace.run_with_input(chat(&model, &[]), "Make a project.");
    assert_eq!(said.code, Some(0), "{said:?}");
    let line = &lines(&said)[0];
    assert!(line["error"].is_null(), "{line}");
    assert!(line["note"].as_str().unwrap().contains("--yes"), "{line}");
}

#[test]
fn call_refused_by_the_deny_flag_is_a_note_and_no_error() {
    let workspace = Workspace::board();
    let create = || call("create_project", json!({"name": "Shop"}));
    let model = Fake::ollama("0.12.6", vec![create(), words("Not done.")]);
    let said = workspace.run_with_input(chat(&model, &["--deny"]), "Make a project.");
    assert_eq!(said.code, Some(0), "{said:?}");
    let line = &lines(&said)[0];
    assert!(line["error"].is_null(), "{line}");
    assert_eq!(line["answer"], "Not done.");
    let note = line["note"].as_str().unwrap();
    assert!(
        note.contains("--deny refuses") && note.contains("create_project"),
        "{note}"
    );
    let projects = workspace.call("list_projects", &json!({}));
    assert_eq!(projects["total"], 0);
}

#[test]
fn events_are_told_as_lines_and_the_question_may_stand_on_the_command_line() {
    let workspace = Workspace::board();
    let model = Fake::ollama(
        "0.12.6",
        vec![call("list_projects", json!({})), words("None.")],
    );
    let said = workspace.run(chat(&model, &["--json", "--query", "Which projects?"]));
    let events: Vec<Value> = lines(&said);
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    let first_result = kinds.iter().position(|kind| *kind == "result").unwrap();
    assert!(
        kinds[..first_result].contains(&"call") && kinds[0] == "request" || kinds[0] == "note",
        "{kinds:?}"
    );
    let last = events.last().unwrap();
    assert_eq!(
        (last["event"].as_str(), last["answer"].as_str()),
        (Some("answer"), Some("None."))
    );
    // In words, with what stands on standard input below it.
    let model = Fake::ollama("0.12.6", vec![words("It is short.")]);
    let said =
        workspace.run_with_input(chat(&model, &["--query", "Sum this up:"]), "a long text\n");
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(0), "It is short.\n"),
        "{said:?}"
    );
    let asked = model.chats()[0].body["messages"][1]["content"].clone();
    assert_eq!(asked, "Sum this up:\n\na long text");
}

#[test]
fn a_server_of_another_kind_is_asked_with_its_key() {
    let workspace = Workspace::board();
    let model = Fake::openai(vec![
        Say::Stream(OpenAi.calls(&[("list_projects", json!({}))])),
        Say::Stream(OpenAi.words(&["None."])),
    ]);
    let mut command =
        workspace.command(["chat", "--backend", "openai", "--query", "Which projects?"]);
    command
        .env("OPENAI_BASE_URL", format!("{}/v1", model.address))
        .env("OPENAI_API_KEY", "sk-secret");
    let said = crate::support::said(command, "");
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(0), "None.\n"),
        "{said:?}"
    );
    assert!(model.chats()[0].head.contains("sk-secret"));
    assert!(!said.err.contains("sk-secret"));
    // No key goes to a server that the workspace names.
    workspace.write(
        "orchestra.toml",
        &format!(
            "[chat]\nbackend = \"openai\"\nmodel = \"tiny\"\nhost = \"{}/v1\"\n",
            model.address
        ),
    );
    let mut command = workspace.command(["chat", "--query", "Hello?"]);
    command.env("OPENAI_API_KEY", "sk-secret");
    let said = crate::support::said(command, "");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(!model.chats().last().unwrap().head.contains("sk-secret"));
}

/// Whose tools are those of that server, all of them agreed to.
const WITH_FAULTY: [&str; 5] = [
    "--mcp-config",
    "servers.json",
    "--server",
    "faulty",
    "--yes",
];

/// A workspace whose server of tools has every fault.
fn with_faulty() -> Workspace {
    let workspace = Workspace::board();
    let servers = json!({"mcpServers": {"faulty": {
        "command": faulty(), "args": [], "trust": true, "health": false,
    }}});
    workspace.write("servers.json", &servers.to_string());
    workspace
}

#[test]
fn a_server_of_tools_that_prints_garbage_or_dies_does_not_end_the_conversation() {
    let workspace = with_faulty();
    let model = Fake::ollama(
        "0.12.6",
        vec![
            call("faulty__echo", json!({"text": "one"})),
            call("faulty__garbage", json!({"count": 3})),
            call("faulty__crash", json!({})),
            // It is there again.
            call("faulty__echo", json!({"text": "two"})),
            words("It goes on."),
        ],
    );
    let words = chat(&model, &WITH_FAULTY);
    let said = workspace.run_with_input(words, "Try all of them.");
    assert_eq!(said.code, Some(0), "{said:?}");
    let line = &lines(&said)[0];
    assert_eq!(line["answer"], "It goes on.");
    let failed: Vec<bool> = line["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["is_error"].as_bool().unwrap())
        .collect();
    assert_eq!(failed, [false, false, true, false], "{line}");
    let messages = model.chats().last().unwrap().body["messages"].clone();
    let last = messages.as_array().unwrap().last().unwrap()["content"].clone();
    assert!(last.as_str().unwrap().ends_with("two"), "{last}");
}

#[test]
fn a_tool_that_hangs_ends_with_the_time_of_its_turn() {
    let workspace = with_faulty();
    let model = Fake::ollama(
        "0.12.6",
        vec![call("faulty__silence", json!({})), words("unused")],
    );
    let flags = [&WITH_FAULTY[..], &["--max-seconds", "1"]].concat();
    let words = chat(&model, &flags);
    let said = workspace.run_with_input(words, "Wait.");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(lines(&said)[0]["error"], "the time of this turn is used up");
}

#[test]
fn a_server_that_does_not_start_is_told_of_and_left_out() {
    let workspace = Workspace::board();
    let servers = json!({"mcpServers": {"gone": {"command": "/no/such/program"}, "weather": {"command": weather()}}});
    workspace.write("servers.json", &servers.to_string());
    let model = Fake::ollama("0.12.6", vec![words("Hello.")]);
    let said = workspace.run_with_input(chat(&model, &["--mcp-config", "servers.json"]), "Hello?");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("gone"), "{said:?}");
    assert!(!said.err.contains("WARN"), "{said:?}");
    let tools = model.chats()[0].body["tools"].clone();
    assert!(!tools.to_string().contains("gone__"), "{tools}");
}

#[test]
fn a_signal_ends_it_with_what_was_answered_by_then() {
    let workspace = Workspace::board();
    let model = Fake::ollama("0.12.6", vec![words("A."), Say::Hang(vec![])]);
    let mut running = Running::start(workspace.command(chat(&model, &[])));
    let mut stdin = running.stdin.take().unwrap();
    stdin.write_all(b"one\ntwo\n").unwrap();
    assert_eq!(running.json()["answer"], "A.");
    crate::support::until(|| (model.chats().len() == 2).then_some(()));
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.json()["error"], "stopped");
    assert_eq!(running.wait().code(), Some(1));
    drop(stdin);
}

#[test]
fn an_open_input_is_told_of_and_a_project_is_looked_for_before_anything_is_asked() {
    let workspace = Workspace::board();
    let model = Fake::ollama("0.12.6", vec![words("A.")]);
    let words = chat(&model, &["--query", "One?", "--remember", "nowhere"]);
    let said = workspace.run(words);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("--remember nowhere: "), "{said:?}");
    assert!(model.chats().is_empty());
    let mut command = workspace.command(chat(&model, &["--query", "One?"]));
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut told = String::new();
    BufReader::new(child.stderr.as_mut().unwrap())
        .read_line(&mut told)
        .unwrap();
    assert!(
        told.contains("waiting for the end of standard input"),
        "{told}"
    );
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"This.").unwrap();
    drop(stdin);
    let ended = child.wait_with_output().unwrap();
    assert!(
        ended.status.success() && ended.stdout == b"A.\n",
        "{ended:?}"
    );
    let asked = model.chats()[0].body["messages"][1]["content"].clone();
    assert_eq!(asked, "One?\n\nThis.");
}

#[test]
fn a_trace_shows_the_beginning_also_of_servers_that_are_known_from_before() {
    let workspace = Workspace::board();
    let servers = json!({"mcpServers": {"weather": {"command": weather()}}});
    workspace.write("servers.json", &servers.to_string());
    for _ in 0..2 {
        let model = Fake::ollama("0.12.6", vec![words("Hello.")]);
        let flags = [
            "--mcp-config",
            "servers.json",
            "--trace",
            "--query",
            "Hello?",
        ];
        let said = workspace.run(chat(&model, &flags));
        assert_eq!(said.code, Some(0), "{said:?}");
        let received: Vec<&str> = said
            .err
            .lines()
            .filter(|line| line.contains("RECEIVED"))
            .collect();
        assert!(
            received.iter().any(|line| line.contains("serverInfo")),
            "{said:?}"
        );
    }
}

#[test]
fn a_conversation_in_a_pipe_is_kept_where_it_is_named_and_played_again() {
    let workspace = Workspace::board();
    let model = Fake::ollama(
        "0.12.6",
        vec![
            call("list_projects", json!({})),
            words("None."),
            words("Yes."),
        ],
    );
    let none = workspace.run(["chat", "sessions"]);
    assert!(none.err.contains("no conversation"), "{none:?}");
    // As `mktemp` leaves it.
    workspace.write("s.jsonl", "");
    let said = workspace.run_with_input(
        chat(&model, &["--session", "s.jsonl"]),
        "Which projects?\nReally?\n",
    );
    assert_eq!(said.code, Some(0), "{said:?}");
    // The second is a turn of the same conversation.
    assert_eq!(
        model.chats()[2].body["messages"].as_array().unwrap().len(),
        6
    );
    let replay = workspace.run(["chat", "replay", "s.jsonl"]);
    assert_eq!(replay.code, Some(0), "{replay:?}");
    assert!(
        replay
            .out
            .contains("the same; turns: 2, requests to the model: 3, calls: 1"),
        "{replay:?}"
    );
    // What is otherwise is told with its line.
    let whole = workspace.read("s.jsonl");
    for (then, now) in [
        ("None.", "Some."),
        (
            "\"text\":\"Which projects?\"",
            "\"text\":\"What projects?\"",
        ),
    ] {
        assert!(whole.contains(then), "{whole}");
        workspace.write("s.jsonl", &whole.replacen(then, now, 1));
        let replay = workspace.run(["chat", "replay", "s.jsonl"]);
        assert_eq!(replay.code, Some(4), "{then}: {replay:?}");
        assert!(replay.out.starts_with("s.jsonl:"), "{replay:?}");
    }
    workspace.write("s.jsonl", &whole);
    let branch = workspace.run(["chat", "branch", "s.jsonl", "--turns", "1", "--json"]);
    let branch: Value = serde_json::from_str(&branch.out).unwrap();
    assert_eq!(branch["turns"], 1);
    let again = workspace.run(["chat", "branch", "s.jsonl"]);
    assert!(again.out.contains("starts with 2 turns"), "{again:?}");
    let listed = workspace.run(["chat", "sessions", "--limit", "1"]);
    assert_eq!(listed.out.lines().count(), 1, "{listed:?}");
    assert!(listed.err.contains("the last 1 of 2"), "{listed:?}");
}
