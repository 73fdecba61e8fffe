//! Prompts: their definitions, and their messages.

use std::collections::BTreeMap;

use orchestra_mcp::client::Answer;
use orchestra_plugin::{
    envelope::Response,
    generated::{
        ListPromptsRequest, ListPromptsResponse, PromptDefinition, PromptGetRequest,
        PromptGetResponse,
    },
};
use orchestra_wire::{RawJson, RpcError};

use super::{Reading, Step, Terms, ask, failure, text, tools};

pub(super) fn list() -> Step {
    ask(&ListPromptsRequest {}, Reading::Prompts)
}

impl Terms {
    pub(super) fn prompt(&self, params: Option<&RawJson>) -> Result<Step, RpcError> {
        let empty = RawJson::empty_object();
        let params = params.unwrap_or(&empty);
        let name = text::text_member(params, "name").unwrap_or_default();
        if name.is_empty() {
            return Err(RpcError::invalid_params("missing required parameter: name"));
        }
        let arguments = params.member("arguments");
        let arguments = arguments.filter(|arguments| arguments.as_str() != "null");
        let arguments: BTreeMap<String, String> = match arguments {
            None => BTreeMap::new(),
            Some(arguments) => arguments.parse().map_err(|_| {
                RpcError::invalid_params("invalid params: arguments of a prompt are strings")
            })?,
        };
        let mut request = PromptGetRequest {
            prompt_name: name.clone(),
            arguments,
            ..PromptGetRequest::default()
        };
        if self.revision > 0 {
            request.mcp_params = params.to_bytes();
            request.revision = orchestra_wire::Revision::NEWEST_SESSION.as_str().to_owned();
            request.session_id = self.session_of(tools::session(params));
            request.caller_plugin.clone_from(&self.caller);
            request.trace_parent = tools::trace(params);
        }
        Ok(ask(&request, Reading::Prompt { name }))
    }

    /// A peer that does not know prompts has none.
    pub(super) fn listed_prompts(&self, response: &Response) -> Answer {
        if failure::is_unknown(response) {
            return text::raw("{\"prompts\":[]}".to_owned());
        }
        let listed: ListPromptsResponse = self.message("list_prompts", response)?;
        let mut prompts: BTreeMap<&str, &PromptDefinition> = BTreeMap::new();
        for prompt in &listed.prompts {
            if !prompt.name.is_empty() {
                prompts.entry(&prompt.name).or_insert(prompt);
            }
        }
        let mut out = String::from("{\"prompts\":[");
        for (index, prompt) in prompts.into_values().enumerate() {
            if index > 0 {
                out.push(',');
            }
            define(&mut out, prompt);
        }
        out.push_str("]}");
        text::raw(out)
    }

    pub(super) fn gotten(&self, response: &Response, name: &str) -> Answer {
        let gotten: PromptGetResponse = self.message("prompt_get", response)?;
        let verbatim = self.verbatim("prompt_get", &gotten.mcp_result, &gotten.mcp_error);
        if let Some(answer) = verbatim {
            return answer;
        }
        // So say peers which have no other way that there is no such prompt, or that it failed.
        if gotten.messages.is_empty() && says_failure(&gotten.description, name) {
            return Err(RpcError::invalid_params(
                orchestra_wire::shown(&gotten.description).into_owned(),
            ));
        }
        let mut out = String::from("{");
        if !gotten.description.is_empty() {
            out.push_str("\"description\":");
            text::string(&mut out, &gotten.description);
            out.push(',');
        }
        out.push_str("\"messages\":[");
        for (index, message) in gotten.messages.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str("{\"role\":");
            text::string(&mut out, &message.role);
            let said = message
                .content
                .as_ref()
                .map(|content| content.text.as_str());
            // Of other kinds of content the schema has nothing but the text.
            out.push_str(",\"content\":{\"type\":\"text\",\"text\":");
            text::string(&mut out, said.unwrap_or_default());
            out.push_str("}}");
        }
        out.push_str("]}");
        text::raw(out)
    }
}

/// Whether a description without messages is one of the texts by which peers say that they have
/// failed.
fn says_failure(description: &str, name: &str) -> bool {
    description == format!("prompt \"{name}\" not found")
        || description == format!("no plugin provides prompt \"{name}\"")
        || description.starts_with("prompt handler error: ")
}

fn define(out: &mut String, prompt: &PromptDefinition) {
    let whole = text::object(&prompt.mcp_definition);
    let is_its_own =
        |whole: &RawJson| text::text_member(whole, "name").as_ref() == Some(&prompt.name);
    if let Some(whole) = whole.filter(is_its_own) {
        out.push_str(whole.as_str());
        return;
    }
    out.push_str("{\"name\":");
    text::string(out, &prompt.name);
    text::member(out, "description", &prompt.description);
    if !prompt.arguments.is_empty() {
        out.push_str(",\"arguments\":[");
        for (index, argument) in prompt.arguments.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str("{\"name\":");
            text::string(out, &argument.name);
            text::member(out, "description", &argument.description);
            if argument.required {
                out.push_str(",\"required\":true");
            }
            out.push('}');
        }
        out.push(']');
    }
    out.push('}');
}
