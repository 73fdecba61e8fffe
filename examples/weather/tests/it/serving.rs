//! The program over both transports and in both eras.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::fake::Fake;

/// Ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // What has ended already cannot be ended again.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program(base: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weather"));
    command.env("WEATHER_API_BASE", base);
    command
}

fn message(id: u32, method: &str, mut params: Value, revision: &str) -> String {
    if revision == "2026-07-28" {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// Sends each line and reads each answer, then closes the input and waits for the exit.
fn over_stdio(base: &str, lines: &[String]) -> Vec<Value> {
    let mut command = program(base);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut input = running.0.stdin.take().unwrap();
    let mut output = BufReader::new(running.0.stdout.take().unwrap());
    let mut answers = Vec::new();
    for line in lines {
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        answers.push(serde_json::from_str(&answer).unwrap());
    }
    drop(input);
    assert!(running.0.wait().unwrap().success());
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn both_eras_are_served_over_stdio() {
    let fake = Fake::start().await;
    fake.record("/alerts/active?area=CA", "alerts");
    let base = fake.base.clone();
    let told = tokio::task::spawn_blocking(move || {
        let hello = json!({
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let call = |state: &str| json!({"name": "get-alerts", "arguments": {"state": state}});
        over_stdio(
            &base,
            &[
                message(1, "initialize", hello, "2024-11-05"),
                message(2, "tools/list", json!({}), "2024-11-05"),
                message(3, "tools/call", call("CA"), "2024-11-05"),
                message(4, "tools/call", call("XX"), "2024-11-05"),
                message(5, "tools/list", json!({}), "2026-07-28"),
                message(6, "tools/call", call("CA"), "2026-07-28"),
                message(7, "tools/call", json!({"name": "get-tides"}), "2026-07-28"),
            ],
        )
    });
    let told = told.await.unwrap();
    assert_eq!(told[0]["result"]["protocolVersion"], "2024-11-05");
    let tool = &told[4]["result"]["tools"][0];
    assert_eq!(told[1]["result"]["tools"][0]["name"], "get-alerts");
    assert_eq!(told[1]["result"]["tools"][1]["name"], "get-forecast");
    assert_eq!(tool["description"], "Get weather alerts for a state");
    assert_eq!(tool["annotations"]["readOnlyHint"], true);
    assert_eq!(tool["annotations"]["openWorldHint"], true);
    assert_eq!(tool["outputSchema"]["required"][0], "state");
    for answer in [&told[2], &told[5]] {
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(
            text.starts_with("Active alerts for CA:\n\nEvent: Heat Advisory\n"),
            "{text}"
        );
    }
    assert_eq!(told[3]["error"]["code"], -32602);
    assert_eq!(told[6]["error"]["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_served_over_http() {
    let fake = Fake::start().await;
    fake.record("/alerts/active?area=CA", "alerts-none");
    let mut command = program(&fake.base);
    command
        .args(["--http", "127.0.0.1:0"])
        .stderr(Stdio::piped());
    let text = tokio::task::spawn_blocking(move || {
        let mut running = Running(command.spawn().unwrap());
        let mut url = String::new();
        let mut told = BufReader::new(running.0.stderr.take().unwrap());
        told.read_line(&mut url).unwrap();
        let site = url.trim().strip_prefix("http://").unwrap();
        let (address, path) = site.split_once('/').unwrap();
        let call = json!({"name": "get-alerts", "arguments": {"state": "CA"}});
        let body = message(1, "tools/call", call, "2026-07-28");
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!(
            "POST /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: get-alerts\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let text = text.await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.contains("No active alerts for CA"), "{text}");
}

#[test]
fn other_machines_are_not_served_and_a_bad_base_is_said() {
    for (base, arguments, part) in [
        ("http://127.0.0.1:1", vec!["--http", "0.0.0.0:0"], "0.0.0.0"),
        (
            "nowhere",
            vec![],
            "nowhere is not the http or https URL of a server",
        ),
    ] {
        let output = program(base)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(part), "{said}");
    }
}
