//! What `docs/plugins.md` says in tables and bytes is so.

use std::path::Path;

use bytes::Bytes;
use orchestra_plugin::{
    envelope::{Envelope, Kind, PayloadOf, Request, RequestKind, Response, ResponseKind},
    frame::{FrameDecoder, FrameError},
    generated::{
        BootRequest, BootResult, HealthRequest, HealthResult, ListToolsRequest, ListToolsResponse,
        PluginManifest, Publish, RegistrationResult, StorageWriteRequest, StorageWriteResponse,
        ToolDefinition, ToolRequest, ToolResponse,
    },
    structs::{self, Numbers},
};

fn guide() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    std::fs::read_to_string(root.unwrap().join("docs/plugins.md")).unwrap()
}

/// The rows of the tables below a heading, without those that head them.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let guide = guide();
    let section = guide.split("\n## ").find(|part| part.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("the guide has no {heading:?}"));
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = |row: &str| {
        let row = row.strip_suffix(" |").unwrap_or(row);
        row.split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    rows.map(cells).skip(1).collect()
}

/// The words of a cell that are code.
fn codes(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_kind_of_request_has_its_row() {
    let rows = rows("Requests and answers");
    let found: Vec<(u32, &str)> = rows
        .iter()
        .map(|row| (row[0].parse().unwrap(), codes(&row[1])[0]))
        .collect();
    let kinds = RequestKind::ALL.iter();
    let wanted: Vec<(u32, &str)> = kinds.map(|kind| (kind.number(), kind.name())).collect();
    assert_eq!(found, wanted);
    for row in &rows {
        for answer in codes(&row[2]) {
            let is_there = ResponseKind::ALL.iter().any(|kind| kind.name() == answer);
            assert!(is_there, "{answer} in {row:?}");
        }
    }
}

fn structure(json: &str) -> Option<Bytes> {
    Some(structs::encode(json.as_bytes(), Numbers::Exact).unwrap())
}

fn frame<K: Kind, M: PayloadOf<K>>(id: &str, message: &M) -> String {
    hex(&Envelope::<K>::new(id, message).to_frame().unwrap())
}

fn request<M: PayloadOf<RequestKind>>(id: &str, message: M) -> String {
    frame(id, &message)
}

fn response<M: PayloadOf<ResponseKind>>(id: &str, message: M) -> String {
    frame(id, &message)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write(expected_version: i64) -> StorageWriteRequest {
    StorageWriteRequest {
        path: "notes/a.md".into(),
        content: "hi\n".into(),
        expected_version,
        ..StorageWriteRequest::default()
    }
}

fn failed(code: &str, message: &str) -> ToolResponse {
    ToolResponse {
        error_code: code.into(),
        error_message: message.into(),
        ..ToolResponse::default()
    }
}

/// The frames of the start of a plugin, and of its tools.
fn frames_of_tools() -> Vec<String> {
    let manifest = PluginManifest {
        id: "tools.demo".into(),
        ..PluginManifest::default()
    };
    let accepted = RegistrationResult {
        accepted: true,
        ..RegistrationResult::default()
    };
    let boot = BootRequest {
        config: [("greeting".into(), "hello".into())].into(),
    };
    let ready = BootResult {
        ready: true,
        ..BootResult::default()
    };
    let greet = ToolDefinition {
        name: "greet".into(),
        description: "Greets".into(),
        input_schema: structure(r#"{"type":"object"}"#),
        ..ToolDefinition::default()
    };
    let call = ToolRequest {
        tool_name: "greet".into(),
        arguments: structure(r#"{"name":"Ada"}"#),
        ..ToolRequest::default()
    };
    let greeted = ToolResponse {
        success: true,
        result: structure(r#"{"text":"Hello, Ada!"}"#),
        ..ToolResponse::default()
    };
    let well = HealthResult {
        status: 1,
        message: "ok".into(),
        ..HealthResult::default()
    };
    vec![
        request("r-1", manifest),
        response("r-1", accepted),
        request("r-2", boot),
        response("r-2", ready),
        request("r-3", ListToolsRequest {}),
        response("r-3", ListToolsResponse { tools: vec![greet] }),
        request("r-4", call),
        response("r-4", greeted),
        response("r-4", failed("handler_error", "no name")),
        request("r-5", HealthRequest::default()),
        response("r-5", well),
    ]
}

/// The frames of events and documents, and those that say no.
fn other_frames() -> Vec<String> {
    let publish = Publish {
        topic: "sample.news".into(),
        event_type: "told".into(),
        payload: structure(r#"{"news":"rain"}"#),
        source_plugin: "tools.demo".into(),
    };
    let written = StorageWriteResponse {
        success: true,
        new_version: 1,
        ..StorageWriteResponse::default()
    };
    let conflict = StorageWriteResponse {
        error: "version conflict: expected 0, current 1".into(),
        ..StorageWriteResponse::default()
    };
    vec![
        request("r-6", publish),
        hex(&Response::empty("r-6").to_frame().unwrap()),
        request("r-7", write(0)),
        request("r-7", write(-1)),
        response("r-7", written),
        response("r-7", conflict),
        response(
            "r-8",
            failed("unknown_request", "unrecognized request type"),
        ),
        "00000000".to_owned(),
        "01000001".to_owned(),
    ]
}

#[test]
fn frames_are_what_they_are_said_to_be() {
    let rows = rows("Frames, byte by byte");
    let found: Vec<&str> = rows.iter().map(|row| codes(&row[1])[0]).collect();
    assert_eq!(found, [frames_of_tools(), other_frames()].concat());
    let empty = FrameDecoder::default().next(&mut Bytes::from_static(&[0; 4]));
    let empty = Request::decode(&empty.unwrap().unwrap()).unwrap();
    assert_eq!(empty.kind(), None);
    let refused = FrameDecoder::default().next(&mut Bytes::from_static(&[1, 0, 0, 1]));
    assert!(matches!(
        refused,
        Err(FrameError::TooLong {
            length: 16_777_217,
            ..
        })
    ));
}

#[test]
fn the_plugin_in_rust_is_that_of_the_kit() {
    let kit = include_str!("../../src/kit.rs");
    let guide = guide();
    let code = guide.split("```rust\n").nth(1).unwrap();
    let code = code.split("```").next().unwrap();
    let lines = kit.lines().filter_map(|line| line.strip_prefix("//!"));
    let documented: Vec<&str> = lines
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    assert!(documented.join("\n").contains(code), "{code}");
}
