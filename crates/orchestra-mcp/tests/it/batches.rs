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
    assert_eq!(reply["id"], Value::Null);
}
