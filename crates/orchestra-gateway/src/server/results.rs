//! What comes of a tool's call: waited for, looked at, and passed on.

use std::sync::atomic::{AtomicBool, Ordering};

use orchestra_hub::{Outcome, ResultKind};
use orchestra_mcp::{
    client::ClientError,
    repair::{Context, Repairable, Repaired, repair},
};
use orchestra_wire::RawJson;
use serde_json::{Value, value::RawValue};
use tokio::task::spawn_blocking;

use super::{Server, calls::Answer, offered::Tool};
use crate::{
    cache::{Cache, Key},
    definitions,
    provider::resource_prefix,
};

/// A larger result is repaired on a thread for blocking work, in bytes.
const LARGE: usize = 64 * 1024;

impl Server {
    /// A tool's result as it is passed on.
    pub(super) async fn tool_answer(
        &self,
        tool: &Tool,
        result: RawJson,
        keep: Option<(&Cache, Key, u64)>,
    ) -> Answer {
        let repaired = self.repaired(ResultKind::Tool, result, None, &tool.is_repaired);
        let mut result = match repaired.await {
            Some(result) => result,
            None => return Err(self.failed("tools/call", not_understood())),
        };
        let is_error = result
            .member("isError")
            .is_some_and(|flag| flag.as_str() == "true");
        if tool.output.is_there() && !is_error {
            if result.member("structuredContent").is_none()
                && let Some(whole) = with_structure(tool, &result)
            {
                result = whole;
            }
            self.check_structure(tool, &result);
        }
        if let (Some((cache, key, age)), false) = (keep, is_error) {
            cache.keep(key, age, &result);
        }
        let cap = self.config.limits.budget.result_bytes;
        let is_large = cap.is_some_and(|cap| result.as_bytes().len() as u64 > cap);
        if let (Some(spill), true) = (&self.spill, is_large) {
            match spill.keep(result.clone(), is_error).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) => {
                    tracing::warn!(server = self.name(), %error, "cannot store a large result; returning it in full");
                }
            }
        }
        Ok(verbatim(result, is_error))
    }

    /// A result that clients accept; `None` when it cannot be made one. The first repair that
    /// `logged` knows nothing of is logged.
    pub(super) async fn repaired(
        &self,
        kind: ResultKind,
        result: RawJson,
        uri: Option<String>,
        logged: &AtomicBool,
    ) -> Option<RawJson> {
        let form = match kind {
            ResultKind::Tool => Repairable::ToolResult,
            ResultKind::Prompt => Repairable::PromptResult,
            ResultKind::Resource => Repairable::ResourceResult,
            ResultKind::Completion => Repairable::Completion,
        };
        let base = (!self.is_relay()).then(|| resource_prefix(self.name()));
        let is_large = result.as_bytes().len() > LARGE;
        let repair = move || {
            let (uri, base) = (uri.as_deref(), base.as_deref());
            repair(form, &result, Context { uri, base })
        };
        let Repaired { value, repairs } = match is_large {
            true => spawn_blocking(repair).await.ok()??,
            false => repair()?,
        };
        if let Some(first) = repairs.first()
            && !logged.swap(true, Ordering::Relaxed)
        {
            let server = self.name();
            tracing::warn!(server, ?kind, %first, "repaired a result that clients would refuse");
        }
        Some(value)
    }

    /// Says once when results are not as the tool says.
    fn check_structure(&self, tool: &Tool, result: &RawJson) {
        if tool.lies.load(Ordering::Relaxed) {
            return;
        }
        let mistakes = match result.member("structuredContent") {
            Some(structured) => tool.output.mistakes(&structured, &tool.shown),
            None => Some("there is no structuredContent".to_owned()),
        };
        if let Some(mistakes) = mistakes
            && !tool.lies.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(server = self.name(), tool = tool.theirs, %mistakes, "the tool's results do not match its outputSchema");
        }
    }
}

/// A result with the structured content that its only text holds as JSON. Clients refuse the result of
/// a tool with an `outputSchema` that has none.
fn with_structure(tool: &Tool, result: &RawJson) -> Option<RawJson> {
    let content = result.member("content")?;
    let blocks: Vec<&RawValue> = content.parse().ok()?;
    let [block] = blocks.as_slice() else {
        return None;
    };
    let text: String = RawJson::from_raw(block).member("text")?.parse().ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let structured = RawJson::of(&value).ok().filter(|_| value.is_object())?;
    let fits = tool.output.mistakes(&structured, &tool.shown).is_none();
    fits.then(|| definitions::rewritten(Some(result), "structuredContent", structured.as_bytes()))
}

pub(super) const fn verbatim(result: RawJson, is_error: bool) -> Outcome {
    Outcome::Verbatim {
        kind: ResultKind::Tool,
        result,
        is_error,
    }
}

pub(super) fn not_understood() -> ClientError {
    ClientError::InvalidMessage {
        what: "the result has no form that clients accept".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    #[test]
    fn structured_content_is_taken_from_a_lone_text_that_fits_the_schema() {
        let json = |text: &str| RawJson::checked(text.to_owned().into()).unwrap();
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
        let tool = Tool {
            output: Schema::new(Some(json(schema))),
            ..Tool::unlisted("t")
        };
        let of = |result: &str| {
            let whole = with_structure(&tool, &json(result))?;
            whole
                .member("structuredContent")
                .map(|found| found.as_str().to_owned())
        };
        let text = r#"{"content":[{"type":"text","text":"{\n \"n\": 1}"}]}"#;
        assert_eq!(of(text).as_deref(), Some(r#"{"n":1}"#));
        for other in [
            r#"{"content":[{"type":"text","text":"{\"n\":\"x\"}"}]}"#,
            r#"{"content":[{"type":"text","text":"n is 1"}]}"#,
            r#"{"content":[{"type":"text","text":"1"}]}"#,
            r#"{"content":[]}"#,
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
