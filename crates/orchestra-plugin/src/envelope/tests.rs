//! Tests of envelopes: what is forwarded stays as it came.

use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::generated::{
    HealthRequest, McpRequest, PluginRequest, PluginResponse, PromptGetRequest, Publish,
    StorageDeleteRequest, StorageListRequest, StorageReadRequest, StorageWriteRequest, StreamStart,
    Subscribe, ToolRequest, ToolResponse, plugin_request, plugin_response,
};

fn decode(bytes: &[u8]) -> Result<Request, EnvelopeError> {
    Request::decode(&Bytes::copy_from_slice(bytes))
}

/// The fields of a message whose values are short strings.
fn texts(fields: &[(u32, &str)]) -> Bytes {
    let mut out = Vec::new();
    for (number, text) in fields {
        field::put_bytes_head(&mut out, *number, text.len());
        out.extend_from_slice(text.as_bytes());
    }
    out.into()
}

#[test]
fn a_tool_call_with_a_field_nobody_knows_is_forwarded_as_it_came() {
    let payload = texts(&[
        (1, "get_feature"),
        (77, "from the future"),
        (3, "transport.stdio"),
        (6, "session-1"),
    ]);
    let mut envelope = b"\x0a\x04in-1".to_vec();
    field::put_bytes_head(&mut envelope, 20, payload.len());
    envelope.extend_from_slice(&payload);
    // A field of the envelope that is not known either.
    envelope.extend_from_slice(b"\xc0\x3e\x05");

    let request = decode(&envelope).unwrap();
    assert_eq!(request.request_id(), "in-1");
    assert_eq!(request.kind(), Some(RequestKind::ToolCall));
    assert_eq!(request.routing().unwrap().session_id, Some("session-1"));

    let forwarded = request.with_request_id("out-2");
    assert_eq!(forwarded.payload(), payload);
    let bytes = forwarded.encode();
    let mut wanted = b"\x0a\x05out-2\xc0\x3e\x05".to_vec();
    field::put_bytes_head(&mut wanted, 20, payload.len());
    wanted.extend_from_slice(&payload);
    assert_eq!(bytes, wanted);

    let typed: ToolRequest = Request::decode(&bytes).unwrap().message().unwrap();
    assert_eq!(typed.tool_name, "get_feature");
    assert_eq!(typed.session_id, "session-1");
}

#[test]
fn the_json_of_a_large_call_is_sent_from_where_it_is() {
    let json = Bytes::from(vec![b'1'; 20_000]);
    let asked = ToolRequest {
        tool_name: "echo".to_owned(),
        caller_plugin: "somebody".to_owned(),
        mcp_params: json.clone(),
        revision: "2025-11-25".to_owned(),
        ..ToolRequest::default()
    };
    let answered = ToolResponse {
        success: true,
        mcp_result: json.clone(),
        ..ToolResponse::default()
    };
    let request = Request::new("r", &asked);
    let response = Response::new("r", &answered);
    for parts in [request.to_parts(), response.to_parts()] {
        assert_eq!(parts[1].as_ptr(), json.as_ptr());
        assert_eq!(parts[1].len(), json.len());
    }
    // It is the same in every other way.
    assert_eq!(Bytes::from(request.to_parts().concat()), request.encode());
    assert_eq!(request.encoded_len(), request.encode().len());
    let received = Request::decode(&request.encode()).unwrap();
    assert_eq!(received, request);
    assert_eq!(received.message::<ToolRequest>().unwrap(), asked);
    assert_eq!(request.message::<ToolRequest>().unwrap(), asked);
    assert_eq!(request.routing().unwrap().tool_name, Some("echo"));
    let renamed = request.with_caller("tools.mine").unwrap();
    let renamed: ToolRequest = renamed.message().unwrap();
    assert_eq!(renamed.caller_plugin, "tools.mine");
    assert_eq!(renamed.mcp_params, json);
    let received = Response::decode(&response.encode()).unwrap();
    assert_eq!(received.message::<ToolResponse>().unwrap(), answered);
    // A small one is copied: two parts would cost as much.
    let small = ToolResponse {
        mcp_result: json.slice(..100),
        ..answered
    };
    let [_, rest] = Response::new("r", &small).to_parts();
    assert_eq!(rest.len(), small.encode_to_vec().len());
}

#[test]
fn payloads_are_parts_of_what_arrived() {
    let message = ToolRequest {
        tool_name: "t".into(),
        mcp_params: Bytes::from_static(b"{}"),
        ..ToolRequest::default()
    };
    let frame = Request::new("id", &message).encode();
    let place = |part: &Bytes| part.as_ptr() as usize - frame.as_ptr() as usize;
    let request = Request::decode(&frame).unwrap();
    let payload = request.payload();
    assert_eq!(place(&payload), frame.len() - payload.len());
    let typed: ToolRequest = request.message().unwrap();
    assert_eq!(place(&typed.mcp_params), frame.len() - 2);
    let [_, part] = request.to_parts();
    assert_eq!(part.as_ptr(), payload.as_ptr());
}

#[test]
fn the_kinds_are_those_of_the_schema() {
    // What the generated code decodes as a kind, this code does too.
    for kind in RequestKind::ALL {
        let bytes = Request::raw("x", *kind, Bytes::new()).encode();
        let typed = PluginRequest::decode(bytes.clone()).unwrap();
        assert!(typed.request.is_some(), "{kind:?}");
        assert_eq!(typed.encode_to_vec(), bytes);
        assert_eq!(RequestKind::from_number(kind.number()), Some(*kind));
    }
    for kind in ResponseKind::ALL {
        let bytes = Response::raw("x", *kind, Bytes::new()).encode();
        let typed = PluginResponse::decode(bytes.clone()).unwrap();
        assert!(typed.response.is_some(), "{kind:?}");
        assert_eq!(typed.encode_to_vec(), bytes);
    }
    let known = |number: &u32| RequestKind::from_number(*number).is_some();
    assert_eq!((0..200).filter(known).count(), RequestKind::ALL.len());
}

#[test]
fn an_unknown_kind_is_kept_and_is_no_kind() {
    let bytes = b"\x0a\x01a\xaa\x09\x02hi";
    let request = decode(bytes).unwrap();
    assert_eq!(request.kind(), None);
    assert_eq!(request.payload(), Bytes::new());
    assert_eq!(request.routing(), Ok(Routing::default()));
    assert_eq!(&request.encode()[..], bytes);
    assert_eq!(
        request.message::<HealthRequest>(),
        Err(EnvelopeError::Kind {
            wanted: "health",
            found: None
        })
    );
}

#[test]
fn an_empty_envelope_is_legal() {
    let request = decode(b"").unwrap();
    assert_eq!((request.request_id(), request.kind()), ("", None));
    assert_eq!(request.encode(), Bytes::new());
    assert_eq!(&Response::empty("abc").encode()[..], b"\x0a\x03abc");
}

#[test]
fn two_payloads_are_refused() {
    for (bytes, second) in [
        (&b"\x6a\x00\xaa\x01\x00"[..], "list_tools"),
        (b"\x6a\x00\x6a\x00", "health"),
    ] {
        assert_eq!(
            decode(bytes),
            Err(EnvelopeError::Several {
                first: "health",
                second
            })
        );
    }
}

#[test]
fn malformed_envelopes_are_refused_and_payloads_not_looked_at() {
    for bytes in [
        &b"\x0a\x05abc"[..],
        b"\x0a\x01\xff",
        b"\x68\x01",
        b"\x6b\x6c",
        b"\x08\x01",
    ] {
        let error = decode(bytes).unwrap_err();
        assert!(matches!(error, EnvelopeError::Envelope(_)), "{bytes:02x?}");
    }
    let request = decode(b"\xa2\x01\x02\x0a\x09").unwrap();
    let typed = request.message::<ToolRequest>().unwrap_err();
    assert!(matches!(
        typed,
        EnvelopeError::Message {
            kind: "tool_call",
            ..
        }
    ));
    let keys = request.routing().unwrap_err();
    assert!(matches!(
        keys,
        EnvelopeError::Fields {
            kind: "tool_call",
            ..
        }
    ));
}

#[test]
fn frame_is_the_envelope_behind_its_length() {
    let request = Request::raw("id", RequestKind::ToolCall, Bytes::from(vec![b'x'; 1_000]));
    let frame = request.to_frame().unwrap();
    assert_eq!(frame[..4], ((frame.len() - 4) as u32).to_be_bytes());
    assert_eq!(frame[4..], request.encode());
}

#[test]
fn an_envelope_over_the_limit_is_not_framed() {
    let payload = Bytes::from(vec![0; crate::frame::MAX_FRAME_BYTES]);
    let request = Request::raw("", RequestKind::ToolCall, payload);
    assert!(matches!(
        request.to_frame(),
        Err(FrameError::TooLong { .. })
    ));
}

/// The keys of `message` as they are routed by.
fn routing_of<M: PayloadOf<RequestKind>>(message: &M, check: impl FnOnce(Routing<'_>)) {
    let request = Request::new("x", message);
    check(request.routing().unwrap());
}

#[test]
fn keys_are_found_where_each_request_has_them() {
    let typed = |text: &str| text.to_owned();
    let read = StorageReadRequest {
        path: typed("p"),
        storage_type: typed("s"),
    };
    routing_of(&read, |keys| assert_eq!(keys.storage_type, Some("s")));
    let write = StorageWriteRequest {
        path: typed("p"),
        storage_type: typed("s"),
        content: Bytes::from_static(b"c"),
        ..StorageWriteRequest::default()
    };
    routing_of(&write, |keys| assert_eq!(keys.storage_type, Some("s")));
    let delete = StorageDeleteRequest {
        path: typed("p"),
        storage_type: typed("s"),
    };
    routing_of(&delete, |keys| assert_eq!(keys.storage_type, Some("s")));
    let list = StorageListRequest {
        prefix: typed("p"),
        pattern: typed("q"),
        storage_type: typed("s"),
    };
    routing_of(&list, |keys| assert_eq!(keys.storage_type, Some("s")));
    let call = ToolRequest {
        tool_name: typed("t"),
        caller_plugin: typed("c"),
        trace_parent: typed("tp"),
        provider: typed("p"),
        session_id: typed("s"),
        ..ToolRequest::default()
    };
    let keys_of_call = Routing {
        tool_name: Some("t"),
        caller_plugin: Some("c"),
        trace_parent: Some("tp"),
        provider: Some("p"),
        session_id: Some("s"),
        ..Routing::default()
    };
    routing_of(&call, |keys| assert_eq!(keys, keys_of_call));
    let start = StreamStart {
        stream_id: typed("i"),
        tool_name: typed("t"),
        caller_plugin: typed("c"),
        trace_parent: typed("tp"),
        provider: typed("p"),
        session_id: typed("s"),
        ..StreamStart::default()
    };
    let keys_of_start = Routing {
        stream_id: Some("i"),
        ..keys_of_call
    };
    routing_of(&start, |keys| assert_eq!(keys, keys_of_start));
    let prompt = PromptGetRequest {
        prompt_name: typed("n"),
        session_id: typed("s"),
        caller_plugin: typed("c"),
        trace_parent: typed("tp"),
        ..PromptGetRequest::default()
    };
    let keys_of_prompt = Routing {
        prompt_name: Some("n"),
        tool_name: None,
        provider: None,
        ..keys_of_call
    };
    routing_of(&prompt, |keys| assert_eq!(keys, keys_of_prompt));
    let mcp = McpRequest {
        method: typed("m"),
        params: Bytes::from_static(b"{}"),
        session_id: typed("s"),
        caller_plugin: typed("c"),
        trace_parent: typed("tp"),
        revision: typed("r"),
    };
    let keys_of_mcp = Routing {
        method: Some("m"),
        prompt_name: None,
        ..keys_of_prompt
    };
    routing_of(&mcp, |keys| assert_eq!(keys, keys_of_mcp));
    let publish = Publish {
        topic: typed("t"),
        event_type: typed("e"),
        source_plugin: typed("c"),
        ..Publish::default()
    };
    routing_of(&publish, |keys| {
        assert_eq!((keys.topic, keys.caller_plugin), (Some("t"), Some("c")));
    });
    let subscribe = Subscribe {
        subscription_id: typed("i"),
        topic: typed("t"),
        ..Subscribe::default()
    };
    routing_of(&subscribe, |keys| {
        assert_eq!((keys.subscription_id, keys.topic), (Some("i"), Some("t")));
    });
}

#[test]
fn a_key_or_argument_that_is_there_twice_is_refused() {
    for fields in [
        [(1, "a"), (1, "b")],
        [(2, ""), (2, "")],
        [(100, "{}"), (100, "{}")],
    ] {
        let request = Request::raw("x", RequestKind::ToolCall, texts(&fields));
        assert_eq!(
            request.routing(),
            Err(EnvelopeError::Fields {
                kind: "tool_call",
                source: FieldError::Repeated {
                    number: fields[0].0
                }
            })
        );
    }
    let repeated = Request::raw("x", RequestKind::ToolCall, texts(&[(77, "a"), (77, "b")]));
    assert_eq!(repeated.routing(), Ok(Routing::default()));
}

#[test]
fn who_calls_is_overwritten_and_nothing_else() {
    let payload = texts(&[(1, "t"), (3, "tools.admin"), (77, "?"), (6, "s")]);
    let request = Request::raw("x", RequestKind::ToolCall, payload)
        .with_caller("tools.mine")
        .unwrap();
    let wanted = texts(&[(1, "t"), (3, "tools.mine"), (77, "?"), (6, "s")]);
    assert_eq!(request.payload(), wanted);

    let publish = Request::raw("x", RequestKind::Publish, texts(&[(1, "topic")]))
        .with_caller("tools.mine")
        .unwrap();
    assert_eq!(publish.payload(), texts(&[(1, "topic"), (4, "tools.mine")]));

    let honest = wanted.clone();
    let same = Request::raw("x", RequestKind::ToolCall, wanted)
        .with_caller("tools.mine")
        .unwrap();
    assert_eq!(same.payload().as_ptr(), honest.as_ptr());

    let read = Request::raw("x", RequestKind::StorageRead, texts(&[(1, "p"), (3, "q")]));
    assert_eq!(read.clone().with_caller("tools.mine"), Ok(read));
}

/// What a peer that knows nothing from 100 up makes of a message: it skips those fields.
fn as_an_old_peer_sees(payload: &Bytes) -> Bytes {
    field::retained(payload, |field| Ok(field.number < 100)).unwrap()
}

#[test]
fn old_peers_skip_what_was_added() {
    let new = ToolResponse {
        success: true,
        mcp_result: Bytes::from_static(b"{\"content\":[]}"),
        ..ToolResponse::default()
    };
    let payload = Bytes::from(new.encode_to_vec());
    let old = ToolResponse {
        success: true,
        ..ToolResponse::default()
    };
    assert_eq!(as_an_old_peer_sees(&payload), old.encode_to_vec());
    // A kind that was added is no kind to an old peer, and it answers as to an unknown request.
    let mcp = Request::new("x", &McpRequest::default()).encode();
    assert_eq!(&as_an_old_peer_sees(&mcp)[..], b"\x0a\x01x");
}

#[test]
fn typed_and_raw_envelopes_are_the_same_bytes() {
    let health = HealthRequest::default();
    let typed = PluginRequest {
        request_id: "abc".into(),
        request: Some(plugin_request::Request::Health(health)),
    };
    assert_eq!(Request::new("abc", &health).encode(), typed.encode_to_vec());
    let failed = ToolResponse {
        error_code: "unknown_request".into(),
        ..ToolResponse::default()
    };
    let typed = PluginResponse {
        request_id: "abc".into(),
        response: Some(plugin_response::Response::ToolCall(failed.clone())),
    };
    assert_eq!(
        Response::new("abc", &failed).encode(),
        typed.encode_to_vec()
    );
}

proptest! {
    #[test]
    fn envelopes_with_unknown_fields_come_back(
        id in "[a-zé]{0,5}",
        kind in proptest::sample::select(RequestKind::ALL),
        payload: Vec<u8>,
        unknown in proptest::collection::vec((102u32..200, "[a-z]{0,4}"), 0..4),
        place in 0usize..5,
    ) {
        let mut bytes = Vec::new();
        field::put_text(&mut bytes, REQUEST_ID, &id);
        let mut rest = Vec::new();
        for (index, (number, text)) in unknown.iter().enumerate() {
            if index == place {
                field::put_bytes_head(&mut bytes, kind.number(), payload.len());
                bytes.extend_from_slice(&payload);
            }
            field::put_bytes_head(&mut bytes, *number, text.len());
            bytes.extend_from_slice(text.as_bytes());
            field::put_bytes_head(&mut rest, *number, text.len());
            rest.extend_from_slice(text.as_bytes());
        }
        if place >= unknown.len() {
            field::put_bytes_head(&mut bytes, kind.number(), payload.len());
            bytes.extend_from_slice(&payload);
        }
        let request = decode(&bytes).unwrap();
        prop_assert_eq!(request.request_id(), &id);
        prop_assert_eq!(request.kind(), Some(kind));
        prop_assert_eq!(request.payload(), &payload);
        prop_assert_eq!(&request.unknown, &rest);
        let encoded = request.encode();
        prop_assert_eq!(encoded.len(), request.encoded_len());
        prop_assert_eq!(Request::decode(&encoded).unwrap(), request);
    }

    #[test]
    fn hostile_bytes_never_panic(bytes: Vec<u8>, kind in proptest::sample::select(RequestKind::ALL)) {
        let _ = decode(&bytes);
        let _ = Response::decode(&Bytes::copy_from_slice(&bytes));
        let request = Request::raw("x", kind, bytes.into());
        let _ = request.routing();
        let _ = request.message::<ToolRequest>();
        let _ = request.with_caller("plugin");
    }
}
