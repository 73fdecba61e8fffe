//! What the parameters of a call name: a tool, a prompt, a resource, an argument to complete.

use std::collections::BTreeMap;

use bytes::Bytes;
use orchestra_hub::{Answers, CompletionRef, Target};
use orchestra_wire::{Fields, Line, Method, RawJson, RpcError, shown, text_of};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::NewCall;
use crate::told::invalid_fields;

/// `ref` of a completion.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum Reference {
    #[serde(rename = "ref/prompt")]
    Prompt { name: String },
    #[serde(rename = "ref/resource")]
    Resource { uri: String },
}

/// `argument` of a completion.
#[derive(Deserialize)]
struct Argument {
    name: String,
    value: String,
}

pub(super) fn missing(name: &str) -> RpcError {
    RpcError::invalid_params(format!("missing parameter {name}"))
}

/// An error of a parameter's parts; it may repeat what the client sent.
pub(super) fn invalid(name: &str, error: &serde_json::Error) -> RpcError {
    RpcError::invalid_params(format!("invalid {name}: {}", shown(&error.to_string())))
}

pub(super) fn text(value: Option<&RawValue>, name: &str) -> Result<String, RpcError> {
    let value = value.ok_or_else(|| missing(name))?;
    text_of(value)
        .map(Into::into)
        .ok_or_else(|| RpcError::invalid_params(format!("parameter {name} must be a string")))
}

fn object<'a>(value: Option<&'a RawValue>, name: &str) -> Result<Option<&'a RawValue>, RpcError> {
    // Languages whose empty map is an empty array send one for an object without members.
    match value.filter(|value| !matches!(value.get(), "null" | "[]")) {
        Some(value) if !value.get().starts_with('{') => Err(RpcError::invalid_params(format!(
            "parameter {name} must be an object"
        ))),
        value => Ok(value),
    }
}

fn texts(value: Option<&RawValue>, name: &str) -> Result<BTreeMap<String, String>, RpcError> {
    let Some(value) = object(value, name)? else {
        return Ok(BTreeMap::new());
    };
    let texts: BTreeMap<String, Option<String>> =
        serde_json::from_str(value.get()).map_err(|_| {
            RpcError::invalid_params(format!("parameter {name} must be an object of strings"))
        })?;
    let given = texts.into_iter();
    Ok(given.filter_map(|(key, text)| Some((key, text?))).collect())
}

/// What a call of `method` names by its parameters alone, which lie in `frame`.
///
/// # Errors
/// When they are malformed, or the method names nothing to call.
pub(crate) fn named(method: Method, params: &RawValue, frame: &Bytes) -> Result<Target, RpcError> {
    let fields = Fields::find(Some(params), "params").map_err(invalid_fields)?;
    let line = Line::Shared(frame.clone());
    let call = match method {
        Method::ToolsCall => tool(&fields, &line),
        Method::PromptsGet => prompt(&fields, &line),
        Method::ResourcesRead => resource(&fields, &line),
        _ => Err(RpcError::method_not_found(method.name())),
    };
    call.map(|call| call.target)
}

pub(super) fn tool(fields: &Fields<'_>, line: &Line<'_>) -> Result<NewCall, RpcError> {
    let name = text(fields.name, "name")?;
    let arguments = object(fields.arguments, "arguments")?;
    let arguments = arguments.map_or_else(RawJson::empty_object, |arguments| {
        RawJson::from_frame(arguments, line.shared())
    });
    with_answers(
        fields,
        line,
        NewCall {
            target: Target::Tool { name, arguments },
            answers: None,
        },
    )
}

pub(super) fn prompt(fields: &Fields<'_>, line: &Line<'_>) -> Result<NewCall, RpcError> {
    let name = text(fields.name, "name")?;
    let arguments = texts(fields.arguments, "arguments")?;
    with_answers(
        fields,
        line,
        NewCall {
            target: Target::Prompt { name, arguments },
            answers: None,
        },
    )
}

pub(super) fn resource(fields: &Fields<'_>, line: &Line<'_>) -> Result<NewCall, RpcError> {
    let uri = text(fields.uri, "uri")?;
    with_answers(
        fields,
        line,
        NewCall {
            target: Target::Resource { uri },
            answers: None,
        },
    )
}

pub(super) fn completion(fields: &Fields<'_>, _line: &Line<'_>) -> Result<NewCall, RpcError> {
    let reference = object(fields.reference, "ref")?.ok_or_else(|| missing("ref"))?;
    let argument = object(fields.argument, "argument")?.ok_or_else(|| missing("argument"))?;
    let reference = match serde_json::from_str(reference.get()) {
        Ok(Reference::Prompt { name }) => CompletionRef::Prompt(name),
        Ok(Reference::Resource { uri }) => CompletionRef::Resource(uri),
        Err(error) => return Err(invalid("ref", &error)),
    };
    let argument: Argument =
        serde_json::from_str(argument.get()).map_err(|error| invalid("argument", &error))?;
    let context = Fields::find(object(fields.context, "context")?, "context");
    let context = texts(
        context.map_err(invalid_fields)?.arguments,
        "context.arguments",
    )?;
    let (argument, value) = (argument.name, argument.value);
    let target = Target::Complete {
        reference,
        argument,
        value,
        context,
    };
    Ok(NewCall {
        target,
        answers: None,
    })
}

/// Adds the client's answers to an earlier input-required result.
fn with_answers(
    fields: &Fields<'_>,
    line: &Line<'_>,
    mut call: NewCall,
) -> Result<NewCall, RpcError> {
    let responses = object(fields.input_responses, "inputResponses")?;
    let state = fields
        .request_state
        .filter(|state| state.get() != "null")
        .map(|state| text(Some(state), "requestState"))
        .transpose()?;
    if responses.is_some() || state.is_some() {
        let responses = responses.map_or_else(RawJson::empty_object, |responses| {
            RawJson::from_frame(responses, line.shared())
        });
        call.answers = Some(Answers { responses, state });
    }
    Ok(call)
}
