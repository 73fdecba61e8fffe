//! What comes of a tool's call: waited for, looked at, and passed on.

use std::{sync::atomic::Ordering, time::Duration};

use orchestra_hub::{Later, Outcome, ResultKind};
use orchestra_mcp::client::ClientError;
use orchestra_wire::RawJson;
use tokio::time::timeout;

use super::{Server, calls::Answer, offered::Tool};
use crate::cache::{Cache, Key};

/// What is answered, or asked, within this is no long work.
const SOON: Duration = Duration::from_millis(250);

impl Server {
    /// A tool's result as it is passed on.
    pub(super) async fn tool_answer(
        &self,
        tool: &Tool,
        result: RawJson,
        keep: Option<(&Cache, Key, u64)>,
    ) -> Answer {
        if !result.as_bytes().starts_with(b"{") {
            return Err(self.failed("tools/call", no_object()));
        }
        let is_error = result
            .member("isError")
            .is_some_and(|flag| flag.as_str() == "true");
        if tool.output.is_there() && !is_error {
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
                    tracing::warn!(server = self.name(), %error, "a large result cannot be kept, and is passed on whole");
                }
            }
        }
        Ok(verbatim(result, is_error))
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
            tracing::warn!(server = self.name(), tool = tool.theirs, %mistakes, "results are not as its outputSchema says");
        }
    }
}

/// Waits for a call, and says that it lasts when it does.
pub(super) async fn lasting<T>(calling: impl Future<Output = T>, later: &Later) -> T {
    let mut calling = std::pin::pin!(calling);
    match timeout(SOON, &mut calling).await {
        Ok(reply) => reply,
        Err(_) => {
            later.begin();
            calling.await
        }
    }
}

pub(super) const fn verbatim(result: RawJson, is_error: bool) -> Outcome {
    Outcome::Verbatim {
        kind: ResultKind::Tool,
        result,
        is_error,
    }
}

pub(super) fn no_object() -> ClientError {
    ClientError::InvalidMessage {
        what: "the result is no object".to_owned(),
    }
}
