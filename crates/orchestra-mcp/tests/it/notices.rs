//! Progress, log messages, subscriptions and streams of notifications.

use serde_json::{Value, json};

use crate::child::Server;

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

fn call(tool: &str, meta: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","_meta":{{{meta}}}}}}}"#
    )
}

/// All messages up to the reply to request 1, which is the last.
fn until_reply(server: &mut Server, line: &str) -> Vec<Value> {
    let mut messages = vec![server.call(line)];
    while messages.last().unwrap()["id"] != 1 {
        messages.push(server.reply());
    }
    messages
}

#[test]
fn progress_comes_before_the_reply_to_those_who_asked() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    let messages = until_reply(
        &mut server,
        &call("test_tool_with_progress", r#""progressToken":"t""#),
    );
    let steps: Vec<&Value> = messages
        .iter()
        .map(|message| &message["params"]["progress"])
        .collect();
    assert_eq!(steps, [&json!(0), &json!(50), &json!(100), &Value::Null]);
    assert_eq!(messages[0]["params"]["progressToken"], "t");
    assert_eq!(
        until_reply(&mut server, &call("test_tool_with_progress", "")).len(),
        1
    );
}

#[test]
fn a_session_sets_its_log_level() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    assert_eq!(
        until_reply(&mut server, &call("test_tool_with_logging", "")).len(),
        4
    );
    server
        .call(r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}}"#);
    assert_eq!(
        until_reply(&mut server, &call("test_tool_with_logging", "")).len(),
        1
    );
    assert_eq!(
        until_reply(&mut server, &call("test_logging_tool", ""))[0]["params"]["level"],
        "emergency"
    );
}

#[test]
fn a_stateless_request_gets_logs_only_when_it_asks() {
    let mut server = Server::start("everything");
    assert_eq!(
        until_reply(&mut server, &call("test_tool_with_logging", META)).len(),
        1
    );
    let level = format!(r#"{META},"io.modelcontextprotocol/logLevel":"info""#);
    assert_eq!(
        until_reply(&mut server, &call("test_tool_with_logging", &level)).len(),
        4
    );
}

#[test]
fn a_session_hears_of_changes_it_subscribed_to() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    let update = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_update_resource"}}"#;
    let subscribe = r#"{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"test://watched-resource"}}"#;
    assert_eq!(server.call(subscribe)["result"], json!({}));
    let both = [server.call(update), server.reply()];
    let updated = both
        .iter()
        .find(|message| message.get("method").is_some())
        .unwrap();
    assert_eq!(
        *updated,
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "test://watched-resource"}})
    );
    server.call(&subscribe.replace("subscribe", "unsubscribe"));
    assert_eq!(server.call(update)["id"], 1);
    let both = [
        server.call(&call("test_trigger_tool_change", "")),
        server.reply(),
    ];
    assert!(
        both.iter()
            .any(|message| message["method"] == "notifications/tools/list_changed")
    );
}

#[test]
fn a_stream_is_acknowledged_tagged_and_ended_in_good_order() {
    let mut server = Server::start("everything");
    let listen = format!(
        r#"{{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true,"resourceSubscriptions":["test://watched-resource"]}},"_meta":{{{META}}}}}}}"#
    );
    let acknowledged = server.call(&listen);
    assert_eq!(
        acknowledged,
        json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "_meta": {"io.modelcontextprotocol/subscriptionId": "L"},
            "notifications": {"toolsListChanged": true, "resourceSubscriptions": ["test://watched-resource"]}
        }})
    );
    for tool in [
        "test_update_resource",
        "test_trigger_tool_change",
        "test_trigger_prompt_change",
    ] {
        server.send(&call(tool, META));
    }
    let mut tagged = Vec::new();
    let mut replies = 0;
    while replies < 3 || tagged.len() < 2 {
        let message = server.reply();
        match message["method"].as_str() {
            Some(method) => {
                let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
                assert_eq!(id, "L");
                tagged.push(method.to_owned());
            }
            None => replies += 1,
        }
    }
    tagged.sort();
    assert_eq!(
        tagged,
        [
            "notifications/resources/updated",
            "notifications/tools/list_changed"
        ]
    );
    server.close_input();
    let rest: Vec<Value> = server
        .rest()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rest.len(), 2, "{rest:?}");
    // Its end is announced while it is still open.
    assert_eq!(rest[0]["method"], "notifications/cancelled");
    assert_eq!(rest[0]["params"]["requestId"], "L");
    assert_eq!(rest[1]["id"], "L");
    assert_eq!(rest[1]["result"]["resultType"], "complete");
    for meta in [&rest[0]["params"]["_meta"], &rest[1]["result"]["_meta"]] {
        assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], "L");
    }
}

#[test]
fn a_cancelled_stream_is_silent() {
    let mut server = Server::start("everything");
    let listen = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true}},"_meta":{{{META}}}}}}}"#
    );
    server.call(&listen);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
    assert_eq!(
        server.call(&call("test_trigger_tool_change", META))["id"],
        1
    );
    server.close_input();
    assert_eq!(server.rest(), [""; 0]);
}

#[test]
fn only_a_resource_that_is_offered_can_be_watched() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    let subscribe = |uri: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}})
            .to_string()
    };
    let long = format!("test://template/{}/data", "x".repeat(100_000));
    for (uri, code) in [
        ("nonsense", -32002),
        ("test://nope", -32002),
        (&long, -32602),
    ] {
        let refused = server.call(&subscribe(uri));
        assert_eq!(refused["error"]["code"], code, "{uri:.50}");
        assert!(refused.to_string().len() < 1_000);
    }
    let offered = ["test://watched-resource", "test://template/1/data"];
    for uri in offered {
        assert_eq!(server.call(&subscribe(uri))["result"], json!({}));
    }
    let listen = |uris: &[&str]| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{{"notifications":{{"resourceSubscriptions":{}}},"_meta":{{{META}}}}}}}"#,
            json!(uris)
        )
    };
    let refused = server.call(&listen(&["test://watched-resource"; 1_001]));
    assert_eq!(refused["error"]["code"], -32602);
    let acknowledged = server.call(&listen(&["nonsense", offered[0], &long, offered[1]]));
    assert_eq!(
        acknowledged["params"]["notifications"]["resourceSubscriptions"],
        json!(offered)
    );
}
