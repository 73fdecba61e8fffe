//! Parts of an answer out of the lines in which they come: server-sent events of several forms, or one object.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::super::parts::{count, failure, id, index, lenient, object_of, reported, several};
use crate::request::Trouble;

/// Longest part that may come in several lines, in bytes.
const MAX_PART: usize = super::super::MAX_LINE;

/// Puts lines together to parts.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Lines of a part that has not ended.
    begun: String,
    /// The next data is an error.
    is_error: bool,
}

/// Result of taking a line.
#[derive(Debug)]
pub(super) enum Taken {
    /// It says nothing, or more is to come.
    Nothing,
    Part(Box<Part>),
    /// The end of the answer.
    End,
    Trouble(Trouble),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    /// The answer that it is a part of.
    #[serde(deserialize_with = "id")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "several")]
    pub(super) choices: Vec<Choice>,
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: Option<Used>,
    #[serde(deserialize_with = "failure")]
    error: Option<Value>,
    #[serde(deserialize_with = "failure")]
    errors: Option<Value>,
    object: Value,
    message: Value,
    detail: Value,
    /// It came by itself, without the form of an event.
    #[serde(skip)]
    pub(super) is_whole: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    /// Its number among the choices of the answer; servers with one choice may leave it out.
    #[serde(default, deserialize_with = "index")]
    index: Option<usize>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) delta: Option<Said>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message: Option<Said>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Said {
    pub(super) role: Value,
    pub(super) content: Value,
    pub(super) reasoning_content: Option<Value>,
    pub(super) reasoning: Option<Value>,
    pub(super) thinking: Option<Value>,
    #[serde(deserialize_with = "several")]
    pub(super) tool_calls: Vec<ToldCall>,
    #[serde(deserialize_with = "lenient")]
    pub(super) function_call: Option<Function>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToldCall {
    #[serde(default, deserialize_with = "index")]
    pub(super) index: Option<usize>,
    #[serde(default, deserialize_with = "id")]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) function: Option<Function>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Function {
    #[serde(deserialize_with = "lenient")]
    pub(super) name: Option<String>,
    pub(super) arguments: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Used {
    #[serde(deserialize_with = "count")]
    pub(super) prompt_tokens: u64,
    #[serde(deserialize_with = "count")]
    pub(super) completion_tokens: u64,
}

impl Choice {
    /// Returns whether it is the choice that counts: the first.
    pub(super) fn is_first(&self) -> bool {
        self.index.is_none_or(|index| index == 0)
    }
}

impl Events {
    /// Whether a part has begun and not ended.
    pub(super) fn is_within(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Takes a line that is not empty.
    pub(super) fn take(&mut self, line: &str) -> Taken {
        let mut data = line.strip_prefix("data:").map(str::trim);
        if let (Some(error), false) = (line.strip_prefix("error:"), self.is_within()) {
            self.is_error = true;
            data = Some(error.trim());
        }
        let is_end = data.unwrap_or(line).eq_ignore_ascii_case("[done]");
        if is_end && !self.is_within() {
            return Taken::End;
        }
        let text = match data {
            Some(data) => data,
            // A server that does not stream answers with one object, or an error in a list, in one or more lines.
            None if line.starts_with(['{', '[']) || self.is_within() => line,
            None => {
                let kind = line.strip_prefix("event:").map(str::trim);
                self.is_error = kind.map_or(self.is_error, |kind| kind == "error");
                return Taken::Nothing;
            }
        };
        if text.is_empty() {
            return Taken::Nothing;
        }
        let is_first = self.begun.is_empty();
        if !is_first {
            self.begun.push('\n');
            self.begun.push_str(text);
        }
        let whole = match is_first {
            true => text,
            false => self.begun.as_str(),
        };
        let read = object_of(whole).and_then(|object| match object {
            Some(object) => {
                let part: Part = serde_json::from_str(object)?;
                let trouble = self.trouble(&part, object);
                Ok(Some((part, trouble)))
            }
            None => Ok(None),
        });
        match read {
            Ok(Some((mut part, trouble))) => {
                part.is_whole = data.is_none();
                self.begun.clear();
                match trouble {
                    Some(trouble) => Taken::Trouble(trouble),
                    None => Taken::Part(Box::new(part)),
                }
            }
            Err(error) if error.is_eof() && whole.len() < MAX_PART => {
                if is_first {
                    self.begun.push_str(text);
                }
                Taken::Nothing
            }
            Ok(None) | Err(_) if self.is_error => Taken::Trouble(reported(&Value::from(whole))),
            // Text of no answer.
            Err(_) if is_first && data.is_none() && text.starts_with('[') => Taken::Nothing,
            // Some servers send null or an empty list to keep the connection open.
            Ok(None) => {
                self.begun.clear();
                Taken::Nothing
            }
            Err(error) => Taken::Trouble(Trouble::Odd {
                what: format!("a part of its answer cannot be read: {error}"),
            }),
        }
    }

    /// Returns the trouble of an error that came instead of a part.
    fn trouble(&self, part: &Part, whole: &str) -> Option<Trouble> {
        if let Some(error) = part.error.as_ref().or(part.errors.as_ref()) {
            return Some(reported(error));
        }
        let is_error = self.is_error
            || part.object == "error"
            || (part.choices.is_empty()
                && part.usage.is_none()
                && (part.message.is_string() || !part.detail.is_null()));
        let value = || -> Value { serde_json::from_str(whole).unwrap_or_default() };
        is_error.then(|| reported(&value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of lines: for each part its text, calls and count of tokens.
    fn taken(lines: &[&str]) -> Vec<String> {
        let mut events = Events::default();
        let mut all = Vec::new();
        for line in lines {
            match events.take(line) {
                Taken::Nothing => {}
                Taken::End => all.push("end".to_owned()),
                Taken::Trouble(trouble) => all.push(trouble.to_string()),
                Taken::Part(part) => {
                    let used = part.usage.unwrap_or_default();
                    let said = part.choices.into_iter().next();
                    let said = said.and_then(|choice| choice.delta.or(choice.message));
                    let said = said.unwrap_or_default();
                    let calls = said.tool_calls.iter().map(|call| {
                        let function = call.function.as_ref();
                        let name = function.and_then(|function| function.name.clone());
                        format!(" {:?} {:?} {name:?}", call.index, call.id)
                    });
                    let calls: String = calls.collect();
                    all.push(format!(
                        "{}{calls} {}/{}",
                        said.content, used.prompt_tokens, used.completion_tokens
                    ));
                }
            }
        }
        if events.is_within() {
            all.push("cut".to_owned());
        }
        all
    }

    #[test]
    fn events_of_each_form_are_read() {
        let part = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
        let no_blank = format!("data:{part}");
        for lines in [
            vec![no_blank.as_str(), "data:[DONE]"],
            vec![
                ": comment",
                "event: message",
                "id: 1",
                "retry: 5",
                no_blank.as_str(),
                "data: [DONE]",
            ],
            vec![
                r#"data: {"choices":[{"delta":"#,
                r#"data: {"content":"a"}}]}"#,
                "data:  [DONE]",
            ],
            vec![no_blank.as_str(), "data: [done]"],
        ] {
            assert_eq!(taken(&lines), ["\"a\" 0/0", "end"], "{lines:?}");
        }
        let whole = [
            "{",
            r#""choices": [{"message":"#,
            r#"{"content": "a"}}]"#,
            "}",
        ];
        assert_eq!(taken(&whole), ["\"a\" 0/0"]);
        assert_eq!(taken(&whole[..2]), ["cut"]);
        assert_eq!(taken(&["data:", "data: "]), Vec::<String>::new());
        for other in ["null", "[]", "[null]", "\"\"", "7", "true"] {
            let other = format!("data: {other}");
            let lines = [other.as_str(), no_blank.as_str(), other.as_str()];
            assert_eq!(taken(&lines), ["\"a\" 0/0"], "{other}");
        }
        let lines = ["data: [", "data: 1,", "data: 2]", no_blank.as_str()];
        assert_eq!(taken(&lines), ["\"a\" 0/0"]);
    }

    #[test]
    fn an_odd_member_does_not_cost_a_part() {
        for (odd, input, output) in [
            (r#"{"prompt_tokens":-1,"completion_tokens":2.0}"#, 0, 2),
            (r#"{"prompt_tokens":"7","completion_tokens":null}"#, 7, 0),
            (r#"{"prompt_tokens":1e300,"completion_tokens":[]}"#, 0, 0),
            (r#"{"completion_tokens":3}"#, 0, 3),
            ("null", 0, 0),
            ("[]", 0, 0),
            ("\"many\"", 0, 0),
        ] {
            let line =
                format!(r#"data: {{"choices":[{{"delta":{{"content":"a"}}}}],"usage":{odd}}}"#);
            assert_eq!(
                taken(&[&line]),
                [format!("\"a\" {input}/{output}")],
                "{odd}"
            );
        }
        for choice in [
            r#"{"index":"x","delta":{"content":"a","role":7,"tool_calls":null},"finish_reason":3}"#,
            r#"{"delta":{"content":"a","function_call":null,"tool_calls":[]},"logprobs":"x"}"#,
            r#"{"delta":{"content":"a","function_call":"x","tool_calls":[7]}}"#,
        ] {
            for error in ["null", "false", "0", "\"\"", "[]", "{}"] {
                let line = format!(r#"data: {{"choices":[{choice}],"error":{error}}}"#);
                assert_eq!(taken(&[&line]), ["\"a\" 0/0"], "{choice} {error}");
            }
        }
        let call = r#"data: {"choices":[{"delta":{"tool_calls":{"index":"0","id":7,"function":{"name":"n"}}}}]}"#;
        assert_eq!(taken(&[call]), [r#"null Some(0) Some("7") Some("n") 0/0"#]);
    }

    #[test]
    fn an_error_is_read_in_each_form() {
        let later = |what: &str| format!("the model server refuses requests for now: {what}");
        let refused = |status: u16, what: &str| {
            format!("the model server refused the request ({status}): {what}")
        };
        for (line, expected) in [
            (
                r#"data: {"error":{"message":"m","code":"E"}}"#,
                refused(200, "m"),
            ),
            (r#"data: {"error":{"code":"E_BUSY"}}"#, later("E_BUSY")),
            (r#"data: {"error":{"code":429}}"#, later("429")),
            (
                r#"data: {"error":{"code":"503","message":"m"}}"#,
                later("m"),
            ),
            (
                r#"data: {"error":{"code":400,"message":"busy"}}"#,
                refused(400, "busy"),
            ),
            (
                r#"data: {"error":"Model is loading"}"#,
                later("Model is loading"),
            ),
            (r#"data: {"error":"m"}"#, refused(200, "m")),
            (r#"data: [{"error":{"message":"m"}}]"#, refused(200, "m")),
            (r#"[{"error":{"message":"m"}}]"#, refused(200, "m")),
            (r#"{"errors":[{"message":"m"}]}"#, refused(200, "m")),
            (r#"{"errors":["m","n"]}"#, refused(200, r#"["m","n"]"#)),
            (
                r#"{"object":"error","message":"m","code":1}"#,
                refused(200, "m"),
            ),
            (r#"{"detail":"m"}"#, refused(200, "m")),
        ] {
            assert_eq!(taken(&[line]), [expected], "{line}");
        }
        let expected = refused(200, "m");
        assert_eq!(
            taken(&["event: error", r#"data: {"message":"m"}"#]),
            [expected.as_str()]
        );
        for lines in [["event: error", "data: m"], ["", "error: m"]] {
            assert_eq!(taken(&lines), [expected.as_str()], "{lines:?}");
        }
        let line = r#"error: {"code":500,"message":"m"}"#;
        assert_eq!(taken(&[line]), [later("m")]);
        let list = ["[{", r#""error": {"message": "m"}"#, "}]"];
        assert_eq!(taken(&list), [expected.as_str()]);
        assert_eq!(taken(&["[info] m", "[DONE]"]), ["end"]);
    }
}
