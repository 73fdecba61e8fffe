//! Headers that repeat what the body says (MCP 2026-07-28, Streamable HTTP, request metadata): one
//! that is missing or says something else is refused, for others may have relied on it.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use orchestra_hub::Attachment;
use orchestra_wire::{ErrorCode, Fields, RawJson, RequestRef, RpcError, shown, text_of};
use serde_json::Value;
use serde_json::value::RawValue;

/// The revision.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The session of a session-era client.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Where an event stream is to go on.
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// What the names of parameter headers begin with.
const PARAMETER: &str = "mcp-param-";
/// The member of a parameter's schema that names its header.
const ANNOTATION: &str = "x-mcp-header";

/// Checks the headers that repeat what a stateless request says about itself; `meta` is what is
/// wrong with that, if anything.
///
/// # Errors
/// [`ErrorCode::HEADER_MISMATCH`], saying which header is wrong; or as the call would be refused.
pub(super) fn check(
    headers: &HeaderMap,
    request: &RequestRef<'_>,
    version: &str,
    meta: Result<(), RpcError>,
    attachment: &Attachment,
) -> Result<(), RpcError> {
    matches(headers, &PROTOCOL_VERSION, version)?;
    meta?;
    matches(headers, &METHOD, &request.method)?;
    let Ok(fields) = request.params.fields() else {
        // Whatever is wrong with them is said later.
        return Ok(());
    };
    let named = match &*request.method {
        "tools/call" | "prompts/get" => fields.name,
        "resources/read" => fields.uri,
        "tasks/get" | "tasks/update" | "tasks/cancel" => fields.task_id,
        _ => return Ok(()),
    };
    let Some(named) = named.and_then(text_of) else {
        return Ok(());
    };
    matches_encoded(headers, &NAME, &named)?;
    if request.method == "tools/call" {
        check_parameters(headers, fields, &named, attachment)?;
    }
    Ok(())
}

fn check_parameters(
    headers: &HeaderMap,
    fields: &Fields<'_>,
    tool: &str,
    attachment: &Attachment,
) -> Result<(), RpcError> {
    let Some(schema) = attachment.input_schema(tool) else {
        return Ok(());
    };
    if memchr::memmem::find(schema.as_bytes(), ANNOTATION.as_bytes()).is_none() {
        return Ok(());
    }
    let (Ok(schema), Some(arguments)) = (
        serde_json::from_slice::<Value>(schema.as_bytes()),
        fields.arguments.map_or(Some(Value::Null), parsed),
    ) else {
        return Ok(());
    };
    check_properties(headers, &schema, &arguments)
}

fn parsed(value: &RawValue) -> Option<Value> {
    RawJson::from_raw(value).parse_lossy().ok()
}

/// Checks the parameters that an object's schema names headers for, those of inner objects as well.
fn check_properties(
    headers: &HeaderMap,
    schema: &Value,
    arguments: &Value,
) -> Result<(), RpcError> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, property) in properties.into_iter().flatten() {
        let value = arguments.get(key).filter(|value| !value.is_null());
        if let Some(name) = property.get(ANNOTATION).and_then(Value::as_str) {
            check_parameter(headers, name, value)?;
        }
        check_properties(headers, property, value.unwrap_or(&Value::Null))?;
    }
    Ok(())
}

fn check_parameter(headers: &HeaderMap, name: &str, value: Option<&Value>) -> Result<(), RpcError> {
    let Ok(header) = HeaderName::try_from(format!("{PARAMETER}{}", name.to_ascii_lowercase()))
    else {
        return Ok(());
    };
    let sent = single(headers, &header)?;
    let (sent, value) = match (sent, value) {
        (None, None) => return Ok(()),
        (Some(_), None) => {
            return Err(mismatch(&header, "has a value that the body does not have"));
        }
        (None, Some(_)) => return Err(mismatch(&header, "is missing")),
        (Some(sent), Some(value)) => (decoded(&header, sent)?, value),
    };
    let same = match value {
        Value::String(text) => *text == sent,
        Value::Bool(flag) => sent == if *flag { "true" } else { "false" },
        Value::Number(number) => sent == number.to_string() || sent.parse().ok() == number.as_f64(),
        _ => false,
    };
    if same {
        Ok(())
    } else {
        Err(mismatch(&header, "does not match the body"))
    }
}

fn matches(headers: &HeaderMap, name: &HeaderName, expected: &str) -> Result<(), RpcError> {
    match single(headers, name)? {
        None => Err(mismatch(name, "is missing")),
        Some(value) if value.as_bytes() == expected.as_bytes() => Ok(()),
        Some(_) => Err(mismatch(name, "does not match the body")),
    }
}

fn matches_encoded(headers: &HeaderMap, name: &HeaderName, expected: &str) -> Result<(), RpcError> {
    let Some(value) = single(headers, name)? else {
        return Err(mismatch(name, "is missing"));
    };
    if decoded(name, value)? == expected {
        Ok(())
    } else {
        Err(mismatch(name, "does not match the body"))
    }
}

/// The only value of a header.
fn single<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h HeaderValue>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(mismatch(name, "is there more than once"));
    }
    Ok(first)
}

/// The value that a header stands for: as it is, or in Base64 between `=?base64?` and `?=`.
fn decoded(name: &HeaderName, value: &HeaderValue) -> Result<String, RpcError> {
    let text = value
        .to_str()
        .map_err(|_| mismatch(name, "has characters that a header cannot have"))?;
    let inner = text
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    let Some(inner) = inner else {
        return Ok(text.to_owned());
    };
    let bytes = STANDARD.decode(inner).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| mismatch(name, "is not Base64 of UTF-8"))
}

fn mismatch(name: &HeaderName, what: &str) -> RpcError {
    let text = format!("header mismatch: {} {what}", shown(name.as_str()));
    RpcError::new(ErrorCode::HEADER_MISMATCH, text)
}
