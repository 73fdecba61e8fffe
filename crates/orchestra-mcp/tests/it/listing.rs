//! Lists: their order, their pages.

use std::{collections::HashSet, num::NonZeroUsize};

use orchestra_mcp::{Limits, post::Post};
use serde_json::Value;

use crate::{child::Server, memory};

#[test]
fn lists_are_the_same_every_time_and_whole() {
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let mut first = Server::start("everything");
    let mut second = Server::start("everything");
    first.send(list);
    let lines = first.line();
    for _ in 0..20 {
        first.check(list, &lines);
    }
    second.check(list, &lines);
    let reply: Value = serde_json::from_str(&lines).unwrap();
    assert!(reply["result"]["tools"].as_array().unwrap().len() > 30);
    assert!(reply["result"].get("nextCursor").is_none());
}

#[test]
fn what_a_tool_shows_depends_on_the_revision() {
    let find = |revision| {
        let mut server = Server::session("everything", revision, "{}");
        let reply = server.call(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        let tools = reply["result"]["tools"].as_array().unwrap().clone();
        let mut tool = tools
            .into_iter()
            .find(|tool| tool["name"] == "test_structured")
            .unwrap();
        let mut keys: Vec<String> = tool.as_object_mut().unwrap().keys().cloned().collect();
        keys.sort();
        keys.join(" ")
    };
    assert_eq!(find("2024-11-05"), "description inputSchema name");
    assert_eq!(
        find("2025-03-26"),
        "annotations description inputSchema name"
    );
    assert_eq!(
        find("2025-06-18"),
        "annotations description inputSchema name outputSchema"
    );
    assert_eq!(
        find("2025-11-25"),
        "annotations description inputSchema name outputSchema"
    );
}

#[tokio::test]
async fn cursors_lead_through_all_pages() {
    let limits = Limits {
        page: NonZeroUsize::new(3).unwrap(),
        ..Limits::default()
    };
    let post = Post::new(&memory::server(limits), "test");
    let mut names = HashSet::new();
    let mut cursor = Value::Null;
    for page in 0.. {
        let request = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": cursor}});
        let reply = memory::post(&post, &request).await.unwrap();
        for tool in reply["result"]["tools"].as_array().unwrap() {
            assert!(names.insert(tool["name"].as_str().unwrap().to_owned()));
        }
        assert!(page < 10);
        match reply["result"].get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    assert_eq!(names.len(), memory::TOOLS);
    let request = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "made up"}});
    assert_eq!(
        memory::post(&post, &request).await.unwrap()["error"]["code"],
        -32602
    );
}
