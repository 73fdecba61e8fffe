//! What one Orchestra tells another in a session, of what only the newest revision has a place for:
//! the key of a question and the call it belongs to, and what the caller of one request can be asked
//! for. Both sides say under `experimental` of their capabilities that they understand it; who does
//! not is told nothing of it.

use std::borrow::Cow;

use orchestra_wire::{RawJson, RequestId, Rope, RpcError, write};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What says that this is understood.
const CAPABILITY: &str = "orchestra/translation";

/// The member of capabilities that says so.
pub(crate) const EXPERIMENTAL: &str = r#""experimental":{"orchestra/translation":{}}"#;

/// The member of a question's `_meta` that says what it is about.
const INPUT: &str = "orchestra/input";

/// The member of a request's `_meta` that says what its caller can be asked for.
pub(crate) const CALLER: &str = "orchestra/clientCapabilities";

/// The member of an answer that has the error of a client.
const ERROR: &str = "orchestra/error";

/// A longer key is not used.
const MAX_KEY_BYTES: usize = 256;

/// What a question of the server is about, as it says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) input: Option<Input>,
    /// The task of revision 2025-11-25 that asks.
    pub(crate) task: Option<String>,
}

/// One of the questions of a call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Input {
    /// The key of its answer.
    pub(crate) key: String,
    /// How many questions the call asks together.
    pub(crate) count: usize,
    /// The id of the call's request.
    pub(crate) call: u64,
}

/// Whether `experimental` says that the other side understands.
pub(crate) fn is_among(experimental: &RawValue) -> bool {
    RawJson::from_raw(experimental).member(CAPABILITY).is_some()
}

/// The parameters of a question that say what it is about.
pub(crate) fn question(
    params: Option<&RawJson>,
    key: &str,
    count: usize,
    call: &RequestId,
) -> RawJson {
    let mut about = Rope::new();
    about.push(b"{\"key\":");
    write::string(&mut about, key);
    about.push(b",\"count\":");
    write::number(&mut about, count as u64);
    about.push(b",\"call\":");
    about.push(call.as_bytes());
    about.push_byte(b'}');
    let meta = params.and_then(|params| params.member("_meta"));
    let own = (Cow::Borrowed(INPUT), raw(about));
    let meta = object(others(meta.as_ref(), INPUT).chain([own]));
    object(
        [(Cow::Borrowed("_meta"), meta)]
            .into_iter()
            .chain(others(params, "_meta")),
    )
}

/// The parameters of a question without what was said for us alone.
pub(crate) fn without_about(params: &RawJson) -> RawJson {
    let meta = params.member("_meta");
    let Some(meta) = meta.filter(|meta| meta.member(INPUT).is_some()) else {
        return params.clone();
    };
    let mut rest = others(Some(&meta), INPUT).peekable();
    let meta = rest.peek().is_some().then(|| object(rest));
    let meta = meta.map(|meta| (Cow::Borrowed("_meta"), meta));
    object(meta.into_iter().chain(others(Some(params), "_meta")))
}

/// The answer of a client that refuses a question.
pub(crate) fn refusal(error: &RawValue) -> RawJson {
    object([(Cow::Borrowed(ERROR), RawJson::from_raw(error))])
}

/// The error with which a client refused a question.
pub(crate) fn refused_with(answer: &RawJson) -> Option<RpcError> {
    let error = answer.member(ERROR)?;
    Some(RpcError::from_raw(error.parse().ok()?))
}

impl About {
    /// What a question says; nothing where it says it in no known form.
    pub(crate) fn of(params: Option<&RawJson>) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Related {
            task_id: String,
        }
        let Some(meta) = params.and_then(|params| params.member("_meta")) else {
            return Self::default();
        };
        let input = meta.member(INPUT).and_then(|raw| raw.parse::<Input>().ok());
        let task = meta.member("io.modelcontextprotocol/related-task");
        let task = task.and_then(|raw| raw.parse::<Related>().ok());
        Self {
            input: input.filter(|input| (1..=MAX_KEY_BYTES).contains(&input.key.len())),
            task: task.map(|task| task.task_id),
        }
    }
}

/// The members of an object, but for one.
pub(crate) fn others<'a>(
    object: Option<&'a RawJson>,
    but: &'a str,
) -> impl Iterator<Item = (Cow<'a, str>, RawJson)> {
    let members = object.and_then(RawJson::members).into_iter().flatten();
    members
        .filter(move |member| member.key != but)
        .map(|member| (member.key, member.value))
}

pub(crate) fn object<'a>(members: impl IntoIterator<Item = (Cow<'a, str>, RawJson)>) -> RawJson {
    let mut rope = Rope::new();
    let mut separator = b'{';
    for (key, value) in members {
        rope.push_byte(std::mem::replace(&mut separator, b','));
        write::string(&mut rope, &key);
        rope.push_byte(b':');
        write::raw(&mut rope, &value);
    }
    if separator == b'{' {
        rope.push_byte(b'{');
    }
    rope.push_byte(b'}');
    raw(rope)
}

fn raw(rope: Rope) -> RawJson {
    let text = rope.into_vec();
    serde_json::from_slice(&text).map_or_else(|_| RawJson::empty_object(), RawJson::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> RawJson {
        RawJson::from_raw(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn what_a_question_is_about_goes_there_and_is_taken_out_again() {
        let call = RequestId::from_number(7);
        for params in [
            r#"{"message":"a"}"#,
            r#"{"_meta":{"v/x":1},"message":"a"}"#,
            "{}",
        ] {
            let sent = question(Some(&json(params)), "user \"name\"", 3, &call);
            let about = About::of(Some(&sent));
            let expected = Input {
                key: "user \"name\"".to_owned(),
                count: 3,
                call: 7,
            };
            assert_eq!(about.input, Some(expected));
            assert_eq!(without_about(&sent).as_str(), params);
        }
        let none = question(None, "k", 1, &call);
        assert_eq!(without_about(&none).as_str(), "{}");
    }

    #[test]
    fn what_is_said_in_no_known_form_is_not_said() {
        for params in [
            r#"{"_meta":{"orchestra/input":{"key":"","count":1,"call":1}}}"#,
            r#"{"_meta":{"orchestra/input":{"key":"a","count":-1,"call":1}}}"#,
            r#"{"_meta":{"orchestra/input":{"key":"a","count":1,"call":"x"}}}"#,
            r#"{"_meta":{"orchestra/input":[]}}"#,
            r#"{"_meta":[]}"#,
            "[]",
        ] {
            assert_eq!(About::of(Some(&json(params))), About::default(), "{params}");
        }
        let long = format!(
            r#"{{"_meta":{{"orchestra/input":{{"key":"{}","count":1,"call":1}}}}}}"#,
            "k".repeat(MAX_KEY_BYTES + 1)
        );
        assert_eq!(About::of(Some(&json(&long))).input, None);
        let task = r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"T"}}}"#;
        assert_eq!(About::of(Some(&json(task))).task.as_deref(), Some("T"));
    }
}
