//! The author's kit, by a plugin written with it that runs as a process of its own.

use std::{collections::BTreeMap, process::Stdio, time::Duration};

use bytes::Bytes;
use orchestra_plugin::{
    envelope::{Request, RequestKind, Response, ResponseKind},
    generated::{
        BootRequest, BootResult, EventDelivery, HealthRequest, HealthResult, ListPromptsRequest,
        ListPromptsResponse, ListToolsRequest, ListToolsResponse, McpMessage, McpRequest,
        McpResponse, PluginManifest, PromptGetRequest, PromptGetResponse, Publish,
        RegistrationResult, ShutdownRequest, ShutdownResult, StorageReadRequest,
        StorageReadResponse, StorageWriteRequest, StorageWriteResponse, StreamCancel, StreamChunk,
        StreamEnd, StreamStart, Subscribe, ToolRequest, ToolResponse, Unsubscribe,
    },
    quic::Endpoint,
    structs::{self, Numbers, Style},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    time::{Instant, timeout},
};

use crate::{
    kit_rig::{Fake, Manners, SAMPLE, Sample, ask, caller, command, program, tool_request},
    quic_rig::{Authority, PATIENCE, soon},
};

pub(crate) fn encoded(json: &Value) -> Bytes {
    structs::encode(json.to_string().as_bytes(), Numbers::Nearest).unwrap()
}

/// A tool call as our own orchestrators make it.
fn mcp_call(tool: &str, params: &Value) -> ToolRequest {
    ToolRequest {
        tool_name: tool.to_owned(),
        mcp_params: Bytes::from(params.to_string()),
        ..ToolRequest::default()
    }
}

pub(crate) fn kind(response: &Response) -> Option<ResponseKind> {
    response.kind()
}

fn unknown_request(response: &Response) {
    let failure: ToolResponse = response.message().unwrap();
    assert_eq!(failure.error_code, "unknown_request");
    assert_eq!(failure.error_message, "unrecognized request type");
}

// What an older orchestrator and its launcher rely on, row by row.

#[tokio::test]
async fn checklist_1_flags_and_the_manifest() {
    let authority = Authority::new();
    let manifest = std::process::Command::new(program())
        .arg("--manifest")
        .output()
        .unwrap();
    assert_eq!(manifest.status.code(), Some(0));
    assert_eq!(manifest.stderr, b"");
    let manifest: Value = serde_json::from_slice(&manifest.stdout).unwrap();
    assert_eq!(manifest["id"], SAMPLE);
    assert_eq!(manifest["language"], "rust");
    assert_eq!(manifest["provides_transport"], json!([]));
    assert_eq!(manifest["needs_storage"], json!(["markdown"]));
    assert_eq!(manifest["needs_events"], json!(["sample.news"]));
    assert_eq!(manifest["provides_tools"][0], "echo");
    for bad in ["--nope", "--nope=1", "word", "--workspace"] {
        let refused = std::process::Command::new(program())
            .arg(bad)
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(2), "{bad}");
        assert!(refused.stdout.is_empty() && !refused.stderr.is_empty());
    }
    let mut forms = tokio::process::Command::new(program());
    forms
        .args(["-listen-addr", "127.0.0.1:0", "--workspace=w", "-certs-dir"])
        .arg(authority.dir.path())
        .arg("-orchestrator-addr=")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let sample = Sample::start(&authority, forms).await;
    let whoami: Value = serde_json::from_str(&sample.text("whoami", "{}").await).unwrap();
    assert_eq!(whoami["workspace"], "w");
}

#[tokio::test]
async fn checklist_1_what_cannot_start_says_why_and_ends_with_1() {
    let authority = Authority::new();
    let mut taken = command(&authority);
    taken.arg("--listen-addr=nowhere.invalid:1");
    let output = taken.output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("nowhere.invalid:1"), "{said}");
}

#[tokio::test]
async fn checklist_2_certificates_are_made_in_an_empty_directory() {
    for is_named in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let certs = home.path().join(".orchestra/certs");
        let mut first = tokio::process::Command::new(program());
        first
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if is_named {
            first.arg(format!("--certs-dir={}", certs.display()));
        }
        let mut child = first.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
        assert!(line.unwrap().starts_with("READY 127.0.0.1:"));
        for file in [
            "ca.crt",
            "ca.key",
            "tools.sample.crt",
            "tools.sample-client.key",
        ] {
            assert!(certs.join(file).exists(), "{file}");
        }
    }
}

/// It would be taken for somebody else's when certificates are handed out there.
#[tokio::test]
async fn no_authority_is_founded_where_certificates_are_handed_out() {
    let home = tempfile::tempdir().unwrap();
    for place in [".orchestra/certs/plugins/tools.sample", "given"] {
        let certs = home.path().join(place);
        let ended = tokio::process::Command::new(program())
            .env("HOME", home.path())
            .arg(format!("--certs-dir={}", certs.display()))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(PATIENCE, ended).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("`orchestra certs issue tools.sample --out DIR`"),
            "{said}"
        );
        assert!(!certs.join("ca.crt").exists() && !certs.join("ca.key").exists());
    }
    assert!(!home.path().join(".orchestra/certs/ca.crt").exists());
}

#[tokio::test]
async fn checklist_3_ready_on_ipv4_in_the_first_line() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    assert!(sample.address.is_ipv4() && sample.address.ip().is_loopback());
    assert_eq!(sample.text("echo", r#"{"text":"hi"}"#).await, "hi");
}

#[tokio::test]
async fn checklist_4_little_is_written_to_stderr_after_ready() {
    let authority = Authority::new();
    let mut sample = Sample::alone(&authority).await;
    for _ in 0..100 {
        sample.call("panic", "{}").await;
        sample.call("fail", "{}").await;
    }
    sample.ask(&ShutdownRequest::default()).await;
    assert_eq!(sample.code().await, Some(0));
    let mut written = 0;
    while let Some(line) = sample.stderr.next_line().await.unwrap() {
        written += line.len();
    }
    assert!(written < 16 * 1024, "{written}");
}

#[tokio::test]
async fn checklist_4_a_log_file_takes_what_is_written_to_stderr() {
    let authority = Authority::new();
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("sample.log");
    let mut logging = command(&authority);
    logging.arg("--log-file").arg(&log);
    let sample = Sample::start(&authority, logging).await;
    // Nobody reads the pipe, which holds far less.
    assert_eq!(
        sample.text("flood_stderr", r#"{"bytes":1000000}"#).await,
        "written"
    );
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 1_000_000);
}

#[tokio::test]
async fn checklist_5_the_life_of_a_plugin() {
    let authority = Authority::new();
    let mut fake = Fake::start(&authority, Endpoint::LOOPBACK, Manners::default());
    let mut calling = command(&authority);
    calling.arg(format!("--orchestrator-addr={}", fake.address));
    let mut sample = Sample::start(&authority, calling).await;

    let (peer, register) = fake.hear(RequestKind::Register).await;
    assert_eq!(peer, "tools.sample-client");
    let manifest: PluginManifest = register.message().unwrap();
    assert_eq!(manifest.id, SAMPLE);
    assert_eq!(manifest.provides_prompts, ["greeting"]);
    assert_eq!(manifest.needs_events, ["sample.news"]);
    assert_eq!(manifest.revision, 1);

    let own = PluginManifest {
        id: SAMPLE.to_owned(),
        ..PluginManifest::default()
    };
    let registered: RegistrationResult = sample.ask(&own).await.message().unwrap();
    assert!(registered.accepted);
    let boot = BootRequest {
        config: BTreeMap::from([("greeting".to_owned(), "hello".to_owned())]),
    };
    let booted: BootResult = sample.ask(&boot).await.message().unwrap();
    assert!(booted.ready && booted.error.is_empty());
    let whoami: Value = serde_json::from_str(&sample.text("whoami", "{}").await).unwrap();
    assert_eq!(whoami["greeting"], "hello");

    let listed: ListToolsResponse = sample.ask(&ListToolsRequest {}).await.message().unwrap();
    let add = listed.tools.iter().find(|tool| tool.name == "add").unwrap();
    let schema = structs::decode(add.input_schema.as_ref().unwrap(), Style::Sorted).unwrap();
    assert_eq!(
        schema,
        r#"{"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"type":"object"}"#
    );
    let definition: Value = serde_json::from_slice(&add.mcp_definition).unwrap();
    assert_eq!(definition["annotations"], json!({"readOnlyHint": true}));
    assert_eq!(definition["outputSchema"]["required"], json!(["sum"]));
    let prompts: ListPromptsResponse = sample.ask(&ListPromptsRequest {}).await.message().unwrap();
    let arguments: Vec<_> = prompts.prompts[0]
        .arguments
        .iter()
        .map(|argument| (argument.name.as_str(), argument.required))
        .collect();
    assert_eq!(arguments, [("name", true), ("tone", false)]);

    let health: HealthResult = sample
        .ask(&HealthRequest::default())
        .await
        .message()
        .unwrap();
    assert_eq!((health.status, health.message.as_str()), (1, "ok"));
    assert!(health.details["kit"].starts_with("rust/") && !health.details.contains_key("mcp"));

    let stopped: ShutdownResult = sample
        .ask(&ShutdownRequest { timeout_seconds: 5 })
        .await
        .message()
        .unwrap();
    assert!(stopped.clean);
    assert_eq!(sample.code().await, Some(0));
}

#[tokio::test]
async fn checklist_5_a_boot_that_fails_or_is_for_another_is_said() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    let boot = BootRequest {
        config: BTreeMap::from([("fail".to_owned(), "boot refused".to_owned())]),
    };
    let booted: BootResult = sample.ask(&boot).await.message().unwrap();
    assert_eq!(
        (booted.ready, booted.error.as_str()),
        (false, "boot refused")
    );
    let other = PluginManifest {
        id: "tools.other".to_owned(),
        ..PluginManifest::default()
    };
    let registered: RegistrationResult = sample.ask(&other).await.message().unwrap();
    assert!(!registered.accepted && registered.reject_reason.contains(SAMPLE));
}

#[tokio::test]
async fn checklist_5_boot_comes_before_the_orchestrator_can_be_reached() {
    let authority = Authority::new();
    // An address that is free for the moment.
    let fake = Fake::start(&authority, Endpoint::LOOPBACK, Manners::default());
    let address = fake.address;
    fake.vanish().await;
    let mut calling = command(&authority);
    calling.arg(format!("--orchestrator-addr={address}"));
    let sample = Sample::start(&authority, calling).await;
    let booted: BootResult = sample.ask(&BootRequest::default()).await.message().unwrap();
    assert!(booted.ready);
    assert_eq!(sample.text("echo", r#"{"text":"hi"}"#).await, "hi");
    let mut fake = Fake::start(&authority, address, Manners::default());
    fake.hear(RequestKind::Register).await;
    let text = sample
        .text("store", r#"{"path":"a.md","content":"x","version":0}"#)
        .await;
    assert_eq!(text, r#"{"version":1}"#);
}

#[tokio::test]
async fn checklist_6_unknown_kinds_and_events() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    unknown_request(&sample.ask(&McpMessage::default()).await);
    // A request that holds nothing but an id, and an empty frame.
    for payload in [Request::empty("").encode(), Bytes::new()] {
        let answer = sample.caller.call(payload, soon()).await.unwrap();
        unknown_request(&Response::decode(&answer).unwrap());
    }
    for number in 0..3 {
        let event = Publish {
            topic: "sample.news".to_owned(),
            event_type: "new".to_owned(),
            payload: Some(encoded(&json!({"n": number}))),
            source_plugin: "tools.other".to_owned(),
        };
        assert_eq!(kind(&sample.ask(&event).await), None);
    }
    let heard = async {
        loop {
            let heard = sample.text("heard", "{}").await;
            if heard.lines().count() == 3 {
                break heard;
            }
        }
    };
    assert_eq!(
        timeout(PATIENCE, heard).await.unwrap(),
        "tools.other new {\"n\":0}\ntools.other new {\"n\":1}\ntools.other new {\"n\":2}"
    );
    let subscribe = Subscribe {
        subscription_id: "q".to_owned(),
        topic: "t".to_owned(),
        ..Subscribe::default()
    };
    let acknowledged: EventDelivery = sample.ask(&subscribe).await.message().unwrap();
    assert_eq!(acknowledged.subscription_id, "q");
    assert_eq!(kind(&sample.ask(&Unsubscribe::default()).await), None);
}

#[tokio::test]
async fn checklist_7_an_empty_answer_of_the_storage_is_not_found() {
    let authority = Authority::new();
    let fake = Fake::start(&authority, Endpoint::LOOPBACK, Manners::default());
    let mut calling = command(&authority);
    calling.arg(format!("--orchestrator-addr={}", fake.address));
    let sample = Sample::start(&authority, calling).await;
    assert_eq!(sample.text("load", r#"{"text":"a.md"}"#).await, "not found");
    let written = sample
        .text("store", r#"{"path":"a.md","content":"x","version":0}"#)
        .await;
    assert_eq!(written, r#"{"version":1}"#);
    let conflict = sample
        .call("store", r#"{"path":"a.md","content":"y","version":0}"#)
        .await;
    assert_eq!(conflict.error_code, "conflict");
    let written = sample
        .text("store", r#"{"path":"a.md","content":"y","version":1}"#)
        .await;
    assert_eq!(written, r#"{"version":2}"#);
    let loaded = sample.text("load", r#"{"text":"a.md"}"#).await;
    assert_eq!(loaded, r#"{"content":"y","metadata":{},"version":2}"#);
    // A reason is an error, not an absence.
    let refused = sample.call("load", r#"{"text":"secret.md"}"#).await;
    assert_eq!(
        refused.error_message,
        "the storage refused the request: not yours"
    );
}

// What a plugin answers, in the words of the first kit.

#[tokio::test]
async fn what_is_not_there_is_said_in_the_words_of_the_first_kit() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    let missing = sample.call("nope", "{}").await;
    assert_eq!(missing.error_code, "tool_not_found");
    assert_eq!(missing.error_message, "tool \"nope\" not found");
    let prompt = PromptGetRequest {
        prompt_name: "zz".to_owned(),
        ..PromptGetRequest::default()
    };
    let prompt: PromptGetResponse = sample.ask(&prompt).await.message().unwrap();
    assert_eq!(prompt.description, "prompt \"zz\" not found");
    assert!(prompt.messages.is_empty());
    let read: StorageReadResponse = sample
        .ask(&StorageReadRequest::default())
        .await
        .message()
        .unwrap();
    assert_eq!(read, StorageReadResponse::default());
    let write: StorageWriteResponse = sample
        .ask(&StorageWriteRequest::default())
        .await
        .message()
        .unwrap();
    assert_eq!(write.error, "no storage handler registered");
    let start = StreamStart {
        stream_id: "s".to_owned(),
        tool_name: "echo".to_owned(),
        ..StreamStart::default()
    };
    let end: StreamEnd = sample.ask(&start).await.message().unwrap();
    assert_eq!(end.error_code, "tool_not_found");
    assert_eq!(end.error_message, "streaming tool \"echo\" not found");
}

#[tokio::test]
async fn prompts_are_written_from_their_arguments() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    let mut request = PromptGetRequest {
        prompt_name: "greeting".to_owned(),
        arguments: BTreeMap::from([("name".to_owned(), "Ada".to_owned())]),
        ..PromptGetRequest::default()
    };
    let old: PromptGetResponse = sample.ask(&request).await.message().unwrap();
    assert_eq!(old.messages[0].role, "user");
    assert_eq!(
        old.messages[0].content.as_ref().unwrap().text,
        "Greet Ada kindly."
    );
    request.mcp_params = r#"{"name":"greeting","arguments":{"name":"Ada","tone":"twice"}}"#.into();
    let ours: PromptGetResponse = sample.ask(&request).await.message().unwrap();
    let result: Value = serde_json::from_slice(&ours.mcp_result).unwrap();
    assert_eq!(result["messages"][0]["content"]["text"], "Greet Ada twice.");
    request.mcp_params = r#"{"name":"greeting"}"#.into();
    let missing: PromptGetResponse = sample.ask(&request).await.message().unwrap();
    let error: Value = serde_json::from_slice(&missing.mcp_error).unwrap();
    assert_eq!(error["code"], -32602);
}

#[tokio::test]
async fn integers_come_as_doubles_and_bad_arguments_are_named() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    assert_eq!(
        sample.text("add", r#"{"a":2,"b":40}"#).await,
        r#"{"sum":42}"#
    );
    let params = json!({"name": "add", "arguments": {"a": 2.0, "b": 40}});
    let ours: ToolResponse = sample
        .ask(&mcp_call("add", &params))
        .await
        .message()
        .unwrap();
    let result: Value = serde_json::from_slice(&ours.mcp_result).unwrap();
    assert_eq!(result["structuredContent"], json!({"sum": 42}));
    let bad = sample.call("add", r#"{"a":2.5,"b":1}"#).await;
    assert_eq!(bad.error_code, "validation_error");
    assert_eq!(
        bad.error_message,
        "invalid argument a: invalid type: floating point `2.5`, expected i64"
    );
}

#[tokio::test]
async fn our_own_peers_get_results_of_mcp() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    let params = json!({"name": "echo", "arguments": {"text": "hi"}});
    let said: ToolResponse = sample
        .ask(&mcp_call("echo", &params))
        .await
        .message()
        .unwrap();
    assert!(said.success && said.result.is_none());
    assert_eq!(
        said.mcp_result,
        r#"{"content":[{"type":"text","text":"hi"}]}"#
    );
    let failed: ToolResponse = sample
        .ask(&mcp_call("fail", &json!({"name": "fail"})))
        .await
        .message()
        .unwrap();
    assert_eq!(failed.error_code, "handler_error");
    let result: Value = serde_json::from_slice(&failed.mcp_result).unwrap();
    assert_eq!(result["isError"], true);
    let missing: ToolResponse = sample
        .ask(&mcp_call("nope", &json!({"name": "nope"})))
        .await
        .message()
        .unwrap();
    let error: Value = serde_json::from_slice(&missing.mcp_error).unwrap();
    assert_eq!(error["code"], -32602);
    let read = McpRequest {
        method: "resources/read".to_owned(),
        params: r#"{"uri":"sample://text"}"#.into(),
        ..McpRequest::default()
    };
    let read: McpResponse = sample.ask(&read).await.message().unwrap();
    let result: Value = serde_json::from_slice(&read.result).unwrap();
    assert_eq!(result["contents"][0]["text"], "a text");
    let other = McpRequest {
        method: "nothing/known".to_owned(),
        ..McpRequest::default()
    };
    let other: McpResponse = sample.ask(&other).await.message().unwrap();
    let error: Value = serde_json::from_slice(&other.error).unwrap();
    assert_eq!(error["code"], -32601);
}

#[tokio::test]
async fn progress_is_told_to_those_who_ask() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    let params = json!({
        "name": "sleep",
        "arguments": {"milliseconds": 40, "reports": 3},
        "_meta": {"progressToken": "t"},
    });
    let request = Request::new("p", &mcp_call("sleep", &params));
    let mut answers = sample
        .caller
        .stream(request.encode(), soon())
        .await
        .unwrap();
    let mut progress = Vec::new();
    let result = loop {
        let frame = timeout(PATIENCE, answers.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let response = Response::decode(&frame).unwrap();
        assert_eq!(response.request_id(), "p");
        match kind(&response) {
            Some(ResponseKind::McpMessage) => {
                let message: McpMessage = response.message().unwrap();
                let message: Value = serde_json::from_slice(&message.json).unwrap();
                assert_eq!(message["method"], "notifications/progress");
                assert_eq!(message["params"]["progressToken"], "t");
                progress.push(message["params"]["progress"].as_f64().unwrap());
            }
            _ => break response.message::<ToolResponse>().unwrap(),
        }
    };
    assert!(result.success);
    assert_eq!(progress, [1.0, 2.0, 3.0]);
    // Old peers read one frame, and get one.
    let text = sample
        .text("sleep", r#"{"milliseconds":4,"reports":3}"#)
        .await;
    assert_eq!(text, "slept");
}

// Faults.

#[tokio::test]
async fn weakness_12_a_panic_ends_its_call_alone() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    let pid = sample.text("pid", "{}").await;
    let sleeping = sample.text("sleep", r#"{"milliseconds":200}"#);
    let panicking = async {
        for _ in 0..20 {
            let failed = sample.call("panic", "{}").await;
            assert_eq!(failed.error_code, "handler_error");
            assert!(failed.error_message.contains("as it was told to"));
        }
    };
    let (slept, ()) = tokio::join!(sleeping, panicking);
    assert_eq!(slept, "slept");
    assert_eq!(sample.text("pid", "{}").await, pid);
}

#[tokio::test]
async fn weakness_25_a_result_over_the_limit_is_said() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    let over = r#"{"bytes":16777216}"#;
    let old = sample.call("big", over).await;
    assert_eq!(old.error_code, "result_too_large", "{}", old.error_message);
    let params = json!({"name": "big", "arguments": {"bytes": 16_777_216}});
    let ours: ToolResponse = sample
        .ask(&mcp_call("big", &params))
        .await
        .message()
        .unwrap();
    assert_eq!(ours.error_code, "result_too_large");
    let fits = sample.text("big", r#"{"bytes":16000000}"#).await;
    assert_eq!(fits.len(), 16_000_000);
}

#[tokio::test]
async fn weakness_11_a_call_too_many_is_told_that_we_are_busy() {
    let authority = Authority::new();
    let mut limited = command(&authority);
    limited.env("SAMPLE_IN_FLIGHT", "1");
    let sample = Sample::start(&authority, limited).await;
    let request = tool_request("sleep", r#"{"milliseconds":3600000}"#);
    let request = Request::new("r", &request).encode();
    let mut call = std::pin::pin!(sample.caller.call(request.clone(), soon()));
    // Until it has the one place, which others are refused.
    loop {
        tokio::select! {
            answer = &mut call => {
                // The other was there first.
                let answer = Response::decode(&answer.unwrap()).unwrap();
                let refused: ToolResponse = answer.message().unwrap();
                assert_eq!(refused.error_code, "busy");
                call.set(sample.caller.call(request.clone(), soon()));
            }
            answer = sample.call("echo", r#"{"text":"hi"}"#) => if !answer.success {
                assert_eq!(answer.error_code, "busy");
                break;
            },
        }
    }
    // Lists and health need no place.
    sample.ask(&HealthRequest::default()).await;
    sample.ask(&ListToolsRequest {}).await;
}

/// One that listens to its end, and one that does not.
#[tokio::test]
async fn weakness_16_a_call_that_is_given_up_frees_its_place() {
    let authority = Authority::new();
    let mut limited = command(&authority);
    limited.env("SAMPLE_IN_FLIGHT", "1");
    let sample = Sample::start(&authority, limited).await;
    for tool in ["sleep", "doze"] {
        let request = tool_request(tool, r#"{"milliseconds":3600000}"#);
        let request = Request::new("r", &request).encode();
        let late = Instant::now() + Duration::from_millis(300);
        assert!(sample.caller.call(request, late).await.is_err());
        let free = async { while !sample.call("echo", r#"{"text":"hi"}"#).await.success {} };
        timeout(PATIENCE, free).await.expect(tool);
    }
}

#[tokio::test]
async fn how_long_a_handler_may_go_on_is_for_the_plugin_to_say() {
    let authority = Authority::new();
    let mut patient = command(&authority);
    patient.env("SAMPLE_IN_FLIGHT", "1");
    patient.env("SAMPLE_CANCEL_GRACE_MS", "3600000");
    let sample = Sample::start(&authority, patient).await;
    let request = tool_request("doze", r#"{"milliseconds":1500}"#);
    let request = Request::new("r", &request).encode();
    let doze = || {
        (
            Instant::now(),
            Box::pin(sample.caller.call(request.clone(), soon())),
        )
    };
    let (mut begun, mut call) = doze();
    // Until it has the one place, which others are refused.
    loop {
        tokio::select! {
            // The other was there first.
            _ = &mut call => (begun, call) = doze(),
            answer = sample.call("echo", r#"{"text":"hi"}"#) => if !answer.success {
                break;
            },
        }
    }
    drop(call);
    let free = async { while !sample.call("echo", r#"{"text":"hi"}"#).await.success {} };
    timeout(PATIENCE, free).await.unwrap();
    assert!(
        begun.elapsed() >= Duration::from_millis(1500),
        "it was dropped"
    );
}

#[tokio::test]
async fn streams_are_counted_and_can_be_cancelled_in_three_ways() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    let start = |id: &str, arguments: Value| {
        let start = StreamStart {
            stream_id: id.to_owned(),
            tool_name: "count".to_owned(),
            arguments: Some(encoded(&arguments)),
            ..StreamStart::default()
        };
        Request::new(id, &start).encode()
    };
    let mut answers = sample
        .caller
        .stream(start("a", json!({"to": 40})), soon())
        .await
        .unwrap();
    for sequence in 0..40 {
        let frame = timeout(PATIENCE, answers.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let chunk: StreamChunk = Response::decode(&frame).unwrap().message().unwrap();
        assert_eq!((chunk.stream_id.as_str(), chunk.sequence), ("a", sequence));
        assert_eq!(chunk.content_type, "text/plain");
        assert_eq!(chunk.data, format!("{sequence}\n"));
    }
    let end = timeout(PATIENCE, answers.next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let end: StreamEnd = Response::decode(&end).unwrap().message().unwrap();
    assert!(end.success);
    assert_eq!(end.total_chunks, 40);
    // Who calls it like any other gets all of it.
    assert_eq!(sample.text("count", r#"{"to":3}"#).await, "0\n1\n2\n");

    let endless = json!({"to": 4_000_000, "milliseconds": 1});
    let cancel = |id: &str| StreamCancel {
        stream_id: id.to_owned(),
    };
    // On another stream.
    let mut answers = sample
        .caller
        .stream(start("b", endless.clone()), soon())
        .await
        .unwrap();
    answers.next().await.unwrap().unwrap();
    assert_eq!(kind(&sample.ask(&cancel("zz")).await), None);
    sample.ask(&cancel("b")).await;
    let end = timeout(PATIENCE, last(&mut answers)).await.unwrap();
    assert_eq!((end.success, end.error_code.as_str()), (false, "cancelled"));
    // On the same stream.
    let (mut sender, mut answers) = sample
        .caller
        .open_duplex(start("c", endless.clone()), soon())
        .await
        .unwrap();
    answers.next().await.unwrap().unwrap();
    sender
        .send(Request::new("c", &cancel("c")).encode())
        .await
        .unwrap();
    let end = timeout(PATIENCE, last(&mut answers)).await.unwrap();
    assert_eq!(end.error_code, "cancelled");
    // By stopping it: its id is free again soon.
    let mut answers = sample
        .caller
        .stream(start("d", endless.clone()), soon())
        .await
        .unwrap();
    answers.next().await.unwrap().unwrap();
    drop(answers);
    let again = async {
        loop {
            let request = start("d", json!({"to": 0}));
            let mut answers = sample.caller.stream(request, soon()).await.unwrap();
            if last(&mut answers).await.success {
                return;
            }
        }
    };
    timeout(PATIENCE, again).await.unwrap();
}

async fn last(answers: &mut orchestra_plugin::quic::Answers) -> StreamEnd {
    loop {
        let frame = answers.next().await.unwrap().unwrap();
        let response = Response::decode(&frame).unwrap();
        if kind(&response) == Some(ResponseKind::StreamEnd) {
            return response.message().unwrap();
        }
    }
}

#[tokio::test]
async fn weakness_5_only_the_orchestrator_may_call() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    for name in ["tools.other", "orchestrator", "orchestrator-to-tools.other"] {
        let stranger = caller(&authority, sample.address, name);
        let refused: ToolResponse = ask(&stranger, &tool_request("pid", "{}"))
            .await
            .message()
            .unwrap();
        assert_eq!(refused.error_code, "permission_denied", "{name}");
        assert!(
            refused.error_message.contains(name),
            "{}",
            refused.error_message
        );
        let shutdown = ask(&stranger, &ShutdownRequest::default()).await;
        assert_eq!(kind(&shutdown), Some(ResponseKind::ToolCall));
    }
    sample.text("pid", "{}").await;
}
