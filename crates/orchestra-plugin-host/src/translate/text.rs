//! JSON that peers send, checked before anybody takes it for JSON, and JSON that is written here.

use bytes::Bytes;
use orchestra_mcp::client::{Answer, ServerMessage};
use orchestra_plugin::structs::{self, Member, Style};
use orchestra_wire::{RawJson, RequestId, RpcError, text_of};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Terms;

/// Appends `text` as a JSON string.
pub(super) fn string(out: &mut String, text: &str) {
    // A string has a JSON form.
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// Appends `,"key":"text"`, or nothing for an empty text.
pub(super) fn member(out: &mut String, key: &str, text: &str) {
    if !text.is_empty() {
        out.push_str(",\"");
        out.push_str(key);
        out.push_str("\":");
        string(out, text);
    }
}

/// Text that was written here as a value.
pub(super) fn raw(text: String) -> Result<RawJson, RpcError> {
    RawJson::checked(Bytes::from(text))
        .map_err(|_| super::failure::internal("the answer cannot be written as JSON".to_owned()))
}

/// An object that a peer sent as JSON; `None` where it sent none, or something else.
pub(super) fn object(text: &Bytes) -> Option<RawJson> {
    let found = RawJson::checked(text.clone()).ok();
    found.filter(|value| !text.is_empty() && value.members().is_some())
}

/// The JSON-RPC error that a peer sent.
pub(super) fn error(text: &Bytes) -> RpcError {
    let malformed = || super::failure::internal("the peer sent a malformed error".to_owned());
    let value = serde_json::from_slice::<&RawValue>(text);
    value.map_or_else(|_| malformed(), RpcError::from_raw)
}

/// A text of one of the own members of an object.
pub(crate) fn text_member(value: &RawJson, key: &str) -> Option<String> {
    let member = value.member(key)?;
    serde_json::from_str(member.as_str()).ok()
}

impl Terms {
    /// The JSON that one of ours answered, where it did: a result, or an error.
    pub(super) fn verbatim(
        &self,
        operation: &str,
        result: &Bytes,
        failed: &Bytes,
    ) -> Option<Answer> {
        if !failed.is_empty() {
            return Some(Err(error(failed)));
        }
        if result.is_empty() {
            return None;
        }
        let result = object(result).ok_or_else(|| {
            let cause = "the result is not a JSON object";
            super::failure::internal(self.failure(operation, cause))
        });
        Some(result)
    }
}

/// What a result says to a reader: its member `text` if that is a text, else all of it.
///
/// # Errors
/// When it is no `Struct`, or has no JSON form.
pub(super) fn shown_text(result: Option<&Bytes>) -> Result<String, structs::StructError> {
    let Some(result) = result else {
        return Ok(String::new());
    };
    match structs::member(result, "text")? {
        Some(Member::Text(text)) => Ok(text.to_owned()),
        Some(Member::Other) | None => structs::decode(result, Style::Sorted),
    }
}

/// A notification or request that a peer sent while a call of ours was running; `None` for anything
/// else.
pub(crate) fn parse_message(json: &Bytes) -> Option<ServerMessage> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        method: &'a RawValue,
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
    }
    let message: Message<'_> = serde_json::from_slice(json).ok()?;
    let method = text_of(message.method)?.into_owned();
    let params = message.params.map(RawJson::from_raw);
    Some(match message.id {
        Some(id) => ServerMessage::Request {
            id: RequestId::from_raw(id).ok()?,
            method,
            params,
        },
        None => ServerMessage::Notification { method, params },
    })
}
