//! Negotiation, and both eras on one stream.

use serde_json::json;

use crate::child::Server;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

#[test]
fn initialize_keeps_a_known_revision_and_offers_the_newest_otherwise() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut server = Server::start("everything");
        let reply = server.call(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{asked}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#));
        let result = &reply["result"];
        assert_eq!(result["protocolVersion"], answered, "{asked}");
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(
            result["capabilities"]["resources"],
            json!({"subscribe": true, "listChanged": true})
        );
        let has_completions = result["capabilities"].get("completions").is_some();
        assert_eq!(has_completions, answered != "2024-11-05");
        assert!(result.get("resultType").is_none());
    }
    let mut server = Server::start("everything");
    let reply = server.call(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#);
    assert_eq!(reply["error"]["code"], -32602);
}

#[test]
fn a_stateless_request_describes_itself_and_so_does_its_result() {
    // Both eras live on one stream.
    let mut server = Server::session("everything", "2025-06-18", "{}");
    let reply = server.call(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{{META}}}}}"#
    ));
    let result = &reply["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "everything"
    );
    assert!(result["ttlMs"].is_u64() && result["cacheScope"] == "private");
    for (method, params, key) in [
        ("tools/list", "", "tools"),
        ("prompts/list", "", "prompts"),
        ("resources/list", "", "resources"),
        ("resources/templates/list", "", "resourceTemplates"),
        (
            "resources/read",
            r#""uri":"test://static-text","#,
            "contents",
        ),
    ] {
        let reply = server.call(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}{META}}}}}"#
        ));
        let result = &reply["result"];
        assert_eq!(result["resultType"], "complete", "{method}");
        assert!(
            result["ttlMs"].is_u64() && result["cacheScope"].is_string(),
            "{method}"
        );
        assert!(result[key].is_array(), "{method}");
    }
    let reply = server.call(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"test_structured",{META}}}}}"#));
    assert_eq!(reply["result"]["structuredContent"], json!({"answer": 42}));
    assert!(reply["result"].get("ttlMs").is_none());
    let reply = server.call(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    assert!(reply["result"].get("resultType").is_none());
}

#[test]
fn each_era_has_its_own_methods_and_errors() {
    let mut server = Server::start("everything");
    let mut code = |method: &str, params: &str| {
        let reply = server.call(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#
        ));
        reply["error"]["code"].as_i64()
    };
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    ] {
        assert_eq!(code(method, META), Some(-32601), "{method}");
    }
    assert_eq!(code("server/discover", ""), Some(-32602));
    assert_eq!(
        code("subscriptions/listen", r#""notifications":{}"#),
        Some(-32602)
    );
    let missing = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    assert_eq!(code("tools/list", missing), Some(-32602));
    for version in ["2025-11-25", "2030-01-01"] {
        let meta = META.replace("2026-07-28", version);
        assert_eq!(code("tools/list", &meta), Some(-32022), "{version}");
    }
    let level = META.replace(
        r#""_meta":{"#,
        r#""_meta":{"io.modelcontextprotocol/logLevel":"loud","#,
    );
    assert_eq!(code("tools/list", &level), Some(-32602));
    let unknown = r#""uri":"test://template/a/b/c""#;
    assert_eq!(code("resources/read", unknown), Some(-32002));
    assert_eq!(
        code("resources/read", &format!("{unknown},{META}")),
        Some(-32602)
    );
    assert_eq!(
        code("prompts/get", r#""name":"test_prompt_with_arguments""#),
        Some(-32602)
    );
    assert_eq!(code("prompts/get", r#""name":"nope""#), Some(-32602));
    assert_eq!(code("logging/setLevel", r#""level":"loud""#), Some(-32602));
}

#[test]
fn a_method_behind_a_capability_that_is_not_offered_does_not_exist() {
    let mut server = Server::start("echo");
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        let reply = server.call(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#
        ));
        assert_eq!(
            reply["error"]["message"],
            format!("method not found: {method}")
        );
    }
}

#[test]
fn what_a_request_says_of_itself_is_checked_before_its_method() {
    let mut server = Server::start("everything");
    let mut code = |meta: &str| {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"things/new","params":{{"_meta":{{{meta}}}}}}}"#
        );
        server.call(&line)["error"]["code"].clone()
    };
    let version = r#""io.modelcontextprotocol/protocolVersion""#;
    let capable = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
    assert_eq!(
        code(&format!(r#"{version}:"2027-01-01",{capable}"#)),
        -32022
    );
    assert_eq!(code(&format!(r#"{version}:"2026-07-28""#)), -32602);
    assert_eq!(
        code(&format!(r#"{version}:"2026-07-28",{capable}"#)),
        -32601
    );
    assert_eq!(code(""), -32601);
}

#[test]
fn a_stream_of_one_era_refuses_the_other_and_says_what_it_speaks() {
    let discover =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{{META}}}}}"#);
    let initialize = r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    for (era, served, refused, other) in [
        ("session", initialize, discover.as_str(), "2025-11-25"),
        ("stateless", discover.as_str(), initialize, "2026-07-28"),
    ] {
        let mut server = Server::with("everything", &["--era", era]);
        let error = &server.call(refused)["error"];
        assert_eq!(error["code"], -32022, "{era}");
        let supported = error["data"]["supported"].as_array().unwrap();
        assert!(supported.contains(&json!(other)), "{error}");
        assert!(server.call(served)["result"].is_object(), "{era}");
    }
}
