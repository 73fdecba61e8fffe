//! What a result of a server is: the end, a question, or the name of a task.

use std::borrow::Cow;

use orchestra_hub::InputRequired;
use orchestra_wire::{Era, RawJson};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ClientConfig, ClientError, open::MAX_QUESTIONS, parking::State, tasks::TaskName};
use crate::{
    attribution::objection,
    repair::question,
    told::Ask,
    translation::{object, others},
};

/// What a result says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Complete,
    Input,
    Task,
    /// A task of revision 2025-11-25.
    SessionTask,
    /// A question in the form of the stateless era, in a session, where a server asks by a request.
    Misplaced,
    Unknown,
}

/// A result that was understood as far as that goes.
#[derive(Debug)]
pub(super) enum Told {
    Result(RawJson),
    Input(InputRequired),
    Task(TaskName),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow)]
    result_type: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow)]
    request_state: Option<Cow<'a, str>>,
    #[serde(borrow)]
    task: Option<&'a RawValue>,
}

impl Kind {
    /// Looks at a result; most say that they are complete in their first bytes, or say nothing.
    pub(super) fn of(era: Era, result: &RawJson) -> Self {
        let text = result.as_bytes();
        if era == Era::Session {
            if has(text, b"\"input_required\"") && is_question(result) {
                return Self::Misplaced;
            }
            return match text.starts_with(b"{\"task\":") || has(text, b"\"task\":") {
                true if is_session_task(result) => Self::SessionTask,
                _ => Self::Complete,
            };
        }
        if text.starts_with(b"{\"resultType\":\"complete\"") || !has(text, b"\"resultType\"") {
            return Self::Complete;
        }
        match head(result)
            .and_then(|head| head.result_type.map(Cow::into_owned))
            .as_deref()
        {
            None | Some("complete") => Self::Complete,
            Some("input_required") => Self::Input,
            Some("task") => Self::Task,
            Some(_) => Self::Unknown,
        }
    }

    /// What the result is for its caller.
    ///
    /// # Errors
    /// When it is none of what is known, or asks questions that the configuration does not allow.
    pub(super) fn told(self, result: RawJson, config: &ClientConfig) -> Result<Told, ClientError> {
        let invalid = |what: &str| ClientError::InvalidMessage {
            what: what.to_owned(),
        };
        match self {
            Self::Complete => Ok(Told::Result(result)),
            Self::Input => {
                let head =
                    head(&result).ok_or_else(|| invalid("the questions have no known form"))?;
                input(head.input_requests, head.request_state.as_deref(), config).map(Told::Input)
            }
            Self::Task | Self::SessionTask => TaskName::of(&result, self == Self::SessionTask)
                .map(Told::Task)
                .ok_or_else(|| invalid("a task without a taskId")),
            Self::Misplaced => Err(invalid(
                "a result that asks the user something, which a server of this revision does by a request",
            )),
            Self::Unknown => Err(invalid("a result of a type that is not known")),
        }
    }
}

/// Questions of a stateless server.
///
/// # Errors
/// When they are too many, or the configuration of the server does not allow one of them.
pub(super) fn input(
    requests: Option<&RawValue>,
    state: Option<&str>,
    config: &ClientConfig,
) -> Result<InputRequired, ClientError> {
    let requests = requests.map_or_else(RawJson::empty_object, RawJson::from_raw);
    let mut members = requests.members().into_iter().flatten();
    if members.nth(MAX_QUESTIONS).is_some() {
        let what = format!("it asks more than {MAX_QUESTIONS} questions at once");
        return Err(ClientError::InvalidMessage { what });
    }
    let requests = accepted(&requests);
    let members = requests.members().into_iter().flatten();
    for member in members {
        permit(&member.value, config)?;
    }
    Ok(InputRequired {
        requests,
        state: state.map(|state| State::Server(state).to_string()),
        takes_errors: false,
    })
}

/// Checks whether the configuration of the server allows a question. Unknown methods are left to the caller.
fn permit(request: &RawJson, config: &ClientConfig) -> Result<(), ClientError> {
    let method = request.member("method");
    let method: Option<String> = method.and_then(|method| method.parse().ok());
    let params = request.member("params");
    let raw = params.as_ref().and_then(|params| params.parse().ok());
    let Some(ask) = method.and_then(|method| Ask::of(&method, raw)) else {
        return Ok(());
    };
    if !ask.is_in(config.features) {
        return Err(ClientError::InvalidMessage {
            what: format!("it asks for {ask}, which its `features` do not allow"),
        });
    }
    if !matches!(ask, Ask::ElicitForm | Ask::ElicitUrl) {
        return Ok(());
    }
    let params = params.unwrap_or_else(RawJson::empty_object);
    let Some(objection) = objection(&params, config.secrets) else {
        return Ok(());
    };
    let server = &config.name;
    tracing::warn!(%server, %objection, "refused a request of the server");
    let mut what = format!("it sent a question that is not allowed: {objection}");
    if objection.is_about_secrets() {
        what.push_str("; `features = {secrets = true}` for ");
        what.push_str(server);
        what.push_str(" in your own configuration allows that");
    }
    Err(ClientError::InvalidMessage { what })
}

/// Questions whose parameters clients accept.
fn accepted(requests: &RawJson) -> RawJson {
    let repaired = |request: &RawJson| {
        let method: String = request.member("method")?.parse().ok()?;
        let repaired = question(&method, &request.member("params")?)?;
        let first = repaired.repairs.first()?;
        tracing::debug!(%method, %first, "repaired a question that clients would refuse");
        let params = (Cow::Borrowed("params"), repaired.value);
        Some(object(others(Some(request), "params").chain([params])))
    };
    let mut has_changed = false;
    let members = requests.members().into_iter().flatten();
    let members: Vec<_> = members
        .map(|member| match repaired(&member.value) {
            Some(request) => {
                has_changed = true;
                (member.key, request)
            }
            None => (member.key, member.value),
        })
        .collect();
    match has_changed {
        true => object(members),
        false => requests.clone(),
    }
}

fn head(result: &RawJson) -> Option<Head<'_>> {
    result.parse().ok()
}

fn is_question(result: &RawJson) -> bool {
    let types = result.members().into_iter().flatten();
    let mut types = types.filter(|member| member.key == "resultType");
    types.any(|member| {
        let kind = member.value.parse::<Cow<'_, str>>();
        kind.is_ok_and(|kind| kind == "input_required")
    })
}

/// A result that names a task and has no content of its own.
fn is_session_task(result: &RawJson) -> bool {
    #[derive(Deserialize)]
    struct Other<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let has_task = head(result).is_some_and(|head| head.task.is_some());
    let has_content = result
        .parse::<Other<'_>>()
        .is_ok_and(|other| other.content.is_some());
    has_task && !has_content && TaskName::of(result, true).is_some()
}

fn has(text: &[u8], key: &[u8]) -> bool {
    memchr::memmem::find(text, key).is_some()
}
