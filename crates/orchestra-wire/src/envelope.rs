//! The JSON-RPC envelope over one line: what kind of message it is, with its parts still raw.
//!
//! The envelope is read by a visitor of our own over one object: a derived struct would accept an
//! array, and ids, parameters and results have to stay as they were sent. What the method and the
//! parameters mean is left to others.

use std::{borrow::Cow, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    ErrorCode, MAX_BATCH, MAX_DEPTH, RequestId, RpcError, depth,
    params::{Odd, Params, text_of},
    unread,
};

/// What one line holds.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every line is one message, and none is stored"
)]
#[derive(Debug)]
pub enum Inbound<'a> {
    /// One message.
    One(Message<'a>),
    /// A batch, its items not parsed yet; see [`parse_item`]. It may be empty.
    Batch(Vec<&'a RawValue>),
    /// A batch of more than [`MAX_BATCH`] items.
    BatchTooLong,
}

/// One message, borrowed from its line.
#[derive(Debug)]
pub enum Message<'a> {
    /// It wants an answer.
    Request(RequestRef<'a>),
    /// It wants none.
    Notification(NotificationRef<'a>),
    /// It is the answer to a request of ours.
    Response(ResponseRef<'a>),
}

/// A request.
#[derive(Debug)]
pub struct RequestRef<'a> {
    /// Its id.
    pub id: RequestId,
    /// Its method.
    pub method: Cow<'a, str>,
    /// Its parameters.
    pub params: Params<'a>,
    /// The text of the whole message.
    text: &'a str,
}

/// A notification.
#[derive(Debug)]
pub struct NotificationRef<'a> {
    /// Its method.
    pub method: Cow<'a, str>,
    /// Its parameters.
    pub params: Params<'a>,
    /// The text of the whole message.
    text: &'a str,
}

/// A response.
#[derive(Debug)]
pub struct ResponseRef<'a> {
    /// The request it answers; `None` when the peer could not read the id.
    pub id: Option<RequestId>,
    /// Result or error.
    pub reply: Reply<'a>,
}

/// The outcome that a response carries.
#[derive(Debug, Clone, Copy)]
pub enum Reply<'a> {
    /// `result`.
    Result(&'a RawValue),
    /// `error`.
    Error(&'a RawValue),
}

/// A line that is no message, with the error to answer and the id to answer it to.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Malformed {
    /// The id, where it could be read; else the answer goes to `null`.
    pub id: Option<RequestId>,
    /// The error to answer.
    pub error: RpcError,
}

impl<'a> RequestRef<'a> {
    /// The parameters as they were sent, for a method we do not know. Reads the message again.
    #[must_use]
    pub fn raw_params(&self) -> Option<&'a RawValue> {
        raw_params(self.text)
    }
}

impl<'a> NotificationRef<'a> {
    /// The parameters as they were sent, for a method we do not know. Reads the message again.
    #[must_use]
    pub fn raw_params(&self) -> Option<&'a RawValue> {
        raw_params(self.text)
    }
}

fn raw_params(text: &str) -> Option<&RawValue> {
    let mut json = serde_json::Deserializer::from_str(text);
    let found = json.deserialize_map(RawParamsVisitor).ok()?;
    found.filter(|params| params.get() != "null")
}

struct RawParamsVisitor;

impl<'de> Visitor<'de> for RawParamsVisitor {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Params => found = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// Parses one line.
///
/// # Errors
/// -32700 for what is not UTF-8, not JSON or nested too deep; -32600 for JSON that is no message. The answer to a request
/// that is nested too deep goes to its id.
pub fn parse(line: &[u8]) -> Result<Inbound<'_>, Malformed> {
    let line = without_mark(line);
    let text = std::str::from_utf8(line).map_err(|_| parse_error("parse error: not UTF-8"))?;
    if depth::exceeds(line, MAX_DEPTH) {
        return Err(Malformed {
            id: unread::find(line).asked().cloned(),
            ..parse_error("parse error: nested too deep")
        });
    }
    if text.trim_ascii_start().starts_with('[') {
        return match serde_json::from_str(text) {
            Ok(Items(Some(items))) => Ok(Inbound::Batch(items)),
            Ok(Items(None)) => Ok(Inbound::BatchTooLong),
            Err(_) => Err(not_json()),
        };
    }
    parse_object(text).map(Inbound::One)
}

/// Parses one item of a batch.
///
/// # Errors
/// As [`parse`]; a nested batch is -32600.
pub fn parse_item(item: &RawValue) -> Result<Message<'_>, Malformed> {
    parse_object(item.get())
}

/// Parses a value that comes without an envelope, within the same bounds.
///
/// # Errors
/// -32700 for what is not UTF-8, not JSON or nested too deep.
pub fn parse_value(text: &[u8]) -> Result<&RawValue, RpcError> {
    let text = without_mark(text);
    if depth::exceeds(text, MAX_DEPTH) {
        return Err(parse_error("parse error: nested too deep").error);
    }
    serde_json::from_slice(text).map_err(|_| not_json().error)
}

/// A text without the byte-order mark that some programs write first.
#[must_use]
pub fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

fn parse_object(text: &str) -> Result<Message<'_>, Malformed> {
    if !text.trim_ascii_start().starts_with('{') {
        return match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Err(invalid(None, "invalid request: not an object")),
            Err(_) => Err(not_json()),
        };
    }
    match parts::<Params<'_>>(text).or_else(|_| parts::<Odd>(text)) {
        Ok(parts) => parts.classify(text),
        Err(_) => Err(not_json()),
    }
}

/// The members of a message, its parameters read as `P`.
fn parts<'a, P>(text: &'a str) -> Result<Parts<'a>, serde_json::Error>
where
    P: Deserialize<'a> + Into<Params<'a>>,
{
    let mut json = serde_json::Deserializer::from_str(text);
    let parts = json.deserialize_map(PartsVisitor::<P>(PhantomData))?;
    json.end()?;
    Ok(parts)
}

fn not_json() -> Malformed {
    parse_error("parse error: not a single JSON value")
}

fn parse_error(message: &'static str) -> Malformed {
    Malformed {
        id: None,
        error: RpcError::new(ErrorCode::PARSE_ERROR, message),
    }
}

fn invalid(id: Option<RequestId>, message: impl Into<Cow<'static, str>>) -> Malformed {
    Malformed {
        id,
        error: RpcError::invalid_request(message),
    }
}

/// The items of a batch; `None` when there are too many of them.
struct Items<'a>(Option<Vec<&'a RawValue>>);

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ItemsVisitor)
    }
}

struct ItemsVisitor;

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Items<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a batch")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() < MAX_BATCH {
            match seq.next_element()? {
                Some(item) => items.push(item),
                None => return Ok(Items(Some(items))),
            }
        }
        // Whatever follows is read, so that a text that is not JSON is told apart, but not kept.
        let mut more = false;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            more = true;
        }
        Ok(Items((!more).then_some(items)))
    }
}

/// The members of the envelope, raw.
#[derive(Default)]
struct Parts<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<Params<'a>>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    duplicate: Option<&'static str>,
    /// It has members that no envelope has.
    has_more: bool,
}

impl<'a> Parts<'a> {
    fn classify(self, text: &'a str) -> Result<Message<'a>, Malformed> {
        let this = self.without_vacant();
        this.classify_written(text)
    }

    fn classify_written(self, text: &'a str) -> Result<Message<'a>, Malformed> {
        let is_response = self.method.is_none() && (self.result.is_some() || self.error.is_some());
        // The last one counts in a response: its request must not wait in vain.
        if let Some(key) = self.duplicate.filter(|_| !is_response) {
            let id = self
                .id
                .filter(|_| key != "id")
                .and_then(|id| RequestId::from_raw(id).ok());
            return Err(invalid(id, format!("invalid request: duplicate key {key}")));
        }
        let id = match self.id.map(RequestId::from_raw) {
            None => None,
            Some(Ok(id)) => Some(id),
            Some(Err(_)) if self.is_null_id() && self.may_lack_id() => None,
            // An error of a peer that could not read the id.
            Some(Err(_)) if is_response && self.error.is_some() => None,
            Some(Err(error)) => return Err(invalid(None, format!("invalid request: {error}"))),
        };
        let is_2 = self.jsonrpc.map(RawValue::get) == Some("\"2.0\"");
        if !(is_2 || id.is_some() && self.is_lone_response()) {
            return Err(invalid(id, "invalid request: jsonrpc must be \"2.0\""));
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let Some(method) = text_of(method) else {
                    return Err(invalid(id, "invalid request: method must be a string"));
                };
                Ok(match id {
                    Some(id) => Message::Request(RequestRef {
                        id,
                        method,
                        params: self.params.unwrap_or_default(),
                        text,
                    }),
                    None => Message::Notification(NotificationRef {
                        method,
                        params: self.params.unwrap_or_default(),
                        text,
                    }),
                })
            }
            (None, Some(result), None) if id.is_some() => Ok(Message::Response(ResponseRef {
                id,
                reply: Reply::Result(result),
            })),
            (None, None, Some(error)) => Ok(Message::Response(ResponseRef {
                id,
                reply: Reply::Error(error),
            })),
            _ => Err(invalid(
                id,
                "invalid request: neither a request nor a response",
            )),
        }
    }

    /// Returns whether it is a response with nothing else in it, as JSON-RPC 1.0 has it. It can hardly be a line
    /// of a log.
    fn is_lone_response(&self) -> bool {
        let has_one = self.result.is_some() != self.error.is_some();
        has_one && self.method.is_none() && self.params.is_none() && !self.has_more
    }

    fn is_null_id(&self) -> bool {
        self.id.is_some_and(|id| id.get() == "null")
    }

    /// Returns whether it is a notification or a response: some programs write each member of the
    /// envelope in each message.
    fn may_lack_id(&self) -> bool {
        let method = self.method.and_then(text_of);
        method.is_none_or(|method| method.starts_with("notifications/"))
    }

    /// Leaves out members that say nothing because another kind of message has them.
    fn without_vacant(mut self) -> Self {
        let is_there = |value: Option<&RawValue>| value.is_some_and(|value| !is_vacant(value));
        let is_response = self.result.is_some() || self.error.is_some();
        self.method = self
            .method
            .filter(|method| method.get() != "null" && !(is_response && is_vacant(method)));
        if self.method.is_some() {
            self.result = self.result.filter(|result| !is_vacant(result));
            self.error = self.error.filter(|error| !is_vacant(error));
        } else if self.result.is_some() && self.error.is_some() {
            if !is_there(self.error) {
                self.error = None;
            } else if !is_there(self.result) {
                self.result = None;
            }
        }
        self
    }
}

/// Returns whether a member has no content: some programs write each member of the envelope in each
/// message, as null or as the empty value of its type.
fn is_vacant(value: &RawValue) -> bool {
    /// An error of a program whose errors cannot be absent.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NoError {
        code: Option<i64>,
        message: Option<String>,
        data: Option<IgnoredAny>,
    }
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => serde_json::from_str::<NoError>(text).is_ok_and(|error| {
            error.code.unwrap_or_default() == 0
                && error.message.unwrap_or_default().is_empty()
                && error.data.is_none()
        }),
        Some(b'[') => text[1..].trim_ascii_start() == "]",
        _ => matches!(text, "null" | "false" | "0" | "\"\""),
    }
}

struct PartsVisitor<P>(PhantomData<P>);

impl<'de, P: Deserialize<'de> + Into<Params<'de>>> Visitor<'de> for PartsVisitor<P> {
    type Value = Parts<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut parts = Parts::default();
        while let Some(key) = map.next_key::<Key>()? {
            let (slot, name) = match key {
                Key::Jsonrpc => (&mut parts.jsonrpc, "jsonrpc"),
                Key::Id => (&mut parts.id, "id"),
                Key::Method => (&mut parts.method, "method"),
                Key::Params => {
                    let params: P = map.next_value()?;
                    if parts.params.replace(params.into()).is_some() {
                        parts.duplicate = Some("params");
                    }
                    continue;
                }
                Key::Result => (&mut parts.result, "result"),
                Key::Error => (&mut parts.error, "error"),
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    parts.has_more = true;
                    continue;
                }
            };
            if slot.replace(map.next_value()?).is_some() {
                parts.duplicate = Some(name);
            }
        }
        Ok(parts)
    }
}

enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A key may be no Unicode.
        deserializer.deserialize_bytes(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }

    fn visit_bytes<E: de::Error>(self, key: &[u8]) -> Result<Key, E> {
        Ok(match key {
            b"jsonrpc" => Key::Jsonrpc,
            b"id" => Key::Id,
            b"method" => Key::Method,
            b"params" => Key::Params,
            b"result" => Key::Result,
            b"error" => Key::Error,
            _ => Key::Other,
        })
    }
}

#[cfg(test)]
mod tests;
