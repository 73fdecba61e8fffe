//! Tools and prompts that are made from annotated functions.

use orchestra_plugin::{
    envelope::RequestKind,
    generated::{
        ListPromptsRequest, ListPromptsResponse, ListToolsRequest, ListToolsResponse,
        PluginManifest, PromptGetRequest, PromptGetResponse, ToolRequest, ToolResponse,
    },
    quic::Endpoint,
};
use serde_json::{Value, json};

use crate::{
    kit_rig::{Fake, Manners, Sample, command_of},
    quic_rig::Authority,
};

async fn annotated(authority: &Authority) -> Sample {
    Sample::start(authority, command_of(authority, "annotated")).await
}

/// The definitions as MCP has them.
async fn tools(sample: &Sample) -> Vec<Value> {
    let listed: ListToolsResponse = sample.ask(&ListToolsRequest {}).await.message().unwrap();
    let tools = listed.tools.iter();
    tools
        .map(|tool| serde_json::from_slice(&tool.mcp_definition).unwrap())
        .collect()
}

fn failed(response: ToolResponse) -> (String, String) {
    assert!(!response.success);
    (response.error_code, response.error_message)
}

#[tokio::test]
async fn a_function_says_what_its_tool_is() {
    let authority = Authority::new();
    let sample = annotated(&authority).await;
    let tools = tools(&sample).await;
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    let wanted = [
        "greet",
        "add",
        "count-calls",
        "lost",
        "number",
        "nothing",
        "drip",
        "learn",
        "forget",
    ];
    assert_eq!(names, wanted);
    assert_eq!(
        tools[0],
        json!({
            "name": "greet",
            "title": "Greet",
            "description": "Greets somebody,\nin one line.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Whom to greet."},
                    "times": {"type": "integer", "minimum": 0, "maximum": 255, "default": 1},
                    "punctuation": {"type": "string", "minLength": 1, "maxLength": 1},
                },
                "required": ["name"],
            },
            "annotations": {"readOnlyHint": true, "idempotentHint": true},
        })
    );
    let hints = json!({"destructiveHint": false, "openWorldHint": false});
    assert_eq!(tools[1]["annotations"], hints);
    assert_eq!(
        tools[1]["outputSchema"]["properties"],
        json!({"sum": {"type": "integer"}})
    );
    let a = &tools[1]["inputSchema"]["properties"]["a"];
    assert_eq!(a["description"], "One of them.");
    assert_eq!(tools[4]["inputSchema"]["required"], json!(["type"]));
    assert_eq!(
        tools[5]["inputSchema"],
        json!({"type": "object", "properties": {}})
    );
    assert_eq!(tools[6]["_meta"], json!({"orchestra/streaming": true}));
}

#[tokio::test]
async fn a_function_answers_with_what_it_returns() {
    let authority = Authority::new();
    let sample = annotated(&authority).await;
    for (tool, arguments, wanted) in [
        (
            "greet",
            r#"{"name":"Ada"}"#,
            "Hello, Ada, from tools.sample.",
        ),
        (
            "greet",
            r#"{"name":"A","times":2,"punctuation":"!"}"#,
            "Hello, A, from tools.sample! Hello, A, from tools.sample!",
        ),
        ("add", r#"{"a":1,"b":2}"#, r#"{"sum":3}"#),
        ("count-calls", "{}", "1"),
        ("count-calls", "{}", "2"),
        ("number", r#"{"type":"-7"}"#, "-7"),
        ("nothing", "{}", "done"),
        ("drip", r#"{"to":3}"#, "1 2 3 "),
    ] {
        assert_eq!(
            sample.text(tool, arguments).await,
            wanted,
            "{tool} {arguments}"
        );
    }
    for (tool, arguments, code, message) in [
        (
            "greet",
            "{}",
            "validation_error",
            "invalid arguments: missing field `name`",
        ),
        (
            "add",
            r#"{"a":9223372036854775807,"b":1}"#,
            "overflow",
            "the sum is too large",
        ),
        (
            "number",
            r#"{"type":"x"}"#,
            "handler_error",
            "invalid digit found in string",
        ),
        (
            "lost",
            "{}",
            "handler_error",
            "the plugin has no state of the type alloc::string::String: give it one by Plugin::state",
        ),
    ] {
        let params =
            json!({"name": tool, "arguments": serde_json::from_str::<Value>(arguments).unwrap()});
        let request = ToolRequest {
            tool_name: tool.to_owned(),
            mcp_params: params.to_string().into(),
            ..ToolRequest::default()
        };
        let response = sample.ask(&request).await.message().unwrap();
        assert_eq!(failed(response), (code.to_owned(), message.to_owned()));
    }
}

#[tokio::test]
async fn a_function_writes_a_prompt() {
    let authority = Authority::new();
    let sample = annotated(&authority).await;
    let listed = sample.ask(&ListPromptsRequest {}).await;
    let listed: ListPromptsResponse = listed.message().unwrap();
    let prompt: Value = serde_json::from_slice(&listed.prompts[0].mcp_definition).unwrap();
    assert_eq!(
        prompt,
        json!({
            "name": "poem",
            "title": "Poem",
            "description": "Asks for a poem.",
            "arguments": [
                {"name": "about", "description": "What it is about.", "required": true},
                {"name": "tone", "description": "", "required": false},
            ],
        })
    );
    let request = PromptGetRequest {
        prompt_name: "poem".to_owned(),
        arguments: [("about".to_owned(), "rain".to_owned())].into(),
        ..PromptGetRequest::default()
    };
    let said: PromptGetResponse = sample.ask(&request).await.message().unwrap();
    let content = said.messages[0].content.as_ref().unwrap();
    assert_eq!(content.text, "Write a merry poem about rain.");
}

#[tokio::test]
async fn tools_come_and_go_and_the_orchestrator_is_told() {
    let authority = Authority::new();
    for revision in [1, 0] {
        let manners = Manners {
            revision,
            ..Manners::default()
        };
        let mut orchestrator = Fake::start(&authority, Endpoint::LOOPBACK, manners);
        let mut command = command_of(&authority, "annotated");
        command.arg(format!("--orchestrator-addr={}", orchestrator.address));
        let sample = Sample::start(&authority, command).await;
        let first = provided(&mut orchestrator).await;
        let learn = r#"{"name":"parrot","says":"hello"}"#;
        assert_eq!(sample.text("learn", learn).await, "done");
        assert_eq!(sample.text("parrot", "{}").await, "hello");
        // One of the same name takes its place.
        let learn = r#"{"name":"parrot","says":"good bye"}"#;
        assert_eq!(sample.text("learn", learn).await, "done");
        assert_eq!(sample.text("parrot", "{}").await, "good bye");
        let listed = tools(&sample).await;
        assert_eq!(listed.len(), first.len() + 1);
        assert_eq!(listed.last().unwrap()["description"], "Says good bye");
        if revision > 0 {
            let mut now = provided(&mut orchestrator).await;
            assert_eq!(now.pop().as_deref(), Some("parrot"));
            assert_eq!(now, first);
        }
        assert_eq!(sample.text("forget", r#"{"name":"parrot"}"#).await, "true");
        assert_eq!(sample.text("forget", r#"{"name":"parrot"}"#).await, "false");
        let gone = failed(sample.call("parrot", "{}").await);
        assert_eq!(gone.0, "tool_not_found");
        assert_eq!(tools(&sample).await.len(), first.len());
        if revision > 0 {
            while provided(&mut orchestrator).await != first {}
        } else {
            // An older one is told once, who we are.
            assert!(orchestrator.seen.try_recv().is_err());
        }
    }
}

/// The tools that the plugin says it provides when it registers.
async fn provided(orchestrator: &mut Fake) -> Vec<String> {
    let (_, register) = orchestrator.hear(RequestKind::Register).await;
    register.message::<PluginManifest>().unwrap().provides_tools
}
