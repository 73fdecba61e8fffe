//! `orchestra mcp replay`: a recording said again.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::support::Workspace;

const PROGRAM: &str = env!("CARGO_BIN_EXE_orchestra");

/// A session with our own program, recorded.
fn record(workspace: &Workspace, options: &[&str]) {
    let mut words = vec![
        "mcp",
        "tap",
        "--file",
        "tap.jsonl",
        "--mask",
        "secret",
        "--",
        PROGRAM,
        "stdio",
    ];
    words.extend(options);
    let mut child = workspace
        .command(words)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let call = |name: &str| json!({"name": name, "arguments": {}});
    for (id, method, params) in [
        (json!(1), "initialize", hello),
        (Value::Null, "notifications/initialized", json!({})),
        (json!("two"), "tools/list", json!({})),
        (json!(3), "tools/call", call("list_projects")),
        (json!(4), "no/such/method", json!({})),
        (
            json!(5),
            "tools/call",
            json!({"name": "list_projects", "secret": "planted"}),
        ),
    ] {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if !id.is_null() {
            message["id"] = id.clone();
        }
        input.write_all(format!("{message}\n").as_bytes()).unwrap();
        if !id.is_null() {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert!(line.contains("\"id\""), "{line}");
        }
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_server_that_is_the_same_answers_alike_and_another_one_differs() {
    let workspace = Workspace::board();
    record(&workspace, &[]);
    assert!(!workspace.read("tap.jsonl").contains("planted"));
    let said = workspace.run(["mcp", "replay", "tap.jsonl", "--", PROGRAM, "stdio"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let (told, which) = said.out.split_once("  line ").unwrap();
    assert_eq!(
        told,
        "4 requests: 4 answered alike, 0 differ\n1 message cannot be replayed\n"
    );
    let which = which.trim_start_matches(|c: char| c.is_ascii_digit());
    let why = ", tools/call: it holds a secret, which is masked in the recording\n";
    assert_eq!(which, why);

    let other = [
        "mcp",
        "replay",
        "tap.jsonl",
        "--json",
        "--",
        PROGRAM,
        "stdio",
        "--tools",
        "lean",
    ];
    let said = workspace.run(other);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&answer["requests"], &answer["same"]),
        (&json!(4), &json!(3))
    );
    assert_eq!(answer["differences"][0]["id"], "two");
    let place = answer["differences"][0]["changes"][0]["at"]
        .as_str()
        .unwrap();
    assert!(place.starts_with("/result/tools/"), "{place}");

    let ignored = [
        "mcp",
        "replay",
        "tap.jsonl",
        "--ignore",
        "/result/tools",
        "--",
        PROGRAM,
        "stdio",
        "--tools",
        "lean",
    ];
    assert_eq!(workspace.run(ignored).code, Some(0));
}

#[test]
fn what_cannot_be_said_again_is_told() {
    let workspace = Workspace::board();
    let said = workspace.run(["mcp", "replay", "none.jsonl", "--", PROGRAM, "stdio"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("opening none.jsonl"), "{}", said.err);
    let said = workspace.run(["mcp", "replay", "none.jsonl"]);
    assert_eq!(said.code, Some(2));
    for way in ["--server NAME", "--url URL", "-- COMMAND"] {
        assert!(said.err.contains(way), "{}", said.err);
    }
    record(&workspace, &[]);
    let said = workspace.run(["mcp", "replay", "tap.jsonl", "--", "no-such-server"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("no-such-server"), "{}", said.err);
    // A server that ends at once.
    let said = workspace.run(["mcp", "replay", "tap.jsonl", "--", "true"]);
    assert_eq!(said.code, Some(1));
    assert!(said.out.contains("4 differ"), "{}", said.out);
}
