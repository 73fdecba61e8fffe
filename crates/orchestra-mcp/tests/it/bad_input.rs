//! What is not a good request gets the right error, and the stream goes on.

use crate::child::{INITIALIZE, Server};

const PING: &str = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":"p","result":{}}"#;
const CAP: usize = 10 * 1024 * 1024;

#[test]
fn every_bad_line_is_answered_and_the_stream_goes_on() {
    let mut server = Server::start("echo");
    let parse = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error: not a single JSON value"}}"#;
    let invalid = |id: &str, text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"message":"invalid request: {text}"}}}}"#
        )
    };
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let too_deep = parse.replace("not a single JSON value", "nested too deep");
    let no_id = invalid("null", "id must be a string or an integer");
    let no_version = invalid("1", r#"jsonrpc must be \"2.0\""#);
    for (line, expected) in [
        ("{oops", parse.to_owned()),
        ("[", parse.to_owned()),
        (deep.as_str(), too_deep),
        ("7", invalid("null", "not an object")),
        ("[]", invalid("null", "empty batch")),
        (r#"{"id":1,"method":"ping"}"#, no_version.clone()),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, no_version),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, no_id.clone()),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, no_id),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, invalid("null", "duplicate key id")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"x"}"#, invalid("1", "duplicate key method")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"some/unknown"}"#, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: some/unknown"}}"#.to_owned()),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"missing parameter name"}}"#.to_owned()),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}"#, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params: params must be an object"}}"#.to_owned()),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params: duplicate key name"}}"#.to_owned()),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[1]}}"#, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"parameter arguments must be an object"}}"#.to_owned()),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}}"#, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool: nope"}}"#.to_owned()),
    ] {
        server.check(line, &expected);
        server.check(PING, PONG);
    }
    server.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n");
    assert!(server.line().contains("-32700"));
    server.check(PING, PONG);
}

#[test]
fn blank_lines_line_ends_and_unknown_fields_are_tolerated() {
    let mut server = Server::start("echo");
    server.send_bytes(b"\n  \r\n\r\n");
    server.check(&format!("{PING}\r"), PONG);
    server.check(
        r#"{"extra":[1,{"x":null}],"jsonrpc":"2.0","id":"p","method":"ping","params":{"new":1,"_meta":{"a/b":2}}}"#,
        PONG,
    );
}

#[test]
fn null_stands_for_an_optional_member_that_is_absent() {
    let mut server = Server::start("everything");
    let mut result = |method: &str, params: &str| {
        let reply = server.call(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#
        ));
        assert!(reply.get("error").is_none(), "{method}: {reply}");
        reply
    };
    let null = r#""_meta":{"progressToken":null,"traceparent":null}"#;
    let hello = r#""protocolVersion":"2025-11-25","capabilities":null,"clientInfo":null"#;
    result("initialize", &format!("{hello},{null}"));
    result("ping", null);
    result("tools/list", &format!(r#""cursor":null,{null}"#));
    for method in ["tools/list", "prompts/list", "resources/list"] {
        result(method, r#""cursor":"""#);
    }
    let call = r#""name":"test_simple_text","arguments":null"#;
    result("tools/call", &format!("{call},{null}"));
    let prompt = r#""name":"test_prompt_with_arguments","arguments":{"arg1":"a","arg2":null}"#;
    let reply = result("prompts/get", &format!("{prompt},{null}"));
    let text = &reply["result"]["messages"][0]["content"]["text"];
    assert_eq!(text, "Prompt with arguments: arg1='a', arg2=''");
    let filter = r#""toolsListChanged":true,"promptsListChanged":null,"resourceSubscriptions":null,"taskIds":null"#;
    let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":null"#;
    let listen = format!(r#""notifications":{{{filter}}},"_meta":{{{meta}}}"#);
    let begun = result("subscriptions/listen", &listen);
    assert_eq!(begun["params"]["notifications"]["toolsListChanged"], true);
}

#[test]
fn ids_come_back_byte_for_byte() {
    let mut server = Server::start("echo");
    for id in [
        "0",
        "-7",
        "9007199254740993",
        "123456789012345678901234567890123456789",
        r#""\u00e9\n""#,
        "\"é😀\"",
        "\"\"",
    ] {
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        server.check(
            &request,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#),
        );
    }
}

#[test]
fn notifications_are_never_answered() {
    let mut server = Server::start("everything");
    for method in orchestra_wire::Method::ALL {
        server.send(&format!(
            r#"{{"jsonrpc":"2.0","method":"{}","params":{{}}}}"#,
            method.name()
        ));
    }
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#);
    server.send(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"test_simple_text"}}"#);
    server.send(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#);
    server.send(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#);
    server.check(PING, PONG);
}

#[test]
fn requests_are_served_before_initialize() {
    let mut server = Server::start("echo");
    let reply = server.call(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"early"}}}"#,
    );
    assert_eq!(reply["result"]["content"][0]["text"], "early");
}

#[test]
fn a_line_over_the_cap_is_refused_and_the_stream_goes_on() {
    let mut server = Server::start("echo");
    server.send(INITIALIZE);
    server.line();
    let mut line = vec![b'x'; CAP + 1];
    line.push(b'\n');
    server.send_bytes(&line);
    let refused = format!(
        r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32600,"message":"invalid request: a line may have at most {CAP} bytes"}}}}"#
    );
    assert_eq!(server.line(), refused);
    server.check(PING, PONG);
    // Exactly the cap passes.
    let frame = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":""}}}"#;
    let text = "y".repeat(CAP - frame.len());
    let request = frame.replace(r#""text":"""#, &format!(r#""text":"{text}""#));
    assert_eq!(request.len(), CAP);
    let reply = server.call(&request);
    assert_eq!(
        reply["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .len(),
        text.len()
    );
}

#[test]
fn a_line_of_100_mib_is_skipped_in_bounded_memory() {
    let mut server = Server::start("echo");
    server.check(PING, PONG);
    let chunk = vec![b'z'; 1024 * 1024];
    for _ in 0..100 {
        server.send_bytes(&chunk);
    }
    server.send_bytes(b"\n");
    assert!(server.line().contains("-32600"));
    server.check(PING, PONG);
    if let Some(peak) = server.peak_kib() {
        assert!(peak < 40 * 1024, "peak resident {peak} KiB");
    }
}

#[test]
fn a_batch_of_too_many_items_is_refused_in_bounded_memory() {
    for (revision, why) in [("2025-11-25", "revision"), ("2025-03-26", "1024 items")] {
        let mut server = Server::session("echo", revision, "{}");
        let mut batch = b"[1".to_vec();
        batch.extend_from_slice(&b",1".repeat(5 * 1000 * 1000));
        batch.extend_from_slice(b"]\n");
        server.send_bytes(&batch);
        let refused = server.reply();
        assert_eq!(refused["error"]["code"], -32600);
        let text = refused["error"]["message"].as_str().unwrap();
        assert!(text.contains(why), "{text}");
        server.check(PING, PONG);
        if let Some(peak) = server.peak_kib() {
            assert!(peak < 50 * 1024, "peak resident {peak} KiB");
        }
    }
}

#[test]
fn descriptors_that_do_not_block_are_waited_for() {
    let mut server = Server::start_non_blocking("everything");
    server.check(PING, PONG);
    // More than the socket takes at once, from the reading thread and from a task.
    for id in 0..4 {
        let call = |tool: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"bytes":3000000}}}}}}"#
            )
        };
        let reply = server.call(&call("test_large"));
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(text.len(), 3_000_000);
        server.check(PING, PONG);
    }
    server.close_input();
    assert!(server.exit().success());
}
