//! Requests to storages, which MCP has no word for: they go through the client of a plugin as calls of
//! its tools do, so that it is started for them and they count as calls.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use orchestra_mcp::client::Answer;
use orchestra_plugin::envelope::{PayloadOf, Request, RequestKind, Response};
use orchestra_wire::{RawJson, RpcError};
use serde::Deserialize;

use super::{Question, Reading, Step, failure};

/// The method by which documents are asked for of whoever keeps them.
pub const DOCUMENTS: &str = "orchestra/internal/documents";

/// An envelope, as it is encoded in JSON.
#[derive(Deserialize)]
struct Enclosed<'a> {
    #[serde(borrow)]
    envelope: Cow<'a, str>,
}

/// The parameters by which a message is asked for.
#[must_use]
pub fn enclosed<M: PayloadOf<RequestKind>>(message: &M) -> RawJson {
    enclose(&Request::new("", message).encode())
}

/// The response that a result holds.
///
/// # Errors
/// Why it holds none.
pub fn disclosed(result: &RawJson) -> Result<Response, String> {
    let bytes = disclose(result)?;
    Response::decode(&bytes.into()).map_err(|error| failure::chain(&error))
}

pub(super) fn step(params: Option<&RawJson>) -> Result<Step, RpcError> {
    let asked = || {
        let bytes = disclose(params.ok_or("it has no parameters")?)?;
        let request = Request::decode(&bytes.into()).map_err(|error| failure::chain(&error))?;
        let kind = request.kind().filter(is_storage);
        let question = |kind| Question {
            kind,
            payload: request.payload(),
        };
        kind.map(question)
            .ok_or_else(|| "it asks for no document".to_owned())
    };
    match asked() {
        Ok(question) => Ok(Step::Ask(vec![question], Reading::Storage)),
        Err::<_, String>(why) => Err(RpcError::invalid_params(why)),
    }
}

pub(super) fn read(response: &Response) -> Answer {
    Ok(enclose(&response.encode()))
}

fn is_storage(kind: &RequestKind) -> bool {
    matches!(
        kind,
        RequestKind::StorageRead
            | RequestKind::StorageWrite
            | RequestKind::StorageDelete
            | RequestKind::StorageList
    )
}

fn enclose(envelope: &[u8]) -> RawJson {
    // It is JSON as it stands: nothing in it needs an escape.
    let json = format!(r#"{{"envelope":"{}"}}"#, STANDARD.encode(envelope));
    RawJson::checked(json.into()).unwrap_or_else(|_| RawJson::empty_object())
}

fn disclose(json: &RawJson) -> Result<Vec<u8>, String> {
    let enclosed: Enclosed<'_> = json.parse().map_err(|error| error.to_string())?;
    let envelope = STANDARD.decode(&*enclosed.envelope);
    envelope.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use orchestra_plugin::generated::{StorageReadRequest, StorageReadResponse, ToolRequest};

    use super::*;

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        let request = StorageReadRequest {
            path: "a".to_owned(),
            ..StorageReadRequest::default()
        };
        let Ok(Step::Ask(asked, Reading::Storage)) = step(Some(&enclosed(&request))) else {
            panic!("it is asked");
        };
        assert_eq!(asked, [Question::new(&request)]);
        let response = StorageReadResponse {
            content: vec![0, 255].into(),
            ..StorageReadResponse::default()
        };
        let result = read(&Response::new("7", &response)).unwrap();
        let read: StorageReadResponse = disclosed(&result).unwrap().message().unwrap();
        assert_eq!(read, response);
    }

    #[test]
    fn nothing_but_documents_is_asked_for() {
        let other = enclosed(&ToolRequest::default());
        let broken = RawJson::of(&serde_json::json!({"envelope": "?"})).unwrap();
        for params in [
            None,
            Some(&other),
            Some(&broken),
            Some(&RawJson::empty_object()),
        ] {
            assert!(step(params).is_err(), "{params:?}");
        }
    }
}
