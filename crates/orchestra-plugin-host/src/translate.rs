//! MCP in the messages of the plugin protocol, and back. Pure.
//!
//! For peers that speak the plugin protocol alone: plugins in any language, and orchestrators of
//! others. [`Terms::step`] says what a request of MCP is at such a peer, a few requests or nothing
//! that it needs to be asked for, and [`Terms::read`] makes of what it answered what MCP answers.
//! Sending, and what becomes of a call that was not answered, are left to [`link`](crate::link).

mod failure;
mod local;
mod mcp;
mod prompts;
mod resources;
pub(crate) mod session;
mod storage;
mod stream;
mod text;
mod tools;

use bytes::Bytes;
use orchestra_mcp::client::Answer;
use orchestra_plugin::{
    envelope::{PayloadOf, RequestKind, Response, ResponseKind},
    generated::HealthRequest,
};
use orchestra_wire::{RawJson, RpcError};

pub(crate) use failure::chain;
pub use mcp::Offers;
/// The revision of the additions to the protocol that we speak.
pub use orchestra_plugin::envelope::REVISION;
pub use storage::{DOCUMENTS, disclosed, enclosed};
pub use stream::{Chunks, Piece};
pub(crate) use text::{parse_message, text_member as member_text};
pub(crate) use tools::{PROVIDER_META, SESSION_META, session as session_named, trace};

/// Whom messages are translated for, and what is said to it of who calls.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Who answers.
    pub peer: Peer,
    /// The newest revision of the additions that it knows, 0 if it knows none. One that knows them
    /// is given the JSON beside what older ones take.
    pub revision: u32,
    /// The version that it registered with, where that is known.
    pub version: Option<String>,
    /// What it offers that has no message of its own, and is asked as JSON.
    pub offers: Offers,
    /// Who calls, as it is told.
    pub caller: String,
    /// The session that calls belong to.
    pub session: String,
    /// The AI provider whose tools are meant; empty for ordinary tools.
    pub provider: String,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A plugin, by its id.
    Plugin(String),
    /// An orchestrator that is none of ours.
    Orchestrator,
}

/// What a request of MCP is at a peer.
#[derive(Debug)]
pub enum Step {
    /// It need not be asked.
    Here(Answer),
    /// It is asked all of this.
    Ask(Vec<Question>, Reading),
}

/// A request of the plugin protocol, but for its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its kind.
    pub kind: RequestKind,
    /// Its payload, encoded.
    pub payload: Bytes,
}

/// How what was answered is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// As a list of tools.
    Tools,
    /// As the result of a tool.
    Call,
    /// As a list of prompts.
    Prompts,
    /// As a prompt.
    Prompt {
        /// Its name.
        name: String,
    },
    /// As a list of documents.
    Documents,
    /// As a document.
    Document {
        /// Its URI.
        uri: String,
    },
    /// As what a storage answered.
    Storage,
    /// As word of how it is.
    Health,
    /// As JSON, word for word.
    Json,
}

impl Question {
    pub(crate) fn new<M: PayloadOf<RequestKind>>(message: &M) -> Self {
        Self {
            kind: M::KIND,
            payload: message.encode_to_vec().into(),
        }
    }
}

impl Terms {
    /// What a request is at the peer.
    #[must_use]
    pub fn step(&self, method: &str, params: Option<&RawJson>) -> Step {
        let step = match method {
            "initialize" => Ok(Step::Here(Ok(self.initialized(params)))),
            "ping" => Ok(ask(&HealthRequest { revision: REVISION }, Reading::Health)),
            "logging/setLevel" => local::level(params).map(|result| Step::Here(Ok(result))),
            "tools/list" => Ok(tools::list()),
            "tools/call" => self.call(params),
            "prompts/list" => Ok(prompts::list()),
            "prompts/get" => self.prompt(params),
            DOCUMENTS => storage::step(params),
            _ if self.offers.has(method) => Ok(self.as_json(method, params)),
            "resources/list" if self.has_documents() => Ok(resources::list()),
            "resources/read" if self.has_documents() => resources::read(params),
            "resources/templates/list" if self.has_documents() => {
                Ok(Step::Here(Ok(resources::templates())))
            }
            _ => Err(RpcError::method_not_found(method)),
        };
        step.unwrap_or_else(|error| Step::Here(Err(error)))
    }

    /// What the answers of the peer are in MCP, in the order of the questions.
    ///
    /// # Errors
    /// As JSON-RPC has them: what the peer refused, and -32603 where it answered what nobody asked.
    pub fn read(&self, reading: &Reading, responses: &[Response]) -> Answer {
        let [response] = responses else {
            return Err(self.unexpected());
        };
        match reading {
            Reading::Call => self.called(response),
            Reading::Tools => self.listed_tools(response),
            Reading::Prompts => self.listed_prompts(response),
            Reading::Prompt { name } => self.gotten(response, name),
            Reading::Documents => self.listed_documents(response),
            Reading::Document { uri } => self.read_document(response, uri),
            Reading::Storage => storage::read(response),
            Reading::Health => self.health(response),
            Reading::Json => self.answered(response),
        }
    }

    /// Storage is shown as resources by an orchestrator alone: a plugin's is not for clients.
    fn has_documents(&self) -> bool {
        self.peer == Peer::Orchestrator
    }

    /// Whether the peer knows what was added to the protocol.
    fn is_ours(&self) -> bool {
        self.revision > 0
    }

    /// The message that a response holds.
    fn message<M: PayloadOf<ResponseKind>>(
        &self,
        operation: &str,
        response: &Response,
    ) -> Result<M, RpcError> {
        match response.kind() {
            Some(kind) if kind == M::KIND => response
                .message()
                .map_err(|error| self.failed(operation, &error)),
            Some(ResponseKind::ToolCall) => Err(self.refused(operation, response)),
            _ => Err(self.unexpected()),
        }
    }
}

fn ask<M: PayloadOf<RequestKind>>(message: &M, reading: Reading) -> Step {
    Step::Ask(vec![Question::new(message)], reading)
}
