//! `prompt_get`.

use bytes::Bytes;
use orchestra_hub::{ProviderError, SessionName};
use orchestra_mcp::{DirectCaller, DirectError};
use orchestra_plugin::{
    envelope::Response,
    generated::{ContentBlock, PromptGetRequest, PromptGetResponse, PromptMessage},
    quic::Reply,
};
use orchestra_wire::{Fields, Method, shown, text_of};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::translate::SESSION_META;

use super::{
    dispatch::{Turn, given, message},
    failure::{Failure, chain},
    permission::Need,
    verbatim::{Beside, Verbatim},
};

#[derive(Deserialize)]
struct Prompt<'a> {
    description: Option<String>,
    #[serde(borrow, default)]
    messages: Vec<Said<'a>>,
}

#[derive(Deserialize)]
struct Said<'a> {
    role: String,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    resource: Option<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    text: Option<String>,
}

impl Turn<'_> {
    pub(super) async fn prompt_get(&self, reply: &mut Reply) -> Result<Response, Failure> {
        let asked: PromptGetRequest = message(self.request)?;
        if let Some(params) = given(&asked.mcp_params) {
            self.check_prompt_of(Some(params))?;
            let beside = Beside {
                trace: &asked.trace_parent,
                session: &asked.session_id,
            };
            let said = self.relay(
                Method::PromptsGet.name(),
                Some(params.clone()),
                beside,
                reply,
            );
            let response = match said.await? {
                Verbatim::Result(mcp_result) => PromptGetResponse {
                    mcp_result,
                    ..PromptGetResponse::default()
                },
                Verbatim::Error(mcp_error) => PromptGetResponse {
                    description: super::verbatim::message_of(&mcp_error),
                    mcp_error,
                    ..PromptGetResponse::default()
                },
            };
            return Ok(Response::new(self.id(), &response));
        }
        self.check_prompt(&asked.prompt_name)?;
        let mut params = json!({"name": asked.prompt_name, "arguments": asked.arguments});
        if !asked.session_id.is_empty() {
            params["_meta"] = json!({SESSION_META: asked.session_id});
        }
        let caller = DirectCaller {
            client: Some(self.connected.who.id().as_str().into()),
            along: self.along(SessionName::given(&asked.session_id)),
            trace: Some(asked.trace_parent).filter(|trace| !trace.is_empty()),
            whole: !asked.session_id.is_empty(),
            ..DirectCaller::default()
        };
        let params = Bytes::from(params.to_string());
        let direct = &self.connected.direct;
        let response = match direct.call(Method::PromptsGet, &params, caller).await {
            Ok(result) => for_old_peers(&result)?,
            // Told as a prompt, which is how older peers know it.
            Err(DirectError::Provider(ProviderError::Unknown { .. })) => PromptGetResponse {
                description: format!(
                    "no plugin provides prompt \"{}\"",
                    shown(&asked.prompt_name)
                ),
                ..PromptGetResponse::default()
            },
            Err(error) => return Err(Failure::new("prompt_routing_error", chain(&error))),
        };
        Ok(Response::new(self.id(), &response))
    }
}

impl Turn<'_> {
    /// Refuses a prompt that a plugin may not use. A prompt may be that of an upstream server, which
    /// receives its arguments, so prompts are permitted as tools are.
    fn check_prompt(&self, name: &str) -> Result<(), Failure> {
        match self.permissions.tools.allows(name) {
            true => Ok(()),
            false => Err(self.not_permitted(Need::Prompt, name)),
        }
    }

    /// The same, of the prompt that params of `prompts/get` name.
    pub(super) fn check_prompt_of(&self, params: Option<&Bytes>) -> Result<(), Failure> {
        if self.connected.who.plugin().is_none() {
            return Ok(());
        }
        let invalid = |text: &str| Failure::new("invalid_request", text);
        let raw = params.map(|params| serde_json::from_slice::<&RawValue>(params));
        let raw = raw.transpose();
        let raw = raw.map_err(|error| invalid(&chain(&error)))?;
        // Read as the caller reads them.
        let fields = Fields::find(raw, "params")
            .map_err(|_| invalid("the params of prompts/get must be an object"))?;
        let name = fields.name.and_then(text_of);
        self.check_prompt(&name.ok_or_else(|| invalid("the params of prompts/get name no prompt"))?)
    }
}

/// A result of MCP without what older peers have no form for.
fn for_old_peers(result: &[u8]) -> Result<PromptGetResponse, Failure> {
    let prompt: Prompt<'_> = serde_json::from_slice(result)
        .map_err(|error| Failure::new("invalid_response", chain(&error)))?;
    let message = |said: Said<'_>| {
        let block = serde_json::from_str::<Block>(said.content.get()).ok()?;
        let inner = block.resource.and_then(|resource| resource.text);
        let content = ContentBlock {
            text: block.text.or(inner).unwrap_or_default(),
            r#type: block.kind,
        };
        Some(PromptMessage {
            role: said.role,
            content: Some(content),
        })
    };
    Ok(PromptGetResponse {
        description: prompt.description.unwrap_or_default(),
        messages: prompt.messages.into_iter().filter_map(message).collect(),
        ..PromptGetResponse::default()
    })
}
