//! What the program answers to lines on stdin: the messages, errors and bounds of document 000,
//! and the scenario of JSON-RPC.

use serde_json::{Value, json};

use crate::support::{Running, Session, Workspace, post, post_to, said};

/// The longest line that is read, its line break left aside (10 MiB, document 000).
const LINE_BYTES: usize = 10 * 1024 * 1024;

/// Everything that `orchestra stdio` answers to an input that ends.
fn answers(workspace: &Workspace, input: &str) -> Vec<String> {
    let said = said(workspace.command(["stdio"]), input);
    assert_eq!(said.code, Some(0), "{said:?}");
    said.out.lines().map(str::to_owned).collect()
}

/// Its answer to one line.
fn answer(input: &str) -> Value {
    let answers = answers(&Workspace::git(), &format!("{input}\n"));
    assert_eq!(answers.len(), 1, "{input:.200}: {answers:?}");
    serde_json::from_str(&answers[0]).unwrap()
}

fn hello(revision: &str) -> String {
    let client = json!({"name": "t", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}

/// The three lines that document 000 shows, and its ping.
#[test]
fn the_messages_of_document_000_are_understood() {
    let workspace = Workspace::git();
    let input = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"create_project","arguments":{"name":"My App"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#,
        "\n",
    );
    let lines = answers(&workspace, input);
    assert_eq!(lines.len(), 4, "one answer a line: {lines:?}");
    let ping = r#"{"jsonrpc":"2.0","id":4,"result":{}}"#;
    assert!(lines.iter().any(|line| line == ping), "{lines:?}");
    let mut answers: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let hello = &answers[0]["result"];
    assert_eq!(hello["protocolVersion"], "2024-11-05");
    assert!(hello["capabilities"]["tools"].is_object(), "{hello}");
    assert_eq!(
        hello["serverInfo"],
        json!({"name": "orchestra", "version": "1.0.0"})
    );
    let tools = answers[1]["result"]["tools"].as_array().unwrap();
    assert!(answers[1]["result"]["nextCursor"].is_null());
    let create = tools
        .iter()
        .find(|tool| tool["name"] == "create_project")
        .unwrap();
    assert!(create["description"].is_string());
    assert_eq!(create["inputSchema"]["type"], "object");
    let made = &answers[2]["result"];
    assert_eq!(made["content"][0]["type"], "text");
    let text = made["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("my-app"), "{text}");
}

#[test]
fn an_unknown_method_is_named() {
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"some/unknown"}"#;
    let expected = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: some/unknown"}}"#;
    assert_eq!(
        answers(&Workspace::git(), &format!("{line}\n")),
        [expected.to_owned()]
    );
}

#[test]
fn a_tool_that_refuses_answers_with_a_result() {
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_project_status","arguments":{"project":"none"}}}"#;
    let answer = answer(line);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let content = &answer["result"]["content"];
    assert_eq!(content[0]["type"], "text");
    assert!(
        content[0]["text"].as_str().unwrap().contains("none"),
        "{answer}"
    );
}

#[test]
fn scenario_14_each_fault_has_its_code() {
    let cases = [
        ("{", -32700, json!(null)),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,", -32700, json!(null)),
        ("no json", -32700, json!(null)),
        ("17", -32600, json!(null)),
        ("\"text\"", -32600, json!(null)),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            -32600,
            json!(1),
        ),
        (r#"{"id":1,"method":"ping"}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, json!(1)),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"nope"}"#,
            -32601,
            json!(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
            -32602,
            json!(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#,
            -32602,
            json!(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no_such_tool"}}"#,
            -32602,
            json!(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{}}"#,
            -32602,
            json!(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"no_such_prompt"}}"#,
            -32602,
            json!(1),
        ),
    ];
    for (line, code, id) in cases {
        let answer = answer(line);
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        assert_eq!(answer["id"], id, "{line}: {answer}");
        assert!(
            answer.as_object().unwrap().contains_key("id"),
            "{line}: {answer}"
        );
    }
}

/// The earlier program was silent after a parse error, and answered unknown notifications.
#[test]
fn w23_faults_are_answered_and_notifications_never() {
    let mut input = String::from("{\n\n   \n");
    for method in [
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/roots/list_changed",
        "notifications/progress",
        "notifications/unheard_of",
        "unheard_of",
        "tools/list",
    ] {
        for params in ["", ",\"params\":{}", ",\"params\":{\"requestId\":5}"] {
            input.push_str(&format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"{params}}}\n"
            ));
        }
    }
    input.push_str(&hello("2025-03-26"));
    input.push_str("\n[{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"method\":\"unheard_of\"}]\n");
    let lines = answers(&Workspace::git(), &input);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].contains("-32700") && lines[0].contains("\"id\":null"));
    assert!(lines[1].contains("\"protocolVersion\":\"2025-03-26\""));
    let batch: Value = serde_json::from_str(&lines[2]).unwrap();
    assert_eq!(batch, json!([{"jsonrpc": "2.0", "id": 2, "result": {}}]));
}

/// The earlier program ended at a line that was too long, with code 0 and no word.
#[test]
fn w24_an_overlong_line_is_answered_and_the_stream_goes_on() {
    let ping = |id: u8, bytes: usize| {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"");
        format!("{line}{}}}\n", " ".repeat(bytes - line.len() - 1))
    };
    let longest = ping(1, LINE_BYTES);
    let too_long = ping(2, LINE_BYTES + 1);
    let far_too_long = format!("{}\n", "x".repeat(3 * LINE_BYTES));
    let input = [longest, too_long, far_too_long, ping(3, 100)].concat();
    let lines = answers(&Workspace::git(), &input);
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[0], r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    for line in &lines[1..3] {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(null), &json!(-32600))
        );
    }
    assert_eq!(lines[3], r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
}

/// The earlier program sent its tools in another order each time.
#[test]
fn w25_tools_are_listed_byte_for_byte_the_same() {
    let list = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
    let workspace = Workspace::git();
    let first = answers(&workspace, &list.repeat(3));
    assert_eq!((&first[0], &first[1]), (&first[1], &first[2]));
    assert_eq!(answers(&workspace, list)[0], first[0]);
}

/// The earlier program knew one revision and nothing beside tools, prompts and resources.
#[test]
fn w37_revisions_are_negotiated_and_the_rest_of_mcp_is_there() {
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        assert_eq!(
            answer(&hello(asked))["result"]["protocolVersion"],
            given,
            "{asked}"
        );
    }
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let discover =
        json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}});
    let found = answer(&discover.to_string());
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    let request = |method: &str, params: Value| {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        answer(&line.to_string())["result"].clone()
    };
    let templates = request("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 3);
    assert_eq!(
        request("prompts/list", json!({}))["prompts"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        request("logging/setLevel", json!({"level": "debug"})),
        json!({})
    );
    let reference = json!({"type": "ref/prompt", "name": "plan_sprint"});
    let argument = json!({"name": "project", "value": ""});
    let completed = request(
        "completion/complete",
        json!({"ref": reference, "argument": argument}),
    );
    assert!(completed["completion"]["values"].is_array(), "{completed}");
}

/// The earlier program read ids as doubles and did not look at `jsonrpc`.
#[test]
fn w38_ids_come_back_exactly() {
    let ids = [
        "0",
        "-7",
        "9007199254740993",
        "18446744073709551615",
        "123456789012345678901234567890",
        "\"\"",
        "\"1\"",
        "\"Ω 🚀\"",
    ];
    let mut input = String::new();
    for id in ids {
        input.push_str(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n"
        ));
    }
    let lines = answers(&Workspace::git(), &input);
    for (line, id) in lines.iter().zip(ids) {
        assert_eq!(
            *line,
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}")
        );
    }
    assert_eq!(lines.len(), ids.len());
}

/// The earlier program checked arguments on stdio and not over REST; here one dispatch serves all.
#[test]
fn w13_arguments_are_checked_alike_through_every_face() {
    let workspace = Workspace::git();
    for (tool, arguments) in [
        ("create_epic", json!({"project": "my-app"})),
        (
            "create_task",
            json!({"project": "my-app", "story_id": "MA-2", "title": "T", "type": "banana"}),
        ),
        ("list_epics", json!({"project": "../.."})),
        ("record_usage", json!({"input_tokens": "many"})),
    ] {
        let params = json!({"name": tool, "arguments": arguments});
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let over_stdio: Value =
            serde_json::from_str(&answers(&workspace, &format!("{line}\n"))[0]).unwrap();
        assert_eq!(over_stdio["result"]["isError"], true, "{over_stdio}");

        let up = Running::start(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
        let ready = up.json();
        let address = ready["http"].as_str().unwrap().replace("http://", "");
        assert_eq!(post(&address, &[], &line.to_string()).json(), over_stdio);
        let over_rest = post_to(&address, "/api/mcp/tools/call", &[], &params.to_string());
        assert_eq!(over_rest.json(), over_stdio["result"]);
        drop(up);

        let shell = workspace.run(["tool", "call", tool, "--args", &arguments.to_string()]);
        let text = over_stdio["result"]["content"][0]["text"].as_str().unwrap();
        assert!(shell.err.contains(text), "{shell:?} does not say {text}");
        assert_ne!(shell.code, Some(0));
    }
}

/// Two windows of an editor, each with a server of its own: no port to fight for, one board.
#[test]
fn two_servers_share_one_board_at_once() {
    let workspace = Workspace::git();
    let mut one = Session::start(workspace.command(["stdio"]));
    let mut other = Session::start(workspace.command(["stdio"]));
    one.ok("create_project", &json!({"name": "My App"}));
    let epic = json!({"project": "my-app", "title": "From the other"});
    assert_eq!(other.ok("create_epic", &epic)["id"], "MA-1");
    let seen = one.ok("list_epics", &json!({"project": "my-app"}));
    assert_eq!(seen["items"][0]["title"], "From the other");
}

/// What keeps a server from starting is said on stderr; stdout belongs to the protocol.
#[test]
fn scenario_12_a_corrupt_store_is_said_on_stderr_and_left_alone() {
    let workspace = Workspace::git();
    workspace.call("create_project", &json!({"name": "My App"}));
    let database = workspace.database();
    let corrupt = "this is no database at all\n".repeat(500);
    for aside in ["-wal", "-shm"] {
        // They are gone when the last process has closed the database in good order.
        let _ = std::fs::remove_file(format!("{}{aside}", database.display()));
    }
    std::fs::write(&database, &corrupt).unwrap();
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let said = said(workspace.command(["stdio"]), ping);
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
    assert!(said.err.contains("orchestra doctor --fix"), "{said:?}");
    assert_eq!(std::fs::read_to_string(database).unwrap(), corrupt);
}
