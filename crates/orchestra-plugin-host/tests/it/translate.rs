//! MCP in the messages of the plugin protocol, and back.

use bytes::Bytes;
use orchestra_plugin::{
    envelope::{PayloadOf, Request, RequestKind, Response, ResponseKind},
    generated::{
        ListPromptsResponse, ListToolsResponse, McpRequest, McpResponse, PromptArgument,
        PromptDefinition, PromptGetRequest, PromptGetResponse, StorageEntry, StorageListResponse,
        StorageReadRequest, StorageReadResponse, StreamStart, ToolDefinition, ToolRequest,
        ToolResponse,
    },
    structs::{self, Numbers},
};
use orchestra_plugin_host::translate::{Offers, Peer, Reading, Step, Terms};
use orchestra_wire::RpcError;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rig::raw;

fn terms(revision: u32) -> Terms {
    Terms {
        peer: Peer::Orchestrator,
        revision,
        version: None,
        offers: Offers::default(),
        caller: "transport.stdio".to_owned(),
        session: "s-1".to_owned(),
        provider: "claude".to_owned(),
    }
}

fn encoded(value: &Value) -> Bytes {
    structs::encode(value.to_string().as_bytes(), Numbers::default()).unwrap()
}

/// The one request that a method becomes.
fn asked<M: PayloadOf<RequestKind>>(terms: &Terms, method: &str, params: Value) -> (M, Reading) {
    match terms.step(method, Some(&raw(&params))) {
        Step::Ask(questions, reading) => {
            let question = &questions[0];
            let request = Request::raw("1", question.kind, question.payload.clone());
            (request.message().unwrap(), reading)
        }
        Step::Here(answer) => panic!("{answer:?}"),
    }
}

fn here(method: &str, params: Value) -> Result<Value, RpcError> {
    match terms(0).step(method, Some(&raw(&params))) {
        Step::Here(answer) => answer.map(|result| result.parse().unwrap()),
        Step::Ask(questions, _) => panic!("{questions:?}"),
    }
}

fn read<M: PayloadOf<ResponseKind>>(reading: &Reading, message: &M) -> Result<Value, RpcError> {
    let answer = terms(0).read(reading, &[Response::new("1", message)]);
    answer.map(|result| result.parse().unwrap())
}

fn refusal(code: &str, message: &str) -> ToolResponse {
    ToolResponse {
        error_code: code.to_owned(),
        error_message: message.to_owned(),
        ..ToolResponse::default()
    }
}

#[test]
fn a_call_carries_what_older_peers_take_and_the_json_for_ours() {
    let params = json!({"name": "t", "arguments": {"a": 1}, "_meta": {"traceparent": "00-1"}});
    for revision in [0, 1] {
        let (call, reading) = asked::<ToolRequest>(&terms(revision), "tools/call", params.clone());
        assert_eq!(reading, Reading::Call);
        assert_eq!(call.tool_name, "t");
        assert_eq!(call.arguments, Some(encoded(&json!({"a": 1}))));
        assert_eq!(call.caller_plugin, "transport.stdio");
        assert_eq!(call.session_id, "s-1");
        assert_eq!(call.trace_parent, "00-1");
        assert_eq!(call.provider, "claude");
        assert_eq!(call.mcp_params.is_empty(), revision == 0);
    }
    let (call, _) = asked::<ToolRequest>(&terms(0), "tools/call", json!({"name": "t"}));
    assert_eq!(call.arguments, None);
    let empty = json!({"name": "t", "arguments": {}});
    let (call, _) = asked::<ToolRequest>(&terms(0), "tools/call", empty);
    assert_eq!(call.arguments, Some(Bytes::new()));
}

/// Arguments of 10 MiB would make a frame of 20 MiB.
#[test]
fn arguments_that_do_not_fit_twice_go_once_to_those_who_know_the_json() {
    let large = json!({"name": "t", "arguments": {"a": "x".repeat(10 << 20)}});
    // Each is two bytes of JSON, and eleven of a struct.
    let many = json!({"name": "t", "arguments": {"a": vec![1; 2 << 20]}});
    for params in [large.clone(), many.clone()] {
        let said = params.to_string();
        let (call, _) = asked::<ToolRequest>(&terms(1), "tools/call", params.clone());
        assert_eq!((call.arguments, call.mcp_params.len()), (None, said.len()));
        let stream = terms(1).stream("s", Some(&raw(&params))).unwrap();
        let stream = Request::raw("1", stream.kind, stream.payload);
        let stream = stream.message::<StreamStart>().unwrap();
        assert_eq!(
            (stream.arguments, stream.mcp_params.len()),
            (None, said.len())
        );
    }
    let (call, _) = asked::<ToolRequest>(&terms(0), "tools/call", large);
    assert!(call.arguments.is_some() && call.mcp_params.is_empty());
    let Step::Here(Err(error)) = terms(0).step("tools/call", Some(&raw(&many))) else {
        panic!("older peers take a struct, which would be too large");
    };
    assert_eq!(error.code.0, -32602);
}

#[test]
fn integer_argument_that_no_double_holds_is_refused_and_never_rounded() {
    for (number, fits) in [
        (json!(9_007_199_254_740_992_u64), true),
        (json!(-9_007_199_254_740_992_i64), true),
        (json!(1_152_921_504_606_846_976_u64), true),
        (json!(9_007_199_254_740_993_u64), false),
        (json!(-9_007_199_254_740_993_i64), false),
        (json!(u64::MAX), false),
    ] {
        let params = json!({"name": "t", "arguments": {"a": [{"b": number}]}});
        match terms(0).step("tools/call", Some(&raw(&params))) {
            Step::Here(Err(error)) => {
                assert!(!fits, "{number}");
                assert_eq!(error.code.0, -32602, "{number}");
            }
            Step::Ask(..) => assert!(fits, "{number}"),
            Step::Here(Ok(answer)) => panic!("{answer:?}"),
        }
        // To a peer of ours the JSON goes with it.
        let (call, _) = asked::<ToolRequest>(&terms(1), "tools/call", params.clone());
        let sent: Value = serde_json::from_slice(&call.mcp_params).unwrap();
        assert_eq!(sent, params);
    }
}

#[test]
fn a_call_belongs_to_the_session_that_it_is_made_for() {
    let long = "x".repeat(257);
    for (named, wanted) in [
        (json!("client-7"), "client-7"),
        (json!(""), "s-1"),
        (json!(7), "s-1"),
        (json!(long), "s-1"),
    ] {
        let meta = json!({"orchestra/sessionId": named});
        let call = json!({"name": "t", "_meta": meta});
        let (tool, _) = asked::<ToolRequest>(&terms(1), "tools/call", call.clone());
        assert_eq!(tool.session_id, wanted);
        let (tool, _) = asked::<ToolRequest>(&terms(0), "tools/call", call.clone());
        assert_eq!(tool.session_id, wanted);
        let (prompt, _) = asked::<PromptGetRequest>(&terms(1), "prompts/get", call.clone());
        assert_eq!(prompt.session_id, wanted);
        let stream = terms(1).stream("s", Some(&raw(&call))).unwrap();
        let stream = Request::raw("1", stream.kind, stream.payload);
        assert_eq!(stream.message::<StreamStart>().unwrap().session_id, wanted);
    }
}

#[test]
fn what_is_no_call_is_refused() {
    for (params, wanted) in [
        (json!({}), "missing required parameter: name"),
        (json!({"name": ""}), "missing required parameter: name"),
        (json!({"name": 1}), "invalid params: "),
        (
            json!({"name": "t", "arguments": [1]}),
            "invalid arguments: ",
        ),
    ] {
        let error = here("tools/call", params).unwrap_err();
        assert_eq!(error.code.0, -32602);
        assert!(error.message.starts_with(wanted), "{}", error.message);
    }
    let error = here("no/such", json!({})).unwrap_err();
    assert_eq!(error.code.0, -32601);
    assert_eq!(error.message, "method not found: no/such");
    assert_eq!(
        here("logging/setLevel", json!({"level": "info"})),
        Ok(json!({}))
    );
    let error = here("logging/setLevel", json!({"level": "loud"})).unwrap_err();
    assert_eq!(error.message, "invalid log level: \"loud\"");
}

#[test]
fn a_result_is_one_text_that_is_always_there() {
    let done = |result: Option<Value>| ToolResponse {
        success: true,
        result: result.map(|result| encoded(&result)),
        ..ToolResponse::default()
    };
    for (response, wanted) in [
        (done(None), ""),
        (done(Some(json!({"text": "T", "more": 1}))), "T"),
        (done(Some(json!({"text": ""}))), ""),
        (done(Some(json!({"text": 5}))), r#"{"text":5}"#),
        (
            done(Some(json!({"b": "<&>", "a": 1.0}))),
            r#"{"a":1,"b":"\u003c\u0026\u003e"}"#,
        ),
    ] {
        let result = read(&Reading::Call, &response).unwrap();
        assert_eq!(
            result,
            json!({"content": [{"type": "text", "text": wanted}]})
        );
    }
    for (response, wanted) in [
        (refusal("c", "it broke"), "it broke"),
        (
            refusal("validation_error", ""),
            "tool error: validation_error",
        ),
    ] {
        let result = read(&Reading::Call, &response).unwrap();
        let content = json!([{"type": "text", "text": wanted}]);
        assert_eq!(result, json!({"content": content, "isError": true}));
    }
}

#[test]
fn what_ours_answered_as_json_counts() {
    let mut response = refusal("c", "m");
    response.mcp_result = Bytes::from_static(br#"{"content":[],"structuredContent":{"n":1}}"#);
    let result = read(&Reading::Call, &response).unwrap();
    assert_eq!(result["structuredContent"]["n"], 1);
    response.mcp_error = Bytes::from_static(br#"{"code":-32602,"message":"no"}"#);
    let error = read(&Reading::Call, &response).unwrap_err();
    assert_eq!((error.code.0, &*error.message), (-32602, "no"));
    response.mcp_error = Bytes::new();
    response.mcp_result = Bytes::from_static(b"{\"torn\":");
    assert_eq!(read(&Reading::Call, &response).unwrap_err().code.0, -32603);
}

#[test]
fn any_request_may_be_refused_by_a_tool_call() {
    let response = refusal("storage", "the disk is full");
    let error = read(&Reading::Tools, &response).unwrap_err();
    assert_eq!(error.code.0, -32603);
    assert_eq!(
        error.message,
        "orchestrator list_tools failed: the disk is full"
    );
    let error = read(&Reading::Tools, &ListPromptsResponse::default()).unwrap_err();
    assert_eq!(error.message, "unexpected response type from orchestrator");
    let unknown = refusal("unknown_request", "unrecognized request type");
    assert_eq!(
        read(&Reading::Prompts, &unknown),
        Ok(json!({"prompts": []}))
    );
    assert_eq!(read(&Reading::Health, &unknown), Ok(json!({})));
}

#[test]
fn tools_have_a_schema_and_an_order() {
    let tool = |name: &str, definition: &'static str| ToolDefinition {
        name: name.to_owned(),
        mcp_definition: Bytes::from_static(definition.as_bytes()),
        ..ToolDefinition::default()
    };
    let mut described = tool("b", "");
    described.description = "It does.".to_owned();
    described.input_schema = Some(encoded(&json!({"type": "object", "minimum": 1})));
    let tools = vec![
        tool("c", r#"{"name":"c","title":"C","inputSchema":{}}"#),
        described,
        tool("a", r#"{"name":"another","inputSchema":{}}"#),
        tool("a", ""),
        tool("", ""),
    ];
    let listed = read(&Reading::Tools, &ListToolsResponse { tools }).unwrap();
    let schema = json!({"type": "object", "minimum": 1});
    let wanted = json!({"tools": [
        {"name": "a", "inputSchema": {"type": "object"}},
        {"name": "b", "description": "It does.", "inputSchema": schema},
        {"name": "c", "title": "C", "inputSchema": {}},
    ]});
    assert_eq!(listed, wanted);
}

#[test]
fn prompts_are_listed_and_gotten() {
    let argument = PromptArgument {
        name: "n".to_owned(),
        description: String::new(),
        required: true,
    };
    let prompt = PromptDefinition {
        name: "p".to_owned(),
        arguments: vec![argument],
        ..PromptDefinition::default()
    };
    let listed = ListPromptsResponse {
        prompts: vec![prompt],
    };
    let listed = read(&Reading::Prompts, &listed).unwrap();
    let wanted =
        json!({"prompts": [{"name": "p", "arguments": [{"name": "n", "required": true}]}]});
    assert_eq!(listed, wanted);
    let reading = Reading::Prompt {
        name: "p".to_owned(),
    };
    let missing = PromptGetResponse {
        description: "no plugin provides prompt \"p\"".to_owned(),
        ..PromptGetResponse::default()
    };
    assert_eq!(read(&reading, &missing).unwrap_err().code.0, -32602);
    let error = here("prompts/get", json!({"name": "p", "arguments": {"n": 1}}));
    assert_eq!(error.unwrap_err().code.0, -32602);
}

#[test]
fn documents_are_resources() {
    let entry = |path: &str| StorageEntry {
        path: path.to_owned(),
        ..StorageEntry::default()
    };
    let entries = [
        "my app/features/F-1.md",
        "notes/n.md",
        "other.md",
        "p/q/r.md",
    ];
    let listed = StorageListResponse {
        entries: entries.map(entry).to_vec(),
        problem: None,
    };
    let listed = read(&Reading::Documents, &listed).unwrap();
    let uris: Vec<&str> = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["uri"].as_str().unwrap())
        .collect();
    assert_eq!(
        uris,
        ["orchestra://my%20app/features/F-1", "orchestra://notes/n"]
    );
    for (uri, path) in [
        (uris[0], "my app/features/F-1.md"),
        ("orchestra://docs/a/b", "docs/a/b.md"),
    ] {
        let (request, _) =
            asked::<StorageReadRequest>(&terms(0), "resources/read", json!({ "uri": uri }));
        assert_eq!(request.path, path);
    }
    for (uri, wanted) in [
        ("", "missing required parameter: uri"),
        (
            "file:///a",
            "unsupported URI scheme: \"file:///a\" (expected orchestra://)",
        ),
        ("orchestra://notes", "invalid resource URI"),
        ("orchestra://notes/", "invalid resource URI"),
        ("orchestra://notes/%2e%2e/secret", "invalid resource URI"),
        ("orchestra://plans/x", "unknown resource type"),
    ] {
        let error = here("resources/read", json!({ "uri": uri })).unwrap_err();
        assert!(error.message.starts_with(wanted), "{}", error.message);
    }
    let reading = Reading::Document {
        uri: "orchestra://notes/n".to_owned(),
    };
    let missing = read(&reading, &StorageReadResponse::default()).unwrap_err();
    assert_eq!(missing.code.0, -32002);
    let empty = StorageReadResponse {
        version: 1,
        ..StorageReadResponse::default()
    };
    let found = read(&reading, &empty).unwrap();
    assert_eq!(found["contents"][0]["text"], "");
    let none = read(&Reading::Documents, &StorageListResponse::default());
    assert_eq!(none, Ok(json!({"resources": []})));
}

#[test]
fn what_has_no_message_goes_as_json_to_those_who_offer_it() {
    let features = ["resources".to_owned(), "completions".to_owned()];
    let mut plugin = terms(1);
    plugin.peer = Peer::Plugin("a.b".to_owned());
    plugin.offers = Offers::of(1, &features);
    let methods = [
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "completion/complete",
    ];
    for method in methods {
        let params = json!({"uri": "a:b", "_meta": {"orchestra/sessionId": "client-7"}});
        let (asked, reading) = asked::<McpRequest>(&plugin, method, params.clone());
        assert_eq!(asked.method, method);
        assert_eq!(asked.params, params.to_string().into_bytes());
        assert_eq!(asked.session_id, "client-7");
        assert_eq!(asked.caller_plugin, "transport.stdio");
        assert_eq!(reading, Reading::Json);
    }
    let capabilities = |plugin: &Terms| match plugin.step("initialize", None) {
        Step::Here(Ok(result)) => result.parse::<Value>().unwrap()["capabilities"].clone(),
        step => panic!("{step:?}"),
    };
    assert_eq!(capabilities(&plugin)["resources"], json!({}));
    assert_eq!(capabilities(&plugin)["completions"], json!({}));
    let found = McpResponse {
        result: Bytes::from_static(b"{\"resources\":[]}"),
        ..McpResponse::default()
    };
    assert_eq!(read(&Reading::Json, &found), Ok(json!({"resources": []})));
    let missing = McpResponse {
        error: Bytes::from_static(br#"{"code":-32602,"message":"resource not found"}"#),
        ..McpResponse::default()
    };
    let error = read(&Reading::Json, &missing).unwrap_err();
    assert_eq!(
        (error.code.0, &*error.message),
        (-32602, "resource not found")
    );
    let nothing = read(&Reading::Json, &McpResponse::default());
    assert_eq!(nothing.unwrap_err().code.0, -32603);
    // Older ones have no such features, whatever they say.
    plugin.offers = Offers::of(0, &features);
    assert_eq!(capabilities(&plugin)["resources"], Value::Null);
    for method in methods {
        let Step::Here(Err(error)) = plugin.step(method, None) else {
            panic!("{method}");
        };
        assert_eq!(error.code.0, -32601);
    }
}

#[test]
fn tools_that_answer_in_chunks_say_so_in_their_definitions() {
    let tool = |name: &str, definition: Value| ToolDefinition {
        name: name.to_owned(),
        mcp_definition: definition.to_string().into(),
        ..ToolDefinition::default()
    };
    let tools = vec![
        tool(
            "a",
            json!({"name": "a", "_meta": {"orchestra/streaming": true}}),
        ),
        tool(
            "b",
            json!({"name": "b", "_meta": {"orchestra/streaming": false}}),
        ),
        tool("c", json!({"name": "c", "_meta": 5})),
        tool("d", json!([])),
        ToolDefinition::default(),
    ];
    let response = Response::new("1", &ListToolsResponse { tools });
    let streaming = terms(1).streaming_tools(&response, 8);
    assert_eq!(streaming.into_iter().collect::<Vec<_>>(), ["a"]);
    assert!(terms(1).streaming_tools(&response, 0).is_empty());
}

proptest! {
    /// Whatever a peer answers is a result or an error, and never a panic.
    #[test]
    fn nothing_that_a_peer_answers_is_too_strange(payload: Vec<u8>, kind in 0_usize..17) {
        let response = Response::raw("1", ResponseKind::ALL[kind], payload.into());
        for reading in [
            Reading::Call,
            Reading::Tools,
            Reading::Prompts,
            Reading::Prompt { name: "p".to_owned() },
            Reading::Documents,
            Reading::Document { uri: "u".to_owned() },
            Reading::Health,
            Reading::Json,
        ] {
            let _ = terms(1).read(&reading, std::slice::from_ref(&response));
        }
    }
}
