//! The bytes that the first peers of this protocol put on the wire, both ways: they decode to the
//! messages that they are, and the messages encode to them.

use bytes::Bytes;
use orchestra_plugin::envelope::{
    Envelope, Kind, PayloadOf, Request, RequestKind, Response, ResponseKind,
};
use orchestra_plugin::frame::{FrameDecoder, FrameError, MAX_FRAME_BYTES};
use orchestra_plugin::generated::{
    BootRequest, BootResult, EventDelivery, HealthRequest, HealthResult, ListPromptsRequest,
    ListToolsRequest, PluginRequest, PluginResponse, PromptGetRequest, RegistrationResult,
    StorageDeleteResponse, StorageListResponse, StorageReadRequest, StorageReadResponse,
    StorageWriteResponse, StreamCancel, Subscribe, ToolRequest, ToolResponse, health_result,
};
use orchestra_plugin::structs::{self, Numbers, Style};
use prost::Message;

fn unhex(hex: &str) -> Bytes {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits"))
        .collect()
}

fn structure(json: &str) -> Option<Bytes> {
    Some(structs::encode(json.as_bytes(), Numbers::Exact).expect("a struct"))
}

/// The message in an envelope is these bytes, and these bytes are that envelope.
fn check<K: Kind, M: PayloadOf<K>>(hex: &str, id: &str, message: M) {
    let bytes = unhex(hex);
    assert_eq!(Envelope::new(id, &message).encode(), bytes, "{message:?}");
    let envelope = Envelope::<K>::decode(&bytes).expect("an envelope");
    assert_eq!(envelope.request_id(), id);
    assert_eq!(envelope.kind(), Some(M::KIND));
    assert_eq!(envelope.message::<M>(), Ok(message));
    assert_eq!(envelope.encode(), bytes);
    let mut framed = envelope.to_frame().expect("it fits");
    let frame = FrameDecoder::default().next(&mut framed);
    assert_eq!(frame, Ok(Some(bytes)));
}

/// A vector of a request; what prost makes of the whole envelope is the same.
fn request<M: PayloadOf<RequestKind>>(hex: &str, id: &str, message: M) {
    check(hex, id, message);
    let typed = PluginRequest::decode(unhex(hex)).expect("a request");
    assert_eq!(typed.encode_to_vec(), unhex(hex));
}

/// A vector of a response; what prost makes of the whole envelope is the same.
fn response<M: PayloadOf<ResponseKind>>(hex: &str, id: &str, message: M) {
    check(hex, id, message);
    let typed = PluginResponse::decode(unhex(hex)).expect("a response");
    assert_eq!(typed.encode_to_vec(), unhex(hex));
}

#[test]
fn lifecycle() {
    request("0a036162636a00", "abc", HealthRequest::default());
    response(
        "0a036162636a130801120f6f7263686573747261746f72206f6b",
        "abc",
        HealthResult {
            status: health_result::Status::Healthy.into(),
            message: "orchestrator ok".into(),
            ..HealthResult::default()
        },
    );
    response(
        "52020801",
        "",
        RegistrationResult {
            accepted: true,
            ..RegistrationResult::default()
        },
    );
    request(
        "5a0b0a090a046661696c120131",
        "",
        BootRequest {
            config: [("fail".into(), "1".into())].into(),
        },
    );
    response(
        "5a0e120c626f6f742072656675736564",
        "",
        BootResult {
            error: "boot refused".into(),
            ..BootResult::default()
        },
    );
}

#[test]
fn tools() {
    request("aa0100", "", ListToolsRequest {});
    request(
        "a201070a0570616e6963",
        "",
        ToolRequest {
            tool_name: "panic".into(),
            ..ToolRequest::default()
        },
    );
    request(
        "a201180a047370616d12100a0e0a016e1209110000000000f9f540",
        "",
        ToolRequest {
            tool_name: "spam".into(),
            arguments: structure("{\"n\":90000}"),
            ..ToolRequest::default()
        },
    );
    response(
        "a2012c1a0f756e6b6e6f776e5f726571756573742219756e7265636f676e697a6564207265717565737420747970\
         65",
        "",
        ToolResponse {
            error_code: "unknown_request".into(),
            error_message: "unrecognized request type".into(),
            ..ToolResponse::default()
        },
    );
}

#[test]
fn prompts() {
    request("b20100", "", ListPromptsRequest {});
    request(
        "ba01040a027a7a",
        "",
        PromptGetRequest {
            prompt_name: "zz".into(),
            ..PromptGetRequest::default()
        },
    );
}

#[test]
fn storage() {
    request(
        "f201030a0178",
        "",
        StorageReadRequest {
            path: "x".into(),
            ..StorageReadRequest::default()
        },
    );
    response("f20100", "", StorageReadResponse::default());
    response(
        "f201130a0368690a120a0a080a017412031a01781802",
        "",
        StorageReadResponse {
            content: "hi\n".into(),
            metadata: structure("{\"t\":\"x\"}"),
            version: 2,
            ..StorageReadResponse::default()
        },
    );
    response(
        "fa010408011001",
        "",
        StorageWriteResponse {
            success: true,
            new_version: 1,
            ..StorageWriteResponse::default()
        },
    );
    response("820200", "", StorageDeleteResponse::default());
    response("8a0200", "", StorageListResponse::default());
}

#[test]
fn streams_and_events() {
    request(
        "ca02040a027a7a",
        "",
        StreamCancel {
            stream_id: "zz".into(),
        },
    );
    request(
        "9203060a0171120174",
        "",
        Subscribe {
            subscription_id: "q".into(),
            topic: "t".into(),
            ..Subscribe::default()
        },
    );
    response(
        "9203060a0171120174",
        "",
        EventDelivery {
            subscription_id: "q".into(),
            topic: "t".into(),
            ..EventDelivery::default()
        },
    );
}

#[test]
fn the_frame_of_a_request_and_the_header_that_is_refused() {
    let frame = Request::new("abc", &HealthRequest::default()).to_frame();
    assert_eq!(frame, Ok(unhex("000000070a036162636a00")));
    let refused = FrameDecoder::default().next(&mut unhex("01000001"));
    assert_eq!(
        refused,
        Err(FrameError::TooLong {
            length: 16_777_217,
            limit: MAX_FRAME_BYTES
        })
    );
}

#[test]
fn an_answer_with_nothing_to_say() {
    assert_eq!(Response::empty("abc").encode(), unhex("0a03616263"));
}

#[test]
fn a_result_as_the_first_bridges_show_it() {
    let result = structure(" {\"h\":\"<x>\", \"b\":[1,2.5,true,null,{\"k\":\"v\"}]} ");
    let text = structs::decode(&result.expect("a struct"), Style::Sorted);
    assert_eq!(
        text.as_deref(),
        Ok("{\"b\":[1,2.5,true,null,{\"k\":\"v\"}],\"h\":\"\\u003cx\\u003e\"}")
    );
}
