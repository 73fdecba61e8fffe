//! The way back: what a plugin asks of its orchestrator.
//!
//! A call waits a moment for a connection that is not there yet, so that a plugin that is booted
//! before its own connection is up need not care. What an old orchestrator cannot tell apart, such
//! as a document that is empty and one that is not there, is taken as not there.

mod called;
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
    storage::{self, Document, Entry, Expected, StorageError},
    uplink::{State, Uplink},
};
use crate::{
    envelope::{Kind, PayloadOf, Request, RequestKind, Response, ResponseKind},
    generated::{
        Publish, StorageDeleteRequest, StorageDeleteResponse, StorageListRequest,
        StorageListResponse, StorageReadRequest, StorageReadResponse, StorageWriteRequest,
        StorageWriteResponse, ToolRequest, ToolResponse,
    },
    structs::{self, Numbers},
};

pub use called::Called;
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
    call_time: Duration,
}

impl Orchestrator {
    pub(super) fn new(uplink: Option<Arc<Uplink>>) -> Self {
        Self {
            uplink,
            session: String::new(),
            trace_parent: String::new(),
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

    /// Whether there is a connection, and the plugin is registered.
    pub fn is_up(&self) -> bool {
        self.uplink
            .as_ref()
            .is_some_and(|uplink| matches!(*uplink.state().borrow(), State::Up { .. }))
    }

    /// Calls a tool of anybody's. Dropping the future cancels the call.
    ///
    /// # Errors
    /// [`OrchestratorError::Refused`] when the tool failed or is not there.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<Called, OrchestratorError> {
        let uplink = self.uplink()?;
        let unsendable =
            |error: &dyn std::fmt::Display| OrchestratorError::Unsendable(error.to_string());
        let arguments = serde_json::to_value(arguments).map_err(|error| unsendable(&error))?;
        let encoded = structs::encode(arguments.to_string().as_bytes(), Numbers::Nearest)
            .map_err(|error| unsendable(&error))?;
        let mcp_params = match uplink.up(CONNECTION_TIME).await? {
            0 => Bytes::new(),
            _ => Bytes::from(json!({"name": name, "arguments": arguments}).to_string()),
        };
        let request = ToolRequest {
            tool_name: name.to_owned(),
            arguments: Some(encoded),
            caller_plugin: uplink.id().as_str().to_owned(),
            session_id: self.session.clone(),
            trace_parent: self.trace_parent.clone(),
            mcp_params,
            ..ToolRequest::default()
        };
        Called::of(self.ask::<_, ToolResponse>(&request).await?)
    }

    /// Reads a document of the default storage; `None` when there is none.
    ///
    /// # Errors
    /// See [`OrchestratorError`].
    pub async fn read(&self, path: &str) -> Result<Option<Document>, OrchestratorError> {
        let request = StorageReadRequest {
            path: path.to_owned(),
            storage_type: String::new(),
        };
        let answer: StorageReadResponse = self.ask(&request).await?;
        match answer.problem.map(StorageError::of) {
            Some(StorageError::NotFound) => return Ok(None),
            Some(error) => return Err(OrchestratorError::Storage(error)),
            None => {}
        }
        if answer.content.is_empty() && answer.metadata.is_none() && answer.version == 0 {
            return Ok(None);
        }
        let metadata = storage::metadata_object(answer.metadata.as_ref());
        Ok(Some(Document {
            content: answer.content,
            metadata: metadata.map_err(OrchestratorError::Storage)?,
            version: answer.version,
        }))
    }

    /// Writes a document of the default storage if it is as expected, and says which version it
    /// has now.
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
        let metadata = storage::metadata_struct(metadata).map_err(OrchestratorError::Storage)?;
        let request = StorageWriteRequest {
            path: path.to_owned(),
            content: content.into(),
            metadata: Some(metadata),
            expected_version: expected.number(),
            storage_type: String::new(),
        };
        let answer: StorageWriteResponse = self.ask(&request).await?;
        match answer.problem.map(StorageError::of) {
            Some(error) => Err(OrchestratorError::Storage(error)),
            None if answer.success => Ok(answer.new_version),
            // What the first storages say, which have no codes.
            None if answer.error.contains("version conflict")
                || answer.error.contains("file already exists") =>
            {
                Err(OrchestratorError::Storage(StorageError::Conflict(
                    answer.error,
                )))
            }
            None => Err(OrchestratorError::Storage(unnamed(answer.error))),
        }
    }

    /// Deletes a document of the default storage; false when there was none, or when an old
    /// orchestrator does not say why it was not deleted.
    ///
    /// # Errors
    /// See [`OrchestratorError`].
    pub async fn delete(&self, path: &str) -> Result<bool, OrchestratorError> {
        let request = StorageDeleteRequest {
            path: path.to_owned(),
            storage_type: String::new(),
        };
        let answer: StorageDeleteResponse = self.ask(&request).await?;
        match answer.problem.map(StorageError::of) {
            None => Ok(answer.success),
            Some(StorageError::NotFound) => Ok(false),
            Some(error) => Err(OrchestratorError::Storage(error)),
        }
    }

    /// Lists the documents below a directory of the default storage whose names match a pattern;
    /// an empty pattern stands for `*.md`.
    ///
    /// # Errors
    /// See [`OrchestratorError`].
    pub async fn list(&self, prefix: &str, pattern: &str) -> Result<Vec<Entry>, OrchestratorError> {
        let request = StorageListRequest {
            prefix: prefix.to_owned(),
            pattern: pattern.to_owned(),
            storage_type: String::new(),
        };
        let answer: StorageListResponse = self.ask(&request).await?;
        match answer.problem.map(StorageError::of) {
            None => Ok(answer.entries.into_iter().map(Entry::of).collect()),
            Some(error) => Err(OrchestratorError::Storage(error)),
        }
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
        let payload =
            structs::encode(&json, Numbers::Nearest).map_err(|error| unsendable(&error))?;
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
    /// and regained. Topics that are known from the start belong into
    /// [`Plugin::on_event`](super::Plugin::on_event).
    ///
    /// # Errors
    /// [`OrchestratorError::Unsupported`] of an old orchestrator, which does not survive it.
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
        let topics = uplink.topics();
        let subscription = topics.listen(id.clone(), topic.to_owned(), filters);
        let mut active = uplink.active();
        match timeout(
            self.call_time,
            active.wait_for(|active| active.contains(&id)),
        )
        .await
        {
            Ok(Ok(_)) => Ok(subscription),
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

fn unnamed(message: String) -> StorageError {
    StorageError::Other {
        code: "storage_error".to_owned(),
        message,
    }
}
