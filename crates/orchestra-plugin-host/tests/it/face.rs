//! What is answered to whom.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use orchestra_plugin::{
    envelope::{self, PayloadOf, RequestKind, Response, ResponseKind},
    generated::{
        BootRequest, HealthRequest, HealthResult, ListPromptsRequest, ListPromptsResponse,
        ListToolsRequest, ListToolsResponse, McpMessage, McpRequest, McpResponse, PluginManifest,
        PromptGetRequest, PromptGetResponse, RegistrationResult, ShutdownRequest,
        StorageDeleteRequest, StorageDeleteResponse, StorageListRequest, StorageListResponse,
        StorageReadRequest, StorageReadResponse, StorageWriteRequest, StorageWriteResponse,
        StreamCancel, StreamChunk, StreamEnd, StreamStart, Subscribe, ToolRequest, ToolResponse,
    },
    quic::Limits,
};
use orchestra_plugin_host::{
    events::EventLimits,
    face::{Allowed, FaceOptions, Permissions},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::face_rig::{PATIENCE, Peer, Rig, hex, soon, structure, unhex, value};

pub(crate) fn call(name: &str, arguments: Value) -> ToolRequest {
    ToolRequest {
        tool_name: name.into(),
        arguments: structure(&arguments),
        ..ToolRequest::default()
    }
}

pub(crate) fn needs_tools(names: &[&str]) -> PluginManifest {
    PluginManifest {
        needs_tools: names.iter().map(|&name| name.into()).collect(),
        ..PluginManifest::default()
    }
}

/// Params of a stateless request, from a client that can be asked things.
pub(crate) fn stateless(mut params: Value) -> Bytes {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "an agent", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        "progressToken": "p",
    });
    params.to_string().into()
}

fn verbatim(params: Value) -> ToolRequest {
    ToolRequest {
        tool_name: params["name"].as_str().unwrap().into(),
        mcp_params: stateless(params),
        ..ToolRequest::default()
    }
}

pub(crate) fn mcp(method: &str, params: Value) -> McpRequest {
    McpRequest {
        method: method.into(),
        params: stateless(params),
        ..McpRequest::default()
    }
}

pub(crate) fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

async fn text_of(peer: &Peer, request: &ToolRequest) -> String {
    let answer: ToolResponse = peer.get(request).await;
    assert!(answer.success, "{answer:?}");
    value(&answer.result.unwrap())["text"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The vectors of the first orchestrator.
#[tokio::test(flavor = "multi_thread")]
async fn older_peers_are_answered_by_the_byte() {
    let rig = Rig::new();
    let bridge = rig.bridge();
    let unknown = "a2012c1a0f756e6b6e6f776e5f726571756573742219756e7265636f676e697a65642072657175657374207479\
         7065";
    for (request, answer) in [
        (
            "0a036162636a00",
            "0a036162636a130801120f6f7263686573747261746f72206f6b",
        ),
        ("", unknown),
        ("5a00", unknown),
        ("6200", unknown),
    ] {
        let answered = bridge.raw(unhex(request)).await;
        assert_eq!(hex(&answered), answer, "{request}");
    }
    // Nothing was found; the reason stands in a field that old peers skip.
    let answer = bridge.raw(unhex("f201030a0178")).await;
    let answer = Response::decode(&answer).unwrap();
    let read: StorageReadResponse = answer.message().unwrap();
    assert_eq!(read.problem.clone().unwrap().code, "not_found");
    let known = StorageReadResponse {
        problem: None,
        ..read
    };
    assert_eq!(hex(&Response::new("", &known).encode()), "f20100");
    let plugin = PluginManifest {
        needs_events: vec!["t".into()],
        ..PluginManifest::default()
    };
    let plugin = rig.plugin("some.plugin", plugin).await;
    let acknowledged = plugin.raw(unhex("9203060a0171120174")).await;
    assert_eq!(hex(&acknowledged), "9203060a0171120174");
    let written = StorageWriteRequest {
        path: "x".into(),
        content: "hi".into(),
        ..StorageWriteRequest::default()
    };
    assert_eq!(hex(&bridge.ask(&written).await.encode()), "fa010408011001");
    let prompt = bridge.raw(unhex("ba01040a027a7a")).await;
    let prompt: PromptGetResponse = Response::decode(&prompt).unwrap().message().unwrap();
    assert_eq!(prompt.description, "no plugin provides prompt \"zz\"");
    assert!(prompt.messages.is_empty());
    // There is nothing to say to these.
    for request in ["ca02040a027a7a", "9a03030a0171"] {
        assert_eq!(hex(&bridge.raw(unhex(request)).await), "", "{request}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_malformed_is_told() {
    let rig = Rig::new();
    let bridge = rig.bridge();
    for request in ["0aff", "a2010500", "6a006a00", "a201060a01610a0162"] {
        let answer = bridge.raw(unhex(request)).await;
        let answer: ToolResponse = Response::decode(&answer).unwrap().message().unwrap();
        assert_eq!(
            answer.error_code, "invalid_request",
            "{request}: {answer:?}"
        );
    }
    for request in [
        envelope::Request::new("", &BootRequest::default()),
        envelope::Request::new("", &ShutdownRequest::default()),
        envelope::Request::new("", &McpMessage::default()),
    ] {
        let answer = bridge.raw(request.encode()).await;
        let answer: ToolResponse = Response::decode(&answer).unwrap().message().unwrap();
        assert_eq!(answer.error_code, "unknown_request");
        assert_eq!(answer.error_message, "unrecognized request type");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_ours_is_told_what_we_speak() {
    let rig = Rig::new();
    let mut health: HealthResult = rig.bridge().get(&HealthRequest { revision: 1 }).await;
    let instance = health.details.remove("instance").unwrap();
    assert_eq!(instance.len(), 36, "{instance}");
    assert_eq!(health.details.remove("reaches").unwrap(), "");
    let details = [("mcp", "2026-07-28"), ("version", "9.9.9")];
    let details = details.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(health.details, BTreeMap::from(details));
    assert_eq!(health.message, "orchestrator ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_those_of_the_hub() {
    let rig = Rig::new();
    let bridge = rig.bridge();
    let listed: ListToolsResponse = bridge.get(&ListToolsRequest {}).await;
    assert_eq!(listed.tools.len(), 10);
    let echo = &listed.tools[0];
    assert_eq!((&*echo.name, &*echo.description), ("echo", "Does echo."));
    assert_eq!(
        value(echo.input_schema.as_ref().unwrap()),
        json!({"type": "object"})
    );
    assert_eq!(json_of(&echo.mcp_definition)["name"], "echo");
    let again: ListToolsResponse = bridge.get(&ListToolsRequest {}).await;
    assert_eq!(again, listed);
    rig.offer("new");
    let more: ListToolsResponse = bridge.get(&ListToolsRequest {}).await;
    assert_eq!(more.tools.last().unwrap().name, "new");
    let listed: ListPromptsResponse = bridge.get(&ListPromptsRequest {}).await;
    let greet = &listed.prompts[0];
    assert_eq!((&*greet.name, &*greet.arguments[0].name), ("greet", "whom"));
    assert!(greet.arguments[0].required);
    assert_eq!(json_of(&greet.mcp_definition)["description"], "Greets.");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_called_for_older_peers() {
    let rig = Rig::new();
    let bridge = rig.bridge();
    let echo = call("echo", json!({"n": 90_000, "s": "<x>"}));
    assert_eq!(text_of(&bridge, &echo).await, r#"{"n":90000,"s":"<x>"}"#);
    let data: ToolResponse = bridge.get(&call("data", json!({}))).await;
    assert_eq!(value(&data.result.unwrap()), json!({"n": 1}));
    let who = ToolRequest {
        caller_plugin: "somebody.else".into(),
        session_id: "s-1".into(),
        trace_parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        ..call("who", json!({}))
    };
    let who = json_of(text_of(&bridge, &who).await.as_bytes());
    assert_eq!(
        (&who["client"], &who["face"]),
        (&json!("transport.stdio"), &json!("quic"))
    );
    assert!(who["trace"].as_str().unwrap().starts_with("00-0af7"));
    let params = json_of(who["params"].as_str().unwrap().as_bytes());
    assert_eq!(params["_meta"]["orchestra/sessionId"], "s-1");
    for (request, code, message) in [
        (
            call("nope", json!({})),
            "tool_not_found",
            "no plugin provides tool \"nope\"",
        ),
        (
            ToolRequest {
                provider: "p".into(),
                ..call("nope", json!({}))
            },
            "tool_not_found",
            "no plugin provides tool \"nope\" for provider \"p\"",
        ),
        (call("fail", json!({})), "tool_error", "it is wrong"),
        (
            call("panic", json!({})),
            "routing_error",
            "failed to route tool call to plugin \"memory\": the call broke: its provider panicked",
        ),
        (
            ToolRequest {
                arguments: Some(Bytes::from_static(b"\xff")),
                ..call("echo", json!({}))
            },
            "invalid_arguments",
            "malformed struct",
        ),
    ] {
        let (found, text) = bridge.fails(&request).await;
        assert_eq!(found, code, "{request:?}: {text}");
        assert!(text.starts_with(message), "{text}");
    }
    let (code, _) = bridge.fails(&call("big", json!({}))).await;
    assert_eq!(code, "result_too_large");
    // The connection has survived all of it.
    assert_eq!(text_of(&bridge, &call("echo", json!({}))).await, "{}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_ai_providers_are_found_by_provider() {
    let rig = Rig::new();
    let bridge = rig.bridge();
    for (provider, tool, expected) in [
        ("openai", "chat", "I am gpt"),
        ("grok", "chat", "I am gpt"),
        ("grok", "talk", "I am gpt"),
        ("unknown", "talk", "I am gpt"),
        // It is one of claude as well.
        ("openai", "echo", "I am gpt"),
        ("", "talk", "I am gpt"),
        // Without a provider an ordinary tool comes first.
        ("", "echo", "{}"),
        ("openai", "steps", "done"),
    ] {
        let request = ToolRequest {
            provider: provider.into(),
            ..call(tool, json!({}))
        };
        assert_eq!(
            text_of(&bridge, &request).await,
            expected,
            "{provider} {tool}"
        );
    }
    let old = FaceOptions {
        claude_first: true,
        ..FaceOptions::default()
    };
    let rig = Rig::with(old, EventLimits::default(), Limits::default());
    let text = text_of(&rig.bridge(), &call("echo", json!({}))).await;
    assert_eq!(text, "I am gpt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_who_somebody_is() {
    let rig = Rig::new();
    for name in ["orchestrator-to-some.plugin", "some.plugin", "orchestrator"] {
        let (code, message) = rig.peer(name).fails(&HealthRequest::default()).await;
        assert_eq!(code, "unknown_peer");
        assert!(message.contains(name), "{message}");
    }
    let peer = rig.peer("some.plugin-client");
    let _: HealthResult = peer.get(&HealthRequest::default()).await;
    let (code, _) = peer.fails(&call("echo", json!({}))).await;
    assert_eq!(code, "not_registered");
    let refused: RegistrationResult = peer
        .get(&PluginManifest {
            id: "other.plugin".into(),
            ..PluginManifest::default()
        })
        .await;
    assert!(!refused.accepted && refused.reject_reason.contains("other.plugin"));
    let stranger = rig.peer("stranger-client");
    let refused: RegistrationResult = stranger
        .get(&PluginManifest {
            id: "stranger".into(),
            ..PluginManifest::default()
        })
        .await;
    assert_eq!(refused.reject_reason, "stranger is not configured here");
    let (code, _) = stranger.fails(&ListToolsRequest {}).await;
    assert_eq!(code, "not_registered");
    let accepted: RegistrationResult = peer
        .get(&PluginManifest {
            id: "some.plugin".into(),
            revision: 7,
            ..needs_tools(&["who"])
        })
        .await;
    assert_eq!((accepted.accepted, accepted.revision), (true, 1));
    let who = ToolRequest {
        caller_plugin: "somebody.else".into(),
        ..call("who", json!({}))
    };
    let who = json_of(text_of(&peer, &who).await.as_bytes());
    assert_eq!(who["client"], "some.plugin");
    rig.operator
        .is_closed
        .store(true, std::sync::atomic::Ordering::SeqCst);
    rig.face.review(&"some.plugin".parse().unwrap());
    let (code, _) = peer.fails(&call("who", json!({}))).await;
    assert_eq!(code, "not_registered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_may_do_what_it_needs_and_its_operator_permits() {
    let rig = Rig::new();
    *rig.operator.permitted.lock().unwrap() = Permissions {
        tools: Allowed::listed(["e*", "call_tool"]),
        ..Permissions::all()
    };
    let manifest = PluginManifest {
        needs_ai: vec!["grok".into()],
        needs_events: vec!["t".into()],
        ..needs_tools(&["echo", "who", "call_tool"])
    };
    let plugin = rig.plugin("some.plugin", manifest).await;
    assert_eq!(text_of(&plugin, &call("echo", json!({}))).await, "{}");
    let by = |provider: &str, tool| ToolRequest {
        provider: provider.into(),
        ..call(tool, json!({}))
    };
    assert_eq!(text_of(&plugin, &by("grok", "chat")).await, "I am gpt");
    for request in [
        call("who", json!({})),
        call("ask", json!({})),
        call("call_tool", json!({"name": "ask"})),
        call("gpt__chat", json!({})),
        by("openai", "chat"),
        by("", "talk"),
        verbatim(json!({"name": "ask"})),
    ] {
        let (code, message) = plugin.fails(&request).await;
        assert_eq!(code, "not_permitted", "{request:?}: {message}");
    }
    // What is checked is what is called.
    let two = ToolRequest {
        tool_name: "echo".into(),
        ..verbatim(json!({"name": "ask"}))
    };
    let (code, _) = plugin.fails(&two).await;
    assert_eq!(code, "invalid_request");
    let topic = Subscribe {
        topic: "other".into(),
        ..Subscribe::default()
    };
    assert_eq!(plugin.fails(&topic).await.0, "not_permitted");
    let refused: StorageReadResponse = plugin.get(&StorageReadRequest::default()).await;
    assert_eq!(refused.problem.unwrap().code, "not_permitted");
    for (method, permitted) in [
        ("tools/list", true),
        ("resources/list", false),
        ("x/y", false),
    ] {
        let answer: McpResponse = plugin.get(&mcp(method, json!({}))).await;
        assert_eq!(answer.error.is_empty(), permitted, "{method} {answer:?}");
    }
    let ask: McpResponse = plugin.get(&mcp("tools/call", json!({"name": "ask"}))).await;
    assert_eq!(json_of(&ask.error)["data"]["code"], "not_permitted");
    assert_eq!(rig.bridge().fails(&topic).await.0, "not_permitted");
}

#[tokio::test(flavor = "multi_thread")]
async fn storages_tell_why() {
    let rig = Rig::new();
    let bridge = rig.bridge();
    let other = StorageWriteRequest {
        storage_type: "sqlite".into(),
        ..StorageWriteRequest::default()
    };
    let refused: StorageWriteResponse = bridge.get(&other).await;
    assert_eq!(refused.error, "no plugin provides storage type \"sqlite\"");
    assert!(!refused.success && refused.problem.unwrap().code == "no_storage");
    let listed: StorageListResponse = bridge.get(&StorageListRequest::default()).await;
    assert_eq!(listed.problem.unwrap().code, "storage_error");
    let gone = bridge.ask(&StorageDeleteRequest::default()).await;
    assert!(hex(&gone.encode()).starts_with("8202"));
    let broken = StorageReadRequest {
        path: "panic".into(),
        ..StorageReadRequest::default()
    };
    let broken: StorageReadResponse = bridge.get(&broken).await;
    assert_eq!(broken.problem.unwrap().message, "the storage broke");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_given_up_may_have_been_made() {
    let options = FaceOptions {
        storage_time: Duration::from_millis(50),
        ..FaceOptions::default()
    };
    let rig = Rig::with(options, EventLimits::default(), Limits::default());
    let bridge = rig.bridge();
    let read = StorageReadRequest {
        path: "stuck".into(),
        ..StorageReadRequest::default()
    };
    let read: StorageReadResponse = bridge.get(&read).await;
    assert_eq!(read.problem.unwrap().code, "storage_error");
    let write = StorageWriteRequest {
        path: "stuck".into(),
        ..StorageWriteRequest::default()
    };
    let written: StorageWriteResponse = bridge.get(&write).await;
    assert!(!written.success && written.error.contains("may have succeeded"));
    assert_eq!(written.problem.unwrap().code, "unknown_outcome");
    let delete = StorageDeleteRequest {
        path: "stuck".into(),
        ..StorageDeleteRequest::default()
    };
    let deleted: StorageDeleteResponse = bridge.get(&delete).await;
    assert_eq!(deleted.problem.unwrap().code, "unknown_outcome");
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_got() {
    let rig = Rig::new();
    let bridge = rig.bridge();
    let arguments = BTreeMap::from([("whom".to_owned(), "you".to_owned())]);
    let request = PromptGetRequest {
        prompt_name: "greet".into(),
        arguments,
        ..PromptGetRequest::default()
    };
    let prompt: PromptGetResponse = bridge.get(&request).await;
    assert_eq!(prompt.description, "greets");
    let content = prompt.messages[0].content.clone().unwrap();
    assert_eq!(
        (&*content.r#type, &*content.text),
        ("text", r#"greet {"whom": "you"}"#)
    );
    let without = PromptGetRequest {
        prompt_name: "greet".into(),
        ..PromptGetRequest::default()
    };
    assert_eq!(bridge.fails(&without).await.0, "prompt_routing_error");
    let params = json!({"name": "greet", "arguments": {"whom": "us"}});
    let ours = PromptGetRequest {
        mcp_params: stateless(params),
        ..PromptGetRequest::default()
    };
    let prompt: PromptGetResponse = bridge.get(&ours).await;
    assert_eq!(json_of(&prompt.mcp_result)["resultType"], "complete");
}

/// The notifications and the answer of a call.
fn split<A>(all: Vec<Response>) -> (Vec<Value>, A)
where
    A: PayloadOf<ResponseKind>,
{
    let mut all = all;
    let answer = all.pop().unwrap().message().unwrap();
    let told = all.iter().map(|told| {
        assert_eq!(told.request_id(), "s");
        json_of(&told.message::<McpMessage>().unwrap().json)
    });
    (told.collect(), answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_peers_speak_mcp() {
    let rig = Rig::new();
    let bridge = rig.bridge();
    let all = bridge.all(&verbatim(json!({"name": "steps"}))).await;
    let (told, answer): (_, ToolResponse) = split(all);
    let messages: Vec<&Value> = told.iter().map(|told| &told["params"]["message"]).collect();
    assert_eq!(messages.last(), Some(&&json!("step 3")), "{told:?}");
    assert_eq!(told[0]["params"]["progressToken"], "p");
    let result = json_of(&answer.mcp_result);
    assert_eq!(result["content"][0]["text"], "done");
    assert_eq!(result["resultType"], "complete");
    // The other request kind says the same.
    let all = bridge
        .all(&mcp("tools/call", json!({"name": "steps"})))
        .await;
    let (_, answer): (_, McpResponse) = split(all);
    assert_eq!(json_of(&answer.result), result);
    let who: ToolResponse = bridge
        .get(&ToolRequest {
            trace_parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            session_id: "s-1".into(),
            ..verbatim(json!({"name": "who"}))
        })
        .await;
    let who = json_of(&who.mcp_result)["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    let who = json_of(who.as_bytes());
    assert_eq!(who["client"], "an agent", "a bridge speaks for its clients");
    let params = json_of(who["params"].as_str().unwrap().as_bytes());
    assert_eq!(params["_meta"]["orchestra/sessionId"], "s-1");
    assert_eq!(params["_meta"]["progressToken"], "p");
    assert!(who["trace"].as_str().unwrap().starts_with("00-0af7"));
    let plugin = rig.plugin("some.plugin", needs_tools(&["who"])).await;
    let who: ToolResponse = plugin.get(&verbatim(json!({"name": "who"}))).await;
    let who = json_of(&who.mcp_result)["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(json_of(who.as_bytes())["client"], "some.plugin");
    for (request, code) in [
        (mcp("no/such", json!({})), -32601),
        (mcp("tools/call", json!({"name": "nope"})), -32602),
        (
            McpRequest {
                method: "tools/call".into(),
                params: "{} {}".into(),
                ..McpRequest::default()
            },
            -32602,
        ),
    ] {
        let answer: McpResponse = bridge.get(&request).await;
        assert_eq!(json_of(&answer.error)["code"], code, "{request:?}");
        assert!(answer.result.is_empty());
    }
    let broken: ToolResponse = bridge.get(&verbatim(json!({"name": "panic"}))).await;
    let result = String::from_utf8([&broken.mcp_result[..], &broken.mcp_error].concat()).unwrap();
    assert!(result.contains("panicked"), "{result}");
    let big: ToolResponse = bridge.get(&verbatim(json!({"name": "big"}))).await;
    assert!(
        json_of(&big.mcp_error)["message"]
            .as_str()
            .unwrap()
            .starts_with("result_too_large")
    );
    let discovered: McpResponse = bridge.get(&mcp("server/discover", json!({}))).await;
    let discovered = json_of(&discovered.result);
    assert!(
        discovered["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&json!("2026-07-28"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_can_ask_its_client() {
    let rig = Rig::new();
    let bridge = rig.bridge();
    let first: ToolResponse = bridge.get(&verbatim(json!({"name": "ask"}))).await;
    let first = json_of(&first.mcp_result);
    assert_eq!(first["resultType"], "input_required", "{first}");
    assert_eq!(
        first["inputRequests"]["name"]["method"],
        "elicitation/create"
    );
    let again = json!({
        "name": "ask",
        "requestState": first["requestState"],
        "inputResponses": {"name": {"action": "accept", "content": {}}},
    });
    let second: ToolResponse = bridge.get(&verbatim(again.clone())).await;
    assert_eq!(json_of(&second.mcp_result)["resultType"], "complete");
    // The state is of no use to anybody else.
    let plugin = rig.plugin("some.plugin", needs_tools(&["*"])).await;
    let stolen: ToolResponse = plugin.get(&verbatim(again)).await;
    assert!(!stolen.mcp_error.is_empty(), "{stolen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_gives_up_cancels_the_call() {
    let mut rig = Rig::new();
    let bridge = rig.bridge();
    let stream = StreamStart {
        stream_id: "w".into(),
        tool_name: "wait".into(),
        ..StreamStart::default()
    };
    let requests = [
        envelope::Request::new("", &call("wait", json!({}))),
        envelope::Request::new("", &verbatim(json!({"name": "wait"}))),
        envelope::Request::new("", &mcp("tools/call", json!({"name": "wait"}))),
        envelope::Request::new("", &stream),
    ];
    for request in requests {
        let answers = bridge.0.stream(request.encode(), soon()).await.unwrap();
        rig.hear("waiting").await;
        drop(answers);
        rig.hear("dropped").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_stay_open_until_they_are_given_up() {
    let mut rig = Rig::new();
    let bridge = rig.bridge();
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let listen = envelope::Request::new("s", &mcp("subscriptions/listen", filter)).encode();
    let mut first = bridge.0.stream(listen.clone(), soon()).await.unwrap();
    let mut second = bridge.0.stream(listen, soon()).await.unwrap();
    for answers in [&mut first, &mut second] {
        let begun = timeout(PATIENCE, answers.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let begun: McpMessage = Response::decode(&begun).unwrap().message().unwrap();
        let method = json_of(&begun.json)["method"].clone();
        assert_eq!(method, "notifications/subscriptions/acknowledged");
    }
    drop(second);
    rig.offer("new");
    let told = timeout(PATIENCE, first.next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let told: McpMessage = Response::decode(&told).unwrap().message().unwrap();
    assert_eq!(
        json_of(&told.json)["method"],
        "notifications/tools/list_changed"
    );
    // The end of the server is told by an answer, which is the last frame.
    rig.face.stop();
    let mut last = None;
    while let Some(frame) = timeout(PATIENCE, first.next()).await.unwrap().unwrap() {
        last = Some(Response::decode(&frame).unwrap());
    }
    let ended: McpResponse = last.unwrap().message().unwrap();
    assert!(ended.error.is_empty() && !ended.result.is_empty());
    rig.serving.take().unwrap().stop(soon()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_come_in_chunks() {
    let mut rig = Rig::new();
    let bridge = rig.bridge();
    let start = |id: &str, tool: &str| StreamStart {
        stream_id: id.into(),
        tool_name: tool.into(),
        ..StreamStart::default()
    };
    let all = bridge.all(&start("1", "steps")).await;
    let (end, chunks) = all.split_last().unwrap();
    let chunks: Vec<StreamChunk> = chunks.iter().map(|c| c.message().unwrap()).collect();
    assert!(
        (0..)
            .zip(&chunks)
            .all(|(at, chunk)| chunk.sequence == at && chunk.stream_id == "1")
    );
    assert_eq!(chunks.first().unwrap().data, "step 1");
    assert_eq!(chunks.last().unwrap().data, "done");
    assert_eq!(chunks[0].content_type, "text/plain; charset=utf-8");
    let end: StreamEnd = end.message().unwrap();
    assert!(end.success && end.total_chunks == i64::try_from(chunks.len()).unwrap());
    for (tool, code) in [("nope", "tool_not_found"), ("fail", "tool_error")] {
        let all = bridge.all(&start("2", tool)).await;
        let [end] = &all[..] else { panic!("{all:?}") };
        let end: StreamEnd = end.message().unwrap();
        assert!(
            !end.success && end.error_code == code && end.stream_id == "2",
            "{end:?}"
        );
    }
    let all = bridge.all(&start("3", "data")).await;
    let data: StreamChunk = all[0].message().unwrap();
    assert_eq!(
        (&*data.content_type, &data.data[..]),
        ("application/json", &br#"{"n":1}"#[..])
    );
    let ours = StreamStart {
        mcp_params: stateless(json!({"name": "steps"})),
        ..start("4", "steps")
    };
    let (told, end): (_, StreamEnd) = split(bridge.all(&ours).await);
    assert!(!told.is_empty());
    assert_eq!(json_of(&end.mcp_result)["content"][0]["text"], "done");
    // A stream is cancelled over the same connection, and by nobody else.
    let request = envelope::Request::new("", &start("5", "wait")).encode();
    let mut answers = bridge.0.stream(request, soon()).await.unwrap();
    rig.hear("waiting").await;
    let cancel = StreamCancel {
        stream_id: "5".into(),
    };
    let other = rig.plugin("some.plugin", PluginManifest::default()).await;
    assert_eq!(other.ask(&cancel).await.kind(), None);
    assert!(rig.told.try_recv().is_err());
    let twice = bridge.all(&start("5", "wait")).await;
    let twice: StreamEnd = twice[0].message().unwrap();
    assert_eq!(twice.error_code, "invalid_request");
    // Other bridges have the same name, and may name their streams as they like.
    let second = rig.bridge();
    let request = envelope::Request::new("", &start("5", "wait")).encode();
    let mut of_second = second.0.stream(request, soon()).await.unwrap();
    rig.hear("waiting").await;
    for (peer, answers) in [(&second, &mut of_second), (&bridge, &mut answers)] {
        assert_eq!(peer.ask(&cancel).await.kind(), None);
        let end = timeout(PATIENCE, answers.next()).await.unwrap().unwrap();
        let end = Response::decode(&end.unwrap()).unwrap();
        assert_eq!(end.message::<StreamEnd>().unwrap().error_code, "cancelled");
        rig.hear("dropped").await;
        assert!(rig.told.try_recv().is_err(), "the other goes on");
    }
    // Or by a second frame of the call itself.
    let request = envelope::Request::new("", &start("6", "wait")).encode();
    let calling = bridge.0.open_duplex(request, soon());
    let (mut sender, mut answers) = calling.await.unwrap();
    rig.hear("waiting").await;
    for (id, cancels) in [("5", false), ("6", true)] {
        let cancel = StreamCancel {
            stream_id: id.into(),
        };
        let cancel = envelope::Request::new("", &cancel).encode();
        sender.send(cancel).await.unwrap();
        if !cancels {
            bridge.ask(&HealthRequest::default()).await;
            assert!(rig.told.try_recv().is_err(), "another stream is meant");
        }
    }
    rig.hear("dropped").await;
    let end = timeout(PATIENCE, answers.next()).await.unwrap().unwrap();
    let end = Response::decode(&end.unwrap()).unwrap();
    assert_eq!(end.message::<StreamEnd>().unwrap().error_code, "cancelled");
}

/// Kept in step with the list of kinds.
#[test]
fn every_kind_of_request_is_tested_here() {
    assert_eq!(RequestKind::ALL.len(), 19);
}
