//! The way back: what a plugin asks of its orchestrator.
//!
//! A call waits a moment for a connection that is not there yet, so that a plugin that is booted
//! before its own connection is up need not care. What an old orchestrator cannot tell apart, such
//! as a document that is empty and one that is not there, is taken as not there.

mod called;
mod documents;
mod error;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use super::{
    events::{Filters, Subscription},
    storage::{DEFAULT_KIND, Document, Entry, Expected},
    uplink::{Standing, State, Uplink},
};
use crate::{
    envelope::{Kind, PayloadOf, Request, RequestKind, Response, ResponseKind},
    generated::{Publish, ToolRequest, ToolResponse},
    structs::{self, Numbers},
};

pub use called::Called;
pub use documents::Documents;
pub use error::OrchestratorError;

/// How long a call may take unless it is told otherwise.
const CALL_TIME: Duration = Duration::from_secs(60);

/// How long a call waits for the connection.
const CONNECTION_TIME: Duration = Duration::from_secs(5);

/// The orchestrator, as a plugin sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    uplink: Option<Arc<Uplink>>,
    session: String,
    trace_parent: String,
    provider: String,
    call_time: Duration,
}

impl Orchestrator {
    pub(super) fn new(uplink: Option<Arc<Uplink>>) -> Self {
        Self {
            uplink,
            session: String::new(),
            trace_parent: String::new(),
            provider: String::new(),
            call_time: CALL_TIME,
        }
    }

    pub(super) fn on_behalf(&self, session: &str, trace_parent: &str) -> Self {
        Self {
            session: session.to_owned(),
            trace_parent: trace_parent.to_owned(),
            ..self.clone()
        }
    }

    /// The same with another time that a call may take; it is a minute otherwise.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.call_time = time;
        self
    }

    /// The same with tools of an AI provider, such as `openai`, which the plugin must say that it needs
    /// ([`Plugin::needs_ai`](super::Plugin::needs_ai)).
    #[must_use]
    pub fn provider(mut self, provider: &str) -> Self {
        provider.clone_into(&mut self.provider);
        self
    }

    /// Whether there is a connection, and the plugin is registered.
    pub fn is_up(&self) -> bool {
        self.uplink
            .as_ref()
            .is_some_and(|uplink| matches!(*uplink.state().borrow(), State::Up { .. }))
    }

    /// Calls a tool of anybody's, or of the AI provider that was named by [`Self::provider`]; its
    /// arguments are an object. Dropping the future cancels the call.
    ///
    /// # Errors
    /// [`OrchestratorError::Refused`] when the tool failed or is not there, or when the plugin did not
    /// say that it needs it ([`Plugin::needs_tool`](super::Plugin::needs_tool)).
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<Called, OrchestratorError> {
        let uplink = self.uplink()?;
        let unsendable =
            |error: &dyn std::fmt::Display| OrchestratorError::Unsendable(error.to_string());
        let arguments = serde_json::to_value(arguments).map_err(|error| unsendable(&error))?;
        let text = arguments.to_string();
        let (encoded, mcp_params) = match uplink.up(CONNECTION_TIME).await? {
            0 => {
                let encoded = structs::encode(text.as_bytes(), Numbers::Exact);
                (encoded.map(Some), Bytes::new())
            }
            _ => {
                let params = json!({"name": name, "arguments": arguments}).to_string();
                let numbers = Numbers::Nearest;
                let encoded = structs::encode_beside(text.as_bytes(), params.len(), numbers);
                (encoded, Bytes::from(params))
            }
        };
        let encoded = encoded.map_err(|error| unsendable(&error))?;
        let request = ToolRequest {
            tool_name: name.to_owned(),
            arguments: encoded,
            caller_plugin: uplink.id().as_str().to_owned(),
            session_id: self.session.clone(),
            trace_parent: self.trace_parent.clone(),
            provider: self.provider.clone(),
            mcp_params,
            ..ToolRequest::default()
        };
        Called::of(self.ask::<_, ToolResponse>(&request).await?)
    }

    /// The documents of a kind of storage, such as `memory`, which the plugin must say that it needs
    /// ([`Plugin::needs_storage`](super::Plugin::needs_storage)).
    #[must_use]
    pub fn storage(&self, kind: &str) -> Documents {
        Documents::new(self.clone(), kind)
    }

    /// Reads a document of the default storage, `markdown`: see [`Documents::read`].
    ///
    /// # Errors
    /// See [`OrchestratorError`].
    pub async fn read(&self, path: &str) -> Result<Option<Document>, OrchestratorError> {
        self.storage(DEFAULT_KIND).read(path).await
    }

    /// Writes a document of the default storage: see [`Documents::write`].
    ///
    /// # Errors
    /// [`OrchestratorError::is_conflict`] tells whether somebody else was faster.
    pub async fn write(
        &self,
        path: &str,
        content: impl Into<Bytes>,
        metadata: &Map<String, Value>,
        expected: Expected,
    ) -> Result<i64, OrchestratorError> {
        let documents = self.storage(DEFAULT_KIND);
        documents.write(path, content, metadata, expected).await
    }

    /// Deletes a document of the default storage: see [`Documents::delete`].
    ///
    /// # Errors
    /// See [`OrchestratorError`].
    pub async fn delete(&self, path: &str) -> Result<bool, OrchestratorError> {
        self.storage(DEFAULT_KIND).delete(path).await
    }

    /// Lists documents of the default storage: see [`Documents::list`].
    ///
    /// # Errors
    /// See [`OrchestratorError`].
    pub async fn list(&self, prefix: &str, pattern: &str) -> Result<Vec<Entry>, OrchestratorError> {
        self.storage(DEFAULT_KIND).list(prefix, pattern).await
    }

    /// Publishes an event. Whether anyone hears it is not told.
    ///
    /// # Errors
    /// [`OrchestratorError::Unsendable`] when the payload is no JSON object.
    pub async fn publish(
        &self,
        topic: &str,
        kind: &str,
        payload: impl Serialize,
    ) -> Result<(), OrchestratorError> {
        let unsendable =
            |error: &dyn std::fmt::Display| OrchestratorError::Unsendable(error.to_string());
        let json = serde_json::to_vec(&payload).map_err(|error| unsendable(&error))?;
        let payload = structs::encode(&json, Numbers::Exact).map_err(|error| unsendable(&error))?;
        let request = Publish {
            topic: topic.to_owned(),
            event_type: kind.to_owned(),
            payload: Some(payload),
            source_plugin: self.uplink()?.id().as_str().to_owned(),
        };
        // The answer has nothing to say, unless it is a refusal.
        self.exchange(&request).await.map(drop)
    }

    /// Subscribes to a topic until the subscription is dropped, also over a connection that is lost
    /// and regained. The plugin must say that it needs it
    /// ([`Plugin::needs_event`](super::Plugin::needs_event)). What a plugin always wants to hear of
    /// belongs into [`Plugin::on_event`](super::Plugin::on_event).
    ///
    /// # Errors
    /// [`OrchestratorError::Refused`] when the orchestrator says no, and
    /// [`OrchestratorError::Unsupported`] of an old one, which does not survive it.
    pub async fn subscribe(
        &self,
        topic: &str,
        filters: Filters,
    ) -> Result<Subscription, OrchestratorError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let uplink = self.uplink()?;
        if uplink.up(CONNECTION_TIME).await? == 0 {
            return Err(OrchestratorError::Unsupported("subscriptions"));
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{}-{number}", uplink.id(), std::process::id());
        let mut standing = uplink.standing();
        let topics = uplink.topics();
        let subscription = topics.listen(id.clone(), topic.to_owned(), filters);
        let known = standing.wait_for(|standing| standing.contains_key(&id));
        match timeout(self.call_time, known).await {
            Ok(Ok(standing)) => match standing.get(&id) {
                Some(Standing::Refused { code, message }) => Err(OrchestratorError::Refused {
                    code: code.clone(),
                    message: message.clone(),
                }),
                _ => Ok(subscription),
            },
            _ => Err(OrchestratorError::Away("it does not confirm".to_owned())),
        }
    }

    async fn ask<Q, A>(&self, message: &Q) -> Result<A, OrchestratorError>
    where
        Q: PayloadOf<RequestKind>,
        A: PayloadOf<ResponseKind>,
    {
        let response = self.exchange(message).await?;
        response
            .message()
            .map_err(|error| OrchestratorError::Answer(error.to_string()))
    }

    /// Sends a request and receives its response; a failed tool call in answer to something else is
    /// a refusal.
    async fn exchange<Q: PayloadOf<RequestKind>>(
        &self,
        message: &Q,
    ) -> Result<Response, OrchestratorError> {
        let uplink = self.uplink()?;
        let deadline = Instant::now() + self.call_time;
        uplink.up(CONNECTION_TIME.min(self.call_time)).await?;
        let request = Request::new(uplink.next_request_id(), message);
        let answer = uplink.caller().call(&request, deadline).await;
        let answer = answer.map_err(OrchestratorError::Call)?;
        let response = Response::decode(&answer)
            .map_err(|error| OrchestratorError::Answer(error.to_string()))?;
        if response.request_id() != request.request_id() {
            return Err(OrchestratorError::Answer(
                "it answers another request".to_owned(),
            ));
        }
        match response.kind() {
            Some(ResponseKind::ToolCall) if Q::KIND != RequestKind::ToolCall => {
                let failure: ToolResponse = response
                    .message()
                    .map_err(|error| OrchestratorError::Answer(error.to_string()))?;
                Err(OrchestratorError::Refused {
                    code: failure.error_code,
                    message: failure.error_message,
                })
            }
            Some(kind) if kind.number() != Q::KIND.number() => Err(OrchestratorError::Answer(
                format!("{} in answer to {}", kind.name(), Q::KIND.name()),
            )),
            _ => Ok(response),
        }
    }

    fn uplink(&self) -> Result<&Arc<Uplink>, OrchestratorError> {
        self.uplink.as_ref().ok_or(OrchestratorError::None)
    }
}
