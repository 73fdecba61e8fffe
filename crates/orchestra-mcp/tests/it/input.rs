//! Calls that need something of the client, in both eras.

use orchestra_mcp::{Limits, post::Post};
use serde_json::{Value, json};

use crate::{
    child::Server,
    memory::{self, WATCHED, server_with},
};

const ALL: &str = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;

fn call(id: u32, tool: &str, more: &Value) -> String {
    let mut params = json!({"name": tool, "arguments": {}});
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

fn answer(request: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()
}

fn stateless(capabilities: &Value) -> Value {
    json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities
    }})
}

#[test]
fn a_session_is_asked_and_the_call_goes_on() {
    let mut server = Server::session("everything", "2025-06-18", ALL);
    let asked = server.call(&call(
        1,
        "test_input_required_result_multiple_inputs",
        &json!({}),
    ));
    let asked = [asked, server.reply(), server.reply()];
    let mut methods: Vec<&str> = asked
        .iter()
        .filter_map(|ask| ask["method"].as_str())
        .collect();
    methods.sort_unstable();
    assert_eq!(
        methods,
        ["elicitation/create", "roots/list", "sampling/createMessage"]
    );
    // Another call is not held up.
    assert_eq!(
        server.call(&call(2, "test_simple_text", &json!({})))["id"],
        2
    );
    for ask in &asked {
        server.send(&answer(ask, &json!({"action": "accept", "roots": []})));
    }
    let reply = server.reply();
    assert_eq!(reply["id"], 1);
    assert_eq!(reply["result"]["content"][0]["text"], "All inputs received");
}

#[test]
fn a_session_goes_through_several_rounds() {
    let mut server = Server::session("everything", "2025-11-25", ALL);
    let first = server.call(&call(
        1,
        "test_input_required_result_multi_round",
        &json!({}),
    ));
    let second = server.call(&answer(
        &first,
        &json!({"action": "accept", "content": {"name": "n"}}),
    ));
    assert_ne!(first["id"], second["id"]);
    let reply = server.call(&answer(&second, &json!({"action": "accept"})));
    assert_eq!(
        reply["result"]["content"][0]["text"],
        "Multi-round flow complete"
    );
    // A call that never has enough is ended.
    let mut asked = server.call(&call(2, "test_streaming_elicitation", &json!({})));
    for _ in 0..100 {
        if asked.get("method").is_none() {
            break;
        }
        asked = server.call(&answer(&asked, &json!({"action": "accept"})));
    }
    assert_eq!(asked["id"], 2);
    assert_eq!(asked["result"]["isError"], true);
}

#[test]
fn a_session_without_the_capability_gets_an_error_the_model_can_read() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    let reply = server.call(&call(1, "test_sampling", &json!({})));
    assert_eq!(reply["result"]["isError"], true);
    assert!(
        reply["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("sampling")
    );
}

#[test]
fn a_refusal_or_a_cancellation_ends_the_questions() {
    let mut server = Server::session("everything", "2025-11-25", ALL);
    let asked = server.call(&call(1, "test_sampling", &json!({})));
    let refusal =
        json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "no"}});
    let reply = server.call(&refusal.to_string());
    assert_eq!(reply["id"], 1);
    assert_eq!(
        reply["result"]["content"][0]["text"],
        "the client refused sampling/createMessage: no"
    );
    let asked = server.call(&call(2, "test_sampling", &json!({})));
    let cancelled = server
        .call(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    // Too late.
    server.send(&answer(&asked, &json!({})));
    server.check(
        r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{}}"#,
    );
}

#[test]
fn a_stateless_client_gets_questions_and_calls_again() {
    let mut server = Server::start("everything");
    let all: Value = serde_json::from_str(ALL).unwrap();
    let mut more = stateless(&all);
    let reply = server.call(&call(1, "test_input_required_result_request_state", &more));
    let result = &reply["result"];
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(
        result["inputRequests"]["confirm"]["method"],
        "elicitation/create"
    );
    assert!(result.get("ttlMs").is_none());
    more["inputResponses"] = json!({"confirm": {"action": "accept", "content": {"ok": true}}});
    let state = result["requestState"].as_str().unwrap().to_owned();
    assert!(!state.contains("confirm"), "{state}");
    more["requestState"] = json!(state);
    let reply = server.call(&call(2, "test_input_required_result_request_state", &more));
    assert_eq!(reply["result"]["resultType"], "complete");
    for forged in ["confirm", "", &format!("{state}A"), &state[1..]] {
        more["requestState"] = json!(forged);
        let reply = server.call(&call(3, "test_input_required_result_request_state", &more));
        assert_eq!(reply["error"]["code"], -32602, "{forged}");
    }
    // Given out for another request.
    more["requestState"] = json!(state);
    let reply = server.call(&call(4, "test_input_required_result_multi_round", &more));
    assert_eq!(reply["error"]["code"], -32602);
    more["arguments"] = json!({"other": true});
    let reply = server.call(&call(5, "test_input_required_result_request_state", &more));
    assert_eq!(reply["error"]["code"], -32602);
}

/// Whoever has a session is asked by requests, and has no state that it could bring.
#[test]
fn a_session_brings_no_state() {
    let mut server = Server::session("everything", "2025-11-25", ALL);
    let forged =
        json!({"requestState": "confirm", "inputResponses": {"confirm": {"action": "accept"}}});
    let asked = server.call(&call(
        1,
        "test_input_required_result_request_state",
        &forged,
    ));
    assert_eq!(asked["method"], "elicitation/create");
}

#[test]
fn a_stateless_client_is_asked_only_for_what_it_can() {
    let mut server = Server::start("everything");
    let reply = server.call(&call(
        1,
        "test_sampling",
        &stateless(&json!({"elicitation": {}})),
    ));
    assert_eq!(reply["error"]["code"], -32021);
    assert_eq!(
        reply["error"]["data"]["requiredCapabilities"],
        json!({"sampling": {}})
    );
    let more = stateless(&json!({"elicitation": {}}));
    let reply = server.call(&call(2, "test_input_required_result_capabilities", &more));
    let keys: Vec<&String> = reply["result"]["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(keys, ["user_name"]);
}

#[tokio::test]
async fn a_completion_asks_for_nothing() {
    let (server, _shared) = server_with(Limits::default());
    let mut params = stateless(&json!({"elicitation": {}}));
    params["ref"] = json!({"type": "ref/resource", "uri": WATCHED});
    params["argument"] = json!({"name": "x", "value": ""});
    let request =
        json!({"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params": params});
    let reply = memory::post(&Post::new(&server, "test"), &request)
        .await
        .unwrap();
    assert_eq!(reply["error"]["code"], -32603, "{reply}");
    let text = reply["error"]["message"].as_str().unwrap();
    assert!(text.contains("only tools, prompts"), "{text}");
}

/// Between two Orchestras a session loses nothing of what the newest era says of a question.
#[test]
fn another_orchestra_is_told_what_a_question_is_about_and_tells_who_calls() {
    let capabilities = r#"{"elicitation":{},"sampling":{},"roots":{},
        "experimental":{"orchestra/translation":{}}}"#;
    let capabilities = capabilities.replace("\n", "");
    let mut server = Server::session("everything", "2025-11-25", &capabilities);
    let tool = "test_input_required_result_multiple_inputs";
    server.send(&call(7, tool, &json!({})));
    let asked = [server.reply(), server.reply(), server.reply()];
    let mut keys = Vec::new();
    for ask in &asked {
        let about = &ask["params"]["_meta"]["orchestra/input"];
        assert_eq!((&about["count"], &about["call"]), (&json!(3), &json!(7)));
        keys.push(about["key"].as_str().unwrap());
    }
    keys.sort_unstable();
    assert_eq!(keys, ["client_roots", "greeting", "user_name"]);
    for ask in &asked {
        server.send(&answer(ask, &json!({"action": "accept", "roots": []})));
    }
    assert_eq!(server.reply()["id"], 7);
    // Of what all of its callers can do, this one can do less.
    let only =
        |capabilities: Value| json!({"_meta": {"orchestra/clientCapabilities": capabilities}});
    let can = "test_input_required_result_capabilities";
    let ask = server.call(&call(8, can, &only(json!({"sampling": {}, "unknown": {}}))));
    assert_eq!(ask["method"], "sampling/createMessage");
    assert_eq!(ask["params"]["_meta"]["orchestra/input"]["count"], 1);
    server.send(&answer(&ask, &json!({"role": "assistant", "content": {}})));
    assert_eq!(server.reply()["id"], 8);
    let refused = server.call(&call(9, "test_missing_capability", &only(json!({}))));
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    let required = &refused["error"]["data"]["requiredCapabilities"];
    assert_eq!(*required, json!({"sampling": {}}));
}

#[test]
fn who_is_no_orchestra_is_told_nothing_of_it_and_is_not_believed() {
    let tool = "test_input_required_result_sampling";
    let mut server = Server::session("everything", "2025-11-25", ALL);
    let none = json!({"_meta": {"orchestra/clientCapabilities": {}}});
    let ask = server.call(&call(1, tool, &none));
    assert_eq!(ask["method"], "sampling/createMessage");
    assert!(ask["params"].get("_meta").is_none(), "{ask}");
    let nothing = r#"{"experimental":["orchestra/translation"]}"#;
    let mut server = Server::session("everything", "2025-11-25", nothing);
    let refused = server.call(&call(1, tool, &json!({})));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
}
