//! How much a peer may ask of the hub at once, and leave unread.

use orchestra_plugin::{
    envelope::{self, Response},
    generated::{
        HealthRequest, HealthResult, McpResponse, PluginManifest, RegistrationResult,
        StorageReadRequest, StorageReadResponse, StorageWriteRequest, StreamStart, ToolResponse,
    },
    quic::Limits,
};
use orchestra_plugin_host::{events::EventLimits, face::FaceOptions};
use serde_json::json;
use tokio::time::timeout;

use crate::face::{call, json_of, mcp};
use crate::face_rig::{PATIENCE, Rig, soon};

#[tokio::test(flavor = "multi_thread")]
async fn one_call_too_many_is_told_so() {
    let limits = Limits {
        calls: 1,
        ..Limits::default()
    };
    let mut rig = Rig::with(FaceOptions::default(), EventLimits::default(), limits);
    let bridge = rig.bridge();
    let request = envelope::Request::new("", &call("wait", json!({}))).encode();
    let waiting = bridge.0.stream(request, soon()).await.unwrap();
    rig.hear("waiting").await;
    assert_eq!(bridge.fails(&call("echo", json!({}))).await.0, "busy");
    let answer: McpResponse = bridge.get(&mcp("ping", json!({}))).await;
    assert_eq!(json_of(&answer.error)["data"]["code"], "busy");
    // Who it is, and how we are, is no call.
    let _: HealthResult = bridge.get(&HealthRequest::default()).await;
    let manifest = PluginManifest {
        id: "transport.stdio".into(),
        ..PluginManifest::default()
    };
    let registered: RegistrationResult = bridge.get(&manifest).await;
    assert!(registered.accepted, "{}", registered.reject_reason);
    // Others are not concerned.
    let _: HealthResult = rig
        .peer("some.plugin-client")
        .get(&HealthRequest::default())
        .await;
    drop(waiting);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_are_bounded() {
    const LARGE: usize = 8 * 1024 * 1024;
    let options = FaceOptions {
        peer_reply_bytes: 2 * LARGE + LARGE / 2,
        ..FaceOptions::default()
    };
    let mut rig = Rig::with(options, EventLimits::default(), Limits::default());
    let needs = PluginManifest {
        needs_storage: vec!["markdown".into()],
        needs_tools: vec!["wait".into()],
        ..PluginManifest::default()
    };
    let greedy = rig.plugin("greedy", needs).await;
    let written = StorageWriteRequest {
        path: "large".into(),
        content: vec![b'x'; LARGE].into(),
        ..StorageWriteRequest::default()
    };
    greedy.ask(&written).await;
    let read = StorageReadRequest {
        path: "large".into(),
        ..StorageReadRequest::default()
    };
    let request = envelope::Request::new("", &read).encode();
    let refusal = async || {
        let answer = greedy.0.call(request.clone(), soon()).await.unwrap();
        let answer = Response::decode(&answer).unwrap();
        let refused = answer.message::<ToolResponse>().ok()?;
        Some(refused.error_code)
    };
    let mut unread = Vec::new();
    let filled = async {
        loop {
            unread.push(greedy.0.stream(request.clone(), soon()).await.unwrap());
            if let Some(code) = refusal().await {
                return code;
            }
        }
    };
    let code = timeout(PATIENCE, filled).await.unwrap();
    assert_eq!(code, "result_dropped");
    // What may change something is refused before it runs.
    let (code, text) = greedy.fails(&call("wait", json!({}))).await;
    assert_eq!(code, "busy", "{text}");
    let (code, text) = greedy.fails(&stream("wait")).await;
    assert_eq!(code, "busy", "{text}");
    assert!(rig.told.try_recv().is_err());
    let small = StorageReadRequest {
        path: "none".into(),
        ..StorageReadRequest::default()
    };
    let answer: StorageReadResponse = greedy.get(&small).await;
    assert_eq!(answer.problem.unwrap().code, "not_found");
    // Others are not concerned.
    let answer: StorageReadResponse = rig.bridge().get(&read).await;
    assert_eq!(answer.content.len(), LARGE);
    drop(unread);
    let freed = async { while refusal().await.is_some() {} };
    timeout(PATIENCE, freed).await.unwrap();
}

fn stream(tool: &str) -> StreamStart {
    StreamStart {
        stream_id: "s".into(),
        tool_name: tool.into(),
        ..StreamStart::default()
    }
}
