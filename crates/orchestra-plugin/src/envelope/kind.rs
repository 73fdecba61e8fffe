//! The kinds of requests and responses: the numbers and names of the two `oneof`s of the schema,
//! and the message that belongs to each.

use std::fmt::Debug;

use bytes::Bytes;
use prost::Message as _;

use crate::field;
use crate::generated::{
    BootRequest, BootResult, EventDelivery, HealthRequest, HealthResult, ListPromptsRequest,
    ListPromptsResponse, ListToolsRequest, ListToolsResponse, McpMessage, McpRequest, McpResponse,
    PluginManifest, PromptGetRequest, PromptGetResponse, Publish, RegistrationResult,
    ShutdownRequest, ShutdownResult, StorageDeleteRequest, StorageDeleteResponse,
    StorageListRequest, StorageListResponse, StorageReadRequest, StorageReadResponse,
    StorageWriteRequest, StorageWriteResponse, StreamCancel, StreamChunk, StreamEnd, StreamStart,
    Subscribe, ToolRequest, ToolResponse, Unsubscribe,
};

/// What an envelope holds: [`RequestKind`] or [`ResponseKind`].
pub trait Kind: Copy + Eq + Debug + Send + Sync + 'static {
    /// The kind whose payload is in the field `number`, if there is one.
    fn from_number(number: u32) -> Option<Self>;

    /// The number of the field that holds the payload.
    fn number(self) -> u32;

    /// The name of that field in the schema.
    fn name(self) -> &'static str;
}

/// A message that is the payload of an envelope of one kind.
pub trait PayloadOf<K>: prost::Message + Default + Debug + PartialEq {
    /// The kind.
    const KIND: K;

    /// The message in two parts that follow each other: what is encoded, and its last field if that
    /// is large, which is not copied. Nothing stands there for a message that has no such field.
    fn to_parts(&self) -> (Vec<u8>, Bytes) {
        (Vec::new(), self.encode_to_vec().into())
    }
}

/// A field below this is copied: what it takes to have it apart costs as much.
const LARGE_BYTES: usize = 8 * 1024;

/// The number of the JSON of a call, and of its result.
const MCP: u32 = 100;

/// A message and the one of its fields that is last.
fn parted(front: &impl prost::Message, number: u32, last: &Bytes) -> (Vec<u8>, Bytes) {
    let head = field::bytes_field_len(number, last.len()) - last.len();
    let mut encoded = Vec::with_capacity(front.encoded_len() + head);
    front.encode_raw(&mut encoded);
    field::put_bytes_head(&mut encoded, number, last.len());
    (encoded, last.clone())
}

macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $number:literal $field:literal $message:ident $($last:ident)?,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = concat!("The field `", $field, "` with the number ", $number, ".")] $variant,)*
        }

        impl $name {
            /// Every kind, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];
        }

        impl Kind for $name {
            fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn number(self) -> u32 {
                match self {
                    $(Self::$variant => $number,)*
                }
            }

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $field,)*
                }
            }
        }

        $(impl PayloadOf<$name> for $message {
            const KIND: $name = $name::$variant;

            $(fn to_parts(&self) -> (Vec<u8>, Bytes) {
                if self.$last.len() < LARGE_BYTES {
                    return (Vec::new(), self.encode_to_vec().into());
                }
                let front = Self {
                    $last: Bytes::new(),
                    ..self.clone()
                };
                parted(&front, MCP, &self.$last)
            })?
        })*
    };
}

kinds! {
    /// What a request asks for.
    RequestKind {
        Register = 10 "register" PluginManifest,
        Boot = 11 "boot" BootRequest,
        Shutdown = 12 "shutdown" ShutdownRequest,
        Health = 13 "health" HealthRequest,
        ToolCall = 20 "tool_call" ToolRequest mcp_params,
        ListTools = 21 "list_tools" ListToolsRequest,
        ListPrompts = 22 "list_prompts" ListPromptsRequest,
        PromptGet = 23 "prompt_get" PromptGetRequest,
        StorageRead = 30 "storage_read" StorageReadRequest,
        StorageWrite = 31 "storage_write" StorageWriteRequest,
        StorageDelete = 32 "storage_delete" StorageDeleteRequest,
        StorageList = 33 "storage_list" StorageListRequest,
        StreamStart = 40 "stream_start" StreamStart,
        StreamCancel = 41 "stream_cancel" StreamCancel,
        Subscribe = 50 "subscribe" Subscribe,
        Unsubscribe = 51 "unsubscribe" Unsubscribe,
        Publish = 52 "publish" Publish,
        Mcp = 100 "mcp" McpRequest,
        McpMessage = 101 "mcp_message" McpMessage,
    }
}

kinds! {
    /// What a response answers.
    ResponseKind {
        Register = 10 "register" RegistrationResult,
        Boot = 11 "boot" BootResult,
        Shutdown = 12 "shutdown" ShutdownResult,
        Health = 13 "health" HealthResult,
        ToolCall = 20 "tool_call" ToolResponse mcp_result,
        ListTools = 21 "list_tools" ListToolsResponse,
        ListPrompts = 22 "list_prompts" ListPromptsResponse,
        PromptGet = 23 "prompt_get" PromptGetResponse,
        StorageRead = 30 "storage_read" StorageReadResponse,
        StorageWrite = 31 "storage_write" StorageWriteResponse,
        StorageDelete = 32 "storage_delete" StorageDeleteResponse,
        StorageList = 33 "storage_list" StorageListResponse,
        StreamChunk = 40 "stream_chunk" StreamChunk,
        StreamEnd = 41 "stream_end" StreamEnd,
        EventDelivery = 50 "event_delivery" EventDelivery,
        Mcp = 100 "mcp" McpResponse,
        McpMessage = 101 "mcp_message" McpMessage,
    }
}
