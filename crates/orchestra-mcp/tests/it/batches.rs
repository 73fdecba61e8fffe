//! Batches, where the revision has them.

use serde_json::{Value, json};

use crate::child::Server;

#[test]
fn a_batch_is_answered_by_one_array() {
    for revision in ["2024-11-05", "2025-03-26"] {
        let mut server = Server::session("everything", revision, "{}");
        let reply = server.call(
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},3,{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_slow","arguments":{"milliseconds":20}}},{"jsonrpc":"2.0","id":3,"method":"nope"},{"jsonrpc":"2.0","id":4,"method":"initialize"}]"#,
        );
        let mut ids: Vec<Value> = reply
            .as_array()
            .unwrap()
            .iter()
            .map(|reply| reply["id"].clone())
            .collect();
        ids.sort_by_key(Value::to_string);
        assert_eq!(ids, [json!(1), json!(2), json!(3), json!(4), Value::Null]);
        // Nothing to answer, nothing answered.
        server.send(r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#);
        assert_eq!(server.call("[]")["error"]["code"], -32600);
    }
}

#[test]
fn a_cancelled_item_does_not_hold_up_its_batch() {
    let mut server = Server::session("everything", "2025-03-26", "{}");
    server.send(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_slow","arguments":{"milliseconds":600000}}}]"#);
    let reply = server
        .call(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    assert_eq!(reply, json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]));
    let reply = server.call(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_slow","arguments":{"milliseconds":600000}}},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}]"#);
    assert_eq!(reply, json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]));
}

#[test]
fn later_revisions_have_no_batches() {
    let mut server = Server::session("everything", "2025-06-18", "{}");
    let reply = server.call(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#);
    assert_eq!(reply["error"]["code"], -32600);
    assert_eq!(reply["id"], 1);
    let reply = server.call(r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#);
    assert_eq!(reply["error"]["code"], -32600);
    assert_eq!(reply["id"], Value::Null);
}

#[test]
fn each_request_of_a_batch_before_initialize_is_answered() {
    let mut server = Server::start("everything");
    let reply = server.call(
        r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":[],"clientInfo":{"name":"t","version":"1"}}},{"jsonrpc":"2.0","id":2.0,"method":"ping"}]"#,
    );
    assert_eq!(reply[0]["id"], 1);
    assert_eq!(reply[0]["error"]["code"], -32600);
    assert_eq!(reply[1], json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
}

#[test]
fn answers_that_are_too_large_together_are_refused_one_by_one() {
    let mut server = Server::session("everything", "2025-03-26", "{}");
    let call = |id: usize| {
        let params = json!({"name": "test_large", "arguments": {"bytes": 7_000_000}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let batch: Vec<Value> = (1..5).map(call).collect();
    let reply = server.call(&json!(batch).to_string());
    let mut answers = reply.as_array().unwrap().clone();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let ids: Vec<_> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [1, 2, 3, 4]);
    let refused = |answer: &&Value| answer["error"].to_string().contains("result_too_large");
    assert_eq!(answers.iter().filter(refused).count(), 2);
}
