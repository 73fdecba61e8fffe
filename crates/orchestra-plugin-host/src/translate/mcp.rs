//! What the schema has no message for: it goes as JSON, word for word, to plugins that say that they
//! answer it.

use orchestra_mcp::client::Answer;
use orchestra_plugin::{
    envelope::Response,
    generated::{McpRequest, McpResponse},
};
use orchestra_wire::RawJson;

use super::{Reading, Step, Terms, ask, failure, tools};

/// What a plugin offers beyond tools and prompts, as it said when it was registered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers {
    /// Resources, by the feature `resources`.
    pub resources: bool,
    /// Completions of arguments, by the feature `completions`.
    pub completions: bool,
}

impl Offers {
    /// What a peer of a revision offers by the features that it named. What is unknown says nothing.
    #[must_use]
    pub fn of(revision: u32, features: &[String]) -> Self {
        let has = |name: &str| revision > 0 && features.iter().any(|feature| feature == name);
        Self {
            resources: has("resources"),
            completions: has("completions"),
        }
    }

    /// Whether a method is asked of the peer as JSON.
    pub(super) fn has(self, method: &str) -> bool {
        match method {
            "resources/list" | "resources/read" | "resources/templates/list" => self.resources,
            "completion/complete" => self.completions,
            _ => false,
        }
    }
}

impl Terms {
    /// A method as JSON.
    pub(super) fn as_json(&self, method: &str, params: Option<&RawJson>) -> Step {
        let request = McpRequest {
            method: method.to_owned(),
            params: params.map(RawJson::to_bytes).unwrap_or_default(),
            session_id: self.session_of(params.and_then(tools::session)),
            caller_plugin: self.caller.clone(),
            trace_parent: params.map(tools::trace).unwrap_or_default(),
            revision: self.mcp_revision(),
        };
        ask(&request, Reading::Json)
    }

    /// What was answered to it.
    pub(super) fn answered(&self, response: &Response) -> Answer {
        let answered: McpResponse = self.message("mcp", response)?;
        let answer = self.verbatim("mcp", &answered.result, &answered.error);
        answer.unwrap_or_else(|| {
            let what = self.failure("mcp", "it answered neither a result nor an error");
            Err(failure::internal(what))
        })
    }
}
