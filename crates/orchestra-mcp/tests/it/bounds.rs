//! What a client can make a server hold, and for how long.

use orchestra_mcp::Limits;
use serde_json::{Value, json};

use crate::memory::{self, Client};

#[tokio::test]
async fn whatever_a_call_that_waits_is_large_by_counts() {
    let limits = Limits {
        running: 1,
        queued_bytes: 64 * 1024,
        ..Limits::default()
    };
    let (server, _) = memory::server_with(limits);
    let mut client = Client::connect(&server);
    client.tool(0, "never").await;
    let large = "x".repeat(70_000);
    let call = |id: &Value, params: &Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    let small = json!({"name": "echo"});
    for (id, params) in [
        (json!(large), small),
        (json!(1), json!({"name": large})),
        (json!(2), json!({"name": "echo", "requestState": large})),
        (
            json!(3),
            json!({"name": "echo", "inputResponses": {"a": large}}),
        ),
        (
            json!(4),
            json!({"name": "echo", "_meta": {"progressToken": large}}),
        ),
        (json!(5), json!({"name": "echo", "arguments": {"a": large}})),
    ] {
        client.send(&call(&id, &params)).await;
        // Answered in any case.
        client
            .send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)
            .await;
        let refused = client.next().await.unwrap();
        assert_eq!(refused["id"], id);
        let text = refused["error"]["message"].as_str().unwrap();
        assert!(text.starts_with("busy"), "{text}");
        assert_eq!(client.next().await.unwrap()["id"], "p");
    }
}
