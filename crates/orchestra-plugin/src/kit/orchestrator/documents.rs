//! Documents that the orchestrator keeps, or another plugin does on its behalf.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{Orchestrator, OrchestratorError};
use crate::{
    generated::{
        StorageDeleteRequest, StorageDeleteResponse, StorageListRequest, StorageListResponse,
        StorageReadRequest, StorageReadResponse, StorageWriteRequest, StorageWriteResponse,
    },
    kit::storage::{self, Document, Entry, Expected, StorageError},
};

/// The documents of one kind of storage. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Documents {
    orchestrator: Orchestrator,
    kind: String,
}

impl Documents {
    pub(super) fn new(orchestrator: Orchestrator, kind: &str) -> Self {
        Self {
            orchestrator,
            kind: kind.to_owned(),
        }
    }

    /// The kind of storage.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Reads a document; `None` when there is none.
    ///
    /// # Errors
    /// See [`OrchestratorError`].
    pub async fn read(&self, path: &str) -> Result<Option<Document>, OrchestratorError> {
        let request = StorageReadRequest {
            path: path.to_owned(),
            storage_type: self.kind.clone(),
        };
        let answer: StorageReadResponse = self.orchestrator.ask(&request).await?;
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

    /// Writes a document if it is as expected, and says which version it has now.
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
            storage_type: self.kind.clone(),
        };
        let answer: StorageWriteResponse = self.orchestrator.ask(&request).await?;
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

    /// Deletes a document; false when there was none, or when an old orchestrator does not say why it
    /// was not deleted.
    ///
    /// # Errors
    /// See [`OrchestratorError`].
    pub async fn delete(&self, path: &str) -> Result<bool, OrchestratorError> {
        let request = StorageDeleteRequest {
            path: path.to_owned(),
            storage_type: self.kind.clone(),
        };
        let answer: StorageDeleteResponse = self.orchestrator.ask(&request).await?;
        match answer.problem.map(StorageError::of) {
            None => Ok(answer.success),
            Some(StorageError::NotFound) => Ok(false),
            Some(error) => Err(OrchestratorError::Storage(error)),
        }
    }

    /// Lists the documents below a directory whose names match a pattern; an empty pattern stands for
    /// `*.md`.
    ///
    /// # Errors
    /// See [`OrchestratorError`].
    pub async fn list(&self, prefix: &str, pattern: &str) -> Result<Vec<Entry>, OrchestratorError> {
        let request = StorageListRequest {
            prefix: prefix.to_owned(),
            pattern: pattern.to_owned(),
            storage_type: self.kind.clone(),
        };
        let answer: StorageListResponse = self.orchestrator.ask(&request).await?;
        match answer.problem.map(StorageError::of) {
            None => Ok(answer.entries.into_iter().map(Entry::of).collect()),
            Some(error) => Err(OrchestratorError::Storage(error)),
        }
    }
}

fn unnamed(message: String) -> StorageError {
    StorageError::Other {
        code: "storage_error".to_owned(),
        message,
    }
}
