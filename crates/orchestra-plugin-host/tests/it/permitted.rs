//! Refusals of what a plugin does not need or may not use, and their records.

use std::collections::BTreeMap;

use orchestra_plugin::generated::{
    McpResponse, PromptGetRequest, PromptGetResponse, StorageReadRequest, StorageReadResponse,
};
use serde_json::json;

use crate::{
    face::{call, json_of, mcp, needs_tools, stateless},
    face_rig::Rig,
};

#[tokio::test(flavor = "multi_thread")]
async fn prompt_that_a_plugin_does_not_need_is_refused_and_recorded() {
    let rig = Rig::new();
    let plain = PromptGetRequest {
        prompt_name: "greet".into(),
        arguments: BTreeMap::from([("whom".to_owned(), "you".to_owned())]),
        ..PromptGetRequest::default()
    };
    let params = json!({"name": "greet", "arguments": {"whom": "you"}});
    let of_mcp = PromptGetRequest {
        mcp_params: stateless(params.clone()),
        ..PromptGetRequest::default()
    };
    let plugin = rig.plugin("some.plugin", needs_tools(&["echo"])).await;
    for request in [&plain, &of_mcp] {
        let (code, message) = plugin.fails(request).await;
        assert_eq!(code, "not_permitted", "{message}");
        assert!(message.contains("the prompt \"greet\""), "{message}");
    }
    let refused: McpResponse = plugin.get(&mcp("prompts/get", params.clone())).await;
    assert_eq!(json_of(&refused.error)["data"]["code"], "not_permitted");
    let unnamed: McpResponse = plugin.get(&mcp("prompts/get", json!({}))).await;
    assert_eq!(json_of(&unnamed.error)["data"]["code"], "invalid_request");
    // Refusals of requests that no plugin may make are recorded as well.
    for method in ["resources/read", "completion/complete"] {
        let refused: McpResponse = plugin.get(&mcp(method, json!({"uri": "a:b"}))).await;
        assert_eq!(json_of(&refused.error)["data"]["code"], "not_permitted");
    }
    plugin.fails(&call("who", json!({}))).await;
    let refused: StorageReadResponse = plugin.get(&StorageReadRequest::default()).await;
    assert_eq!(refused.problem.unwrap().code, "not_permitted");
    let recorded = rig.recorded("denied", 7).await;
    let expected = [
        ("prompt", "greet"),
        ("prompt", "greet"),
        ("prompt", "greet"),
        ("method", "resources/read"),
        ("method", "completion/complete"),
        ("tool", "who"),
        ("storage", "markdown"),
    ];
    assert_eq!(
        recorded,
        expected.map(|(kind, name)| (kind.to_owned(), name.to_owned()))
    );
    let needing = rig.plugin("other.plugin", needs_tools(&["gr*"])).await;
    let prompt: PromptGetResponse = needing.get(&plain).await;
    assert_eq!(prompt.description, "greets");
    let prompt: PromptGetResponse = needing.get(&of_mcp).await;
    assert!(prompt.mcp_error.is_empty(), "{prompt:?}");
    let prompt: McpResponse = needing.get(&mcp("prompts/get", params)).await;
    assert!(prompt.error.is_empty(), "{prompt:?}");
}
