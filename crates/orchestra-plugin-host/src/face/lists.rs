//! `list_tools` and `list_prompts`: the lists of the hub in the form of the protocol, with the whole
//! definitions of MCP beside it. Made once per list, in the order of the hub.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use orchestra_hub::ListKind;
use orchestra_plugin::{
    envelope::{Response, ResponseKind},
    generated::{
        ListPromptsRequest, ListPromptsResponse, ListToolsRequest, ListToolsResponse,
        PromptArgument, PromptDefinition, ToolDefinition,
    },
    structs::{self, Numbers},
};
use orchestra_wire::Revision;
use prost::Message as _;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    dispatch::{Turn, message},
    failure::{Failure, chain},
};

/// The lists that were made last.
#[derive(Default)]
pub(super) struct Lists {
    tools: Mutex<Option<Made>>,
    prompts: Mutex<Option<Made>>,
}

/// A list of the hub, and what became of it.
struct Made {
    of: Bytes,
    payload: Bytes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition<'a> {
    name: String,
    description: Option<String>,
    #[serde(borrow)]
    input_schema: Option<&'a RawValue>,
    #[serde(default)]
    arguments: Vec<Argument>,
}

#[derive(Deserialize)]
struct Argument {
    name: String,
    description: Option<String>,
    #[serde(default)]
    required: bool,
}

impl Turn<'_> {
    pub(super) async fn list_tools(&self) -> Result<Response, Failure> {
        let ListToolsRequest {} = message(self.request)?;
        let made = &self.face.lists.tools;
        let payload = self.list(ListKind::Tools, made, |json| {
            let tools = definitions(json, tool)?;
            Ok(ListToolsResponse { tools }.encode_to_vec().into())
        });
        Ok(Response::raw(
            self.id(),
            ResponseKind::ListTools,
            payload.await?,
        ))
    }

    pub(super) async fn list_prompts(&self) -> Result<Response, Failure> {
        let ListPromptsRequest {} = message(self.request)?;
        let made = &self.face.lists.prompts;
        let payload = self.list(ListKind::Prompts, made, |json| {
            let prompts = definitions(json, prompt)?;
            Ok(ListPromptsResponse { prompts }.encode_to_vec().into())
        });
        Ok(Response::raw(
            self.id(),
            ResponseKind::ListPrompts,
            payload.await?,
        ))
    }

    async fn list(
        &self,
        kind: ListKind,
        made: &Mutex<Option<Made>>,
        make: impl FnOnce(&Bytes) -> Result<Bytes, Failure>,
    ) -> Result<Bytes, Failure> {
        let attachment = self.connected.direct.attachment();
        attachment.settled().await;
        let (items, _) = attachment.list(kind, Revision::NEWEST).page(0, usize::MAX);
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*made
            && made.of.as_ptr() == items.as_ptr()
            && made.of.len() == items.len()
        {
            return Ok(made.payload.clone());
        }
        let payload = make(&items)?;
        *made = Some(Made {
            of: items,
            payload: payload.clone(),
        });
        Ok(payload)
    }
}

/// The definitions in a list, which stand behind each other with commas between them.
fn definitions<T>(
    items: &[u8],
    mut convert: impl FnMut(Definition<'_>, &str) -> T,
) -> Result<Vec<T>, Failure> {
    let unreadable = |error: serde_json::Error| Failure::new("invalid_response", chain(&error));
    let list = [b"[", items, b"]"].concat();
    let items: Vec<&RawValue> = serde_json::from_slice(&list).map_err(unreadable)?;
    let read = |item: &RawValue| {
        let definition = serde_json::from_str(item.get()).map_err(unreadable)?;
        Ok(convert(definition, item.get()))
    };
    items.into_iter().map(read).collect()
}

fn tool(read: Definition<'_>, text: &str) -> ToolDefinition {
    let schema = read.input_schema.map_or("{}", RawValue::get);
    let schema = structs::encode(schema.as_bytes(), Numbers::Nearest).or_else(|error| {
        tracing::warn!(tool = %read.name, error = %chain(&error), "omitted a schema that peers of the old protocol cannot read");
        structs::encode(br#"{"type":"object"}"#, Numbers::Nearest)
    });
    ToolDefinition {
        name: read.name,
        description: read.description.unwrap_or_default(),
        input_schema: schema.ok(),
        mcp_definition: Bytes::copy_from_slice(text.as_bytes()),
    }
}

fn prompt(read: Definition<'_>, text: &str) -> PromptDefinition {
    let argument = |argument: Argument| PromptArgument {
        name: argument.name,
        description: argument.description.unwrap_or_default(),
        required: argument.required,
    };
    PromptDefinition {
        name: read.name,
        description: read.description.unwrap_or_default(),
        arguments: read.arguments.into_iter().map(argument).collect(),
        mcp_definition: Bytes::copy_from_slice(text.as_bytes()),
    }
}
