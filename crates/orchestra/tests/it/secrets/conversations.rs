//! Secrets in conversations: arguments and results of tools, answers of the model, and the key of its server.

use orchestra_secret::sample::samples;
use serde_json::json;

use super::{CONTROL, KNOWN, assert_masked, bytes_below, planted, remove_plants, server};
use crate::{
    models::{Fake, OpenAi, Say},
    support::{Workspace, said},
};

#[test]
fn samples_in_a_conversation_are_masked_in_exports_recordings_and_logs() {
    let workspace = Workspace::new();
    let samples = samples("chat");
    let text = planted(&samples);
    let result = json!({"content": [{"type": "text", "text": text}]});
    workspace.write(
        "server.sh",
        &server(&workspace, &samples, "result", &result),
    );
    let call = ("leak", json!({"text": text}));
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let model = Fake::openai(vec![
        Say::Stream(OpenAi.calls(&[call])),
        Say::Stream(OpenAi.words(&lines)),
    ]);
    let host = format!("{}/v1", model.address);
    let mut chat = workspace.command(["--log", "trace", "chat", "--backend", "openai"]);
    chat.args(["--host", &host, "--model", "tiny", "--yes"])
        .args(["--trace", "--trace-file", "traffic.jsonl"])
        .args(["--session", "session.jsonl", "--stdio", "sh server.sh"])
        .env("OPENAI_API_KEY", KNOWN);
    let chat = said(chat, CONTROL);
    assert_eq!(chat.code, Some(0), "{chat:?}");
    assert_eq!(model.chats().len(), 2, "the tool is called");
    assert!(model.chats()[0].head.contains(KNOWN), "the key is sent");
    assert_masked(&samples, "standard error", CONTROL, chat.err.as_bytes());
    let recording = workspace.read("traffic.jsonl");
    assert_masked(&samples, "the recording", CONTROL, recording.as_bytes());
    let mut export = workspace.command(["chat", "export", "session.jsonl"]);
    export.env("OPENAI_API_KEY", KNOWN);
    let exported = said(export, "").out;
    for part in ["## You", "called `leak`", "answered:", "## The model"] {
        let (_, rest) = exported.split_once(part).unwrap_or_default();
        assert_masked(&samples, part, CONTROL, rest.as_bytes());
    }
    // The conversation itself is stored as it is, because a model continues it.
    remove_plants(&workspace);
    let mut stored = Vec::new();
    bytes_below(&workspace.home(), &mut stored);
    assert_masked(&samples, "the log of the server", CONTROL, &stored);
}

#[test]
fn name_of_a_server_contains_no_secret_of_its_url() {
    let workspace = Workspace::new();
    let url = "http://127.0.0.1:1/mcp?access_token=planted7b2c9x";
    let mut chat = workspace.command(["chat", "--model", "tiny", "-q", "x", "--url", url]);
    chat.args(["--host", "http://127.0.0.1:1"])
        .args(["--trace-file", "traffic.jsonl"]);
    let chat = said(chat, "");
    let recording = workspace.read("traffic.jsonl");
    for shown in [chat.err, recording] {
        assert!(shown.contains("http-127-0-0-1-1-mcp"), "{shown}");
        assert!(!shown.contains("planted7b2c9x"), "{shown}");
    }
}
