//! Calls whose headers their server refuses, because it wants others by now.

use std::sync::{Arc, atomic::Ordering};

use orchestra_gateway::config::Pins;
use orchestra_wire::{ErrorCode, RpcError};
use serde_json::{Value, json};

use crate::played::{Bench, Played, on_the_network, said, text, tool};

/// A tool whose argument `region` is wanted in a header of this name.
fn mirroring(header: &str) -> Value {
    let mut tool = tool("query");
    tool["inputSchema"] = json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": header}},
    });
    tool
}

/// A server that takes calls with one header alone.
fn strict(tools: Vec<Value>, wanted: &'static str) -> Arc<Played> {
    let server = Played::new(tools);
    let says = Arc::downgrade(&server);
    server.say(move |_, _| {
        let server = says.upgrade().unwrap();
        let headers = server.headers.lock().unwrap().clone();
        match headers.iter().any(|(name, _)| name == wanted) {
            true => said("it ran"),
            false => Err(RpcError::new(ErrorCode::HEADER_MISMATCH, "another header")),
        }
    });
    server
}

#[tokio::test]
async fn a_server_that_wants_other_headers_is_asked_which_once() {
    let server = strict(vec![tool("query")], "Mcp-Param-Region");
    let bench = Bench::new(&[("s", &server)]);
    let mut config = on_the_network("s");
    config.pins = Pins::Follow;
    bench.gateway.apply(vec![config]);
    assert_eq!(bench.tools().await, ["s__query"]);
    let listed = server.lists.load(Ordering::SeqCst);
    // It changes its tool and tells nobody.
    *server.tools.lock().unwrap() = vec![mirroring("Region")];
    let arguments = json!({"region": "us-west1"});
    let (told, is_error) = text(bench.call("s__query", arguments.clone()).await);
    assert!(!is_error && told == "it ran", "{told}");
    assert_eq!(server.heard("tools/call").len(), 2);
    assert_eq!(server.lists.load(Ordering::SeqCst), listed + 1);
    let expected = ("Mcp-Param-Region".to_owned(), "us-west1".to_owned());
    assert_eq!(*server.headers.lock().unwrap(), [expected]);
    // From now on it is known.
    bench.call("s__query", arguments).await;
    assert_eq!(server.heard("tools/call").len(), 3);
    assert_eq!(server.lists.load(Ordering::SeqCst), listed + 1);
}

#[tokio::test]
async fn where_nothing_changed_the_refusal_is_told() {
    let server = strict(vec![mirroring("Region")], "Mcp-Param-Never");
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![on_the_network("s")]);
    bench.tools().await;
    let error = bench.try_call("s__query", json!({"region": "x"})).await;
    let told = format!("{error:?}");
    assert!(told.contains("another header"), "{told}");
    assert_eq!(server.heard("tools/call").len(), 1, "it is not repeated");
}

#[tokio::test]
async fn a_tool_that_changed_is_not_called_before_that_is_approved() {
    let server = strict(vec![tool("query")], "Mcp-Param-Region");
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![on_the_network("s")]);
    bench.tools().await;
    *server.tools.lock().unwrap() = vec![mirroring("Region")];
    let (told, is_error) = text(bench.call("s__query", json!({"region": "x"})).await);
    assert!(
        is_error && told.contains("nothing ran") && told.contains("orchestra mcp approve"),
        "{told}"
    );
    assert_eq!(server.heard("tools/call").len(), 1);
}
