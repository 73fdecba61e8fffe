//! The example that nests Orchestra in a web program of its own, as README starts it.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::site::Client;

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

/// Ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // What has ended already cannot be ended again.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_its_own_serves_its_own_tools() {
    // Cargo builds examples beside the directory of this test.
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples/embed");
    let mut command = Command::new(example);
    let command = command.arg("127.0.0.1:0").stdout(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut line = String::new();
    let said = running.0.stdout.take().unwrap();
    BufReader::new(said).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").unwrap();
    let address = address.strip_suffix('/').unwrap().parse().unwrap();

    let mut client = Client::connect(address).await;
    let page = client.send("GET /", &[], "").await;
    assert!(String::from_utf8(page.body).unwrap().contains("visitor 1"));
    let call = json!({"name": "count_visits", "arguments": {"add": 1}}).to_string();
    let answer = client
        .send("POST /agents/api/mcp/tools/call", &JSON, &call)
        .await;
    assert_eq!(answer.json()["content"][0]["text"], "2");
    let call = json!({"name": "count_visits"}).to_string();
    let answer = client
        .send("POST /agents/api/mcp/tools/call", &JSON, &call)
        .await;
    assert_eq!(answer.json()["isError"], true);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let answer = client.send("POST /agents/mcp", &JSON, &list).await.json();
    assert_eq!(answer["result"]["tools"][0]["name"], "count_visits");
    let health: Value = client.send("GET /agents/health", &[], "").await.json();
    assert_eq!(health["plugins"], 1);
    assert_eq!(client.send("GET /health", &[], "").await.status, 404);
}
