//! The keys by which a request is routed, allowed and traced, read from its payload without
//! decoding the rest. Which numbers they have is in the schema, and differs from request to request.

use super::{EnvelopeError, Kind, RequestKind};
use crate::field::{FieldError, Fields};

/// The keys of a request. A key that the request does not have, or has as an empty string, is
/// `None`: the schema makes no difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Routing<'a> {
    /// The plugin that says who it is.
    pub plugin: Option<&'a str>,
    /// The tool to call.
    pub tool_name: Option<&'a str>,
    /// The AI provider that the tool is wanted of.
    pub provider: Option<&'a str>,
    /// The prompt to get.
    pub prompt_name: Option<&'a str>,
    /// The kind of storage; `None` stands for markdown.
    pub storage_type: Option<&'a str>,
    /// The topic of events.
    pub topic: Option<&'a str>,
    /// The streaming call.
    pub stream_id: Option<&'a str>,
    /// The subscription.
    pub subscription_id: Option<&'a str>,
    /// The MCP method.
    pub method: Option<&'a str>,
    /// Who says that it makes the request; never to be believed.
    pub caller_plugin: Option<&'a str>,
    /// The session that the request is made for.
    pub session_id: Option<&'a str>,
    /// The trace that the request belongs to.
    pub trace_parent: Option<&'a str>,
}

/// A field that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Plugin,
    ToolName,
    Provider,
    PromptName,
    StorageType,
    Topic,
    StreamId,
    SubscriptionId,
    Method,
    CallerPlugin,
    SessionId,
    TraceParent,
    /// Not a key, but a field that must not be there twice. Of two messages in one field some
    /// receivers make one and others take the last; what was checked would not be what is run.
    Once,
}

impl<'a> Routing<'a> {
    pub(super) fn read(kind: RequestKind, payload: &'a [u8]) -> Result<Self, EnvelopeError> {
        let keys = keys(kind);
        let mut routing = Self::default();
        if !keys.is_empty() {
            routing
                .fill(keys, payload)
                .map_err(|source| EnvelopeError::Fields {
                    kind: kind.name(),
                    source,
                })?;
        }
        Ok(routing)
    }

    fn fill(&mut self, keys: &[(u32, Key)], payload: &'a [u8]) -> Result<(), FieldError> {
        let mut seen = 0u32;
        for field in Fields::new(payload) {
            let field = field?;
            let number = field.number;
            let Some(index) = keys.iter().position(|(wanted, _)| *wanted == number) else {
                continue;
            };
            if seen & (1 << index) != 0 {
                return Err(FieldError::Repeated { number });
            }
            seen |= 1 << index;
            match self.slot(keys[index].1) {
                Some(slot) => *slot = Some(field.text()?).filter(|text| !text.is_empty()),
                None => drop(field.bytes()?),
            }
        }
        Ok(())
    }

    fn slot(&mut self, key: Key) -> Option<&mut Option<&'a str>> {
        Some(match key {
            Key::Plugin => &mut self.plugin,
            Key::ToolName => &mut self.tool_name,
            Key::Provider => &mut self.provider,
            Key::PromptName => &mut self.prompt_name,
            Key::StorageType => &mut self.storage_type,
            Key::Topic => &mut self.topic,
            Key::StreamId => &mut self.stream_id,
            Key::SubscriptionId => &mut self.subscription_id,
            Key::Method => &mut self.method,
            Key::CallerPlugin => &mut self.caller_plugin,
            Key::SessionId => &mut self.session_id,
            Key::TraceParent => &mut self.trace_parent,
            Key::Once => return None,
        })
    }
}

/// The number of the field that says who makes a request of this kind.
pub(super) fn caller_field(kind: RequestKind) -> Option<u32> {
    keys(kind)
        .iter()
        .find(|(_, key)| *key == Key::CallerPlugin)
        .map(|(number, _)| *number)
}

/// The fields that are looked at in a request of this kind, by their numbers.
fn keys(kind: RequestKind) -> &'static [(u32, Key)] {
    match kind {
        RequestKind::Register => &[(1, Key::Plugin)],
        RequestKind::ToolCall => &[
            (1, Key::ToolName),
            (2, Key::Once),
            (3, Key::CallerPlugin),
            (4, Key::TraceParent),
            (5, Key::Provider),
            (6, Key::SessionId),
            (100, Key::Once),
        ],
        RequestKind::PromptGet => &[
            (1, Key::PromptName),
            (100, Key::Once),
            (102, Key::SessionId),
            (103, Key::CallerPlugin),
            (104, Key::TraceParent),
        ],
        RequestKind::StorageRead | RequestKind::StorageDelete => {
            &[(1, Key::Once), (2, Key::StorageType)]
        }
        RequestKind::StorageWrite => &[
            (1, Key::Once),
            (2, Key::Once),
            (3, Key::Once),
            (5, Key::StorageType),
        ],
        RequestKind::StorageList => &[(1, Key::Once), (3, Key::StorageType)],
        RequestKind::StreamStart => &[
            (1, Key::StreamId),
            (2, Key::ToolName),
            (3, Key::Once),
            (4, Key::CallerPlugin),
            (100, Key::SessionId),
            (101, Key::Provider),
            (102, Key::Once),
            (103, Key::TraceParent),
        ],
        RequestKind::StreamCancel => &[(1, Key::StreamId)],
        RequestKind::Subscribe => &[(1, Key::SubscriptionId), (2, Key::Topic)],
        RequestKind::Unsubscribe => &[(1, Key::SubscriptionId)],
        RequestKind::Publish => &[(1, Key::Topic), (3, Key::Once), (4, Key::CallerPlugin)],
        RequestKind::Mcp => &[
            (1, Key::Method),
            (2, Key::Once),
            (3, Key::SessionId),
            (4, Key::CallerPlugin),
            (5, Key::TraceParent),
        ],
        RequestKind::Boot
        | RequestKind::Shutdown
        | RequestKind::Health
        | RequestKind::ListTools
        | RequestKind::ListPrompts
        | RequestKind::McpMessage => &[],
    }
}
