//! Fields that this version of the schema does not know, in what goes through here: they are taken
//! out of a call that comes over QUIC, put into the call that a plugin is asked, and so back with
//! its answer. The hub between the two carries them without looking at them.
//!
//! Fields of 100 and above are additions of ours. Whoever sends them speaks to us, so that they end
//! here.

use bytes::Bytes;
use orchestra_hub::{Along, Carried};
use orchestra_plugin::{
    envelope::{Kind, Request, RequestKind, Response, ResponseKind},
    field::{FieldError, Fields},
};

/// The most bytes of such fields in one message. They are beside what a call says, which has a place
/// of its own.
const MAX_BYTES: usize = 256 * 1024;

/// The first number of the fields that we have added.
const OURS: u32 = 100;

/// Why the fields of a message cannot be carried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CarryError {
    /// It is no message.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// There are too many of them.
    #[error(
        "the request has {0} bytes of unknown fields, but only {MAX_BYTES} bytes of them are forwarded; send fewer unknown fields"
    )]
    TooLarge(usize),
}

/// The number of the last field that the schema had in a request of this kind before ours; `None`
/// for requests that do not go through to anybody.
const fn last_of_request(kind: RequestKind) -> Option<u32> {
    match kind {
        RequestKind::ToolCall => Some(6),
        RequestKind::PromptGet => Some(2),
        RequestKind::StreamStart => Some(4),
        _ => None,
    }
}

/// The same of a response.
const fn last_of_response(kind: ResponseKind) -> Option<u32> {
    match kind {
        ResponseKind::ToolCall => Some(4),
        ResponseKind::PromptGet => Some(2),
        ResponseKind::StreamEnd => Some(5),
        _ => None,
    }
}

/// What goes with the call that a request asks for.
///
/// # Errors
/// When it is no message, or too much would have to be carried.
pub(crate) fn of_request(request: &Request) -> Result<Option<Carried>, CarryError> {
    let Some((kind, last)) = request
        .kind()
        .and_then(|kind| Some((kind, last_of_request(kind)?)))
    else {
        return Ok(None);
    };
    let fields = unknown(&request.payload(), last)?;
    Ok(Some(Carried::new(kind.number(), fields)))
}

/// The payload of a request with what goes along with its call.
pub(crate) fn onto(kind: RequestKind, payload: Bytes, along: &Along) -> Bytes {
    let carried = along.carried.as_deref();
    match carried.and_then(|carried| carried.asked(kind.number())) {
        Some(fields) => [&payload[..], fields].concat().into(),
        None => payload,
    }
}

/// Takes what is to go back out of an answer. What is too much is lost, and said to be: the call was
/// made by then.
pub(crate) fn take_answer(along: &Along, who: &str, response: &Response) {
    let last = response.kind().and_then(last_of_response);
    let (Some(carried), Some(kind), Some(last)) = (&along.carried, response.kind(), last) else {
        return;
    };
    match unknown(&response.payload(), last) {
        Ok(fields) => carried.answer(kind.number(), fields),
        Err(error) => tracing::warn!(
            peer = %who,
            %error,
            "cannot forward unknown fields of a response"
        ),
    }
}

/// A response with what came back.
pub(crate) fn back(response: Response, carried: Option<&Carried>) -> Response {
    let Some(kind) = response.kind() else {
        return response;
    };
    match carried.and_then(|carried| carried.answered(kind.number())) {
        Some(fields) => {
            let payload = [&response.payload()[..], &fields].concat();
            Response::raw(response.request_id(), kind, payload.into())
        }
        None => response,
    }
}

/// The fields of a message between the last that is known and the first of ours.
fn unknown(message: &Bytes, last: u32) -> Result<Bytes, CarryError> {
    let mut found = Vec::new();
    let mut length = 0;
    for field in Fields::new(message) {
        let field = field?;
        if (last + 1..OURS).contains(&field.number) {
            length += field.end - field.start;
            if length <= MAX_BYTES {
                found.extend_from_slice(&message[field.start..field.end]);
            }
        }
    }
    match length <= MAX_BYTES {
        true => Ok(found.into()),
        false => Err(CarryError::TooLarge(length)),
    }
}

#[cfg(test)]
mod tests {
    use orchestra_plugin::{
        field::put_text,
        generated::{
            PromptGetRequest, PromptGetResponse, PromptMessage, StreamEnd, StreamStart,
            ToolRequest, ToolResponse,
        },
    };
    use prost::Message as _;

    use super::*;

    /// Fields with these numbers.
    fn fields(numbers: &[u32]) -> Vec<u8> {
        let mut out = Vec::new();
        numbers
            .iter()
            .for_each(|number| put_text(&mut out, *number, "x"));
        out
    }

    fn numbers(message: &[u8]) -> Vec<u32> {
        let fields = Fields::new(message).map(|field| field.unwrap().number);
        fields.collect()
    }

    #[test]
    fn what_the_schema_knows_is_not_carried() {
        let text = || "x".to_owned();
        let bytes = || Bytes::from_static(b"x");
        let requests = [
            Request::new(
                "",
                &ToolRequest {
                    tool_name: text(),
                    arguments: Some(Bytes::new()),
                    caller_plugin: text(),
                    trace_parent: text(),
                    provider: text(),
                    session_id: text(),
                    mcp_params: bytes(),
                    revision: text(),
                },
            ),
            Request::new(
                "",
                &PromptGetRequest {
                    prompt_name: text(),
                    arguments: [(text(), text())].into(),
                    mcp_params: bytes(),
                    revision: text(),
                    session_id: text(),
                    caller_plugin: text(),
                    trace_parent: text(),
                },
            ),
            Request::new(
                "",
                &StreamStart {
                    stream_id: text(),
                    tool_name: text(),
                    arguments: Some(Bytes::new()),
                    caller_plugin: text(),
                    session_id: text(),
                    provider: text(),
                    mcp_params: bytes(),
                    trace_parent: text(),
                    revision: text(),
                },
            ),
        ];
        for request in requests {
            let last = last_of_request(request.kind().unwrap()).unwrap();
            assert_eq!(unknown(&request.payload(), last).unwrap(), "");
        }
        let tool = ToolResponse {
            success: true,
            result: Some(Bytes::new()),
            error_code: text(),
            error_message: text(),
            mcp_result: bytes(),
            mcp_error: bytes(),
        };
        let prompt = PromptGetResponse {
            description: text(),
            messages: vec![PromptMessage::default()],
            mcp_result: bytes(),
            mcp_error: bytes(),
        };
        let end = StreamEnd {
            stream_id: text(),
            success: true,
            error_code: text(),
            error_message: text(),
            total_chunks: 1,
            mcp_result: bytes(),
            mcp_error: bytes(),
        };
        for (message, last) in [
            (tool.encode_to_vec(), ResponseKind::ToolCall),
            (prompt.encode_to_vec(), ResponseKind::PromptGet),
            (end.encode_to_vec(), ResponseKind::StreamEnd),
        ] {
            let last = last_of_response(last).unwrap();
            assert_eq!(unknown(&message.into(), last).unwrap(), "");
        }
    }

    #[test]
    fn what_is_between_is_carried_there_and_back() {
        let payload = Bytes::from(fields(&[1, 7, 2, 99, 7, 100, 500]));
        let request = Request::raw("r", RequestKind::ToolCall, payload);
        let carried = of_request(&request).unwrap().unwrap();
        let along = Along {
            carried: Some(carried.into()),
            ..Along::default()
        };
        let own = || Bytes::from(fields(&[1, 100]));
        let sent = onto(RequestKind::ToolCall, own(), &along);
        assert_eq!(numbers(&sent), [1, 100, 7, 99, 7]);
        // Elsewhere these numbers mean something else.
        assert_eq!(onto(RequestKind::StreamStart, own(), &along), own());
        assert_eq!(onto(RequestKind::ToolCall, own(), &Along::default()), own());

        let answer = |kind, numbers: &[u32]| Response::raw("a", kind, fields(numbers).into());
        take_answer(
            &along,
            "x",
            &answer(ResponseKind::ToolCall, &[1, 5, 99, 101]),
        );
        let carried = along.carried.as_deref();
        let told = back(answer(ResponseKind::ToolCall, &[1]), carried);
        assert_eq!(numbers(&told.payload()), [1, 5, 99]);
        let other = answer(ResponseKind::StreamEnd, &[1]);
        assert_eq!(back(other.clone(), carried), other);
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let mut payload = Vec::new();
        put_text(&mut payload, 7, &"x".repeat(MAX_BYTES));
        let request = Request::raw("r", RequestKind::ToolCall, payload.into());
        let error = of_request(&request).unwrap_err();
        assert!(matches!(error, CarryError::TooLarge(_)), "{error}");
        // Where nobody is asked, nothing is looked at.
        let request = Request::raw("r", RequestKind::ListTools, Bytes::from_static(&[0xff]));
        assert!(of_request(&request).unwrap().is_none());
    }
}
